//! Epilogues, which are templates, as statements of code for some neighbouring columns of a row.
//!
//! The code's bindings are, in this order: the column, the first lane, the row, the indices of the batch, the contraction's own bindings. Its
//! base addresses are the left factor and the right one where a tile reads them, then those of the contraction.

use vector_asm::{Counter, Index, Op, Place, Stmt, Type, Value};

use crate::contraction::{COLUMN, Contraction, LANES, ROW, SUM};

/// Where the column, the first lane and the row are among the bindings; the batch follows.
pub(crate) const COLUMN_AT: usize = 0;
pub(crate) const LANE_AT: usize = 1;
pub(crate) const ROW_AT: usize = 2;
pub(crate) const BATCH_AT: usize = 3;

/// Where the factors are among the base addresses; those of the contraction follow.
pub(crate) const LEFT_AT: u32 = 0;
pub(crate) const RIGHT_AT: u32 = 1;
pub(crate) const ARGS_AT: u32 = 2;

/// A row's copy of a template.
pub(crate) struct Copy<'a> {
    pub(crate) what: &'a Contraction,
    /// How far the row is from that of the binding; `None` if it is what the first counter counts.
    pub(crate) row: Option<i64>,
    /// The value that the template's first one becomes.
    pub(crate) first: u32,
    /// Where the sums are.
    pub(crate) sums: Op,
}

/// The template's types with so many lanes; `None` if it is not one.
pub(crate) fn widened(types: &[Type], lanes: u32) -> Option<Vec<Type>> {
    let of = |ty: &Type| match ty.lanes {
        LANES => Some(Type { lanes, ..*ty }),
        1 => Some(*ty),
        _ => None,
    };
    types.iter().map(of).collect()
}

impl Copy<'_> {
    /// The statements; `None` if the template is not one.
    pub(crate) fn statements(&self) -> Option<Vec<Stmt>> {
        self.what.epilogue.body.iter().map(|stmt| self.statement(stmt)).collect()
    }

    fn statement(&self, stmt: &Stmt) -> Option<Stmt> {
        Some(match stmt {
            Stmt::Let { value, op } => Stmt::Let { value: self.value(*value), op: self.operation(op)? },
            Stmt::Set { variable: SUM, .. } | Stmt::Loop { .. } => return None,
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
            Op::Get { variable: SUM, start: 0 } => self.sums.clone(),
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
        Value(self.first + value.0)
    }

    /// A place by the indices of the code. Scratch memory is not the epilogue's.
    pub(crate) fn place(&self, place: &Place) -> Option<Place> {
        let (offset, terms) = self.affine(place.offset, &place.terms)?;
        Some(Place { base: Some(place.base? + ARGS_AT), offset, terms, ..place.clone() })
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
        let batch = self.what.batch.len() as u32;
        Some(match index {
            ROW if self.row.is_none() => ROW,
            ROW => Index::Binding(ROW_AT as u32),
            COLUMN => Index::Binding(COLUMN_AT as u32),
            Index::Counter(Counter(counter)) if counter - 2 < batch => {
                Index::Binding(BATCH_AT as u32 + counter - 2)
            }
            Index::Counter(_) => return None,
            Index::Binding(binding) => Index::Binding(BATCH_AT as u32 + batch + binding),
        })
    }
}

/// How many bindings and base addresses a contraction has for its epilogue: those up to the last one that it mentions.
pub(crate) fn mentioned(what: &Contraction) -> (usize, usize) {
    let (mut bindings, mut args) = (0, 0);
    let mut see = |terms: &[(Index, i64)], base: Option<u32>| {
        args = args.max(base.map_or(0, |base| base as usize + 1));
        for (index, _) in terms {
            if let Index::Binding(binding) = index {
                bindings = bindings.max(*binding as usize + 1);
            }
        }
    };
    for stmt in &what.epilogue.body {
        match stmt {
            Stmt::Store { place, .. } | Stmt::Prefetch(place) => see(&place.terms, place.base),
            Stmt::Let { op: Op::Load(place) | Op::LoadIf { place, .. }, .. } => {
                see(&place.terms, place.base);
            }
            Stmt::Let { op: Op::Index { terms, .. }, .. } => see(terms, None),
            _ => {}
        }
    }
    if let Some(start) = &what.start {
        see(&start.terms, start.base);
    }
    (bindings, args)
}
