//! Vector instructions with their allocated operands.

use super::neon::{Form, encoding};
use super::{Arm64Assembler, SPARE, TEMPORARY, hardware};
use crate::emit::{InstOperands, Operand};
use crate::machine::Inst;
use crate::op::Op;

impl Arm64Assembler {
    /// Encodes a vector instruction.
    pub(super) fn instruction(&mut self, inst: &Inst, operands: InstOperands) {
        let imm = u32::from(inst.imm);
        let [a, b, c] = operands.srcs.map(|source| self.register(source));
        let d = self.register(operands.dst);
        let memory = match operands.memory {
            Some(Operand::Memory(base, displacement)) => (base, displacement),
            _ => (0, 0),
        };
        match (inst.op, encoding(inst.op)) {
            (Op::Copy, _) => self.move_vector(d, a),
            (Op::BlendV, _) => self.select(d, [a, b, c]),
            (Op::ExtendU8 | Op::ExtendI8, _) => {
                let sign = if inst.op == Op::ExtendU8 { 0x2000_0000 } else { 0 };
                self.two(0x0f08_a400 | sign, d, a);
                self.two(0x0f10_a400 | sign, d, d);
            }
            (Op::PackU8, _) => {
                self.two(0x0e61_2800, d, a);
                self.two(0x0e21_2800, d, d);
            }
            (Op::LoadLanes32, _) => self.load_lanes(4, imm, [d, a, b], memory),
            (Op::LoadLanes64, _) => self.load_lanes(8, imm, [d, a, b], memory),
            // The hint has the form of an access of eight bytes.
            (Op::Prefetch, _) => self.access(0xf980_0000, 8, 0, memory.0, memory.1),
            (_, Some((word, form))) => self.formed(word, form, imm, [d, a, b, c], memory),
            (op, None) => self.error = Some(format!("no NEON instruction for {op:?}")),
        }
    }

    fn register(&mut self, operand: Option<Operand>) -> u32 {
        match operand {
            Some(Operand::Vector(register)) => hardware(register),
            None | Some(Operand::Memory(..)) => 0,
            Some(Operand::Pool(_)) => {
                self.error = Some("a constant is in a register".to_owned());
                0
            }
        }
    }

    fn formed(&mut self, word: u32, form: Form, imm: u32, [d, a, b, c]: [u32; 4], memory: (u8, i64)) {
        let (base, displacement) = memory;
        match form {
            Form::Two => self.two(word, d, a),
            Form::Three => self.three(word, d, a, b),
            Form::ByLane => self.three(word, d, b, a),
            Form::Accumulate => {
                self.move_vector(d, c);
                self.three(word, d, a, b);
            }
            Form::AccumulateByLane => {
                self.move_vector(d, c);
                self.three(word, d, b, a);
            }
            Form::Into => {
                self.move_vector(d, a);
                self.two(word, d, b);
            }
            Form::Left(bits) => self.two(word | (bits + imm) << 16, d, a),
            Form::Right(bits) => self.two(word | (2 * bits - imm) << 16, d, a),
            Form::Extract => self.three(word | imm << 11, d, a, b),
            Form::Lane(bytes) => self.two(word | (imm * bytes) << 17, d, a),
            Form::IntoLane(bytes) => {
                self.move_vector(d, a);
                self.two(word | ((imm & 0xff) * bytes) << 17 | ((imm >> 8) * bytes) << 11, d, b);
            }
            Form::Load(size) => self.access(word, size, d, base, displacement),
            Form::Store(size) => self.access(word, size, a, base, displacement),
            Form::LoadAll(_) => {
                let place = self.place(base, displacement);
                self.two(word, d, u32::from(place));
            }
            Form::LoadLane(size) => {
                self.move_vector(d, a);
                let place = self.place(base, displacement);
                self.two(word | lane(size, imm), d, u32::from(place));
            }
            Form::StoreLane(size) => {
                let place = self.place(base, displacement);
                self.two(word | lane(size, imm), a, u32::from(place));
            }
        }
    }

    pub(super) fn move_vector(&mut self, to: u32, from: u32) {
        if to != from {
            self.three(0x4ea0_1c00, to, from, from); // orr
        }
    }

    /// Chooses between the lanes of two registers by a third. Three instructions differ in the operand that
    /// the result replaces.
    fn select(&mut self, d: u32, [otherwise, then, mask]: [u32; 3]) {
        if d == otherwise {
            self.three(0x6ea0_1c00, d, then, mask); // bit
        } else if d == then {
            self.three(0x6ee0_1c00, d, otherwise, mask); // bif
        } else {
            self.move_vector(d, mask);
            self.three(0x6e60_1c00, d, then, otherwise); // bsl
        }
    }

    /// Loads the lanes whose mask is set, and keeps the other lanes of `otherwise`: the whole register if all
    /// masks are set, else lane by lane.
    fn load_lanes(&mut self, size: u32, lanes: u32, [d, mask, otherwise]: [u32; 3], memory: (u8, i64)) {
        let (base, displacement) = memory;
        let (first, second) = (u32::from(TEMPORARY), u32::from(SPARE));
        self.move_vector(d, otherwise);
        // The base may be in a temporary register, so the sum is computed first.
        self.sum(TEMPORARY, base, displacement, SPARE);
        let mut done = None;
        if size * lanes == 16 {
            // Every bit of the mask is set if and only if all bytes of its halves are.
            self.two(0x4e08_3c00, second, mask); // umov x, v.d[0]
            self.put(0xb100_0400 | second << 5 | 31); // cmn x, 1
            let slow = self.words.len();
            self.put(0x5400_0001); // b.ne
            self.two(0x4e18_3c00, second, mask); // umov x, v.d[1]
            self.put(0xb100_0400 | second << 5 | 31);
            let slow_too = self.words.len();
            self.put(0x5400_0001);
            self.two(0x3dc0_0000, d, first); // ldr q
            done = Some(self.words.len());
            self.put(0x1400_0000); // b
            for branch in [slow, slow_too] {
                self.reach(branch * 4, self.words.len() * 4);
            }
        }
        for at in 0..lanes {
            if size == 8 {
                self.two(0x4e08_3c00 | at << 20, second, mask); // umov x, v.d[at]
            } else {
                self.two(0x0e04_3c00 | at << 19, second, mask); // umov w, v.s[at]
            }
            self.put(0xb400_0000 | 2 << 5 | second); // cbz over the load
            let word = if size == 8 { 0x0d40_8400 } else { 0x0d40_8000 };
            self.two(word | lane(size, at), d, first); // ld1
            if at + 1 < lanes {
                self.two(0x9100_0000 | size << 10, first, first); // add
            }
        }
        if let Some(done) = done {
            self.words[done] |= (self.words.len() - done) as u32;
        }
    }
}

/// The bits of a lane's number in an access of one lane.
fn lane(size: u32, lane: u32) -> u32 {
    let byte = lane * size;
    // The number of the first byte: bit 3 selects the half of the register, and bits 0 to 2 follow.
    (byte >> 3 & 1) << 30 | (byte & 7) << 10
}
