//! Forms of access: permuted, diagonal, affine, padded, computed, concatenated, sliced, bounded.

use assignment_text::Program;
use assignments::{AccumOp, builder};
use autodiff::{CheckOptions, check};
use lowered_ir::ir::BinaryOp;
use tnode::{DType, Padding, TensorNode};

use crate::support::{Input, assert_bound_close, assert_close, floats, integers, program};

#[test]
fn matmul_transposed_and_batched() {
    let inputs = || [floats("a", &[3, 4]), floats("b", &[4, 2])];
    assert_close("c[m,n] :+= a[m,k] * b[k,n]\nloss :+= c[m,n] * c[m,n]", &inputs());
    assert_close("c[n,m] :+= a[m,k] * b[k,n]\nd[m,n] := c[n,m] * c[n,m]\nloss :+= sin(d[m,n])", &inputs());
    assert_close(
        "c[b,m,n] :+= q[b,m,k] * p[b,n,k]\nloss :+= tanh(c[b,m,n])",
        &[floats("q", &[2, 3, 4]), floats("p", &[2, 2, 4])],
    );
}

#[test]
fn diagonals_and_fixed_indices() {
    assert_close("d[i] := a[i,i]\nloss :+= d[i] * d[i]", &[floats("a", &[4, 4])]);
    assert_close("loss :+= a[i,i] * a[i,0] + a[2,i]", &[floats("a", &[4, 4])]);
    assert_close("d[i,j] :+= a[i] * a[j] where i < 3, j < 3\nloss :+= d[i,i] * d[1,i]", &[floats("a", &[3])]);
}

#[test]
fn windows() {
    assert_close(
        "y[i] :+= x[2*i + 3*k] * w[k]\nloss :+= y[i] * y[i]",
        &[floats("x", &[11]), floats("w", &[3])],
    );
    assert_close(
        "y[i,j] :+= pad(x, 0)[2*i + p - 1, j + 2*q - 2] * w[p,q] where i < 3, j < 4\nloss :+= y[i,j] * y[i,j]",
        &[floats("x", &[6, 5]), floats("w", &[3, 2])],
    );
    assert_close(
        "y[i] :max= pad(x, -10)[i + k - 1] * w[k] where i < 6\nloss :+= y[i] * y[i]",
        &[floats("x", &[6]), floats("w", &[3])],
    );
    assert_close("y[2*i + j] := x[i,j] * x[i,j] where j < 2\nloss :+= sin(y[k])", &[floats("x", &[4, 2])]);
    assert_close("y[6 - i] := x[i]\nloss :+= y[k] * y[k] * x[k]", &[floats("x", &[7])]);
}

#[test]
fn gathers_with_repeated_and_outside_indices() {
    let ids = || integers("ids", &[6], &[0, 3, 3, 1, 9, 3]);
    assert_close(
        "y[b,e] := table[ids[b], e]\nloss :+= y[b,e] * y[b,e] * b",
        &[floats("table", &[5, 3]), ids()],
    );
    assert_close(
        "y[b,e] := pad(table, 2)[ids[b], e] * w[b] where e < 3\nloss :+= sin(y[b,e])",
        &[floats("table", &[5, 3]), floats("w", &[6]), ids()],
    );
    assert_close(
        "y[b] :max= table[ids[b], e]\nloss :+= y[b] where b < 4",
        &[floats("table", &[5, 3]), ids()],
    );
    let order = integers("order", &[4], &[5, 0, 1, 2]);
    assert_close(
        "loss :+= table[ids[order[i]], j] * w[i, j]",
        &[floats("table", &[5, 3]), floats("w", &[4, 3]), ids(), order],
    );
}

#[test]
fn scatters() {
    let ids = || integers("ids", &[5], &[2, 0, 2, 7, 1]);
    assert_close(
        "t[v] := w[v]\nt[ids[b]] += x[b] * x[b]\nloss :+= t[v] * t[v]",
        &[floats("w", &[4]), floats("x", &[5]), ids()],
    );
}

/// The last value of an element stays, and those before it have no gradient.
#[test]
fn scatters_that_overwrite() {
    let (table, ids, x) = (floats("t", &[4]), integers("ids", &[5], &[2, 0, 2, 7, 1]), floats("x", &[5]));
    let (w, loss) = (floats("w", &[4]), floats("loss", &[]).node);
    let nodes = [&table, &w, &x].map(|input| input.node.clone());
    let filled =
        Program::parse("t[v] := w[v]\nu[b] := sin(x[b])").unwrap().keep("u").assignments(&nodes).unwrap();
    let node = |name: &str| filled.nodes().into_iter().find(|node| node.name() == name).unwrap();
    let (t, u, w, x) = (node("t"), node("u"), node("w"), node("x"));
    let scatter = builder::scatter(&t, 0, &ids.node, false, AccumOp::Assign, &u).unwrap();
    let square = builder::einsum("v; v => ", &loss, AccumOp::Add, BinaryOp::Mul, [&t, &t]).unwrap();
    let program = filled.then(scatter).then(square);
    let arrays = [(&w, floats("w", &[4]).array()), (&x, floats("x", &[5]).array()), (&ids.node, ids.array())];
    let worst = check(&program, &loss, &[&w, &x], &arrays, &CheckOptions::default()).unwrap();
    assert!(worst.iter().all(|worst| worst.difference != 0.0), "{worst:?}");
}

