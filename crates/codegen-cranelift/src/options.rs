//! What may be chosen about the code.

/// Choices about the generated code; part of the cache key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CraneliftOptions {
    /// Whether vector loops use 128-bit vector instructions. Without them every lane is computed by itself, to the same bits.
    pub vectors: bool,
    /// Whether Cranelift's optimiser runs. The code handed to it has common operations shared and invariants hoisted, so it
    /// seldom helps, takes as long as the rest of the compilation, and it ruins vector code by reordering it.
    pub optimise: bool,
    /// Whether Cranelift's verifier checks the code handed to it.
    pub verify: bool,
    /// Whether functions keep frame pointers, so that profilers can walk the stack.
    pub frame_pointers: bool,
}

impl Default for CraneliftOptions {
    /// Vectors, no optimiser, frame pointers dropped; the verifier runs in builds with debug assertions.
    fn default() -> Self {
        CraneliftOptions {
            vectors: true,
            optimise: false,
            verify: cfg!(debug_assertions),
            frame_pointers: false,
        }
    }
}
