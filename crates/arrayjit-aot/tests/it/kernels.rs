//! Kernels of objects pass the tests of code generators: the corpus, and random programs at every stage.

use std::sync::Arc;

use codegen_core::Codegen;
use codegen_cranelift::VectorWidth;
use codegen_cranelift::object::{ObjectLevel, ObjectTarget};
use codegen_testkit::{Agreement, conformance, run_corpus_on};
use device_runtime::Device;
use object_loader::{TRIPLE, levels, loaded_codegen};
use scheduler_multicore::{Cpu, CpuConfig};

fn loaded(target: ObjectTarget) -> impl Codegen + 'static {
    loaded_codegen(target).expect("this architecture")
}

/// The codegen of the best or of the least level of this processor.
fn best_level() -> impl Codegen + 'static {
    loaded(target(*levels().last().expect("a level")).with_products())
}

fn least_level() -> impl Codegen + 'static {
    loaded(target(levels()[0]))
}

fn target(level: ObjectLevel) -> ObjectTarget {
    ObjectTarget::new(TRIPLE, level).expect("a target")
}

// Cases of higher levels have functions that object files lack, such as the sine of `f64`. No case may fail.
conformance!(
    #[ignore = "long: `cargo xtask ci --full` runs it"]
    conforms_at_the_best_level,
    best_level,
    level = L1
);
conformance!(
    #[ignore = "long: `cargo xtask ci --full` runs it"]
    conforms_at_the_least_level,
    least_level,
    level = L1
);

#[test]
fn the_mixed_level_is_chosen_where_a_process_mixes_vectors() {
    use arrayjit_rt::ProcessorLevel::{X86V2, X86V3, X86V4, X86V4Mixed};
    let chosen = arrayjit_rt::select(&[X86V4, X86V4Mixed, X86V3, X86V2]);
    assert_eq!(chosen == Ok(1), VectorWidth::default() == VectorWidth::Mixed, "{chosen:?}");
}

#[test]
fn kernels_of_objects_pass_the_corpus() {
    for level in levels() {
        let target = target(level);
        for (name, target) in [("tiles", target.clone()), ("products", target.with_products())] {
            let device = Device::new(Arc::new(Cpu::inline(CpuConfig::default())), 0);
            let report = run_corpus_on(&loaded(target), &device, Agreement::Bits);
            println!("{level}, {name}: {report}");
            assert!(report.conforms(), "{level}, {name}: {report}");
            assert!(report.passed() > 50, "{level}, {name}: {report}");
        }
    }
}
