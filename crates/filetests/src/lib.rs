#![doc = include_str!("../README.md")]
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
