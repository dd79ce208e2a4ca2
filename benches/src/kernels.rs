//! The kernel calls of a case: `--kernels`.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use arrayjit::{
    Backend, HostArray,
    profile::{Bandwidth, Profile, Roofline},
};

use crate::{case::Case, machine::Limits, measure::Effort, ours::LinkedCase};

/// The fewest runs. The first one finds the caches empty.
const FEWEST_RUNS: usize = 5;
/// The time after which no run is added.
const TIME: Duration = Duration::from_millis(300);

/// A backend like the measured one whose routines time their kernel calls. It is another backend, so that the
/// times of cases have no part in it.
///
/// # Errors
///
/// The error of opening it.
pub(crate) fn open(backend: &Backend) -> Result<Backend> {
    let mut settings = backend.settings().clone();
    settings.debugging.profile = true;
    Backend::open_with(backend.name(), settings).context("opening the backend for profiles")
}

/// Profiles the kernel calls of a case. `limits` are the measured limits of the cores; without them, the
/// backend measures its device.
///
/// # Errors
///
/// An error of the backend.
pub(crate) fn profile(
    backend: &Backend,
    case: &Case,
    limits: Option<&Limits>,
    effort: Effort,
) -> Result<Profile> {
    let inputs: Vec<Option<HostArray>> = case.nodes.iter().map(|node| node.array()).collect::<Result<_>>()?;
    let linked = LinkedCase::prepare(backend, case, &inputs)?;
    let start = Instant::now();
    let mut runs = 0;
    while runs < FEWEST_RUNS || (effort == Effort::Full && start.elapsed() < TIME) {
        linked.run_again()?;
        runs += 1;
    }
    let mut profile = linked.profile().context("the backend was opened for profiles")?;
    case.name.clone_into(&mut profile.routine);
    Ok(match limits {
        Some(limits) => profile.with_roofline(Some(roofline(limits))),
        None => profile,
    })
}

/// The measured limits of the cores in the form of a profile.
fn roofline(limits: &Limits) -> Roofline {
    let bandwidth =
        |at: &crate::machine::Bandwidth| Bandwidth::new(at.bytes, 1e9 * at.copy.max(at.streamed_copy));
    let bandwidths = limits.memory.iter().map(bandwidth).collect();
    Roofline::new(1e9 * limits.gflops, "fused multiply-adds of f32", bandwidths)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{cases, machine::MachineLimits};

    #[test]
    fn a_profile_has_the_case_and_the_limits_of_the_machine() {
        let backend = Backend::open("inline").unwrap();
        let profiled = open(&backend).unwrap();
        let cases = cases::selected(&["softmax".to_owned()], false);
        let machine = MachineLimits::measure(1, true);
        let limits = machine.of(1).unwrap();
        let profile = profile(&profiled, &cases[0], Some(limits), Effort::Smoke).unwrap();
        assert_eq!(profile.routine, cases[0].name);
        assert_eq!(profile.run_time.unwrap().count as usize, FEWEST_RUNS);
        let measured = profile.roofline.as_ref().unwrap();
        assert_eq!(measured.flops, 1e9 * limits.gflops);
        assert!(
            profile.calls.iter().all(|call| call.time.is_some() && !call.description.statements.is_empty())
        );
    }
}
