//! The interpreted code generator conforms: with its own capabilities, with capabilities for vectors and
//! threads, and behind a device.

use codegen_core::{Caps, Codegen, Interpreted, Transcendental};
use codegen_testkit::{Agreement, conformance, run_corpus_on};
use device_runtime::Device;
use scheduler_multicore::{Cpu, CpuConfig, Inline};

conformance!(the_interpreter, Interpreted::new, level = L4);
conformance!(
    #[ignore = "long: `cargo xtask ci --full` runs it"]
    the_interpreter_of_a_machine_with_vectors,
    || Interpreted::of_target(vectors(32)),
    level = L4
);
conformance!(
    #[ignore = "long: `cargo xtask ci --full` runs it"]
    the_interpreter_of_a_machine_without_narrow_arithmetic,
    || Interpreted::of_target(narrow()),
    level = L4
);

/// The capabilities of the interpreter with vectors and threads.
fn vectors(vector_bytes: usize) -> Caps {
    Caps { vector_bytes, vector_registers: 16, threads: 4, ..Interpreted::new().caps().clone() }
}

/// The capabilities of a machine that computes in few types, without transcendental operations.
fn narrow() -> Caps {
    use tnode::DType::{F32, F64, I32, I64, U8, U32, U64};
    let arithmetic = [F32, F64, I32, I64, U8, U32, U64].into_iter().collect();
    Caps { arithmetic, transcendental: Transcendental::Expanded, ..vectors(16) }
}

#[test]
fn the_interpreter_behind_a_device() {
    let driver: Cpu<Inline> = Cpu::<Inline>::inline(CpuConfig::default());
    let device = Device::new(std::sync::Arc::new(driver), 0);
    let report = run_corpus_on(&Interpreted::of_target(vectors(16)), &device, Agreement::Bits);
    println!("{report}");
    assert!(report.conforms(), "{report}");
}
