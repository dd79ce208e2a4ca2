//! Modules against torch's: outputs, buffers and every gradient.
#![allow(clippy::unwrap_used, reason = "a failing step fails the test")]

use arrayjit_tensor::{
    Backend, DType, Graph, HostArray, ModelState, Params, Tensor, TensorError, TensorOperand,
    nn::{
        BatchNorm1d, BatchNorm2d, BatchNorm3d, Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d,
        ConvTranspose3d, Embedding, GroupNorm, GruCell, LayerNorm, Linear, Lstm, LstmCell, LstmState, Module,
        MultiHeadAttention, Recurrent, RecurrentBuilder, RecurrentCell, RmsNorm, RnnCell,
        TransformerEncoderLayer,
    },
};

use crate::torch::{Goldens, fill, labels, pattern};

/// The largest distance from torch's numbers, relative to the largest one of an array.
const TOLERANCE: f64 = 1e-5;

/// Runs a module on inputs of these shapes, and compares all that torch stored for it.
fn check<M>(
    path: &str,
    graph: &Graph,
    shapes: &[&[usize]],
    build: impl FnOnce(&Params) -> Result<M, TensorError>,
    forward: impl FnOnce(&M, &[Tensor]) -> Result<Vec<Tensor>, TensorError>,
) {
    let params = Params::new(1);
    let module = build(&params).unwrap();
    let weights = ModelState::new(&Backend::open("inline").unwrap(), &params).unwrap();
    fill(path, &weights);

    let mut data: Vec<(String, HostArray)> = Vec::new();
    let mut input = |name: String, shape: &[usize]| {
        data.push((name.clone(), pattern(&format!("{path}/{name}"), shape, 1.0, 0.0)));
        graph.input(&name, shape.iter().copied(), DType::F32).unwrap()
    };
    let inputs: Vec<Tensor> =
        shapes.iter().enumerate().map(|(at, shape)| input(format!("x{at}"), shape)).collect();
    let outputs = forward(&module, &inputs).unwrap_or_else(|error| panic!("{error}"));
    let terms = outputs.iter().enumerate();
    let terms: Vec<Tensor> =
        terms.map(|(at, y)| y.mul(input(format!("c{at}"), y.shape())).unwrap().sum(..).unwrap()).collect();
    let loss = terms.into_iter().reduce(|sum, term| (sum + term).unwrap()).unwrap();
    let trainable = params.trainable();
    let names = (0..shapes.len()).map(|at| format!("x{at}.grad"));
    let names = names.chain(trainable.iter().map(|parameter| format!("{}.grad", parameter.name())));
    let by = inputs.iter().map(|x| x as &dyn TensorOperand);
    let by: Vec<&dyn TensorOperand> = by.chain(trainable.iter().map(|p| p as &dyn TensorOperand)).collect();
    let gradients = graph.gradients(&loss, &by).unwrap_or_else(|error| panic!("{error}"));
    let results: Vec<&Tensor> = outputs.iter().chain(&gradients).collect();
    let model = graph.compile(&weights, &results).unwrap_or_else(|error| panic!("{error}\n{graph:?}"));
    let data: Vec<(&str, &HostArray)> = data.iter().map(|(name, array)| (name.as_str(), array)).collect();
    let found = model.run(&data).unwrap();

    let mut goldens = Goldens::read("modules.safetensors", path);
    let names = (0..outputs.len()).map(|at| format!("y{at}")).chain(names);
    for (name, found) in names.zip(&found) {
        goldens.compare(path, &name, found, TOLERANCE);
    }
    if graph.is_training() {
        for buffer in params.all().iter().filter(|parameter| !parameter.is_trainable()) {
            goldens.compare(path, buffer.name(), &weights.get(buffer).unwrap(), TOLERANCE);
        }
    }
    assert!(goldens.names().is_empty(), "{path}: not compared: {:?}", goldens.names());
}

/// [`check`] of a module with one input and one output.
fn check_module<M: Module>(
    path: &str,
    shape: &[usize],
    build: impl FnOnce(&Params) -> Result<M, TensorError>,
) {
    check(path, &Graph::for_training(), &[shape], build, |module, x| Ok(vec![module.forward(&x[0])?]));
}

#[test]
fn linear_maps() {
    check_module("linear", &[2, 3, 8], |params| Linear::new(params, 8, 5));
    check_module("linear_without_bias", &[3, 8], |params| Linear::builder(params, 8, 5).bias(false).build());
}

