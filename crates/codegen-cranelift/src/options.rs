//! Options of the generated code.

use std::fmt;

use vector_asm::Isa;

use crate::caps;

/// Options of the generated code; part of the cache key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CraneliftOptions {
    /// The widest vectors that code uses. The bits of results do not depend on it.
    pub vector: VectorWidth,
    /// Whether Cranelift's optimizer runs. It seldom helps, because common subexpressions and loop invariants
    /// are already shared and hoisted in the code that it gets. It takes as long as the rest of the
    /// compilation, and reorders vector code so that registers run out.
    pub optimize: bool,
    /// Whether Cranelift's verifier checks the code that it gets.
    pub verify: bool,
    /// Whether functions have frame pointers, so that profilers can walk the stack.
    pub frame_pointers: bool,
}

impl Default for CraneliftOptions {
    /// The vectors that are fastest on this CPU, no optimizer, no frame pointers; the verifier runs in
    /// builds with debug assertions.
    fn default() -> Self {
        CraneliftOptions {
            vector: VectorWidth::default(),
            optimize: false,
            verify: cfg!(debug_assertions),
            frame_pointers: false,
        }
    }
}

/// The widest vectors that code uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum VectorWidth {
    /// Scalar code only.
    None,
    /// 128-bit vectors, by Cranelift.
    Bits128,
    /// 128-bit vectors of ARM64: vector programs and microkernels where there are some, and Cranelift's code.
    Neon,
    /// 256-bit vectors for kernels that are vector programs, and 128-bit vectors for others.
    Avx2,
    /// [`VectorWidth::Avx2`], and 512-bit vectors for programs of much arithmetic and few accesses to memory,
    /// for long sums of products, and for convolutions and other products whose operands have bounds: for
    /// processors that compute the halves of such vectors one after the other.
    Mixed,
    /// 512-bit vectors for kernels that are vector programs, and 128-bit vectors for others.
    Avx512,
}

impl VectorWidth {
    /// Every width, narrowest first.
    pub const ALL: [VectorWidth; 6] = [
        VectorWidth::None,
        VectorWidth::Bits128,
        VectorWidth::Neon,
        VectorWidth::Avx2,
        VectorWidth::Mixed,
        VectorWidth::Avx512,
    ];

    /// Whether this CPU has such vectors.
    pub fn is_available(self) -> bool {
        match self {
            VectorWidth::None => true,
            VectorWidth::Bits128 => caps::has_vectors(),
            VectorWidth::Neon | VectorWidth::Avx2 | VectorWidth::Avx512 => {
                self.isa().is_some_and(Isa::is_available)
            }
            VectorWidth::Mixed => Isa::Avx512.is_available(),
        }
    }

    /// The instruction set of vector programs; `None` if there are none.
    pub(crate) fn isa(self) -> Option<Isa> {
        match self {
            VectorWidth::None | VectorWidth::Bits128 => None,
            VectorWidth::Neon => Some(Isa::Neon),
            VectorWidth::Avx2 | VectorWidth::Mixed => Some(Isa::Avx2),
            VectorWidth::Avx512 => Some(Isa::Avx512),
        }
    }

    /// The instruction set of plans for products whose operands have bounds; `None` if there are none.
    pub(crate) fn masked_isa(self) -> Option<Isa> {
        if self == VectorWidth::Mixed { Some(Isa::Avx512) } else { self.isa() }
    }

    /// Bytes of a vector.
    pub(crate) fn bytes(self) -> usize {
        match self {
            VectorWidth::None | VectorWidth::Bits128 | VectorWidth::Neon => 16,
            VectorWidth::Avx2 | VectorWidth::Mixed => 32,
            VectorWidth::Avx512 => 64,
        }
    }
}

impl Default for VectorWidth {
    /// The vectors that are fastest on this CPU.
    fn default() -> Self {
        match Isa::detect() {
            Some(Isa::Avx512) => VectorWidth::Avx512,
            Some(Isa::Avx2) if Isa::detect_for_masks() == Some(Isa::Avx512) => VectorWidth::Mixed,
            Some(Isa::Avx2) => VectorWidth::Avx2,
            Some(Isa::Neon) => VectorWidth::Neon,
            None if VectorWidth::Bits128.is_available() => VectorWidth::Bits128,
            None => VectorWidth::None,
        }
    }
}

impl fmt::Display for VectorWidth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            VectorWidth::None => "none",
            VectorWidth::Bits128 => "128",
            VectorWidth::Neon => "neon",
            VectorWidth::Avx2 => "avx2",
            VectorWidth::Mixed => "mixed",
            VectorWidth::Avx512 => "avx512",
        })
    }
}
