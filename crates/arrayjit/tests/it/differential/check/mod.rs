//! Random programs of several routines, compared with an evaluator that shares nothing with the compiler.
//!
//! [`random_programs`] derives a program from bytes, as data; the compiler gets its text. [`evaluate`]
//! follows the documents on assignment text and on operations, and computes the possible values of each
//! element from the data: a single value where the documents determine it, otherwise an interval ([`value`]).
//! [`run`] compares the nodes in memory after every run, on every backend.

mod accumulate;
mod evaluate;
mod reduce;
mod run;
mod value;

use random_programs::{ProgramWeights, RandomProgram, program_from_bytes};
pub(crate) use run::Report;

/// Compares the program that the bytes describe on every backend.
///
/// # Errors
///
/// The failure, and the text of a reduced program.
pub(crate) fn check(bytes: &[u8]) -> Result<Report, String> {
    check_on(program_from_bytes(bytes, &ProgramWeights::several_routines()), None)
}

/// Compares a program on one backend, or on all.
///
/// # Errors
///
/// The failure, and the text of a reduced program.
pub(crate) fn check_on(program: RandomProgram, backend: Option<&str>) -> Result<Report, String> {
    run::check(&program, backend).map_err(|error| reduce::reduced(program, error, backend))
}
