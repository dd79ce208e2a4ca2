//! Results as a table on the terminal and as JSON.

use std::{collections::BTreeMap, path::Path, process::Command};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::measure::Measured;

/// The JSON of one run. Fields may be added, none renamed.
#[derive(Serialize, Deserialize)]
pub(crate) struct Report {
    threads: usize,
    commit: String,
    results: BTreeMap<String, Measured>,
}

/// The first line of the table.
pub(crate) const HEADING: &str =
    "case                        median us    best us   cold ms   GFLOP/s      GB/s  spread  of roofline";

impl Report {
    /// An empty report of this commit.
    pub(crate) fn new(threads: usize) -> Report {
        Report { threads, commit: commit(), results: BTreeMap::new() }
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
    format!(
        "{name:<24} {:>12.1} {:>10.1} {:>9.2} {:>9.2} {:>9.2} {:>6.0}% {:>11.0}%{ratio}",
        m.us,
        m.best_us,
        m.cold_ms,
        m.gflops,
        m.gbps,
        100.0 * m.spread,
        100.0 * m.roofline
    )
}

fn commit() -> String {
    let output = Command::new("git").args(["rev-parse", "--short", "HEAD"]).output();
    let text = output
        .ok()
        .filter(|o| o.status.success())
        .map(|o| String::from_utf8_lossy(&o.stdout).trim().to_string());
    text.unwrap_or_else(|| "unknown".into())
}
