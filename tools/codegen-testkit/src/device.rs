//! Runs the corpus on a device, with the device's own transfers, linking and launches.

use std::sync::Arc;

use codegen_core::{Code, Codegen, ScheduledRoutine, Slot};
use device_runtime::{Context, Device, LinkedRoutine, MergeBufferUse};
use filetests::RunCase;
use lowered_ir::ir::{LoweredRoutine, NodeRef};
use tnode::{HostArray, MemoryMode, Reason, TensorNode, commit_modes};

use crate::{
    bounds::{Bounds, Closeness},
    corpus::{compare, compile_case, defined, failed, name, outlives, variants},
    report::{Outcome, Report},
};

/// How closely a device must agree with the interpreter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Agreement {
    /// In every bit, except that all NaNs are equal.
    Bits,
    /// Within the [bounds] of the computation, around the interpreter's results for the routine and for the
    /// scheduled kernels.
    ///
    /// [bounds]: crate::bounds
    Bounds,
}

/// Runs the whole corpus on a device with the code of a code generator: each run as written, and optimized.
pub fn run_corpus_on(codegen: &dyn Codegen, device: &Device, agreement: Agreement) -> Report {
    let mut report =
        Report { subject: format!("{} on {}", codegen.name(), device.name()), ..Report::default() };
    for case in filetests::run_cases() {
        for (variant, routine) in variants(&case.routine) {
            let run = |routine| run_case(codegen, device, &RunCase { routine, ..case.clone() }, agreement);
            report.record(name(&case, variant), routine.and_then(run));
        }
    }
    report
}

/// Runs a routine on a device like [`run_generated`](crate::run_generated) does in this process, with memory
/// and bindings derived from the bytes, and returns how close the results are.
///
/// # Errors
///
/// [`Outcome::Skipped`] if the target does not support the routine, [`Outcome::Failed`] for all other errors.
pub fn run_generated_on(
    codegen: &dyn Codegen,
    device: &Device,
    routine: &LoweredRoutine,
    bytes: &[u8],
    agreement: Agreement,
) -> Result<Closeness, Outcome> {
    let case = RunCase::drawn(routine.clone(), bytes);
    let mut closeness = Closeness::default();
    // The optimizer rejects a node that is declared virtual and cannot be.
    for routine in variants(routine).into_iter().filter_map(|(_, routine)| routine.ok()) {
        let case = RunCase { routine, ..case.clone() };
        let close = run_case(codegen, device, &case, agreement).map_err(|outcome| match outcome {
            Outcome::Failed(message) => {
                Outcome::Failed(format!("{message}\n{}", lowered_ir::text::print(&case.routine)))
            }
            Outcome::Passed | Outcome::Skipped(_) => outcome,
        })?;
        closeness = closeness.and(close);
    }
    Ok(closeness)
}

fn run_case(
    codegen: &dyn Codegen,
    device: &Device,
    case: &RunCase,
    agreement: Agreement,
) -> Result<Closeness, Outcome> {
    let (schedule, artifact) = compile_case(codegen, case)?;
    let defined = defined(codegen, &schedule, case)?;
    let nodes = nodes(case).map_err(|e| failed("making nodes", e))?;
    let merged = case.merge.is_some().then(|| merged(&schedule)).flatten();
    let code = Code::new(schedule, artifact).map_err(|e| failed("pairing code with its schedule", e))?;
    let code = Arc::new(code);
    let found = on_device(device, &code, case, &nodes, merged.map(|node| (node, MergeSource::Copied)));
    let found = found.map_err(|e| failed("running", e))?;
    if let Some(node) = merged {
        let borrowed = on_device(device, &code, case, &nodes, Some((node, MergeSource::Borrowed)));
        compare(&case.routine, &borrowed.map_err(|e| failed("merging in place", e))?, &found)?;
    }
    match agreement {
        Agreement::Bits => {
            compare(&case.routine, &found, &defined)?;
            case.check(&found).map_err(Outcome::Failed)?;
            Ok(Closeness::default())
        }
        Agreement::Bounds => within(case, &found, &defined),
    }
}

/// The node that a run reads from the merge buffer; `None` if no result depends on that read.
fn merged(schedule: &ScheduledRoutine) -> Option<NodeRef> {
    schedule.calls().iter().flat_map(|call| &call.args).find_map(|slot| match slot {
        Slot::Merge(node) => Some(*node),
        Slot::Node(_) | Slot::Temp(_) => None,
    })
}

