//! The programs of `docs/assignment-guide.md` without gradients compute the values that the guide states. A
//! test of `arrayjit` runs all of them.

mod listing;

use crate::program::{Machine, lowered};

use assignment_text::parse;
use assignments::Assignments;
use listing::{Listing, printed};
use tnode::TensorNode;

fn read(listing: &Listing) -> Assignments {
    parse(listing.text, &[]).unwrap_or_else(|error| panic!("{}{error}", listing.text))
}

/// A machine whose declared nodes have their initial values, and whose inputs are 1.
fn machine(program: &Assignments) -> Machine {
    let mut machine = Machine::new(program);
    let used = |node: &&TensorNode| program.nodes().contains(node);
    for node in program.text_nodes.iter().filter(used) {
        machine.set(node, &vec![1.0; node.num_elems().expect("inferred")]);
    }
    if let Some(initial) = &program.initial {
        let mut start = Machine::new(initial);
        start.run(&[]);
        initial.kept.iter().filter(used).for_each(|node| machine.set(node, &start.get(node)));
    }
    machine
}

#[test]
fn programs_compute_the_values_stated() {
    let all = listing::all();
    assert!(all.len() >= 20, "found {} programs", all.len());
    for listing in &all {
        let program = read(listing);
        // The crate `autodiff`, which replaces gradients by statements, depends on this one.
        if program.has_gradients() {
            continue;
        }
        lowered(&program);
        let mut machine = machine(&program);
        for run in &listing.runs {
            machine.run(&run.bindings);
            for &(name, expected) in &run.values {
                let node = program.text_nodes.find(name).unwrap_or_else(|error| panic!("{name}: {error}"));
                let dims = node.dims_without_padding().expect("inferred");
                assert_eq!(printed(&dims, &machine.get(node)), expected, "{name} of\n{}", listing.text);
            }
        }
    }
}
