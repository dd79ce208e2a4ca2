//! The adjoints of operands that are read in windows: read where they are contractions, else written.

use autodiff::gradient;
use expect_test::{Expect, expect};

use crate::support::{Input, assert_close, floats, program};

fn close(statement: &str, inputs: &[Input]) {
    assert_close(&format!("{statement}\nloss :+= y[o,t] * y[o,t] * (t + 1)"), inputs);
}

#[test]
fn windows_of_products() {
    let f = || floats("f", &[2, 3]);
    // One window after the other, dilated, flipped, with margins on both sides, and subtracted.
    close("y[o,t] :+= x[t + p] * f[o,p]", &[floats("x", &[7]), f()]);
    close("y[o,t] :+= x[t + 2*p] * f[o,p]", &[floats("x", &[9]), f()]);
    close("y[o,t] :+= x[t - p + 2] * f[o,p] where t < 5, p < 3", &[floats("x", &[7]), f()]);
    close("y[o,t] :+= pad(x, 0)[t + p - 1] * f[o,p] where t < 7", &[floats("x", &[7]), f()]);
    close("y[o,t] :+= pad(x, 0.5)[t + p - 2] * f[o,p] where t < 9", &[floats("x", &[7]), f()]);
    close("y[o,t] := z[o,t]\ny[o,t] -= x[t + p] * f[o,p]", &[floats("x", &[7]), f(), floats("z", &[2, 5])]);
    // Windows that leave elements out, few windows, and a larger step.
    close("y[o,t] :+= x[t + p] * f[o,p] where t < 5", &[floats("x", &[9]), f()]);
    close("y[o,t] :+= x[t + 4*p] * f[o,p] where t < 2", &[floats("x", &[10]), f()]);
    close("y[o,t] :+= x[t + p] * f[o,p] where t < 2", &[floats("x", &[4]), f()]);
    close("y[o,t] :+= x[2*t + p] * f[o,p] where t < 3", &[floats("x", &[7]), f()]);
}

/// The result and the other factor may have the letter of the window too.
#[test]
fn windows_in_several_places() {
    assert_close(
        "y[o,s,t] :+= x[s + p, t + q] * f[o,p,q]\nloss :+= y[o,s,t] * y[o,s,t]",
        &[floats("x", &[5, 6]), floats("f", &[2, 2, 3])],
    );
    assert_close(
        "y[o,s,t] :+= x[s + p, 2*t + q] * f[o,p,q] where t < 2\nloss :+= y[o,s,t] * y[o,s,t]",
        &[floats("x", &[5, 5]), floats("f", &[2, 2, 3])],
    );
    close("y[o,t] :+= x[t + p] * f[o,p,t]", &[floats("x", &[7]), floats("f", &[2, 3, 5])]);
    close("y[o,t] :+= x[t + p] * x[t + 2] * f[o,p] where p < 3", &[floats("x", &[7]), floats("f", &[2, 3])]);
    assert_close(
        "y[o,t] :+= x[t + p, t] * f[o,p]\nloss :+= y[o,t] * y[o,t]",
        &[floats("x", &[7, 5]), floats("f", &[2, 3])],
    );
    assert_close("y[t] :+= x[t + p] * f[p]\nloss :+= y[t] * y[t]", &[floats("x", &[7]), floats("f", &[3])]);
}

/// The last steps of the gradient by `x`.
fn listed(statement: &str, inputs: &[Input], expected: Expect) {
    let (program, loss) = program(&format!("{statement}\nloss :+= y[o,t]"), inputs);
    let found = gradient(&program, &loss, &[&inputs[0].node]).expect("it has one").program.to_string();
    let lines = found.lines().skip_while(|line| !line.starts_with("y.grad")).skip(1);
    expected.assert_eq(&lines.collect::<Vec<_>>().join("\n"));
}

#[test]
fn windows_of_contractions_are_read() {
    let inputs = |count: usize| [floats("x", &[count]), floats("f", &[2, 3])];
    listed(
        "y[o,t] :+= x[t + p] * f[o,p]",
        &inputs(7),
        expect!["x.grad[i1] =:+ pad(y.grad, 0.0)[i0, i1 - i2] * f[i0, i2];"],
    );
    listed(
        "y[o,t] :+= x[2*t + p] * f[o,p] where t < 3",
        &inputs(7),
        expect!["x.grad[2*i1 + i2] =:+ y.grad[i0, i1] * f[i0, i2];"],
    );
    listed(
        "y[o,t] :+= x[t + p] * f[o,p] where t < 5",
        &inputs(9),
        expect!["x.grad[i1 + i2] =:+ y.grad[i0, i1] * f[i0, i2];"],
    );
}
