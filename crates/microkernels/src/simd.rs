//! The element types of a GEMM, `f32` and `f64`, with the vectors of an instruction set.
//!
//! The methods are unsafe because they are inlined into functions that enable the instruction set; nothing
//! else may call them. Those functions are the entries of each instruction set, which [`entries`] defines:
//! one for each kind of microkernel, and [`Simd::enter`] for all other code.

#[cfg(target_arch = "x86_64")]
mod avx2; // vectors of 256 bits
#[cfg(target_arch = "x86_64")]
mod avx512; // vectors of 512 bits
#[cfg(target_arch = "aarch64")]
mod neon; // vectors of 128 bits

#[cfg(target_arch = "x86_64")]
pub(crate) use avx2::Avx2;
#[cfg(target_arch = "x86_64")]
pub(crate) use avx512::Avx512;
#[cfg(target_arch = "aarch64")]
pub(crate) use neon::Neon;

use crate::pack::ColumnReader;
use crate::tile::{IndexedRows, Microkernels, PackingMicrokernel, RowGroups, Tile, row_groups};
use crate::tile_shape::{TAPS, TileShape};

/// The most lanes of a vector.
pub(crate) const MAX_LANES: usize = 16;

/// The most rows of a tile.
pub(crate) const MAX_ROWS: usize = 14;

