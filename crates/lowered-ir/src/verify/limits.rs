//! How large a routine may be. Within these limits, the verifier's promise holds.

/// Loops around a statement, and depth of an expression.
pub const NESTING: usize = crate::text::MAX_NESTING;
/// Statements, each counted as often as unrolling repeats it.
pub const STATEMENTS: u64 = 1 << 20;
/// Size of a node in bytes.
pub const NODE_BYTES: u64 = 1 << 40;
/// Size of a local that is not in registers, in bytes.
pub const LOCAL_BYTES: u64 = 1 << 30;
/// Elements of a register local.
pub const REGISTER_ELEMENTS: u64 = 1 << 12;
/// Lanes of a vector loop, iterations of a workgroup loop.
pub const VECTOR_EXTENT: i64 = 1024;
/// The maximum end of a loop or symbol range, and the maximum number of iterations of a loop. The start of a
/// loop is at least the negative of this number.
pub const EXTENT: i64 = 1 << 40;
