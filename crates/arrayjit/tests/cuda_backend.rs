//! The backend `cuda` on a machine without one: one clear line. What it computes is tested where its programs are, in `codegen-ptx`; what its
//! driver does, in `device-cuda`. With `REQUIRE_CUDA=1`, as on a machine with a GPU, it has to be there, and a program runs.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use arrayjit::{Backend, HostArray, OpenError, TensorNode};

/// The backend; on machines without it, what is said of that.
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

#[test]
fn a_program_runs() {
    let Ok(backend) = open() else { return };
    let [x, w, y] = [("x", [64, 32]), ("w", [32, 48]), ("y", [64, 48])]
        .map(|(name, dims)| TensorNode::builder(name).dims(dims).build().unwrap());
    let code = backend.compile("y[i,h] :+= x[i,k] * w[k,h]", [&x, &w, &y]).unwrap();
    let numbers = |n: usize| (0..n).map(|i| (i % 7) as f32 - 3.0).collect::<Vec<_>>();
    let (xs, ws) = (numbers(64 * 32), numbers(32 * 48));
    let context = backend.context().unwrap();
    let context = context.init_from_host(&x, &HostArray::from_slice(&xs, [64, 32]).unwrap()).unwrap();
    let context = context.init_from_host(&w, &HostArray::from_slice(&ws, [32, 48]).unwrap()).unwrap();
    let routine = code.link(&context).unwrap();
    routine.run(&[]).unwrap();
    let element = |i: usize, h: usize| (0..32).map(|k| xs[i * 32 + k] * ws[k * 48 + h]).sum::<f32>();
    let expected: Vec<f64> = (0..64 * 48).map(|at| element(at / 48, at % 48).into()).collect();
    assert_eq!(routine.context().to_host(&y).unwrap().values(), expected, "sums of small integers are exact");
}
