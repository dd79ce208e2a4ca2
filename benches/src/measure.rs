//! Checks a case, then times it.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use arrayjit::{Backend, Context, HostArray, Routine, Settings, TensorNode};
use serde::{Deserialize, Serialize};

use crate::{
    case::{Case, Check},
    machine::Machine,
};

/// What was measured of a case. Written as JSON: fields may be added, none renamed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Measured {
    /// Median time of one run in microseconds.
    pub(crate) us: f64,
    /// Least time of one run in microseconds.
    pub(crate) best_us: f64,
    /// The first call from assignments minus the median warm call, in milliseconds.
    pub(crate) cold_ms: f64,
    /// Giga floating-point operations per second, from the median.
    pub(crate) gflops: f64,
    /// Gigabytes per second, from the median.
    pub(crate) gbps: f64,
    /// The 90th minus the 10th percentile, relative to the median.
    pub(crate) spread: f64,
    /// The time that the measured peaks of this machine's cores allow over the median time; 0 on other devices.
    pub(crate) roofline: f64,
    /// Whether the result was verified; always true, since a wrong result fails the run.
    pub(crate) checked: bool,
}

/// How long to measure.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effort {
    /// Once, to see that the case works.
    Smoke,
    /// Until the median is steady enough.
    Full,
}

/// A case ready to run.
struct Ready {
    routine: Routine,
    output: TensorNode,
}

/// Checks and times a case.
///
/// # Errors
///
/// Whatever stops the case from running, and a wrong result.
pub(crate) fn measure(
    backend: &Backend,
    case: &Case,
    machine: Option<&Machine>,
    effort: Effort,
) -> Result<Measured> {
    let inputs: Vec<Option<HostArray>> = case.nodes.iter().map(|node| node.array()).collect::<Result<_>>()?;
    let start = Instant::now();
    let ready = prepare(backend, case, &inputs)?;
    run_once(&ready, case)?;
    let cold = start.elapsed();
    check(case, &ready.routine.context().to_host(&ready.output)?, &inputs)?;

    let mut times = if case.is_latency {
        latencies(backend, case, &inputs, effort)?
    } else {
        warm_times(&ready, case, effort)?
    };
    times.sort_by(f64::total_cmp);
    let least = machine.map_or(0.0, |machine| machine.least_us(case.flops, case.bytes));
    let mut measured = summary(&times, (case.flops, case.bytes), least, cold);
    if case.is_latency {
        measured.cold_ms = measured.us / 1e3;
    }
    Ok(measured)
}

/// Nodes, compiled code, uploaded inputs, linked routine.
fn prepare(backend: &Backend, case: &Case, inputs: &[Option<HostArray>]) -> Result<Ready> {
    let nodes: Vec<TensorNode> = case.nodes.iter().map(|node| node.build()).collect::<Result<_>>()?;
    let compiled = backend.compile(&case.text, &nodes)?;
    let mut context: Context = backend.context()?;
    for (node, array) in nodes.iter().zip(inputs) {
        if let Some(array) = array {
            context = context.init_from_host(node, array)?;
        }
    }
    let output = nodes.iter().find(|node| node.name() == case.output);
    let output =
        output.with_context(|| format!("case `{}` has no node `{}`", case.name, case.output))?.clone();
    Ok(Ready { routine: compiled.link(&context)?, output })
}

fn run_once(ready: &Ready, case: &Case) -> Result<()> {
    ready.routine.run(&case.bindings)?.sync()?;
    Ok(())
}

/// Microseconds per run, one sample per batch of runs.
fn warm_times(ready: &Ready, case: &Case, effort: Effort) -> Result<Vec<f64>> {
    if effort == Effort::Smoke {
        let start = Instant::now();
        run_once(ready, case)?;
        return Ok(vec![micros(start.elapsed())]);
    }
    let batch = batch_size(ready, case)?;
    let (mut times, start) = (Vec::new(), Instant::now());
    while times.len() < 15 || (start.elapsed() < Duration::from_millis(800) && times.len() < 500) {
        let before = Instant::now();
        for _ in 1..batch {
            ready.routine.run(&case.bindings)?;
        }
        run_once(ready, case)?;
        times.push(micros(before.elapsed()) / batch as f64);
    }
    Ok(times)
}

/// Runs per sample, so that a sample takes about a millisecond and the clock and the wake-up do not show.
fn batch_size(ready: &Ready, case: &Case) -> Result<usize> {
    let start = Instant::now();
    for _ in 0..3 {
        run_once(ready, case)?;
    }
    let one = micros(start.elapsed()) / 3.0;
    Ok((1000.0 / one).clamp(1.0, 256.0) as usize)
}

/// Microseconds from text to first result, each time anew.
fn latencies(
    backend: &Backend,
    case: &Case,
    inputs: &[Option<HostArray>],
    effort: Effort,
) -> Result<Vec<f64>> {
    let rounds = if effort == Effort::Smoke { 1 } else { 25 };
    let mut times = Vec::new();
    for _ in 0..rounds {
        let start = Instant::now();
        let ready = prepare(backend, case, inputs)?;
        run_once(&ready, case)?;
        times.push(micros(start.elapsed()));
    }
    Ok(times)
}

/// Fails unless the output is what the formula or the interpreter says.
fn check(case: &Case, output: &HostArray, inputs: &[Option<HostArray>]) -> Result<()> {
    let found = output.values();
    let expected = match &case.check {
        Check::Formula(formula) => {
            formula(&inputs.iter().flatten().map(HostArray::values).collect::<Vec<_>>())
        }
        Check::Interpreter => interpreted(case, inputs)?,
    };
    ensure!(
        found.len() == expected.len(),
        "{}: expected {} values, found {}",
        case.name,
        expected.len(),
        found.len()
    );
    let scale = expected.iter().fold(0.0f64, |m, v| m.max(v.abs())).max(f64::MIN_POSITIVE);
    for (i, (&f, &e)) in found.iter().zip(&expected).enumerate() {
        // Written so that a NaN fails.
        let is_close = (f - e).abs() <= case.tolerance * scale;
        if !is_close {
            bail!("{}: wrong result at element {i}: expected {e}, found {f}", case.name);
        }
    }
    Ok(())
}

fn interpreted(case: &Case, inputs: &[Option<HostArray>]) -> Result<Vec<f64>> {
    let backend = Backend::open_with("interpreter", Settings::default())?;
    let ready = prepare(&backend, case, inputs)?;
    run_once(&ready, case)?;
    Ok(ready.routine.context().to_host(&ready.output)?.values())
}

/// What the sorted times say of a case of so many operations and bytes, which the machine could do in `least` microseconds (0
/// where that is not known).
pub(crate) fn summary(times: &[f64], (flops, bytes): (f64, f64), least: f64, cold: Duration) -> Measured {
    let at = |q: f64| times[((times.len() - 1) as f64 * q).round() as usize];
    let us = at(0.5);
    Measured {
        us,
        best_us: times[0],
        cold_ms: micros(cold).max(us) / 1e3 - us / 1e3,
        gflops: flops / us / 1e3,
        gbps: bytes / us / 1e3,
        spread: (at(0.9) - at(0.1)) / us,
        roofline: least / us,
        checked: true,
    }
}

fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}