/// The source of a merge.
#[derive(Clone, Copy, Debug)]
enum MergeSource {
    /// A copy in the stream's merge buffer.
    Copied,
    /// The memory of another stream, read in place.
    Borrowed,
}

/// Compares the results with the bounds of the routine and of its kernels, and with the expectations of the
/// corpus.
fn within(case: &RunCase, found: &[Vec<u8>], defined: &[Vec<u8>]) -> Result<Closeness, Outcome> {
    let bounds = Bounds::of(case).map_err(|e| failed("bounding", e))?;
    let close = bounds.check(&case.routine, found, 1.0).map_err(|e| failed("against the routine", e))?;
    // The kernels' own results are within one radius of the routine's.
    let kernels = bounds.check_against(&case.routine, found, Some(defined), 2.0);
    kernels.map_err(|e| failed("against its kernels", e))?;
    bounds.check_expected(case, found).map_err(Outcome::Failed)?;
    Ok(close)
}

/// A handle for each node of the routine, with the memory mode of its declaration.
fn nodes(case: &RunCase) -> Result<Vec<TensorNode>, tnode::TensorNodeError> {
    let handles = case.routine.node_refs().map(|(node, decl)| {
        let label = format!("p{}", node.index());
        let handle =
            TensorNode::builder(label.as_str()).dims(decl.dims.iter().copied()).dtype(decl.dtype).build()?;
        commit_modes(&[(handle.clone(), decl.mode.clone())])?;
        if decl.mode.mode().is_none() {
            handle
                .update_memory_mode(MemoryMode::Materialized, Reason::new("a run of the corpus reads it"))?;
        }
        Ok(handle)
    });
    handles.collect()
}

/// The bytes of the nodes after a run; memory that the run overwrites is filled with garbage before. Nodes
/// without lasting memory have no bytes.
fn on_device(
    device: &Device,
    code: &Arc<Code>,
    case: &RunCase,
    nodes: &[TensorNode],
    merged: Option<(NodeRef, MergeSource)>,
) -> Result<Vec<Vec<u8>>, Box<dyn std::error::Error>> {
    let mut context = Context::new(&device.new_stream()?);
    let lasting: Vec<bool> = case.routine.nodes.iter().map(outlives).collect();
    for (at, node) in nodes.iter().enumerate().filter(|(at, _)| lasting[*at]) {
        let mut bytes = case.inputs[at].clone();
        if code.schedule().overwritten().contains(&NodeRef(at as u32)) {
            bytes.fill(0xa5);
        }
        let array = HostArray::from_bytes(node.dtype(), node.dims()?, &bytes)?;
        context = context.init_from_host(node, &array)?;
    }
    let routine = context.link(code, nodes)?;
    match (merged, &case.merge) {
        (Some((node, source)), Some(bytes)) => {
            merge(device, &routine, &nodes[node.index()], source, case, bytes)?
        }
        _ => routine.run(&case.bindings)?.sync()?,
    }
    let bytes = nodes.iter().zip(&lasting).map(|(node, lasting)| match lasting {
        true => Ok(routine.context().to_host(node)?.bytes().to_vec()),
        false => Ok(Vec::new()),
    });
    bytes.collect()
}

/// Runs a routine that merges a node of another stream, which has these bytes.
fn merge(
    device: &Device,
    routine: &LinkedRoutine,
    node: &TensorNode,
    merge: MergeSource,
    case: &RunCase,
    bytes: &[u8],
) -> Result<(), Box<dyn std::error::Error>> {
    let array = HostArray::from_bytes(node.dtype(), node.dims()?, bytes)?;
    let source = Context::new(&device.new_stream()?).init_from_host(node, &array)?;
    let context = routine.context();
    match merge {
        MergeSource::Copied => {
            let _ = context.device_to_device(node, MergeBufferUse::Copy, &source)?;
            routine.run(&case.bindings)?.sync()?;
        }
        MergeSource::Borrowed => {
            let borrowed = MergeBufferUse::StreamingFor(routine, &case.bindings);
            let _ = context.device_to_device(node, borrowed, &source)?;
            context.stream().all_work()?.sync()?;
        }
    }
    Ok(())
}
