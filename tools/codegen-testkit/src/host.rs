//! Calls the kernels of a host module on guarded memory.
//!
//! This is the one module with unsafe code: it calls compiled kernels, whose correctness cannot be proved
//! here. Memory is therefore laid out so that stray accesses are detected: each buffer has guard bytes before
//! and after it, the buffers of nodes that a kernel only reads are compared with their earlier contents, and
//! scratch memory, temporaries and memory that the kernel overwrites are filled with garbage before.
#![allow(unsafe_code, reason = "calling compiled code is what this module is for")]

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use codegen_core::{
    Access, Artifact, BASE_ALIGNMENT, Caps, KernelAbi, KernelCall, Param, ScheduledRoutine, Slot,
    host::{HostModule, HostPtr},
};
use filetests::RunCase;
use lowered_ir::ir::Symbol;

use crate::{float_env, report::Outcome};

/// The fill of unwritten memory.
const GARBAGE: u8 = 0xa5;
/// Guard bytes that nothing has written to.
static INTACT: [u8; 4096] = [GARBAGE; 4096];
/// The least number of guard bytes before and after each buffer.
const GUARD: usize = 256;
/// The least number of guard bytes before and after scratch memory: a kernel that uses more scratch memory
/// than it asks for has mostly asked for none.
const SCRATCH_GUARD: usize = 1 << 14;

/// Runs every call of a scheduled routine on a case's inputs and returns the bytes of the nodes. Before each
/// call, memory that it claims to overwrite is filled with `soil`: if a call does not overwrite it, runs with
/// different soil differ.
pub(crate) fn run(
    scheduled: &ScheduledRoutine,
    artifact: &Artifact,
    caps: &Caps,
    case: &RunCase,
    soil: u8,
) -> Result<Vec<Vec<u8>>, Outcome> {
    run_in(scheduled, artifact, caps, case, soil, Order::InTurn(Cuts::Uneven))
}

/// The order of the parts of a split kernel.
#[derive(Clone, Copy)]
pub(crate) enum Order<'a> {
    /// One after the other, out of order.
    InTurn(Cuts),
    /// One after the other, each at the same time as the same part of another launch.
    Beside(&'a CallBarrier),
    /// Each on a thread, all at the same time.
    AtOnce,
}

/// The parts into which kernels are split, where their launches may be.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Cuts {
    /// The whole launch.
    Whole,
    /// Single iterations, the last one first.
    Backwards,
    /// Three uneven parts, in an unusual order.
    Uneven,
}

/// [`run`] with the parts of split kernels in this order.
pub(crate) fn run_in(
    scheduled: &ScheduledRoutine,
    artifact: &Artifact,
    caps: &Caps,
    case: &RunCase,
    soil: u8,
    order: Order<'_>,
) -> Result<Vec<Vec<u8>>, Outcome> {
    let Some(module) = artifact.host_module() else {
        return Err(Outcome::Skipped("compiled; the code does not run in this process".into()));
    };
    let mut memory = Memory::new(scheduled, caps, case, soil);
    for (position, call) in scheduled.calls().iter().enumerate() {
        let abi = artifact.kernels().get(call.kernel).ok_or_else(|| wrong(position, "has no kernel"))?;
        memory.call(&module, abi, call, order).map_err(|message| wrong(position, &message))?;
    }
    Ok(memory.nodes.iter().map(|node| node.bytes().to_vec()).collect())
}

fn wrong(call: usize, message: &str) -> Outcome {
    Outcome::Failed(format!("call {call} {message}"))
}

/// A buffer with guard bytes before and after it.
pub struct GuardedBuffer {
    memory: Vec<u8>,
    start: usize,
    len: usize,
}

impl GuardedBuffer {
    fn new(bytes: &[u8], alignment: usize) -> GuardedBuffer {
        GuardedBuffer::guarded(bytes, alignment, GUARD, 0)
    }

    /// A buffer that is aligned to elements of this size, and to no more.
    pub fn of_elements(bytes: &[u8], size: usize) -> GuardedBuffer {
        GuardedBuffer::guarded(bytes, BASE_ALIGNMENT, GUARD, size)
    }

    /// Scratch memory for a kernel.
    pub fn scratch(len: usize, alignment: usize) -> GuardedBuffer {
        GuardedBuffer::guarded(&vec![GARBAGE; len], alignment, SCRATCH_GUARD, 0)
    }

