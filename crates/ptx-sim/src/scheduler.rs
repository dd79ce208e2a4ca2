//! Blocks and clusters: their warps, what they share, and in which order they take steps.

use std::collections::BTreeMap;

use super::access::GlobalMemory;
use super::array_layout::TrackedBytes;
use super::async_copies::AsyncCopies;
use super::async_proxy::AsyncProxy;
use super::fault::{CheckResult, FaultCause, FaultSite, LaneFault, SimFault, StepResult};
use super::flat_kernel::{FlatKernel, FlatStep};
use super::mbarrier::Mbarriers;
use super::race_detector::ShadowMemory;
use super::stats::InstStats;
use super::tensor_map::SimTensorMap;
use super::tma::{PendingTmaLoad, PendingTmaStores};
use super::vector_clocks::VectorClocks;
use super::warp::{StepEvent, WaitReason, Warp};
use super::wgmma::WarpgroupProgress;
use super::{ExecutionOrder, SimLaunch};

/// What a launch has for all its blocks.
#[derive(Debug)]
pub(super) struct LaunchState<'a> {
    pub(super) program: &'a FlatKernel<'a>,
    pub(super) params: &'a [u64],
    pub(super) maps: &'a [SimTensorMap],
    pub(super) blocks: u32,
    /// How many blocks a cluster has.
    pub(super) cluster: u32,
    pub(super) global: GlobalMemory<'a>,
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
pub(super) struct ClusterState {
    /// Of each block.
    pub(super) block_states: Vec<BlockState>,
    pub(super) clocks: VectorClocks,
    pub(super) barriers: Mbarriers,
    /// Copies of tiles that are under way.
    pub(super) tiles: Vec<PendingTmaLoad>,
    pub(super) stores: PendingTmaStores,
    /// Of each block, what some thread of it has to know before it ends: by column the time, and what that is in words.
    pub(super) expects: Vec<BTreeMap<usize, (u32, String)>>,
}

/// What the threads of a block have together.
#[derive(Debug)]
pub(super) struct BlockState {
    pub(super) contents: TrackedBytes,
    pub(super) shadow: ShadowMemory,
    pub(super) copies: AsyncCopies,
    pub(super) proxy: AsyncProxy,
    pub(super) warpgroups: Vec<WarpgroupProgress>,
    /// Registers that no warp has.
    registers: u32,
    /// Each thread's own memory.
    pub(super) local: Vec<TrackedBytes>,
}

/// A barrier that warps wait at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NamedBarrier {
    pub(super) id: u32,
    pub(super) threads: u32,
}

