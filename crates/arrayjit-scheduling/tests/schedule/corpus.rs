//! Every run of the corpus, as written and optimised, keeps its bits after every pass of the scheduler.

use super::common::{Case, check, check_gpu};
use lowered_ir::interp::Memory;
use lowered_ir::ir::Routine;
use lowered_ir::pipeline::{OptimizeSettings, optimize};

#[test]
fn every_run_keeps_its_bits_through_every_step() {
    let mut count = 0;
    for case in filetests::run_cases() {
        let memory = Memory { nodes: case.inputs.clone(), merge: case.merge.clone() };
        let run =
            |routine: Routine| Case { routine, memory: memory.clone(), bindings: case.bindings.clone() };
        if !case.routine.nodes.iter().any(|node| node.mode.known_virtual()) {
            check(&run(case.routine.clone()));
            check_gpu(&run(case.routine.clone()));
        }
        if let Ok(optimized) = optimize(case.routine.clone(), &OptimizeSettings::default()) {
            check(&run(optimized.routine.clone()));
            check_gpu(&run(optimized.routine));
        }
        count += 1;
    }
    assert!(count > 20, "found {count} runs only");
}
