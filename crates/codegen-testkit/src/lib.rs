//! The conformance kit: runs the `.lir` corpus for one code generator, and for one device.
//!
//! # Should I be using this crate?
//!
//! Yes, if you write a code generator: one line makes a test of it. For a device, [`run_corpus_on`] runs the
//! corpus; [`runtime_suite!`] tests a driver that runs host code ([`runtime`]: streams, events, hazards,
//! failures and memory), and [`gpu_suite!`] one with its own kernel language ([`gpu_runtime`]).
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
//! Every run of the corpus is scheduled for the target, compiled, and run on guarded memory; splittable
//! kernels run in parts and out of order. The result must equal, bit for bit, the interpreter's result for
//! the same kernels, and the expectations of the corpus. Runs that the target does not support are skipped,
//! counted and printed with the reason. A device with its own rounding rules, such as a GPU, must be as
//! accurate as its language promises, element by element: [`bounds`]. Logs must equal the interpreter's,
//! character for character; a codegen without support for logs skips these runs.
#![deny(unsafe_code)]

pub mod assembler; // NVIDIA's assembler and its reports on kernels
pub mod bounds; // bounds of a device's deviation
mod corpus; // runs on a code generator
mod device; // runs on a device, with its own transfers and launches
mod generated; // random routines
pub mod gpu; // skips without an adapter
pub mod gpu_runtime; // streams, hazards and memory of a driver with its own kernel language
mod host; // direct calls of kernels of this process
mod logged; // runs with every value logged
mod report;
pub mod runtime; // streams, hazards, failures and memory of a driver

pub use corpus::{compile_case, run_corpus};
pub use device::{Agreement, run_corpus_on, run_generated_on};
pub use generated::run_generated;
pub use report::{Outcome, Report};

/// Makes a test that runs the corpus on a code generator. The arguments are the name of the test and an
/// expression that makes the code generator.
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
