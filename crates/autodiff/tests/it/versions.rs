//! Nodes that are written several times.

use crate::support::{assert_close, floats};

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

#[test]
fn sums_in_several_steps() {
    assert_close(
        "h[i] :+= x[i,j] * w[j]\nh[i] += x[i,j]\nh[i] -= w[j] * x[0,i] where i < 3\nloss :+= h[i] * h[i]",
        &[floats("x", &[3, 4]), floats("w", &[4])],
    );
}
