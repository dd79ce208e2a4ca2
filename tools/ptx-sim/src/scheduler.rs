//! Schedules the warps of blocks and clusters, and holds the state that they share.

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

/// State of a launch, shared by all blocks.
#[derive(Debug)]
pub(super) struct LaunchState<'a> {
    pub(super) program: &'a FlatKernel<'a>,
    pub(super) params: &'a [u64],
    pub(super) maps: &'a [SimTensorMap],
    pub(super) blocks: u32,
    /// Blocks per cluster.
    pub(super) cluster: u32,
    pub(super) global: GlobalMemory<'a>,
    pub(super) stats: Vec<InstStats>,
    /// Random-number generator; `None` for the sequential order.
    pub(super) chance: Option<fastrand::Rng>,
    /// The number of scheduling steps out of eight that complete a TMA load even if a warp could run.
    eager: u32,
    /// Number of instructions that warps may still execute.
    pub(super) left: u64,
    /// Number of instructions that warps may execute in the whole launch.
    pub(super) limit: u64,
}

/// State that the threads of a cluster share.
#[derive(Debug)]
pub(super) struct ClusterState {
    /// One per block of the cluster.
    pub(super) block_states: Vec<BlockState>,
    pub(super) clocks: VectorClocks,
    pub(super) barriers: Mbarriers,
    /// TMA loads in flight.
    pub(super) tma_loads: Vec<PendingTmaLoad>,
    pub(super) stores: PendingTmaStores,
    /// For each block, the events for which some thread of the block must wait before the block ends. The key
    /// is the vector-clock component of an event; the value is its time and description.
    pub(super) expects: Vec<BTreeMap<usize, (u32, String)>>,
}

/// State that the threads of a block share.
#[derive(Debug)]
pub(super) struct BlockState {
    pub(super) contents: TrackedBytes,
    pub(super) shadow: ShadowMemory,
    pub(super) copies: AsyncCopies,
    pub(super) proxy: AsyncProxy,
    pub(super) warpgroups: Vec<WarpgroupProgress>,
    /// Registers of the SM that no warp of the block owns.
    registers: u32,
    /// Local memory of each thread.
    pub(super) local: Vec<TrackedBytes>,
}

/// One of the 16 barriers of a block, with the number of threads that a warp expects there.
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

    /// Runs every block of the grid.
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
            if self.tma_load_is_due(shared, ready.is_empty()) {
                self.complete_tma_load(&warps, shared)?;
            } else if ready.is_empty() {
                return self.end_or_deadlock(&warps, shared);
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

    /// Whether to complete a TMA load now: always if no warp can run, else at random.
    fn tma_load_is_due(&mut self, shared: &ClusterState, all_blocked: bool) -> bool {
        match &mut self.chance {
            _ if shared.tma_loads.is_empty() => false,
            Some(chance) => all_blocked || chance.u32(..8) < self.eager,
            None => all_blocked,
        }
    }

    fn complete_tma_load(&mut self, warps: &[Warp], shared: &mut ClusterState) -> Result<(), SimFault> {
        let at = self.chance.as_mut().map_or(0, |chance| chance.usize(..shared.tma_loads.len()));
        let load = shared.tma_loads.remove(at);
        let issuer = load.issuer;
        self.finish_load(shared, load).map_err(|cause| {
            let warp = warps.iter().find(|warp| (warp.rank, warp.number) == (issuer.rank, issuer.warp));
            let lane = u32::from(issuer.thread) % 32;
            self.fault(warp.unwrap_or(&warps[0]), LaneFault { lane, cause })
        })
    }

    /// Picks a warp that is ready, and the number of steps that it may take.
    fn choose(&mut self, ready: &[usize]) -> (usize, u32) {
        match &mut self.chance {
            None => (ready[0], u32::MAX),
            Some(chance) => (ready[chance.usize(..ready.len())], chance.u32(1..=3)),
        }
    }

    /// Runs a warp until it waits or ends, at most `steps` steps.
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
                StepEvent::AtBarrier(barrier) => {
                    warps[at].waits = Some(WaitReason::Barrier(barrier));
                    self.arrive_at_barrier(warps, at, barrier, shared)
                        .map_err(|cause| self.fault(&warps[at], LaneFault { lane: 0, cause }))?;
                }
                StepEvent::AtClusterBarrier => {
                    warps[at].waits = Some(WaitReason::Cluster);
                    self.arrive_at_cluster_barrier(warps, shared);
                }
                StepEvent::AtMbarrier(phases) => warps[at].waits = Some(WaitReason::Mbarriers(phases)),
                StepEvent::WantsRegisters(count) => warps[at].waits = Some(WaitReason::Registers(count)),
            }
            break;
        }
        Ok(())
    }

    /// Ends the wait of a warp: acquires the clocks that the mbarriers hold, or takes the registers.
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

    /// Releases the warps that wait at a barrier once all threads of the barrier have arrived.
    fn arrive_at_barrier(
        &mut self,
        warps: &mut [Warp],
        at: usize,
        barrier: NamedBarrier,
        shared: &mut ClusterState,
    ) -> CheckResult<()> {
        let (id, found, rank) = (barrier.id, barrier.threads, warps[at].rank);
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
            shared.clocks.synchronize(&rows);
            waiting.into_iter().for_each(|i| warps[i].pass());
        }
        Ok(())
    }

    /// Ends the cluster if every warp has ended; otherwise the warps are deadlocked.
    fn end_or_deadlock(&mut self, warps: &[Warp], shared: &mut ClusterState) -> Result<(), SimFault> {
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

    /// Describes the wait of a warp.
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
            tma_loads: Vec::new(),
            stores: PendingTmaStores::default(),
            expects: vec![BTreeMap::new(); cluster as usize],
        }
    }

    /// Prepares the state for the cluster whose first block is `first`.
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

    /// Prepares the state for another block.
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
