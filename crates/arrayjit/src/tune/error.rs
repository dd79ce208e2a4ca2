//! Why a file of choices cannot be used.

use std::{io, path::PathBuf};

use codegen_core::CodegenError;

/// Why a file of choices cannot be read, written, or applied. The setting `tune` names it.
#[derive(thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum TuneError {
    /// The file exists and cannot be read.
    #[error("setting `tune`: reading `{}`: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    /// The file, or the files beside it that protect it, cannot be written.
    #[error("setting `tune`: writing `{}`: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
    /// The file has no choices. It is left as it is.
    #[error("setting `tune`: `{}`, line 1: expected `arrayjit tune 1`; the file is left as it is", path.display())]
    Foreign { path: PathBuf },
    /// The file has a version that this crate does not know. It is left as it is.
    #[error("setting `tune`: `{}`, line 1: it has version `{found}`, and this arrayjit reads version 1", path.display())]
    Version { path: PathBuf, found: String },
    /// A line is no entry.
    #[error("setting `tune`: `{}`, line {line}: {why}", path.display())]
    Line { path: PathBuf, line: usize, why: String },
    /// A choice does not fit its kernel.
    #[error("setting `tune`: `{}`, line {line}: {source}; without the line, the kernel is measured again", path.display())]
    Choice { path: PathBuf, line: usize, source: Box<CodegenError> },
}
