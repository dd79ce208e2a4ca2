//! Code for what becomes of the sums, where that is more than a store.
//!
//! The epilogue's template becomes a program per width: a loop over the rows of a tile, whose sums lie in scratch memory, with as many lanes as
//! the tile has columns. What it computes is in registers from there to its stores; the sums never leave the first-level cache.
//!
//! The code's bindings are, in this order: the column, the first lane, the indices of the batch, the contraction's own bindings.

use std::ops::Range;

use vector_asm::{
    Counter, ExecutableCode, Function, Index, Isa, Memory, Op, Place, Program, Range as Values, Stmt, Type,
    compile,
};

use crate::contraction::{COLUMN, Contraction, LANES, ROW, SUM, Split};

/// Compiled code for the sums of tiles.
#[derive(Debug)]
pub(crate) struct Epilogue {
    /// By width, the widest first. Every number of columns that occurs is a sum of these.
    functions: Vec<(usize, Function)>,
    /// Holds the functions.
    _code: ExecutableCode,
    batch: usize,
    bindings: usize,
}

/// Where the column and the first lane are among the bindings; the batch follows.
const COLUMN_AT: usize = 0;
const LANE_AT: usize = 1;
const BATCH_AT: usize = 2;

impl Epilogue {
    /// `None` if there is no code for it. Tiles have up to `width` columns.
    pub(crate) fn new(what: &Contraction, width: usize) -> Option<Epilogue> {
        let widths = widths(what, width);
        let codes: Option<Vec<_>> = (widths.iter())
            .map(|&lanes| compile(&program(what, width, lanes as u32)?, Isa::Avx2).ok())
            .collect();
        let codes = codes?;
        let code = ExecutableCode::load_all(&codes.iter().collect::<Vec<_>>()).ok()?;
        let functions = widths.into_iter().enumerate().map(|(i, width)| (width, code.function(i))).collect();
        let bindings = mentioned(what);
        Some(Epilogue { functions, _code: code, batch: what.batch.len(), bindings })
    }

    /// How many bindings the code has.
    pub(crate) fn bindings(&self) -> usize {
        BATCH_AT + self.batch + self.bindings
    }

    /// Writes what does not change during a call.
    ///
    /// # Safety
    ///
    /// `to` has room for [`Epilogue::bindings`], and `from` has those that the contraction mentions.
    pub(crate) unsafe fn begin(&self, to: *mut i64, from: *const i64) {
        for i in 0..self.bindings {
            // SAFETY: the caller's promise.
            unsafe { *to.add(BATCH_AT + self.batch + i) = *from.add(i) };
        }
    }

    /// Writes the indices of the batch.
    ///
    /// # Safety
    ///
    /// `to` has room for [`Epilogue::bindings`].
    pub(crate) unsafe fn enter(&self, to: *mut i64, batch: &[u64]) {
        for (i, &index) in batch.iter().enumerate().take(self.batch) {
            // SAFETY: the caller's promise.
            unsafe { *to.add(BATCH_AT + i) = index as i64 };
        }
    }

    /// Runs on the sums of a tile, `width` elements from row to row.
    ///
    /// # Safety
    ///
    /// The arguments are those of the contraction, the bindings those written by [`Epilogue::begin`] and [`Epilogue::enter`].
    #[inline(always)]
    pub(crate) unsafe fn run(
        &self,
        args: *const *mut u8,
        bindings: *mut i64,
        sums: *mut u8,
        rows: Range<usize>,
        columns: Range<usize>,
    ) {
        // The code counts rows from the first one of the contraction.
        let sums = sums.wrapping_sub(rows.start * ROW_BYTES);
        let mut at = 0;
        for &(width, function) in &self.functions {
            while columns.len() - at >= width {
                // SAFETY: the caller's promise; the code touches what the epilogue names for these rows and columns.
                unsafe {
                    *bindings.add(COLUMN_AT) = (columns.start + at) as i64;
                    *bindings.add(LANE_AT) = at as i64;
                    function(args, bindings, sums, rows.start as u64, rows.end as u64);
                }
                at += width;
            }
        }
    }
}

/// Bytes of a row of sums: two vectors.
const ROW_BYTES: usize = 64;

/// The widths of which every number of columns of a tile is made up.
fn widths(what: &Contraction, width: usize) -> Vec<usize> {
    let mut widths = vec![(what.columns % width as u64) as usize];
    if what.columns >= width as u64 {
        widths.push(width);
    }
    if what.split == Split::Columns {
        widths.extend((0..width.ilog2()).map(|log| 1 << log));
    }
    widths.retain(|&width| width > 0);
    widths.sort_unstable_by(|a, b| b.cmp(a));
    widths.dedup();
    widths
}

