//! Blocks and clusters: their warps, what they share, and in which order they take steps.

use std::collections::BTreeMap;

use super::access::Global;
use super::arrays::Contents;
use super::clocks::Clocks;
use super::copies::Copies;
use super::fault::{Cause, Check, Fault, Outcome, Site, Stop};
use super::flat::{Program, Step};
use super::mbarrier::Barriers;
use super::proxy::Proxy;
use super::races::Shadow;
use super::stats::InstStats;
use super::tensor::TensorMap;
use super::tile::{TileLoad, TileStores};
use super::warp::{Event, Wait, Warp};
use super::warpgroup::Together;
use super::{Launch, Order};

/// What a launch has for all its blocks.
#[derive(Debug)]
pub(super) struct Run<'a> {
    pub(super) program: &'a Program<'a>,
    pub(super) params: &'a [u64],
    pub(super) maps: &'a [TensorMap],
    pub(super) blocks: u32,
    /// How many blocks a cluster has.
    pub(super) cluster: u32,
    pub(super) global: Global<'a>,
    pub(super) stats: Vec<InstStats>,
    /// Where choices come from, if they are to be made by chance.
    pub(super) chance: Option<fastrand::Rng>,
    /// Of eight steps, before how many a copy of a tile is completed that nobody needs yet.
    eager: u32,
    /// Instructions of warps that may still run, and how many there were.
    pub(super) left: u64,
    pub(super) limit: u64,
}

/// What the threads of a cluster have together.
#[derive(Debug)]
pub(super) struct Shared {
    /// Of each block.
    pub(super) memories: Vec<Memory>,
    pub(super) clocks: Clocks,
    pub(super) barriers: Barriers,
    /// Copies of tiles that are under way.
    pub(super) tiles: Vec<TileLoad>,
    pub(super) stores: TileStores,
    /// Of each block, what some thread of it has to know before it ends: by column the time, and what that is in words.
    pub(super) expects: Vec<BTreeMap<usize, (u32, String)>>,
}

/// What the threads of a block have together.
#[derive(Debug)]
pub(super) struct Memory {
    pub(super) contents: Contents,
    pub(super) shadow: Shadow,
    pub(super) copies: Copies,
    pub(super) proxy: Proxy,
    pub(super) warpgroups: Vec<Together>,
    /// Registers that no warp has.
    registers: u32,
    /// Each thread's own memory.
    pub(super) local: Vec<Contents>,
}

/// A barrier that warps wait at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Meeting {
    pub(super) id: u32,
    pub(super) threads: u32,
}

