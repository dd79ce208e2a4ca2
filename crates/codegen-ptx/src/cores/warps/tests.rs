//! Products of small numbers, which are exact in any order, on the interpreter.

use codegen_testkit::{assembler::CudaTools, gpu};
use ptx_asm::interp::{Launch, Machine, Order, Stats, run};
use ptx_asm::{Block, Builder, Kernel, Mma, Module, Place, Reg, Space, Target, Ty, check, print};

use super::{Tile, emit};
use crate::cores::{Matrix, Outputs, Product, Surroundings};

/// Stores sums as they are, into a matrix of `f32`.
struct Plain {
    b: Builder,
    product: Product,
    /// Whether sums begin with what is there.
    accumulates: bool,
}

impl Plain {
    fn address(&mut self, outputs: Outputs) -> Place {
        let b = &mut self.b;
        let base = b.param(2);
        let row = b.add(Ty::U32, outputs.row.0, outputs.row.1);
        let column = b.mul_add(Ty::U32, outputs.column.0, 2_u32, outputs.column.1);
        let at = b.mul_add(Ty::U32, row, self.product.sizes[1], column);
        Place::at(b.mul_add_wide(Ty::U32, at, 4_u32, base))
    }
}

impl Surroundings for Plain {
    fn builder(&mut self) -> &mut Builder {
        &mut self.b
    }

    fn batch(&mut self, _number: Reg) {}

    fn bases(&mut self) -> [Reg; 2] {
        [self.b.param(0), self.b.param(1)]
    }

    fn start(&mut self, outputs: Outputs) -> Option<Vec<Reg>> {
        if !self.accumulates {
            return None;
        }
        let at = self.address(outputs);
        Some(self.b.loads(Space::Global, Ty::F32, false, at, outputs.count).to_vec())
    }

    fn finish(&mut self, outputs: Outputs, sums: &[Reg]) {
        let at = self.address(outputs);
        self.b.stores(Space::Global, Ty::F32, at, sums);
    }

    fn block(&mut self, write: &mut dyn FnMut(&mut dyn Surroundings)) -> Block {
        let outer = self.b.begin();
        write(self);
        self.b.end(outer)
    }
}

fn product(sizes: [u32; 3], depth_contiguous: [bool; 2]) -> Product {
    let matrix = |side: usize| Matrix {
        extent: sizes[side],
        depth_contiguous: depth_contiguous[side],
        stride: if depth_contiguous[side] { sizes[2] } else { sizes[side] },
    };
    Product { sizes, batch: 1, left: matrix(0), right: matrix(1), mma: Mma::Bf16K16 }
}

fn kernel(product: &Product, tile: &Tile, accumulates: bool) -> Kernel {
    let mut plain =
        Plain { b: Builder::new("product", 3, tile.threads()), product: product.clone(), accumulates };
    emit(&mut plain, product, tile);
    plain.b.finish()
}

/// A whole number from -3 to 3 that looks like chance.
fn element(side: u32, depth: u32) -> i32 {
    let mixed = (side.wrapping_mul(0x9E37_79B9) ^ depth.wrapping_mul(0x85EB_CA6B)).rotate_left(13);
    (mixed.wrapping_mul(0xC2B2_AE35) >> 16) as i32 % 4
}

fn factor(extent: u32, depth: u32, depth_contiguous: bool) -> Vec<u8> {
    let (outer, inner) = if depth_contiguous { (extent, depth) } else { (depth, extent) };
    let mut bytes = Vec::new();
    for i in 0..outer {
        for j in 0..inner {
            let (side, depth) = if depth_contiguous { (i, j) } else { (j, i) };
            let bits = (element(side, depth) as f32).to_bits() >> 16;
            bytes.extend((bits as u16).to_le_bytes());
        }
    }
    bytes
}

/// Runs a product and compares it with one in whole numbers.
fn multiply(product: Product, tile: &Tile, accumulates: bool, order: Order) -> Stats {
    let kernel = kernel(&product, tile, accumulates);
    let module = Module { target: Target::Sm80, kernels: vec![kernel] };
    check(&module).unwrap_or_else(|error| panic!("{error}"));
    let [rows, columns, depth] = product.sizes;
    let mut machine = Machine::new();
    let left = machine.put("left", factor(rows, depth, product.left.depth_contiguous));
    let right = machine.put("right", factor(columns, depth, product.right.depth_contiguous));
    let before: Vec<u8> = (0..rows * columns).flat_map(|_| 7_f32.to_le_bytes()).collect();
    let sums = machine.put("sums", before);
    let params = [left.address(), right.address(), sums.address()];
    let launch = Launch::new(tile.blocks(&product) as u32, &params);
    let stats =
        run(&module.kernels[0], &launch, &mut machine, order).unwrap_or_else(|fault| panic!("{fault}"));
    let found = machine.bytes(sums).chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]));
    for (at, found) in found.enumerate() {
        let (row, column) = (at as u32 / columns, at as u32 % columns);
        let sum: i32 = (0..depth).map(|k| element(row, k) * element(column, k)).sum();
        let expected = sum + if accumulates { 7 } else { 0 };
        assert_eq!(found, expected as f32, "row {row}, column {column} of {product:?}");
    }
    stats
}

