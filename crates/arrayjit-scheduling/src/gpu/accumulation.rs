//! Accumulations into a scalar local. In class `Fast` a tree reduction may reorder them.

use lowered_ir::ir::{
    Affine, BinaryOp, Block, Expr, Indices, LocalId, LoopId, LoopKind, Space, Stmt, TernaryOp, Types, walk,
};
use tnode::{DType, Scalar};

use crate::analysis::nest::{Loop, Nest};
use crate::analysis::reduction::multiply_add;
use crate::analysis::reduction::{combined, neutral};
use crate::gpu::context::Gpu;
use codegen_core::dependence::{self, mentions};

/// `acc := acc op element` in the loops `ks`, which start at 0 and have constant bounds.
#[derive(Clone)]
pub(crate) struct ScalarAccumulation {
    pub(crate) ks: Vec<Loop>,
    pub(crate) acc: LocalId,
    pub(crate) op: BinaryOp,
    pub(crate) dtype: DType,
    /// The value that each iteration stores into `acc`, as written: `acc + a * b` may be one fma.
    pub(crate) step: Expr,
}

/// A nest's body that contains one accumulation and otherwise statements without loops. The statements before
/// the accumulation compute locals only.
pub(crate) struct Reduction {
    pub(crate) before: Block,
    pub(crate) chain: ScalarAccumulation,
    pub(crate) after: Block,
}

impl ScalarAccumulation {
    /// Recognizes a statement that is one accumulation.
    pub(crate) fn of(stmt: &Stmt, gpu: &Gpu) -> Option<ScalarAccumulation> {
        let mut ks = Vec::new();
        let mut stmt = stmt;
        while let Stmt::For { var, lo, hi, kind: LoopKind::Serial, body } = stmt {
            let [only] = body.as_slice() else { return None };
            ks.push(Loop { var: *var, lo: *lo, hi: hi.clone() });
            stmt = only;
        }
        let Stmt::SetLocal { local: acc, index, value } = stmt else { return None };
        let (op, dtype) = (operation(value, *acc)?, gpu.names.local(*acc));
        let known = !ks.is_empty() && ks.iter().all(|k| k.extent().is_some_and(|extent| extent > 0));
        (index.is_empty() && known && neutral(op, dtype).is_some()).then(|| ScalarAccumulation {
            ks,
            acc: *acc,
            op,
            dtype,
            step: value.clone(),
        })
    }

    /// The number of accumulated elements.
    pub(crate) fn len(&self) -> i64 {
        self.ks.iter().filter_map(Loop::extent).fold(1, i64::saturating_mul)
    }

    /// Whether it is a contraction as the crate's README defines one: a sum of products whose operands read
    /// no locals, and each operand mentions an output loop that the other does not mention. Contractions keep
    /// their order.
    pub(crate) fn is_contraction(&self, outputs: &[Loop]) -> bool {
        let Some((a, b, _, _)) = multiply_add(&self.step) else { return false };
        let reads_local = |e: &Expr| {
            !dependence::locals_used(&[Stmt::set_scalar(self.acc, e.clone())]).is_subset(&[self.acc].into())
        };
        let alone = |x: &Expr, y: &Expr| outputs.iter().any(|l| mentions(x, l.var) && !mentions(y, l.var));
        !reads_local(a) && !reads_local(b) && alone(a, b) && alone(b, a)
    }

    /// The store of one iteration, with `acc[index]` in the place of the accumulator.
    pub(crate) fn step_into(&self, acc: LocalId, index: &Indices) -> Stmt {
        let value = walk::map_expr(self.step.clone(), &mut |e| match e {
            Expr::GetLocal { local, .. } if local == self.acc => {
                Expr::GetLocal { local: acc, index: index.clone() }
            }
            other => other,
        });
        Stmt::SetLocal { local: acc, index: index.clone(), value }
    }

