//! Compares translated programs, run by `vector-evaluator`, with the interpreter of the IR. The
//! tests need no vector instructions.

use std::collections::BTreeSet;

use codegen_core::{Access, Caps, Cost, DTypeSet, Interpreted, Kernel, KernelAbi, Launch, Param};
use filetests::generate::{bindings_from_bytes, bytes_of_seed, memory_from_bytes, routine_from_seed};
use lowered_ir::interp::{self, Memory};
use lowered_ir::ir::{Expr, LoweredRoutine, walk};
use scheduling::{ScheduleOptions, legalize, schedule};
use tnode::Scalar;
use vector_evaluator::{EvaluationState, evaluate};

use super::{Result, Target, translate};
use crate::caps::host_caps;
use crate::options::VectorWidth;
use crate::support;

const TARGET: Target = Target { alignment: 64, cache_bytes: 1 << 20 };

/// The number of random routines.
const SEEDS: u64 = 125;

/// A routine as one kernel, with the same access to all parameters.
fn kernel(ir: LoweredRoutine, access: Access) -> Kernel {
    let bytes = |n: &lowered_ir::ir::NodeDecl| n.dims.iter().product::<usize>() * n.dtype.size_bytes();
    let memory = ir.nodes.iter().map(|n| Param::Node { access, bytes: bytes(n) });
    let indices = ir.symbols.iter().map(|symbol| Param::StaticIndex { range: symbol.range });
    let abi = KernelAbi {
        name: ir.name.clone(),
        params: memory.chain(indices).collect(),
        launch: Launch::divided(&ir.body),
        scratch_bytes: 0,
        log: lowered_ir::log::lines(&ir).into(),
        cost: Cost::default(),
    };
    Kernel::verified(ir, abi).expect("a valid kernel")
}

/// Nodes that stand for a merge buffer.
fn merged(ir: &LoweredRoutine) -> BTreeSet<usize> {
    let mut merged = BTreeSet::new();
    walk::parts_in(&ir.body).for_each(|e| {
        if let Expr::GetMerge { node, .. } = e {
            merged.insert(node.index());
        }
    });
    merged
}

/// Runs a kernel by the interpreter, and translated by the evaluator, and compares the results. The evaluator
/// runs the iterations in two ranges if the kernel is divisible. Returns the reason if the kernel has no
/// program.
fn agrees(kernel: &Kernel, memory: &Memory, bindings: &[i64]) -> Result<()> {
    let translated = translate(kernel, TARGET)?;
    let mut expected = memory.clone();
    interp::run(kernel.ir(), &mut expected, bindings).expect("verified routines run");
    let merged = merged(kernel.ir());
    let mut args = memory.nodes.clone();
    for &node in &merged {
        args[node] = memory.merge.clone().expect("a merge buffer");
    }
    let scratch = vec![0xa5; translated.scratch_bytes];
    let mut machine = EvaluationState { args, bindings: bindings.to_vec(), scratch };
    let text = || format!("{}\n{}", lowered_ir::text::print(kernel.ir()), translated.program);
    let extent = kernel.abi().launch.extent_for(bindings);
    for part in [extent / 2..extent, 0..extent / 2].into_iter().filter(|part| !part.is_empty()) {
        evaluate(&translated.program, &mut machine, part).unwrap_or_else(|e| panic!("{e}\n{}", text()));
    }
    for (n, node) in kernel.ir().nodes.iter().enumerate().filter(|(n, _)| !merged.contains(n)) {
        let size = node.dtype.size_bytes();
        for (at, (e, f)) in expected.nodes[n].chunks(size).zip(machine.args[n].chunks(size)).enumerate() {
            let [e, f] = [e, f].map(|bytes| Scalar::read(node.dtype, bytes).expect("a whole element"));
            let both_nan = node.dtype.is_float() && e.as_f64().is_nan() && f.as_f64().is_nan();
            assert!(e == f || both_nan, "%{n}[{at}] is {f:?}, expected {e:?}\n{}", text());
        }
    }
    Ok(())
}

fn legal(routine: &LoweredRoutine) -> LoweredRoutine {
    let caps = Caps { contractions: DTypeSet::EMPTY, ..host_caps(VectorWidth::Avx2) };
    legalize(routine, &caps).expect("the host stores and computes every type")
}

#[test]
fn the_corpus() {
    let mut agreed = 0;
    // In a routine with a merge buffer, a node and its copy have the same name; in a kernel they do not.
    for case in filetests::run_cases().filter(|case| case.merge.is_none()) {
        let memory = Memory { nodes: case.inputs.clone(), merge: None };
        let kernel = kernel(legal(&case.routine), Access::ReadWrite);
        agreed += usize::from(agrees(&kernel, &memory, &case.bindings).is_ok());
    }
    assert!(agreed > 0, "the corpus has runs");
}

#[test]
fn random_routines() {
    let mut agreed = 0;
    for seed in filetests::effort::seeds(SEEDS) {
        let routine = legal(&routine_from_seed(seed, 200));
        if merged(&routine).is_empty() {
            let bytes = bytes_of_seed(seed ^ 0x5eed, 4096);
            let (memory, bindings) =
                (memory_from_bytes(&routine, &bytes), bindings_from_bytes(&routine, &bytes));
            agreed += u64::from(agrees(&kernel(routine, Access::ReadWrite), &memory, &bindings).is_ok());
        }
    }
    assert!(agreed > SEEDS / 10, "{agreed} of {SEEDS} routines are programs");
}

#[test]
fn random_routines_scheduled() {
    let (target, mut agreed) = (Interpreted::of_target(host_caps(VectorWidth::Avx2)), 0);
    for seed in filetests::effort::seeds(SEEDS) {
        let routine = routine_from_seed(seed, 200);
        let Ok(scheduled) = schedule(&routine, &target, &ScheduleOptions::default()) else { continue };
        let bytes = bytes_of_seed(seed ^ 0x5eed, 4096);
        // Contractions of narrow floats have programs only after they are tiled.
        let is_accepted = |kernel: &&Kernel| support::check(kernel, DTypeSet::EMPTY).is_ok();
        for kernel in scheduled.kernels().iter().filter(is_accepted) {
            let (memory, bindings) =
                (memory_from_bytes(kernel.ir(), &bytes), bindings_from_bytes(kernel.ir(), &bytes));
            agreed += u64::from(agrees(kernel, &memory, &bindings).is_ok());
        }
    }
    assert!(agreed > SEEDS / 10, "{agreed} kernels are programs");
}

/// Stores to nodes larger than half of the cache bypass it, if nobody reads them.
#[test]
fn large_nodes_that_are_only_written_are_streamed() {
    let text = |bytes: usize, access, read: &str| {
        let n = bytes / 4;
        let ir = lowered_ir::text::parse(&format!(
            "routine @fill {{
              node %0 \"x\" f32[{n}]
              for i0 in 0..{} {{ for i1 in 0..32 vector {{ %0[32*i0 + i1] := {read} }} }}
            }}",
            n / 32
        ));
        let kernel = kernel(ir.expect("the text is valid"), access);
        translate(&kernel, TARGET).expect("a program").program.to_string()
    };
    let half = TARGET.cache_bytes / 2;
    assert!(text(2 * half, Access::Write, "1.0f32").contains("streaming"));
    assert!(!text(half, Access::Write, "1.0f32").contains("streaming"), "it stays in the cache");
    assert!(!text(2 * half, Access::WritePart, "1.0f32").contains("streaming"), "others may read the rest");
    assert!(
        !text(2 * half, Access::ReadWrite, "%0[32*i0 + i1] + 1.0f32").contains("streaming"),
        "it was read"
    );
}
