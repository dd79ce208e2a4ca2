//! Prologue and epilogue: saved registers, the stack frame, pointers computed from the arguments, and
//! `vzeroupper`.

use iced_x86::{Code as Encoding, Instruction};

use super::general::general;
use super::{FRAME, FunctionEmitter, SECOND, STACK, TEMPORARY};
use crate::address::{Location, Pointer};
use crate::machine::{Base, Trips};
use crate::program::Index;

/// Callee-saved registers.
const SAVED: [u8; 5] = [3, 12, 13, 14, 15];

impl FunctionEmitter<'_> {
    fn has_call_range(&self) -> bool {
        self.line.loops.iter().any(|l| matches!(l.trips, Trips::Call { .. } | Trips::CallRemainder { .. }))
    }

    fn frame_bytes(&self) -> i64 {
        self.call_range_at + if self.has_call_range() { 16 } else { 0 }
    }

    pub(super) fn prologue(&mut self) {
        for register in SAVED.into_iter().filter(|r| self.pointers.used >> r & 1 == 1) {
            self.plain(Instruction::with1(Encoding::Push_r64, general(register)));
        }
        if self.frame_bytes() > 0 {
            self.plain(Instruction::with1(Encoding::Push_r64, general(FRAME)));
            self.move_register(FRAME, STACK);
            let bytes = self.frame_bytes() as i32;
            self.plain(Instruction::with2(Encoding::Sub_rm64_imm32, general(STACK), bytes));
            self.plain(Instruction::with2(Encoding::And_rm64_imm8, general(STACK), -64));
        }
        if self.has_call_range() {
            let (begin, end) = (1, 8);
            self.store_word(begin, STACK, self.call_range_at);
            self.store_word(end, STACK, self.call_range_at + 8);
        }
        for pointer in &self.pointers.loops[0] {
            self.root_pointer(pointer);
        }
    }

    /// Computes a pointer from the function's arguments.
    fn root_pointer(&mut self, pointer: &Pointer) {
        let (args, bindings, scratch) = (7, 6, 2);
        let to = match pointer.location {
            Location::Register(register) => register,
            Location::Frame(_) => TEMPORARY,
        };
        let stream = &self.unit.streams[pointer.stream as usize];
        match stream.base {
            Base::Arg(arg) => self.load_word(to, args, i64::from(arg) * 8),
            Base::Scratch => self.move_register(to, scratch),
            Base::Zero => self.number(to, 0),
        }
        self.add_number(to, stream.offset, SECOND);
        for &(index, coefficient) in &stream.terms {
            let Index::Binding(binding) = index else { continue };
            self.load_word(SECOND, bindings, i64::from(binding) * 8);
            self.multiply(SECOND, coefficient, pointer.location, to);
        }
        self.store_location(to, pointer.location);
    }

    /// Adds `register · coefficient` to `to`; clobbers `register`.
    fn multiply(&mut self, register: u8, coefficient: i64, location: Location, to: u8) {
        match i32::try_from(coefficient) {
            Ok(small) => {
                let product = Instruction::with3(
                    Encoding::Imul_r64_rm64_imm32,
                    general(register),
                    general(register),
                    small,
                );
                self.plain(product);
            }
            Err(_) => {
                // Both temporary registers are in use if the sum is in one of them.
                let spare = if to == TEMPORARY { FRAME } else { TEMPORARY };
                debug_assert!(
                    to == TEMPORARY || matches!(location, Location::Register(_)),
                    "sums have registers"
                );
                self.plain(Instruction::with1(Encoding::Push_r64, general(spare)));
                self.number(spare, coefficient);
                self.plain(Instruction::with2(Encoding::Imul_r64_rm64, general(register), general(spare)));
                self.plain(Instruction::with1(Encoding::Pop_r64, general(spare)));
            }
        }
        self.plain(Instruction::with2(Encoding::Add_r64_rm64, general(to), general(register)));
    }

    pub(super) fn epilogue(&mut self) {
        if self.unit.streaming {
            self.plain(Ok(Instruction::with(Encoding::Sfence)));
        }
        self.plain(Ok(Instruction::with(Encoding::VEX_Vzeroupper)));
        let cleared = self.length;
        if self.frame_bytes() > 0 {
            self.move_register(STACK, FRAME);
            self.plain(Instruction::with1(Encoding::Pop_r64, general(FRAME)));
        }
        for register in SAVED.into_iter().rev().filter(|r| self.pointers.used >> r & 1 == 1) {
            self.plain(Instruction::with1(Encoding::Pop_r64, general(register)));
        }
        self.plain(Ok(Instruction::with(Encoding::Retnq)));
        assert!(
            cleared >= 3 && cleared < self.length,
            "a function clears the upper halves before it returns"
        );
    }
}
