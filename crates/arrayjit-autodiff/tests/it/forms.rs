//! Counts the forms of access and the operations of programs, with which tests assert that random programs
//! have them all.

use std::collections::BTreeMap;

use assignments::indexing::{AxisIndex, Projection};
use assignments::{Accum, AccumOp, Assignments, FetchOp, Operand, ProgramStep, Rhs};
use lowered_ir::ir::Var;

/// How many accesses and steps have each form.
pub(crate) type FormCounts = BTreeMap<&'static str, usize>;

/// The forms of access and accumulation that programs without margins can have.
pub(crate) const FORMS: [&str; 17] = [
    "affine",
    "concatenation",
    "condition",
    "diagonal",
    "elementwise update",
    "extreme of several values",
    "fixed",
    "gather",
    "in place",
    "padded",
    "partial target",
    "permuted",
    "product of several values",
    "scatter",
    "slice",
    "sum of several values",
    "symbol",
];

/// Adds the forms of access and accumulation of a program.
pub(crate) fn count_forms(program: &Assignments, counts: &mut FormCounts) {
    let mut count = |form| *counts.entry(form).or_insert(0) += 1;
    for step in &program.steps {
        match step {
            ProgramStep::Concat(parts) => count(concatenation(parts)),
            ProgramStep::Fetch { op: FetchOp::Slice { .. }, .. } => count("slice"),
            _ => {}
        }
        for accum in step.accums() {
            count_accum(accum, &mut count);
        }
    }
}

/// Adds the operations of a program on floats.
pub(crate) fn count_operations(program: &Assignments, counts: &mut FormCounts) {
    let mut count = |form| *counts.entry(form).or_insert(0) += 1;
    for accum in program.steps.iter().flat_map(ProgramStep::accums) {
        if accum.rhs.operation_dtype().is_float() {
            match &accum.rhs {
                Rhs::Copy(_) => {}
                Rhs::Unary(op, _) => count(op.token()),
                Rhs::Binary(op, _) => count(op.token()),
                Rhs::Ternary(op, _) => count(op.token()),
            }
        }
    }
}

/// Adds the accumulations of a program into floats.
pub(crate) fn count_accumulations(program: &Assignments, counts: &mut BTreeMap<AccumOp, usize>) {
    let accums = program.steps.iter().flat_map(ProgramStep::accums);
    for accum in accums.filter(|accum| accum.lhs.dtype().is_float()) {
        *counts.entry(accum.op).or_insert(0) += 1;
    }
}

/// Several targets share one value, or several values one target.
fn concatenation(parts: &[Accum]) -> &'static str {
    let is_split = parts.windows(2).any(|pair| pair[0].lhs != pair[1].lhs);
    if is_split { "splitting" } else { "concatenation" }
}

fn count_accum(accum: &Accum, count: &mut impl FnMut(&'static str)) {
    let is_once = accum.projections.is_injective();
    match accum.op {
        AccumOp::Max | AccumOp::Min if !is_once => count("extreme of several values"),
        AccumOp::Mul if !is_once => count("product of several values"),
        AccumOp::Add if !is_once => count("sum of several values"),
        AccumOp::Mul | AccumOp::Div | AccumOp::Max | AccumOp::Min if !accum.init_neutral => {
            count("elementwise update");
        }
        _ => {}
    }
    if accum.projections.is_clipped() {
        count("condition");
    }
    let is_computed = |index: &AxisIndex| index.computed().is_some();
    if accum.projections.project_lhs().iter().any(is_computed) {
        count("scatter");
    }
    if !accum.init_neutral && !accum.projections.is_surjective() {
        count("partial target");
    }
    for (at, (operand, projection)) in accum.operands().zip(accum.projections.project_rhs()).enumerate() {
        match operand {
            Operand::Padded { .. } => count("padded"),
            Operand::Node(node) if *node == accum.lhs => count("in place"),
            Operand::Node(node) if node.padding().is_some() => {
                if reaches_margins(accum, at, projection) {
                    count("margin");
                }
            }
            Operand::Node(_) => {}
            _ => continue,
        }
        count_indices(projection, count);
    }
}

/// Whether an index of the operand can be outside of the node's values.
fn reaches_margins(accum: &Accum, operand: usize, projection: &Projection) -> bool {
    let dims = &accum.projections.rhs_dims()[operand];
    projection.iter().zip(dims).any(|(index, &dim)| {
        let bounds = accum.projections.index_bounds(&index.affine(), &|_| None);
        bounds.is_some_and(|(low, high)| low < 0 || high >= i64::try_from(dim).unwrap_or(i64::MAX))
    })
}

fn count_indices(projection: &Projection, count: &mut impl FnMut(&'static str)) {
    let loops: Vec<Vec<_>> =
        projection.iter().map(|index| index.loop_terms().iter().map(|term| term.0).collect()).collect();
    let plain: Vec<_> = loops.iter().filter(|ids| ids.len() == 1).map(|ids| ids[0]).collect();
    if plain.windows(2).any(|pair| pair[0] > pair[1]) {
        count("permuted");
    }
    if plain.windows(2).any(|pair| pair[0] == pair[1]) {
        count("diagonal");
    }
    for index in projection {
        let terms = index.loop_terms();
        match terms.as_slice() {
            [_, _, ..] => count("window"),
            [(_, factor)] if *factor > 1 => count("stride"),
            [(_, factor)] if *factor < 0 => count("reversed"),
            _ => {}
        }
        let has_symbol = index.affine().terms().iter().any(|(var, _)| matches!(var, Var::Symbol(_)));
        match index {
            AxisIndex::Computed(_) => count("gather"),
            _ if has_symbol => count("symbol"),
            AxisIndex::Fixed(_) => count("fixed"),
            AxisIndex::Affine(_) => count("affine"),
            _ => {}
        }
    }
}
