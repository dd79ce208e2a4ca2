//! Plans: a contraction with everything decided that can be before it runs.

use vector_asm::{Element, Place};

use crate::blocks::{Blocks, Shape};
use crate::contraction::{Contraction, Split};
use crate::epilogue::Epilogue;
use crate::machine::Machine;
use crate::output::{Spot, Uses, is_independent, only_store};
use crate::product::{Layout, Origin, Product};
use crate::real::Real;
use crate::side::Side;
use crate::tile::{HEIGHT, WIDTH};

/// How to compute a contraction on a machine. It is immutable, may be used by any number of threads at once, and allocates nothing when it runs.
///
/// Its results are the same bits for every machine and every division into parts.
#[derive(Debug)]
pub struct Plan {
    element: Element,
    split: Split,
    batch: Vec<u64>,
    product: Product,
    layout: Layout,
    extent: u64,
    grain: u64,
}

/// The most loops around a product.
const LOOPS: usize = 8;

/// Products of a part that is worth a thread: some ten microseconds.
const WORTH: u64 = 1 << 18;

impl Plan {
    /// Plans a contraction.
    ///
    /// `None` if this crate does not compute it on this machine: the machine has no AVX2; the elements are no floats; a factor or where sums begin is
    /// stored otherwise than its documentation allows; the epilogue has loops, or stores at places of which two outputs, or an
    /// output and something that is read, might share an element.
    pub fn new(what: &Contraction, machine: &Machine) -> Option<Plan> {
        if !machine.vectors {
            return None;
        }
        match what.element {
            Element::F32 => Plan::of::<f32>(what, machine),
            Element::F64 => Plan::of::<f64>(what, machine),
            _ => None,
        }
    }

    /// Bytes of scratch memory that each call needs for itself.
    pub fn scratch_bytes(&self) -> usize {
        self.layout.bytes
    }

    /// The end of the range that all parts make up: how many there are of what the split counts; 1 if it counts nothing.
    pub fn extent(&self) -> u64 {
        self.extent
    }

    /// A part of less than this is not worth a thread: each part packs for itself, and leaves registers of tiles unused.
    pub fn grain(&self) -> u64 {
        self.grain
    }

    /// How many bytes of memory the plan's own code takes; 0 where there is none.
    pub fn code_bytes(&self) -> usize {
        self.product.epilogue.as_ref().map_or(0, Epilogue::code_bytes)
    }

    /// Computes the part `begin..end` of [`Plan::extent`]: iterations of the outermost loop of the batch, rows, or columns, as [`Split`] says.
    /// The range does not matter if the split counts nothing, but for an empty one.
    ///
    /// # Safety
    ///
    /// `args` points to the base addresses, aligned to the elements, and `bindings` to the integers that the contraction mentions. What it reads may be
    /// read and what it writes may be written, by nobody else during the call but for calls of other parts. Different bases do not
    /// overlap, unless nobody writes either. `scratch` points to [`Plan::scratch_bytes`] bytes, aligned to 64, that belong to this call.
    /// `begin ≤ end ≤ extent`.
    pub unsafe fn run(
        &self,
        args: *const *mut u8,
        bindings: *const i64,
        scratch: *mut u8,
        begin: u64,
        end: u64,
    ) {
        // SAFETY: the caller's promise; there is no plan for a machine without the vectors.
        unsafe {
            match self.element {
                Element::F64 => self.run_as::<f64>(args, bindings, scratch, begin, end),
                _ => self.run_as::<f32>(args, bindings, scratch, begin, end),
            }
        }
    }

    fn of<T: Real>(what: &Contraction, machine: &Machine) -> Option<Plan> {
        let bytes = T::SIZE as i64;
        let narrow = |extent: u64| u32::try_from(extent).ok().map(|extent| extent as usize);
        let (rows, columns, depth) = (narrow(what.rows)?, narrow(what.columns)?, narrow(what.depth)?);
        let uses = Uses::of(&what.epilogue)?;
        if what.batch.len() > LOOPS || !is_independent(what, &uses) {
            return None;
        }
        let left = Side::new(what, &what.left, what.rows, bytes)?;
        let right = Side::new(what, &what.right, what.columns, bytes)?;
        let start = match &what.start {
            Some(place) => Some(Spot::new(what, place, bytes)?),
            None => None,
        };
        let stored = only_store(&what.epilogue).and_then(|at| Spot::new(what, at, bytes));
        let plain = stored.is_some();
        let (waiting, output) = match stored {
            Some(output) => (None, Some(output)),
            None => waiting(what, &uses, bytes).unzip(),
        };
        // A left factor that stays in the first-level cache may be read across.
        let near = rows * depth * size_of::<T>() <= machine.first;
        let shape = Shape {
            rows,
            columns,
            depth,
            bytes: size_of::<T>(),
            width: WIDTH * T::LANES,
            left_is_plain: left.steps().is_some() && (near || left.depth_is_contiguous()),
            right_is_plain: right.steps().is_some() && right.outer_is_contiguous(),
            sums_can_wait: output.is_some(),
        };
        let blocks = Blocks::new(&shape, machine);
        let epilogue = if plain {
            None
        } else {
            let reading = Product::reading::<T>(&left, &right, depth, &blocks);
            let begin = if reading.depth < depth { waiting } else { what.start.as_ref() };
            Some(Epilogue::new(what, &reading, begin)?)
        };
        let product = Product { rows, columns, depth, left, right, start, output, epilogue, blocks };
        let (extent, unit, least) = unit::<T>(what);
        let grain = WORTH.div_ceil(unit.max(1)).max(least).next_multiple_of(least).min(extent.max(1));
        let layout = product.layout::<T>();
        Some(Plan {
            element: what.element,
            split: what.split,
            batch: what.batch.clone(),
            product,
            layout,
            extent,
            grain,
        })
    }

