//! Rows that only their workgroup reads stay in shared memory.
//!
//! Condition: the node's mode is local and one nest alone mentions it; in each dimension all its indices are one and the same through an
//! iteration of the workgroups, or the dimension is part of the row; and rows fit into the shared memory set aside for them.

use lowered_ir::ir::{Affine, Block, Expr, Indices, LocalId, NodeRef, Space, Stmt, walk};
use tnode::Dims;

use crate::gpu::Gpu;
use codegen_core::access;

/// The body of a workgroup with such nodes as shared arrays.
pub(crate) fn share(gpu: &mut Gpu, body: &[Stmt]) -> Block {
    let (mut declare, mut body) = (Block::new(), body.to_vec());
    // The rest is for partial results.
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
            replace(&mut body, node, local, &row);
        }
    }
    declare.into_iter().chain(body).collect()
}

/// The dimensions that make up the row of a node, if it has rows that can be shared.
fn row_of(gpu: &Gpu, body: &[Stmt], node: NodeRef) -> Option<Vec<usize>> {
    let inner = walk::loops_in(body);
    let still = |index: &Affine| !inner.iter().any(|&var| index.mentions(var));
    let touches = access::touches(body).into_iter().filter(|t| t.node == node);
    let indices: Vec<&Indices> = touches.map(|t| t.index).collect::<Option<_>>()?;
    let first = *indices.first()?;
    let of_row = |dim: &usize| !still(&first[*dim]) || indices.iter().any(|index| index[*dim] != first[*dim]);
    let row: Vec<usize> = (0..first.len()).filter(of_row).collect();
    (gpu.owned.contains(&node) && !row.is_empty() && !is_guarded(body, node)).then_some(row)
}

/// Whether a guarded read or the merge buffer reaches the node; locals have no such access.
pub(crate) fn is_guarded(block: &[Stmt], node: NodeRef) -> bool {
    let mut found = false;
    walk::each_value(block, &mut |value| {
        walk::each_expr(value, &mut |e| {
            found |= matches!(
                e,
                Expr::GetGuarded { node: read, .. } | Expr::GetMerge { node: read, .. } if *read == node
            );
        });
    });
    found
}

fn replace(block: &mut Block, node: NodeRef, local: LocalId, row: &[usize]) {
    let along = |index: &Indices| -> Indices { row.iter().map(|&dim| index[dim].clone()).collect() };
    for stmt in block.iter_mut() {
        walk::map_own_values(stmt, &mut |value| {
            walk::map_expr(value, &mut |e| match e {
                Expr::Get { node: read, index } if read == node => {
                    Expr::GetLocal { local, index: along(&index) }
                }
                other => other,
            })
        });
        match stmt {
            Stmt::For { body, .. } => replace(body, node, local, row),
            Stmt::Set { node: set, index, value } if *set == node => {
                *stmt = Stmt::SetLocal { local, index: along(index), value: value.clone() };
            }
            _ => {}
        }
    }
}
