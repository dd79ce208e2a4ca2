//! Messages about wrong shapes, types, positions and texts.

use arrayjit_tensor::{
    Backend, ConvOptions, DType, Executable, Graph, HostArray, Init, ModelState, Params, Tensor, TensorError,
    optim::AdamW,
    session::{Batch, Session},
};

/// The message of an operation on `x`, f32 of shape [2, 3], without the caller's position.
fn message(operation: impl FnOnce(&Tensor) -> Result<Tensor, TensorError>) -> String {
    let graph = Graph::new();
    match graph.input("x", [2, 3], DType::F32).and_then(|x| operation(&x)) {
        Ok(tensor) => panic!("no error, but {tensor:?}"),
        Err(error) => {
            let TensorError::Operation { location, .. } = &error else { panic!("{error}") };
            assert!(location.file().ends_with("bad_input.rs"), "{error}");
            let message = error.to_string();
            let place = format!(" at {location}");
            assert!(message.contains(&place), "{message}");
            message.replace(&place, "")
        }
    }
}

#[test]
fn shapes_and_axes() {
    let other = |x: &Tensor, shape: &[usize]| x.graph().input("z", shape.iter().copied(), DType::F32);
    let cases = [
        (
            message(|x| x.add(other(x, &[4])?)),
            "add: shapes [2, 3] and [4] do not broadcast: an axis, counted from the last, has two sizes and \
             neither is 1",
        ),
        (
            message(|x| x.matmul(x)),
            "matmul: the last axis of [2, 3] has 3 elements, but the one before the last of [2, 3] has 2",
        ),
        (message(|x| x.matmul(other(x, &[])?)), "matmul: z has shape [], expected at least one axis"),
        (message(|x| x.sum(2)), "sum: axis 2 of shape [2, 3]: expected one of -2..=1"),
        (message(|x| x.sum([0, -2])), "sum: axis 0 of shape [2, 3] is given twice"),
        (
            message(|x| x.reshape(&[4, -1])),
            "reshape: shape [2, 3] has 6 elements, so it cannot become [4, -1]",
        ),
        (
            message(|x| x.slice(1, 2..4)),
            "slice: elements 2..4 of axis 1 of shape [2, 3], which has 3 elements",
        ),
        (message(|x| x.slice_step(1, 0..3, 0)), "slice_step: step is 0, expected 1 or more"),
        (message(|x| x.permute(&[0, 0])), "permute: order is [0, 0], expected each of the 2 axes once"),
        (message(|x| x.squeeze(0)), "squeeze: x has shape [2, 3], expected size 1 on axis 0"),
        (
            message(|x| x.broadcast_to(&[3])),
            "broadcast_to: shapes [2, 3] and [3] do not broadcast: an axis, counted from the last, has two sizes and neither is 1",
        ),
        (
            message(|x| Tensor::concat(&[x, &other(x, &[2, 4])?], 0)),
            "concat: z has shape [2, 4], expected [2, 3] but for axis 0",
        ),
        (
            message(|x| x.slice(1, 0..0)?.argmax(1)),
            "argmax: slice_1 has shape [2, 0], expected elements along axis 1",
        ),
        (message(|x| Ok(x.topk(4, 1)?.0)), "topk: count is 4, expected at most 3, the size of axis 1"),
        (
            message(|x| x.conv2d(x, ConvOptions::new())),
            "conv2d: x has shape [2, 3], expected 4 axes: batch, channels, then 2 of space",
        ),
        (
            message(|x| x.einsum("i j, j k", x)),
            "einsum: equation is `i j, j k`, expected operands and a result, as in `i k, k j -> i j`",
        ),
        (
            message(|x| x.einsum("i j, j k -> i k", x)),
            "einsum: equation is `i j, j k -> i k`, expected one size of `j`, which has 3 and 2",
        ),
        (message(|x| x.dropout(1.0, 1)), "dropout: rate is 1, expected at least 0 and less than 1"),
        (
            message(|x| x.mse_loss(&other(x, &[2])?)),
            "mse_loss: z has shape [2], expected [2, 3], the shape of the prediction",
        ),
    ];
    for (found, expected) in cases {
        assert_eq!(found, expected);
    }
}

