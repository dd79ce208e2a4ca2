//! Cache blocking of a GEMM: which operands are packed, and the sizes of blocks.
//!
//! | Packing | When | What is copied |
//! |---|---|---|
//! | unpacked | few tiles of rows, or B fits a quarter of the L2 cache; both are readable in place | nothing |
//! | blocks, with B in place | few tiles of rows, and B is readable in place | blocks of A |
//! | blocks of columns | all iterations of a batch have one B | blocks of B for the L2 cache, once |
//! | whole A | at most 128 rows, and A fits half of the L2 cache | A once; B a few micro-panels at a time |
//! | blocks | otherwise | blocks of B for the L3 cache, and blocks of A for the L2 cache |
//!
//! If the L3 cache is far, only one tile of rows reads a larger B in place whole, and only half as many tiles
//! are few for blocks: the first one waits for B. Short blocks along K make it wait less.
//!
//! Of blocks, A stays in place if B has few columns and microkernels can read A, possibly through tables of
//! offsets: each packed element would be used for a few products only. B stays in place if its rows are
//! contiguous and no wider than a few micro-panels.
//!
//! A micro-panel of B consists of the rows of one block along K, in as many columns as a tile has, or in
//! those of one vector if there are no more and A is read through tables.

use std::fmt;
use std::ops::Range;

use crate::machine::CpuTarget;
use crate::pack::PANELS_AT_ONCE;

/// The properties of a GEMM that decide its blocking.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GemmShape {
    pub(crate) m: usize,
    pub(crate) n: usize,
    pub(crate) k: usize,
    /// Bytes of an element.
    pub(crate) bytes: usize,
    /// Rows and columns of a full tile, MR and NR in BLIS.
    pub(crate) height: usize,
    pub(crate) width: usize,
    /// Whether microkernels can read A in place.
    pub(crate) a_has_strides: bool,
    /// Whether they can do so with contiguous elements along K or with all of A in the L1 cache.
    pub(crate) a_is_readable: bool,
    /// Whether microkernels can read A in place through tables of offsets.
    pub(crate) a_is_indexed: bool,
    /// Whether microkernels can read B in place.
    pub(crate) b_is_readable: bool,
    /// Bytes from a row of B to the next, if microkernels can read it in place.
    pub(crate) b_k_stride: isize,
    /// Whether K may be cut into blocks, with partial sums in memory between them.
    pub(crate) k_can_be_cut: bool,
    /// Whether the product is computed transposed, which needs blocks.
    pub(crate) is_transposed: bool,
    /// Whether several iterations of a batch have the same B, and A is read by strides.
    pub(crate) b_is_shared: bool,
}

impl GemmShape {
    pub(crate) fn b_bytes(&self) -> usize {
        self.k * self.n * self.bytes
    }

    /// The most columns of a block of B that every iteration of a batch uses, with whole sums: half of the L2
    /// cache has them. None if that is less than a few micro-panels.
    fn shared_columns(&self, cpu: &CpuTarget) -> Option<usize> {
        let columns = cpu.l2_bytes / 2 / (self.k * self.bytes).max(1);
        (self.b_is_shared && !self.is_transposed && columns >= PANELS_AT_ONCE * self.width)
            .then_some(columns / self.width * self.width)
    }

    /// Columns of a packed micro-panel of B: those of a tile, or of one vector if there are no more and the
    /// microkernels that read it take it with a stride.
    pub(crate) fn panel(&self, packing: Packing) -> usize {
        let is_half = packing == Packing::Blocks { a: false, b: true } && self.a_is_indexed;
        if is_half && self.n <= self.width / 2 { self.width / 2 } else { self.width }
    }

    /// Rows of B in place of which the L2 cache holds some columns: rows whose distance is a multiple of a
    /// high power of two compete for few sets of the cache.
    pub(crate) fn near_rows(&self, cpu: &CpuTarget) -> usize {
        let distance = self.b_k_stride.unsigned_abs().max(1);
        let unit = (1 << distance.trailing_zeros()).max(self.width * self.bytes);
        cpu.l2_bytes / unit
    }
}

/// The packing strategy and the sizes of blocks: MC, NC and KC in BLIS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Blocking {
    pub(crate) packing: Packing,
    /// Extent of a block along K (KC). The number of blocks is minimal and their extents are about equal.
    pub(crate) kc: usize,
    /// Rows of a block (MC).
    pub(crate) mc: usize,
    /// Columns of a block (NC).
    pub(crate) nc: usize,
}

