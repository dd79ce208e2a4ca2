//! Capsules: a run whose result is not finite, or has other bits than the interpreter gives, is written as a
//! file that repeats it.
#![allow(clippy::unwrap_used, reason = "a failing step fails the test")]

use std::{fs, path::Path, sync::Arc};

use arrayjit::{
    Backend, BackendParts, Caps, Codegen, DType, HostArray, MergeBufferUse, Settings, TensorNode,
    capsule::{CapsuleCompilation, digest},
    settings::FallbackSetting,
};
use codegen_core::{Artifact, CodegenError, Interpreted, ScheduledRoutine, host::HostModule};
use codegen_testkit::run_in_own_process;
use filetests::RunCase;
use lowered_ir::verify::Verified;

fn settings(folder: &Path) -> Settings {
    let mut settings = Settings::default();
    settings.debugging.capsules = folder.to_str().unwrap().to_owned();
    settings
}

fn node(name: &str, dtype: DType) -> TensorNode {
    TensorNode::builder(name).dims([3]).dtype(dtype).build().unwrap()
}

/// Runs `y[i] := 1 / x[i] + t[i]` with a virtual `t`, and `x` as the host has it.
fn run(backend: &Backend, values: &[f32; 3]) {
    let [x, t, y] = ["x", "t", "y"].map(|name| node(name, DType::F32));
    let code = backend.compile_named("inverse", "t[i] := x[i] * 0.5\ny[i] := 1 / x[i] + t[i]", [&x, &t, &y]);
    let x_values = HostArray::from_slice(values, [3]).unwrap();
    let context = backend.context().unwrap().init_from_host(&x, &x_values).unwrap();
    let routine = code.unwrap().link(&context).unwrap();
    for _ in 0..2 {
        routine.run(&[]).unwrap();
    }
}

fn files(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().to_str().unwrap().to_owned()).collect();
    names.sort();
    names
}

/// The only run of a capsule. The definition computes what the capsule expects.
fn read(path: &Path) -> (String, RunCase) {
    let text = fs::read_to_string(path).unwrap();
    let mut cases = RunCase::parse_all(path, &text).unwrap();
    let nodes = cases[0].interpret().unwrap();
    cases[0].check(&nodes).unwrap();
    assert_eq!(cases.len(), 1);
    (text, cases.remove(0))
}

#[test]
fn a_result_that_is_not_finite_is_written_once_for_each_linked_routine() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("capsules");
    for name in ["interpreter", "inline", "multicore"] {
        let Ok(backend) = Backend::open_with(name, &settings(&folder)) else { continue };
        run(&backend, &[1.0, 2.0, 4.0]);
        assert_eq!(files(&folder), [""; 0], "finite, with the bits that the interpreter gives");
    }
    let backend = Backend::open_with("interpreter", &settings(&folder)).unwrap();
    run(&backend, &[1.0, 0.0, -3.5]);
    run(&backend, &[0.0, 0.0, 0.0]);
    assert_eq!(files(&folder), ["inverse-2.lir", "inverse.lir"]);
    let (text, case) = read(&folder.join("inverse.lir"));
    assert!(text.contains("; capsule: interpreter: node `y` is not finite"), "{text}");
    let compilation = CapsuleCompilation::parse(&text).unwrap();
    assert_eq!(compilation.caps(), Some(backend.codegen().caps()), "{text}");
    assert_eq!(compilation.settings().unwrap().settings.numerics, backend.settings().numerics);
    let x: Vec<u8> = [1.0f32, 0.0, -3.5].iter().flat_map(|value| value.to_le_bytes()).collect();
    assert_eq!(case.inputs[0], x, "{text}");
    assert!(text.contains("\"t\""), "the routine before the optimizer has its virtual node: {text}");
    let (text, _) = read(&folder.join("inverse-2.lir"));
    assert!(text.contains("; run: %0 = fill(0x0)"), "{text}");
}

#[test]
fn without_the_setting_nothing_is_written() {
    let backend = Backend::open_with("interpreter", &Settings::default()).unwrap();
    run(&backend, &[0.0; 3]);
    assert!(!Path::new("capsules").exists());
}

/// The interpreter, except that it computes no kernel at all.
struct Idle(Interpreted);

impl Codegen for Idle {
    fn name(&self) -> &str {
        "idle"
    }

