//! The sizes of float tiles for each instruction set.
//!
//! Plans depend on these numbers and not on the functions that compute tiles, so a process plans for
//! processors of other architectures too.

use vector_asm::{Isa, LaneType};

/// Columns of the largest tile in vectors; this many vectors are NR in BLIS.
pub(crate) const NR_VECTORS: usize = 2;

/// Rows of a group of which the second one has, at each position along K of a run, the element of the first
/// one at the next position.
pub(crate) const TAPS: usize = 3;

/// The tiles of an element type in the vectors of an instruction set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TileShape {
    /// The instruction set.
    pub(crate) isa: Isa,
    /// Bytes of an element.
    pub(crate) bytes: usize,
    /// Lanes per vector.
    pub(crate) lanes: usize,
    /// Rows of the largest tile, MR in BLIS: those for which its accumulators, the vectors of B at one
    /// position along K and one broadcast element of A fit in the registers.
    pub(crate) rows: usize,
    /// Rows of the largest tile whose rows of A are addressed by tables. The addresses of more rows would not
    /// fit in the general registers, and the compiler would keep accumulators in memory, too.
    pub(crate) indexed_rows: usize,
    /// Whether there are microkernels that pack B.
    pub(crate) packs: bool,
    /// The tiles of rows in groups; none if there are too few registers.
    pub(crate) row_groups: &'static [RowGroupShape],
}

/// Tiles of rows in groups of a size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowGroupShape {
    /// Rows of a group; [`TAPS`] if there are contiguous runs along K.
    pub(crate) size: usize,
    /// The most groups of a tile.
    pub(crate) groups: usize,
}

impl TileShape {
    pub(crate) const NEON_F32: TileShape = TileShape::new(Isa::Neon, 4, 12);
    pub(crate) const NEON_F64: TileShape = TileShape::new(Isa::Neon, 8, 12);
    pub(crate) const AVX2_F32: TileShape = TileShape::new(Isa::Avx2, 4, 6);
    pub(crate) const AVX2_F64: TileShape = TileShape::new(Isa::Avx2, 8, 6);
    pub(crate) const AVX512_F32: TileShape = TileShape {
        packs: true,
        row_groups: &[RowGroupShape { size: TAPS, groups: 7 }, RowGroupShape { size: 4, groups: 6 }],
        ..TileShape::AVX512_F64
    }
    .of_bytes(4);
    pub(crate) const AVX512_F64: TileShape =
        TileShape { indexed_rows: 10, ..TileShape::new(Isa::Avx512, 8, 14) };

    const fn new(isa: Isa, bytes: usize, rows: usize) -> TileShape {
        let shape =
            TileShape { isa, bytes, lanes: 0, rows, indexed_rows: rows, packs: false, row_groups: &[] };
        shape.of_bytes(bytes)
    }

    const fn of_bytes(self, bytes: usize) -> TileShape {
        let vector_bytes = match self.isa {
            Isa::Neon => 16,
            Isa::Avx2 => 32,
            Isa::Avx512 => 64,
        };
        TileShape { bytes, lanes: vector_bytes / bytes, ..self }
    }

    /// The tiles of an element type; `None` if it is no float with microkernels.
    pub(crate) fn of(isa: Isa, element: LaneType) -> Option<TileShape> {
        match (isa, element) {
            (Isa::Neon, LaneType::F32) => Some(TileShape::NEON_F32),
            (Isa::Neon, LaneType::F64) => Some(TileShape::NEON_F64),
            (Isa::Avx2, LaneType::F32) => Some(TileShape::AVX2_F32),
            (Isa::Avx2, LaneType::F64) => Some(TileShape::AVX2_F64),
            (Isa::Avx512, LaneType::F32) => Some(TileShape::AVX512_F32),
            (Isa::Avx512, LaneType::F64) => Some(TileShape::AVX512_F64),
            _ => None,
        }
    }

    /// Columns of the largest tile.
    pub(crate) const fn width(&self) -> usize {
        NR_VECTORS * self.lanes
    }

    /// Rows of the accumulators in scratch memory: those of a tile, or of a square block that is transposed.
    pub(crate) const fn accumulator_rows(&self) -> usize {
        if self.rows > self.lanes { self.rows } else { self.lanes }
    }
}