impl<'a> Run<'a> {
    pub(super) fn new(
        program: &'a Program<'a>,
        launch: &Launch<'a>,
        global: Global<'a>,
        order: Order,
    ) -> Run<'a> {
        let mut chance = match order {
            Order::InTurn => None,
            Order::Random { seed } => Some(fastrand::Rng::with_seed(seed)),
        };
        let eager = match &mut chance {
            Some(chance) if program.is_asynchronous => chance.u32(..4),
            _ => 0,
        };
        Run {
            program,
            params: launch.params,
            maps: launch.maps,
            blocks: launch.blocks,
            cluster: program.kernel.cluster.max(1),
            global,
            stats: program.insts.iter().map(|inst| InstStats::new(inst)).collect(),
            chance,
            eager,
            left: launch.limit,
            limit: launch.limit,
        }
    }

    /// Runs every block.
    pub(super) fn blocks(&mut self) -> Result<(), Fault> {
        let mut order: Vec<u32> = (0..self.blocks / self.cluster).collect();
        if let Some(chance) = &mut self.chance {
            chance.shuffle(&mut order);
        }
        let mut shared = Shared::new(self.program, self.cluster);
        order.into_iter().try_for_each(|cluster| self.cluster(cluster * self.cluster, &mut shared))
    }

    fn cluster(&mut self, first: u32, shared: &mut Shared) -> Result<(), Fault> {
        shared.reset(self.program, first);
        let of_block = self.program.kernel.threads.div_ceil(32);
        let mut warps: Vec<Warp> = (0..self.cluster * of_block)
            .map(|at| Warp::new(self.program, first + at / of_block, at / of_block, at % of_block))
            .collect();
        loop {
            let ready: Vec<usize> = (0..warps.len()).filter(|&i| self.is_ready(&warps[i], shared)).collect();
            if self.tile_is_due(shared, ready.is_empty()) {
                self.complete_tile(&warps, shared)?;
            } else if ready.is_empty() {
                return self.at_rest(&warps, shared);
            } else {
                let (next, steps) = self.choose(&ready);
                self.steps(&mut warps, next, steps, shared)?;
            }
        }
    }

    fn is_ready(&self, warp: &Warp, shared: &Shared) -> bool {
        match &warp.waits {
            None => !warp.has_ended(),
            Some(Wait::Meeting(_) | Wait::Cluster) => false,
            Some(Wait::Phases(phases)) => self.have_passed(shared, phases),
            Some(Wait::Registers(count)) => {
                let more = 32 * count.saturating_sub(warp.allowance);
                shared.memories[warp.rank as usize].registers >= more
            }
        }
    }

    /// Whether a copy of a tile becomes complete now: if there is one and chance has it so, or nobody can go on without.
    fn tile_is_due(&mut self, shared: &Shared, nobody: bool) -> bool {
        match &mut self.chance {
            _ if shared.tiles.is_empty() => false,
            Some(chance) => nobody || chance.u32(..8) < self.eager,
            None => nobody,
        }
    }

    fn complete_tile(&mut self, warps: &[Warp], shared: &mut Shared) -> Result<(), Fault> {
        let at = self.chance.as_mut().map_or(0, |chance| chance.usize(..shared.tiles.len()));
        let load = shared.tiles.remove(at);
        let issuer = load.issuer;
        self.finish_load(shared, load).map_err(|cause| {
            let warp = warps.iter().find(|warp| (warp.rank, warp.number) == (issuer.rank, issuer.warp));
            let lane = u32::from(issuer.thread) % 32;
            self.fault(warp.unwrap_or(&warps[0]), Stop { lane, cause })
        })
    }

    /// A warp, and how many steps it may take: all it can, or a few.
    fn choose(&mut self, ready: &[usize]) -> (usize, u32) {
        match &mut self.chance {
            None => (ready[0], u32::MAX),
            Some(chance) => (ready[chance.usize(..ready.len())], chance.u32(1..=3)),
        }
    }

    /// Lets a warp take steps until it waits or ends, or has taken so many.
    fn steps(&mut self, warps: &mut [Warp], at: usize, steps: u32, shared: &mut Shared) -> Result<(), Fault> {
        self.resume(&mut warps[at], shared).map_err(|stop| self.fault(&warps[at], stop))?;
        for _ in 0..steps {
            let event = self.step(&mut warps[at], shared).map_err(|stop| self.fault(&warps[at], stop))?;
            match event {
                Event::Goes => continue,
                Event::Ends => {}
                Event::Meets(meeting) => {
                    warps[at].waits = Some(Wait::Meeting(meeting));
                    self.meet(warps, at, meeting, shared)
                        .map_err(|cause| self.fault(&warps[at], Stop { lane: 0, cause }))?;
                }
                Event::MeetsCluster => {
                    warps[at].waits = Some(Wait::Cluster);
                    self.meet_cluster(warps, shared);
                }
                Event::Waits(phases) => warps[at].waits = Some(Wait::Phases(phases)),
                Event::Takes(count) => warps[at].waits = Some(Wait::Registers(count)),
            }
            break;
        }
        Ok(())
    }

    /// What a warp waited for has come.
    fn resume(&mut self, warp: &mut Warp, shared: &mut Shared) -> Outcome<()> {
        match warp.waits.take() {
            Some(Wait::Phases(phases)) => self.passed(warp, shared, &phases)?,
            Some(Wait::Registers(count)) => {
                let free = &mut shared.memories[warp.rank as usize].registers;
                *free = *free + 32 * warp.allowance - 32 * count;
                warp.allowance = count;
            }
            _ => return Ok(()),
        }
        warp.pass();
        Ok(())
    }

    /// Lets the warps at a barrier go on, if they are as many as it is for.
    fn meet(&mut self, warps: &mut [Warp], at: usize, meeting: Meeting, shared: &mut Shared) -> Check<()> {
        let (id, found, rank) = (meeting.id, meeting.threads, warps[at].rank);
        let mut waiting = Vec::new();
        for (i, warp) in warps.iter().enumerate().filter(|(_, warp)| warp.rank == rank) {
            match warp.waits {
                Some(Wait::Meeting(other)) if other.id == id && other.threads != found => {
                    let expected = other.threads;
                    return Err(Box::new(Cause::BarrierSize { id, expected, found }));
                }
                Some(Wait::Meeting(other)) if other.id == id => waiting.push(i),
                _ => {}
            }
        }
        if waiting.len() as u32 * 32 == found {
            let row = |&i: &usize| shared.clocks.row(rank, warps[i].number);
            let rows: Vec<usize> = waiting.iter().map(row).collect();
            shared.clocks.meet(&rows);
            waiting.into_iter().for_each(|i| warps[i].pass());
        }
        Ok(())
    }

    /// No warp is ready: all should have ended.
    fn at_rest(&mut self, warps: &[Warp], shared: &mut Shared) -> Result<(), Fault> {
        let Some(first) = warps.iter().find(|warp| warp.waits.is_some()) else {
            let end = self.may_end(warps, shared);
            end.map_err(|(at, cause)| self.fault(&warps[at], Stop { lane: 0, cause }))?;
            self.finish_stores(shared, warps);
            return Ok(());
        };
        let what: Vec<String> = warps.iter().map(|warp| self.describe(warp, shared)).collect();
        let cause = Box::new(Cause::Deadlock(what.join("; ")));
        Err(self.fault(first, Stop { lane: 0, cause }))
    }

    /// What a warp waits for, in words.
    fn describe(&self, warp: &Warp, shared: &Shared) -> String {
        let number = match self.cluster {
            1 => format!("warp {}", warp.number),
            _ => format!("warp {} of block {}", warp.number, warp.block),
        };
        match &warp.waits {
            None => format!("{number} has ended"),
            Some(Wait::Meeting(Meeting { id, threads })) => {
                format!("{number} waits at barrier {id} of {threads} threads")
            }
            Some(Wait::Cluster) => format!("{number} waits for its cluster"),
            Some(Wait::Phases(phases)) => {
                let phases = phases.iter().take(1).map(|phase| self.missing(shared, phase));
                format!("{number} waits {}", phases.collect::<String>())
            }
            Some(Wait::Registers(count)) => {
                let free = shared.memories[warp.rank as usize].registers;
                let has = warp.allowance;
                format!(
                    "{number} waits for {count} registers a thread, of which it has {has} and {free} are free"
                )
            }
        }
    }

    fn fault(&self, warp: &Warp, stop: Stop) -> Fault {
        let instruction = match self.program.steps.get(warp.pc) {
            Some(Step::Inst { inst, .. }) => format!("{inst:?}"),
            Some(Step::Split { guard, .. }) => format!("If {guard:?}"),
            Some(Step::Again { guard, .. }) => format!("Loop {guard:?}"),
            _ => "the end".into(),
        };
        let site = Site { block: warp.block, thread: warp.number * 32 + stop.lane, instruction };
        Fault { kernel: self.program.kernel.name.clone(), site: Some(Box::new(site)), cause: stop.cause }
    }
}

