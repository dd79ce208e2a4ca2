//! A failure is shrunk to a small test file, which the printed command runs again.

use std::{panic::catch_unwind, process::Command};

use codegen_testkit::{Case, ConformanceTest, LIR, Level, ShrunkCase, conform};

use super::{Faulty, first_level, rewrites};

/// Products and sums of f32 contract.
fn contracting() -> Faulty {
    let fault = rewrites::fault("f32", "a + b * c", "fma(b, c, a)");
    Faulty { caps: first_level(), fault }
}

const NAME: &str = "a_failure_is_shrunk";

#[test]
fn a_failure_is_shrunk() {
    let test = ConformanceTest::new(module_path!(), NAME, env!("CARGO_PKG_NAME"));
    let test = test.only("first_level/rounding.lir:34 as written");
    if codegen_testkit::is_child() || std::env::var_os(LIR).is_some() {
        return conform(&test, contracting, Level::L1);
    }
    let payload = catch_unwind(|| conform(&test, contracting, Level::L1)).unwrap_err();
    let message = codegen_core::panic_message(payload);
    println!("{message}");
    let (_, shrunk) = message.split_once("shrunk: ").unwrap();
    let (difference, rest) = shrunk.split_once("\ntest run\n").unwrap();
    assert!(difference.contains("element 0") && difference.contains("ulp apart"), "{difference}");
    let (lir, rest) = rest.split_once("rendered as\n").unwrap();
    assert!(lir.lines().count() <= LINES && lir.contains("; run: "), "{lir}");
    let (source, replay) = rest.split_once("replay: ").unwrap();
    assert!(source.contains("routine @contraction"), "{source}");
    replay_fails(replay);
}

/// Runs the test of the printed command as its environment variable says.
fn replay_fails(command: &str) {
    let path = command.strip_prefix(LIR).unwrap().strip_prefix('=').unwrap().split(' ').next().unwrap();
    assert!(
        command.contains(&format!("cargo test -p codegen-testkit faults::shrinking::{NAME} -- --exact")),
        "{command}"
    );
    let exe = std::env::current_exe().unwrap();
    let mut replay = Command::new(exe);
    let output =
        replay.args([&format!("faults::shrinking::{NAME}"), "--exact"]).env(LIR, path).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(!output.status.success() && text.contains("wrong value"), "{text}");
}

/// The most lines of a test file to which the kit shrinks a failure.
const LINES: usize = 15;

/// Fails if the kit shrinks the failed case to a long test file.
pub(crate) fn check_lines(row: &str, codegen: &Faulty, case: &Case, how: &str) {
    let ShrunkCase { run, how } = codegen_testkit::shrink(codegen, case, how);
    let text = run.to_lir();
    let lines = text.lines().count();
    assert!(lines <= LINES, "{row}: {} is shrunk to {lines} lines: {how}\n{text}", case.name);
}