/// `f32` or `f64` in the vectors of an instruction set.
pub(crate) trait Simd: Copy + Sized + 'static {
    type Element: Copy + Default + PartialEq + 'static;
    type Vector: Copy;
    /// Selects the lanes that a masked load, store or gather touches.
    type Mask: Copy;
    /// The sizes of tiles.
    const SHAPE: TileShape;
    /// Lanes per vector.
    const LANES: usize = Self::SHAPE.lanes;
    /// Rows of the largest tile.
    const ROWS: usize = Self::SHAPE.rows;
    /// Rows of the largest tile whose rows of A are addressed by tables.
    const INDEXED_ROWS: usize = Self::SHAPE.indexed_rows;
    /// The microkernels of the instruction set.
    const MICROKERNELS: Microkernels<Self>;
    /// The microkernels that pack, for the heights up to [`Simd::ROWS`] that are common; none if packing is
    /// not worth a microkernel.
    const PACKING_MICROKERNELS: &'static [PackingMicrokernel<Self>] = match Self::SHAPE.packs {
        true => &[
            Self::packing_microkernel::<8>,
            Self::packing_microkernel::<9>,
            Self::packing_microkernel::<10>,
            Self::packing_microkernel::<11>,
            Self::packing_microkernel::<12>,
            Self::packing_microkernel::<13>,
            Self::packing_microkernel::<14>,
        ],
        false => &[],
    };
    /// The microkernels for rows in groups; none if there are too few registers.
    const ROW_GROUPS: &'static [RowGroups<Self>] = match Self::SHAPE.row_groups {
        [] => &[],
        _ => &[
            row_groups!(TAPS; 1 3, 2 6, 3 9, 4 12, 5 15, 6 18, 7 21),
            row_groups!(4; 1 4, 2 8, 3 12, 4 16, 5 20, 6 24),
        ],
    };
    /// Whether the addresses of all rows of a tile fit in the general registers.
    const KEEPS_ADDRESSES: bool = false;
    /// Bytes per element.
    const SIZE: isize = size_of::<Self::Element>() as isize;

    unsafe fn zero() -> Self::Vector;
    unsafe fn broadcast(from: *const Self::Element) -> Self::Vector;
    unsafe fn load(from: *const Self::Element) -> Self::Vector;
    unsafe fn store(to: *mut Self::Element, value: Self::Vector);
    /// Selects the first `lanes` lanes.
    unsafe fn mask(lanes: usize) -> Self::Mask;
    /// Loads the selected lanes. The other lanes are zero, and their memory is not read.
    unsafe fn load_masked(from: *const Self::Element, mask: Self::Mask) -> Self::Vector;
    /// Stores the selected lanes. The memory of the other lanes is not written.
    unsafe fn store_masked(to: *mut Self::Element, mask: Self::Mask, value: Self::Vector);
    /// `a · b + c`, rounded once.
    unsafe fn fma(a: Self::Vector, b: Self::Vector, c: Self::Vector) -> Self::Vector;
    /// Transposes the square matrix in the first [`Simd::LANES`] vectors.
    unsafe fn transpose(rows: &mut [Self::Vector; MAX_LANES]);
    /// Selects the lanes with `0 ≤ summands[lane] + other < limit`. A vector of summands may be read.
    unsafe fn within(summands: *const i32, other: i32, limit: i32) -> Self::Mask;
    /// The mask as bits, that of lane 0 being the lowest.
    unsafe fn bits(mask: Self::Mask) -> u32;
    /// Selects the lanes that both masks select.
    unsafe fn both(a: Self::Mask, b: Self::Mask) -> Self::Mask;
    /// Selects the lanes that `a` selects and `b` does not.
    unsafe fn without(a: Self::Mask, b: Self::Mask) -> Self::Mask;
    /// Loads the selected lanes from `from` plus an offset in bytes for each lane. The other lanes are zero,
    /// and their memory is not read.
    unsafe fn gather_masked(
        from: *const Self::Element,
        offsets: &[i32; MAX_LANES],
        mask: Self::Mask,
    ) -> Self::Vector;
    /// Bitwise or.
    unsafe fn or(a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// Loads the selected lanes into a vector whose lanes are zero there.
    #[inline(always)]
    unsafe fn merge_masked(
        value: Self::Vector,
        from: *const Self::Element,
        mask: Self::Mask,
    ) -> Self::Vector {
        // SAFETY: inlined into an entry of the instruction set; the caller vouches for the memory.
        unsafe { Self::or(value, Self::load_masked(from, mask)) }
    }
    /// Converts a vector of `f16` or `bf16` values to `f32`.
    #[inline(always)]
    unsafe fn widen(_: *const u16, _bf16: bool) -> Self::Vector {
        unreachable!("plans with operands in half precision multiply f32")
    }
    /// [`Simd::widen`] for the selected lanes. The other lanes are zero, and their memory is not read.
    #[inline(always)]
    unsafe fn widen_masked(from: *const u16, mask: Self::Mask, bf16: bool) -> Self::Vector {
        // SAFETY: inlined into an entry of the instruction set; the caller vouches for the memory.
        unsafe { Self::widen(selected(from, Self::bits(mask)).as_ptr(), bf16) }
    }
    /// Converts the bits of an `f16` or `bf16` to `f32`.
    #[inline(always)]
    fn widened(_: u16, _bf16: bool) -> Self::Element {
        unreachable!("plans with operands in half precision multiply f32")
    }

    /// Adds the products of contiguous elements of A, one for each row, with vectors of B.
    #[inline(always)]
    unsafe fn add_packed<const H: usize, const W: usize>(
        accumulators: &mut [[Self::Vector; W]; H],
        a: *const Self::Element,
        columns: [Self::Vector; W],
    ) {
        for (r, accumulators) in accumulators.iter_mut().enumerate() {
            // SAFETY: inlined into an entry of the instruction set; the caller vouches for the memory.
            unsafe { add_row::<Self, W>(accumulators, a.wrapping_add(r), columns) };
        }
    }
    /// Adds the products of the elements that lie `offset` bytes behind each address, one for each row, with
    /// vectors of B.
    #[inline(always)]
    unsafe fn add_rows<const H: usize, const W: usize>(
        accumulators: &mut [[Self::Vector; W]; H],
        rows: &[*const u8],
        offset: isize,
        columns: [Self::Vector; W],
    ) {
        for (accumulators, row) in accumulators.iter_mut().zip(rows) {
            // SAFETY: inlined into an entry of the instruction set; the caller vouches for the memory.
            unsafe { add_row::<Self, W>(accumulators, row.wrapping_offset(offset).cast(), columns) };
        }
    }

    /// The entry of [`crate::tile::microkernel`].
    unsafe fn microkernel<const H: usize, const W: usize, const PACKED: bool, const EDGE: bool>(
        tile: &Tile<Self>,
        lanes: usize,
    );
    /// The entry of [`crate::tile::streamed_microkernel`].
    unsafe fn streamed_microkernel<const H: usize, const W: usize, const EDGE: bool>(
        tile: &Tile<Self>,
        lanes: usize,
    );
    /// The entry of [`crate::tile::indexed_microkernel`].
    unsafe fn indexed_microkernel<const H: usize, const W: usize, const EDGE: bool>(
        tile: &Tile<Self>,
        rows: &IndexedRows<Self>,
        lanes: usize,
    );
    /// The entry of [`crate::tile::grouped_microkernel`].
    unsafe fn grouped_microkernel<const GROUPS: usize, const SIZE: usize, const H: usize>(
        tile: &Tile<Self>,
        rows: &IndexedRows<Self>,
        lanes: usize,
    );
    /// The entry of [`crate::tile::packing_microkernel`].
    unsafe fn packing_microkernel<const H: usize>(
        tile: &Tile<Self>,
        columns: &ColumnReader<'_, Self>,
        lanes: usize,
    );
    /// Runs code in a function of its own that enables the instruction set.
    ///
    /// # Safety
    ///
    /// The CPU has the instructions, and the promises that the code needs are kept.
    unsafe fn enter<C: VectorCode<Self>>(code: C);
}

