//! Results as a table on the terminal, as JSON, as a page, and as records in the repository.

mod page;
mod plots;
mod record;
pub(crate) mod scaling;
mod table;

use std::{collections::BTreeMap, path::Path, process::Command};

use anyhow::{Context, Result, ensure};
use arrayjit::{
    Backend,
    profile::{Profile, Roofline},
};
use serde::{Deserialize, Serialize};

use crate::{
    device::{MeasuredDevice, Overhead},
    growth::Growth,
    idle::IdleCost,
    machine::Machine,
    measure::Measured,
    peers::Peer,
};

/// The JSON of one run. Fields may be added, none renamed.
#[derive(Serialize, Deserialize)]
pub(crate) struct Report {
    threads: usize,
    commit: String,
    /// The day, in universal time.
    #[serde(default)]
    date: String,
    /// Reports of older programs lack the field; they are about the CPU.
    #[serde(default = "cpu")]
    device: MeasuredDevice,
    #[serde(default)]
    overhead: Overhead,
    /// The machine, if its cores were measured.
    #[serde(default)]
    machine: Option<Machine>,
    /// The limits of the cores or of the GPU.
    #[serde(default)]
    roofline: Option<Roofline>,
    /// The names and versions of the measured peers.
    #[serde(default)]
    peers: Vec<(String, String)>,
    results: BTreeMap<String, Measured>,
    /// The names of the cases that the run has begun to measure.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    begun: Vec<String>,
    /// The cost of waiting threads, if it was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    idle: Option<IdleCost>,
    /// The profiles of the kernel calls of cases, if they were asked for, in the form of
    /// [`arrayjit::profile::Profile`].
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    kernels: BTreeMap<String, serde_json::Value>,
    /// Compile time by program size, measured for pages only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    growth: Vec<Growth>,
    /// Whether the table has the gain of tuned kernels.
    #[serde(skip)]
    has_tuned: bool,
    /// The names of the cases in the order of execution.
    #[serde(skip)]
    order: Vec<String>,
}

impl Report {
    /// An empty report of the current commit and day.
    pub(crate) fn new(
        threads: usize,
        device: MeasuredDevice,
        overhead: Overhead,
        machine: Option<Machine>,
        peers: &[Box<dyn Peer>],
    ) -> Report {
        let date = jiff::Timestamp::now().strftime("%Y-%m-%d").to_string();
        let peers = peers.iter().map(|peer| (peer.name().into(), peer.version().into())).collect();
        let (results, kernels, roofline) = (BTreeMap::new(), BTreeMap::new(), None);
        let (growth, order, commit) = (Vec::new(), Vec::new(), commit());
        Report {
            has_tuned: false,
            threads,
            commit,
            date,
            device,
            overhead,
            machine,
            roofline,
            peers,
            results,
            begun: Vec::new(),
            idle: None,
            kernels,
            growth,
            order,
        }
    }

    /// Takes over what an interrupted run of the same measurement has written.
    ///
    /// # Errors
    ///
    /// The commit, the device or the number of threads is another one.
    pub(crate) fn resume(&mut self, earlier: Report) -> Result<()> {
        let run = |report: &Report| {
            let Report { commit, device, threads, .. } = report;
            format!("commit {commit} on {device} with {threads} thread(s)")
        };
        let (then, now) = (run(&earlier), run(self));
        ensure!(then == now, "the earlier run is of {then}, this one of {now}: it cannot be resumed");
        let Report { results, kernels, begun, .. } = earlier;
        self.order = results.keys().cloned().collect();
        (self.results, self.kernels, self.begun) = (results, kernels, begun);
        Ok(())
    }

