//! Emits the shader module of a kernel's loop IR.
//!
//! The emitter visits each statement once. Unrolled loops and vector loops are written once per iteration,
//! other loops become loops of the shader; guards become selections. Types in which the target does not
//! compute are carried in words.

mod convert;
mod expr;
mod index;
mod locals;
mod memory;
mod ops;
mod remainder;
mod rounding;
mod stmt;
mod threads;
mod vector_slabs;
mod zeros;

use std::collections::{BTreeSet, HashMap};

use codegen_core::emit::{LoopScope, lacking};
use codegen_core::ir::{LocalId, Locals, LoweredRoutine, NodeRef, Stmt};
use codegen_core::threads::{BarrierTracker, Grid, Plan, grid, plan};
use codegen_core::{Caps, Checked, DType, Kernel, Scalar, reject};
use naga::Module;

use crate::builder::{Buffer, ShaderBuilder, Ty, Value};
use crate::options::WgslOptions;
use locals::LocalStorage;

/// A kernel as a module, and its launch parameters.
#[derive(Debug)]
pub(crate) struct EmittedModule {
    pub(crate) module: Module,
    /// Number of workgroups.
    pub(crate) groups: u64,
    /// Length of the table, in words.
    pub(crate) table_words: usize,
}

/// Maximum number of expressions of a shader: drivers take minutes to compile larger ones.
const MAX_SIZE: usize = 1 << 17;

/// Maximum depth of loop nests: parsers of shaders limit the nesting of braces.
pub(crate) const MAX_LOOP_DEPTH: usize = 50;

/// A number that is known at compile time, or computed by the shader.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Operand {
    Known(Scalar),
    Computed(Value),
}

/// The location of a node's memory.
#[derive(Clone, Copy, Debug)]
struct Param {
    slab: usize,
    /// The node's offset in the slab, in words; a multiple of 4.
    offset: Value,
}

/// Emits the module of a kernel whose parameter `i` is in slab `slabs[i]`.
pub(crate) fn emit(
    kernel: &Kernel,
    slabs: &[u32],
    caps: &Caps,
    options: &WgslOptions,
) -> Checked<EmittedModule> {
    let routine = kernel.ir();
    let grid = grid(&routine.body)?;
    let plan = plan(routine, grid.body);
    let emitter = Emitter {
        b: ShaderBuilder::new(),
        routine,
        caps,
        locals: routine.locals(),
        plan,
        slabs: Vec::new(),
        params: Vec::new(),
        scope: LoopScope::new(routine),
        storage: HashMap::new(),
        stored_narrow: BTreeSet::new(),
        threads: grid.threads,
        within: None,
        thread: None,
        barriers: BarrierTracker::of(routine),
        pending_lanes: HashMap::new(),
        private_bytes: 0,
        shared_bytes: 0,
        options,
        depth: 0,
    };
    emitter.kernel(&grid, slabs)
}

/// The state of emitting one kernel.
struct Emitter<'k> {
    b: ShaderBuilder,
    routine: &'k LoweredRoutine,
    caps: &'k Caps,
    options: &'k WgslOptions,
    locals: Locals,
    plan: Plan,
    slabs: Vec<Buffer>,
    params: Vec<Param>,
    /// Values of the loop variables in scope, and of the symbols.
    scope: LoopScope<'k, Value>,
    storage: HashMap<LocalId, LocalStorage>,
    /// Nodes with stores of less than a word.
    stored_narrow: BTreeSet<NodeRef>,
    /// Threads that run one iteration of the grid together.
    threads: Option<u32>,
    /// The thread's number in its workgroup, inside of workgroup loops.
    within: Option<Value>,
    /// The thread's number in its workgroup.
    thread: Option<Value>,
    /// The placement of barriers.
    barriers: BarrierTracker<'k>,
    /// Lanes that have been computed while the others of their vector have not, by the statement that stores
    /// them.
    pending_lanes: HashMap<*const Stmt, Vec<Value>>,
    private_bytes: u64,
    shared_bytes: u64,
    /// The number of loops around the current statement.
    depth: usize,
}

impl<'k> Emitter<'k> {
    fn kernel(mut self, grid: &Grid<'k>, slabs: &[u32]) -> Checked<EmittedModule> {
        lacking::check_workgroup(self.caps, grid)?;
        self.check_types()?;
        self.check_nodes()?;
        self.bind(slabs);
        let threads = grid.threads.unwrap_or(self.options.threads.clamp(1, self.most_threads()));
        let groups = self.grid(grid, threads)?;
        lacking::check_size(self.b.size(), MAX_SIZE)?;
        let table_words = self.params.len() + self.routine.symbols.len();
        Ok(EmittedModule { module: self.b.finish("main", threads), groups, table_words })
    }

    fn most_threads(&self) -> u32 {
        self.caps.workgroups.map_or(1, |w| w.threads)
    }