    /// A buffer that begins `shift` bytes behind an aligned address.
    fn guarded(bytes: &[u8], alignment: usize, guard: usize, shift: usize) -> GuardedBuffer {
        let alignment = alignment.max(BASE_ALIGNMENT);
        let mut memory = vec![GARBAGE; bytes.len() + 2 * guard + alignment + shift];
        let start = guard + shift + (memory.as_ptr() as usize + guard).wrapping_neg() % alignment;
        memory[start..start + bytes.len()].copy_from_slice(bytes);
        GuardedBuffer { memory, start, len: bytes.len() }
    }

    fn garbage(len: usize, alignment: usize) -> GuardedBuffer {
        GuardedBuffer::new(&vec![GARBAGE; len], alignment)
    }

    /// The bytes between the guards.
    pub fn bytes(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.len]
    }

    /// The memory as an argument of a kernel.
    pub fn arg(&mut self) -> HostPtr {
        let base = self.memory.as_mut_ptr().wrapping_add(self.start);
        HostPtr { base, bytes: self.len, access: Access::ReadWrite }
    }

    fn ptr(&mut self, offset: usize, bytes: usize, access: Access) -> Result<HostPtr, String> {
        if offset.checked_add(bytes).is_none_or(|end| end > self.len) {
            return Err(format!("takes {bytes} bytes at {offset} of a buffer of {}", self.len));
        }
        Ok(HostPtr { base: self.arg().base.wrapping_add(offset), bytes, access })
    }

    /// Whether nothing has written to the guards.
    pub fn is_guarded(&self) -> bool {
        let (before, rest) = self.memory.split_at(self.start);
        // Whole slices are compared: guards are most of the memory, also in builds without optimization.
        let intact = |guard: &[u8]| guard.chunks(INTACT.len()).all(|chunk| chunk == &INTACT[..chunk.len()]);
        intact(before) && intact(&rest[self.len..])
    }
}

/// All memory of a run.
struct Memory {
    nodes: Vec<GuardedBuffer>,
    temps: GuardedBuffer,
    merge: GuardedBuffer,
    alignment: usize,
    /// The offset of each temporary in `temps`.
    offsets: Vec<usize>,
    /// The values of the routine's symbols.
    symbols: Vec<i64>,
    /// The byte that fills memory before it is overwritten.
    soil: u8,
}

impl Memory {
    fn new(scheduled: &ScheduledRoutine, caps: &Caps, case: &RunCase, soil: u8) -> Memory {
        let alignment = caps.alignment;
        Memory {
            nodes: case.inputs.iter().map(|bytes| GuardedBuffer::new(bytes, alignment)).collect(),
            temps: GuardedBuffer::garbage(scheduled.temp_bytes(), alignment),
            merge: GuardedBuffer::new(case.merge.as_deref().unwrap_or(&[]), alignment),
            alignment,
            offsets: scheduled.temps().iter().map(|temp| temp.offset).collect(),
            symbols: Symbol::values(scheduled.symbols(), &case.bindings).to_vec(),
            soil,
        }
    }

    fn call(
        &mut self,
        module: &HostModule,
        abi: &KernelAbi,
        call: &KernelCall,
        order: Order<'_>,
    ) -> Result<(), String> {
        let args = self.args(abi, call)?;
        let bindings: Vec<i64> = call.bindings.iter().map(|binding| binding.value(&self.symbols)).collect();
        let expected = abi.params.iter().filter(|param| matches!(param, Param::StaticIndex { .. })).count();
        if bindings.len() != expected {
            return Err(format!("has {expected} static indices, and {} bindings", bindings.len()));
        }
        let before: Vec<Vec<u8>> = self.buffers().map(|buffer| buffer.bytes().to_vec()).collect();
        let cuts = match order {
            _ if !module.is_splittable(call.kernel) => Cuts::Whole,
            Order::InTurn(cuts) => cuts,
            Order::Beside(_) | Order::AtOnce => Cuts::Uneven,
        };
        let parts = parts(abi.launch.extent_for(&bindings), cuts);
        let kernel = KernelCallArgs {
            module,
            kernel: call.kernel,
            args: &args,
            bindings: &bindings,
            scratch_bytes: abi.scratch_bytes,
            alignment: self.alignment,
        };
        match order {
            Order::InTurn(_) => parts.into_iter().try_for_each(|part| kernel.run(part, &|| {}))?,
            Order::Beside(barrier) => {
                parts.into_iter().try_for_each(|part| kernel.run(part, &|| barrier.wait()))?;
            }
            Order::AtOnce => kernel.run_at_once(&parts)?,
        }
        self.check_untouched(&args, &before)
    }

