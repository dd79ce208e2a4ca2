//! Operands with tables of offsets and bounds, against the reference.

#![allow(clippy::unwrap_used, reason = "tests")]

use crate::common;

use std::sync::Arc;

use common::{Case, check, matmul, numbers, size};
use microkernels::{AxisOffsets, OperandBound, ParallelAxis};
use vector_asm::{LaneType, StoredType};

fn table(count: i64, of: impl Fn(i64) -> i64) -> Arc<[i64]> {
    (0..count).map(of).collect()
}

/// A convolution of square images with square filters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) images: i64,
    pub(crate) channels: i64,
    pub(crate) filters: i64,
    pub(crate) size: i64,
    pub(crate) taps: i64,
    pub(crate) stride: i64,
    pub(crate) dilation: i64,
    pub(crate) padding: i64,
}

/// `out[image, filter, y, x] = Σ weight[filter, channel, dy, dx] · image[image, channel, y·stride +
/// dy·dilation - padding, …]`.
pub(crate) fn convolution(element: LaneType, shape: Shape) -> Case {
    let Shape { images, channels, filters, size: n, taps, stride, dilation, padding } = shape;
    let bytes = size(element);
    let out = (n + 2 * padding - (taps - 1) * dilation - 1) / stride + 1;
    let (pixels, k) = (out * out, channels * taps * taps);
    let mut case = matmul(element, &[images as u64], [filters as u64, pixels as u64, k as u64]);
    let problem = &mut case.problem;
    let (y, x) = (|p: i64| p / out * stride, |p: i64| p % out * stride);
    let dy = |k: i64| k % (taps * taps) / taps * dilation - padding;
    let dx = |k: i64| k % taps * dilation - padding;
    problem.a.terms.clear();
    problem.b.terms = vec![(microkernels::batch_index(0), channels * n * n * bytes)];
    problem.b.outer = AxisOffsets::Table(table(pixels, |p| (y(p) * n + x(p)) * bytes));
    problem.b.k = AxisOffsets::Table(table(k, |k| (k / (taps * taps) * n * n + dy(k) * n + dx(k)) * bytes));
    if padding > 0 {
        problem.b.bounds = vec![
            OperandBound { outer: table(pixels, y), k: table(k, dy), limit: n },
            OperandBound { outer: table(pixels, x), k: table(k, dx), limit: n },
        ];
    }
    case.args[1] = numbers(element, 5, (images * channels * n * n) as usize);
    case
}

pub(crate) const SAME: Shape =
    Shape { images: 2, channels: 3, filters: 7, size: 9, taps: 3, stride: 1, dilation: 1, padding: 1 };

