//! Runs scheduled routines on the simulated GPU and compares every call with the interpreter of the IR.

use std::sync::{Arc, Mutex};

use codegen_core::{Access, CodegenError, Kernel, Logging, Param, ScheduledRoutine, TileSwizzle, log_buffer};
use codegen_ptx::{Ptx, PtxKernels};
use codegen_testkit::Outcome;
use filetests::RunCase;
use lowered_ir::interp::{self, Memory};
use lowered_ir::log::{LogLine, LogStyle};
use lowered_ir::passes::runner::Trace;
use ptx_sim::{
    ExecutionOrder, GlobalBuffer, KernelStats, SimLaunch, SimTensorMap, SimulatedGpu, Swizzle, run,
};
use scheduling::{ScheduleError, ScheduleOptions, schedule, schedule_serial};
use tnode::{DType, Scalar};

/// Content of memory that nothing has written.
const SOIL: u8 = 0xa5;

/// Schedules, compiles and runs a case. Every kernel must leave the results of the interpreter of the IR, bit
/// for bit except for NaNs, and the nodes must have the expected values.
pub(crate) fn run_case(codegen: &Ptx, case: &RunCase, order: ExecutionOrder) -> Outcome {
    let scheduled = match schedule(&case.routine, codegen, &ScheduleOptions::default()) {
        Ok(scheduled) => scheduled,
        Err(ScheduleError::Illegal(error)) => return Outcome::Skipped(error.to_string()),
        Err(error) => return Outcome::Failed(error.to_string()),
    };
    match run_scheduled(codegen, &scheduled, case, order) {
        Ok((nodes, _)) => case.check(&nodes).map_or_else(Outcome::Failed, |()| Outcome::Passed),
        Err(outcome) => outcome,
    }
}

/// The log of a case, compiled with logging. Every kernel must leave the results of the interpreter of the
/// IR, as in [`run_case`].
pub(crate) fn run_logged(codegen: &Ptx, case: &RunCase, order: ExecutionOrder) -> Result<String, Outcome> {
    let scheduled = schedule_serial(&case.routine, codegen, &mut Trace::none());
    let scheduled = scheduled.map_err(|error| match error {
        ScheduleError::Illegal(error) => Outcome::Skipped(error.to_string()),
        error => Outcome::Failed(error.to_string()),
    })?;
    run_scheduled(codegen, &scheduled, case, order).map(|(_, log)| log)
}

/// Runs the kernels of a scheduled routine. Returns the final values of the nodes, and the log.
fn run_scheduled(
    codegen: &Ptx,
    scheduled: &ScheduledRoutine,
    case: &RunCase,
    order: ExecutionOrder,
) -> Result<(Vec<Vec<u8>>, String), Outcome> {
    let rendered = codegen.render(scheduled.kernels()).map_err(|error| match error {
        CodegenError::Unsupported { .. } => Outcome::Skipped(error.to_string()),
        _ => Outcome::Failed(error.to_string()),
    })?;
    let mut log = String::new();
    let nodes = filetests::run_calls(scheduled, case, |at, args, bindings| {
        let kernel = &scheduled.kernels()[at];
        let call = || {
            let found = run_kernel(&rendered, at, kernel, &args, bindings, order)?;
            let defined = defined(kernel, args.clone(), bindings)?;
            compare(kernel, &found.memory, &defined)?;
            Ok((defined, text(&found.log, &kernel.abi().log)))
        };
        let (defined, lines) = call().map_err(|message: String| {
            let ir = lowered_ir::text::print(kernel.ir());
            let kernels = vec![rendered.module.kernels[at].clone()];
            let module = ptx_asm::PtxProgram { target: rendered.module.target, kernels };
            Outcome::Failed(format!("{message}\n{ir}\n{}", ptx_asm::print(&module)))
        })?;
        log += &lines;
        Ok(defined)
    })?;
    Ok((nodes, log))
}

/// The result of running a kernel.
pub(crate) struct KernelResult {
    /// The bytes of each memory parameter.
    pub(crate) memory: Vec<Vec<u8>>,
    /// The bytes of the log buffer.
    pub(crate) log: Vec<u8>,
    /// Statistics of the run.
    pub(crate) stats: KernelStats,
}

/// The text of a log.
pub(crate) fn text(buffer: &[u8], lines: &[LogLine]) -> String {
    let text = Arc::new(Mutex::new(String::new()));
    let into = Arc::clone(&text);
    let sink = Arc::new(move |lines: &str| into.lock().expect("no thread panics").push_str(lines));
    log_buffer::write(buffer, lines, &Logging { sink, style: LogStyle::Exact });
    std::mem::take(&mut *text.lock().expect("no thread panics"))
}

