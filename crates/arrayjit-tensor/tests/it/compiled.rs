//! Compiled graphs: weights that change, several graphs over one model, backends.

use std::sync::Arc;

use arrayjit_tensor::{Backend, DType, Graph, HostArray, Init, ModelState, Params, Tensor, TensorError};

fn ones(shape: &[usize]) -> Result<HostArray, arrayjit::TensorNodeError> {
    HostArray::from_slice(&vec![1f32; shape.iter().product()], shape.iter().copied())
}

/// y = w · x, and w grows by 1 after each run.
fn growing(params: &Params) -> Result<(Graph, Tensor), TensorError> {
    let w = match params.get("w") {
        Some(w) => w,
        None => params.parameter("w", [3], Init::ONES)?,
    };
    let graph = Graph::new();
    let x = graph.input("x", [3], DType::F32)?;
    let y = x.matmul(&w)?;
    graph.apply("w[i] := w[i] + one", &[("w", &w), ("one", &1.0)])?;
    Ok((graph, y))
}

#[test]
fn runs_change_weights() -> Result<(), TensorError> {
    for backend in ["interpreter", "inline", "multicore"] {
        let params = Params::new(1);
        let (graph, y) = growing(&params)?;
        let weights = ModelState::new(&Backend::open(backend)?, &params)?;
        let model = graph.compile(&weights, &[&y])?;
        let x = ones(&[3])?;
        let results: Vec<f64> = (0..3)
            .map(|_| Ok(model.run(&[("x", &x)])?[0].values()[0]))
            .collect::<Result<_, TensorError>>()?;
        assert_eq!(results, [3., 6., 9.], "{backend}");
        let w = params.all().remove(0);
        assert_eq!(weights.get(&w)?.values(), [4.; 3], "{backend}");

        // Another graph of the model runs on the same values.
        let (again, y) = growing(&params)?;
        let again = again.compile(&weights, &[&y])?;
        assert_eq!(again.run(&[("x", &x)])?[0].values(), [12.], "{backend}");
        assert_eq!(model.run(&[("x", &x)])?[0].values(), [15.], "{backend}");
    }
    Ok(())
}

#[test]
fn a_graph_can_be_compiled_again() -> Result<(), TensorError> {
    let params = Params::new(1);
    let graph = Graph::new();
    let x = graph.input("x", [4], DType::F32)?;
    let (a, b) = ((&x * 2.0)?, x.exp()?.sum(..)?);
    for backend in ["inline", "interpreter"] {
        let weights = ModelState::new(&Backend::open(backend)?, &params)?;
        let first = graph.compile(&weights, &[&a, &b])?;
        let second = graph.compile(&weights, &[&b])?;
        let x = ones(&[4])?;
        let results = [first.run(&[("x", &x)])?.remove(1), second.run(&[("x", &x)])?.remove(0)];
        assert!(results[0].values() == results[1].values(), "{backend}");
    }
    Ok(())
}

#[test]
fn parameters_take_arrays_and_shared_ones() -> Result<(), TensorError> {
    for backend in ["inline", "multicore"] {
        let params = Params::new(1);
        let weights = ModelState::new(&Backend::open(backend)?, &params)?;
        let (w, shared) = (params.parameter("w", [3], Init::ZEROS)?, Arc::new(ones(&[3])?));
        weights.set(&w, shared.clone())?; // the first values
        assert_eq!(weights.get(&w)?.values(), [1.; 3]);
        weights.set(&w, HostArray::from_slice(&[2f32; 3], [3])?)?;
        assert_eq!((weights.get(&w)?.values(), shared.values()), (vec![2.; 3], vec![1.; 3]));

        let other = Params::new(1).parameter("w", [3], Init::ZEROS)?;
        match weights.set(&other, shared) {
            Err(TensorError::OtherModel { parameter }) => assert_eq!(parameter, "w"),
            found => panic!("{found:?}"),
        }
    }
    Ok(())
}

