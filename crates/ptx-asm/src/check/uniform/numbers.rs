//! What is computed from a number that neighbours have in order, such as the thread's: how many of them have it alike.
//!
//! A register that nothing else is ever written into holds the number plus a multiple of some `m`. Then `⌊register / c⌋` is the same for `c` neighbours, from multiples
//! of `c` on, if `c` divides `m`; and all that comparisons with a multiple of `c`, shifts to the right, divisions by `c` and masks without the bits below `c` see of it is that.

use std::collections::{HashMap, HashSet};

use crate::inst::{Binary, Cmp, Inst, Ty};
use crate::program::{Block, Operand, Reg, Special, Stmt};

/// Registers that hold the number plus a multiple of this.
#[derive(Default)]
pub(super) struct Numbers(HashMap<Reg, u32>);

/// Divides every multiple that matters: a block has no more threads, a cluster no more blocks.
const MOST: u32 = 1 << 10;

impl Numbers {
    /// Those of a body.
    pub(super) fn of(body: &Block, special: Special) -> Numbers {
        let (mut once, mut often) = (HashSet::new(), HashSet::new());
        each_inst(body, &mut |inst| {
            inst.registers(&mut |_| (), &mut |reg| {
                if !once.insert(reg) {
                    often.insert(reg);
                }
            });
        });
        let mut numbers = Numbers::default();
        each_inst(body, &mut |inst| {
            if let Some((reg, multiple)) =
                numbers.result(inst, special).filter(|(reg, _)| !often.contains(reg))
            {
                numbers.0.insert(reg, multiple);
            }
        });
        numbers
    }

    /// The register that an instruction makes such a number, and of what that is a multiple.
    fn result(&self, inst: &Inst, special: Special) -> Option<(Reg, u32)> {
        match *inst {
            Inst::Where { dst, special: found } if found == special => Some((dst, MOST)),
            Inst::Move { dst, src: Operand::Reg(src) } => Some((dst, *self.0.get(&src)?)),
            Inst::Binary { op: Binary::Add, dst, a: Operand::Const(by), b: Operand::Reg(src), .. }
            | Inst::Binary {
                op: Binary::Add | Binary::Sub,
                dst,
                a: Operand::Reg(src),
                b: Operand::Const(by),
                ..
            } => Some((dst, common(*self.0.get(&src)?, by))),
            _ => None,
        }
    }

    /// For how many neighbours the result is the same, if it is computed from such a number and constants alone.
    pub(super) fn alike(&self, inst: &Inst) -> Option<u32> {
        let (number, apart) = match *inst {
            Inst::Binary { op, ty: Ty::U32 | Ty::B32, a: Operand::Reg(a), b: Operand::Const(by), .. } => {
                (a, binary(op, by)?)
            }
            Inst::Compare {
                cmp, ty: Ty::U32 | Ty::S32, a: Operand::Reg(a), b: Operand::Const(with), ..
            } => (a, comparison(cmp, with)?),
            Inst::Compare {
                cmp, ty: Ty::U32 | Ty::S32, a: Operand::Const(with), b: Operand::Reg(b), ..
            } => (b, comparison(turned(cmp), with)?),
            _ => return None,
        };
        Some(common(*self.0.get(&number)?, apart))
    }
}

/// The greatest power of two that divides both, and [`MOST`].
fn common(a: u32, b: u64) -> u32 {
    1 << (u64::from(a) | b | u64::from(MOST)).trailing_zeros()
}

/// By what the floor of the number has to be divided for all that an operation sees of it.
fn binary(op: Binary, by: u64) -> Option<u64> {
    match op {
        Binary::ShiftRight => 1_u64.checked_shl(u32::try_from(by).ok()?),
        Binary::Div if by > 0 => Some(by),
        // The bits below the mask's lowest are not seen.
        Binary::And => Some(by),
        _ => None,
    }
}

fn comparison(cmp: Cmp, with: u64) -> Option<u64> {
    match cmp {
        Cmp::Lt | Cmp::Ge => Some(with),
        Cmp::Le | Cmp::Gt => with.checked_add(1),
        _ => None,
    }
}

/// The comparison with its sides exchanged.
fn turned(cmp: Cmp) -> Cmp {
    match cmp {
        Cmp::Lt => Cmp::Gt,
        Cmp::Le => Cmp::Ge,
        Cmp::Gt => Cmp::Lt,
        Cmp::Ge => Cmp::Le,
        other => other,
    }
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
