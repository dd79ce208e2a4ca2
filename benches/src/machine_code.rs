//! Golden files of the code of each case for NVIDIA GPUs: the registers, shared memory and machine
//! instructions of every kernel. They are made without a GPU, and make a change of code quality visible in
//! review. No kernel spills registers, except those that [`SPILLS`] lists.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use arrayjit::{Backend, BackendParts, Compiled, Settings, TensorNode};
use codegen_core::{Payload, PtxModule};
use codegen_ptx::{PtxOptions, Target, ptx};
use codegen_testkit::assembler::{Assembled, CudaTools};
use codegen_testkit::gpu;
use device_runtime::{Device, NullDevice};
use expect_test::{ExpectFile, expect_file};

use crate::{case::Case, cases};

/// The most registers of a thread.
const MOST_REGISTERS: u32 = 255;

/// The kernels that spill registers: target, case, name, and the bytes that a thread spills, loads and stores
/// together. The scheduler does not count addresses when it chooses how many elements a thread loads ahead,
/// and NVIDIA's assembler keeps the address of each load. In `lenet_train_32` it is one value of 8 bytes; on
/// `sm_70`, which computes conversions from and to bf16 by integers, some values of 4 bytes.
const SPILLS: [(Target, &str, &str, u32); 3] = [
    (Target::Sm90a, "lenet_train_32", "b5_k7", 16),
    (Target::Sm70, "gpt_train_bf16_8x1024x768", "adam_c_53_k71", 20),
    (Target::Sm70, "gpt_train_bf16_8x1024x768", "adam_c_53_k72", 36),
];

/// A case whose 64 steps in time have the same kernels up to offsets, which take minutes to assemble. Three
/// steps of it are assembled instead, and not recorded: the first, one between others, and the last.
const REPETITIVE: &str = "lstm_train_32x64x256";

#[test]
#[ignore = "long: `cargo xtask ci --full` runs it"]
fn kernels_for_sm_70() {
    check("kernels_for_sm_70", Target::Sm70, &expect_file!["../ptx/sm_70.txt"]);
}

#[test]
#[ignore = "long: `cargo xtask ci --full` runs it"]
fn kernels_for_sm_80() {
    check("kernels_for_sm_80", Target::Sm80, &expect_file!["../ptx/sm_80.txt"]);
}

#[test]
fn kernels_for_sm_90a() {
    check("kernels_for_sm_90a", Target::Sm90a, &expect_file!["../ptx/sm_90a.txt"]);
}

fn check(test: &str, target: Target, golden: &ExpectFile) {
    let Some(tools) = gpu::or_skip(test, CudaTools::find()) else { return };
    let (mut text, mut spills) = (String::new(), Vec::new());
    let recorded = cases::all().into_iter().filter(|case| case.name != REPETITIVE);
    for case in recorded.chain([cases::few_steps()]) {
        let is_recorded = case.name != cases::few_steps().name;
        let modules = modules(&case, target);
        assert!(!modules.is_empty(), "{} has no kernel", case.name);
        for module in modules {
            let made = tools.assemble(module.text(), target.name());
            let made = made.unwrap_or_else(|said| panic!("{}: {said}\n{}", case.name, module.text()));
            for launch in module.launches() {
                let (name, made) = (&launch.entry, &made[&launch.entry]);
                let what = format!("{} {name} for {}: {made:?}", case.name, target.name());
                if made.spilled_bytes > 0 {
                    spills.push((target, case.name, name.clone(), made.spilled_bytes));
                }
                // Each byte of a spilled register is stored and loaded at least once.
                assert!(made.stack_bytes * 2 <= made.spilled_bytes, "{what}: an array in local memory");
                assert!(made.registers <= MOST_REGISTERS, "{what}");
                if !is_recorded {
                    continue;
                }
                let (blocks, threads) = (launch.blocks, launch.threads);
                let _ = write!(
                    text,
                    "{} {name}: {blocks} x {threads} threads, {} registers",
                    case.name, made.registers
                );
                if made.spilled_bytes > 0 {
                    let _ = write!(text, ", {} bytes spilled", made.spilled_bytes);
                }
                let _ = writeln!(text, "\n   {}", histogram(made));
            }
        }
    }
    let expected = SPILLS.map(|(target, case, name, bytes)| (target, case, name.to_owned(), bytes));
    let expected: Vec<_> = expected.into_iter().filter(|spill| spill.0 == target).collect();
    assert_eq!(spills, expected, "the kernels that spill are others than the list says");
    golden.assert_eq(&text);
}

/// A case compiled for a GPU without one.
pub(crate) fn compiled(case: &Case, target: Target) -> Compiled {
    let nodes: Vec<_> = case.nodes.iter().map(|node| node.build().expect("a node")).collect();
    compiled_text(case.name, &case.text, &nodes, target)
}

/// A backend that compiles for a GPU without one. `name` is for messages.
pub(crate) fn backend(name: &str, target: Target) -> Backend {
    let codegen = Arc::new(ptx(target, PtxOptions::default()));
    let device = Device::new(Arc::new(NullDevice::new()), 0);
    let mut settings = Settings::default();
    settings.narrow_gradients = true;
    let backend = Backend::from_parts("ptx", BackendParts::new(codegen, device), &settings);
    backend.unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// A text compiled for a GPU without one. `name` is for messages.
pub(crate) fn compiled_text(name: &str, text: &str, nodes: &[TensorNode], target: Target) -> Compiled {
    let compiled = backend(name, target).compile(text, nodes);
    let compiled = compiled.unwrap_or_else(|error| panic!("{name}: {error}"));
    assert!(compiled.fallbacks().is_empty(), "{name} falls back");
    compiled
}

/// The PTX of a case.
fn modules(case: &Case, target: Target) -> Vec<Arc<PtxModule>> {
    let compiled = compiled(case, target);
    let module = |payload: &Payload| match payload {
        Payload::Ptx(module) => Arc::clone(module),
        other => panic!("{}: {other:?}", case.name),
    };
    compiled.codes().map(|code| module(code.artifact().payload())).collect()
}

/// The number of occurrences of each instruction in a kernel, without modifiers.
fn histogram(made: &Assembled) -> String {
    let mut counts = BTreeMap::<&str, usize>::new();
    for (opcode, count) in &made.opcodes {
        let name = opcode.split('.').next().unwrap_or(opcode);
        // The amount of padding varies for reasons beyond our control.
        if name != "NOP" {
            *counts.entry(name).or_default() += count;
        }
    }
    counts.iter().fold(String::new(), |text, (name, count)| format!("{text} {name} {count}"))
}
