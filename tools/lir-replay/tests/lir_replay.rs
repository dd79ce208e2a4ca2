//! Runs of files on backends by name: replays that agree and that differ, and the reduction of a difference.
#![allow(clippy::unwrap_used, reason = "a failing step fails the test")]

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use arrayjit::{
    Backend, BackendParts, Caps, Codegen, HostArray, OpenResult, Settings, TensorNode, settings::NumericClass,
};
use codegen_core::{Artifact, CodegenError, Interpreted, ScheduledRoutine};
use filetests::RunCase;
use lowered_ir::text;

arrayjit::register_backend!("wrong-sine", "the interpreter with cosines for sines", wrong_sine);

fn wrong_sine(_: &Settings) -> OpenResult {
    let device = Backend::open_with("interpreter", &Settings::default())?.device().clone();
    Ok(BackendParts::new(Arc::new(WrongSine(Interpreted::new())), device))
}

/// Computes the cosine wherever a routine asks for the sine.
struct WrongSine(Interpreted);

impl Codegen for WrongSine {
    fn name(&self) -> &str {
        "wrong-sine"
    }

    fn caps(&self) -> &Caps {
        self.0.caps()
    }

    fn fingerprint(&self) -> u64 {
        1
    }

    fn compile(&self, routine: &ScheduledRoutine) -> Result<Artifact, CodegenError> {
        let mut parts = routine.clone().into_parts();
        for kernel in &mut parts.kernels {
            let ir = text::parse(&text::print(kernel.ir()).replace("sin(", "cos(")).unwrap();
            let verified = lowered_ir::verify::Verified::new(ir).unwrap();
            *kernel = codegen_core::Kernel::new(verified, kernel.abi().clone()).unwrap();
        }
        self.0.compile(&ScheduledRoutine::new(parts).unwrap())
    }
}

const PROGRAM: &str = "routine @wave strict {
  node %0 \"x\" f32[12, 10] on_device
  node %1 \"y\" f32[12] on_device
  node %2 \"z\" f32[12, 10] on_device
  for i0 in 0..12 {
    for i1 in 0..10 {
      %2[i0, i1] := %0[i0, i1] * 2.0f32 + 1.0f32
    }
  }
  for i2 in 0..12 {
    %1[i2] := 0.0f32
    for i3 in 0..10 {
      %1[i2] := %1[i2] + sin(%0[i2, i3]) * %2[i2, i3]
    }
  }
}
; run: %0 = random(7) => %2 = random(7)
";

fn run(task: &str, file: &Path, option: &str, value: &str) -> Result<String, String> {
    let file = file.to_str().unwrap();
    let args = ["lir-replay", task, file, option, value].map(Into::into);
    lir_replay::run(args).map_err(|error| format!("{error:#}"))
}

/// A file of the program, with the results that the definition gives.
fn program(folder: &Path) -> PathBuf {
    let path = folder.join("wave.lir");
    let case = RunCase::parse_all("wave.lir", PROGRAM).unwrap().remove(0);
    fs::write(&path, case.to_lir()).unwrap();
    path
}

#[test]
fn a_replay_says_whether_a_backend_computes_what_the_file_expects() {
    let folder = tempfile::tempdir().unwrap();
    let path = program(folder.path());
    let text = run("replay", &path, "--backend", "interpreter").unwrap();
    assert!(text.contains("interpreter computes what the file expects"), "{text}");
    let error = run("replay", &path, "--backend", "object:x86-64-v9").unwrap_err();
    assert!(error.contains("`x86-64-v9` is no level"), "{error}");
    let error = run("replay", &path, "--backend", "wrong-sine").unwrap_err();
    assert!(error.starts_with("1 of 1 runs on wrong-sine are not what the file expects"), "{error}");
    assert!(error.contains("node %1 \"y\" is"), "{error}");
    let error = run("replay", &path, "--backend", "abacus").unwrap_err();
    assert!(error.contains("wrong-sine (the interpreter with cosines for sines)"), "{error}");
}

