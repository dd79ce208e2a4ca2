//! Loops: counts of iterations, pointers that move, jumps.

use iced_x86::{Code as Encoding, Instruction};

use super::general::{at, general};
use super::{Emit, SECOND, STACK, TEMPORARY};
use crate::address::{Location, Pointer};
use crate::machine::Trips;

/// Where loops begin.
const ALIGNMENT: usize = 32;

impl Emit<'_> {
    /// What stands before a loop's first iteration.
    pub(super) fn start(&mut self, number: usize) {
        let info = &self.line.loops[number];
        let moves = info.phis.iter().map(|phi| (phi.phi, phi.start));
        self.moves(moves.collect());
        for &(constant, register) in &info.constants {
            self.constant(register, constant);
        }
        let first = self.count_iterations(number);
        for pointer in &self.pointers.loops[number] {
            self.begin_pointer(number, pointer, first);
        }
        self.inside = number;
        self.align();
        self.heads[number] = self.length;
    }

    /// Brings the number of iterations to its place, and for the part of a call the first value of the counter to a register. Jumps over the
    /// loop if there is nothing to do.
    fn count_iterations(&mut self, number: usize) -> bool {
        let location = self.pointers.counts[number];
        let to = match location {
            Location::Register(register) => register,
            Location::Frame(_) => TEMPORARY,
        };
        let shift = match self.line.loops[number].trips {
            Trips::Constant(trips) => {
                self.number(to, trips as i64);
                self.keep(to, location);
                return false;
            }
            Trips::Part { shift } | Trips::Rest { shift } => shift,
        };
        let (begin, end) = (self.part_at, self.part_at + 8);
        self.load_word(to, STACK, end);
        self.plain(Instruction::with2(Encoding::Sub_r64_rm64, general(to), at(STACK, begin)));
        self.skip(Encoding::Jbe_rel32_64, number);
        if let Trips::Part { .. } = self.line.loops[number].trips {
            if shift > 0 {
                self.plain(Instruction::with2(Encoding::Shr_rm64_imm8, general(to), shift));
                self.skip(Encoding::Je_rel32_64, number);
            }
            self.load_word(SECOND, STACK, begin);
        } else {
            self.plain(Instruction::with2(Encoding::And_rm64_imm8, general(to), (1 << shift) - 1));
            self.skip(Encoding::Je_rel32_64, number);
            self.load_word(SECOND, STACK, end);
            self.plain(Instruction::with2(Encoding::Sub_r64_rm64, general(SECOND), general(to)));
        }
        self.keep(to, location);
        true
    }

    /// A pointer as it is in the first iteration.
    fn begin_pointer(&mut self, number: usize, pointer: &Pointer, has_first: bool) {
        let parent = self.line.loops[number].parent;
        let from = self.pointers.loops[parent].iter().find(|p| p.stream == pointer.from);
        let from = from.expect("loops around have what inner ones begin with").location;
        if !has_first || pointer.coefficient == 0 {
            let to = match pointer.location {
                Location::Register(register) => register,
                Location::Frame(_) => TEMPORARY,
            };
            self.fetch(to, from);
            return self.keep(to, pointer.location);
        }
        match i32::try_from(pointer.coefficient) {
            Ok(small) => self.plain(Instruction::with3(
                Encoding::Imul_r64_rm64_imm32,
                general(TEMPORARY),
                general(SECOND),
                small,
            )),
            Err(_) => {
                self.number(TEMPORARY, pointer.coefficient);
                self.plain(Instruction::with2(Encoding::Imul_r64_rm64, general(TEMPORARY), general(SECOND)));
            }
        }
        self.plain(match from {
            Location::Register(register) => {
                Instruction::with2(Encoding::Add_r64_rm64, general(TEMPORARY), general(register))
            }
            Location::Frame(word) => {
                Instruction::with2(Encoding::Add_r64_rm64, general(TEMPORARY), at(STACK, self.word_at(word)))
            }
        });
        self.keep(TEMPORARY, pointer.location);
    }

    /// A jump behind a loop, whose distance is filled in there.
    fn skip(&mut self, code: Encoding, number: usize) {
        self.plain(Instruction::with_branch(code, self.length as u64));
        self.skips.push((number, self.length - 4));
    }

    /// What stands behind an iteration.
    pub(super) fn end(&mut self, number: usize) {
        let info = &self.line.loops[number];
        let moves = info.phis.iter().map(|phi| (phi.phi, phi.next));
        self.moves(moves.collect());
        for pointer in &self.pointers.loops[number] {
            self.advance(pointer, info.step);
        }
        self.plain(match self.pointers.counts[number] {
            Location::Register(register) => Instruction::with1(Encoding::Dec_rm64, general(register)),
            Location::Frame(word) => Instruction::with1(Encoding::Dec_rm64, at(STACK, self.word_at(word))),
        });
        let head = self.heads[number];
        let near = self.length - head < 120;
        let code = if near { Encoding::Jne_rel8_64 } else { Encoding::Jne_rel32_64 };
        self.plain(Instruction::with_branch(code, head as u64));
        self.inside = info.parent;
        self.land(number);
    }

    /// Lets the jumps behind a loop end here.
    fn land(&mut self, number: usize) {
        let here = self.length;
        for &(_, place) in self.skips.iter().filter(|(of, _)| *of == number) {
            self.patches.push((place, (here - place - 4) as i32));
        }
    }

    fn advance(&mut self, pointer: &Pointer, step: i64) {
        let bytes = pointer.coefficient.wrapping_mul(step);
        match (pointer.location, i32::try_from(bytes)) {
            (_, Ok(0)) => {}
            (Location::Register(register), _) => self.add_number(register, bytes, TEMPORARY),
            (Location::Frame(word), Ok(bytes)) => {
                let word = at(STACK, self.word_at(word));
                self.plain(Instruction::with2(Encoding::Add_rm64_imm32, word, bytes));
            }
            (Location::Frame(word), Err(_)) => {
                self.number(TEMPORARY, bytes);
                let word = at(STACK, self.word_at(word));
                self.plain(Instruction::with2(Encoding::Add_rm64_r64, word, general(TEMPORARY)));
            }
        }
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
}

/// Instructions that do nothing, of 1 to 9 bytes.
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
