//! What the emitter of functions needs of a target: instructions on general registers and words of the stack
//! frame, branches, and vector instructions.

use crate::code::{VectorCode, VectorCompileError};
use crate::machine::{Inst, MachineProgram};

/// A 64-bit integer: a general register, or a word of the stack frame at a displacement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    Register(u8),
    Stack(i64),
}

/// An operand of a vector instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operand {
    /// A vector register, by its number among those that the allocator assigns.
    Vector(u8),
    /// Memory at a general register plus a displacement.
    Memory(u8, i64),
    /// A constant of the pool, by its index.
    Pool(u32),
}

impl Default for Operand {
    fn default() -> Operand {
        Operand::Vector(0)
    }
}

/// The allocated operands of an instruction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InstOperands {
    /// The result; the operand in memory if the instruction writes memory.
    pub(crate) dst: Option<Operand>,
    /// Absent operands are `None`.
    pub(crate) srcs: [Option<Operand>; 3],
    /// The operand in memory.
    pub(crate) memory: Option<Operand>,
}

/// The registers and the stack frame of a function.
#[derive(Clone, Debug)]
pub(crate) struct FunctionFrame {
    /// Callee-saved general registers that the function uses.
    pub(crate) saved: Vec<u8>,
    /// A bit for each vector register that the function uses.
    pub(crate) vectors: u32,
    /// Bytes of the stack frame.
    pub(crate) bytes: i64,
}

/// The position of a branch whose target is not known yet.
pub(crate) type Branch = usize;

/// The instructions of a target. Displacements without a base are from the stack pointer.
pub(crate) trait Assembler: Sized {
    /// Bytes of instructions so far.
    fn length(&self) -> usize;
    /// Saves registers and makes the stack frame.
    fn enter(&mut self, frame: &FunctionFrame);
    /// Undoes [`Assembler::enter`] and returns. Completes stores that bypass the caches if there were any.
    fn leave(&mut self, frame: &FunctionFrame, streaming: bool);
    /// Appends the constants and fills in displacements.
    fn finish(self, unit: &MachineProgram) -> Result<VectorCode, VectorCompileError>;

    /// Copies a word to a register.
    fn load(&mut self, to: u8, from: Word);
    /// Copies a register to a word.
    fn store(&mut self, from: u8, to: Word);
    /// Loads a word of memory.
    fn load_at(&mut self, to: u8, base: u8, displacement: i64);
    fn number(&mut self, to: u8, number: i64);
    /// Adds a number to a word; may clobber `spare`.
    fn add_number(&mut self, to: Word, number: i64, spare: u8);
    fn add(&mut self, to: u8, other: Word);
    fn subtract(&mut self, to: u8, other: Word);
    /// Adds `register · factor`; clobbers `register`.
    fn add_multiple(&mut self, to: u8, register: u8, factor: i64);
    /// `to := register · factor`.
    fn multiply(&mut self, to: u8, register: u8, factor: i64);
    /// Replaces `to` by the lesser of two signed numbers.
    fn minimum(&mut self, to: u8, other: u8);
    /// Stores a 32-bit word to the stack frame; may clobber the first temporary register.
    fn store_number(&mut self, displacement: i64, word: u32);

    /// Branches if a signed number is not positive.
    fn branch_unless_positive(&mut self, register: u8) -> Branch;
    /// Subtracts, and branches if the unsigned difference is not positive.
    fn subtract_or_branch(&mut self, to: u8, other: Word) -> Branch;
    /// Shifts right, and branches if the result is zero.
    fn shift_or_branch(&mut self, register: u8, shift: u32) -> Branch;
    /// Keeps the lowest bits, and branches if the result is zero.
    fn keep_bits_or_branch(&mut self, register: u8, bits: u32) -> Branch;
    /// Makes this the target of a branch.
    fn bind(&mut self, branch: Branch);
    /// Aligns the head of a loop.
    fn align(&mut self);
    /// Decrements a word, and branches back to a position if it is not zero.
    fn repeat(&mut self, count: Word, head: usize);

    fn copy_vector(&mut self, to: u8, from: u8);
    /// Loads a vector from the stack frame.
    fn load_vector(&mut self, to: u8, displacement: i64);
    /// Stores a vector to the stack frame.
    fn store_vector(&mut self, from: u8, displacement: i64);
    /// Loads a constant, by its index in the pool and its words.
    fn constant(&mut self, to: u8, constant: u32, words: &[u32]);
    /// Copies an integer to the lowest lane.
    fn integer(&mut self, to: u8, from: Word);
    /// Any other instruction.
    fn vector(&mut self, inst: &Inst, operands: InstOperands);
}
