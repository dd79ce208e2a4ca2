//! What a verified routine goes through, for the fuzz targets.

use codegen_core::{Codegen, schedule};
use lowered_ir::{ir::Routine, pipeline, text, verify};

/// Sends a verified routine through the optimiser, the scheduler and the codegen; each stage's result must verify. A refusal is an
/// answer, a panic is a finding.
pub fn every_stage(routine: Routine) {
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
        match codegen.compile(&scheduled) {
            Ok(_) | Err(codegen_core::CodegenError::Unsupported { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}