/// How many bindings a contraction has: those up to the last one that it mentions.
fn mentioned(what: &Contraction) -> usize {
    let mut most = 0;
    let mut see = |terms: &[(Index, i64)]| {
        for (index, _) in terms {
            if let Index::Binding(binding) = index {
                most = most.max(*binding as usize + 1);
            }
        }
    };
    for stmt in &what.epilogue.body {
        match stmt {
            Stmt::Store { place, .. } | Stmt::Prefetch(place) => see(&place.terms),
            Stmt::Let { op: Op::Load(place) | Op::LoadIf { place, .. }, .. } => see(&place.terms),
            Stmt::Let { op: Op::Index { terms, .. }, .. } => see(terms),
            _ => {}
        }
    }
    most
}

/// The program for one width; `None` if the template is not one.
fn program(what: &Contraction, width: usize, lanes: u32) -> Option<Program> {
    let template = &what.epilogue;
    let size = i64::from(what.element.bytes());
    let sums = Place {
        base: None,
        offset: 0,
        terms: vec![(ROW, width as i64 * size), (Index::Binding(LANE_AT as u32), size)],
        step: size,
        memory: Memory::Same,
    };
    let widened = |types: &[Type]| -> Option<Vec<Type>> {
        let of = |ty: &Type| match ty.lanes {
            LANES => Some(Type { lanes, ..*ty }),
            1 => Some(*ty),
            _ => None,
        };
        types.iter().map(of).collect()
    };
    let body: Option<Vec<Stmt>> = template.body.iter().map(|stmt| statement(what, stmt, &sums)).collect();
    Some(Program {
        values: widened(&template.values)?,
        variables: widened(&template.variables)?,
        counters: 1,
        body: vec![Stmt::Loop { counter: Counter(0), range: Values::Part, body: body? }],
    })
}

fn statement(what: &Contraction, stmt: &Stmt, sums: &Place) -> Option<Stmt> {
    Some(match stmt {
        Stmt::Let { value, op } => Stmt::Let { value: *value, op: operation(what, op, sums)? },
        Stmt::Set { variable: SUM, .. } | Stmt::Loop { .. } => return None,
        Stmt::Set { variable, start: 0, value } => Stmt::Set { variable: *variable, start: 0, value: *value },
        Stmt::Set { .. } => return None,
        Stmt::Store { place, value, streaming } => {
            Stmt::Store { place: moved(what, place)?, value: *value, streaming: *streaming }
        }
        Stmt::Prefetch(place) => Stmt::Prefetch(moved(what, place)?),
    })
}

fn operation(what: &Contraction, op: &Op, sums: &Place) -> Option<Op> {
    Some(match op {
        Op::Get { variable: SUM, start: 0 } => Op::Load(sums.clone()),
        Op::Get { start: 1.., .. } | Op::Slice { .. } => return None,
        Op::Load(place) => Op::Load(moved(what, place)?),
        Op::LoadIf { condition, place, otherwise } => {
            Op::LoadIf { condition: *condition, place: moved(what, place)?, otherwise: *otherwise }
        }
        Op::Index { offset, terms, step } => {
            Op::Index { offset: *offset, terms: terms_moved(what, terms)?, step: *step }
        }
        other => other.clone(),
    })
}

/// A place by the indices of the code. Scratch memory is not the epilogue's.
fn moved(what: &Contraction, place: &Place) -> Option<Place> {
    place.base?;
    Some(Place { terms: terms_moved(what, &place.terms)?, ..place.clone() })
}

fn terms_moved(what: &Contraction, terms: &[(Index, i64)]) -> Option<Vec<(Index, i64)>> {
    let batch = what.batch.len() as u32;
    let index = |index: Index| {
        Some(match index {
            ROW => ROW,
            COLUMN => Index::Binding(COLUMN_AT as u32),
            Index::Counter(Counter(counter)) if counter - 2 < batch => {
                Index::Binding(BATCH_AT as u32 + counter - 2)
            }
            Index::Counter(_) => return None,
            Index::Binding(binding) => Index::Binding(BATCH_AT as u32 + batch + binding),
        })
    };
    terms.iter().map(|&(i, coefficient)| Some((index(i)?, coefficient))).collect()
}
