//! Tensor maps: the bytes of global memory that make up a tile, and their order in shared memory.

use super::fault::{CheckResult, FaultCause, malformed};

/// A tensor map (`CUtensorMap`): the layout of a tensor in global memory, and the shape of its tiles.
/// Elements of a tile outside the tensor are read as zeros and not written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimTensorMap {
    /// Address of the first element, a multiple of 16.
    pub address: u64,
    /// Size of an element in bytes: 1, 2, 4 or 8.
    pub element: u32,
    /// Number of elements along each axis, innermost first; one to five axes.
    pub sizes: Vec<u64>,
    /// Byte strides of all axes except the innermost, multiples of 16.
    pub strides: Vec<u64>,
    /// Elements of a tile along each axis, 1 to 256; along the innermost axis a multiple of 16 bytes.
    pub tile: Vec<u32>,
    /// Order of a tile's 16-byte chunks in shared memory.
    pub swizzle: Swizzle,
}

/// Swizzle modes: address bits that are xored so that chunks of 16 bytes in one column fall into different
/// banks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Swizzle {
    /// No swizzle: a tile is row-major.
    None,
    /// Bit 4 xor bit 7, for rows of 32 bytes.
    Bytes32,
    /// Bits 4 and 5 xor bits 7 and 8, for rows of 64 bytes.
    Bytes64,
    /// Bits 4 to 6 xor bits 7 to 9, for rows of 128 bytes.
    Bytes128,
}

/// A part of a tile that is contiguous in both memories: up to 16 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TileSegment {
    /// Offset from the tile's first byte in shared memory, before swizzling.
    pub(super) shared: usize,
    pub(super) global: u64,
    pub(super) bytes: u32,
}

/// Addresses of the tensor maps, above every buffer.
const MAPS: u64 = 1 << 60;
const MAP_BYTES: u64 = 128;

/// The address of a tensor map.
pub(super) fn map_address(map: u32) -> u64 {
    MAPS + MAP_BYTES * u64::from(map)
}

/// The tensor map at an address.
pub(super) fn map_at(maps: &[SimTensorMap], address: u64) -> CheckResult<&SimTensorMap> {
    let found = address.checked_sub(MAPS).filter(|at| at % MAP_BYTES == 0);
    let found = found.and_then(|at| maps.get((at / MAP_BYTES) as usize));
    found.ok_or_else(|| Box::new(FaultCause::InvalidTile(format!("there is no tensor map at {address:#x}"))))
}

impl Swizzle {
    /// Bytes of a row within which chunks are swizzled.
    pub(super) fn span(self) -> usize {
        match self {
            Swizzle::None => 16,
            Swizzle::Bytes32 => 32,
            Swizzle::Bytes64 => 64,
            Swizzle::Bytes128 => 128,
        }
    }

    /// The period of the swizzle pattern in bytes, to which tiles are aligned.
    pub(super) fn align(self) -> u32 {
        match self {
            Swizzle::None => 128,
            _ => 8 * self.span() as u32,
        }
    }

    /// The address of a byte after swizzling.
    pub(super) fn apply(self, address: usize) -> usize {
        let bits = self.span() / 16 - 1;
        address ^ ((address >> 7 & bits) << 4)
    }
}

impl SimTensorMap {
    /// # Errors
    ///
    /// [`FaultCause::Malformed`] if the driver would reject the map, or if a swizzled row is not exactly as
    /// long as the swizzle's span.
    pub(super) fn check(&self) -> CheckResult<()> {
        let (axes, line) = (self.sizes.len(), self.line());
        let shape = (1..=5).contains(&axes) && self.tile.len() == axes && self.strides.len() + 1 == axes;
        let sizes = self.sizes.iter().all(|size| (1..=1 << 32).contains(size))
            && self.tile.iter().all(|tile| (1..=256).contains(tile));
        let aligned =
            [&[self.address], &self.strides[..]].concat().iter().all(|bytes| bytes.is_multiple_of(16));
        // The driver also accepts shorter rows, each of which takes a whole span in shared memory. The
        // simulator does not model these.
        let line_fits = sizes
            && self.is_near()
            && line.is_multiple_of(16)
            && (self.swizzle == Swizzle::None || line == self.swizzle.span());
        if shape && aligned && line_fits && matches!(self.element, 1 | 2 | 4 | 8) {
            return Ok(());
        }
        malformed(format!("no tensor map: {self:?}"))
    }

    /// Whether addresses and tile sizes fit 64-bit arithmetic; the hardware's limits are lower.
    fn is_near(&self) -> bool {
        let strides = self.strides.iter().all(|&stride| stride < 1 << 40) && self.element <= 8;
        let tile = self.tile.iter().try_fold(8_u32, |bytes, &tile| bytes.checked_mul(tile));
        // The extent of all axes together is limited, too.
        let reach = self.strides.iter().zip(self.sizes.iter().skip(1));
        let far = reach.map(|(&stride, &size)| u128::from(stride) * u128::from(size)).sum::<u128>();
        strides && tile.is_some() && self.address < 1 << 60 && far < 1 << 60
    }

    /// Bytes of a row of the tile.
    fn line(&self) -> usize {
        self.tile.first().map_or(0, |&tile| tile as usize * self.element as usize)
    }

    /// Bytes of a tile.
    pub(super) fn bytes(&self) -> usize {
        self.tile.iter().map(|&tile| tile as usize).product::<usize>() * self.element as usize
    }

    /// The segments of a tile at coordinates `at` that lie in the tensor.
    pub(super) fn segments(&self, at: &[i32]) -> Vec<TileSegment> {
        let lines: usize = self.tile[1..].iter().map(|&tile| tile as usize).product();
        let mut segments = Vec::new();
        for line in 0..lines {
            if let Some(address) = self.line_address(line, at) {
                self.line_segments(line * self.line(), address, at[0], &mut segments);
            }
        }
        segments
    }

    /// The address that element 0 of a row would have; `None` for a row outside the tensor.
    fn line_address(&self, mut line: usize, at: &[i32]) -> Option<u64> {
        let mut address = self.address;
        let axes = self.tile.iter().zip(&self.sizes).zip(at).skip(1).zip(&self.strides);
        for (((&tile, &size), &at), &stride) in axes {
            let place = i64::from(at) + (line % tile as usize) as i64;
            line /= tile as usize;
            let place = u64::try_from(place).ok().filter(|&place| place < size)?;
            address += place * stride;
        }
        Some(address)
    }

    /// The segments of a row, split at multiples of 16 bytes of either memory.
    fn line_segments(&self, shared: usize, address: u64, first: i32, segments: &mut Vec<TileSegment>) {
        let element = i64::from(self.element);
        let first = i64::from(first);
        let inside = first.max(0)..(first + i64::from(self.tile[0])).min(self.sizes[0] as i64);
        let (mut byte, end) = (inside.start * element, inside.end * element);
        while byte < end {
            let offset = shared + (byte - first * element) as usize;
            let global = address + byte as u64;
            let most = (16 - offset % 16).min(16 - (global % 16) as usize) as i64;
            let bytes = most.min(end - byte);
            segments.push(TileSegment { shared: offset, global, bytes: bytes as u32 });
            byte += bytes;
        }
    }
}
