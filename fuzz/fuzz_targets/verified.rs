//! Text that verifies: every pass, the scheduler and the codegen answer.
#![no_main]

use arrayjit_fuzz::every_stage;
use libfuzzer_sys::fuzz_target;
use lowered_ir::{text, verify};

fuzz_target!(|data: &[u8]| {
    let Ok(source) = std::str::from_utf8(data) else { return };
    let Ok(routine) = text::parse(source) else { return };
    if verify::verify(&routine).is_ok() {
        every_stage(routine);
    }
});
