//! Tensor maps of a kernel: checking their descriptions, and encoding them for the kernel.
//!
//! Maps are checked when code is loaded: a wrong map is a bug of a codegen, and is found before anything is
//! bound. A kernel's memory begins at multiples of [`ALIGNMENT`](crate::caps::ALIGNMENT), which satisfies
//! TMA.

use std::fmt::Display;

use codegen_core::{KernelAbi, PtxLaunch, TensorMap, TileSwizzle};
use device_runtime::{DriverError, check};

use crate::api::{CallError, Context, MAX_AXES, MemoryRegion, element, encode};

use crate::Result;

/// The minimum compute capability for TMA and clusters.
pub(crate) const MIN_CAPABILITY: (u32, u32) = (9, 0);

/// Alignment of a map's offset, strides and lines, in bytes.
const ALIGNMENT_BYTES: u64 = 16;
const MAX_SIZE: u64 = 1 << 32;
const MAX_STRIDE: u64 = (1 << 40) - ALIGNMENT_BYTES;
const MAX_TILE: u32 = 256;

/// The words of an encoded map, a kernel parameter.
pub(crate) type EncodedMap = [u64; 16];

/// The error for a launch description that the device or the text does not permit.
pub(crate) fn mismatch(
    kernel: &str,
    what: impl Into<Box<str>>,
    expected: impl Display,
    found: impl Display,
) -> DriverError {
    let (kernel, what) = (kernel.to_owned(), what.into());
    DriverError::BadLaunch {
        kernel,
        what,
        expected: expected.to_string().into(),
        found: found.to_string().into(),
    }
}

/// Checks that the device supports a feature of a launch.
///
/// # Errors
///
/// [`DriverError::BadLaunch`].
pub(crate) fn check_capability(kernel: &str, what: &str, capability: (u32, u32)) -> Result<()> {
    if capability >= MIN_CAPABILITY {
        return Ok(());
    }
    let version = |(major, minor): (u32, u32)| format!("{major}.{minor}");
    let what = format!("the compute capability for {what}");
    Err(mismatch(kernel, what, format!("{} or later", version(MIN_CAPABILITY)), version(capability)))
}

/// Checks that TMA accepts the maps of a launch, and that they stay within the kernel's memory.
///
/// # Errors
///
/// [`DriverError::BadLaunch`] and [`DriverError::OutOfBounds`].
pub(crate) fn check_all(abi: &KernelAbi, launch: &PtxLaunch, capability: (u32, u32)) -> Result<()> {
    if launch.maps.is_empty() {
        return Ok(());
    }
    check_capability(&abi.name, "tensor maps", capability)?;
    let memory: Vec<usize> = check::memory_params(abi).map(|(_, bytes)| bytes).collect();
    let maps = launch.maps.iter().enumerate();
    maps.map(|(number, map)| MapCheck { kernel: &abi.name, number, map }).try_for_each(|it| it.check(&memory))
}

/// A map that is being checked.
struct MapCheck<'a> {
    kernel: &'a str,
    number: usize,
    map: &'a TensorMap,
}

