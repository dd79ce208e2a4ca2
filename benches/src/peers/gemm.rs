//! The library `gemm`.

use anyhow::Result;
use gemm::Parallelism;
use rayon::ThreadPool;

use super::{
    Peer, Prepared, Problem, kernel,
    products::{self, Product},
    version,
};

pub(super) struct Gemm {
    pool: ThreadPool,
}

impl Gemm {
    pub(super) fn new(threads: usize) -> Result<Gemm> {
        Ok(Gemm { pool: kernel::pool(threads)? })
    }
}

impl Peer for Gemm {
    fn name(&self) -> &'static str {
        "gemm"
    }

    fn version(&self) -> &str {
        version::of("gemm")
    }

    fn prepare(&mut self, problem: Problem) -> Result<Option<Prepared<'_>>> {
        Ok(products::prepare(product, &self.pool, problem))
    }
}

fn product(product: Product, threads: usize) {
    product.expect_within_bounds();
    let Product { sizes: [m, k, n], a, b, b_strides: [row, column], c } = product;
    let parallelism = if threads == 1 { Parallelism::None } else { Parallelism::Rayon(threads) };
    // SAFETY: sizes and strides lie within the slices, as was just checked, and `c` is borrowed mutably, so
    // apart from the others.
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
