//! What programs are compiled to, and how.

use crate::address::place_pointers;
use crate::allocate::allocate;
use crate::avx2::{self, Op};
use crate::avx512;
use crate::check::ProgramError;
use crate::emit::emit;
use crate::lower::lower;
use crate::order::order;
use crate::program::{Element, Program};

/// The instructions that code may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Isa {
    /// 256 bits: AVX2 with FMA3 and F16C.
    Avx2,
    /// 512 bits: AVX-512 F, BW, DQ and VL. It is never chosen by itself: code for it has been decoded, not run.
    Avx512,
}

impl Isa {
    /// Words of 32 bits in a register.
    pub(crate) fn words(self) -> usize {
        match self {
            Isa::Avx2 => 8,
            Isa::Avx512 => 16,
        }
    }

    /// Bytes of a register.
    pub(crate) fn bytes(self) -> u32 {
        self.words() as u32 * 4
    }

    /// How many registers there are.
    pub(crate) fn registers(self) -> usize {
        match self {
            Isa::Avx2 => 16,
            Isa::Avx512 => 32,
        }
    }

    /// How an instruction is encoded and what its operands are.
    pub(crate) fn encoding(self, op: Op) -> (iced_x86::Code, &'static str) {
        match self {
            Isa::Avx2 => (op.code(), op.shape()),
            Isa::Avx512 => avx512::encoding(op),
        }
    }

    /// The encodings of a fused multiply-add: the result in place of the first factor with the second one in memory (132), or with
    /// the addend there (213), or in place of the addend (231).
    pub(crate) fn fma_codes(self, op: Op) -> [iced_x86::Code; 3] {
        match self {
            Isa::Avx2 => avx2::fma_codes(op),
            Isa::Avx512 => avx512::fma_codes(op),
        }
    }

    /// What this processor has and is known to run well; `None` if that is nothing, or where C functions are called in another way than
    /// compiled programs expect.
    pub fn detect() -> Option<Isa> {
        #[cfg(all(target_arch = "x86_64", not(windows)))]
        if is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("f16c")
        {
            return Some(Isa::Avx2);
        }
        None
    }
}

/// Why a program is not compiled. Other ways to run it exist; none of these is a mistake in the program but [`Refusal::Program`].
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// It is no program.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// A conversion that the processor has no short sequence for.
    #[error("no conversion from {from:?} to {to:?}")]
    Conversion {
        /// From this element.
        from: Element,
        /// To this one.
        to: Element,
    },
    /// A conditional load of elements that are not side by side or not as in the lane.
    #[error("a conditional load of elements apart or narrow")]
    LoadIf,
    /// Registers ran out in a way that spilling does not help.
    #[error("registers ran out")]
    Registers,
    /// What the encoder said.
    #[error("the encoder: {0}")]
    Encoder(String),
}

/// Machine code of one function, position independent, with its constants. [`crate::ExecutableCode`] makes it callable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Code {
    pub(crate) bytes: Vec<u8>,
    pub(crate) instructions: usize,
}

impl Code {
    /// The code and, behind it, its constants. It wants to begin at a multiple of 64 bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// How many of the bytes are instructions; the rest is padding and constants.
    pub fn instruction_bytes(&self) -> usize {
        self.instructions
    }
}

/// Compiles a program.
///
/// # Errors
///
/// If the program does not pass its check, or has something that there are no instructions for. Nothing is approximated: code computes what
/// [`crate::evaluate`] computes, bit for bit but for which NaN.
pub fn compile(program: &Program, isa: Isa) -> Result<Code, Refusal> {
    program.check()?;
    let mut unit = lower(program, isa)?;
    order(&mut unit);
    let line = allocate(&mut unit)?;
    let pointers = place_pointers(&mut unit, &line);
    emit(&unit, &line, &pointers)
}
