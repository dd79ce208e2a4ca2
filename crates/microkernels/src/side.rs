//! A factor as packing and tiles want it: checked, with what can be known before a call worked out.

use vector_asm::{Index, Memory};

use crate::contraction::{Contraction, Factor, Offsets};

/// One of the factors. *Outer* is the axis of outputs that it has.
#[derive(Debug)]
pub(crate) struct Side {
    pub(crate) base: usize,
    pub(crate) memory: Memory,
    /// Bytes of an element in memory.
    pub(crate) size: isize,
    offset: i64,
    /// By index of the batch.
    pub(crate) batch: Vec<i64>,
    bindings: Vec<(usize, i64)>,
    pub(crate) outer: Offsets,
    /// Where runs of neighbours along the outer axis end, as `runs` along the depth.
    outer_runs: Vec<u32>,
    pub(crate) depth: Offsets,
    /// Where runs of contiguous elements along the depth end: for each position the first one that is not of its run. Empty if
    /// the depth has a stride.
    pub(crate) runs: Vec<u32>,
    pub(crate) limits: Vec<Limit>,
    /// Which of `classes` a depth is in. Depths of one class have the same summands in all bounds.
    pub(crate) class: Vec<u32>,
    /// A depth of each class.
    pub(crate) classes: Vec<u32>,
}

/// A bound whose summands are known to fit. Behind the last outer position there is room for a vector.
#[derive(Debug)]
pub(crate) struct Limit {
    pub(crate) outer: Vec<i32>,
    pub(crate) depth: Vec<i32>,
    pub(crate) limit: i32,
}

impl Side {
    /// `None` if the factor is not one that packing and tiles can read.
    pub(crate) fn new(what: &Contraction, factor: &Factor, outer: u64, bytes: i64) -> Option<Side> {
        let size = match factor.memory {
            Memory::Same => bytes,
            Memory::F16 | Memory::BF16 if bytes == 4 => 2,
            _ => return None,
        };
        let whole = |bytes: &i64| bytes % size == 0;
        let mut batch = vec![0; what.batch.len()];
        let mut bindings = Vec::new();
        for &(index, coefficient) in &factor.terms {
            match index {
                Index::Binding(binding) => bindings.push((binding as usize, coefficient)),
                Index::Counter(counter) => {
                    *batch.get_mut((counter.0 as usize).checked_sub(2)?)? += coefficient
                }
            }
        }
        let aligned = whole(&factor.offset)
            && batch.iter().all(whole)
            && bindings.iter().all(|(_, coefficient)| whole(coefficient))
            && fits(&factor.outer, outer, size)
            && fits(&factor.depth, what.depth, size);
        let bounded = factor.bounds.iter().all(|bound| {
            bound.outer.len() as u64 == outer
                && bound.depth.len() as u64 == what.depth
                && small(bound.limit)
                && bound.outer.iter().chain(bound.depth.iter()).all(|&summand| small(summand))
        });
        if !aligned || !bounded {
            return None;
        }
        let limits: Vec<Limit> = (factor.bounds.iter())
            .map(|b| Limit {
                outer: b.outer.iter().chain(&[0; 8]).map(|&summand| summand as i32).collect(),
                depth: b.depth.iter().map(|&summand| summand as i32).collect(),
                limit: b.limit as i32,
            })
            .collect();
        let (class, classes) = classes(&limits);
        let size = size as isize;
        Some(Side {
            base: factor.base as usize,
            memory: factor.memory,
            size,
            offset: factor.offset,
            batch,
            bindings,
            outer: factor.outer.clone(),
            outer_runs: runs(&factor.outer, size as i64),
            depth: factor.depth.clone(),
            runs: runs(&factor.depth, size as i64),
            limits,
            class,
            classes,
        })
    }

    /// The address of position 0 of both axes in the first iteration of the batch.
    ///
    /// # Safety
    ///
    /// The arguments and bindings of the contraction are there.
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

    /// Whether elements at neighbouring positions of the outer axis are neighbours in memory.
    pub(crate) fn outer_is_contiguous(&self) -> bool {
        self.outer == Offsets::Strided(self.size as i64)
    }

    /// The end of the run of neighbours in memory that this position of the outer axis is in.
    #[inline(always)]
    pub(crate) fn outer_run(&self, position: usize) -> usize {
        match &self.outer {
            Offsets::Strided(step) if *step as isize == self.size => usize::MAX,
            Offsets::Strided(_) => position + 1,
            Offsets::Table(_) => self.outer_runs[position] as usize,
        }
    }

    /// Steps in bytes, if a tile can read this factor where it is.
    pub(crate) fn steps(&self) -> Option<(isize, isize)> {
        match (&self.outer, &self.depth) {
            (&Offsets::Strided(outer), &Offsets::Strided(depth))
                if self.limits.is_empty() && self.memory == Memory::Same =>
            {
                Some((outer as isize, depth as isize))
            }
            _ => None,
        }
    }

    /// Whether runs along the depth are long enough to be read as vectors.
    pub(crate) fn depth_is_contiguous(&self) -> bool {
        match &self.depth {
            Offsets::Strided(step) => *step == self.size as i64,
            Offsets::Table(table) => {
                let breaks = (1..self.runs.len()).filter(|&i| self.runs[i] != self.runs[i - 1]).count();
                table.len() >= 8 * (breaks + 1)
            }
        }
    }
}

impl Offsets {
    /// The offset at a position.
    #[inline(always)]
    pub(crate) fn at(&self, position: usize) -> isize {
        match self {
            Offsets::Strided(step) => *step as isize * position as isize,
            Offsets::Table(table) => table[position] as isize,
        }
    }
}

/// Sums of two of these do not overflow 32 bits.
fn small(summand: i64) -> bool {
    (-(1 << 30)..1 << 30).contains(&summand)
}

fn fits(offsets: &Offsets, positions: u64, size: i64) -> bool {
    match offsets {
        Offsets::Strided(step) => step % size == 0,
        Offsets::Table(table) => {
            table.len() as u64 == positions && table.iter().all(|bytes| bytes % size == 0)
        }
    }
}

fn runs(depth: &Offsets, size: i64) -> Vec<u32> {
    let Offsets::Table(table) = depth else { return Vec::new() };
    let mut ends = vec![table.len() as u32; table.len()];
    for i in (1..table.len()).rev() {
        ends[i - 1] = if table[i - 1] + size == table[i] { ends[i] } else { i as u32 };
    }
    ends
}

/// Numbers the distinct tuples of the bounds' summands along the depth in the order in which they first appear.
fn classes(limits: &[Limit]) -> (Vec<u32>, Vec<u32>) {
    let Some(first) = limits.first() else { return (Vec::new(), Vec::new()) };
    let mut seen = std::collections::BTreeMap::new();
    let mut classes = Vec::new();
    let class = (0..first.depth.len())
        .map(|k| {
            let key: Vec<i32> = limits.iter().map(|l| l.depth[k]).collect();
            *seen.entry(key).or_insert_with(|| {
                classes.push(k as u32);
                classes.len() as u32 - 1
            })
        })
        .collect();
    (class, classes)
}
