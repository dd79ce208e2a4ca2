//! The conformance kit: runs the `.lir` corpus for one code generator, and for one device.
//!
//! # Should I be using this crate?
//!
//! Yes, if you write a code generator: one line makes a test of it. For a device, [`run_corpus_on`] is the test, and
//! [`runtime_suite!`] for one that runs host code: streams, events, hazards, failures and memory, as [`runtime`] has them; [`gpu_suite!`]
//! for one whose kernels are in a language of its own, as [`gpu_runtime`] has them.
//!
//! # Example
//!
//! ```
//! # use codegen_core::Interpreted;
//! codegen_testkit::conformance!(interpreted_conforms, Interpreted::new);
//! # fn main() {}
//! ```
//!
//! # Promises
//!
//! Every run of the corpus is scheduled for the target, compiled, and run on memory with guards around it, in
//! parts and out of order where the kernel may be split. The result must equal, bit for bit, what the interpreter makes of
//! the same kernels, and what the corpus expects. What the target does not support is skipped, counted and printed with the
//! reason. A device that computes by rules of its own, as GPUs do, must come as close as its language promises, element by element:
//! [`bounds`]. What runs log must be, character for character, what the interpreter logs; a codegen that rejects to log is skipped there.
#![deny(unsafe_code)]

pub mod assembler; // NVIDIA's, and what it says of kernels
pub mod bounds; // how far a device may be off
mod corpus; // what is run, and what it is compared with
mod device; // through a device's own transfers and launches
mod generated; // routines drawn at random
pub mod gpu; // an adapter, or skip
pub mod gpu_runtime; // streams, hazards, memory of a driver with a language of its own
mod host; // kernels of this process, called directly
mod logged; // with every value logged
mod report;
pub mod runtime; // streams, hazards, failures, memory of a driver

pub use corpus::{compile_case, run_corpus};
pub use device::{Agreement, run_corpus_on, run_generated_on};
pub use generated::run_generated;
pub use report::{Outcome, Report};

/// Makes a test that runs the corpus on a code generator: a name for the test and what makes the code generator.
#[macro_export]
macro_rules! conformance {
    ($name:ident, $codegen:expr) => {
        #[test]
        fn $name() {
            let codegen = ($codegen)();
            let report = $crate::run_corpus(&codegen);
            println!("{report}");
            assert!(report.conforms(), "{report}");
        }
    };
}
