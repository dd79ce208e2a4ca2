//! Faults: their causes, and the block, thread and instruction where they occur.

use std::fmt;

use ptx_asm::{Reg, StateSpace};

/// A violation of PTX's rules that stopped a run.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("kernel `{kernel}`{}: {cause}", site.as_ref().map(|site| format!(", {site}")).unwrap_or_default())]
pub struct SimFault {
    /// Name of the kernel.
    pub kernel: String,
    /// Where the fault occurred; `None` if the launch was invalid.
    pub site: Option<Box<FaultSite>>,
    /// The violated rule.
    pub cause: Box<FaultCause>,
}

/// The position of a fault in the grid and in the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultSite {
    /// Index of the block.
    pub block: u32,
    /// Index of the thread in its block; the first one if several are concerned.
    pub thread: u32,
    /// The instruction that was about to execute.
    pub instruction: String,
}

impl fmt::Display for FaultSite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "block {}, thread {}, at {}", self.block, self.thread, self.instruction)
    }
}

/// The rule that a kernel violates, with the facts of the violation.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FaultCause {
    /// The program is malformed; [`ptx_asm::check`] would have rejected it.
    #[error("not a kernel: {0}")]
    Malformed(String),
    /// The number of arguments differs from the number of parameters.
    #[error("expected {expected} parameters, found {found}")]
    Params {
        /// Number of parameters that the kernel declares.
        expected: u32,
        /// Number of arguments of the launch.
        found: usize,
    },
    /// A thread reads a register that it has not written.
    #[error("expected a value in {reg:?}, which was never written")]
    UnwrittenRegister {
        /// The register.
        reg: Reg,
    },
    /// An access does not lie within one array or buffer.
    #[error("{bytes} bytes at {space} {address:#x} lie in no array: {nearest}")]
    OutOfBounds {
        /// The state space.
        space: StateSpace,
        /// Address of the first byte.
        address: u64,
        /// Size of the access in bytes.
        bytes: u32,
        /// The array below the address, with its size and start.
        nearest: String,
    },
    /// The address of an access is not a multiple of the required alignment.
    #[error("expected an address of a multiple of {align}, found {space} {address:#x}")]
    Misaligned {
        /// The state space.
        space: StateSpace,
        /// The address.
        address: u64,
        /// The required alignment in bytes.
        align: u32,
    },
    /// A read of uninitialized memory.
    #[error("{location} is read and was never written")]
    Uninitialized {
        /// The first uninitialized byte.
        location: MemoryLocation,
    },
    /// A data race: two unordered accesses, at least one of which writes.
    #[error("race: {access} of {location}, which {other} {}; nothing orders the two", past(*other_access))]
    Race {
        /// The first byte that both access.
        location: MemoryLocation,
        /// The access of this thread.
        access: AccessKind,
        /// The author of the other access.
        other: Accessor,
        /// The other access.
        other_access: AccessKind,
    },
    /// Two lanes store different values to one address in one instruction.
    #[error("race: lanes {} and {} store different values at {location}", lanes[0], lanes[1])]
    ConflictingLanes {
        /// The byte.
        location: MemoryLocation,
        /// The two lanes.
        lanes: [u32; 2],
    },
    /// Memory that is loaded as constant is written in the same launch.
    #[error("{location} is loaded as constant and written in one launch, by {other}")]
    NotConstant {
        /// The byte.
        location: MemoryLocation,
        /// The author of the other access.
        other: Accessor,
    },
    /// An access of the destination of an asynchronous copy in flight.
    #[error("{location} is the destination of a copy of thread {owner} that was not waited for")]
    PendingCopy {
        /// The byte.
        location: MemoryLocation,
        /// The thread that issued the copy.
        owner: u32,
    },
    /// The source of an asynchronous copy changed before the copy was waited for.
    #[error("{location} changed while a copy from it was under way")]
    SourceChanged {
        /// The first byte of the source.
        location: MemoryLocation,
    },
    /// A write to shared memory that TMA or `wgmma` may still be reading.
    #[error("{location} is written while {by} may still be reading it")]
    PendingRead {
        /// The byte.
        location: MemoryLocation,
        /// The reader.
        by: Accessor,
    },
    /// TMA or `wgmma` accesses bytes that a thread wrote without a later [`ptx_asm::Inst::FenceProxyAsync`].
    #[error("{location} was written by {writer}, which has not fenced it for TMA and wgmma")]
    Unfenced {
        /// The byte.
        location: MemoryLocation,
        /// The writer.
        writer: Accessor,
    },
    /// An ordinary access to an mbarrier.
    #[error("{location} is part of a barrier")]
    IsBarrier {
        /// The first byte that belongs to the mbarrier.
        location: MemoryLocation,
    },
    /// An operation on an mbarrier that was not initialized.
    #[error("there is no barrier at {location}: it was not initialized")]
    NoBarrier {
        /// The address of the operation.
        location: MemoryLocation,
    },
    /// An mbarrier is used in a way that PTX does not allow.
    #[error("the barrier at {location}: {what}")]
    Barrier {
        /// The mbarrier's first byte.
        location: MemoryLocation,
        /// The mistake, in words.
        what: String,
    },
    /// The operands of a TMA or `wgmma` instruction are invalid.
    #[error("{0}")]
    InvalidTile(String),
    /// An accumulator is accessed while a `wgmma` may be computing it, or a `wgmma` follows accesses of its
    /// accumulators without a fence.
    #[error("{reg:?} is {what}")]
    Accumulator {
        /// The register.
        reg: Reg,
        /// Why the access is a fault, as a noun phrase for the register.
        what: &'static str,
    },
    /// Warps of a warpgroup execute different instructions, or lanes pass different operands.
    #[error("a warpgroup does not act as one: {0}")]
    Warpgroup(String),
    /// `setmaxnreg` requests an increase to fewer registers than the warp has, or a decrease to more.
    #[error("expected {} than {found} registers a thread, found {count}", if *increase { "more" } else { "less" })]
    RegisterCount {
        /// Registers per thread before.
        found: u32,
        /// Registers per thread that are requested.
        count: u32,
        /// Whether the instruction is an increase.
        increase: bool,
    },
    /// A block rank is not in the cluster.
    #[error("expected a block of the cluster below {blocks}, found {found}")]
    ClusterBlock {
        /// The rank.
        found: u32,
        /// Number of blocks of the cluster.
        blocks: u32,
    },
    /// A block or warp ends before it has waited for an asynchronous operation or a remote arrival.
    #[error("the end comes before {0}")]
    Outstanding(String),
    /// Only some lanes execute an instruction that all lanes of a warp must execute together.
    #[error("expected lanes {expected:#010x} of the warp together, found {active:#010x}")]
    PartialWarp {
        /// Mask of the lanes that execute it.
        active: u32,
        /// Mask of the lanes that must execute it.
        expected: u32,
    },
    /// The lane operand of a shuffle is out of range. For such operands the hardware differs from the
    /// definition of [`ptx_asm::Inst::Shuffle`].
    #[error("expected a lane or distance below {limit}, found {found}")]
    ShuffleLane {
        /// The operand.
        found: u32,
        /// The limit that the operand must stay below.
        limit: u32,
    },
    /// `cp.async` is to read more bytes than it copies.
    #[error("expected at most {bytes} bytes to read, found {read}")]
    CopySize {
        /// Number of bytes that are copied.
        bytes: u32,
        /// Number of bytes to read.
        read: u32,
    },
    /// Warps expect different numbers of threads at one barrier.
    #[error("barrier {id} is for {expected} threads, say those that wait; found {found}")]
    BarrierSize {
        /// Number of the barrier.
        id: u32,
        /// Number of threads that the waiting warps expect.
        expected: u32,
        /// Number of threads that this warp expects.
        found: u32,
    },
    /// No warp can run, and at least one waits. The text describes the state of each warp.
    #[error("deadlock: {0}")]
    Deadlock(String),
    /// The run exceeds its limit on the number of instructions.
    #[error("expected an end within {0} instructions of warps")]
    Limit(u64),
}

