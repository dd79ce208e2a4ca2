//! The corpus through a device: transfers, linking and launches are the device's own.

use std::sync::Arc;

use codegen_core::{Code, Codegen, ScheduledRoutine, Slot};
use device_runtime::{Context, Device, MergeBufferUse, Routine as Linked};
use filetests::RunCase;
use lowered_ir::ir::{NodeRef, Routine};
use tnode::{HostArray, MemoryMode, Reason, TensorNode, commit_modes};

use crate::{
    bounds::{Bounds, Closeness},
    corpus::{compare, compile_case, defined, failed, name, outlives, variants},
    generated::drawn,
    report::{Outcome, Report},
};

/// How closely a device must agree with the interpreter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Agreement {
    /// In every bit, but for which NaN.
    Bits,
    /// Within the [bounds] of what the routine computes, with the interpreter of the routine as well as with that of
    /// the scheduled kernels.
    ///
    /// [bounds]: crate::bounds
    Bounds,
}

/// Runs the whole corpus on a device with the code of a code generator for it: each run as it is written, and optimised.
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

/// Runs a routine on a device as [`run_generated`](crate::run_generated) runs it in this process, on memory and bindings drawn
/// from the bytes; how close it came, or why it did not run or agree.
///
/// # Errors
///
/// [`Outcome::Skipped`] for what the target does not support, [`Outcome::Failed`] for everything else.
pub fn run_generated_on(
    codegen: &dyn Codegen,
    device: &Device,
    routine: &Routine,
    bytes: &[u8],
    agreement: Agreement,
) -> Result<Closeness, Outcome> {
    let case = drawn(routine, bytes);
    let mut closeness = Closeness::default();
    // A node that is drawn as virtual may be one that cannot be.
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
    let found = on_device(device, &code, case, &nodes, merged.map(|node| (node, How::Copied)));
    let found = found.map_err(|e| failed("running", e))?;
    if let Some(node) = merged {
        let lent = on_device(device, &code, case, &nodes, Some((node, How::Lent)));
        compare(&case.routine, &lent.map_err(|e| failed("merging in place", e))?, &found)?;
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

/// The node that a run reads from the merge buffer: none if what the routine reads there goes into no result.
fn merged(schedule: &ScheduledRoutine) -> Option<NodeRef> {
    schedule.calls().iter().flat_map(|call| &call.args).find_map(|slot| match slot {
        Slot::Merge(node) => Some(*node),
        Slot::Node(_) | Slot::Temp(_) => None,
    })
}

/// How a run gets at what it merges.
#[derive(Clone, Copy, Debug)]
enum How {
    /// By a copy in the stream's merge buffer.
    Copied,
    /// Where it is, in the memory of another stream.
    Lent,
}

/// Compares with the routine, with its kernels, and with what the corpus expects.
fn within(case: &RunCase, found: &[Vec<u8>], defined: &[Vec<u8>]) -> Result<Closeness, Outcome> {
    let bounds = Bounds::of(case).map_err(|e| failed("bounding", e))?;
    let close = bounds.check(&case.routine, found, 1.0).map_err(|e| failed("against the routine", e))?;
    // The kernels' own results are within a radius of the routine's.
    let kernels = bounds.check_against(&case.routine, found, Some(defined), 2.0);
    kernels.map_err(|e| failed("against its kernels", e))?;
    bounds.check_expected(case, found).map_err(Outcome::Failed)?;
    Ok(close)
}

/// A handle for each node of the routine, with the memory mode that the routine has settled for it.
fn nodes(case: &RunCase) -> Result<Vec<TensorNode>, tnode::Error> {
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

/// The bytes of the nodes after a run that finds garbage in what it overwrites; those of nodes without lasting memory are empty.
fn on_device(
    device: &Device,
    code: &Arc<Code>,
    case: &RunCase,
    nodes: &[TensorNode],
    merged: Option<(NodeRef, How)>,
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
        (Some((node, how)), Some(bytes)) => merge(device, &routine, &nodes[node.index()], how, case, bytes)?,
        _ => routine.run(&case.bindings)?.sync()?,
    }
    let bytes = nodes.iter().zip(&lasting).map(|(node, lasting)| match lasting {
        true => Ok(routine.context().to_host(node)?.bytes().to_vec()),
        false => Ok(Vec::new()),
    });
    bytes.collect()
}

/// Runs a routine that merges a node which another stream has with these bytes.
fn merge(
    device: &Device,
    routine: &Linked,
    node: &TensorNode,
    how: How,
    case: &RunCase,
    bytes: &[u8],
) -> Result<(), Box<dyn std::error::Error>> {
    let array = HostArray::from_bytes(node.dtype(), node.dims()?, bytes)?;
    let source = Context::new(&device.new_stream()?).init_from_host(node, &array)?;
    let context = routine.context();
    match how {
        How::Copied => {
            let _ = context.device_to_device(node, MergeBufferUse::Copy, &source)?;
            routine.run(&case.bindings)?.sync()?;
        }
        How::Lent => {
            let lent = MergeBufferUse::StreamingFor(routine, &case.bindings);
            let _ = context.device_to_device(node, lent, &source)?;
            context.stream().all_work()?.sync()?;
        }
    }
    Ok(())
}
