//! What goes wrong in a run, and where.

use std::fmt;

use ptx_asm::{Reg, StateSpace};

/// Why a run stopped.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("kernel `{kernel}`{}: {cause}", site.as_ref().map(|site| format!(", {site}")).unwrap_or_default())]
pub struct Fault {
    /// The kernel's name.
    pub kernel: String,
    /// Where it was, unless it never started.
    pub site: Option<Box<Site>>,
    /// What was wrong.
    pub cause: Box<Cause>,
}

/// Where a kernel was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// The block's number.
    pub block: u32,
    /// The thread's number in it; of several, the first.
    pub thread: u32,
    /// What it was about to do.
    pub instruction: String,
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "block {}, thread {}, at {}", self.block, self.thread, self.instruction)
    }
}

/// What was wrong.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Cause {
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
        space: SpaceName,
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
        space: SpaceName,
        /// The address.
        address: u64,
        /// What should divide it.
        align: u32,
    },
    /// A read of bytes that nobody wrote.
    #[error("{spot} is read and was never written")]
    Uninitialised {
        /// The first such byte.
        spot: Spot,
    },
    /// Two accesses that nothing orders, one of which writes.
    #[error("race: {access} of {spot}, which {other} {}; nothing orders the two", past(*other_access))]
    Race {
        /// The first byte that both touch.
        spot: Spot,
        /// What this thread does.
        access: Access,
        /// Who was there before.
        other: Party,
        /// What that did.
        other_access: Access,
    },
    /// Two lanes store different values at one address with one instruction.
    #[error("race: lanes {} and {} store different values at {spot}", lanes[0], lanes[1])]
    Clash {
        /// The byte.
        spot: Spot,
        /// Who.
        lanes: [u32; 2],
    },
    /// What is loaded as constant is written in the same launch.
    #[error("{spot} is loaded as constant and written in one launch, by {other}")]
    NotConstant {
        /// The byte.
        spot: Spot,
        /// Who did the other of the two.
        other: Party,
    },
    /// An access to bytes that an asynchronous copy may be writing.
    #[error("{spot} is the destination of a copy of thread {owner} that was not waited for")]
    UnderWay {
        /// The byte.
        spot: Spot,
        /// Whose copy.
        owner: u32,
    },
    /// The source of an asynchronous copy was written before the copy was waited for.
    #[error("{spot} changed while a copy from it was under way")]
    SourceChanged {
        /// The first byte of the source.
        spot: Spot,
    },
    /// Shared memory is written that copies or products may still be reading.
    #[error("{spot} is written while {by} may still be reading it")]
    StillRead {
        /// The byte.
        spot: Spot,
        /// Who reads.
        by: Party,
    },
    /// Copies of tiles and products touch what a thread wrote without a fence since ([`ptx_asm::Inst::FenceProxyAsync`]).
    #[error("{spot} was written by {writer}, which has not fenced it for copies and products")]
    Unfenced {
        /// The byte.
        spot: Spot,
        /// Who wrote it.
        writer: Party,
    },
    /// An ordinary access to a barrier in memory.
    #[error("{spot} is part of a barrier")]
    IsBarrier {
        /// The first such byte.
        spot: Spot,
    },
    /// There is no barrier where one is arrived at or waited for.
    #[error("there is no barrier at {spot}: nobody made one")]
    NoBarrier {
        /// Where it should be.
        spot: Spot,
    },
    /// A barrier is used in a way that it does not allow.
    #[error("the barrier at {spot}: {what}")]
    Barrier {
        /// Where it is.
        spot: Spot,
        /// What is wrong.
        what: String,
    },
    /// A tile copy or product that the hardware does not know.
    #[error("{0}")]
    Tile(String),
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
    Registers {
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
pub enum Access {
    /// Reading.
    Read,
    /// Reading what no thread writes.
    Constant,
    /// Writing.
    Write,
    /// Both in one step.
    Atomic,
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Access::Read => "read",
            Access::Constant => "constant read",
            Access::Write => "write",
            Access::Atomic => "atomic update",
        })
    }
}

/// What somebody did.
fn past(access: Access) -> &'static str {
    match access {
        Access::Read | Access::Constant => "read",
        Access::Write => "wrote",
        Access::Atomic => "updated",
    }
}

/// Who did something before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Party {
    /// A thread of this block.
    Thread(u32),
    /// Several threads of a warp of this block.
    Warp(u32),
    /// Another block.
    Block(u32),
    /// A copy of a tile that this thread began.
    Tile(u32),
    /// Products of the warpgroup that this warp is of.
    Products(u32),
}

impl fmt::Display for Party {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Party::Thread(thread) => write!(f, "thread {thread}"),
            Party::Warp(warp) => write!(f, "warp {warp}"),
            Party::Block(block) => write!(f, "block {block}"),
            Party::Tile(thread) => write!(f, "a tile copy of thread {thread}"),
            Party::Products(warp) => write!(f, "a product of warp {warp}"),
        }
    }
}

/// A byte of some memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spot {
    /// The memory's kind.
    pub space: SpaceName,
    /// Its address.
    pub address: u64,
    /// The array that holds it: its name, or its number.
    pub array: String,
    /// Its place there.
    pub byte: usize,
}

impl fmt::Display for Spot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "byte {} of {} array `{}`", self.byte, self.space, self.array)
    }
}

/// A [`StateSpace`] that can be printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpaceName(pub StateSpace);

impl fmt::Display for SpaceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            StateSpace::Global => "global",
            StateSpace::Shared => "shared",
            StateSpace::Local => "local",
        })
    }
}

/// What a part of a step gives: a value, or what is wrong.
pub(super) type Check<T> = Result<T, Box<Cause>>;

/// What is wrong with an instruction, and the first lane it is wrong for.
#[derive(Debug)]
pub(super) struct Stop {
    pub(super) lane: u32,
    pub(super) cause: Box<Cause>,
}

/// What a step of a warp gives.
pub(super) type Outcome<T> = Result<T, Stop>;

/// Says for which lane.
pub(super) trait At<T> {
    fn at(self, lane: usize) -> Outcome<T>;
}

impl<T> At<T> for Check<T> {
    fn at(self, lane: usize) -> Outcome<T> {
        self.map_err(|cause| Stop { lane: lane as u32, cause })
    }
}

/// What the checker of programs should have found.
pub(super) fn malformed<T>(what: impl Into<String>) -> Check<T> {
    Err(Box::new(Cause::Malformed(what.into())))
}
