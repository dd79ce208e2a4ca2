//! The records in the repository: `benches/results/DATE-threads-N.jsonl`, a line of JSON per case and run.

use std::{
    fs::OpenOptions,
    io::Write as _,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use serde::Serialize;

use super::Report;
use crate::measure::Measured;

/// The line of a case in a record. Fields may be added, none renamed.
#[derive(Serialize)]
struct Line<'a> {
    case: &'a str,
    date: &'a str,
    commit: &'a str,
    device: &'a str,
    threads: usize,
    /// The processor.
    cpu: &'a str,
    /// The peak of these cores on the measured number of threads, in giga f32 operations per second.
    peak_gflops: f64,
    #[serde(flatten)]
    measured: &'a Measured,
}

impl Report {
    /// Appends every case to the record of the day and number of threads, and returns the path of the record.
    ///
    /// # Errors
    ///
    /// The path of the file, and the error.
    pub(crate) fn record(&self) -> Result<PathBuf> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("results");
        let path = folder.join(format!("{}-threads-{}.jsonl", self.date, self.threads));
        let text = self.lines()?;
        let file = OpenOptions::new().append(true).create(true).open(&path);
        file.and_then(|mut file| file.write_all(text.as_bytes()))
            .with_context(|| format!("appending to {}", path.display()))?;
        Ok(path)
    }

    /// All lines of the record.
    fn lines(&self) -> Result<String> {
        let mut text = String::new();
        let peak_gflops = self.host_roofline().map_or(0.0, |roofline| roofline.flops / 1e9);
        for (case, measured) in self.in_order() {
            let line = Line {
                case,
                date: &self.date,
                commit: &self.commit,
                device: &self.device.name,
                threads: self.threads,
                cpu: self.machine.as_ref().map_or("", |machine| &machine.cpu),
                peak_gflops,
                measured,
            };
            text += &(serde_json::to_string(&line)? + "\n");
        }
        Ok(text)
    }
}
