//! Thread mapping: assigns every iteration of a nest to a thread of a workgroup.

use crate::analysis::access;
use codegen_core::{DTypeSet, Workgroups};
use lowered_ir::ir::{Block, LoweredRoutine, Stmt};
use lowered_ir::verify::limits;

use super::context::Gpu;
use super::split_reduction::{OF_THREADS, OF_TILES};
use super::{
    accumulation, column_reduction, split_reduction, split_scatter, sum_of_rows, tensor_cores,
    thread_per_output, tile_contraction, transpose, workgroup_per_row,
};
use crate::analysis::nest::{self, Nest};
use crate::analysis::nodes::is_local;

/// Maps every top-level nest to workgroups and threads. Matmuls with operands of the types `matrices` stay
/// whole.
pub(crate) fn map_threads(routine: &mut LoweredRoutine, workgroups: Workgroups, matrices: DTypeSet) {
    let mut gpu = Gpu { matrices, ..Gpu::of(routine, workgroups) };
    let owners = access::owners(&routine.body);
    let mut body = Block::new();
    for (at, stmt) in std::mem::take(&mut routine.body).into_iter().enumerate() {
        let own = owners.iter().filter(|(_, owner)| **owner == Some(at)).map(|(node, _)| *node);
        gpu.owned = own.filter(|node| is_local(&gpu.nodes[node.index()])).collect();
        let shared = map_statement(&mut gpu, stmt.clone());
        // The mapped nest has more loops than the original, and nesting is limited.
        if depth(&shared) <= limits::NESTING { body.extend(shared) } else { body.push(stmt) }
    }
    routine.body = body;
    routine.nodes = gpu.nodes;
}

fn map_statement(gpu: &mut Gpu, stmt: Stmt) -> Block {
    let stmt = match stmt {
        Stmt::Zero { node } => gpu.zeroed(node),
        stmt => stmt,
    };
    let Some(nest) = Nest::of(&stmt) else { return vec![stmt] };
    if let Some((whole, tiles)) = tensor_cores::whole(gpu, &nest) {
        let stages = split_reduction::split_contraction(gpu, &nest, tiles, &OF_TILES);
        let is_product = |nest: &Nest| {
            !accumulation::is_contraction(nest, gpu) || tensor_cores::whole(gpu, nest).is_some()
        };
        return match stages.filter(|stages| stages.iter().all(is_product)) {
            Some(stages) => stages.iter().flat_map(|nest| map_stage(gpu, nest)).collect(),
            None => whole,
        };
    }
    if accumulation::is_contraction(&nest, gpu) {
        let threads = tile_contraction::threads(gpu, &nest);
        return match split_reduction::split_contraction(gpu, &nest, threads, &OF_THREADS) {
            Some(stages) => stages.iter().flat_map(|nest| map_stage(gpu, nest)).collect(),
            None => tile_contraction::distribute(gpu, &nest).unwrap_or_else(|| vec![stmt]),
        };
    }
    let stages = split_reduction::split(gpu, &nest).or_else(|| split_scatter::split(gpu, &nest));
    if let Some(stages) = stages {
        return stages.iter().flat_map(|nest| map_nest(gpu, nest)).collect();
    }
    if let Some(stages) = sum_of_rows::split(gpu, &nest) {
        let statements = stages.map(|Nest { loops, body }| nest::wrap(&loops, body));
        return statements.into_iter().flatten().flat_map(|stmt| map_statement(gpu, stmt)).collect();
    }
    map_nest(gpu, &nest)
}

/// Maps a pass of a contraction.
fn map_stage(gpu: &mut Gpu, nest: &Nest) -> Block {
    let whole = tensor_cores::whole(gpu, nest).map(|(whole, _)| whole);
    let is_tiled = whole.is_none() && accumulation::is_contraction(nest, gpu);
    let tiled = if is_tiled { tile_contraction::distribute(gpu, nest) } else { whole };
    tiled.unwrap_or_else(|| map_nest(gpu, nest))
}

fn map_nest(gpu: &mut Gpu, nest: &Nest) -> Block {
    transpose::distribute(gpu, nest)
        .or_else(|| column_reduction::distribute(gpu, nest))
        .or_else(|| workgroup_per_row::distribute(gpu, nest))
        .or_else(|| thread_per_output::distribute(gpu, nest))
        .unwrap_or_else(|| nest::wrap(&nest.loops, nest.body.clone()))
}

/// The depth of the deepest loop.
fn depth(block: &[Stmt]) -> usize {
    let each = block.iter().map(|stmt| match stmt {
        Stmt::For { body, .. } => 1 + depth(body),
        _ => 0,
    });
    each.max().unwrap_or(0)
}
