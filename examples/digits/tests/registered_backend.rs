//! The program trains on a backend that a linked crate registers: here the interpreter under another name.
#![allow(clippy::unwrap_used, reason = "a failing step fails the test")]

use std::sync::Arc;

use arrayjit::{BackendParts, Device, OpenResult, Settings};
use codegen_core::Interpreted;
use scheduler_multicore::{Cpu, CpuConfig};

arrayjit::register_backend!("relay", "the interpreter under another name", relay);

fn relay(_: &Settings) -> OpenResult {
    let device = Device::new(Arc::new(Cpu::inline(CpuConfig::default())), 0);
    Ok(BackendParts::new(Arc::new(Interpreted::new()), device))
}

fn run(args: &[&str]) -> anyhow::Result<Option<f64>> {
    digits::command_line::run(["digits"].iter().chain(args).map(|arg| (*arg).into()))
}

#[test]
fn the_program_takes_a_registered_backend_by_name() {
    // Without training, the accuracy of random weights: about one in ten.
    let accuracy = run(&["--backend", "relay", "--epochs", "0"]).unwrap().unwrap();
    assert!((0.01..0.4).contains(&accuracy), "{accuracy}");
    assert_eq!(run(&["--list-backends"]).unwrap(), None);
}

#[test]
fn an_unknown_backend_is_an_error_that_lists_registered_ones() {
    let error = run(&["--backend", "abacus"]).unwrap_err().to_string();
    assert!(error.starts_with("there is no backend `abacus`; there are: multicore"), "{error}");
    assert!(error.contains("relay (the interpreter under another name)"), "{error}");
}
