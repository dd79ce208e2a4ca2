//! Machine programs: instructions on an unlimited number of registers, in loops that carry registers.
//!
//! Every register is defined once, by an instruction or as a loop-carried [`Phi`]. Constants are registers as
//! well; the allocator decides whether a constant is in a machine register or in memory. An instruction
//! becomes one of the target, with a few exceptions that become several ([`crate::emit`]).

use crate::op::Op;
use crate::processor::Isa;
use crate::program::{Counter, Index};

/// An unallocated register, or a marker in the place of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Reg(pub(crate) u32);

impl Reg {
    /// The absence of an operand.
    pub(crate) const NONE: Reg = Reg(u32::MAX);
    /// The operand in memory, at the instruction's address.
    pub(crate) const MEMORY: Reg = Reg(u32::MAX - 1);

    /// Whether this is a register and not a marker.
    pub(crate) fn is_register(self) -> bool {
        self < Reg::MEMORY
    }

    /// The index in tables of registers.
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// An address: a stream's pointer plus a constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    /// An index of [`MachineProgram::streams`], or [`Address::FRAME`].
    pub(crate) stream: u32,
    /// Bytes from the stream's pointer.
    pub(crate) offset: i64,
    /// An upper bound on the accessed bytes.
    pub(crate) bytes: u32,
}

impl Address {
    /// Marks an address in the stack frame, where registers are spilled.
    pub(crate) const FRAME: u32 = u32::MAX;
}

/// A pointer or an integer that is affine in counters and bindings.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Stream {
    /// The value with all indices zero and without the offset.
    pub(crate) base: Base,
    /// Bytes per unit of each index, sorted by index.
    pub(crate) terms: Vec<(Index, i64)>,
    /// The part of the constant offset that does not fit an instruction's displacement.
    pub(crate) offset: i64,
}

/// The base of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Base {
    /// A base address of the arguments, by its position.
    Arg(u32),
    /// The scratch memory.
    Scratch,
    /// Zero: the stream is an integer.
    Zero,
}

/// How an instruction accesses memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    None,
    Read,
    Write,
    /// A prefetch, which is not moved.
    Hint,
}

#[derive(Clone, Debug)]
pub(crate) struct Inst {
    pub(crate) op: Op,
    pub(crate) dst: Reg,
    pub(crate) srcs: [Reg; 3],
    pub(crate) imm: u16,
    pub(crate) address: Option<Address>,
    pub(crate) access: Access,
    /// The index of the result among the registers of its value. Instructions of different parts are
    /// independent, and are interleaved.
    pub(crate) part: u32,
}

/// A loop-carried register: it is `start` on entry and `next` after each iteration, and keeps that value
/// after the loop.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Phi {
    pub(crate) phi: Reg,
    /// [`Reg::NONE`] if the first iteration does not read it.
    pub(crate) start: Reg,
    pub(crate) next: Reg,
}

/// The general registers of a target, by number.
#[derive(Debug)]
pub(crate) struct GeneralRegisters {
    /// Registers for pointers and trip counts, caller-saved ones first.
    pub(crate) pointers: &'static [u8],
    /// Registers that hold the function's arguments while the function's own pointers are computed from
    /// them: the base addresses, the bindings, the scratch memory, and the range of the call.
    pub(crate) arguments: [u8; 5],
    /// The callee-saved registers among those for pointers.
    pub(crate) saved: &'static [u8],
    /// A register for a temporary value, such as a pointer that is in the stack frame.
    pub(crate) temporary: u8,
    /// A register for a second temporary value.
    pub(crate) second: u8,
    pub(crate) stack: u8,
}

/// The number of iterations of a loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trips {
    /// A constant, at least 2.
    Constant(u64),
    /// The least of a constant and of streams; no iteration if it is negative.
    Clipped {
        /// The constant.
        limit: u64,
        /// The streams, as an index into [`MachineProgram::clips`].
        clips: u32,
    },
    /// The length of the call's range, divided by `1 << shift` and rounded down.
    Call { shift: u32 },
    /// The remainder of that division.
    CallRemainder { shift: u32 },
}

/// A loop with its carried registers.
#[derive(Clone, Debug)]
pub(crate) struct Loop {
    pub(crate) counter: Counter,
    pub(crate) trips: Trips,
    /// Increment of the counter per iteration.
    pub(crate) step: i64,
    pub(crate) phis: Vec<Phi>,
    pub(crate) body: Vec<Node>,
}

/// A node of the loop tree.
#[derive(Clone, Debug)]
pub(crate) enum Node {
    Block(Vec<Inst>),
    Loop(Loop),
}

/// Marks a register that is not a constant.
pub(crate) const NOT_CONSTANT: u32 = u32::MAX;

/// A program of machine instructions before register allocation.
#[derive(Clone, Debug)]
pub(crate) struct MachineProgram {
    /// The instruction set.
    pub(crate) isa: Isa,
    pub(crate) nodes: Vec<Node>,
    /// For each register, its index among the constants, or [`NOT_CONSTANT`].
    pub(crate) registers: Vec<u32>,
    /// The constants, as 32-bit words of a register.
    pub(crate) constants: Vec<[u32; WORDS]>,
    pub(crate) streams: Vec<Stream>,
    /// For each loop with [`Trips::Clipped`], the streams that end it.
    pub(crate) clips: Vec<Vec<u32>>,
    /// Whether a store bypasses the caches.
    pub(crate) streaming: bool,
}

/// 32-bit words of the widest register. Narrower registers leave the upper ones 0.
pub(crate) const WORDS: usize = 16;

impl MachineProgram {
    /// An empty program.
    pub(crate) fn new(isa: Isa) -> MachineProgram {
        MachineProgram {
            isa,
            nodes: Vec::new(),
            registers: Vec::new(),
            constants: Vec::new(),
            streams: Vec::new(),
            clips: Vec::new(),
            streaming: false,
        }
    }

    /// Adds a register.
    pub(crate) fn register(&mut self) -> Reg {
        self.registers.push(NOT_CONSTANT);
        Reg(self.registers.len() as u32 - 1)
    }

    /// The words of a constant register; `None` for other registers.
    pub(crate) fn constant(&self, reg: Reg) -> Option<&[u32; WORDS]> {
        if !reg.is_register() {
            return None;
        }
        match self.registers[reg.index()] {
            NOT_CONSTANT => None,
            position => Some(&self.constants[position as usize]),
        }
    }

    /// The index of a stream, which is added if it is new.
    pub(crate) fn stream(&mut self, stream: Stream) -> u32 {
        if let Some(position) = self.streams.iter().position(|s| *s == stream) {
            return position as u32;
        }
        self.streams.push(stream);
        self.streams.len() as u32 - 1
    }

    /// Whether two addresses have the same base.
    pub(crate) fn same_memory(&self, a: Address, b: Address) -> bool {
        let base = self.streams[a.stream as usize].base;
        base == self.streams[b.stream as usize].base && base != Base::Zero
    }

    /// Whether two accesses may overlap.
    pub(crate) fn overlap(&self, a: Address, b: Address) -> bool {
        let disjoint = a.offset + i64::from(a.bytes) <= b.offset || b.offset + i64::from(b.bytes) <= a.offset;
        self.same_memory(a, b) && (a.stream != b.stream || !disjoint)
    }
}
