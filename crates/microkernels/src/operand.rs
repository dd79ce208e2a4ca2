//! Operands checked for the layouts that packing and microkernels can read.

use vector_asm::{Index, LaneType, StoredType};

use crate::problem::{AxisOffsets, GemmOperand, GemmProblem};
use crate::simd::{MAX_LANES, Simd};

/// The layout of operand A or B. The *outer* dimension is M for A and N for B.
#[derive(Debug)]
pub(crate) struct OperandLayout {
    pub(crate) base: usize,
    pub(crate) memory: StoredType,
    /// Bytes of a stored element.
    pub(crate) size: isize,
    offset: i64,
    /// Bytes per unit of each batch index.
    pub(crate) batch: Vec<i64>,
    bindings: Vec<(usize, i64)>,
    pub(crate) outer: AxisOffsets,
    /// For each position of the outer dimension, the end of the contiguous run that contains it. Empty if the
    /// dimension has a stride.
    outer_runs: Vec<u32>,
    pub(crate) k: AxisOffsets,
    /// For each position along K, the end of the contiguous run that contains it. Empty if K has a stride.
    pub(crate) k_runs: Vec<u32>,
    /// Whether contiguous runs along K are so long that blocks are transposed. An operand with bounds also
    /// needs short runs along the outer dimension.
    pub(crate) k_is_contiguous: bool,
    pub(crate) limits: Vec<OperandLimit>,
    /// The bits of an integer beyond the limits.
    pub(crate) outside: u8,
    /// The class of each position along K, as an index of `class_representatives`. Positions of one class
    /// contribute the same summand to each bound.
    pub(crate) class: Vec<u32>,
    /// A position along K for each class.
    pub(crate) class_representatives: Vec<u32>,
    /// The class of each position of the outer dimension. Positions of one class contribute the same summand
    /// to each bound. Empty without bounds.
    pub(crate) outer_class: Vec<u32>,
}

/// An [`OperandBound`](crate::OperandBound) in 32 bits. Zeros follow the last position, so that vectors can
/// be loaded: two vectors in `outer`, because a micro-panel may have no position in its second vector, and
/// one in `k`.
#[derive(Debug)]
pub(crate) struct OperandLimit {
    pub(crate) outer: Vec<i32>,
    pub(crate) k: Vec<i32>,
    pub(crate) limit: i32,
}

impl OperandLimit {
    /// Selects the positions from `first` on, one per lane, that are within the limit, if the other dimension
    /// adds `other`. `summands` is the table of one dimension.
    ///
    /// # Safety
    ///
    /// The CPU has the instructions of the vectors. A vector of entries of the table from `first` on exists,
    /// zeros at its end included.
    #[inline(always)]
    pub(crate) unsafe fn within<V: Simd>(&self, summands: &[i32], first: usize, other: i32) -> V::Mask {
        debug_assert!(first + V::LANES <= summands.len());
        // SAFETY: the caller's promise; zeros follow the last position of the table.
        unsafe { V::within(summands.as_ptr().add(first), other, self.limit) }
    }

    /// Whether a vector of positions from `first` on are within the limit for all values that the other
    /// dimension adds, of which `least` and `greatest` are the extremes.
    ///
    /// # Safety
    ///
    /// The requirements of [`OperandLimit::within`].
    #[inline(always)]
    pub(crate) unsafe fn contains_all<V: Simd>(
        &self,
        summands: &[i32],
        first: usize,
        (least, greatest): (i32, i32),
    ) -> bool {
        // SAFETY: the caller's promise.
        unsafe {
            let [low, high] = [least, greatest].map(|other| self.within::<V>(summands, first, other));
            V::bits(V::both(low, high)) == V::bits(V::mask(V::LANES))
        }
    }
}

