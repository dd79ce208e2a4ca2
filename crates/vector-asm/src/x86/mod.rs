//! x86-64: the instruction tables of AVX2 and AVX-512, and their encoding.
//!
//! All vector instructions are VEX- or EVEX-encoded. A function ends with `vzeroupper`, because legacy SSE
//! code of the caller is slow while upper halves of registers are in use.

mod avx2; // the AVX2 instruction table
mod avx512; // the AVX-512 instruction table
mod encode; // vector instructions
mod general; // instructions on general registers
mod vector; // vector instructions with their operands

use iced_x86::{Code as Encoding, Encoder};

use crate::code::{VectorCode, VectorCompileError};
use crate::emit::ConstantPool;
use crate::machine::{GeneralRegisters, MachineProgram};
use crate::op::Op;
use crate::processor::Isa;

/// The general registers of the System V calling convention.
pub(crate) const GENERAL: GeneralRegisters = GeneralRegisters {
    pointers: &[7, 6, 2, 1, 8, 9, 10, 3, 12, 13, 14, 15],
    arguments: [7, 6, 2, 1, 8],
    saved: &[3, 12, 13, 14, 15],
    temporary: TEMPORARY,
    second: 11,
    stack: STACK,
};

/// The number of the general register for a temporary value, such as a word of the stack frame that an
/// instruction uses.
const TEMPORARY: u8 = 0;
/// The number of the general register for a second temporary value.
const SECOND: u8 = 11;
/// The number of the general register that is the stack pointer.
const STACK: u8 = 4;
/// The number of the general register that is the frame pointer.
const FRAME: u8 = 5;

/// How a mask register treats the lanes that it does not select.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Masking {
    None,
    Zeroing,
    Merging,
}

/// Encodes functions for x86-64.
pub(crate) struct X86Assembler {
    isa: Isa,
    encoder: Encoder,
    length: usize,
    /// References to constants: the position of the displacement, the position that it is relative to, and
    /// the constant.
    fixups: Vec<(usize, usize, u32)>,
    pool: ConstantPool,
    /// Displacements to fill in at the end.
    patches: Vec<(usize, i32)>,
    error: Option<String>,
}

impl X86Assembler {
    /// An assembler without instructions.
    pub(crate) fn new(isa: Isa) -> X86Assembler {
        X86Assembler {
            isa,
            encoder: Encoder::new(64),
            length: 0,
            fixups: Vec::new(),
            pool: ConstantPool::default(),
            patches: Vec::new(),
            error: None,
        }
    }

    fn finished(mut self, unit: &MachineProgram) -> Result<VectorCode, VectorCompileError> {
        if let Some(error) = self.error {
            return Err(VectorCompileError::Encoder(error));
        }
        let mut bytes = self.encoder.take_buffer();
        let instructions = bytes.len();
        let pool = self.pool.append(&mut bytes, unit);
        for &(at, end, constant) in &self.fixups {
            let distance = (pool + self.pool.offset(constant, unit)) as i64 - end as i64;
            self.patches.push((at, distance as i32));
        }
        for (at, distance) in &self.patches {
            bytes[*at..*at + 4].copy_from_slice(&distance.to_le_bytes());
        }
        Ok(VectorCode { bytes, instructions })
    }

    /// The encoding of an instruction, and its operands.
    fn encoding(&self, op: Op) -> (Encoding, &'static str) {
        if self.isa == Isa::Avx512 { avx512::encoding(op) } else { avx2::encoding(op) }
    }

    /// The encodings of a fused multiply-add `a · b + c`, named by operand positions: 132 replaces `a` and
    /// takes `b` from memory, 213 replaces `a` and takes `c` from memory, and 231 replaces `c`.
    fn fma_codes(&self, op: Op) -> [Encoding; 3] {
        if self.isa == Isa::Avx512 { avx512::fma_codes(op) } else { avx2::fma_codes(op) }
    }
}

/// A bit for each source that may be in memory, by its position.
pub(crate) fn memory_sources(op: Op) -> u8 {
    if op.is_fma() {
        return 0b111;
    }
    let operand = avx2::encoding(op).1.bytes().position(|class| class.is_ascii_uppercase());
    operand.map_or(0, |operand| 1 << (operand - 1))
}

/// A bit for each source whose register the result may replace.
pub(crate) fn result_sources(op: Op) -> u8 {
    if op.is_fma() { 0b111 } else { 0 }
}

/// The load instruction that a memory operand of an instruction replaces.
pub(crate) fn operand_load(isa: Isa, op: Op) -> Option<Op> {
    let is_short = avx2::encoding(op).1.contains('X');
    match op {
        // No load instruction of this table has the length of these operands, which is a half or a quarter
        // of a wide register.
        _ if isa == Isa::Avx512 && is_short => None,
        Op::ExtendU8 | Op::ExtendI8 => Some(Op::Load64),
        _ if is_short => Some(Op::Load128),
        _ => Some(Op::Load),
    }
}
