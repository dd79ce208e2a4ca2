//! Bounds are around the interpreter's results, contain the results of permitted alternatives, and are narrow
//! enough to detect errors.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a failing step fails the test")]

use codegen_core::{Caps, Codegen, Interpreted};
use codegen_testkit::{
    Agreement, Report,
    bounds::{Bounds, Closeness},
    run_corpus_on, run_generated_on,
};
use device_runtime::Device;
use filetests::{
    RunCase,
    generate::{bytes_of_seed, routine_from_seed},
};
use scheduler_multicore::{Cpu, CpuConfig, Inline};
use tnode::Scalar;

/// Computes bounds and checks that the numbers in their centers equal the interpreter's, except for NaNs.
fn assert_values_are_the_interpreters(case: &RunCase) -> Bounds {
    let bounds = Bounds::of(case).unwrap();
    let nodes = case.interpret().unwrap();
    for ((values, bytes), decl) in bounds.values().zip(&nodes).zip(&case.routine.nodes) {
        let meant =
            bytes.chunks_exact(decl.dtype.size_bytes()).map(|chunk| Scalar::read(decl.dtype, chunk).unwrap());
        for (value, meant) in values.into_iter().zip(meant) {
            let nan = |x: Scalar| x.dtype().is_float() && x.as_f64().is_nan();
            assert!(
                value == meant || nan(value) && nan(meant),
                "{}: {value:?}, not {meant:?}",
                case.path.display()
            );
        }
    }
    bounds
}

#[test]
fn bounds_are_around_what_the_corpus_computes() {
    let mut close = Closeness::default();
    for case in filetests::run_cases() {
        let bounds = assert_values_are_the_interpreters(&case);
        close = close.and(bounds.check(&case.routine, &case.interpret().unwrap(), 1.0).unwrap());
        bounds.check_expected(&case, &case.interpret().unwrap()).unwrap();
    }
    println!("{close}");
    assert!(close.elements > 1000 && close.worst == 0.0 && close.equal == close.elements, "{close}");
    // All elements of the corpus have a bound, except a product of a computed 0 with infinity, differences of
    // infinities, and a few conversions and quotients at a discontinuity.
    assert!(close.open <= 14, "{close}");
}

/// A random routine with memory and bindings.
fn generated(seed: u64) -> RunCase {
    RunCase::drawn(routine_from_seed(seed, 200), &bytes_of_seed(seed ^ 0x5eed, 4096))
}

#[test]
fn bounds_are_around_what_random_routines_compute() {
    let mut close = Closeness::default();
    for case in (0..300).map(generated) {
        let bounds = assert_values_are_the_interpreters(&case);
        close = close.and(bounds.check(&case.routine, &case.interpret().unwrap(), 1.0).unwrap());
    }
    println!("{close}");
    // Random arithmetic often gives infinities and discontinuities; most elements must still be compared.
    assert!(close.open < close.elements / 4, "{close}");
}

/// A target whose schedules reorder sums and contract products.
fn reordering() -> Caps {
    Caps { vector_bytes: 32, vector_registers: 16, threads: 4, ..Interpreted::new().caps().clone() }
}

#[test]
fn reordered_and_contracted_sums_are_within_bounds() {
    let codegen = Interpreted::of_target(reordering());
    let device = Device::new(std::sync::Arc::new(Cpu::<Inline>::inline(CpuConfig::default())), 0);
    let report: Report = run_corpus_on(&codegen, &device, Agreement::Bounds);
    println!("{report}");
    assert!(report.conforms(), "{report}");
    let mut close = report.closeness;
    for seed in filetests::effort::seeds(25) {
        let bytes = bytes_of_seed(seed ^ 0x5eed, 4096);
        let routine = routine_from_seed(seed, 200);
        match run_generated_on(&codegen, &device, &routine, &bytes, Agreement::Bounds) {
            Ok(more) => close = close.and(more),
            Err(outcome) => panic!("{seed}: {outcome:?}"),
        }
    }
    println!("{close}");
    assert!(close.equal < close.elements, "nothing was reordered: {close}");
}

/// A small error is detected.
#[test]
fn an_error_of_the_tenth_digit_is_too_much() {
    let mut found = 0;
    for case in filetests::run_cases() {
        let bounds = Bounds::of(&case).unwrap();
        let mut nodes = case.interpret().unwrap();
        for (bytes, decl) in nodes.iter_mut().zip(&case.routine.nodes) {
            for chunk in bytes.chunks_exact_mut(decl.dtype.size_bytes()) {
                let value = Scalar::read(decl.dtype, chunk).unwrap();
                let off = match decl.dtype.is_float() {
                    true => Scalar::from_f64(decl.dtype, value.as_f64() * (1.0 + 2f64.powi(-12))),
                    false => Scalar::new(decl.dtype, value.bits() ^ 1),
                };
                off.write(chunk).unwrap();
            }
        }
        found += usize::from(bounds.check(&case.routine, &nodes, 1.0).is_err());
    }
    let all = filetests::run_cases().count();
    assert!(found * 10 >= all * 9, "{found} of {all} runs");
}
