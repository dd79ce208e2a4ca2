//! Emits the instructions of a kernel from its loop IR.
//!
//! The emitter visits each statement once. It copies the bodies of unrolled loops and of vector lanes, and
//! emits other loops as loops. Indices are 32-bit numbers where they fit, and become addresses by one
//! multiplication. Guards become predicates.

pub(crate) mod approximate;
mod attention; // attention on tensor cores
mod convert;
mod expr;
mod half_floats;
mod index;
mod locals;
mod log;
mod matmul; // matmuls on tensor cores
mod memory;
mod ops;
mod outputs;
mod pending_stores;
mod remainder;
mod stmt;
mod threads;
mod warp_reduction;

use std::collections::{BTreeSet, HashMap, HashSet};

use codegen_core::emit::{LoopScope, lacking};
use codegen_core::ir::{ArrayRef, LocalId, Locals, LoopId, LoweredRoutine, NodeRef, Stmt, walk};
use codegen_core::threads::{BarrierPlacement, Grid, Home, Plan, grid, plan};
use codegen_core::{Caps, Checked, DType, Kernel, PtxLaunch, Scalar, TensorMap, reject};
use ptx_asm::{PtxOperand, Reg, RegClass, RoundingMode, Target, Ty};

use crate::builder::InstBuilder;
use crate::options::PtxOptions;
use crate::unroll::unrolled;
use crate::warp_reductions::WarpReductions;
use attention::TensorCoreAttention;
use locals::LocalStorage;
use log::{KernelLog, LogBuffer};
use matmul::TensorCoreMatmul;
use memory::KnownElements;
use pending_stores::PendingStores;
use warp_reduction::StepResults;

/// The most statements of a kernel; assemblers take minutes for more.
const MAX_STMTS: usize = 1 << 17;

/// The deepest nesting of loops.
const MAX_LOOP_DEPTH: usize = 100;

/// The target and options of a compilation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EmitSettings<'k> {
    pub(crate) target: Target,
    pub(crate) caps: &'k Caps,
    pub(crate) options: &'k PtxOptions,
}

/// A kernel's program and launch.
#[derive(Debug)]
pub(crate) struct EmittedKernel {
    pub(crate) kernel: ptx_asm::PtxKernel,
    pub(crate) launch: PtxLaunch,
}

/// A number: known at compile time, or in registers.
#[derive(Clone, Copy, Debug)]
enum Value {
    Known(Scalar),
    /// In a register of the class of [`carrier`].
    In(Reg),
    /// Four 32-bit lanes.
    Lanes([PtxOperand; 4]),
}

/// The PTX type that carries values of a type, which determines the register class. Narrow integers, and
/// types that are only moved, are extended to words.
fn carrier(dtype: DType) -> Ty {
    match dtype {
        DType::Bool => Ty::Pred,
        DType::I8 | DType::I32 => Ty::S32,
        DType::U8 | DType::U16 | DType::U32 | DType::Fp8E5m2 | DType::Fp8E4m3fn | DType::U32x4 => Ty::U32,
        DType::F16 => Ty::F16,
        DType::Bf16 => Ty::Bf16,
        DType::F32 => Ty::F32,
        DType::F64 => Ty::F64,
        DType::I64 => Ty::S64,
        DType::U64 => Ty::U64,
    }
}

/// A known number as an operand of its carrier type; lanes are handled one by one.
fn constant(scalar: Scalar) -> PtxOperand {
    match scalar.dtype() {
        DType::I8 => PtxOperand::from(i32::from(scalar.bits() as u8 as i8)),
        _ => PtxOperand::Const(scalar.bits() as u64),
    }
}

/// A loop that is unrolled.
#[derive(Clone, Copy, Debug)]
struct UnrolledLoop {
    var: LoopId,
    lo: i64,
    extent: i64,
}

/// State of the emission of one kernel.
struct Emitter<'k> {
    b: InstBuilder,
    setting: EmitSettings<'k>,
    routine: &'k LoweredRoutine,
    locals: Locals,
    plan: Plan,
    /// Addresses of the nodes.
    bases: Vec<Reg>,
    /// The log, if the kernel logs.
    log: Option<KernelLog<'k>>,
    /// The nodes that the kernel stores to.
    written: BTreeSet<NodeRef>,
    /// Values of the loop variables in scope, and of the symbols.
    scope: LoopScope<'k, Reg>,
    /// The unrolled loops among them.
    unrolled: Vec<UnrolledLoop>,
    storage: HashMap<LocalId, LocalStorage>,
    /// Registers that are written more than once.
    variables: HashSet<Reg>,
    /// Elements of memory whose values are in registers.
    elements: KnownElements,
    /// Stores that wait to be combined into vectors.
    pending: PendingStores,
    /// Collects the values of stores, in order, instead of storing them; `None` stores them.
    results: Option<Vec<Reg>>,
    /// Threads of a block.
    block_threads: u32,
    /// Whether an iteration of the grid is a block (cooperative) rather than a thread.
    is_cooperative: bool,
    /// Index of the thread in its block.
    thread: Reg,
    /// Whether the statements are inside a workgroup loop.
    within: bool,
    /// Whether a barrier is needed before zeroed shared memory is read.
    zeroing: bool,
    /// The barriers of the kernel.
    barriers: BarrierPlacement,
    /// Reductions by warp shuffles, and the results of the latest step.
    warp_reductions: WarpReductions<'k>,
    step_results: Option<StepResults<'k>>,
    /// Nesting depth of loops.
    depth: usize,
}

