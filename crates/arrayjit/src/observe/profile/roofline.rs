//! The limits of a device, measured with the device's own kernels: the rate of a matmul, and the bandwidth of
//! copies by footprint.
//!
//! Kernels of this project are measured and not code of this crate, because only they run on every device and
//! have the same speed in unoptimized builds.

use std::{
    fmt,
    time::{Duration, Instant},
};

use codegen_core::Cost;
use serde::{Deserialize, Serialize};
use tnode::{DType, HostArray, TensorNode};

use crate::{backend::Backend, routine::Routine};

/// The measured limits of a device: arithmetic, and memory bandwidth by footprint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Roofline {
    /// Peak floating-point operations per second, of `f32`.
    pub flops: f64,
    /// The computation that reached the peak, for people.
    pub flops_of: String,
    /// Bandwidths by ascending footprint.
    pub bandwidths: Vec<Bandwidth>,
}

/// The memory bandwidth at a footprint.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Bandwidth {
    /// Bytes read and written together.
    pub footprint: f64,
    /// Bytes per second.
    pub bytes_per_second: f64,
}

/// The fraction of the device's limit that a kernel call reaches.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct RooflineShare {
    /// The least time in which the device can do the work, over the measured time. It exceeds 1 if the caches
    /// hold more of the call's data than of a copy's with the same footprint.
    pub share: f64,
    /// The limit that determines the least time.
    pub limit: Limit,
}

/// A limit of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// Floating-point operations.
    Arithmetic,
    /// Memory bandwidth.
    Memory,
}

impl Bandwidth {
    /// The bandwidth in bytes per second at a footprint in bytes.
    pub fn new(footprint: f64, bytes_per_second: f64) -> Bandwidth {
        Bandwidth { footprint, bytes_per_second }
    }
}

impl Roofline {
    /// Limits that were measured elsewhere: floating-point operations per second, the computation that
    /// reached them, and bandwidths by ascending footprint.
    pub fn new(flops: f64, flops_of: impl Into<String>, bandwidths: Vec<Bandwidth>) -> Roofline {
        Roofline { flops, flops_of: flops_of.into(), bandwidths }
    }

    /// Bytes per second at a footprint, interpolated between measured ones.
    pub fn bandwidth(&self, footprint: f64) -> Option<f64> {
        let after = self.bandwidths.partition_point(|at| at.footprint < footprint);
        let high = self.bandwidths.get(after).or(self.bandwidths.last())?;
        let low = after.checked_sub(1).and_then(|before| self.bandwidths.get(before)).unwrap_or(high);
        let distance = match high.footprint > low.footprint {
            true => (footprint / low.footprint).ln() / (high.footprint / low.footprint).ln(),
            false => 0.0,
        };
        Some(low.bytes_per_second + (high.bytes_per_second - low.bytes_per_second) * distance)
    }

    /// The share of a computation that takes `us` microseconds; `None` for one without floats or memory.
    pub fn share(&self, cost: &Cost, us: f64) -> Option<RooflineShare> {
        let arithmetic = if self.flops > 0.0 { cost.flops / self.flops } else { 0.0 };
        let memory = self.bandwidth(cost.bytes).map_or(0.0, |bandwidth| cost.bytes / bandwidth);
        let limit = if arithmetic > memory { Limit::Arithmetic } else { Limit::Memory };
        let least_us = 1e6 * arithmetic.max(memory);
        (us > 0.0 && least_us > 0.0).then(|| RooflineShare { share: least_us / us, limit })
    }

    /// Measures the backend's first device. `None` if nothing could be measured, such as on a device without
    /// memory for it.
    pub(crate) fn measure(backend: &Backend) -> Option<Roofline> {
        let (flops, flops_of) = matmul(backend)?;
        Some(Roofline { flops, flops_of, bandwidths: copies(backend) })
    }
}

/// A run of this length is long enough to be measured well.
const LONG: Duration = Duration::from_millis(2);
/// A run of this length is the last one that is measured, for slow devices.
const TOO_LONG: Duration = Duration::from_millis(30);
/// The number of runs whose least time counts.
const ROUNDS: usize = 7;

/// The rate of the largest square matmul of f32 that takes a few milliseconds, and its description.
fn matmul(backend: &Backend) -> Option<(f64, String)> {
    let mut best = None;
    for size in [32, 64, 128, 256, 512, 1024, 2048, 4096] {
        let [a, b, c] = ["a", "b", "c"].map(|name| node(name, &[size, size]));
        let Some(took) = least_time(backend, "c[i,j] :+= a[i,k] * b[k,j]", &[&a?, &b?], &c?) else { break };
        let flops = 2.0 * (size as f64).powi(3) / took.as_secs_f64();
        if best.as_ref().is_none_or(|(known, _)| flops > *known) {
            best = Some((flops, format!("f32 matmul of {size}x{size}x{size}")));
        }
        if took > LONG {
            break;
        }
    }
    best
}

