//! Addresses of initial accumulators and of outputs.
//!
//! Microkernels store the accumulators themselves if the epilogue does nothing else. Any other epilogue is
//! compiled ([`crate::epilogue`]).

use vector_asm::{Index, StoredType, VectorAddress, VectorOp, VectorProgram, VectorStmt};

use crate::problem::{ACCUMULATORS, COLUMN, GemmProblem, ROW};

/// The address of a matrix of accumulators, affine in the row, the column, batch indices and bindings.
/// Offsets are in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OutputAddress {
    base: usize,
    offset: i64,
    /// Bytes from a row to the next.
    pub(crate) row: isize,
    /// Bytes from a column to the next.
    pub(crate) column: isize,
    /// Bytes per unit of each batch index.
    pub(crate) batch: Vec<i64>,
    bindings: Vec<(usize, i64)>,
}

impl OutputAddress {
    /// Returns `None` if the place has another element type than the accumulators, or if its columns are
    /// neither contiguous nor one repeated element.
    pub(crate) fn new(problem: &GemmProblem, place: &VectorAddress, bytes: i64) -> Option<OutputAddress> {
        let mut address = OutputAddress {
            base: place.base? as usize,
            offset: place.offset,
            row: 0,
            column: 0,
            batch: vec![0; problem.batch.len()],
            bindings: Vec::new(),
        };
        for &(index, coefficient) in &place.terms {
            match index {
                ROW => address.row += coefficient as isize,
                COLUMN => address.column += coefficient as isize,
                Index::Counter(c) => *address.batch.get_mut((c.0 as usize).checked_sub(2)?)? += coefficient,
                Index::Binding(binding) => address.bindings.push((binding as usize, coefficient)),
            }
        }
        let whole = |offset: i64| offset % bytes == 0;
        let aligned = whole(address.offset)
            && whole(address.row as i64)
            && address.batch.iter().all(|&c| whole(c))
            && address.bindings.iter().all(|&(_, c)| whole(c));
        let even = place.step == address.column as i64 && [0, bytes].contains(&place.step);
        (place.memory == StoredType::Same && aligned && even).then_some(address)
    }

    /// The address of row 0 and column 0 in the first iteration of the batch.
    ///
    /// # Safety
    ///
    /// `args` and `bindings` have the entries that the problem uses, valid for the call.
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

/// The places that an epilogue accesses.
pub(crate) struct EpilogueAccesses<'a> {
    pub(crate) loads: Vec<&'a VectorAddress>,
    pub(crate) stores: Vec<&'a VectorAddress>,
}

impl<'a> EpilogueAccesses<'a> {
    /// Returns `None` if the epilogue has a loop.
    pub(crate) fn of(epilogue: &'a VectorProgram) -> Option<EpilogueAccesses<'a>> {
        let mut accesses = EpilogueAccesses { loads: Vec::new(), stores: Vec::new() };
        for stmt in &epilogue.body {
            match stmt {
                VectorStmt::Let { op: VectorOp::Load(place) | VectorOp::LoadIf { place, .. }, .. } => {
                    accesses.loads.push(place)
                }
                VectorStmt::Store { place, .. } => accesses.stores.push(place),
                VectorStmt::Let { .. } | VectorStmt::Set { .. } | VectorStmt::Prefetch(_) => {}
                VectorStmt::Loop { .. } => return None,
            }
        }
        Some(accesses)
    }
}

/// The place where an epilogue stores the accumulators, if it does nothing else.
pub(crate) fn only_store(epilogue: &VectorProgram) -> Option<&VectorAddress> {
    match epilogue.body.as_slice() {
        [
            VectorStmt::Let { value, op: VectorOp::Get { variable: ACCUMULATORS, start: 0 } },
            VectorStmt::Store { place, value: stored, .. },
        ] if value == stored => Some(place),
        _ => None,
    }
}

/// Whether the order in which outputs are computed cannot be observed: no operand has the base of a store,
/// the places at which the epilogue accesses a stored base are equal or have no element in common, and no two
/// outputs of a place share an element.
pub(crate) fn is_independent(problem: &GemmProblem, accesses: &EpilogueAccesses) -> bool {
    accesses.stores.iter().all(|store| {
        let apart = [&problem.a, &problem.b].iter().all(|operand| Some(operand.base) != store.base);
        let alone =
            (accesses.loads.iter().chain(&accesses.stores).copied().chain(&problem.initial)).all(|other| {
                other.base != store.base || same_elements(other, store) || are_apart(problem, other, store)
            });
        apart && alone && is_injective(problem, store)
    })
}

fn same_elements(a: &VectorAddress, b: &VectorAddress) -> bool {
    a.offset == b.offset && same_strides(a, b)
}

/// Whether two places differ in nothing but their offset.
fn same_strides(a: &VectorAddress, b: &VectorAddress) -> bool {
    let sorted = |place: &VectorAddress| {
        let mut terms = place.terms.clone();
        terms.sort_unstable();
        terms
    };
    (a.base, a.step, a.memory) == (b.base, b.step, b.memory) && sorted(a) == sorted(b)
}

/// Whether two places have no element in common, such as two slices of an array. Sufficient, not necessary.
fn are_apart(problem: &GemmProblem, a: &VectorAddress, b: &VectorAddress) -> bool {
    let [row, column] = steps(a);
    let (rows, columns) = ((row, problem.m), (column, problem.n));
    let by_rows = row >= column || problem.m < 2;
    let ((long, count), (short, within)) = if by_rows { (rows, columns) } else { (columns, rows) };
    // A place is `count` pieces of this many bytes, `long` bytes apart. If one place starts `distance` bytes
    // behind the other, its piece i starts `rest` bytes behind piece i + `skipped` of the other.
    let piece = short.saturating_mul(within);
    let distance = a.offset.abs_diff(b.offset);
    let (skipped, rest) =
        if count < 2 { (0, distance) } else { (distance / long.max(1), distance % long.max(1)) };
    let is_single = count < 2 || long >= piece;
    let after_earlier = skipped >= count || rest >= piece;
    let before_later = skipped.saturating_add(1) >= count || long - rest >= piece;
    same_strides(a, b) && piece > 0 && is_single && after_earlier && before_later
}

/// The bytes from one row to the next and from one column to the next.
fn steps(place: &VectorAddress) -> [u64; 2] {
    let step =
        |index| place.terms.iter().find(|(i, _)| *i == index).map_or(0, |&(_, step)| step.unsigned_abs());
    [step(ROW), step(COLUMN)]
}

fn is_injective(problem: &GemmProblem, store: &VectorAddress) -> bool {
    let [row, column] = steps(store);
    column > 0
        && column == store.step.unsigned_abs()
        && (problem.m < 2
            || row >= column.saturating_mul(problem.n)
            || (row > 0 && column >= row.saturating_mul(problem.m)))
}
