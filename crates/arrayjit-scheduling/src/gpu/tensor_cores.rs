//! Matmuls for tensor cores stay whole, with one thread per output, and the codegen tiles them
//! ([`codegen_core::matrices`]).
//!
//! This applies to class `Fast` only, because tensor cores add products in an order of their own.

use lowered_ir::ir::Block;

use crate::analysis::nest::{self, Loop, Nest};
use crate::gpu::context::{Gpu, parallel};
use codegen_core::matrices::MatmulNest;

/// The nest as one kernel, if it is a matmul that the target compiles whole.
pub(crate) fn whole(gpu: &Gpu, nest: &Nest) -> Option<Block> {
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
    product.suits_tensor_cores(gpu.matrices).then(|| parallel(&loops, nest.body.clone()))
}
