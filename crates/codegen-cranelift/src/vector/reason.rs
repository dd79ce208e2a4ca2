//! The reasons why Cranelift compiles a kernel instead of `vector-asm`.

use lowered_ir::ir::LocalId;
use tnode::DType;
use vector_asm::VectorCompileError;

/// The result of a part of the translation to vector programs.
pub(crate) type Result<T, E = BailoutReason> = std::result::Result<T, E>;

/// Why a vector program cannot represent a kernel, or does not compile.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BailoutReason {
    #[error("vector programs are turned off")]
    Off,
    #[error("an index is computed")]
    ComputedIndex,
    #[error("a condition ends a loop")]
    Condition,
    #[error("values are logged")]
    Log,
    #[error("random bits have no lanes")]
    RandomBits,
    #[error("`{op}` on {dtype} has no vector instruction")]
    Operation { op: String, dtype: DType },
    #[error("lanes of {0} are not contiguous")]
    Lanes(LocalId),
    #[error("all lanes store to the same element")]
    SharedStore,
    #[error("a vector loop contains a statement that is not a store")]
    NotStraight,
    #[error("a guard needs an index of more than 32 bits")]
    WideGuard,
    #[error("the code would be too large")]
    TooLarge,
    #[error(transparent)]
    Compile(#[from] VectorCompileError),
}
