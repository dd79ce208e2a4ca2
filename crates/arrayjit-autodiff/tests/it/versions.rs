//! Nodes that are written several times.

use expect_test::expect;

use crate::compiled::results;
use crate::support::{assert_close, floats, gradient_at, program, values};

#[test]
fn overwritten_values_are_saved() {
    assert_close(
        "h[i] := x[i] * x[i]\ny[i] := sin(h[i])\nh[i] := exp(x[i])\nloss :+= y[i] * h[i]",
        &[floats("x", &[4])],
    );
    assert_close(
        "h[i] := sin(x[i])\nh[i] := h[i] * h[i]\nh[i] := h[i] * x[i] + h[i]\nloss :+= h[i] * h[i]",
        &[floats("x", &[4])],
    );
    assert_close("h[i] := x[i]\nh[i] += h[i] * h[i]\nh[i] *= h[i]\nloss :+= h[i]", &[floats("x", &[4])]);
}

#[test]
fn partial_overwrites_clear_a_part() {
    assert_close(
        "h[i] := x[i]\nh[2] := w * w\nloss :+= h[i] * h[i] * x[i]",
        &[floats("x", &[4]), floats("w", &[])],
    );
    assert_close(
        "h[i] := x[i] * x[i]\nh[i] := sin(h[i]) where i < 2\nloss :+= h[i] * h[i]",
        &[floats("x", &[4])],
    );
    assert_close(
        "h[i] := x[i]\ny[i] := h[i] * h[i]\nh[1] := y[2] * h[1]\nh[3] := y[1] * y[0]\nloss :+= h[i] * h[i]",
        &[floats("x", &[4])],
    );
}

/// Constants clear parts of an adjoint, in a row and in between.
#[test]
fn overwrites_by_constants() {
    assert_close(
        "h[i] := x[i] * x[i]
         h[1] := 5
         n := i32(h[1])
         h[1] := 3
         h[i] or= 1 where i < 1
         y[i] := h[i] * x[i]
         h[2] := n
         loss :+= y[i] * h[i]",
        &[floats("x", &[4])],
    );
}

/// A statement over no points leaves the adjoint of its target as it is.
#[test]
fn statements_over_no_points() {
    for op in ["+", "-", "*", "max"] {
        assert_close(
            &format!("h[i] := x[i]\nh[i] {op}= y[i,j]\nloss :+= h[i] * h[i]"),
            &[floats("x", &[4]), floats("y", &[4, 0])],
        );
    }
}

/// A recurrence over the rows of one node, one statement for each row.
#[test]
fn rows_in_sequence() {
    let mut text = "h[t,i] := 0 where t < 5, i < 2\n".to_owned();
    for t in 0..5 {
        let before = if t == 0 { "s[i]".to_owned() } else { format!("p{t}[i]") };
        text += &format!("q{t}[i] :+= {before} * w[j,i]\nh[{t},i] := tanh(q{t}[i] + x[{t},i])\n");
        if t < 4 {
            text += &format!("p{}[i] := h[{t},i]\n", t + 1);
        }
    }
    assert_close(
        &(text + "loss :+= h[t,i] * h[t,i] * (t + 1)"),
        &[floats("s", &[2]), floats("w", &[2, 2]), floats("x", &[5, 2])],
    );
}

#[test]
fn sums_in_several_steps() {
    assert_close(
        "h[i] :+= x[i,j] * w[j]\nh[i] += x[i,j]\nh[i] -= w[j] * x[0,i] where i < 3\nloss :+= h[i] * h[i]",
        &[floats("x", &[3, 4]), floats("w", &[4])],
    );
}

/// An update of a parameter behind the loss does not change the gradient, which has the values that the loss
/// was computed with.
#[test]
fn gradients_behind_an_update() {
    let w = values("w", &[], &[1.5]);
    let updated = "loss := w * w * w\nw := w - 0.5 * loss\n";
    assert_eq!(gradient_at(updated, &w), [6.75]);
    let twice = "first := w * w\nloss := w * w * w\ngrad first by w\nw := w - 0.5 * w.grad\n";
    assert_eq!(gradient_at(twice, &w), [6.75]);
    // The loss is computed with the updated value.
    let later = "w := w + 0.5\nloss := w * w * w\nw := 0\n";
    assert_eq!(gradient_at(later, &w), [12.0]);
}

/// Each parameter is a variable, although its update followed from older values of the other one.
#[test]
fn gradients_behind_updates_of_several_parameters() {
    let (w, v) = (values("w", &[], &[1.5]), values("v", &[], &[2.0]));
    let updated =
        |rest: &str| format!("first := w * w * v\ngrad first by w, v\nw := w - 0.5 * w.grad\n{rest}");
    let gradients = |text: &str| {
        let (found, loss) = program(text, &[w.clone(), v.clone()]);
        let found = autodiff::gradient(&found, &loss, &[&w.node, &v.node]).unwrap();
        results(&found.program, &[w.clone(), v.clone()], &found.gradients, &[]).unwrap()
    };
    // The updated values are -1.5 and 0.875.
    assert_eq!(
        gradients(&updated("v := v - 0.5 * v.grad\nloss := w * v * v")),
        [[0.875 * 0.875], [2.0 * -1.5 * 0.875]]
    );
    // A parameter that is computed from the new value of the other one: v = 3 * w = -4.5.
    let follows = gradients(&updated("v := 3 * w + 0 * v.grad\nloss := w * v * v"));
    assert_eq!(follows, [[3.0 * 9.0 * 2.25], [2.0 * -1.5 * -4.5]]);
    // Other nodes of older values are no variables.
    let other = updated("c := 0.5 * v.grad\nv := v - c\nloss := w * v * v * c");
    let (found, loss) = program(&other, &[w.clone(), v.clone()]);
    let error = autodiff::gradient(&found, &loss, &[&w.node, &v.node]).map(drop).unwrap_err().to_string();
    assert!(error.contains("depends on values of w from before and after this statement"), "{error}");
}

#[test]
fn a_loss_of_values_before_and_after_an_update() {
    let w = values("w", &[], &[1.5]);
    let (found, loss) = program("old := w * w\nw := w - 0.5\nloss := old * w", std::slice::from_ref(&w));
    let error = autodiff::gradient(&found, &loss, &[&w.node]).map(drop).unwrap_err().to_string();
    expect![[r#"
        line 2, column 1: the loss loss depends on values of w from before and after this statement, and the gradient by w would lack a part; write the new values to another node, or `detach` those before
        2 | w := w - 0.5
          | ^^^^^^^^^^^^
    "#]]
    .assert_eq(&(error + "\n"));
    let detached = "old := w * w\ndetach old\nw := w - 0.5\nloss := old * w";
    assert_eq!(gradient_at(detached, &w), [2.25]);
}
