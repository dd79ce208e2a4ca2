//! Gradients of gradients, compared with differences of gradients.

use crate::support::{assert_close, between, floats, integers, values};

/// The product of the second derivatives with a vector `u`, for a loss by `w`.
fn assert_second(text: &str, inputs: &[crate::support::Input], letters: &str) {
    let loss = text.replace("loss", "first");
    assert_close(&format!("{loss}\ngrad first by w\nloss :+= w.grad[{letters}] * u[{letters}]"), inputs);
}

#[test]
fn of_a_perceptron() {
    assert_second(
        "h[b,o] :+= x[b,i] * w[i,o]
         a[b,o] := tanh(h[b,o])
         l[b] := cross_entropy(a[b,o], label[b])
         loss :+= l[b]",
        &[
            floats("x", &[3, 2]),
            floats("w", &[2, 3]),
            floats("u", &[2, 3]),
            integers("label", &[3], &[0, 2, 1]),
        ],
        "i,o",
    );
}

#[test]
fn of_windows_gathers_and_powers() {
    let inputs = || [floats("x", &[9]), floats("w", &[3]), floats("u", &[3])];
    assert_second("y[i] :+= pad(x, 0)[2*i + k - 1] * w[k] where i < 5\nloss :+= sin(y[i])", &inputs(), "k");
    assert_second(
        "y[b] := w[ids[b]]\nz[b] := y[b] * y[b] * y[b]\nloss :+= z[b]",
        &[floats("w", &[4]), floats("u", &[4]), integers("ids", &[5], &[0, 3, 3, 1, 8])],
        "i",
    );
    assert_second(
        "y[i,j] := pow(w[i], w[j])\nloss :+= y[i,j] where j <= i",
        &[between("w", &[3], 0.5, 2.0), floats("u", &[3])],
        "i",
    );
}

#[test]
fn of_products_of_several_values() {
    for count in [1, 2, 3, 4, 5, 7, 8, 9] {
        let inputs = || [between("w", &[count], 0.5, 2.0), floats("u", &[count])];
        assert_second("loss :*= w[i]", &inputs(), "i");
    }
    let inputs = || [floats("w", &[3, 5]), floats("u", &[3, 5])];
    assert_second("p[j] :*= w[i,j] * w[i,j] + 0.5\nloss :+= p[j] * p[j]", &inputs(), "i,j");
    assert_second("p :*= sin(w[i,j])\nloss := p * p", &inputs(), "i,j");
    assert_second("p[i] := w[i,0]\np[i] *= w[i,j] where j < i + 2\nloss :+= p[i]", &inputs(), "i,j");
}

#[test]
fn of_products_with_zeros() {
    for zeros in 1..4 {
        let mut factors = vec![2.0, -1.5, 0.5, 3.0, 0.25];
        factors.iter_mut().step_by(2).take(zeros).for_each(|x| *x = 0.0);
        let inputs = || [values("w", &[5], &factors), floats("u", &[5])];
        assert_second("p :*= w[i]\nloss := p + w[0] * w[1] * w[2]", &inputs(), "i");
    }
    // The third derivative by each of three factors.
    assert_close(
        "p :*= w[i]
         grad p by w
         q :+= w.grad[i] * u[i]
         grad q by w
         loss :+= w.grad[i] * v[i]",
        &[floats("w", &[3]), floats("u", &[3]), floats("v", &[3])],
    );
}

/// The second derivatives of a square at 0 are products of two first ones, although the adjoint of its base
/// is 0 there.
#[test]
fn where_an_adjoint_is_0() {
    for function in ["log", "sqrt", "exp", "recip", "tanh"] {
        let inputs = [values("w", &[3], &[3.0, 1.0, 0.5]), floats("u", &[3])];
        let text = format!("y[i] := {function}(w[i])\nz := y[1] - {function}(1)\nloss := z * z");
        assert_second(&text, &inputs, "i");
    }
    // A factor that is infinite where the adjoint is 0 has no part in them.
    let inputs = [values("w", &[3], &[0.0, 1.0, 4.0]), floats("u", &[3])];
    assert_second("y[i] := where(w[i] > 0.5, sqrt(w[i]), 0)\nloss :+= y[i] * y[i] * y[i]", &inputs, "i");
}
