//! Programs: kernels as trees of typed instructions.
//!
//! A [`Module`] is what one PTX file holds. A [`Kernel`] is a tree of statements: straight instructions, predicated ones, branches and loops
//! that are entered at the top and left at the bottom, so that threads which part at a branch meet again behind it. Registers are typed and
//! need no declaration: [`Reg::number`] counts within a class. A register may be written any number of times; it must be written on every
//! path before it is read.
//!
//! # Memory
//!
//! Global addresses are 64-bit registers, addresses in the memory of a block are 32-bit ones or symbols. Every access is aligned to its whole
//! size: a vector of four `f32` to 16 bytes.

use smallvec::SmallVec;

use crate::inst::Inst;

/// What one PTX file holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Module {
    /// The processor that it is for.
    pub target: Target,
    /// The kernels; their names differ.
    pub kernels: Vec<Kernel>,
}

/// Families of processors, by compute capability.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Target {
    /// 7.0 and everything after it: shuffles, half-precision arithmetic.
    Sm70,
    /// 8.0 and everything after it: asynchronous copies, `mma` of bf16 and tf32.
    Sm80,
    /// 9.0 alone, with what no other family has: `wgmma`, tensor copies, clusters.
    Sm90a,
}

/// A kernel.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Kernel {
    /// Its entry point: a letter, then letters, digits and `_`.
    pub name: String,
    /// How many numbers of 64 bits it is called with: addresses, mostly.
    pub params: u32,
    /// Arrays that a block shares.
    pub shared: Vec<Array>,
    /// Arrays of a thread that registers cannot hold.
    pub local: Vec<Array>,
    /// Threads of a block.
    pub threads: u32,
    /// Blocks that should find room on one multiprocessor at once, if that is to limit registers.
    pub blocks_per_processor: Option<u32>,
    /// How many neighbouring blocks run side by side and reach each other's shared memory: a cluster. 0 or 1 if each is alone.
    pub cluster: u32,
    /// How many tensor maps it is called with, behind the numbers.
    pub maps: u32,
    /// What each thread does.
    pub body: Block,
}

/// An array of bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Array {
    /// How many; at least 1.
    pub bytes: u32,
    /// The alignment of the first, a power of two.
    pub align: u32,
}

/// Statements, in order.
pub type Block = Vec<Stmt>;

/// A statement.
#[derive(Clone, Debug, PartialEq)]
pub enum Stmt {
    /// An instruction.
    Inst(Inst),
    /// An instruction of the threads for which the guard holds.
    When(Guard, Inst),
    /// Threads for which the guard holds run `then`, the others `otherwise`; then they meet.
    If {
        /// Which threads.
        guard: Guard,
        /// What they do.
        then: Block,
        /// What the others do; may be empty.
        otherwise: Block,
    },
    /// Runs the body, then again those threads for which the guard holds, until there are none.
    Loop {
        /// What is run, at least once.
        body: Block,
        /// Which threads run it again.
        again: Guard,
    },
    /// Text for people, without line breaks.
    Comment(String),
}

/// A predicate or its opposite.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Guard {
    /// A register of class [`Class::Pred`].
    pub pred: Reg,
    /// What it has to be.
    pub when: bool,
}

/// What a register holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// True or false.
    Pred,
    /// 16 bits: integers, `f16`, `bf16`.
    B16,
    /// 32 bits: integers, pairs of 16-bit floats, `tf32`, addresses in shared and local memory.
    B32,
    /// 64 bits: integers, global addresses.
    B64,
    /// IEEE single precision.
    F32,
    /// IEEE double precision.
    F64,
}

/// A register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reg {
    /// What it holds.
    pub class: Class,
    /// Which one of its class.
    pub number: u32,
}

/// Several registers, for vectors and fragments of matrices.
pub type Regs = SmallVec<[Reg; 4]>;

/// What an instruction reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operand {
    /// A register.
    Reg(Reg),
    /// A constant: the bits of a value of the instruction's type, in the low end.
    Const(u64),
}

/// Registers that tell a thread where it is; all of 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Special {
    /// The thread's number in its block.
    Thread,
    /// The block's number.
    Block,
    /// How many blocks there are.
    Blocks,
    /// The thread's number in its warp.
    Lane,
    /// The block's number in its cluster.
    ClusterBlock,
}

/// Which memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Space {
    /// Memory of the device.
    Global,
    /// Memory of the block.
    Shared,
    /// Memory of the thread.
    Local,
}

/// An address: where something is plus a constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// From where.
    pub base: Base,
    /// How many bytes further.
    pub offset: i32,
}

/// Where something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Base {
    /// At the address in a register: 64 bits wide for global memory, 32 for the others.
    Reg(Reg),
    /// At an array of the kernel, in the space of the access: a position in [`Kernel::shared`] or [`Kernel::local`].
    Array(u32),
}

