//! What a benchmark case is.

use arrayjit::{DType, HostArray, TensorNode};

/// One case: a program, its inputs, and how its result is checked.
pub(crate) struct Case {
    /// The stable name.
    pub(crate) name: &'static str,
    /// The assignment text.
    pub(crate) text: String,
    /// Every node the text names.
    pub(crate) nodes: Vec<Node>,
    /// The value of the static symbol, for texts that have one.
    pub(crate) bindings: Vec<i64>,
    /// The node checked.
    pub(crate) output: &'static str,
    /// Floating-point operations of one run; a transcendental function counts 1.
    pub(crate) flops: f64,
    /// Bytes of inputs read and outputs written once.
    pub(crate) bytes: f64,
    /// How the output is checked.
    pub(crate) check: Check,
    /// Greatest difference allowed, relative to the largest magnitude of the expected output.
    pub(crate) tolerance: f64,
    /// Whether what is timed is the way from text to first result.
    pub(crate) is_latency: bool,
}

/// A node of a case.
#[derive(Clone)]
pub(crate) struct Node {
    /// Its name in the text.
    pub(crate) name: &'static str,
    /// Dimensions.
    pub(crate) dims: Vec<usize>,
    /// Element type.
    pub(crate) dtype: DType,
    /// What it holds before the first run; `None` for what the program writes first.
    pub(crate) init: Option<Init>,
}

/// Initial values.
#[derive(Clone, Copy)]
pub(crate) enum Init {
    /// Uniform in −1..1 (floats) or 0..10 (integers), from a seed made of the node's name.
    Random,
    /// Zeros.
    Zeros,
}

/// Computes the expected output from the inputs.
pub(crate) type Formula = Box<dyn Fn(&[Vec<f64>]) -> Vec<f64>>;

/// Where the expected output comes from.
pub(crate) enum Check {
    /// A formula over the inputs, in the order of [`Case::nodes`] with an initial value, in f64.
    Formula(Formula),
    /// The same program on the interpreter.
    Interpreter,
}

impl Node {
    /// An `f32` input of random values.
    pub(crate) fn input(name: &'static str, dims: &[usize]) -> Node {
        Node { name, dims: dims.to_vec(), dtype: DType::F32, init: Some(Init::Random) }
    }

    /// An `f32` node that the program writes.
    pub(crate) fn written(name: &'static str, dims: &[usize]) -> Node {
        Node { name, dims: dims.to_vec(), dtype: DType::F32, init: None }
    }

    /// The tensor node.
    pub(crate) fn build(&self) -> anyhow::Result<TensorNode> {
        Ok(TensorNode::builder(self.name).dims(self.dims.iter().copied()).dtype(self.dtype).build()?)
    }

    /// The initial values as an array.
    pub(crate) fn array(&self) -> anyhow::Result<Option<HostArray>> {
        let Some(init) = self.init else { return Ok(None) };
        let count = self.dims.iter().product();
        let seed = self.name.bytes().fold(7, |seed: u64, b| seed.wrapping_mul(31).wrapping_add(u64::from(b)));
        let mut rng = fastrand::Rng::with_seed(seed);
        let value = |rng: &mut fastrand::Rng| match (init, self.dtype) {
            (Init::Zeros, _) => 0.0,
            (Init::Random, DType::F32) => 2.0 * rng.f32() - 1.0,
            (Init::Random, _) => rng.u8(0..10).into(),
        };
        let values: Vec<f32> = (0..count).map(|_| value(&mut rng)).collect();
        let dims = self.dims.iter().copied();
        Ok(Some(match self.dtype {
            DType::U8 => HostArray::from_slice(&values.iter().map(|&v| v as u8).collect::<Vec<_>>(), dims)?,
            _ => HostArray::from_slice(&values, dims)?,
        }))
    }
}
