//! The memory of training steps: which values of the forward pass are stored or computed again, and why.

use arrayjit::settings::NumericClass;
use arrayjit::{Backend, Compiled, HostArray, OptimizeSettings, Program, Routine, Settings, TensorNode};

use crate::run_sizes::random;

const BACKENDS: [&str; 2] = ["inline", "multicore"];

fn backend(name: &str, numerics: NumericClass) -> Backend {
    let mut settings = Settings::default();
    settings.threads = 2;
    settings.numerics = numerics;
    Backend::open_with(name, &settings).expect("it is in every build")
}

fn compiled(backend: &Backend, text: &str) -> Compiled {
    let program = Program::parse(text).unwrap_or_else(|error| panic!("{error}"));
    backend.compile_program(&program, [] as [TensorNode; 0]).unwrap_or_else(|error| panic!("{error}"))
}

/// A training step of twelve layers. Each has two nodes of 64 KiB.
const LAYERS: &str = "
    size batch = 256, d = 64
    input x f32[batch, d]
    repeat l in 0..12 { param w[l] f32[d, d] := normal(l) * 0.1 }
    a[0][b,i] := x[b,i]
    repeat l in 0..12 {
        h[l + 1][b,j] :+= a[l][b,i] * w[l][i,j]
        a[l + 1][b,j] := sin(h[l + 1][b,j]) * exp(0 - h[l + 1][b,j] * h[l + 1][b,j])
    }
    loss :+= a[12][b,j] * a[12][b,j]
    grad loss by w
    repeat l in 0..12 { w[l][i,j] -= 0.01 * w.grad[l][i,j] }
    keep loss";

/// Every fourth layer is stored.
const REQUESTS: &str = "repeat l in 0..3 { repeat k in 1..4 { recompute h[4*l + k], a[4*l + k] } }";

fn linked(backend: &Backend, code: &Compiled) -> Routine {
    let x = code.node("x").expect("declared");
    let values: Vec<f32> = (0..256 * 64).map(|at| ((at * 37 % 101) as f32 / 50.) - 1.).collect();
    let values = HostArray::from_slice(&values, [256, 64]).expect("as many values");
    let context = backend.initialize(code, &backend.context().expect("a device")).expect("initial values");
    code.link(&context.init_from_host(x, &values).expect("memory")).expect("all nodes have values")
}

fn temp_bytes(code: &Compiled) -> usize {
    code.codes().map(|code| code.schedule().temp_bytes()).sum()
}

/// The bytes of temporaries without requests and with them.
fn temporaries(name: &str, numerics: NumericClass) -> [usize; 2] {
    let backend = backend(name, numerics);
    ["", REQUESTS].map(|requests| temp_bytes(&compiled(&backend, &format!("{LAYERS}\n{requests}"))))
}

/// Of the layers between two checkpoints, one group after another has memory. In class `Strict`, one kernel
/// computes all layers of a row, so that the two nodes of every layer have memory at once in either case.
#[test]
fn layers_that_are_computed_again_need_less_memory() {
    for name in BACKENDS {
        let [stored, again] = temporaries(name, NumericClass::Fast);
        assert!(again * 10 <= stored * 7, "{name}: {again} of {stored} bytes");
        let [stored, again] = temporaries(name, NumericClass::Strict);
        assert!(again <= stored && stored <= 24 * (64 << 10), "{name}: {again} of {stored} bytes");
    }
}

#[test]
fn layers_that_are_computed_again_have_gradients_of_the_same_bits() {
    for name in BACKENDS {
        let backend = backend(name, NumericClass::Strict);
        let [stored, again] = ["", REQUESTS].map(|requests| {
            let code = compiled(&backend, &format!("{LAYERS}\n{requests}"));
            let routine = linked(&backend, &code);
            for _ in 0..3 {
                routine.run(&[]).expect("scheduled");
            }
            let weights = (0..12).map(|l| code.node(&format!("w.{l}")).expect("declared"));
            let weights: Vec<HostArray> =
                weights.map(|w| routine.context().to_host(w).expect("in the context")).collect();
            weights
        });
        assert!(stored.iter().all(|weights| weights.values().iter().all(|value| value.is_finite())));
        for (again, stored) in again.iter().zip(&stored) {
            assert_eq!(again.bytes(), stored.bytes(), "{name}");
        }
    }
}

/// A program whose backward pass reads `h`, `r`, `t`, `u` and two values of `y`.
const KINDS: &str = "
    size batch = 64, d = 32
    input x f32[batch, d]
    param w f32[d, d], b f32[d], v f32[d, d]
    h[b,j] :+= x[b,i] * w[i,j]
    r[b,j] := relu(h[b,j])
    t[b,j] := tanh(r[b,j] + b[j])
    y[b,k] :+= t[b,j] * v[j,k] + r[b,k]
    u[b,k] := y[b,k] * y[b,k]
    y[b,k] := u[b,k] * 2
    loss :+= y[b,k] * u[b,k]
    grad loss by w, b, v
    keep loss, w.grad, b.grad, v.grad";

/// The reasons by which the backward pass finds a value stored, or computes it again.
#[test]
fn explanations_say_why_values_are_stored_or_computed_again() {
    let backend = backend("inline", NumericClass::Fast);
    let reason = |text: &str, name: &str, expected: &str| {
        let code = compiled(&backend, text);
        let node = code.nodes().iter().find(|node| node.name() == name).expect("it is mentioned");
        let explanation = code.explain(node).expect("of the routine");
        assert!(explanation.contains(expected), "{explanation}");
    };
    let is_simple = "virtual because it is inlined at every use, since an element costs no more than a read";
    for (name, expected) in [
        ("h", "never_virtual because it is computed by a reduction"),
        ("r", is_simple),
        ("t", "never_virtual because each element is read up to "),
        ("y", "never_virtual because it is computed by a reduction"),
        ("y_before", "never_virtual because it cannot be inlined: its input \"y\" is overwritten"),
    ] {
        reason(KINDS, name, expected);
    }
    // The words of the text take precedence.
    reason(&format!("{KINDS}\nkeep r"), "r", "materialized because the program keeps its values");
    let again = format!("{KINDS}\nrecompute h");
    reason(&again, "h_again", "never_virtual because it is computed by a reduction");
    reason(&again, "h", "local because no other routine needs it");
}

