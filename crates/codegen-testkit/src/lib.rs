//! The conformance kit: says which level of conformance a code generator has, and tests devices.
//!
//! # Should I be using this crate?
//!
//! Yes, if you write a code generator: one line makes a test of it. For a device, [`run_corpus_on`] runs the
//! corpus; [`runtime_suite!`] tests a driver that runs host code ([`runtime`]: streams, events, hazards,
//! failures and memory), and [`gpu_suite!`] one with its own kernel language ([`gpu_runtime`]).
//!
//! # Example
//!
//! The name of the test, an expression that makes the code generator, and the level that it must have:
//!
//! ```
//! # use codegen_core::Interpreted;
//! codegen_testkit::conformance!(interpreted_conforms, Interpreted::new, level = L4);
//! # fn main() {}
//! ```
//!
//! # Levels
//!
//! A level counts the cases that passed out of the cases that it needs, and a code generator has the level if
//! all of them passed, at this level and below.
//!
//! | Level | Needs |
//! |---|---|
//! | [`L0`](Level::L0) | `f32`: maps over dense arrays |
//! | [`L1`](Level::L1) | `f32`, `i32`, `bool`: reductions, contractions, broadcasts, guards, symbols, loops that end at variables, conversions, locals |
//! | [`L2`](Level::L2) | every type that the target stores; functions, gather, scatter, random, logs |
//! | [`L3`](Level::L3) | parallel and vector loops, workgroups, scratch memory, merge buffers |
//! | [`L4`](Level::L4) | class `fast` |
//!
//! The kit derives the level of a case from its routine ([`Level::of`]). A case that the code generator
//! rejects counts against the level. The only exception, from L2 on, are cases with a type that the target's
//! `Caps::storage` lacks: these are *excused*. A false claim of `Caps` costs the levels that rely on it
//! ([`false_claims`]).
//!
//! The test states the level that it expects. It fails if the code generator has a lower level, or if any
//! case of any level computes a wrong value or ends its process. Above the expected level, a code generator
//! may reject cases.
//!
//! `towards = L0` in place of `level = L0` is for a code generator that begins: the test succeeds if a case
//! of the level passes and none is wrong, and prints how many are still rejected. That is no level; programs
//! run rejected statements on their fallback backend.
//!
//! # Cases
//!
//! * Every run of the corpus (`crates/filetests/lir`): optimised, as written, and with every value logged.
//! * Probes: each operation on all pairs of the values that it treats specially, for each type that `Caps`
//!   claims. A failed probe names the false claim.
//! * Random routines: of `f32`, `i32` and `bool`, and of the types that `Caps` claims to store.
//!
//! # How a case is run
//!
//! The test binary runs itself as child processes, one for each core (or `CONFORMANCE_JOBS` of them), each of
//! which takes one case after the other. A case whose child dies, or that takes longer than the limit (60 s,
//! or the macro's `seconds`), failed; a new child takes the next case.
//!
//! In the child, the routine is scheduled for the target, and the interpreter computes the expected values,
//! before the code generator compiles anything. The kernels then run on memory with guard bytes. Splittable
//! kernels run in parts and out of order, then with all parts at the same time on several threads, then as
//! two launches at the same time on different memory. Around every call, the floating-point environment is
//! set to the default and compared with it afterwards: on x86-64 MXCSR and the control word of x87, on
//! AArch64 FPCR. The values must equal the interpreter's for the kernels, in class `strict` also the
//! interpreter's for the routine, and the corpus's expectations: bit for bit, except that all NaNs are equal.
//! Routines of class `fast` on a target with `Transcendental::Approximate` must be within [`bounds`]. Logs
//! must equal the interpreter's, character for character.
//!
//! # Reading a failure
//!
//! The test prints the coverage matrix (operation, type, form of access), the counts of each level, each
//! reason for rejections with the first case of the lowest level that needs it, and the failed cases. It
//! writes all of it to `conformance.json` in a folder that the output names (`CONFORMANCE_DIR` sets another
//! one). The first failures are shrunk: the output has a test file of a few
//! lines that fails in the same way, the first differing element with both values and their distance in ulp,
//! the source if the code generator shows one, and a command that runs this file again in the test's own
//! process, where a debugger can follow. `CONFORMANCE_CASE=TEXT` runs only the cases whose names contain the
//! text.
//!
//! # Devices
//!
//! A device with its own rounding rules, such as a GPU, must be as accurate as its language promises, element
//! by element: [`bounds`]. Runs that the target does not support are skipped, counted and printed with the
//! reason.
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
