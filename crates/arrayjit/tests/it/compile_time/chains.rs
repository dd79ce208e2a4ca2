//! Long chains of costly nodes: bounded kernels, work proportional to the length, and the same bits.

use arrayjit::{HostArray, MemoryMode, TensorNode};
use assignment_text::parse;
use assignments::lower::{LowerOptions, lower};
use codegen_core::ScheduledRoutine;
use lowered_ir::ir::walk;
use lowered_ir::passes::{cost, runner::Trace};
use lowered_ir::pipeline::{OptimizeSettings, Optimized, optimize};
use scheduling::{ScheduleOptions, schedule_traced};

use super::backend;

const LENGTH: usize = 64;

/// ChainText that make `y` of `x`, for a number of nodes.
type ChainText = fn(usize) -> String;

const CHAINS: &[(&str, ChainText)] = &[
    ("each node is read once", |n| chain("sin(h[l][i])", n)),
    ("each node is read twice", |n| chain("exp(h[l][i]) / (1 + exp(h[l][i]))", n)),
    ("each node is read backwards", |n| chain("tanh(h[l][63 - i])", n)),
    ("each node is read under a condition", |n| chain("where(h[l][i] > 0, cos(h[l][i]), exp(h[l][i]))", n)),
    ("functions call each other twice", |n| {
        let mut text = String::from("def f0(a[i]) -> r[i] { r[i] := sin(a[i]) }\n");
        let levels = n.ilog2();
        for level in 1..=levels {
            let below = level - 1;
            text +=
                &format!("def f{level}(a[i]) -> r[i] {{ t[i] := f{below}(a[i]); r[i] := f{below}(t[i]) }}\n");
        }
        text + &format!("y[i] := f{levels}(x[i])")
    }),
    ("one statement reads all nodes", |n| {
        let terms: Vec<String> = (0..n).map(|l| format!("h[{l}][i]")).collect();
        let sum = terms.chunks(90).map(|terms| format!("y[i] += {}", terms.join(" + ")));
        let sum: Vec<String> = sum.collect();
        format!("repeat l in 0..{n} {{ h[l][i] := sin(x[i] + l) }}\ny[i] := 0\n{}", sum.join("\n"))
    }),
];

fn chain(step: &str, n: usize) -> String {
    format!("h[0][i] := x[i]\nrepeat l in 0..{n} {{ h[l+1][i] := {step} }}\ny[i] := h[{n}][i]")
}

fn vector(name: &str) -> TensorNode {
    let node = TensorNode::builder(name).dims([LENGTH]).mode(MemoryMode::Materialized);
    node.build().unwrap()
}

/// The number of parts of all values of a block.
fn parts(block: &[lowered_ir::ir::Stmt]) -> usize {
    walk::values(block).map(cost::size).sum()
}

fn compiled(text: &str) -> (Optimized, ScheduledRoutine) {
    let assignments = parse(text, &[vector("x"), vector("y")]).unwrap();
    let lowered = lower(&assignments, &LowerOptions::default()).unwrap().lowered;
    let optimized = optimize(lowered.routine, &OptimizeSettings::default()).unwrap();
    let backend = backend();
    let options = ScheduleOptions::default();
    let schedule =
        schedule_traced(&optimized.routine, backend.codegen(), &options, &mut Trace::none()).unwrap();
    (optimized, schedule)
}

#[test]
fn kernels_are_bounded_and_their_sum_is_proportional_to_the_chain() {
    let backend = backend();
    for (about, text) in CHAINS {
        let sizes = [512, 2048].map(|n| {
            let (_, schedule) = compiled(&text(n));
            let largest = schedule.kernels().iter().map(|kernel| parts(&kernel.ir().body)).max().unwrap();
            assert!(largest < 1 << 15, "{about}: a kernel has {largest} parts for {n} nodes");
            for kernel in [&schedule.kernels()[0], &schedule.kernels()[schedule.kernels().len() - 1]] {
                for method in backend.codegen().describe(kernel).unwrap() {
                    assert_eq!(method.name, "a vector program", "{about}: {:?}", method.not_vectorized);
                }
            }
            let calls = schedule.calls().iter().map(|call| parts(&schedule.kernels()[call.kernel].ir().body));
            calls.sum::<usize>()
        });
        let [small, large] = sizes;
        assert!(large < 5 * small, "{about}: {small} parts for 512 nodes, {large} for 2048");
    }
}

#[test]
fn the_reason_of_the_memory_is_told() {
    let (optimized, _) = compiled(&chain("sin(h[l][i])", 100));
    let (node, _) = optimized.rejected.first().unwrap();
    let told = optimized.explain(*node);
    let expected = "it cannot be inlined: its computation costs more than 1024 operations, or would make a statement of more than twice as many (a function such as `sin` counts as 20)";
    assert!(told.contains(expected), "{told}");
}

/// Runs the program on a backend.
fn values(backend: &str, text: &str) -> HostArray {
    let backend = arrayjit::Backend::open(backend).unwrap();
    let (x, y) = (vector("x"), vector("y"));
    let start: Vec<f32> = (0..LENGTH).map(|at| at as f32 / 16.0 - 2.0).collect();
    let start = HostArray::from_slice(&start, [LENGTH]).unwrap();
    let context = backend.context().unwrap().init_from_host(&x, &start).unwrap();
    let routine = backend.compile(text, [&x, &y]).unwrap().link(&context).unwrap();
    routine.run(&[]).unwrap().sync().unwrap();
    routine.context().to_host(&y).unwrap()
}

#[test]
fn chains_have_the_bits_of_the_interpreter() {
    for (about, text) in CHAINS {
        let text = text(130);
        let [native, interpreted] = ["inline", "interpreter"].map(|backend| values(backend, &text));
        let bits = |array: &HostArray| -> Vec<u32> {
            array.as_slice::<f32>().unwrap().iter().map(|value| value.to_bits()).collect()
        };
        assert_eq!(bits(&native), bits(&interpreted), "{about}");
    }
}

/// Nodes that must be virtual are inlined whatever it costs, into kernels beyond the bounds of vector
/// programs.
#[test]
fn a_chain_that_must_be_virtual_compiles_too() {
    let n = 200;
    let nodes = |backend: &str| {
        let backend = arrayjit::Backend::open(backend).unwrap();
        let node = |at: usize| {
            let mode = if at == 0 || at == n { MemoryMode::Materialized } else { MemoryMode::Virtual };
            TensorNode::builder(format!("t{at}")).dims([LENGTH]).mode(mode).build().unwrap()
        };
        let nodes: Vec<TensorNode> = (0..=n).map(node).collect();
        let steps: Vec<String> = (1..=n).map(|at| format!("t{at}[i] := sin(t{}[i])", at - 1)).collect();
        let ones = HostArray::from_slice(&[1f32; LENGTH], [LENGTH]).unwrap();
        let context = backend.context().unwrap().init_from_host(&nodes[0], &ones).unwrap();
        let routine = backend.compile(&steps.join("\n"), &nodes).unwrap().link(&context).unwrap();
        routine.run(&[]).unwrap().sync().unwrap();
        routine.context().to_host(&nodes[n]).unwrap().values()
    };
    assert_eq!(nodes("inline"), nodes("interpreter"));
}