const SMALL: Tile = Tile { rows: 64, columns: 64, depth: 32, warps: [2, 2], stages: 4 };
const LARGE: Tile = Tile { rows: 128, columns: 128, depth: 32, warps: [2, 2], stages: 4 };
const MIXED: Tile = Tile { rows: 64, columns: 128, depth: 32, warps: [2, 2], stages: 3 };

#[test]
fn factors_may_lie_either_way() {
    for left in [true, false] {
        for right in [true, false] {
            multiply(product([64, 64, 96], [left, right]), &SMALL, false, Order::InTurn);
        }
    }
}

#[test]
fn tiles_of_every_shape() {
    for tile in [LARGE, MIXED] {
        for contiguous in [[true, false], [false, true]] {
            multiply(product([128, 128, 64], contiguous), &tile, false, Order::Random { seed: 1 });
        }
    }
}

#[test]
fn edges_are_neither_read_nor_stored() {
    for (sizes, contiguous) in [
        ([72, 40, 40], [true, false]),
        ([17, 19, 16], [true, true]),
        ([72, 72, 24], [false, false]),
        ([100, 65, 136], [true, true]),
    ] {
        multiply(product(sizes, contiguous), &SMALL, false, Order::Random { seed: 2 });
        multiply(product(sizes, contiguous), &MIXED, true, Order::InTurn);
    }
}

#[test]
fn few_stages_are_enough_and_many_are_too() {
    for depth in [16, 32, 64, 96, 128, 160, 256] {
        multiply(product([64, 64, depth], [true, false]), &SMALL, true, Order::Random { seed: 3 });
    }
}

#[test]
fn any_order_of_warps_gives_the_product() {
    for seed in 0..8 {
        multiply(product([64, 128, 160], [true, false]), &SMALL, false, Order::Random { seed });
    }
}

#[test]
fn shared_memory_has_no_conflicts_and_global_memory_no_waste() {
    for contiguous in [[true, false], [false, true]] {
        let stats = multiply(product([128, 128, 128], contiguous), &LARGE, false, Order::InTurn);
        assert_eq!(stats.conflicts(), 0, "{contiguous:?}");
        // One tile has all of both factors, each element of two bytes once.
        assert_eq!(stats.bytes("copyasync"), 2 * 2 * 128 * 128);
        assert_eq!(stats.sectors("copyasync") * 32, stats.bytes("copyasync"));
        assert_eq!(stats.sectors("store.global") * 32, 4 * 128 * 128);
    }
}

#[test]
fn a_fragment_that_is_loaded_is_multiplied_often() {
    let Some(tools) = gpu::or_skip("a_fragment_that_is_loaded_is_multiplied_often", CudaTools::find()) else {
        return;
    };
    for target in [Target::Sm80, Target::Sm90a] {
        for (tile, contiguous) in [(LARGE, [true, false]), (LARGE, [false, true]), (MIXED, [true, true])] {
            let product = product([4096, 4096, 4096], contiguous);
            let module = Module { target, kernels: vec![kernel(&product, &tile, true)] };
            let made = tools.assemble(&print(&module), target.name()).unwrap_or_else(|said| panic!("{said}"));
            let made = &made["product"];
            let what = format!("{} {tile:?} {contiguous:?}: {made:?}", target.name());
            assert_eq!((made.spilled_bytes, made.stack_bytes), (0, 0), "{what}");
            let registers = if tile == LARGE { 232 } else { 168 };
            assert!(made.registers <= registers, "{what}");
            let [rows, columns] = tile.of_warp();
            assert_eq!(made.count("HMMA"), (rows / 16 * columns / 8 * tile.depth / 16) as usize, "{what}");
            let fragments = (rows / 16 + columns / 16) * tile.depth / 16;
            assert_eq!(made.count("LDSM"), fragments as usize, "{what}");
            assert!(made.count("HMMA") >= if tile == LARGE { 4 } else { 2 } * made.count("LDSM"), "{what}");
        }
    }
}

#[test]
fn blocks_that_share_a_row_of_tiles_run_together() {
    // Each tile is somebody's: the product is whole. Groups at the end are smaller.
    let sizes = [64 * 10, 64 * 3, 32];
    multiply(product(sizes, [true, false]), &SMALL, false, Order::InTurn);
}

#[test]
fn small_products_have_small_tiles() {
    assert_eq!(Tile::of(&product([64, 64, 64], [true, true])), SMALL);
    assert_eq!(Tile::of(&product([4096, 4096, 64], [true, true])), LARGE);
}
