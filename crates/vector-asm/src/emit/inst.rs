//! Instructions with their allocated operands.

use iced_x86::{Instruction, Register};

use super::general::{at, general};
use super::{FunctionEmitter, Masking, Operand, STACK, TEMPORARY};
use crate::address::Location;
use crate::allocate::NOWHERE;
use crate::avx2::{AvxOp, FMA, INTEGER};
use crate::code::Isa;
use crate::machine::{Address, Inst, Reg};

impl FunctionEmitter<'_> {
    /// Encodes an instruction.
    pub(super) fn inst(&mut self, inst: &Inst) {
        match inst.op.shape() {
            FMA => self.fma(inst),
            INTEGER => self.integer(inst),
            _ if inst.op == AvxOp::Copy && self.unit.constant(inst.srcs[0]).is_some() => {
                self.constant(self.line.machine[inst.dst.index()], inst.srcs[0]);
            }
            shape => {
                let memory = inst.address.map(|address| self.memory_operand(address));
                let mut operands: [Operand; 5] = [Operand::Vector(0); 5];
                let mut sources = inst.srcs.iter();
                let mut count = 0;
                for (at, class) in shape.bytes().enumerate().filter(|(_, class)| *class != b'i') {
                    operands[at] = match (class, memory) {
                        (b'm', Some(memory)) => memory,
                        _ if at == 0 => self.source(inst.dst, memory),
                        _ => self.source(*sources.next().unwrap_or(&Reg::NONE), memory),
                    };
                    count = at + 1;
                }
                self.op(inst.op, &operands[..count], inst.imm);
            }
        }
    }

    /// The operand for a register: its machine register, a pool constant, or the instruction's memory
    /// operand.
    fn source(&mut self, reg: Reg, memory: Option<Operand>) -> Operand {
        if reg == Reg::MEMORY {
            return memory.expect("an operand in memory has an address");
        }
        if self.unit.constant(reg).is_some() {
            return match self.line.constant_register(self.inside, reg) {
                Some(register) => Operand::Vector(register),
                None => Operand::Pool(self.unit.registers[reg.index()]),
            };
        }
        let register = self.line.machine[reg.index()];
        debug_assert!(register != NOWHERE, "every register has a place");
        Operand::Vector(register)
    }

    fn memory_operand(&mut self, address: Address) -> Operand {
        if address.stream == Address::FRAME {
            return Operand::Memory(STACK, address.offset);
        }
        match self.location(address.stream) {
            Location::Register(register) => Operand::Memory(register, address.offset),
            Location::Frame(word) => {
                self.load_word(TEMPORARY, STACK, self.word_at(word));
                Operand::Memory(TEMPORARY, address.offset)
            }
        }
    }

    fn location(&self, stream: u32) -> Location {
        let pointer = self.pointers.loops[self.inside].iter().find(|p| p.stream == stream);
        pointer.expect("loops have pointers for what they use").location
    }

    /// Encodes a fused multiply-add. Its three encodings differ in the operand that the result replaces. The
    /// allocator may have given the result the machine register of an operand that is not used afterwards;
    /// if not, `c` is copied to the result first.
    fn fma(&mut self, inst: &Inst) {
        let memory = inst.address.map(|address| self.memory_operand(address));
        let [a, b, c] = inst.srcs.map(|src| self.source(src, memory));
        let dst = Operand::Vector(self.line.machine[inst.dst.index()]);
        let [form_132, form_213, form_231] = self.unit.isa.fma_codes(inst.op);
        let in_register = |operand: Operand| matches!(operand, Operand::Vector(_));
        let (code, second, third) = if dst == c {
            if in_register(a) { (form_231, a, b) } else { (form_231, b, a) }
        } else if dst == a {
            if in_register(b) { (form_213, b, c) } else { (form_132, c, b) }
        } else if dst == b {
            if in_register(a) { (form_213, a, c) } else { (form_132, c, a) }
        } else {
            let load = if in_register(c) { AvxOp::Copy } else { AvxOp::Load };
            self.op(load, &[dst, c], 0);
            if in_register(a) { (form_231, a, b) } else { (form_231, b, a) }
        };
        let shape = if self.unit.isa == Isa::Avx2 { "yyY" } else { "zzZ" };
        self.encode(code, shape, &[dst, second, third], 0, Masking::None);
    }

    /// Copies the integer of a stream to the lowest lane.
    fn integer(&mut self, inst: &Inst) {
        let address = inst.address.expect("integers are streams");
        let dst = Register::XMM0 + u32::from(self.line.machine[inst.dst.index()]);
        let (code, _) = self.unit.isa.encoding(inst.op);
        self.plain(match self.location(address.stream) {
            Location::Register(register) => Instruction::with2(code, dst, general(register)),
            Location::Frame(word) => Instruction::with2(code, dst, at(STACK, self.word_at(word))),
        });
    }
}