#[test]
fn convolutions() {
    check_module("conv2d", &[2, 3, 6, 5], |params| Conv2d::new(params, 3, 4, 3));
    check_module("conv2d_grouped", &[2, 4, 7, 6], |params| {
        Conv2d::builder(params, 4, 6, 3).stride(2).padding(2).dilation(2).groups(2).bias(false).build()
    });
    check_module("conv_transpose2d", &[2, 3, 4, 3], |params| ConvTranspose2d::new(params, 3, 4, 3));
    check_module("conv_transpose2d_grouped", &[2, 4, 3, 4], |params| {
        ConvTranspose2d::builder(params, 4, 6, 3).stride(2).padding(1).output_padding(1).groups(2).build()
    });
}

#[test]
fn convolutions_of_sequences_and_volumes() {
    check_module("conv1d", &[2, 3, 7], |params| {
        Conv1d::builder(params, 3, 4, 3).stride(2).padding(1).build()
    });
    check_module("conv3d", &[2, 2, 4, 3, 5], |params| {
        Conv3d::builder(params, 2, 4, 2).dilation(2).groups(2).build()
    });
    check_module("conv_transpose1d", &[2, 3, 4], |params| {
        ConvTranspose1d::builder(params, 3, 4, 3).stride(2).build()
    });
    check_module("conv_transpose3d", &[2, 2, 3, 4, 3], |params| {
        ConvTranspose3d::builder(params, 2, 3, 2).padding(1).build()
    });
}

#[test]
fn encoder_layers() {
    let layer = |params: &Params| TransformerEncoderLayer::builder(params, 8, 2).hidden(16).dropout(0.0);
    check_module("encoder_layer", &[2, 5, 8], |params| layer(params).build());
    check_module("encoder_layer_norm_first", &[2, 5, 8], |params| {
        layer(params).gelu(true).norm_first(true).build()
    });
}

#[test]
fn normalization() {
    check_module("batch_norm1d_vectors", &[5, 3], |params| BatchNorm1d::new(params, 3));
    check_module("batch_norm1d", &[2, 3, 4], |params| BatchNorm1d::new(params, 3));
    check_module("batch_norm3d", &[2, 2, 2, 3, 2], |params| BatchNorm3d::new(params, 2));
    check_module("batch_norm_train", &[4, 3, 3, 2], |params| BatchNorm2d::new(params, 3));
    let evaluated = Graph::new();
    check(
        "batch_norm_eval",
        &evaluated,
        &[&[4, 3, 3, 2]],
        |params| BatchNorm2d::new(params, 3),
        |norm, x| Ok(vec![norm.forward(&x[0])?]),
    );
    check_module("layer_norm", &[2, 3, 6], |params| LayerNorm::new(params, 6));
    check_module("rms_norm", &[2, 3, 6], |params| Ok(RmsNorm::new(params, 6)?.eps(1e-6)));
    check_module("group_norm", &[2, 6, 3, 2], |params| GroupNorm::new(params, 2, 6));
}

/// Without an eps, torch adds the machine epsilon of the type of sums: that of f32 for bf16 too.
#[test]
fn rms_norm_chooses_the_eps_of_torch() {
    let mut goldens = Goldens::read("modules.safetensors", "rms_norm_default");
    let cases = [
        ("f32", DType::F32, 10, TOLERANCE),
        ("f64", DType::F64, 25, 1e-12),
        ("bf16", DType::Bf16, 10, 1.0 / 256.0),
    ];
    for (name, dtype, exponent, tolerance) in cases {
        let scaled = pattern("rms_norm_default/x", &[2, 3, 6], 1.0, 0.0).values();
        let scaled: Vec<f64> = scaled.iter().map(|x| x / f64::from(1 << exponent)).collect();
        let mut values = HostArray::zeros(dtype, [2, 3, 6]).unwrap();
        values.set_values(&scaled).unwrap();
        let params = Params::new(1).with_dtype(dtype);
        let norm = RmsNorm::new(&params, 6).unwrap();
        let weights = ModelState::new(&Backend::open("inline").unwrap(), &params).unwrap();
        let graph = Graph::new();
        let y = norm.forward(&graph.input("x", [2, 3, 6], dtype).unwrap()).unwrap();
        let found = graph.compile(&weights, &[&y]).unwrap().run(&[("x", &values)]).unwrap();
        goldens.compare("rms_norm_default", name, &found[0], tolerance);
    }
    assert!(goldens.names().is_empty());
}

