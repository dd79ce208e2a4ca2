//! The measured device: its name, whether it is emulated in software, and the cost of starting a routine.

use std::{fmt, time::Instant};

use anyhow::Result;
use arrayjit::{Backend, HostArray, TensorNode};
use serde::{Deserialize, Serialize};

/// The number of runs over which the cost of one is averaged.
const RUNS: u32 = 256;

/// The device of a report. Written as JSON: fields may be added, none renamed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct MeasuredDevice {
    /// The device's name, with its adapter's if it has one.
    pub(crate) name: String,
    /// Whether a CPU emulates the GPU, so that its figures say nothing about a real one.
    pub(crate) software: bool,
    /// Whether the measured limits of this machine's cores apply.
    pub(crate) is_host: bool,
}

/// The cost of a routine of one addition. Written as JSON: fields may be added, none renamed.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Overhead {
    /// Microseconds of a run among many successive ones.
    pub(crate) run_us: f64,
    /// Median microseconds of a run that is waited for.
    pub(crate) wait_us: f64,
}

impl MeasuredDevice {
    /// The device of a backend.
    pub(crate) fn of(backend: &Backend) -> MeasuredDevice {
        let model = property(backend, "adapter").or_else(|| property(backend, "device"));
        let model = model.map_or_else(String::new, |model| format!(" ({model})"));
        MeasuredDevice {
            name: backend.device().name() + &model,
            software: property(backend, "software").is_some_and(|value| value == "true"),
            is_host: backend.codegen().caps().workgroups.is_none(),
        }
    }

    /// Whether it is a GPU.
    pub(crate) fn is_gpu(&self) -> bool {
        !self.is_host && !self.software
    }
}

/// The position of an NVIDIA GPU in its driver's list.
pub(crate) fn cuda_ordinal(backend: &Backend) -> Option<u32> {
    property(backend, "cuda")?;
    property(backend, "ordinal")?.parse().ok()
}

fn property(backend: &Backend, name: &str) -> Option<String> {
    let properties = backend.device().driver().static_properties();
    properties.iter().find_map(|(n, value)| (*n == name).then(|| value.clone()))
}

impl fmt::Display for MeasuredDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let label = if self.software { ", SOFTWARE ADAPTER: not the speed of a GPU" } else { "" };
        write!(f, "{}{label}", self.name)
    }
}

impl Overhead {
    /// Measures a routine that adds two numbers.
    ///
    /// # Errors
    ///
    /// The error of the routine.
    pub(crate) fn measure(backend: &Backend) -> Result<Overhead> {
        let x = TensorNode::builder("x").dims([1]).build()?;
        let y = TensorNode::builder("y").dims([1]).build()?;
        let code = backend.compile("y[i] := x[i] + 1", [&x, &y])?;
        let context = backend.context()?.init_from_host(&x, &HostArray::from_slice(&[1.0f32], [1])?)?;
        let routine = code.link(&context)?;
        let waited = || -> Result<f64> {
            let start = Instant::now();
            routine.run(&[])?.sync()?;
            Ok(micros(start))
        };
        waited()?;
        let mut waits = (0..31).map(|_| waited()).collect::<Result<Vec<f64>>>()?;
        waits.sort_by(f64::total_cmp);
        let start = Instant::now();
        for _ in 1..RUNS {
            routine.run(&[])?;
        }
        routine.run(&[])?.sync()?;
        Ok(Overhead { run_us: micros(start) / f64::from(RUNS), wait_us: waits[waits.len() / 2] })
    }
}

impl fmt::Display for Overhead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "an empty routine takes {:.1} us among many, {:.1} us when waited for",
            self.run_us, self.wait_us
        )
    }
}

fn micros(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e6
}
