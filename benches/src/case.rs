//! A benchmark case.

use std::borrow::Cow;

use arrayjit::{DType, HostArray, Label, MemoryMode, TensorNode, profile::Cost};
use half::bf16;
use serde::Serialize;

/// The name of a node in a text; that of a member of a family has a position behind a point: `w.2` is `w[2]`.
pub(crate) type Name = Cow<'static, str>;

/// One case: a program, its inputs, and how its results are checked.
pub(crate) struct Case {
    /// The stable name.
    pub(crate) name: &'static str,
    /// The operation, for peers that implement it in their own way; `None` if no peer does.
    pub(crate) operation: Option<Operation>,
    /// The assignment text.
    pub(crate) text: String,
    /// The same program with gradients that were written by hand, for texts with derived ones: the peer
    /// [`BY_HAND`](crate::peers::BY_HAND).
    pub(crate) by_hand: Option<Box<Case>>,
    /// Every node that the text names.
    pub(crate) nodes: Vec<Node>,
    /// The value of the static symbol, for texts that have one.
    pub(crate) bindings: Vec<i64>,
    /// The nodes that are checked.
    pub(crate) outputs: Vec<Name>,
    /// Floating-point operations of one run; a division or a transcendental function counts 1.
    pub(crate) flops: f64,
    /// The least memory traffic of one run.
    pub(crate) traffic: Traffic,
    /// How the outputs are checked.
    pub(crate) check: Check,
    /// The greatest allowed difference, relative to the largest magnitude of the expected output.
    pub(crate) tolerance: f64,
    /// Whether the measured time is that from the text to the first result.
    pub(crate) is_latency: bool,
    /// Whether the case is so large that it runs only on a GPU, unless it is selected by its whole name.
    pub(crate) is_large: bool,
}

/// Bytes of inputs read once and of outputs written once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Traffic {
    pub(crate) reads: f64,
    pub(crate) writes: f64,
}

/// The operations that peers implement. The inputs of an operation are the nodes with initial values, its
/// outputs are [`Case::outputs`], both in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Operation {
    Matmul,
    MatmulNt,
    Bmm,
    Matvec,
    DenseRelu,
    Copy,
    AxpyRelu,
    Gelu,
    Sum,
    RowSum,
    ColSum,
    Transpose,
    Softmax,
    LayerNorm,
    Conv3x3,
    ConvInputGradient,
    ConvFilterGradient,
    Attention,
    CausalAttention,
    MlpStep,
    Adam,
    LenetTrain,
    Resnet8Train,
    GptTrain,
    GptTrainBf16,
    GptForward,
    GptDecode,
    LstmTrain,
    Heat,
    AdamW,
    MlpInfer,
    Fft,
}

/// A node of a case.
#[derive(Clone)]
pub(crate) struct Node {
    /// The node's name in the text.
    pub(crate) name: Name,
    /// Dimensions.
    pub(crate) dims: Vec<usize>,
    /// Element type.
    pub(crate) dtype: DType,
    /// The contents before the first run; `None` for nodes that the program writes first.
    pub(crate) init: Option<Init>,
    /// The requested memory mode; `None` leaves it to be inferred.
    pub(crate) mode: Option<MemoryMode>,
}

/// Initial values.
#[derive(Clone, Copy)]
pub(crate) enum Init {
    /// Uniform in −1..1 (floats) or 0..10 (integers), seeded by the node's name.
    Random,
    /// Uniform between plus and minus this value.
    Within(f32),
    /// Uniform in 0..1.
    Positive,
    /// Zeros.
    Zeros,
    /// Uniform integers in 0 to this number, excluded.
    Below(u16),
    /// cos(-πi / n) of the position i among n elements; of a matrix cos(-2πij / n) of row i and column j, and
    /// of several matrices the same for all their columns side by side.
    Cosines,
    /// The sines of the same angles.
    Sines,
}

/// Computes the expected outputs from the inputs.
pub(crate) type Formula = Box<dyn Fn(&[Vec<f64>]) -> Vec<Vec<f64>>>;

/// Computes some rows of the only output from the inputs: the rows with these positions, in this order. A row
/// spans the last axis.
pub(crate) type RowsFormula = Box<dyn Fn(&[&HostArray], &[usize]) -> Vec<f64>>;

