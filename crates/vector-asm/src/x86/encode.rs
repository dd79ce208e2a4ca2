//! Vector instructions: operands, the constant pool, and mask registers.

use iced_x86::{Code as Encoding, Instruction, OpKind, Register};

use super::general::general;
use super::{Masking, SECOND, TEMPORARY, X86Assembler};
use crate::emit::Operand;
use crate::op::Op;

impl X86Assembler {
    pub(super) fn put(&mut self, instruction: &Instruction) {
        match self.encoder.encode(instruction, self.length as u64) {
            Ok(length) => self.length += length,
            Err(error) => self.error = Some(error.to_string()),
        }
    }

    fn memory(instruction: &mut Instruction, operand: u32, base: u8, displacement: i64) {
        instruction.set_op_kind(operand, OpKind::Memory);
        instruction.set_memory_base(general(base));
        instruction.set_memory_displacement64(displacement as u64);
        // A size of 1 requests a short displacement where it fits.
        let size = u32::from(displacement != 0 || base & 7 == 5);
        instruction.set_memory_displ_size(size);
    }

    /// Sets an operand. Returns the index of a pool constant.
    fn operand(instruction: &mut Instruction, at: u32, class: u8, operand: Operand) -> Option<u32> {
        match operand {
            Operand::Vector(register) => {
                let first = match class.to_ascii_lowercase() {
                    b'x' => Register::XMM0,
                    b'y' => Register::YMM0,
                    _ => Register::ZMM0,
                };
                instruction.set_op_kind(at, OpKind::Register);
                instruction.set_op_register(at, first + u32::from(register));
                None
            }
            Operand::Memory(base, displacement) => {
                Self::memory(instruction, at, base, displacement);
                None
            }
            Operand::Pool(constant) => {
                instruction.set_op_kind(at, OpKind::Memory);
                instruction.set_memory_base(Register::RIP);
                instruction.set_memory_displ_size(8);
                Some(constant)
            }
        }
    }

    /// Encodes an instruction with its operands in order.
    pub(super) fn op(&mut self, op: Op, operands: &[Operand], imm: u16) {
        let (code, shape) = self.encoding(op);
        match shape.as_bytes() {
            [b'k', lanes, ..] => self.compare_to_mask(code, &shape[2..], *lanes, operands, imm),
            b"blendv" => {
                self.mask_of(operands[3]);
                self.encode(code, "zzZ", &operands[..3], 0, Masking::Merging);
            }
            b"blend" => {
                // The base of a memory operand may be in the first temporary register.
                let is_taken = operands.iter().any(|o| matches!(o, Operand::Memory(TEMPORARY, _)));
                let lanes = Register::EAX + u32::from(if is_taken { SECOND } else { TEMPORARY });
                self.plain(Instruction::with2(Encoding::Mov_r32_imm32, lanes, u32::from(imm)));
                self.plain(Instruction::with2(Encoding::VEX_Kmovw_kr_r32, Register::K1, lanes));
                self.encode(code, "zzZ", operands, 0, Masking::Merging);
            }
            b"loadk" => {
                self.mask_of(operands[1]);
                self.encode(code, "zm", &[operands[0], operands[2]], 0, Masking::Zeroing);
            }
            b"storek" => {
                self.mask_of(operands[1]);
                self.encode(code, "mz", &[operands[0], operands[2]], 0, Masking::Merging);
            }
            _ => self.encode(code, shape, operands, imm, Masking::None),
        }
    }

    /// Converts a vector mask to the mask register `k1`.
    fn mask_of(&mut self, mask: Operand) {
        let Operand::Vector(register) = mask else {
            self.error = Some("a mask is in a register".to_owned());
            return;
        };
        let register = Register::ZMM0 + u32::from(register);
        self.plain(Instruction::with2(Encoding::EVEX_Vpmovd2m_kr_zmm, Register::K1, register));
    }

    /// Compares into a mask register and expands the result to a vector mask in the first operand.
    fn compare_to_mask(&mut self, code: Encoding, shape: &str, lanes: u8, operands: &[Operand], imm: u16) {
        let mut instruction = Instruction::new();
        instruction.set_code(code);
        instruction.set_op_kind(0, OpKind::Register);
        instruction.set_op_register(0, Register::K1);
        let constant = self.operands(&mut instruction, 1, shape, &operands[1..], imm);
        self.put_with_constant(instruction, constant);
        let Operand::Vector(to) = operands[0] else { return };
        let spread =
            if lanes == b'd' { Encoding::EVEX_Vpmovm2d_zmm_kr } else { Encoding::EVEX_Vpmovm2q_zmm_kr };
        self.plain(Instruction::with2(spread, Register::ZMM0 + u32::from(to), Register::K1));
    }

    /// Encodes an instruction with a given shape.
    pub(super) fn encode(
        &mut self,
        code: Encoding,
        shape: &str,
        operands: &[Operand],
        imm: u16,
        masking: Masking,
    ) {
        let mut instruction = Instruction::new();
        instruction.set_code(code);
        if masking != Masking::None {
            instruction.set_op_mask(Register::K1);
            instruction.set_zeroing_masking(masking == Masking::Zeroing);
        }
        let constant = self.operands(&mut instruction, 0, shape, operands, imm);
        self.put_with_constant(instruction, constant);
    }

    /// Sets the operands from position `first` on. Returns the pool constant among them.
    fn operands(
        &mut self,
        instruction: &mut Instruction,
        first: usize,
        shape: &str,
        operands: &[Operand],
        imm: u16,
    ) -> Option<u32> {
        let mut constant = None;
        for (at, class) in shape.bytes().enumerate() {
            let place = (first + at) as u32;
            if class == b'i' {
                instruction.set_op_kind(place, OpKind::Immediate8);
                instruction.set_immediate8(imm as u8);
            } else if let Some(&operand) = operands.get(at) {
                constant = Self::operand(instruction, place, class, operand).or(constant);
            }
        }
        constant
    }

    fn put_with_constant(&mut self, mut instruction: Instruction, constant: Option<u32>) {
        if constant.is_some() {
            instruction.set_memory_displacement64(self.length as u64);
        }
        let start = self.length;
        self.put(&instruction);
        if let Some(constant) = constant {
            let at = start + self.encoder.get_constant_offsets().displacement_offset();
            self.fixups.push((at, self.length, constant));
            self.pool.add(constant);
        }
    }
}
