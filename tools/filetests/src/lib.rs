#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod calls;
mod case;
mod check_passes; // tests of the optimizer's passes
mod corpus; // the files of a folder
mod file;
pub mod generate;
mod golden;
pub mod kernels;
pub mod kinds;
mod listings;
pub mod reduce;
pub mod run_line;
mod values; // element lists and generators

pub use calls::run_calls;
pub use case::{Expected, RunCase};
pub use check_passes::{check_optimizer, check_passes};
pub use corpus::{corpus, corpus_dir, repository, run_cases};
pub use file::{Chunk, File, Section, TestLine};
pub use golden::{Mode, TestFailure, check};
pub use listings::assert_listings;
pub use random_programs::effort;
