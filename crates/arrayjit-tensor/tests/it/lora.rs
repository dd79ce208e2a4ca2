//! Adapters of low rank: the base stays, a merged base has the same results, and files have PEFT's names.
#![allow(clippy::unwrap_used, reason = "a failing step fails the test")]

use std::sync::Arc;

use arrayjit_tensor::{
    Backend, Batch, DType, Graph, HostArray, ModelState, Params, Session,
    nn::{Linear, Lora, Module},
    optim::AdamW,
};

struct Adapted {
    params: Params,
    weights: ModelState,
    layer: Arc<Lora>,
}

impl Adapted {
    /// A linear map from 3 to 2 with an adapter of rank 1 and the factor 2, in f32 also for a base in bf16.
    fn new(seed: u32, dtype: DType) -> Adapted {
        let params = Params::new(seed);
        let query = params.sub("model").sub("query");
        let base = Linear::new(&query.with_dtype(dtype), 3, 2).unwrap();
        let layer = Arc::new(Lora::new(&query, base, 1, 2.0).unwrap());
        let weights = ModelState::new(&Backend::open("inline").unwrap(), &params).unwrap();
        Adapted { params, weights, layer }
    }

    /// The losses of some steps towards one function of the points.
    fn train(&self) -> Vec<f64> {
        let layer = Arc::clone(&self.layer);
        let optimizer = AdamW::new(0.05).weight_decay(0.1);
        let mut session = Session::new(&self.weights, optimizer, move |batch: &Batch| {
            layer.forward(&batch.input("x")?)?.mse_loss(&batch.input("y")?)
        })
        .unwrap();
        let y = HostArray::from_slice(&[1f32, -1.0, 0.5, 0.0, -1.0, 1.0, 0.0, 2.0], [4, 2]).unwrap();
        let x = points();
        let mut loss = || session.step(&[("x", &x), ("y", &y)]).unwrap().metrics().unwrap().loss();
        (0..40).map(|_| loss()).collect()
    }

    /// The results of the layer and of its base.
    fn results(&self) -> [Vec<f64>; 2] {
        let graph = Graph::new();
        let x = graph.input("x", [4, 3], DType::F32).unwrap();
        let both = [self.layer.forward(&x).unwrap(), self.layer.base.forward(&x).unwrap()];
        let model = graph.compile(&self.weights, &both.each_ref()).unwrap();
        let results = model.run(&[("x", &points())]).unwrap();
        [results[0].values(), results[1].values()]
    }

    fn distance(&self) -> f64 {
        let [layer, base] = self.results();
        layer.iter().zip(&base).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
    }
}

fn points() -> HostArray {
    let values: Vec<f32> = (0..12).map(|at| (at as f32 * 0.7).sin()).collect();
    HostArray::from_slice(&values, [4, 3]).unwrap()
}

#[test]
fn training_changes_the_adapter_alone() {
    for dtype in [DType::F32, DType::Bf16] {
        let adapted = Adapted::new(1, dtype);
        assert_eq!(adapted.distance(), 0.0);
        let before = adapted.weights.state_dict().unwrap();
        let losses = adapted.train();
        assert!(losses[39] < 0.7 * losses[0], "{losses:?}");
        let after = adapted.weights.state_dict().unwrap();
        let changed: Vec<&String> = after.keys().filter(|name| after[*name] != before[*name]).collect();
        assert_eq!(changed, ["model.query.lora_A.weight", "model.query.lora_B.weight"]);
        assert!(adapted.distance() > 0.1);

        let results = adapted.results()[0].clone();
        adapted.layer.merge(&adapted.weights).unwrap();
        let [layer, base] = adapted.results();
        assert_eq!(layer, base);
        let tolerance = if dtype == DType::F32 { 1e-6 } else { 2e-2 };
        assert!(results.iter().zip(&base).all(|(a, b)| (a - b).abs() < tolerance), "{results:?}: {base:?}");
    }
}

/// The values of a layer with numbers by hand: x · wᵀ + 2 · (x · aᵀ) · bᵀ.
#[test]
fn results_are_those_of_the_definition() {
    let adapted = Adapted::new(1, DType::F32);
    let Adapted { weights, layer, .. } = &adapted;
    let set = |parameter, values: &[f32], dims: &[usize]| {
        weights.set(parameter, HostArray::from_slice(values, dims.iter().copied()).unwrap()).unwrap();
    };
    set(&layer.base.weight, &[1.0, 0.0, 0.0, 0.0, 1.0, 0.0], &[2, 3]);
    set(layer.base.bias.as_ref().unwrap(), &[0.5, 0.25], &[2]);
    set(&layer.lora_a, &[0.0, 0.0, 1.0], &[1, 3]);
    set(&layer.lora_b, &[1.0, 3.0], &[2, 1]);
    let points = points().values();
    let expected = points.chunks(3).flat_map(|x| [x[0] + 0.5 + 2.0 * x[2], x[1] + 0.25 + 6.0 * x[2]]);
    let found = &adapted.results()[0];
    assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6), "{found:?}");
}

#[test]
fn adapters_are_files_of_peft() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("adapter_model.safetensors");
    let first = Adapted::new(1, DType::F32);
    first.train();
    let is_adapter = |name: &str| name.contains(".lora_");
    let to_peft = |name: &str| is_adapter(name).then(|| format!("base_model.model.{name}"));
    first.weights.save_renamed(&path, to_peft).unwrap();
    let stored = tnode::safetensors::read(&std::fs::read(&path).unwrap()).unwrap();
    let names: Vec<&str> = stored.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        ["base_model.model.model.query.lora_A.weight", "base_model.model.model.query.lora_B.weight"]
    );

    let second = Adapted::new(2, DType::F32);
    let from_peft = |name: &str| name.strip_prefix("base_model.model.").map(str::to_owned);
    let kept = second.weights.load_renamed(&path, from_peft).unwrap();
    assert_eq!(kept, ["model.query.bias", "model.query.weight"]);
    assert_eq!(second.weights.get(&second.layer.lora_b).unwrap(), stored[names[1]]);
    let twice = first.weights.save_renamed(&path, |_| Some("x".into())).unwrap_err().to_string();
    assert!(twice.ends_with("array `x` exists already"), "{twice}");
}

#[test]
fn wrong_options_are_named() {
    let adapted = Adapted::new(1, DType::F32);
    let layer = |name: &str| adapted.params.sub(name);
    let linear = |name: &str| Linear::new(&layer(name), 3, 2).unwrap();
    let expect = |lora: Result<Lora, arrayjit_tensor::TensorError>, expected: &str| {
        let error = lora.err().unwrap().to_string();
        assert!(error.starts_with("Lora in module `") && error.ends_with(expected), "{error}");
    };
    expect(Lora::new(&layer("a"), linear("a"), 0, 1.0), ": rank is 0, expected at least 1");
    expect(Lora::new(&layer("b"), linear("b"), 1, f64::NAN), ": alpha is NaN, expected a finite number");
    expect(
        Lora::new(&layer("other"), linear("c"), 1, 1.0),
        ": base is `c.weight`, expected a map whose parameters these `Params` made at `other`",
    );
    let dropout = Lora::builder(&layer("d"), linear("d"), 1).dropout(1.0).build();
    expect(dropout, ": dropout is 1, expected at least 0 and less than 1");
    // Nothing was frozen or made.
    assert!(layer("a").get("a.weight").unwrap().is_trainable());
    assert!(adapted.params.get("d.lora_A.weight").is_none());
}
