//! The state that all devices of a program share: streams with their clocks, memory, the host, and random
//! choices.

use std::{
    collections::BTreeMap,
    ops::Range,
    sync::{Arc, Mutex, MutexGuard},
};

use fastrand::Rng;
use tnode::HostArray;

use super::{
    clock::{Clock, HOST, Thread},
    memory::{AccessHistory, Race, RecordedAccess},
};
use crate::{checked::HostReadback, pool::lock};

/// The shared state; cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct World(Arc<Mutex<WorldState>>);

#[derive(Debug)]
pub(super) struct WorldState {
    random: Rng,
    /// Maximum number of steps that streams complete between two queries. With 0, tasks complete only when
    /// the host waits.
    max_progress: usize,
    host: Clock,
    streams: Vec<StreamProgress>,
    memories: Vec<AccessHistory>,
    /// Host arrays of copies that the host has not read, by the address of their bytes.
    readbacks: BTreeMap<usize, (MemoryId, HostReadback)>,
    /// The arrays of `readbacks` that tasks refer to. While they exist, no other array gets their address.
    reused_arrays: Vec<Arc<HostArray>>,
    races: Vec<Race>,
}

/// The number of a pool or host array in [`WorldState::memories`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MemoryId(usize);

#[derive(Debug)]
struct StreamProgress {
    name: String,
    clock: Clock,
    steps: Vec<StreamStep>,
    /// The number of completed steps.
    done: usize,
}

/// A step of a stream, as far as it affects completion.
#[derive(Clone, Debug)]
enum StreamStep {
    Task,
    Wait(StreamPoint),
}

/// A point in a stream, after this number of steps.
#[derive(Clone, Copy, Debug)]
pub(super) struct StreamPoint {
    stream: usize,
    steps: usize,
}

/// An event, with its position and the clock of everything before it.
#[derive(Clone, Debug)]
pub(super) struct EventPoint {
    point: StreamPoint,
    clock: Clock,
}

/// An access of a task to memory.
#[derive(Clone, Debug)]
pub(super) struct TaskAccess {
    pub(super) memory: MemoryId,
    pub(super) range: Range<usize>,
    pub(super) writes: bool,
}

impl World {
    pub(super) fn new(seed: u64) -> World {
        let mut random = Rng::with_seed(seed);
        World(Arc::new(Mutex::new(WorldState {
            max_progress: [0, 1, 3, 9][random.usize(..4)],
            random,
            host: Clock::default(),
            streams: Vec::new(),
            memories: Vec::new(),
            readbacks: BTreeMap::new(),
            reused_arrays: Vec::new(),
            races: Vec::new(),
        })))
    }

    /// The number of devices and programs that refer to the world.
    pub(super) fn owners(&self) -> usize {
        Arc::strong_count(&self.0)
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, WorldState> {
        lock(&self.0)
    }

    /// Lets the host read every array that was copied to it since the last call; returns the races so far.
    pub(super) fn read_on_host(&self) -> Vec<String> {
        let state = &mut *self.lock();
        for (memory, readback) in std::mem::take(&mut state.readbacks).into_values() {
            let (moment, range) = (state.host.tick(HOST), 0..usize::MAX);
            let access = RecordedAccess { range, writes: false, moment, task: "the host".to_owned() };
            state.races.extend(state.memories[memory.0].access(&access, &state.host));
            drop(readback);
        }
        state.reused_arrays.clear();
        state.races.iter().map(Race::to_string).collect()
    }
}

impl WorldState {
    pub(super) fn memory(&mut self, name: String) -> MemoryId {
        self.memories.push(AccessHistory::new(name));
        MemoryId(self.memories.len() - 1)
    }