/// The bandwidths of copies of f32.
fn copies(backend: &Backend) -> Vec<Bandwidth> {
    let mut bandwidths = Vec::new();
    for log in [14, 16, 18, 20, 22, 24, 25, 26, 27, 28, 29, 30] {
        let footprint = 1_usize << log;
        let [x, y] = ["x", "y"].map(|name| node(name, &[footprint / 8]));
        let (Some(x), Some(y)) = (x, y) else { break };
        let Some(took) = least_time(backend, "y[i] := x[i]", &[&x], &y) else { break };
        bandwidths.push(Bandwidth::new(footprint as f64, footprint as f64 / took.as_secs_f64()));
        // Larger copies tell something new only about the memory of fast devices, whose caches are large.
        if took > TOO_LONG || (log >= 27 && took > LONG) {
            break;
        }
    }
    bandwidths
}

fn node(name: &str, dims: &[usize]) -> Option<TensorNode> {
    TensorNode::builder(name).dims(dims.iter().copied()).dtype(DType::F32).build().ok()
}

/// The least time of several runs of a program from `inputs` to `output`.
fn least_time(
    backend: &Backend,
    text: &str,
    inputs: &[&TensorNode],
    output: &TensorNode,
) -> Option<Duration> {
    let mut context = backend.context().ok()?;
    for input in inputs {
        let zeros = HostArray::zeros(input.dtype(), input.dims().ok()?).ok()?;
        context = context.init_from_host(input, zeros).ok()?;
    }
    let nodes = inputs.iter().copied().chain([output]);
    let routine = backend.compile(text, nodes).ok()?.link(&context).ok()?;
    let mut least = time(&routine)?;
    // The first run touches the memory of the output, and later ones of a slow device take as long.
    for _ in 0..if least > TOO_LONG { 1 } else { ROUNDS } {
        least = least.min(time(&routine)?);
    }
    Some(least)
}

/// The time of a run: of its kernels, or, on a device that cannot time them, until the host has waited.
fn time(routine: &Routine) -> Option<Duration> {
    let start = Instant::now();
    let (event, parts) = routine.run_timed(&[]).ok()?;
    event.sync().ok()?;
    let waited = start.elapsed();
    let calls = parts.iter().flat_map(|part| (0..part.len()).map(|call| part.get(call)));
    let kernels: Option<Duration> =
        calls.map(|time| time.map(|time| time.end.saturating_duration_since(time.begin))).sum();
    Some(kernels.filter(|kernels| !kernels.is_zero()).unwrap_or(waited))
}

/// Shows the peak, and the bandwidth at each footprint.
impl fmt::Display for Roofline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.0} GFLOP/s ({})", self.flops / 1e9, self.flops_of)?;
        for (at, Bandwidth { footprint, bytes_per_second }) in self.bandwidths.iter().enumerate() {
            let separator = if at == 0 { "; copies of" } else { "," };
            let (size, gbps) = (super::table::bytes(*footprint), bytes_per_second / 1e9);
            write!(f, "{separator} {size} {gbps:.0} GB/s")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn roofline() -> Roofline {
        let bandwidths = vec![Bandwidth::new(1024.0, 80e9), Bandwidth::new(4096.0, 40e9)];
        Roofline::new(100e9, "a test", bandwidths)
    }

    #[test]
    fn bandwidth_lies_between_measured_footprints() {
        let at = |footprint| roofline().bandwidth(footprint);
        assert_eq!([at(1.0), at(2048.0), at(1e9)], [Some(80e9), Some(60e9), Some(40e9)]);
        assert_eq!(Roofline::new(1.0, "", vec![]).bandwidth(1.0), None);
    }

    #[test]
    fn the_slower_of_computing_and_moving_limits() {
        let share = |flops, bytes, us| roofline().share(&Cost { flops, integer_ops: 0.0, bytes }, us);
        let found = |share: f64, limit| Some(RooflineShare { share, limit });
        assert_eq!(share(1e5, 1024.0, 2.0), found(0.5, Limit::Arithmetic));
        assert_eq!(share(1.0, 4e4, 4.0), found(0.25, Limit::Memory));
        assert_eq!(share(0.0, 0.0, 1.0), None);
        assert_eq!(share(1e5, 1e5, 0.0), None);
    }

    /// The limits of a device that is as slow as the interpreter are measured in bounded time.
    #[test]
    fn slow_devices_are_measured() {
        let settings = crate::Settings::default();
        let backend = Backend::open_with("interpreter", &settings).expect("it is in every build");
        let measured = Roofline::measure(&backend).expect("memory for small arrays");
        assert!(measured.flops > 0.0 && !measured.bandwidths.is_empty(), "{measured}");
    }
}
