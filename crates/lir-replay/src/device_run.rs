//! Runs a routine of the loop IR on a device of a backend: optimised, scheduled and compiled as the backend
//! does, with default options.

use std::sync::Arc;

use anyhow::{Context as _, Result, anyhow};
use arrayjit::{Backend, Context, HostArray, MemoryMode, MergeBufferUse, TensorNode};
use codegen_core::Code;
use filetests::RunCase;
use lowered_ir::{
    interp::Memory,
    ir::{Expr, NodeDecl, NodeRef, Routine, walk},
    pipeline::{OptimizeSettings, optimize},
    verify::verify,
};
use scheduling::{ScheduleOptions, schedule};
use tnode::{Reason, commit_modes};

/// The bytes of each node after a run, in the routine's order; `None` for a node without memory that outlives
/// the run.
pub(crate) type Results = Vec<Option<Vec<u8>>>;

/// Runs a case on the backend's first device.
///
/// # Errors
///
/// A routine that does not verify, that the backend rejects, or whose run fails.
pub(crate) fn run(backend: &Backend, case: &RunCase) -> Result<Results> {
    verify(&case.routine).context("the routine does not verify")?;
    let optimized = optimize(case.routine.clone(), &OptimizeSettings::default())?.routine;
    let codegen = backend.codegen();
    let schedule = schedule(&optimized, codegen, &ScheduleOptions::default())?;
    let artifact = codegen.compile(&schedule)?;
    let code = Arc::new(Code::new(schedule, artifact)?);

    let nodes = handles(&optimized)?;
    let mut context = Context::new(&backend.new_stream()?);
    let zeroed = Memory::zeroed(&optimized).nodes;
    for ((at, node), zeros) in nodes.iter().enumerate().zip(&zeroed) {
        if is_lasting(&optimized.nodes[at]) {
            let bytes = case.inputs.get(at).unwrap_or(zeros);
            let array = HostArray::from_bytes(node.dtype(), node.dims()?, bytes)?;
            context = context.init_from_host(node, &array)?;
        }
    }
    let routine = context.link(&code, &nodes)?;
    if let Some((merged, bytes)) = merged(&optimized).zip(case.merge.as_ref()) {
        let node = &nodes[merged.index()];
        let array = HostArray::from_bytes(node.dtype(), node.dims()?, bytes)?;
        let source = Context::new(&backend.new_stream()?).init_from_host(node, &array)?;
        let _ = routine.context().device_to_device(node, MergeBufferUse::Copy, &source)?;
    }
    routine.run(&case.bindings)?.sync()?;
    let bytes = |(node, decl): (&TensorNode, &NodeDecl)| match is_lasting(decl) {
        true => Ok(Some(routine.context().to_host(node)?.bytes().to_vec())),
        false => Ok(None),
    };
    nodes.iter().zip(&optimized.nodes).map(bytes).collect()
}

/// The results of the definition, for the same nodes as [`run`].
///
/// # Errors
///
/// An error of the interpreter.
pub(crate) fn defined(case: &RunCase) -> Result<Results> {
    let optimized = optimize(case.routine.clone(), &OptimizeSettings::default())?.routine;
    let nodes = case.interpret().map_err(|error| anyhow!("the definition fails: {error}"))?;
    let pairs = nodes.into_iter().zip(&optimized.nodes);
    Ok(pairs.map(|(bytes, decl)| is_lasting(decl).then_some(bytes)).collect())
}

fn is_lasting(decl: &NodeDecl) -> bool {
    !decl.mode.known_not_materialized()
}

/// A handle for each node, with the memory mode of its declaration.
fn handles(routine: &Routine) -> Result<Vec<TensorNode>> {
    let handle = |(node, decl): (NodeRef, &NodeDecl)| {
        let label = format!("p{}", node.index());
        let builder = TensorNode::builder(label.as_str()).dims(decl.dims.iter().copied()).dtype(decl.dtype);
        let handle = builder.build()?;
        commit_modes(&[(handle.clone(), decl.mode.clone())])?;
        if decl.mode.mode().is_none() {
            handle.update_memory_mode(MemoryMode::Materialized, Reason::new("a replay reads it"))?;
        }
        Ok(handle)
    };
    routine.node_refs().map(handle).collect()
}

/// The node that the routine reads from the merge buffer.
fn merged(routine: &Routine) -> Option<NodeRef> {
    let mut found = None;
    walk::each_value(&routine.body, &mut |value| {
        walk::each_expr(value, &mut |expr| {
            if let Expr::GetMerge { node, .. } = expr {
                found = Some(*node);
            }
        });
    });
    found
}
