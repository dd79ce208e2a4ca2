//! A convolution and a max-pool read the same padded images on every backend; each finds its own value in the
//! margins.

use arrayjit::settings::Settings;
use arrayjit::{Backend, DType, HostArray, Padding, TensorNode, assign::AccumOp};

const BACKENDS: [&str; 3] = ["inline", "multicore", "interpreter"];
const SIDE: usize = 9;

fn node(name: &str, dims: &[usize]) -> TensorNode {
    TensorNode::builder(name).dims(dims.iter().copied()).build().expect("a small node")
}

/// Small integers of either sign, so that sums are exact in any order.
fn values(count: usize, seed: usize) -> Vec<f64> {
    (0..count).map(|i| ((i * 7 + seed * 5) % 11) as f64 - 5.0).collect()
}

/// Computes a 3 × 3 convolution that keeps the size, and the maximum of every second 3 × 3 window.
fn reference(x: &[f64], w: &[f64]) -> (Vec<f64>, Vec<f64>) {
    let at = |i: usize, j: usize| {
        let (i, j) = (i.checked_sub(1)?, j.checked_sub(1)?);
        (i < SIDE && j < SIDE).then(|| x[i * SIDE + j])
    };
    let window = |i: usize, j: usize| (0..9).map(move |kl| (kl, i + kl / 3, j + kl % 3));
    let conv = |p: usize| window(p / SIDE, p % SIDE).map(|(kl, i, j)| at(i, j).unwrap_or(0.0) * w[kl]).sum();
    let pool = |p: usize| {
        let inside = window(2 * (p / 5), 2 * (p % 5)).filter_map(|(_, i, j)| at(i, j));
        inside.fold(f64::NEG_INFINITY, f64::max)
    };
    ((0..SIDE * SIDE).map(conv).collect(), (0..25).map(pool).collect())
}

#[test]
fn two_readers_of_one_padded_node() {
    let (xs, ws) = (values(SIDE * SIDE, 1), values(9, 2));
    let (conv, pool) = reference(&xs, &ws);
    for (name, neutral) in BACKENDS.iter().flat_map(|name| [None, Some(0.0), Some(-7.0)].map(|n| (*name, n)))
    {
        let backend =
            Backend::open_with(name, &Settings::default()).expect("every backend of this build opens");
        let padding = Padding::new([(1, 1), (1, 1)], neutral);
        let x = TensorNode::builder("x").dims([SIDE, SIDE]).padding(padding.clone()).build().expect("small");
        let (w, y, z) = (node("w", &[3, 3]), node("y", &[SIDE, SIDE]), node("z", &[5, 5]));
        let text = "y[i,j] :+= x[i + k - 1, j + l - 1] * w[k,l]
            z[i,j] :max= x[2*i + k - 1, 2*j + l - 1] where k < 3, l < 3";
        let code = backend.compile(text, [&x, &w, &y, &z]).expect("a valid text");
        let mut image = HostArray::zeros_padded(DType::F32, [SIDE, SIDE], padding).expect("small");
        image.set_values(&xs).expect("as many");
        let mut kernel = HostArray::zeros(DType::F32, [3, 3]).expect("small");
        kernel.set_values(&ws).expect("as many");
        let context = backend.context().expect("a stream");
        let context =
            context.init_from_host(&x, &image).expect("memory").init_from_host(&w, &kernel).expect("memory");
        let routine = code.link(&context).expect("all nodes are there");
        // The second run starts from the margins as the first run left them.
        for run in 0..2 {
            routine.run(&[]).expect("scheduled").sync().expect("ran");
            let got = |node| routine.context().to_host(node).expect("in the context");
            assert_eq!(got(&y).values(), conv, "{name} {neutral:?} run {run}");
            assert_eq!(got(&z).values(), pool, "{name} {neutral:?} run {run}");
            if neutral.is_some() {
                assert!(got(&x) == image, "{name} {neutral:?}: the margins hold what is declared");
            }
        }
    }
}

#[test]
fn a_hidden_layer_with_margins() {
    let (xs, ws) = (values(SIDE * SIDE, 3), values(9, 4));
    let (conv, _) = reference(&xs, &ws);
    let (_, pool) = reference(&conv, &ws);
    for name in BACKENDS {
        let backend =
            Backend::open_with(name, &Settings::default()).expect("every backend of this build opens");
        let padding = Padding::new([(1, 1), (1, 1)], None);
        let hidden =
            TensorNode::builder("hidden").dims([SIDE, SIDE]).padding(padding).build().expect("small");
        let (x, w, z) = (node("x", &[SIDE, SIDE]), node("w", &[3, 3]), node("z", &[5, 5]));
        let text = "hidden[i,j] :+= pad(x, 0)[i + k - 1, j + l - 1] * w[k,l]
            z[i,j] :max= hidden[2*i + k - 1, 2*j + l - 1] where k < 3, l < 3";
        let code = backend.compile(text, [&x, &w, &hidden, &z]).expect("a valid text");
        let array = |values: &[f64], dims: [usize; 2]| {
            let mut array = HostArray::zeros(DType::F32, dims).expect("small");
            array.set_values(values).expect("as many");
            array
        };
        let context = backend.context().expect("a stream");
        let context = context.init_from_host(&x, array(&xs, [SIDE, SIDE])).expect("memory");
        let context = context.init_from_host(&w, array(&ws, [3, 3])).expect("memory");
        let routine = code.link(&context).expect("nothing has to be there for the hidden layer");
        routine.run(&[]).expect("scheduled").sync().expect("ran");
        assert_eq!(routine.context().to_host(&z).expect("in the context").values(), pool, "{name}");
    }
}

