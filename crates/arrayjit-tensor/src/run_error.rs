//! Errors of models that are compiled, run, loaded or saved.

use std::{io, panic::Location, path::PathBuf};

use arrayjit::{CompileError, DType, InitialiseError, OpenError, RunError, TensorNodeError, TextError};

use crate::error::TensorError;

/// A shape with its element type.
type TypeAndShape = (DType, Vec<usize>);

/// An error of a model that is compiled, run, loaded or saved. It names the parameter, input or file.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// An operation that cannot be added to a graph.
    #[error(transparent)]
    Graph(#[from] TensorError),
    /// A backend that cannot be opened.
    #[error(transparent)]
    Open(Box<OpenError>),
    /// A graph that does not compile.
    #[error(transparent)]
    Compile(Box<CompileError>),
    /// Initial values that do not compile.
    #[error(transparent)]
    Text(#[from] TextError),
    /// Initial values that a device does not take.
    #[error(transparent)]
    Initialise(Box<InitialiseError>),
    /// An error of the device.
    #[error(transparent)]
    Run(#[from] RunError),
    /// An array that cannot be made, or a file that is not of its format.
    #[error(transparent)]
    Array(Box<TensorNodeError>),
    /// Values of another type or shape than the parameter or input.
    #[error("`{name}` is given {}{:?}, expected {}{:?}", found.0, found.1, expected.0, expected.1)]
    Values {
        /// The name of the parameter or input.
        name: String,
        /// The type and shape given.
        found: TypeAndShape,
        /// The type and shape expected.
        expected: TypeAndShape,
    },
    /// Integers that the type of the parameter does not hold.
    #[error("`{name}` is given a value of {from} that {to} does not hold")]
    Range {
        /// The name of the parameter.
        name: String,
        /// The type given.
        from: DType,
        /// The type of the parameter.
        to: DType,
    },
    /// Values whose names do not match the names of the parameters.
    #[error("{}", names(missing, unexpected))]
    Names {
        /// The parameters without values.
        missing: Vec<String>,
        /// The values without parameters.
        unexpected: Vec<String>,
    },
    /// An input of a run that is missing or unknown.
    #[error("input `{name}` {problem}; the inputs are {}", list(inputs))]
    Input {
        /// The name of the input.
        name: String,
        /// The problem.
        problem: &'static str,
        /// The names of all inputs.
        inputs: Vec<String>,
    },
    /// An integer of an input that is no position of an axis, such as a label that is no class.
    #[error("input `{input}` has {value} at {at:?}, expected 0..{count} for {operation} at {location}")]
    Position {
        /// The name of the input.
        input: String,
        /// The integer.
        value: i64,
        /// Its index in the input.
        at: Vec<usize>,
        /// The number of positions.
        count: usize,
        /// The operation that uses the integer as a position.
        operation: &'static str,
        /// The line that called the operation.
        location: &'static Location<'static>,
    },
    /// A file of weights that cannot be written or loaded.
    #[error("file `{}`: {problem}", path.display())]
    File {
        /// The path given.
        path: PathBuf,
        /// The problem: [`Io`](ModelError::Io), or what is wrong with the values.
        #[source]
        problem: Box<ModelError>,
    },
    /// An error of the file system.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A parameter of another model than the weights.
    #[error(
        "parameter `{parameter}` is none of the weights; `ModelState` has the parameters of one `Params`"
    )]
    OtherModel {
        /// The name of the parameter.
        parameter: String,
    },
    /// A symbol that has no value, or that is unknown.
    #[error("symbol `@{name}` {problem}")]
    Symbol {
        /// The name of the symbol.
        name: String,
        /// The problem.
        problem: &'static str,
    },
}

impl From<OpenError> for ModelError {
    fn from(error: OpenError) -> ModelError {
        ModelError::Open(Box::new(error))
    }
}

impl From<TensorNodeError> for ModelError {
    fn from(error: TensorNodeError) -> ModelError {
        ModelError::Array(Box::new(error))
    }
}

impl From<CompileError> for ModelError {
    fn from(error: CompileError) -> ModelError {
        ModelError::Compile(Box::new(error))
    }
}

impl From<InitialiseError> for ModelError {
    fn from(error: InitialiseError) -> ModelError {
        ModelError::Initialise(Box::new(error))
    }
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
