//! The simulated machine: devices, memory, streams, events, code.
//!
//! Tasks wait in their streams until a call synchronizes or queries. They then run in an order that depends
//! on the seed and respects only streams and waits, so that a program that relies on any other order fails.
//! Freed memory is inaccessible, and fresh memory has arbitrary contents.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    env,
    fs::OpenOptions,
    io::Write,
    sync::{Mutex, MutexGuard, OnceLock, PoisonError},
};

use crate::{
    graph::{Exec, Graph},
    nccl::{Exchange, Rank},
    ptx::{Entry, ILLEGAL_ADDRESS, Reach},
};

/// The first address of device memory. No memory of the process is near.
const FIRST_ADDRESS: u64 = 0x7000_0000_0000_0000;

/// The value of every byte of fresh memory.
const GARBAGE: u8 = 0xa5;

/// The simulated time of one block of a kernel, in microseconds. Blocks run one after another.
const BLOCK_TIME: u64 = 3;

pub(crate) const INVALID_VALUE: u32 = 1;
pub(crate) const OUT_OF_MEMORY: u32 = 2;
pub(crate) const INVALID_HANDLE: u32 = 400;

/// Not one of the driver's errors: other threads must submit tasks first.
const RANKS_MISSING: u32 = u32::MAX;

/// Calls a function with the machine until it does not wait for other threads.
pub(crate) fn patiently(call: impl Fn(&mut World) -> Result<(), u32>) -> Result<(), u32> {
    loop {
        match call(&mut world()) {
            Err(RANKS_MISSING) => std::thread::sleep(std::time::Duration::from_millis(1)),
            result => return result,
        }
    }
}

/// The simulated machine.
#[derive(Default)]
pub(crate) struct World {
    pub(crate) contexts: BTreeMap<u64, Context>,
    memory: BTreeMap<u64, Block>,
    next_address: u64,
    next_handle: u64,
    pub(crate) streams: BTreeMap<u64, Stream>,
    pub(crate) events: BTreeMap<u64, Event>,
    pub(crate) modules: BTreeMap<u64, Module>,
    pub(crate) functions: BTreeMap<u64, Function>,
    pub(crate) graphs: BTreeMap<u64, Graph>,
    pub(crate) execs: BTreeMap<u64, Exec>,
    /// Each pool's device, and the devices with access to the pool.
    pub(crate) pools: BTreeMap<u64, (u64, BTreeSet<u64>)>,
    /// The ranks of NCCL's communicators.
    pub(crate) ranks: BTreeMap<u64, Rank>,
    /// The sum of the times of all kernels that have run, in microseconds.
    time: u64,
    random: u64,
}

/// Whether the next task of a stream is the exchange of another rank.
fn is_at(other: &Exchange, stream: &Stream) -> bool {
    matches!(stream.tasks.front(), Some(Task::Exchange(own)) if own.is_with(other))
}

/// The context of a device.
#[derive(Default)]
pub(crate) struct Context {
    pub(crate) owners: u32,
    /// The error that made the context unusable.
    pub(crate) error: Option<u32>,
    pub(crate) peers: BTreeSet<u64>,
}

/// An allocation.
struct Block {
    device: u64,
    pool: Option<u64>,
    /// Whether the stream of the allocation has executed the allocation.
    is_there: bool,
    bytes: Vec<u8>,
}

#[derive(Default)]
pub(crate) struct Stream {
    pub(crate) device: u64,
    pub(crate) tasks: VecDeque<Task>,
}

/// An event: the number of its recordings, and the number of the last recording that the device has reached.
#[derive(Clone, Copy, Default)]
pub(crate) struct Event {
    pub(crate) device: u64,
    pub(crate) recorded: u64,
    pub(crate) reached: u64,
    /// Whether the event keeps the time at which it was last reached, in microseconds.
    pub(crate) is_timed: bool,
    pub(crate) time: u64,
}

pub(crate) struct Module {
    pub(crate) device: u64,
    pub(crate) entries: Vec<Entry>,
}

