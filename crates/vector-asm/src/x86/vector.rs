//! Vector instructions with their allocated operands.

use super::{Masking, X86Assembler};
use crate::emit::{InstOperands, Operand};
use crate::machine::Inst;
use crate::op::Op;
use crate::processor::Isa;

impl X86Assembler {
    /// Encodes a vector instruction.
    pub(super) fn instruction(&mut self, inst: &Inst, InstOperands { dst, srcs, memory }: InstOperands) {
        if inst.op.is_fma() {
            return self.fma(inst.op, [dst, srcs[0], srcs[1], srcs[2]].map(Option::unwrap_or_default));
        }
        let mut operands = [Operand::default(); 5];
        let (mut sources, mut count) = (srcs.into_iter().flatten(), 0);
        let shape = super::avx2::encoding(inst.op).1;
        for (at, class) in shape.bytes().enumerate().filter(|(_, class)| *class != b'i') {
            operands[at] = match (class, memory) {
                (b'm', Some(memory)) => memory,
                _ if at == 0 => dst.unwrap_or_default(),
                _ => sources.next().unwrap_or_default(),
            };
            count = at + 1;
        }
        self.op(inst.op, &operands[..count], inst.imm);
    }

    /// Encodes a fused multiply-add. Its three encodings differ in the operand that the result replaces. The
    /// allocator may have given the result the machine register of an operand that is not used afterwards;
    /// if not, `c` is copied to the result first.
    fn fma(&mut self, op: Op, [dst, a, b, c]: [Operand; 4]) {
        let [form_132, form_213, form_231] = self.fma_codes(op);
        let in_register = |operand: Operand| matches!(operand, Operand::Vector(_));
        let (code, second, third) = if dst == c {
            if in_register(a) { (form_231, a, b) } else { (form_231, b, a) }
        } else if dst == a {
            if in_register(b) { (form_213, b, c) } else { (form_132, c, b) }
        } else if dst == b {
            if in_register(a) { (form_213, a, c) } else { (form_132, c, a) }
        } else {
            let load = if in_register(c) { Op::Copy } else { Op::Load };
            self.op(load, &[dst, c], 0);
            if in_register(a) { (form_231, a, b) } else { (form_231, b, a) }
        };
        let shape = if self.isa == Isa::Avx2 { "yyY" } else { "zzZ" };
        self.encode(code, shape, &[dst, second, third], 0, Masking::None);
    }

    /// Loads a constant into a register.
    pub(super) fn load_constant(&mut self, to: Operand, constant: u32, words: &[u32]) {
        if words.iter().all(|word| *word == 0) {
            return self.op(Op::XorF, &[to; 3], 0);
        }
        if self.isa == Isa::Avx2 && words.iter().all(|word| *word == u32::MAX) {
            return self.op(Op::EqI32, &[to; 3], 0);
        }
        self.op(Op::Load, &[to, Operand::Pool(constant)], 0);
    }
}
