//! What all devices of a program have in common: streams with their clocks, memory, the host, and chance.

use std::{
    collections::BTreeMap,
    ops::Range,
    sync::{Arc, Mutex, MutexGuard},
};

use fastrand::Rng;
use tnode::HostArray;

use super::{
    clock::{Clock, HOST, Thread},
    memory::{Access, Memory, Race},
};
use crate::{checked::HostLanding, pool::lock};

/// Everything there is, shared by the devices of a program.
#[derive(Clone, Debug)]
pub(super) struct World(Arc<Mutex<State>>);

#[derive(Debug)]
pub(super) struct State {
    random: Rng,
    /// So many streams may get on between two questions. Where it is 0, work is done only when somebody waits for it.
    pace: usize,
    host: Clock,
    streams: Vec<Stream>,
    memories: Vec<Memory>,
    /// Landing arrays of copies that the host has not looked at, by the address of their bytes.
    landings: BTreeMap<usize, (MemoryId, HostLanding)>,
    /// Arrays that came from there and that tasks have a share of; while they live, nothing else gets their address.
    landed: Vec<Arc<HostArray>>,
    races: Vec<Race>,
}

/// Memory by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MemoryId(usize);

#[derive(Debug)]
struct Stream {
    name: String,
    clock: Clock,
    steps: Vec<Step>,
    /// How many steps are done.
    done: usize,
}

/// What a stream does, as far as it matters for when it is done.
#[derive(Clone, Debug)]
enum Step {
    Task,
    Wait(Point),
}

/// A place in a stream: so many steps.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    stream: usize,
    steps: usize,
}

/// An event, with what comes before it.
#[derive(Clone, Debug)]
pub(super) struct Mark {
    point: Point,
    clock: Clock,
}

/// What a task does with some memory.
#[derive(Clone, Debug)]
pub(super) struct Touch {
    pub(super) memory: MemoryId,
    pub(super) range: Range<usize>,
    pub(super) writes: bool,
}

impl World {
    pub(super) fn new(seed: u64) -> World {
        let mut random = Rng::with_seed(seed);
        World(Arc::new(Mutex::new(State {
            pace: [0, 1, 3, 9][random.usize(..4)],
            random,
            host: Clock::default(),
            streams: Vec::new(),
            memories: Vec::new(),
            landings: BTreeMap::new(),
            landed: Vec::new(),
            races: Vec::new(),
        })))
    }

    /// How many devices and programs there are that know of it.
    pub(super) fn owners(&self) -> usize {
        Arc::strong_count(&self.0)
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.0)
    }

    /// The host looks at everything that was copied to it since it last did; the races so far.
    pub(super) fn host_looks(&self) -> Vec<String> {
        let state = &mut *self.lock();
        for (memory, landing) in std::mem::take(&mut state.landings).into_values() {
            let (moment, range) = (state.host.tick(HOST), 0..usize::MAX);
            let access = Access { range, writes: false, moment, task: "the host".to_owned() };
            state.races.extend(state.memories[memory.0].access(&access, &state.host));
            drop(landing);
        }
        state.landed.clear();
        state.races.iter().map(Race::to_string).collect()
    }
}

impl State {
    pub(super) fn memory(&mut self, name: String) -> MemoryId {
        self.memories.push(Memory::new(name));
        MemoryId(self.memories.len() - 1)
    }

    /// The landing array of a copy. The array may move elsewhere, its bytes stay.
    pub(super) fn landing(&mut self, landing: &HostLanding) -> MemoryId {
        let address = landing.address().expect("nobody has taken the array");
        if let Some((memory, _)) = self.landings.get(&address) {
            return *memory;
        }
        let memory = self.memory("a landing array".to_owned());
        self.landings.insert(address, (memory, landing.clone()));
        memory
    }

    /// The array of a copy to a device, if something was copied into it that the host has not looked at. Other arrays are
    /// nobody's to write as long as a task has a share of them.
    pub(super) fn landed(&mut self, array: &Arc<HostArray>) -> Option<MemoryId> {
        let (memory, _) = self.landings.get(&(array.bytes().as_ptr() as usize))?;
        self.landed.push(Arc::clone(array));
        Some(*memory)
    }

    pub(super) fn new_stream(&mut self, name: &str) -> usize {
        let (name, clock) = (name.to_owned(), Clock::default());
        self.streams.push(Stream { name, clock, steps: Vec::new(), done: 0 });
        self.streams.len() - 1
    }

    /// A task, which the host hands over now, behind all it knows of.
    pub(super) fn task(&mut self, stream: usize, name: &str, touches: &[Touch]) {
        let thread = Thread(stream + 1);
        let state = &mut self.streams[stream];
        state.clock.join(&self.host);
        let moment = state.clock.tick(thread);
        state.steps.push(Step::Task);
        let task = format!("`{name}` on {}", state.name);
        for Touch { memory, range, writes } in touches.iter().filter(|touch| !touch.range.is_empty()) {
            let access = Access { range: range.clone(), writes: *writes, moment, task: task.clone() };
            self.races.extend(self.memories[memory.0].access(&access, &self.streams[stream].clock));
        }
    }

    /// Whether what may or may not work works this time.
    pub(super) fn is_able(&mut self) -> bool {
        self.random.bool()
    }

    pub(super) fn record(&mut self, stream: usize) -> Mark {
        let state = &self.streams[stream];
        Mark { point: Point { stream, steps: state.steps.len() }, clock: state.clock.clone() }
    }

    pub(super) fn wait(&mut self, stream: usize, mark: &Mark) {
        let state = &mut self.streams[stream];
        state.clock.join(&mark.clock);
        state.steps.push(Step::Wait(mark.point));
    }

    fn is_reached(&self, point: Point) -> bool {
        self.streams[point.stream].done >= point.steps
    }

    /// Some streams get on.
    fn pass_time(&mut self) {
        for _ in 0..self.random.usize(..=self.pace) {
            let stream = self.random.usize(..self.streams.len());
            let state = &self.streams[stream];
            match state.steps.get(state.done) {
                None => {}
                Some(Step::Wait(point)) if !self.is_reached(*point) => {}
                Some(_) => self.streams[stream].done += 1,
            }
        }
    }

    /// Time passes until the point is reached.
    fn reach(&mut self, point: Point) {
        while !self.is_reached(point) {
            let state = &self.streams[point.stream];
            if let Step::Wait(before) = state.steps[state.done] {
                self.reach(before);
            }
            self.streams[point.stream].done += 1;
        }
    }

    /// Whether the event is done, as the host finds out now.
    pub(super) fn is_done(&mut self, mark: &Mark) -> bool {
        self.pass_time();
        let done = self.is_reached(mark.point);
        if done {
            self.host.join(&mark.clock);
        }
        done
    }

    pub(super) fn sync(&mut self, mark: &Mark) {
        self.reach(mark.point);
        self.host.join(&mark.clock);
    }

    /// Whether nothing is left to do on the stream, as the host finds out now.
    pub(super) fn is_idle(&mut self, stream: usize) -> bool {
        let mark = self.record(stream);
        self.is_done(&mark)
    }
}
