//! The operands and loops of a contraction that is tiled.

use lowered_ir::ir::{Expr, Stmt};
use tnode::Scalar;

use crate::analysis::nest::{self, Loop, Nest};
use crate::analysis::reduction::multiply_add;
use crate::gpu::accumulation::Reduction;
use crate::gpu::context::Gpu;
use codegen_core::dependence::mentions;

/// A contraction and the loops that a tile splits.
pub(crate) struct TiledMatmul {
    pub(crate) reduction: Reduction,
    /// The operand that depends on the rows.
    pub(crate) a: Expr,
    /// The operand that depends on the columns.
    pub(crate) b: Expr,
    /// Whether multiplication and addition are one fma, and whether `a` is its first operand.
    pub(crate) fused: bool,
    pub(crate) a_first: bool,
    pub(crate) rows: Loop,
    pub(crate) columns: Loop,
    pub(crate) batch: Vec<Loop>,
}

impl TiledMatmul {
    pub(crate) fn of(gpu: &Gpu, nest: &Nest) -> Option<TiledMatmul> {
        let (outputs, rest) = gpu.independent(nest);
        let reduction = Reduction::of(nest, gpu).filter(|_| rest.is_empty())?;
        let (x, y, _, fused) = multiply_add(&reduction.chain.step)?;
        let alone = |l: &&Loop, x: &Expr, y: &Expr| mentions(x, l.var) && !mentions(y, l.var);
        let columns = outputs.iter().filter(|l| alone(l, x, y) || alone(l, y, x));
        let columns =
            columns.max_by_key(|l| (nest::lane_score(&nest.body, l.var, &gpu.names), l.hi.limit))?.clone();
        let a_first = mentions(y, columns.var);
        let (a, b) = if a_first { (x, y) } else { (y, x) };
        let rows = outputs.iter().filter(|l| alone(l, a, b)).max_by_key(|l| l.hi.limit)?.clone();
        let batch = outputs.iter().filter(|l| **l != rows && **l != columns).cloned().collect();
        let (a, b) = (a.clone(), b.clone());
        Some(TiledMatmul { reduction, a, b, fused, a_first, rows, columns, batch })
    }

    /// The number of products: one for each combination of the loops beside rows and columns.
    pub(crate) fn batches(&self) -> i64 {
        self.batch.iter().filter_map(Loop::extent).fold(1, i64::saturating_mul)
    }

    /// Splits the loops over `k` into those outside of a staged block of at most `most` iterations and those
    /// inside. The first of the inner loops may be split further.
    pub(crate) fn depths(&self, most: i64) -> (&[Loop], &[Loop]) {
        let ks = &self.reduction.chain.ks;
        let mut at = ks.len() - 1;
        let mut size = ks[at].hi.limit;
        while at > 0 && size.saturating_mul(ks[at - 1].hi.limit) <= most {
            at -= 1;
            size *= ks[at].hi.limit;
        }
        ks.split_at(at)
    }

    /// Whether accumulators start from zero, the value of a declared local.
    pub(crate) fn starts_from_zero(&self) -> bool {
        self.reduction.before.iter().all(|stmt| match stmt {
            Stmt::SetLocal { local, value, .. } if *local == self.reduction.chain.acc => {
                matches!(value, Expr::Const(x) if *x == Scalar::zero(x.dtype()))
            }
            _ => true,
        })
    }
}
