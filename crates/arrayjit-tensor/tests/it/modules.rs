//! Modules: narrow types, train and eval mode, initial values, errors, and checkpoints of torch.
#![allow(clippy::unwrap_used, reason = "a failing step fails the test")]

use arrayjit_tensor::{
    Backend, DType, Graph, HostArray, ModelState, Params, Tensor, TensorError,
    nn::{
        BatchNorm2d, Conv2d, ConvTranspose2d, Dropout, Embedding, GroupNorm, Gru, LayerNorm, Linear, Lstm,
        Module, MultiHeadAttention, RmsNorm,
    },
    session::{Batch, gradient_check},
};

use crate::torch::{Goldens, file_bytes, file_path, pattern};

/// The shape of an input, and a module that takes it.
type Case = (&'static [usize], Box<dyn Module>);

/// One module of each kind, with the shape of an input.
fn all_modules(params: &Params) -> Result<Vec<Case>, TensorError> {
    let p = |name: &str| params.sub(name);
    let (images, vectors) = (&[2, 4, 3, 3], &[2, 2, 8]);
    Ok(vec![
        (vectors, Box::new(Linear::new(&p("linear"), 8, 5)?)),
        (images, Box::new(Conv2d::new(&p("conv"), 4, 6, 2)?)),
        (images, Box::new(ConvTranspose2d::new(&p("up"), 4, 6, 2)?)),
        (images, Box::new(BatchNorm2d::new(&p("batch_norm"), 4)?)),
        (images, Box::new(GroupNorm::new(&p("group_norm"), 2, 4)?)),
        (vectors, Box::new(LayerNorm::new(&p("layer_norm"), 8)?)),
        (vectors, Box::new(RmsNorm::new(&p("rms_norm"), 8)?)),
        (vectors, Box::new(MultiHeadAttention::builder(&p("attention"), 8, 2).causal(true).build()?)),
        (vectors, Box::new(Lstm::builder(&p("lstm"), 8, 5).batch_first(true).build()?)),
        (vectors, Box::new(Gru::builder(&p("gru"), 8, 5).batch_first(true).bidirectional(true).build()?)),
    ])
}

/// The results of all modules with parameters, inputs and results of a type.
fn run_all(params: &Params, weights: &ModelState, modules: &[(&[usize], Box<dyn Module>)]) -> Vec<HostArray> {
    let graph = Graph::for_training();
    let dtype = params.dtype();
    let mut inputs = Vec::new();
    let mut results = Vec::new();
    for (at, (shape, module)) in modules.iter().enumerate() {
        let name = format!("x{at}");
        let x = graph.input(&name, shape.iter().copied(), dtype).unwrap();
        let y = module.forward(&x).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(y.dtype(), dtype);
        results.push(y);
        // Coarse enough for every type.
        let values: Vec<f64> =
            pattern(&name, shape, 1.0, 0.0).values().iter().map(|x| (x * 64.0).round() / 64.0).collect();
        let mut array = HostArray::zeros(dtype, shape.iter().copied()).unwrap();
        array.set_values(&values).unwrap();
        inputs.push((name, array));
    }
    let model = graph.compile(weights, &results.iter().collect::<Vec<_>>()).unwrap();
    let inputs: Vec<(&str, &HostArray)> = inputs.iter().map(|(name, x)| (name.as_str(), x)).collect();
    model.run(&inputs).unwrap()
}

#[test]
fn narrow_parameters_compute_as_wide_ones() {
    let inline = Backend::open("inline").unwrap();
    for (dtype, tolerance) in [(DType::Bf16, 0.02), (DType::F16, 0.003)] {
        let narrow = Params::new(7).with_dtype(dtype);
        let modules = all_modules(&narrow).unwrap();
        let weights = ModelState::new(&inline, &narrow).unwrap();
        let state = weights.state_dict().unwrap();
        let found = run_all(&narrow, &weights, &modules);
        assert_eq!(weights.state_dict().unwrap()["batch_norm.running_mean"].dtype(), DType::F32);

        let wide = Params::new(7);
        let modules = all_modules(&wide).unwrap();
        let weights = ModelState::new(&inline, &wide).unwrap();
        weights.load_state_dict(&state).unwrap();
        let expected = run_all(&wide, &weights, &modules);
        for (at, (found, expected)) in found.iter().zip(&expected).enumerate() {
            let largest = expected.values().iter().fold(0f64, |most, value| most.max(value.abs()));
            let close = |(a, b): (&f64, &f64)| (a - b).abs() <= tolerance * largest;
            let (found, expected) = (found.values(), expected.values());
            assert!(found.iter().zip(&expected).all(close), "{dtype}, module {at}: {found:?} {expected:?}");
        }
    }
}

#[test]
fn dropout_drops_in_training_only() {
    let params = Params::new(3);
    let dropout = Dropout::new(&params.sub("drop"), 0.25).unwrap();
    let weights = ModelState::new(&Backend::open("inline").unwrap(), &params).unwrap();
    let graph = Graph::new();
    let x = graph.input("x", [1000], DType::F32).unwrap();
    assert_eq!(dropout.forward(&x).unwrap().node(), x.node());

    let graph = Graph::for_training();
    let x = graph.input("x", [1000], DType::F32).unwrap();
    let (y, z) = (dropout.forward(&x).unwrap(), dropout.forward(&x).unwrap());
    let model = graph.compile(&weights, &[&y, &z]).unwrap();
    let ones = HostArray::from_slice(&[1f32; 1000], [1000]).unwrap();
    let run = |step| {
        let results = model.run_with(&[("x", &ones)], &[("step", step)]).unwrap();
        (results[0].values(), results[1].values())
    };
    let (first, second) = run(0);
    let kept = first.iter().filter(|&&x| x != 0.0).count();
    assert!((700..800).contains(&kept), "{kept} of 1000 elements are kept");
    assert!(first.iter().all(|&x| x == 0.0 || (x - 4.0 / 3.0).abs() < 1e-6));
    assert!(first != second && first != run(1).0 && first == run(0).0);
}

/// The output of a module of one input.
fn output(
    graph: &Graph,
    weights: &ModelState,
    symbols: &[(&str, i64)],
    x: &HostArray,
    forward: impl Fn(&Tensor) -> Result<Tensor, TensorError>,
) -> Vec<f64> {
    let y = forward(&graph.input("x", x.dims().iter().copied(), DType::F32).unwrap()).unwrap();
    let model = graph.compile(weights, &[&y]).unwrap();
    model.run_with(&[("x", x)], symbols).unwrap()[0].values()
}

/// Checks that each element is 0 or divided by 1 - 0.25, and that about a quarter is 0.
fn check_dropped(found: &[f64], all: &[f64]) {
    let is_dropped = |(found, all): (&f64, &f64)| {
        assert!(*found == 0.0 || (found - all / 0.75).abs() < 1e-5, "{found}, {all} without dropout");
        *found == 0.0 && *all != 0.0
    };
    let dropped = found.iter().zip(all).filter(|&pair| is_dropped(pair)).count();
    let count = all.iter().filter(|&&all| all != 0.0).count();
    assert!((count / 6..count / 3).contains(&dropped), "{dropped} of {count} elements are dropped");
}

/// With values that are the rows of an identity matrix, the result is the softmax.
#[test]
fn attention_drops_elements_of_the_softmax() {
    for causal in [false, true] {
        let params = Params::new(3);
        let attention = MultiHeadAttention::builder(&params.sub("attn"), 8, 2).causal(causal).bias(false);
        let attention = attention.dropout(0.25).build().unwrap();
        let weights = ModelState::new(&Backend::open("inline").unwrap(), &params).unwrap();
        let identity = |rows: usize| (0..rows * 8).map(|at| f32::from(u8::from(at / 8 % 8 == at % 8)));
        let set = |parameter, rows: usize| {
            let values: Vec<f32> = identity(rows).collect();
            weights.set(parameter, HostArray::from_slice(&values, [rows, 8]).unwrap()).unwrap();
        };
        set(&attention.in_proj_weight, 24);
        set(&attention.out_proj.weight, 8);
        let x = pattern("x", &[5, 4, 4, 8], 2.0, 0.0);
        let softmax = |x: &Tensor| {
            let text = "v[a,b,s,i] := i % 4 == s where a < 5, b < 4, s < 4, i < 8";
            attention.attend(x, x, &x.graph().apply(text, &[])?.to_dtype(DType::F32)?)
        };
        let all = output(&Graph::new(), &weights, &[], &x, softmax);
        let at_step = |step| output(&Graph::for_training(), &weights, &[("step", step)], &x, softmax);
        let [first, second] = [at_step(0), at_step(1)];
        check_dropped(&first, &all);
        check_dropped(&second, &all);
        assert_ne!(first, second);
        let x = pattern("x", &[1, 3, 8], 2.0, 0.0);
        let loss = |batch: &Batch| attention.forward(&batch.input("x")?)?.tanh()?.sum(..);
        gradient_check(&weights, &[("x", &x)], loss).unwrap_or_else(|error| panic!("{error}"));
    }
}

/// The second layer of a network, with gates that are open, maps its inputs by tanh ∘ tanh at each step.
#[test]
fn recurrent_networks_drop_outputs_between_layers() {
    let (hidden, steps) = (6, 5);
    let params = Params::new(3);
    let lstm = |name: &str, layers| {
        let lstm =
            Lstm::builder(&params.sub(name), 3, hidden).layers(layers).dropout(0.25).bidirectional(true);
        lstm.build().unwrap()
    };
    let (lstm, first) = (lstm("lstm", 2), lstm("first", 1));
    let weights = ModelState::new(&Backend::open("inline").unwrap(), &params).unwrap();
    let mut state = weights.state_dict().unwrap();
    let array = |shape: &[usize], value: &dyn Fn(usize) -> f32| {
        let values: Vec<f32> = (0..shape.iter().product()).map(value).collect();
        HostArray::from_slice(&values, shape.iter().copied()).unwrap()
    };
    for (direction, offset) in [("", 0), ("_reverse", hidden)] {
        for part in ["weight_ih", "weight_hh", "bias_ih", "bias_hh"] {
            let values = state[&format!("lstm.{part}_l0{direction}")].try_clone().unwrap();
            state.insert(format!("first.{part}_l0{direction}"), values);
        }
        let mut set = |part: &str, values| state.insert(format!("lstm.{part}_l1{direction}"), values);
        set("weight_hh", array(&[4 * hidden, hidden], &|_| 0.0));
        set("bias_hh", array(&[4 * hidden], &|_| 0.0));
        set("bias_ih", array(&[4 * hidden], &|at| [200.0, -200.0, 0.0, 200.0][at / hidden]));
        let cell = |at: usize| {
            let (row, column) = (at / (2 * hidden), at % (2 * hidden));
            f32::from(u8::from(row / hidden == 2 && row % hidden + offset == column))
        };
        set("weight_ih", array(&[4 * hidden, 2 * hidden], &cell));
    }
    weights.load_state_dict(&state).unwrap();
    let x = pattern("x", &[steps, 4, 3], 1.0, 0.0);
    let found = output(&Graph::for_training(), &weights, &[("step", 0)], &x, |x| lstm.forward(x));
    // Nothing is dropped behind the last layer: the graph has no symbol `step`.
    let all = output(&Graph::for_training(), &weights, &[], &x, |x| first.forward(x));
    check_dropped(&found.iter().map(|y| y.atanh().atanh()).collect::<Vec<_>>(), &all);
}

#[test]
fn initial_values_are_those_of_torch() {
    let params = Params::new(5);
    let fc = Linear::new(&params.sub("fc"), 64, 50).unwrap();
    let conv = Conv2d::new(&params.sub("conv"), 16, 20, 3).unwrap();
    let table = Embedding::new(&params.sub("table"), 100, 40).unwrap();
    let attention = MultiHeadAttention::new(&params.sub("attention"), 32, 4).unwrap();
    let lstm = Lstm::new(&params.sub("lstm"), 4, 25).unwrap();
    let norm = BatchNorm2d::new(&params.sub("norm"), 3).unwrap();
    let weights = ModelState::new(&Backend::open("inline").unwrap(), &params).unwrap();
    let values = |parameter| weights.get(parameter).unwrap().values();
    let largest = |parameter| values(parameter).iter().fold(0f64, |most, value| most.max(value.abs()));
    let uniform = [
        (&fc.weight, 1.0 / 8.0),
        (fc.bias.as_ref().unwrap(), 1.0 / 8.0),
        (&conv.weight, 1.0 / 12.0),
        (conv.bias.as_ref().unwrap(), 1.0 / 12.0),
        (&attention.in_proj_weight, (6.0f64 / 128.0).sqrt()),
        (&attention.out_proj.weight, (1.0f64 / 32.0).sqrt()),
        (&lstm.layers[0].weight_ih, 0.2),
        (lstm.layers[0].bias_hh.as_ref().unwrap(), 0.2),
    ];
    for (parameter, bound) in uniform {
        let found = largest(parameter);
        assert!((0.8 * bound..=bound * 1.000001).contains(&found), "{parameter:?}: {found}, not {bound}");
    }
    let rows = values(&table.weight);
    let variance = rows.iter().map(|x| x * x).sum::<f64>() / rows.len() as f64;
    assert!((0.9..1.1).contains(&variance), "{variance}");
    assert_eq!(largest(attention.in_proj_bias.as_ref().unwrap()), 0.0);
    assert_eq!(values(&norm.weight), [1.0; 3]);
    assert_eq!(values(&norm.running_var), [1.0; 3]);
    assert_eq!(values(&norm.running_mean), [0.0; 3]);
    assert_eq!(values(&norm.num_batches_tracked), [0.0]);
}

/// An error of an operation, without the place in this file.
fn parts(error: &TensorError) -> String {
    let TensorError::Operation { operation, module, location, problem } = error else { panic!("{error}") };
    assert!(location.file().ends_with("modules.rs"), "{error}");
    format!("{operation} in {module}: {problem}")
}

/// The message of a module for an input of this shape, without the place in this file.
fn message(module: &dyn Module, shape: &[usize]) -> String {
    let graph = Graph::for_training();
    let x = graph.input("x", shape.iter().copied(), DType::F32).unwrap();
    let error = module.forward(&x).unwrap_err();
    parts(&error)
}

#[test]
fn errors_name_module_and_parameter() {
    let params = Params::new(7);
    let modules = all_modules(&params.sub("net")).unwrap();
    let found: Vec<String> =
        modules.iter().map(|(_, module)| message(module.as_ref(), &[2, 3, 1, 7])).collect();
    let expected = [
        "linear in net.linear: x has shape [2, 3, 1, 7], expected 8 elements on axis 3, as net.linear.weight has",
        "conv2d in net.conv: net.conv.weight has shape [6, 4, 2, 2], expected [out, 3, …] with 4 axes, for x \
         with 3 channels",
        "conv_transpose2d in net.up: net.up.weight has shape [4, 6, 2, 2], expected [channels, out, height, \
         width] for an image [2, 3, 1, 7]",
        "batch_norm in net.batch_norm: x has shape [2, 3, 1, 7], expected 4 elements on axis 1, as \
         net.batch_norm.weight has",
        "group_norm in net.group_norm: x has shape [2, 3, 1, 7], expected 4 elements on axis 1, as \
         net.group_norm.weight has",
        "layer_norm in net.layer_norm: x has shape [2, 3, 1, 7], expected 8 elements on axis 3, as \
         net.layer_norm.weight has",
        "rms_norm in net.rms_norm: x has shape [2, 3, 1, 7], expected 8 elements on axis 3, as \
         net.rms_norm.weight has",
        "in_proj in net.attention: x has shape [2, 3, 1, 7], expected 8 elements on axis 3, as \
         net.attention.in_proj_weight has",
        "lstm in net.lstm: x has shape [2, 3, 1, 7], expected [batch, time, inputs], with at least one step and \
         one sequence",
        "gru in net.gru: x has shape [2, 3, 1, 7], expected [batch, time, inputs], with at least one step and \
         one sequence",
    ];
    assert_eq!(found, expected);
    assert_eq!(
        message(modules[3].1.as_ref(), &[1, 4, 1, 1]),
        "batch_norm in net.batch_norm: x has shape [1, 4, 1, 1], expected at least two values per channel, \
         since their variance is used in training"
    );
    assert_eq!(
        message(modules[8].1.as_ref(), &[2, 3, 7]),
        "lstm in net.lstm: x has shape [2, 3, 7], expected 8 elements on axis 2, as net.lstm.weight_ih_l0 has"
    );
    let table = Embedding::new(&params.sub("table"), 3, 3).unwrap();
    assert_eq!(message(&table, &[2]), "embedding in table: x is of f32, expected integers");
    let options = |error: TensorError| parts(&error);
    let attention = MultiHeadAttention::new(&params.sub("a"), 8, 3);
    assert_eq!(
        options(attention.err().unwrap()),
        "MultiHeadAttention in a: heads is 3, expected a divisor of 8, the size of a vector"
    );
    let dropout = Dropout::new(&params.sub("drop"), 1.0);
    assert_eq!(
        options(dropout.err().unwrap()),
        "Dropout in drop: rate is 1, expected at least 0 and less than 1"
    );
    assert_eq!(
        options(Gru::builder(&params.sub("gru"), 2, 2).dropout(-0.5).build().err().unwrap()),
        "Gru in gru: dropout is -0.5, expected at least 0 and less than 1"
    );
    assert_eq!(
        options(MultiHeadAttention::builder(&params.sub("m"), 2, 2).dropout(1.0).build().err().unwrap()),
        "MultiHeadAttention in m: dropout is 1, expected at least 0 and less than 1"
    );
    let again = Linear::new(&params.sub("net.linear"), 8, 5);
    assert_eq!(
        options(again.err().unwrap()),
        "parameter in net.linear: parameter `net.linear.weight` exists already"
    );
}

/// The model whose state is tests/torch/checkpoint.safetensors.
struct Checkpoint {
    conv: Conv2d,
    bn: BatchNorm2d,
    attn: MultiHeadAttention,
    lstm: Lstm,
    gru: Gru,
    fc: Linear,
}

impl Checkpoint {
    fn new(params: &Params) -> Result<Checkpoint, TensorError> {
        Ok(Checkpoint {
            conv: Conv2d::builder(&params.sub("conv"), 2, 3, 3).bias(false).build()?,
            bn: BatchNorm2d::new(&params.sub("bn"), 3)?,
            attn: MultiHeadAttention::new(&params.sub("attn"), 6, 2)?,
            lstm: Lstm::builder(&params.sub("lstm"), 6, 3).batch_first(true).build()?,
            gru: Gru::builder(&params.sub("gru"), 3, 2).batch_first(true).build()?,
            fc: Linear::new(&params.sub("fc"), 2, 2)?,
        })
    }
}

impl Module for Checkpoint {
    fn forward(&self, x: &Tensor) -> Result<Tensor, TensorError> {
        let x = self.bn.forward(&self.conv.forward(x)?)?.reshape(&[2, 2, 6])?;
        let x = self.lstm.forward(&self.attn.forward(&x)?)?;
        self.fc.forward(&self.gru.forward(&x)?)
    }
}

#[test]
fn a_checkpoint_of_torch_loads() {
    let params = Params::new(1);
    let model = Checkpoint::new(&params).unwrap();
    let weights = ModelState::new(&Backend::open("inline").unwrap(), &params).unwrap();
    let file = file_bytes("checkpoint.safetensors");
    weights.load_safetensors(&file).unwrap();
    // An i64 in the file.
    let tracked = weights.get(&model.bn.num_batches_tracked).unwrap();
    assert_eq!((tracked.dtype(), tracked.values()), (DType::I32, vec![2.0]));

    let graph = Graph::new();
    let y = model.forward(&graph.input("x", [2, 2, 4, 4], DType::F32).unwrap()).unwrap();
    let compiled = graph.compile(&weights, &[&y]).unwrap();
    let found = compiled.run(&[("x", &pattern("checkpoint/x", &[2, 2, 4, 4], 1.0, 0.0))]).unwrap();
    Goldens::read("modules.safetensors", "checkpoint").compare("checkpoint", "y", &found[0], 1e-5);

    // The state is the same file again.
    let other = ModelState::new(&Backend::open("inline").unwrap(), &params).unwrap();
    other.load_safetensors(&weights.to_safetensors().unwrap()).unwrap();
    let states = [weights.state_dict().unwrap(), other.state_dict().unwrap()];
    assert!(states[0].iter().zip(&states[1]).all(|(a, b)| a.0 == b.0 && a.1.values() == b.1.values()));
}

/// The same state, as `torch.save` writes it.
#[test]
fn a_file_of_torch_has_the_same_weights() {
    let state = |file: &str| {
        let params = Params::new(1);
        Checkpoint::new(&params).unwrap();
        let weights = ModelState::new(&Backend::open("inline").unwrap(), &params).unwrap();
        weights.load(file_path(file)).unwrap();
        weights.to_safetensors().unwrap()
    };
    assert_eq!(state("checkpoint.pt"), state("checkpoint.safetensors"));
}

/// A part of a file under other names; nothing changes if the names do not fit.
#[test]
fn a_file_loads_in_part_and_renamed() {
    let params = Params::new(1);
    let head = Linear::new(&params.sub("model").sub("head"), 2, 2).unwrap();
    let other = Linear::new(&params.sub("other"), 2, 2).unwrap();
    let weights = ModelState::new(&Backend::open("inline").unwrap(), &params).unwrap();
    let before = weights.to_safetensors().unwrap();
    let load = |rename: fn(&str) -> Option<String>| weights.load_renamed(file_path("checkpoint.pt"), rename);

    let error = load(|name| Some(format!("model.{name}"))).unwrap_err().to_string();
    assert!(error.contains("no parameters for the values: `model.attn.in_proj_bias`"), "{error}");
    let error = load(|_| Some("other.weight".into())).unwrap_err().to_string();
    assert!(error.ends_with("array `other.weight` exists already"), "{error}");
    let error = load(|name| (name == "conv.weight").then(|| "other.weight".into())).unwrap_err().to_string();
    assert!(error.ends_with("`other.weight` is given f32[3, 2, 3, 3], expected f32[2, 2]"), "{error}");
    assert_eq!(weights.to_safetensors().unwrap(), before);

    let kept = load(|name| Some(format!("model.head.{}", name.strip_prefix("fc.")?))).unwrap();
    assert_eq!(kept, ["other.bias", "other.weight"]);
    let stored = arrayjit::torch::read(&file_bytes("checkpoint.pt")).unwrap();
    assert_eq!(weights.get(&head.weight).unwrap(), stored["fc.weight"]);
    assert_ne!(weights.get(&other.weight).unwrap(), stored["fc.weight"]);
}

#[test]
fn missing_and_unexpected_weights_are_named() {
    let params = Params::new(1);
    let weights = ModelState::new(&Backend::open("inline").unwrap(), &params).unwrap();
    Checkpoint::new(&params).unwrap();
    let head = Linear::new(&params.sub("head"), 2, 2).unwrap();
    let before = weights.get(&head.weight).unwrap().values();
    let file = file_bytes("checkpoint.safetensors");
    let error = weights.load_safetensors(&file).unwrap_err();
    assert!(matches!(&error, TensorError::Names { missing, unexpected }
        if missing.len() == 2 && unexpected.is_empty()));
    assert_eq!(error.to_string(), "no values for the parameters: `head.bias`, `head.weight`");
    assert_eq!(weights.get(&head.weight).unwrap().values(), before);

    let params = Params::new(1);
    Linear::new(&params.sub("fc"), 2, 2).unwrap();
    let weights = ModelState::new(&Backend::open("inline").unwrap(), &params).unwrap();
    let error = weights.load_safetensors(&file).unwrap_err();
    assert!(matches!(&error, TensorError::Names { missing, unexpected }
        if missing.is_empty() && unexpected.contains(&"lstm.weight_ih_l0".to_owned())));

    let params = Params::new(1);
    Checkpoint::new(&params).unwrap();
    let weights = ModelState::new(&Backend::open("inline").unwrap(), &params).unwrap();
    let mut state = weights.state_dict().unwrap();
    state.insert("fc.bias".into(), HostArray::zeros(DType::F32, [3]).unwrap());
    let error = weights.load_state_dict(&state).unwrap_err();
    assert_eq!(error.to_string(), "`fc.bias` is given f32[3], expected f32[2]");
    let mut state = weights.state_dict().unwrap();
    state.insert("bn.num_batches_tracked".into(), HostArray::from_slice(&[1i64 << 31], []).unwrap());
    let error = weights.load_state_dict(&state).unwrap_err();
    assert_eq!(error.to_string(), "`bn.num_batches_tracked` is given a value of i64 that i32 does not hold");
}
