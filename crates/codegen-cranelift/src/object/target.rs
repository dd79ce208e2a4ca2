//! The processors and systems that objects are made for.

use std::fmt;
use std::str::FromStr;

use codegen_core::{Caps, CodegenError, DTypeSet};
use cranelift_codegen::isa::{self, LookupError, OwnedTargetIsa};
use cranelift_codegen::settings::Configurable;
use microkernels::{CpuTarget, DotInstructions};
use target_lexicon::{Architecture, BinaryFormat, Endianness, OperatingSystem, PointerWidth, Triple};
use vector_asm::Isa;

use super::no_target;
use crate::caps::{ALIGNMENT, CONVERTED_TYPES, OPERAND_TYPES};
use crate::compile::flags;
use crate::options::{CraneliftOptions, VectorWidth};
use crate::vector::Target;

/// A system, and the least level of its processors.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ObjectTarget {
    triple: Triple,
    level: ObjectLevel,
    has_products: bool,
}

/// The caches of a processor in bytes. Those of a target differ, so the sizes are usual ones.
const L1_BYTES: usize = 32 << 10;
const L2_BYTES: usize = 512 << 10;
const L3_BYTES: usize = 16 << 20;

/// The caches that products are planned for: those of servers, on which plans for [`L2_BYTES`] are slower by
/// up to 8 % where they pack what fits in the cache.
const PLAN_L2_BYTES: usize = 1 << 20;
const PLAN_L3_BYTES: usize = 32 << 20;

/// What the scheduler assumes for this process too, at least.
const THREADS: usize = 2;

/// The instruction sets that code may use: a level of the processor supplement of x86-64's ABI, or ARM64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ObjectLevel {
    /// `x86-64-v2`: SSE4.2, vectors of 128 bits, and no fused multiply-add.
    X86V2,
    /// `x86-64-v3`: AVX2, FMA and F16C, vectors of 256 bits.
    X86V3,
    /// `x86-64-v4-mixed`: the instructions of `x86-64-v4`, for processors that compute the halves of 512 bits
    /// one after the other: vectors of 512 bits where they gain there, and otherwise the code of `x86-64-v3`.
    X86V4Mixed,
    /// `x86-64-v4`: AVX-512 F, BW, CD, DQ and VL, vectors of 512 bits.
    X86V4,
    /// Any ARM64 processor: NEON, vectors of 128 bits.
    Arm64,
}

/// The reason why there is no such target.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum TargetError {
    /// The triple is malformed.
    #[error("`{triple}` is no target triple: {why}")]
    Triple { triple: String, why: String },
    /// There is no code generator for the system.
    #[error(
        "there is no code for `{triple}`, only for x86-64 and ARM64 (little-endian, with 64-bit pointers) with ELF, Mach-O or COFF files, and not for UEFI or ARM64 with Windows"
    )]
    Unsupported { triple: String },
    /// The processor of the system does not have the level.
    #[error("`{triple}` has no processor of level `{level}`")]
    Level { triple: String, level: ObjectLevel },
    /// A level has another name.
    #[error("`{found}` is no level, expected {}", ObjectLevel::ALL.map(|level| format!("`{level}`")).join(", "))]
    NoLevel { found: String },
}

/// A format of object files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectFormat {
    /// Linux and others, and programs without a system.
    Elf,
    /// macOS and iOS.
    MachO,
    /// Windows.
    Coff,
}

impl ObjectLevel {
    /// Every level.
    pub const ALL: [ObjectLevel; 5] = [
        ObjectLevel::X86V2,
        ObjectLevel::X86V3,
        ObjectLevel::X86V4Mixed,
        ObjectLevel::X86V4,
        ObjectLevel::Arm64,
    ];

    /// The levels of a system's processors, the least first.
    ///
    /// # Errors
    ///
    /// [`TargetError::Triple`] and [`TargetError::Unsupported`].
    pub fn of(triple: &str) -> Result<Vec<ObjectLevel>, TargetError> {
        let parsed = parse(triple)?;
        Ok(ObjectLevel::ALL.into_iter().filter(|level| level.is_of(parsed.architecture)).collect())
    }

    fn is_of(self, architecture: Architecture) -> bool {
        match architecture {
            Architecture::X86_64 => self != ObjectLevel::Arm64,
            Architecture::Aarch64(_) => self == ObjectLevel::Arm64,
            _ => false,
        }
    }
}

impl fmt::Display for ObjectLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ObjectLevel::X86V2 => "x86-64-v2",
            ObjectLevel::X86V3 => "x86-64-v3",
            ObjectLevel::X86V4Mixed => "x86-64-v4-mixed",
            ObjectLevel::X86V4 => "x86-64-v4",
            ObjectLevel::Arm64 => "arm64",
        })
    }
}

impl FromStr for ObjectLevel {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<ObjectLevel, TargetError> {
        let level = ObjectLevel::ALL.into_iter().find(|level| level.to_string() == text);
        level.ok_or_else(|| TargetError::NoLevel { found: text.to_owned() })
    }
}

fn parse(text: &str) -> Result<Triple, TargetError> {
    let triple = text.to_owned();
    let malformed = |why: target_lexicon::ParseError| TargetError::Triple { triple, why: why.to_string() };
    let mut parsed: Triple = text.parse().map_err(malformed)?;
    if parsed.operating_system == OperatingSystem::None_ && parsed.binary_format == BinaryFormat::Unknown {
        parsed.binary_format = BinaryFormat::Elf; // `aarch64-unknown-none`
    }
    let has_format =
        matches!(parsed.binary_format, BinaryFormat::Elf | BinaryFormat::Macho | BinaryFormat::Coff);
    let has_words =
        parsed.pointer_width() == Ok(PointerWidth::U64) && parsed.endianness() == Ok(Endianness::Little);
    let is_supported = match parsed.architecture {
        // Its functions have the calling convention of Windows, but the files would be ELF.
        _ if !has_words || parsed.operating_system == OperatingSystem::Uefi => false,
        Architecture::X86_64 => true,
        // Vector programs may use the register that Windows reserves.
        Architecture::Aarch64(_) => parsed.operating_system != OperatingSystem::Windows,
        _ => false,
    };
    match has_format && is_supported {
        true => Ok(parsed),
        false => Err(TargetError::Unsupported { triple: text.to_owned() }),
    }
}

