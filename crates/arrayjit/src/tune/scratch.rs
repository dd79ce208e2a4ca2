//! A kernel with memory of its own, to be run and timed on the calling thread.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use codegen_core::{
    Binding, Code, Codegen, DType, Kernel, KernelCall, Param, RoutineParts, ScheduledRoutine, Slot,
};
use device_runtime::{Context, Device, LinkedRoutine};
use lowered_ir::ir::{NodeDecl, SymbolId};
use scheduler_multicore::{Cpu, CpuConfig};
use tnode::{HostArray, ModeState, Scalar, TensorNode};

/// The most bytes of a kernel's nodes.
const MOST_BYTES: usize = 1 << 30;

/// Memory for the nodes of a kernel, on an inline device.
pub(super) struct ScratchMemory {
    nodes: Vec<TensorNode>,
    context: Context,
    bindings: Vec<i64>,
}

/// A form of a kernel that runs on scratch memory.
pub(super) struct ScratchRun {
    routine: LinkedRoutine,
    bindings: Vec<i64>,
}

impl ScratchMemory {
    /// Memory for a kernel; `None` if the kernel needs more than memory to run, or too much memory.
    pub(super) fn new(kernel: &Kernel) -> Option<ScratchMemory> {
        let abi = kernel.abi();
        let is_merge_buffer = |param: &Param| matches!(param, Param::MergeBuffer { .. });
        let bytes: usize = abi.memory().map(|(_, bytes)| bytes).sum();
        if !abi.log.is_empty() || bytes > MOST_BYTES || abi.params.iter().any(is_merge_buffer) {
            return None;
        }
        let device = Device::new(Arc::new(Cpu::inline(CpuConfig::default())), 0);
        let mut context = Context::new(&device.new_stream().ok()?);
        let mut nodes = Vec::new();
        for (at, decl) in kernel.ir().nodes.iter().enumerate() {
            let builder = TensorNode::builder(format!("n{at}"));
            let node = builder.dims(decl.dims.iter().copied()).dtype(decl.dtype).build().ok()?;
            context = context.init_from_host(&node, &values(decl)?).ok()?;
            nodes.push(node);
        }
        // Loops that end at symbols run to their limits.
        let bindings = kernel.ir().symbols.iter().map(|symbol| symbol.range - 1).collect();
        Some(ScratchMemory { nodes, context, bindings })
    }

    /// Compiles a kernel that has the nodes of this memory; `None` if that fails.
    pub(super) fn link(&self, codegen: &dyn Codegen, kernel: Kernel) -> Option<ScratchRun> {
        let schedule = alone(kernel)?;
        let artifact = codegen.compile(&schedule).ok()?;
        let code = Arc::new(Code::new(schedule, artifact).ok()?);
        let routine = self.context.link(&code, &self.nodes).ok()?;
        Some(ScratchRun { routine, bindings: self.bindings.clone() })
    }
}

impl ScratchRun {
    /// The time of one of `count` runs; `None` if one fails.
    pub(super) fn time(&self, count: u32) -> Option<Duration> {
        let start = Instant::now();
        for _ in 1..count {
            self.routine.run(&self.bindings).ok()?;
        }
        self.routine.run(&self.bindings).ok()?.sync().ok()?;
        Some(start.elapsed() / count)
    }
}

/// A routine that calls a kernel once, over nodes like those of the kernel.
fn alone(kernel: Kernel) -> Option<ScheduledRoutine> {
    let ir = kernel.ir();
    let parts = RoutineParts {
        name: kernel.abi().name.clone(),
        symbols: ir.symbols.clone(),
        // The modes are those of another routine.
        nodes: ir
            .nodes
            .iter()
            .map(|decl| NodeDecl { mode: ModeState::undecided(), ..decl.clone() })
            .collect(),
        calls: vec![KernelCall {
            kernel: 0,
            args: ir.node_refs().map(|(node, _)| Slot::Node(node)).collect(),
            bindings: (0..ir.symbols.len() as u32).map(|at| Binding::Symbol(SymbolId(at))).collect(),
        }],
        temps: Vec::new(),
        overwritten: Vec::new(),
        kernels: vec![kernel],
    };
    ScheduledRoutine::new(parts).ok()
}

/// Values for a node: numbers around 1 for floats, which do not become denormal soon, and zeros for all other
/// types, which are valid positions in any array.
fn values(decl: &NodeDecl) -> Option<HostArray> {
    let mut array = HostArray::zeros(decl.dtype, decl.dims.iter().copied()).ok()?;
    match decl.dtype {
        DType::F32 => {
            let pattern = [0.5f32, -0.75, 1.0, 0.25, -0.5, 1.25, -1.0];
            let values = array.as_mut_slice::<f32>().ok()?;
            values.iter_mut().zip(pattern.iter().cycle()).for_each(|(value, new)| *value = *new);
        }
        dtype if dtype.is_float() => array.fill(Scalar::from_f64(dtype, 0.5)),
        _ => {}
    }
    Some(array)
}
