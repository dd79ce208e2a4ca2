//! Gathers and scatters from the assignment text and the builder, run by the interpreter.
#![allow(clippy::unwrap_used, reason = "tests")]

use crate::program;

use assignment_text::{TextErrorKind, parse};
use assignments::indexing::{AxisIndex, Projection, Projections};
use assignments::lower::{LowerOptions, lower};
use assignments::{AccumOp, Assignments, Operand, Rhs, builder};
use lowered_ir::text::print;
use lowered_ir::verify::verify;
use program::{Machine, f32s, node};
use tnode::{DType, Dims, Padding, TensorNode};

/// Runs a program over nodes with these values.
fn run(program: &Assignments, inputs: &[(&TensorNode, &[f64])]) -> Machine {
    let mut machine = Machine::new(program);
    verify(&machine.lowered.routine).unwrap();
    for (node, values) in inputs {
        machine.set(node, values);
    }
    machine.run(&[]);
    machine
}

fn run_text(text: &str, inputs: &[(&TensorNode, &[f64])], others: &[&TensorNode]) -> Machine {
    let nodes: Vec<TensorNode> =
        inputs.iter().map(|(n, _)| *n).chain(others.iter().copied()).cloned().collect();
    run(&parse(text, &nodes).unwrap_or_else(|error| panic!("{error}")), inputs)
}

#[test]
fn a_gather_outside_is_neutral_or_what_pad_says() {
    let (ids, table) = (node("ids", DType::I32, &[4]), f32s("table", &[3, 2]));
    let y = f32s("y", &[4, 2]);
    let inputs: [(&TensorNode, &[f64]); 2] =
        [(&ids, &[2.0, -1.0, 3.0, 0.0]), (&table, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])];
    let of = |text: &str| run_text(text, &inputs, &[&y]).get(&y);
    assert_eq!(of("y[b,e] := table[ids[b], e]"), [5.0, 6.0, 0.0, 0.0, 0.0, 0.0, 1.0, 2.0]);
    assert_eq!(of("y[b,e] := pad(table, -7)[ids[b], e]"), [5.0, 6.0, -7.0, -7.0, -7.0, -7.0, 1.0, 2.0]);
    // If the gathered element itself is accumulated, an index outside gives the neutral element, which
    // changes nothing.
    assert_eq!(
        of("y[b,e] := -9; y[b,e] max= table[ids[b], e]"),
        [5.0, 6.0, -9.0, -9.0, -9.0, -9.0, 1.0, 2.0]
    );
    assert_eq!(of("y[b,e] := 4; y[b,e] *= table[ids[b], e]"), [20.0, 24.0, 4.0, 4.0, 4.0, 4.0, 4.0, 8.0]);
    // If the gathered element is only an operand of the accumulated expression, an index outside gives 0.
    assert_eq!(
        of("y[b,e] := -9; y[b,e] max= -table[ids[b], e]"),
        [-5.0, -6.0, 0.0, 0.0, 0.0, 0.0, -1.0, -2.0]
    );
}

#[test]
fn indices_are_integers_of_any_type() {
    let (table, y) = (f32s("table", &[3]), f32s("y", &[2]));
    for dtype in [DType::U8, DType::I8, DType::U16, DType::I32, DType::U32, DType::I64, DType::U64] {
        let ids = node("ids", dtype, &[2]);
        let far = if dtype.is_signed() { -1.0 } else { f64::INFINITY };
        let machine =
            run_text("y[b] := table[ids[b]]", &[(&ids, &[2.0, far]), (&table, &[1.0, 2.0, 3.0])], &[&y]);
        assert_eq!(machine.get(&y), [3.0, 0.0], "{dtype}");
    }
}