    fn caps(&self) -> &Caps {
        self.0.caps()
    }

    fn fingerprint(&self) -> u64 {
        1
    }

    fn compile(&self, routine: &ScheduledRoutine) -> Result<Artifact, CodegenError> {
        struct Nothing;
        impl codegen_core::host::InterpretedKernel for Nothing {
            fn run(
                &self,
                _: &mut [codegen_core::host::HostArg<'_>],
                _: &[i64],
                _: &mut dyn FnMut(usize, &[tnode::Scalar]),
            ) -> Result<(), String> {
                Ok(())
            }
        }
        let kernels = routine.kernels().iter();
        let kernel = |kernel: &codegen_core::Kernel| {
            (Box::new(Nothing) as Box<dyn codegen_core::host::InterpretedKernel>, kernel.abi().clone())
        };
        Ok(Artifact::host(HostModule::interpreted(kernels.map(kernel).collect())))
    }
}

#[test]
fn other_bits_than_the_interpreter_gives_are_written_with_both_digests() {
    let folder = tempfile::tempdir().unwrap();
    let device = Backend::open_with("interpreter", &Settings::default()).unwrap().device().clone();
    let parts = BackendParts::new(Arc::new(Idle(Interpreted::new())), device);
    run(&Backend::from_parts("idle", parts, &settings(folder.path())).unwrap(), &[1.0, 2.0, 4.0]);
    let (text, _) = read(&folder.path().join("inverse.lir"));
    assert!(text.contains("; capsule: idle: node `y` has other bits than the interpreter gives"), "{text}");
    let digest_of = |values: [f32; 3]| digest(DType::F32, &values.map(f32::to_le_bytes).concat());
    let expected = format!("{:#018x}", digest_of([1.5, 1.5, 2.25]));
    let line = text.lines().find(|line| line.starts_with("; digest: ")).unwrap();
    assert!(line.contains(&format!(" = {expected}, found 0x")) && !line.ends_with(&expected), "{line}");
}

/// The interpreter, except that it rejects square roots.
struct NoRoots(Interpreted);

impl Codegen for NoRoots {
    fn name(&self) -> &str {
        "no-roots"
    }

    fn caps(&self) -> &Caps {
        self.0.caps()
    }

    fn fingerprint(&self) -> u64 {
        2
    }

