//! Instructions with their allocated operands.

use super::{Assembler, FunctionEmitter, InstOperands, Operand};
use crate::address::Location;
use crate::allocate::NOWHERE;
use crate::machine::{Address, Inst, Reg};
use crate::op::Op;

impl<A: Assembler> FunctionEmitter<'_, A> {
    /// Encodes an instruction.
    pub(super) fn inst(&mut self, inst: &Inst) {
        match inst.op {
            Op::Integer => {
                let address = inst.address.expect("integers are streams");
                let word = self.word(self.location(address.stream));
                self.asm.integer(self.line.machine[inst.dst.index()], word);
            }
            Op::Copy if self.unit.constant(inst.srcs[0]).is_some() => {
                self.constant(self.line.machine[inst.dst.index()], inst.srcs[0]);
            }
            _ => {
                let memory = inst.address.map(|address| self.memory_operand(address));
                let operand = |reg: Reg| (reg != Reg::NONE).then(|| self.source(reg, memory));
                let operands = InstOperands { dst: operand(inst.dst), srcs: inst.srcs.map(operand), memory };
                self.asm.vector(inst, operands);
            }
        }
    }

    /// The operand for a register: its machine register, a pool constant, or the instruction's memory
    /// operand.
    fn source(&self, reg: Reg, memory: Option<Operand>) -> Operand {
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
            return Operand::Memory(self.general.stack, address.offset);
        }
        let location = self.location(address.stream);
        let base = self.register_for(location);
        if let Location::Frame(_) = location {
            self.asm.load(base, self.word(location));
        }
        Operand::Memory(base, address.offset)
    }

    fn location(&self, stream: u32) -> Location {
        let pointer = self.pointers.loops[self.inside].iter().find(|p| p.stream == stream);
        pointer.expect("loops have pointers for what they use").location
    }
}
