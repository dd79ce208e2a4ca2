//! The library `matrixmultiply`.

use rayon::ThreadPool;

use super::{
    Problem,
    kernel::Kernel,
    products::{self, MatmulArgs},
};

pub(super) fn kernel<'a>(problem: &Problem, pool: &'a ThreadPool) -> Option<Kernel<'a>> {
    products::kernel(product, pool, problem)
}

/// The library determines the number of threads itself.
fn product(product: MatmulArgs, _threads: usize) {
    product.expect_within_bounds();
    let MatmulArgs { sizes: [m, k, n], a, b, b_strides: [row, column], c } = product;
    let (a_row, c_row) = (k as isize, n as isize);
    let (a, b, c) = (a.as_ptr(), b.as_ptr(), c.as_mut_ptr());
    // SAFETY: sizes and strides lie within the slices, as was just checked, and `c` is borrowed mutably, so
    // it does not overlap the others.
    unsafe { matrixmultiply::sgemm(m, k, n, 1.0, a, a_row, 1, b, row, column, 0.0, c, c_row, 1) }
}
