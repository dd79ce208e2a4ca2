//! The machine's limits, measured in the same run: peak arithmetic, and memory bandwidth by footprint.
//!
//! The peak is measured with independent fused multiply-adds of 256 bits. Bandwidths are measured by reading,
//! writing and copying arrays of a footprint with the best method: through the caches or with non-temporal
//! stores, on huge pages, divided equally among the threads.

mod fma;
mod memory;

pub(crate) use fma::Peak;

use std::{
    fmt,
    sync::Barrier,
    thread,
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};

use crate::{case::Traffic, reference::last_cache};

/// The measured limits of this machine. Written as JSON: fields may be added, none renamed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct MachineLimits {
    /// The processor's name from the operating system.
    pub(crate) cpu: String,
    /// The number of cores that this process may use.
    pub(crate) cores: usize,
    /// Bytes of the largest cache.
    pub(crate) last_cache: usize,
    /// The limits of one thread, of one thread per core, and of the measured number of threads, in ascending
    /// order.
    pub(crate) limits: Vec<Limits>,
}

/// The limits of a number of threads together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Limits {
    pub(crate) threads: usize,
    /// Giga f32 operations per second.
    pub(crate) gflops: f64,
    /// Bandwidths by ascending footprint.
    pub(crate) memory: Vec<Bandwidth>,
}

/// Gigabytes per second at a footprint. A copy counts the bytes read and the bytes written.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Bandwidth {
    pub(crate) bytes: f64,
    pub(crate) read: f64,
    pub(crate) write: f64,
    /// Through the caches.
    pub(crate) copy: f64,
    /// With non-temporal stores.
    pub(crate) streamed_copy: f64,
}

impl MachineLimits {
    /// Measures; `quick` gives rough figures.
    pub(crate) fn measure(threads: usize, quick: bool) -> MachineLimits {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let mut counts = vec![1, cores, if threads == 0 { cores } else { threads }];
        counts.sort_unstable();
        counts.dedup();
        if quick {
            counts.retain(|&count| count == threads.max(1));
        }
        let limits = counts.into_iter().map(|threads| Limits::measure(threads, quick)).collect();
        MachineLimits { cpu: cpu(), cores, last_cache: last_cache(), limits }
    }

    /// The limits for a number of threads; 0 means one per core.
    pub(crate) fn of(&self, threads: usize) -> Option<&Limits> {
        let threads = if threads == 0 { self.cores } else { threads };
        self.limits.iter().find(|limits| limits.threads == threads)
    }
}

impl Limits {
    fn measure(threads: usize, quick: bool) -> Limits {
        let rounds = if quick { 1 } else { 7 };
        let logs: &[u32] = if quick { &[16, 22, 27] } else { &[14, 16, 18, 20, 22, 24, 25, 26, 27, 28] };
        let memory = logs.iter().map(|log| memory::measure(threads, 1 << log, rounds)).collect();
        Limits { threads, gflops: fma::gflops(threads, rounds), memory }
    }

    /// The least time in microseconds for this work.
    pub(crate) fn least_us(&self, flops: f64, traffic: Traffic) -> f64 {
        let Traffic { reads, writes } = traffic;
        let at = self.at(traffic.total());
        // Equal amounts of reads and writes have the bandwidth of a copy, the remainder that of a read or a
        // write.
        let copied = reads.min(writes);
        let seconds = 2.0 * copied / at.copy.max(at.streamed_copy)
            + (reads - copied) / at.read
            + (writes - copied) / at.write;
        (flops / self.gflops / 1e3).max(seconds / 1e3)
    }

    /// The bandwidths at a footprint, interpolated between measured ones.
    pub(crate) fn at(&self, bytes: f64) -> Bandwidth {
        let after = self.memory.partition_point(|measured| measured.bytes < bytes);
        let after = after.min(self.memory.len() - 1);
        let (low, high) = (self.memory[after.saturating_sub(1)], self.memory[after]);
        let distance = if high.bytes > low.bytes {
            (bytes / low.bytes).ln() / (high.bytes / low.bytes).ln()
        } else {
            0.0
        };
        let between = |a: f64, b: f64| a + (b - a) * distance.clamp(0.0, 1.0);
        Bandwidth {
            bytes,
            read: between(low.read, high.read),
            write: between(low.write, high.write),
            copy: between(low.copy, high.copy),
            streamed_copy: between(low.streamed_copy, high.streamed_copy),
        }
    }
}

impl fmt::Display for MachineLimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {} core(s), last cache {} MiB", self.cpu, self.cores, self.last_cache >> 20)?;
        self.limits.iter().try_for_each(|limits| write!(f, "\n{limits}"))
    }
}

impl fmt::Display for Limits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "  {} thread(s): {:.0} GFLOP/s of fused multiply-adds; GB/s", self.threads, self.gflops)?;
        for at in &self.memory {
            let copy = at.copy.max(at.streamed_copy);
            write!(f, "  {}: read {:.0} copy {copy:.0}", footprint(at.bytes), at.read)?;
        }
        Ok(())
    }
}

/// A number of bytes in its largest unit.
fn footprint(bytes: f64) -> String {
    if bytes < 1048576.0 { format!("{:.0}K", bytes / 1024.0) } else { format!("{:.0}M", bytes / 1048576.0) }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn limits() -> Limits {
        let at = |bytes, read, copy| Bandwidth { bytes, read, write: 10.0, copy, streamed_copy: 1.0 };
        Limits { threads: 1, gflops: 100.0, memory: vec![at(1024.0, 80.0, 40.0), at(4096.0, 40.0, 20.0)] }
    }

    #[test]
    fn bandwidth_lies_between_what_was_measured() {
        let limits = limits();
        assert_eq!(limits.at(1.0).read, 80.0);
        assert_eq!(limits.at(2048.0).read, 60.0);
        assert_eq!(limits.at(1e9).copy, 20.0);
    }

    #[test]
    fn the_slower_of_computing_and_moving_bounds() {
        let moved = Traffic { reads: 1024e3, writes: 512e3 };
        let moving = 512.0 * 2.0 / 20.0 + 512.0 / 40.0;
        assert_eq!(limits().least_us(0.0, moved), moving);
        assert_eq!(limits().least_us(1e9, moved), 1e4);
    }
}