/// Runs a kernel on its arguments.
pub(crate) fn run_kernel(
    rendered: &PtxKernels,
    at: usize,
    kernel: &Kernel,
    args: &[Vec<u8>],
    bindings: &[i64],
    order: ExecutionOrder,
) -> Result<KernelResult, String> {
    let mut machine = SimulatedGpu::new();
    let mut place = |(nth, bytes): (usize, &Vec<u8>)| match kernel.abi().params[nth] {
        // The kernel overwrites the whole parameter and must not read it before, so its memory begins
        // uninitialized.
        Param::Node { access: Access::Write, .. } => machine.reserve(format!("p{nth}"), bytes.len()),
        _ => machine.put(format!("p{nth}"), bytes.clone()),
    };
    let regions: Vec<GlobalBuffer> = args.iter().enumerate().map(&mut place).collect();
    let launch = &rendered.launches[at];
    // Only the header is cleared.
    let mut log = vec![SOIL; launch.log_bytes as usize];
    log.iter_mut().take(log_buffer::HEADER_BYTES).for_each(|byte| *byte = 0);
    let log = (launch.log_bytes > 0).then(|| machine.put("log", log));
    let memory = regions.iter().chain(&log).map(|region| region.address());
    let params: Vec<u64> = memory.chain(bindings.iter().map(|&b| b as u64)).collect();
    let maps: Vec<SimTensorMap> = launch.maps.iter().map(|map| tensor(map, &params)).collect();
    let launch = SimLaunch::new(launch.blocks, &params).with_maps(&maps);
    let stats =
        run(&rendered.module.kernels[at], &launch, &mut machine, order).map_err(|fault| fault.to_string())?;
    for (nth, region) in regions.iter().enumerate() {
        match kernel.abi().params[nth] {
            Param::Node { access: Access::Write, .. } if !machine.is_written(*region) => {
                return Err(format!("p{nth} is not written whole"));
            }
            Param::Node { access: Access::Read, .. } if machine.bytes(*region) != args[nth] => {
                return Err(format!("p{nth} is changed, and only read by the IR"));
            }
            _ => {}
        }
    }
    let bytes = |region: GlobalBuffer| machine.bytes(region).to_vec();
    let log = log.map(bytes).unwrap_or_default();
    Ok(KernelResult { memory: regions.into_iter().map(bytes).collect(), log, stats })
}

/// A tensor map in the simulator's form.
fn tensor(map: &codegen_core::TensorMap, params: &[u64]) -> SimTensorMap {
    SimTensorMap {
        address: params[map.param as usize] + map.offset,
        element: map.dtype.size_bytes() as u32,
        sizes: map.sizes.clone(),
        strides: map.strides.clone(),
        tile: map.tile.clone(),
        swizzle: match map.swizzle {
            TileSwizzle::None => Swizzle::None,
            TileSwizzle::Bytes32 => Swizzle::Bytes32,
            TileSwizzle::Bytes64 => Swizzle::Bytes64,
            TileSwizzle::Bytes128 => Swizzle::Bytes128,
        },
    }
}

/// The results of the interpreter of the IR for a kernel's arguments.
pub(crate) fn defined(kernel: &Kernel, args: Vec<Vec<u8>>, bindings: &[i64]) -> Result<Vec<Vec<u8>>, String> {
    let merge = kernel.abi().params.iter().position(|p| matches!(p, Param::MergeBuffer { .. }));
    let mut memory = Memory { merge: merge.map(|at| args[at].clone()), nodes: args };
    interp::run(kernel.ir(), &mut memory, bindings).map_err(|e| e.to_string())?;
    Ok(memory.nodes)
}

fn compare(kernel: &Kernel, found: &[Vec<u8>], defined: &[Vec<u8>]) -> Result<(), String> {
    for ((node, decl), (found, defined)) in kernel.ir().node_refs().zip(found.iter().zip(defined)) {
        let both = scalars(found, decl.dtype).zip(scalars(defined, decl.dtype)).enumerate();
        let is_nan = |x: Scalar| x.dtype().is_float() && x.as_f64().is_nan();
        for (at, (found, defined)) in both {
            if found != defined && !(is_nan(found) && is_nan(defined)) {
                return Err(format!("node {node}, element {at}: {found:?}, but by the IR {defined:?}"));
            }
        }
    }
    Ok(())
}

fn scalars(bytes: &[u8], dtype: DType) -> impl Iterator<Item = Scalar> + '_ {
    bytes.chunks_exact(dtype.size_bytes()).filter_map(move |chunk| Scalar::read(dtype, chunk))
}
