//! Code generators that end their process, or never return: each names its case, and the other cases run.
#![allow(unsafe_code, reason = "stand-ins for compiled code that ends its process")]

use std::time::Duration;

use codegen_core::Caps;
use codegen_testkit::{ConformanceTest, Level, conform, measure};
use lowered_ir::ir::LoweredRoutine;
use tnode::DType;

use super::{Fault, Faulty, first_level, native::Call};

/// The routine whose kernels have the fault.
const VICTIM: &str = "contraction";
/// The file of the routine in the corpus.
const FILE: &str = "first_level/rounding";

/// Ends the process or the progress of the thread, in kernels of the victim.
pub(crate) fn disturb(call: Call, kernel: &str, ir: &LoweredRoutine) {
    if call == Call::AbortsOnF16 && ir.nodes.iter().any(|decl| decl.dtype == DType::F16) {
        std::process::abort();
    }
    if !kernel.contains(VICTIM) {
        return;
    }
    match call {
        Call::Aborts => std::process::abort(),
        // SAFETY: none; the read of an unmapped address is the fault that the kit must survive.
        Call::ReadsNull => drop(unsafe { std::ptr::read_volatile(std::ptr::without_provenance::<u8>(16)) }),
        Call::Traps => trap(),
        Call::Loops => loop {
            std::hint::spin_loop();
        },
        Call::Overflows => drop(deeper(std::hint::black_box(1))),
        Call::Exits => std::process::exit(0),
        _ => {}
    }
}

#[cfg(target_arch = "x86_64")]
fn trap() {
    // SAFETY: none; the undefined instruction is the fault that the kit must survive.
    unsafe { std::arch::asm!("ud2") };
}

#[cfg(not(target_arch = "x86_64"))]
fn trap() {
    std::process::abort();
}

#[allow(unconditional_recursion, reason = "exhausts the stack")]
fn deeper(depth: u64) -> u64 {
    let frame = std::hint::black_box([depth; 64]);
    deeper(depth + 1) + frame[1]
}

/// Runs the cases of one file: the victim's cases must fail with these words, and all others must pass.
fn check(name: &str, call: Call, words: &str) {
    let test = ConformanceTest::new(module_path!(), name, env!("CARGO_PKG_NAME"));
    let test = test.limit(Duration::from_secs(3)).only(FILE);
    let make = || Faulty { caps: first_level(), fault: Fault::Native(call) };
    if codegen_testkit::is_child() {
        return conform(&test, make, Level::L1);
    }
    let score = measure(&test, &make());
    println!("{score}");
    let failures: Vec<_> = score.failures().collect();
    assert!(!failures.is_empty() && failures.len() < score.results.len() / 2, "{score}");
    for (case, how) in failures {
        assert_eq!(case.run.routine.name, VICTIM, "{score}");
        assert!(how.contains(words), "{how}");
    }
    assert!(!score.conforms(Level::L0) || !score.conforms(Level::L1));
}

#[test]
fn aborts() {
    check("aborts", Call::Aborts, if cfg!(unix) { "SIGABRT" } else { "died" });
}

/// A code generator that claims arithmetic on `f16`, of which its processor knows nothing.
#[test]
fn a_false_claim_of_f16_ends_the_process() {
    let test =
        ConformanceTest::new(module_path!(), "a_false_claim_of_f16_ends_the_process", env!("CARGO_PKG_NAME"));
    let test = test.only("probe f16: ");
    let make = || {
        let Caps { storage, arithmetic, .. } = first_level();
        let [storage, arithmetic] = [storage, arithmetic].map(|set| set.with(DType::F16));
        Faulty {
            caps: Caps { storage, arithmetic, ..first_level() },
            fault: Fault::Native(Call::AbortsOnF16),
        }
    };
    if codegen_testkit::is_child() {
        return conform(&test, make, Level::L2);
    }
    let score = measure(&test, &make());
    assert!(score.results.len() > 3 && !score.conforms(Level::L2), "{score}");
    for judged in &score.results {
        let codegen_testkit::Outcome::Failed(how) = &judged.outcome else { panic!("{score}") };
        assert!(judged.case.name.starts_with("probe f16: "), "{score}");
        assert!(how.contains(if cfg!(unix) { "SIGABRT" } else { "died" }), "{how}");
        assert!(how.contains("(the claim of native arithmetic on f16 is false)"), "{how}");
    }
}

#[test]
fn reads_null() {
    check("reads_null", Call::ReadsNull, if cfg!(unix) { "SIGSEGV" } else { "died" });
}

#[test]
fn traps() {
    let words = if cfg!(all(unix, target_arch = "x86_64")) { "SIGILL" } else { "died" };
    check("traps", Call::Traps, words);
}

#[test]
fn loops_for_ever() {
    check("loops_for_ever", Call::Loops, "timed out");
}

#[test]
fn overflows_the_stack() {
    check("overflows_the_stack", Call::Overflows, "died");
}

#[test]
fn exits() {
    check("exits", Call::Exits, "exit status: 0");
}
