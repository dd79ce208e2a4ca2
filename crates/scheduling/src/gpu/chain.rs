//! Accumulations into a scalar local, as the step `numerics` leaves them: what trees of threads may reorder in class `Fast`.

use lowered_ir::ir::{
    Affine, BinaryOp, Block, Expr, Indices, LocalId, LoopId, LoopKind, Space, Stmt, TernaryOp, Types, walk,
};
use tnode::DType;

use crate::analysis::nest::{Loop, Nest};
use crate::cpu::contraction::multiply_add;
use crate::gpu::Gpu;
use crate::numerics::{combined, neutral};
use codegen_core::access::{self, mentions};

/// `acc := acc op element` in loops over `ks`, all of which begin at 0 and have constant bounds.
#[derive(Clone)]
pub(crate) struct Chain {
    pub(crate) ks: Vec<Loop>,
    pub(crate) acc: LocalId,
    pub(crate) op: BinaryOp,
    pub(crate) dtype: DType,
    /// The value stored into `acc`, as written: an fma may hold the product and the sum.
    pub(crate) step: Expr,
}

/// A nest's body that is one accumulation, between straight statements of which those before only compute locals.
pub(crate) struct Reduction {
    pub(crate) before: Block,
    pub(crate) chain: Chain,
    pub(crate) after: Block,
}

impl Chain {
    /// The accumulation that a statement is.
    pub(crate) fn of(stmt: &Stmt, gpu: &Gpu) -> Option<Chain> {
        let mut ks = Vec::new();
        let mut stmt = stmt;
        while let Stmt::For { var, lo, hi, kind: LoopKind::Serial, body } = stmt {
            let [only] = body.as_slice() else { return None };
            ks.push(Loop { var: *var, lo: *lo, hi: *hi });
            stmt = only;
        }
        let Stmt::SetLocal { local: acc, index, value } = stmt else { return None };
        let (op, dtype) = (operation(value, *acc)?, gpu.names.local(*acc));
        let known = !ks.is_empty() && ks.iter().all(|k| k.extent().is_some_and(|extent| extent > 0));
        (index.is_empty() && known && neutral(op, dtype).is_some()).then(|| Chain {
            ks,
            acc: *acc,
            op,
            dtype,
            step: value.clone(),
        })
    }

    /// How many elements are accumulated.
    pub(crate) fn len(&self) -> i64 {
        self.ks.iter().filter_map(Loop::extent).fold(1, i64::saturating_mul)
    }

    /// Whether it is a contraction (`numerics.md`), which stays as written: a sum of products whose operands read no locals and each
    /// mention an output loop that the other does not.
    pub(crate) fn is_contraction(&self, outputs: &[Loop]) -> bool {
        let Some((a, b, _, _)) = multiply_add(&self.step) else { return false };
        let reads_local = |e: &Expr| {
            !access::locals_used(&[Stmt::set_scalar(self.acc, e.clone())]).is_subset(&[self.acc].into())
        };
        let alone = |x: &Expr, y: &Expr| outputs.iter().any(|l| mentions(x, l.var) && !mentions(y, l.var));
        !reads_local(a) && !reads_local(b) && alone(a, b) && alone(b, a)
    }

    /// The step with another accumulator, an element of an array or a scalar.
    pub(crate) fn step_into(&self, acc: LocalId, index: &Indices) -> Stmt {
        let value = walk::map_expr(self.step.clone(), &mut |e| match e {
            Expr::GetLocal { local, .. } if local == self.acc => {
                Expr::GetLocal { local: acc, index: index.clone() }
            }
            other => other,
        });
        Stmt::SetLocal { local: acc, index: index.clone(), value }
    }

    /// Takes a partial result into the accumulator.
    pub(crate) fn take(&self, partial: Expr) -> Stmt {
        Stmt::set_scalar(self.acc, combined(self.op, Expr::local(self.acc), partial))
    }

    /// The statement that a nest of the elements would store, to ask for contiguous loops.
    pub(crate) fn as_block(&self) -> Block {
        vec![Stmt::set_scalar(self.acc, self.step.clone())]
    }
}

impl Reduction {
    /// The reduction that a nest's body is.
    pub(crate) fn of(nest: &Nest, gpu: &Gpu) -> Option<Reduction> {
        let mut inner = nest.body.iter().enumerate().filter(|(_, stmt)| matches!(stmt, Stmt::For { .. }));
        let ((at, only), None) = (inner.next()?, inner.next()) else { return None };
        let chain = Chain::of(only, gpu)?;
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
        let own = access::declared(&before).contains(&chain.acc);
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
        let chain = Chain { step, ..self.chain.clone() };
        Reduction { before: replaced(&self.before), chain, after: replaced(&self.after) }
    }

    /// What the elements may read: the locals computed before, but for the accumulator.
    pub(crate) fn context(&self) -> Block {
        let is_acc = |stmt: &&Stmt| match stmt {
            Stmt::Declare { local, .. } | Stmt::SetLocal { local, .. } => *local != self.chain.acc,
            _ => false,
        };
        self.before.iter().filter(is_acc).cloned().collect()
    }
}

/// Whether a nest is a contraction.
pub(crate) fn is_contraction(nest: &Nest, gpu: &Gpu) -> bool {
    Reduction::of(nest, gpu).is_some_and(|found| found.chain.is_contraction(&nest.loops))
}

/// The operation of `acc op element` or of `fma(a, b, acc)`, if nothing else of the value reads `acc`.
fn operation(value: &Expr, acc: LocalId) -> Option<BinaryOp> {
    let is_acc = |e: &Expr| *e == Expr::local(acc);
    let free =
        |e: &Expr| !access::locals_used(&[Stmt::set_scalar(LocalId(u32::MAX), e.clone())]).contains(&acc);
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
