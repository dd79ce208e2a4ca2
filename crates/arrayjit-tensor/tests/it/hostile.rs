//! Hostile input: overflowing sizes, replaced fields of modules, torn files, odd names, batches that change
//! or panic in the middle of training. Each is an error that names its object, and changes nothing.

use std::{fs, thread};

use arrayjit_tensor::{
    Backend, ConvOptions, DType, Graph, HostArray, Init, ModelState, Params, PoolOptions, Tensor,
    TensorError,
    nn::{
        BatchNorm2d, Conv2d, ConvTranspose2d, Dropout, Embedding, GroupNorm, Gru, LayerNorm, Linear, Lstm,
        Module, MultiHeadAttention, RmsNorm,
    },
    optim::{Adam, AdamW, Optimizer, OptimizerState, Sgd, UpdateRule},
    session::{Batch, Session},
};

use crate::sessions::{TwoLayers, batch, step};

const MOST: usize = usize::MAX;

/// The message of an error, without the caller's line.
fn message(error: &TensorError) -> String {
    let TensorError::Operation { location, .. } = error else { panic!("{error}") };
    assert!(location.file().ends_with("hostile.rs"), "{error}");
    error.to_string().replace(&format!(" at {location}"), "")
}

fn failed(result: Result<Tensor, TensorError>) -> String {
    result.map_or_else(|error| message(&error), |tensor| panic!("no error, but {tensor:?}"))
}

#[test]
fn sizes_that_overflow_are_named() {
    let graph = Graph::new();
    let x = graph.input("x", [2, 3], DType::F32).unwrap();
    let image = graph.input("image", [1, 1, 2, 3], DType::F32).unwrap();
    let window = ConvOptions::new();
    let large = format!("is {MOST}, expected at most 2147483647");
    let cases = [
        (
            failed(x.pad(&[(MOST, 1)], 0.0)),
            format!("pad: margins is [({MOST}, 1)], expected sizes that do not overflow"),
        ),
        (
            failed(x.chunk(MOST, 0).map(|parts| parts[0].clone())),
            format!("chunk: parts is {MOST}, expected a divisor of 2, the size of axis 0"),
        ),
        (
            failed(x.split(&[MOST, 3], 0).map(|parts| parts[0].clone())),
            format!("split: sizes is [{MOST}, 3], expected sizes that add up to 2"),
        ),
        (failed(image.conv2d(&image, window.dilation(MOST))), format!("conv2d: dilation {large}")),
        (failed(image.conv2d(&image, window.groups(MOST))), format!("conv2d: groups {large}")),
        (
            failed(image.avg_pool2d(PoolOptions::new(2).stride(MOST).padding(1))),
            format!("avg_pool2d: stride {large}"),
        ),
        (
            failed(image.conv_transpose2d(&image, window.stride(MOST))),
            format!("conv_transpose2d: stride {large}"),
        ),
        (
            failed(image.conv_transpose2d(&image, window.output_padding(MOST))),
            format!("conv_transpose2d: output_padding {large}"),
        ),
        (
            failed(image.conv2d(&image, window.output_padding(1))),
            "conv2d: output_padding is 1, expected 0 but for transposed convolutions".into(),
        ),
    ];
    for (found, expected) in cases {
        assert_eq!(found, expected);
    }
    assert!(failed(image.max_pool2d(100)).contains("with room for windows of"));
    let padded = PoolOptions::new(3).padding(MOST);
    assert!(failed(image.max_pool2d(padded)).ends_with("expected at most 1, half of the window"));
    assert!(failed(graph.input("y", [MOST, 2], DType::F32)).ends_with("is too large to address"));
    assert!(failed(graph.arange(MOST)).contains("is too large"));
    assert!(failed(x.slice_step(1, 0..2, MOST)).contains("overflows"));
}

#[test]
fn modules_whose_sizes_overflow_name_the_parameter() {
    let params = Params::new(1);
    for size in [1 << 40, 1 << 62, MOST] {
        let params = params.sub(size);
        let found = [
            Linear::new(&params.sub("linear"), size, size).err(),
            Embedding::new(&params.sub("table"), size, size).err(),
            MultiHeadAttention::new(&params.sub("attention"), size, 1).err(),
            Lstm::builder(&params.sub("lstm"), 1, size).bidirectional(true).build().err(),
            Gru::builder(&params.sub("gru"), size, size).bidirectional(true).build().err(),
            Conv2d::new(&params.sub("conv"), 1, 1, size).err(),
            ConvTranspose2d::new(&params.sub("up"), size, 1, size).err(),
        ];
        for error in found {
            let text = message(&error.unwrap_or_else(|| panic!("no error for {size}")));
            assert!(
                text.starts_with(&format!("parameter in module `{size}."))
                    && text.ends_with("too large to address"),
                "{text}"
            );
        }
    }
}