    /// The memory of the host array that receives a copy. The array may be moved, but its bytes keep their
    /// address.
    pub(super) fn readback(&mut self, readback: &HostReadback) -> MemoryId {
        let address = readback.address().expect("nobody has taken the array");
        if let Some((memory, _)) = self.readbacks.get(&address) {
            return *memory;
        }
        let memory = self.memory("a readback array".to_owned());
        self.readbacks.insert(address, (memory, readback.clone()));
        memory
    }

    /// The memory of a host array that is copied to a device, if the array has received a copy that the host
    /// has not read. Any other array needs no check, because no task writes it while a task refers to it.
    pub(super) fn reused_arrays(&mut self, array: &Arc<HostArray>) -> Option<MemoryId> {
        let (memory, _) = self.readbacks.get(&(array.bytes().as_ptr() as usize))?;
        self.reused_arrays.push(Arc::clone(array));
        Some(*memory)
    }

    pub(super) fn new_stream(&mut self, name: &str) -> usize {
        let (name, clock) = (name.to_owned(), Clock::default());
        self.streams.push(StreamProgress { name, clock, steps: Vec::new(), done: 0 });
        self.streams.len() - 1
    }

    /// Records a task, which the host submits now, after everything that the host knows of.
    pub(super) fn task(&mut self, stream: usize, name: &str, accesses: &[TaskAccess]) {
        let thread = Thread(stream + 1);
        let state = &mut self.streams[stream];
        state.clock.join(&self.host);
        let moment = state.clock.tick(thread);
        state.steps.push(StreamStep::Task);
        let task = format!("`{name}` on {}", state.name);
        for TaskAccess { memory, range, writes } in accesses.iter().filter(|access| !access.range.is_empty())
        {
            let access = RecordedAccess { range: range.clone(), writes: *writes, moment, task: task.clone() };
            self.races.extend(self.memories[memory.0].access(&access, &self.streams[stream].clock));
        }
    }

    /// A random choice of whether an optional operation works this time.
    pub(super) fn random_choice(&mut self) -> bool {
        self.random.bool()
    }

    pub(super) fn record(&mut self, stream: usize) -> EventPoint {
        let state = &self.streams[stream];
        EventPoint { point: StreamPoint { stream, steps: state.steps.len() }, clock: state.clock.clone() }
    }

    pub(super) fn wait(&mut self, stream: usize, mark: &EventPoint) {
        let state = &mut self.streams[stream];
        state.clock.join(&mark.clock);
        state.steps.push(StreamStep::Wait(mark.point));
    }

    fn is_reached(&self, point: StreamPoint) -> bool {
        self.streams[point.stream].done >= point.steps
    }

    /// Completes some steps of random streams.
    fn pass_time(&mut self) {
        for _ in 0..self.random.usize(..=self.max_progress) {
            let stream = self.random.usize(..self.streams.len());
            let state = &self.streams[stream];
            match state.steps.get(state.done) {
                None => {}
                Some(StreamStep::Wait(point)) if !self.is_reached(*point) => {}
                Some(_) => self.streams[stream].done += 1,
            }
        }
    }

    /// Completes steps until the point is reached.
    fn reach(&mut self, point: StreamPoint) {
        while !self.is_reached(point) {
            let state = &self.streams[point.stream];
            if let StreamStep::Wait(before) = state.steps[state.done] {
                self.reach(before);
            }
            self.streams[point.stream].done += 1;
        }
    }

    /// Whether the event is done; if so, the host knows it from now on.
    pub(super) fn is_done(&mut self, mark: &EventPoint) -> bool {
        self.pass_time();
        let done = self.is_reached(mark.point);
        if done {
            self.host.join(&mark.clock);
        }
        done
    }

    pub(super) fn sync(&mut self, mark: &EventPoint) {
        self.reach(mark.point);
        self.host.join(&mark.clock);
    }

    /// Whether the stream has nothing left to do; if so, the host knows it from now on.
    pub(super) fn is_idle(&mut self, stream: usize) -> bool {
        let mark = self.record(stream);
        self.is_done(&mark)
    }
}
