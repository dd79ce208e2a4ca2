//! Transposed copies of the matrices by which every step of a scan multiplies.
//!
//! ```text
//! scan t { for b, j { for i { acc += h[t, b, i] · w[j, i] }; … } }
//! =
//! for i, j { w'[i, j] := w[j, i] }
//! scan t { for b, j { for i { acc += h[t, b, i] · w'[i, j] }; … } }
//! ```
//!
//! A matrix kernel reads the operand of its columns in place if that is contiguous along the columns. The
//! weights of recurrent networks are contiguous along the sum, so each step would transpose them for its
//! kernel, which takes a third of the time of a product of few rows. The copy has one row for each position
//! of the sum. Rows are an odd number of cache lines apart, so that neighboring ones have places of their own
//! in the cache. The values and their order stay the same, so no bit changes.

use std::collections::BTreeMap;

use lowered_ir::ir::{
    Affine, ArrayRef, Block, Expr, Indices, LoopKind, LoweredRoutine, NodeDecl, NodeRef, Stmt, walk,
};
use lowered_ir::passes::regions;
use tnode::{DType, Dims, MemoryMode, ModeState, Reason};

use crate::analysis::names::Names;
use crate::analysis::nodes::node_bytes;
use codegen_core::canonical::Contraction;
use codegen_core::{Caps, dependence};

/// The least number of steps that make up for a copy.
const MIN_STEPS: i64 = 4;

/// The most bytes of a copied node.
const MAX_BYTES: usize = 64 << 20;

/// The bytes of a cache line.
const LINE: usize = 64;

/// Copies operands before scans whose products want them transposed.
pub(crate) fn transpose_operands(routine: &mut LoweredRoutine, caps: &Caps) {
    if caps.contractions.is_empty() || !regions::has_regions(&routine.body) {
        return;
    }
    let mut names = Names::of(routine);
    let body = std::mem::take(&mut routine.body);
    routine.body = block(body, routine, &mut names);
}

fn block(body: Block, routine: &mut LoweredRoutine, names: &mut Names) -> Block {
    let mut out = Block::new();
    for stmt in body {
        match stmt {
            Stmt::For { var, lo, hi, kind: LoopKind::Scan, body } => {
                let mut body = block(body, routine, names);
                if lo == 0 && hi.limit >= MIN_STEPS {
                    out.extend(copies(&mut body, routine, names));
                }
                out.push(Stmt::For { var, lo, hi, kind: LoopKind::Scan, body });
            }
            stmt => out.push(stmt),
        }
    }
    out
}

/// The nests that copy the operands of a scan's products, which read the copies afterwards.
fn copies(body: &mut Block, routine: &mut LoweredRoutine, names: &mut Names) -> Block {
    let written = dependence::written(body);
    let (mut nests, mut copied) = (Block::new(), BTreeMap::new());
    for stmt in body {
        let Some(contraction) = names.contraction(stmt) else { continue };
        let Some((node, read)) = operand(&contraction, routine, names) else { continue };
        if written.contains(&node) {
            continue;
        }
        let copy = *copied.entry(node).or_insert_with(|| {
            let copy = declare(routine, names, node);
            nests.push(nest(node, copy, routine, names));
            copy
        });
        let dims = &routine.nodes[node.index()].dims;
        let read = read.clone();
        walk::move_elements(std::slice::from_mut(stmt), &mut |array, index| {
            (array == ArrayRef::Node(node) && *index == read)
                .then(|| (ArrayRef::Node(copy), transposed(index, dims)))
        });
    }
    nests
}

/// The node of the columns' operand and its index, if it is a whole matrix that is contiguous along the sum.
fn operand<'a>(
    contraction: &'a Contraction,
    routine: &LoweredRoutine,
    names: &Names,
) -> Option<(NodeRef, &'a Indices)> {
    let Expr::Get { node, index } = &contraction.right else { return None };
    let decl = routine.nodes.get(node.index())?;
    let [depth] = contraction.depth.as_slice() else { return None };
    let is_contiguous = names.position(*node, index).coefficient(depth.var) == 1;
    let axes = || contraction.columns.iter().chain(&contraction.depth);
    let covers = |(index, &dim): (&Affine, &usize)| {
        axes().any(|axis| *index == Affine::var(axis.var) && axis.extent == dim as i64)
    };
    let is_whole = axes().count() == index.len() && index.iter().zip(&decl.dims).all(covers);
    let is_float = matches!(decl.dtype, DType::F32 | DType::F64);
    let is_worth = contraction.num_rows() > 1 && node_bytes(decl) <= MAX_BYTES;
    let is_matrix = is_contiguous && is_whole && index.last() == Some(&Affine::var(depth.var));
    (is_float && is_worth && is_matrix && contraction.dynamic.is_empty()).then_some((*node, index))
}

/// The index in the copy: that along the sum, and the position among the others.
fn transposed(index: &[Affine], dims: &Dims) -> Indices {
    let columns = index.len() - 1;
    let column = Affine::row_major(&index[..columns], &dims[..columns]);
    [index[columns].clone(), column].into_iter().collect()
}

/// Adds the copy of a node to the routine.
fn declare(routine: &mut LoweredRoutine, names: &mut Names, node: NodeRef) -> NodeRef {
    let source = &routine.nodes[node.index()];
    let columns = source.dims.len() - 1;
    let size = source.dtype.size_bytes();
    let lines = (source.dims[..columns].iter().product::<usize>() * size).div_ceil(LINE) | 1;
    let dims: Dims = [source.dims[columns], lines * LINE / size].into_iter().collect();
    let (name, dtype) = (format!("{}.transposed", source.name), source.dtype);
    let mode = ModeState::decided(MemoryMode::Local, Reason::new("a transposed copy"));
    routine.nodes.push(NodeDecl { name, dtype, dims: dims.clone(), mode });
    names.node_of(dtype, dims)
}

fn nest(node: NodeRef, copy: NodeRef, routine: &LoweredRoutine, names: &mut Names) -> Stmt {
    let dims = &routine.nodes[node.index()].dims;
    let vars: Vec<_> = dims.iter().map(|_| names.loop_id()).collect();
    let index: Indices = vars.iter().map(|&var| Affine::var(var)).collect();
    let set = Stmt::Set { node: copy, index: transposed(&index, dims), value: Expr::Get { node, index } };
    let loops = vars.into_iter().zip(dims).rev();
    loops.fold(set, |body, (var, &dim)| Stmt::serial(var, dim as i64, vec![body]))
}