/// Whether the microkernels of vectors have the sizes that plans count on.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
const fn agrees<V: Simd>() -> bool {
    let TileShape { bytes, lanes, packs, row_groups, .. } = V::SHAPE;
    let (mut at, mut agrees) = (0, row_groups.len() == V::ROW_GROUPS.len());
    while agrees && at < row_groups.len() {
        let (found, expected) = (&V::ROW_GROUPS[at], row_groups[at]);
        agrees = found.size == expected.size && found.microkernels.len() == expected.groups;
        at += 1;
    }
    agrees
        && bytes == size_of::<V::Element>()
        && lanes == size_of::<V::Vector>() / bytes
        && packs != V::PACKING_MICROKERNELS.is_empty()
}

#[cfg(target_arch = "x86_64")]
const _: () = assert!(agrees::<Avx2<f32>>() && agrees::<Avx2<f64>>());
#[cfg(target_arch = "x86_64")]
const _: () = assert!(agrees::<Avx512<f32>>() && agrees::<Avx512<f64>>());
#[cfg(target_arch = "aarch64")]
const _: () = assert!(agrees::<Neon<f32>>() && agrees::<Neon<f64>>());

/// Code for the vectors of any instruction set. It is inlined into an entry, and so are the functions that it
/// calls, so large pieces are entered one by one.
pub(crate) trait VectorCode<V: Simd> {
    /// Runs the code, with the promises that [`Simd::enter`] got.
    unsafe fn run(self);
}

/// Copies the elements of the lanes that the bits select; the others are zero. A call, because a branch for
/// each lane of each load is much code.
#[inline(never)]
unsafe fn selected(from: *const u16, bits: u32) -> [u16; MAX_LANES] {
    std::array::from_fn(|lane| match bits >> lane & 1 {
        0 => 0,
        // SAFETY: the caller vouches for the memory of the selected lanes.
        _ => unsafe { *from.wrapping_add(lane) },
    })
}

/// Adds the products of an element of A with vectors of B.
#[inline(always)]
pub(crate) unsafe fn add_row<V: Simd, const W: usize>(
    accumulators: &mut [V::Vector; W],
    a: *const V::Element,
    columns: [V::Vector; W],
) {
    // SAFETY: inlined into an entry of the instruction set; the caller vouches for the memory.
    unsafe {
        let element = V::broadcast(a);
        for (accumulator, column) in accumulators.iter_mut().zip(columns) {
            *accumulator = V::fma(element, column, *accumulator);
        }
    }
}

