//! Random routines that verify, drawn from the bytes: every pass, the scheduler and the codegen answer.
//!
//! The generator reaches far more of the compiler than mutated text does; [`verified`](../verified.rs) reaches stranger inputs.
#![no_main]

use arrayjit_fuzz::every_stage;
use filetests::generate::routine_from_bytes;
use libfuzzer_sys::fuzz_target;
use lowered_ir::verify::verify;

fuzz_target!(|data: &[u8]| {
    let routine = routine_from_bytes(data);
    verify(&routine).expect("generated routines verify");
    every_stage(routine);
});
