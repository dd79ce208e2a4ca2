//! Accumulations that are no sums.

use crate::support::{assert_close, between, floats, gradient_at, values};

#[test]
fn greatest_and_least() {
    assert_close(
        "m[i] :max= x[i,j] * w[j]\nloss :+= m[i] * m[i]",
        &[floats("x", &[4, 3]), floats("w", &[3])],
    );
    assert_close("m[i] :min= x[i,j]\nloss :+= m[i] * m[i]", &[floats("x", &[4, 3])]);
    assert_close(
        "m[i] := w[i]\nm[i] max= x[i,j]\nloss :+= m[i] * m[i]",
        &[floats("x", &[4, 3]), floats("w", &[4])],
    );
    assert_close(
        "m[i] := w[i]\nm[i] min= x[i] * x[i]\nloss :+= m[i] * m[i]",
        &[floats("x", &[4]), floats("w", &[4])],
    );
    assert_close("m[i] :max= x[2*i + k] where k < 3, i < 3\nloss :+= m[i] * m[i]", &[floats("x", &[8])]);
}

/// Values that are equal to the greatest or least one share the gradient equally.
#[test]
fn ties_of_several_values_share_equally() {
    let gradient = |text: &str, x: &[f64]| gradient_at(text, &values("x", &[x.len()], x));
    let third = f64::from(1.0f32 / 3.0);
    let greatest = gradient("loss :max= x[i]", &[2.0, 1.0, 2.0, 2.0]);
    assert_eq!(greatest, [third, 0.0, third, third]);
    let least = gradient("loss :min= x[i]", &[5.0, -1.0, -1.0]);
    assert_eq!(least, [0.0, 0.5, 0.5]);
    // The value from which the accumulation starts is one of the values.
    let started = gradient("loss := x[0]\nloss max= x[i] where i >= 1", &[3.0, 3.0, 1.0, 3.0]);
    assert_eq!(started, [third, third, 0.0, third]);
    let windows = gradient("m[i] :max= x[i + k] where k < 2\nloss :+= m[i]", &[1.0, 1.0, 1.0]);
    assert_eq!(windows, [0.5, 1.0, 0.5]);
}

#[test]
fn products_with_zeros() {
    for zeros in 0..4 {
        let mut factors = vec![2.0, -1.5, 0.5, 3.0, 0.25, -2.0, 1.0, 4.0];
        factors.iter_mut().step_by(3).take(zeros).for_each(|x| *x = 0.0);
        let x = || values("x", &[2, 4], &factors);
        assert_close("p :*= x[i,j]\nq[i] :*= x[i,j]\nloss := p + q[0] + 2 * q[1] + x[0,0]", &[x()]);
        assert_close("p[j] := w[j]\np[j] *= x[i,j] + 1\nloss :+= p[j] * (j + 1)", &[x(), floats("w", &[4])]);
    }
    assert_close("p[k] :*= sin(x[i,k,j])\nloss :+= p[k]", &[floats("x", &[2, 3, 2])]);
}

#[test]
fn elementwise_accumulations() {
    let inputs = || [between("x", &[5], 0.5, 2.0), between("w", &[5], 0.5, 2.0)];
    for op in ["+", "-", "*", "/", "max", "min"] {
        assert_close(
            &format!("y[i] := w[i] * w[i]\ny[i] {op}= x[i] * w[i]\nloss :+= y[i] * y[i]"),
            &inputs(),
        );
    }
    assert_close("y[i] := w[i] * w[i]\ny[i] pow= x[i] * w[i]\nloss :+= y[i]", &inputs());
    assert_close("y[i] :/= x[i] * w[i]\nloss :+= y[i]", &inputs());
    assert_close("y[i] := w[i] * w[i]\ny[i] *= x[i] where i < 3\nloss :+= y[i]", &inputs());
    assert_close("y[i] :-= x[i,j] * x[i,j]\nloss :+= y[i] * y[i]", &[floats("x", &[2, 3])]);
}
