//! Stack space for recursive functions.
//!
//! Parsers, passes, printers and the interpreter recurse as deep as expressions and loops nest.
//! [`Limits::nesting`](crate::verify::Limits) bounds this depth, but a thread may have less stack than the
//! depth takes.

/// The stack that the deepest routine takes, in builds without optimisation too.
const ENOUGH_BYTES: usize = 8 << 20;

/// The size of a new stack. Its pages take memory only once they are touched.
const NEW_BYTES: usize = 32 << 20;

/// Calls `body` on this thread with enough stack for the deepest routine there may be: on the thread's own
/// stack if enough of it is left, otherwise on a new stack. A panic of `body` reaches the caller in both
/// cases.
///
/// ```
/// fn depth(below: u32) -> u32 {
///     if below == 0 { 0 } else { 1 + depth(below - 1) }
/// }
/// let small = std::thread::Builder::new().stack_size(64 << 10);
/// let counted = small.spawn(|| lowered_ir::stack::with_enough(|| depth(10_000)))?;
/// assert_eq!(counted.join().unwrap(), 10_000);
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn with_enough<R>(body: impl FnOnce() -> R) -> R {
    stacker::maybe_grow(ENOUGH_BYTES, NEW_BYTES, body)
}