    fn compile(&self, routine: &ScheduledRoutine) -> Result<Artifact, CodegenError> {
        let roots = routine.kernels().iter().find(|k| lowered_ir::text::print(k.ir()).contains("sqrt("));
        match roots {
            Some(kernel) => Err(CodegenError::Unsupported {
                codegen: "no-roots".into(),
                kernel: kernel.abi().name.clone(),
                op: "sqrt".into(),
                why: "the test says so".into(),
            }),
            None => self.0.compile(routine),
        }
    }
}

#[test]
fn a_routine_of_two_backends_is_written_too() {
    let folder = tempfile::tempdir().unwrap();
    let mut settings = settings(folder.path());
    settings.fallback = FallbackSetting::Interpreter;
    let device = Backend::open_with("interpreter", &Settings::default()).unwrap().device().clone();
    let parts = BackendParts::new(Arc::new(NoRoots(Interpreted::new())), device);
    let backend = Backend::from_parts("no-roots", parts, &settings).unwrap();
    let [x, y, z] = ["x", "y", "z"].map(|name| node(name, DType::F32));
    let code = backend.compile_named("roots", "y[i] := 1 / x[i]\nz[i] := sqrt(x[i])", [&x, &y, &z]).unwrap();
    assert_eq!(code.fallbacks().len(), 1);
    let values = HostArray::from_slice(&[4.0f32, 0.0, 9.0], [3]).unwrap();
    let context = backend.context().unwrap().init_from_host(&x, &values).unwrap();
    code.link(&context).unwrap().run(&[]).unwrap();
    let (text, case) = read(&folder.path().join("roots.lir"));
    assert!(text.contains("; capsule: no-roots: node `y` is not finite"), "{text}");
    assert_eq!(case.inputs[0], values.bytes(), "{text}");
    assert_eq!(case.expected.len(), 2, "both parts have results: {text}");
}

#[test]
fn the_merge_buffer_is_an_input() {
    let folder = tempfile::tempdir().unwrap();
    let backend = Backend::open_with("interpreter", &settings(folder.path())).unwrap();
    let [g, y] = ["g", "y"].map(|name| node(name, DType::F32));
    let code =
        backend.compile_named("merge", "g[i] += g.merge[i]\ny[i] := 1 / (g[i] - g[i])", [&g, &y]).unwrap();
    let with = |values: [f32; 3]| {
        let values = HostArray::from_slice(&values, [3]).unwrap();
        backend.context().unwrap().init_from_host(&g, &values).unwrap()
    };
    let (own, other) = (with([1.0, 2.0, 3.0]), with([0.5, 0.25, 0.125]));
    // The values of `y` before the run are no input of it.
    let own = own.init_from_host(&y, HostArray::from_slice(&[7f32; 3], [3]).unwrap()).unwrap();
    let routine = code.link(&own).unwrap();
    assert!(routine.run(&[]).is_err(), "nothing is in the merge buffer yet");
    let _ = routine.context().device_to_device(&g, MergeBufferUse::Copy, &other).unwrap();
    routine.run(&[]).unwrap();
    let (text, case) = read(&folder.path().join("merge.lir"));
    let merged: Vec<u8> = [0.5f32, 0.25, 0.125].iter().flat_map(|value| value.to_le_bytes()).collect();
    assert_eq!(case.merge.as_ref(), Some(&merged), "{text}");
    let inputs = text.lines().find(|line| line.starts_with("; run: ")).unwrap();
    assert!(inputs.contains("%2 = fill(0x0), merge %0 = ["), "{text}");
}

/// The next test runs this one in a process of its own.
#[test]
fn runs_a_task() {
    let folder = tempfile::tempdir().unwrap();
    let mut settings = settings(folder.path());
    settings.debugging.level = Settings::load().unwrap().settings.debugging.level;
    let backend = Backend::open_with("interpreter", &settings).unwrap();
    let y = node("y", DType::F32);
    let code = backend.compile_named("endless", "y[i] := 1 / (i - i)", [&y]).unwrap();
    let routine = code.link(&backend.context().unwrap()).unwrap();
    for _ in 0..2 {
        routine.schedule(&[]).unwrap().run().unwrap();
    }
    routine.context().stream().sync().unwrap();
    assert_eq!(files(folder.path()), [""; 0]);
}

#[test]
fn a_task_without_a_capsule_is_reported_once() {
    let printed = |level: &str| {
        let output = run_in_own_process("capsules::runs_a_task", |test| {
            test.env("ARRAYJIT_DEBUG", level);
        });
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let text = printed("1");
    let line = "arrayjit: routine endless: a run as a task writes no capsule\n";
    assert_eq!(text.matches(line).count(), 1, "{text}");
    assert!(!printed("0").contains("capsule"));
}

#[test]
fn a_routine_of_the_loop_ir_needs_a_node_for_each_declaration() {
    let backend = Backend::open_with("interpreter", &Settings::default()).unwrap();
    let text = "routine @r strict {\n  node %0 \"x\" f32[3] on_device\n  zero %0\n}\n";
    let routine = || Verified::new(lowered_ir::text::parse(text).unwrap()).unwrap();
    let x = node("x", DType::F32);
    let error = backend.compile_lowered(routine(), [&x, &x]).unwrap_err();
    assert_eq!(error.to_string(), "routine `r` has 1 nodes, but 2 were given");
    let compiled = backend.compile_lowered(routine(), [&x]).unwrap();
    assert_eq!((compiled.name(), compiled.nodes()), ("r", &[x][..]));
}

#[test]
fn digests_tell_bits_apart_but_not_nans() {
    let of = |values: [f32; 2]| digest(DType::F32, &values.map(f32::to_le_bytes).concat());
    assert_ne!(of([0.0, 1.0]), of([-0.0, 1.0]));
    assert_ne!(of([0.0, 1.0]), of([1.0, 0.0]));
    assert_eq!(of([f32::NAN, 1.0]), of([f32::from_bits(0x7fc0_0001), 1.0]));
    assert_eq!(digest(DType::F32, &[]), 0xcbf2_9ce4_8422_2325, "64-bit FNV-1a begins with this number");
    assert_eq!(digest(DType::U8, b"a"), 0xaf63_dc4c_8601_ec8c, "and this is its published value of `a`");
}
