//! Random programs of several routines, compared with an evaluator that shares nothing with the compiler.
//!
//! [`generate`] makes a program from bytes, as data ([`program`]) whose text the compiler gets. [`evaluate`]
//! computes from the data, by the documents on assignment text and on operations, which values each element
//! may have: one, where everything is determined, else an interval ([`value`]). [`run`] compares the nodes in
//! memory after every run, on every backend.

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
/// The failure and the program.
pub(crate) fn check(bytes: &[u8]) -> Result<Report, String> {
    let program = generate::program(bytes);
    run::check(&program).map_err(|error| reduce::reduced(program, error))
}