/// The source of the expected outputs.
pub(crate) enum Check {
    /// A formula in f64 over the inputs, which are the nodes of [`Case::nodes`] with an initial value, in
    /// order.
    Formula(Formula),
    /// A formula in f64 for some rows, where computing all of them takes too long. See [`crate::sample`].
    Rows(RowsFormula),
    /// The same program on the interpreter.
    Interpreter,
    /// The interpreter's result for a case with the same statements and smaller arrays, for cases that would
    /// take the interpreter too long. Peers check the results of the case itself.
    Small(Box<Case>),
}

impl Case {
    /// A case whose outputs a formula computes, with the traffic of its nodes: inputs are read, outputs are
    /// written.
    pub(crate) fn new(name: &'static str, operation: Operation, text: &str, nodes: Vec<Node>) -> Case {
        let (is_input, is_written) = (|node: &&Node| node.init.is_some(), |node: &&Node| node.is_result());
        let bytes = |nodes: &mut dyn Iterator<Item = &Node>| nodes.map(Node::bytes).sum::<f64>();
        let traffic = Traffic {
            reads: bytes(&mut nodes.iter().filter(is_input)),
            writes: bytes(&mut nodes.iter().filter(is_written)),
        };
        let outputs = nodes.iter().filter(is_written).map(|node| node.name.clone()).collect();
        Case {
            name,
            operation: Some(operation),
            text: text.into(),
            by_hand: None,
            nodes,
            bindings: vec![],
            outputs,
            flops: 0.0,
            traffic,
            check: Check::Interpreter,
            tolerance: 1e-5,
            is_latency: false,
            is_large: false,
        }
    }

    /// Sets the number of floating-point operations of a run.
    pub(crate) fn flops(self, flops: f64) -> Case {
        Case { flops, ..self }
    }

    /// Sets a formula that computes the only output.
    pub(crate) fn formula(self, formula: impl Fn(&[Vec<f64>]) -> Vec<f64> + 'static) -> Case {
        self.formulas(move |inputs| vec![formula(inputs)])
    }

    /// Sets a formula that computes all outputs.
    pub(crate) fn formulas(self, formula: impl Fn(&[Vec<f64>]) -> Vec<Vec<f64>> + 'static) -> Case {
        Case { check: Check::Formula(Box::new(formula)), ..self }
    }

    /// Sets a formula that computes the sampled rows, for an output too large to be checked completely.
    pub(crate) fn by_rows(self, formula: impl Fn(&[&HostArray], &[usize]) -> Vec<f64> + 'static) -> Case {
        Case { check: Check::Rows(Box::new(formula)), is_large: true, ..self }
    }

    /// Sets the tolerance, relative to the largest magnitude of the expected output.
    pub(crate) fn tolerance(self, tolerance: f64) -> Case {
        Case { tolerance, ..self }
    }

    /// Sets the same program with smaller arrays as the one to check.
    pub(crate) fn checked_in_small(self, small: Case) -> Case {
        Case { check: Check::Small(Box::new(small)), ..self }
    }

    /// Adds the program with gradients that were written by hand.
    pub(crate) fn by_hand(self, by_hand: Case) -> Case {
        Case { by_hand: Some(Box::new(by_hand)), ..self }
    }

    /// The type of all inputs and outputs but integers; `None` if they differ.
    pub(crate) fn dtype(&self) -> Option<DType> {
        let is_counted = |node: &&Node| node.mode.is_none() && node.dtype.is_float();
        let mut dtypes = self.nodes.iter().filter(is_counted).map(|node| node.dtype);
        let first = dtypes.next()?;
        dtypes.all(|dtype| dtype == first).then_some(first)
    }

    /// Whether all inputs with several axes are 8-bit integers, so that products are of bytes.
    pub(crate) fn is_of_bytes(&self) -> bool {
        let is_matrix = |node: &&Node| node.init.is_some() && node.dims.len() > 1;
        let mut matrices = self.nodes.iter().filter(is_matrix).peekable();
        matrices.peek().is_some() && matrices.all(|node| matches!(node.dtype, DType::U8 | DType::I8))
    }

    /// The floating-point operations and the memory traffic of one run.
    pub(crate) fn work(&self) -> Cost {
        Cost { flops: self.flops, integer_ops: 0.0, bytes: self.traffic.total() }
    }

    /// Marks nodes that the program updates in place: they are written as well as read.
    pub(crate) fn updating(self, updated: &[impl Into<Name> + Clone]) -> Case {
        let updated: Vec<Name> = updated.iter().map(|name| name.clone().into()).collect();
        let nodes = self.nodes.iter().filter(|node| updated.contains(&node.name));
        let writes = self.traffic.writes + nodes.map(Node::bytes).sum::<f64>();
        let outputs = updated.iter().chain(&self.outputs).cloned().collect();
        Case { outputs, traffic: Traffic { writes, ..self.traffic }, ..self }
    }
}

