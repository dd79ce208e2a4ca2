//! Epilogue programs, compiled for one row of a tile.
//!
//! The bindings of the compiled code are, in this order: the first column, the first lane, the row, the batch
//! indices, and the bindings of the problem. Its base addresses are, in this order: the first elements of A
//! and of B that a tile reads, the first element that it prefetches for the next tile, and the base addresses
//! of the problem.

use vector_asm::{Counter, Index, Value, VectorAddress, VectorOp, VectorStmt, VectorType};

use crate::epilogue::{ARG_BASES, BATCH_BINDINGS, COLUMN_BINDING, ROW_BINDING};
use crate::problem::{ACCUMULATORS, COLUMN, EPILOGUE_LANES, GemmProblem, ROW};

/// Translates an epilogue program into code for one row.
pub(crate) struct RowEpilogue<'a> {
    pub(crate) problem: &'a GemmProblem,
    /// The row's offset from the row binding; `None` if the first counter counts rows.
    pub(crate) row: Option<i64>,
    /// The number that value 0 of the program gets in the compiled code; the other values follow.
    pub(crate) first_value: u32,
    /// The operation that reads the row's accumulators.
    pub(crate) accumulators: VectorOp,
}

/// The types with `lanes` in place of [`EPILOGUE_LANES`]; `None` if a type has neither [`EPILOGUE_LANES`]
/// lanes nor one lane.
pub(crate) fn widened(types: &[VectorType], lanes: u32) -> Option<Vec<VectorType>> {
    let of = |ty: &VectorType| match ty.lanes {
        EPILOGUE_LANES => Some(VectorType { lanes, ..*ty }),
        1 => Some(*ty),
        _ => None,
    };
    types.iter().map(of).collect()
}

impl RowEpilogue<'_> {
    /// The statements of the row; `None` if the program has a statement that epilogues may not have.
    pub(crate) fn statements(&self) -> Option<Vec<VectorStmt>> {
        self.problem.epilogue.body.iter().map(|stmt| self.statement(stmt)).collect()
    }

    fn statement(&self, stmt: &VectorStmt) -> Option<VectorStmt> {
        Some(match stmt {
            VectorStmt::Let { value, op } => {
                VectorStmt::Let { value: self.value(*value), op: self.operation(op)? }
            }
            VectorStmt::Set { variable: ACCUMULATORS, .. } | VectorStmt::Loop { .. } => return None,
            VectorStmt::Set { variable, start: 0, value } => {
                VectorStmt::Set { variable: *variable, start: 0, value: self.value(*value) }
            }
            VectorStmt::Set { .. } => return None,
            VectorStmt::Store { place, value, streaming } => VectorStmt::Store {
                place: self.place(place)?,
                value: self.value(*value),
                streaming: *streaming,
            },
            VectorStmt::Prefetch(place) => VectorStmt::Prefetch(self.place(place)?),
        })
    }

    fn operation(&self, op: &VectorOp) -> Option<VectorOp> {
        let of = |value: &Value| self.value(*value);
        Some(match op {
            VectorOp::Get { variable: ACCUMULATORS, start: 0 } => self.accumulators.clone(),
            VectorOp::Get { start: 1.., .. } | VectorOp::Slice { .. } => return None,
            VectorOp::Get { .. } | VectorOp::Constant(_) => op.clone(),
            VectorOp::Load(place) => VectorOp::Load(self.place(place)?),
            VectorOp::LoadIf { condition, place, otherwise } => VectorOp::LoadIf {
                condition: of(condition),
                place: self.place(place)?,
                otherwise: of(otherwise),
            },
            VectorOp::Index { offset, terms, step } => {
                let (offset, terms) = self.affine(*offset, terms)?;
                VectorOp::Index { offset, terms, step: *step }
            }
            VectorOp::Unary(op, a) => VectorOp::Unary(*op, of(a)),
            VectorOp::Binary(op, a, b) => VectorOp::Binary(*op, of(a), of(b)),
            VectorOp::Fma(a, b, c) => VectorOp::Fma(of(a), of(b), of(c)),
            VectorOp::Compare(comparison, a, b) => VectorOp::Compare(*comparison, of(a), of(b)),
            VectorOp::Select(condition, a, b) => VectorOp::Select(of(condition), of(a), of(b)),
            VectorOp::Convert(a) => VectorOp::Convert(of(a)),
            VectorOp::Bitcast(a) => VectorOp::Bitcast(of(a)),
        })
    }

    fn value(&self, value: Value) -> Value {
        Value(self.first_value + value.0)
    }

    /// The place in terms of the compiled code's indices; `None` for scratch memory, which an epilogue cannot
    /// access.
    pub(crate) fn place(&self, place: &VectorAddress) -> Option<VectorAddress> {
        let (offset, terms) = self.affine(place.offset, &place.terms)?;
        Some(VectorAddress { base: Some(place.base? + ARG_BASES), offset, terms, ..place.clone() })
    }

    fn affine(&self, mut offset: i64, terms: &[(Index, i64)]) -> Option<(i64, Vec<(Index, i64)>)> {
        let mut moved = Vec::with_capacity(terms.len());
        for &(index, coefficient) in terms {
            if let (ROW, Some(row)) = (index, self.row) {
                offset = offset.wrapping_add(coefficient.wrapping_mul(row));
            }
            moved.push((self.index(index)?, coefficient));
        }
        Some((offset, moved))
    }

    fn index(&self, index: Index) -> Option<Index> {
        let batch = self.problem.batch.len() as u32;
        Some(match index {
            ROW if self.row.is_none() => ROW,
            ROW => Index::Binding(ROW_BINDING as u32),
            COLUMN => Index::Binding(COLUMN_BINDING as u32),
            Index::Counter(Counter(counter)) if counter - 2 < batch => {
                Index::Binding(BATCH_BINDINGS as u32 + counter - 2)
            }
            Index::Counter(_) => return None,
            Index::Binding(binding) => Index::Binding(BATCH_BINDINGS as u32 + batch + binding),
        })
    }
}