    /// The store of one iteration with `mask` of each element and its neutral value in the element's place.
    /// Both factors of a product are masked, so that it stays one.
    pub(crate) fn masked(&self, mask: impl Fn(Expr, Expr) -> Expr) -> Option<Expr> {
        let start = Expr::Const(neutral(self.op, self.dtype)?);
        let zero = Expr::Const(Scalar::zero(self.dtype));
        if let Some((a, b, c, fused)) =
            multiply_add(&self.step).filter(|(.., c, _)| **c == Expr::local(self.acc))
        {
            let (a, b) = (mask(a.clone(), zero), mask(b.clone(), start));
            return Some(match fused {
                true => Expr::fma(a, b, c.clone()),
                false => Expr::binary(BinaryOp::Add, c.clone(), Expr::binary(BinaryOp::Mul, a, b)),
            });
        }
        let Expr::Binary { op, a, b } = &self.step else { return None };
        let masked =
            |e: &Expr| if *e == Expr::local(self.acc) { e.clone() } else { mask(e.clone(), start.clone()) };
        Some(Expr::binary(*op, masked(a), masked(b)))
    }

    /// Combines a partial result with the accumulator.
    pub(crate) fn take(&self, partial: Expr) -> Stmt {
        Stmt::set_scalar(self.acc, combined(self.op, Expr::local(self.acc), partial))
    }

    /// The accumulation as a block without its loops, to score loops by.
    pub(crate) fn as_block(&self) -> Block {
        vec![Stmt::set_scalar(self.acc, self.step.clone())]
    }
}

impl Reduction {
    /// Recognizes a nest whose body is one accumulation.
    pub(crate) fn of(nest: &Nest, gpu: &Gpu) -> Option<Reduction> {
        let mut inner = nest.body.iter().enumerate().filter(|(_, stmt)| matches!(stmt, Stmt::For { .. }));
        let ((at, only), None) = (inner.next()?, inner.next()) else { return None };
        let chain = ScalarAccumulation::of(only, gpu)?;
        let (before, after) = (nest.body[..at].to_vec(), nest.body[at + 1..].to_vec());
        let computes = |stmt: &Stmt| match stmt {
            Stmt::Declare { dims, space, .. } => dims.is_empty() && *space == Space::Register,
            Stmt::SetLocal { .. } | Stmt::Comment(_) => true,
            Stmt::For { .. }
            | Stmt::Set { .. }
            | Stmt::SetDynamic { .. }
            | Stmt::Zero { .. }
            | Stmt::Log { .. } => false,
        };
        let own = dependence::declared(&before).contains(&chain.acc);
        (own && before.iter().all(computes)).then_some(Reduction { before, chain, after })
    }

    /// The reduction with `by` in the place of a loop's variable.
    pub(crate) fn substituted(&self, var: LoopId, by: &Affine) -> Reduction {
        let replaced = |block: &Block| {
            let mut block = block.clone();
            walk::substitute(&mut block, var, by);
            block
        };
        let step = walk::map_expr_indices(self.chain.step.clone(), &mut |index| index.substitute(var, by));
        let chain = ScalarAccumulation { step, ..self.chain.clone() };
        Reduction { before: replaced(&self.before), chain, after: replaced(&self.after) }
    }

    /// The statements that compute the locals which elements read; the accumulator is left out.
    pub(crate) fn context(&self) -> Block {
        let is_acc = |stmt: &&Stmt| match stmt {
            Stmt::Declare { local, .. } | Stmt::SetLocal { local, .. } => *local != self.chain.acc,
            _ => false,
        };
        self.before.iter().filter(is_acc).cloned().collect()
    }
}

pub(crate) fn is_contraction(nest: &Nest, gpu: &Gpu) -> bool {
    Reduction::of(nest, gpu).is_some_and(|found| found.chain.is_contraction(&nest.loops))
}

/// The operation of `acc op element` or of `fma(a, b, acc)`, if `acc` occurs nowhere else in the value.
fn operation(value: &Expr, acc: LocalId) -> Option<BinaryOp> {
    let is_acc = |e: &Expr| *e == Expr::local(acc);
    let free =
        |e: &Expr| !dependence::locals_used(&[Stmt::set_scalar(LocalId(u32::MAX), e.clone())]).contains(&acc);
    match value {
        Expr::Binary { op: op @ (BinaryOp::Add | BinaryOp::Mul), a, b } => {
            ((is_acc(a) && free(b)) || (is_acc(b) && free(a))).then_some(*op)
        }
        Expr::Binary { op: op @ (BinaryOp::Max | BinaryOp::Min), a, b } => {
            (is_acc(b) && free(a)).then_some(*op)
        }
        Expr::Ternary { op: TernaryOp::Fma, a, b, c } => {
            (is_acc(c) && free(a) && free(b)).then_some(BinaryOp::Add)
        }
        _ => None,
    }
}