/// The fields of modules are public, so they may not fit each other.
#[test]
fn fields_that_do_not_fit_are_named() {
    let params = Params::new(1);
    let graph = Graph::for_training();
    let x = graph.input("x", [2, 4, 4], DType::F32).unwrap();
    let vector = params.parameter("vector", [4], Init::ONES).unwrap();
    let scalar = params.parameter("scalar", [], Init::ONES).unwrap();
    let mut attention =
        MultiHeadAttention::builder(&params.sub("attention"), 4, 2).dropout(0.5).build().unwrap();
    attention.heads = 0;
    assert_eq!(
        failed(attention.forward(&x)),
        "attention in module `attention`: heads is 0, expected a divisor of 4"
    );
    attention.heads = 2;
    attention.dropout.rate = 2.0;
    assert_eq!(
        failed(attention.attend(&x, &x, &x)),
        "attention in module `attention`: rate is 2, expected at least 0 and less than 1"
    );
    attention.in_proj_weight = vector.clone();
    assert!(failed(attention.forward(&x)).ends_with("vector has shape [4], expected 2 axes"));
    let mut groups = GroupNorm::new(&params.sub("groups"), 2, 4).unwrap();
    groups.groups = 3;
    assert_eq!(
        failed(groups.forward(&x)),
        "group_norm in module `groups`: groups is 3, expected a divisor of 4"
    );
    let mut norm = LayerNorm::new(&params.sub("norm"), 4).unwrap();
    norm.weight = scalar.clone();
    assert_eq!(failed(norm.forward(&x)), "layer_norm: scalar has shape [], expected 1 axes");
    let mut linear = Linear::new(&params.sub("linear"), 4, 2).unwrap();
    linear.weight = scalar;
    assert_eq!(failed(linear.forward(&x)), "linear: scalar has shape [], expected 2 axes");
    let mut lstm = Lstm::new(&params.sub("lstm"), 4, 2).unwrap();
    lstm.layers[0].weight_hh = vector;
    assert!(failed(lstm.forward(&x)).ends_with("vector has shape [4], expected 2 axes"));
    lstm.layers.clear();
    assert!(failed(lstm.forward(&x)).contains("expected at least one tensor"));
    let mut dropout = Dropout::new(&params.sub("drop"), 0.5).unwrap();
    dropout.rate = f64::NAN;
    assert_eq!(
        failed(dropout.forward(&x)),
        "dropout in module `drop`: rate is NaN, expected at least 0 and less than 1"
    );
}

#[test]
fn options_of_optimizers_are_checked() {
    fn found<R: UpdateRule>(optimizer: &Optimizer<R>) -> String {
        let params = Params::new(1);
        let w = params.parameter("w", [3], Init::ONES).unwrap();
        let weights = ModelState::new(&Backend::open("inline").unwrap(), &params).unwrap();
        let loss = Graph::new().apply("y :+= w[i]", &[("w", &&w)]).unwrap();
        message(&optimizer.update(&loss, &OptimizerState::new(&weights)).unwrap_err())
    }
    let unit = "expected at least 0 and less than 1";
    assert_eq!(found(&Adam::new(0.1).betas(1.0, 0.9)), format!("update: betas is 1, {unit}"));
    assert_eq!(found(&AdamW::new(0.1).betas(0.9, f64::NAN)), format!("update: betas is NaN, {unit}"));
    let positive = "expected a finite number, 0 or more";
    assert_eq!(found(&Adam::new(0.1).eps(-1.0)), format!("update: eps is -1, {positive}"));
    assert_eq!(
        found(&AdamW::new(0.1).weight_decay(f64::INFINITY)),
        format!("update: weight_decay is inf, {positive}")
    );
    assert_eq!(found(&Sgd::new(0.1).momentum(-0.5)), format!("update: momentum is -0.5, {positive}"));
    assert_eq!(
        found(&Sgd::new(0.1).nesterov(true)),
        "update: momentum is 0, expected more than 0, as nesterov needs"
    );
}

#[test]
fn a_negative_eps_is_rejected() {
    let params = Params::new(1);
    let layer = LayerNorm::new(&params.sub("layer"), 4).unwrap().eps(-1.0);
    let rms = RmsNorm::new(&params.sub("rms"), 4).unwrap().eps(f64::NAN);
    let batch = BatchNorm2d::new(&params.sub("batch"), 4).unwrap().eps(-1.0);
    let group = GroupNorm::new(&params.sub("group"), 2, 4).unwrap().eps(f64::INFINITY);
    let modules: [(&str, &dyn Module); 4] =
        [("layer_norm", &layer), ("rms_norm", &rms), ("batch_norm", &batch), ("group_norm", &group)];
    for graph in [Graph::new(), Graph::for_training()] {
        let x = graph.input("x", [2, 4, 4, 4], DType::F32).unwrap();
        for (name, module) in modules {
            let error = failed(module.forward(&x));
            assert!(error.starts_with(name) && error.contains(": eps is "), "{error}");
        }
    }
}

