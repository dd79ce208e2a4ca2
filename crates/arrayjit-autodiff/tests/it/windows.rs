//! The adjoints of operands that are read in windows: read where they are contractions, by phases if windows
//! have a step, else written.

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
    // Windows that leave elements out, and few windows.
    close("y[o,t] :+= x[t + p] * f[o,p] where t < 5", &[floats("x", &[9]), f()]);
    close("y[o,t] :+= x[t + 4*p] * f[o,p] where t < 2", &[floats("x", &[10]), f()]);
    close("y[o,t] :+= x[t + p] * f[o,p] where t < 2", &[floats("x", &[4]), f()]);
}

#[test]
fn windows_with_a_step() {
    let f = || floats("f", &[2, 3]);
    // Odd and even lengths, elements beyond the last window, gaps between windows, and margins.
    close("y[o,t] :+= x[2*t + p] * f[o,p] where t < 3", &[floats("x", &[7]), f()]);
    close("y[o,t] :+= x[2*t + p] * f[o,p] where t < 3", &[floats("x", &[8]), f()]);
    close("y[o,t] :+= x[2*t + p] * f[o,p] where t < 3", &[floats("x", &[9]), f()]);
    close("y[o,t] :+= x[4*t + p] * f[o,p] where t < 3", &[floats("x", &[13]), f()]);
    close("y[o,t] :+= x[3*t + p + 1] * f[o,p] where t < 3", &[floats("x", &[11]), f()]);
    close("y[o,t] :+= pad(x, 0)[2*t + p - 1] * f[o,p] where t < 4", &[floats("x", &[8]), f()]);
    close("y[o,t] :+= pad(x, 0.5)[3*t + p - 2] * f[o,p] where t < 4", &[floats("x", &[8]), f()]);
    // Dilated and flipped windows, whose elements meet some phases or all, and no window.
    close("y[o,t] :+= x[2*t + 2*p] * f[o,p] where t < 3", &[floats("x", &[9]), f()]);
    close("y[o,t] :+= x[2*t + 3*p] * f[o,p] where t < 3", &[floats("x", &[11]), f()]);
    close("y[o,t] :+= x[4*t + 6*p] * f[o,p] where t < 4", &[floats("x", &[26]), f()]);
    close("y[o,t] :+= x[2*t - p + 2] * f[o,p] where t < 3, p < 3", &[floats("x", &[7]), f()]);
    close("y[o,t] :+= x[2*t - 3*p + 6] * f[o,p] where t < 3, p < 3", &[floats("x", &[11]), f()]);
    close("y[o,t] :+= x[2*t] * f[o] where t < 3", &[floats("x", &[6]), floats("f", &[2])]);
    close("y[o,t] :+= x[2*t + 1] * f[o] where t < 3", &[floats("x", &[7]), floats("f", &[2])]);
    // The position in the window is the result's index too, or is in the factor twice.
    close("y[o,t] :+= x[2*t + o] * f[o,p] where t < 3", &[floats("x", &[6]), f()]);
    close("y[o,t] :+= x[2*t + p] * f[o,p,p] where t < 3", &[floats("x", &[7]), floats("f", &[2, 3, 3])]);
    // More phases than are worth it.
    close("y[o,t] :+= x[10*t + p] * f[o,p] where t < 2", &[floats("x", &[20]), floats("f", &[2, 10])]);
    // The adjoint has other contributions.
    assert_close(
        "y[o,t] :+= x[2*t + p] * f[o,p] where t < 3\nloss :+= y[o,t] * y[o,t]\nloss += x[i] * x[i]",
        &[floats("x", &[7]), f()],
    );
}

#[test]
fn windows_with_a_step_on_two_axes() {
    let inputs = |h: usize, w: usize| [floats("x", &[2, 3, h, w]), floats("f", &[4, 3, 3, 2])];
    let close = |statement: &str, inputs: &[Input]| {
        assert_close(&format!("{statement}\nloss :+= y[b,o,s,t] * y[b,o,s,t]"), inputs)
    };
    close(
        "y[b,o,s,t] :+= pad(x, 0)[b, c, 2*s + p - 1, 2*t + q - 1] * f[o,c,p,q] where b < 2, s < 3, t < 3",
        &inputs(6, 5),
    );
    close("y[b,o,s,t] :+= x[b, c, 2*s + p, t + q] * f[o,c,p,q] where s < 2", &inputs(5, 4));
    // Groups, and one channel of several.
    close(
        "y[b,3*g + o,s,t] :+= x[b, g, 2*s + p, 2*t + q] * f[3*g + o,0,p,q] where s < 2, t < 2, o < 3, g < 2",
        &[floats("x", &[1, 2, 5, 4]), floats("f", &[6, 1, 3, 2])],
    );
    close("y[b,o,s,t] :+= x[b, 1, 2*s + p, 2*t + q] * f[o,c,p,q] where s < 2, t < 2", &inputs(5, 4));
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
        expect![[r#"
            phase[i1] =:+ pad(y.grad, 0.0)[i0, i1 - i2] * f[i0, 2*i2];
            phase_2[i1] =:+ pad(y.grad, 0.0)[i0, i1] * f[i0, 1];
            # concat;
              x.grad[2*i0] =:+ phase[i0];
              x.grad[2*i0 + 1] =:+ phase_2[i0];
            # end"#]],
    );
    listed(
        "y[o,t] :+= x[2*t] * f[o,p] where t < 3",
        &inputs(6),
        expect![[r#"
            phase[i1] =:+ pad(y.grad, 0.0)[i0, i1] * f[i0, i2];
            # concat;
              x.grad[2*i0] =:+ phase[i0];
            # end"#]],
    );
    listed(
        "y[o,t] :+= x[10*t + p] * f[o,p] where t < 2",
        &[floats("x", &[20]), floats("f", &[2, 10])],
        expect!["x.grad[10*i1 + i2] =:+ y.grad[i0, i1] * f[i0, i2];"],
    );
    listed(
        "y[o,t] :+= x[t + p] * f[o,p] where t < 5",
        &inputs(9),
        expect!["x.grad[i1 + i2] =:+ y.grad[i0, i1] * f[i0, i2];"],
    );
}
