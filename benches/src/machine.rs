//! The measured machine: its processor, and the limits of its cores.
//!
//! The bandwidths are those of [`Backend::roofline`]. The peak of arithmetic is that of independent fused
//! multiply-adds of the widest vectors that the machine has.

mod fma;

pub(crate) use fma::Peak;
use fma::Peaks;

use std::{
    fmt,
    sync::Barrier,
    thread,
    time::{Duration, Instant},
};

use arrayjit::{Backend, profile::Roofline};
use serde::{Deserialize, Serialize};

use crate::reference::last_cache;

/// This machine. Written as JSON: fields may be added, none renamed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Machine {
    /// The processor's name from the operating system.
    pub(crate) cpu: String,
    /// The number of cores that this process may use.
    pub(crate) cores: usize,
    /// Bytes of the largest cache.
    pub(crate) last_cache: usize,
    /// Peaks of other types than `f32`, for the number of threads that the run measures.
    pub(crate) peaks: Peaks,
}

impl Machine {
    /// The machine of this process, with the peaks of a number of threads; 0 means one per core.
    pub(crate) fn measure(threads: usize, quick: bool) -> Machine {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let peaks = Peaks::measure(if threads == 0 { cores } else { threads }, rounds(quick));
        Machine { cpu: cpu(), cores, last_cache: last_cache(), peaks }
    }

    /// Measures the limits of a number of threads together; 0 means one per core. The backend has as many.
    /// `None` if no array fits in its memory.
    pub(crate) fn roofline(&self, backend: &Backend, threads: usize, quick: bool) -> Option<Roofline> {
        let threads = if threads == 0 { self.cores } else { threads };
        let flops = 1e9 * fma::gflops(threads, rounds(quick));
        Some(Roofline::new(flops, "fused multiply-adds of f32", backend.roofline()?.bandwidths))
    }

    /// The limits of products of `u8` and `i8`; `None` if there is no instruction for them.
    pub(crate) fn roofline_of_bytes(&self, roofline: &Roofline) -> Option<Roofline> {
        let peak = self.peaks.u8_i8;
        let of_bytes = || Roofline::new(1e9 * peak, "products of u8 by i8", roofline.bandwidths.clone());
        (peak > 0.0).then(of_bytes)
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {} core(s), last cache {} MiB", self.cpu, self.cores, self.last_cache >> 20)?;
        let Peaks { f64, bf16, u8_i8 } = self.peaks;
        let peaks = [("f64", f64), ("bf16", bf16), ("u8 by i8", u8_i8)];
        let mut peaks = peaks.iter().filter(|(_, peak)| *peak > 0.0);
        peaks.try_for_each(|(name, peak)| write!(f, ", {peak:.0} Gop/s of {name}"))
    }
}

/// How often a peak is measured.
fn rounds(quick: bool) -> usize {
    if quick { 1 } else { 7 }
}

/// Reads the processor's name from the operating system; the architecture's name if it is not reported.
fn cpu() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    name.map_or_else(|| std::env::consts::ARCH.into(), |(_, name)| name.trim().into())
}

/// The least time of several rounds, from the start of all threads to the end of all; each thread runs its
/// own closure from `make`.
fn best<W: FnMut()>(threads: usize, rounds: usize, make: impl Fn() -> W + Sync) -> Duration {
    let barrier = Barrier::new(threads);
    let measure = || {
        let mut work = make();
        work();
        let round = |_| {
            barrier.wait();
            let start = Instant::now();
            work();
            barrier.wait();
            start.elapsed()
        };
        (0..rounds).map(round).min().unwrap_or_default()
    };
    thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(measure)).collect();
        let own = measure();
        others.into_iter().filter_map(|thread| thread.join().ok()).fold(own, Duration::max)
    })
}