/// Kinds of memory access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessKind {
    /// A read.
    Read,
    /// A read of memory that no thread writes during the launch.
    Constant,
    /// A write.
    Write,
    /// An atomic read-modify-write.
    Atomic,
}

impl fmt::Display for AccessKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AccessKind::Read => "read",
            AccessKind::Constant => "constant read",
            AccessKind::Write => "write",
            AccessKind::Atomic => "atomic update",
        })
    }
}

/// The past tense of an access.
fn past(access: AccessKind) -> &'static str {
    match access {
        AccessKind::Read | AccessKind::Constant => "read",
        AccessKind::Write => "wrote",
        AccessKind::Atomic => "updated",
    }
}

/// The author of an earlier access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accessor {
    /// A thread of this block.
    Thread(u32),
    /// Several lanes of a warp of this block.
    Warp(u32),
    /// Another block.
    Block(u32),
    /// A TMA operation that this thread issued.
    Tma(u32),
    /// A `wgmma` of the warpgroup that contains this warp.
    Wgmma(u32),
}

impl fmt::Display for Accessor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Accessor::Thread(thread) => write!(f, "thread {thread}"),
            Accessor::Warp(warp) => write!(f, "warp {warp}"),
            Accessor::Block(block) => write!(f, "block {block}"),
            Accessor::Tma(thread) => write!(f, "a TMA operation of thread {thread}"),
            Accessor::Wgmma(warp) => write!(f, "a wgmma of warp {warp}"),
        }
    }
}

/// A byte of memory, as faults describe it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryLocation {
    /// The state space.
    pub space: StateSpace,
    /// The address.
    pub address: u64,
    /// The array that contains the byte: the name of a buffer, or the index of an array.
    pub array: String,
    /// Offset of the byte in the array.
    pub byte: usize,
}

impl fmt::Display for MemoryLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "byte {} of {} array `{}`", self.byte, self.space, self.array)
    }
}

/// The result of a check.
pub(super) type CheckResult<T> = Result<T, Box<FaultCause>>;

/// A fault of a warp's step, with the first lane concerned.
#[derive(Debug)]
pub(super) struct LaneFault {
    pub(super) lane: u32,
    pub(super) cause: Box<FaultCause>,
}

/// The result of a warp's step, or of a part of it.
pub(super) type StepResult<T> = Result<T, LaneFault>;

/// Attaches the lane to the cause of a fault.
pub(super) trait InLane<T> {
    fn in_lane(self, lane: usize) -> StepResult<T>;
}

impl<T> InLane<T> for CheckResult<T> {
    fn in_lane(self, lane: usize) -> StepResult<T> {
        self.map_err(|cause| LaneFault { lane: lane as u32, cause })
    }
}

/// The fault of a program that [`ptx_asm::check`] should have rejected.
pub(super) fn malformed<T>(what: impl Into<String>) -> CheckResult<T> {
    Err(Box::new(FaultCause::Malformed(what.into())))
}
