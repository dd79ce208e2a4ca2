//! Safe code generators may compute wrong values, but their code never runs on memory that it was not
//! compiled for.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::sync::{Arc, Mutex};

use arrayjit::{Backend, BackendParts, Caps, Codegen, CompileError, HostArray, Settings, TensorNode};
use codegen_core::{Artifact, CodeMismatch, CodegenError, Interpreted, ScheduledRoutine};

/// A code generator that returns the code of the first routine for every routine.
struct Forgetful {
    inner: Backend,
    first: Mutex<Option<Artifact>>,
}

impl Codegen for Forgetful {
    fn name(&self) -> &str {
        "forgetful"
    }

    fn caps(&self) -> &Caps {
        self.inner.codegen().caps()
    }

    fn fingerprint(&self) -> u64 {
        self.inner.codegen().fingerprint() ^ 1
    }

    fn compile(&self, routine: &ScheduledRoutine) -> Result<Artifact, CodegenError> {
        let mut first = self.first.lock().unwrap();
        if first.is_none() {
            *first = Some(self.inner.codegen().compile(routine)?);
        }
        Ok(first.clone().unwrap())
    }
}

fn backend() -> Backend {
    let mut settings = Settings::default();
    settings.threads = 2;
    let inner = Backend::open_with("multicore", &settings).unwrap();
    let device = inner.device().clone();
    let codegen = Arc::new(Forgetful { inner, first: Mutex::new(None) });
    Backend::from_parts("forgetful", BackendParts::new(codegen, device), &settings).unwrap()
}

fn vector(name: &str, len: usize) -> TensorNode {
    TensorNode::builder(name).dims([len]).build().unwrap()
}

#[test]
fn an_artifact_of_another_routine_is_an_error() {
    let backend = backend();
    let (x, y) = (vector("x", 8), vector("y", 8));
    assert!(backend.compile("y[i] := 2 * x[i]", [&x, &y]).is_ok());
    let mismatch = |text: &str, nodes: [&TensorNode; 2]| match backend.compile(text, nodes) {
        Err(CompileError::Code(error)) => error.mismatch,
        other => panic!("{text}: {other:?}"),
    };
    // The first routine's code would access memory beyond these nodes, or read an argument that was not
    // passed.
    let (short_x, short_y) = (vector("short_x", 3), vector("short_y", 3));
    let short = mismatch("short_y[i] := 2 * short_x[i]", [&short_x, &short_y]);
    assert!(matches!(short, CodeMismatch::Params { .. }), "{short}");
    let windowed = mismatch("z[i] := w[@s + i] where @s < 3", [&vector("w", 10), &vector("z", 8)]);
    assert!(matches!(windowed, CodeMismatch::Params { .. }), "{windowed}");
    let large = mismatch("c[i,j] :+= a[i,k] * a[k,j]", [&matrix("a", 40), &matrix("c", 40)]);
    assert!(matches!(large, CodeMismatch::Params { .. } | CodeMismatch::Kernels { .. }), "{large}");
}

fn matrix(name: &str, side: usize) -> TensorNode {
    TensorNode::builder(name).dims([side, side]).build().unwrap()
}

/// An artifact of another routine runs if its kernels have the same ABIs. It then computes the values of that
/// other routine, on the memory of this one.
#[test]
fn an_artifact_with_the_same_abi_computes_what_it_computes() {
    let backend = backend();
    let (x, y) = (vector("x", 8), vector("y", 8));
    backend.compile("y[i] := 2 * x[i]", [&x, &y]).unwrap();
    let code = backend.compile("y[i] := x[i] + 1", [&x, &y]).unwrap();
    let values = HostArray::from_slice(&[1f32, 2., 3., 4., 5., 6., 7., 8.], [8]).unwrap();
    let context = backend.context().unwrap().init_from_host(&x, &values).unwrap();
    let routine = code.link(&context).unwrap();
    routine.run(&[]).unwrap();
    let expected: Vec<f64> = (1..=8).map(|value| 2.0 * f64::from(value)).collect();
    assert_eq!(routine.context().to_host(&y).unwrap().values(), expected);
}

#[test]
fn contradicting_capabilities_are_an_error() {
    let device = Backend::open("interpreter").unwrap().device().clone();
    let codegen = Interpreted::of_target(Caps { alignment: 48, ..Caps::host("odd") });
    let parts = BackendParts::new(Arc::new(codegen), device);
    let error = Backend::from_parts("mine", parts, &Settings::default()).err().unwrap();
    assert_eq!(error.to_string(), "target `odd`: `Caps::alignment` is 48, expected a power of two");
}