#[test]
fn state_dicts_survive_files() -> Result<(), TensorError> {
    let backend = Backend::open("inline")?;
    let weights = |seed| -> Result<ModelState, TensorError> {
        let params = Params::new(seed);
        params.sub("a").parameter("weight", [2, 3], Init::Normal { mean: 1., std: 2. })?;
        params.sub("a").with_dtype(DType::I64).buffer("count", [], Init::Constant(7.))?;
        params.with_dtype(DType::Bf16).parameter("b", [5], Init::xavier_uniform(5, 5))?;
        ModelState::new(&backend, &params)
    };
    let (first, second) = (weights(1)?, weights(2)?);
    let bytes = |weights: &ModelState| weights.to_safetensors();
    assert!(bytes(&first)? == bytes(&weights(1)?)?, "initial values depend on the seed alone");
    assert!(bytes(&first)? != bytes(&second)?);
    second.load_safetensors(&bytes(&first)?)?;
    assert!(bytes(&first)? == bytes(&second)?);
    match second.load_safetensors(b"no safetensors") {
        Ok(()) => panic!("no error"),
        Err(error) => assert!(error.to_string().contains("safetensors"), "{error}"),
    }
    Ok(())
}

/// As dropout in evaluation gives its input, a result may be an input that no statement reads.
#[test]
fn a_result_may_be_an_input() -> Result<(), TensorError> {
    let params = Params::new(1);
    for backend in ["interpreter", "inline", "multicore"] {
        let weights = ModelState::new(&Backend::open(backend)?, &params)?;
        let graph = Graph::new();
        let (x, z) = (graph.input("x", [3], DType::F32)?, graph.input("z", [3], DType::F32)?);
        let same = x.reshape(&[3])?;
        let model = graph.compile(&weights, &[&same, &(&z * 2.0)?])?;
        let values = HostArray::from_slice(&[1f32, 2., 3.], [3])?;
        let results = model.run(&[("x", &values), ("z", &values)])?;
        assert_eq!((results[0].values(), results[1].values()), (vec![1., 2., 3.], vec![2., 4., 6.]));
        let alone = graph.compile(&weights, &[&x])?.run(&[("x", &values), ("z", &values)])?;
        assert_eq!(alone[0].values(), [1., 2., 3.]);
    }
    Ok(())
}

#[test]
fn tensors_of_given_values_have_them_in_every_graph() -> Result<(), TensorError> {
    let graph = Graph::new();
    let x = graph.input("x", [2], DType::F32)?;
    let table = graph.constant(HostArray::from_slice(&[3i64, -4], [2])?)?;
    let scaled = graph.constant(HostArray::from_slice(&[0.5f32, 2.], [2])?)?.mul(&x)?;
    let filled = [
        (graph.zeros(&[2, 2], DType::I32)?, vec![0.; 4]),
        (graph.ones(&[3], DType::Bf16)?, vec![1.; 3]),
        (graph.full(&[], -0.25, DType::F64)?, vec![-0.25]),
        (graph.full(&[1, 2], f64::NEG_INFINITY, DType::F32)?, vec![f64::NEG_INFINITY; 2]),
        (graph.ones(&[4, 0], DType::F32)?, vec![]),
        (table, vec![3., -4.]),
        (scaled, vec![5., 40.]),
    ];
    let results: Vec<&Tensor> = filled.iter().map(|(tensor, _)| tensor).collect();
    let x = HostArray::from_slice(&[10f32, 20.], [2])?;
    for backend in ["interpreter", "inline", "multicore"] {
        let weights = ModelState::new(&Backend::open(backend)?, &Params::new(1))?;
        let model = graph.compile(&weights, &results)?;
        for _ in 0..2 {
            for (found, (tensor, expected)) in model.run(&[("x", &x)])?.iter().zip(&filled) {
                let found = (found.dtype(), found.dims().to_vec(), found.values());
                assert_eq!(found, (tensor.dtype(), tensor.shape().to_vec(), expected.clone()), "{backend}");
            }
        }
    }
    Ok(())
}