impl ObjectTarget {
    /// The target with a triple, such as `x86_64-unknown-linux-gnu`, and a level.
    ///
    /// # Errors
    ///
    /// [`TargetError`].
    pub fn new(triple: &str, level: ObjectLevel) -> Result<ObjectTarget, TargetError> {
        let parsed = parse(triple)?;
        match level.is_of(parsed.architecture) {
            true => Ok(ObjectTarget { triple: parsed, level, has_products: false }),
            false => Err(TargetError::Level { triple: triple.to_owned(), level }),
        }
    }

    /// The same target, whose large products and convolutions call the function [`PRODUCT`](super::PRODUCT) of
    /// `arrayjit-rt`, where there is one: not below `x86-64-v3`.
    #[must_use]
    pub fn with_products(self) -> ObjectTarget {
        ObjectTarget { has_products: true, ..self }
    }

    /// The format of the system's object files.
    pub fn format(&self) -> ObjectFormat {
        match self.triple.binary_format {
            BinaryFormat::Macho => ObjectFormat::MachO,
            BinaryFormat::Coff => ObjectFormat::Coff,
            _ => ObjectFormat::Elf,
        }
    }

    /// The least level of the processors.
    pub fn level(&self) -> ObjectLevel {
        self.level
    }

    /// The capabilities that the scheduler reads. They do not depend on the machine that compiles.
    pub(super) fn caps(&self) -> Caps {
        Caps {
            vector_bytes: self.vector_width().bytes().min(32),
            vector_registers: match self.level {
                // A fused multiply-add there takes the registers of a tile, and so much code that tiles of
                // eight would make the code of the level eight times as large as that of others.
                ObjectLevel::X86V2 => 4,
                ObjectLevel::X86V3 | ObjectLevel::X86V4Mixed | ObjectLevel::X86V4 => 16,
                ObjectLevel::Arm64 => 32,
            },
            conversions: CONVERTED_TYPES,
            contractions: if self.products().is_some() { OPERAND_TYPES } else { DTypeSet::EMPTY },
            fma: self.level != ObjectLevel::X86V2,
            l1_bytes: L1_BYTES,
            l2_bytes: L2_BYTES,
            threads: THREADS,
            alignment: ALIGNMENT,
            ..Caps::host(format!("{}-{}", self.triple, self.level))
        }
    }

    /// The processor that products are planned for, if code calls them.
    pub(super) fn products(&self) -> Option<CpuTarget> {
        let isa = self.vector_width().isa().filter(|_| self.has_products)?;
        let dot = if isa == Isa::Neon { DotInstructions::Neon } else { DotInstructions::Avx2 };
        Some(CpuTarget {
            masked_isa: self.vector_width().masked_isa(),
            isa: Some(isa),
            dot: Some(dot),
            l1_bytes: L1_BYTES,
            l2_bytes: PLAN_L2_BYTES,
            l3_bytes: PLAN_L3_BYTES,
            l3_is_far: false,
            threads: THREADS,
        })
    }

    pub(super) fn vector_width(&self) -> VectorWidth {
        match self.level {
            ObjectLevel::X86V2 => VectorWidth::Bits128,
            ObjectLevel::X86V3 => VectorWidth::Avx2,
            ObjectLevel::X86V4Mixed => VectorWidth::Mixed,
            ObjectLevel::X86V4 => VectorWidth::Avx512,
            ObjectLevel::Arm64 => VectorWidth::Neon,
        }
    }

    /// The properties for the translation to vector programs. Processors of a target differ in caches, so the
    /// size is a usual one.
    pub(super) fn vector_target(&self) -> Target {
        Target { alignment: ALIGNMENT, cache_bytes: L3_BYTES }
    }

    pub(super) fn isa(
        &self,
        options: &CraneliftOptions,
        allocator: &str,
    ) -> Result<OwnedTargetIsa, CodegenError> {
        let mut builder = isa::lookup(self.triple.clone()).map_err(|error| {
            let why = match error {
                LookupError::SupportDisabled => {
                    "its architecture is left out; the feature `cross` of `arrayjit-aot` has it".to_owned()
                }
                LookupError::Unsupported => error.to_string(),
            };
            no_target(format!("`{}`: {why}", self.triple))
        })?;
        // Cranelift's levels leave out AVX and AVX-512 F, without which it uses no extension of them, such as
        // the fused multiply-add. Scalar code of the mixed level is that of the level below, so that an
        // object has it once.
        let features: &[&str] = match self.level {
            ObjectLevel::X86V2 => &["x86-64-v2"],
            ObjectLevel::X86V3 | ObjectLevel::X86V4Mixed => &["x86-64-v3", "has_avx"],
            ObjectLevel::X86V4 => &["x86-64-v4", "has_avx", "has_avx512f"],
            ObjectLevel::Arm64 => &[],
        };
        for feature in features {
            builder.enable(feature).map_err(|error| no_target(error.to_string()))?;
        }
        let flags = flags(options, allocator, true).map_err(no_target)?;
        builder.finish(flags).map_err(|error| no_target(error.to_string()))
    }
}
