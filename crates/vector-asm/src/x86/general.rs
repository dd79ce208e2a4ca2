//! Instructions on general registers, which hold pointers and trip counts, and on words of the stack frame.

use iced_x86::{Code as Encoding, IcedError, Instruction, MemoryOperand, Register};

use super::{FRAME, STACK, TEMPORARY, X86Assembler};
use crate::code::{VectorCode, VectorCompileError};
use crate::emit::{Assembler, Branch, FunctionFrame, InstOperands, Operand, Word};
use crate::machine::{Inst, MachineProgram};
use crate::op::Op;

/// Alignment of loop heads in bytes.
const ALIGNMENT: usize = 32;

impl X86Assembler {
    /// Encodes an instruction on general registers and memory.
    pub(super) fn plain(&mut self, instruction: Result<Instruction, IcedError>) {
        match instruction {
            Ok(instruction) => self.put(&instruction),
            Err(error) => self.error = Some(error.to_string()),
        }
    }

    fn move_register(&mut self, to: u8, from: u8) {
        if to != from {
            self.plain(Instruction::with2(Encoding::Mov_r64_rm64, general(to), general(from)));
        }
    }

    /// Encodes a branch whose displacement is filled in later.
    fn branch(&mut self, code: Encoding) -> Branch {
        self.plain(Instruction::with_branch(code, self.length as u64));
        self.length - 4
    }
}

impl Assembler for X86Assembler {
    fn length(&self) -> usize {
        self.length
    }

    fn enter(&mut self, frame: &FunctionFrame) {
        for register in &frame.saved {
            self.plain(Instruction::with1(Encoding::Push_r64, general(*register)));
        }
        if frame.bytes > 0 {
            self.plain(Instruction::with1(Encoding::Push_r64, general(FRAME)));
            self.move_register(FRAME, STACK);
            self.plain(Instruction::with2(Encoding::Sub_rm64_imm32, general(STACK), frame.bytes as i32));
            self.plain(Instruction::with2(Encoding::And_rm64_imm8, general(STACK), -64));
        }
    }