#[test]
fn element_types() {
    let found = message(|x| x.take(0, x));
    assert_eq!(found, "take: x is of f32, expected integers");
    let found = message(|x| x.to_dtype(DType::I32)?.softmax(0));
    assert_eq!(found, "softmax: to_dtype_1 is of i32, expected floats");
    let found = message(|x| Ok(x.graph().gradients(&x.square()?, &[x])?.remove(0)));
    assert!(found.contains("the loss square_1 has dimensions [2, 3], expected a scalar"), "{found}");
}

#[test]
fn texts_and_graphs() {
    let found = message(|x| x.graph().apply("y[i] := z[i,j]", &[("x", x)]));
    assert!(found.starts_with("apply: line 1, column 9: unknown node `z`"), "{found}");
    let found = message(|x| x.graph().apply("x[i,j] += 1", &[("x", x)]));
    assert_eq!(found, "apply: the text writes `x`, which is a tensor; only parameters and buffers change");
    let found = message(|x| x.graph().apply("param w f32[3] := 0; y[i] := x[0,i] * w[i]", &[("x", x)]));
    assert!(found.starts_with("apply: the text declares initial values"), "{found}");
    let found = message(|x| x.add(Graph::new().input("other", [2, 3], DType::F32)?));
    assert_eq!(found, "add: other belongs to another graph; a graph takes its own tensors and parameters");
    let found = message(|x| x.graph().input("x", [1], DType::F32));
    assert_eq!(found, "input: input `x` exists already");
}

#[test]
fn a_message_has_the_module() {
    let found = message(|x| {
        let _scope = x.graph().enter("encoder.0");
        x.sum(5)
    });
    assert_eq!(found, "sum in module `encoder.0`: axis 5 of shape [2, 3]: expected one of -2..=1");
}

#[test]
fn a_name_of_a_parameter_is_unique() -> Result<(), TensorError> {
    let params = Params::new(1).sub("fc");
    params.parameter("weight", [2], Init::ZEROS)?;
    match params.parameter("weight", [3], Init::ZEROS) {
        Ok(parameter) => panic!("{parameter:?}"),
        Err(error) => assert!(error.to_string().ends_with("parameter `fc.weight` exists already"), "{error}"),
    }
    Ok(())
}

#[test]
fn inputs_and_values() -> Result<(), TensorError> {
    let params = Params::new(1);
    let w = params.parameter("w", [3], Init::ZEROS)?;
    let weights = ModelState::new(&Backend::open("inline")?, &params)?;
    let graph = Graph::new();
    let y = graph.input("x", [2, 3], DType::F32)?.add(&w)?;
    let model = graph.compile(&weights, &[&y])?;
    let array = |shape: &[usize]| HostArray::zeros(DType::F32, shape.iter().copied());
    let (right, wrong) = (array(&[2, 3])?, array(&[3])?);
    let message = |result: Result<Vec<HostArray>, TensorError>| result.map(|_| ()).map_err(|e| e.to_string());
    assert_eq!(message(model.run(&[])), Err("input `x` has no values; the inputs are `x`".into()));
    assert_eq!(
        message(model.run(&[("x", &right), ("z", &right)])),
        Err("input `z` is unknown; the inputs are `x`".into())
    );
    assert_eq!(message(model.run(&[("x", &wrong)])), Err("`x` is given f32[3], expected f32[2, 3]".into()));
    assert_eq!(
        message(model.run_with(&[("x", &right)], &[("t", 1)])),
        Err("symbol `@t` is none of this graph".into())
    );
    assert_eq!(message(model.run(&[("x", &right)])), Ok(()));

    let named = |name: &str, array: HostArray| [(name.to_owned(), array)].into_iter().collect();
    let load = |values| weights.load_state_dict(&values).map_err(|error| error.to_string());
    assert_eq!(
        load(named("v", array(&[3])?)),
        Err("no values for the parameters: `w`; no parameters for the values: `v`".into())
    );
    assert_eq!(load(named("w", array(&[2])?)), Err("`w` is given f32[2], expected f32[3]".into()));
    assert_eq!(load(named("w", HostArray::from_slice(&[1f64, 2., 3.], [3])?)), Ok(()));
    assert_eq!(weights.get(&w)?.values(), [1., 2., 3.]);
    Ok(())
}