    /// Values of 64 bits need a type of that size, even if they are only moved.
    fn check_types(&self) -> Checked {
        let nodes = self.routine.nodes.iter().map(|decl| decl.dtype);
        let locals = self.locals.values().map(|decl| decl.dtype);
        let lacks = |d: &DType| d.size_bytes() == 8 && !self.caps.arithmetic.contains(*d);
        match nodes.chain(locals).find(lacks) {
            None => Ok(()),
            Some(dtype) => reject(
                dtype.to_string(),
                format!("{} has no numbers of this type; a device with the feature has", self.caps.target),
            ),
        }
    }

    /// Checks that elements and words have 31-bit numbers, so that indices are signed 32-bit numbers.
    fn check_nodes(&self) -> Checked {
        for (node, decl) in self.routine.node_refs() {
            let elements = decl.dims.iter().try_fold(1usize, |n, &d| n.checked_mul(d));
            let words = elements.and_then(|n| n.checked_mul(decl.dtype.size_bytes())).map(|b| b.div_ceil(4));
            let fits = |n: Option<usize>| n.is_some_and(|n| n <= i32::MAX as usize);
            if !fits(elements) || !fits(words) {
                return reject(
                    format!("node {node}"),
                    "it has 2^31 elements or words or more, indices have 32 bits: split it",
                );
            }
        }
        lacking::check_symbols(self.routine)
    }

    /// Declares the buffers and reads the table: the offset of each node in its slab, and the values of
    /// symbols.
    fn bind(&mut self, slabs: &[u32]) {
        self.stored_narrow = memory::stored_narrow(self.routine);
        let count = slabs.iter().map(|&s| s as usize + 1).max().unwrap_or(0);
        let words = slabs.len() + self.routine.symbols.len();
        if words > 0 {
            let table = self.b.table((words as u32).div_ceil(4), 0);
            let entry = |e: &mut Self, at: usize| {
                let vector = e.b.u32(at as u32 / 4);
                let pointer = e.b.word(table, vector);
                let vector = e.b.load(pointer);
                e.b.lane(vector, at as u32 % 4, Ty::U32)
            };
            for (at, &slab) in slabs.iter().enumerate() {
                let offset = entry(self, at);
                self.b.name(offset, &format!("at_{at}"));
                self.params.push(Param { slab: slab as usize, offset });
            }
            let mut symbols = Vec::new();
            for (at, symbol) in self.routine.symbols.iter().enumerate() {
                let word = entry(self, slabs.len() + at);
                let value = self.b.convert(Ty::I32, word);
                self.b.name(value, &identifier(&symbol.name));
                symbols.push(value);
            }
            self.scope.set_symbols(symbols);
        }
        let vector_slabs = vector_slabs::VectorAccesses::of(self.routine, &self.plan);
        for slab in 0..count {
            let atomic = (self.routine.node_refs())
                .any(|(node, _)| slabs[node.index()] as usize == slab && self.stored_narrow.contains(&node));
            let vectors =
                !atomic && vector_slabs.has_vector_elements(|node| slabs[node.index()] as usize == slab);
            let ty = if vectors { Ty::U32x4 } else { Ty::U32 };
            let buffer = self.b.slab(&format!("slab_{slab}"), slab as u32 + 1, ty, atomic);
            self.slabs.push(buffer);
        }
    }

    /// The shader's type for values of an IR type.
    fn carrier(&self, dtype: DType) -> Ty {
        carrier(self.caps, dtype)
    }

    /// The operand as a value of the shader.
    fn value(&mut self, operand: Operand) -> Value {
        match operand {
            Operand::Computed(value) => value,
            Operand::Known(scalar) => self.known_value(scalar),
        }
    }

    fn known_value(&mut self, scalar: Scalar) -> Value {
        let ty = self.carrier(scalar.dtype());
        match scalar.dtype() {
            DType::U32x4 => {
                let lanes = [0, 1, 2, 3].map(|lane| self.b.u32((scalar.bits() >> (32 * lane)) as u32));
                self.b.lanes(lanes)
            }
            DType::I8 => self.b.i32(i32::from(scalar.bits() as u8 as i8)),
            _ => self.b.bits(ty, scalar.bits() as u64),
        }
    }
}

/// The shader's type for values of an IR type.
pub(crate) fn carrier(caps: &Caps, dtype: DType) -> Ty {
    match dtype {
        DType::Bool => Ty::Bool,
        DType::U8 | DType::U16 | DType::U32 => Ty::U32,
        DType::I8 | DType::I32 => Ty::I32,
        DType::F16 if caps.arithmetic.contains(DType::F16) => Ty::F16,
        DType::F16 | DType::Bf16 | DType::Fp8E5m2 | DType::Fp8E4m3fn => Ty::U32,
        DType::F32 => Ty::F32,
        DType::I64 => Ty::I64,
        DType::U64 => Ty::U64,
        DType::F64 => Ty::F64,
        DType::U32x4 => Ty::U32x4,
    }
}

/// A valid identifier of the shading languages.
fn identifier(name: &str) -> String {
    let plain: String = name.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
    format!("symbol_{plain}")
}