    fn leave(&mut self, frame: &FunctionFrame, streaming: bool) {
        if streaming {
            self.plain(Ok(Instruction::with(Encoding::Sfence)));
        }
        self.plain(Ok(Instruction::with(Encoding::VEX_Vzeroupper)));
        if frame.bytes > 0 {
            self.move_register(STACK, FRAME);
            self.plain(Instruction::with1(Encoding::Pop_r64, general(FRAME)));
        }
        for register in frame.saved.iter().rev() {
            self.plain(Instruction::with1(Encoding::Pop_r64, general(*register)));
        }
        self.plain(Ok(Instruction::with(Encoding::Retnq)));
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
            Word::Stack(to) => {
                self.plain(Instruction::with2(Encoding::Mov_rm64_r64, at(STACK, to), general(from)));
            }
        }
    }

    fn load_at(&mut self, to: u8, base: u8, displacement: i64) {
        self.plain(Instruction::with2(Encoding::Mov_r64_rm64, general(to), at(base, displacement)));
    }

    fn number(&mut self, to: u8, number: i64) {
        self.plain(match u32::try_from(number) {
            Ok(number) => Instruction::with2(Encoding::Mov_r32_imm32, Register::EAX + u32::from(to), number),
            Err(_) => Instruction::with2(Encoding::Mov_r64_imm64, general(to), number),
        });
    }

    fn add_number(&mut self, to: Word, number: i64, spare: u8) {
        match (to, i32::try_from(number)) {
            (_, Ok(0)) => {}
            (Word::Register(to), Ok(number)) => {
                let short = i8::try_from(number).is_ok();
                let code = if short { Encoding::Add_rm64_imm8 } else { Encoding::Add_rm64_imm32 };
                self.plain(Instruction::with2(code, general(to), number));
            }
            (Word::Stack(to), Ok(number)) => {
                self.plain(Instruction::with2(Encoding::Add_rm64_imm32, at(STACK, to), number));
            }
            (Word::Register(to), Err(_)) => {
                self.number(spare, number);
                self.add(to, Word::Register(spare));
            }
            (Word::Stack(to), Err(_)) => {
                self.number(spare, number);
                self.plain(Instruction::with2(Encoding::Add_rm64_r64, at(STACK, to), general(spare)));
            }
        }
    }

    fn add(&mut self, to: u8, other: Word) {
        self.plain(match other {
            Word::Register(other) => Instruction::with2(Encoding::Add_r64_rm64, general(to), general(other)),
            Word::Stack(other) => Instruction::with2(Encoding::Add_r64_rm64, general(to), at(STACK, other)),
        });
    }

    fn subtract(&mut self, to: u8, other: Word) {
        self.plain(match other {
            Word::Register(other) => Instruction::with2(Encoding::Sub_r64_rm64, general(to), general(other)),
            Word::Stack(other) => Instruction::with2(Encoding::Sub_r64_rm64, general(to), at(STACK, other)),
        });
    }

    fn add_multiple(&mut self, to: u8, register: u8, factor: i64) {
        match i32::try_from(factor) {
            Ok(_) => self.multiply(register, register, factor),
            Err(_) => {
                // Both temporary registers are in use if the sum is in one of them.
                let spare = if to == TEMPORARY { FRAME } else { TEMPORARY };
                self.plain(Instruction::with1(Encoding::Push_r64, general(spare)));
                self.number(spare, factor);
                self.plain(Instruction::with2(Encoding::Imul_r64_rm64, general(register), general(spare)));
                self.plain(Instruction::with1(Encoding::Pop_r64, general(spare)));
            }
        }
        self.add(to, Word::Register(register));
    }

    fn multiply(&mut self, to: u8, register: u8, factor: i64) {
        match i32::try_from(factor) {
            Ok(factor) => self.plain(Instruction::with3(
                Encoding::Imul_r64_rm64_imm32,
                general(to),
                general(register),
                factor,
            )),
            Err(_) => {
                self.number(to, factor);
                self.plain(Instruction::with2(Encoding::Imul_r64_rm64, general(to), general(register)));
            }
        }
    }

    fn minimum(&mut self, to: u8, other: u8) {
        self.plain(Instruction::with2(Encoding::Cmp_r64_rm64, general(other), general(to)));
        self.plain(Instruction::with2(Encoding::Cmovl_r64_rm64, general(to), general(other)));
    }

    fn store_number(&mut self, displacement: i64, word: u32) {
        self.plain(Instruction::with2(Encoding::Mov_rm32_imm32, at(STACK, displacement), word));
    }

    fn branch_unless_positive(&mut self, register: u8) -> Branch {
        self.plain(Instruction::with2(Encoding::Test_rm64_r64, general(register), general(register)));
        self.branch(Encoding::Jle_rel32_64)
    }

    fn subtract_or_branch(&mut self, to: u8, other: Word) -> Branch {
        self.subtract(to, other);
        self.branch(Encoding::Jbe_rel32_64)
    }

    fn shift_or_branch(&mut self, register: u8, shift: u32) -> Branch {
        self.plain(Instruction::with2(Encoding::Shr_rm64_imm8, general(register), shift));
        self.branch(Encoding::Je_rel32_64)
    }

    fn keep_bits_or_branch(&mut self, register: u8, bits: u32) -> Branch {
        self.plain(Instruction::with2(Encoding::And_rm64_imm8, general(register), (1 << bits) - 1));
        self.branch(Encoding::Je_rel32_64)
    }

    fn bind(&mut self, branch: Branch) {
        self.patches.push((branch, (self.length - branch - 4) as i32));
    }

    fn align(&mut self) {
        let mut left = self.length.next_multiple_of(ALIGNMENT) - self.length;
        while left > 0 {
            let bytes = left.min(NOPS.len());
            NOPS[bytes - 1].iter().for_each(|byte| self.encoder.write_u8(*byte));
            self.length += bytes;
            left -= bytes;
        }
    }

    fn repeat(&mut self, count: Word, head: usize) {
        self.plain(match count {
            Word::Register(count) => Instruction::with1(Encoding::Dec_rm64, general(count)),
            Word::Stack(count) => Instruction::with1(Encoding::Dec_rm64, at(STACK, count)),
        });
        let near = self.length - head < 120;
        let code = if near { Encoding::Jne_rel8_64 } else { Encoding::Jne_rel32_64 };
        self.plain(Instruction::with_branch(code, head as u64));
    }

    fn copy_vector(&mut self, to: u8, from: u8) {
        self.op(Op::Copy, &[Operand::Vector(to), Operand::Vector(from)], 0);
    }

    fn load_vector(&mut self, to: u8, displacement: i64) {
        self.op(Op::Load, &[Operand::Vector(to), Operand::Memory(STACK, displacement)], 0);
    }

    fn store_vector(&mut self, from: u8, displacement: i64) {
        self.op(Op::Store, &[Operand::Memory(STACK, displacement), Operand::Vector(from)], 0);
    }

    fn constant(&mut self, to: u8, constant: u32, words: &[u32]) {
        self.load_constant(Operand::Vector(to), constant, words);
    }

    fn integer(&mut self, to: u8, from: Word) {
        let (to, (code, _)) = (Register::XMM0 + u32::from(to), self.encoding(Op::Integer));
        self.plain(match from {
            Word::Register(from) => Instruction::with2(code, to, general(from)),
            Word::Stack(from) => Instruction::with2(code, to, at(STACK, from)),
        });
    }

    fn vector(&mut self, inst: &Inst, operands: InstOperands) {
        self.instruction(inst, operands);
    }
}

/// No-operation instructions of 1 to 9 bytes.
const NOPS: [&[u8]; 9] = [
    &[0x90],
    &[0x66, 0x90],
    &[0x0f, 0x1f, 0x00],
    &[0x0f, 0x1f, 0x40, 0x00],
    &[0x0f, 0x1f, 0x44, 0x00, 0x00],
    &[0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00],
    &[0x0f, 0x1f, 0x80, 0x00, 0x00, 0x00, 0x00],
    &[0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00],
    &[0x66, 0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00],
];

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
