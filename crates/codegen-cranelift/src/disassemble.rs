//! The instructions of vector programs as text, for people.

use iced_x86::{Decoder, DecoderOptions, Formatter, NasmFormatter};
use vector_asm::Code;

/// One instruction a line, after its offset from the function's beginning; constants are not shown.
pub(crate) fn text(code: &Code) -> String {
    let mut decoder = Decoder::new(64, &code.bytes()[..code.instruction_bytes()], DecoderOptions::NONE);
    let mut formatter = NasmFormatter::new();
    let (mut text, mut line) = (String::new(), String::new());
    while decoder.can_decode() {
        let instruction = decoder.decode();
        line.clear();
        formatter.format(&instruction, &mut line);
        text += &format!("{:6x}  {line}\n", instruction.ip());
    }
    text
}
