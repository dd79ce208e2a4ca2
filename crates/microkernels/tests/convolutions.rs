//! Factors by tables and within bounds, against their definition.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use std::sync::Arc;

use common::{Case, check, matmul, numbers, size};
use microkernels::{Bounds, Offsets, Split};
use vector_asm::{Element, Memory};

fn table(count: i64, of: impl Fn(i64) -> i64) -> Arc<[i64]> {
    (0..count).map(of).collect()
}

/// What is convolved: a square image with a square filter.
#[derive(Clone, Copy, Debug)]
struct Shape {
    images: i64,
    channels: i64,
    filters: i64,
    size: i64,
    taps: i64,
    stride: i64,
    dilation: i64,
    padding: i64,
}

/// `out[image, filter, y, x] = Σ weight[filter, channel, dy, dx] · image[image, channel, y·stride + dy·dilation - padding, …]`.
fn convolution(element: Element, shape: Shape) -> Case {
    let Shape { images, channels, filters, size: n, taps, stride, dilation, padding } = shape;
    let bytes = size(element);
    let out = (n + 2 * padding - (taps - 1) * dilation - 1) / stride + 1;
    let (pixels, depth) = (out * out, channels * taps * taps);
    let mut case = matmul(element, &[images as u64], [filters as u64, pixels as u64, depth as u64]);
    let what = &mut case.what;
    let (y, x) = (|p: i64| p / out * stride, |p: i64| p % out * stride);
    let dy = |k: i64| k % (taps * taps) / taps * dilation - padding;
    let dx = |k: i64| k % taps * dilation - padding;
    what.left.terms.clear();
    what.right.terms = vec![(microkernels::batch_index(0), channels * n * n * bytes)];
    what.right.outer = Offsets::Table(table(pixels, |p| (y(p) * n + x(p)) * bytes));
    what.right.depth =
        Offsets::Table(table(depth, |k| (k / (taps * taps) * n * n + dy(k) * n + dx(k)) * bytes));
    if padding > 0 {
        what.right.bounds = vec![
            Bounds { outer: table(pixels, y), depth: table(depth, dy), limit: n },
            Bounds { outer: table(pixels, x), depth: table(depth, dx), limit: n },
        ];
    }
    case.args[1] = numbers(element, 5, (images * channels * n * n) as usize);
    case
}

const SAME: Shape =
    Shape { images: 2, channels: 3, filters: 7, size: 9, taps: 3, stride: 1, dilation: 1, padding: 1 };

#[test]
fn shapes_of_convolutions() {
    for element in [Element::F32, Element::F64] {
        check(&convolution(element, SAME));
        check(&convolution(element, Shape { padding: 0, ..SAME }));
        check(&convolution(element, Shape { size: 28, channels: 9, images: 1, ..SAME }));
        check(&convolution(element, Shape { taps: 1, padding: 0, ..SAME }));
        check(&convolution(element, Shape { taps: 5, padding: 4, size: 4, ..SAME }));
        for (stride, dilation) in [(2, 1), (1, 2), (3, 2)] {
            check(&convolution(element, Shape { stride, dilation, size: 20, ..SAME }));
            check(&convolution(
                element,
                Shape { stride, dilation, size: 20, padding: 0, filters: 40, ..SAME },
            ));
        }
    }
}

#[test]
fn parts_of_convolutions() {
    for split in [Split::Batch, Split::Rows, Split::Columns] {
        let mut case = convolution(Element::F32, Shape { images: 5, filters: 20, ..SAME });
        case.what.split = split;
        check(&case);
    }
}

/// The gradient of the weights: pixels are the depth, taps the columns.
#[test]
fn tables_on_both_axes_of_either_factor() {
    for element in [Element::F32, Element::F64] {
        let forward = convolution(element, Shape { images: 1, channels: 4, size: 11, ..SAME });
        let bytes = size(element);
        let mut case = matmul(element, &[], [7, 36, 121]);
        case.args[1] = forward.args[1].clone();
        let right = &mut case.what.right;
        right.outer = forward.what.right.depth.clone();
        right.depth = forward.what.right.outer.clone();
        right.bounds = (forward.what.right.bounds.iter())
            .map(|b| Bounds { outer: b.depth.clone(), depth: b.outer.clone(), limit: b.limit })
            .collect();
        case.what.left.depth = Offsets::Table(table(121, |k| k * bytes));
        check(&case);
        // The product transposed.
        let mut other = matmul(element, &[], [36, 7, 121]);
        other.args[0] = case.args[1].clone();
        other.args[1] = case.args[0].clone();
        other.what.left = microkernels::Factor { base: 0, ..case.what.right.clone() };
        other.what.right = microkernels::Factor { base: 1, ..case.what.left.clone() };
        check(&other);
    }
}

#[test]
fn scattered_rows() {
    let mut random = fastrand::Rng::with_seed(3);
    let mut case = matmul(Element::F32, &[], [40, 40, 40]);
    let mut offsets = || Offsets::Table((0..40).map(|_| random.i64(0..20) * 4).collect());
    for factor in [&mut case.what.left, &mut case.what.right] {
        factor.outer = offsets();
        factor.depth = offsets();
    }
    check(&case);
}

#[test]
fn narrow_factors() {
    for memory in [Memory::F16, Memory::BF16] {
        for (left, right) in [(true, false), (false, true), (true, true)] {
            for shape in [[5, 17, 9], [13, 40, 33], [70, 35, 140]] {
                for transposed in [false, true] {
                    let mut case = matmul(Element::F32, &[], shape);
                    for (i, narrow) in [left, right].into_iter().enumerate() {
                        let factor = [&mut case.what.left, &mut case.what.right].into_iter().nth(i).unwrap();
                        if narrow {
                            narrowed(factor, memory, transposed, shape);
                            case.args[i] = narrow_numbers(memory, &case.args[i]);
                        }
                    }
                    check(&case);
                }
            }
        }
    }
    let mut case = convolution(Element::F32, SAME);
    case.args[1] = narrow_numbers(Memory::F16, &case.args[1]);
    let right = &mut case.what.right;
    right.memory = Memory::F16;
    right.terms[0].1 /= 2;
    for offsets in [&mut right.outer, &mut right.depth] {
        if let Offsets::Table(table) = offsets {
            *table = table.iter().map(|bytes| bytes / 2).collect();
        }
    }
    check(&case);
}

fn narrowed(factor: &mut microkernels::Factor, memory: Memory, transposed: bool, [m, n, k]: [u64; 3]) {
    factor.memory = memory;
    let outer = if factor.base == 0 { m } else { n } as i64;
    let (a, b) = if transposed { (2, outer * 2) } else { (k as i64 * 2, 2) };
    factor.outer = Offsets::Strided(a);
    factor.depth = Offsets::Strided(b);
}

fn narrow_numbers(memory: Memory, bytes: &[u8]) -> Vec<u8> {
    let numbers = bytes.chunks(4).map(|b| f32::from_ne_bytes(b.try_into().unwrap()));
    match memory {
        Memory::F16 => numbers.flat_map(|x| half::f16::from_f32(x).to_ne_bytes()).collect(),
        _ => numbers.flat_map(|x| half::bf16::from_f32(x).to_ne_bytes()).collect(),
    }
}
