//! Training next to torch's, from the same weights and data. The examples in examples/models use this file
//! too.
#![allow(clippy::unwrap_used, reason = "a failing step fails the test")]

use arrayjit_tensor::{
    Backend, DType, Graph, HostArray, ModelState, Params, Tensor, TensorError, TensorOperand, nn::Module,
};

use crate::torch::{Goldens, fill, labels, pattern};

/// The number of batches, which repeat.
const BATCHES: usize = 4;

/// The largest relative distance of a loss from torch's.
const LOSS_TOLERANCE: f64 = 2e-4;

/// The largest distance of an element of a gradient from torch's, relative to the largest element. Sums over
/// a batch of images, which both round in orders of their own, differ by up to 2e-5.
const GRADIENT_TOLERANCE: f64 = 5e-5;

/// The inputs and labels of a model.
pub(crate) struct Task {
    /// The name of the model in goldens.py.
    pub(crate) path: &'static str,
    /// The shape of an input.
    pub(crate) shape: &'static [usize],
    /// The number of labels.
    pub(crate) classes: u32,
    /// The learning rate.
    pub(crate) rate: f64,
    /// Whether the inputs are tokens, each with a label; otherwise they are floats, with a label for each
    /// element of the batch.
    pub(crate) has_tokens: bool,
}

impl Task {
    /// The inputs and labels of all batches.
    fn data(&self) -> Vec<(HostArray, HostArray)> {
        let (inputs, targets) = (format!("{}/x", self.path), format!("{}/target", self.path));
        let all: Vec<usize> = [BATCHES].iter().chain(self.shape).copied().collect();
        let x = match self.has_tokens {
            true => labels(&inputs, &all, self.classes),
            false => pattern(&inputs, &all, 1.0, 0.0),
        };
        let target = labels(&targets, &all[..self.target_shape().len() + 1], self.classes);
        let part = |array: &HostArray, at: usize, shape: &[usize]| {
            let count: usize = shape.iter().product();
            let mut part = HostArray::zeros(array.dtype(), shape.iter().copied()).unwrap();
            part.set_values(&array.values()[at * count..(at + 1) * count]).unwrap();
            part
        };
        (0..BATCHES).map(|at| (part(&x, at, self.shape), part(&target, at, self.target_shape()))).collect()
    }

    fn target_shape(&self) -> &[usize] {
        if self.has_tokens { self.shape } else { &self.shape[..1] }
    }

    /// Trains a model in a graph and compares with torch.
    pub(crate) fn check<M: Module>(
        &self,
        graph: Graph,
        build: impl FnOnce(&Params) -> Result<M, TensorError>,
    ) {
        let params = Params::new(1);
        let model = build(&params).unwrap();
        let weights = ModelState::new(&Backend::open("multicore").unwrap(), &params).unwrap();
        fill(self.path, &weights);

        let dtype = if self.has_tokens { DType::I32 } else { DType::F32 };
        let x = graph.input("x", self.shape.iter().copied(), dtype).unwrap();
        let target = graph.input("target", self.target_shape().iter().copied(), DType::I32).unwrap();
        let logits = model.forward(&x).unwrap_or_else(|error| panic!("{error}"));
        let loss = logits.cross_entropy(&target).unwrap();
        let trainable = params.trainable();
        let by: Vec<&dyn TensorOperand> = trainable.iter().map(|p| p as &dyn TensorOperand).collect();
        let gradients = graph.gradients(&loss, &by).unwrap();
        for (parameter, gradient) in trainable.iter().zip(&gradients) {
            let axes = ["[i]", "[i,j]", "[i,j,k]", "[i,j,k,l]"][parameter.shape().len() - 1];
            let text = format!("sgd(w{axes}, g{axes}, {})", self.rate);
            graph.apply_all(&text, &[("w", &parameter), ("g", gradient)], []).unwrap();
        }
        let results: Vec<&Tensor> = [&loss].into_iter().chain(&gradients).collect();
        let step = graph.compile(&weights, &results).unwrap_or_else(|error| panic!("{error}"));

        let has_step = step.routine().bindings().iter().any(|symbol| symbol.name == "step");

        let mut goldens = Goldens::read("models.safetensors", self.path);
        let data = self.data();
        let mut losses = Vec::new();
        for expected in goldens.take("losses").values() {
            let (x, target) = &data[losses.len() % BATCHES];
            let number = [("step", losses.len() as i64)];
            let symbols = if has_step { &number[..] } else { &[] };
            let run = step.start(&[("x", x), ("target", target)], symbols).unwrap();
            let found = run.result(0).unwrap().values()[0];
            let is_close = (found - expected).abs() <= LOSS_TOLERANCE * expected;
            assert!(is_close, "{}, step {}: {found}, torch has {expected}", self.path, losses.len());
            if losses.is_empty() {
                for (at, parameter) in trainable.iter().enumerate() {
                    let name = format!("{}.grad", parameter.name());
                    goldens.compare(self.path, &name, run.result(at + 1).unwrap(), GRADIENT_TOLERANCE);
                }
            }
            losses.push(found);
        }
        assert_eq!(losses.len(), 100);
        assert!(goldens.names().is_empty(), "{}: not compared: {:?}", self.path, goldens.names());
    }
}
