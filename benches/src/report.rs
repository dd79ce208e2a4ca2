//! Results as a table on the terminal and as JSON.

use std::{collections::BTreeMap, path::Path, process::Command};

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use crate::{
    device::{Measuree, Overhead},
    measure::Measured,
};

/// The JSON of one run. Fields may be added, none renamed.
#[derive(Serialize, Deserialize)]
pub(crate) struct Report {
    threads: usize,
    commit: String,
    /// Reports of older programs are about the CPU.
    #[serde(default = "cpu")]
    device: Measuree,
    #[serde(default)]
    overhead: Overhead,
    results: BTreeMap<String, Measured>,
}

/// The first line of the table.
pub(crate) const HEADING: &str =
    "case                        median us    best us   cold ms   GFLOP/s      GB/s  spread  of roofline";

impl Report {
    /// An empty report of this commit.
    pub(crate) fn new(threads: usize, device: Measuree, overhead: Overhead) -> Report {
        Report { threads, commit: commit(), device, overhead, results: BTreeMap::new() }
    }

    /// Fails unless the report's figures may stand beside those of a device: hosts beside hosts, others beside themselves, and
    /// what software imitates beside no hardware.
    ///
    /// # Errors
    ///
    /// Names both.
    pub(crate) fn check_comparable(&self, device: &Measuree) -> Result<()> {
        let hosts = self.device.is_host && device.is_host;
        ensure!(
            hosts || self.device == *device,
            "the earlier report is about {}, this is {device}: expected the same device",
            self.device
        );
        Ok(())
    }

    /// Adds the result of a case.
    pub(crate) fn insert(&mut self, name: &str, measured: Measured) {
        self.results.insert(name.into(), measured);
    }

    /// Writes the report.
    ///
    /// # Errors
    ///
    /// Names the file.
    pub(crate) fn write(&self, path: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(self)?;
        std::fs::write(path, text + "\n").with_context(|| format!("writing {}", path.display()))
    }
}

/// Reads an earlier report.
///
/// # Errors
///
/// Names the file.
pub(crate) fn read(path: &Path) -> Result<Report> {
    let text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} is not a report", path.display()))
}

/// One line of the table; with an earlier report, how many times faster than then.
pub(crate) fn line(name: &str, m: &Measured, earlier: Option<&Report>) -> String {
    let ratio = earlier.and_then(|report| report.results.get(name)).map(|then| then.us / m.us);
    let ratio = ratio.map_or(String::new(), |r| format!("   {r:.2}x as fast as before"));
    let roofline = if m.roofline > 0.0 { format!("{:.0}%", 100.0 * m.roofline) } else { "-".into() };
    format!(
        "{name:<24} {:>12.1} {:>10.1} {:>9.2} {:>9.2} {:>9.2} {:>6.0}% {roofline:>12}{ratio}",
        m.us,
        m.best_us,
        m.cold_ms,
        m.gflops,
        m.gbps,
        100.0 * m.spread
    )
}

fn cpu() -> Measuree {
    Measuree { name: "multicore:0".into(), software: false, is_host: true }
}

fn commit() -> String {
    let output = Command::new("git").args(["rev-parse", "--short", "HEAD"]).output();
    let text = output
        .ok()
        .filter(|o| o.status.success())
        .map(|o| String::from_utf8_lossy(&o.stdout).trim().to_string());
    text.unwrap_or_else(|| "unknown".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(name: &str, software: bool, is_host: bool) -> Measuree {
        Measuree { name: name.into(), software, is_host }
    }

    #[test]
    fn what_software_imitates_is_compared_with_itself_alone() {
        let gpu = device("wgpu:0 (H200)", false, false);
        let software = device("wgpu:0 (llvmpipe)", true, false);
        let host = device("inline:0", false, true);
        let report = |device: &Measuree| Report::new(1, device.clone(), Overhead::default());
        assert!(report(&software).check_comparable(&software).is_ok());
        assert!(report(&host).check_comparable(&cpu()).is_ok());
        for (earlier, now) in [(&gpu, &software), (&software, &gpu), (&host, &software), (&gpu, &host)] {
            let error = report(earlier).check_comparable(now).unwrap_err().to_string();
            assert!(error.contains(&earlier.name) && error.contains(&now.name), "{error}");
        }
    }

    #[test]
    fn reports_from_before_devices_were_named_are_about_the_cpu() {
        let report: Report =
            serde_json::from_str(r#"{ "threads": 1, "commit": "x", "results": {} }"#).unwrap();
        assert!(report.check_comparable(&cpu()).is_ok());
    }
}
