//! Loops: trip counts, pointers, and branches.

use super::{Assembler, FunctionEmitter, Word};
use crate::address::{Location, Pointer};
use crate::machine::Trips;

impl<A: Assembler> FunctionEmitter<'_, A> {
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
        self.asm.align();
        self.heads[number] = self.asm.length();
    }

    /// Computes the trip count and, for a loop over the call's range, the first value of the counter.
    /// Branches over a loop without iterations. Returns whether the second temporary register holds the first
    /// value of the counter.
    fn count_iterations(&mut self, number: usize) -> bool {
        let location = self.pointers.counts[number];
        let (to, second) = (self.register_for(location), self.general.second);
        let trips = self.line.loops[number].trips;
        let shift = match trips {
            Trips::Constant(trips) => {
                self.asm.number(to, trips as i64);
                self.asm.store(to, self.word(location));
                return false;
            }
            Trips::Clipped { limit, clips } => {
                self.asm.number(to, limit as i64);
                for &clip in &self.unit.clips[clips as usize] {
                    self.asm.load(second, self.word(self.location_in_parent(number, clip)));
                    self.asm.minimum(to, second);
                }
                let skip = self.asm.branch_unless_positive(to);
                self.skips.push((number, skip));
                self.asm.store(to, self.word(location));
                return false;
            }
            Trips::Call { shift } | Trips::CallRemainder { shift } => shift,
        };
        let (begin, end) = (Word::Stack(self.call_range_at), Word::Stack(self.call_range_at + 8));
        self.asm.load(to, end);
        let skip = self.asm.subtract_or_branch(to, begin);
        self.skips.push((number, skip));
        if let Trips::Call { .. } = trips {
            if shift > 0 {
                let skip = self.asm.shift_or_branch(to, shift);
                self.skips.push((number, skip));
            }
            self.asm.load(second, begin);
        } else {
            let skip = self.asm.keep_bits_or_branch(to, shift);
            self.skips.push((number, skip));
            self.asm.load(second, end);
            self.asm.subtract(second, Word::Register(to));
        }
        self.asm.store(to, self.word(location));
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
        let from = self.word(self.location_in_parent(number, pointer.from));
        let mut to = self.general.temporary;
        if has_first && pointer.coefficient != 0 {
            self.asm.multiply(to, self.general.second, pointer.coefficient);
            self.asm.add(to, from);
        } else {
            to = self.register_for(pointer.location);
            self.asm.load(to, from);
        }
        self.asm.store(to, self.word(pointer.location));
    }

    /// Encodes the code after an iteration.
    pub(super) fn end(&mut self, number: usize) {
        let info = &self.line.loops[number];
        let moves = info.phis.iter().map(|phi| (phi.phi, phi.next));
        self.moves(moves.collect());
        for pointer in &self.pointers.loops[number] {
            let bytes = pointer.coefficient.wrapping_mul(info.step);
            self.asm.add_number(self.word(pointer.location), bytes, self.general.temporary);
        }
        self.asm.repeat(self.word(self.pointers.counts[number]), self.heads[number]);
        self.inside = info.parent;
        for (_, branch) in self.skips.extract_if(.., |(of, _)| *of == number) {
            self.asm.bind(branch);
        }
    }
}
