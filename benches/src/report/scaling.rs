//! The times of several runs, each on another number of threads, as one table.

use std::{collections::BTreeSet, fmt::Write as _};

use super::Report;
use crate::measure::Measured;

/// A table of a line per case and program: the median time on each number of threads, and how many times as
/// fast it is as on the fewest. After it, the cost of waiting threads.
pub(crate) fn table(mut reports: Vec<Report>) -> String {
    reports.sort_by_key(|report| report.threads);
    let cases: BTreeSet<&str> =
        reports.iter().flat_map(|report| report.results.keys().map(String::as_str)).collect();
    let peers: BTreeSet<&str> =
        reports.iter().flat_map(|report| report.peers.iter().map(|(name, _)| name.as_str())).collect();
    let mut text = format!("{:<32} {:<14}", "median us", "threads");
    reports.iter().for_each(|report| {
        let _ = write!(text, " {:>18}", report.threads);
    });
    for case in cases {
        let mut line = |program: &str, time: &dyn Fn(&Measured) -> Option<f64>| {
            let times = reports.iter().map(|report| report.results.get(case).and_then(time));
            let times: Vec<Option<f64>> = times.collect();
            let Some(first) = times.iter().flatten().next() else { return };
            let _ = write!(text, "\n{case:<32} {program:<14}");
            for time in &times {
                let cell = time.map_or_else(|| "-".into(), |us| format!("{us:.1} {:>6.2}x", first / us));
                let _ = write!(text, " {cell:>18}");
            }
        };
        line("ours", &|measured| Some(measured.us));
        for peer in &peers {
            line(peer, &|measured| measured.peers.get(*peer).map(|peer| peer.us));
        }
    }
    for report in &reports {
        if let Some(idle) = &report.idle {
            let _ = write!(text, "\n{} threads: {idle}", report.threads);
        }
    }
    text + "\n"
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::{
        device::{MeasuredDevice, Overhead},
        idle::IdleCost,
        measure::PeerTime,
    };

    fn report(threads: usize, cases: &[(&str, f64, Option<f64>)]) -> Report {
        let mut report = Report::new(threads, MeasuredDevice::default(), Overhead::default(), None, &[]);
        report.add_peer("torch");
        for (name, us, theirs) in cases {
            let mut measured = Measured { us: *us, ..Measured::default() };
            if let Some(us) = *theirs {
                let (cold_ms, cold_ratio, peak_bytes) = (None, None, None);
                let time = PeerTime { us, best_us: us, ratio: 1.0, cold_ms, cold_ratio, peak_bytes };
                measured.peers.insert("torch".into(), time);
            }
            report.insert(name, measured);
        }
        report
    }

    #[test]
    fn programs_are_compared_with_themselves_on_the_fewest_threads() {
        let two = report(2, &[("matmul", 60.0, Some(100.0)), ("sum", 5.0, None)]);
        let mut one = report(1, &[("matmul", 90.0, Some(150.0))]);
        one.set_idle(Some(IdleCost {
            after_run_ms: 1.0,
            asleep_ms_per_s: 0.5,
            awake_us: 2.0,
            woken_us: 3.0,
        }));
        expect![[r#"
            median us                        threads                         1                  2
            matmul                           ours                 90.0   1.00x       60.0   1.50x
            matmul                           torch               150.0   1.00x      100.0   1.50x
            sum                              ours                            -        5.0   1.00x
            1 threads: waiting threads use 1.00 ms of processor time after a run, then 0.50 ms per second; a run of 2.0 us takes 3.0 us when it wakes them
        "#]]
        .assert_eq(&table(vec![two, one]));
    }
}
