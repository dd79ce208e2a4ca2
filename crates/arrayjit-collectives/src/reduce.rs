//! Reductions of blocks of bytes, one for each rank, in the order of the tree of merges.

use arrayjit::{
    DType,
    parallel::{Merge, merge_tree},
};
use bytemuck::Pod;
use half::{bf16, f16};

use crate::group::Reduction;

/// Whether elements of that type can be reduced.
pub(crate) fn is_supported(dtype: DType) -> bool {
    combination(dtype, Reduction::Sum).is_some()
}

/// Reduces `count` blocks into the first one. `blocks` is aligned for the elements, and so is each block.
pub(crate) fn reduce(dtype: DType, by: Reduction, blocks: &mut [u8], count: usize) {
    let Some(combine) = combination(dtype, by) else { return };
    let block = blocks.len() / count.max(1);
    for Merge { from, to } in merge_tree(count) {
        let (low, high) = blocks.split_at_mut(from * block);
        combine(&mut low[to * block..][..block], &high[..block]);
    }
}

/// Combines each element with another.
type Combine = fn(&mut [u8], &[u8]);

fn combination(dtype: DType, by: Reduction) -> Option<Combine> {
    Some(match dtype {
        DType::F32 => float::<f32>(by),
        DType::F64 => float::<f64>(by),
        DType::F16 => float::<f16>(by),
        DType::Bf16 => float::<bf16>(by),
        DType::I8 => integer::<i8>(by),
        DType::U8 => integer::<u8>(by),
        DType::U16 => integer::<u16>(by),
        DType::I32 => integer::<i32>(by),
        DType::U32 => integer::<u32>(by),
        DType::I64 => integer::<i64>(by),
        DType::U64 => integer::<u64>(by),
        DType::Bool | DType::Fp8E5m2 | DType::Fp8E4m3fn | DType::U32x4 => return None,
    })
}

fn each<T: Pod>(to: &mut [u8], from: &[u8], combine: impl Fn(T, T) -> T) {
    let (to, from): (&mut [T], &[T]) = (bytemuck::cast_slice_mut(to), bytemuck::cast_slice(from));
    to.iter_mut().zip(from).for_each(|(to, from)| *to = combine(*to, *from));
}

fn float<T: Float>(by: Reduction) -> Combine {
    match by {
        Reduction::Sum => |to, from| each(to, from, T::sum),
        Reduction::Max => |to, from| each(to, from, |a: T, b: T| if b > a || is_nan(b) { b } else { a }),
        Reduction::Min => |to, from| each(to, from, |a: T, b: T| if b < a || is_nan(b) { b } else { a }),
    }
}

#[expect(clippy::eq_op, reason = "only NaN differs from itself")]
fn is_nan<T: Float>(x: T) -> bool {
    x != x
}

fn integer<T: Integer>(by: Reduction) -> Combine {
    match by {
        Reduction::Sum => |to, from| each(to, from, T::wrapping_sum),
        Reduction::Max => |to, from| each(to, from, T::max),
        Reduction::Min => |to, from| each(to, from, T::min),
    }
}

trait Float: Pod + PartialOrd {
    fn sum(self, other: Self) -> Self;
}

trait Integer: Pod + Ord {
    fn wrapping_sum(self, other: Self) -> Self;
}

macro_rules! floats {
    ($($float:ty: |$a:ident, $b:ident| $sum:expr;)*) => {$(
        impl Float for $float {
            fn sum(self, other: Self) -> Self {
                let ($a, $b) = (self, other);
                $sum
            }
        }
    )*};
}

floats! {
    f32: |a, b| a + b;
    f64: |a, b| a + b;
    f16: |a, b| f16::from_f32(a.to_f32() + b.to_f32());
    bf16: |a, b| bf16::from_f32(a.to_f32() + b.to_f32());
}

macro_rules! integers {
    ($($integer:ty)*) => {$(
        impl Integer for $integer {
            fn wrapping_sum(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
        }
    )*};
}

integers! { i8 u8 u16 i32 u32 i64 u64 }

#[cfg(test)]
mod tests {
    use super::*;

    /// Whichever rank has the NaN.
    #[test]
    fn nan_of_one_rank_is_the_extreme() {
        for by in [Reduction::Max, Reduction::Min] {
            for rank in 0..4 {
                let mut values = [1.0_f32, -0.0, f32::INFINITY, f32::NEG_INFINITY];
                values[rank] = f32::NAN;
                reduce(DType::F32, by, bytemuck::cast_slice_mut(&mut values), 4);
                assert!(values[0].is_nan(), "{by} {rank}");
            }
        }
    }
}
