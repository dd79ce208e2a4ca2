//! A library with the functions of NVIDIA's driver and of NCCL that `device-cuda` calls, over host
//! memory, for the crate's tests.
//!
//! It runs the few instructions that the tests' kernels consist of, in the least favorable order of tasks
//! that streams and waits permit. The environment variable `FAKE_CUDA` configures it and injects failures.
//! Its value consists of words such as `devices=2 capability=61 version=11040 memory=4096 init=100`;
//! `uploads=4` and `downloads=4` reject the fifth copy from or to the host. The library writes every
//! creation, release and launch to the file that `FAKE_CUDA_LOG` names.
#![allow(non_snake_case, reason = "the names are the driver's")]
#![allow(unsafe_code, reason = "takes pointers as the driver does")]

use std::{
    alloc::Layout,
    cell::Cell,
    ffi::{CStr, c_char, c_int, c_uint, c_void},
    slice,
    sync::atomic::{AtomicU64, Ordering},
};

use crate::{
    ptx::{Complaint, Program},
    world::{
        Function, INVALID_HANDLE, INVALID_VALUE, Module, Stream, Task, log, number, patiently, setting, world,
    },
};

mod graph;
mod maps;
mod nccl; // exchanges between devices
mod ptx;
mod world;

/// The driver's return code: 0 for success.
type Answer = c_uint;

/// A handle of any kind, which the caller treats as a pointer.
type Handle = u64;

/// The magic number at the beginning of machine code.
const CUBIN: &[u8] = b"FAKECUBIN\n";

/// Maximum size in bytes of shared memory that a launch may use without a function attribute.
const SHARED: u32 = 48 << 10;
const MAX_SHARED: u32 = 227 << 10;
const REGISTERS: u64 = 65536;

/// The flag of events that keep no times.
const DISABLE_TIMING: c_uint = 2;

const NOT_READY: u32 = 600;

thread_local! {
    static CURRENT: Cell<u64> = const { Cell::new(0) };
}

fn answer(result: Result<(), u32>) -> Answer {
    result.err().unwrap_or(0)
}

/// Writes a result through the caller's pointer.
fn put<T>(place: *mut T, value: T) -> Result<(), u32> {
    if place.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: the caller passes a valid place for a value of this type, as the driver requires.
    unsafe { place.write(value) };
    Ok(())
}

/// Reads a value through the caller's pointer.
fn get<T: Copy>(place: *const T) -> T {
    // SAFETY: the caller passes a value of this type, as the driver requires.
    unsafe { *place }
}

fn text<'a>(text: *const c_char) -> &'a CStr {
    // SAFETY: the caller passes a text that ends in a zero, as the driver requires.
    unsafe { CStr::from_ptr(text) }
}

/// Host memory of a task.
pub(crate) fn host_bytes<'a>(address: usize, bytes: usize) -> &'a mut [u8] {
    // SAFETY: the caller keeps the memory exclusive to the task until the task is done, as the driver
    // requires. Only one task runs at a time.
    unsafe { slice::from_raw_parts_mut(std::ptr::with_exposed_provenance_mut(address), bytes) }
}

/// Counts a call. If the setting `name` is n, the call with number n + 1 is rejected.
fn rejected_once(name: &str, count: &AtomicU64) -> Answer {
    let before = count.fetch_add(1, Ordering::Relaxed);
    if setting(name).is_some() && before == number(name, 0) { 2 } else { 0 }
}

/// The device of this thread's context.
fn current() -> Result<u64, u32> {
    let device = CURRENT.get().checked_sub(1).ok_or(201u32)?;
    world().healthy(device)?;
    Ok(device)
}

#[unsafe(no_mangle)]
extern "C" fn cuInit(_flags: c_uint) -> Answer {
    number("init", 0) as Answer
}

