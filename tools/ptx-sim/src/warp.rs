//! A warp: its program counter, active lanes and registers, and the execution of one step.

use super::access::{ResolvedAddress, WarpAccess};
use super::arith;
use super::convert;
use super::fault::{CheckResult, FaultCause, InLane, StepResult, malformed};
use super::flat_kernel::{FlatKernel, FlatStep};
use super::registers::{LaneValues, WarpRegisters, lanes};
use super::scheduler::{ClusterState, LaunchState, NamedBarrier};
use super::tensor_map::map_address;
use super::vector_clocks::ThreadRef;
use super::wgmma::{PendingWgmma, WgmmaShape};
use ptx_asm::Inst;
use ptx_asm::{GuardPredicate, PtxOperand, Reg, SpecialReg, StateSpace};

/// Execution state of a warp.
#[derive(Debug)]
pub(super) struct Warp {
    /// Index of the warp's block in the grid.
    pub(super) block: u32,
    /// Rank of the block in its cluster.
    pub(super) rank: u32,
    /// Index of the warp in its block.
    pub(super) number: u32,
    /// Mask of existing lanes: all 32, except in the last warp of some blocks.
    pub(super) present: u32,
    /// Program counter: index of the next step.
    pub(super) pc: usize,
    /// Mask of lanes that execute the next step.
    active: u32,
    stack: Vec<DivergenceFrame>,
    pub(super) registers: WarpRegisters,
    /// The wait that blocks the warp, if there is one.
    pub(super) waits: Option<WaitReason>,
    pub(super) wgmma: PendingWgmma,
    /// Registers per thread, as set by `setmaxnreg`.
    pub(super) allowance: u32,
    ended: bool,
}

/// The instruction that blocks a warp, with the condition that ends the wait.
#[derive(Clone, Debug)]
pub(super) enum WaitReason {
    /// `bar.sync`: other warps have not arrived.
    Barrier(NamedBarrier),
    /// `barrier.cluster`: other warps have not arrived.
    Cluster,
    /// `mbarrier` waits: phases are incomplete.
    Mbarriers(Vec<MbarrierPhase>),
    /// `setmaxnreg`: fewer registers than this number per thread are available.
    Registers(u32),
}

/// An mbarrier phase that a lane waits for.
#[derive(Clone, Copy, Debug)]
pub(super) struct MbarrierPhase {
    pub(super) lane: usize,
    pub(super) located: ResolvedAddress,
    pub(super) parity: u32,
    /// Whether the wait acquires at cluster scope.
    pub(super) cluster: bool,
}

/// A statement inside which lanes may diverge.
#[derive(Clone, Copy, Debug)]
struct DivergenceFrame {
    /// Mask of lanes that reconverge at the end of the statement.
    all: u32,
    /// Mask of lanes that take the other side of a branch.
    others: u32,
}

/// The effect of a step on the scheduling of the warp.
#[derive(Clone, Debug)]
pub(super) enum StepEvent {
    /// The warp can take its next step.
    Continues,
    /// The warp arrived at a barrier of the block.
    AtBarrier(NamedBarrier),
    /// The warp arrived at the cluster's barrier.
    AtClusterBarrier,
    /// The warp waits for mbarrier phases.
    AtMbarrier(Vec<MbarrierPhase>),
    /// The warp requests this number of registers per thread.
    WantsRegisters(u32),
    /// The warp has ended.
    Ended,
}

impl Warp {
    /// The initial state of warp `number` of a block with this index and rank in its cluster.
    pub(super) fn new(program: &FlatKernel<'_>, block: u32, rank: u32, number: u32) -> Warp {
        let threads = program.kernel.threads;
        let count = (threads - number * 32).min(32);
        let present = u32::MAX >> (32 - count);
        let registers = WarpRegisters::new(program);
        Warp {
            block,
            rank,
            number,
            present,
            pc: 0,
            active: present,
            stack: Vec::new(),
            registers,
            waits: None,
            wgmma: PendingWgmma::default(),
            allowance: program.allowance(),
            ended: false,
        }
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended
    }

    pub(super) fn is_at_cluster_barrier(&self) -> bool {
        matches!(self.waits, Some(WaitReason::Cluster))
    }

    /// Ends the wait: continues with the step after the instruction that blocked the warp.
    pub(super) fn pass(&mut self) {
        self.waits = None;
        self.pc += 1;
    }

    /// The thread of a lane.
    pub(super) fn thread_ref(&self, lane: usize) -> ThreadRef {
        let thread = (self.number * 32) as u16 + lane as u16;
        ThreadRef { block: self.block, rank: self.rank, thread, warp: self.number }
    }
}

