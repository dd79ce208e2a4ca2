//! Uniformity analysis: checks that the threads of a collective instruction execute it together.
//!
//! For each register the analysis finds the largest group of threads that agree on its value: the cluster,
//! the block, each warpgroup of four warps, each warp, or only the thread itself. It starts from the cluster
//! and narrows the groups until nothing changes. Values differ between threads if they come from the thread's
//! index, from atomics, or from divergent control flow. A load is as uniform as its address, provided that no
//! thread changes the memory meanwhile. Votes and shuffles that read one lane are uniform in a warp, and so
//! are parts of the thread index that are equal for 32 consecutive threads; see [`indices`].

mod indices;

use std::collections::HashMap;

use self::indices::IndexOffsets;
use super::PtxError;
use crate::inst::{Inst, ShuffleMode};
use crate::print::reg;
use crate::program::{
    AddressBase, AddressOperand, GuardPredicate, PtxKernel, PtxOperand, PtxStmt, Reg, SpecialReg, StateSpace,
};

/// The largest group of threads that agree on a value, in order of decreasing size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum UniformGroup {
    Cluster,
    Block,
    Warpgroup,
    Warp,
    Thread,
}

impl UniformGroup {
    /// The group of threads that agree on a value, if the value is equal within each aligned run of `threads`
    /// consecutive threads.
    fn of_consecutive_threads(threads: u32) -> UniformGroup {
        match threads {
            128.. => UniformGroup::Warpgroup,
            32.. => UniformGroup::Warp,
            _ => UniformGroup::Thread,
        }
    }
}

pub(super) fn check(kernel: &PtxKernel) -> Result<(), PtxError> {
    let mut uniformity = UniformityAnalysis {
        threads: IndexOffsets::of(&kernel.body, SpecialReg::Thread),
        blocks: IndexOffsets::of(&kernel.body, SpecialReg::Block),
        cluster: kernel.cluster.max(1),
        ..UniformityAnalysis::default()
    };
    loop {
        uniformity.changed = false;
        uniformity.block(&kernel.body, UniformGroup::Cluster);
        if !uniformity.changed {
            break;
        }
    }
    collectives(kernel, &kernel.body, &uniformity, &mut Vec::new())
}

#[derive(Default)]
struct UniformityAnalysis {
    known: HashMap<Reg, UniformGroup>,
    /// Registers that hold the thread's index in its block plus a constant.
    threads: IndexOffsets,
    /// Registers that hold the block's index plus a constant.
    blocks: IndexOffsets,
    /// Blocks of a cluster.
    cluster: u32,
    changed: bool,
}

impl UniformityAnalysis {
    fn of(&self, reg: Reg) -> UniformGroup {
        self.known.get(&reg).copied().unwrap_or(UniformGroup::Cluster)
    }

    fn address(&self, address: AddressOperand) -> UniformGroup {
        match address.base {
            AddressBase::Reg(reg) => self.of(reg),
            AddressBase::Array(_) => UniformGroup::Cluster,
        }
    }

    fn narrow(&mut self, reg: Reg, to: UniformGroup) {
        let known = self.known.entry(reg).or_insert(UniformGroup::Cluster);
        if to > *known {
            *known = to;
            self.changed = true;
        }
    }

    /// Visits statements; `flow` is the group of threads that execute them together.
    fn block(&mut self, stmts: &[PtxStmt], flow: UniformGroup) {
        for stmt in stmts {
            match stmt {
                PtxStmt::Inst(inst) => self.inst(inst, flow),
                PtxStmt::Predicated(guard, inst) => self.inst(inst, flow.max(self.of(guard.pred))),
                PtxStmt::If { guard, then, otherwise } => {
                    let flow = flow.max(self.of(guard.pred));
                    self.block(then, flow);
                    self.block(otherwise, flow);
                }
                PtxStmt::Loop { body, repeat_while } => {
                    // Threads that repeat the body run without the threads that have left the loop.
                    let flow = flow.max(self.of(repeat_while.pred));
                    self.block(body, flow);
                }
                PtxStmt::Comment(_) => {}
            }
        }
    }

