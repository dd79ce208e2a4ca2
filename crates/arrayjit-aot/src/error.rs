//! Why a library cannot be made.

use std::error::Error;
use std::io;
use std::path::PathBuf;

use codegen_core::CodegenError;
use codegen_cranelift::object::{EntryError, ObjectLevel, TargetError};

/// The reason why a library cannot be made.
#[derive(thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum AotError {
    /// The target is malformed or not supported.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// A library without levels has no code.
    #[error("library `{library}` has no level, expected at least one")]
    NoLevel { library: String },
    /// The name of a library or routine is no identifier of both Rust and C, or is taken.
    #[error(
        "`{name}` cannot name a {what}: expected a new name of a-z, 0-9 and `_` that begins with a letter and is no word of Rust or C"
    )]
    Name { what: &'static str, name: String },
    /// Code cannot be generated for the target.
    #[error("{}", match source {
        CodegenError::Failed { message, .. } => message.clone(),
        other => other.to_string(),
    })]
    Codegen { source: CodegenError },
    /// The backend of the target cannot be opened.
    #[error(transparent)]
    Open(Box<arrayjit::OpenError>),
    /// A routine does not compile for a level.
    #[error("routine `{routine}`, level `{level}`: {source}")]
    Compile { routine: String, level: ObjectLevel, source: Box<dyn Error + Send + Sync> },
    /// Statements of a routine need the fallback, which is a part of the runtime.
    #[error(
        "routine `{routine}`: {statements} need a fallback, which exists in a process with a runtime only"
    )]
    Fallback { routine: String, statements: String },
    /// A routine has no entry.
    #[error("routine `{routine}`: {source}")]
    Entry { routine: String, source: Box<EntryError> },
    /// A routine has no results.
    #[error("routine `{routine}` writes no array: it has no results, or they have no elements")]
    Empty { routine: String },
    /// A routine has other arrays or sizes for one level than for another.
    #[error("routine `{routine}` takes other arrays or sizes at level `{level}` than at `{first}`")]
    Levels { routine: String, first: ObjectLevel, level: ObjectLevel },
    /// A constant is given for a node that the routine does not have.
    #[error(
        "routine `{routine}` has no node `{node}`, for which a constant is given; its arrays are {known}"
    )]
    NoNode { routine: String, node: String, known: String },
    /// A constant is given for a node that the routine writes.
    #[error("routine `{routine}` writes node `{node}`, for which a constant is given")]
    Written { routine: String, node: String },
    /// A constant has another element type or other dimensions than its node.
    #[error("routine `{routine}`: the constant for node `{node}` is {found}, expected {expected}")]
    Constant { routine: String, node: String, expected: String, found: String },
    /// The object file cannot be made.
    #[error("library `{library}`: {source}")]
    Object { library: String, source: object::write::Error },
    /// A file cannot be written.
    #[error("{}: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
}
