//! Parallel moves between registers and stack slots, and constants.

use super::{Assembler, FunctionEmitter, Word};
use crate::allocate::NO_SLOT;
use crate::machine::{NOT_CONSTANT, Reg};

/// The location of a register: a machine register, or a byte offset in the stack frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RegisterLocation {
    Vector(u8),
    Frame(i64),
}

impl<A: Assembler> FunctionEmitter<'_, A> {
    /// Performs a parallel move: every source is read before any destination is written.
    pub(super) fn moves(&mut self, mut moves: Vec<(Reg, Reg)>) {
        moves.retain(|(to, from)| from.is_register() && to != from);
        let (constants, between): (Vec<_>, Vec<_>) =
            moves.into_iter().partition(|(_, from)| self.unit.registers[from.index()] != NOT_CONSTANT);
        let places = between.into_iter().map(|(to, from)| (self.place(to), self.place(from)));
        self.parallel(places.filter(|(to, from)| to != from).collect());
        for (to, constant) in constants {
            match self.place(to) {
                RegisterLocation::Vector(register) => self.constant(register, constant),
                RegisterLocation::Frame(at) => self.constant_to_frame(at, constant),
            }
        }
    }

    fn place(&self, reg: Reg) -> RegisterLocation {
        match self.line.slots[reg.index()] {
            NO_SLOT => RegisterLocation::Vector(self.line.machine[reg.index()]),
            place => RegisterLocation::Frame(i64::from(place) * i64::from(self.unit.isa.bytes())),
        }
    }

    /// Emits moves that take effect at the same time. A move to a destination that no pending move reads can
    /// be emitted next. If there is none, the pending moves form cycles; a cycle is broken by saving the old
    /// value of one destination in a spare slot.
    fn parallel(&mut self, mut moves: Vec<(RegisterLocation, RegisterLocation)>) {
        while !moves.is_empty() {
            let free = moves.iter().position(|(to, _)| !moves.iter().any(|(_, from)| from == to));
            if let Some(i) = free {
                let (to, from) = moves.swap_remove(i);
                self.copy(to, from);
                continue;
            }
            let kept = moves[0].0;
            let spare = RegisterLocation::Frame(self.cycle_slot_at);
            self.copy(spare, kept);
            moves.iter_mut().filter(|(_, from)| *from == kept).for_each(|(_, from)| *from = spare);
        }
    }

    fn copy(&mut self, to: RegisterLocation, from: RegisterLocation) {
        match (to, from) {
            (RegisterLocation::Vector(to), RegisterLocation::Vector(from)) => self.asm.copy_vector(to, from),
            (RegisterLocation::Vector(to), RegisterLocation::Frame(from)) => self.asm.load_vector(to, from),
            (RegisterLocation::Frame(to), RegisterLocation::Vector(from)) => self.asm.store_vector(from, to),
            (RegisterLocation::Frame(to), RegisterLocation::Frame(from)) => {
                for word in (0..i64::from(self.unit.isa.bytes())).step_by(8) {
                    self.asm.load(self.general.temporary, Word::Stack(from + word));
                    self.asm.store(self.general.temporary, Word::Stack(to + word));
                }
            }
        }
    }

    fn constant_to_frame(&mut self, to: i64, constant: Reg) {
        let words = self.unit.constant(constant).expect("it is a constant");
        for (i, word) in words.iter().enumerate().take(self.unit.isa.words()) {
            self.asm.store_number(to + 4 * i as i64, *word);
        }
    }

    /// Loads a constant into a register.
    pub(super) fn constant(&mut self, to: u8, constant: Reg) {
        let words = self.unit.constant(constant).expect("it is a constant");
        let index = self.unit.registers[constant.index()];
        self.asm.constant(to, index, &words[..self.unit.isa.words()]);
    }
}
