//! Indices and addresses as values.
//!
//! An address is a sum of the base and one scaled variable after another, from the outermost loop inwards,
//! with all constants in the displacement. Every partial sum is a shared operation, so it is computed once,
//! in the loop that defines its last variable; the innermost term becomes part of the access's addressing
//! mode.

use codegen_core::emit::{IndexSum, LinearValue};
use cranelift_codegen::ir::{Opcode, Value, types};
use lowered_ir::ir::{Affine, Var};

use super::Emitter;

/// An address in memory, as a base and a displacement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Address {
    pub(super) base: Value,
    pub(super) offset: i32,
}

impl Emitter<'_> {
    /// The value of an index, as `i64`.
    pub(super) fn index(&mut self, index: &Affine) -> Value {
        let IndexSum { terms, offset } = self.resolve(index);
        let sum = terms.into_iter().fold(None, |sum, (value, factor)| {
            let term = self.scaled(value, factor);
            Some(match sum {
                None => term,
                Some(sum) => self.ssa.binary(Opcode::Iadd, sum, term),
            })
        });
        match sum {
            None => self.ssa.int(types::I64, offset),
            Some(sum) => self.plus(sum, offset),
        }
    }

    pub(super) fn constant_index(&mut self, index: &Affine) -> Option<i64> {
        self.resolve(index).as_constant()
    }

    /// The address `bytes` after `base`.
    pub(super) fn address(&mut self, base: Value, bytes: &Affine) -> Address {
        let IndexSum { terms, offset } = self.resolve(bytes);
        let base = terms.into_iter().fold(base, |sum, (value, factor)| {
            let term = self.scaled(value, factor);
            self.ssa.binary(Opcode::Iadd, sum, term)
        });
        self.displaced(base, offset)
    }

    /// The address a constant number of bytes after a base.
    pub(super) fn displaced(&mut self, base: Value, offset: i64) -> Address {
        // The limit leaves room for the displacements of a vector's other registers.
        match i32::try_from(offset) {
            Ok(offset) if offset.abs() < i32::MAX / 2 => Address { base, offset },
            _ => Address { base: self.plus(base, offset), offset: 0 },
        }
    }

    /// The index as a sum. Terms of outer loops come first.
    fn resolve(&mut self, index: &Affine) -> IndexSum<Value> {
        let mut sum = IndexSum::new(index, |var| match var {
            Var::Loop(id) => self.vars[&id],
            Var::Symbol(id) => LinearValue::computed(self.binding(id)),
        });
        sum.terms.sort_by_key(|&(value, _)| self.ssa.depth_of(value));
        sum
    }

    fn scaled(&mut self, value: Value, factor: i64) -> Value {
        match factor {
            1 => value,
            2.. if factor.count_ones() == 1 => {
                let by = self.ssa.int(types::I64, i64::from(factor.trailing_zeros()));
                self.ssa.binary(Opcode::Ishl, value, by)
            }
            _ => {
                let by = self.ssa.int(types::I64, factor);
                self.ssa.binary(Opcode::Imul, value, by)
            }
        }
    }

    fn plus(&mut self, value: Value, offset: i64) -> Value {
        if offset == 0 {
            return value;
        }
        let offset = self.ssa.int(types::I64, offset);
        self.ssa.binary(Opcode::Iadd, value, offset)
    }
}