#[test]
fn shapes_of_convolutions() {
    for element in [LaneType::F32, LaneType::F64] {
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
    for split in [ParallelAxis::Batch, ParallelAxis::Rows, ParallelAxis::Columns] {
        let mut case = convolution(LaneType::F32, Shape { images: 5, filters: 20, ..SAME });
        case.problem.parallel = split;
        check(&case);
    }
}

/// Images with margins and filters for a few tiles of rows, of which the first one of a column packs the
/// column; of all heights that such a tile may have, and with an epilogue.
#[test]
fn tiles_of_many_filters_pack_their_columns() {
    for filters in (15..29).chain([70, 150]) {
        let mut case = convolution(LaneType::F32, Shape { filters, ..SAME });
        check(&case);
        common::writer::bias_and_relu(&mut case);
        check(&case);
    }
}

/// The gradient of the filters of a convolution: K stands for pixels, and N for channels and taps.
fn filter_gradient(element: LaneType, channels: i64, n: i64, dilation: i64) -> Case {
    let shape = Shape { images: 1, channels, size: n, dilation, padding: dilation, ..SAME };
    let forward = convolution(element, shape);
    let bytes = size(element);
    let mut case = matmul(element, &[], [7, channels as u64 * 9, (n * n) as u64]);
    case.args[1] = forward.args[1].clone();
    let b = &mut case.problem.b;
    b.outer = forward.problem.b.k.clone();
    b.k = forward.problem.b.outer.clone();
    b.bounds = (forward.problem.b.bounds.iter())
        .map(|b| OperandBound { outer: b.k.clone(), k: b.outer.clone(), limit: b.limit })
        .collect();
    case.problem.a.k = AxisOffsets::Table(table(n * n, |k| k * bytes));
    case
}

#[test]
fn tables_on_both_axes_of_either_operand() {
    for element in [LaneType::F32, LaneType::F64] {
        let case = filter_gradient(element, 4, 11, 1);
        check(&case);
        // The same problem transposed: A and B change places.
        let mut other = matmul(element, &[], [36, 7, 121]);
        other.args[0] = case.args[1].clone();
        other.args[1] = case.args[0].clone();
        other.problem.a = microkernels::GemmOperand { base: 0, ..case.problem.b.clone() };
        other.problem.b = microkernels::GemmOperand { base: 1, ..case.problem.a.clone() };
        check(&other);
    }
}

/// Contiguous runs along K that are shorter than a vector, as long as vectors, and longer; margins as wide as
/// a vector; and more bounds than images have.
#[test]
fn bounds_on_runs_along_k() {
    for element in [LaneType::F32, LaneType::F64] {
        for n in [3, 4, 7, 8, 13, 16, 24] {
            check(&filter_gradient(element, 4, n, 1));
        }
        check(&filter_gradient(element, 2, 24, 9));
        let mut case = filter_gradient(element, 4, 16, 1);
        let bounds = &mut case.problem.b.bounds;
        bounds.extend(bounds.clone());
        check(&case);
    }
    let mut case = filter_gradient(LaneType::F32, 4, 13, 1);
    case.args[1] = narrow_numbers(StoredType::BF16, &case.args[1]);
    halve_offsets(&mut case.problem.b, StoredType::BF16);
    check(&case);
}

/// Gradients of filters from images with padding and the channels last, which are computed transposed: A is
/// contiguous along the channels of the output, and B has tables and no bounds.
#[test]
fn gradients_of_filters_with_channels_last() {
    for element in [LaneType::F32, LaneType::F64] {
        for ([filters, channels, n], split) in [
            ([16, 3, 17], ParallelAxis::Rows),
            ([7, 2, 20], ParallelAxis::Columns),
            ([40, 9, 23], ParallelAxis::None),
        ] {
            let (bytes, padded) = (size(element), n + 2);
            let mut case = matmul(element, &[], [filters, channels * 9, n * n].map(|extent| extent as u64));
            let offset = |y: i64, x: i64, channel: i64| ((y * padded + x) * channels + channel) * bytes;
            let problem = &mut case.problem;
            problem.a.outer = AxisOffsets::Strided(bytes);
            problem.a.k = AxisOffsets::Strided(filters * bytes);
            problem.b.outer = AxisOffsets::Table(table(channels * 9, |c| offset(c % 9 / 3, c % 3, c / 9)));
            problem.b.k = AxisOffsets::Table(table(n * n, |k| offset(k / n, k % n, 0)));
            problem.parallel = split;
            case.args[1] = numbers(element, 5, (padded * padded * channels) as usize);
            check(&case);
            common::writer::bias_and_relu(&mut case);
            check(&case);
        }
    }
}

/// Products with few filters and padded images with the channels first, which are computed transposed:
/// forward, where the pixels of a row are neighbors, and for the gradient of the filters, where the taps of a
/// row are.
#[test]
fn rows_in_groups_of_neighbors() {
    for element in [LaneType::F32, LaneType::F64] {
        for ([filters, channels, n], split) in [
            ([16, 8, 16], ParallelAxis::None),
            ([7, 9, 20], ParallelAxis::Columns),
            ([5, 11, 17], ParallelAxis::Columns),
            ([9, 8, 28], ParallelAxis::Rows),
        ] {
            let (bytes, padded) = (size(element), n + 2);
            let image = padded * padded * channels;
            let taps: Arc<[i64]> =
                table(channels * 9, |at| ((at / 9 * padded + at % 9 / 3) * padded + at % 3) * bytes);
            let pixels: Arc<[i64]> = table(n * n, |at| (at / n * padded + at % n) * bytes);
            for (outer, k) in [(&taps, &pixels), (&pixels, &taps)] {
                let extents = [filters as u64, outer.len() as u64, k.len() as u64];
                let mut case = matmul(element, &[2], extents);
                case.problem.a.terms.clear();
                case.problem.b.terms[0].1 = image * bytes;
                case.problem.b.outer = AxisOffsets::Table(outer.clone());
                case.problem.b.k = AxisOffsets::Table(k.clone());
                case.problem.parallel = split;
                case.args[1] = numbers(element, 5, 2 * image as usize);
                check(&case);
            }
        }
    }
}

#[test]
fn scattered_rows() {
    let mut random = fastrand::Rng::with_seed(3);
    let mut case = matmul(LaneType::F32, &[], [40, 40, 40]);
    let mut offsets = || AxisOffsets::Table((0..40).map(|_| random.i64(0..20) * 4).collect());
    for operand in [&mut case.problem.a, &mut case.problem.b] {
        operand.outer = offsets();
        operand.k = offsets();
    }
    check(&case);
}

#[test]
fn narrow_operands() {
    for memory in [StoredType::F16, StoredType::BF16] {
        for (a, b) in [(true, false), (false, true), (true, true)] {
            for shape in [[5, 17, 9], [13, 40, 33], [70, 35, 140]] {
                for transposed in [false, true] {
                    let mut case = matmul(LaneType::F32, &[], shape);
                    for (i, narrow) in [a, b].into_iter().enumerate() {
                        let operand = [&mut case.problem.a, &mut case.problem.b].into_iter().nth(i).unwrap();
                        if narrow {
                            narrowed(operand, memory, transposed, shape);
                            case.args[i] = narrow_numbers(memory, &case.args[i]);
                        }
                    }
                    check(&case);
                }
            }
        }
    }
    let mut case = convolution(LaneType::F32, SAME);
    case.args[1] = narrow_numbers(StoredType::F16, &case.args[1]);
    halve_offsets(&mut case.problem.b, StoredType::F16);
    case.problem.b.terms[0].1 /= 2;
    check(&case);
}

/// Makes an operand of 32-bit elements one of 16-bit elements.
fn halve_offsets(operand: &mut microkernels::GemmOperand, memory: StoredType) {
    operand.memory = memory;
    for offsets in [&mut operand.outer, &mut operand.k] {
        if let AxisOffsets::Table(table) = offsets {
            *table = table.iter().map(|bytes| bytes / 2).collect();
        }
    }
}

fn narrowed(
    operand: &mut microkernels::GemmOperand,
    memory: StoredType,
    transposed: bool,
    [m, n, k]: [u64; 3],
) {
    operand.memory = memory;
    let outer = if operand.base == 0 { m } else { n } as i64;
    let (a, b) = if transposed { (2, outer * 2) } else { (k as i64 * 2, 2) };
    operand.outer = AxisOffsets::Strided(a);
    operand.k = AxisOffsets::Strided(b);
}

fn narrow_numbers(memory: StoredType, bytes: &[u8]) -> Vec<u8> {
    let numbers = bytes.chunks(4).map(|b| f32::from_ne_bytes(b.try_into().unwrap()));
    match memory {
        StoredType::F16 => numbers.flat_map(|x| half::f16::from_f32(x).to_ne_bytes()).collect(),
        _ => numbers.flat_map(|x| half::bf16::from_f32(x).to_ne_bytes()).collect(),
    }
}