/// Which operands are packed, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packing {
    /// Microkernels read both operands in place.
    Unpacked {
        /// Whether the loop over rows is the outer one, which keeps B in the L1 cache.
        rows_outer: bool,
    },
    /// A is packed whole, and B a few micro-panels at a time.
    WholeA,
    /// The loops run over blocks.
    Blocks {
        /// Whether blocks of A are packed; otherwise microkernels read A in place.
        a: bool,
        /// Whether blocks of B are packed; otherwise microkernels read B in place.
        b: bool,
    },
}

impl Packing {
    /// Whether the iterations of a batch may use one packed block of B.
    pub(crate) fn shares_b(self) -> bool {
        matches!(self, Packing::Blocks { b: true, .. })
    }

    /// Whether B is packed; otherwise microkernels read it in place.
    pub(crate) fn packs_b(self) -> bool {
        matches!(self, Packing::WholeA | Packing::Blocks { b: true, .. })
    }
}

/// Shows which operands are packed, and in blocks of which sizes.
impl fmt::Display for Blocking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Blocking { packing, kc, mc, nc } = *self;
        match packing {
            Packing::Unpacked { .. } => f.write_str("operands in place"),
            Packing::WholeA => write!(f, "A packed whole, B packed in panels of {kc}x{nc}"),
            Packing::Blocks { a: true, b: true } => {
                write!(f, "A packed in blocks of {mc}x{kc}, B packed in blocks of {kc}x{nc}")
            }
            Packing::Blocks { a: true, b: false } => {
                write!(f, "A packed in blocks of {mc}x{kc}, B in place")
            }
            Packing::Blocks { a: false, b: true } => {
                write!(f, "A in place, B packed in blocks of {kc}x{nc}")
            }
            Packing::Blocks { a: false, b: false } => write!(f, "operands in place, in blocks of {kc}x{nc}"),
        }
    }
}

impl Blocking {
    pub(crate) fn new(shape: &GemmShape, cpu: &CpuTarget) -> Blocking {
        Blocking::of(choose_packing(shape, cpu), shape, cpu)
    }

    /// The sizes of blocks with a given packing.
    pub(crate) fn of(packing: Packing, shape: &GemmShape, cpu: &CpuTarget) -> Blocking {
        let elements = |bytes: usize| bytes / shape.bytes;
        let panel = shape.panel(packing);
        let shared = shape.shared_columns(cpu).filter(|_| packing.shares_b());
        let kc = match packing {
            Packing::Unpacked { .. } => shape.k,
            _ if shared.is_some() => shape.k,
            _ if !shape.k_can_be_cut => shape.k,
            // Elements of an indexed A lie in many rows. With few columns, each would be loaded from a far
            // cache again for each block of K, so B is read from the L2 cache instead.
            Packing::Blocks { a: false, .. }
                if is_narrow(shape) && shape.k * panel * shape.bytes <= cpu.l2_bytes / 4 =>
            {
                shape.k
            }
            // Tiles of more than a cache line have so many products per loaded element that they read a
            // micro-panel from the L2 cache, of which it takes an eighth. Longer blocks load and store sums
            // less often.
            // The L2 cache also holds what is prefetched.
            Packing::Blocks { a: true, b: false } => (shape.near_rows(cpu) / 2).clamp(32, 256),
            _ if panel * shape.bytes > 64 => (elements(cpu.l2_bytes) / (8 * panel)).clamp(64, 1024),
            // A micro-panel takes half of the L1 cache.
            _ => (elements(cpu.l1_bytes) / (2 * panel)).clamp(64, 1024),
        };
        let kc = even_block(shape.k, kc);
        let mc = (elements(cpu.l2_bytes) / 3 / kc.max(1)).clamp(2 * shape.height, 1024) / shape.height
            * shape.height;
        let nc = match packing {
            // Sums stay in the L2 cache between blocks of K.
            Packing::Blocks { a: true, b: false } => {
                (elements(cpu.l2_bytes) / 2 / shape.m.max(1)).max(shape.width) / shape.width * shape.width
            }
            // Columns that are contiguous along K share no cache lines, so one micro-panel at a time stays in
            // the L1 cache.
            Packing::WholeA if !shape.b_is_readable => shape.width,
            // The few micro-panels that are packed together read neighboring elements, so they find them in
            // the L1 cache.
            Packing::WholeA => PANELS_AT_ONCE * shape.width,
            _ if let Some(columns) = shared => columns,
            // A block takes at most a quarter of the L3 cache, and at most as many columns as the
            // second-level TLB covers.
            _ => (elements(cpu.l3_bytes) / 4 / kc.max(1)).clamp(shape.width, 2048),
        };
        let nc = match packing {
            Packing::WholeA => nc.min(shape.n.next_multiple_of(shape.width)),
            _ => even_block(shape.n, nc).next_multiple_of(shape.width),
        };
        Blocking { packing, kc, mc, nc }
    }
}