    fn buffers(&self) -> impl Iterator<Item = &GuardedBuffer> {
        self.nodes.iter().chain([&self.temps, &self.merge])
    }

    /// The memory parameters of a call, in order.
    fn args(&mut self, abi: &KernelAbi, call: &KernelCall) -> Result<Vec<HostPtr>, String> {
        let memory = abi.params.iter().filter_map(|param| match *param {
            Param::Node { access, bytes } => Some((access, bytes)),
            Param::MergeBuffer { bytes } => Some((Access::Read, bytes)),
            Param::StaticIndex { .. } => None,
        });
        let memory: Vec<(Access, usize)> = memory.collect();
        if memory.len() != call.args.len() {
            return Err(format!("has {} memory parameters, and {} arguments", memory.len(), call.args.len()));
        }
        let args =
            memory.into_iter().zip(&call.args).map(|((access, bytes), slot)| self.arg(*slot, access, bytes));
        let args = args.collect::<Result<Vec<_>, _>>()?;
        if disjoint(&args) {
            Ok(args)
        } else {
            Err("writes memory that another argument holds as well".into())
        }
    }

    fn arg(&mut self, slot: Slot, access: Access, bytes: usize) -> Result<HostPtr, String> {
        let (buffer, offset) = match slot {
            Slot::Node(node) => {
                (self.nodes.get_mut(node.index()).ok_or("takes a node that the routine lacks")?, 0)
            }
            Slot::Temp(temp) => {
                let offset = self.offsets.get(temp.0 as usize);
                (&mut self.temps, *offset.ok_or("takes a temporary that was not planned")?)
            }
            Slot::Merge(_) => (&mut self.merge, 0),
        };
        let ptr = buffer.ptr(offset, bytes, access)?;
        if access == Access::Write {
            buffer.memory[buffer.start + offset..][..bytes].fill(self.soil);
        }
        Ok(ptr)
    }

    /// Whether the guards, and all memory that the call does not write, are unchanged.
    fn check_untouched(&self, args: &[HostPtr], before: &[Vec<u8>]) -> Result<(), String> {
        let written = |base: usize, at: usize| {
            let mut written = args.iter().filter(|arg| arg.access != Access::Read);
            written.any(|arg| (arg.base as usize..arg.base as usize + arg.bytes).contains(&(base + at)))
        };
        for (buffer, before) in self.buffers().zip(before) {
            if !buffer.is_guarded() {
                return Err("writes outside its arguments".into());
            }
            if buffer.bytes() == before {
                continue;
            }
            let base = buffer.bytes().as_ptr() as usize;
            let mut changed =
                buffer.bytes().iter().zip(before).enumerate().filter(|(_, (now, then))| now != then);
            if changed.any(|(at, _)| !written(base, at)) {
                return Err("changes memory that it should only read".into());
            }
        }
        Ok(())
    }
}

/// A call of a kernel, without its range.
struct KernelCallArgs<'a> {
    module: &'a HostModule,
    kernel: usize,
    args: &'a [HostPtr],
    bindings: &'a [i64],
    scratch_bytes: usize,
    alignment: usize,
}

// SAFETY: the addresses in `args` are passed on to kernels and not dereferenced here; parts of one kernel
// call may run on several threads at once, by `HostModule::native`.
unsafe impl Sync for KernelCallArgs<'_> {}

impl KernelCallArgs<'_> {
    /// Runs a part of the kernel with scratch memory of its own. `before` is called immediately before the
    /// kernel.
    fn run(&self, (begin, end): (u64, u64), before: &dyn Fn()) -> Result<(), String> {
        let mut scratch = GuardedBuffer::scratch(self.scratch_bytes, self.alignment);
        let base = scratch.arg().base;
        let (result, change) = float_env::guarded(|| {
            before();
            // SAFETY: `Memory::args` checked that the pointers are live, aligned, of the right length and
            // disjoint from written memory, and `Memory::call` counted the bindings; scratch memory belongs
            // to this call; `parts` stays within the extent; other threads run other parts only. Whether the
            // code keeps its side of the contract is the subject of the test.
            unsafe { self.module.call(self.kernel, self.args, self.bindings, base, begin, end) }
        });
        result?;
        match change {
            Some(change) => Err(change),
            None if !scratch.is_guarded() => Err("writes outside its scratch memory".into()),
            None => Ok(()),
        }
    }

    /// Runs the parts at the same time, each on a thread.
    fn run_at_once(&self, parts: &[(u64, u64)]) -> Result<(), String> {
        let start = StartLine::new(parts.len());
        std::thread::scope(|scope| {
            let run = |part| {
                let start = &start;
                scope.spawn(move || self.run(part, &|| start.wait()))
            };
            let threads: Vec<_> = parts.iter().map(|part| run(*part)).collect();
            let joined = threads
                .into_iter()
                .map(|thread| thread.join().map_err(|_| "panics on a thread".to_owned())?);
            joined.collect::<Result<Vec<()>, String>>().map(drop)
        })
    }
}

