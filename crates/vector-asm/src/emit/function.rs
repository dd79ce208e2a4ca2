//! The prologue: the stack frame, and pointers computed from the arguments.

use super::{Assembler, FunctionEmitter, FunctionFrame, Word};
use crate::address::{Location, Pointer};
use crate::allocate::NOWHERE;
use crate::machine::{Base, Trips};
use crate::program::Index;

impl<A: Assembler> FunctionEmitter<'_, A> {
    fn has_call_range(&self) -> bool {
        self.line.loops.iter().any(|l| matches!(l.trips, Trips::Call { .. } | Trips::CallRemainder { .. }))
    }

    pub(super) fn frame(&self) -> FunctionFrame {
        let saved = self.general.saved.iter().copied().filter(|r| self.pointers.used >> r & 1 == 1);
        let constants = self.line.loops.iter().flat_map(|info| &info.constants).map(|(_, register)| register);
        let vectors = self.line.machine.iter().chain(constants).filter(|register| **register != NOWHERE);
        FunctionFrame {
            saved: saved.collect(),
            vectors: vectors.fold(0, |bits, register| bits | 1 << register),
            bytes: self.call_range_at + if self.has_call_range() { 16 } else { 0 },
        }
    }

    pub(super) fn prologue(&mut self, frame: &FunctionFrame) {
        self.asm.enter(frame);
        if self.has_call_range() {
            let [.., begin, end] = self.general.arguments;
            self.asm.store(begin, Word::Stack(self.call_range_at));
            self.asm.store(end, Word::Stack(self.call_range_at + 8));
        }
        for pointer in &self.pointers.loops[0] {
            self.root_pointer(pointer);
        }
    }

    /// Computes a pointer from the function's arguments.
    fn root_pointer(&mut self, pointer: &Pointer) {
        let ([args, bindings, scratch, ..], second) = (self.general.arguments, self.general.second);
        let to = self.register_for(pointer.location);
        let stream = &self.unit.streams[pointer.stream as usize];
        match stream.base {
            Base::Arg(arg) => self.asm.load_at(to, args, i64::from(arg) * 8),
            Base::Scratch => self.asm.load(to, Word::Register(scratch)),
            Base::Zero => self.asm.number(to, 0),
        }
        self.asm.add_number(Word::Register(to), stream.offset, second);
        for &(index, coefficient) in &stream.terms {
            let Index::Binding(binding) = index else { continue };
            self.asm.load_at(second, bindings, i64::from(binding) * 8);
            self.asm.add_multiple(to, second, coefficient);
        }
        self.asm.store(to, self.word(pointer.location));
    }

    /// The register in which the word at a location is computed.
    pub(super) fn register_for(&self, location: Location) -> u8 {
        match location {
            Location::Register(register) => register,
            Location::Frame(_) => self.general.temporary,
        }
    }

    pub(super) fn word(&self, location: Location) -> Word {
        match location {
            Location::Register(register) => Word::Register(register),
            Location::Frame(word) => Word::Stack(self.words_at + i64::from(word) * 8),
        }
    }
}
