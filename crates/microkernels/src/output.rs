//! Where sums begin and where they go.
//!
//! An epilogue that only stores the sums needs no code of its own: tiles store them. For any other one there is code that was compiled for
//! it ([`crate::epilogue`]).

use vector_asm::{Index, Memory, Op, Place, Program, Stmt};

use crate::contraction::{COLUMN, Contraction, ROW, SUM};

/// A place whose address is known from bases, bindings, and indices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Spot {
    base: usize,
    offset: i64,
    /// Bytes from a row to the next.
    pub(crate) row: isize,
    /// Bytes from a column to the next.
    pub(crate) column: isize,
    /// By index of the batch.
    pub(crate) batch: Vec<i64>,
    bindings: Vec<(usize, i64)>,
}

impl Spot {
    /// `None` if elements there are not those that are summed, or lie otherwise than the columns say.
    pub(crate) fn new(what: &Contraction, place: &Place, bytes: i64) -> Option<Spot> {
        let mut spot = Spot {
            base: place.base? as usize,
            offset: place.offset,
            row: 0,
            column: 0,
            batch: vec![0; what.batch.len()],
            bindings: Vec::new(),
        };
        for &(index, coefficient) in &place.terms {
            match index {
                ROW => spot.row += coefficient as isize,
                COLUMN => spot.column += coefficient as isize,
                Index::Counter(c) => *spot.batch.get_mut((c.0 as usize).checked_sub(2)?)? += coefficient,
                Index::Binding(binding) => spot.bindings.push((binding as usize, coefficient)),
            }
        }
        let whole = |offset: i64| offset % bytes == 0;
        let aligned = whole(spot.offset)
            && whole(spot.row as i64)
            && spot.batch.iter().all(|&c| whole(c))
            && spot.bindings.iter().all(|&(_, c)| whole(c));
        let even = place.step == spot.column as i64 && [0, bytes].contains(&place.step);
        (place.memory == Memory::Same && aligned && even).then_some(spot)
    }

    /// The address of row and column 0 in the first iteration of the batch.
    ///
    /// # Safety
    ///
    /// The arguments and bindings of the contraction are there.
    #[inline(always)]
    pub(crate) unsafe fn address(&self, args: *const *mut u8, bindings: *const i64) -> *mut u8 {
        // SAFETY: the caller's promise.
        unsafe {
            let mut at = self.offset;
            for &(binding, coefficient) in &self.bindings {
                at = at.wrapping_add(coefficient.wrapping_mul(*bindings.add(binding)));
            }
            (*args.add(self.base)).wrapping_offset(at as isize)
        }
    }
}

/// What an epilogue does to memory.
pub(crate) struct Uses<'a> {
    pub(crate) loads: Vec<&'a Place>,
    pub(crate) stores: Vec<&'a Place>,
}

impl<'a> Uses<'a> {
    /// `None` if a statement is not one of an epilogue.
    pub(crate) fn of(epilogue: &'a Program) -> Option<Uses<'a>> {
        let mut uses = Uses { loads: Vec::new(), stores: Vec::new() };
        for stmt in &epilogue.body {
            match stmt {
                Stmt::Let { op: Op::Load(place) | Op::LoadIf { place, .. }, .. } => uses.loads.push(place),
                Stmt::Store { place, .. } => uses.stores.push(place),
                Stmt::Let { .. } | Stmt::Set { .. } | Stmt::Prefetch(_) => {}
                Stmt::Loop { .. } => return None,
            }
        }
        Some(uses)
    }
}

/// The place that an epilogue stores the sums at, if it does nothing else.
pub(crate) fn only_store(epilogue: &Program) -> Option<&Place> {
    match epilogue.body.as_slice() {
        [
            Stmt::Let { value, op: Op::Get { variable: SUM, start: 0 } },
            Stmt::Store { place, value: stored, .. },
        ] if value == stored => Some(place),
        _ => None,
    }
}

/// Whether the order in which outputs are computed cannot be observed: what is stored is not read as a factor, each stored base is read and
/// written at one place, and no two outputs are stored at one element.
pub(crate) fn is_independent(what: &Contraction, uses: &Uses) -> bool {
    uses.stores.iter().all(|store| {
        let apart = [&what.left, &what.right].iter().all(|factor| Some(factor.base) != store.base);
        let alone = (uses.loads.iter().chain(&uses.stores).copied().chain(&what.start))
            .all(|other| other.base != store.base || same_elements(other, store));
        apart && alone && is_injective(what, store)
    })
}

fn same_elements(a: &Place, b: &Place) -> bool {
    let sorted = |place: &Place| {
        let mut terms = place.terms.clone();
        terms.sort_unstable();
        terms
    };
    a.base == b.base && (a.offset, a.step, a.memory) == (b.offset, b.step, b.memory) && sorted(a) == sorted(b)
}

fn is_injective(what: &Contraction, store: &Place) -> bool {
    let step =
        |index| store.terms.iter().find(|(i, _)| *i == index).map_or(0, |&(_, step)| step.unsigned_abs());
    let (row, column) = (step(ROW), step(COLUMN));
    column > 0
        && column == store.step.unsigned_abs()
        && (what.rows < 2
            || row >= column.saturating_mul(what.columns)
            || (row > 0 && column >= row.saturating_mul(what.rows)))
}