#[test]
fn an_index_may_be_an_expression_with_accesses_in_it() {
    let (ids, table) = (node("ids", DType::I32, &[3]), f32s("table", &[6]));
    let (k, perm) = (node("k", DType::I32, &[]), node("perm", DType::I64, &[3]));
    let y = f32s("y", &[3]);
    let inputs: [(&TensorNode, &[f64]); 4] = [
        (&ids, &[0.0, 1.0, 2.0]),
        (&table, &[10.0, 11.0, 12.0, 13.0, 14.0, 15.0]),
        (&k, &[4.0]),
        (&perm, &[2.0, 0.0, 1.0]),
    ];
    let of = |text: &str| {
        let mentioned: Vec<_> =
            inputs.into_iter().filter(|(n, _)| text.contains(&(n.name() + "["))).collect();
        run_text(text, &mentioned, &[&y]).get(&y)
    };
    assert_eq!(of("y[b] := table[2 * ids[b] + 1]"), [11.0, 13.0, 15.0]);
    assert_eq!(of("y[b] := table[k[] + b]"), [14.0, 15.0, 0.0]);
    assert_eq!(of("y[b] := table[ids[perm[b]]]"), [12.0, 10.0, 11.0]);
    assert_eq!(of("y[b] := table[max(ids[b], 1)] + table[pad(ids, 5)[b + 1]]"), [22.0, 23.0, 27.0]);
}

#[test]
fn a_scatter_accumulates_in_the_order_of_the_loops() {
    let (ids, dy, dtable) = (node("ids", DType::I64, &[5]), f32s("dy", &[5]), f32s("dtable", &[3]));
    let inputs: [(&TensorNode, &[f64]); 2] =
        [(&ids, &[1.0, 1.0, 7.0, 1.0, 0.0]), (&dy, &[1e8, 3.0, 99.0, -1e8, 2.0])];
    let of = |text: &str| run_text(text, &inputs, &[&dtable]).get(&dtable);
    let sum = f64::from((1e8f32 + 3.0) - 1e8);
    assert_eq!(of("dtable[ids[b]] :+= dy[b]"), [2.0, sum, 0.0]);
    assert_eq!(of("dtable[j] := 5; dtable[ids[b]] max= dy[b]"), [5.0, 1e8, 5.0]);
    assert_eq!(of("dtable[j] := 5; dtable[ids[b]] min= dy[b]"), [2.0, -1e8, 5.0]);
    assert_eq!(of("dtable[ids[b]] :-= dy[b] * 2"), [-4.0, -2.0 * sum, 0.0]);
}

#[test]
fn a_plain_scatter_reaches_no_element_twice() {
    let (label, hot) = (node("label", DType::U8, &[3]), f32s("hot", &[3, 4]));
    let text = "hot[b,k] := 0 * b * k; hot[b, label[b]] := 1";
    let machine = run_text(text, &[(&label, &[2.0, 0.0, 9.0])], &[&hot]);
    assert_eq!(machine.get(&hot), [0., 0., 1., 0., 1., 0., 0., 0., 0., 0., 0., 0.]);
    let (ids, x, y) = (node("ids", DType::I32, &[3]), f32s("x", &[3]), f32s("y", &[4]));
    let error = parse("y[ids[b]] := x[b]", &[ids, x, y]).unwrap_err();
    assert!(matches!(error.kind(), TextErrorKind::Overlap { node } if node == "y"), "{error}");
}

#[test]
fn margins_are_outside() {
    let ids = node("ids", DType::U8, &[3]);
    let table = TensorNode::builder("table").dims([2, 2]).padding(Padding::new([(1, 2), (0, 1)], Some(0.0)));
    let table = table.build().unwrap();
    let y = f32s("y", &[3, 2]);
    // Five rows of three elements, where the first row and the last two are margins.
    let memory: Vec<f64> = (0..15).map(f64::from).collect();
    let inputs: [(&TensorNode, &[f64]); 2] = [(&ids, &[1.0, 255.0, 2.0]), (&table, &memory)];
    let machine = run_text("y[b,e] := table[ids[b], e]", &inputs, &[&y]);
    assert_eq!(machine.get(&y), [6.0, 7.0, 0.0, 0.0, 0.0, 0.0]);
    let machine = run_text("table[ids[b], e] += y[b,e]", &[inputs[0], inputs[1], (&y, &[100.0; 6])], &[]);
    let mut expected = memory.clone();
    expected[6] += 100.0;
    expected[7] += 100.0;
    assert_eq!(machine.get(&table), expected);
}

