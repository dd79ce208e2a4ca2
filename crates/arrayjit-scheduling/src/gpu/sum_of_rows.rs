//! A sum of rows runs in two passes: an element that adds what each row reduces to gets the rows' results
//! in the second one.
//!
//! ```text
//! for i { l := log(z[i]); acc := T[]; for j { acc := acc + (x[i, j] - l) }; T[] := acc }
//!   = for i { l := log(z[i]); acc := 0;  for j { acc := acc + (x[i, j] - l) }; part[i] := acc }
//!     for i { T[] := T[] + part[i] }
//! ```
//!
//! If nothing were computed once per row, both loops would be one reduction. Here the rows of the first pass
//! are independent, and the second pass is a reduction like any other. Class `Fast` only: additions have
//! another order.

use lowered_ir::ir::{Affine, Block, Expr, Indices, LocalId, NodeRef, Space, Stmt};
use smallvec::smallvec;

use crate::analysis::nest::{self, Nest};
use crate::analysis::reduction::{combined, nonzero_neutral};
use crate::gpu::accumulation::Reduction;
use crate::gpu::context::Gpu;
use codegen_core::dependence;

/// The two passes of a nest whose rows add to shared elements.
pub(crate) fn split(gpu: &mut Gpu, nest: &Nest) -> Option<[Nest; 2]> {
    let (_, shared) = gpu.independent(nest);
    let Reduction { mut before, chain, after } = Reduction::of(nest, gpu).filter(|_| gpu.fast)?;
    let acc = chain.acc;
    let [Stmt::Set { node, index, value }] = after.as_slice() else { return None };
    let old = Expr::Get { node: *node, index: index.clone() };
    let at = before.iter().position(|stmt| *stmt == Stmt::set_scalar(acc, old.clone()))?;
    let is_shared = shared.iter().all(|l| !index.iter().any(|index| index.mentions(l.var)));
    if shared.is_empty()
        || !is_shared
        || *value != Expr::local(acc)
        || reads_again(&before, at, *node, &chain.step)
    {
        return None;
    }
    before.remove(at);
    before.extend(nonzero_neutral(chain.op, chain.dtype).map(|neutral| Stmt::set_scalar(acc, neutral)));
    let extents = nest.loops.iter().map(|l| l.extent().map(|extent| extent as usize));
    let part = gpu.node(chain.dtype, extents.collect::<Option<_>>()?);
    let place: Indices = nest.loops.iter().map(|l| Affine::var(l.var)).collect();
    let step = vec![Stmt::set_scalar(acc, chain.step.clone())];
    let mut rows = before;
    rows.extend(nest::wrap(&chain.ks, step));
    rows.push(Stmt::Set { node: part, index: place.clone(), value: Expr::local(acc) });

    let (outputs, inner): (Vec<_>, Vec<_>) =
        nest.loops.iter().cloned().partition(|l| index.iter().any(|index| index.mentions(l.var)));
    let (sum, declare) = gpu.names.declare(chain.dtype, smallvec![], Space::Register);
    let add = combined(chain.op, Expr::local(sum), Expr::Get { node: part, index: place });
    let mut total: Block = vec![declare, Stmt::set_scalar(sum, old)];
    total.extend(nest::wrap(&inner, vec![Stmt::set_scalar(sum, add)]));
    total.push(Stmt::Set { node: *node, index: index.clone(), value: Expr::local(sum) });
    Some([gpu.renamed(&nest.loops, rows)?, gpu.renamed(&outputs, total)?])
}

/// Whether a row reads the element to which it adds anywhere but where the accumulator starts.
fn reads_again(before: &[Stmt], at: usize, node: NodeRef, step: &Expr) -> bool {
    let others = before.iter().enumerate().filter(|(other, _)| *other != at).map(|(_, stmt)| stmt.clone());
    let block: Block = others.chain([Stmt::set_scalar(LocalId(u32::MAX), step.clone())]).collect();
    dependence::touches(&block).iter().any(|touch| touch.node == node)
}
