//! The statements that gradients consist of.

use expect_test::{Expect, expect};
use tnode::TensorNode;

use crate::support::{Input, floats, integers, program};

/// Compares the statements of the backward pass.
fn assert_listing(text: &str, inputs: &[Input], expected: Expect) {
    let (program, loss) = program(text, inputs);
    let floats: Vec<&TensorNode> =
        inputs.iter().map(|input| &input.node).filter(|node| node.dtype().is_float()).collect();
    let found = autodiff::gradient(&program, &loss, &floats).unwrap_or_else(|error| panic!("{error}"));
    let all = found.program.to_string();
    expected.assert_eq(&all[all.find("loss.grad").expect("it is set first")..]);
}

#[test]
fn a_product_of_matrices_has_two_products_as_its_gradient() {
    assert_listing(
        "c[m,n] :+= a[m,k] * b[k,n]\nloss :+= c[m,n] * w[m,n]",
        &[floats("a", &[3, 4]), floats("b", &[4, 2]), floats("w", &[3, 2])],
        expect![[r#"
            loss.grad =: 1;
            c.grad[i0, i1] =:+ loss.grad * w[i0, i1];
            w.grad[i0, i1] =:+ loss.grad * c[i0, i1];
            a.grad[i0, i2] =:+ c.grad[i0, i1] * b[i2, i1];
            b.grad[i2, i1] =:+ c.grad[i0, i1] * a[i0, i2];
        "#]],
    );
}

/// The loops over the axes of the target come first, as in a statement written by hand.
#[test]
fn the_loops_of_a_derived_statement_begin_with_its_target() {
    let inputs = [floats("a", &[3, 4]), floats("b", &[4, 2])];
    let (program, loss) = program("c[m,n] :+= a[m,k] * b[k,n]\nloss :+= c[m,n] * c[m,n]", &inputs);
    let found = autodiff::gradient(&program, &loss, &[&inputs[1].node]).expect("it has one").program;
    let last = found.steps.last().expect("there are steps").accums().first().expect("a sum");
    assert_eq!(last.lhs.name(), "b.grad");
    assert_eq!(last.projections.product_space(), [4, 2, 3]);
}

#[test]
fn a_window_becomes_a_window_of_the_node_written() {
    assert_listing(
        "y[i] :+= x[2*i + k] * w[k]\nloss :+= y[i]",
        &[floats("x", &[9]), floats("w", &[3])],
        expect![[r#"
            loss.grad =: 1;
            y.grad[i0] =:+ loss.grad;
            x.grad[2*i0 + i1] =:+ y.grad[i0] * w[i1];
            w.grad[i1] =:+ y.grad[i0] * x[2*i0 + i1];
        "#]],
    );
    assert_listing(
        "y[i] :+= pad(x, 0)[i + k - 1] * w[k] where i < 9\nloss :+= y[i]",
        &[floats("x", &[9]), floats("w", &[3])],
        expect![[r#"
            loss.grad =: 1;
            y.grad[i0] =:+ loss.grad;
            reach[i0 + i1] =:+ y.grad[i0] * w[i1];
            x.grad[i0] =:+ reach[i0 + 1];
            w.grad[i1] =:+ y.grad[i0] * pad(x, 0.0)[i0 + i1 - 1];
        "#]],
    );
}

#[test]
fn a_gather_becomes_a_scatter() {
    assert_listing(
        "y[b,e] := table[ids[b], e]\nloss :+= y[b,e]",
        &[floats("table", &[5, 3]), integers("ids", &[4], &[1, 1, 0, 3])],
        expect![[r#"
            loss.grad =: 1;
            y.grad[i0, i1] =:+ loss.grad;
            table.grad[ids[i0], i1] =:+ y.grad[i0, i1];
        "#]],
    );
}

#[test]
fn a_condition_guards_factors_behind_it() {
    assert_listing(
        "y[i] := where(x[i] > 0, log(x[i]), 0)\nloss :+= y[i]",
        &[floats("x", &[5])],
        expect![[r#"
            loss.grad =: 1;
            y.grad[i0] =:+ loss.grad;
            log_x_i.grad[i0] =:+ where(x_i_0[i0], y.grad[i0], 0.0);
            factor[i0] =: log_x_i.grad[i0] / x[i0];
            x.grad[i0] =:+ where(log_x_i.grad[i0], factor[i0], 0.0);
        "#]],
    );
}

#[test]
fn an_overwritten_value_is_copied_before() {
    let (program, loss) =
        program("h[i] := sin(x[i])\nh[i] := h[i] * h[i]\nloss :+= h[i]", &[floats("x", &[5])]);
    let x = program.nodes().into_iter().find(|node| node.name() == "x").unwrap();
    let found = autodiff::gradient(&program, &loss, &[&x]).unwrap();
    expect![[r#"
        # h[i] := sin(x[i])
        h[i0] =: sin(x[i0]);
        # h[i] := h[i] * h[i]
        h_before[i0] =: h[i0];
        h[i0] =: h[i0] * h[i0];
        # loss :+= h[i]
        loss =:+ h[i0];
        loss.grad =: 1;
        h.grad[i0] =:+ loss.grad;
        factor[i0] =: 2.0 * h.grad[i0];
        h_2.grad[i0] =:+ factor[i0] * h_before[i0];
        factor_2[i0] =: cos(x[i0]);
        x.grad[i0] =:+ h_2.grad[i0] * factor_2[i0];
    "#]]
    .assert_eq(&found.program.to_string());
}