    fn inst(&mut self, inst: &Inst, flow: UniformGroup) {
        let mut operands = UniformGroup::Cluster;
        inst.registers(&mut |reg| operands = operands.max(self.of(reg)), &mut |_| ());
        let result = match inst {
            Inst::ReadSpecial { special: SpecialReg::Thread | SpecialReg::Lane, .. } => UniformGroup::Thread,
            Inst::ReadSpecial { special: SpecialReg::Block | SpecialReg::ClusterBlock, .. }
                if self.cluster > 1 =>
            {
                UniformGroup::Block
            }
            Inst::Atomic { .. }
            | Inst::Ldmatrix { .. }
            | Inst::Mma { .. }
            | Inst::Wgmma { .. }
            | Inst::Load { space: StateSpace::Local, .. } => UniformGroup::Thread,
            Inst::Load { space: StateSpace::Shared, from, .. } => {
                self.address(*from).max(UniformGroup::Block)
            }
            Inst::Load { from, .. } => self.address(*from),
            Inst::Shuffle { mode: ShuffleMode::Index, lane: PtxOperand::Const(_), width: 32, .. } => {
                operands.min(UniformGroup::Warp)
            }
            _ => operands.min(self.of_indices(inst)),
        };
        inst.registers(&mut |_| (), &mut |reg| self.narrow(reg, result.max(flow)));
    }

    /// Uniformity of a result computed from only the thread index, or only the block index, and constants.
    fn of_indices(&self, inst: &Inst) -> UniformGroup {
        if let Some(threads) = self.threads.uniform_run(inst) {
            return UniformGroup::of_consecutive_threads(threads);
        }
        match self.blocks.uniform_run(inst) {
            Some(blocks) if blocks.is_multiple_of(self.cluster) => UniformGroup::Cluster,
            _ => UniformGroup::Thread,
        }
    }
}

/// Checks that the guards around each collective instruction are uniform for the threads that execute it.
fn collectives(
    kernel: &PtxKernel,
    stmts: &[PtxStmt],
    uniformity: &UniformityAnalysis,
    guards: &mut Vec<GuardPredicate>,
) -> Result<(), PtxError> {
    for stmt in stmts {
        match stmt {
            PtxStmt::Inst(inst) => collective(kernel, inst, uniformity, guards)?,
            PtxStmt::Predicated(guard, inst) => {
                guards.push(*guard);
                collective(kernel, inst, uniformity, guards)?;
                guards.pop();
            }
            PtxStmt::If { guard, then, otherwise } => {
                guards.push(*guard);
                collectives(kernel, then, uniformity, guards)?;
                collectives(kernel, otherwise, uniformity, guards)?;
                guards.pop();
            }
            PtxStmt::Loop { body, repeat_while } => {
                guards.push(*repeat_while);
                collectives(kernel, body, uniformity, guards)?;
                guards.pop();
            }
            PtxStmt::Comment(_) => {}
        }
    }
    Ok(())
}

fn collective(
    kernel: &PtxKernel,
    inst: &Inst,
    uniformity: &UniformityAnalysis,
    guards: &[GuardPredicate],
) -> Result<(), PtxError> {
    let (required, threads) = match inst {
        Inst::ClusterBarrier => (UniformGroup::Cluster, "the threads of a cluster"),
        Inst::Barrier { threads: None, .. } => (UniformGroup::Block, "the threads of a block"),
        Inst::SetMaxRegisters { .. }
        | Inst::WgmmaFence
        | Inst::Wgmma { .. }
        | Inst::WgmmaCommit
        | Inst::WgmmaWait { .. } => (UniformGroup::Warpgroup, "the warps of a warpgroup"),
        Inst::Barrier { threads: Some(_), .. }
        | Inst::WarpBarrier
        | Inst::Shuffle { .. }
        | Inst::Ldmatrix { .. }
        | Inst::Stmatrix { .. }
        | Inst::Mma { .. } => (UniformGroup::Warp, "the lanes of a warp"),
        _ => return Ok(()),
    };
    match guards.iter().find(|guard| uniformity.of(guard.pred) > required) {
        None => Ok(()),
        Some(guard) => Err(PtxError::Divergent {
            kernel: kernel.name.clone(),
            inst: Box::new(inst.clone()),
            register: reg(guard.pred),
            threads,
        }),
    }
}