    unsafe fn run_as<T: Real>(
        &self,
        args: *const *mut u8,
        bindings: *const i64,
        scratch: *mut u8,
        begin: u64,
        end: u64,
    ) {
        let what = &self.product;
        let range = begin as usize..end as usize;
        let (mut rows, mut columns) = (0..what.rows, 0..what.columns);
        let mut outermost = 0..self.batch.first().copied().unwrap_or(1);
        match self.split {
            Split::None => {}
            Split::Batch => outermost = begin..end,
            Split::Rows => rows = range.clone(),
            Split::Columns => columns = range.clone(),
        }
        if range.is_empty() || rows.is_empty() || columns.is_empty() || self.batch.contains(&0) {
            return;
        }
        // SAFETY: the caller's promise.
        unsafe {
            let address = |spot: &Option<Spot>| {
                spot.as_ref().map_or(std::ptr::null_mut(), |spot| spot.address(args, bindings))
            };
            let mut origin = Origin {
                left: what.left.address(args, bindings),
                right: what.right.address(args, bindings),
                start: address(&what.start),
                output: address(&what.output),
                scratch,
            };
            let words = scratch.cast::<i64>();
            if let Some(epilogue) = &what.epilogue {
                epilogue.begin(words, args, bindings);
            }
            if self.batch.is_empty() {
                return what.run::<T>(&self.layout, &origin, rows, columns);
            }
            let mut at = [0; LOOPS];
            self.advance(&mut origin, &mut at, 0, outermost.start as i64);
            while at[0] < outermost.end {
                if let Some(epilogue) = &what.epilogue {
                    epilogue.enter(words, &at);
                }
                what.run::<T>(&self.layout, &origin, rows.clone(), columns.clone());
                self.next(&mut origin, &mut at);
            }
        }
    }

    /// The next iteration of the batch, the innermost loop first.
    #[inline(always)]
    fn next(&self, origin: &mut Origin, at: &mut [u64; LOOPS]) {
        for i in (0..self.batch.len()).rev() {
            self.advance(origin, at, i, 1);
            if i == 0 || at[i] < self.batch[i] {
                return;
            }
            self.advance(origin, at, i, -(self.batch[i] as i64));
        }
    }

    #[inline(always)]
    fn advance(&self, origin: &mut Origin, at: &mut [u64; LOOPS], index: usize, by: i64) {
        at[index] = at[index].wrapping_add_signed(by);
        let what = &self.product;
        let bytes = |batch: &[i64]| (batch[index] * by) as isize;
        origin.left = origin.left.wrapping_offset(bytes(&what.left.batch));
        origin.right = origin.right.wrapping_offset(bytes(&what.right.batch));
        if let Some(start) = &what.start {
            origin.start = origin.start.wrapping_offset(bytes(&start.batch));
        }
        if let Some(output) = &what.output {
            origin.output = origin.output.wrapping_offset(bytes(&output.batch));
        }
    }
}

/// Where sums can wait that go through an epilogue: at an output that it does not read.
fn waiting<'a>(what: &Contraction, uses: &Uses<'a>, bytes: i64) -> Option<(&'a Place, Spot)> {
    (uses.stores.iter())
        .filter(|store| uses.loads.iter().all(|load| load.base != store.base))
        .find_map(|store| Some((*store, Spot::new(what, store, bytes).filter(|spot| spot.column > 0)?)))
}

/// What the split counts: how many there are, how many products one is, and how many make a whole tile.
fn unit<T: Real>(what: &Contraction) -> (u64, u64, u64) {
    let batch = |loops: &[u64]| loops.iter().fold(1u64, |product, extent| product.saturating_mul(*extent));
    let all = batch(&what.batch);
    let times = |factors: [u64; 3]| batch(&factors);
    match what.split {
        Split::None => (1, u64::MAX, 1),
        Split::Batch => (
            what.batch.first().copied().unwrap_or(1),
            times([what.rows, what.columns, what.depth])
                .saturating_mul(all / what.batch.first().copied().unwrap_or(1).max(1)),
            1,
        ),
        Split::Rows => (what.rows, times([all, what.columns, what.depth]), HEIGHT as u64),
        Split::Columns => (what.columns, times([all, what.rows, what.depth]), (WIDTH * T::LANES) as u64),
    }
}

const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<Plan>();
};