/// A file that is torn or whose bytes changed is an error or loads whole.
#[test]
fn torn_weights_change_nothing() {
    let make = |seed| {
        let params = Params::new(seed);
        Linear::new(&params.sub("fc"), 3, 2).unwrap();
        ModelState::new(&Backend::open("inline").unwrap(), &params).unwrap()
    };
    let (weights, other) = (make(1), make(2));
    let (before, file) = (weights.to_safetensors().unwrap(), other.to_safetensors().unwrap());
    for length in 0..file.len() {
        assert!(weights.load_safetensors(&file[..length]).is_err(), "{length}");
        assert_eq!(weights.to_safetensors().unwrap(), before);
    }
    let header = 8 + u64::from_le_bytes(file[..8].try_into().unwrap()) as usize;
    for at in 0..header {
        for byte in [0, b'"', b'9', b'{', 255] {
            let mut changed = file.clone();
            changed[at] = byte;
            match weights.load_safetensors(&changed) {
                Ok(()) => weights.load_safetensors(&before).unwrap(),
                Err(_) => assert_eq!(weights.to_safetensors().unwrap(), before, "byte {at} is {byte}"),
            }
        }
    }
    weights.load_safetensors(&file).unwrap();
    assert_eq!(weights.to_safetensors().unwrap(), file);
}

/// Names appear in files, in messages and, for modules, in assignment text.
#[test]
fn odd_names_train_and_load() {
    for name in ["", " ", ".", "a.b", "0", "über\n\"x\"", "def", "y[i]", "{", "optimizer"] {
        let folder = tempfile::tempdir().unwrap();
        let make = || -> Result<(Session, ModelState), TensorError> {
            let params = Params::new(1);
            let layer = Linear::new(&params.sub(name), 2, 2)?;
            let scale = params.parameter(name, [2], Init::ONES)?;
            let weights = ModelState::new(&Backend::open("inline")?, &params)?;
            let label = name.to_owned();
            let session = Session::new(&weights, AdamW::new(0.1), move |batch: &Batch| {
                let loss = (layer.forward(&batch.input(&label)?)? * &scale)?.square()?.mean(..)?;
                batch.metric(&label, &loss)?;
                Ok(loss)
            })?;
            Ok((session, weights))
        };
        let x = HostArray::from_slice(&[1f32, 2., 3., 4.], [2, 2]).unwrap();
        let (mut first, weights) = make().unwrap_or_else(|error| panic!("{name:?}: {error}"));
        let metrics = first.step(&[(name, &x)]).and_then(|step| step.metrics());
        let metrics = metrics.unwrap_or_else(|error| panic!("{name:?}: {error}"));
        assert_eq!(metrics.get(name), Some(metrics.loss()), "{name:?}");
        let path = folder.path().join("file");
        first.save(&path).unwrap_or_else(|error| panic!("{name:?}: {error}"));
        let (mut second, loaded) = make().unwrap();
        second.load(&path).unwrap_or_else(|error| panic!("{name:?}: {error}"));
        assert_eq!(loaded.to_safetensors().unwrap(), weights.to_safetensors().unwrap(), "{name:?}");
    }
}

#[test]
fn a_name_of_the_file_format_is_rejected() {
    let error = Params::new(1).parameter("__metadata__", [1], Init::ONES).unwrap_err();
    let expected = "parameter: name is `__metadata__`, expected another name, since safetensors files use it";
    assert_eq!(message(&error), expected);
}