impl OperandLayout {
    /// Returns `None` if packing and microkernels cannot read the operand.
    pub(crate) fn new(
        problem: &GemmProblem,
        operand: &GemmOperand,
        outer: u64,
        bytes: i64,
    ) -> Option<OperandLayout> {
        let size = match (operand.memory, problem.element) {
            (StoredType::U8 | StoredType::I8, LaneType::I32) => 1,
            (StoredType::Same, LaneType::F32 | LaneType::F64) => bytes,
            (StoredType::F16 | StoredType::BF16, LaneType::F32) => 2,
            _ => return None,
        };
        let whole = |bytes: &i64| bytes % size == 0;
        let mut batch = vec![0; problem.batch.len()];
        let mut bindings = Vec::new();
        for &(index, coefficient) in &operand.terms {
            match index {
                Index::Binding(binding) => bindings.push((binding as usize, coefficient)),
                Index::Counter(counter) => {
                    *batch.get_mut((counter.0 as usize).checked_sub(2)?)? += coefficient
                }
            }
        }
        let aligned = whole(&operand.offset)
            && batch.iter().all(whole)
            && bindings.iter().all(|(_, coefficient)| whole(coefficient))
            && fits(&operand.outer, outer, size)
            && fits(&operand.k, problem.k, size);
        let bounded = operand.bounds.iter().all(|bound| {
            bound.outer.len() as u64 == outer
                && bound.k.len() as u64 == problem.k
                && is_small(bound.limit)
                && bound.outer.iter().chain(bound.k.iter()).all(|&summand| is_small(summand))
        });
        if !aligned || !bounded {
            return None;
        }
        let limits: Vec<OperandLimit> = (operand.bounds.iter())
            .map(|b| OperandLimit {
                outer: b.outer.iter().chain(&[0; 2 * MAX_LANES]).map(|&summand| summand as i32).collect(),
                k: b.k.iter().chain(&[0; MAX_LANES]).map(|&summand| summand as i32).collect(),
                limit: b.limit as i32,
            })
            .collect();
        let (class, class_representatives) = classes(&limits, problem.k as usize, |limit| &limit.k);
        let (outer_class, _) = classes(&limits, outer as usize, |limit| &limit.outer);
        let outer_runs = runs(&operand.outer, size);
        let k_runs = runs(&operand.k, size);
        let k_run = mean_run(&operand.k, &k_runs, problem.k as usize, size);
        let outer_run = mean_run(&operand.outer, &outer_runs, outer as usize, size);
        let k_is_contiguous = match limits.as_slice() {
            [] => {
                matches!(operand.k, AxisOffsets::Strided(step) if step == size) || k_run >= MIN_TRANSPOSED_RUN
            }
            _ => k_run >= MIN_TRANSPOSED_BOUNDED_RUN && outer_run < MIN_OUTER_RUN,
        };
        let size = size as isize;
        Some(OperandLayout {
            base: operand.base as usize,
            memory: operand.memory,
            size,
            offset: operand.offset,
            batch,
            bindings,
            outer: operand.outer.clone(),
            outer_runs,
            k: operand.k.clone(),
            k_runs,
            k_is_contiguous,
            limits,
            outside: operand.outside,
            class,
            class_representatives,
            outer_class,
        })
    }

    /// The address of position 0 of both dimensions in the first iteration of the batch.
    ///
    /// # Safety
    ///
    /// `args` and `bindings` have the entries that the problem uses, valid for the call.
    #[inline(always)]
    pub(crate) unsafe fn address(&self, args: *const *mut u8, bindings: *const i64) -> *const u8 {
        // SAFETY: the caller's promise.
        unsafe {
            let mut at = self.offset;
            for &(binding, coefficient) in &self.bindings {
                at = at.wrapping_add(coefficient.wrapping_mul(*bindings.add(binding)));
            }
            (*args.add(self.base)).wrapping_offset(at as isize)
        }
    }

    /// Whether elements at neighboring positions of the outer dimension are neighbors in memory.
    pub(crate) fn outer_is_contiguous(&self) -> bool {
        self.outer == AxisOffsets::Strided(self.size as i64)
    }

    /// Whether the positions of the outer dimension form contiguous groups of a size.
    pub(crate) fn outer_is_grouped(&self, positions: usize, size: usize) -> bool {
        positions.is_multiple_of(size)
            && (0..positions)
                .filter(|position| position % size > 0)
                .all(|position| self.outer.at(position) == self.outer.at(position - 1) + self.size)
    }

    /// The end of the contiguous run around a position of the outer dimension; `usize::MAX` if all of the
    /// dimension is contiguous.
    #[inline(always)]
    pub(crate) fn outer_run_end(&self, position: usize) -> usize {
        match &self.outer {
            AxisOffsets::Strided(step) if *step as isize == self.size => usize::MAX,
            AxisOffsets::Strided(_) => position + 1,
            AxisOffsets::Table(_) => self.outer_runs[position] as usize,
        }
    }

