//! What goes wrong in a run, and where.

use std::fmt;

use ptx_asm::{Reg, StateSpace};

/// Why a run stopped.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("kernel `{kernel}`{}: {cause}", site.as_ref().map(|site| format!(", {site}")).unwrap_or_default())]
pub struct SimFault {
    /// The kernel's name.
    pub kernel: String,
    /// Where it was, unless it never started.
    pub site: Option<Box<FaultSite>>,
    /// What was wrong.
    pub cause: Box<FaultCause>,
}

/// Where a kernel was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultSite {
    /// The block's number.
    pub block: u32,
    /// The thread's number in it; of several, the first.
    pub thread: u32,
    /// What it was about to do.
    pub instruction: String,
}

impl fmt::Display for FaultSite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "block {}, thread {}, at {}", self.block, self.thread, self.instruction)
    }
}

/// What was wrong.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FaultCause {
    /// What the checker of programs would have refused.
    #[error("not a kernel: {0}")]
    Malformed(String),
    /// The launch does not fit the kernel.
    #[error("expected {expected} parameters, found {found}")]
    Params {
        /// What the kernel declares.
        expected: u32,
        /// What the launch gave.
        found: usize,
    },
    /// A register that this thread never wrote.
    #[error("expected a value in {reg:?}, which was never written")]
    UnwrittenRegister {
        /// Which register.
        reg: Reg,
    },
    /// An access outside of every array, or of more than one.
    #[error("{bytes} bytes at {space} {address:#x} lie in no array: {nearest}")]
    OutOfBounds {
        /// The memory's kind.
        space: StateSpace,
        /// The first byte's address.
        address: u64,
        /// How many bytes.
        bytes: u32,
        /// The array below, and by how much it is missed.
        nearest: String,
    },
    /// An access at an address that its size does not divide.
    #[error("expected an address of a multiple of {align}, found {space} {address:#x}")]
    Misaligned {
        /// The memory's kind.
        space: StateSpace,
        /// The address.
        address: u64,
        /// What should divide it.
        align: u32,
    },
    /// A read of bytes that nobody wrote.
    #[error("{location} is read and was never written")]
    Uninitialised {
        /// The first such byte.
        location: MemoryLocation,
    },
    /// Two accesses that nothing orders, one of which writes.
    #[error("race: {access} of {location}, which {other} {}; nothing orders the two", past(*other_access))]
    Race {
        /// The first byte that both touch.
        location: MemoryLocation,
        /// What this thread does.
        access: AccessKind,
        /// Who was there before.
        other: Accessor,
        /// What that did.
        other_access: AccessKind,
    },
    /// Two lanes store different values at one address with one instruction.
    #[error("race: lanes {} and {} store different values at {location}", lanes[0], lanes[1])]
    ConflictingLanes {
        /// The byte.
        location: MemoryLocation,
        /// Who.
        lanes: [u32; 2],
    },
    /// What is loaded as constant is written in the same launch.
    #[error("{location} is loaded as constant and written in one launch, by {other}")]
    NotConstant {
        /// The byte.
        location: MemoryLocation,
        /// Who did the other of the two.
        other: Accessor,
    },
    /// An access to bytes that an asynchronous copy may be writing.
    #[error("{location} is the destination of a copy of thread {owner} that was not waited for")]
    PendingCopy {
        /// The byte.
        location: MemoryLocation,
        /// Whose copy.
        owner: u32,
    },
    /// The source of an asynchronous copy was written before the copy was waited for.
    #[error("{location} changed while a copy from it was under way")]
    SourceChanged {
        /// The first byte of the source.
        location: MemoryLocation,
    },
    /// Shared memory is written that copies or products may still be reading.
    #[error("{location} is written while {by} may still be reading it")]
    PendingRead {
        /// The byte.
        location: MemoryLocation,
        /// Who reads.
        by: Accessor,
    },
    /// Copies of tiles and products touch what a thread wrote without a fence since ([`ptx_asm::Inst::FenceProxyAsync`]).
    #[error("{location} was written by {writer}, which has not fenced it for copies and products")]
    Unfenced {
        /// The byte.
        location: MemoryLocation,
        /// Who wrote it.
        writer: Accessor,
    },
    /// An ordinary access to a barrier in memory.
    #[error("{location} is part of a barrier")]
    IsBarrier {
        /// The first such byte.
        location: MemoryLocation,
    },
    /// There is no barrier where one is arrived at or waited for.
    #[error("there is no barrier at {location}: nobody made one")]
    NoBarrier {
        /// Where it should be.
        location: MemoryLocation,
    },
    /// A barrier is used in a way that it does not allow.
    #[error("the barrier at {location}: {what}")]
    Barrier {
        /// Where it is.
        location: MemoryLocation,
        /// What is wrong.
        what: String,
    },
    /// A tile copy or product that the hardware does not know.
    #[error("{0}")]
    InvalidTile(String),
    /// A register is touched that products may still be computing, or that they are to compute without a fence since the threads touched it.
    #[error("{reg:?} is {what}")]
    Accumulator {
        /// The register.
        reg: Reg,
        /// What it lacks.
        what: &'static str,
    },
    /// Warps of a warpgroup, or lanes of a warp, do not agree about what they do together.
    #[error("a warpgroup does not act as one: {0}")]
    Warpgroup(String),
    /// Registers that are given back while there are less, or taken while there are more.
    #[error("expected {} than {found} registers a thread, found {count}", if *increase { "more" } else { "less" })]
    RegisterCount {
        /// How many there are.
        found: u32,
        /// How many there should be.
        count: u32,
        /// Whether that should be more.
        increase: bool,
    },
    /// There is no such block in the cluster.
    #[error("expected a block of the cluster below {blocks}, found {found}")]
    ClusterBlock {
        /// Its number.
        found: u32,
        /// How many blocks there are.
        blocks: u32,
    },
    /// A block, or a warp, ends while something that it has to wait for may be under way.
    #[error("the end comes before {0}")]
    Outstanding(String),
    /// Something that whole warps do, done by a part of one.
    #[error("expected lanes {expected:#010x} of the warp together, found {active:#010x}")]
    PartialWarp {
        /// The lanes that are there.
        active: u32,
        /// Those that should be.
        expected: u32,
    },
    /// The partner's number is none of a group: the hardware and the definition of [`ptx_asm::Inst::Shuffle`] part there.
    #[error("expected a lane or distance below {limit}, found {found}")]
    ShuffleLane {
        /// What it was.
        found: u32,
        /// What it should be below.
        limit: u32,
    },
    /// More bytes to read than to copy.
    #[error("expected at most {bytes} bytes to read, found {read}")]
    CopySize {
        /// What is written.
        bytes: u32,
        /// What is to be read.
        read: u32,
    },
    /// Warps at one barrier disagree about how many meet.
    #[error("barrier {id} is for {expected} threads, say those that wait; found {found}")]
    BarrierSize {
        /// The barrier's number.
        id: u32,
        /// What the first warp said.
        expected: u32,
        /// What this one says.
        found: u32,
    },
    /// No warp can go on.
    #[error("deadlock: {0}")]
    Deadlock(String),
    /// The run takes too long.
    #[error("expected an end within {0} instructions of warps")]
    Limit(u64),
}

