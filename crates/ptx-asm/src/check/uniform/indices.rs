//! Values computed from a thread or block index, and how many consecutive threads or blocks agree on them.
//!
//! The analysis finds registers that are written once and hold the index plus a multiple of some `m`. If `c`
//! divides `m`, then `⌊register / c⌋` is equal for each aligned run of `c` consecutive indices. Comparisons
//! with a multiple of `c`, right shifts and divisions by `c`, and masks without the bits below `c` depend on
//! that quotient alone.

use std::collections::{HashMap, HashSet};

use crate::inst::{CmpOp, Inst, PtxBinaryOp, Ty};
use crate::program::{PtxOperand, PtxStmt, Reg, SpecialReg, StmtList};

/// For each register that holds the index plus a constant: a power of two that divides the constant.
#[derive(Default)]
pub(super) struct IndexOffsets(HashMap<Reg, u32>);

/// The longest run of indices that is tracked. No block has more threads, and no cluster has more blocks.
const MAX_RUN: u32 = 1 << 10;

impl IndexOffsets {
    /// Finds the registers of `body` that hold special register `special` plus a constant.
    pub(super) fn of(body: &StmtList, special: SpecialReg) -> IndexOffsets {
        let (mut once, mut often) = (HashSet::new(), HashSet::new());
        each_inst(body, &mut |inst| {
            inst.registers(&mut |_| (), &mut |reg| {
                if !once.insert(reg) {
                    often.insert(reg);
                }
            });
        });
        let mut offsets = IndexOffsets::default();
        each_inst(body, &mut |inst| {
            if let Some((reg, multiple)) =
                offsets.result(inst, special).filter(|(reg, _)| !often.contains(reg))
            {
                offsets.0.insert(reg, multiple);
            }
        });
        offsets
    }

    /// The register that an instruction sets to the index plus a constant, and a power of two that divides
    /// the constant.
    fn result(&self, inst: &Inst, special: SpecialReg) -> Option<(Reg, u32)> {
        match *inst {
            Inst::ReadSpecial { dst, special: found } if found == special => Some((dst, MAX_RUN)),
            Inst::Move { dst, src: PtxOperand::Reg(src) } => Some((dst, *self.0.get(&src)?)),
            Inst::Binary {
                op: PtxBinaryOp::Add,
                dst,
                a: PtxOperand::Const(by),
                b: PtxOperand::Reg(src),
                ..
            }
            | Inst::Binary {
                op: PtxBinaryOp::Add | PtxBinaryOp::Sub,
                dst,
                a: PtxOperand::Reg(src),
                b: PtxOperand::Const(by),
                ..
            } => Some((dst, common(*self.0.get(&src)?, by))),
            _ => None,
        }
    }

    /// Length of the aligned runs of consecutive indices on which the result is equal; `None` if it depends
    /// on more than the index and constants.
    pub(super) fn uniform_run(&self, inst: &Inst) -> Option<u32> {
        let (index, boundary) = match *inst {
            Inst::Binary {
                op,
                ty: Ty::U32 | Ty::B32,
                a: PtxOperand::Reg(a),
                b: PtxOperand::Const(by),
                ..
            } => (a, binary(op, by)?),
            Inst::Compare {
                cmp,
                ty: Ty::U32 | Ty::S32,
                a: PtxOperand::Reg(a),
                b: PtxOperand::Const(with),
                ..
            } => (a, comparison(cmp, with)?),
            Inst::Compare {
                cmp,
                ty: Ty::U32 | Ty::S32,
                a: PtxOperand::Const(with),
                b: PtxOperand::Reg(b),
                ..
            } => (b, comparison(swapped(cmp), with)?),
            _ => return None,
        };
        Some(common(*self.0.get(&index)?, boundary))
    }
}

/// The greatest power of two that divides `a`, `b` and [`MAX_RUN`].
fn common(a: u32, b: u64) -> u32 {
    1 << (u64::from(a) | b | u64::from(MAX_RUN)).trailing_zeros()
}

/// The `c` for which the operation depends on the index only through `⌊index / c⌋`.
fn binary(op: PtxBinaryOp, by: u64) -> Option<u64> {
    match op {
        PtxBinaryOp::ShiftRight => 1_u64.checked_shl(u32::try_from(by).ok()?),
        PtxBinaryOp::Div if by > 0 => Some(by),
        // The operation ignores the bits below the lowest set bit of the mask.
        PtxBinaryOp::And => Some(by),
        _ => None,
    }
}

/// The `c` for which a comparison with a constant depends on the index only through `⌊index / c⌋`.
fn comparison(cmp: CmpOp, with: u64) -> Option<u64> {
    match cmp {
        CmpOp::Lt | CmpOp::Ge => Some(with),
        CmpOp::Le | CmpOp::Gt => with.checked_add(1),
        _ => None,
    }
}

/// The comparison with its operands swapped.
fn swapped(cmp: CmpOp) -> CmpOp {
    match cmp {
        CmpOp::Lt => CmpOp::Gt,
        CmpOp::Le => CmpOp::Ge,
        CmpOp::Gt => CmpOp::Lt,
        CmpOp::Ge => CmpOp::Le,
        other => other,
    }
}

fn each_inst(block: &[PtxStmt], f: &mut dyn FnMut(&Inst)) {
    for stmt in block {
        match stmt {
            PtxStmt::Inst(inst) | PtxStmt::Predicated(_, inst) => f(inst),
            PtxStmt::If { then, otherwise, .. } => {
                each_inst(then, f);
                each_inst(otherwise, f);
            }
            PtxStmt::Loop { body, .. } => each_inst(body, f),
            PtxStmt::Comment(_) => {}
        }
    }
}
