//! Every run of the corpus keeps its bits through the scheduler, step by step.

use super::common::{Case, check};
use lowered_ir::interp::Memory;

#[test]
fn every_run_keeps_its_bits_through_every_step() {
    let mut count = 0;
    for case in filetests::run_cases() {
        let memory = Memory { nodes: case.inputs.clone(), merge: case.merge.clone() };
        check(&Case { routine: case.routine.clone(), memory, bindings: case.bindings.clone() });
        count += 1;
    }
    assert!(count > 20, "found {count} runs only");
}