    /// Whether microkernels can read the operand in place, but only through tables of offsets.
    pub(crate) fn is_indexed(&self) -> bool {
        self.limits.is_empty() && self.memory == StoredType::Same && self.strides().is_none()
    }

    /// How many positions along K of a contiguous run are left from each one on; `None` if runs are short on
    /// average.
    pub(crate) fn long_k_runs(&self, positions: usize) -> Option<Vec<u32>> {
        let is_long = mean_run(&self.k, &self.k_runs, positions, self.size as i64) >= MIN_LOOPED_RUN;
        let end = |position: usize| self.k_runs.get(position).map_or(positions, |&end| end as usize);
        is_long.then(|| (0..positions).map(|position| (end(position) - position) as u32).collect())
    }

    /// The strides of the outer dimension and of K in bytes, if microkernels can read the operand in place.
    pub(crate) fn strides(&self) -> Option<(isize, isize)> {
        match (&self.outer, &self.k) {
            (&AxisOffsets::Strided(outer), &AxisOffsets::Strided(k))
                if self.limits.is_empty() && self.memory == StoredType::Same =>
            {
                Some((outer as isize, k as isize))
            }
            _ => None,
        }
    }
}

/// The number of elements of contiguous runs along a dimension, on average.
fn mean_run(offsets: &AxisOffsets, ends: &[u32], positions: usize, size: i64) -> usize {
    match offsets {
        AxisOffsets::Strided(step) if *step == size => positions,
        AxisOffsets::Strided(_) => 1,
        AxisOffsets::Table(_) => {
            let breaks = ends.windows(2).filter(|pair| pair[0] != pair[1]).count();
            positions / (breaks + 1)
        }
    }
}

/// The least mean run along K for which microkernels have a loop over each run.
const MIN_LOOPED_RUN: usize = 16;

/// The least mean run along K for which packing transposes blocks of an operand without bounds.
const MIN_TRANSPOSED_RUN: usize = 8;

/// The least mean run along K for which packing transposes blocks of an operand with bounds. Its other forms
/// of packing are slower than those without bounds.
const MIN_TRANSPOSED_BOUNDED_RUN: usize = 4;

/// The mean run along the outer dimension from which on packing loads an operand with bounds along that
/// dimension.
const MIN_OUTER_RUN: usize = 4;

impl AxisOffsets {
    /// The offset of a position in bytes.
    #[inline(always)]
    pub(crate) fn at(&self, position: usize) -> isize {
        match self {
            AxisOffsets::Strided(step) => *step as isize * position as isize,
            AxisOffsets::Table(table) => table[position] as isize,
        }
    }
}

/// Whether a summand is so small that the sum of two of them fits in 32 bits.
fn is_small(summand: i64) -> bool {
    (-(1 << 30)..1 << 30).contains(&summand)
}

fn fits(offsets: &AxisOffsets, positions: u64, size: i64) -> bool {
    match offsets {
        AxisOffsets::Strided(step) => step % size == 0,
        AxisOffsets::Table(table) => {
            table.len() as u64 == positions && table.iter().all(|bytes| bytes % size == 0)
        }
    }
}

fn runs(offsets: &AxisOffsets, size: i64) -> Vec<u32> {
    let AxisOffsets::Table(table) = offsets else { return Vec::new() };
    let mut ends = vec![table.len() as u32; table.len()];
    for i in (1..table.len()).rev() {
        ends[i - 1] = if table[i - 1] + size == table[i] { ends[i] } else { i as u32 };
    }
    ends
}

/// Divides the positions of a dimension into classes with equal summands in all bounds. Returns the class of
/// each position, and the first position of each class.
fn classes(
    limits: &[OperandLimit],
    positions: usize,
    summands: impl Fn(&OperandLimit) -> &[i32],
) -> (Vec<u32>, Vec<u32>) {
    if limits.is_empty() {
        return (Vec::new(), Vec::new());
    }
    let mut seen = std::collections::BTreeMap::new();
    let mut representatives = Vec::new();
    let class = (0..positions)
        .map(|position| {
            let key: Vec<i32> = limits.iter().map(|limit| summands(limit)[position]).collect();
            *seen.entry(key).or_insert_with(|| {
                representatives.push(position as u32);
                representatives.len() as u32 - 1
            })
        })
        .collect();
    (class, representatives)
}
