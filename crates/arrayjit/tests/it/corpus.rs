//! The whole corpus of runnable `.lir` files on every backend, through contexts, streams and pools.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a failing step fails the test")]

use arrayjit::{Backend, Settings};
use codegen_testkit::{Agreement, run_corpus_on};

/// Every case passes on the backend; skipped cases are printed with the reason.
#[track_caller]
fn check(backend: &str, threads: usize) {
    let mut settings = Settings::default();
    settings.threads = threads;
    let backend = Backend::open_with(backend, &settings).unwrap();
    let report = run_corpus_on(backend.codegen(), backend.device(), Agreement::Bits);
    println!("{report}");
    assert!(report.conforms(), "{report}");
    assert!(report.passed() > 50, "{report}");
}

#[test]
#[cfg(feature = "cranelift")]
fn multicore_runs_the_corpus() {
    check("multicore", 2);
}

#[test]
#[cfg(feature = "cranelift")]
fn inline_runs_the_corpus() {
    check("inline", 1);
}

#[test]
fn interpreter_runs_the_corpus() {
    check("interpreter", 1);
}
