//! The library `matrixmultiply`.

use anyhow::Result;
use rayon::ThreadPool;

use super::{
    Peer, Prepared, Problem, expect_variable, kernel,
    products::{self, MatmulArgs},
    version_of,
};

pub(super) struct MatrixMultiply {
    pool: ThreadPool,
}

impl MatrixMultiply {
    pub(super) fn new(threads: usize) -> Result<MatrixMultiply> {
        expect_variable("MATMUL_NUM_THREADS", threads)?;
        Ok(MatrixMultiply { pool: kernel::pool(threads)? })
    }
}

impl Peer for MatrixMultiply {
    fn name(&self) -> &'static str {
        "matrixmultiply"
    }

    fn version(&self) -> &str {
        version_of("matrixmultiply")
    }

    fn prepare(&mut self, problem: Problem) -> Result<Option<Prepared<'_>>> {
        Ok(products::prepare(product, &self.pool, problem))
    }
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
