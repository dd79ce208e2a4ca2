//! The library `gemm`.

use anyhow::Result;
use gemm::Parallelism;
use rayon::ThreadPool;

use super::{
    Peer, Prepared, Problem, kernel,
    products::{self, MatmulArgs},
    version_of,
};

pub(super) struct GemmPeer {
    pool: ThreadPool,
}

impl GemmPeer {
    pub(super) fn new(threads: usize) -> Result<GemmPeer> {
        Ok(GemmPeer { pool: kernel::pool(threads)? })
    }
}

impl Peer for GemmPeer {
    fn name(&self) -> &'static str {
        "gemm"
    }

    fn version(&self) -> &str {
        version_of("gemm")
    }

    fn prepare(&mut self, problem: Problem) -> Result<Option<Prepared<'_>>> {
        Ok(products::prepare(product, &self.pool, problem))
    }
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
