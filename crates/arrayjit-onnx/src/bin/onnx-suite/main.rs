//! Runs directories of ONNX node tests: `onnx-suite DIR [--backend NAME] [--filter TEXT]`.
//!
//! Each line of the report has the outcome, the name of the test, the operator that it tests, and the reason
//! of a failure, between tabs.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail, ensure};
use arrayjit_onnx::{
    Backend, HostArray, Model, array_from_proto,
    proto::{ModelProto, TensorProto},
};
use prost::Message;

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let root =
        PathBuf::from(arguments.next().context("usage: onnx-suite DIR [--backend NAME] [--filter TEXT]")?);
    let (mut backend, mut filter) = ("inline".to_owned(), String::new());
    while let Some(argument) = arguments.next() {
        let value = arguments.next().with_context(|| format!("{argument} needs a value"))?;
        match argument.as_str() {
            "--backend" => backend = value,
            "--filter" => filter = value,
            other => bail!("unknown argument {other}"),
        }
    }
    let backend = Backend::open(&backend)?;
    let mut folders: Vec<PathBuf> =
        std::fs::read_dir(&root)?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    folders.sort();
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    for folder in folders {
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if !name.contains(&filter) {
            continue;
        }
        let operator = operator(&root, &name).unwrap_or_default();
        if folder.join("skipped").exists() {
            skipped += 1;
            report(&name, "skip", &operator, "values that are no tensors");
            continue;
        }
        let outcome = catch_unwind(AssertUnwindSafe(|| run(&folder, &backend)));
        match outcome {
            Ok(Ok(())) => {
                passed += 1;
                report(&name, "pass", &operator, "");
            }
            Ok(Err(error)) => {
                failed += 1;
                report(&name, "fail", &operator, &format!("{error:#}").replace('\n', " | "));
            }
            Err(payload) => {
                failed += 1;
                let text = payload.downcast_ref::<String>().map(String::as_str);
                let text = text.or_else(|| payload.downcast_ref::<&str>().copied());
                report(&name, "panic", &operator, text.unwrap_or_default());
            }
        }
    }
    report(&format!("{passed} passed, {failed} failed, {skipped} skipped"), "total", "", "");
    Ok(())
}

#[allow(clippy::print_stdout, reason = "the report of a program")]
fn report(name: &str, outcome: &str, operator: &str, reason: &str) {
    println!("{outcome}\t{name}\t{operator}\t{reason}");
}

/// The operator that a test is about: that of its first node. The tests of an operator's definition by other
/// operators have the name of a test of the operator in front of `_expanded`.
fn operator(root: &Path, name: &str) -> Option<String> {
    let name = name.split("_expanded").next()?;
    let bytes = std::fs::read(root.join(name).join("model.onnx")).ok()?;
    let model = ModelProto::decode(bytes::Bytes::from(bytes)).ok()?;
    Some(model.graph?.node.first()?.op_type.clone())
}

/// Runs all data sets of a test.
fn run(folder: &Path, backend: &Backend) -> Result<()> {
    let model = Model::load(folder.join("model.onnx"))?;
    let session = model.session(backend)?;
    for number in 0.. {
        let data = folder.join(format!("test_data_set_{number}"));
        if !data.exists() {
            ensure!(number > 0, "no data");
            return Ok(());
        }
        let (inputs, outputs) = (arrays(&data, "input")?, arrays(&data, "output")?);
        let infos = model.inputs();
        let pairs: Vec<(&str, &HostArray)> =
            infos.iter().map(|info| info.name.as_str()).zip(&inputs).collect();
        let found = session.run(&pairs)?;
        for (at, (found, expected)) in found.iter().zip(&outputs).enumerate() {
            compare(found, expected).with_context(|| format!("output {at}"))?;
        }
    }
    Ok(())
}

/// The arrays `kind_0.pb`, `kind_1.pb` and so on.
fn arrays(folder: &Path, kind: &str) -> Result<Vec<HostArray>> {
    let mut arrays = Vec::new();
    loop {
        let path = folder.join(format!("{kind}_{}.pb", arrays.len()));
        if !path.exists() {
            return Ok(arrays);
        }
        let tensor = TensorProto::decode(bytes::Bytes::from(std::fs::read(path)?))?;
        arrays.push(array_from_proto(&tensor)?);
    }
}

/// Compares floats within 1e-3 relative and 1e-5 absolute, narrow floats within two units of their last
/// place, and other elements exactly.
fn compare(found: &HostArray, expected: &HostArray) -> Result<()> {
    ensure!(found.dtype() == expected.dtype(), "type {}, expected {}", found.dtype(), expected.dtype());
    ensure!(found.dims() == expected.dims(), "shape {:?}, expected {:?}", found.dims(), expected.dims());
    let relative = match found.dtype().significand_bits() {
        Some(bits @ ..=11) => 1e-3f64.max(2f64.powi(2 - bits as i32)),
        _ => 1e-3,
    };
    let is_close = |a: f64, b: f64| match found.dtype().is_float() {
        true => a == b || (a - b).abs() <= 1e-5 + relative * b.abs() || a.is_nan() && b.is_nan(),
        false => a == b,
    };
    for (at, (a, b)) in found.values().into_iter().zip(expected.values()).enumerate() {
        ensure!(is_close(a, b), "element {at} is {a}, expected {b}");
    }
    Ok(())
}
