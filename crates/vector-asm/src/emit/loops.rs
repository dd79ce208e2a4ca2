//! Loops: trip counts, pointers, and branches.

use iced_x86::{Code as Encoding, Instruction};

use super::general::{at, general};
use super::{FunctionEmitter, SECOND, STACK, TEMPORARY};
use crate::address::{Location, Pointer};
use crate::machine::Trips;

/// Alignment of loop heads in bytes.
const ALIGNMENT: usize = 32;

impl FunctionEmitter<'_> {
    /// Encodes the code before a loop's first iteration.
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

    /// Computes the trip count and, for a loop over the call's range, the first value of the counter.
    /// Branches over a loop without iterations. Returns whether `SECOND` holds the first value of the
    /// counter.
    fn count_iterations(&mut self, number: usize) -> bool {
        let location = self.pointers.counts[number];
        let to = match location {
            Location::Register(register) => register,
            Location::Frame(_) => TEMPORARY,
        };
        let shift = match self.line.loops[number].trips {
            Trips::Constant(trips) => {
                self.number(to, trips as i64);
                self.store_location(to, location);
                return false;
            }
            Trips::Clipped { limit, clips } => {
                self.number(to, limit as i64);
                for &clip in &self.unit.clips[clips as usize] {
                    self.load_location(SECOND, self.location_in_parent(number, clip));
                    self.plain(Instruction::with2(Encoding::Cmp_r64_rm64, general(SECOND), general(to)));
                    self.plain(Instruction::with2(Encoding::Cmovl_r64_rm64, general(to), general(SECOND)));
                }
                self.plain(Instruction::with2(Encoding::Test_rm64_r64, general(to), general(to)));
                self.skip(Encoding::Jle_rel32_64, number);
                self.store_location(to, location);
                return false;
            }
            Trips::Call { shift } | Trips::CallRemainder { shift } => shift,
        };
        let (begin, end) = (self.call_range_at, self.call_range_at + 8);
        self.load_word(to, STACK, end);
        self.plain(Instruction::with2(Encoding::Sub_r64_rm64, general(to), at(STACK, begin)));
        self.skip(Encoding::Jbe_rel32_64, number);
        if let Trips::Call { .. } = self.line.loops[number].trips {
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
        self.store_location(to, location);
        true
    }

    /// The location of a stream in the loop around.
    fn location_in_parent(&self, number: usize, stream: u32) -> Location {
        let parent = self.line.loops[number].parent;
        let from = self.pointers.loops[parent].iter().find(|p| p.stream == stream);
        from.expect("loops around have what inner ones begin with").location
    }

    /// Computes a pointer's value in the first iteration.
    fn begin_pointer(&mut self, number: usize, pointer: &Pointer, has_first: bool) {
        let from = self.location_in_parent(number, pointer.from);
        if !has_first || pointer.coefficient == 0 {
            let to = match pointer.location {
                Location::Register(register) => register,
                Location::Frame(_) => TEMPORARY,
            };
            self.load_location(to, from);
            return self.store_location(to, pointer.location);
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
        self.store_location(TEMPORARY, pointer.location);
    }

    /// Encodes a branch to the end of a loop, whose displacement is filled in later.
    fn skip(&mut self, code: Encoding, number: usize) {
        self.plain(Instruction::with_branch(code, self.length as u64));
        self.skips.push((number, self.length - 4));
    }

    /// Encodes the code after an iteration.
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
        self.patch_skips(number);
    }

    /// Fills in the branches to the end of a loop.
    fn patch_skips(&mut self, number: usize) {
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
