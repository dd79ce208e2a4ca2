//! Tensor maps: which bytes of global memory a tile is, and where each lies in shared memory.

use super::fault::{CheckResult, FaultCause, malformed};

/// Global memory as a tensor of which whole tiles are copied; what kernels are called with behind their numbers. What of a tile lies outside is zeros.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimTensorMap {
    /// The address of the first element, a multiple of 16.
    pub address: u64,
    /// Bytes of an element: 1, 2, 4 or 8.
    pub element: u32,
    /// How many elements there are along each axis, innermost first: one to five axes.
    pub sizes: Vec<u64>,
    /// Bytes from an element to the next along each axis but the innermost, multiples of 16.
    pub strides: Vec<u64>,
    /// Elements of a tile along each axis, 1 to 256; along the innermost a multiple of 16 bytes.
    pub tile: Vec<u32>,
    /// In which order a tile lies in shared memory.
    pub swizzle: Swizzle,
}

/// Which bits of an address in shared memory are exchanged, so that chunks of 16 bytes below each other lie in different banks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Swizzle {
    /// None: tiles lie line after line.
    None,
    /// Bit 4 by bit 7: lines of 32 bytes.
    Bytes32,
    /// Bits 4 and 5 by bits 7 and 8: lines of 64 bytes.
    Bytes64,
    /// Bits 4 to 6 by bits 7 to 9: lines of 128 bytes.
    Bytes128,
}

/// A piece of a tile: 16 bytes of shared memory at most, beside each other in both block_states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TileSegment {
    /// How far behind the tile's first byte in shared memory, before the order is applied to the address.
    pub(super) shared: usize,
    pub(super) global: u64,
    pub(super) bytes: u32,
}

/// Where maps lie; no region of memory is as far.
const MAPS: u64 = 1 << 60;
const MAP_BYTES: u64 = 128;

/// The address of a map.
pub(super) fn map_address(map: u32) -> u64 {
    MAPS + MAP_BYTES * u64::from(map)
}

/// The map at an address.
pub(super) fn map_at(maps: &[SimTensorMap], address: u64) -> CheckResult<&SimTensorMap> {
    let found = address.checked_sub(MAPS).filter(|at| at % MAP_BYTES == 0);
    let found = found.and_then(|at| maps.get((at / MAP_BYTES) as usize));
    found.ok_or_else(|| Box::new(FaultCause::InvalidTile(format!("there is no tensor map at {address:#x}"))))
}

impl Swizzle {
    /// Bytes of a line whose chunks are exchanged with each other.
    pub(super) fn span(self) -> usize {
        match self {
            Swizzle::None => 16,
            Swizzle::Bytes32 => 32,
            Swizzle::Bytes64 => 64,
            Swizzle::Bytes128 => 128,
        }
    }

    /// After how many bytes the order repeats; what tiles have to be aligned to.
    pub(super) fn align(self) -> u32 {
        match self {
            Swizzle::None => 128,
            _ => 8 * self.span() as u32,
        }
    }

    /// Where a byte lies that would lie at this address without exchanges.
    pub(super) fn apply(self, address: usize) -> usize {
        let bits = self.span() / 16 - 1;
        address ^ ((address >> 7 & bits) << 4)
    }
}

impl SimTensorMap {
    /// # Errors
    ///
    /// [`FaultCause::Malformed`] for what the driver would refuse, and for swizzled lines that are no whole ones.
    pub(super) fn check(&self) -> CheckResult<()> {
        let (axes, line) = (self.sizes.len(), self.line());
        let shape = (1..=5).contains(&axes) && self.tile.len() == axes && self.strides.len() + 1 == axes;
        let sizes = self.sizes.iter().all(|size| (1..=1 << 32).contains(size))
            && self.tile.iter().all(|tile| (1..=256).contains(tile));
        let aligned =
            [&[self.address], &self.strides[..]].concat().iter().all(|bytes| bytes.is_multiple_of(16));
        // Shorter lines the driver takes, but gives each the room of a whole one.
        let line_fits = sizes
            && self.is_near()
            && line.is_multiple_of(16)
            && (self.swizzle == Swizzle::None || line == self.swizzle.span());
        if shape && aligned && line_fits && matches!(self.element, 1 | 2 | 4 | 8) {
            return Ok(());
        }
        malformed(format!("no tensor map: {self:?}"))
    }

    /// Whether addresses of elements, and sizes of tiles, are numbers that can be computed with; the hardware's are smaller.
    fn is_near(&self) -> bool {
        let strides = self.strides.iter().all(|&stride| stride < 1 << 40) && self.element <= 8;
        let tile = self.tile.iter().try_fold(8_u32, |bytes, &tile| bytes.checked_mul(tile));
        // Few axes may be long at once.
        let reach = self.strides.iter().zip(self.sizes.iter().skip(1));
        let far = reach.map(|(&stride, &size)| u128::from(stride) * u128::from(size)).sum::<u128>();
        strides && tile.is_some() && self.address < 1 << 60 && far < 1 << 60
    }

    /// Bytes of a tile's line.
    fn line(&self) -> usize {
        self.tile.first().map_or(0, |&tile| tile as usize * self.element as usize)
    }

    /// Bytes of a tile.
    pub(super) fn bytes(&self) -> usize {
        self.tile.iter().map(|&tile| tile as usize).product::<usize>() * self.element as usize
    }

    /// The pieces of a tile that lie in the tensor.
    pub(super) fn pieces(&self, at: &[i32]) -> Vec<TileSegment> {
        let lines: usize = self.tile[1..].iter().map(|&tile| tile as usize).product();
        let mut pieces = Vec::new();
        for line in 0..lines {
            if let Some(address) = self.line_address(line, at) {
                self.line_pieces(line * self.line(), address, at[0], &mut pieces);
            }
        }
        pieces
    }

    /// Where a line would begin whose first element is number 0; nothing for those outside.
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

    /// The pieces of a line, parted where either memory has a multiple of 16.
    fn line_pieces(&self, shared: usize, address: u64, first: i32, pieces: &mut Vec<TileSegment>) {
        let element = i64::from(self.element);
        let first = i64::from(first);
        let inside = first.max(0)..(first + i64::from(self.tile[0])).min(self.sizes[0] as i64);
        let (mut byte, end) = (inside.start * element, inside.end * element);
        while byte < end {
            let offset = shared + (byte - first * element) as usize;
            let global = address + byte as u64;
            let most = (16 - offset % 16).min(16 - (global % 16) as usize) as i64;
            let bytes = most.min(end - byte);
            pieces.push(TileSegment { shared: offset, global, bytes: bytes as u32 });
            byte += bytes;
        }
    }
}
