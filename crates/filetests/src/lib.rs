//! The golden-file harness: runs the `.lir` files of a corpus through passes, interpreter and scheduler.
//!
//! # Should I be using this crate?
//!
//! To change lowered IR, a pass or the scheduler: add a file under `lir/` and run `cargo xtask bless`. To
//! check a code generator, use `codegen-testkit`, which runs the corpus on it through [`run_cases`].
//!
//! # A test file
//!
//! ```text
//! test verify
//! test run
//! test pass simplify
//!
//! ; Comments say what the file is about.
//! routine @twice fast {
//!   node %0 "x" f32[3] on_device
//!   node %1 "y" f32[3] on_device
//!   for i0 in 0..3 {
//!     %1[i0] := %0[i0] * 2.0f32
//!   }
//! }
//! ; run: %0 = [1, 2, 3] => %1 = [2, 4, 6]
//!
//! ; ---- pass simplify
//! …
//! ```
//!
//! *Test lines* come before the first routine; each names a [kind](kinds) of test and its arguments.
//! *Routines* follow, each starting at the beginning of a line, with the annotations of the test kinds: `;
//! run:` lines ([`run_line`]), and `; error:` at the end of a faulty line. *Sections* come last: below a line
//! `; ---- ` with the words of a test line is the expected output of that test. `BLESS=1` rewrites the
//! sections.
#![forbid(unsafe_code)]

mod case; // a routine with inputs and expected outputs
mod check_passes; // tests of the optimiser's passes
mod corpus; // the files of a folder
mod file; // the parts of a test file
pub mod generate; // random routines
mod golden; // comparing with, and rewriting, sections
pub mod kernels; // kernels without the scheduler
pub mod kinds; // the kinds of test lines
mod listings; // the code that code generators write for the corpus
pub mod reduce; // failing runs to small ones
pub mod run_line; // `; run:` lines
mod values; // element lists and generators

pub use case::{Expected, RunCase};
pub use check_passes::check_passes;
pub use corpus::{corpus, corpus_dir, repository, run_cases};
pub use file::{Chunk, File, Section, TestLine};
pub use golden::{Mode, TestFailure, check};
pub use listings::assert_listings;
pub use random_programs::effort;
