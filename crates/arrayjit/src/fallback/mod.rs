//! Fallback: statements that a backend's code generator rejects run on another backend.
//!
//! A rejected routine is divided, between its top-level statements, into parts ([`divide`]); each part is an
//! ordinary routine, compiled for the backend itself or for its fallback backend ([`parts`]). A linked
//! routine runs its parts in order and copies the nodes that one backend writes and the other reads through
//! the host ([`linked`]). Devices and code generators are not aware of it.
//!
//! Invariants:
//!
//! * After a run, the routine's context contains the same values as after an undivided run. The fallback's
//!   memory and stream belong to the linked routine, and a run reads no values that an earlier run left
//!   there.
//! * A local node that several parts touch becomes a separate node of each linked routine; others stay local
//!   to their part.
//! * Parts on the fallback read no merge buffer ([`merge_copy`]).
//! * Runs of divided routines of one backend do not interleave.
//! * A routine that compiles as a whole takes none of these steps.

mod code; // the code of a divided routine
mod divide; // the division of statements
mod linked; // contexts, copies, runs, failures
mod merge_copy; // materialized merge buffers
mod parts; // code for each part, and the copies between them
mod runs; // counts, and the order of runs
mod statement; // statements that fall back, as data

pub use runs::FallbackCount;
pub use statement::Fallback;

pub(crate) use code::{DividedCode, PartCode};
pub(crate) use linked::{LinkedParts, logging_to};
pub(crate) use parts::{compile, first_rejected};
pub(crate) use runs::FallbackRuns;
