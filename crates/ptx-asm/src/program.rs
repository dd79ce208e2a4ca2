//! PTX programs as data: kernels are trees of typed instructions.
//!
//! A [`PtxProgram`] is the content of one PTX file. The body of a [`PtxKernel`] is a tree of statements:
//! instructions, predicated instructions, branches, and loops with one entry and one exit. Threads that
//! diverge at a branch reconverge after it. Registers are typed and need no declaration; [`Reg::number`]
//! counts within a register class. A register may be written any number of times. Every path to a read of a
//! register must write the register first.
//!
//! # Memory
//!
//! An address of global memory is a 64-bit register. An address of shared or local memory is a 32-bit
//! register or an array of the kernel. Every access is aligned to its own size: a vector of four `f32` to 16
//! bytes.

use std::fmt;

use smallvec::SmallVec;

use crate::inst::Inst;

/// The content of one PTX file: kernels for one target.
#[derive(Clone, Debug, PartialEq)]
pub struct PtxProgram {
    /// The compute capability that the kernels need.
    pub target: Target,
    /// The kernels; no two have the same name.
    pub kernels: Vec<PtxKernel>,
}

/// Compute capabilities for which programs are written, oldest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Target {
    /// 7.0 and newer: warp shuffles, half-precision arithmetic.
    Sm70,
    /// 8.0 and newer: `cp.async`, `mma` of bf16 and tf32.
    Sm80,
    /// 9.0 only, with its architecture-specific features: `wgmma`, TMA, clusters.
    Sm90a,
}

/// One entry point: its parameters, arrays, launch bounds and body.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PtxKernel {
    /// The name of the entry point: a letter, then letters, digits and `_`.
    pub name: String,
    /// Number of 64-bit parameters, mostly addresses. Parameters and tensor maps together take at most 4 KiB.
    pub params: u32,
    /// Arrays in shared memory.
    pub shared: Vec<ArrayDecl>,
    /// Arrays in the local memory of each thread.
    pub local: Vec<ArrayDecl>,
    /// Threads of a block: 1 to 1024.
    pub threads: u32,
    /// Minimum number of blocks per SM (`.minnctapersm`), which limits registers; `None` leaves it out.
    pub min_blocks_per_sm: Option<u32>,
    /// Blocks of a cluster, which can reach each other's shared memory: up to 8. With 0 or 1 there are no
    /// clusters.
    pub cluster: u32,
    /// Number of tensor maps, the last parameters of the kernel.
    pub maps: u32,
    /// The statements that each thread executes.
    pub body: StmtList,
}

/// An array that a kernel declares in shared or local memory.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ArrayDecl {
    /// Size in bytes, at least 1.
    pub bytes: u32,
    /// Alignment in bytes, a power of two up to 1024.
    pub align: u32,
}

/// Statements in program order.
pub type StmtList = Vec<PtxStmt>;

/// A statement of a kernel's body.
#[derive(Clone, Debug, PartialEq)]
pub enum PtxStmt {
    /// An instruction that all active threads execute.
    Inst(Inst),
    /// A predicated instruction: threads whose guard is false skip it.
    Predicated(GuardPredicate, Inst),
    /// A branch; its threads reconverge after it.
    If {
        /// Threads whose guard is true take `then`.
        guard: GuardPredicate,
        /// Statements of the threads whose guard is true.
        then: StmtList,
        /// Statements of the other threads; may be empty.
        otherwise: StmtList,
    },
    /// A do-while loop. A thread leaves it when the guard is false, and waits after it for the other threads.
    Loop {
        /// Executed at least once.
        body: StmtList,
        /// Tested at the end of each iteration.
        repeat_while: GuardPredicate,
    },
    /// A comment in the PTX text; has no line breaks.
    Comment(String),
}

/// A guard predicate: a predicate register or its negation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GuardPredicate {
    /// A register of class [`RegClass::Pred`].
    pub pred: Reg,
    /// The value of `pred` for which the guard is true.
    pub when: bool,
}

