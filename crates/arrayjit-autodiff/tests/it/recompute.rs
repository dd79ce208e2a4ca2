//! Nodes that the backward pass computes again: the copied statements, their bits, and the errors.

use std::collections::BTreeSet;

use assignment_text::{Program, unparse};
use assignments::{Assignments, Origin};
use autodiff::{Gradient, GradientErrorKind, expand, gradient};
use expect_test::{Expect, expect};
use tnode::TensorNode;

use crate::compiled::results;
use crate::support::{Input, floats, integers, program};

/// The statements behind the loss, as text.
fn backward(text: &str) -> String {
    let mut program = Program::parse(text).unwrap().assignments(&[]).unwrap_or_else(|e| panic!("{e}"));
    expand(&mut program).unwrap_or_else(|error| panic!("{error}"));
    let text = unparse(&program);
    let from = text.find("loss.grad := 1").expect("the backward pass starts so");
    text[from..].to_owned()
}

#[test]
fn a_reduction_is_computed_again_where_the_backward_pass_needs_it() {
    expect![[r#"
        loss.grad := 1
        factor[i,j] := 2 * loss.grad
        h_again[b,j] :+= x[b,i] * w[i,j]
        tanh_h_b_j_again[b,j] := tanh(h_again[b,j])
        a_again[b,j] := h_again[b,j] * tanh_h_b_j_again[b,j]
        a.grad[b,j] :+= factor[b,j] * a_again[b,j]
        h.grad[b,j] :+= a.grad[b,j] * tanh_h_b_j_again[b,j]
        tanh_h_b_j.grad[b,j] :+= a.grad[b,j] * h_again[b,j]
        factor_3[b,j] := tanh_h_b_j_again[b,j] * tanh_h_b_j_again[b,j]
        factor_2[i,j] := 1 - factor_3[i,j]
        h.grad[b,j] += tanh_h_b_j.grad[b,j] * factor_2[b,j]
        w.grad[i,j] :+= h.grad[b,j] * x[b,i]
        keep w.grad
        recompute h
    "#]]
    .assert_eq(&backward(
        "input x f32[8, 4]; param w f32[4, 6]
         h[b,j] :+= x[b,i] * w[i,j]
         a[b,j] := h[b,j] * tanh(h[b,j])
         loss :+= a[b,j] * a[b,j]
         recompute h
         grad loss by w
         keep w.grad",
    ));
}

/// The derivative of `relu` reads its result. Without `keep r`, the result is computed from the repeated `h`.
#[test]
fn a_node_computed_elementwise_from_a_repeated_one_is_computed_again() {
    let text = "
        input x f32[8, 4]; param w f32[4, 6], v f32[6]
        h[b,j] :+= x[b,i] * w[i,j]
        r[b,j] := relu(h[b,j])
        s[b,j] := tanh(r[b,j])
        loss :+= s[b,j] * v[j]
        recompute h
        grad loss by w, v
        keep w.grad, v.grad";
    expect![[r#"
        loss.grad := 1
        s.grad[i,j] :+= loss.grad * v[j]
        h_again[b,j] :+= x[b,i] * w[i,j]
        r_again[b,j] := relu(h_again[b,j])
        s_again[b,j] := tanh(r_again[b,j])
        v.grad[i] :+= loss.grad * s_again[j,i]
        factor_2[b,j] := s_again[b,j] * s_again[b,j]
        factor[b,j] := 1 - factor_2[b,j]
        r.grad[b,j] :+= s.grad[b,j] * factor[b,j]
        h.grad[b,j] :+= relu_gate(r_again[b,j], r.grad[b,j])
        w.grad[i,j] :+= h.grad[b,j] * x[b,i]
        keep v.grad
        keep w.grad
        recompute h
    "#]]
    .assert_eq(&backward(text));
    let kept = backward(&format!("{text}, r"));
    assert!(!kept.contains("again"), "{kept}");
}

/// Without a request for `h`, a request for `a` repeats one statement; nodes that are kept are stored.
#[test]
fn only_requested_nodes_are_computed_again() {
    let text = "
        input x f32[8, 4]; param w f32[4, 6], v f32[6]
        h[b,j] :+= x[b,i] * w[i,j]
        a[b,j] := exp(h[b,j]) * x[b,0]
        y[b] :+= a[b,j] * v[j]
        loss :+= y[b] * y[b]
        grad loss by v
        keep v.grad";
    expect![[r#"
        loss.grad := 1
        factor[i] := 2 * loss.grad
        y.grad[b] :+= factor[b] * y[b]
        a_again[b,j] := exp_h_b_j[b,j] * x[b,0]
        v.grad[i] :+= y.grad[b] * a_again[b,i]
        keep v.grad
        recompute a
    "#]]
    .assert_eq(&backward(&format!("{text}\nrecompute a")));
    let kept = backward(&format!("{text}, a\nrecompute a"));
    assert!(!kept.contains("a_again"), "{kept}");
    assert!(kept.ends_with("keep a\nkeep v.grad\nrecompute a\n"), "{kept}");
}

/// Each loss has a backward pass of its own, with copies of its own.
#[test]
fn several_gradients_have_several_copies() {
    let text = backward(
        "param w f32[4]
         h[i] :+= w[i] * w[i]
         loss :+= h[i] * h[i] * h[i]
         norm :+= h[i] * h[i]
         recompute h
         grad loss by w
         a[i] := w.grad[i] * 2
         grad norm by w
         b[i] := w.grad[i]
         keep a, b",
    );
    assert!(text.contains("h_again[i] ") && text.contains("h_again_2[i] "), "{text}");
}

/// Asserts that the gradients have the same bits with the requests for `names`, and that each is computed
/// again.
fn assert_same(text: &str, inputs: &[Input], names: &[&str]) {
    let (stored, loss) = program(text, inputs);
    let parameters: Vec<&TensorNode> =
        inputs.iter().map(|input| &input.node).filter(|node| node.dtype().is_float()).collect();
    let mut again = stored.clone();
    for name in names {
        let node = stored.nodes().into_iter().find(|node| node.name() == *name).expect("it is mentioned");
        again.recomputed.insert(node, Origin::default());
    }
    let [stored, again] = [stored, again].map(|program| {
        let found = gradient(&program, &loss, &parameters).unwrap_or_else(|error| panic!("{text}\n{error}"));
        let values = results(&found.program, inputs, &found.gradients, &[]);
        let values = values.unwrap_or_else(|error| panic!("{text}\n{error}\n{}", found.program));
        (found.program, values)
    });
    let written: BTreeSet<String> = again.0.written_nodes().iter().map(TensorNode::name).collect();
    for name in names {
        assert!(written.contains(&format!("{name}_again")), "{name} is not computed again: {}", again.0);
    }
    assert_eq!(again.1, stored.1, "{}", again.0);
}

/// Compares the bits of the gradients of `found` with those of a program whose nodes are all computed again,
/// except for the nodes that cannot be.
pub(crate) fn compare_recomputed(
    program: &Assignments,
    loss: &TensorNode,
    found: &Gradient,
    inputs: &[Input],
    parameters: &[&TensorNode],
    bindings: &[i64],
) -> Result<(), String> {
    let mut again = program.clone();
    let written = program.written_nodes().into_iter().filter(|node| !program.kept.contains(node));
    again.recomputed = written.map(|node| (node, Origin::default())).collect();
    let again = loop {
        let error = match gradient(&again, loss, parameters) {
            Ok(again) => break again,
            Err(error) => error,
        };
        let (GradientErrorKind::RecomputedInput { node: name, .. }
        | GradientErrorKind::RecomputedValues { node: name }) = error.kind()
        else {
            return Err(error.to_string());
        };
        again.recomputed.retain(|node, _| node.name() != *name);
    };
    let expected = results(&found.program, inputs, &found.gradients, bindings)?;
    let values = results(&again.program, inputs, &again.gradients, bindings)
        .map_err(|error| format!("{error}\n{}", again.program))?;
    match values == expected {
        true => Ok(()),
        false => Err(format!("{values:?}, expected {expected:?}\n{}", again.program)),
    }
}

#[test]
fn copies_have_the_bits_of_the_values() {
    let x = || floats("x", &[4, 3]);
    let w = || floats("w", &[3, 3]);
    assert_same(
        "h[b,j] :+= x[b,i] * w[i,j]
         a[b,j] := tanh(h[b,j])
         g[b,j] :+= a[b,i] * w[i,j]
         y[b,j] := g[b,j] * sin(g[b,j]) + a[b,j]
         loss :+= y[b,j] * y[b,j]",
        &[x(), w()],
        &["h", "a", "g", "y"],
    );
    // Several statements compute one node, the last one in place.
    assert_same(
        "h[b,j] :+= x[b,i] * w[i,j]
         h[b,j] += x[b,j]
         h[b,j] := h[b,j] * sin(h[b,j])
         loss :+= exp(h[b,j])",
        &[x(), w()],
        &["h"],
    );
    // One node holds two values, one after another.
    assert_same(
        "h[b,j] :+= x[b,i] * w[i,j]
         y[b,j] := sin(h[b,j])
         h[b,j] :+= y[b,i] * w[i,j]
         loss :+= exp(h[b,j])",
        &[x(), w()],
        &["h"],
    );
    assert_same(
        "m[b] :max= x[b,i]
         e[b,i] := exp(x[b,i] - m[b])
         s[b] :+= e[b,i]
         p[b,i] := e[b,i] / s[b]
         loss :+= p[b,i] * p[b,i] * w[i,i]",
        &[x(), w()],
        &["m", "e", "s", "p"],
    );
}

#[test]
fn every_form_of_statement_is_repeated() {
    let x = || floats("x", &[6]);
    // A window, a gather, a scatter and a concatenation.
    assert_same("c[i] :+= x[i + k] * w[k]\nloss :+= exp(c[i])", &[x(), floats("w", &[3])], &["c"]);
    assert_same(
        "g[k] := x[n[k]]\ns[i] := 0 where i < 6\ns[n[k]] += g[k] * g[k]\nloss :+= s[i] * s[i]",
        &[x(), integers("n", &[4], &[0, 2, 2, 5])],
        &["g", "s"],
    );
    assert_same("c[i^j] := x[i], sin(w[j])\nloss :+= c[k] * c[k]", &[x(), floats("w", &[3])], &["c"]);
    // Numbers that are sampled again with the same key.
    assert_same("h[i] := x[i] * normal(7, i)\nloss :+= h[i] * h[i]", &[x()], &["h"]);
}

fn error(text: &str, expected: Expect) -> GradientErrorKind {
    let mut program: Assignments =
        Program::parse(text).unwrap().assignments(&[]).unwrap_or_else(|error| panic!("{error}"));
    let before = program.clone();
    let error = expand(&mut program).expect_err("the node cannot be computed again");
    assert_eq!(program, before);
    expected.assert_eq(&format!("{error}\n"));
    match error.kind() {
        GradientErrorKind::RecomputedInput { node, input } => {
            GradientErrorKind::RecomputedInput { node: node.clone(), input: input.clone() }
        }
        GradientErrorKind::RecomputedValues { node } => {
            GradientErrorKind::RecomputedValues { node: node.clone() }
        }
        kind => panic!("{kind}"),
    }
}

#[test]
fn inputs_must_be_unchanged() {
    error(
        "param w f32[4], x f32[4]
         h[i] := x[i] * w[i]
         x[i] := 0
         loss :+= h[i] * h[i]
         grad loss by w
         keep w.grad
         recompute h",
        expect![[r#"
            line 7, column 20: node h cannot be computed again in the backward pass, because x, which it is computed from, changes after it; write the new values to another node, or remove `recompute h`
            7 |          recompute h
              |                    ^
        "#]],
    );
    // In the second round of a repetition.
    error(
        "param w[0] f32[4], w[1] f32[4], x f32[4]
         repeat l in 0..2 {
             h[l][i] := x[i] * w[l][i]
             recompute h[l]
         }
         x[i] := 0
         loss :+= h[0][i] * h[1][i]
         grad loss by w
         keep w.grad[0], w.grad[1]",
        expect![[r#"
            line 4, column 24: node h_1 cannot be computed again in the backward pass, because x, which it is computed from, changes after it; write the new values to another node, or remove `recompute h_1`
            4 |              recompute h[l]
              |                        ^
            for `l` = 1, line 2, column 10
            2 |          repeat l in 0..2 {
              |          ^^^^^^^^^^^^^^^^
        "#]],
    );
}

#[test]
fn values_must_be_of_the_program() {
    error(
        "param w f32[4], m f32[4]
         m[i] += w[i]
         loss :+= m[i] * m[i]
         grad loss by w
         keep w.grad
         recompute m",
        expect![[r#"
            line 6, column 20: node m cannot be computed again in the backward pass, because it has values from before the program, or its own id; remove `recompute m`
            6 |          recompute m
              |                    ^
        "#]],
    );
}
