//! Scheduled routines: calls, slots and temporaries must agree with kernels.

use codegen_core::{
    BASE_ALIGNMENT, Binding, KernelCall, RoutineParts, RoutineProblem, ScheduledRoutine, Slot, Temp, TempId,
};
use lowered_ir::ir::{NodeRef, SymbolId};

use super::{kernel, scheduled};

/// The problem of a routine with changed parts.
fn problem(change: impl FnOnce(&mut RoutineParts)) -> RoutineProblem {
    let mut parts = scheduled().into_parts();
    change(&mut parts);
    let error = ScheduledRoutine::new(parts).unwrap_err();
    assert_eq!(error.routine, "several");
    error.problem
}

#[test]
fn unchanged_parts_are_a_routine() {
    let routine = scheduled();
    let again = ScheduledRoutine::new(routine.clone().into_parts()).unwrap();
    assert_eq!((again.name(), again.temp_bytes()), (routine.name(), routine.temp_bytes()));
}

#[test]
fn calls_pass_what_kernels_take() {
    let kernel = problem(|parts| parts.calls[1].kernel = 3);
    assert!(matches!(kernel, RoutineProblem::NoKernel { call: 1, kernel: 3, kernels: 3 }), "{kernel}");
    let slots = problem(|parts| parts.calls[0].args.truncate(1));
    assert!(matches!(slots, RoutineProblem::Count { what: "slots", expected: 2, found: 1, .. }), "{slots}");
    let symbols = problem(|parts| parts.calls[2].bindings.clear());
    assert!(matches!(symbols, RoutineProblem::Count { what: "symbols", expected: 1, found: 0, .. }));
    let kind = problem(|parts| parts.calls[0].args[0] = Slot::Merge(NodeRef(0)));
    assert!(matches!(kind, RoutineProblem::Kind { found: Slot::Merge(_), .. }), "{kind}");
    for slot in [Slot::Node(NodeRef(4)), Slot::Temp(TempId(2))] {
        let missing = problem(|parts| parts.calls[0].args[0] = slot);
        assert!(matches!(missing, RoutineProblem::NoSlot { call: 0, slot: found } if found == slot));
    }
    let overwritten = problem(|parts| parts.overwritten.push(NodeRef(9)));
    assert!(matches!(overwritten, RoutineProblem::NoNode { node: NodeRef(9), nodes: 4 }), "{overwritten}");
}

#[test]
fn merge_buffers_are_passed_as_such() {
    let parts = |slot| {
        let ir = kernel().ir().clone();
        RoutineParts {
            name: "merging".to_owned(),
            symbols: ir.symbols.clone(),
            nodes: ir.nodes.clone(),
            kernels: vec![kernel()],
            calls: vec![KernelCall {
                kernel: 0,
                args: vec![slot, Slot::Node(NodeRef(1)), Slot::Node(NodeRef(2))],
                bindings: vec![Binding::Symbol(SymbolId(0))],
            }],
            temps: vec![],
            overwritten: vec![],
        }
    };
    assert!(ScheduledRoutine::new(parts(Slot::Merge(NodeRef(0)))).is_ok());
    let error = ScheduledRoutine::new(parts(Slot::Node(NodeRef(0)))).unwrap_err();
    assert!(matches!(error.problem, RoutineProblem::Kind { .. }), "{error}");
    let error = ScheduledRoutine::new(parts(Slot::Merge(NodeRef(1)))).unwrap_err();
    assert!(matches!(error.problem, RoutineProblem::Bytes { expected: 16, found: 32, .. }), "{error}");
}

#[test]
fn memory_has_the_size_that_kernels_take() {
    let node = problem(|parts| parts.nodes[0].dims[0] = 99);
    assert!(matches!(node, RoutineProblem::Bytes { expected: 400, found: 396, .. }), "{node}");
    let huge = problem(|parts| parts.nodes[0].dims = [usize::MAX, 2].as_slice().into());
    assert!(matches!(huge, RoutineProblem::Bytes { found: usize::MAX, .. }), "{huge}");
    let temp = problem(|parts| parts.temps[0].bytes = 396);
    assert!(matches!(temp, RoutineProblem::Bytes { slot: Slot::Temp(_), found: 396, .. }), "{temp}");
}

