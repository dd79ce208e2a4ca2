//! Checks a case, then times it, in turns with its peers.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context as _, Result};
use arrayjit::{
    Backend, HostArray,
    profile::{Cost, Roofline},
};
use serde::{Deserialize, Serialize};

use crate::{
    arrays::{Array, Buffer},
    case::{Case, Check, Name},
    check,
    contest::{self, Sample, median, quantile},
    machine::Peak,
    ours::LinkedCase,
    peers::{self, Contestant, Peer, Prepared, Problem},
    resident, rivals,
    tuned::{TunedBackend, TunedGain},
};

/// The measurements of a case. Written as JSON: fields may be added, none renamed.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Measured {
    /// Median time of one run in microseconds.
    pub(crate) us: f64,
    /// Least time of one run in microseconds.
    pub(crate) best_us: f64,
    /// The first call from assignments, with inputs on the device, minus the median warm call, in
    /// milliseconds.
    pub(crate) cold_ms: f64,
    /// Giga floating-point operations per second, from the median.
    pub(crate) gflops: f64,
    /// Gigabytes per second, from the median.
    pub(crate) gbps: f64,
    /// The 90th minus the 10th percentile, relative to the median.
    pub(crate) spread: f64,
    /// The time that the measured limits of this machine's cores allow, over the median time; 0 on other
    /// devices.
    pub(crate) roofline: f64,
    /// For matrix multiplications on one thread: operations per second, relative to fused multiply-adds alone
    /// in the same round; the median over rounds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) of_peak: Option<f64>,
    /// On a GPU: the time of copying the same number of bytes, measured in the same run, over the median
    /// time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) of_copy: Option<f64>,
    /// How many times as fast the case is with tuned kernels, if they were measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tuned: Option<TunedGain>,
    /// The peak of resident memory during compilation and runs, above the idle process with inputs in place,
    /// in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) peak_bytes: Option<f64>,
    /// Whether the result was verified; always true, since a wrong result fails the run.
    pub(crate) checked: bool,
    /// Floating-point operations of one run.
    #[serde(default)]
    pub(crate) flops: f64,
    /// Bytes of inputs read and outputs written once.
    #[serde(default)]
    pub(crate) bytes: f64,
    /// The times of peers, measured in turns with this case.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) peers: BTreeMap<String, PeerTime>,
    /// The errors of peers that failed, in a run that goes on after failures.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) failed_peers: BTreeMap<String, String>,
}

/// The times of a peer. Written as JSON: fields may be added, none renamed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct PeerTime {
    /// Median time of one run in microseconds.
    pub(crate) us: f64,
    /// Least time of one run in microseconds.
    pub(crate) best_us: f64,
    /// The median over rounds of the peer's time over ours in the same round: above 1, ours is faster.
    pub(crate) ratio: f64,
    /// The time by which the first call exceeds a later one, in milliseconds, if the peer measures it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cold_ms: Option<f64>,
    /// The peer's cold time over ours.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cold_ratio: Option<f64>,
    /// The peer's [`Measured::peak_bytes`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) peak_bytes: Option<f64>,
}

/// The number of repetitions of each measurement.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effort {
    /// Once, to check that the case works.
    Smoke,
    /// Until the median is steady enough.
    Full,
}

/// The backend and the measured limits of its device.
pub(crate) struct Setup<'a> {
    pub(crate) backend: &'a Backend,
    /// The backend that tunes kernels, if its gain is measured.
    pub(crate) tuned: Option<&'a TunedBackend>,
    /// Other backends, which are measured in turns with it.
    pub(crate) rivals: &'a [Backend],
    /// Whether cases with derived gradients are measured in turns with gradients that were written by hand.
    pub(crate) by_hand: bool,
    pub(crate) threads: usize,
    /// Whether cases run on cores of this machine.
    pub(crate) is_host: bool,
    /// The measured limits of the cores or of the GPU.
    pub(crate) roofline: Option<&'a Roofline>,
    /// The same of products of bytes, if the cores have an instruction for them.
    pub(crate) roofline_of_bytes: Option<&'a Roofline>,
    pub(crate) sample: Sample,
    pub(crate) effort: Effort,
    /// Whether peak memory is measured too.
    pub(crate) memory: bool,
    /// Whether the case is measured without a peer that fails, instead of failing with it.
    pub(crate) keep_going: bool,
}

