//! Compiled code as a resource: several threads compile it at once, its options distinguish it, and listings
//! show it.

use crate::common;

use codegen_core::{Codegen, Payload, RoutineParts, ScheduledRoutine};
use codegen_cranelift::{CraneliftOptions, VectorWidth, cranelift, listing};
use common::{ADD, compare, compile, filled, kernel, parse, run_native};
use lowered_ir::interp;

#[test]
fn a_routine_has_its_kernels_in_order() {
    let texts: Vec<String> = (0..8).map(|k| ADD.replace("+ %1[i0]", &format!("* {k}.0f32"))).collect();
    let kernels: Vec<_> = texts.iter().map(|text| kernel(parse(text))).collect();
    let parts = RoutineParts {
        name: "many".into(),
        symbols: vec![],
        nodes: kernels[0].ir().nodes.clone(),
        kernels: kernels.clone(),
        calls: vec![],
        temps: vec![],
        overwritten: vec![],
    };
    let routine = ScheduledRoutine::new(parts).expect("kernels without calls");
    let codegen = cranelift(CraneliftOptions::default()).expect("this machine is supported");
    let artifact = codegen.compile(&routine).expect("supported kernels");
    let Payload::Host(module) = artifact.payload() else { panic!("host code") };
    assert_eq!((module.len(), artifact.kernels().len()), (8, 8));
    for (k, one) in kernels.iter().enumerate() {
        let memory = filled(one.ir(), 2);
        let mut expected = memory.clone();
        interp::run(one.ir(), &mut expected, &[]).expect("a valid kernel");
        let found = common::run_kernel(&artifact, k, one, &memory);
        compare(one, &memory, &expected, &found, &format!("kernel {k}"));
    }
}

#[test]
fn threads_compile_at_once() {
    let kernel = kernel(parse(ADD));
    std::thread::scope(|scope| {
        for seed in 0..4 {
            let kernel = &kernel;
            scope.spawn(move || {
                for _ in 0..25 {
                    let artifact = compile(kernel, &CraneliftOptions::default()).expect("a supported kernel");
                    let memory = filled(kernel.ir(), seed);
                    let mut expected = memory.clone();
                    interp::run(kernel.ir(), &mut expected, &[]).expect("a valid kernel");
                    compare(
                        kernel,
                        &memory,
                        &expected,
                        &run_native(&artifact, kernel, &memory, &[]),
                        "a thread",
                    );
                }
            });
        }
    });
}

#[test]
fn options_are_part_of_the_fingerprint() {
    let of = |options| cranelift(options).expect("this machine is supported").fingerprint();
    let base = CraneliftOptions::default();
    assert_eq!(of(base.clone()), of(base.clone()));
    assert_ne!(of(base.clone()), of(CraneliftOptions { vector: VectorWidth::None, ..base }));
}

#[test]
fn vectors_that_the_machine_lacks_are_an_error_that_lists_those_it_has() {
    // No machine has both NEON and AVX2.
    for vector in VectorWidth::ALL.into_iter().filter(|width| !width.is_available()) {
        let error = cranelift(CraneliftOptions { vector, ..CraneliftOptions::default() });
        let error = error.expect_err("no such vectors").to_string();
        assert!(error.contains(&format!("no vectors of the width `{vector}`, only `none`")), "{error}");
        assert!(error.contains(&format!("`{}`", VectorWidth::default())), "{error}");
    }
}

#[test]
fn listings_show_what_was_compiled() {
    let kernel = kernel(parse(ADD));
    let options = CraneliftOptions { vector: VectorWidth::Bits128, ..CraneliftOptions::default() };
    let both = listing(&kernel, &options).expect("a supported kernel");
    assert_eq!(both, listing(&kernel, &options).expect("a supported kernel"), "listings do not change");
    assert!(both.source.contains("fadd") && both.source.contains("f32x4"), "{}", both.source);
    assert!(!both.machine_code.is_empty());
    let scalar = listing(&kernel, &CraneliftOptions { vector: VectorWidth::None, ..options })
        .expect("a supported kernel");
    assert!(!scalar.source.contains("f32x4"), "{}", scalar.source);
}
