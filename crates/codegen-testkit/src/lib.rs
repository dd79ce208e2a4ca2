#![doc = include_str!("../README.md")]
#![deny(unsafe_code)]

mod access; // forms of access to memory
pub mod assembler; // NVIDIA's assembler and its reports on kernels
pub mod bounds; // bounds of a device's deviation
mod case; // the cases of the kit
mod child; // processes that run cases
mod claims; // contradictions in capabilities
mod conform; // the test of a code generator
mod corpus; // compiling and comparing one run
mod device; // runs on a device, with its own transfers and launches
mod float_env; // rounding, subnormals, masks
mod generated; // random routines
pub mod gpu; // skips without an adapter
pub mod gpu_runtime; // streams, hazards and memory of a driver with its own kernel language
mod host; // direct calls of kernels of this process
mod level; // the levels
mod logged; // runs with every value logged
mod own_process; // tests that measure or change their process
mod probe; // single operations on special values
mod remembered; // artifacts of the last cases
mod report;
pub mod runtime; // streams, hazards, failures and memory of a driver
mod score; // counts per level, and coverage
mod small_case; // small runs that fail like a case
mod threads; // kernels on several threads

pub use access::{AccessForm, OperationUse};
pub use case::{Case, Variant, cases};
pub use claims::false_claims;
pub use conform::{CASE, ConformanceTest, DIR, JOBS, LIR, SECONDS, conform, is_child, measure};
pub use corpus::compile_case;
pub use device::{Agreement, run_corpus_on, run_generated_on};
pub use generated::{generated_routine, run_generated};
pub use level::Level;
pub use own_process::{in_own_process, is_in_own_process, run_in_own_process};
pub use report::{Outcome, Report};
pub use score::{Conformance, Judged, LevelScore, RejectionReason, score};
pub use small_case::{ShrunkCase, shrink};

/// Makes a test that a code generator has a level: the name of the test, an expression that makes the code
/// generator, the [`Level`], and optionally the limit of a case in seconds. With `towards` in place of
/// `level`, the code generator may reject cases of the level, but not all of them.
///
/// The child processes run the test by its name, so the macro must stand in a module of a test binary.
#[macro_export]
macro_rules! conformance {
    ($(#[$attribute:meta])* $name:ident, $codegen:expr, level = $level:ident $(, seconds = $seconds:expr)?) => {
        #[test]
        $(#[$attribute])*
        fn $name() {
            let test =
                $crate::ConformanceTest::new(module_path!(), stringify!($name), env!("CARGO_PKG_NAME"));
            $(let test = test.limit(::std::time::Duration::from_secs($seconds));)?
            $crate::conform(&test, $codegen, $crate::Level::$level);
        }
    };
    ($(#[$attribute:meta])* $name:ident, $codegen:expr, towards = $level:ident) => {
        #[test]
        $(#[$attribute])*
        fn $name() {
            let test =
                $crate::ConformanceTest::new(module_path!(), stringify!($name), env!("CARGO_PKG_NAME"));
            $crate::conform(&test.towards(), $codegen, $crate::Level::$level);
        }
    };
}