/// Register classes: width and kind of a register's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RegClass {
    /// True or false.
    Pred,
    /// 16 bits: integers, `f16`, `bf16`.
    B16,
    /// 32 bits: integers, pairs of 16-bit floats, `tf32`, addresses of shared and local memory.
    B32,
    /// 64 bits: integers, addresses of global memory.
    B64,
    /// IEEE single precision.
    F32,
    /// IEEE double precision.
    F64,
}

/// A virtual register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reg {
    /// The register's class.
    pub class: RegClass,
    /// The register's number within its class.
    pub number: u32,
}

/// Registers of a vector access or a matrix fragment.
pub type Regs = SmallVec<[Reg; 4]>;

/// A source operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PtxOperand {
    /// The content of a register.
    Reg(Reg),
    /// An immediate: the bits of a value of the instruction's type, in the low bits.
    Const(u64),
}

/// Special registers, all of 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SpecialReg {
    /// The thread's index in its block (`%tid.x`).
    Thread,
    /// The block's index in the grid (`%ctaid.x`).
    Block,
    /// The number of blocks in the grid (`%nctaid.x`).
    Blocks,
    /// The thread's lane in its warp (`%laneid`).
    Lane,
    /// The block's rank in its cluster (`%cluster_ctarank`).
    ClusterBlock,
}

/// PTX state spaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StateSpace {
    /// Memory of the device, shared by all threads.
    Global,
    /// Memory of a block.
    Shared,
    /// Memory of a thread.
    Local,
}

/// An address operand: a base plus an immediate offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AddressOperand {
    /// The address to which the offset is added.
    pub base: AddressBase,
    /// Offset in bytes.
    pub offset: i32,
}

/// The base of an address operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AddressBase {
    /// An address in a register: 64 bits wide for global memory, 32 bits for shared and local memory.
    Reg(Reg),
    /// An array of the kernel, in the state space of the access: an index into [`PtxKernel::shared`] or
    /// [`PtxKernel::local`].
    Array(u32),
}

impl Target {
    /// The targets in order of compute capability.
    pub const ALL: [Target; 3] = [Target::Sm70, Target::Sm80, Target::Sm90a];

    /// The target's name in PTX, such as `sm_80`.
    pub fn name(self) -> &'static str {
        match self {
            Target::Sm70 => "sm_70",
            Target::Sm80 => "sm_80",
            Target::Sm90a => "sm_90a",
        }
    }

    /// The oldest PTX version (major, minor) that has every instruction of the target.
    pub fn language(self) -> (u32, u32) {
        match self {
            Target::Sm70 => (6, 5),
            Target::Sm80 => (7, 0),
            Target::Sm90a => (8, 0),
        }
    }

    /// The greatest size of a block's shared memory, in bytes.
    pub fn shared_bytes(self) -> u32 {
        match self {
            Target::Sm70 => 96 << 10,
            Target::Sm80 => 163 << 10,
            Target::Sm90a => 227 << 10,
        }
    }

    /// The newest target that a device of this compute capability runs; `None` below 7.0.
    pub fn for_device(major: u32, minor: u32) -> Option<Target> {
        match (major, minor) {
            (9, 0) => Some(Target::Sm90a),
            (8.., _) => Some(Target::Sm80),
            (7, _) => Some(Target::Sm70),
            _ => None,
        }
    }
}

/// Maximum size of the shared memory that a kernel declares statically, in bytes. If its arrays are larger,
/// the launch allocates the memory.
pub(crate) const STATIC_SHARED_BYTES: u32 = 48 << 10;

impl PtxKernel {
    /// Offset of each array of [`PtxKernel::shared`] in the block's shared memory, in bytes.
    pub fn shared_layout(&self) -> Vec<u32> {
        self.layout().0
    }