impl Traffic {
    /// Reads and writes together.
    pub(crate) fn total(self) -> f64 {
        self.reads + self.writes
    }
}

impl Node {
    /// An `f32` input of random values.
    pub(crate) fn input(name: impl Into<Name>, dims: &[usize]) -> Node {
        Node::with(name, dims, Init::Random)
    }

    /// The node with elements of another type.
    pub(crate) fn of(self, dtype: DType) -> Node {
        Node { dtype, ..self }
    }

    /// An `f32` node with initial values.
    pub(crate) fn with(name: impl Into<Name>, dims: &[usize], init: Init) -> Node {
        Node { init: Some(init), ..Node::written(name, dims) }
    }

    /// An `f32` node that the program writes.
    pub(crate) fn written(name: impl Into<Name>, dims: &[usize]) -> Node {
        Node { name: name.into(), dims: dims.to_vec(), dtype: DType::F32, init: None, mode: None }
    }

    /// An `f32` node that the program computes and only the program reads: its mode distinguishes it from a
    /// result.
    pub(crate) fn intermediate(name: impl Into<Name>, dims: &[usize]) -> Node {
        Node { mode: Some(MemoryMode::Local), ..Node::written(name, dims) }
    }

    /// Whether the node is a result of the program.
    fn is_result(&self) -> bool {
        self.init.is_none() && self.mode.is_none()
    }

    pub(crate) fn bytes(&self) -> f64 {
        (self.dims.iter().product::<usize>() * self.dtype.size_bytes()) as f64
    }

    /// Builds the tensor node, with the requested memory mode. `x.grad` is the gradient by `x`.
    pub(crate) fn build(&self) -> anyhow::Result<TensorNode> {
        let label: Label = match self.name.strip_suffix(".grad") {
            Some(of) => ["grad", of].into(),
            None => self.name.split('.').collect(),
        };
        let builder = TensorNode::builder(label).dims(self.dims.iter().copied()).dtype(self.dtype);
        let builder = self.mode.into_iter().fold(builder, |builder, mode| builder.mode(mode));
        Ok(builder.build()?)
    }

    /// The initial values as an array.
    pub(crate) fn array(&self) -> anyhow::Result<Option<HostArray>> {
        let Some(init) = self.init else { return Ok(None) };
        let count = self.dims.iter().product();
        let seed = self.name.bytes().fold(7, |seed: u64, b| seed.wrapping_mul(31).wrapping_add(u64::from(b)));
        let mut rng = fastrand::Rng::with_seed(seed);
        let angle = |at: usize| {
            let steps = match self.dims[..] {
                [.., rows, columns] => {
                    let (row, matrix) = (at / columns % rows, at / columns / rows);
                    2 * row * (matrix * columns + at % columns)
                }
                _ => at,
            };
            -std::f64::consts::PI * steps as f64 / count as f64
        };
        let value = |rng: &mut fastrand::Rng, at: usize| match (init, self.dtype) {
            (Init::Zeros, _) => 0.0,
            (Init::Cosines, _) => angle(at).cos() as f32,
            (Init::Sines, _) => angle(at).sin() as f32,
            (Init::Below(end), _) => rng.u16(0..end).into(),
            (Init::Random, DType::F32 | DType::Bf16) => 2.0 * rng.f32() - 1.0,
            (Init::Within(most), DType::F32) => most * (2.0 * rng.f32() - 1.0),
            (Init::Positive, DType::F32) => rng.f32(),
            _ => rng.u8(0..10).into(),
        };
        let values: Vec<f32> = (0..count).map(|at| value(&mut rng, at)).collect();
        let dims = self.dims.iter().copied();
        Ok(Some(match self.dtype {
            DType::U8 => HostArray::from_slice(&values.iter().map(|&v| v as u8).collect::<Vec<_>>(), dims)?,
            DType::I8 => HostArray::from_slice(&values.iter().map(|&v| v as i8).collect::<Vec<_>>(), dims)?,
            DType::Bf16 => {
                let values: Vec<bf16> = values.iter().map(|&v| bf16::from_f32(v)).collect();
                HostArray::from_slice(&values, dims)?
            }
            _ => HostArray::from_slice(&values, dims)?,
        }))
    }
}
