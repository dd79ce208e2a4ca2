//! Instructions on general registers, which hold pointers and trip counts, and on words of the stack frame.

use super::immediate::vector_constant;
use super::{Arm64Assembler, FIRST_SAVED, SPARE, STACK, TEMPORARY, hardware};
use crate::code::{VectorCode, VectorCompileError};
use crate::emit::{Assembler, Branch, FunctionFrame, InstOperands, Word};
use crate::machine::{Inst, MachineProgram};

/// Alignment of loop heads in words.
const ALIGNMENT: usize = 4;
const NOP: u32 = 0xd503_201f;
/// The words that store and load a general register with an unsigned displacement.
const STORE: u32 = 0xf900_0000;
const LOAD: u32 = 0xf940_0000;

impl Arm64Assembler {
    /// The register that holds a word, which is [`SPARE`] for a word of the stack frame.
    fn register_of(&mut self, word: Word) -> u32 {
        u32::from(match word {
            Word::Register(register) => register,
            Word::Stack(displacement) => {
                self.load_at(SPARE, STACK, displacement);
                SPARE
            }
        })
    }

    /// Encodes a branch whose distance is filled in later.
    fn branch(&mut self, word: u32) -> Branch {
        self.put(word);
        self.length() - 4
    }

    /// The pairs of callee-saved vector registers of which the function uses one.
    fn saved_pairs(frame: &FunctionFrame) -> impl DoubleEndedIterator<Item = u32> {
        let used = (0..32_u8).filter(|register| frame.vectors >> register & 1 == 1).map(hardware);
        let used = used.fold(0_u32, |bits, register| bits | 1 << register);
        let first = u32::from(FIRST_SAVED);
        (first..first + 8).step_by(2).filter(move |pair| used >> pair & 3 != 0)
    }
}

/// The bytes of a stack frame; the stack pointer is a multiple of 16.
fn aligned(bytes: i64) -> i64 {
    (bytes + 15) & !15
}

impl Assembler for Arm64Assembler {
    fn length(&self) -> usize {
        self.words.len() * 4
    }

    fn enter(&mut self, frame: &FunctionFrame) {
        let stack = u32::from(STACK);
        for pair in Self::saved_pairs(frame) {
            self.put(0x6dbf_0000 | (pair + 1) << 10 | stack << 5 | pair); // stp d, d, [sp, -16]!
        }
        for &register in &frame.saved {
            self.two(0xf81f_0c00, u32::from(register), stack); // str x, [sp, -16]!
        }
        let bytes = aligned(frame.bytes);
        if bytes > 0 {
            self.sum(STACK, STACK, -bytes, SPARE);
        }
    }

    fn leave(&mut self, frame: &FunctionFrame, _streaming: bool) {
        let (stack, bytes) = (u32::from(STACK), aligned(frame.bytes));
        if bytes > 0 {
            self.sum(STACK, STACK, bytes, SPARE);
        }
        for &register in frame.saved.iter().rev() {
            self.two(0xf841_0400, u32::from(register), stack); // ldr x, [sp], 16
        }
        for pair in Self::saved_pairs(frame).rev() {
            self.put(0x6cc1_0000 | (pair + 1) << 10 | stack << 5 | pair); // ldp d, d, [sp], 16
        }
        self.put(0xd65f_03c0); // ret
    }

    fn finish(self, unit: &MachineProgram) -> Result<VectorCode, VectorCompileError> {
        self.finished(unit)
    }

    fn load(&mut self, to: u8, from: Word) {
        match from {
            Word::Register(register) => self.move_register(to, register),
            Word::Stack(displacement) => self.load_at(to, STACK, displacement),
        }
    }

    fn store(&mut self, from: u8, to: Word) {
        match to {
            Word::Register(register) => self.move_register(register, from),
            Word::Stack(to) => self.access(STORE, 8, u32::from(from), STACK, to),
        }
    }

    fn load_at(&mut self, to: u8, base: u8, displacement: i64) {
        self.access(LOAD, 8, u32::from(to), base, displacement);
    }

    fn number(&mut self, to: u8, number: i64) {
        self.load_number(to, number);
    }

    fn add_number(&mut self, to: Word, number: i64, spare: u8) {
        match to {
            _ if number == 0 => {}
            Word::Register(to) => self.sum(to, to, number, spare),
            Word::Stack(at) => {
                self.load_at(SPARE, STACK, at);
                self.sum(SPARE, SPARE, number, spare);
                self.access(STORE, 8, u32::from(SPARE), STACK, at);
            }
        }
    }

