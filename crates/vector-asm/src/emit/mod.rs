//! Encoding: allocated instructions to machine code.
//!
//! A function starts by computing its pointers. The constant pool follows the code and is addressed relative
//! to it. What depends on the target is behind the trait [`Assembler`].

mod assembler; // what a target provides
mod function; // prologue and epilogue
mod inst; // instructions with their allocated operands
mod loops; // trip counts, pointers, branches
mod moves; // parallel moves and constants
mod pool; // constants behind the code

pub(crate) use assembler::{Assembler, Branch, FunctionFrame, InstOperands, Operand, Word};
pub(crate) use pool::ConstantPool;

use crate::address::Pointers;
use crate::allocate::{Item, LinearCode};
use crate::code::{VectorCode, VectorCompileError};
use crate::machine::{GeneralRegisters, MachineProgram};

struct FunctionEmitter<'a, A> {
    unit: &'a MachineProgram,
    line: &'a LinearCode,
    pointers: &'a Pointers,
    general: &'static GeneralRegisters,
    asm: A,
    /// The loop whose body is being emitted.
    inside: usize,
    /// Offsets in the stack frame: the slot that resolves move cycles, the words of pointers and trip counts,
    /// and the call's range.
    cycle_slot_at: i64,
    words_at: i64,
    call_range_at: i64,
    /// Branches over loops without iterations: the loop, and the branch.
    skips: Vec<(usize, Branch)>,
    heads: Vec<usize>,
}

/// Encodes a function.
pub(crate) fn emit<A: Assembler>(
    unit: &MachineProgram,
    line: &LinearCode,
    pointers: &Pointers,
    asm: A,
) -> Result<VectorCode, VectorCompileError> {
    let register = i64::from(unit.isa.bytes());
    let cycle_slot_at = i64::from(line.frame) * register;
    let vectors = cycle_slot_at + if line.has_move_cycles() { register } else { 0 };
    let mut emit = FunctionEmitter {
        unit,
        line,
        pointers,
        general: unit.isa.general_registers(),
        asm,
        inside: 0,
        cycle_slot_at,
        words_at: vectors,
        call_range_at: vectors + i64::from(pointers.words) * 8,
        skips: Vec::new(),
        heads: vec![0; line.loops.len()],
    };
    let frame = emit.frame();
    emit.prologue(&frame);
    for item in &line.items {
        match item {
            Item::Inst(inst) => emit.inst(inst),
            Item::Start(number) => emit.start(*number),
            Item::End(number) => emit.end(*number),
        }
    }
    emit.asm.leave(&frame, unit.streaming);
    emit.asm.finish(unit)
}
