//! Random programs of several routines, compared with an evaluator that shares nothing with the compiler.
//!
//! [`generate`] derives a program from bytes, as data ([`program`]); the compiler gets its text. [`evaluate`]
//! follows the documents on assignment text and on operations, and computes the possible values of each
//! element from the data: a single value where the documents determine it, otherwise an interval ([`value`]).
//! [`run`] compares the nodes in memory after every run, on every backend.

mod accumulate;
mod evaluate;
mod format;
mod generate;
mod program;
mod reduce;
mod run;
mod types;
mod value;

pub(crate) use run::Report;

/// Compares the program that the bytes describe.
///
/// # Errors
///
/// The failure, and the text of a reduced program.
pub(crate) fn check(bytes: &[u8]) -> Result<Report, String> {
    let program = generate::program(bytes);
    run::check(&program).map_err(|error| reduce::reduced(program, error))
}