/// The number of cold calls, whose median counts.
const COLD_CALLS: usize = 3;
/// If the first cold call takes this long or longer, it is the only one.
const LONG: Duration = Duration::from_millis(500);

/// Checks and times a case and its peers.
///
/// # Errors
///
/// Any error of the case, and a wrong result, ours or a peer's.
pub(crate) fn measure(setup: &Setup, case: &Case, others: &mut [Box<dyn Peer>]) -> Result<Measured> {
    let inputs: Vec<Option<HostArray>> = case.nodes.iter().map(|node| node.array()).collect::<Result<_>>()?;
    let ours = LinkedCase::prepare(setup.backend, case, &inputs)?;
    let mut cold = vec![ours.run_once()?];
    let outputs = ours.outputs()?;
    check::check(setup.backend, case, &outputs, &inputs)?;
    if setup.effort == Effort::Full && cold[0] < LONG {
        let again = |_| LinkedCase::prepare(setup.backend, case, &inputs)?.run_once();
        cold.extend((1..COLD_CALLS).map(again).collect::<Result<Vec<_>>>()?);
    }
    let cold = median(cold.iter().map(|cold| micros(*cold)).collect());
    if case.is_latency {
        let mut measured = measured(setup, case, &mut latencies(setup, case, &inputs)?, 0.0);
        measured.cold_ms = measured.us / 1e3;
        return Ok(measured);
    }

    let peaks = if setup.memory { peaks(setup, case, others, &inputs, &outputs)? } else { Peaks::default() };
    let (mut contestants, mut entered): (Vec<Box<dyn Contestant>>, Vec<_>) = (vec![Box::new(ours)], vec![]);
    let mut failed_peers = BTreeMap::new();
    for peer in others {
        let name = peer.name();
        match prepare(peer.as_mut(), case, &inputs, &outputs) {
            Ok(Some(prepared)) => {
                contestants.push(prepared.step);
                entered.push((name, prepared.cold_ms));
            }
            Ok(None) => {}
            Err(error) if setup.keep_going => {
                failed_peers.insert(name.to_owned(), format!("{error:#}"));
            }
            Err(error) => return Err(error),
        }
    }
    let by_hand = case.by_hand.as_deref().filter(|_| setup.by_hand);
    let by_hand = by_hand.map(|by_hand| (peers::BY_HAND, setup.backend, by_hand));
    let rivals = setup.rivals.iter().map(|rival| (rival.name(), rival, case));
    for (name, backend, case) in rivals.chain(by_hand) {
        let context = || format!("case `{}` of peer `{name}`", case.name);
        let (linked, cold_ms) = rivals::prepare(backend, case, &inputs).with_context(context)?;
        contestants.push(Box::new(linked));
        entered.push((name, Some(cold_ms)));
    }
    let tuned_at = contestants.len();
    if let Some(tuned) = setup.tuned {
        contestants.push(Box::new(tuned.prepare(case, &inputs, &outputs)?));
    }
    let has_peak = is_product(case) && setup.is_host && setup.threads == 1;
    let peak_ops = has_peak.then(|| {
        let peak = Peak::new(case.is_of_bytes());
        let ops = peak.ops();
        contestants.push(Box::new(peak));
        ops
    });
    let mut times = contest::times(&mut contestants, setup.threads, setup.sample, setup.effort)?;
    let of_peak = peak_ops.map(|ops| {
        let at_peak = times[times.len() - 1].iter().map(|us| ops / us);
        median(times[0].iter().zip(at_peak).map(|(us, peak)| case.flops / us / peak).collect())
    });
    let peers: BTreeMap<String, PeerTime> = entered
        .iter()
        .zip(&times[1..])
        .map(|((name, cold_ms), theirs)| ((*name).to_owned(), peer_time(&times[0], theirs, *cold_ms)))
        .collect();
    let tuned = setup.tuned.map(|_| TunedGain::new(&times[0], &times[tuned_at]));
    let mut measured = measured(setup, case, &mut times[0], cold);
    measured.tuned = tuned;
    (measured.peers, measured.failed_peers) = (peers, failed_peers);
    measured.of_peak = of_peak;
    for peer in measured.peers.values_mut() {
        peer.cold_ratio = peer.cold_ms.map(|theirs| theirs / measured.cold_ms.max(0.001));
    }
    measured.peak_bytes = peaks.ours;
    for (name, peak) in peaks.peers {
        if let Some(peer) = measured.peers.get_mut(name) {
            peer.peak_bytes = Some(peak);
        }
    }
    Ok(measured)
}

