//! Why arrayjit did not do what was asked.

mod compile; // of assignments and texts
mod message; // for users of programs
mod open; // of backends
mod parallel; // of work over streams

pub use self::{
    compile::CompileError, message::message_with_causes, open::OpenError, parallel::ParallelError,
};

pub(crate) use self::open::NAME_FORM;

use tnode::SizeMismatch;

use crate::{settings::SettingsError, trace::TraceError};

/// Why arrayjit did not do what was asked. A function that can fail for reasons of one kind returns the error
/// of that kind; `?` turns each of them, and the errors of re-exported types, into this one.
///
/// ```
/// use arrayjit::{Backend, CompileError, Error, ErrorKind, HostArray};
///
/// fn square(text: &str) -> Result<HostArray, Error> {
///     let mut program = Backend::open("interpreter")?.load(text)?;
///     program.set("x", &HostArray::from_slice(&[1f32, 2.], [2])?)?;
///     program.run()?;
///     program.get("y")
/// }
/// assert_eq!(square("input x f32[2]; y[i] := x[i] * x[i]; keep y")?.values(), [1., 4.]);
/// let error = square("input x f32[2]; y[i] := z[i]; keep y").expect_err("there is no `z`");
/// assert!(matches!(error.kind(), ErrorKind::Compile(CompileError::Text(_))));
/// # Ok::<(), Error>(())
/// ```
#[derive(thiserror::Error)]
#[error(transparent)]
pub struct Error(Box<ErrorKind>);

impl Error {
    /// The reason.
    pub fn kind(&self) -> &ErrorKind {
        &self.0
    }
}

impl<E> From<E> for Error
where
    ErrorKind: From<E>,
{
    fn from(reason: E) -> Error {
        Error(Box::new(reason.into()))
    }
}

/// The kind of an [`Error`], with the error of that kind.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A backend does not open.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The settings do not load.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The declarations of nodes are wrong; the message points into them.
    #[error(transparent)]
    Text(#[from] assignment_text::TextError),
    /// Assignments that were not built.
    #[error(transparent)]
    Build(#[from] assignments::builder::BuildError),
    /// A program does not compile.
    #[error(transparent)]
    Compile(#[from] CompileError),
    /// A program has no node of that name.
    #[error(transparent)]
    UnknownNode(#[from] assignments::UnknownNode),
    /// A program reads an input that has no value.
    #[error("input `{node}` has no value: `set` it before the first run")]
    NoValue {
        /// The name of the node.
        node: String,
    },
    /// The values of the symbols are not those of the program's symbols.
    #[error("the program has {}, but {} given", symbols(expected), symbols_were(found))]
    Bindings {
        /// The names of the program's symbols, in order.
        expected: Vec<String>,
        /// The names for which values were given.
        found: Vec<String>,
    },
    /// An array has more elements along an axis than the bound of a size that a run gives, or none.
    #[error(
        "size `{size}` is from 1 to {bound}, but axis {axis} of the array for node `{node}` has {value} elements"
    )]
    Size {
        /// The name of the size.
        size: String,
        /// Its bound.
        bound: usize,
        /// The number of elements along the axis.
        value: usize,
        /// The name of the node.
        node: String,
        /// The axis, from 0.
        axis: usize,
    },
    /// Two arrays give a size different values, or an array and a value that is bound to it, or a size that
    /// follows from others is out of its range.
    #[error(transparent)]
    SizeMismatch(#[from] SizeMismatch),
    /// No array gives a size its value.
    #[error("size `{size}` has no value: give one to the run, or `set` a node that has it")]
    OpenSize {
        /// The name of the size.
        size: String,
    },
    /// Work that was not divided over streams.
    #[error(transparent)]
    Parallel(#[from] ParallelError),
    /// A node or an array that was not made, changed, read or written.
    #[error(transparent)]
    Node(#[from] tnode::TensorNodeError),
    /// A link, a run, or a copy from or to a device failed.
    #[error(transparent)]
    Run(#[from] device_runtime::RunError),
    /// A timeline was not started or written.
    #[error(transparent)]
    Trace(#[from] TraceError),
}

fn symbols(names: &[String]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`@{name}`")).collect();
    match names.as_slice() {
        [] => "no symbol".to_owned(),
        [name] => format!("the symbol {name}"),
        names => format!("the symbols {}", names.join(", ")),
    }
}

fn symbols_were(names: &[String]) -> String {
    format!("{} {}", symbols(names), if names.len() > 1 { "were" } else { "was" })
}
