//! Cases for libraries of matrix multiplication: one product, or many.

use rayon::{ThreadPool, prelude::*};

use super::{Problem, kernel::Kernel};
use crate::{arrays::Array, case::Operation};

/// A product `c = a b`; strides count elements.
pub(super) struct MatmulArgs<'a> {
    pub(super) sizes: [usize; 3],
    pub(super) a: &'a [f32],
    pub(super) b: &'a [f32],
    /// The strides of rows and columns of `b`; `a` and `c` are in row-major order.
    pub(super) b_strides: [isize; 2],
    pub(super) c: &'a mut [f32],
}

impl MatmulArgs<'_> {
    /// Panics unless the slices contain all elements of the given sizes and strides, so that a library may
    /// access them.
    pub(super) fn expect_within_bounds(&self) {
        let [m, k, n] = self.sizes;
        let last = (k as isize - 1) * self.b_strides[0] + (n as isize - 1) * self.b_strides[1];
        let is_within = self.a.len() >= m * k && self.c.len() >= m * n && self.b.len() as isize > last;
        assert!(
            is_within && self.b_strides.iter().all(|&stride| stride > 0),
            "a product reaches out of its operands"
        );
    }
}

/// The kernel of a problem for a library, whose function `product` computes a product on a number of threads.
pub(super) fn kernel<'a>(
    product: fn(MatmulArgs, usize),
    pool: &'a ThreadPool,
    problem: &Problem,
) -> Option<Kernel<'a>> {
    let threads = pool.current_num_threads();
    let dims = |input: usize, axis: usize| {
        let input = problem.inputs.get(input);
        input.and_then(|input| input.dims.get(axis)).copied().unwrap_or(1)
    };
    let (rows, columns) = (dims(1, 0), dims(1, 1));
    Some(match problem.operation {
        Operation::Matmul => one(product, threads, [dims(0, 0), rows, columns], [columns as isize, 1]),
        Operation::MatmulNt => one(product, threads, [dims(0, 0), columns, rows], [1, columns as isize]),
        Operation::Matvec => one(product, threads, [dims(0, 0), rows, 1], [1, 1]),
        Operation::Bmm => many(product, pool, [dims(0, 1), dims(0, 2), dims(1, 2)]),
        _ => return None,
    })
}

fn one(
    product: fn(MatmulArgs, usize),
    threads: usize,
    sizes: [usize; 3],
    b_strides: [isize; 2],
) -> Kernel<'static> {
    Box::new(move |inputs: &[Array], outputs: &mut [Array]| {
        let [a, b] = [0, 1].map(|i| &inputs[i].values[..]);
        product(MatmulArgs { sizes, a, b, b_strides, c: &mut outputs[0].values }, threads);
    })
}

/// Each product runs on one thread.
fn many(product: fn(MatmulArgs, usize), pool: &ThreadPool, sizes: [usize; 3]) -> Kernel<'_> {
    let [m, k, n] = sizes;
    let one = move |((a, b), c): ((&[f32], &[f32]), &mut [f32])| {
        product(MatmulArgs { sizes, a, b, b_strides: [n as isize, 1], c }, 1);
    };
    Box::new(move |inputs: &[Array], outputs: &mut [Array]| {
        let [a, b] = [0, 1].map(|i| &inputs[i].values[..]);
        let c = &mut outputs[0].values[..];
        if pool.current_num_threads() == 1 {
            a.chunks_exact(m * k).zip(b.chunks_exact(k * n)).zip(c.chunks_exact_mut(m * n)).for_each(one);
        } else {
            let products = a.par_chunks_exact(m * k).zip(b.par_chunks_exact(k * n));
            pool.install(|| products.zip(c.par_chunks_exact_mut(m * n)).for_each(one));
        }
    })
}
