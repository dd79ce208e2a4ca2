//! The library `gemm`.

use gemm::Parallelism;
use rayon::ThreadPool;

use super::{
    Problem,
    kernel::Kernel,
    products::{self, MatmulArgs},
};

pub(super) fn kernel<'a>(problem: &Problem, pool: &'a ThreadPool) -> Option<Kernel<'a>> {
    products::kernel(product, pool, problem)
}

fn product(product: MatmulArgs, threads: usize) {
    product.expect_within_bounds();
    let MatmulArgs { sizes: [m, k, n], a, b, b_strides: [row, column], c } = product;
    let parallelism = if threads == 1 { Parallelism::None } else { Parallelism::Rayon(threads) };
    // SAFETY: sizes and strides lie within the slices, as was just checked, and `c` is borrowed mutably, so
    // it does not overlap the others.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            c.as_mut_ptr(),
            1,
            n as isize,
            false,
            a.as_ptr(),
            1,
            k as isize,
            b.as_ptr(),
            column,
            row,
            0.0,
            1.0,
            false,
            false,
            false,
            parallelism,
        );
    }
}