impl MapCheck<'_> {
    fn check(&self, memory: &[usize]) -> Result<()> {
        let TensorMap { param, offset, dtype, sizes, strides, tile, swizzle } = self.map;
        let number = memory.len();
        let Some(&bytes) = memory.get(*param as usize) else {
            return Err(self.error("its memory parameter", format!("one of {number}"), param));
        };
        let axes = sizes.len();
        self.expect((1..=MAX_AXES).contains(&axes), "axes", format!("1 to {MAX_AXES}"), axes)?;
        self.expect(strides.len() + 1 == axes, "strides", axes - 1, strides.len())?;
        self.expect(tile.len() == axes, "axes of the tile", axes, tile.len())?;
        for (axis, (size, tile)) in sizes.iter().zip(tile).enumerate() {
            let fits = (1..=MAX_SIZE).contains(size);
            self.expect(fits, format!("the size of axis {axis}"), format!("1 to {MAX_SIZE}"), size)?;
            let fits = (1..=MAX_TILE).contains(tile);
            self.expect(fits, format!("the tile along axis {axis}"), format!("1 to {MAX_TILE}"), tile)?;
        }
        for (axis, stride) in (1..).zip(strides) {
            let fits = stride % ALIGNMENT_BYTES == 0 && *stride <= MAX_STRIDE;
            let expected = format!("a multiple of {ALIGNMENT_BYTES} up to {MAX_STRIDE}");
            self.expect(fits, format!("the stride of axis {axis}"), expected, stride)?;
        }
        self.expect(
            offset % ALIGNMENT_BYTES == 0,
            "the offset",
            format!("a multiple of {ALIGNMENT_BYTES}"),
            offset,
        )?;
        self.expect(element(*dtype).is_some(), "elements", "a type of at most 8 bytes", dtype)?;
        let line = u64::from(tile[0]) * dtype.size_bytes() as u64;
        self.expect(
            line.is_multiple_of(ALIGNMENT_BYTES),
            "bytes of a line",
            format!("a multiple of {ALIGNMENT_BYTES}"),
            line,
        )?;
        let most = max_line_bytes(*swizzle);
        self.expect(line <= most, "bytes of a line", format!("at most {most}, as it is swizzled"), line)?;
        self.check_reach(bytes)
    }

    /// Checks that the last element ends within the memory.
    fn check_reach(&self, size: usize) -> Result<()> {
        let TensorMap { dtype, sizes, strides, offset, .. } = self.map;
        let element = dtype.size_bytes() as u64;
        let steps = sizes.iter().zip([&element].into_iter().chain(strides));
        let last: u128 = steps.map(|(size, step)| u128::from(size - 1) * u128::from(*step)).sum();
        let end = u128::from(*offset) + last + u128::from(element);
        if end <= size as u128 {
            return Ok(());
        }
        let what = format!("tensor map {} of kernel `{}`", self.number, self.kernel);
        let bytes = usize::try_from(end - u128::from(*offset)).unwrap_or(usize::MAX);
        let offset = usize::try_from(*offset).unwrap_or(usize::MAX);
        Err(DriverError::OutOfBounds { what, offset, bytes, size })
    }

    fn expect(
        &self,
        holds: bool,
        what: impl Display,
        expected: impl Display,
        found: impl Display,
    ) -> Result<()> {
        if holds { Ok(()) } else { Err(self.error(what, expected, found)) }
    }

    fn error(&self, what: impl Display, expected: impl Display, found: impl Display) -> DriverError {
        mismatch(self.kernel, format!("tensor map {}, {what}", self.number), expected, found)
    }
}

/// Maximum size of a tile's line, in bytes.
fn max_line_bytes(swizzle: TileSwizzle) -> u64 {
    match swizzle {
        TileSwizzle::None => u64::MAX,
        TileSwizzle::Bytes32 => 32,
        TileSwizzle::Bytes64 => 64,
        TileSwizzle::Bytes128 => 128,
    }
}

/// Encodes the maps of a kernel for the regions to which it is bound.
///
/// # Errors
///
/// An error of the driver, converted by `rejected`.
pub(crate) fn encoded(
    context: &Context,
    kernel: &str,
    maps: &[TensorMap],
    regions: &[MemoryRegion],
    rejected: impl Fn(CallError) -> DriverError,
) -> Result<Vec<EncodedMap>> {
    let encoded = maps.iter().enumerate().map(|(number, map)| {
        let it = MapCheck { kernel, number, map };
        // The parameter and its element type were checked when the code was loaded.
        let (Some(region), Some(element)) = (regions.get(map.param as usize), element(map.dtype)) else {
            return Err(it.error("its memory parameter", format!("one of {}", regions.len()), map.param));
        };
        encode(context, region, map, element).map_err(&rejected)
    });
    encoded.collect()
}
