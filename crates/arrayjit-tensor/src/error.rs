//! The error of this crate, with the call, the module and the line of the caller.

use std::{io, panic::Location, path::PathBuf};

use arrayjit::{
    CompileError, DType, OpenError, RunError, TensorNodeError, TextError,
    autodiff::{CheckError, GradientError},
};
use arrayjit_collectives::CollectiveError;
use tnode::SizeMismatch;

use crate::{graph::Graph, session::NonFiniteCause};

/// The result of an operation of graphs, models or training.
pub(crate) type Result<T, E = TensorError> = std::result::Result<T, E>;

/// A shape with its element type.
type TypeAndShape = (DType, Vec<usize>);

/// An error of a graph, of a model that is compiled, run, saved or loaded, or of training. It names the
/// tensor, parameter, input, step or file.
///
/// [`TensorError::Operation`] displays the operation, the module, the caller's line and the `problem`, which
/// is an error of this type too. [`TensorError::File`] does the same for a file.
///
/// ```
/// use arrayjit_tensor::{DType, TensorError, Graph};
///
/// let graph = Graph::new();
/// let x = graph.input("x", [32, 784], DType::F32)?;
/// let w = graph.input("w", [100, 10], DType::F32)?;
/// let error = x.matmul(&w).unwrap_err();
/// assert!(error.to_string().starts_with("matmul at "));
/// assert!(error.to_string().ends_with(
///     "the last axis of [32, 784] has 784 elements, but the one before the last of [100, 10] has 100"
/// ));
/// let TensorError::Operation { operation: "matmul", problem, .. } = error else { panic!("{error}") };
/// assert!(matches!(*problem, TensorError::InnerSize { inner: 784, found: 100, .. }));
/// # Ok::<(), TensorError>(())
/// ```
#[derive(thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum TensorError {
    /// An operation that cannot be added to a graph.
    #[error("{operation}{} at {location}: {problem}", within(module))]
    Operation {
        operation: &'static str,
        module: String,
        location: &'static Location<'static>,
        problem: Box<TensorError>,
    },
    /// Two shapes that cannot be broadcast to one.
    #[error(
        "shapes {left:?} and {right:?} do not broadcast: an axis, counted from the last, has two sizes and \
         neither is 1"
    )]
    Broadcast { left: Vec<usize>, right: Vec<usize> },
    /// The inner axes of a matrix product differ.
    #[error(
        "the last axis of {left:?} has {inner} elements, but the one before the last of {right:?} has {found}"
    )]
    InnerSize { left: Vec<usize>, right: Vec<usize>, inner: usize, found: usize },
    /// A tensor of a rank or shape that the operation does not take.
    #[error("{what} has shape {found:?}, expected {expected}")]
    Shape { what: String, found: Vec<usize>, expected: String },
    /// An axis that the tensor does not have; a negative one is counted from the last.
    #[error("axis {axis} of shape {shape:?}: expected one of -{}..={}", shape.len(), shape.len().saturating_sub(1))]
    Axis { axis: isize, shape: Vec<usize> },
    /// An axis that is given twice.
    #[error("axis {axis} of shape {shape:?} is given twice")]
    RepeatedAxis { axis: usize, shape: Vec<usize> },
    /// A new shape with another number of elements.
    #[error("shape {from:?} has {} elements, so it cannot become {to:?}", from.iter().product::<usize>())]
    Elements { from: Vec<usize>, to: Vec<isize> },
    /// A range that is not within its axis.
    #[error("elements {start}..{end} of axis {axis} of shape {shape:?}, which has {} elements", shape[*axis])]
    Range { start: usize, end: usize, axis: usize, shape: Vec<usize> },
    /// An argument that the operation does not take.
    #[error("{argument} is {found}, expected {expected}")]
    Argument { argument: &'static str, found: String, expected: String },
    /// An element type that the operation does not take.
    #[error("{what} is of {found}, expected {expected}")]
    ElementType { what: String, found: DType, expected: &'static str },
    /// A tensor of another graph.
    #[error("{tensor} belongs to another graph; a graph takes its own tensors and parameters")]
    OtherGraph { tensor: String },
    /// A tensor of a step of a scan, used behind the body.
    #[error("{tensor} belongs to the body of a scan or function, which has ended; return it from the body")]
    EndedStep { tensor: String },
    /// What a graph cannot do while the body of a scan or of a function is written.
    #[error("the body of a scan or function is being written, and {problem}")]
    InScan { problem: &'static str },
    /// A second input, parameter or metric of one name.
    #[error("{what} `{name}` exists already")]
    Name { what: &'static str, name: String },
    /// A text that writes a tensor.
    #[error("the text writes `{name}`, which is a tensor; only parameters and buffers change")]
    Written { name: String },
    /// A text that declares a parameter with initial values.
    #[error("the text declares initial values; make the parameter with `Params`, and pass it to the text")]
    Declared,
    /// The loss has no gradient by a parameter.
    #[error(transparent)]
    Gradient(Box<GradientError>),
    /// An error in a text, with the line of the text and a caret.
    #[error(transparent)]
    Text(#[from] TextError),
    /// An array that cannot be made, such as one whose size overflows, or a file that is not of its format.
    #[error(transparent)]
    Array(Box<TensorNodeError>),

    /// A backend that cannot be opened.
    #[error(transparent)]
    Open(Box<OpenError>),
    /// A graph that does not compile.
    #[error(transparent)]
    Compile(Box<CompileError>),
    /// An error of the device.
    #[error(transparent)]
    Run(#[from] RunError),
    /// Values of another type or shape than the parameter or input.
    #[error("`{name}` is given {}{:?}, expected {}{:?}", found.0, found.1, expected.0, expected.1)]
    Values { name: String, found: TypeAndShape, expected: TypeAndShape },
    /// Integers that the type of the parameter does not hold.
    #[error("`{name}` is given a value of {from} that {to} does not hold")]
    Overflow { name: String, from: DType, to: DType },
    /// An input of a run that is missing, unknown or given twice.
    #[error("input `{name}` {problem}; the inputs are {}", list(inputs))]
    Input { name: String, problem: &'static str, inputs: Vec<String> },
    /// An integer of an input that is no position of an axis, such as a label that is no class.
    #[error("input `{input}` has {value} at {at:?}, expected 0..{count} for {operation} at {location}")]
    Position {
        input: String,
        value: i64,
        at: Vec<usize>,
        count: usize,
        operation: &'static str,
        location: &'static Location<'static>,
    },
    /// A symbol that has no value, or that is unknown.
    #[error("symbol `@{name}` {problem}")]
    Symbol { name: String, problem: &'static str },
    /// An operation of which one compilation cannot serve all values of a size.
    #[error("{tensor} has the size `{size}`, which each run chooses; expected constant sizes")]
    Sized { tensor: String, size: String },
    /// An axis of an input has no element, or more than the bound of its size.
    #[error("size `{size}` is from 1 to {bound}, but axis {axis} of input `{input}` has {value} elements")]
    SizeRange { size: String, bound: usize, value: usize, input: String, axis: usize },
    /// Two inputs give a size two values, or a size that follows from others is out of its range.
    #[error(transparent)]
    SizeMismatch(#[from] SizeMismatch),
    /// A parameter of another model than the weights.
    #[error(
        "parameter `{parameter}` is none of the weights; `ModelState` has the parameters of one `Params`"
    )]
    OtherModel { parameter: String },

    /// A file of weights or a checkpoint that cannot be written or loaded.
    #[error("file `{}`: {problem}", path.display())]
    File { path: PathBuf, problem: Box<TensorError> },
    /// An error of the file system.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A file that is no safetensors file, or ends early.
    #[error("no whole safetensors file: {0}")]
    Format(String),
    /// A file that is no checkpoint, or one of another model.
    #[error("the metadata has {found} for `{key}`, expected {expected}")]
    Metadata { key: &'static str, found: String, expected: String },
    /// Values whose names do not match the names of the parameters.
    #[error("{}", names(missing, unexpected))]
    Names { missing: Vec<String>, unexpected: Vec<String> },
    /// Rank 0, which reads and writes files, could not.
    #[error("rank 0: {0}")]
    FirstRank(String),

    /// A model without trainable parameters.
    #[error("the weights have no trainable parameter; make the modules before `ModelState::new`")]
    NoParameters,
    /// A loss that is not finite. The parameters are those before the step. Steps count from 0.
    #[error("the loss of step {step} is not finite: {cause}")]
    NotFinite { step: u64, cause: NonFiniteCause },
    /// A loss or metric that is not finite in an evaluation.
    #[error("the {metric} of batch {batch} of the evaluation is not finite: {cause}")]
    NotFiniteEvaluation { metric: String, batch: usize, cause: NonFiniteCause },
    /// Metrics that were read too late.
    #[error("the metrics of step {step} are overwritten; read them within the next 64 steps")]
    Overwritten { step: u64 },
    /// An iterator without batches.
    #[error("the iterator has no batch, expected at least one")]
    NoBatches,
    /// An error of the iterator of batches.
    #[error("a batch cannot be made: {0}")]
    Data(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A panic of the iterator of batches.
    #[error("the iterator of batches panicked: {message}")]
    BatchesPanicked { message: String },
    /// An operation of the ranks that failed, or ranks that differ.
    #[error(transparent)]
    Ranks(#[from] CollectiveError),
    /// Ranks or micro-batches for a session that has made steps.
    #[error("the session has made steps, or a handle of one is alive; set it up before the first step")]
    Begun,
    /// A gradient that is not close to the difference of the loss, or that cannot be compared.
    #[error(transparent)]
    GradientCheck(Box<CheckError>),
}

/// Converts an error of `arrayjit` to a variant that has it in a box.
macro_rules! boxed {
    ($($variant:ident($error:ty);)*) => {$(
        impl From<$error> for TensorError {
            fn from(error: $error) -> TensorError {
                TensorError::$variant(Box::new(error))
            }
        }
    )*};
}

boxed! {
    Gradient(GradientError);
    Array(TensorNodeError);
    Open(OpenError);
    Compile(CompileError);
    GradientCheck(CheckError);
}

/// The error of an argument, with the value found and the expected one.
pub(crate) fn misfit(
    argument: &'static str,
    found: impl ToString,
    expected: impl Into<String>,
) -> TensorError {
    TensorError::Argument { argument, found: found.to_string(), expected: expected.into() }
}

/// Rejects what a variance plus the number may have no root of.
pub(crate) fn check_epsilon(graph: &Graph, call: Call, eps: f64) -> Result<()> {
    match eps >= 0.0 && eps.is_finite() {
        true => Ok(()),
        false => Err(graph.fail(call, misfit("eps", eps, "a finite number, 0 or more"))),
    }
}

fn within(module: &str) -> String {
    if module.is_empty() { String::new() } else { format!(" in module `{module}`") }
}

fn names(missing: &[String], unexpected: &[String]) -> String {
    let part = |text: &str, names: &[String]| match names.is_empty() {
        true => None,
        false => Some(format!("{text}: {}", list(names))),
    };
    let parts =
        [part("no values for the parameters", missing), part("no parameters for the values", unexpected)];
    parts.into_iter().flatten().collect::<Vec<_>>().join("; ")
}

/// The names, of many the first ones.
fn list(names: &[String]) -> String {
    const SHOWN: usize = 8;
    let shown = names.iter().take(SHOWN).map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    match names.len() {
        0 => "none".into(),
        count if count > SHOWN => format!("{shown} and {} more", count - SHOWN),
        _ => shown,
    }
}

/// A call of an operation: its name and the line of the caller, for errors.
#[derive(Clone, Copy)]
pub struct Call {
    pub(crate) op: &'static str,
    pub(crate) at: &'static Location<'static>,
    /// Whether the caller takes care that no bound stands in the place of a size.
    pub(crate) takes_sizes: bool,
}

impl Call {
    /// The call of the operation of that name by the caller of the public function.
    #[track_caller]
    pub fn new(op: &'static str) -> Call {
        Call { op, at: Location::caller(), takes_sizes: false }
    }

    /// The call of an operation of a front end, which rejects sizes that each run chooses itself where its
    /// statements would have bounds in their place.
    #[track_caller]
    pub fn with_sizes(op: &'static str) -> Call {
        Call { takes_sizes: true, ..Call::new(op) }
    }

    /// The error of this call, within a module.
    pub(crate) fn error(self, module: impl Into<String>, problem: impl Into<TensorError>) -> TensorError {
        let (operation, module, location) = (self.op, module.into(), self.at);
        TensorError::Operation { operation, module, location, problem: Box::new(problem.into()) }
    }
}
