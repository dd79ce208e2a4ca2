//! What a target can hold and compute, as data.

use tnode::DType;

/// The alignment in bytes that every base address of a kernel's memory has at least, whatever the target: of
/// nodes, temporaries, merge buffers and scratch memory. Host code may rely on this much and no more.
pub const BASE_ALIGNMENT: usize = 64;

/// The capabilities of a target: legalisation and scheduling read nothing else about it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Caps {
    /// The target's name, for messages and cache keys.
    pub target: String,
    /// Types that nodes may have in memory.
    pub storage: DTypeSet,
    /// Types with native arithmetic; the others are legalised to operations on these.
    pub arithmetic: DTypeSet,
    /// Who computes transcendental operations: `exp`, `tanh`, ….
    pub transcendental: Transcendental,
    /// Bytes of a vector register; 0 where there are no vectors.
    pub vector_bytes: usize,
    /// Vector registers a kernel may use.
    pub vector_registers: usize,
    /// Types of the factors of contractions in canonical form ([`crate::canonical`]) that have kernels of their own, so that the scheduler
    /// leaves them whole, and legalisation the conversions of their factors. None where there are no such kernels.
    pub contractions: DTypeSet,
    /// Whether fused multiply-add is a machine instruction (it is always exact, if need be through a slow call).
    pub fma: bool,
    /// Bytes of the innermost data cache.
    pub l1_bytes: usize,
    /// Bytes of the second-level cache.
    pub l2_bytes: usize,
    /// Threads that one kernel may be split over.
    pub threads: usize,
    /// Alignment of pools and scratch memory, in bytes; what is less than [`BASE_ALIGNMENT`] counts as that.
    pub alignment: usize,
    /// The type of computed indices: `i64` on hosts, `i32` where nodes have fewer than 2³¹ elements and that is the faster one.
    pub index: DType,
    /// Workgroups of threads that share memory, on GPUs. A target that has them gets kernels of parallel and workgroup loops.
    pub workgroups: Option<Workgroups>,
}

/// Who computes transcendental operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transcendental {
    /// Legalisation expands them to the polynomials of [`lowered_ir::math`].
    Expanded,
    /// The target's own instructions, less accurate, compute `exp`, `exp2`, `log`, `log2`, `sin`, `cos` and `tanh` on `f32` in routines of class
    /// `Fast`; the rest is expanded. The target says how accurate they are.
    Approximate,
    /// The target computes them as [`lowered_ir::eval`] does.
    Native,
}

/// What a workgroup may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Workgroups {
    /// Threads.
    pub threads: u32,
    /// Bytes of shared memory.
    pub memory_bytes: usize,
    /// Registers of 32 bits in which a thread may keep values while it computes others: outputs, operands, elements on their way from
    /// memory. 0 where nothing is known of them; then 16 outputs and 8 operands are what every target has room for.
    pub registers: u32,
    /// Threads that run in step, so that their accesses to shared memory meet; 1 where that is not known.
    pub lanes: u32,
    /// Bytes of the narrowest elements of which a thread reads or writes several with one access.
    pub element_bytes: usize,
}

impl Workgroups {
    /// Of a target that says nothing else about itself.
    pub const fn new(threads: u32, memory_bytes: usize) -> Workgroups {
        Workgroups { threads, memory_bytes, registers: 0, lanes: 1, element_bytes: 4 }
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
