//! Compares random routines on a GPU with the interpreter. They are few for
//! every change, because a shader compiler takes about 30 ms for a kernel.

use std::collections::BTreeMap;

use codegen_testkit::{Agreement, Outcome, bounds::Closeness, run_generated_on};
use filetests::generate::routine_from_seed;
use random_programs::{bytes_of_seed, effort};

use crate::gpu;

#[test]
fn random_routines_on_the_gpu() {
    let Some(gpu) = gpu("random_routines_on_the_gpu") else { return };
    let (mut close, mut skips, mut passed) = (Closeness::default(), BTreeMap::<String, usize>::new(), 0);
    let mut failures = Vec::new();
    let seeds = effort::seeds(30);
    let count = seeds.clone().count();
    for seed in seeds {
        let (routine, bytes) = (routine_from_seed(seed, 200), bytes_of_seed(seed ^ 0x5eed, 4096));
        match run_generated_on(gpu.codegen(), &gpu.device, &routine, &bytes, Agreement::Bounds) {
            Ok(more) => (close, passed) = (close.and(more), passed + 1),
            Err(Outcome::Skipped(why)) => *skips.entry(why).or_default() += 1,
            Err(outcome) => failures.push(format!("seed {seed}: {outcome:?}")),
        }
    }
    println!("{passed} of {count} random routines: {close}");
    skips.iter().for_each(|(why, count)| println!("skip(random routine): {why} ({count})"));
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
    assert!(passed * 2 >= count, "only {passed} of {count} ran");
}