/// What is done to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessKind {
    /// Reading.
    Read,
    /// Reading what no thread writes.
    Constant,
    /// Writing.
    Write,
    /// Both in one step.
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

/// What somebody did.
fn past(access: AccessKind) -> &'static str {
    match access {
        AccessKind::Read | AccessKind::Constant => "read",
        AccessKind::Write => "wrote",
        AccessKind::Atomic => "updated",
    }
}

/// Who did something before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accessor {
    /// A thread of this block.
    Thread(u32),
    /// Several threads of a warp of this block.
    Warp(u32),
    /// Another block.
    Block(u32),
    /// A copy of a tile that this thread began.
    Tma(u32),
    /// Products of the warpgroup that this warp is of.
    Wgmma(u32),
}

impl fmt::Display for Accessor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Accessor::Thread(thread) => write!(f, "thread {thread}"),
            Accessor::Warp(warp) => write!(f, "warp {warp}"),
            Accessor::Block(block) => write!(f, "block {block}"),
            Accessor::Tma(thread) => write!(f, "a tile copy of thread {thread}"),
            Accessor::Wgmma(warp) => write!(f, "a product of warp {warp}"),
        }
    }
}

/// A byte of some memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryLocation {
    /// The memory's kind.
    pub space: StateSpace,
    /// Its address.
    pub address: u64,
    /// The array that holds it: its name, or its number.
    pub array: String,
    /// Its place there.
    pub byte: usize,
}

impl fmt::Display for MemoryLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "byte {} of {} array `{}`", self.byte, self.space, self.array)
    }
}

/// What a part of a step gives: a value, or what is wrong.
pub(super) type CheckResult<T> = Result<T, Box<FaultCause>>;

/// What is wrong with an instruction, and the first lane it is wrong for.
#[derive(Debug)]
pub(super) struct LaneFault {
    pub(super) lane: u32,
    pub(super) cause: Box<FaultCause>,
}

/// What a step of a warp gives.
pub(super) type StepResult<T> = Result<T, LaneFault>;

/// Says for which lane.
pub(super) trait InLane<T> {
    fn in_lane(self, lane: usize) -> StepResult<T>;
}

impl<T> InLane<T> for CheckResult<T> {
    fn in_lane(self, lane: usize) -> StepResult<T> {
        self.map_err(|cause| LaneFault { lane: lane as u32, cause })
    }
}

/// What the checker of programs should have found.
pub(super) fn malformed<T>(what: impl Into<String>) -> CheckResult<T> {
    Err(Box::new(FaultCause::Malformed(what.into())))
}