/// A peer ready to repeat a case, with a result that agrees with ours; `None` if it lacks the operation.
fn prepare<'p>(
    peer: &'p mut dyn Peer,
    case: &Case,
    inputs: &[Option<HostArray>],
    outputs: &[HostArray],
) -> Result<Option<Prepared<'p>>> {
    let name = peer.name();
    let context = || format!("case `{}` of peer `{name}`", case.name);
    let known = case.operation.zip(case.dtype());
    if !known.is_some_and(|(operation, dtype)| peer.takes(operation, dtype)) {
        return Ok(None);
    }
    let Some(problem) = problem(case, inputs, outputs).with_context(context)? else { return Ok(None) };
    let Some(prepared) = peer.prepare(problem).with_context(context)? else { return Ok(None) };
    let found: Vec<Vec<f64>> =
        prepared.outputs.iter().map(|output| output.iter().map(|&v| v.into()).collect()).collect();
    check::compare(case, &found, &check::values(outputs), apart(case)).with_context(context)?;
    Ok(Some(prepared))
}

/// The peaks of memory of a case, in bytes.
#[derive(Default)]
struct Peaks {
    ours: Option<f64>,
    peers: Vec<(&'static str, f64)>,
}

fn peaks(
    setup: &Setup,
    case: &Case,
    others: &mut [Box<dyn Peer>],
    inputs: &[Option<HostArray>],
    outputs: &[HostArray],
) -> Result<Peaks> {
    let ours = Some(resident::measure_in_process(setup.backend, setup.threads, case)?);
    let mut peers = Vec::new();
    for peer in others {
        let (name, Some(problem)) = (peer.name(), problem(case, inputs, outputs)?) else { continue };
        if peer.takes(problem.operation, problem.dtype) {
            peers.extend(peer.peak_memory(problem)?.map(|peak| (name, peak)));
        }
    }
    Ok(Peaks { ours, peers })
}

/// The allowed difference between a peer's result and ours, relative to the largest magnitude. In cases with
/// sampled rows both may deviate, in opposite directions, because of rounding to narrow elements.
fn apart(case: &Case) -> f64 {
    if matches!(case.check, Check::Rows(_)) { 2.0 * case.tolerance } else { case.tolerance }
}

/// Whether the case is compute-bound: arithmetic limits it, not memory traffic.
fn is_product(case: &Case) -> bool {
    case.flops >= 4.0 * case.traffic.total()
}

/// The case as a problem for peers; `None` if none implements the operation.
pub(crate) fn problem(
    case: &Case,
    inputs: &[Option<HostArray>],
    outputs: &[HostArray],
) -> Result<Option<Problem>> {
    let Some((operation, dtype)) = case.operation.zip(case.dtype()) else { return Ok(None) };
    let values = |array: &HostArray| array.values().iter().map(|&v| v as f32).collect::<Vec<f32>>();
    let named = |name: &str| case.nodes.iter().zip(inputs).find(|(node, _)| node.name == name);
    let input = |(node, array): (&crate::case::Node, &Option<HostArray>)| {
        let array = array.as_ref()?;
        Some(Array { dims: node.dims.clone(), values: Buffer::new(&values(array)) })
    };
    let output = |(name, ours): (&Name, &HostArray)| {
        let (node, init) = named(name).with_context(|| format!("no node `{name}`"))?;
        let before = init.as_ref().map_or_else(|| vec![0.0; ours.num_values()], values);
        Ok(Array { dims: node.dims.clone(), values: Buffer::new(&before) })
    };
    Ok(Some(Problem {
        operation,
        dtype,
        inputs: case.nodes.iter().zip(inputs).filter_map(input).collect(),
        names: [inputs_of(case), case.outputs.clone()],
        outputs: case.outputs.iter().zip(outputs).map(output).collect::<Result<_>>()?,
    }))
}

/// The names of the nodes with initial values.
fn inputs_of(case: &Case) -> Vec<Name> {
    case.nodes.iter().filter(|node| node.init.is_some()).map(|node| node.name.clone()).collect()
}

/// Microseconds from text to first result, compiled anew each time.
fn latencies(setup: &Setup, case: &Case, inputs: &[Option<HostArray>]) -> Result<Vec<f64>> {
    let rounds = if setup.effort == Effort::Smoke { 1 } else { 25 };
    let round = |_| Ok(micros(LinkedCase::prepare(setup.backend, case, inputs)?.run_once()?));
    (0..rounds).map(round).collect()
}

fn measured(setup: &Setup, case: &Case, times: &mut [f64], cold_us: f64) -> Measured {
    times.sort_by(f64::total_cmp);
    let work = case.work();
    let mut measured = summary(times, &work, cold_us);
    let of_bytes = setup.roofline_of_bytes.filter(|_| case.is_of_bytes());
    let share = |work| Some(of_bytes.or(setup.roofline)?.share(work, measured.us)?.share);
    match setup.is_host {
        true => measured.roofline = share(&work).unwrap_or_default(),
        false => measured.of_copy = share(&Cost { flops: 0.0, ..work }),
    }
    measured
}

pub(crate) fn peer_time(ours: &[f64], theirs: &[f64], cold_ms: Option<f64>) -> PeerTime {
    let ratios = ours.iter().zip(theirs).map(|(ours, theirs)| theirs / ours).collect();
    let best_us = theirs.iter().copied().fold(f64::INFINITY, f64::min);
    PeerTime {
        us: median(theirs.to_vec()),
        best_us,
        ratio: median(ratios),
        cold_ms,
        cold_ratio: None,
        peak_bytes: None,
    }
}

/// Summarizes the sorted times of a case that does this work; `cold_us` is the time of the first call.
pub(crate) fn summary(times: &[f64], work: &Cost, cold_us: f64) -> Measured {
    let &Cost { flops, bytes, .. } = work;
    let us = quantile(times, 0.5);
    Measured {
        us,
        best_us: times[0],
        cold_ms: (cold_us - us).max(0.0) / 1e3,
        gflops: flops / us / 1e3,
        gbps: bytes / us / 1e3,
        spread: (quantile(times, 0.9) - quantile(times, 0.1)) / us,
        roofline: 0.0,
        of_peak: None,
        of_copy: None,
        tuned: None,
        peak_bytes: None,
        checked: true,
        flops,
        bytes,
        peers: BTreeMap::new(),
        failed_peers: BTreeMap::new(),
    }
}

fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}

