//! Native kernels on several threads: the parts of one launch, and several launches at the same time.
//!
//! A kernel whose scratch memory is static computes correctly on one thread. Parts of a launch get the same
//! memory, so that their overlap is short for small kernels; launches on different memory have different
//! values, so that a value of one that reaches the other is noticed. The two launches wait for each other
//! immediately before every part of every kernel, so that they overlap each time, not by chance.

use codegen_core::{Artifact, Caps, ScheduledRoutine};
use filetests::RunCase;
use lowered_ir::ir::LoweredRoutine;

use crate::{
    corpus::{compare, failed},
    host::{CallBarrier, Order, run, run_in},
    report::Outcome,
};

/// Repetitions of launches at the same time, without and with scratch memory.
const REPETITIONS: [usize; 2] = [8, 25];

/// Runs native kernels of a case again: split over threads, and as two launches at the same time. `found` is
/// the result of a run on one thread.
pub(crate) fn check(
    scheduled: &ScheduledRoutine,
    artifact: &Artifact,
    caps: &Caps,
    case: &RunCase,
    found: &[Vec<u8>],
) -> Result<(), Outcome> {
    let Some(module) = artifact.host_module() else { return Ok(()) };
    if !(0..module.len()).any(|kernel| module.is_splittable(kernel)) {
        return Ok(());
    }
    let again = |order: Order<'_>| run_in(scheduled, artifact, caps, case, 0x3c, order);
    if artifact.kernels().iter().any(|abi| abi.launch.extent > 1) {
        as_before("in parts at the same time", &case.routine, &again(Order::AtOnce)?, found)?;
    }
    let uses_scratch = |abi: &codegen_core::KernelAbi| abi.scratch_bytes > 0;
    let scratch = artifact.kernels().iter().any(uses_scratch)
        || scheduled.kernels().iter().any(|kernel| uses_scratch(kernel.abi()));
    let other = RunCase { inputs: reversed(case), ..case.clone() };
    let expected = run(scheduled, artifact, caps, &other, 0xa5)?;
    let barrier = CallBarrier::default();
    let launch = |case: &RunCase, expected: &[Vec<u8>]| {
        // A launch that ends, or panics, leaves the other one alone.
        let _leaving = barrier.enter();
        (0..REPETITIONS[usize::from(scratch)]).try_for_each(|_| {
            let again = run_in(scheduled, artifact, caps, case, 0x3c, Order::Beside(&barrier))?;
            as_before("beside another launch", &case.routine, &again, expected)
        })
    };
    std::thread::scope(|scope| {
        let beside = scope.spawn(|| launch(&other, &expected));
        let own = launch(case, found);
        let beside = beside.join().unwrap_or_else(|_| Err(failed("panicked", "on a thread")));
        own.and(beside)
    })
}

fn as_before(
    how: &str,
    routine: &LoweredRoutine,
    again: &[Vec<u8>],
    found: &[Vec<u8>],
) -> Result<(), Outcome> {
    compare(routine, again, found).map_err(|outcome| match outcome {
        Outcome::Failed(message) => failed(
            "shared state",
            format!("{how}, the code computes other values than alone; {message} of one launch alone"),
        ),
        other => other,
    })
}

/// The inputs with the elements of each node in reverse order.
fn reversed(case: &RunCase) -> Vec<Vec<u8>> {
    let nodes = case.inputs.iter().zip(&case.routine.nodes);
    nodes
        .map(|(bytes, decl)| bytes.chunks_exact(decl.dtype.size_bytes()).rev().flatten().copied().collect())
        .collect()
}
