//! The table on the terminal: a line per case, and what all cases say together.

use std::fmt::Write as _;

use super::{Report, geometric_mean};
use crate::measure::{Measured, PeerTime};

/// The columns that every table has.
const HEADING: &str = "case                        median us    best us   cold ms   GFLOP/s      GB/s  spread  of roofline  of peak";

impl Report {
    /// The first line of the table.
    pub(crate) fn heading(&self) -> String {
        let peers = self.peers.iter().map(|(name, _)| format!(" {:>width$}", name, width = width(name)));
        HEADING.to_owned() + &peers.collect::<String>()
    }

    /// One line of the table: under each peer, how many times as long as we it takes. With an earlier report, how many times
    /// as fast as then we are.
    pub(crate) fn line(&self, name: &str, m: &Measured, earlier: Option<&Report>) -> String {
        let ratio = earlier.and_then(|report| report.results.get(name)).map(|then| then.us / m.us);
        let ratio = ratio.map_or(String::new(), |r| format!("   {r:.2}x as fast as before"));
        let roofline = if m.roofline > 0.0 { format!("{:.0}%", 100.0 * m.roofline) } else { "-".into() };
        let peak = m.of_peak.map_or_else(|| "-".into(), |part| format!("{:.0}%", 100.0 * part));
        let mut line = format!(
            "{name:<24} {:>12.1} {:>10.1} {:>9.2} {:>9.2} {:>9.2} {:>6.0}% {roofline:>12} {peak:>8}",
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
        line + &ratio
    }

    /// What follows the table: how peers do on the whole, and what their compiling takes. Empty without peers.
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
                let _ = write!(text, "; compiling {mean:.0}x, at least {least:.0}x");
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