impl LaunchState<'_> {
    /// Executes one step of a warp that is ready.
    pub(super) fn step(&mut self, warp: &mut Warp, shared: &mut ClusterState) -> StepResult<StepEvent> {
        let program = self.program;
        match program.steps.get(warp.pc) {
            None => {
                warp.ended = true;
                return Ok(StepEvent::Ended);
            }
            Some(&FlatStep::Inst { guard, inst, number }) => {
                return self.instruction(warp, shared, guard, (number, inst));
            }
            Some(&FlatStep::Split { guard, otherwise }) => {
                let all = warp.active;
                let then = warp.registers.holds(program, guard, all)?;
                warp.stack.push(DivergenceFrame { all, others: all & !then });
                warp.active = then;
                warp.pc = if then == 0 { otherwise } else { warp.pc + 1 };
            }
            Some(&FlatStep::Otherwise { end }) => {
                warp.active = warp.stack.last().map_or(0, |frame| frame.others);
                warp.pc = if warp.active == 0 { end } else { warp.pc + 1 };
            }
            Some(FlatStep::Join) => {
                warp.active = warp.stack.pop().map_or(0, |frame| frame.all);
                warp.pc += 1;
            }
            Some(FlatStep::Enter) => {
                warp.stack.push(DivergenceFrame { all: warp.active, others: 0 });
                warp.pc += 1;
            }
            Some(&FlatStep::Again { guard, body }) => {
                self.spend().in_lane(warp.active.trailing_zeros() as usize)?;
                warp.active = warp.registers.holds(program, guard, warp.active)?;
                if warp.active == 0 {
                    warp.active = warp.stack.pop().map_or(0, |frame| frame.all);
                    warp.pc += 1;
                } else {
                    warp.pc = body;
                }
            }
        }
        Ok(StepEvent::Continues)
    }

    /// Counts an instruction against the limit.
    fn spend(&mut self) -> CheckResult<()> {
        match self.left.checked_sub(1) {
            Some(left) => self.left = left,
            None => return Err(Box::new(FaultCause::Limit(self.limit))),
        }
        Ok(())
    }

    fn instruction(
        &mut self,
        warp: &mut Warp,
        shared: &mut ClusterState,
        guard: Option<GuardPredicate>,
        (number, inst): (usize, &Inst),
    ) -> StepResult<StepEvent> {
        self.spend().in_lane(warp.active.trailing_zeros() as usize)?;
        let mask = match guard {
            Some(guard) => warp.registers.holds(self.program, guard, warp.active)?,
            None => warp.active,
        };
        if mask != 0 {
            self.stats[number].ran(mask);
            if self.program.has_wgmma {
                warp.wgmma.touch(self.program, inst).in_lane(mask.trailing_zeros() as usize)?;
            }
            match *inst {
                Inst::Barrier { id, threads } => {
                    return self.barrier(warp, mask, id, threads).in_lane(mask.trailing_zeros() as usize);
                }
                Inst::ClusterBarrier => {
                    self.present(warp, mask).in_lane(mask.trailing_zeros() as usize)?;
                    return Ok(StepEvent::AtClusterBarrier);
                }
                Inst::MbarrierWait { at, parity, cluster } => {
                    return self.wait(warp, shared, mask, at, (parity, cluster));
                }
                Inst::SetMaxRegisters { count, increase } => {
                    return self.set_max_registers(warp, shared, (number, mask), (count, increase));
                }
                _ => {}
            }
            self.execute(warp, shared, mask, number, inst)?;
        }
        warp.pc += 1;
        Ok(StepEvent::Continues)
    }

    /// Executes [`Inst::Barrier`]. The scheduler blocks the warp until all threads of the barrier have
    /// arrived.
    fn barrier(&self, warp: &Warp, mask: u32, id: u32, threads: Option<u32>) -> CheckResult<StepEvent> {
        let most = self.program.kernel.threads.next_multiple_of(32);
        let threads = threads.unwrap_or(most);
        if id >= 16 || !(32..=most).contains(&threads) || !threads.is_multiple_of(32) {
            return malformed(format!("barrier {id} of {threads} threads, in a block of {most}"));
        }
        self.present(warp, mask)?;
        Ok(StepEvent::AtBarrier(NamedBarrier { id, threads }))
    }

    /// Checks that all existing lanes of the warp execute the instruction.
    fn present(&self, warp: &Warp, mask: u32) -> CheckResult<()> {
        if mask == warp.present {
            return Ok(());
        }
        Err(Box::new(FaultCause::PartialWarp { active: mask, expected: warp.present }))
    }

    /// Executes an instruction that cannot block, for the lanes of a non-empty mask.
    fn execute(
        &mut self,
        warp: &mut Warp,
        shared: &mut ClusterState,
        mask: u32,
        number: usize,
        inst: &Inst,
    ) -> StepResult<()> {
        let transfer = |space, ty, place| WarpAccess { inst: number, mask, space, ty, place };
        match inst {
            Inst::Load { space, ty, constant, dsts, from } => {
                self.load(warp, shared, transfer(*space, *ty, *from), dsts, *constant)
            }
            Inst::Store { space, ty, to, srcs } => self.store(warp, shared, transfer(*space, *ty, *to), srcs),
            Inst::Atomic { space, op, ty, dst, at, operands } => {
                self.atomic(warp, shared, transfer(*space, *ty, *at), *op, *dst, operands)
            }
            Inst::CpAsync { bytes, to, from, read } => {
                self.cp_async(warp, shared, (number, mask), *bytes, [*to, *from], *read)
            }
            Inst::CpAsyncCommit => {
                for lane in lanes(mask) {
                    shared.block_states[warp.rank as usize]
                        .copies
                        .commit(u32::from(warp.thread_ref(lane).thread));
                }
                Ok(())
            }
            Inst::CpAsyncWait { pending } => self.cp_async_wait(warp, shared, mask, *pending),
            Inst::Shuffle { mode, dst, src, lane, width } => {
                self.shuffle(warp, mask, *mode, (*dst, *src), *lane, *width)
            }
            Inst::Ldmatrix { transposed, dsts, from } => {
                self.ldmatrix(warp, shared, (number, mask), *transposed, dsts, *from)
            }
            Inst::Stmatrix { from, to } => self.stmatrix(warp, shared, (number, mask), from, *to),
            Inst::Mma { shape, d, a, b, c } => self.mma(warp, mask, *shape, [d, a, b, c]),
            Inst::MbarrierInit { at, count } => self.init_barrier(warp, shared, mask, *at, *count),
            Inst::FenceMbarrierInit => {
                self.fence_barriers(warp, shared, mask);
                Ok(())
            }
            Inst::MbarrierArrive { at } | Inst::MbarrierArriveCluster { at } => {
                self.arrive(warp, shared, mask, *at, 0)
            }
            Inst::MbarrierArriveExpectTx { at, bytes } => self.arrive(warp, shared, mask, *at, *bytes),
            Inst::Mapa { dst, at, block } => self.mapa(warp, mask, *dst, *at, *block),
            Inst::FenceProxyAsync => {
                let memory = &mut shared.block_states[warp.rank as usize];
                memory.proxy.fence(warp.number, mask, mask == warp.present);
                Ok(())
            }
            // Tensor maps are checked when they are used.
            Inst::PrefetchTensorMap { .. } => Ok(()),
            Inst::TmaLoad { map, at, to, barrier, multicast } => {
                self.tma_load(warp, shared, (number, mask), (*map, at), [*to, *barrier], *multicast)
            }
            Inst::TmaStore { map, at, from } => {
                self.tma_store(warp, shared, (number, mask), (*map, at), *from)
            }
            Inst::TmaStoreCommit => {
                self.commit_stores(warp, shared, mask);
                Ok(())
            }
            Inst::TmaStoreWait { pending } => {
                self.wait_for_stores(warp, shared, mask, *pending);
                Ok(())
            }
            Inst::WgmmaFence | Inst::WgmmaCommit | Inst::WgmmaWait { .. } => {
                self.order_wgmma(warp, shared, (number, mask), inst)
            }
            Inst::Wgmma { element, columns, d, a, b, transposed, accumulate } => {
                let shape = WgmmaShape { element: *element, columns: *columns, transposed: *transposed };
                self.wgmma(warp, shared, (number, mask), (shape, d), [*a, *b, *accumulate])
            }
            Inst::WarpBarrier => {
                self.present(warp, mask).in_lane(mask.trailing_zeros() as usize)?;
                let row = shared.clocks.row(warp.rank, warp.number);
                shared.clocks.synchronize(&[row]);
                Ok(())
            }
            // Only barriers order memory accesses here; see the race detector.
            Inst::Barrier { .. } => Ok(()),
            _ => self.compute(warp, mask, inst),
        }
    }

    /// Executes an instruction that only reads and writes registers of each lane.
    fn compute(&self, warp: &mut Warp, mask: u32, inst: &Inst) -> StepResult<()> {
        let (block, rank) = (warp.block, warp.rank);
        let mut each = LaneWise { program: self.program, registers: &mut warp.registers, mask, inst };
        match *inst {
            Inst::Move { dst, src } => each.map(dst, [src], |[a]| Some(a)),
            Inst::ReadSpecial { dst, special } => {
                let first = u64::from(warp.number) * 32;
                let values: LaneValues = std::array::from_fn(|lane| match special {
                    SpecialReg::Thread => first + lane as u64,
                    SpecialReg::Block => u64::from(block),
                    SpecialReg::Blocks => u64::from(self.blocks),
                    SpecialReg::Lane => lane as u64,
                    SpecialReg::ClusterBlock => u64::from(rank),
                });
                each.set(dst, &values)
            }
            Inst::ArrayAddress { dst, space, array } => {
                let address = match space {
                    StateSpace::Shared => self.program.shared.address(array),
                    StateSpace::Local => self.program.local.address(array),
                    StateSpace::Global => malformed("global memory has no arrays"),
                };
                let address = address.in_lane(mask.trailing_zeros() as usize)?;
                let rank = if space == StateSpace::Shared { rank } else { 0 };
                each.set(dst, &[super::cluster::in_cluster(rank, address.into()); 32])
            }
            Inst::LoadParam { dst, param } => match self.params.get(param as usize) {
                Some(&value) => each.set(dst, &[value; 32]),
                None => malformed(format!("there is no parameter {param}"))
                    .in_lane(mask.trailing_zeros() as usize),
            },
            Inst::TensorMapAddress { dst, map } if map < self.program.kernel.maps => {
                each.set(dst, &[map_address(map); 32])
            }
            Inst::Pack { dst, halves } => {
                let width = halves[0].class.bits();
                let halves = halves.map(PtxOperand::Reg);
                each.map(dst, halves, |[low, high]| (width < 64).then(|| low | high << width))
            }
            Inst::Unpack { halves: [low, high], src } => {
                let width = low.class.bits();
                let whole = *each.registers.get(each.program, src, mask)?;
                let high_half: LaneValues = std::array::from_fn(|lane| whole[lane].wrapping_shr(width));
                each.set(low, &whole)?;
                each.set(high, &high_half)
            }
            Inst::Unary { op, ty, dst, src } => each.map(dst, [src], |[a]| arith::unary(op, ty, a)),
            Inst::Binary { op, ty, dst, a, b } => each.map(dst, [a, b], |[a, b]| arith::binary(op, ty, a, b)),
            Inst::Ternary { op, ty, dst, a, b, c } => {
                each.map(dst, [a, b, c], |[a, b, c]| arith::ternary(op, ty, a, b, c))
            }
            Inst::Compare { cmp, ty, dst, a, b } => {
                each.map(dst, [a, b], |[a, b]| arith::compare(cmp, ty, a, b).map(u64::from))
            }
            Inst::Select { ty, dst, a, b, pred } => each.map(dst, [a, b, pred.into()], |[a, b, held]| {
                Some(arith::truncate(if held != 0 { a } else { b }, arith::width(ty)))
            }),
            Inst::Convert { to, from, rounding, dst, src } => {
                each.map(dst, [src.into()], |[a]| convert::convert(to, from, rounding, a))
            }
            _ => each.none(),
        }
    }
}

