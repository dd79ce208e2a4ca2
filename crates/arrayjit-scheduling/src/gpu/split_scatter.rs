//! Split scatters: a sum at computed places, such as the gradient of an embedding, runs in parts.
//!
//! `scatter + T[{ids[t]}, c] := x[t, c]` adds in the order of `t`, with one thread for each `c`: any two
//! steps may meet in one element. In class `Fast`, the steps are cut into chunks with an array of sums each,
//! `scatter + part[g, {ids[t]}, c] := x[t, c]` for `t` of chunk `g`, and `T[v, c] := T[v, c] + (part[0, v, c]
//! + part[1, v, c] + …)` follows. The order of the additions depends on sizes only.

use codegen_core::dependence;
use lowered_ir::ir::{Affine, BinaryOp, Expr, Indices, LocalId, NodeRef, Space, Stmt, walk};
use smallvec::smallvec;

use crate::analysis::nest::{self, Loop, Nest};
use crate::gpu::context::{FULL_GPU_THREADS, Gpu};
use crate::gpu::split_reduction::{chunk_length, cut};

/// Elements of an array of sums that a GPU clears, and later reads and adds, in the time of one step. A step
/// waits for memory twice: for the index and for the element there.
const ELEMENTS: i64 = 80_000;
/// Threads that hide each other's waiting.
const ENOUGH_THREADS: i64 = 4 * FULL_GPU_THREADS;
/// The fewest steps of a chunk.
const STEPS: i64 = 16;
/// The most elements of all sums together: in f32 they take 256 MiB.
const MOST_ELEMENTS: i64 = 1 << 26;

/// The passes of a scatter whose steps have few threads: the clearing of the sums, the chunks, and their sum.
pub(crate) fn split(gpu: &mut Gpu, nest: &Nest) -> Option<Vec<Nest>> {
    let [scatter @ Stmt::SetDynamic { node, at, op: Some(BinaryOp::Add), value, .. }] = nest.body.as_slice()
    else {
        return None;
    };
    let (node, dtype) = (*node, gpu.nodes[node.index()].dtype);
    let values = [&**at, value].map(|value| Stmt::set_scalar(LocalId(u32::MAX), value.clone()));
    let reads_sums = dependence::touches(&values).iter().any(|touch| touch.node == node);
    // Narrower sums would lose what they add to, and a step that reads sums needs those of all steps before.
    if !gpu.fast || dtype.size_bytes() < 4 || reads_sums {
        return None;
    }
    let (outputs, steps) = gpu.independent(nest);
    let product = |loops: &[Loop]| loops.iter().map(Loop::extent).try_fold(1, |n: i64, e| n.checked_mul(e?));
    let (count, len) = (product(&outputs)?, product(&steps)?);
    let size: i64 = gpu.names.dims(node).iter().map(|&dim| dim as i64).product();
    let best = len.saturating_mul(ELEMENTS).checked_div(size)?.isqrt();
    let chunks = best.min(ENOUGH_THREADS / count.max(1)).min(len / STEPS).min(MOST_ELEMENTS / size);
    let (whole, k, chunks) = cut(&steps, chunks)?;
    let len = chunk_length(k.extent()?, chunks);
    let chunks = k.extent().filter(|extent| extent % len == 0)? / len;
    let number = product(&whole)? * chunks;
    let dims = std::iter::once(number as usize).chain(gpu.names.dims(node).iter().copied()).collect();
    let part = gpu.node(dtype, dims);
    let zero = gpu.zeroed(part);

    let chunk = gpu.loop_of(chunks);
    let start = Affine::term(chunk.var, len).plus(&Affine::var(k.var));
    let outer = whole.iter().fold(Affine::constant(0), |n, l| n.times(l.hi.limit).plus(&Affine::var(l.var)));
    let mut body = vec![scatter.clone()];
    walk::substitute(&mut body, k.var, &start);
    into_part(&mut body[0], part, outer.times(chunks).plus(&Affine::var(chunk.var)));
    let in_chunk = |l: &Loop| if *l == k { Loop { hi: len.into(), ..k.clone() } } else { l.clone() };
    let inner = steps.iter().filter(|l| !whole.contains(l)).map(in_chunk);
    let loops: Vec<Loop> = whole.iter().cloned().chain([chunk]).chain(outputs).chain(inner).collect();
    let first = gpu.renamed(&loops, body)?;
    let sum = sum(gpu, node, part, number)?;
    Some(vec![Nest::of(&zero)?, first, sum])
}

/// Lets a scatter add to one of the sums.
fn into_part(scatter: &mut Stmt, part: NodeRef, number: Affine) {
    if let Stmt::SetDynamic { node, index, axis, .. } = scatter {
        *node = part;
        index.insert(0, number);
        *axis += 1;
    }
}

/// Adds the sums to the elements of the node.
fn sum(gpu: &mut Gpu, node: NodeRef, part: NodeRef, number: i64) -> Option<Nest> {
    let dims: Vec<i64> = gpu.names.dims(node).iter().map(|&dim| dim as i64).collect();
    let loops: Vec<Loop> = dims.into_iter().map(|dim| gpu.loop_of(dim)).collect();
    let chunk = gpu.loop_of(number);
    let index: Indices = loops.iter().map(|l| Affine::var(l.var)).collect();
    let mut of_part = index.clone();
    of_part.insert(0, Affine::var(chunk.var));
    let dtype = gpu.nodes[node.index()].dtype;
    let (acc, declare) = gpu.names.declare(dtype, smallvec![], Space::Register);
    let add = |a, b| Expr::binary(BinaryOp::Add, a, b);
    let step = add(Expr::local(acc), Expr::Get { node: part, index: of_part });
    let old = Expr::Get { node, index: index.clone() };
    let mut body = vec![declare];
    body.extend(nest::wrap(&[chunk], vec![Stmt::set_scalar(acc, step)]));
    body.push(Stmt::Set { node, index, value: add(old, Expr::local(acc)) });
    gpu.renamed(&loops, body)
}
