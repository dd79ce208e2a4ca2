//! The deepest routine that the verifier accepts passes through every stage on half the stack that
//! `lowered_ir::stack::with_enough` provides, even in unoptimized builds.

use codegen_core::{Caps, Codegen, Interpreted, Workgroups, check_form};
use lowered_ir::{
    interp::{Memory, run},
    ir::LoweredRoutine,
    pipeline::{OptimizeSettings, optimize},
    text::{MAX_NESTING, parse, print},
    verify::verify,
};
use scheduling::{ScheduleOptions, schedule};

/// The deepest routine.
fn deepest() -> LoweredRoutine {
    deep(1)
}

/// As many nested loops as allowed, of `extent` iterations each, around an expression of the greatest allowed
/// depth.
fn deep(extent: usize) -> LoweredRoutine {
    let open: String = (0..MAX_NESTING).map(|i| format!("for i{i} in 0..{extent} {{\n")).collect();
    let levels = MAX_NESTING - 2;
    let value =
        format!("{}%0[i0]{}", "where(%0[i0] < %0[i1], %0[i2] * %0[i3], ".repeat(levels), ")".repeat(levels));
    let nodes = format!("node %0 \"x\" f32[{extent}] on_device node %1 \"y\" f32[{extent}] on_device");
    let text =
        format!("routine @deepest {{ {nodes} {open} %1[i255] := {value} {} }}", "}".repeat(MAX_NESTING));
    parse(&text).expect("a routine")
}

/// Runs a test on a stack of 2 MiB.
fn on_half_the_stack(test: fn(LoweredRoutine)) {
    let thread = std::thread::Builder::new().stack_size(2 << 20).spawn(move || test(deepest()));
    thread.expect("a thread").join().expect("no panic");
}

#[test]
fn the_deepest_routine_is_verified_and_printed() {
    on_half_the_stack(|routine| {
        assert_eq!(verify(&routine), Ok(()));
        assert_eq!(parse(&print(&routine)).map(|r| r.body), Ok(routine.body));
    });
}

#[test]
fn the_deepest_routine_is_interpreted() {
    on_half_the_stack(|routine| {
        let mut memory = Memory::zeroed(&routine);
        assert_eq!(run(&routine, &mut memory, &[]), Ok(()));
    });
}

#[test]
fn the_deepest_routine_is_optimized() {
    on_half_the_stack(|routine| {
        let optimized = optimize(routine, &OptimizeSettings::default()).expect("optimizes");
        assert_eq!(verify(&optimized.routine), Ok(()));
    });
}

#[test]
fn the_deepest_routine_is_scheduled() {
    on_half_the_stack(|routine| {
        let caps = Caps { vector_bytes: 16, threads: 2, ..Interpreted::new().caps().clone() };
        let codegen = Interpreted::of_target(caps);
        let scheduled = schedule(&routine, &codegen, &ScheduleOptions::default()).expect("schedules");
        assert!(scheduled.kernels().iter().all(|kernel| verify(kernel.ir()).is_ok()));
        assert!(codegen.compile(&scheduled).is_ok());
    });
}

#[test]
fn the_deepest_routines_are_scheduled_for_workgroups() {
    on_half_the_stack(|routine| {
        let workgroups = Workgroups::new(256, 16_384);
        let caps = Caps { workgroups: Some(workgroups), ..Interpreted::new().caps().clone() };
        for routine in [routine, deep(2)] {
            let scheduled =
                schedule(&routine, &Interpreted::of_target(caps.clone()), &ScheduleOptions::default())
                    .expect("schedules");
            for kernel in scheduled.kernels() {
                assert_eq!(verify(kernel.ir()), Ok(()));
                assert_eq!(check_form(kernel.ir(), workgroups), Ok(()));
            }
        }
    });
}
