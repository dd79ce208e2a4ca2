//! Stack space for recursive functions.
//!
//! Parsers, passes, printers and the interpreter recurse as deep as expressions and loops nest.
//! [`limits::NESTING`](crate::verify::limits) bounds this depth, but a thread may have less stack than the
//! depth takes.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// More than twice the stack that the deepest routine takes, in builds without optimization too. A main
/// thread has this much, and a new stack costs a tenth of the compilation of a small program.
const ENOUGH_BYTES: usize = 4 << 20;

/// The size of a new stack. Its pages take memory only once they are touched.
const NEW_BYTES: usize = 32 << 20;

/// More than the pages around a new stack that may not be accessed.
const GUARD_BYTES: usize = 1 << 20;

/// There is no memory for a stack.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no memory for a stack of {} MiB, which deep programs take", .bytes >> 20)]
pub struct NoStack {
    /// Bytes that were requested.
    pub bytes: usize,
}

/// Calls `body` on this thread with enough stack for the deepest routine there may be: on the thread's own
/// stack if enough of it is left, otherwise on a new stack. A panic of `body` reaches the caller in both
/// cases.
///
/// ```
/// use lowered_ir::stack::{NoStack, with_enough};
///
/// fn depth(below: u32) -> u32 {
///     if below == 0 { 0 } else { 1 + depth(below - 1) }
/// }
/// let small = std::thread::Builder::new().stack_size(64 << 10);
/// let counted = small.spawn(|| with_enough(|| Ok::<_, NoStack>(depth(10_000))))?;
/// assert_eq!(counted.join().unwrap(), Ok(10_000));
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// [`NoStack`], before `body` has begun; the errors of `body`.
pub fn with_enough<R, E: From<NoStack>>(body: impl FnOnce() -> Result<R, E>) -> Result<R, E> {
    if stacker::remaining_stack().is_some_and(|bytes| bytes >= ENOUGH_BYTES) {
        return body();
    }
    if !is_available(NEW_BYTES) {
        return Err(NoStack { bytes: NEW_BYTES }.into());
    }
    // Another thread may take the memory in between. `stacker` panics then.
    let began = Cell::new(false);
    let on_new_stack = || {
        stacker::grow(NEW_BYTES, || {
            began.set(true);
            body()
        })
    };
    match catch_unwind(AssertUnwindSafe(on_new_stack)) {
        Ok(result) => result,
        // What the panic leaves behind is the caller's, as without `catch_unwind`.
        Err(panic) if began.get() => resume_unwind(panic),
        Err(_) => Err(NoStack { bytes: NEW_BYTES }.into()),
    }
}

/// Whether the system gives this much memory at the moment.
fn is_available(bytes: usize) -> bool {
    let mut memory: Vec<u8> = Vec::new();
    let reserved = memory.try_reserve_exact(bytes + GUARD_BYTES).is_ok();
    // Without this, the compiler may leave out an allocation that nothing uses.
    std::hint::black_box(&mut memory);
    reserved
}