#[derive(Clone)]
pub(crate) struct Function {
    pub(crate) device: u64,
    pub(crate) module: u64,
    pub(crate) entry: Entry,
    pub(crate) max_dynamic: u32,
}

/// A task of a stream.
pub(crate) enum Task {
    Launch {
        module: u64,
        entry: Entry,
        blocks: u32,
        threads: u32,
        params: Vec<u64>,
    },
    Zero {
        to: u64,
        bytes: usize,
    },
    /// A copy from host memory, by its address.
    Upload {
        to: u64,
        from: usize,
        bytes: usize,
    },
    Download {
        to: usize,
        from: u64,
        bytes: usize,
    },
    Copy {
        to: u64,
        from: u64,
        bytes: usize,
        peers: bool,
    },
    Allocate(u64),
    Free(u64),
    Record(u64, u64),
    Wait(u64, u64),
    /// An exchange with the streams of other ranks.
    Exchange(Exchange),
}

/// A setting of the environment: `FAKE_CUDA` has words like `memory=1000`.
pub(crate) fn setting(name: &str) -> Option<String> {
    let settings = env::var("FAKE_CUDA").unwrap_or_default();
    let found =
        settings.split_whitespace().filter_map(|word| word.split_once('=')).find(|(key, _)| *key == name);
    found.map(|(_, value)| value.to_owned())
}

pub(crate) fn number(name: &str, default: u64) -> u64 {
    setting(name).and_then(|value| value.parse().ok()).unwrap_or(default)
}

/// Adds a line to the file that `FAKE_CUDA_LOG` names.
pub(crate) fn log(line: &str) {
    let Some(path) = env::var_os("FAKE_CUDA_LOG") else { return };
    let file = OpenOptions::new().append(true).create(true).open(path);
    let _ = file.and_then(|mut file| file.write_all(format!("{line}\n").as_bytes()));
}

pub(crate) fn world() -> MutexGuard<'static, World> {
    static WORLD: OnceLock<Mutex<World>> = OnceLock::new();
    let made = WORLD.get_or_init(|| {
        let random = number("seed", 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let (next_address, next_handle) = (FIRST_ADDRESS, 0x1000);
        Mutex::new(World { random, next_address, next_handle, ..World::default() })
    });
    made.lock().unwrap_or_else(PoisonError::into_inner)
}

impl World {
    pub(crate) fn handle(&mut self) -> u64 {
        self.next_handle += 8;
        self.next_handle
    }

    /// # Errors
    ///
    /// The error that made the device's context unusable.
    pub(crate) fn healthy(&self, device: u64) -> Result<(), u32> {
        match self.contexts.get(&device) {
            Some(Context { error: Some(error), .. }) => Err(*error),
            Some(_) => Ok(()),
            None => Err(201),
        }
    }

    /// Total size of a device's allocations, in bytes.
    pub(crate) fn used(&self, device: u64) -> u64 {
        self.memory
            .values()
            .filter(|block| block.device == device)
            .map(|block| block.bytes.len() as u64)
            .sum()
    }

    pub(crate) fn allocate(&mut self, device: u64, pool: Option<u64>, bytes: usize) -> Result<u64, u32> {
        if self.used(device) + bytes as u64 > number("memory", 1 << 30) {
            return Err(OUT_OF_MEMORY);
        }
        let address = self.next_address;
        self.next_address += (bytes as u64).next_multiple_of(256) + 256;
        self.memory
            .insert(address, Block { device, pool, is_there: pool.is_none(), bytes: vec![GARBAGE; bytes] });
        log(&format!("allocate {bytes}"));
        Ok(address)
    }

    pub(crate) fn free(&mut self, address: u64) -> Result<(), u32> {
        let block = self.memory.remove(&address).ok_or(INVALID_VALUE)?;
        log(&format!("free {}", block.bytes.len()));
        Ok(())
    }

    pub(crate) fn push(&mut self, stream: u64, task: Task) -> Result<(), u32> {
        let queue = self.streams.get_mut(&stream).ok_or(INVALID_HANDLE)?;
        queue.tasks.push_back(task);
        if setting("order").as_deref() == Some("eager") {
            while self.step() {}
        }
        Ok(())
    }