/// Emits the program of a kernel.
pub(crate) fn emit(kernel: &Kernel, entry: &str, setting: EmitSettings<'_>) -> Checked<EmittedKernel> {
    check_nodes(kernel.ir())?;
    if let Some(matmul) = TensorCoreMatmul::of(kernel.ir(), setting.caps.contractions) {
        return matmul.emit(entry, setting);
    }
    if let Some(attention) = TensorCoreAttention::of(kernel.ir(), setting.caps.contractions) {
        return attention.emit(entry, setting);
    }
    let routine = &unrolled(kernel.ir());
    let grid = grid(&routine.body)?;
    let buffer = LogBuffer::of(kernel, &grid, setting.options.log_bytes)?;
    let (blocks, threads) = launch(&grid, setting)?;
    let block = ThreadBlock { threads, is_cooperative: grid.threads.is_some() };
    let plan = plan(routine, grid.body);
    let mut emitter = Emitter::new(routine, entry, setting, block, plan, buffer);
    if let Some(threads) = grid.threads {
        emitter.warp_reductions = WarpReductions::of(routine, threads);
        emitter.barriers = BarrierPlacement::of(routine, &emitter.warp_reductions.fused);
    }
    let room = emitter.room();
    emitter.b.min_blocks_per_sm((room / threads.next_multiple_of(32)).clamp(1, BLOCKS));
    emitter.grid(&grid)?;
    Ok(emitter.finish(blocks, Vec::new()))
}

/// The number of threads for which an SM should have room. Each of them then has 64 registers. Without this
/// hint, assemblers may use only 32 and spill.
const THREADS: u32 = 1024;

/// A thread with at least this number of register-resident elements gets 128 registers.
const MANY_ELEMENTS: usize = 8;

/// Blocks for which every SM has room, however small they are.
const BLOCKS: u32 = 16;

/// The shape of a block.
#[derive(Clone, Copy, Debug)]
struct ThreadBlock {
    threads: u32,
    /// Whether an iteration of the grid is a block.
    is_cooperative: bool,
}

/// Number of blocks, and threads per block.
fn launch(grid: &Grid<'_>, setting: EmitSettings<'_>) -> Checked<(u32, u32)> {
    lacking::check_workgroup(setting.caps, grid)?;
    let (blocks, threads) = match grid.threads {
        Some(threads) => (grid.extent.max(1), threads),
        None => {
            let most = setting.caps.workgroups.map_or(1, |w| w.threads);
            let threads = alone(grid.extent, setting.options.threads.clamp(1, most));
            (grid.extent.max(1).div_ceil(threads), threads)
        }
    };
    if blocks > i32::MAX as u32 {
        return reject("a parallel loop", "it takes 2^31 blocks or more, a grid has fewer");
    }
    Ok((blocks, threads))
}

/// Roughly the number of threads that fill a large GPU once.
const FILLED: u32 = 1 << 15;

/// The number of threads per block if each iteration is a thread: half of `wished` if there are few
/// iterations, and no more warps than have work.
fn alone(extent: u32, wished: u32) -> u32 {
    let threads = if extent < FILLED { wished.div_ceil(2) } else { wished };
    threads.min(extent.max(1).next_multiple_of(32))
}

/// Checks that every dimension and symbol fits 31 bits; a whole node may have more elements.
fn check_nodes(routine: &LoweredRoutine) -> Checked {
    for (node, decl) in routine.node_refs() {
        let elements = decl.dims.iter().try_fold(decl.dtype.size_bytes(), |n, &d| n.checked_mul(d));
        let is_short = |d: &usize| *d <= i32::MAX as usize;
        if elements.is_none_or(|bytes| bytes > i64::MAX as usize) || !decl.dims.iter().all(is_short) {
            return reject(
                format!("node {node}"),
                "a dimension has 2^31 elements or more, indices have 32 bits: split it",
            );
        }
    }
    lacking::check_symbols(routine)
}

/// The nodes that a statement stores to.
fn written(routine: &LoweredRoutine) -> BTreeSet<NodeRef> {
    walk::stmts(&routine.body).filter_map(Stmt::array).filter_map(ArrayRef::node).collect()
}