    /// Whether the case is measured.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.results.contains_key(name)
    }

    /// Whether a run has begun to measure the case.
    pub(crate) fn has_begun(&self, name: &str) -> bool {
        self.begun.iter().any(|begun| begun == name)
    }

    /// Notes that a case is about to be measured.
    pub(crate) fn begin(&mut self, name: &str) {
        if !self.has_begun(name) {
            self.begun.push(name.into());
        }
    }

    /// Adds the cost of waiting threads.
    pub(crate) fn set_idle(&mut self, idle: Option<IdleCost>) {
        self.idle = idle;
    }

    /// Adds backends that are measured as peers.
    pub(crate) fn add_rivals(&mut self, rivals: &[Backend]) {
        rivals.iter().for_each(|rival| self.add_peer(rival.name()));
    }

    /// Adds a peer that this commit compiles.
    pub(crate) fn add_peer(&mut self, name: &str) {
        self.peers.push((name.to_owned(), "of this commit".to_owned()));
    }

    /// Adds the gain of tuned kernels to the table.
    pub(crate) fn add_tuned(&mut self) {
        self.has_tuned = true;
    }

    /// Whether the report is about this machine's cores.
    pub(crate) fn is_about_host(&self) -> bool {
        self.device.is_host
    }

    /// Adds compile times by program size.
    pub(crate) fn set_growth(&mut self, growth: Vec<Growth>) {
        self.growth = growth;
    }

    /// Adds the limits of the device.
    pub(crate) fn set_roofline(&mut self, roofline: Option<Roofline>) {
        self.roofline = roofline;
    }

    /// Fails unless figures of the device are comparable with the report's: hosts are compared with hosts,
    /// other devices with the same device, and a software emulation never with hardware.
    ///
    /// # Errors
    ///
    /// The names of both devices.
    pub(crate) fn check_comparable(&self, device: &MeasuredDevice) -> Result<()> {
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
        self.order.push(name.into());
        self.results.insert(name.into(), measured);
    }

    /// Adds the profile of a case's kernel calls.
    ///
    /// # Errors
    ///
    /// A number that JSON does not have.
    pub(crate) fn insert_kernels(&mut self, name: &str, profile: &Profile) -> Result<()> {
        self.kernels.insert(name.into(), serde_json::to_value(profile)?);
        Ok(())
    }

    /// Every case and its result, in the order of execution.
    pub(crate) fn in_order(&self) -> impl Iterator<Item = (&str, &Measured)> {
        self.order.iter().filter_map(|name| Some((name.as_str(), self.results.get(name)?)))
    }

    /// Writes the report.
    ///
    /// # Errors
    ///
    /// The path of the file, and the error.
    pub(crate) fn write(&self, path: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(self)?;
        std::fs::write(path, text + "\n").with_context(|| format!("writing {}", path.display()))
    }
}

/// Reads an earlier report.
///
/// # Errors
///
/// The path of the file, and the error.
pub(crate) fn read(path: &Path) -> Result<Report> {
    let text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} is not a report", path.display()))
}

/// The geometric mean; `None` for an empty slice.
fn geometric_mean(values: &[f64]) -> Option<f64> {
    let sum: f64 = values.iter().map(|value| value.ln()).sum();
    (!values.is_empty()).then(|| (sum / values.len() as f64).exp())
}

fn cpu() -> MeasuredDevice {
    MeasuredDevice { name: "multicore:0".into(), software: false, is_host: true }
}

/// The commit of the surrounding repository. Where there is none, as in an archive of programs, the
/// environment variable `BENCH_COMMIT` has it.
fn commit() -> String {
    if let Ok(commit) = std::env::var("BENCH_COMMIT") {
        return commit;
    }
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

    fn device(name: &str, software: bool, is_host: bool) -> MeasuredDevice {
        MeasuredDevice { name: name.into(), software, is_host }
    }

    #[test]
    fn what_software_imitates_is_compared_with_itself_alone() {
        let gpu = device("wgpu:0 (H200)", false, false);
        let software = device("wgpu:0 (llvmpipe)", true, false);
        let host = device("inline:0", false, true);
        let report = |device: &MeasuredDevice| Report::new(1, device.clone(), Overhead::default(), None, &[]);
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

    #[test]
    fn an_interrupted_run_is_resumed_by_the_same_run_only() {
        let report = |threads| Report::new(threads, cpu(), Overhead::default(), None, &[]);
        let mut earlier = report(2);
        ["done", "interrupted"].into_iter().for_each(|name| earlier.begin(name));
        earlier.insert("done", Measured { us: 3.0, ..Measured::default() });
        let written = || serde_json::from_str::<Report>(&serde_json::to_string(&earlier).unwrap()).unwrap();
        let mut now = report(2);
        now.resume(written()).unwrap();
        assert!(now.has("done") && !now.has("interrupted"));
        assert!(now.has_begun("interrupted") && !now.has_begun("later"));
        assert_eq!(
            now.in_order().map(|(name, measured)| (name, measured.us)).collect::<Vec<_>>(),
            [("done", 3.0)]
        );
        let error = report(1).resume(written()).unwrap_err().to_string();
        assert!(error.contains("with 2 thread(s)") && error.contains("with 1 thread(s)"), "{error}");
    }

    #[test]
    fn the_geometric_mean_of_a_number_and_its_inverse_is_one() {
        assert!((geometric_mean(&[4.0, 0.25]).unwrap() - 1.0).abs() < 1e-12);
        assert_eq!(geometric_mean(&[]), None);
    }
}
