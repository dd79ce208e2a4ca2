//! Capabilities of a target: the types that it stores and computes with, its caches, threads and workgroups.

mod check;

pub use check::CapsError;
use lowered_ir::ir::UnaryOp;
use tnode::DType;

/// The least alignment in bytes of every base address of a kernel's memory on every target: of nodes,
/// temporaries, merge buffers and scratch memory. Host code may rely on this alignment and no larger one.
pub const BASE_ALIGNMENT: usize = 64;

/// The capabilities of a target. Legalization and scheduling read nothing else about it.
///
/// [`Caps::host`] and [`Caps::gpu`] fill in everything; a target overrides the fields that it knows better:
///
/// ```
/// use codegen_core::{Caps, Workgroups};
///
/// let avx2 = Caps { vector_bytes: 32, vector_registers: 16, threads: 8, ..Caps::host("x86_64-linux") };
/// let gpu = Caps::gpu("webgpu", Workgroups::new(256, 16 << 10));
/// assert!(avx2.workgroups.is_none() && gpu.workgroups.is_some());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Caps {
    /// The target's name, for messages and cache keys.
    pub target: String,
    /// Types that nodes may have in memory.
    pub storage: DTypeSet,
    /// Types with native arithmetic; the others are legalized to operations on these.
    pub arithmetic: DTypeSet,
    /// Floats without native arithmetic that the target converts from and to `f32`, by the definition of
    /// [`tnode::Scalar::convert`]. Legalization expands the conversions of other narrow floats to some ten
    /// operations on integers.
    pub conversions: DTypeSet,
    /// How transcendental operations are computed: `exp`, `tanh`, ….
    pub transcendental: Transcendental,
    /// Bytes of a vector register; 0 where there are no vectors.
    pub vector_bytes: usize,
    /// Vector registers a kernel may use.
    pub vector_registers: usize,
    /// Operand types of the contractions in [canonical form](crate::canonical) for which the target has
    /// kernels of its own. The scheduler leaves such contractions whole, and legalization leaves the
    /// conversions of their operands.
    pub contractions: DTypeSet,
    /// Whether fused multiply-add is a machine instruction. It is always exact: otherwise a slow call
    /// computes it.
    pub fma: bool,
    /// Bytes of the L1 data cache.
    pub l1_bytes: usize,
    /// Bytes of the L2 cache.
    pub l2_bytes: usize,
    /// Threads that one kernel may be split over.
    pub threads: usize,
    /// Alignment of pools and scratch memory in bytes. A value below [`BASE_ALIGNMENT`] counts as
    /// [`BASE_ALIGNMENT`].
    pub alignment: usize,
    /// The type of computed indices: `i64` on hosts, `i32` on targets whose nodes have fewer than 2³¹
    /// elements.
    pub index: DType,
    /// The limits of workgroups, on GPUs. A target with workgroups gets kernels of parallel and workgroup
    /// loops.
    pub workgroups: Option<Workgroups>,
}

/// How transcendental operations are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transcendental {
    /// Legalization expands them to the polynomials of [`lowered_ir::math`].
    Expanded,
    /// In routines of class `Fast`, instructions of the target compute `exp`, `exp2`, `log`, `log2`, `sin`,
    /// `cos` and `tanh` on `f32`, less accurately; the target documents how accurately. All other operations
    /// are expanded.
    Approximate,
    /// The target computes them as [`lowered_ir::eval`] does.
    Native,
}

/// Whether a target of [`Transcendental::Approximate`] has an instruction for the operation.
pub fn has_approximation(op: UnaryOp) -> bool {
    use UnaryOp::{Cos, Exp, Exp2, Log, Log2, Sin, Tanh};
    matches!(op, Exp | Exp2 | Log | Log2 | Sin | Cos | Tanh)
}

impl Caps {
    /// A host without vectors and with one thread: native arithmetic on `bool`, integers, `f32` and `f64`,
    /// storage of every type, caches of 32 KiB and 512 KiB.
    pub fn host(target: impl Into<String>) -> Caps {
        let is_native = |d: &DType| d.is_integer() || matches!(d, DType::Bool | DType::F32 | DType::F64);
        Caps {
            target: target.into(),
            storage: DType::ALL.into_iter().collect(),
            arithmetic: DType::ALL.into_iter().filter(is_native).collect(),
            conversions: DTypeSet::EMPTY,
            transcendental: Transcendental::Expanded,
            vector_bytes: 0,
            vector_registers: 0,
            contractions: DTypeSet::EMPTY,
            fma: true,
            l1_bytes: 32 << 10,
            l2_bytes: 512 << 10,
            threads: 1,
            alignment: BASE_ALIGNMENT,
            index: DType::I64,
            workgroups: None,
        }
    }

    /// A GPU with these workgroups: native arithmetic on `bool`, 32-bit integers and `f32`, storage of every
    /// type, vectors of 16 bytes, memory aligned to 256 bytes, indices of 32 bits.
    pub fn gpu(target: impl Into<String>, workgroups: Workgroups) -> Caps {
        let native = [DType::Bool, DType::I32, DType::U32, DType::F32, DType::U32x4];
        Caps {
            arithmetic: native.into_iter().collect(),
            vector_bytes: 16,
            vector_registers: 16,
            l1_bytes: workgroups.memory_bytes,
            l2_bytes: 1 << 20,
            alignment: 256,
            index: DType::I32,
            workgroups: Some(workgroups),
            ..Caps::host(target)
        }
    }
}

/// The limits of a workgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Workgroups {
    /// The most threads.
    pub threads: u32,
    /// Bytes of shared memory.
    pub memory_bytes: usize,
    /// The 32-bit registers of a thread that may hold outputs, operands and elements on their way from
    /// memory. 0 if the target does not state them: then the scheduler assumes room for 16 outputs and 8
    /// operands.
    pub registers: u32,
    /// Threads of a subgroup, which run in lockstep, so that their accesses to shared memory coincide. 1 if
    /// that is not known.
    pub subgroup_size: u32,
    /// Bytes of the narrowest type of which a thread can load or store several elements with one access.
    pub element_bytes: usize,
}

impl Workgroups {
    /// Limits of a target that states nothing about registers and subgroups, and has vectorized access to
    /// 4-byte elements.
    pub const fn new(threads: u32, memory_bytes: usize) -> Workgroups {
        Workgroups { threads, memory_bytes, registers: 0, subgroup_size: 1, element_bytes: 4 }
    }
}

/// A set of element types.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct DTypeSet(u32);

impl DTypeSet {
    /// No type.
    pub const EMPTY: DTypeSet = DTypeSet(0);

    /// Whether `dtype` is in the set.
    pub fn contains(self, dtype: DType) -> bool {
        self.0 & (1 << dtype as u32) != 0
    }

    /// Whether no type is in the set.
    pub fn is_empty(self) -> bool {
        self == DTypeSet::EMPTY
    }

    /// The set with `dtype` added.
    pub const fn with(self, dtype: DType) -> DTypeSet {
        DTypeSet(self.0 | (1 << dtype as u32))
    }
}

impl FromIterator<DType> for DTypeSet {
    fn from_iter<I: IntoIterator<Item = DType>>(dtypes: I) -> Self {
        dtypes.into_iter().fold(DTypeSet::EMPTY, DTypeSet::with)
    }
}
