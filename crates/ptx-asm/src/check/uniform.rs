//! That what threads do together, all of them do.
//!
//! A register is alike in a block, alike in each warp, or in neither: the most that its definitions say, found by iterating until nothing changes.
//! What differs between threads comes from their numbers, from atomics, and from control flow that differs; a load is as alike as its address, which
//! holds of memory that nobody changes meanwhile. The number of a warp, `thread / 32`, is alike in the warp, and so is what lanes tell each other.

use std::collections::{HashMap, HashSet};

use super::ProgramError;
use crate::inst::{Binary, Inst, Shuffle};
use crate::print::reg;
use crate::program::{Base, Guard, Kernel, Operand, Place, Reg, Space, Special, Stmt};

/// Who has the same value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Alike {
    Block,
    Warp,
    Nobody,
}

pub(super) fn check(kernel: &Kernel) -> Result<(), ProgramError> {
    let mut uniformity = Uniformity { numbers: thread_numbers(&kernel.body), ..Uniformity::default() };
    loop {
        uniformity.changed = false;
        uniformity.block(&kernel.body, Alike::Block);
        if !uniformity.changed {
            break;
        }
    }
    together(kernel, &kernel.body, &uniformity, &mut Vec::new())
}

#[derive(Default)]
struct Uniformity {
    known: HashMap<Reg, Alike>,
    /// Registers that hold the thread's number in its block and nothing else.
    numbers: HashSet<Reg>,
    changed: bool,
}

impl Uniformity {
    fn of(&self, reg: Reg) -> Alike {
        self.known.get(&reg).copied().unwrap_or(Alike::Block)
    }

    fn place(&self, place: Place) -> Alike {
        match place.base {
            Base::Reg(reg) => self.of(reg),
            Base::Array(_) => Alike::Block,
        }
    }

    fn raise(&mut self, reg: Reg, to: Alike) {
        let known = self.known.entry(reg).or_insert(Alike::Block);
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
        let mut alike = Alike::Block;
        inst.registers(&mut |reg| alike = alike.max(self.of(reg)), &mut |_| ());
        let result = match inst {
            Inst::Where { special: Special::Thread | Special::Lane, .. } => Alike::Nobody,
            Inst::Atomic { .. } | Inst::LoadMatrix { .. } | Inst::Mma { .. } => Alike::Nobody,
            Inst::Load { space: Space::Local, .. } => Alike::Nobody,
            Inst::Load { from, .. } => self.place(*from),
            Inst::Vote { .. } => alike.min(Alike::Warp),
            Inst::Shuffle { mode: Shuffle::Index, lane: Operand::Const(_), width: 32, .. } => {
                alike.min(Alike::Warp)
            }
            // Of a thread's number all but the lane.
            Inst::Binary {
                op: Binary::ShiftRight, a: Operand::Reg(a), b: Operand::Const(5..=31), ..
            } if self.numbers.contains(a) => Alike::Warp,
            _ => alike,
        };
        inst.registers(&mut |_| (), &mut |reg| self.raise(reg, result.max(flow)));
    }
}

/// The registers that nothing but the thread's number is written into.
fn thread_numbers(body: &[Stmt]) -> HashSet<Reg> {
    let (mut numbers, mut others) = (HashSet::new(), HashSet::new());
    each_inst(body, &mut |inst| {
        let is_number = matches!(inst, Inst::Where { special: Special::Thread, .. });
        let into = if is_number { &mut numbers } else { &mut others };
        inst.registers(&mut |_| (), &mut |reg| {
            into.insert(reg);
        });
    });
    &numbers - &others
}

fn each_inst(block: &[Stmt], f: &mut dyn FnMut(&Inst)) {
    for stmt in block {
        match stmt {
            Stmt::Inst(inst) | Stmt::When(_, inst) => f(inst),
            Stmt::If { then, otherwise, .. } => {
                each_inst(then, f);
                each_inst(otherwise, f);
            }
            Stmt::Loop { body, .. } => each_inst(body, f),
            Stmt::Comment(_) => {}
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
        Inst::Barrier { threads: None, .. } => (Alike::Block, "the threads of a block"),
        Inst::Barrier { threads: Some(_), .. }
        | Inst::Shuffle { .. }
        | Inst::Vote { .. }
        | Inst::LoadMatrix { .. }
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