#[test]
fn an_empty_table_gives_neutral_values() {
    let (ids, table, y) = (node("ids", DType::I32, &[2]), f32s("table", &[0, 3]), f32s("y", &[2, 3]));
    let machine = run_text("y[b,e] := pad(table, 4)[ids[b], e]", &[(&ids, &[0.0, 1.0])], &[&table, &y]);
    assert_eq!(machine.get(&y), [4.0; 6]);
}

#[test]
fn listings_show_computed_indices() {
    let nodes = [node("ids", DType::I32, &[4]), f32s("table", &[3, 2]), f32s("y", &[4, 2])];
    let shown = |text: &str| parse(text, &nodes).unwrap().to_string();
    let text = "y[b,e] := pad(table, 1)[ids[b], e]";
    assert_eq!(shown(text), format!("# {text}\ny[i0, i1] =: pad(table, 1.0)[ids[i0], i1];\n"));
    let text = "table[ids[b], e] += y[b,e]";
    assert_eq!(shown(text), format!("# {text}\ntable[ids[i0], i1] =+ y[i0, i1];\n"));
    let lowered = lower(&parse(text, &nodes).unwrap(), &LowerOptions::default()).unwrap().lowered;
    let loops = print(&lowered.routine);
    assert!(loops.contains("scatter + %2[{%1[i0]}, i1] := %0[i0, i1]"), "{loops}");
}

#[test]
fn the_builder_makes_the_same() {
    let (ids, table) = (node("ids", DType::I32, &[2, 2]), f32s("table", &[2, 3, 2]));
    let y = f32s("y", &[2, 2, 2, 2]);
    let values: Vec<f64> = (1..13).map(f64::from).collect();
    let inputs: [(&TensorNode, &[f64]); 2] = [(&ids, &[2.0, 3.0, 0.0, 2.0]), (&table, &values)];
    let built = run(&builder::gather(&y, &table, 1, &ids).unwrap(), &inputs).get(&y);
    assert_eq!(built, run_text("y[a,b,c,e] := table[a, ids[b,c], e]", &inputs, &[&y]).get(&y));
    assert_eq!(built[..8], [5.0, 6.0, 0.0, 0.0, 1.0, 2.0, 5.0, 6.0]);
    let inputs: [(&TensorNode, &[f64]); 2] = [(&ids, &[2.0, 3.0, 0.0, 2.0]), (&y, &built)];
    let scattered = run(&builder::scatter(&table, 1, &ids, true, AccumOp::Add, &y).unwrap(), &inputs);
    let text = run_text("table[a, ids[b,c], e] :+= y[a,b,c,e]", &inputs, &[&table]);
    assert_eq!(scattered.get(&table), text.get(&table));
    let error = builder::gather(&y, &table, 0, &ids).unwrap_err().to_string();
    assert_eq!(
        error,
        "node y has dimensions [2, 2, 2, 2], expected [2, 2, 3, 2]: those of table with the ones of the indices for axis 0"
    );
}

/// The error of lowering for one computed index into `table`.
fn rejected(operand: Operand, by: Operand) -> String {
    let y = f32s("y", &[2]);
    let i = || Projection::from_iter([AxisIndex::axis(0)]);
    let dims = |size: usize| Dims::from_slice(&[size]);
    let at = (dims(3), Projection::from_iter([AxisIndex::Computed(1)]));
    let projections = Projections::new(&[2], (dims(2), i()), vec![at, (dims(2), i())], "test").unwrap();
    let program =
        builder::accumulate_at(false, AccumOp::Assign, &y, Rhs::Copy(operand), vec![by], projections);
    lower(&program, &LowerOptions::default()).unwrap_err().to_string()
}

#[test]
fn lowering_rejects_what_cannot_be_an_index() {
    let (table, ids, x) = (f32s("table", &[3]), node("ids", DType::I32, &[2]), f32s("x", &[2]));
    assert_eq!(
        rejected((&table).into(), (&x).into()),
        "node table: the index on axis 0 is computed in f32, expected an integer type"
    );
    assert_eq!(
        rejected(Operand::MergeBuffer(table), (&ids).into()),
        "assignment to node y: a merge buffer has a computed index, expected a node"
    );
}
