//! Rows in shared memory: a local node that only one workgroup reads at a time becomes a shared array.
//!
//! The node must be local, only one nest may mention it, and each dimension must either have one index
//! throughout an iteration of the workgroup loops or belong to the row. All rows of a workgroup must fit into
//! half of its shared memory.

use lowered_ir::ir::{Affine, ArrayRef, Block, Indices, NodeRef, Space, Stmt, walk};
use tnode::Dims;

use crate::analysis::access;
use crate::analysis::nodes::is_guarded;
use crate::gpu::context::Gpu;
use codegen_core::dependence;

/// The body of a workgroup in which shared arrays replace the local nodes that meet the conditions of this
/// module.
pub(crate) fn share(gpu: &mut Gpu, body: &[Stmt]) -> Block {
    let (mut declare, mut body) = (Block::new(), body.to_vec());
    // The other half is for partial results.
    let mut left = gpu.workgroups.memory_bytes / 2;
    for node in access::nodes(&body) {
        let Some(row) = row_of(gpu, &body, node) else { continue };
        let decl = &gpu.nodes[node.index()];
        let dims: Dims = row.iter().map(|&dim| decl.dims[dim]).collect();
        let dtype = decl.dtype;
        let bytes = dims.iter().product::<usize>() * dtype.size_bytes();
        if bytes <= left {
            left -= bytes;
            let (local, stmt) = gpu.names.declare(dtype, dims, Space::Workgroup);
            declare.push(stmt);
            walk::move_elements(&mut body, &mut |array, index| {
                let along = || row.iter().map(|&dim| index[dim].clone()).collect();
                (array == ArrayRef::Node(node)).then(|| (ArrayRef::Local(local), along()))
            });
        }
    }
    declare.into_iter().chain(body).collect()
}

/// The dimensions that make up the row of a node, if its rows can be shared.
fn row_of(gpu: &Gpu, body: &[Stmt], node: NodeRef) -> Option<Vec<usize>> {
    let inner = walk::loops_in(body);
    let still = |index: &Affine| !inner.iter().any(|&var| index.mentions(var));
    let touches = dependence::touches(body).into_iter().filter(|t| t.node == node);
    let indices: Vec<&Indices> = touches.map(|t| t.index).collect::<Option<_>>()?;
    let first = *indices.first()?;
    let of_row = |dim: &usize| !still(&first[*dim]) || indices.iter().any(|index| index[*dim] != first[*dim]);
    let row: Vec<usize> = (0..first.len()).filter(of_row).collect();
    (gpu.owned.contains(&node) && !row.is_empty() && !is_guarded(body, node)).then_some(row)
}