#[test]
fn a_difference_is_reduced_to_the_operation_that_causes_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = program(folder.path());
    let small = run("reduce", &path, "--with", "wrong-sine,interpreter").unwrap();
    assert!(small.contains("sin(") && small.lines().count() <= 15, "{small}");
    assert!(!small.contains("2.0f32"), "the other nest is gone: {small}");
    let again = folder.path().join("small.lir");
    fs::write(&again, &small).unwrap();
    assert!(run("reduce", &again, "--with", "wrong-sine").unwrap().contains("sin("));
    let error = run("reduce", &path, "--with", "interpreter").unwrap_err();
    assert!(
        error.starts_with("there is nothing to reduce:") && error.contains("the results agree"),
        "{error}"
    );
}

/// A capsule of native code that is simplified by the equations of real numbers, although the default is not.
#[test]
fn a_replay_compiles_as_the_capsule_says() {
    let folder = tempfile::tempdir().unwrap();
    let mut settings = Settings::default();
    settings.debugging.capsules = folder.path().to_str().unwrap().to_owned();
    settings.numerics = NumericClass::Real;
    let backend = Backend::open_with("inline", &settings).unwrap();
    let [x, y] = ["x", "y"].map(|name| TensorNode::builder(name).dims([4]).build().unwrap());
    let code = backend.compile_named("sum", "y[i] := (x[i] + 1000.1) - 999.9", [&x, &y]).unwrap();
    let values = HostArray::from_slice(&[f32::INFINITY, 1.1, 1.2, 1.3], [4]).unwrap();
    let context = backend.context().unwrap().init_from_host(&x, &values).unwrap();
    code.link(&context).unwrap().run(&[]).unwrap();

    let capsule = folder.path().join("sum.lir");
    for name in ["inline", "multicore", "interpreter"] {
        let text = run("replay", &capsule, "--backend", name).unwrap();
        assert!(text.contains(", as the capsule expects"), "{text}");
    }
    let levels = object_loader::levels();
    let at_least = levels.iter().map(|level| format!("object:{level}:tiles"));
    for name in at_least.chain(["object".to_owned()]) {
        let text = run("replay", &capsule, "--backend", &name).unwrap();
        assert!(text.contains(", as the capsule expects"), "{name}: {text}");
    }
    let text = fs::read_to_string(&capsule).unwrap();
    fs::write(&capsule, text.replace("numerics=real", "numerics=fast")).unwrap();
    let error = run("replay", &capsule, "--backend", "inline").unwrap_err();
    assert!(error.contains("%2 has other bits"), "{error}");
    let file = capsule.to_str().unwrap();
    let text = lir_replay::run(["lir-replay", "bisect", file].map(Into::into)).unwrap();
    assert!(text.ends_with(": no pass changes the results\n"), "{text}");
    let text = fs::read_to_string(&capsule).unwrap();
    fs::write(&capsule, text.replace("; caps: {", "; caps: [")).unwrap();
    let error = run("bisect", &capsule, "--backend", "inline").unwrap_err();
    assert!(error.contains("; caps: ["), "{error}");
}

/// From a wrong number to a file, and from the file to the same number on the backend that made it.
#[test]
fn a_capsule_is_replayed_with_its_digests() {
    let folder = tempfile::tempdir().unwrap();
    let mut settings = Settings::default();
    settings.debugging.capsules = folder.path().to_str().unwrap().to_owned();
    let backend = Backend::open_with("wrong-sine", &settings).unwrap();
    let [x, y] = ["x", "y"].map(|name| TensorNode::builder(name).dims([3]).build().unwrap());
    let code = backend.compile_named("wave", "y[i] := sin(x[i]) / 2", [&x, &y]).unwrap();
    let values = HostArray::from_slice(&[0.0f32, 1.0, 2.0], [3]).unwrap();
    let context = backend.context().unwrap().init_from_host(&x, &values).unwrap();
    code.link(&context).unwrap().run(&[]).unwrap();

    let capsule = folder.path().join("wave.lir");
    let text = run("replay", &capsule, "--backend", "interpreter").unwrap();
    assert!(text.contains("has digest 0x") && text.contains(", as the capsule expects"), "{text}");
    let error = run("replay", &capsule, "--backend", "wrong-sine").unwrap_err();
    assert!(error.contains("has other bits") && error.contains(", expected 0x"), "{error}");
    assert!(run("reduce", &capsule, "--with", "wrong-sine").unwrap().contains("sin("));
}