/// Computed indices are in bounds by definition, so a routine that writes every element of a node needs no
/// earlier values of it.
#[test]
fn computed_indices_into_a_node_that_is_filled() {
    for (name, neutral) in BACKENDS.iter().flat_map(|name| [None, Some(0.0), Some(-7.0)].map(|n| (*name, n)))
    {
        let backend =
            Backend::open_with(name, &Settings::default()).expect("every backend of this build opens");
        let ids = TensorNode::builder("ids").dims([4]).dtype(DType::I8).build().expect("small");
        let padding = Padding::new([(1, 2)], neutral);
        let counts = TensorNode::builder("counts").dims([3]).padding(padding).build().expect("small");
        let found = node("found", &[4]);
        let text = "counts[ids[i]] :+= 1 + 0 * i\nfound[i] := counts[ids[i]]";
        let code = backend.compile(text, [&ids, &counts, &found]).expect("a valid text");
        let mut array = HostArray::zeros(DType::I8, [4]).expect("small");
        array.set_values(&[2.0, -1.0, 0.0, 2.0]).expect("as many");
        let context = backend.context().expect("a stream").init_from_host(&ids, &array).expect("memory");
        let routine = code.link(&context).expect("the routine fills `counts`");
        for run in 0..2 {
            routine.run(&[]).expect("scheduled").sync().expect("ran");
            let got = routine.context().to_host(&found).expect("in the context").values();
            assert_eq!(got, [2.0, 0.0, 1.0, 2.0], "{name} {neutral:?} run {run}");
        }
    }
}

/// A gather that is the only accumulated term gives the neutral element of the target's type at indices
/// outside its node, even if it has another type itself.
#[test]
fn a_gather_outside_changes_nothing_in_a_target_of_another_type() {
    use DType::{F32, F64, I32, I64, U8, U16, U64};
    let pairs =
        [(I64, I32), (I32, I64), (U8, I32), (I64, F32), (F64, U16), (F32, F64), (U64, I64), (U16, U8)];
    for (name, (from, to)) in BACKENDS.iter().flat_map(|name| pairs.map(|pair| (*name, pair))) {
        let backend =
            Backend::open_with(name, &Settings::default()).expect("every backend of this build opens");
        for padding in [None, Some(Padding::new([(1, 2)], None))] {
            let ids = TensorNode::builder("ids").dims([4]).dtype(DType::I8).build().expect("small");
            let table = TensorNode::builder("table").dims([3]).dtype(from);
            let table = match &padding {
                Some(padding) => table.padding(padding.clone()).build().expect("small"),
                None => table.build().expect("small"),
            };
            let target = |label| TensorNode::builder(label).dims([2]).dtype(to).build().expect("small");
            let (least, greatest, product) = (target("least"), target("greatest"), target("product"));
            let text = "table[i] := i + 2\nleast[i] :min= table[ids[2*i + j]] where i < 2, j < 2
                greatest[i] :max= table[ids[2*i + j]] where i < 2, j < 2
                product[i] :*= table[ids[2*i + j]] where i < 2, j < 2";
            let code = backend.compile(text, [&ids, &table, &least, &greatest, &product]).expect("valid");
            let mut array = HostArray::zeros(DType::I8, [4]).expect("small");
            array.set_values(&[1.0, -1.0, 3.0, -9.0]).expect("as many");
            let context = backend.context().expect("a stream").init_from_host(&ids, &array).expect("memory");
            let routine = code.link(&context).expect("links");
            routine.run(&[]).expect("scheduled").sync().expect("ran");
            for (node, op) in [(&least, AccumOp::Min), (&greatest, AccumOp::Max), (&product, AccumOp::Mul)] {
                let got = routine.context().to_host(node).expect("in the context");
                let mut expected = HostArray::zeros(to, [2]).expect("small");
                expected.set_values(&[3.0, 0.0]).expect("as many");
                expected.set(&[1], op.neutral(to)).expect("in bounds");
                assert_eq!(got.bytes(), expected.bytes(), "{name} {from:?} to {to:?} {padding:?} {op:?}");
            }
        }
    }
}
