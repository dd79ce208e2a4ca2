//! A case with tuned kernels, in turns with the same case as the heuristics compile it: what
//! `arrayjit::tune` gains.

use anyhow::{Context as _, Result, ensure};
use arrayjit::{Backend, HostArray};
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use crate::{case::Case, contest::median, ours::LinkedCase};

/// A backend that tunes, with the file of its choices.
pub(crate) struct TunedBackend {
    backend: Backend,
    /// The folder of the file, if the user named no file; removed with it.
    _folder: Option<TempDir>,
}

/// How many times as fast tuned kernels are, in one run with the heuristics. Written as JSON: fields may be
/// added, none renamed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct TunedGain {
    /// The median over rounds of the ratio of times.
    pub(crate) median: f64,
    /// The ratio of the least times.
    pub(crate) best: f64,
}

impl TunedBackend {
    /// Opens the measured backend once more, with a file of choices. An empty path stands for a new file.
    ///
    /// # Errors
    ///
    /// A file that cannot be used, and an error of the backend.
    pub(crate) fn open(file: &str, measured: &Backend) -> Result<TunedBackend> {
        let folder = file.is_empty().then(tempfile::tempdir).transpose()?;
        let new = folder.as_ref().map(|folder| folder.path().join("new.tune"));
        let mut settings = measured.settings().clone();
        settings.tuning.file = match &new {
            Some(new) => new.to_str().context("the temporary folder is not UTF-8")?.to_owned(),
            None => file.to_owned(),
        };
        let backend = Backend::open_with(measured.name(), &settings)?;
        Ok(TunedBackend { backend, _folder: folder })
    }

    /// Compiles a case, which measures kernels that the file lacks, and runs it once.
    ///
    /// # Errors
    ///
    /// An error of the backend, and a result with other bits than `expected`.
    pub(crate) fn prepare<'a>(
        &self,
        case: &'a Case,
        inputs: &[Option<HostArray>],
        expected: &[HostArray],
    ) -> Result<LinkedCase<'a>> {
        let linked = LinkedCase::prepare(&self.backend, case, inputs)?;
        linked.run_once()?;
        let is_equal =
            linked.outputs()?.iter().zip(expected).all(|(tuned, own)| tuned.bytes() == own.bytes());
        ensure!(is_equal, "case `{}` has other bits with tuned kernels", case.name);
        Ok(linked)
    }
}

impl TunedGain {
    /// The gain, from the times of each round.
    pub(crate) fn new(heuristics: &[f64], tuned: &[f64]) -> TunedGain {
        let best = |times: &[f64]| times.iter().copied().fold(f64::INFINITY, f64::min);
        let ratios = heuristics.iter().zip(tuned).map(|(heuristics, tuned)| heuristics / tuned);
        TunedGain { median: median(ratios.collect()), best: best(heuristics) / best(tuned) }
    }

    /// The gain in percent: of the median, and of the least times.
    pub(crate) fn percent(self) -> [String; 2] {
        [self.median, self.best].map(|ratio| format!("{:+.1}%", 100.0 * (ratio - 1.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gains_are_ratios_of_times() {
        let gain = TunedGain::new(&[12.0, 11.0, 20.0], &[10.0, 10.0, 10.0]);
        assert_eq!(gain, TunedGain { median: 1.2, best: 1.1 });
        assert_eq!(gain.percent(), ["+20.0%", "+10.0%"]);
        assert_eq!(TunedGain::new(&[9.0], &[10.0]).percent(), ["-10.0%", "-10.0%"]);
    }
}
