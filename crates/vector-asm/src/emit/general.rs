//! Instructions on general registers, which hold pointers and trip counts, and on words of the stack frame.

use iced_x86::{Code as Encoding, IcedError, Instruction, MemoryOperand, Register};

use super::{FunctionEmitter, STACK};
use crate::address::Location;

impl FunctionEmitter<'_> {
    /// Encodes an instruction on general registers and memory.
    pub(super) fn plain(&mut self, instruction: Result<Instruction, IcedError>) {
        match instruction {
            Ok(instruction) => self.put(&instruction),
            Err(error) => self.error = Some(error.to_string()),
        }
    }

    pub(super) fn move_register(&mut self, to: u8, from: u8) {
        if to != from {
            self.plain(Instruction::with2(Encoding::Mov_r64_rm64, general(to), general(from)));
        }
    }

    pub(super) fn load_word(&mut self, to: u8, base: u8, displacement: i64) {
        self.plain(Instruction::with2(Encoding::Mov_r64_rm64, general(to), at(base, displacement)));
    }

    pub(super) fn store_word(&mut self, from: u8, base: u8, displacement: i64) {
        self.plain(Instruction::with2(Encoding::Mov_rm64_r64, at(base, displacement), general(from)));
    }

    pub(super) fn number(&mut self, to: u8, number: i64) {
        self.plain(match u32::try_from(number) {
            Ok(number) => Instruction::with2(Encoding::Mov_r32_imm32, Register::EAX + u32::from(to), number),
            Err(_) => Instruction::with2(Encoding::Mov_r64_imm64, general(to), number),
        });
    }

    /// Adds a number to a register; may clobber `temporary`.
    pub(super) fn add_number(&mut self, to: u8, number: i64, temporary: u8) {
        match i32::try_from(number) {
            Ok(0) => {}
            Ok(number) => {
                let short = i8::try_from(number).is_ok();
                let code = if short { Encoding::Add_rm64_imm8 } else { Encoding::Add_rm64_imm32 };
                self.plain(Instruction::with2(code, general(to), number));
            }
            Err(_) => {
                self.number(temporary, number);
                self.plain(Instruction::with2(Encoding::Add_r64_rm64, general(to), general(temporary)));
            }
        }
    }

    pub(super) fn word_at(&self, word: u32) -> i64 {
        self.words_at + i64::from(word) * 8
    }

    /// Loads the word at a location into a register.
    pub(super) fn load_location(&mut self, to: u8, location: Location) {
        match location {
            Location::Register(register) => self.move_register(to, register),
            Location::Frame(word) => self.load_word(to, STACK, self.word_at(word)),
        }
    }

    pub(super) fn store_location(&mut self, from: u8, location: Location) {
        match location {
            Location::Register(register) => self.move_register(register, from),
            Location::Frame(word) => self.store_word(from, STACK, self.word_at(word)),
        }
    }
}

pub(super) fn general(register: u8) -> Register {
    const GENERAL: [Register; 16] = [
        Register::RAX,
        Register::RCX,
        Register::RDX,
        Register::RBX,
        Register::RSP,
        Register::RBP,
        Register::RSI,
        Register::RDI,
        Register::R8,
        Register::R9,
        Register::R10,
        Register::R11,
        Register::R12,
        Register::R13,
        Register::R14,
        Register::R15,
    ];
    GENERAL[register as usize]
}

pub(super) fn at(base: u8, displacement: i64) -> MemoryOperand {
    MemoryOperand::with_base_displ(general(base), displacement)
}