impl<'k> Emitter<'k> {
    fn new(
        routine: &'k LoweredRoutine,
        entry: &str,
        setting: EmitSettings<'k>,
        block: ThreadBlock,
        plan: Plan,
        buffer: Option<LogBuffer<'k>>,
    ) -> Emitter<'k> {
        let params = (routine.nodes.len() + usize::from(buffer.is_some()) + routine.symbols.len()) as u32;
        let mut b = InstBuilder::new(ptx_asm::PtxBuilder::new(entry, params, block.threads));
        let thread = b.special(ptx_asm::SpecialReg::Thread);
        let mut emitter = Emitter {
            b,
            setting,
            routine,
            locals: routine.locals(),
            plan,
            bases: Vec::new(),
            log: None,
            written: written(routine),
            scope: LoopScope::new(routine),
            unrolled: Vec::new(),
            storage: HashMap::new(),
            variables: HashSet::new(),
            elements: KnownElements::default(),
            pending: PendingStores::default(),
            results: None,
            block_threads: block.threads,
            is_cooperative: block.is_cooperative,
            thread,
            within: false,
            zeroing: false,
            barriers: BarrierPlacement::default(),
            warp_reductions: WarpReductions::default(),
            step_results: None,
            depth: 0,
        };
        emitter.parameters(buffer);
        emitter
    }

    /// The number of threads for which an SM should have room: half of [`THREADS`] if each thread keeps many
    /// values.
    fn room(&self) -> u32 {
        let kept = |(local, home): (&LocalId, &Home)| match self.locals.get(local) {
            Some(decl) if *home == Home::Variables => {
                let elements = decl.dims[self.skipped(*local)..].iter().product::<usize>();
                elements * decl.dtype.size_bytes().div_ceil(4)
            }
            _ => 0,
        };
        let kept: usize = self.plan.homes.iter().map(kept).sum();
        if kept < MANY_ELEMENTS { THREADS } else { THREADS / 2 }
    }

    /// Loads the parameters: addresses of nodes, the address of the log if there is one, then the values of
    /// symbols.
    fn parameters(&mut self, buffer: Option<LogBuffer<'k>>) {
        let (nodes, symbols) = (self.routine.nodes.len() as u32, self.routine.symbols.len() as u32);
        let behind = nodes + u32::from(buffer.is_some());
        let mut read = |param| self.b.param(param);
        self.bases = (0..nodes).map(&mut read).collect();
        let wide: Vec<Reg> = (behind..behind + symbols).map(&mut read).collect();
        if let Some(buffer) = buffer {
            let base = read(nodes);
            self.begin_log(buffer, base);
        }
        let narrow = wide.into_iter().map(|reg| self.b.convert(Ty::U32, Ty::U64, RoundingMode::None, reg));
        self.scope.set_symbols(narrow.collect());
    }

    fn finish(mut self, blocks: u32, maps: Vec<TensorMap>) -> EmittedKernel {
        self.flush();
        let kernel = self.b.finish();
        let launch = PtxLaunch {
            entry: kernel.name.clone(),
            blocks,
            threads: kernel.threads,
            dynamic_shared_bytes: kernel.dynamic_shared_bytes(),
            cluster: kernel.cluster.max(1),
            log_bytes: self.log.map_or(0, |log| log.buffer.bytes),
            maps,
        };
        EmittedKernel { kernel, launch }
    }

    /// A value in a register of its carrier's class; not for lanes.
    fn reg(&mut self, value: Value) -> Reg {
        match value {
            Value::In(reg) => reg,
            Value::Known(scalar) if scalar.dtype() == DType::Bool => {
                let truth = self.b.mov(RegClass::B32, scalar.bits() as u32);
                self.b.compare(ptx_asm::CmpOp::Ne, Ty::U32, truth, 0u32)
            }
            Value::Known(scalar) => self.b.mov(carrier(scalar.dtype()).class(), constant(scalar)),
            Value::Lanes([first, ..]) => match first {
                PtxOperand::Reg(reg) => reg,
                PtxOperand::Const(_) => self.b.mov(RegClass::B32, first),
            },
        }
    }

    /// A value as an operand; truth values are registers.
    fn operand(&mut self, value: Value) -> PtxOperand {
        match value {
            Value::Known(scalar) if scalar.dtype() != DType::Bool => constant(scalar),
            value => self.reg(value).into(),
        }
    }

    /// The four lanes of a value.
    fn lanes(&mut self, value: Value) -> [PtxOperand; 4] {
        match value {
            Value::Lanes(lanes) => lanes,
            Value::Known(scalar) => {
                [0, 1, 2, 3].map(|lane| PtxOperand::from((scalar.bits() >> (32 * lane)) as u32))
            }
            Value::In(reg) => [reg.into(); 4],
        }
    }

    /// A value that does not change when variables do.
    fn kept(&mut self, value: Value) -> Value {
        let mut own = |reg: Reg| match self.variables.contains(&reg) {
            true => self.b.mov(reg.class, reg),
            false => reg,
        };
        match value {
            Value::Known(_) => value,
            Value::In(reg) => Value::In(own(reg)),
            Value::Lanes(lanes) => Value::Lanes(lanes.map(|lane| match lane {
                PtxOperand::Reg(reg) => own(reg).into(),
                PtxOperand::Const(_) => lane,
            })),
        }
    }

    /// Opens a block. Stores that are pending outside of it are written first.
    fn open(&mut self) {
        self.flush();
        self.b.open();
        self.elements.open();
    }

    /// Closes the innermost block.
    fn close(&mut self) -> ptx_asm::StmtList {
        self.flush();
        self.elements.close();
        self.b.close()
    }
}
