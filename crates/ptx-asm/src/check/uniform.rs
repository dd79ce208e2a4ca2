//! That what threads do together, all of them do.
//!
//! A register is alike in a cluster of blocks, in a block, in each warpgroup of four warps, in each warp, or in none: the most that its definitions say, found by
//! iterating until nothing changes. What differs between threads comes from their numbers, from atomics, and from control flow that differs; a load is as
//! alike as its address, which holds of memory that nobody changes meanwhile. What lanes tell each other is alike in the warp, and so is what of a
//! thread's number is the same for 32 neighbours; see [`numbers`].

mod numbers; // what threads compute from their numbers

use std::collections::HashMap;

use self::numbers::Numbers;
use super::ProgramError;
use crate::inst::{Inst, Shuffle};
use crate::print::reg;
use crate::program::{Base, Guard, Kernel, Operand, Place, Reg, Space, Special, Stmt};

/// Who has the same value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Alike {
    Cluster,
    Block,
    Warpgroup,
    Warp,
    Nobody,
}

impl Alike {
    /// Who has alike what is alike for so many neighbouring threads, from multiples of as many on.
    fn of_neighbours(threads: u32) -> Alike {
        match threads {
            128.. => Alike::Warpgroup,
            32.. => Alike::Warp,
            _ => Alike::Nobody,
        }
    }
}

pub(super) fn check(kernel: &Kernel) -> Result<(), ProgramError> {
    let mut uniformity = Uniformity {
        threads: Numbers::of(&kernel.body, Special::Thread),
        blocks: Numbers::of(&kernel.body, Special::Block),
        cluster: kernel.cluster.max(1),
        ..Uniformity::default()
    };
    loop {
        uniformity.changed = false;
        uniformity.block(&kernel.body, Alike::Cluster);
        if !uniformity.changed {
            break;
        }
    }
    together(kernel, &kernel.body, &uniformity, &mut Vec::new())
}

#[derive(Default)]
struct Uniformity {
    known: HashMap<Reg, Alike>,
    /// What is computed from the thread's number in its block.
    threads: Numbers,
    /// What is computed from the block's number.
    blocks: Numbers,
    /// How many blocks a cluster has.
    cluster: u32,
    changed: bool,
}

impl Uniformity {
    fn of(&self, reg: Reg) -> Alike {
        self.known.get(&reg).copied().unwrap_or(Alike::Cluster)
    }

    fn place(&self, place: Place) -> Alike {
        match place.base {
            Base::Reg(reg) => self.of(reg),
            Base::Array(_) => Alike::Cluster,
        }
    }

    fn raise(&mut self, reg: Reg, to: Alike) {
        let known = self.known.entry(reg).or_insert(Alike::Cluster);
        if to > *known {
            *known = to;
            self.changed = true;
        }
    }

    /// `flow` says who runs the block together.
    fn block(&mut self, stmts: &[Stmt], flow: Alike) {
        for stmt in stmts {
            match stmt {
                Stmt::Inst(inst) => self.inst(inst, flow),
                Stmt::When(guard, inst) => self.inst(inst, flow.max(self.of(guard.pred))),
                Stmt::If { guard, then, otherwise } => {
                    let flow = flow.max(self.of(guard.pred));
                    self.block(then, flow);
                    self.block(otherwise, flow);
                }
                Stmt::Loop { body, again } => {
                    // Who runs it again leaves the others behind.
                    let flow = flow.max(self.of(again.pred));
                    self.block(body, flow);
                }
                Stmt::Comment(_) => {}
            }
        }
    }

    fn inst(&mut self, inst: &Inst, flow: Alike) {
        let mut alike = Alike::Cluster;
        inst.registers(&mut |reg| alike = alike.max(self.of(reg)), &mut |_| ());
        let result = match inst {
            Inst::Where { special: Special::Thread | Special::Lane, .. } => Alike::Nobody,
            Inst::Where { special: Special::Block | Special::ClusterBlock, .. } if self.cluster > 1 => {
                Alike::Block
            }
            Inst::Atomic { .. }
            | Inst::LoadMatrix { .. }
            | Inst::Mma { .. }
            | Inst::WarpgroupMma { .. }
            | Inst::Load { space: Space::Local, .. } => Alike::Nobody,
            Inst::Load { space: Space::Shared, from, .. } => self.place(*from).max(Alike::Block),
            Inst::Load { from, .. } => self.place(*from),
            Inst::Vote { .. } => alike.min(Alike::Warp),
            Inst::Shuffle { mode: Shuffle::Index, lane: Operand::Const(_), width: 32, .. } => {
                alike.min(Alike::Warp)
            }
            _ => alike.min(self.of_numbers(inst)),
        };
        inst.registers(&mut |_| (), &mut |reg| self.raise(reg, result.max(flow)));
    }

    /// What an instruction's result is if all that it has from the thread, or the block, is its number.
    fn of_numbers(&self, inst: &Inst) -> Alike {
        if let Some(threads) = self.threads.alike(inst) {
            return Alike::of_neighbours(threads);
        }
        match self.blocks.alike(inst) {
            Some(blocks) if blocks.is_multiple_of(self.cluster) => Alike::Cluster,
            _ => Alike::Nobody,
        }
    }
}

/// Checks that what is done together stands behind guards that those who do it have alike.
fn together(
    kernel: &Kernel,
    stmts: &[Stmt],
    uniformity: &Uniformity,
    guards: &mut Vec<Guard>,
) -> Result<(), ProgramError> {
    for stmt in stmts {
        match stmt {
            Stmt::Inst(inst) => reached(kernel, inst, uniformity, guards)?,
            Stmt::When(guard, inst) => {
                guards.push(*guard);
                reached(kernel, inst, uniformity, guards)?;
                guards.pop();
            }
            Stmt::If { guard, then, otherwise } => {
                guards.push(*guard);
                together(kernel, then, uniformity, guards)?;
                together(kernel, otherwise, uniformity, guards)?;
                guards.pop();
            }
            Stmt::Loop { body, again } => {
                guards.push(*again);
                together(kernel, body, uniformity, guards)?;
                guards.pop();
            }
            Stmt::Comment(_) => {}
        }
    }
    Ok(())
}

fn reached(
    kernel: &Kernel,
    inst: &Inst,
    uniformity: &Uniformity,
    guards: &[Guard],
) -> Result<(), ProgramError> {
    let (most, threads) = match inst {
        Inst::ClusterBarrier => (Alike::Cluster, "the threads of a cluster"),
        Inst::Barrier { threads: None, .. } => (Alike::Block, "the threads of a block"),
        Inst::SetMaxRegisters { .. }
        | Inst::WarpgroupFence
        | Inst::WarpgroupMma { .. }
        | Inst::WarpgroupCommit
        | Inst::WarpgroupWait { .. } => (Alike::Warpgroup, "the warps of a warpgroup"),
        Inst::Barrier { threads: Some(_), .. }
        | Inst::WarpBarrier
        | Inst::Shuffle { .. }
        | Inst::Vote { .. }
        | Inst::LoadMatrix { .. }
        | Inst::StoreMatrix { .. }
        | Inst::Mma { .. } => (Alike::Warp, "the lanes of a warp"),
        _ => return Ok(()),
    };
    match guards.iter().find(|guard| uniformity.of(guard.pred) > most) {
        None => Ok(()),
        Some(guard) => Err(ProgramError::Divergent {
            kernel: kernel.name.clone(),
            inst: Box::new(inst.clone()),
            register: reg(guard.pred),
            threads,
        }),
    }
}
