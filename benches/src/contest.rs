//! Times several programs in turns, so that disturbances of the machine affect them equally.

use std::{
    thread,
    time::{Duration, Instant},
};

use anyhow::Result;

use crate::{measure::Effort, peers::Contestant};

/// The size of a sample: successive runs with one wait at the end, long enough that the resolution of the
/// clock, submission and wake-up times are negligible.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    /// The intended duration in microseconds.
    micros: f64,
    /// The most runs.
    most_runs: f64,
}

impl Sample {
    /// The sample on this machine's cores.
    pub(crate) const HOST: Sample = Sample { micros: 1500.0, most_runs: 256.0 };
    /// The sample on a GPU, where submission and waiting take some tens of microseconds: less than a
    /// hundredth of the sample.
    pub(crate) const GPU: Sample = Sample { micros: 10_000.0, most_runs: 2048.0 };
}

/// The fewest rounds.
const FEWEST: usize = 9;
/// The most rounds.
const MOST: usize = 500;
/// The time limit of the rounds, for each contestant.
const TIME: Duration = Duration::from_millis(700);
/// The pause between contestants on several threads: as long as the threads of a pool spin before they sleep.
const REST: Duration = Duration::from_millis(8);

/// Microseconds per run of each contestant in each round.
///
/// # Errors
///
/// The error of a contestant.
pub(crate) fn times(
    contestants: &mut [Box<dyn Contestant + '_>],
    threads: usize,
    sample: Sample,
    effort: Effort,
) -> Result<Vec<Vec<f64>>> {
    let mut times = vec![Vec::new(); contestants.len()];
    let rest = if threads == 1 || contestants.len() == 1 { Duration::ZERO } else { REST };
    let batches = match effort {
        Effort::Smoke => vec![1; contestants.len()],
        Effort::Full => {
            contestants.iter_mut().map(|step| batch(step.as_mut(), sample)).collect::<Result<_>>()?
        }
    };
    let (start, time) = (Instant::now(), TIME * contestants.len() as u32);
    loop {
        for ((step, batch), times) in contestants.iter_mut().zip(&batches).zip(&mut times) {
            thread::sleep(rest);
            times.push(step.run(*batch)? * 1e6 / *batch as f64);
        }
        let rounds = times[0].len();
        if effort == Effort::Smoke || rounds >= MOST || (rounds >= FEWEST && start.elapsed() > time) {
            return Ok(times);
        }
    }
}

/// The number of runs per sample.
fn batch(step: &mut dyn Contestant, sample: Sample) -> Result<usize> {
    let one = (step.run(3)? * 1e6 / 3.0).max(0.01);
    Ok((sample.micros / one).clamp(1.0, sample.most_runs) as usize)
}

/// The value below which this fraction of the sorted values lies.
pub(crate) fn quantile(sorted: &[f64], part: f64) -> f64 {
    sorted[((sorted.len() - 1) as f64 * part).round() as usize]
}

/// The median of values in any order.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    quantile(&values, 0.5)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A contestant that takes a given number of seconds per run, and records the order of calls.
    struct FixedTime<'a>(f64, &'a std::cell::RefCell<Vec<f64>>);

    impl Contestant for FixedTime<'_> {
        fn run(&mut self, count: usize) -> Result<f64> {
            self.1.borrow_mut().push(self.0);
            Ok(self.0 * count as f64)
        }
    }

    #[test]
    fn contestants_take_turns() {
        let order = std::cell::RefCell::new(Vec::new());
        let mut steps: Vec<Box<dyn Contestant>> =
            vec![Box::new(FixedTime(0.5, &order)), Box::new(FixedTime(0.25, &order))];
        let times = times(&mut steps, 1, Sample::HOST, Effort::Full).unwrap();
        let order = order.borrow();
        assert!(times[0].len() >= FEWEST && times[0].len() == times[1].len());
        assert!(order.chunks_exact(2).all(|pair| pair == [0.5, 0.25]));
        assert!(times[0].iter().all(|us| *us == 0.5e6) && times[1].iter().all(|us| *us == 0.25e6));
    }

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(quantile(&[1.0, 2.0, 3.0, 4.0, 5.0], 0.9), 5.0);
    }
}
