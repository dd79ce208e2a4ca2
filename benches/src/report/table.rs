//! The table on the terminal: a line per case, and a summary over all cases.

use std::fmt::Write as _;

use arrayjit::profile::Roofline;

use super::{Report, geometric_mean};
use crate::measure::{Measured, PeerTime};

/// The columns that every table has.
const HEADING: &str =
    "case                        median us    best us   cold ms   GFLOP/s      GB/s  spread";
/// The peer whose performance is taken as the limit of a GPU.
const YARDSTICK: &str = "cublas";

impl Report {
    /// The first line of the table. The last two columns compare with the measured limits on cores, and
    /// elsewhere with the measured copy and with cuBLAS.
    pub(crate) fn heading(&self) -> String {
        let peers = self.peers.iter().map(|(name, _)| format!(" {:>width$}", name, width = width(name)));
        let limits = if self.device.is_host { ["of roofline", "of peak"] } else { ["of copy", "of cublas"] };
        let tuned = if self.has_tuned { "  tuned gain  of best" } else { "" };
        format!("{HEADING} {:>12} {:>9}", limits[0], limits[1]) + &peers.collect::<String>() + tuned
    }

    /// One line of the table: for each peer, its time over ours; by how much tuned kernels are faster. With
    /// an earlier report, the earlier time over the current one.
    pub(crate) fn line(&self, name: &str, m: &Measured, earlier: Option<&Report>) -> String {
        let ratio = earlier.and_then(|report| report.results.get(name)).map(|then| then.us / m.us);
        let ratio = ratio.map_or(String::new(), |r| format!("   {r:.2}x as fast as before"));
        let percent =
            |part: Option<f64>| part.map_or_else(|| "-".into(), |part| format!("{:.0}%", 100.0 * part));
        let [bandwidth, arithmetic] = self.of_limits(m).map(percent);
        let mut line = format!(
            "{name:<24} {:>12.1} {:>10.1} {:>9.2} {:>9.2} {:>9.2} {:>6.0}% {bandwidth:>12} {arithmetic:>9}",
            m.us,
            m.best_us,
            m.cold_ms,
            m.gflops,
            m.gbps,
            100.0 * m.spread
        );
        for (peer, _) in &self.peers {
            let ratio = m.peers.get(peer).map_or_else(|| "-".into(), |peer| format!("{:.2}x", peer.ratio));
            line += &format!(" {ratio:>width$}", width = width(peer));
        }
        if self.has_tuned {
            let gain = m.tuned.map_or_else(|| ["-", "-"].map(String::from), |gain| gain.percent());
            line += &format!(" {:>11} {:>8}", gain[0], gain[1]);
        }
        line + &ratio
    }

    /// The fractions that a case achieves of the device's measured limits: of memory bandwidth, and of
    /// arithmetic.
    pub(super) fn of_limits(&self, m: &Measured) -> [Option<f64>; 2] {
        match self.device.is_host {
            true => [(m.roofline > 0.0).then_some(m.roofline), m.of_peak],
            false => [m.of_copy, m.peers.get(YARDSTICK).map(|peer| peer.ratio)],
        }
    }

    /// The limits of this machine's cores, if they were measured.
    pub(super) fn host_roofline(&self) -> Option<&Roofline> {
        self.roofline.as_ref().filter(|_| self.device.is_host)
    }

    /// The text after the table for cases with peers: the cold starts, and the peaks of memory if they were
    /// measured.
    pub(crate) fn costs(&self) -> String {
        let cold = |m: &Measured| Some(m.cold_ms);
        let mib = |bytes: f64| bytes / f64::from(1 << 20);
        let peak = move |m: &Measured| m.peak_bytes.map(mib);
        self.cost("cold start, ms", cold, |peer| peer.cold_ms)
            + &self.cost("peak memory, MiB", peak, move |peer| peer.peak_bytes.map(mib))
    }

    /// A table of one kind of cost, ours and that of peers; empty if none is known.
    fn cost(
        &self,
        heading: &str,
        ours: impl Fn(&Measured) -> Option<f64>,
        theirs: impl Fn(&PeerTime) -> Option<f64>,
    ) -> String {
        let known: Vec<&(String, String)> = self
            .peers
            .iter()
            .filter(|(name, _)| {
                self.results.values().any(|m| m.peers.get(name).is_some_and(|p| theirs(p).is_some()))
            })
            .collect();
        let cases: Vec<_> = self.in_order().filter_map(|(name, m)| Some((name, m, ours(m)?))).collect();
        if cases.is_empty() || known.is_empty() {
            return String::new();
        }
        let mut text = format!("{heading:<24} {:>12}", "ours");
        known.iter().for_each(|(name, _)| text += &format!(" {name:>13}"));
        for (name, m, ours) in cases.iter().filter(|(_, m, _)| !m.peers.is_empty()) {
            let _ = write!(text, "\n{name:<24} {ours:>12.1}");
            for (peer, _) in &known {
                let theirs = m.peers.get(peer).and_then(&theirs);
                let cell = theirs.map_or_else(|| "-".into(), |value| format!("{value:.1}"));
                let _ = write!(text, " {cell:>13}");
            }
        }
        text + "\n"
    }

