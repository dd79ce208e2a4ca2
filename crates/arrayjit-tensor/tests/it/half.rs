//! Graphs in 16-bit floats on processors: products that are summed in `f32`, beside operations that only move
//! elements.

use arrayjit_tensor::{
    Backend, ConvOptions, DType, Graph, HostArray, ModelState, Params, Tensor, TensorError,
};

/// A graph over images `x` and filters `f`, matrices `a` and `b`, and their results.
type Make = fn(&[Tensor; 4]) -> Result<Vec<Tensor>, TensorError>;

fn padded(padding: usize) -> ConvOptions {
    ConvOptions::new().padding(padding)
}

const GRAPHS: &[(&str, Make)] = &[
    ("a convolution in another shape", |[x, f, ..]| Ok(vec![x.conv2d(f, padded(1))?.reshape(&[2, -1])?])),
    ("a convolution, flat, and in its own shape", |[x, f, ..]| {
        let y = x.conv2d(f, padded(0))?;
        Ok(vec![y.reshape(&[-1])?, y])
    }),
    ("a transposed convolution", |[x, f, ..]| Ok(vec![x.conv2d(f, padded(1))?.permute(&[0, 2, 3, 1])?])),
    ("a product beside its operand in another shape", |[_, _, a, b]| {
        Ok(vec![a.matmul(b)?, a.reshape(&[-1])?])
    }),
    ("a product beside its result in another shape", |[_, _, a, b]| {
        let y = a.matmul(b)?;
        Ok(vec![y.reshape(&[4, -1])?, b.reshape(&[-1])?, y])
    }),
    ("a product of a reshaped operand", |[x, _, _, b]| {
        Ok(vec![x.reshape(&[-1, b.shape()[0] as isize])?.matmul(b)?])
    }),
    ("a product of a product", |[_, _, a, b]| {
        let y = a.matmul(b)?;
        Ok(vec![y.matmul(y.transpose(0, 1)?)?.reshape(&[-1])?])
    }),
];

/// Shapes of the inputs: of products that processors compute by microkernels, and of smaller ones.
const SHAPES: [[(&str, &[usize]); 4]; 2] = [
    [("x", &[2, 3, 8, 8]), ("f", &[4, 3, 3, 3]), ("a", &[16, 24]), ("b", &[24, 40])],
    [("x", &[1, 2, 6, 4]), ("f", &[2, 2, 3, 3]), ("a", &[4, 6]), ("b", &[6, 5])],
];

fn run(
    backend: &str,
    dtype: DType,
    shapes: [(&str, &[usize]); 4],
    make: Make,
) -> Result<Vec<HostArray>, TensorError> {
    let values = shapes.map(|(_, shape)| {
        let mut array = HostArray::zeros(dtype, shape.iter().copied()).expect("small");
        let count = shape.iter().product::<usize>();
        array
            .set_values(&(0..count).map(|at| (at * 7 % 9) as f64 - 4.0).collect::<Vec<_>>())
            .expect("as many");
        array
    });
    let (backend, graph) = (Backend::open(backend)?, Graph::new());
    let [x, f, a, b] = shapes.map(|(name, shape)| graph.input(name, shape.iter().copied(), dtype));
    let given = [x?, f?, a?, b?];
    let results = make(&given)?;
    let weights = ModelState::new(&backend, &Params::new(1))?;
    let model = graph.compile(&weights, &results.iter().collect::<Vec<_>>())?;
    let named: Vec<(&str, &HostArray)> = shapes.iter().map(|(name, _)| *name).zip(&values).collect();
    model.run_with(&named, &[])
}

#[test]
fn products_in_16_bits_beside_moved_elements() {
    for dtype in [DType::F16, DType::Bf16] {
        for ((name, make), shapes) in GRAPHS.iter().flat_map(|graph| SHAPES.map(|shapes| (graph, shapes))) {
            let what = || format!("{name}, {dtype}, {shapes:?}");
            let run =
                |backend| run(backend, dtype, shapes, *make).unwrap_or_else(|e| panic!("{}: {e}", what()));
            let expected = run("interpreter");
            for backend in ["inline", "multicore"] {
                for (found, expected) in run(backend).iter().zip(&expected) {
                    assert!(found.bytes() == expected.bytes(), "{}, {backend}", what());
                }
            }
        }
    }
}

/// Gradients far below the least f16 are not lost between operations, so no loss is scaled.
#[test]
fn small_gradients_of_f16_are_kept() {
    for backend in ["interpreter", "inline"] {
        let state = ModelState::new(&Backend::open(backend).unwrap(), &Params::new(0)).unwrap();
        let graph = Graph::new();
        let x = graph.input("x", [8], DType::F16).unwrap();
        let y = (x.exp().unwrap() * 0.5).unwrap().tanh().unwrap();
        let loss = (y.to_dtype(DType::F32).unwrap().mean(..).unwrap() * 1e-12).unwrap();
        let gradient = graph.gradients(&loss, &[&x]).unwrap().remove(0);
        assert_eq!(gradient.dtype(), DType::F32);
        let model = graph.compile(&state, &[&gradient]).unwrap();
        let found = model.run(&[("x", &HostArray::zeros(DType::F16, [8]).unwrap())]).unwrap().remove(0);
        let expected = 1e-12 / 8.0 * 0.5 * (1.0 - 0.5f64.tanh().powi(2));
        assert!(
            found.values().iter().all(|value| (value / expected - 1.0).abs() < 2e-3),
            "{backend}: {found:?}"
        );
    }
}

/// With narrow gradients, the gradient by a rounded value is rounded where the value is, after its
/// contributions were summed in f32; the gradients by what nobody computes are not.
#[test]
fn narrow_gradients_round_where_the_graph_rounds() {
    let found = |narrow: bool| -> Result<Vec<f64>, TensorError> {
        let state = ModelState::new(&Backend::open("inline")?, &Params::new(0))?;
        let graph = Graph::new();
        graph.narrow_gradients(narrow);
        let [x, w] = ["x", "w"].map(|name| graph.input(name, [1, 1], DType::F32));
        let (x, w) = (x?, w?);
        let [small, weight] = [&x, &w].map(|tensor| tensor.to_dtype(DType::Bf16));
        let h = small?.matmul(&weight?)?.to_dtype(DType::F32)?; // rounded to bf16
        let loss = ((&h * 1.003)? + (&h * 1.002)?)?.sum(..)?;
        let gradients = graph.gradients(&loss, &[&w, &h])?;
        assert!(gradients.iter().all(|gradient| gradient.dtype() == DType::F32));
        let model = graph.compile(&state, &[&gradients[0], &gradients[1]])?;
        let one = HostArray::from_slice(&[1f32], [1, 1])?;
        let results = model.run(&[("x", &one), ("w", &one)])?;
        Ok(results.iter().flat_map(HostArray::values).collect())
    };
    let exact = f64::from(1.003f32 + 1.002f32);
    assert_eq!(found(false).unwrap(), [exact, exact]);
    // Neighbors of 2.005 in bf16 are 2 and 2.015625; 1.003 and 1.002 alone would be 1.
    assert_eq!(found(true).unwrap(), [2.0, exact]);
}
