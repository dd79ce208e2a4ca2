//! Machine instructions as text, for listings.

use cranelift_codegen::Context;
use cranelift_codegen::control::ControlPlane;
use cranelift_codegen::ir::Function;
use cranelift_codegen::isa::TargetIsa;
use iced_x86::{Decoder, DecoderOptions, Formatter, NasmFormatter};
use vector_asm::{Isa, VectorCode};

/// Compiles a function with Cranelift and returns its machine instructions in Cranelift's notation.
pub(crate) fn cranelift(func: Function, isa: &dyn TargetIsa) -> Result<String, String> {
    let mut context = Context::for_function(func);
    context.set_disasm(true);
    let code = context.compile(isa, &mut ControlPlane::default()).map_err(|e| e.inner.to_string())?;
    Ok(code.vcode.clone().unwrap_or_default())
}

/// Disassembles the instructions of a vector program, one per line, preceded by its offset from the start;
/// those of ARM64 are shown as words. Constants are not shown.
pub(crate) fn text(code: &VectorCode, isa: Option<Isa>) -> String {
    let bytes = &code.bytes()[..code.instruction_bytes()];
    let (mut text, mut line) = (String::new(), String::new());
    if isa == Some(Isa::Neon) {
        for (at, word) in bytes.chunks_exact(4).enumerate() {
            let word = word.iter().rev().fold(0, |word, byte| word << 8 | u32::from(*byte));
            text += &format!("{:6x}  .inst {word:#010x}\n", 4 * at);
        }
        return text;
    }
    let mut decoder = Decoder::new(64, bytes, DecoderOptions::NONE);
    let mut formatter = NasmFormatter::new();
    while decoder.can_decode() {
        let instruction = decoder.decode();
        line.clear();
        formatter.format(&instruction, &mut line);
        text += &format!("{:6x}  {line}\n", instruction.ip());
    }
    text
}
