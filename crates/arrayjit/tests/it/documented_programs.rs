//! The programs of `docs/assignment-guide.md` compute the values that the guide states, as native code.
#![allow(clippy::unwrap_used, reason = "a failing step fails the test")]

#[path = "../../../assignment-text/tests/it/guide/listing.rs"]
mod listing;

use arrayjit::{Backend, Compiled, Context, HostArray, Nodes, Program};
use listing::{Listing, printed};

/// A context with the initial values of a program, in which inputs are 1.
fn context(backend: &Backend, code: &Compiled, declared: &Nodes) -> Context {
    let initialized = backend.initialize(code, &backend.context().unwrap()).unwrap();
    let open = |node: &&arrayjit::TensorNode| !initialized.contains(node);
    declared.iter().filter(open).fold(initialized.clone(), |context, node| {
        let mut ones = HostArray::zeros(node.dtype(), node.dims().unwrap()).unwrap();
        ones.set_values(&vec![1.0; ones.num_values()]).unwrap();
        context.init_from_host(node, &ones).unwrap()
    })
}

/// Runs a program as its comments say, and compares the values.
fn check(backend: &Backend, listing: &Listing) {
    let program = Program::parse(listing.text).unwrap_or_else(|error| panic!("{}{error}", listing.text));
    let declared = program.declare().unwrap();
    let code = backend.compile_program(&program, &declared).unwrap();
    let routine = code.link(&context(backend, &code, &declared)).unwrap();
    for run in &listing.runs {
        routine.run(&run.bindings).unwrap();
        for &(name, expected) in &run.values {
            let node = declared.get(name).unwrap_or_else(|| code.node(name).unwrap());
            let values = routine.context().to_host(node).unwrap().values();
            assert_eq!(printed(&node.dims().unwrap(), &values), expected, "{name} of\n{}", listing.text);
        }
    }
}

#[test]
fn programs_compute_the_values_stated() {
    for name in ["inline", "multicore"] {
        let backend = Backend::open(name).unwrap();
        listing::all().iter().for_each(|listing| check(&backend, listing));
    }
}