/// Prefetches the cache line of an address, which need not exist, to the L1 cache, or to the L2 cache if it
/// is not needed `soon`.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[inline(always)]
pub(crate) fn prefetch(address: *const u8, soon: bool) {
    // SAFETY: a prefetch accesses no memory.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _MM_HINT_T1, _mm_prefetch};
        match soon {
            true => _mm_prefetch::<_MM_HINT_T0>(address.cast()),
            false => _mm_prefetch::<_MM_HINT_T1>(address.cast()),
        }
    }
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        use std::arch::asm;
        match soon {
            true => {
                asm!("prfm pldl1keep, [{}]", in(reg) address, options(readonly, nostack, preserves_flags))
            }
            false => {
                asm!("prfm pldl2keep, [{}]", in(reg) address, options(readonly, nostack, preserves_flags))
            }
        }
    }
}

/// Does nothing: no plan runs on this architecture.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(crate) fn prefetch(_: *const u8, _: bool) {}

/// Defines functions of vector instructions, which are inlined into the entries of an instruction set. They
/// are unsafe for the reason that [`Simd`] gives.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
macro_rules! vector_functions {
    ($(
        fn $name:ident $(<$(const $number:ident: $type:ty),*>)? ($($parameters:tt)*) $(-> $result:ty)?
        $body:block
    )*) => {
        $(
            #[allow(unused_unsafe, reason = "some functions compute with numbers alone")]
            #[inline(always)]
            unsafe fn $name $(<$(const $number: $type),*>)? ($($parameters)*) $(-> $result)? {
                // SAFETY: the caller runs with the instruction set, and vouches for the memory of the lanes
                // that the function accesses.
                unsafe { $body }
            }
        )*
    };
}
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(crate) use vector_functions;

/// Defines the entries of an instruction set: functions that enable its features, into which the code that is
/// common to all instruction sets is inlined.
macro_rules! entries {
    ($features:literal) => {
        #[target_feature(enable = $features)]
        unsafe fn microkernel<const H: usize, const W: usize, const PACKED: bool, const EDGE: bool>(
            tile: &Tile<Self>,
            lanes: usize,
        ) {
            // SAFETY: the caller's promise.
            unsafe { crate::tile::microkernel::<Self, H, W, PACKED, EDGE>(tile, lanes) }
        }

        #[target_feature(enable = $features)]
        unsafe fn streamed_microkernel<const H: usize, const W: usize, const EDGE: bool>(
            tile: &Tile<Self>,
            lanes: usize,
        ) {
            // SAFETY: the caller's promise.
            unsafe { crate::tile::streamed_microkernel::<Self, H, W, EDGE>(tile, lanes) }
        }

        #[target_feature(enable = $features)]
        unsafe fn indexed_microkernel<const H: usize, const W: usize, const EDGE: bool>(
            tile: &Tile<Self>,
            rows: &IndexedRows<Self>,
            lanes: usize,
        ) {
            // SAFETY: the caller's promise.
            unsafe { crate::tile::indexed_microkernel::<Self, H, W, EDGE>(tile, rows, lanes) }
        }

        #[target_feature(enable = $features)]
        unsafe fn grouped_microkernel<const GROUPS: usize, const SIZE: usize, const H: usize>(
            tile: &Tile<Self>,
            rows: &IndexedRows<Self>,
            lanes: usize,
        ) {
            // SAFETY: the caller's promise.
            unsafe { crate::tile::grouped_microkernel::<Self, GROUPS, SIZE, H>(tile, rows, lanes) }
        }

        #[target_feature(enable = $features)]
        unsafe fn packing_microkernel<const H: usize>(
            tile: &Tile<Self>,
            columns: &ColumnReader<'_, Self>,
            lanes: usize,
        ) {
            // SAFETY: the caller's promise.
            unsafe { crate::tile::packing_microkernel::<Self, H>(tile, columns, lanes) }
        }

        #[inline(never)]
        #[target_feature(enable = $features)]
        unsafe fn enter<C: VectorCode<Self>>(code: C) {
            // SAFETY: the caller's promise.
            unsafe { code.run() }
        }
    };
}
use entries;