    /// The text after the table: the mean ratios of peers, and their compile times. Empty without peers.
    pub(crate) fn summary(&self) -> String {
        let mut text = String::new();
        for (peer, version) in &self.peers {
            let ratios = |of: fn(&PeerTime) -> Option<f64>| -> Vec<f64> {
                let measured = self.results.values().filter_map(|measured| measured.peers.get(peer));
                measured.filter_map(of).collect()
            };
            let (warm, cold) = (ratios(|peer| Some(peer.ratio)), ratios(|peer| peer.cold_ratio));
            let Some(mean) = geometric_mean(&warm) else { continue };
            let slowest = warm.iter().copied().fold(f64::INFINITY, f64::min);
            let name = format!("{peer} {version}");
            let _ = write!(
                text,
                "{:<24} takes {mean:.2}x as long as we in the geometric mean of {} cases, at least {slowest:.2}x",
                name.trim_end(),
                warm.len()
            );
            if let Some(mean) = geometric_mean(&cold) {
                let least = cold.iter().copied().fold(f64::INFINITY, f64::min);
                let _ = write!(text, "; starting cold {mean:.1}x, at least {least:.1}x");
            }
            text.push('\n');
        }
        text
    }
}

/// The width of a peer's column.
fn width(name: &str) -> usize {
    name.len().max(7)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{MeasuredDevice, Overhead};

    fn lines(is_host: bool, measured: &Measured) -> [String; 2] {
        let device = MeasuredDevice { name: "a device".into(), software: false, is_host };
        let mut report = Report::new(1, device, Overhead::default(), None, &[]);
        if measured.tuned.is_some() {
            report.add_tuned();
        }
        report.peers = vec![("cublas".into(), "120500".into())];
        [report.heading(), report.line("gemm_bf16_1024", measured, None)]
    }

    #[test]
    fn costs_have_a_line_per_case_with_a_peer_that_reports_them() {
        let device = MeasuredDevice { name: "a device".into(), software: false, is_host: true };
        let mut report = Report::new(1, device, Overhead::default(), None, &[]);
        report.peers = vec![("jax".into(), "1.2".into()), ("gemm".into(), "0.1".into())];
        let mut peer = PeerTime {
            us: 5.0,
            best_us: 5.0,
            ratio: 1.0,
            cold_ms: Some(90.0),
            cold_ratio: None,
            peak_bytes: None,
        };
        let measured = |peer: &PeerTime| Measured {
            cold_ms: 12.25,
            peak_bytes: Some(3e6),
            peers: [("jax".to_owned(), peer.clone())].into(),
            ..Measured::default()
        };
        report.insert("heat", measured(&peer));
        report.insert("alone", Measured::default());
        let costs = report.costs();
        assert_eq!(costs.lines().count(), 2, "{costs}");
        assert!(costs.contains("12.2") && costs.contains("90.0") && !costs.contains("gemm"), "{costs}");
        peer.peak_bytes = Some(8.0 * f64::from(1 << 20));
        report.insert("heat", measured(&peer));
        let costs = report.costs();
        assert!(
            costs.contains("peak memory, MiB") && costs.contains("2.9") && costs.contains("8.0"),
            "{costs}"
        );
    }

    #[test]
    fn gpus_are_compared_with_copies_and_cublas_and_cores_with_their_peak() {
        let peer = PeerTime {
            us: 5.0,
            best_us: 5.0,
            ratio: 0.62,
            cold_ms: None,
            cold_ratio: None,
            peak_bytes: None,
        };
        let peers = [("cublas".to_owned(), peer)].into();
        let of_copy = Some(0.91);
        let measured =
            Measured { us: 10.0, roofline: 0.5, of_peak: Some(0.25), of_copy, peers, ..Measured::default() };
        let [heading, line] = lines(false, &measured);
        assert!(heading.contains("of copy") && heading.contains("of cublas"), "{heading}");
        assert!(line.contains("91%") && line.contains("62%") && line.ends_with("0.62x"), "{line}");
        assert_eq!(heading.len(), line.len(), "\n{heading}\n{line}");
        let tuned = Some(crate::tuned::TunedGain { median: 1.072, best: 0.99 });
        let [heading, line] = lines(false, &Measured { tuned, ..measured.clone() });
        assert!(heading.ends_with("tuned gain  of best") && line.ends_with("  +7.2%    -1.0%"), "{line}");
        assert_eq!(heading.len(), line.len(), "\n{heading}\n{line}");
        let [heading, line] = lines(true, &measured);
        assert!(heading.contains("of roofline") && line.contains("50%") && line.contains("25%"), "{line}");
    }
}
