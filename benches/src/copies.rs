//! Copy bandwidths of a GPU, measured in the same run: the yardstick for memory-bound cases.
//!
//! At each footprint two methods are measured: a compiled kernel that reads an array and writes another, and
//! the driver's own copy. Arrays contain random numbers. Footprints that fit in a cache are copied within it,
//! as in a case that runs many times in sequence.

use std::{
    fmt,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use arrayjit::{Backend, Event, HostArray, MergeBufferUse, TensorNode, Transfer};
use serde::{Deserialize, Serialize};

/// Bandwidths by ascending footprint. Written as JSON: fields may be added, none renamed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct CopyBandwidths {
    pub(crate) by_footprint: Vec<CopyBandwidth>,
}

/// Gigabytes per second at a footprint: the bytes read plus the bytes written.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct CopyBandwidth {
    pub(crate) bytes: f64,
    /// The bandwidth of the compiled kernel.
    pub(crate) kernel: f64,
    /// The bandwidth of the driver's copy.
    pub(crate) driver: f64,
}

/// The footprints and the duration of the measurement.
pub(crate) struct Plan {
    /// Bytes read and written.
    pub(crate) footprints: Vec<usize>,
    /// The number of samples at each footprint; the best one counts.
    pub(crate) rounds: usize,
    /// The least duration of a sample.
    pub(crate) sample: Duration,
}

impl Plan {
    /// For a GPU with this much memory: up to 2 GiB if two pairs of such arrays fit in a quarter of the
    /// memory.
    pub(crate) fn of(memory: Option<usize>) -> Plan {
        let most = memory.unwrap_or(1 << 30) / 4;
        let footprints = [22, 24, 26, 28, 30, 31].map(|log| 1 << log);
        let footprints = footprints.into_iter().filter(|&bytes| bytes <= most).collect();
        Plan { footprints, rounds: 7, sample: Duration::from_millis(10) }
    }
}

impl CopyBandwidths {
    /// Measures on the device of a backend.
    ///
    /// # Errors
    ///
    /// The error of a copy.
    pub(crate) fn measure(backend: &Backend, plan: &Plan) -> Result<CopyBandwidths> {
        let measure =
            |&bytes: &usize| copied(backend, bytes, plan).with_context(|| format!("copying {bytes} bytes"));
        Ok(CopyBandwidths { by_footprint: plan.footprints.iter().map(measure).collect::<Result<_>>()? })
    }

    /// The microseconds of copying this number of bytes, read plus written, by the better method,
    /// interpolated between measured bandwidths; `None` if nothing was measured.
    pub(crate) fn us(&self, bytes: f64) -> Option<f64> {
        let after = self.by_footprint.partition_point(|measured| measured.bytes < bytes);
        let high = self.by_footprint.get(after).or(self.by_footprint.last())?;
        let low = &self.by_footprint[after.saturating_sub(1)];
        let distance = if high.bytes > low.bytes {
            ((bytes / low.bytes).ln() / (high.bytes / low.bytes).ln()).clamp(0.0, 1.0)
        } else {
            0.0
        };
        let gbps = low.best() + (high.best() - low.best()) * distance;
        Some(bytes / gbps / 1e3)
    }
}

impl CopyBandwidth {
    fn best(&self) -> f64 {
        self.kernel.max(self.driver)
    }
}

impl fmt::Display for CopyBandwidths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "copies, GB/s read and written, by our kernel and by the driver:")?;
        for at in &self.by_footprint {
            write!(f, "  {:.0}M: {:.0} and {:.0}", at.bytes / 1048576.0, at.kernel, at.driver)?;
        }
        Ok(())
    }
}

fn copied(backend: &Backend, bytes: usize, plan: &Plan) -> Result<CopyBandwidth> {
    let elements = bytes / 2 / size_of::<f32>();
    let mut rng = fastrand::Rng::with_seed(bytes as u64);
    let values: Vec<f32> = (0..elements).map(|_| rng.f32()).collect();
    let array = HostArray::from_slice(&values, [elements])?;
    let node = |name: &str| TensorNode::builder(name).dims([elements]).build();
    let (x, y, z) = (node("x")?, node("y")?, node("z")?);

    let context = backend.context()?.init_from_host(&x, &array)?;
    let routine = backend.compile("y[i] := x[i]", [&x, &y])?.link(&context)?;
    let kernel = best(plan, || Ok(routine.run(&[])?))?;

    let source = backend.context()?.init_from_host(&z, &array)?;
    let to = backend.context()?.init_from_device(&z, &source)?;
    let driver = best(plan, || match to.device_to_device(&z, MergeBufferUse::No, &source)? {
        Transfer::Scheduled(event) => Ok(event),
        Transfer::NothingToDo(why) => anyhow::bail!("nothing was copied: {why}"),
    })?;
    let gbps = |seconds: f64| bytes as f64 / seconds / 1e9;
    Ok(CopyBandwidth { bytes: bytes as f64, kernel: gbps(kernel), driver: gbps(driver) })
}

/// The seconds of one copy: the least over samples of many successive copies with one wait at the end.
fn best(plan: &Plan, mut start: impl FnMut() -> Result<Event>) -> Result<f64> {
    let mut sample = |count: usize| -> Result<f64> {
        start()?.sync()?;
        let before = Instant::now();
        for _ in 1..count {
            start()?;
        }
        start()?.sync()?;
        Ok(before.elapsed().as_secs_f64() / count as f64)
    };
    let count = (plan.sample.as_secs_f64() / sample(3)?).clamp(1.0, 4096.0) as usize;
    (0..plan.rounds).map(|_| sample(count)).try_fold(f64::INFINITY, |least, time| Ok(least.min(time?)))
}

#[cfg(test)]
mod tests {
    use arrayjit::Settings;

    use super::*;

    #[test]
    fn both_ways_are_measured_on_any_device() {
        let backend = Backend::open_with("multicore", Settings::default()).unwrap();
        let plan = Plan { footprints: vec![1 << 12, 1 << 16], rounds: 2, sample: Duration::from_micros(100) };
        let copies = CopyBandwidths::measure(&backend, &plan).unwrap();
        let found: Vec<f64> = copies.by_footprint.iter().map(|at| at.bytes).collect();
        assert_eq!(found, [4096.0, 65536.0]);
        for at in &copies.by_footprint {
            assert!(at.kernel > 0.0 && at.driver > 0.0 && at.best().is_finite(), "{at:?}");
        }
    }

    #[test]
    fn times_lie_between_what_was_measured() {
        let at = |bytes, kernel, driver| CopyBandwidth { bytes, kernel, driver };
        let copies = CopyBandwidths { by_footprint: vec![at(1e6, 10.0, 20.0), at(1e8, 40.0, 30.0)] };
        assert_eq!(copies.us(1e6), Some(50.0));
        assert_eq!(copies.us(1e7).map(f64::round), Some(333.0));
        assert_eq!(copies.us(1e9), Some(25_000.0));
        assert_eq!(CopyBandwidths::default().us(1e6), None);
    }

    #[test]
    fn footprints_leave_room_on_small_devices() {
        assert_eq!(Plan::of(Some(80 << 30)).footprints.last(), Some(&(1 << 31)));
        assert_eq!(Plan::of(Some(4 << 30)).footprints.last(), Some(&(1 << 30)));
        assert_eq!(Plan::of(None).footprints.last(), Some(&(1 << 28)));
    }
}