#[test]
fn concatenation_and_splitting() {
    assert_close(
        "y[b, i^j] := a[b,i] * a[b,i], sin(c[b,j])\nloss :+= y[b,k] * y[b,k]",
        &[floats("a", &[2, 3]), floats("c", &[2, 4])],
    );
    assert_close(
        "a[i], c[j] := x[i^j] where i < 2, j < 3\nloss :+= a[i] * c[j] * c[j]",
        &[floats("x", &[5])],
    );
}

#[test]
fn slices_by_symbol() {
    assert_bound_close(
        "s := slice(x, @t)\ny[i] := s[i] * w[i]\nloss :+= y[i] * s[i]",
        &[floats("x", &[4, 3]), floats("w", &[3])],
        &[2],
    );
    assert_bound_close("loss :+= x[@t, i] * x[@t + 1, i] where @t < 3", &[floats("x", &[4, 3])], &[1]);
    assert_bound_close(
        "y[i] := pad(x, 0)[@t - i] where @t < 6, i < 3\nloss :+= y[i] * y[i] * (i + 1)",
        &[floats("x", &[4])],
        &[4],
    );
}

#[test]
fn bounds_by_letters() {
    assert_close(
        "y[i] :+= a[i,j] * b[j] where j <= i\nloss :+= y[i] * y[i]",
        &[floats("a", &[4, 4]), floats("b", &[4])],
    );
    assert_close(
        "e[i,j] :+= exp(a[i,j] * b[j]) where j >= i\nloss :+= e[i,j] * e[i,j]",
        &[floats("a", &[4, 4]), floats("b", &[4])],
    );
    assert_close("m[i] :max= a[i,j] * a[i,j] where j <= i\nloss :+= m[i] * m[i]", &[floats("a", &[4, 4])]);
    assert_close("p[i] :*= a[i,j] where j < i\nloss :+= p[i] * p[i]", &[floats("a", &[4, 4])]);
}

/// Reads in the margins of a padded node give constants, which depend on the accumulation.
#[test]
fn margins() {
    let padded = |neutral| {
        let mut x = floats("x", &[5]);
        let node =
            TensorNode::builder("x").dims([5]).dtype(DType::F32).padding(Padding::new([(2, 1)], neutral));
        x.node = node.build().unwrap();
        [x, floats("w", &[3])]
    };
    for neutral in [Some(0.0), None, Some(0.5)] {
        assert_close("y[i] :+= x[i + k - 2] * w[k] where i < 5\nloss :+= y[i] * y[i]", &padded(neutral));
        assert_close(
            "y[i] :max= x[i + k - 2] where i < 5, k < 3\nloss :+= y[i] * y[i] + w[0]",
            &padded(neutral),
        );
        assert_close("y[i] := sin(x[i - 2] * w[1]) where i < 8\nloss :+= y[i]", &padded(neutral));
        assert_close(
            "y[i] :+= sin(x[i - 2] * w[k] + w[1]) where i < 8\nloss :+= y[i] * y[i]",
            &padded(neutral),
        );
        assert_close("h[i] := w[i]\nh[i] *= x[i - 2] + h[i]\nloss :+= h[i] * h[i]", &padded(neutral));
        assert_close("h[i] := w[i]\nh[i] max= x[i - 2] + sin(h[i])\nloss :+= h[i] * h[i]", &padded(neutral));
        assert_close("y[i] :*= x[i + k - 2] + w[k] where i < 5\nloss :+= y[i] * y[i]", &padded(neutral));
    }
}

/// Gradients of narrow floats are of f32, and computed in f32.
#[test]
fn narrow_floats() {
    let narrow = |name, dims: &[usize]| {
        let node = TensorNode::builder(name).dims(dims.iter().copied()).dtype(DType::F16).build().unwrap();
        Input { node, ..floats(name, dims) }
    };
    let inputs = [narrow("a", &[3, 4]), narrow("b", &[4, 2])];
    let (matmul, loss) = program("c[m,n] :+= a[m,k] * b[k,n]\nloss :+= tanh(c[m,n])", &inputs);
    let found = autodiff::gradient(&matmul, &loss, &[&inputs[0].node, &inputs[1].node]).unwrap();
    assert!(found.gradients.iter().all(|node| node.dtype() == DType::F32));
    assert_close("c[m,n] :+= a[m,k] * b[k,n]\nloss :+= tanh(c[m,n])", &inputs);
    assert_close("y[m,k] := exp(a[m,k])\nz[m] :max= y[m,k]\nloss :+= z[m] * y[m,0]", &[narrow("a", &[3, 4])]);
}
