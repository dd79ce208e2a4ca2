//! Routines drawn at random. `GPU_SEEDS` in the environment says how many, for long checks: every one is compiled.

use std::collections::BTreeMap;

use codegen_testkit::{Agreement, Outcome, bounds::Closeness, run_generated_on};
use filetests::generate::{bytes_of_seed, routine_from_seed};

use crate::gpu;

/// A compiler of shaders takes some 30 ms for a kernel.
fn seeds() -> u64 {
    std::env::var("GPU_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(60)
}

#[test]
fn random_routines_on_the_gpu() {
    let Some(gpu) = gpu("random_routines_on_the_gpu") else { return };
    let (mut close, mut skips, mut passed) = (Closeness::default(), BTreeMap::<String, usize>::new(), 0);
    let mut failures = Vec::new();
    for seed in 0..seeds() {
        let (routine, bytes) = (routine_from_seed(seed, 200), bytes_of_seed(seed ^ 0x5eed, 4096));
        match run_generated_on(gpu.codegen(), &gpu.device, &routine, &bytes, Agreement::Bounds) {
            Ok(more) => (close, passed) = (close.and(more), passed + 1),
            Err(Outcome::Skipped(why)) => *skips.entry(why).or_default() += 1,
            Err(outcome) => failures.push(format!("seed {seed}: {outcome:?}")),
        }
    }
    println!("{passed} of {} random routines: {close}", seeds());
    skips.iter().for_each(|(why, count)| println!("skip(random routine): {why} ({count})"));
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
    assert!(passed * 2 >= seeds(), "only {passed} of {} ran", seeds());
}