impl<'a> LaunchState<'a> {
    pub(super) fn new(
        program: &'a FlatKernel<'a>,
        launch: &SimLaunch<'a>,
        global: GlobalMemory<'a>,
        order: ExecutionOrder,
    ) -> LaunchState<'a> {
        let mut chance = match order {
            ExecutionOrder::Sequential => None,
            ExecutionOrder::Random { seed } => Some(fastrand::Rng::with_seed(seed)),
        };
        let eager = match &mut chance {
            Some(chance) if program.is_asynchronous => chance.u32(..4),
            _ => 0,
        };
        LaunchState {
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
    pub(super) fn blocks(&mut self) -> Result<(), SimFault> {
        let mut order: Vec<u32> = (0..self.blocks / self.cluster).collect();
        if let Some(chance) = &mut self.chance {
            chance.shuffle(&mut order);
        }
        let mut shared = ClusterState::new(self.program, self.cluster);
        order.into_iter().try_for_each(|cluster| self.cluster(cluster * self.cluster, &mut shared))
    }

    fn cluster(&mut self, first: u32, shared: &mut ClusterState) -> Result<(), SimFault> {
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

    fn is_ready(&self, warp: &Warp, shared: &ClusterState) -> bool {
        match &warp.waits {
            None => !warp.has_ended(),
            Some(WaitReason::Barrier(_) | WaitReason::Cluster) => false,
            Some(WaitReason::Mbarriers(phases)) => self.have_passed(shared, phases),
            Some(WaitReason::Registers(count)) => {
                let more = 32 * count.saturating_sub(warp.allowance);
                shared.block_states[warp.rank as usize].registers >= more
            }
        }
    }

    /// Whether a copy of a tile becomes complete now: if there is one and chance has it so, or nobody can go on without.
    fn tile_is_due(&mut self, shared: &ClusterState, nobody: bool) -> bool {
        match &mut self.chance {
            _ if shared.tiles.is_empty() => false,
            Some(chance) => nobody || chance.u32(..8) < self.eager,
            None => nobody,
        }
    }

    fn complete_tile(&mut self, warps: &[Warp], shared: &mut ClusterState) -> Result<(), SimFault> {
        let at = self.chance.as_mut().map_or(0, |chance| chance.usize(..shared.tiles.len()));
        let load = shared.tiles.remove(at);
        let issuer = load.issuer;
        self.finish_load(shared, load).map_err(|cause| {
            let warp = warps.iter().find(|warp| (warp.rank, warp.number) == (issuer.rank, issuer.warp));
            let lane = u32::from(issuer.thread) % 32;
            self.fault(warp.unwrap_or(&warps[0]), LaneFault { lane, cause })
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
    fn steps(
        &mut self,
        warps: &mut [Warp],
        at: usize,
        steps: u32,
        shared: &mut ClusterState,
    ) -> Result<(), SimFault> {
        self.resume(&mut warps[at], shared).map_err(|stop| self.fault(&warps[at], stop))?;
        for _ in 0..steps {
            let event = self.step(&mut warps[at], shared).map_err(|stop| self.fault(&warps[at], stop))?;
            match event {
                StepEvent::Continues => continue,
                StepEvent::Ended => {}
                StepEvent::AtBarrier(meeting) => {
                    warps[at].waits = Some(WaitReason::Barrier(meeting));
                    self.meet(warps, at, meeting, shared)
                        .map_err(|cause| self.fault(&warps[at], LaneFault { lane: 0, cause }))?;
                }
                StepEvent::AtClusterBarrier => {
                    warps[at].waits = Some(WaitReason::Cluster);
                    self.meet_cluster(warps, shared);
                }
                StepEvent::AtMbarrier(phases) => warps[at].waits = Some(WaitReason::Mbarriers(phases)),
                StepEvent::WantsRegisters(count) => warps[at].waits = Some(WaitReason::Registers(count)),
            }
            break;
        }
        Ok(())
    }

    /// What a warp waited for has come.
    fn resume(&mut self, warp: &mut Warp, shared: &mut ClusterState) -> StepResult<()> {
        match warp.waits.take() {
            Some(WaitReason::Mbarriers(phases)) => self.passed(warp, shared, &phases)?,
            Some(WaitReason::Registers(count)) => {
                let free = &mut shared.block_states[warp.rank as usize].registers;
                *free = *free + 32 * warp.allowance - 32 * count;
                warp.allowance = count;
            }
            _ => return Ok(()),
        }
        warp.pass();
        Ok(())
    }

    /// Lets the warps at a barrier go on, if they are as many as it is for.
    fn meet(
        &mut self,
        warps: &mut [Warp],
        at: usize,
        meeting: NamedBarrier,
        shared: &mut ClusterState,
    ) -> CheckResult<()> {
        let (id, found, rank) = (meeting.id, meeting.threads, warps[at].rank);
        let mut waiting = Vec::new();
        for (i, warp) in warps.iter().enumerate().filter(|(_, warp)| warp.rank == rank) {
            match warp.waits {
                Some(WaitReason::Barrier(other)) if other.id == id && other.threads != found => {
                    let expected = other.threads;
                    return Err(Box::new(FaultCause::BarrierSize { id, expected, found }));
                }
                Some(WaitReason::Barrier(other)) if other.id == id => waiting.push(i),
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
    fn at_rest(&mut self, warps: &[Warp], shared: &mut ClusterState) -> Result<(), SimFault> {
        let Some(first) = warps.iter().find(|warp| warp.waits.is_some()) else {
            let end = self.may_end(warps, shared);
            end.map_err(|(at, cause)| self.fault(&warps[at], LaneFault { lane: 0, cause }))?;
            self.finish_stores(shared, warps);
            return Ok(());
        };
        let what: Vec<String> = warps.iter().map(|warp| self.describe(warp, shared)).collect();
        let cause = Box::new(FaultCause::Deadlock(what.join("; ")));
        Err(self.fault(first, LaneFault { lane: 0, cause }))
    }

    /// What a warp waits for, in words.
    fn describe(&self, warp: &Warp, shared: &ClusterState) -> String {
        let number = match self.cluster {
            1 => format!("warp {}", warp.number),
            _ => format!("warp {} of block {}", warp.number, warp.block),
        };
        match &warp.waits {
            None => format!("{number} has ended"),
            Some(WaitReason::Barrier(NamedBarrier { id, threads })) => {
                format!("{number} waits at barrier {id} of {threads} threads")
            }
            Some(WaitReason::Cluster) => format!("{number} waits for its cluster"),
            Some(WaitReason::Mbarriers(phases)) => {
                let phases = phases.iter().take(1).map(|phase| self.missing(shared, phase));
                format!("{number} waits {}", phases.collect::<String>())
            }
            Some(WaitReason::Registers(count)) => {
                let free = shared.block_states[warp.rank as usize].registers;
                let has = warp.allowance;
                format!(
                    "{number} waits for {count} registers a thread, of which it has {has} and {free} are free"
                )
            }
        }
    }

    fn fault(&self, warp: &Warp, stop: LaneFault) -> SimFault {
        let instruction = match self.program.steps.get(warp.pc) {
            Some(FlatStep::Inst { inst, .. }) => format!("{inst:?}"),
            Some(FlatStep::Split { guard, .. }) => format!("If {guard:?}"),
            Some(FlatStep::Again { guard, .. }) => format!("Loop {guard:?}"),
            _ => "the end".into(),
        };
        let site = FaultSite { block: warp.block, thread: warp.number * 32 + stop.lane, instruction };
        SimFault { kernel: self.program.kernel.name.clone(), site: Some(Box::new(site)), cause: stop.cause }
    }
}

impl ClusterState {
    fn new(program: &FlatKernel<'_>, cluster: u32) -> ClusterState {
        ClusterState {
            block_states: (0..cluster).map(|_| BlockState::new(program)).collect(),
            clocks: VectorClocks::new(cluster, program.kernel.threads.div_ceil(32)),
            barriers: Mbarriers::new(),
            tiles: Vec::new(),
            stores: PendingTmaStores::default(),
            expects: vec![BTreeMap::new(); cluster as usize],
        }
    }

    /// Another cluster begins, with this block.
    fn reset(&mut self, program: &FlatKernel<'_>, first: u32) {
        let cluster = self.block_states.len() as u32;
        for (rank, memory) in (0..cluster).zip(&mut self.block_states) {
            memory.reset(program, first + rank, rank);
        }
        self.clocks = VectorClocks::new(cluster, program.kernel.threads.div_ceil(32));
        self.barriers.clear();
        self.expects.fill(BTreeMap::new());
    }
}

impl BlockState {
    fn new(program: &FlatKernel<'_>) -> BlockState {
        let (size, threads) = (program.shared.size(), program.kernel.threads);
        BlockState {
            contents: TrackedBytes::new(size),
            shadow: ShadowMemory::new(size, Some((0, 0))),
            copies: AsyncCopies::new(threads, size),
            proxy: AsyncProxy::new(size),
            warpgroups: Vec::new(),
            registers: 0,
            local: (0..threads).map(|_| TrackedBytes::new(program.local.size())).collect(),
        }
    }

    /// Another block begins.
    fn reset(&mut self, program: &FlatKernel<'_>, block: u32, rank: u32) {
        let warps = program.kernel.threads.div_ceil(32);
        self.contents.clear();
        self.shadow.pass_to(block, rank);
        self.copies.clear();
        self.proxy.clear();
        self.warpgroups.clear();
        self.registers = program.register_pool().saturating_sub(32 * warps * program.allowance());
        self.local.iter_mut().for_each(TrackedBytes::clear);
    }
}
