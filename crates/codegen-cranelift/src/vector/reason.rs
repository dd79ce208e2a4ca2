//! Why a kernel is left to Cranelift.

use lowered_ir::ir::LocalId;
use tnode::DType;
use vector_asm::VectorCompileError;

/// What a vector program cannot say, or the assembler not compile.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Reason {
    #[error("programs of such vectors are not asked for")]
    Off,
    #[error("an index is computed")]
    ComputedIndex,
    #[error("the end of a loop is a symbol")]
    SymbolBound,
    #[error("values are logged")]
    Log,
    #[error("random bits have no lanes")]
    RandomBits,
    #[error("`{op}` on {dtype} has no vector instruction")]
    Operation { op: String, dtype: DType },
    #[error("lanes of {0} do not lie side by side")]
    Lanes(LocalId),
    #[error("every lane stores into the same place")]
    SharedStore,
    #[error("a vector loop holds a statement that is not a store")]
    NotStraight,
    #[error("a guard needs an index of more than 32 bits")]
    WideGuard,
    #[error("the code would be too large")]
    TooLarge,
    #[error(transparent)]
    Refused(#[from] VectorCompileError),
}