impl Shared {
    fn new(program: &Program<'_>, cluster: u32) -> Shared {
        Shared {
            memories: (0..cluster).map(|_| Memory::new(program)).collect(),
            clocks: Clocks::new(cluster, program.kernel.threads.div_ceil(32)),
            barriers: Barriers::new(),
            tiles: Vec::new(),
            stores: TileStores::default(),
            expects: vec![BTreeMap::new(); cluster as usize],
        }
    }

    /// Another cluster begins, with this block.
    fn reset(&mut self, program: &Program<'_>, first: u32) {
        let cluster = self.memories.len() as u32;
        for (rank, memory) in (0..cluster).zip(&mut self.memories) {
            memory.reset(program, first + rank, rank);
        }
        self.clocks = Clocks::new(cluster, program.kernel.threads.div_ceil(32));
        self.barriers.clear();
        self.expects.fill(BTreeMap::new());
    }
}

impl Memory {
    fn new(program: &Program<'_>) -> Memory {
        let (size, threads) = (program.shared.size(), program.kernel.threads);
        Memory {
            contents: Contents::new(size),
            shadow: Shadow::new(size, Some((0, 0))),
            copies: Copies::new(threads, size),
            proxy: Proxy::new(size),
            warpgroups: Vec::new(),
            registers: 0,
            local: (0..threads).map(|_| Contents::new(program.local.size())).collect(),
        }
    }

    /// Another block begins.
    fn reset(&mut self, program: &Program<'_>, block: u32, rank: u32) {
        let warps = program.kernel.threads.div_ceil(32);
        self.contents.clear();
        self.shadow.pass_to(block, rank);
        self.copies.clear();
        self.proxy.clear();
        self.warpgroups.clear();
        self.registers = program.register_pool().saturating_sub(32 * warps * program.allowance());
        self.local.iter_mut().for_each(Contents::clear);
    }
}
