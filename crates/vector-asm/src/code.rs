//! The compiler: registers of instruction sets, errors, and the sequence of stages.

use crate::address::place_pointers;
use crate::allocate::allocate;
use crate::arm64::{self, Arm64Assembler};
use crate::check::VectorProgramError;
use crate::emit::emit;
use crate::lower::lower;
use crate::machine::GeneralRegisters;
use crate::op::Op;
use crate::order::order;
use crate::processor::Isa;
use crate::program::{LaneType, VectorProgram};
use crate::x86::{self, X86Assembler};

impl Isa {
    /// 32-bit words of a register.
    pub(crate) fn words(self) -> usize {
        match self {
            Isa::Neon => 4,
            Isa::Avx2 => 8,
            Isa::Avx512 => 16,
        }
    }

    /// Bytes of a register.
    pub(crate) fn bytes(self) -> u32 {
        self.words() as u32 * 4
    }

    /// The number of vector registers.
    pub(crate) fn registers(self) -> usize {
        match self {
            Isa::Avx2 => 16,
            Isa::Neon | Isa::Avx512 => 32,
        }
    }

    /// The general registers and their roles.
    pub(crate) fn general_registers(self) -> &'static GeneralRegisters {
        match self {
            Isa::Neon => &arm64::GENERAL,
            Isa::Avx2 | Isa::Avx512 => &x86::GENERAL,
        }
    }

    /// A bit for each source of an instruction that may be in memory, by its position.
    pub(crate) fn memory_sources(self, op: Op) -> u8 {
        if self == Isa::Neon { 0 } else { x86::memory_sources(op) }
    }

    /// The load instruction that a memory operand of an instruction replaces.
    pub(crate) fn operand_load(self, op: Op) -> Option<Op> {
        if self == Isa::Neon { None } else { x86::operand_load(self, op) }
    }

    /// A bit for each source whose register the result of an instruction should share, by its position. If
    /// there is one, no other source may share it; otherwise any may.
    pub(crate) fn result_sources(self, op: Op) -> u8 {
        if self == Isa::Neon { arm64::result_sources(op) } else { x86::result_sources(op) }
    }
}

/// Why a program is not compiled. Except for [`VectorCompileError::Program`], the program is valid, and
/// another compiler may handle it.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VectorCompileError {
    /// The program is invalid.
    #[error(transparent)]
    Program(#[from] VectorProgramError),
    /// The instruction set has no short sequence for a conversion.
    #[error("no conversion from {from:?} to {to:?}")]
    Conversion {
        /// The source type.
        from: LaneType,
        /// The destination type.
        to: LaneType,
    },
    /// A conditional load of elements that are not contiguous, or that are converted.
    #[error("a conditional load of strided or converted elements")]
    LoadIf,
    /// Registers ran out, and spilling does not help.
    #[error("registers ran out")]
    Registers,
    /// The encoder rejected an instruction.
    #[error("the encoder: {0}")]
    Encoder(String),
}

/// Position-independent machine code of one function, with its constants.
/// [`ExecutableCode`](crate::ExecutableCode) makes it callable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VectorCode {
    pub(crate) bytes: Vec<u8>,
    pub(crate) instructions: usize,
}

impl VectorCode {
    /// The code followed by its constants. Its address must be a multiple of 64.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The number of instruction bytes at the start; padding and constants follow.
    pub fn instruction_bytes(&self) -> usize {
        self.instructions
    }
}

/// Compiles a program.
///
/// # Errors
///
/// If the program is invalid, or if the instruction set cannot compute it exactly. The code computes the bits
/// that the operations define, except for the payload and sign of NaN.
pub fn compile(program: &VectorProgram, isa: Isa) -> Result<VectorCode, VectorCompileError> {
    program.check()?;
    let mut unit = lower(program, isa)?;
    order(&mut unit);
    let line = allocate(&mut unit)?;
    let pointers = place_pointers(&mut unit, &line);
    match isa {
        Isa::Neon => emit(&unit, &line, &pointers, Arm64Assembler::default()),
        Isa::Avx2 | Isa::Avx512 => emit(&unit, &line, &pointers, X86Assembler::new(isa)),
    }
}
