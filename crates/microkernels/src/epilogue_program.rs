//! Epilogue programs, compiled for one row of a tile.
//!
//! The bindings of the compiled code are, in this order: the first column, the first lane, the row, the batch
//! indices, and the bindings of the problem. Its base addresses are A and B where a tile reads them, then
//! those of the problem.

use vector_asm::{Counter, Index, Op, Place, Stmt, Type, Value};

use crate::problem::{ACCUMULATORS, COLUMN, EPILOGUE_LANES, GemmProblem, ROW};

/// Positions of the column, the first lane, the row and the first batch index among the bindings.
pub(crate) const COLUMN_BINDING: usize = 0;
pub(crate) const LANE_BINDING: usize = 1;
pub(crate) const ROW_BINDING: usize = 2;
pub(crate) const BATCH_BINDINGS: usize = 3;

/// Positions of A, B and the problem's first argument among the base addresses.
pub(crate) const A_BASE: u32 = 0;
pub(crate) const B_BASE: u32 = 1;
pub(crate) const ARG_BASES: u32 = 2;

/// Translates an epilogue program into code for one row.
pub(crate) struct RowEpilogue<'a> {
    pub(crate) problem: &'a GemmProblem,
    /// The row's offset from the row binding; `None` if the first counter counts rows.
    pub(crate) row: Option<i64>,
    /// The number of the value that the program's value 0 becomes.
    pub(crate) first_value: u32,
    /// The operation that reads the row's accumulators.
    pub(crate) accumulators: Op,
}

/// The types with `lanes` in place of [`EPILOGUE_LANES`]; `None` if a type has neither these lanes nor one.
pub(crate) fn widened(types: &[Type], lanes: u32) -> Option<Vec<Type>> {
    let of = |ty: &Type| match ty.lanes {
        EPILOGUE_LANES => Some(Type { lanes, ..*ty }),
        1 => Some(*ty),
        _ => None,
    };
    types.iter().map(of).collect()
}

impl RowEpilogue<'_> {
    /// The statements of the row; `None` if the program has a statement that epilogues may not have.
    pub(crate) fn statements(&self) -> Option<Vec<Stmt>> {
        self.problem.epilogue.body.iter().map(|stmt| self.statement(stmt)).collect()
    }

    fn statement(&self, stmt: &Stmt) -> Option<Stmt> {
        Some(match stmt {
            Stmt::Let { value, op } => Stmt::Let { value: self.value(*value), op: self.operation(op)? },
            Stmt::Set { variable: ACCUMULATORS, .. } | Stmt::Loop { .. } => return None,
            Stmt::Set { variable, start: 0, value } => {
                Stmt::Set { variable: *variable, start: 0, value: self.value(*value) }
            }
            Stmt::Set { .. } => return None,
            Stmt::Store { place, value, streaming } => {
                Stmt::Store { place: self.place(place)?, value: self.value(*value), streaming: *streaming }
            }
            Stmt::Prefetch(place) => Stmt::Prefetch(self.place(place)?),
        })
    }

    fn operation(&self, op: &Op) -> Option<Op> {
        let of = |value: &Value| self.value(*value);
        Some(match op {
            Op::Get { variable: ACCUMULATORS, start: 0 } => self.accumulators.clone(),
            Op::Get { start: 1.., .. } | Op::Slice { .. } => return None,
            Op::Get { .. } | Op::Constant(_) => op.clone(),
            Op::Load(place) => Op::Load(self.place(place)?),
            Op::LoadIf { condition, place, otherwise } => {
                Op::LoadIf { condition: of(condition), place: self.place(place)?, otherwise: of(otherwise) }
            }
            Op::Index { offset, terms, step } => {
                let (offset, terms) = self.affine(*offset, terms)?;
                Op::Index { offset, terms, step: *step }
            }
            Op::Unary(op, a) => Op::Unary(*op, of(a)),
            Op::Binary(op, a, b) => Op::Binary(*op, of(a), of(b)),
            Op::Fma(a, b, c) => Op::Fma(of(a), of(b), of(c)),
            Op::Compare(comparison, a, b) => Op::Compare(*comparison, of(a), of(b)),
            Op::Select(condition, a, b) => Op::Select(of(condition), of(a), of(b)),
            Op::Convert(a) => Op::Convert(of(a)),
            Op::Bitcast(a) => Op::Bitcast(of(a)),
        })
    }

    fn value(&self, value: Value) -> Value {
        Value(self.first_value + value.0)
    }

    /// The place in terms of the compiled code's indices; `None` for scratch memory, which an epilogue cannot
    /// access.
    pub(crate) fn place(&self, place: &Place) -> Option<Place> {
        let (offset, terms) = self.affine(place.offset, &place.terms)?;
        Some(Place { base: Some(place.base? + ARG_BASES), offset, terms, ..place.clone() })
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

/// The number of bindings and of base addresses that an epilogue uses, up to the last one.
pub(crate) fn used_parameters(problem: &GemmProblem) -> (usize, usize) {
    let (mut bindings, mut args) = (0, 0);
    let mut see = |terms: &[(Index, i64)], base: Option<u32>| {
        args = args.max(base.map_or(0, |base| base as usize + 1));
        for (index, _) in terms {
            if let Index::Binding(binding) = index {
                bindings = bindings.max(*binding as usize + 1);
            }
        }
    };
    for stmt in &problem.epilogue.body {
        match stmt {
            Stmt::Store { place, .. } | Stmt::Prefetch(place) => see(&place.terms, place.base),
            Stmt::Let { op: Op::Load(place) | Op::LoadIf { place, .. }, .. } => {
                see(&place.terms, place.base);
            }
            Stmt::Let { op: Op::Index { terms, .. }, .. } => see(terms, None),
            _ => {}
        }
    }
    if let Some(initial) = &problem.initial {
        see(&initial.terms, initial.base);
    }
    (bindings, args)
}
