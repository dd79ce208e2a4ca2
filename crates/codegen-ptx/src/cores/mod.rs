//! Products of matrices on tensor cores: `mma` with copies that run ahead.
//!
//! ```text
//! each block has a tile of the outputs, each of its warps a part of that, in registers
//!   copy the first stages of both factors to shared memory, without waiting
//!   for each stage {
//!     wait for its copies; all threads meet; begin the copies of the stage after the last one that is under way
//!     each warp: load fragments, multiply them, 16 products deep at a time
//!   }
//!   each thread: what comes after, for its outputs
//! ```
//!
//! Copies take 16 bytes, which lie in shared memory in an order that lets neither they nor `ldmatrix` meet in a bank ([`operand`]). Rows and
//! columns beyond the last whole tile are copied as zeros and not stored. Sums are in `f32`; the order in which a tensor core adds is its own.
//!
//! The numbers behind the shapes are those of published kernels for these instructions: tiles of 128 by 128 with 64 by 64 for each warp make four
//! multiplications of each fragment that is loaded, and four stages hide the time of memory.

mod fragments; // the tile of a warp
mod operand; // a factor in shared memory
mod tile; // sizes

use ptx_asm::{Binary, Builder, Class, Cmp, Guard, Inst, Mma, Operand as Value, Reg, Special, Ty};

pub(crate) use self::operand::Matrix;
pub(crate) use self::tile::Tile;
use self::{fragments::Fragments, operand::Operand};

/// A product of two matrices, or of a batch of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Product {
    /// Rows, columns and products.
    pub(crate) sizes: [u32; 3],
    /// How many products there are, one after another in the numbers of blocks.
    pub(crate) batch: u32,
    /// The left factor: rows by depth.
    pub(crate) left: Matrix,
    /// The right factor: columns by depth.
    pub(crate) right: Matrix,
    /// The instruction.
    pub(crate) mma: Mma,
}

/// Neighbouring outputs of a thread: of one row, one or two.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outputs {
    /// The row is this many rows behind the one in the register.
    pub(crate) row: (Reg, u32),
    /// The first column is this many columns behind twice the number in the register.
    pub(crate) column: (Reg, u32),
    pub(crate) count: usize,
}

/// What is around the product: who knows the nodes.
pub(crate) trait Surroundings {
    /// Where the kernel is written.
    fn builder(&mut self) -> &mut Builder;

    /// The addresses of the first elements of both factors, for the number of a product of the batch.
    fn bases(&mut self, batch: Reg) -> [Reg; 2];

    /// What the sums of outputs begin with, if not with zeros.
    fn start(&mut self, outputs: Outputs) -> Option<Vec<Reg>>;

    /// What becomes of the sums of outputs.
    fn finish(&mut self, outputs: Outputs, sums: &[Reg]);

    /// What threads do for which a predicate holds.
    fn when(&mut self, pred: Reg, write: &mut dyn FnMut(&mut dyn Surroundings));
}

impl Product {
    /// How many blocks compute it.
    pub(crate) fn blocks(&self, tile: &Tile) -> u64 {
        let [rows, columns] = self.tiles(tile).map(u64::from);
        rows * columns * u64::from(self.batch)
    }

    fn tiles(&self, tile: &Tile) -> [u32; 2] {
        [self.sizes[0].div_ceil(tile.rows), self.sizes[1].div_ceil(tile.columns)]
    }
}

/// Rows of tiles whose blocks run at about the same time, so that they find what they share in the second-level cache.
const GROUP: u32 = 8;

/// Writes the body of the kernel.
pub(crate) fn emit(around: &mut dyn Surroundings, product: &Product, tile: &Tile) {
    let b = around.builder();
    let thread = b.special(Special::Thread);
    let block = b.special(Special::Block);
    let place = place(b, product, tile, block);
    let bases = around.bases(place.batch);
    let b = around.builder();
    let shared = b.shared(tile.stages * tile.stage_bytes(), 128);
    let window = b.address(ptx_asm::Space::Shared, shared);
    let [left, right] = tile.sides();
    let mut left = Operand::new(b, &product.left, left, product.sizes[2], thread, place.row, bases[0]);
    let mut right = Operand::new(b, &product.right, right, product.sizes[2], thread, place.column, bases[1]);
    let fragments = Fragments::new(b, product, tile, thread, window);
    let sums = start(around, product, tile, &fragments, &place);
    let b = around.builder();
    let mut copies = Copies { left: &mut left, right: &mut right, tile, window };
    pipeline(b, product, tile, &mut copies, &fragments, &sums);
    each_output(around, product, tile, &fragments, &place, &mut |around, outputs, at, first| {
        around.finish(outputs, &sums[at][first..first + outputs.count]);
    });
}

/// The tile of a block.
struct Place {
    batch: Reg,
    /// Its first row.
    row: Reg,
    /// Its first column.
    column: Reg,
}

/// Which tile a block has: groups of rows of tiles, and in a group column after column.
fn place(b: &mut Builder, product: &Product, tile: &Tile, block: Reg) -> Place {
    let [rows, columns] = product.tiles(tile);
    let each = rows * columns;
    let batch = b.binary(Binary::Div, Ty::U32, block, each);
    let number = b.binary(Binary::Rem, Ty::U32, block, each);
    let group = b.binary(Binary::Div, Ty::U32, number, GROUP * columns);
    let within = b.binary(Binary::Rem, Ty::U32, number, GROUP * columns);
    let first = b.binary(Binary::Mul, Ty::U32, group, GROUP);
    let left = b.binary(Binary::Sub, Ty::U32, rows, first);
    let height = b.binary(Binary::Min, Ty::U32, left, GROUP);
    let (column, row) =
        (b.binary(Binary::Div, Ty::U32, within, height), b.binary(Binary::Rem, Ty::U32, within, height));
    let row = b.add(Ty::U32, first, row);
    let row = b.binary(Binary::Mul, Ty::U32, row, tile.rows);
    let column = b.binary(Binary::Mul, Ty::U32, column, tile.columns);
    Place { batch, row, column }
}

