//! ARM64: the instruction table of NEON, and its encoding. Every instruction is a word of 32 bits.

mod encode; // words
mod general; // instructions on general registers
mod immediate; // constants in instructions
mod neon; // the NEON instruction table
#[cfg(test)]
mod tests; // words compared with those of an assembler
mod vector; // vector instructions with their operands

pub(crate) use neon::result_sources;

use crate::code::{VectorCode, VectorCompileError};
use crate::emit::ConstantPool;
use crate::machine::{GeneralRegisters, MachineProgram};

/// The general registers of the procedure call standard (AAPCS64). Register 18 belongs to the platform.
pub(crate) const GENERAL: GeneralRegisters = GeneralRegisters {
    pointers: &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28],
    arguments: [0, 1, 2, 3, 4],
    saved: &[19, 20, 21, 22, 23, 24, 25, 26, 27, 28],
    temporary: TEMPORARY,
    second: 17,
    stack: STACK,
};

/// The number of the general register for a temporary value of the emitter.
const TEMPORARY: u8 = 16;
/// The number of the general register that is the stack pointer.
const STACK: u8 = 31;
/// The number of the general register for temporary values within this module.
const SPARE: u8 = 15;
/// The first vector register whose lower half is callee-saved; there are eight.
const FIRST_SAVED: u8 = 8;

/// The number of an assigned vector register. Callee-saved registers are assigned last.
fn hardware(register: u8) -> u32 {
    u32::from(match register {
        0..8 => register,
        8..24 => register + 8,
        _ => register - 16,
    })
}

/// Encodes functions for ARM64.
#[derive(Default)]
pub(crate) struct Arm64Assembler {
    words: Vec<u32>,
    /// Loads of constants: the position of the word, and the constant.
    fixups: Vec<(usize, u32)>,
    pool: ConstantPool,
    error: Option<String>,
}

impl Arm64Assembler {
    fn finished(mut self, unit: &MachineProgram) -> Result<VectorCode, VectorCompileError> {
        let instructions = self.words.len() * 4;
        let mut constants = vec![0; instructions];
        let pool = self.pool.append(&mut constants, unit);
        for (at, constant) in std::mem::take(&mut self.fixups) {
            let target = pool + self.pool.offset(constant, unit);
            self.reach(at, target);
        }
        if let Some(error) = self.error {
            return Err(VectorCompileError::Encoder(error));
        }
        let mut bytes: Vec<u8> = self.words.iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes.extend_from_slice(&constants[instructions..]);
        Ok(VectorCode { bytes, instructions })
    }

    /// Makes the word at a byte position, a branch or a load of a constant, refer to another position.
    fn reach(&mut self, at: usize, target: usize) {
        let distance = (target as i64 - at as i64) / 4;
        if distance.unsigned_abs() >= 1 << 18 {
            self.error = Some(format!("a distance of {} bytes is too large", distance * 4));
        }
        self.words[at / 4] |= (distance as u32 & 0x7_ffff) << 5;
    }
}
