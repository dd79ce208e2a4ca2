//! Runs a routine of the loop IR on a device of a backend: compiled as the backend compiles the routines of
//! programs, with the settings that it was opened with.

use std::sync::Arc;

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use arrayjit::{
    Backend, BackendParts, Context, HostArray, MemoryMode, MergeBufferUse, Settings, TensorNode,
    capsule::CapsuleCompilation,
};
use codegen_core::Interpreted;
use codegen_cranelift::object::ObjectTarget;
use filetests::RunCase;
use lowered_ir::{
    interp::Memory,
    ir::{LoweredRoutine, NodeDecl, NodeRef},
    verify::Verified,
};
use object_loader::{TRIPLE, levels, loaded_codegen};
use tnode::{Reason, commit_modes};

/// The bytes of each node after a run, in the routine's order; `None` for a node without memory that outlives
/// the run.
pub(crate) type Results = Vec<Option<Vec<u8>>>;

/// Opens a backend with the settings of a file. If the file has a target, the backend `interpreter`
/// interprets the kernels for that target. The backend `object` runs the kernels as object files have them,
/// at the best level of this processor with products; `object:x86-64-v2` does so at another level, and
/// `object:x86-64-v2:tiles` without products.
///
/// # Errors
///
/// A backend that does not open, and settings that do not load.
pub(crate) fn open(name: &str, compilation: &CapsuleCompilation) -> Result<Backend> {
    let loaded = compilation.settings()?;
    for unknown in loaded.unknown {
        eprintln!("lir-replay: unknown {unknown}");
    }
    if let Some(options) = name.strip_prefix("object") {
        return open_objects(name, options, &loaded.settings);
    }
    let backend = Backend::open_with(name, &loaded.settings)?;
    match compilation.caps().filter(|_| name == "interpreter") {
        Some(caps) => {
            let codegen = Arc::new(Interpreted::of_target(caps.clone()));
            let parts = BackendParts::new(codegen, backend.device().clone());
            Ok(Backend::from_parts(name, parts, backend.settings())?)
        }
        None => Ok(backend),
    }
}

/// Opens the backend of kernels of object files, by `:LEVEL` and `:tiles`, or neither.
fn open_objects(name: &str, options: &str, settings: &Settings) -> Result<Backend> {
    let available = levels();
    let mut parts = options.split(':').skip(1);
    let level = match parts.next() {
        None => available.last().copied().context("this processor has no level of object files")?,
        Some(level) => level.parse()?,
    };
    ensure!(available.contains(&level), "this processor does not have the level `{level}`");
    let target = ObjectTarget::new(TRIPLE, level)?;
    let target = match parts.next() {
        None => target.with_products(),
        Some("tiles") => target,
        Some(other) => bail!("`{other}` follows a level, expected `tiles` or nothing"),
    };
    let device = Backend::open_with("inline", settings)?.device().clone();
    let parts = BackendParts::new(Arc::new(loaded_codegen(target)?), device);
    Ok(Backend::from_parts(name, parts, settings)?)
}

/// Runs a case on the backend's first device.
///
/// # Errors
///
/// A routine that does not verify, that the backend rejects, or whose run fails.
pub(crate) fn run(backend: &Backend, case: &RunCase) -> Result<Results> {
    let verified = Verified::new(case.routine.clone()).context("the routine does not verify")?;
    let nodes = handles(&case.routine)?;
    let code = backend.compile_lowered(verified, &nodes)?;
    for node in nodes.iter().filter(|node| node.mode().mode().is_none()) {
        node.update_memory_mode(MemoryMode::Materialized, Reason::new("a replay reads it"))?;
    }

    let mut context = Context::new(&backend.new_stream()?);
    let zeroed = Memory::zeroed(&case.routine).nodes;
    for ((at, node), zeros) in nodes.iter().enumerate().zip(&zeroed) {
        if is_lasting(node) {
            let bytes = case.inputs.get(at).unwrap_or(zeros);
            let array = HostArray::from_bytes(node.dtype(), node.dims()?, bytes)?;
            context = context.init_from_host(node, &array)?;
        }
    }
    let routine = code.link(&context)?;
    if let (Some(node), Some(bytes)) = (routine.merge_buffer_input(), &case.merge) {
        let array = HostArray::from_bytes(node.dtype(), node.dims()?, bytes)?;
        let source = Context::new(&backend.new_stream()?).init_from_host(node, &array)?;
        let _ = routine.context().device_to_device(node, MergeBufferUse::Copy, &source)?;
    }
    routine.run(&case.bindings)?.sync()?;
    let bytes = |node: &TensorNode| match is_lasting(node) {
        true => Ok(Some(routine.context().to_host(node)?.bytes().to_vec())),
        false => Ok(None),
    };
    nodes.iter().map(bytes).collect()
}

/// The results of the definition, for every node.
///
/// # Errors
///
/// An error of the interpreter.
pub(crate) fn defined(case: &RunCase) -> Result<Results> {
    let nodes = case.interpret().map_err(|error| anyhow!("the definition fails: {error}"))?;
    Ok(nodes.into_iter().map(Some).collect())
}

fn is_lasting(node: &TensorNode) -> bool {
    !node.mode().known_not_materialized()
}

/// A handle for each node, with the memory mode of its declaration.
fn handles(routine: &LoweredRoutine) -> Result<Vec<TensorNode>> {
    let handle = |(node, decl): (NodeRef, &NodeDecl)| {
        let label = format!("p{}", node.index());
        let builder = TensorNode::builder(label.as_str()).dims(decl.dims.iter().copied()).dtype(decl.dtype);
        let handle = builder.build()?;
        commit_modes(&[(handle.clone(), decl.mode.clone())])?;
        Ok(handle)
    };
    routine.node_refs().map(handle).collect()
}
