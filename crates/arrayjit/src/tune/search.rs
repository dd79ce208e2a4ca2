//! The search: measures forms of a kernel in turns, and goes to the fastest until none near it is faster.

use std::{
    collections::BTreeSet,
    fmt,
    time::{Duration, Instant},
};

use codegen_core::{Codegen, Kernel, KernelChoice};

use super::scratch::{ScratchMemory, ScratchRun};

/// The running time from which on a kernel is not measured.
const LONGEST_RUN: Duration = Duration::from_millis(200);
/// The time of a sample: as many runs as fit.
const SAMPLE: Duration = Duration::from_micros(50);
/// The time of the rounds of one step of the search. It is exceeded if the fewest rounds take longer.
const STEP_TIME: Duration = Duration::from_millis(12);
/// The fewest and the most rounds of a step.
const ROUNDS: [usize; 2] = [3, 20];
/// A form leaves a step if its best sample takes this many times as long as that of the fastest form.
const HOPELESS: f64 = 1.15;
/// The most steps.
const STEPS: usize = 8;
/// The search goes on only from a form that is this many times as fast as the one before.
const STEP_GAIN: f64 = 1.01;
/// The rounds of the final comparison with the heuristics.
const FINAL_ROUNDS: usize = 15;
/// How many times as fast as the heuristics a form has to be.
const LEAST_GAIN: f64 = 1.03;

/// The result of a search.
#[derive(Debug)]
pub(crate) struct TuneResult {
    /// The fastest form; `None` if the heuristics are as fast.
    pub(super) choice: Option<KernelChoice>,
    /// How many times as fast as the heuristics it is; 1 for the heuristics.
    pub(super) gain: f64,
    /// The number of forms that were measured.
    forms: usize,
}

impl fmt::Display for TuneResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TuneResult { choice, gain, forms } = self;
        match choice {
            Some(choice) => {
                write!(f, "{choice} is {gain:.2} times as fast as the heuristics, best of {forms}")
            }
            None => write!(f, "the heuristics are the fastest of {forms}"),
        }
    }
}

/// A form of the kernel in a step.
struct Contestant {
    choice: Option<KernelChoice>,
    run: ScratchRun,
    best: Duration,
}

/// Searches for the fastest form of a kernel without a choice; `None` if there is one form alone, or if the
/// kernel cannot be measured.
pub(crate) fn search(codegen: &dyn Codegen, kernel: &Kernel) -> Option<TuneResult> {
    let alternatives = codegen.alternatives(kernel).ok()?;
    if alternatives.is_empty() {
        return None;
    }
    let memory = ScratchMemory::new(kernel)?;
    let form = |choice: Option<KernelChoice>| {
        let run = memory.link(codegen, kernel.clone().with_choice(choice.clone()))?;
        // The first run touches memory and caches.
        run.time(1)?;
        let best = run.time(1)?;
        Some(Contestant { choice, run, best })
    };
    let mut fastest = form(None)?;
    if fastest.best > LONGEST_RUN {
        return None;
    }
    let (mut near, mut seen) = (alternatives, BTreeSet::new());
    for _ in 0..STEPS {
        near.retain(|choice| seen.insert(choice.clone()));
        let before = fastest.choice.clone();
        let hopeless = fastest.best.mul_f64(2.0);
        let others = near.drain(..).filter_map(|choice| form(Some(choice)));
        let mut contestants = vec![fastest];
        contestants.extend(others.filter(|other| other.best <= hopeless));
        fastest = step(contestants)?;
        if fastest.choice == before {
            break;
        }
        near = codegen.alternatives(&kernel.clone().with_choice(fastest.choice.clone())).ok()?;
    }
    let forms = seen.len() + 1;
    let heuristics = Some(TuneResult { choice: None, gain: 1.0, forms });
    if fastest.choice.is_none() {
        return heuristics;
    }
    let gain = gain(&form(None)?.run, &fastest.run, samples(fastest.best))?;
    match gain >= LEAST_GAIN {
        true => Some(TuneResult { choice: fastest.choice, gain, forms }),
        false => heuristics,
    }
}

/// Measures forms in turns. Returns the fastest, or the first if no other is clearly faster.
fn step(mut contestants: Vec<Contestant>) -> Option<Contestant> {
    let start = Instant::now();
    for round in 0..ROUNDS[1] {
        for contestant in &mut contestants {
            let sample = contestant.run.time(samples(contestant.best))?;
            contestant.best = if round == 0 { sample } else { contestant.best.min(sample) };
        }
        let best = contestants.iter().map(|contestant| contestant.best).min()?;
        // The first form stays, because the others are compared with it.
        let mut is_first = true;
        contestants
            .retain(|contestant| std::mem::take(&mut is_first) || contestant.best <= best.mul_f64(HOPELESS));
        let is_late = round + 1 >= ROUNDS[0] && start.elapsed() > STEP_TIME;
        if contestants.len() == 1 || is_late {
            break;
        }
    }
    let first = contestants[0].best;
    let at = (0..contestants.len()).min_by_key(|at| contestants[*at].best)?;
    let is_faster = contestants[at].best.mul_f64(STEP_GAIN) < first;
    Some(contestants.swap_remove(if is_faster { at } else { 0 }))
}

/// How many times as fast the second form is: the lesser of the ratio of the best samples and the median
/// ratio, so that a disturbance of either does not count.
fn gain(heuristics: &ScratchRun, choice: &ScratchRun, count: u32) -> Option<f64> {
    let mut ratios = Vec::new();
    let mut best = [f64::INFINITY; 2];
    for _ in 0..FINAL_ROUNDS {
        let times = [heuristics.time(count)?.as_secs_f64(), choice.time(count)?.as_secs_f64()];
        best = [best[0].min(times[0]), best[1].min(times[1])];
        ratios.push(times[0] / times[1].max(f64::MIN_POSITIVE));
    }
    ratios.sort_by(f64::total_cmp);
    Some(ratios[ratios.len() / 2].min(best[0] / best[1].max(f64::MIN_POSITIVE)))
}

/// The number of runs per sample.
fn samples(run: Duration) -> u32 {
    (SAMPLE.as_nanos() / run.as_nanos().max(1)).clamp(1, 64) as u32
}