    /// Size of the parameters in bytes.
    pub(crate) fn param_bytes(&self) -> u64 {
        let numbers = 8 * u64::from(self.params);
        if self.maps == 0 { numbers } else { numbers.next_multiple_of(64) + 128 * u64::from(self.maps) }
    }

    /// Size of a block's shared memory in bytes.
    pub fn shared_bytes(&self) -> u32 {
        self.layout().1
    }

    /// Size in bytes of the shared memory that the launch must allocate: 0 if the kernel declares its arrays
    /// statically (up to 48 KiB), else the size of all shared arrays.
    pub fn dynamic_shared_bytes(&self) -> u32 {
        Some(self.shared_bytes()).filter(|&bytes| bytes > STATIC_SHARED_BYTES).unwrap_or(0)
    }

    /// Alignment of the block's shared memory in bytes.
    pub(crate) fn shared_align(&self) -> u32 {
        self.shared.iter().map(|array| array.align).max().unwrap_or(1)
    }

    fn layout(&self) -> (Vec<u32>, u32) {
        let mut end = 0_u32;
        let mut place = |array: &ArrayDecl| {
            let at = end.checked_next_multiple_of(array.align.max(1)).unwrap_or(u32::MAX);
            end = at.saturating_add(array.bytes);
            at
        };
        (self.shared.iter().map(&mut place).collect(), end)
    }
}

impl RegClass {
    /// The register classes in declaration order, for tables indexed by class.
    pub const ALL: [RegClass; 6] =
        [RegClass::Pred, RegClass::B16, RegClass::B32, RegClass::B64, RegClass::F32, RegClass::F64];

    /// Width in bits; 1 for predicates.
    pub fn bits(self) -> u32 {
        match self {
            RegClass::Pred => 1,
            RegClass::B16 => 16,
            RegClass::B32 | RegClass::F32 => 32,
            RegClass::B64 | RegClass::F64 => 64,
        }
    }
}

impl fmt::Display for StateSpace {
    /// The name of the state space in PTX, such as `global`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            StateSpace::Global => "global",
            StateSpace::Shared => "shared",
            StateSpace::Local => "local",
        })
    }
}

impl GuardPredicate {
    /// True where the predicate is true (`@p`).
    pub fn on(pred: Reg) -> GuardPredicate {
        GuardPredicate { pred, when: true }
    }

    /// True where the predicate is false (`@!p`).
    pub fn not(pred: Reg) -> GuardPredicate {
        GuardPredicate { pred, when: false }
    }
}

impl AddressOperand {
    /// The address in a register.
    pub fn at(base: Reg) -> AddressOperand {
        AddressOperand { base: AddressBase::Reg(base), offset: 0 }
    }

    /// The first byte of an array of the kernel.
    pub fn array(array: u32) -> AddressOperand {
        AddressOperand { base: AddressBase::Array(array), offset: 0 }
    }

    /// Adds a number of bytes to the offset.
    #[must_use]
    pub fn plus(self, bytes: i32) -> AddressOperand {
        AddressOperand { offset: self.offset.wrapping_add(bytes), ..self }
    }
}

impl From<Reg> for PtxOperand {
    fn from(reg: Reg) -> PtxOperand {
        PtxOperand::Reg(reg)
    }
}

impl From<u32> for PtxOperand {
    fn from(value: u32) -> PtxOperand {
        PtxOperand::Const(u64::from(value))
    }
}

impl From<i32> for PtxOperand {
    fn from(value: i32) -> PtxOperand {
        PtxOperand::Const(u64::from(value as u32))
    }
}

impl From<u64> for PtxOperand {
    fn from(value: u64) -> PtxOperand {
        PtxOperand::Const(value)
    }
}

impl From<f32> for PtxOperand {
    fn from(value: f32) -> PtxOperand {
        PtxOperand::Const(u64::from(value.to_bits()))
    }
}

impl From<f64> for PtxOperand {
    fn from(value: f64) -> PtxOperand {
        PtxOperand::Const(value.to_bits())
    }
}