#[cfg(test)]
mod tests {
    use anyhow::bail;
    use arrayjit::{DType, Settings};

    use super::*;
    use crate::{case::Operation, cases};

    /// A peer without a working implementation.
    struct FailingPeer;

    impl Peer for FailingPeer {
        fn name(&self) -> &'static str {
            "torch"
        }

        fn takes(&self, _operation: Operation, _dtype: DType) -> bool {
            true
        }

        fn version(&self) -> &str {
            ""
        }

        fn prepare(&mut self, _problem: Problem) -> Result<Option<Prepared<'_>>> {
            bail!("out of order")
        }
    }

    #[test]
    fn a_peer_that_fails_fails_the_case_unless_the_run_goes_on() {
        let backend = Backend::open_with("inline", &Settings::default()).unwrap();
        let case = cases::selected(&["sum_16k".to_owned()], false).remove(0);
        let run = |keep_going| {
            let setup = Setup {
                backend: &backend,
                tuned: None,
                rivals: &[],
                by_hand: false,
                threads: 1,
                is_host: true,
                roofline: None,
                roofline_of_bytes: None,
                sample: Sample::HOST,
                effort: Effort::Smoke,
                memory: false,
                keep_going,
            };
            measure(&setup, &case, &mut [Box::new(FailingPeer)])
        };
        let error = format!("{:#}", run(false).unwrap_err());
        assert_eq!(error, "case `sum_16k` of peer `torch`: out of order");
        let measured = run(true).unwrap();
        assert!(measured.us > 0.0 && measured.peers.is_empty());
        assert_eq!(measured.failed_peers["torch"], error);
    }
}