#[unsafe(no_mangle)]
extern "C" fn cuDriverGetVersion(version: *mut c_int) -> Answer {
    answer(put(version, number("version", 12040) as c_int))
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceGetCount(count: *mut c_int) -> Answer {
    answer(put(count, number("devices", 1) as c_int))
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceGet(device: *mut c_int, ordinal: c_int) -> Answer {
    answer(put(device, ordinal))
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceGetName(name: *mut c_char, len: c_int, device: c_int) -> Answer {
    let text = format!("Fake {device}");
    let end = text.len().min(len as usize - 1);
    for (at, byte) in text.bytes().take(end).chain([0]).enumerate() {
        // SAFETY: the caller has room for `len` bytes.
        unsafe { name.add(at).write(byte as c_char) };
    }
    0
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceTotalMem_v2(bytes: *mut usize, _device: c_int) -> Answer {
    answer(put(bytes, number("memory", 1 << 30) as usize))
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceGetAttribute(value: *mut c_int, attribute: c_int, _device: c_int) -> Answer {
    let capability = number("capability", 90) as c_int;
    let found = match attribute {
        1 => 1024,
        5 => c_int::MAX,
        8 => SHARED as c_int,
        12 => REGISTERS as c_int,
        16 => 132,
        38 => 50 << 20,
        40 => 3,
        75 => capability / 10,
        76 => capability % 10,
        97 => MAX_SHARED as c_int,
        115 => number("pools", 1) as c_int,
        _ => return INVALID_VALUE,
    };
    answer(put(value, found))
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceCanAccessPeer(can: *mut c_int, device: c_int, peer: c_int) -> Answer {
    answer(put(can, c_int::from(device != peer && number("peers", 1) != 0)))
}

#[unsafe(no_mangle)]
extern "C" fn cuDevicePrimaryCtxRetain(context: *mut Handle, device: c_int) -> Answer {
    let device = device as u64;
    let mut world = world();
    let found = world.contexts.entry(device).or_default();
    if let Some(error) = found.error {
        return error;
    }
    found.owners += 1;
    log("context");
    answer(put(context, device + 1))
}

#[unsafe(no_mangle)]
extern "C" fn cuDevicePrimaryCtxRelease_v2(device: c_int) -> Answer {
    let device = device as u64;
    let mut world = world();
    let Some(context) = world.contexts.get_mut(&device) else { return 201 };
    context.owners -= 1;
    if context.owners == 0 {
        world.forget(device);
    }
    0
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxSetCurrent(context: Handle) -> Answer {
    CURRENT.set(context);
    0
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxEnablePeerAccess(peer: Handle, _flags: c_uint) -> Answer {
    let enable = || {
        let device = current()?;
        let new = world().contexts.entry(device).or_default().peers.insert(peer - 1);
        if new { Ok(()) } else { Err(704) }
    };
    answer(enable())
}

#[unsafe(no_mangle)]
extern "C" fn cuMemPoolCreate(pool: *mut Handle, props: *const c_int) -> Answer {
    // The first fields are the type of allocation, the kind of handle, the kind of location, and the device.
    let [kind, handle, place, device] = get(props.cast::<[c_int; 4]>());
    if (kind, handle, place) != (1, 0, 1) {
        return INVALID_VALUE;
    }
    let mut world = world();
    let made = world.handle();
    world.pools.insert(made, (device as u64, [device as u64].into()));
    answer(put(pool, made))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemPoolDestroy(pool: Handle) -> Answer {
    world().pools.remove(&pool).map_or(INVALID_HANDLE, |_| 0)
}

#[unsafe(no_mangle)]
extern "C" fn cuMemPoolTrimTo(pool: Handle, _keep: usize) -> Answer {
    if world().pools.contains_key(&pool) { 0 } else { INVALID_HANDLE }
}

#[unsafe(no_mangle)]
extern "C" fn cuMemPoolSetAttribute(pool: Handle, attribute: c_uint, value: *mut u64) -> Answer {
    log(&format!("pool attribute {attribute} {}", get(value)));
    if world().pools.contains_key(&pool) { 0 } else { INVALID_HANDLE }
}

#[unsafe(no_mangle)]
extern "C" fn cuMemPoolSetAccess(pool: Handle, map: *const c_int, count: usize) -> Answer {
    // The fields are the kind of location, the device, and the access flags.
    let [place, device, access] = get(map.cast::<[c_int; 3]>());
    let mut world = world();
    match world.pools.get_mut(&pool) {
        Some((_, reached)) if (place, access, count) == (1, 3, 1) => {
            reached.insert(device as u64);
            0
        }
        _ => INVALID_VALUE,
    }
}

#[unsafe(no_mangle)]
extern "C" fn cuMemAllocFromPoolAsync(
    address: *mut u64,
    bytes: usize,
    pool: Handle,
    stream: Handle,
) -> Answer {
    let allocate = || {
        let device = current()?;
        let mut world = world();
        if !world.streams.contains_key(&stream) || !world.pools.contains_key(&pool) {
            return Err(INVALID_HANDLE);
        }
        let made = world.allocate(device, Some(pool), bytes)?;
        world.push(stream, Task::Allocate(made))?;
        put(address, made)
    };
    answer(allocate())
}

#[unsafe(no_mangle)]
extern "C" fn cuMemFreeAsync(address: u64, stream: Handle) -> Answer {
    answer(current().and_then(|_| world().push(stream, Task::Free(address))))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemAlloc_v2(address: *mut u64, bytes: usize) -> Answer {
    let allocate = || {
        let device = current()?;
        let made = world().allocate(device, None, bytes)?;
        put(address, made)
    };
    answer(allocate())
}

#[unsafe(no_mangle)]
extern "C" fn cuMemFree_v2(address: u64) -> Answer {
    answer(current().and_then(|_| world().free(address)))
}

/// Bytes before the memory of a host allocation. They begin with the allocation's size.
const HEAD: usize = 4096;

#[unsafe(no_mangle)]
extern "C" fn cuMemHostAlloc(memory: *mut *mut c_void, bytes: usize, _flags: c_uint) -> Answer {
    let allocate = || {
        current()?;
        let layout = Layout::from_size_align(HEAD + bytes, HEAD).map_err(|_| INVALID_VALUE)?;
        // SAFETY: the size is not zero.
        let begin = unsafe { std::alloc::alloc(layout) };
        if begin.is_null() {
            return Err(2);
        }
        log(&format!("pin {bytes}"));
        put(begin.cast::<usize>(), bytes)?;
        // SAFETY: the head lies within the allocation.
        put(memory, unsafe { begin.add(HEAD) }.cast())
    };
    answer(allocate())
}

#[unsafe(no_mangle)]
extern "C" fn cuMemFreeHost(memory: *mut c_void) -> Answer {
    // SAFETY: made by `cuMemHostAlloc`, so the head is in front of it.
    let begin = unsafe { memory.cast::<u8>().sub(HEAD) };
    let bytes = get(begin.cast::<usize>());
    log(&format!("unpin {bytes}"));
    let Ok(layout) = Layout::from_size_align(HEAD + bytes, HEAD) else { return INVALID_VALUE };
    // SAFETY: allocated with this layout.
    unsafe { std::alloc::dealloc(begin, layout) };
    0
}

/// Submits a task to a stream of the current context.
fn push(stream: Handle, task: Task) -> Answer {
    answer(current().and_then(|_| world().push(stream, task)))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemsetD8Async(to: u64, value: u8, bytes: usize, stream: Handle) -> Answer {
    if value != 0 { INVALID_VALUE } else { push(stream, Task::Zero { to, bytes }) }
}

#[unsafe(no_mangle)]
extern "C" fn cuMemcpyHtoDAsync_v2(to: u64, from: *const c_void, bytes: usize, stream: Handle) -> Answer {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    match rejected_once("uploads", &COUNT) {
        0 => push(stream, Task::Upload { to, from: from.expose_provenance(), bytes }),
        code => code,
    }
}

#[unsafe(no_mangle)]
extern "C" fn cuMemcpyDtoHAsync_v2(to: *mut c_void, from: u64, bytes: usize, stream: Handle) -> Answer {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    match rejected_once("downloads", &COUNT) {
        0 => push(stream, Task::Download { to: to.expose_provenance(), from, bytes }),
        code => code,
    }
}

#[unsafe(no_mangle)]
extern "C" fn cuMemcpyDtoDAsync_v2(to: u64, from: u64, bytes: usize, stream: Handle) -> Answer {
    push(stream, Task::Copy { to, from, bytes, peers: false })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemcpyPeerAsync(
    to: u64,
    _to_context: Handle,
    from: u64,
    _from_context: Handle,
    bytes: usize,
    stream: Handle,
) -> Answer {
    push(stream, Task::Copy { to, from, bytes, peers: true })
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamCreate(stream: *mut Handle, flags: c_uint) -> Answer {
    let create = || {
        let device = current()?;
        let mut world = world();
        let made = world.handle();
        world.streams.insert(made, Stream { device, ..Stream::default() });
        log(&format!("stream {flags}"));
        put(stream, made)
    };
    answer(create())
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamDestroy_v2(stream: Handle) -> Answer {
    let drained = patiently(|world| world.drain(stream));
    world().streams.remove(&stream);
    answer(drained)
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamSynchronize(stream: Handle) -> Answer {
    answer(current().and_then(|_| patiently(|world| world.drain(stream))))
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamWaitEvent(stream: Handle, event: Handle, _flags: c_uint) -> Answer {
    let wait = || {
        current()?;
        let mut world = world();
        let found = *world.events.get(&event).ok_or(INVALID_HANDLE)?;
        world.healthy(found.device)?;
        world.push(stream, Task::Wait(event, found.recorded))
    };
    answer(wait())
}

#[unsafe(no_mangle)]
extern "C" fn cuEventCreate(event: *mut Handle, flags: c_uint) -> Answer {
    let create = || {
        let device = current()?;
        let mut world = world();
        let made = world.handle();
        let is_timed = flags & DISABLE_TIMING == 0;
        world.events.insert(made, world::Event { device, is_timed, ..world::Event::default() });
        log(&format!("event {flags}"));
        put(event, made)
    };
    answer(create())
}

#[unsafe(no_mangle)]
extern "C" fn cuEventDestroy_v2(event: Handle) -> Answer {
    world().events.remove(&event).map_or(INVALID_HANDLE, |_| 0)
}

#[unsafe(no_mangle)]
extern "C" fn cuEventRecord(event: Handle, stream: Handle) -> Answer {
    let record = || {
        current()?;
        let mut world = world();
        let found = world.events.get_mut(&event).ok_or(INVALID_HANDLE)?;
        found.recorded += 1;
        let ticket = found.recorded;
        world.push(stream, Task::Record(event, ticket))
    };
    answer(record())
}

#[unsafe(no_mangle)]
extern "C" fn cuEventElapsedTime(milliseconds: *mut f32, begin: Handle, end: Handle) -> Answer {
    let elapsed = || {
        current()?;
        let world = world();
        let reached = |event: Handle| {
            let event = world.events.get(&event).filter(|event| event.is_timed).ok_or(INVALID_HANDLE)?;
            if event.recorded == 0 {
                return Err(INVALID_HANDLE);
            }
            if event.reached < event.recorded { Err(NOT_READY) } else { Ok(event.time) }
        };
        put(milliseconds, (reached(end)? as f32 - reached(begin)? as f32) / 1e3)
    };
    answer(elapsed())
}

/// A query makes a little progress, as a device makes over time.
#[unsafe(no_mangle)]
extern "C" fn cuEventQuery(event: Handle) -> Answer {
    let query = || {
        current()?;
        let mut world = world();
        world.step();
        let found = *world.events.get(&event).ok_or(INVALID_HANDLE)?;
        world.healthy(found.device)?;
        if found.reached >= found.recorded { Ok(()) } else { Err(NOT_READY) }
    };
    answer(query())
}

#[unsafe(no_mangle)]
extern "C" fn cuEventSynchronize(event: Handle) -> Answer {
    answer(current().and_then(|_| patiently(|world| world.reach(event))))
}

#[unsafe(no_mangle)]
extern "C" fn cuModuleLoadDataEx(
    module: *mut Handle,
    image: *const c_char,
    count: c_uint,
    options: *const c_uint,
    values: *const *mut c_void,
) -> Answer {
    let load = || {
        let device = current()?;
        let bytes = text(image).to_bytes();
        let source = bytes.strip_prefix(CUBIN).unwrap_or(bytes);
        if bytes.len() > source.len() && setting("cubins").as_deref() == Some("rejected") {
            return Err(209);
        }
        log(if bytes.len() > source.len() { "module cubin" } else { "module ptx" });
        let program = Program::assemble(&String::from_utf8_lossy(source)).map_err(|complaint| {
            complain(&complaint, count, options, values);
            218u32
        })?;
        let mut world = world();
        let made = world.handle();
        world.modules.insert(made, Module { device, entries: program.entries });
        put(module, made)
    };
    answer(load())
}

/// Writes an assembler's log into the buffer of the options.
fn complain(Complaint(said): &Complaint, count: c_uint, options: *const c_uint, values: *const *mut c_void) {
    let option = |wanted: c_uint| {
        // SAFETY: the caller passes this many options, and a value for each.
        let found = (0..count as usize).find(|at| unsafe { *options.add(*at) } == wanted)?;
        // SAFETY: as above.
        Some(unsafe { *values.add(found) })
    };
    if let (Some(buffer), Some(size)) = (option(5), option(6)) {
        let bytes = host_bytes(buffer.expose_provenance(), size.addr());
        let end = said.len().min(bytes.len() - 1);
        bytes[..end].copy_from_slice(&said.as_bytes()[..end]);
        bytes[end] = 0;
    }
}

#[unsafe(no_mangle)]
extern "C" fn cuModuleUnload(module: Handle) -> Answer {
    let mut world = world();
    world.functions.retain(|_, function| function.module != module);
    log("unload");
    world.modules.remove(&module).map_or(INVALID_HANDLE, |_| 0)
}

#[unsafe(no_mangle)]
extern "C" fn cuModuleGetFunction(function: *mut Handle, module: Handle, name: *const c_char) -> Answer {
    let find = || {
        current()?;
        let mut world = world();
        let found = world.modules.get(&module).ok_or(INVALID_HANDLE)?;
        let name = text(name).to_string_lossy();
        let entry = found.entries.iter().find(|entry| entry.name == name).ok_or(500u32)?.clone();
        let (device, max_dynamic) = (found.device, SHARED - entry.shared.min(SHARED));
        let made = world.handle();
        world.functions.insert(made, Function { device, module, entry, max_dynamic });
        put(function, made)
    };
    answer(find())
}

#[unsafe(no_mangle)]
extern "C" fn cuFuncGetAttribute(value: *mut c_int, attribute: c_uint, function: Handle) -> Answer {
    let world = world();
    let Some(function) = world.functions.get(&function) else { return INVALID_HANDLE };
    let registers = number("registers", 32);
    let found = match attribute {
        0 => (REGISTERS / registers.next_multiple_of(8) / 32 * 32).min(1024),
        1 => function.entry.shared.into(),
        3 => number("local", 0),
        4 => registers,
        // Older GPUs have no clusters.
        11 if number("capability", 90) >= 90 => function.entry.cluster.into(),
        _ => return INVALID_VALUE,
    };
    answer(put(value, found as c_int))
}

#[unsafe(no_mangle)]
extern "C" fn cuFuncSetAttribute(function: Handle, attribute: c_uint, value: c_int) -> Answer {
    let mut world = world();
    let Some(function) = world.functions.get_mut(&function) else { return INVALID_HANDLE };
    if attribute != 8 || function.entry.shared + value as u32 > MAX_SHARED {
        return INVALID_VALUE;
    }
    log(&format!("allow {} {value}", function.entry.name));
    function.max_dynamic = value as u32;
    0
}

/// The driver's names of its error codes.
const NAMES: [(u32, &CStr, &CStr); 16] = [
    (1, c"CUDA_ERROR_INVALID_VALUE", c"invalid argument"),
    (2, c"CUDA_ERROR_OUT_OF_MEMORY", c"out of memory"),
    (100, c"CUDA_ERROR_NO_DEVICE", c"no CUDA-capable device is detected"),
    (201, c"CUDA_ERROR_INVALID_CONTEXT", c"invalid device context"),
    (209, c"CUDA_ERROR_NO_BINARY_FOR_GPU", c"no kernel image is available for execution on the device"),
    (218, c"CUDA_ERROR_INVALID_PTX", c"a PTX JIT compilation failed"),
    (400, c"CUDA_ERROR_INVALID_HANDLE", c"invalid resource handle"),
    (500, c"CUDA_ERROR_NOT_FOUND", c"named symbol not found"),
    (NOT_READY, c"CUDA_ERROR_NOT_READY", c"device not ready"),
    (700, c"CUDA_ERROR_ILLEGAL_ADDRESS", c"an illegal memory access was encountered"),
    (701, c"CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", c"too many resources requested for launch"),
    (704, c"CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED", c"peer access is already enabled"),
    (719, c"CUDA_ERROR_LAUNCH_FAILED", c"unspecified launch failure"),
    (801, c"CUDA_ERROR_NOT_SUPPORTED", c"operation not supported"),
    (
        803,
        c"CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
        c"system has unsupported display driver / cuda driver combination",
    ),
    (912, c"CUDA_ERROR_INVALID_CLUSTER_SIZE", c"invalid cluster size"),
];

fn named(
    code: c_uint,
    place: *mut *const c_char,
    choose: impl Fn(&(u32, &'static CStr, &'static CStr)) -> &'static CStr,
) -> Answer {
    let found = NAMES.iter().find(|(number, ..)| *number == code);
    found.map_or(INVALID_VALUE, |found| answer(put(place, choose(found).as_ptr())))
}

#[unsafe(no_mangle)]
extern "C" fn cuGetErrorName(code: c_uint, place: *mut *const c_char) -> Answer {
    named(code, place, |(_, name, _)| name)
}

#[unsafe(no_mangle)]
extern "C" fn cuGetErrorString(code: c_uint, place: *mut *const c_char) -> Answer {
    named(code, place, |(_, _, text)| text)
}
