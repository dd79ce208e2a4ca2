//! The backend `cuda` on a machine without a GPU fails to open with a one-line error. The tests of
//! `codegen-ptx` check its results, and those of `device-cuda` its driver. With `REQUIRE_CUDA=1`, for
//! machines with a GPU, the backend must open and run a program.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::sync::Arc;

use arrayjit::{Backend, BackendParts, HostArray, OpenError, Settings, TensorNode};
use codegen_core::{Codegen, Payload};
use codegen_ptx::{PtxOptions, Target, ptx};
use device_runtime::{Device, NullDevice};

/// Opens the backend, or returns the error's text on machines without a GPU.
fn open() -> Result<Backend, String> {
    let opened = Backend::open("cuda").map_err(|error| {
        assert!(matches!(error, OpenError::Cuda(_)), "{error:?}");
        error.to_string()
    });
    let required = std::env::var("REQUIRE_CUDA").is_ok_and(|value| value == "1");
    match opened {
        Err(why) if required => panic!("REQUIRE_CUDA is set: {why}"),
        opened => opened,
    }
}

#[test]
fn what_is_missing_is_said_in_one_line() {
    let Err(text) = open() else { return };
    assert!(!text.is_empty() && !text.contains('\n'), "{text}");
    assert!(text.contains("NVIDIA") || text.contains("CUDA"), "{text}");
}

/// A routine that logs is one kernel with a log buffer and does not fall back. `codegen-ptx` and
/// `device-cuda` test its log.
#[test]
fn what_logs_does_not_fall_back() {
    let mut settings = Settings::default();
    settings.debugging.logs = "arrayjit_logs".to_owned();
    let device = Device::new(Arc::new(NullDevice::new()), 0);
    for target in Target::ALL {
        let codegen: Arc<dyn Codegen> = Arc::new(ptx(target, PtxOptions::default()));
        let parts = BackendParts::new(codegen, device.clone());
        let backend = Backend::from_parts("cuda", parts, &settings).unwrap();
        let [x, y] = ["x", "y"].map(|name| TensorNode::builder(name).dims([100]).build().unwrap());
        let code = backend.compile("y[i] := tanh(x[i])", [&x, &y]).unwrap();
        assert!(code.fallbacks().is_empty(), "{:?}", code.fallbacks());
        let codes: Vec<_> = code.codes().collect();
        let [code] = codes.as_slice() else { panic!("{} parts", codes.len()) };
        let Payload::Ptx(module) = code.artifact().payload() else { panic!("no PTX") };
        let [launch] = module.launches() else { panic!("{:?}", module.launches()) };
        // The log has a comment, and for each of 100 iterations: a number and an index of two words, the
        // statement, and two indices and two values of one word each.
        assert_eq!((launch.blocks, launch.log_bytes), (1, 16 + 4 * (1 + 100 * (3 + 1 + 7))));
        assert!(!code.artifact().kernels()[0].log.is_empty());
    }
}

#[test]
fn a_program_runs() {
    let Ok(backend) = open() else { return };
    let [x, w, y] = [("x", [64, 32]), ("w", [32, 48]), ("y", [64, 48])]
        .map(|(name, dims)| TensorNode::builder(name).dims(dims).build().unwrap());
    let code = backend.compile("y[i,h] :+= x[i,k] * w[k,h]", [&x, &w, &y]).unwrap();
    let numbers = |n: usize| (0..n).map(|i| (i % 7) as f32 - 3.0).collect::<Vec<_>>();
    let (xs, ws) = (numbers(64 * 32), numbers(32 * 48));
    let context = backend.context().unwrap();
    let context = context.init_from_host(&x, HostArray::from_slice(&xs, [64, 32]).unwrap()).unwrap();
    let context = context.init_from_host(&w, HostArray::from_slice(&ws, [32, 48]).unwrap()).unwrap();
    let routine = code.link(&context).unwrap();
    routine.run(&[]).unwrap();
    let element = |i: usize, h: usize| (0..32).map(|k| xs[i * 32 + k] * ws[k * 48 + h]).sum::<f32>();
    let expected: Vec<f64> = (0..64 * 48).map(|at| element(at / 48, at % 48).into()).collect();
    assert_eq!(routine.context().to_host(&y).unwrap().values(), expected, "sums of small integers are exact");
}
