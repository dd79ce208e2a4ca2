//! The corpus through a device: transfers, linking and launches are the device's own.

use std::sync::Arc;

use codegen_core::{Code, Codegen};
use device_runtime::{Context, Device};
use filetests::RunCase;
use tnode::{HostArray, MemoryMode, Reason, TensorNode, commit_modes};

use crate::{
    corpus::{compare, compile_case, defined, failed, name, outlives, variants},
    report::{Outcome, Report},
};

/// Runs the whole corpus on a device with the code of a code generator for it: each run as it is written, and optimised.
pub fn run_corpus_on(codegen: &dyn Codegen, device: &Device) -> Report {
    let mut report =
        Report { subject: format!("{} on {}", codegen.name(), device.name()), ..Report::default() };
    for case in filetests::run_cases() {
        for (variant, routine) in variants(&case.routine) {
            let run = |routine| run_case(codegen, device, &RunCase { routine, ..case.clone() });
            report
                .outcomes
                .insert(name(&case, variant), routine.and_then(run).unwrap_or_else(|outcome| outcome));
        }
    }
    report
}

fn run_case(codegen: &dyn Codegen, device: &Device, case: &RunCase) -> Result<Outcome, Outcome> {
    let (schedule, artifact) = compile_case(codegen, case)?;
    let defined = defined(codegen, &schedule, case)?;
    let nodes = nodes(case).map_err(|e| failed("making nodes", e))?;
    let found = on_device(device, &Arc::new(Code { schedule, artifact }), case, &nodes);
    let found = found.map_err(|e| failed("running", e))?;
    compare(&case.routine, &found, &defined)?;
    case.check(&found).map_err(Outcome::Failed)?;
    Ok(Outcome::Passed)
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

/// The bytes of the nodes after a run; those of nodes without lasting memory are empty.
fn on_device(
    device: &Device,
    code: &Arc<Code>,
    case: &RunCase,
    nodes: &[TensorNode],
) -> Result<Vec<Vec<u8>>, Box<dyn std::error::Error>> {
    let mut context = Context::new(&device.new_stream()?);
    let lasting: Vec<bool> = case.routine.nodes.iter().map(outlives).collect();
    for ((node, bytes), _) in nodes.iter().zip(&case.inputs).zip(&lasting).filter(|(_, lasting)| **lasting) {
        let array = HostArray::from_bytes(node.dtype(), node.dims()?, bytes)?;
        context = context.init_from_host(node, &array)?;
    }
    let routine = context.link(code, nodes)?;
    routine.run(&case.bindings)?.sync()?;
    let bytes = nodes.iter().zip(&lasting).map(|(node, lasting)| match lasting {
        true => Ok(routine.context().to_host(node)?.bytes().to_vec()),
        false => Ok(Vec::new()),
    });
    bytes.collect()
}
