//! Products of small numbers, which are exact in any order, on the interpreter: what tests of all methods share.

use ptx_asm::interp::{Launch, Machine, Order, Stats, Swizzle, TensorMap, run};
use ptx_asm::{Block, Builder, Kernel, Module, Place, Reg, Space, Target, Ty, check};

use super::{Matrix, Method, Outputs, Product, Surroundings, Tensor};

/// Stores sums as they are, into a matrix of `f32`.
pub(super) struct Plain {
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

    fn coordinates(&mut self) -> [Vec<Reg>; 2] {
        [Vec::new(), Vec::new()]
    }

    fn block(&mut self, write: &mut dyn FnMut(&mut dyn Surroundings)) -> Block {
        let outer = self.b.begin();
        write(self);
        self.b.end(outer)
    }
}

pub(super) fn product(sizes: [u32; 3], depth_contiguous: [bool; 2]) -> Product {
    let matrix = |side: usize| Matrix {
        extent: sizes[side],
        depth_contiguous: depth_contiguous[side],
        stride: if depth_contiguous[side] { sizes[2] } else { sizes[side] },
        batch: Some(Vec::new()),
    };
    Product { sizes, batch: 1, left: matrix(0), right: matrix(1), element: Ty::Bf16 }
}

pub(super) fn kernel(product: &Product, method: &Method, accumulates: bool) -> Kernel {
    let builder = Builder::new("product", 3, method.threads());
    let mut plain = Plain { b: builder, product: product.clone(), accumulates };
    method.declare(&mut plain.b, product);
    method.emit(&mut plain, product);
    plain.b.finish()
}

/// A whole number from -3 to 3 that looks like chance.
fn element(side: u32, depth: u32) -> i32 {
    let mixed = (side.wrapping_mul(0x9E37_79B9) ^ depth.wrapping_mul(0x85EB_CA6B)).rotate_left(13);
    (mixed.wrapping_mul(0xC2B2_AE35) >> 16) as i32 % 4
}

fn factor(element_type: Ty, extent: u32, depth: u32, depth_contiguous: bool) -> Vec<u8> {
    let (outer, inner) = if depth_contiguous { (extent, depth) } else { (depth, extent) };
    let mut bytes = Vec::new();
    for i in 0..outer {
        for j in 0..inner {
            let (side, depth) = if depth_contiguous { (i, j) } else { (j, i) };
            let bits = (element(side, depth) as f32).to_bits().to_le_bytes();
            // The upper half of an `f32` is a `bf16`.
            bytes.extend(if element_type == Ty::F32 { &bits[..] } else { &bits[2..] });
        }
    }
    bytes
}

/// The factors as the interpreter's copy engine knows them.
fn maps(product: &Product, method: &Method, addresses: [u64; 2]) -> Vec<TensorMap> {
    let tensors = method.tensors(product).into_iter().flatten().zip(addresses);
    let map = |(tensor, address): (Tensor, u64)| TensorMap {
        address,
        element: product.element.bytes(),
        sizes: tensor.sizes,
        strides: tensor.strides,
        tile: tensor.tile,
        swizzle: Swizzle::Bytes128,
    };
    tensors.map(map).collect()
}

/// Runs a product and compares it with one in whole numbers.
pub(super) fn multiply(product: &Product, method: &Method, accumulates: bool, order: Order) -> Stats {
    let kernel = kernel(product, method, accumulates);
    let target = if method.tensors(product).is_some() { Target::Sm90a } else { Target::Sm80 };
    let module = Module { target, kernels: vec![kernel] };
    check(&module).unwrap_or_else(|error| panic!("{error}"));
    let [rows, columns, depth] = product.sizes;
    let mut machine = Machine::new();
    let left = machine.put("left", factor(product.element, rows, depth, product.left.depth_contiguous));
    let right = machine.put("right", factor(product.element, columns, depth, product.right.depth_contiguous));
    let before: Vec<u8> = (0..rows * columns).flat_map(|_| 7_f32.to_le_bytes()).collect();
    let sums = machine.put("sums", before);
    let params = [left.address(), right.address(), sums.address()];
    let maps = maps(product, method, [left.address(), right.address()]);
    let launch = Launch::new(method.blocks(product) as u32, &params).with_maps(&maps);
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
