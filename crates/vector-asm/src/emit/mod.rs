//! Instructions to bytes.
//!
//! A function begins with its pointers and ends with `vzeroupper`, which is asserted: SSE code would pay for upper halves that are in use. Constants
//! stand behind the code and are reached relative to it. All instructions on vector registers are VEX-encoded.

mod encode; // vector instructions
mod function; // beginning and end
mod general; // general registers
mod inst; // instructions with their operands
mod loops; // counts, pointers, jumps
mod moves; // copies and constants

use std::collections::HashMap;

use iced_x86::Encoder;

use crate::address::Pointers;
use crate::allocate::{Item, Line};
use crate::code::{Code, Refusal};
use crate::machine::Unit;

/// Registers that hold what lies in the frame while it is used.
const TEMPORARY: u8 = 0;
const SECOND: u8 = 11;
const STACK: u8 = 4;
const FRAME: u8 = 5;

/// What a mask register does to lanes without their bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Masking {
    None,
    Zeroing,
    Merging,
}

/// Where a register is: its machine register, or from which byte of the stack frame on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Vector(u8),
    Frame(i64),
}

/// An operand of a vector instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operand {
    Vector(u8),
    /// Memory at a general register.
    Memory(u8, i64),
    /// A constant of the pool.
    Pool(u32),
}

struct Emit<'a> {
    unit: &'a Unit,
    line: &'a Line,
    pointers: &'a Pointers,
    encoder: Encoder,
    length: usize,
    /// Where the distance to a constant stands, where it is counted from, and the constant.
    fixups: Vec<(usize, usize, u32)>,
    /// Where each constant that is used will be, in the order of first use.
    pool: HashMap<u32, usize>,
    pool_order: Vec<u32>,
    inside: usize,
    /// Where in the stack frame there is room for one more register, and where the words of pointers and of the part begin.
    spare_at: i64,
    words_at: i64,
    part_at: i64,
    error: Option<String>,
    /// Jumps over loops without iterations: where the distance stands, by loop.
    skips: Vec<(usize, usize)>,
    heads: Vec<usize>,
    /// Distances that are known in the end.
    patches: Vec<(usize, i32)>,
}

/// Encodes everything.
pub(crate) fn emit(unit: &Unit, line: &Line, pointers: &Pointers) -> Result<Code, Refusal> {
    let register = i64::from(unit.isa.bytes());
    let spare_at = i64::from(line.frame) * register;
    let vectors = spare_at + if line.has_circles() { register } else { 0 };
    let mut emit = Emit {
        unit,
        line,
        pointers,
        encoder: Encoder::new(64),
        length: 0,
        fixups: Vec::new(),
        pool: HashMap::new(),
        pool_order: Vec::new(),
        inside: 0,
        spare_at,
        words_at: vectors,
        part_at: vectors + i64::from(pointers.words) * 8,
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

impl Emit<'_> {
    /// The bytes, with constants behind them and distances filled in.
    fn finish(mut self) -> Result<Code, Refusal> {
        if let Some(error) = self.error {
            return Err(Refusal::Encoder(error));
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
        Ok(Code { bytes, instructions })
    }
}