/// The most rows for which reading both operands in place is faster than packing B; 0 if microkernels cannot
/// read them, or if B is not packed.
pub(crate) fn few_rows(packing: Packing, shape: &GemmShape, cpu: &CpuTarget) -> usize {
    let is_readable = shape.a_is_readable && shape.b_is_readable && shape.k <= shape.near_rows(cpu);
    match packing {
        _ if !is_readable || shape.is_transposed || !packing.packs_b() => 0,
        _ if cpu.l3_is_far && shape.b_bytes() > cpu.l2_bytes / 4 => shape.height,
        _ => MAX_FEW_TILES / 2 * shape.height,
    }
}

/// Whether there are at most two micro-panels of columns.
fn is_narrow(shape: &GemmShape) -> bool {
    shape.n <= 2 * shape.width
}

fn choose_packing(shape: &GemmShape, cpu: &CpuTarget) -> Packing {
    let b = shape.b_bytes();
    let a = shape.k * shape.m * shape.bytes;
    let readable = shape.a_is_readable && shape.b_is_readable;
    let most = if cpu.l3_is_far { MAX_FEW_TILES / 2 } else { MAX_FEW_TILES };
    let has_few_tiles = shape.m <= most * shape.height;
    let reads_whole_b = if cpu.l3_is_far { shape.m <= shape.height } else { has_few_tiles };
    if readable && (b <= cpu.l2_bytes / 4 || reads_whole_b && shape.k <= shape.near_rows(cpu)) {
        Packing::Unpacked { rows_outer: b <= cpu.l1_bytes * 3 / 4 }
    } else if shape.b_is_readable && has_few_tiles && !shape.is_transposed {
        Packing::Blocks { a: true, b: false }
    } else if shape.shared_columns(cpu).is_some() {
        Packing::Blocks { a: !shape.a_is_readable, b: true }
    } else if a <= cpu.l2_bytes / 2 && shape.m <= 128 && !shape.is_transposed {
        Packing::WholeA
    } else if shape.a_is_indexed && (shape.is_transposed || shape.n <= MAX_INDEXED_COLUMNS) {
        Packing::Blocks { a: false, b: !shape.b_is_readable || shape.n > PANELS_AT_ONCE * shape.width }
    } else {
        Packing::Blocks { a: !shape.a_is_readable || shape.n > 128, b: true }
    }
}

/// The most tiles of rows that are few: packing an element of B takes longer than so many tiles gain by it.
const MAX_FEW_TILES: usize = 10;

/// The most columns for which microkernels read A through tables. More columns make up for packing A.
const MAX_INDEXED_COLUMNS: usize = 256;

/// The size of the largest block when `whole` is cut into the fewest blocks of at most `most`, about equal in
/// size.
pub(crate) fn even_block(whole: usize, most: usize) -> usize {
    if whole == 0 { 1 } else { whole.div_ceil(whole.div_ceil(most.max(1))) }
}

/// Cuts a range into consecutive ranges of length `step`; the last one may be shorter.
pub(crate) fn cut(range: Range<usize>, step: usize) -> impl Iterator<Item = Range<usize>> {
    range.clone().step_by(step).map(move |at| at..at.saturating_add(step).min(range.end))
}

/// The rows of a block as tiles of nearly equal heights, because a tile of one row takes as long as a tile of
/// many.
#[derive(Clone, Copy)]
pub(crate) struct RowTiles {
    first: usize,
    pub(crate) count: usize,
    height: usize,
    /// The number of leading tiles that have `height + unit` rows; the others have `height`.
    taller: usize,
    /// Heights are multiples of this.
    pub(crate) unit: usize,
}

impl RowTiles {
    #[inline(always)]
    pub(crate) fn new(rows: Range<usize>, most: usize) -> RowTiles {
        RowTiles::in_units(rows, most, 1)
    }

    /// Tiles whose heights are multiples of a unit, as is the number of rows.
    #[inline(always)]
    pub(crate) fn in_units(rows: Range<usize>, most: usize, unit: usize) -> RowTiles {
        let count = rows.len().div_ceil(most);
        let height = rows.len().checked_div(count * unit).unwrap_or(0) * unit;
        RowTiles { first: rows.start, count, height, taller: (rows.len() - count * height) / unit, unit }
    }

    /// The first row of a tile. The number of tiles as an argument gives the end of the rows.
    #[inline(always)]
    pub(crate) fn row(&self, tile: usize) -> usize {
        self.first + tile * self.height + tile.min(self.taller) * self.unit
    }

    #[inline(always)]
    pub(crate) fn rows(&self, tile: usize) -> Range<usize> {
        self.row(tile)..self.row(tile + 1)
    }
}
