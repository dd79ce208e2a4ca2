#![doc = include_str!("../README.md")]
#![deny(unsafe_code)]

mod access;
pub mod assembler;
pub mod bounds;
mod case;
mod child;
mod claims; // contradictions in capabilities
mod conform; // the test of a code generator
mod corpus;
mod device;
mod float_env;
mod generated;
pub mod gpu;
pub mod gpu_runtime;
mod host; // direct calls of kernels of this process
mod level;
mod logged;
mod own_process;
mod probe;
mod remembered;
mod report;
pub mod runtime;
mod score;
mod small_case;
pub mod stages;
mod threads;

pub use access::{AccessForm, OperationUse};
pub use case::{Case, Variant, cases};
pub use claims::false_claims;
pub use conform::{CASE, ConformanceTest, DIR, JOBS, LIR, SECONDS, conform, is_child, measure};
pub use corpus::{compile_case, results};
pub use device::{Agreement, run_corpus_on, run_generated_on};
pub use generated::{generated_routine, run_generated};
pub use host::GuardedBuffer;
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