/// A parameter may not have the name that an array of the optimizer has in checkpoints.
#[test]
fn a_checkpoint_has_each_name_once() {
    let folder = tempfile::tempdir().unwrap();
    let params = Params::new(1);
    let w = params.parameter("w", [1], Init::ONES).unwrap();
    params.sub("optimizer.sgd.v").parameter("w", [1], Init::ONES).unwrap();
    let weights = ModelState::new(&Backend::open("inline").unwrap(), &params).unwrap();
    let build = move |batch: &Batch| batch.input("x")?.mul(&w)?.sum(..);
    let session = Session::new(&weights, Sgd::new(0.1).momentum(0.9), build).unwrap();
    let error = session.save(folder.path().join("file")).unwrap_err().to_string();
    assert!(error.ends_with("parameter `optimizer.sgd.v.w` exists already"), "{error}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn files_that_cannot_be_written_or_read_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let mut session = TwoLayers::new("inline", DType::F32).session();
    fs::write(folder.path().join("file"), "x").unwrap();
    for path in ["file/below", "none/below", "", "nul\0byte", "."] {
        let path = if path.is_empty() { path.into() } else { folder.path().join(path) };
        for error in [session.save(&path).unwrap_err(), session.load(&path).unwrap_err()] {
            assert!(error.to_string().starts_with("file `"), "{error}");
        }
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "temporary files remain");
    step(&mut session, 0, 4).unwrap();
}

/// A session that rejects a batch goes on as one that never saw the batch.
#[test]
fn a_batch_of_another_shape_changes_nothing() {
    let model = TwoLayers::new("multicore", DType::F32);
    let (mut session, mut expected) = (model.session(), TwoLayers::new("multicore", DType::F32).session());
    for seed in 0..3 {
        assert_eq!(step(&mut session, seed, 8).unwrap(), step(&mut expected, seed, 8).unwrap());
    }
    let wide = [
        ("x", HostArray::zeros(DType::F32, [8, 3]).unwrap()),
        ("label", HostArray::zeros(DType::U8, [8]).unwrap()),
    ];
    let error = session.step_by(wide).map(|_| ()).unwrap_err().to_string();
    assert!(error.starts_with("einsum in module `fc1` at "), "{error}");
    let [x, _] = batch(3, 8);
    let short = HostArray::zeros(DType::U8, [7]).unwrap();
    let error = session.step_by([x, ("label", short)]).map(|_| ()).unwrap_err().to_string();
    assert!(error.starts_with("eq at ") && error.contains("shapes [8] and [7] do not broadcast"), "{error}");
    assert_eq!(session.steps(), 3);

    let batches = (3..20).map(|seed| {
        if seed == 9 {
            [
                ("x", HostArray::zeros(DType::F32, [8, 2]).unwrap()),
                ("label", HostArray::zeros(DType::F64, [8]).unwrap()),
            ]
        } else {
            batch(seed, 8)
        }
    });
    let error = session.fit(batches, |_| {}).unwrap_err().to_string();
    assert!(error.starts_with("cross_entropy at ") && error.contains("label is of f64"), "{error}");
    assert_eq!(session.steps(), 9);
    for seed in 3..9 {
        step(&mut expected, seed, 8).unwrap();
    }
    assert_eq!(step(&mut session, 9, 8).unwrap(), step(&mut expected, 9, 8).unwrap());
}

/// An iterator that panics on its thread ends `fit` with an error; the steps before remain.
#[test]
fn an_iterator_that_panics_is_an_error() {
    let model = TwoLayers::new("multicore", DType::F32);
    let mut session = model.session();
    for (first, message) in [(0, "the disk is gone"), (5, "5 is too many")] {
        let batches = (0..10).map(|at| {
            assert_ne!(thread::current().name(), Some("main"));
            match at < first {
                true => batch(at, 8),
                false if first == 0 => panic!("the disk is gone"),
                false => panic!("{at} is too many"),
            }
        });
        let error = session.fit(batches, |_| {}).unwrap_err();
        assert!(matches!(error, TensorError::BatchesPanicked { .. }), "{error}");
        assert_eq!(error.to_string(), format!("the iterator of batches panicked: {message}"));
        assert_eq!(session.steps(), first as u64);
    }
    step(&mut session, 5, 8).unwrap();
}

/// Whole numbers keep the type of an array of integers, and empty results have no statements over ranges.
#[test]
fn integers_and_empty_results() {
    let graph = Graph::new();
    let x = graph.input("x", [3], DType::I32).unwrap();
    let results = [
        x.pad(&[(1, 0)], 7.0).unwrap(),
        x.clamp(-1.0, 1.0).unwrap(),
        x.masked_fill(&x.gt(1).unwrap(), 0.0).unwrap(),
        graph.arange(0).unwrap(),
        graph.rand(&[2, 0], DType::F64, 1).unwrap(),
    ];
    assert_eq!(
        results.each_ref().map(Tensor::dtype),
        [DType::I32, DType::I32, DType::I32, DType::I32, DType::F64]
    );
    let weights = ModelState::new(&Backend::open("inline").unwrap(), &Params::new(1)).unwrap();
    let model = graph.compile(&weights, &results.iter().collect::<Vec<_>>()).unwrap();
    let found = model.run(&[("x", &HostArray::from_slice(&[-5, 0, 2], [3]).unwrap())]).unwrap();
    let found: Vec<Vec<f64>> = found.iter().map(HostArray::values).collect();
    assert_eq!(found, [vec![7., -5., 0., 2.], vec![-1., 0., 1.], vec![-5., 0., 0.], vec![], vec![]]);
    assert!(failed(x.pad(&[(1, 0)], 0.5)).contains("0.5"));
}
