//! The benchmarks measure a backend that a linked crate registers: here the interpreter under another name.
#![allow(clippy::unwrap_used, reason = "a failing step fails the test")]

use std::{fs, sync::Arc};

use arrayjit::{BackendParts, Device, OpenResult, Settings};
use codegen_core::Interpreted;
use scheduler_multicore::{Cpu, CpuConfig};

arrayjit::register_backend!("relay", "the interpreter under another name", relay);

fn relay(_: &Settings) -> OpenResult {
    let device = Device::new(Arc::new(Cpu::inline(CpuConfig::default())), 0);
    Ok(BackendParts::new(Arc::new(Interpreted::new()), device))
}

#[test]
fn a_case_is_measured_on_a_registered_backend() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("results.json");
    let args = ["bench", "--backend", "relay", "--filter", "compile_20op", "--smoke", "--json"];
    benches::run(args.map(Into::into).into_iter().chain([json.clone().into()])).unwrap();
    let results: serde_json::Value = serde_json::from_str(&fs::read_to_string(json).unwrap()).unwrap();
    assert_eq!(results["device"]["name"].as_str(), Some("inline:0"), "{results}");
    let case = &results["results"]["compile_20op"];
    assert_eq!(case["checked"].as_bool(), Some(true), "{results}");
    assert!(case["us"].as_f64().unwrap() > 0.0, "{results}");
}

#[test]
fn a_registered_backend_is_a_peer() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("results.json");
    let args = ["bench", "--backend", "inline", "--peers", "relay", "--filter", "matmul_64", "--smoke"];
    let all = args.into_iter().map(Into::into).chain(["--json".into(), json.clone().into()]);
    benches::run(all).unwrap();
    let results: serde_json::Value = serde_json::from_str(&fs::read_to_string(json).unwrap()).unwrap();
    let peer = &results["results"]["matmul_64"]["peers"]["relay"];
    assert!(peer["us"].as_f64().unwrap() > 0.0 && peer["cold_ms"].is_number(), "{results}");
    let error = |peer: &str| {
        let args = ["bench", "--backend", "inline", "--smoke", "--filter", "matmul_64", "--peers", peer];
        format!("{:#}", benches::run(args.map(Into::into)).unwrap_err())
    };
    assert!(error("inline").starts_with("`inline` is the measured backend; a peer is another one"));
    let unknown = error("abacus");
    assert!(unknown.starts_with("no peer is named `abacus` (hand, gemm, "), "{unknown}");
    assert!(unknown.contains("there is no backend `abacus`; there are: "), "{unknown}");
}

#[test]
fn an_unknown_backend_is_an_error_that_lists_registered_ones() {
    let args = ["bench", "--backend", "abacus", "--smoke"];
    let error = benches::run(args.map(Into::into)).unwrap_err().to_string();
    assert!(error.starts_with("there is no backend `abacus`; there are: multicore"), "{error}");
    assert!(error.contains("relay (the interpreter under another name)"), "{error}");
}
