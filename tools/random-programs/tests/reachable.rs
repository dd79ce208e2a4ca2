//! Programs contain everything that their weights name: statements, operations, types, indices and memory
//! modes.

use std::collections::BTreeSet;

use random_programs::{
    ProgramAccess, ProgramAssign, ProgramAxis, ProgramExpr, ProgramStatement, ProgramVar, ProgramWeights,
    RandomProgram, program_from_seed,
};

/// The names of all constructs of a program.
fn constructs(program: &RandomProgram, found: &mut BTreeSet<String>) {
    for node in &program.nodes {
        found.insert(format!("type {}", node.dtype));
        found.insert(format!("mode {:?}", node.mode));
        found.insert(format!("rank {}", node.dims.len()));
        if node.margin > 0 {
            found.insert("margin".to_owned());
        }
    }
    for statement in program.routines.iter().flatten() {
        match statement {
            ProgramStatement::Assign(assign) => assignment(assign, found),
            ProgramStatement::Offsets { .. } => _ = found.insert("offsets".to_owned()),
            ProgramStatement::Values { .. } => _ = found.insert("values".to_owned()),
            ProgramStatement::Slice { .. } => _ = found.insert("slice".to_owned()),
        }
    }
    found.insert(format!("routines {}", program.routines.len()));
}

fn assignment(assign: &ProgramAssign, found: &mut BTreeSet<String>) {
    found.insert(format!("accumulation {:?} {}", assign.op, assign.starts));
    if let Some(bound) = &assign.bound {
        let side = |side| matches!(side, ProgramVar::Letter(_));
        found.insert(format!("bound {} {}", side(bound.less), side(bound.greater)));
    }
    for target in &assign.targets {
        access("target", target, found);
    }
    for value in &assign.values {
        value.walk(&mut |expr| match expr {
            ProgramExpr::Number(number) => _ = found.insert(format!("number {number}")),
            ProgramExpr::Var(_) => _ = found.insert("variable".to_owned()),
            ProgramExpr::Size(_) => _ = found.insert("size".to_owned()),
            ProgramExpr::Read(read) => access("read", read, found),
            ProgramExpr::Cast(dtype, _) => _ = found.insert(format!("cast {dtype}")),
            ProgramExpr::Unary(op, _) => _ = found.insert(format!("function {op:?}")),
            ProgramExpr::Binary(op, _) => _ = found.insert(format!("operator {op:?}")),
            ProgramExpr::Where(_) => _ = found.insert("where".to_owned()),
            ProgramExpr::Fma(_) => _ = found.insert("fma".to_owned()),
        });
    }
}

fn access(role: &str, access: &ProgramAccess, found: &mut BTreeSet<String>) {
    if access.pad.is_some() {
        found.insert("pad".to_owned());
    }
    for axis in &access.axes {
        let kind = match axis {
            ProgramAxis::Computed(_) => "computed",
            ProgramAxis::Concat(_) => "concatenated",
            ProgramAxis::Affine(affine) if affine.terms.len() > 1 => "sum",
            ProgramAxis::Affine(affine) if affine.terms.iter().any(|(factor, _)| *factor < 0) => "reversed",
            ProgramAxis::Affine(affine) if affine.terms.iter().any(|(factor, _)| *factor > 1) => "strided",
            ProgramAxis::Affine(_) => "plain",
        };
        found.insert(format!("{role} {kind}"));
    }
}

/// The constructs of 600 programs with different seeds.
fn found(weights: &ProgramWeights) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for seed in 0..600 {
        constructs(&program_from_seed(seed, 400, weights), &mut found);
    }
    found
}

