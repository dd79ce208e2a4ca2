//! A page with charts, the whole table, and the circumstances of the measurement. It is one file and loads
//! nothing.

use std::{fmt::Write as _, path::Path};

use anyhow::{Context, Result};

use super::{Report, plots};
use crate::measure::Measured;

const STYLE: &str = "
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 1180px; padding: 0 1rem; color: #1c2430 }
h1 { font-size: 1.5rem } h2 { font-size: 1.15rem; margin-top: 2.2rem }
p { max-width: 46rem } .scroll { overflow-x: auto } svg { max-width: 100%; height: auto }
.bars { display: grid; grid-template-columns: repeat(auto-fit, minmax(520px, 1fr)); gap: 1rem }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 13px }
th, td { padding: .2rem .55rem; text-align: right; border-bottom: 1px solid #dde2e9; white-space: nowrap }
th:first-child, td:first-child { text-align: left }
.slower { color: #b3261e } dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1rem } dd { margin: 0 }
";

impl Report {
    /// Writes the page.
    ///
    /// # Errors
    ///
    /// The path of the file; and the error of a chart.
    pub(crate) fn write_page(&self, path: &Path) -> Result<()> {
        std::fs::write(path, self.page()?).with_context(|| format!("writing {}", path.display()))
    }

    fn page(&self) -> Result<String> {
        let title = format!("arrayjit {}: {} on {} thread(s)", self.commit, self.device.name, self.threads);
        let mut page = format!(
            "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>{0}</title><style>{STYLE}</style>\n<h1>{0}</h1>\n",
            escaped(&title)
        );
        page += &self.about();
        for (heading, text, picture) in [
            ("Square matrix products", PRODUCTS, plots::products(self)?),
            ("Roofline", ROOFLINE, plots::roofline(self)?),
            ("Time to compile", GROWTH, plots::growth(self)?),
        ] {
            if let Some(picture) = picture {
                let _ = write!(page, "<h2>{heading}</h2>\n<p>{text}</p>\n{picture}\n");
            }
        }
        if !self.peers.is_empty() {
            let _ = write!(page, "<h2>Peers</h2>\n<p>{PEERS}</p>\n<div class=\"bars\">\n");
            for (peer, version) in &self.peers {
                page.extend(plots::ratios(self, peer, version)?);
            }
            page += "</div>\n";
        }
        page += "<h2>All cases</h2>\n<div class=\"scroll\">";
        page += &self.table();
        page += "</div>\n</html>\n";
        Ok(page)
    }

    /// The machine, the versions, the day.
    fn about(&self) -> String {
        let mut rows = vec![("Date", self.date.clone()), ("Commit", self.commit.clone())];
        if let Some(machine) = &self.machine {
            rows.push(("Machine", machine.to_string()));
        }
        if let Some(roofline) = &self.roofline {
            rows.push(("Limits", roofline.to_string()));
        }
        let peers = self.peers.iter().map(|(name, version)| format!("{name} {version}").trim().to_owned());
        rows.push(("Peers", peers.collect::<Vec<_>>().join(", ")));
        rows.push(("Overhead", self.overhead.to_string()));
        let rows = rows.iter().map(|(name, value)| format!("<dt>{name}</dt><dd>{}</dd>\n", escaped(value)));
        format!("<dl>\n{}</dl>\n", rows.collect::<String>())
    }

    fn table(&self) -> String {
        let mut table = String::from(
            "<table>\n<tr><th>case<th>median µs<th>best µs<th>cold ms<th>GFLOP/s<th>GB/s<th>spread",
        );
        table += if self.device.is_host { "<th>of roofline<th>of peak" } else { "<th>of copy<th>of cuBLAS" };
        for (peer, _) in &self.peers {
            let _ = write!(table, "<th>{peer} µs<th>ratio<th>cold");
        }
        for (name, measured) in self.in_order() {
            let _ = write!(table, "\n<tr><td>{name}{}", self.cells(measured));
        }
        table + "\n</table>\n"
    }

    fn cells(&self, m: &Measured) -> String {
        let mut cells = format!(
            "<td>{:.1}<td>{:.1}<td>{:.2}<td>{:.2}<td>{:.2}<td>{:.0} %",
            m.us,
            m.best_us,
            m.cold_ms,
            m.gflops,
            m.gbps,
            100.0 * m.spread
        );
        for part in self.of_limits(m) {
            cells += &part.map_or("<td>".into(), |part| format!("<td>{:.0} %", 100.0 * part));
        }
        for (peer, _) in &self.peers {
            let Some(peer) = m.peers.get(peer) else {
                cells += "<td><td><td>";
                continue;
            };
            let class = if peer.ratio < 1.0 { " class=\"slower\"" } else { "" };
            let _ = write!(cells, "<td>{:.1}<td{class}>{:.2}×<td>", peer.us, peer.ratio);
            cells += &peer.cold_ratio.map_or(String::new(), |ratio| format!("{ratio:.0}×"));
        }
        cells
    }
}

const PRODUCTS: &str =
    "GFLOP/s by size, from medians. The gray line is the measured peak of fused multiply-adds.";
const ROOFLINE: &str = "Each point is a case: operations per byte that it must move, and the GFLOP/s that it reaches. The lines are what \
    the cores compute and what they copy, measured in the same run, for arrays that fit in the caches and for arrays that do not.";
const PEERS: &str = "The time of a peer over ours, the median over rounds in which both took turns: to the right of 1 ours is faster. In the \
    table, a cold ratio is the time that a peer needs to compile over ours.";

const GROWTH: &str = "From text to machine code by the number of statements, for families of programs that differ in how statements meet; \
    where a family has one statement, by its operands. The gray line is one millisecond for four statements.";

/// Escapes text for HTML.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use arrayjit::profile::{Bandwidth, Roofline};

    use super::*;
    use crate::{
        device::{MeasuredDevice, Overhead},
        growth::Growth,
        machine::Machine,
        measure::PeerTime,
    };

    fn report() -> Report {
        let bandwidths = vec![Bandwidth::new(1e5, 80e9), Bandwidth::new(1e8, 20e9)];
        let (cpu, last_cache) = ("A <fast> one".into(), 32 << 20);
        let machine = Machine { cpu, cores: 1, last_cache, ..Machine::default() };
        let device = MeasuredDevice { name: "multicore:0".into(), software: false, is_host: true };
        let mut report = Report::new(1, device, Overhead::default(), Some(machine), &[]);
        report.set_roofline(Some(Roofline::new(100e9, "a test", bandwidths)));
        report.peers = vec![("jax".into(), "1.2".into())];
        for (name, flops, ratio) in
            [("matmul_64", 5e5, 2.0), ("matmul_128", 4e6, 0.5), ("transpose_2048", 0.0, 1.5)]
        {
            let peer = PeerTime {
                us: ratio * 10.0,
                best_us: 9.0,
                ratio,
                cold_ms: Some(50.0),
                cold_ratio: Some(25.0),
                peak_bytes: None,
            };
            let peers = BTreeMap::from([("jax".to_owned(), peer)]);
            let (us, gflops, bytes) = (10.0, flops / 10.0 / 1e3, 5e4);
            report.insert(
                name,
                Measured { us, gflops, flops, bytes, roofline: 0.5, peers, ..Measured::default() },
            );
        }
        let points = vec![(125, 10.0), (4000, 400.0)];
        report.set_growth(vec![Growth { family: "self_updates".into(), points }]);
        report
    }

    #[test]
    fn a_page_is_one_file_with_all_pictures_and_every_case() {
        let page = report().page().unwrap();
        assert_eq!(page.matches("<svg").count(), 4);
        assert_eq!(page.matches("<tr>").count(), 4);
        assert!(page.contains("A &lt;fast&gt; one") && page.contains("<td>matmul_128"));
        let loads = ["src=", "href=", "@import", "<script"];
        assert!(loads.iter().all(|load| !page.contains(load)));
    }

    #[test]
    fn a_report_without_peers_and_products_has_a_page() {
        let mut report = report();
        report.peers.clear();
        report.set_growth(Vec::new());
        report.results.retain(|name, _| name.starts_with("transpose"));
        let page = report.page().unwrap();
        assert_eq!(page.matches("<svg").count(), 0);
    }
}
