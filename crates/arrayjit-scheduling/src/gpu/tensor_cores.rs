//! Matmuls for tensor cores stay whole, with one thread per output, and the codegen tiles them
//! ([`codegen_core::matrices`]).
//!
//! This applies to class `Fast` only, because tensor cores add products in an order of their own.

use lowered_ir::ir::Block;

use crate::analysis::nest::{self, Loop, Nest};
use crate::gpu::context::{Gpu, parallel};
use codegen_core::matrices::MatmulNest;

/// Rows and columns of a tile of a large product.
const TILE: i64 = 128;

/// The nest as one kernel and its number of tiles, if it is a matmul that the target compiles whole.
pub(crate) fn whole(gpu: &Gpu, nest: &Nest) -> Option<(Block, i64)> {
    if gpu.matrices.is_empty() || !gpu.fast {
        return None;
    }
    let block = nest::wrap(&nest.loops, nest.body.clone());
    let [stmt] = block.as_slice() else { return None };
    let contraction = gpu.names.contraction(stmt)?;
    let order: Vec<_> = [&contraction.batch[..], &contraction.rows, &contraction.columns]
        .concat()
        .iter()
        .map(|axis| axis.var)
        .collect();
    let product = MatmulNest::of(contraction, &gpu.names.arrays(std::iter::empty()))?;
    let loops: Vec<Loop> =
        order.iter().filter_map(|var| nest.loops.iter().find(|l| l.var == *var)).cloned().collect();
    let whole = &product.contraction;
    let tiles = [whole.num_rows(), whole.num_columns()].map(|size| (size + TILE - 1) / TILE);
    let batch = whole.batch.iter().map(|axis| axis.extent).product::<i64>();
    let suits = product.suits_tensor_cores(gpu.matrices);
    suits.then(|| (parallel(&loops, nest.body.clone()), batch * tiles[0] * tiles[1]))
}
