//! Encoding: allocated instructions to machine code.
//!
//! A function starts by computing its pointers and ends with `vzeroupper`, because legacy SSE code of the
//! caller is slow while upper halves of registers are in use. The constant pool follows the code and is
//! addressed relative to `rip`. All vector instructions are VEX- or EVEX-encoded.

mod encode; // vector instructions
mod function; // prologue and epilogue
mod general; // instructions on general registers
mod inst; // instructions with their allocated operands
mod loops; // trip counts, pointers, branches
mod moves; // parallel moves and constants

use std::collections::HashMap;

use iced_x86::Encoder;

use crate::address::Pointers;
use crate::allocate::{Item, LinearCode};
use crate::code::{VectorCode, VectorCompileError};
use crate::machine::MachineProgram;

/// The number of a general register for a temporary value, such as a word of the stack frame that an
/// instruction uses.
const TEMPORARY: u8 = 0;
/// The number of the general register for a second temporary value.
const SECOND: u8 = 11;
/// The number of the general register that is the stack pointer.
const STACK: u8 = 4;
/// The number of the general register that is the frame pointer.
const FRAME: u8 = 5;

/// How a mask register treats the lanes that it does not select.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Masking {
    None,
    Zeroing,
    Merging,
}

/// The location of a register: a machine register, or a byte offset in the stack frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RegisterLocation {
    Vector(u8),
    Frame(i64),
}

/// An operand of a vector instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operand {
    Vector(u8),
    /// Memory at a general register plus a displacement.
    Memory(u8, i64),
    /// A constant of the pool, by its index.
    Pool(u32),
}

struct FunctionEmitter<'a> {
    unit: &'a MachineProgram,
    line: &'a LinearCode,
    pointers: &'a Pointers,
    encoder: Encoder,
    length: usize,
    /// References to constants: the position of the displacement, the position that it is relative to, and
    /// the constant.
    fixups: Vec<(usize, usize, u32)>,
    /// The position of each constant in the pool, which is ordered by first use.
    pool: HashMap<u32, usize>,
    pool_order: Vec<u32>,
    inside: usize,
    /// Offsets in the stack frame: the slot that resolves move cycles, the words of pointers and trip counts,
    /// and the call's range.
    cycle_slot_at: i64,
    words_at: i64,
    call_range_at: i64,
    error: Option<String>,
    /// Branches over loops without iterations: the loop, and the position of the displacement.
    skips: Vec<(usize, usize)>,
    heads: Vec<usize>,
    /// Displacements to fill in at the end.
    patches: Vec<(usize, i32)>,
}

/// Encodes a function.
pub(crate) fn emit(
    unit: &MachineProgram,
    line: &LinearCode,
    pointers: &Pointers,
) -> Result<VectorCode, VectorCompileError> {
    let register = i64::from(unit.isa.bytes());
    let cycle_slot_at = i64::from(line.frame) * register;
    let vectors = cycle_slot_at + if line.has_move_cycles() { register } else { 0 };
    let mut emit = FunctionEmitter {
        unit,
        line,
        pointers,
        encoder: Encoder::new(64),
        length: 0,
        fixups: Vec::new(),
        pool: HashMap::new(),
        pool_order: Vec::new(),
        inside: 0,
        cycle_slot_at,
        words_at: vectors,
        call_range_at: vectors + i64::from(pointers.words) * 8,
        error: None,
        skips: Vec::new(),
        heads: vec![0; line.loops.len()],
        patches: Vec::new(),
    };
    emit.prologue();
    for item in &line.items {
        match item {
            Item::Inst(inst) => emit.inst(inst),
            Item::Start(number) => emit.start(*number),
            Item::End(number) => emit.end(*number),
        }
    }
    emit.epilogue();
    emit.finish()
}

impl FunctionEmitter<'_> {
    /// Appends the constant pool and fills in displacements.
    fn finish(mut self) -> Result<VectorCode, VectorCompileError> {
        if let Some(error) = self.error {
            return Err(VectorCompileError::Encoder(error));
        }
        let mut bytes = self.encoder.take_buffer();
        let instructions = bytes.len();
        let size = self.unit.isa.bytes() as usize;
        let pool = bytes.len().next_multiple_of(size);
        bytes.resize(pool, 0);
        for constant in &self.pool_order {
            let words = &self.unit.constants[*constant as usize];
            bytes.extend(words[..size / 4].iter().flat_map(|word| word.to_le_bytes()));
        }
        for (at, end, constant) in &self.fixups {
            let distance = (pool + self.pool[constant] * size) as i64 - *end as i64;
            self.patches.push((*at, distance as i32));
        }
        for (at, distance) in &self.patches {
            bytes[*at..*at + 4].copy_from_slice(&distance.to_le_bytes());
        }
        Ok(VectorCode { bytes, instructions })
    }
}
