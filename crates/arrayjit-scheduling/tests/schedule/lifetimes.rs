//! Nodes that live across statements: one is stored where another is that dies.

use std::collections::BTreeMap;

use lowered_ir::ir::{ArrayRef, Expr, LoweredRoutine, NodeRef, Stmt, walk};
use lowered_ir::text;
use random_programs::{Choices, bytes_of_seed};
use scheduling::ScheduleOptions;
use tnode::MemoryMode;

use super::common::{cpu, eager, filled, parse, steps_on};

/// Options under which every loop with independent iterations is parallel. Small nodes get scratch memory of
/// kernels, or memory of the run as large ones do.
pub(super) fn options(is_large: bool) -> ScheduleOptions {
    let options = eager();
    ScheduleOptions { stack_bytes: if is_large { 0 } else { options.stack_bytes }, ..options }
}

/// The bytes of the temporaries of a routine, every pass of which is checked.
fn temp_bytes(text: &str) -> usize {
    let (schedule, ..) = steps_on(&filled(parse(text)), &cpu(), &options(true));
    schedule.temp_bytes()
}

/// The backward pass of a layer: `%2` is saved, `%3` the gradient behind it, `%4` that in front of it. A
/// product that needs whole rows and columns stands on either side of the nest at `last`.
fn backward(last: &str) -> String {
    format!(
        "routine @backward fast {{
           node %0 \"x\" f32[32, 32] on_device
           node %1 \"y\" f32[32, 32] on_device
           node %2 \"saved\" f32[32, 32] local
           node %3 \"behind\" f32[32, 32] local
           node %4 \"before\" f32[32, 32] local
           {product_2}
           {product_3}
           for i0 in 0..32 {{ for i1 in 0..32 {{ {last} }} }}
           {product_1}
         }}",
        product_2 = product([2, 0, 0], 10),
        product_3 = product([3, 2, 0], 20),
        product_1 = product([1, 4, 4], 30),
    )
}

/// A nest that sets a node to a product of two.
fn product([to, left, right]: [usize; 3], first: usize) -> String {
    let [i, j, k] = [0, 1, 2].map(|at| format!("i{}", first + at));
    format!(
        "for {i} in 0..32 {{ for {j} in 0..32 {{
           declare l{first} f32[] register
           for {k} in 0..32 {{ l{first} := l{first} + %{left}[{i}, {k}] * %{right}[{k}, {j}] }}
           %{to}[{i}, {j}] := l{first}
         }} }}"
    )
}

#[test]
fn a_gradient_takes_the_place_of_the_value_that_it_reads_last() {
    const ARRAY: usize = 4 * 32 * 32;
    // Another array is stored where the result will be.
    assert_eq!(temp_bytes(&backward("%4[i0, i1] := %3[i0, i1] * sin(%2[i0, i1])")), ARRAY);
    // The element at another index is read later.
    assert_eq!(temp_bytes(&backward("%4[i0, i1] := %3[i1, i0] * sin(%2[i1, i0])")), 2 * ARRAY);
    assert_eq!(temp_bytes(&backward("%4[i0, i1] := %3[i0, 31 - i1] * sin(%2[31 - i0, i1])")), 2 * ARRAY);
}

/// A routine of nests over square arrays, which read each other at the same index, transposed, mirrored, or
/// in whole rows and columns. The last array is kept.
fn nests(seed: u64) -> String {
    let bytes = bytes_of_seed(seed, 256);
    let mut choices = Choices::new(&bytes);
    let size = *choices.pick(&[3, 8, 17]);
    let count = 4 + choices.below(8);
    let mut text = format!("routine @nests_{seed} fast {{\n");
    for at in 0..=count {
        let mode = if at == 0 || at == count { "on_device" } else { "local" };
        text += &format!("node %{at} \"n{at}\" f32[{size}, {size}] {mode}\n");
    }
    let last = size - 1;
    for at in 1..=count {
        let (i, j, k) = (format!("i{}", 3 * at), format!("i{}", 3 * at + 1), format!("i{}", 3 * at + 2));
        let mut read = || {
            // Arrays of late statements are dead by the end of the next ones.
            let array = at - 1 - choices.below(at.min(3));
            match choices.below(8) {
                0 => format!("%{array}[{j}, {i}]"),
                1 => format!("%{array}[{i}, {last} - {j}]"),
                2 => format!("%{array}[{last} - {i}, {last} - {j}]"),
                _ => format!("%{array}[{i}, {j}]"),
            }
        };
        let (first, second) = (read(), read());
        let inside = match choices.below(4) {
            0 => format!(
                "declare l{at} f32[] register
                 for {k} in 0..{size} {{ l{at} := l{at} + %{0}[{i}, {k}] * %{0}[{k}, {j}] }}
                 %{at}[{i}, {j}] := l{at} * {first}",
                at - 1
            ),
            1 => format!("%{at}[{i}, {j}] := {first} * 0.5f32"),
            _ => format!("%{at}[{i}, {j}] := {first} - {second}"),
        };
        text += &format!("for {i} in 0..{size} {{ for {j} in 0..{size} {{ {inside} }} }}\n");
    }
    text + "}\n"
}

/// The most bytes of local nodes that live during one top-level statement.
fn most_live(routine: &LoweredRoutine) -> usize {
    let mut lives: BTreeMap<NodeRef, (usize, usize)> = BTreeMap::new();
    for (at, stmt) in routine.body.iter().enumerate() {
        let block = std::slice::from_ref(stmt);
        let arrays = walk::stmts(block).filter_map(Stmt::array);
        for array in arrays.chain(walk::parts_in(block).filter_map(Expr::array)) {
            if let ArrayRef::Node(node) = array {
                lives.entry(node).or_insert((at, at)).1 = at;
            }
        }
    }
    let local = |node: NodeRef| routine.node(node).mode.mode() == Some(MemoryMode::Local);
    let bytes = |node: NodeRef| routine.node(node).size_bytes().unwrap();
    let live = |at: usize| {
        let live = lives.iter().filter(|&(&node, &(start, end))| local(node) && start <= at && at <= end);
        live.map(|(&node, _)| bytes(node)).sum::<usize>()
    };
    (0..routine.body.len()).map(live).max().unwrap_or(0)
}

#[test]
fn random_nests_keep_their_bits_and_need_no_more_memory() {
    let mut smaller = 0;
    for seed in filetests::effort::seeds(60) {
        let (_, _, trace) = steps_on(&filled(parse(&nests(seed))), &cpu(), &options(true));
        let at = trace.iter().position(|(name, _)| name == "fold_lifetimes").expect("the pass runs");
        let [before, after] = [at - 1, at].map(|at| most_live(&text::parse(&trace[at].1).unwrap()));
        assert!(after <= before, "{before}, then {after} bytes in\n{}", trace[at].1);
        smaller += usize::from(after < before);
    }
    assert!(smaller > 3, "only {smaller} routines need less memory");
}