impl Target {
    /// All of them, oldest first.
    pub const ALL: [Target; 3] = [Target::Sm70, Target::Sm80, Target::Sm90a];

    /// The name that assemblers know: `sm_80`.
    pub fn name(self) -> &'static str {
        match self {
            Target::Sm70 => "sm_70",
            Target::Sm80 => "sm_80",
            Target::Sm90a => "sm_90a",
        }
    }

    /// The oldest version of the language that has everything the target can do: major and minor.
    pub fn language(self) -> (u32, u32) {
        match self {
            Target::Sm70 => (6, 5),
            Target::Sm80 => (7, 0),
            Target::Sm90a => (8, 0),
        }
    }

    /// Bytes of shared memory that a block may take.
    pub fn shared_bytes(self) -> u32 {
        match self {
            Target::Sm70 => 96 << 10,
            Target::Sm80 => 163 << 10,
            Target::Sm90a => 227 << 10,
        }
    }

    /// The best target for a device of this compute capability, if there is one.
    pub fn for_device(major: u32, minor: u32) -> Option<Target> {
        match (major, minor) {
            (9, 0) => Some(Target::Sm90a),
            (8.., _) => Some(Target::Sm80),
            (7, _) => Some(Target::Sm70),
            _ => None,
        }
    }
}

/// Bytes that the arrays of a block may take and still be declared statically.
pub(crate) const STATIC_SHARED_BYTES: u32 = 48 << 10;

impl Kernel {
    /// Where each array of the block lies in the one that holds them all.
    pub fn shared_layout(&self) -> Vec<u32> {
        self.layout().0
    }

    /// Bytes of the parameters.
    pub(crate) fn param_bytes(&self) -> u64 {
        let numbers = 8 * u64::from(self.params);
        if self.maps == 0 { numbers } else { numbers.next_multiple_of(64) + 128 * u64::from(self.maps) }
    }

    /// Bytes of shared memory that a block takes.
    pub fn shared_bytes(&self) -> u32 {
        self.layout().1
    }

    /// Bytes of shared memory that the launch must give: none, or everything if that is more than 48 KiB.
    pub fn dynamic_shared_bytes(&self) -> u32 {
        Some(self.shared_bytes()).filter(|&bytes| bytes > STATIC_SHARED_BYTES).unwrap_or(0)
    }

    /// The alignment of the array that holds those of the block.
    pub(crate) fn shared_align(&self) -> u32 {
        self.shared.iter().map(|array| array.align).max().unwrap_or(1)
    }

    fn layout(&self) -> (Vec<u32>, u32) {
        let mut end = 0_u32;
        let mut place = |array: &Array| {
            let at = end.checked_next_multiple_of(array.align.max(1)).unwrap_or(u32::MAX);
            end = at.saturating_add(array.bytes);
            at
        };
        (self.shared.iter().map(&mut place).collect(), end)
    }
}

impl Class {
    /// All of them.
    pub const ALL: [Class; 6] = [Class::Pred, Class::B16, Class::B32, Class::B64, Class::F32, Class::F64];

    /// How many bits; 1 for predicates.
    pub fn bits(self) -> u32 {
        match self {
            Class::Pred => 1,
            Class::B16 => 16,
            Class::B32 | Class::F32 => 32,
            Class::B64 | Class::F64 => 64,
        }
    }
}

impl Guard {
    /// Those for which the predicate is true.
    pub fn on(pred: Reg) -> Guard {
        Guard { pred, when: true }
    }

    /// Those for which it is false.
    pub fn not(pred: Reg) -> Guard {
        Guard { pred, when: false }
    }
}

impl Place {
    /// At the address in a register.
    pub fn at(base: Reg) -> Place {
        Place { base: Base::Reg(base), offset: 0 }
    }

    /// At an array of the kernel.
    pub fn array(array: u32) -> Place {
        Place { base: Base::Array(array), offset: 0 }
    }

    /// So many bytes further.
    #[must_use]
    pub fn plus(self, bytes: i32) -> Place {
        Place { offset: self.offset.wrapping_add(bytes), ..self }
    }
}

impl From<Reg> for Operand {
    fn from(reg: Reg) -> Operand {
        Operand::Reg(reg)
    }
}

impl From<u32> for Operand {
    fn from(value: u32) -> Operand {
        Operand::Const(u64::from(value))
    }
}

impl From<i32> for Operand {
    fn from(value: i32) -> Operand {
        Operand::Const(u64::from(value as u32))
    }
}

impl From<u64> for Operand {
    fn from(value: u64) -> Operand {
        Operand::Const(value)
    }
}

impl From<f32> for Operand {
    fn from(value: f32) -> Operand {
        Operand::Const(u64::from(value.to_bits()))
    }
}

impl From<f64> for Operand {
    fn from(value: f64) -> Operand {
        Operand::Const(value.to_bits())
    }
}
