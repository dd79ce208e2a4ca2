//! Random programs mean the same with and without declarations of their intermediates.

use assignment_text::Program;
use assignments::Assignments;
use assignments::lower::{LowerOptions, lower};
use random_programs::{ProgramWeights, effort, program_from_seed};
use tnode::{DType, MemoryMode, TensorNode};

/// The lowered routine without the memory modes of its nodes; `None` if the program is rejected.
fn routine(assignments: &Assignments) -> Option<String> {
    let lowered = lower(assignments, &LowerOptions::default()).ok()?.lowered;
    let without_mode = |line: &str| match line.trim_start().starts_with("node ") {
        true => line.split_inclusive(']').next().unwrap_or(line).to_owned(),
        false => line.to_owned(),
    };
    Some(lowered_ir::text::print(&lowered.routine).lines().map(|line| without_mode(line) + "\n").collect())
}

/// The nodes that need no declaration: they are written before they are read, and are nothing but arrays.
fn undeclared(assignments: &Assignments) -> Vec<TensorNode> {
    let plain = |node: &TensorNode| {
        let virtual_or_view = node.mode().mode() == Some(MemoryMode::Virtual) || node.view().is_some();
        node.padding().is_none() && !virtual_or_view
    };
    assignments.embedded_nodes().into_iter().filter(plain).collect()
}

#[test]
fn programs_mean_the_same_without_declarations() {
    let (mut same, mut other, mut rejected) = (0, 0, 0);
    // With one type for all declared nodes, values often have the type of their node.
    let weights = ProgramWeights { types: &[DType::F32], ..ProgramWeights::one_routine() };
    for seed in effort::seeds(75) {
        let program = program_from_seed(seed, 80 + seed as usize % 200, &weights);
        let nodes: Vec<TensorNode> = program.nodes.iter().map(|node| node.tensor_node()).collect();
        let text = program.text(0);
        let parsed = Program::parse(&text).expect("the generator follows the grammar");
        let Ok(declared) = parsed.assignments(&nodes) else { continue };
        let Some(expected) = routine(&declared) else { continue };
        for left_out in undeclared(&declared) {
            let given: Vec<TensorNode> = nodes.iter().filter(|node| **node != left_out).cloned().collect();
            let keeping = parsed.clone().keep(left_out.name());
            match keeping.assignments(&given).ok().as_ref().and_then(routine) {
                // A range that only the declaration gave, or another element type, makes another program or
                // none.
                None => rejected += 1,
                Some(found) if nodes_of(&found) != nodes_of(&expected) => other += 1,
                Some(found) => {
                    assert_eq!(found, expected, "seed {seed}, without {}: {text}", left_out.name());
                    same += 1;
                }
            }
        }
    }
    assert!(same > 25, "{same} programs are the same, {other} have other nodes, {rejected} are rejected");
}

/// The declarations of nodes in a printed routine.
fn nodes_of(routine: &str) -> Vec<&str> {
    routine.lines().filter(|line| line.trim_start().starts_with("node ")).collect()
}