#[test]
fn embeddings() {
    let ids = labels("embedding/ids", &[2, 5], 7).values();
    let ids = ids.iter().map(|id| format!("{id}")).collect::<Vec<_>>().join(", ");
    let graph = Graph::new();
    // A text of constants, since the test gives inputs of floats.
    let ids = graph.apply(&format!("ids_ := values({ids})\nnode ids_ i32[2, 5]"), &[]);
    check(
        "embedding",
        &graph,
        &[],
        |params| Embedding::new(&params.sub("inner"), 7, 3),
        |table, _| Ok(vec![table.forward(&ids?)?]),
    );
}

#[test]
fn attention() {
    let build = |params: &Params| MultiHeadAttention::new(&params.sub("inner"), 8, 2);
    check_module("attention", &[2, 5, 8], build);
    check_module("attention_causal", &[2, 5, 8], |params| {
        MultiHeadAttention::builder(&params.sub("inner"), 8, 2).causal(true).build()
    });
    let attention =
        |params: &Params| MultiHeadAttention::builder(&params.sub("inner"), 8, 2).dropout(0.5).build();
    check("attention_dropout", &Graph::new(), &[&[2, 5, 8]], attention, |attention, x| {
        Ok(vec![attention.forward(&x[0])?])
    });
    check("attention_cross", &Graph::new(), &[&[2, 3, 8], &[2, 5, 8]], build, |attention, x| {
        Ok(vec![attention.attend(&x[0], &x[1], &x[1])?])
    });
}

/// Compares an LSTM that starts from given states, in evaluation.
fn check_lstm(
    path: &str,
    shapes: &[&[usize]],
    hidden: usize,
    options: impl FnOnce(RecurrentBuilder<LstmCell>) -> RecurrentBuilder<LstmCell>,
) {
    check(
        path,
        &Graph::new(),
        shapes,
        |params| options(Lstm::builder(&params.sub("inner"), 3, hidden)).build(),
        |lstm, x| {
            let state = LstmState { hidden: x[1].clone(), cell: x[2].clone() };
            let (y, LstmState { hidden, cell }) = lstm.forward_from(&x[0], Some(&state))?;
            Ok(vec![y, hidden, cell])
        },
    );
}

/// Compares a GRU or RNN that starts from a given state.
fn check_outputs<C: RecurrentCell<State = Tensor>>(
    path: &str,
    shapes: &[&[usize]],
    hidden: usize,
    options: impl FnOnce(RecurrentBuilder<C>) -> RecurrentBuilder<C>,
) {
    check(
        path,
        &Graph::new(),
        shapes,
        |params| options(Recurrent::builder(&params.sub("inner"), 3, hidden)).build(),
        |gru, x| {
            let (y, hidden) = gru.forward_from(&x[0], Some(&x[1]))?;
            Ok(vec![y, hidden])
        },
    );
}

#[test]
fn recurrent_networks() {
    check_lstm("lstm", &[&[2, 3, 3], &[2, 2, 4], &[2, 2, 4]], 4, |lstm| lstm.layers(2).batch_first(true));
    check_outputs::<GruCell>("gru", &[&[3, 2, 3], &[2, 2, 4]], 4, |gru| gru.layers(2));
    check_lstm("lstm_dropout", &[&[3, 2, 3], &[2, 2, 2], &[2, 2, 2]], 2, |lstm| lstm.layers(2).dropout(0.5));
}

#[test]
fn bidirectional_recurrent_networks() {
    check_lstm("lstm_bidirectional", &[&[2, 3, 3], &[4, 2, 2], &[4, 2, 2]], 2, |lstm| {
        lstm.layers(2).batch_first(true).bidirectional(true)
    });
    let shapes: &[&[usize]] = &[&[3, 2, 3], &[2, 2, 2], &[2, 2, 2]];
    check_lstm("lstm_bidirectional_without_bias", shapes, 2, |lstm| lstm.bias(false).bidirectional(true));
    check_outputs::<GruCell>("gru_bidirectional", &[&[3, 2, 3], &[6, 2, 2]], 2, |gru| {
        gru.layers(3).bidirectional(true)
    });
    check_outputs::<RnnCell>("rnn", &[&[3, 2, 3], &[4, 2, 4]], 4, |rnn| rnn.layers(2).bidirectional(true));
}