/// Lets threads start at the same time: closer together than a barrier of the system would.
pub(crate) struct StartLine(AtomicUsize);

impl StartLine {
    /// A line for this many threads.
    pub(crate) fn new(threads: usize) -> StartLine {
        StartLine(AtomicUsize::new(threads))
    }

    /// Returns when all threads have arrived.
    pub(crate) fn wait(&self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
        let mut spins = 0u32;
        while self.0.load(Ordering::Acquire) > 0 {
            spins += 1;
            // A machine with fewer processors than threads makes progress as well.
            if spins.is_multiple_of(1000) { std::thread::yield_now() } else { std::hint::spin_loop() }
        }
    }
}

/// A barrier of two threads that they pass again and again, until one of them is done.
#[derive(Default)]
pub(crate) struct CallBarrier {
    arrivals: AtomicUsize,
    is_over: AtomicBool,
}

impl CallBarrier {
    /// Returns when the other thread waits as well, or has left.
    pub(crate) fn wait(&self) {
        let arrived = self.arrivals.fetch_add(1, Ordering::AcqRel) + 1;
        let complete = arrived.next_multiple_of(2);
        let mut spins = 0u32;
        while self.arrivals.load(Ordering::Acquire) < complete && !self.is_over.load(Ordering::Acquire) {
            spins += 1;
            if spins.is_multiple_of(1000) { std::thread::yield_now() } else { std::hint::spin_loop() }
        }
    }

    /// A thread that passes the barrier. When it is dropped, no thread waits any more.
    pub(crate) fn enter(&self) -> BarrierUse<'_> {
        BarrierUse(self)
    }
}

/// A thread that passes a [`CallBarrier`].
pub(crate) struct BarrierUse<'a>(&'a CallBarrier);

impl Drop for BarrierUse<'_> {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Release);
    }
}

/// Whether no written argument overlaps another argument.
fn disjoint(args: &[HostPtr]) -> bool {
    let range = |arg: &HostPtr| (arg.base as usize, arg.base as usize + arg.bytes);
    let apart = |a: &HostPtr, b: &HostPtr| {
        let ((a0, a1), (b0, b1)) = (range(a), range(b));
        a1 <= b0 || b1 <= a0 || a0 == a1 || b0 == b1
    };
    let read_only = |a: &HostPtr, b: &HostPtr| a.access == Access::Read && b.access == Access::Read;
    args.iter().enumerate().all(|(i, a)| args[..i].iter().all(|b| read_only(a, b) || apart(a, b)))
}

/// A partition of the range.
fn parts(extent: u64, cuts: Cuts) -> Vec<(u64, u64)> {
    let (first, second) = (extent / 5, extent / 2);
    match cuts {
        Cuts::Backwards if extent > 1 => (0..extent).rev().map(|at| (at, at + 1)).collect(),
        Cuts::Uneven if extent > 1 => vec![(second, extent), (0, first), (first, second)],
        _ => vec![(0, extent)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_the_range_once() {
        for (extent, cuts) in
            (0..20).flat_map(|n| [Cuts::Whole, Cuts::Backwards, Cuts::Uneven].map(|c| (n, c)))
        {
            let mut parts = parts(extent, cuts);
            parts.sort_unstable();
            let covered: Vec<u64> = parts.into_iter().flat_map(|(begin, end)| begin..end).collect();
            assert_eq!(covered, (0..extent).collect::<Vec<_>>());
        }
    }

    #[test]
    fn buffers_are_aligned_and_notice_what_is_written_beside_them() {
        let mut buffer = GuardedBuffer::new(&[1, 2, 3], 64);
        assert_eq!(buffer.bytes(), [1, 2, 3]);
        assert_eq!(buffer.bytes().as_ptr() as usize % 64, 0);
        assert!(buffer.is_guarded());
        assert!(buffer.ptr(1, 3, Access::Read).is_err());
        buffer.memory[buffer.start + 3] = 0;
        assert!(!buffer.is_guarded());
    }
}
