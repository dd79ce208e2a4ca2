//! What may be chosen about the code.

use std::fmt;

use vector_asm::Isa;

use crate::caps;

/// Choices about the generated code; part of the cache key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CraneliftOptions {
    /// The widest vectors. The bits of results do not depend on it.
    pub vector: VectorWidth,
    /// Whether Cranelift's optimiser runs. The code handed to it has common operations shared and invariants hoisted, so it
    /// seldom helps, takes as long as the rest of the compilation, and it ruins vector code by reordering it.
    pub optimise: bool,
    /// Whether Cranelift's verifier checks the code handed to it.
    pub verify: bool,
    /// Whether functions keep frame pointers, so that profilers can walk the stack.
    pub frame_pointers: bool,
}

impl Default for CraneliftOptions {
    /// The best vectors, no optimiser, frame pointers dropped; the verifier runs in builds with debug assertions.
    fn default() -> Self {
        CraneliftOptions {
            vector: VectorWidth::default(),
            optimise: false,
            verify: cfg!(debug_assertions),
            frame_pointers: false,
        }
    }
}

/// The widest vectors that code uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum VectorWidth {
    /// None: every lane is computed by itself.
    None,
    /// 128 bits, by Cranelift.
    Bits128,
    /// 256 bits, for kernels that are vector programs; the others as with 128.
    Avx2,
    /// 512 bits, likewise. Such code has been decoded, but not run, so it is used only where it is asked for.
    Avx512,
}

impl VectorWidth {
    /// Every width, narrowest first.
    pub const ALL: [VectorWidth; 4] =
        [VectorWidth::None, VectorWidth::Bits128, VectorWidth::Avx2, VectorWidth::Avx512];

    /// Whether this machine has such vectors.
    pub fn is_available(self) -> bool {
        match self {
            VectorWidth::None => true,
            VectorWidth::Bits128 => caps::has_vectors(),
            VectorWidth::Avx2 => Isa::detect() == Some(Isa::Avx2),
            VectorWidth::Avx512 => caps::has_avx512(),
        }
    }

    /// The instructions of vector programs, where there are any.
    pub(crate) fn isa(self) -> Option<Isa> {
        match self {
            VectorWidth::None | VectorWidth::Bits128 => None,
            VectorWidth::Avx2 => Some(Isa::Avx2),
            VectorWidth::Avx512 => Some(Isa::Avx512),
        }
    }

    /// Bytes of a vector.
    pub(crate) fn bytes(self) -> usize {
        match self {
            VectorWidth::None | VectorWidth::Bits128 => 16,
            VectorWidth::Avx2 => 32,
            VectorWidth::Avx512 => 64,
        }
    }
}

impl Default for VectorWidth {
    /// The widest that the machine has, of those with 256 bits at most.
    fn default() -> Self {
        let usual = [VectorWidth::Avx2, VectorWidth::Bits128];
        usual.into_iter().find(|width| width.is_available()).unwrap_or(VectorWidth::None)
    }
}

impl fmt::Display for VectorWidth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            VectorWidth::None => "none",
            VectorWidth::Bits128 => "128",
            VectorWidth::Avx2 => "avx2",
            VectorWidth::Avx512 => "avx512",
        })
    }
}
