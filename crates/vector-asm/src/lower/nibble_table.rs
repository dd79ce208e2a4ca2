//! Floats that depend on four bits of an integer, by a table in a register.
//!
//! AVX-512 has a permutation that selects each lane by the low four bits of an index, and ignores the other
//! bits. So one instruction replaces the mask, the addition of a constant and the conversion to
//! `f32`. Weights of four bits are decoded in this way.

use std::collections::{HashMap, HashSet};

use crate::program::{Binary, LaneType, Value, VectorOp, VectorProgram, VectorStmt};

/// The entries of a table: a float for each number of four bits.
const ENTRIES: usize = 16;

/// The conversions of a program that tables replace.
#[derive(Default)]
pub(crate) struct NibbleTables {
    /// For each conversion, the integer whose low bits select the float, and the words of the table.
    pub(super) lookups: HashMap<Value, (Value, [u32; ENTRIES])>,
    /// Values that only replaced conversions use.
    pub(super) unused: HashSet<Value>,
}

impl NibbleTables {
    /// The conversions of a program that tables can replace.
    pub(crate) fn of(program: &VectorProgram) -> NibbleTables {
        let mut definitions = Definitions::default();
        definitions.block(&program.body);
        let mut tables = NibbleTables::default();
        for (&value, op) in &definitions.ops {
            let VectorOp::Convert(number) = **op else { continue };
            let is_single = program.values[value.0 as usize].element == LaneType::F32;
            if let Some((index, offset, unused)) = definitions.nibble(number)
                && is_single
                && is_words(program, number)
                && program.values[index.0 as usize].lanes > 1
            {
                let entry = |at: usize| (at as i32).wrapping_add(offset);
                let table = std::array::from_fn(|at| (entry(at) as f32).to_bits());
                tables.lookups.insert(value, (index, table));
                tables.unused.extend(unused);
            }
        }
        tables
    }
}

/// The number of conversions in a program that decode four bits, which AVX-512 does in one instruction.
pub fn nibble_lookups(program: &VectorProgram) -> usize {
    NibbleTables::of(program).lookups.len()
}

/// Whether the lanes are signed 32-bit numbers.
fn is_words(program: &VectorProgram, value: Value) -> bool {
    program.values[value.0 as usize].element == LaneType::I32
}

/// The operation of each value, and the number of its uses.
#[derive(Default)]
struct Definitions<'p> {
    ops: HashMap<Value, &'p VectorOp>,
    uses: HashMap<Value, u32>,
}

impl<'p> Definitions<'p> {
    fn block(&mut self, body: &'p [VectorStmt]) {
        for stmt in body {
            match stmt {
                VectorStmt::Loop { body, .. } => self.block(body),
                VectorStmt::Let { value, op } => {
                    super::operands(op).for_each(|operand| *self.uses.entry(operand).or_default() += 1);
                    self.ops.insert(*value, op);
                }
                VectorStmt::Set { value, .. } | VectorStmt::Store { value, .. } => {
                    *self.uses.entry(*value).or_default() += 1;
                }
                VectorStmt::Prefetch(_) => {}
            }
        }
    }

    /// For `x & 15` or `(x & 15) + offset` that has one use: `x`, the offset, and the values between.
    fn nibble(&self, value: Value) -> Option<(Value, i32, Vec<Value>)> {
        let (x, k) = self.with_constant(value, Binary::And).unzip();
        if let (Some(x), Some(15)) = (x, k) {
            return Some((x, 0, vec![value]));
        }
        let (masked, offset) = self.with_constant(value, Binary::Add)?;
        let (x, _) = self.with_constant(masked, Binary::And).filter(|(_, mask)| *mask == 15)?;
        Some((x, offset as u32 as i32, vec![value, masked]))
    }

    /// The operands of an operation on a value and a constant that has one use.
    fn with_constant(&self, value: Value, wanted: Binary) -> Option<(Value, u64)> {
        match self.ops.get(&value)? {
            VectorOp::Binary(op, x, k) if *op == wanted && self.uses.get(&value) == Some(&1) => {
                match self.ops.get(k)? {
                    VectorOp::Constant(k) => Some((*x, *k)),
                    _ => None,
                }
            }
            _ => None,
        }
    }
}