#[test]
fn symbols_stay_in_the_range_that_kernels_take() {
    let unknown = problem(|parts| parts.calls[2].bindings[0] = Binding::Symbol(SymbolId(1)));
    assert!(matches!(unknown, RoutineProblem::NoSymbol { symbol: 1, symbols: 1, .. }), "{unknown}");
    for range in [4, 1 << 40, i64::MAX] {
        let wide = problem(|parts| parts.symbols[0].range = range);
        assert!(matches!(wide, RoutineProblem::Range { expected: 3, found, .. } if found == range), "{wide}");
    }
    for step in [-1, 3] {
        let outside = problem(|parts| parts.calls[2].bindings[0] = Binding::Step(step));
        assert!(matches!(outside, RoutineProblem::Step { expected: 3, found, .. } if found == step));
    }
    let mut narrow = scheduled().into_parts();
    narrow.calls[2].bindings[0] = Binding::Step(2);
    assert!(ScheduledRoutine::new(narrow.clone()).is_ok());
    narrow.calls[2].bindings[0] = Binding::Symbol(SymbolId(0));
    narrow.symbols[0].range = 2;
    assert!(ScheduledRoutine::new(narrow).is_ok());
}

#[test]
fn temporaries_have_places_of_their_own_while_they_live() {
    let dead = problem(|parts| parts.temps[0].live = (1, 1));
    assert!(matches!(dead, RoutineProblem::NotAlive { call: 0, temp: 0, live: (1, 1) }), "{dead}");
    let odd = problem(|parts| parts.temps[1].offset += 4);
    assert!(matches!(odd, RoutineProblem::Misaligned { temp: 1, .. }), "{odd}");
    let last = usize::MAX - usize::MAX % BASE_ALIGNMENT;
    let behind = problem(|parts| parts.temps[1].offset = last);
    assert!(matches!(behind, RoutineProblem::TooLarge { temp: 1, bytes: 400, .. }), "{behind}");
    let apart = scheduled().temps()[0].offset.abs_diff(scheduled().temps()[1].offset);
    assert!(apart >= 400, "they are alive together");
    for offset in [0, 384] {
        let both = problem(|parts| (parts.temps[0].offset, parts.temps[1].offset) = (0, offset));
        assert!(matches!(both, RoutineProblem::Overlap { .. }), "{both}");
    }
}

/// The check of lifetimes finds the same overlaps as comparing every pair.
#[test]
fn overlaps_are_found_wherever_they_are() {
    let mut random = fastrand::Rng::with_seed(7);
    let (mut found, mut none) = (0, 0);
    for _ in 0..2000 {
        let temps: Vec<Temp> = (0..random.usize(2..9))
            .map(|_| {
                let first = random.usize(..6);
                let live = (first, first + random.usize(..3));
                Temp {
                    node: NodeRef(0),
                    bytes: 40 * random.usize(..5),
                    offset: BASE_ALIGNMENT * random.usize(..24),
                    live,
                }
            })
            .collect();
        let meet = |a: &Temp, b: &Temp| {
            a.live.0 <= b.live.1
                && b.live.0 <= a.live.1
                && a.offset.max(b.offset) < (a.offset + a.bytes).min(b.offset + b.bytes)
        };
        let expected = (0..temps.len()).any(|i| (0..i).any(|j| meet(&temps[i], &temps[j])));
        let parts = RoutineParts { temps, calls: vec![], ..scheduled().into_parts() };
        let temps = parts.temps.clone();
        match ScheduledRoutine::new(parts).map_err(|error| error.problem) {
            Ok(_) => assert!(!expected, "{temps:?}"),
            Err(RoutineProblem::Overlap { first, second }) => {
                assert!(meet(&temps[first], &temps[second]), "{first} {second} {temps:?}");
            }
            Err(other) => panic!("{other}"),
        }
        *if expected { &mut found } else { &mut none } += 1;
    }
    assert!(found > 200 && none > 200, "{found} {none}");
}