/// An instruction that computes each lane's result from that lane's operands.
struct LaneWise<'a> {
    program: &'a FlatKernel<'a>,
    registers: &'a mut WarpRegisters,
    mask: u32,
    inst: &'a Inst,
}

impl LaneWise<'_> {
    /// Computes a register from operands, lane by lane.
    fn map<const N: usize>(
        &mut self,
        dst: Reg,
        srcs: [PtxOperand; N],
        operation: impl Fn([u64; N]) -> Option<u64>,
    ) -> StepResult<()> {
        let mut given = [[0; 32]; N];
        for (given, src) in given.iter_mut().zip(srcs) {
            *given = self.registers.operand(self.program, src, self.mask)?;
        }
        let mut values = [0; 32];
        for lane in lanes(self.mask) {
            let Some(value) = operation(std::array::from_fn(|i| given[i][lane])) else {
                return self.none();
            };
            values[lane] = value;
        }
        self.set(dst, &values)
    }

    fn set(&mut self, dst: Reg, values: &LaneValues) -> StepResult<()> {
        self.registers.set(self.program, dst, self.mask, values);
        Ok(())
    }

    /// The fault of an operation that does not exist for its types.
    fn none(&self) -> StepResult<()> {
        malformed(format!("no such operation: {:?}", self.inst)).in_lane(self.mask.trailing_zeros() as usize)
    }
}
