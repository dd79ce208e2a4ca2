//! Machine programs: instructions of the processor on any number of registers, in loops that carry registers.
//!
//! Every register is defined once, by an instruction or as a [`Phi`]: what a loop carries. Constants are registers as well; where they lie is decided with
//! the other registers. An instruction is one instruction of the processor but for a few that become two or three ([`crate::emit`]).

use crate::avx2::Op;
use crate::code::Isa;
use crate::program::{Counter, Index};

/// A register before there is a machine register for it, or what stands in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Reg(pub(crate) u32);

impl Reg {
    /// No operand.
    pub(crate) const NONE: Reg = Reg(u32::MAX);
    /// The operand is what is at the instruction's address.
    pub(crate) const MEMORY: Reg = Reg(u32::MAX - 1);

    /// Whether it is a register.
    pub(crate) fn is_register(self) -> bool {
        self < Reg::MEMORY
    }

    /// As a position in tables of registers.
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// An address: a stream's pointer and a constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    /// A position in [`Unit::streams`], or [`Address::FRAME`].
    pub(crate) stream: u32,
    /// Bytes from the stream's pointer.
    pub(crate) offset: i64,
    /// How many bytes are touched at most.
    pub(crate) bytes: u32,
}

impl Address {
    /// The stack frame's spilled registers.
    pub(crate) const FRAME: u32 = u32::MAX;
}

/// A pointer that moves with counters, or an integer that does.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Stream {
    /// Where it begins.
    pub(crate) base: Base,
    /// Bytes per unit of each index, sorted by index.
    pub(crate) terms: Vec<(Index, i64)>,
    /// Bytes besides, for what an instruction has no room for.
    pub(crate) offset: i64,
}

/// Where a stream begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Base {
    /// A base address of the arguments.
    Arg(u32),
    /// The scratch memory.
    Scratch,
    /// Zero: the stream is an integer.
    Zero,
}

/// What an instruction does to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    None,
    Read,
    Write,
    /// A hint, which stays where it is.
    Hint,
}

/// An instruction.
#[derive(Clone, Debug)]
pub(crate) struct Inst {
    pub(crate) op: Op,
    pub(crate) dst: Reg,
    pub(crate) srcs: [Reg; 3],
    pub(crate) imm: u16,
    pub(crate) address: Option<Address>,
    pub(crate) access: Access,
    /// Which part of its statement it belongs to; parts are what is interleaved.
    pub(crate) part: u32,
}

/// A register that a loop carries: `start` on entry, `next` at the end of each iteration, and what it is then after the loop.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Phi {
    pub(crate) phi: Reg,
    /// [`Reg::NONE`] if it is never looked at.
    pub(crate) start: Reg,
    pub(crate) next: Reg,
}

/// How often a loop runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trips {
    /// So often, at least twice.
    Constant(u64),
    /// For the part of the call, in steps of `1 << shift`; what is left over is for the other kind.
    Part { shift: u32 },
    /// For what is left over of the part by steps of `1 << shift`.
    Rest { shift: u32 },
}

/// A loop.
#[derive(Clone, Debug)]
pub(crate) struct Loop {
    pub(crate) counter: Counter,
    pub(crate) trips: Trips,
    /// What the counter grows by.
    pub(crate) step: i64,
    pub(crate) phis: Vec<Phi>,
    pub(crate) body: Vec<Node>,
}

/// What bodies are made of.
#[derive(Clone, Debug)]
pub(crate) enum Node {
    Block(Vec<Inst>),
    Loop(Loop),
}

/// No constant.
pub(crate) const NOT_CONSTANT: u32 = u32::MAX;

/// A machine program.
#[derive(Clone, Debug)]
pub(crate) struct Unit {
    /// Whose instructions they are.
    pub(crate) isa: Isa,
    pub(crate) nodes: Vec<Node>,
    /// For each register, which constant it is, or [`NOT_CONSTANT`].
    pub(crate) registers: Vec<u32>,
    /// The constants, as words of a register.
    pub(crate) constants: Vec<[u32; WORDS]>,
    pub(crate) streams: Vec<Stream>,
    /// Whether some store goes past the caches.
    pub(crate) streaming: bool,
}

/// Words of 32 bits in the widest register. What is beyond a narrower one is 0.
pub(crate) const WORDS: usize = 16;

impl Unit {
    /// An empty one.
    pub(crate) fn new(isa: Isa) -> Unit {
        Unit {
            isa,
            nodes: Vec::new(),
            registers: Vec::new(),
            constants: Vec::new(),
            streams: Vec::new(),
            streaming: false,
        }
    }

    /// A new register.
    pub(crate) fn register(&mut self) -> Reg {
        self.registers.push(NOT_CONSTANT);
        Reg(self.registers.len() as u32 - 1)
    }

    /// The words of a register that is a constant.
    pub(crate) fn constant(&self, reg: Reg) -> Option<&[u32; WORDS]> {
        if !reg.is_register() {
            return None;
        }
        match self.registers[reg.index()] {
            NOT_CONSTANT => None,
            position => Some(&self.constants[position as usize]),
        }
    }

    /// The position of a stream in the list, where it is put if it is new.
    pub(crate) fn stream(&mut self, stream: Stream) -> u32 {
        if let Some(position) = self.streams.iter().position(|s| *s == stream) {
            return position as u32;
        }
        self.streams.push(stream);
        self.streams.len() as u32 - 1
    }

    /// Whether two addresses have one base.
    pub(crate) fn same_memory(&self, a: Address, b: Address) -> bool {
        let base = self.streams[a.stream as usize].base;
        base == self.streams[b.stream as usize].base && base != Base::Zero
    }

    /// Whether two accesses may touch the same byte.
    pub(crate) fn overlap(&self, a: Address, b: Address) -> bool {
        let disjoint = a.offset + i64::from(a.bytes) <= b.offset || b.offset + i64::from(b.bytes) <= a.offset;
        self.same_memory(a, b) && (a.stream != b.stream || !disjoint)
    }
}
