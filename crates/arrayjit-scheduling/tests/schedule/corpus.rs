//! Every run of the corpus, as written and optimized, keeps its bits after every pass of the scheduler.

use super::common::{check, check_gpu};
use filetests::RunCase;
use lowered_ir::pipeline::{OptimizeSettings, optimize};

#[test]
fn every_run_keeps_its_bits_through_every_step() {
    let mut count = 0;
    for case in filetests::run_cases() {
        if !case.routine.nodes.iter().any(|node| node.mode.known_virtual()) {
            check(&case);
            check_gpu(&case);
        }
        if let Ok(optimized) = optimize(case.routine.clone(), &OptimizeSettings::default()) {
            let case = RunCase { routine: optimized.routine, ..case };
            check(&case);
            check_gpu(&case);
        }
        count += 1;
    }
    assert!(count > 20, "found {count} runs only");
}