    /// Runs tasks of all streams in random order until the event is reached.
    pub(crate) fn reach(&mut self, event: u64) -> Result<(), u32> {
        loop {
            let Event { device, recorded, reached, .. } = *self.events.get(&event).ok_or(INVALID_HANDLE)?;
            self.healthy(device)?;
            if reached >= recorded {
                return Ok(());
            }
            self.step_or_wait()?;
        }
    }

    /// Runs tasks of all streams in random order until the stream has none.
    pub(crate) fn drain(&mut self, stream: u64) -> Result<(), u32> {
        loop {
            let Stream { device, tasks } = self.streams.get(&stream).ok_or(INVALID_HANDLE)?;
            self.healthy(*device)?;
            if tasks.is_empty() {
                return Ok(());
            }
            self.step_or_wait()?;
        }
    }

    /// Runs a task.
    ///
    /// # Errors
    ///
    /// [`RANKS_MISSING`] if nothing can run until other threads have come to an exchange.
    fn step_or_wait(&mut self) -> Result<(), u32> {
        if self.step() {
            return Ok(());
        }
        let waits = |stream: &Stream| matches!(stream.tasks.front(), Some(Task::Exchange(_)));
        assert!(self.streams.values().any(waits), "a task that nobody will run");
        Err(RANKS_MISSING)
    }

    /// Runs the next task of a random stream among those whose next task can run. Returns false if there is
    /// no such stream.
    pub(crate) fn step(&mut self) -> bool {
        let ready = |stream: &Stream| match stream.tasks.front() {
            Some(Task::Exchange(own)) => {
                self.streams.values().filter(|stream| is_at(own, stream)).count() == own.size()
            }
            Some(Task::Wait(event, ticket)) => {
                self.events.get(event).is_none_or(|event| event.reached >= *ticket)
            }
            front => front.is_some(),
        };
        let ready: Vec<u64> = self.streams.iter().filter(|(_, it)| ready(it)).map(|(id, _)| *id).collect();
        if ready.is_empty() {
            return false;
        }
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let stream = ready[(self.random >> 33) as usize % ready.len()];
        if let Some(Task::Exchange(own)) = self.streams.get(&stream).and_then(|stream| stream.tasks.front()) {
            let own = *own;
            let ranks = self.streams.values_mut().filter(|stream| is_at(&own, stream)).filter_map(|stream| {
                match stream.tasks.pop_front() {
                    Some(Task::Exchange(exchange)) => Some((stream.device, exchange)),
                    _ => None,
                }
            });
            let ranks: Vec<_> = ranks.collect();
            let devices: Vec<u64> = ranks.iter().map(|(device, _)| *device).collect();
            if let Err(error) = crate::nccl::run(self, ranks) {
                devices.into_iter().for_each(|device| self.end(device, error));
            }
            return true;
        }
        let (device, task) = match self.streams.get_mut(&stream) {
            Some(stream) => (stream.device, stream.tasks.pop_front()),
            None => return false,
        };
        if let Some(Err(error)) = task.map(|task| self.run(device, task)) {
            self.end(device, error);
        }
        true
    }

    /// Makes a context unusable: it runs no more tasks.
    fn end(&mut self, device: u64, error: u32) {
        log(&format!("lost {error}"));
        self.contexts.entry(device).or_default().error.get_or_insert(error);
        self.streams
            .values_mut()
            .filter(|stream| stream.device == device)
            .for_each(|stream| stream.tasks.clear());
    }

