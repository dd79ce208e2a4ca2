//! Functions of the prelude, and whole networks.

use crate::support::{assert_close, between, floats, integers};

#[test]
fn softmax_and_normalizations() {
    assert_close("y[b,k] := softmax(x[b,k])\nloss :+= y[b,k] * y[b,k] * k", &[floats("x", &[3, 4])]);
    assert_close("y[b,k] := log_softmax(x[b,k])\nloss :+= y[b,k] * y[b,k]", &[floats("x", &[3, 4])]);
    let gains = || [floats("x", &[3, 4]), floats("gain", &[4]), floats("bias", &[4])];
    assert_close(
        "y[b,k] := layer_norm(x[b,k], gain[k], bias[k])\nloss :+= y[b,k] * y[b,k] * (k + b)",
        &gains(),
    );
    assert_close("y[b,k] := rms_norm(x[b,k], gain[k])\nloss :+= y[b,k] * bias[k]", &gains());
}

#[test]
fn activations() {
    for name in ["sigmoid", "silu", "erf", "gelu", "gelu_tanh"] {
        assert_close(&format!("y[i] := {name}(x[i])\nloss :+= y[i] * y[i]"), &[floats("x", &[7])]);
    }
    assert_close("y[i] := dropout(x[i], 0.5, 7)\nloss :+= y[i] * y[i]", &[floats("x", &[16])]);
}

#[test]
fn losses() {
    assert_close(
        "l[b] := cross_entropy(x[b,k], label[b])\nloss :+= l[b]",
        &[floats("x", &[3, 4]), integers("label", &[3], &[1, 3, 1])],
    );
    assert_close("loss := mse(x[i,j], y[i,j])", &[floats("x", &[3, 4]), floats("y", &[3, 4])]);
}

#[test]
fn attention() {
    let inputs = || [floats("q", &[2, 3, 4]), floats("k", &[2, 3, 4]), floats("v", &[2, 3, 2])];
    for name in ["attention", "causal_attention"] {
        assert_close(
            &format!("y[h,i,d] := {name}(q[h,i,c], k[h,j,c], v[h,j,d])\nloss :+= y[h,i,d] * y[h,i,d]"),
            &inputs(),
        );
    }
    assert_close("y[t,c] := rotary(x[t,c])\nloss :+= y[t,c] * y[t,c] * t", &[floats("x", &[3, 4])]);
}

#[test]
fn images() {
    let inputs = || [floats("x", &[1, 2, 6, 5]), floats("f", &[2, 2, 3, 3])];
    for arguments in ["", ", stride = 2", ", padding = 1", ", stride = 2, padding = 2"] {
        assert_close(
            &format!(
                "y[b,o,i,j] := conv2d(x[b,c,h,w], f[o,c,p,q]{arguments})\nloss :+= y[b,o,i,j] * y[b,o,i,j]"
            ),
            &inputs(),
        );
    }
    for name in ["max_pool", "avg_pool"] {
        assert_close(
            &format!("y[b,c,i,j] := {name}(x[b,c,h,w])\nloss :+= y[b,c,i,j] * y[b,c,i,j]"),
            &[floats("x", &[1, 2, 6, 5])],
        );
    }
}

#[test]
fn recurrent_cells() {
    assert_close(
        "h1[b,u], c1[b,u] := lstm_cell(x[b,i], h[b,v], c[b,u], wx[g,u,i], wh[g,u,v], bias[g,u])
         loss :+= h1[b,u] * h1[b,u] + c1[b,u]",
        &[
            floats("x", &[2, 3]),
            floats("h", &[2, 2]),
            floats("c", &[2, 2]),
            floats("wx", &[4, 2, 3]),
            floats("wh", &[4, 2, 2]),
            floats("bias", &[4, 2]),
        ],
    );
}

#[test]
fn multilayer_perceptron() {
    assert_close(
        "z1[b,h] :+= x[b,i] * w1[i,h]
         a1[b,h] := relu(z1[b,h] + b1[h])
         z2[b,o] :+= a1[b,h] * w2[h,o]
         l[b] := cross_entropy(z2[b,o], label[b])
         loss :+= l[b] / size(b)",
        &[
            floats("x", &[4, 3]),
            floats("w1", &[3, 5]),
            between("b1", &[5], -1.0, 1.0),
            floats("w2", &[5, 3]),
            integers("label", &[4], &[0, 2, 1, 2]),
        ],
    );
}
