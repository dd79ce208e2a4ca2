//! Concatenated axes: their loops, their values, and errors for ambiguous texts.

use crate::{assignment_text_errors, program};

use assignment_text::parse;
use assignments::lower::{LowerOptions, lower};
use assignments::{AccumOp, Assignments, builder};
use expect_test::{expect, expect_file};
use program::{Machine, body, f32s, read, values};
use tnode::TensorNode;

/// The values of `node` after a run with those inputs.
fn run(assignments: &Assignments, inputs: &[(&TensorNode, &[f64])], node: &TensorNode) -> Vec<f64> {
    let mut machine = Machine::new(assignments);
    inputs.iter().for_each(|(node, values)| machine.set(node, values));
    machine.run(&[]);
    machine.get(node)
}

#[test]
fn a_loop_nest_per_component() {
    let (x, z, y) = (f32s("x", &[2]), f32s("z", &[3]), f32s("y", &[5]));
    let text = read("y[i^j] := x[i], 2 * z[j]", &[&x, &z, &y]);
    expect![[r#"
        node %0 "x" f32[2]
        node %1 "z" f32[3]
        node %2 "y" f32[5]
        for i0 in 0..2 {
          %2[i0] := %0[i0]
        }
        for i1 in 0..3 {
          %2[i1 + 2] := 2.0f32 * %1[i1]
        }
    "#]]
    .assert_eq(&body(&text));
    expect![[r#"
        # y[i^j] := x[i], 2 * z[j]
        # concat;
          y[i0] =: x[i0];
          y[i0 + 2] =: 2.0 * z[i0];
        # end
    "#]]
    .assert_eq(&text.to_string());
    assert_eq!(run(&text, &[(&x, &[1., 2.]), (&z, &[3., 4., 5.])], &y), [1., 2., 6., 8., 10.]);
    assert!(text.embedded_nodes().contains(&y), "the parts cover it");
}

#[test]
fn targets_start_from_the_neutral_element_unless_all_is_written_once() {
    let (x, z, y) = (f32s("x", &[2, 4]), f32s("z", &[3, 4]), f32s("y", &[5]));
    let summed = read("y[i^j] :+= x[i,k], z[j,k]", &[&x, &z, &y]);
    expect![[r#"
        node %0 "x" f32[2, 4]
        node %1 "z" f32[3, 4]
        node %2 "y" f32[5]
        zero %2
        for i0 in 0..2 {
          for i1 in 0..4 {
            %2[i0] := %2[i0] + %0[i0, i1]
          }
        }
        for i2 in 0..3 {
          for i3 in 0..4 {
            %2[i2 + 2] := %2[i2 + 2] + %1[i2, i3]
          }
        }
    "#]]
    .assert_eq(&body(&summed));
    let once = read("y[i^j] :max= x[i,0], z[j,0]", &[&x, &z, &y]);
    expect![[r#"
        node %0 "x" f32[2, 4]
        node %1 "z" f32[3, 4]
        node %2 "y" f32[5]
        for i0 in 0..2 {
          %2[i0] := %0[i0, 0]
        }
        for i1 in 0..3 {
          %2[i1 + 2] := %1[i1, 0]
        }
    "#]]
    .assert_eq(&body(&once));
}

#[test]
fn the_inverse_has_several_targets() {
    let (dx, dz, dy) = (f32s("dx", &[2]), f32s("dz", &[3]), f32s("dy", &[5]));
    let grad = read("dx[i], dz[j] += dy[i^j]", &[&dx, &dz, &dy]);
    expect![[r#"
        node %0 "dy" f32[5]
        node %1 "dx" f32[2]
        node %2 "dz" f32[3]
        for i0 in 0..2 {
          %1[i0] := %1[i0] + %0[i0]
        }
        for i1 in 0..3 {
          %2[i1] := %2[i1] + %0[i1 + 2]
        }
    "#]]
    .assert_eq(&body(&grad));
    let inputs: [(&TensorNode, &[f64]); 3] =
        [(&dy, &[1., 2., 3., 4., 5.]), (&dx, &[10.; 2]), (&dz, &[20.; 3])];
    assert_eq!(run(&grad, &inputs, &dx), [11., 12.]);
    assert_eq!(run(&grad, &inputs, &dz), [23., 24., 25.]);
}

#[test]
fn axes_rotate_repeat_and_make_blocks() {
    let (x, y) = (f32s("x", &[5]), f32s("y", &[5]));
    let rotated = read("y[i^j] := x[j^i] where i < 2", &[&x, &y]);
    assert_eq!(run(&rotated, &[(&x, &[1., 2., 3., 4., 5.])], &y), [4., 5., 1., 2., 3.]);

    let (x, y) = (f32s("x", &[2]), f32s("y", &[6]));
    let repeated = read("y[i^i^i] := x[i]", &[&x, &y]);
    assert_eq!(run(&repeated, &[(&x, &[7., 8.])], &y), [7., 8., 7., 8., 7., 8.]);

    // A block diagonal: `i` and `j` go together on both axes.
    let (a, b, y) = (f32s("a", &[2]), f32s("b", &[1]), f32s("y", &[3, 3]));
    let blocks = read("y[i^j, i^j] :+= a[i], b[j]", &[&a, &b, &y]);
    let diagonal = run(&blocks, &[(&a, &[1., 2.]), (&b, &[3.])], &y);
    assert_eq!(diagonal, [1., 0., 0., 0., 2., 0., 0., 0., 3.]);
}

#[test]
fn every_combination_of_two_axes() {
    let [a, b, c, d] = [f32s("a", &[1, 2]), f32s("b", &[1, 3]), f32s("c", &[2, 2]), f32s("d", &[2, 3])];
    let y = f32s("y", &[3, 5]);
    let text = read("y[i^j, k^l] := a[i,k], b[i,l], c[j,k], d[j,l]", &[&a, &b, &c, &d, &y]);
    let inputs = [(&a, values(2, 1)), (&b, values(3, 2)), (&c, values(4, 3)), (&d, values(6, 4))];
    let set: Vec<(&TensorNode, &[f64])> = inputs.iter().map(|(node, values)| (*node, &values[..])).collect();
    let [a, b, c, d] = inputs.each_ref().map(|(_, values)| values);
    let expected: Vec<f64> =
        [[&a[..], &b[..]].concat(), [&c[..2], &d[..3]].concat(), [&c[2..], &d[3..]].concat()].concat();
    assert_eq!(run(&text, &set, &y), expected);
}

#[test]
fn one_letter_may_be_open() {
    let (x, y) = (f32s("x", &[2]), f32s("y", &[5]));
    let filled = read("y[i^j] := x[i], 10 + j", &[&x, &y]);
    assert_eq!(run(&filled, &[(&x, &[1., 2.])], &y), [1., 2., 10., 11., 12.]);
}

#[test]
fn what_the_builder_makes() {
    let (a, b, y) = (f32s("a", &[2, 1, 2]), f32s("b", &[2, 3, 2]), f32s("y", &[2, 4, 2]));
    let joined = builder::concat(&y, 1, &[&a, &b]).unwrap();
    expect![[r#"
        # concat;
          y[i0, 0, i2] =: a[i0, 0, i2];
          y[i0, i1 + 1, i2] =: b[i0, i1, i2];
        # end
    "#]]
    .assert_eq(&joined.to_string());
    let (va, vb) = (values(4, 1), values(12, 2));
    let whole = run(&joined, &[(&a, &va), (&b, &vb)], &y);
    assert_eq!(whole, [&va[..2], &vb[..6], &va[2..], &vb[6..]].concat());
    let parted = builder::split(&[&a, &b], 1, &y).unwrap();
    assert_eq!((run(&parted, &[(&y, &whole)], &a), run(&parted, &[(&y, &whole)], &b)), (va, vb));
    let (p, q, r) = (f32s("p", &[2]), f32s("q", &[3]), f32s("r", &[5]));
    let grad = builder::block("i^j => i; j", &[&p, &q], true, AccumOp::Add, &[&r]).unwrap();
    expect![[r#"
        # concat;
          p[i0] =:+ r[i0];
          q[i0] =:+ r[i0 + 2];
        # end
    "#]]
    .assert_eq(&grad.to_string());
}

#[test]
fn what_is_rejected() {
    let (x, z, y, w) = (f32s("x", &[2]), f32s("z", &[3]), f32s("y", &[5]), f32s("w", &[5]));
    let nodes = [x, z, y, w];
    assignment_text_errors::check_parser(&expect_file!["../errors/concatenations.txt"], &nodes);
    let built =
        |result: Result<Assignments, builder::BuildError>| result.expect_err("rejected").to_string() + "\n\n";
    let [x, z, y, w] = &nodes;
    let mut all = String::new();
    all += &built(builder::concat(y, 0, &[x, x]));
    all += &built(builder::concat(y, 1, &[x, z]));
    all += &built(builder::concat(y, 0, &[]));
    all += &built(builder::block("i; j; i^j => i^j", &[y], false, AccumOp::Assign, &[x, z, w]));
    all += &built(builder::block("i => i^j", &[y], false, AccumOp::Assign, &[x]));
    all += &built(builder::block("i; j => i^j", &[y, w], false, AccumOp::Assign, &[x, z]));
    expect![[r#"
        einsum text, column 14: `p0^p1` has 2 + 2 elements, but the left-hand side has 5
        1 | p0, ; p1, => p0^p1,
          |              ^^^^^

        no axis 1 in the dimensions [5]

        node y: expected at least one part, found none

        einsum text, column 7: ambiguous where i runs: expected one operand, found `i` and `i^j`
        1 | i; j; i^j => i^j
          |       ^^^

        einsum text, column 6: the size of label `j` is open; expected it as an axis of its own somewhere
        1 | i => i^j
          |      ^^^

        einsum text, column 1: the text has 1 arrays written, expected 2
        1 | i; j => i^j
          | ^^^^^^^^^^^

    "#]]
    .assert_eq(&all);
}

#[test]
fn parts_leave_no_gap() {
    let (x, z, y) = (f32s("x", &[2]), f32s("z", &[3]), f32s("y", &[7]));
    let error = lower(&read("y[i^j] := x[i], z[j] where i < 2", &[&x, &z, &y]), &LowerOptions::default());
    let check = expect![[r#"
        line 1, column 3: node y: the assignment does not write all of axis 0 (size 7), and nothing initializes the node before; expected an initialization such as `y[i] := 0`, an operator such as `:+=` that starts the whole node, or a node whose values stay: `param` in a text, `MemoryMode::Materialized` in Rust
        1 | y[i^j] := x[i], z[j] where i < 2
          |   ^^^"#]];
    check.assert_eq(&error.expect_err("two elements have no value").to_string());
}

#[test]
fn an_axis_has_as_many_letters_as_a_statement_has_parts() {
    let program = |letters: usize| {
        let axis: Vec<String> = (0..letters).map(|k| format!("i{k}")).collect();
        let (x, y) = (f32s("x", &[letters]), f32s("y", &[letters]));
        let wheres: Vec<String> = axis.iter().map(|letter| format!("{letter} < 1")).collect();
        let text = format!("y[{axis}] := x[{axis}] where {}", wheres.join(", "), axis = axis.join("^"));
        parse(&text, &[x, y]).map_err(|error| error.to_string())
    };
    assert_eq!(program(256).map(|read| read.steps.last().map(|step| step.accums().len())), Ok(Some(256)));
    let error = program(257).unwrap_err();
    assert!(error.contains("more than 256 combinations of letters"), "{error}");
}

#[test]
fn an_access_has_as_many_axes_as_a_node_may_have() {
    let y = f32s("y", &[1]);
    for axes in [tnode::MAX_RANK + 1, 16_000] {
        let text = format!("y[{}] := 1", vec!["0"; axes].join(","));
        let error = parse(&text, std::slice::from_ref(&y)).unwrap_err().to_string();
        assert!(error.contains(&format!("an array has at most 32 axes, found {axes}")), "{error}");
    }
}