    fn run(&mut self, device: u64, task: Task) -> Result<(), u32> {
        match task {
            // The code has been unloaded, and other code may be at its address: this is an error of the
            // program.
            Task::Launch { module, .. } if !self.modules.contains_key(&module) => Err(ILLEGAL_ADDRESS),
            Task::Launch { entry, blocks, threads, params, .. } => {
                self.time += BLOCK_TIME * u64::from(blocks);
                entry.run(blocks, threads, &params, &mut Seen { world: self, device })
            }
            Task::Zero { to, bytes } => self.bytes(device, to, bytes).map(|bytes| bytes.fill(0)),
            Task::Upload { to, from, bytes } => {
                let values = crate::host_bytes(from, bytes).to_vec();
                self.bytes(device, to, bytes).map(|bytes| bytes.copy_from_slice(&values))
            }
            Task::Download { to, from, bytes } => {
                let values = self.bytes(device, from, bytes)?.to_vec();
                crate::host_bytes(to, bytes).copy_from_slice(&values);
                Ok(())
            }
            Task::Copy { to, from, bytes, peers } => {
                let holder = |world: &World, at| world.block(at).map_or(device, |(_, block)| block.device);
                let (writer, reader) =
                    if peers { (holder(self, to), holder(self, from)) } else { (device, device) };
                let values = self.bytes(reader, from, bytes)?.to_vec();
                self.bytes(writer, to, bytes).map(|bytes| bytes.copy_from_slice(&values))
            }
            Task::Allocate(address) => {
                self.memory.entry(address).and_modify(|block| block.is_there = true);
                Ok(())
            }
            Task::Free(address) => self.free(address),
            Task::Record(event, ticket) => {
                let time = self.time;
                self.events.entry(event).and_modify(|event| {
                    event.reached = event.reached.max(ticket);
                    event.time = time;
                });
                Ok(())
            }
            Task::Wait(..) | Task::Exchange(_) => Ok(()),
        }
    }

    fn block(&self, address: u64) -> Option<(u64, &Block)> {
        self.memory.range(..=address).next_back().map(|(begin, block)| (*begin, block))
    }

    /// The bytes at an address, if they are allocated and the device has access.
    pub(crate) fn bytes(&mut self, device: u64, address: u64, bytes: usize) -> Result<&mut [u8], u32> {
        let (begin, block) = self.block(address).ok_or(ILLEGAL_ADDRESS)?;
        let peers = |device: u64| self.contexts.get(&device).map(|context| &context.peers);
        let reaches = block.device == device
            || match block.pool {
                Some(pool) => self.pools.get(&pool).is_some_and(|(_, who)| who.contains(&device)),
                None => peers(device).is_some_and(|peers| peers.contains(&block.device)),
            };
        let at = (address - begin) as usize;
        let block =
            self.memory.get_mut(&begin).filter(|block| reaches && block.is_there).ok_or(ILLEGAL_ADDRESS)?;
        block.bytes.get_mut(at..).and_then(|rest| rest.get_mut(..bytes)).ok_or(ILLEGAL_ADDRESS)
    }

    /// Removes a context that its last owner has released. Logs the objects that still exist in it: there
    /// should be none.
    pub(crate) fn forget(&mut self, device: u64) {
        let allocations = self.memory.values().filter(|block| block.device == device).count();
        let streams = self.streams.values().filter(|stream| stream.device == device).count();
        let events = self.events.values().filter(|event| event.device == device).count();
        let modules = self.modules.values().filter(|module| module.device == device).count();
        let pools = self.pools.values().filter(|(owner, _)| *owner == device).count();
        let graphs = self.graphs.values().filter(|graph| graph.device == device).count();
        let execs = self.execs.values().filter(|exec| exec.device == device).count();
        let graphs = graphs + execs;
        log(&format!(
            "left {allocations} allocations {streams} streams {events} events {modules} modules {pools} pools {graphs} graphs"
        ));
        self.memory.retain(|_, block| block.device != device);
        self.streams.retain(|_, stream| stream.device != device);
        self.contexts.remove(&device);
    }
}

/// Memory as the kernels of a device access it.
struct Seen<'a> {
    world: &'a mut World,
    device: u64,
}

impl Reach for Seen<'_> {
    fn load(&mut self, address: u64) -> Option<u32> {
        let bytes = self.world.bytes(self.device, address, 4).ok()?;
        bytes.try_into().ok().map(u32::from_le_bytes)
    }

    fn store(&mut self, address: u64, value: u32) -> Option<()> {
        self.world.bytes(self.device, address, 4).ok()?.copy_from_slice(&value.to_le_bytes());
        Some(())
    }
}