/// Labels and rows of a table that do not exist are errors of the run, wherever they are in the input.
#[test]
fn positions_outside_of_their_axis() -> Result<(), TensorError> {
    let params = Params::new(1);
    let table = params.parameter("table", [5, 2], Init::ONES)?;
    let weights = ModelState::new(&Backend::open("inline")?, &params)?;
    let build = |checks: bool| {
        let graph = Graph::new();
        graph.check_positions(checks);
        let tokens = graph.input("tokens", [2, 4], DType::I64)?;
        // The last column belongs to nothing.
        let rows = tokens.narrow(1, 0, 3)?.transpose(0, 1)?.embedding(&table)?;
        let labels = graph.input("labels", [3, 2], DType::U8)?;
        graph.compile(&weights, &[&rows.cross_entropy(&labels)?])
    };
    let tokens = |values: [i64; 8]| HostArray::from_slice(&values, [2, 4]);
    let labels = |values: [u8; 6]| HostArray::from_slice(&values, [3, 2]);
    let run = |model: &Executable, tokens: &HostArray, labels: &HostArray| {
        let found = model.run(&[("tokens", tokens), ("labels", labels)]);
        found.map(drop).map_err(|error| error.to_string())
    };
    let model = build(true)?;
    let right = (tokens([0, 1, 2, 99, 3, 4, 0, -7])?, labels([0, 1, 0, 1, 0, 1])?);
    assert_eq!(run(&model, &right.0, &right.1), Ok(()));
    let found = run(&model, &tokens([0, 1, 2, 3, 3, -1, 0, 0])?, &right.1).unwrap_err();
    assert!(found.starts_with("input `tokens` has -1 at [1, 1], expected 0..5 for embedding at "), "{found}");
    let found = run(&model, &tokens([0, 1, 5, 3, 3, 1, 0, 0])?, &right.1).unwrap_err();
    assert!(found.starts_with("input `tokens` has 5 at [0, 2], expected 0..5 for embedding at "), "{found}");
    let wrong = labels([0, 1, 0, 1, 2, 1])?;
    let found = run(&model, &right.0, &wrong).unwrap_err();
    assert!(
        found.starts_with("input `labels` has 2 at [2, 0], expected 0..2 for cross_entropy at "),
        "{found}"
    );
    assert_eq!(run(&build(false)?, &right.0, &wrong), Ok(()));
    Ok(())
}

/// The weights of a checkpoint can be loaded, and other formats are named.
#[test]
fn files_that_are_taken_for_weights() -> Result<(), Box<dyn std::error::Error>> {
    let params = Params::new(1);
    let w = params.parameter("w", [2], Init::ONES)?;
    let weights = ModelState::new(&Backend::open("inline")?, &params)?;
    let parameter = w.clone();
    let loss = move |batch: &Batch| batch.input("x")?.mul(&parameter)?.sum(..);
    let mut session = Session::new(&weights, AdamW::new(0.1), loss)?;
    session.step(&[("x", &HostArray::from_slice(&[1f32, 2.0], [2])?)])?;
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("checkpoint");
    session.save(&path)?;
    let trained = weights.get(&w)?.values();
    weights.set(&w, HostArray::from_slice(&[0f32; 2], [2])?)?;
    weights.load_safetensors(&std::fs::read(&path)?)?;
    assert_eq!(weights.get(&w)?.values(), trained);

    let found = weights.load_safetensors(b"PK\x03\x04 and so on").unwrap_err().to_string();
    assert!(found.contains("the file is a zip archive, such as torch's `.pt`"), "{found}");
    let many = (0..20).map(|at| Ok((format!("v{at:02}"), HostArray::zeros(DType::F32, [1])?)));
    let many = many.collect::<Result<_, TensorError>>()?;
    let found = weights.load_state_dict(&many).unwrap_err().to_string();
    assert!(found.ends_with("`v06`, `v07` and 12 more"), "{found}");
    Ok(())
}

#[test]
fn means_of_nothing() {
    let graph = Graph::new();
    let x = graph.input("x", [0, 3], DType::F32).unwrap();
    let labels = graph.input("labels", [0], DType::I32).unwrap();
    let found = [x.mean(..), x.mean(0), x.var(0), x.mse_loss(&x), x.cross_entropy(&labels)];
    for error in found.map(|result| result.map(drop).unwrap_err().to_string()) {
        assert!(
            error.ends_with("x has shape [0, 3], expected at least one element for each mean"),
            "{error}"
        );
    }
    assert_eq!(x.mean(1).unwrap().shape(), [0]);
    assert_eq!(x.sum(0).unwrap().shape(), [3]);
}
