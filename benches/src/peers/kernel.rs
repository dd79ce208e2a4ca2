//! Peers in this process: a function over arrays, repeated.

use std::time::Instant;

use anyhow::Result;
use rayon::{ThreadPool, ThreadPoolBuilder, prelude::*};

use super::{Contestant, Peer, Prepared, Problem, version_of};
use crate::arrays::Array;

/// Computes the outputs from the inputs.
pub(super) type Kernel<'a> = Box<dyn FnMut(&[Array], &mut [Array]) + 'a>;

struct KernelCalls<'a> {
    kernel: Kernel<'a>,
    problem: Problem,
}

/// A kernel that was called once.
pub(super) fn prepared<'a>(mut kernel: Kernel<'a>, mut problem: Problem) -> Prepared<'a> {
    kernel(&problem.inputs, &mut problem.outputs);
    let outputs = problem.outputs.iter().map(|output| output.values.to_vec()).collect();
    Prepared { step: Box::new(KernelCalls { kernel, problem }), outputs, cold_ms: None }
}

impl Contestant for KernelCalls<'_> {
    fn run(&mut self, count: usize) -> Result<f64> {
        let Problem { inputs, outputs, .. } = &mut self.problem;
        (self.kernel)(inputs, outputs);
        let start = Instant::now();
        for _ in 0..count {
            (self.kernel)(std::hint::black_box(inputs), outputs);
        }
        Ok(start.elapsed().as_secs_f64())
    }
}

/// Selects the kernel of a problem, which may compute on the threads of a pool; `None` if there is none.
pub(super) type Select = for<'a> fn(&Problem, &'a ThreadPool) -> Option<Kernel<'a>>;

/// A peer all of whose operations are kernels.
pub(super) struct KernelPeer {
    name: &'static str,
    pool: ThreadPool,
    select: Select,
}

impl KernelPeer {
    /// The peer of a library, or of kernels of this program, with a thread pool of its own.
    pub(super) fn new(name: &'static str, threads: usize, select: Select) -> Result<KernelPeer> {
        let pool = ThreadPoolBuilder::new().num_threads(threads).build()?;
        Ok(KernelPeer { name, pool, select })
    }
}

impl Peer for KernelPeer {
    fn name(&self) -> &'static str {
        self.name
    }

    fn version(&self) -> &str {
        version_of(self.name)
    }

    fn prepare(&mut self, problem: Problem) -> Result<Option<Prepared<'_>>> {
        Ok((self.select)(&problem, &self.pool).map(|kernel| prepared(kernel, problem)))
    }
}

/// Calls a function on equal parts of two slices, whose lengths are multiples of their units, on all threads
/// of a pool.
pub(super) fn in_parts(
    pool: &ThreadPool,
    (x, x_unit): (&[f32], usize),
    (y, y_unit): (&mut [f32], usize),
    work: impl Fn(usize, &[f32], &mut [f32]) + Sync,
) {
    let threads = pool.current_num_threads();
    // Less work than this would be done by one thread before a second one is awake.
    const LEAST: usize = 1 << 16;
    if threads == 1 || x.len().max(y.len()) < LEAST {
        return work(0, x, y);
    }
    let units = (y.len() / y_unit).div_ceil(threads);
    let parts = x.par_chunks(units * x_unit).zip(y.par_chunks_mut(units * y_unit));
    pool.install(|| parts.enumerate().for_each(|(part, (x, y))| work(part * units, x, y)));
}
