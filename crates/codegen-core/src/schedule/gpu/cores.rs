//! Products of matrices for tensor cores: they stay as written, a thread per output, for a codegen that knows better ([`super::super::matrices`]).
//!
//! Only in class `Fast`: tensor cores add products in an order of their own.

use lowered_ir::ir::Block;

use super::super::canonical::Contraction;
use super::super::matrices::Product;
use super::super::nest::{self, Loop, Nest};
use super::{Gpu, parallel};

/// The nest as one kernel, if the target has kernels for products of matrices and it is one.
pub(super) fn whole(gpu: &Gpu, nest: &Nest) -> Option<Block> {
    if gpu.matrices.is_empty() || !gpu.fast {
        return None;
    }
    let block = nest::wrap(&nest.loops, nest.body.clone());
    let [stmt] = block.as_slice() else { return None };
    let contraction = Contraction::within(stmt, &gpu.names)?;
    let order: Vec<_> = [&contraction.batch[..], &contraction.rows, &contraction.columns]
        .concat()
        .iter()
        .map(|axis| axis.var)
        .collect();
    let product = Product::of(contraction, &gpu.names.arrays(std::iter::empty()))?;
    let loops: Vec<Loop> =
        order.iter().filter_map(|var| nest.loops.iter().find(|l| l.var == *var)).copied().collect();
    product.suits_tensor_cores(gpu.matrices).then(|| parallel(&loops, nest.body.clone()))
}
