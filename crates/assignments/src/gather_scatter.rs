//! Builds gathers and scatters: accesses in which an element of a node is the index.

use tnode::{Dims, TensorNode};

use super::builder::{BuildError, single};
use super::{Accum, AccumOp, Assignments, Operand, Origin, ProgramStep, Rhs};
use crate::indexing::{AxisIndex, Indexed, Projection, Projections};

/// `values[i.., b.., e..] := table[i.., ids[b..], e..]` with the computed index on `axis` of the table.
/// Indices outside the axis give 0.
///
/// ```
/// use assignments::builder;
/// use tnode::{DType, TensorNode};
///
/// let table = TensorNode::builder("table").dims([100, 8]).build()?;
/// let ids = TensorNode::builder("ids").dims([4]).dtype(DType::I32).build()?;
/// let y = TensorNode::builder("y").dims([4, 8]).build()?;
/// assert_eq!(builder::gather(&y, &table, 0, &ids)?.to_string(), "y[i0, i1] =: table[ids[i0], i1];\n");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// If dimensions are unsettled, or `values` does not have the dimensions of `table` with `axis` replaced by
/// the dimensions of `ids`.
pub fn gather(
    values: &TensorNode,
    table: &TensorNode,
    axis: usize,
    ids: &TensorNode,
) -> Result<Assignments, BuildError> {
    let GatherAccesses { space, table: at, values: plain, ids: by } = shapes(values, table, axis, ids, 1)?;
    let rhs = Rhs::Copy(table.into());
    let projections = projections(&space, plain, vec![at, by], values)?;
    Ok(accumulate_at(false, AccumOp::Assign, values, rhs, vec![ids.into()], projections))
}

/// `table[i.., ids[b..], e..] ⊕= values[i.., b.., e..]` with the computed index on `axis` of the table, which
/// is set to the neutral element of `op` first if `init_neutral`. Values whose index is outside the axis are
/// ignored. The other values accumulate in row-major order: sums of floats are reproducible, and with
/// [`AccumOp::Assign`] the last value for an index stays.
///
/// # Errors
/// Returns the same errors as [`gather`].
pub fn scatter(
    table: &TensorNode,
    axis: usize,
    ids: &TensorNode,
    init_neutral: bool,
    op: AccumOp,
    values: &TensorNode,
) -> Result<Assignments, BuildError> {
    let GatherAccesses { space, table: at, values: plain, ids: by } = shapes(values, table, axis, ids, 1)?;
    let projections = projections(&space, at, vec![plain, by], table)?;
    Ok(accumulate_at(init_neutral, op, table, Rhs::Copy(values.into()), vec![ids.into()], projections))
}

/// Accumulates with computed indices ([`Accum::computed`]). Lowering checks that everything fits the nodes.
pub fn accumulate_at(
    init_neutral: bool,
    op: AccumOp,
    lhs: &TensorNode,
    rhs: Rhs,
    computed: Vec<Operand>,
    projections: Projections,
) -> Assignments {
    let (lhs, origin) = (lhs.clone(), Origin::default());
    single(ProgramStep::Accum(Box::new(Accum { init_neutral, op, lhs, rhs, computed, projections, origin })))
}

/// The product space of a gather or scatter, and how it indexes each node.
struct GatherAccesses {
    space: Dims,
    table: Indexed,
    values: Indexed,
    ids: Indexed,
}

/// The accesses over the product space of `values`. Operand `by` computes the index.
fn shapes(
    values: &TensorNode,
    table: &TensorNode,
    axis: usize,
    ids: &TensorNode,
    by: usize,
) -> Result<GatherAccesses, BuildError> {
    let (outer, rows, space) =
        (table.dims_without_padding()?, ids.dims_without_padding()?, values.dims_without_padding()?);
    if axis >= outer.len() {
        return Err(tnode::TensorNodeError::NoSuchAxis { axis, dims: outer }.into());
    }
    let expected: Dims = outer[..axis].iter().chain(&rows).chain(&outer[axis + 1..]).copied().collect();
    if space != expected {
        return Err(BuildError::Gathered {
            values: values.name(),
            found: space.to_vec(),
            expected: expected.to_vec(),
            table: table.name(),
            axis,
        });
    }
    let axes = |range: std::ops::Range<usize>| range.map(AxisIndex::axis);
    let after = axis + rows.len();
    let at: Projection =
        axes(0..axis).chain([AxisIndex::Computed(by)]).chain(axes(after..space.len())).collect();
    let plain = (space.clone(), axes(0..space.len()).collect());
    Ok(GatherAccesses { table: (outer, at), values: plain, ids: (rows, axes(axis..after).collect()), space })
}

fn projections(
    space: &[usize],
    lhs: Indexed,
    operands: Vec<Indexed>,
    node: &TensorNode,
) -> Result<Projections, BuildError> {
    let found = Projections::new(space, lhs, operands, "computed index");
    found.map_err(|source| BuildError::Index { node: node.name(), source })
}