    fn add(&mut self, to: u8, other: Word) {
        let other = self.register_of(other);
        self.three(0x8b00_0000, u32::from(to), u32::from(to), other);
    }

    fn subtract(&mut self, to: u8, other: Word) {
        let other = self.register_of(other);
        self.three(0xcb00_0000, u32::from(to), u32::from(to), other);
    }

    fn add_multiple(&mut self, to: u8, register: u8, factor: i64) {
        self.load_number(SPARE, factor);
        // madd to, register, spare, to
        self.three(0x9b00_0000 | u32::from(to) << 10, u32::from(to), u32::from(register), u32::from(SPARE));
    }

    fn multiply(&mut self, to: u8, register: u8, factor: i64) {
        self.load_number(SPARE, factor);
        self.three(0x9b00_7c00, u32::from(to), u32::from(register), u32::from(SPARE));
    }

    fn minimum(&mut self, to: u8, other: u8) {
        let (to, other) = (u32::from(to), u32::from(other));
        self.three(0xeb00_0000, 31, other, to); // cmp other, to
        self.three(0x9a80_b000, to, other, to); // csel to, other, to, lt
    }

    fn store_number(&mut self, displacement: i64, word: u32) {
        self.load_number(TEMPORARY, i64::from(word));
        self.access(0xb900_0000, 4, u32::from(TEMPORARY), STACK, displacement);
    }

    fn branch_unless_positive(&mut self, register: u8) -> Branch {
        self.two(0xf100_0000, 31, u32::from(register)); // cmp register, 0
        self.branch(0x5400_000d) // b.le
    }

    fn subtract_or_branch(&mut self, to: u8, other: Word) -> Branch {
        let other = self.register_of(other);
        self.three(0xeb00_0000, u32::from(to), u32::from(to), other); // subs
        self.branch(0x5400_0009) // b.ls
    }

    fn shift_or_branch(&mut self, register: u8, shift: u32) -> Branch {
        let register = u32::from(register);
        self.two(0xd340_fc00 | shift << 16, register, register); // lsr
        self.branch(0xb400_0000 | register) // cbz
    }

    fn keep_bits_or_branch(&mut self, register: u8, bits: u32) -> Branch {
        let register = u32::from(register);
        self.two(0x9240_0000 | (bits - 1) << 10, register, register); // and
        self.branch(0xb400_0000 | register) // cbz
    }

    fn bind(&mut self, branch: Branch) {
        self.reach(branch, self.length());
    }

    fn align(&mut self) {
        let words = self.words.len().next_multiple_of(ALIGNMENT);
        self.words.resize(words, NOP);
    }

    fn repeat(&mut self, count: Word, head: usize) {
        let register = self.register_of(count);
        self.two(0xf100_0400, register, register); // subs register, register, 1
        if let Word::Stack(at) = count {
            self.access(STORE, 8, register, STACK, at);
        }
        let branch = self.branch(0x5400_0001); // b.ne
        self.reach(branch, head);
    }

    fn copy_vector(&mut self, to: u8, from: u8) {
        self.move_vector(hardware(to), hardware(from));
    }

    fn load_vector(&mut self, to: u8, displacement: i64) {
        self.access(0x3dc0_0000, 16, hardware(to), STACK, displacement);
    }

    fn store_vector(&mut self, from: u8, displacement: i64) {
        self.access(0x3d80_0000, 16, hardware(from), STACK, displacement);
    }

    fn constant(&mut self, to: u8, constant: u32, words: &[u32]) {
        match vector_constant(words) {
            Some(word) => self.put(word | hardware(to)),
            None => {
                self.fixups.push((self.length(), constant));
                self.pool.add(constant);
                self.put(0x9c00_0000 | hardware(to)); // ldr q, constant
            }
        }
    }

    fn integer(&mut self, to: u8, from: Word) {
        match from {
            Word::Register(from) => self.two(0x9e67_0000, hardware(to), u32::from(from)), // fmov d, x
            Word::Stack(at) => self.access(0xfd40_0000, 8, hardware(to), STACK, at),
        }
    }

    fn vector(&mut self, inst: &Inst, operands: InstOperands) {
        self.instruction(inst, operands);
    }
}