/// Asserts that the names, and all entries of the tables of the weights, occur among the constructs of the
/// programs.
fn contain(weights: &ProgramWeights, names: &[&str]) {
    let found = found(weights);
    let accumulations = weights.accumulations.iter().map(|op| format!("accumulation {op:?} false"));
    let starting = weights.accumulations.iter().filter(|op| op.has_neutral());
    let starting = starting.map(|op| format!("accumulation {op:?} true"));
    let types = weights.types.iter().map(|dtype| format!("type {dtype}"));
    let modes = weights.result_modes.iter().map(|mode| format!("mode {mode:?}"));
    let functions = weights.functions.iter().map(|op| format!("function {op:?}"));
    let operators = weights.operators.iter().map(|op| format!("operator {op:?}"));
    let numbers = weights.numbers.iter().map(|number| format!("number {number}"));
    let tables = accumulations.chain(starting).chain(types).chain(modes).chain(functions).chain(operators);
    let wanted = tables.chain(numbers).chain(names.iter().map(|&name| name.to_owned()));
    let missing: Vec<String> = wanted.filter(|name| !found.contains(name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

const INDICES: [&str; 10] = [
    "target plain",
    "target strided",
    "target reversed",
    "target sum",
    "target computed",
    "read plain",
    "read strided",
    "read reversed",
    "read sum",
    "read computed",
];

#[test]
fn several_routines_contain_every_construct() {
    let weights = ProgramWeights::several_routines();
    contain(&weights, &INDICES);
    let others = [
        "routines 3",
        "bound true true",
        "bound true false",
        "bound false true",
        "margin",
        "pad",
        "offsets",
        "values",
        "slice",
        "target concatenated",
        "read concatenated",
        "variable",
        "size",
        "where",
        "fma",
        "operator Lt",
        "operator Ge",
        "operator BitXor",
        "operator Shr",
        "cast i64",
        "mode Virtual",
        "rank 0",
        "rank 4",
    ];
    contain(&weights, &others);
}

#[test]
fn one_routine_contains_what_the_front_end_accepts() {
    contain(&ProgramWeights::one_routine(), &INDICES);
    let others =
        ["pad", "offsets", "values", "target concatenated", "operator Eq", "operator BitAnd", "where"];
    contain(&ProgramWeights::one_routine(), &others);
}

#[test]
fn large_nodes_have_every_operation() {
    contain(&ProgramWeights::large_nodes(), &INDICES);
    contain(
        &ProgramWeights::large_nodes(),
        &["margin", "pad", "operator Arg1", "accumulation ReluGate false"],
    );
}

#[test]
fn bounded_errors_have_no_other_operations() {
    let weights = ProgramWeights::bounded_errors();
    contain(&weights, &["margin", "pad", "fma", "read sum", "target strided"]);
    let found = found(&weights);
    let is_known = |name: &str| {
        weights.operators.iter().any(|op| name == format!("operator {op:?}"))
            || weights.functions.iter().any(|op| name == format!("function {op:?}"))
    };
    let operations = found.iter().filter(|name| name.starts_with("operator") || name.starts_with("function"));
    let unknown: Vec<&String> = operations.filter(|name| !is_known(name)).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
    assert!(!found.contains("read computed") && !found.contains("where"));
}

#[test]
fn chains_read_and_write_in_place_and_in_part() {
    contain(&ProgramWeights::chains(), &["target strided", "target reversed", "read reversed", "where"]);
}

/// A scatter writes along whole axes of its letters, however large its node is.
#[test]
fn letters_of_scatters_have_the_sizes_of_their_axes() {
    let mut large = 0;
    for seed in random_programs::effort::seeds(400) {
        let program = program_from_seed(seed, 250, &ProgramWeights::large_nodes());
        for statement in program.routines.iter().flatten() {
            let ProgramStatement::Assign(assign) = statement else { continue };
            for target in assign.targets.iter().filter(|target| is_scatter(target)) {
                let dims = &program.nodes[target.node].dims;
                large += usize::from(dims.iter().product::<usize>() > 2500);
                for (axis, &size) in target.axes.iter().zip(dims) {
                    let ProgramAxis::Affine(affine) = axis else { continue };
                    let &[(1, ProgramVar::Letter(letter))] = affine.terms.as_slice() else { continue };
                    assert!(affine.offset != 0 || assign.letters[letter].extent <= size, "{seed}: {program}");
                }
            }
        }
    }
    assert!(large > 5, "{large}");
}

fn is_scatter(target: &ProgramAccess) -> bool {
    target.axes.iter().any(|axis| matches!(axis, ProgramAxis::Computed(_)))
}