/// Where sums are held: by fragment, the four outputs of a thread.
type Sums = Vec<[Reg; 4]>;

/// The registers of the sums, with what they begin with.
fn start(
    around: &mut dyn Surroundings,
    product: &Product,
    tile: &Tile,
    fragments: &Fragments,
    place: &Place,
) -> Sums {
    let b = around.builder();
    let mut zeros = || [(); 4].map(|()| b.moved(Class::F32, 0_f32));
    let sums: Sums = (0..fragments.count()).map(|_| zeros()).collect();
    each_output(around, product, tile, fragments, place, &mut |around, outputs, at, first| {
        for (n, value) in around.start(outputs).into_iter().flatten().enumerate() {
            around.builder().set(sums[at][first + n], value);
        }
    });
    sums
}

/// Takes outputs that are done together, the fragment that they are of, and which of its four the first one is.
type Visit<'a> = dyn FnMut(&mut dyn Surroundings, Outputs, usize, usize) + 'a;

/// Visits the outputs of a thread, of which two in a row are neighbours, where they are outputs at all.
fn each_output(
    around: &mut dyn Surroundings,
    product: &Product,
    tile: &Tile,
    fragments: &Fragments,
    place: &Place,
    visit: &mut Visit<'_>,
) {
    let [rows, columns, _] = product.sizes;
    // Two neighbours are both outputs or neither, if the number of columns is even.
    let count = if columns % 2 == 0 { 2 } else { 1 };
    let b = around.builder();
    let row = b.add(Ty::U32, place.row, fragments.output[0]);
    let column = b.add(Ty::U32, place.column, fragments.output[1]);
    let half = b.binary(Binary::ShiftRight, Ty::U32, column, 1_u32);
    for at in 0..fragments.count() {
        for first in (0..4).step_by(count) {
            let b = around.builder();
            let (down, along) = fragments.offset(at, first);
            let below = |b: &mut Builder, start, offset: u32, end: u32| {
                b.compare(Cmp::Lt, Ty::S32, start, end as i32 - offset as i32)
            };
            let inside_rows = (rows % tile.rows != 0).then(|| below(b, row, down, rows));
            let inside_columns = (columns % tile.columns != 0).then(|| below(b, column, along, columns));
            let inside = match (inside_rows, inside_columns) {
                (Some(row), Some(column)) => Some(b.binary(Binary::And, Ty::Pred, row, column)),
                (row, column) => row.or(column),
            };
            let outputs = Outputs { row: (row, down), column: (half, along), count };
            match inside {
                None => visit(around, outputs, at, first),
                Some(inside) => around.when(inside, &mut |around| visit(around, outputs, at, first)),
            }
        }
    }
}

/// What is copied for each stage.
struct Copies<'a> {
    left: &'a mut Operand,
    right: &'a mut Operand,
    tile: &'a Tile,
    window: Reg,
}

impl Copies<'_> {
    /// Begins the copies of the next stage into a slot, whose offset is given, of threads for which the guard holds.
    fn issue(&mut self, b: &mut Builder, slot: Value, when: Option<Guard>) {
        let to = b.add(Ty::U32, self.window, slot);
        self.left.copy(b, to, 0, when);
        self.right.copy(b, to, self.tile.left_bytes(), when);
        b.push(Inst::CopyCommit);
    }
}

/// Copies and multiplies, stage after stage.
fn pipeline(
    b: &mut Builder,
    product: &Product,
    tile: &Tile,
    copies: &mut Copies<'_>,
    fragments: &Fragments,
    sums: &Sums,
) {
    let steps = product.sizes[2].div_ceil(tile.depth);
    let (ahead, bytes) = (tile.stages - 1, tile.stage_bytes());
    let end = tile.stages * bytes;
    for stage in 0..ahead {
        match stage < steps {
            true => copies.issue(b, (stage * bytes).into(), None),
            // Groups are counted, so one without copies stands for what is not there.
            false => b.push(Inst::CopyCommit),
        }
    }
    let (step, read, write) =
        (b.moved(Class::B32, 0_u32), b.moved(Class::B32, 0_u32), b.moved(Class::B32, ahead * bytes));
    b.repeat(|b| {
        b.push(Inst::CopyWait { left: ahead - 1 });
        b.barrier();
        let more = (steps > ahead).then(|| b.compare(Cmp::Lt, Ty::S32, step, (steps - ahead) as i32));
        match more {
            Some(more) => copies.issue(b, write.into(), Some(Guard::on(more))),
            None => b.push(Inst::CopyCommit),
        }
        fragments.multiply(b, read, sums);
        advance(b, read, bytes, end);
        advance(b, write, bytes, end);
        let next = b.add(Ty::U32, step, 1_u32);
        b.set(step, next);
        Guard::on(b.compare(Cmp::Lt, Ty::U32, step, steps))
    });
}

/// The offset of the next slot, of those in a ring.
fn advance(b: &mut Builder, slot: Reg, bytes: u32, end: u32) {
    let next = b.add(Ty::U32, slot, bytes);
    let over = b.compare(Cmp::Eq, Ty::U32, next, end);
    let next = b.select(Ty::B32, over, 0_u32, next);
    b.set(slot, next);
}

#[cfg(test)]
mod tests;