/// A member of a family that is not requested, while others are, is a checkpoint: it is not computed again
/// with the member from which alone it is computed.
#[test]
fn members_that_are_left_out_are_checkpoints() {
    let step = |requests: &str| {
        let text = format!(
            "input x f32[512, 512]
            param w f32[512, 512] := normal(1) * 0.1
            h[0][b,j] := x[b,j] * w[b,j]
            repeat l in 0..100 {{
                h[l + 1][b,j] := h[l][b,j] + 0.1 * (pad(h, 0)[l][b, j + 1] - h[l][b,j] * pad(h, 0)[l][b, j - 1])
            }}
            loss :+= h[100][b,j] * h[100][b,j]
            grad loss by w
            w[b,j] -= 0.1 * w.grad[b,j]
            keep loss
            {requests}"
        );
        temp_bytes(&compiled(&backend("inline", NumericClass::Fast), &text))
    };
    let stored = step("");
    let again = step("repeat s in 0..4 { repeat k in 1..25 { recompute h[25*s + k] } }");
    assert!(2 * again < stored, "{again} bytes of temporaries, {stored} without requests");
}

/// Statements over many letters, each with the most bytes of temporaries of its gradient, as a part of an
/// array over all letters.
const MANY_LETTERS: &[(&str, f64)] = &[
    ("a[i] :max= x[i,j] * y[j,k] * z[k,l,m]", 0.1),
    ("a[i] :min= tanh(x[i,j] * y[j,k] * z[k,l,m])", 0.1),
    ("a[i] :max= x[i,j] - tanh(y[j,k]) + z[k,l,m]", 0.1),
    ("a[i] :+= tanh(x[i,j] * y[j,k] * z[k,l,m])", 0.1),
    (
        "a[j] :max= pad(x, -1)[i+d-1,j+e-1] * y[l,m] * pad(z, 1)[d,e,0] where i < tall, j < wide, d < 6, e < 6",
        0.1,
    ),
    // The adjoint of each factor is stored.
    ("a[i] :*= 1 + 0.001 * x[i,j] * y[j,k] * z[k,l,m]", 1.5),
];

fn many_letters(sizes: &str, statement: &str) -> String {
    let inputs = "input x f32[tall, wide], y f32[wide, tall], z f32[tall, wide, 6]";
    let loss = "loss :+= a[i] * a[i]\ngrad loss by x, y, z\nkeep loss, x.grad, y.grad, z.grad";
    format!("size {sizes}\n{inputs}\n{statement}\n{loss}")
}

/// The gradient compares every value with the greatest one. Values and comparisons are computed where they
/// are used, since an array of them would be much larger than the inputs.
#[test]
fn gradients_over_many_letters_store_no_array_over_all() {
    for (numerics, sizes) in
        [(NumericClass::Strict, "tall <= 60, wide <= 40"), (NumericClass::Fast, "tall = 60, wide = 40")]
    {
        let backend = backend("multicore", numerics);
        for &(statement, parts) in MANY_LETTERS {
            let text = many_letters(sizes, statement);
            let bytes = temp_bytes(&compiled(&backend, &text));
            let all = 4. * 60. * 40. * 60. * 40. * 6.;
            assert!((bytes as f64) < parts * all, "{bytes} bytes of {all} for {statement} in {numerics:?}");
        }
    }
}

/// In class `Fast`, a sum of products may have other bits where a product is computed outside of a loop, and
/// the greatest value would equal no value.
#[test]
fn rematerialized_values_have_the_same_gradients() {
    for (name, numerics) in [
        ("interpreter", NumericClass::Strict),
        ("inline", NumericClass::Strict),
        ("multicore", NumericClass::Fast),
    ] {
        let backend = backend(name, numerics);
        let [stored, again] = [usize::MAX, 1].map(|rematerialized_bytes| {
            let optimizer = OptimizeSettings { rematerialized_bytes, ..backend.settings().optimizer() };
            backend.with_optimizer(optimizer)
        });
        let sums_of_products = "a[i] :max= exp(x[i,j]) * exp(y[j,k]) + z[k,l,m] * 1.3";
        for statement in MANY_LETTERS.iter().map(|case| case.0).chain([sums_of_products]) {
            let text = many_letters("tall = 7, wide = 5", statement);
            let [stored, again] = [&stored, &again].map(|backend| {
                let mut program = backend.load(&text).unwrap_or_else(|error| panic!("{error}"));
                for (name, dims) in [("x", &[7, 5][..]), ("y", &[5, 7]), ("z", &[7, 5, 6])] {
                    program.set(name, random(dims, dims.len() as u64)).expect("declared");
                }
                program.run().expect("all inputs are set");
                ["x.grad", "y.grad", "z.grad"].map(|name| program.get(name).expect("kept").values())
            });
            for (stored, again) in stored.iter().flatten().zip(again.iter().flatten()) {
                let bound = if numerics == NumericClass::Strict { 0. } else { 1e-5 * stored.abs() };
                assert!((stored - again).abs() <= bound, "{again}, stored {stored}: {statement} on {name}");
            }
        }
    }
}
