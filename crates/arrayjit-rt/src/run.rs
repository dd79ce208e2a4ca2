//! Calls of entries, the functions that run whole routines.

use core::fmt;

use crate::threads::RunMemory;

/// The function of an object that runs a routine: it takes the addresses of the arrays that the caller gives,
/// the values of the routine's parameters, the address of an arena, and threads or null.
pub type Entry = unsafe extern "C" fn(
    args: *const *mut u8,
    bindings: *const i64,
    arena: *mut u8,
    threads: *const ObjectThreads,
) -> i64;

/// A task of an object, with its argument.
pub type ObjectTask = unsafe extern "C" fn(data: *mut ());

/// Threads as objects take them.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ObjectThreads {
    /// Calls `task(data)` on up to `count` threads, and returns when all these calls have returned.
    pub run: unsafe extern "C" fn(context: *mut (), count: u64, task: ObjectTask, data: *mut ()),
    /// The first argument of `run`.
    pub context: *mut (),
    /// The number of threads.
    pub count: u64,
    /// Scratch memory of all threads but one, aligned to 64 bytes.
    pub scratch: *mut u8,
}

/// The reason why a routine did not run. No array has changed.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CallError {
    /// A size or an index is out of its range, or a size that follows from others is.
    OutOfRange {
        /// The routine.
        routine: &'static str,
        /// The name of the size or index.
        symbol: &'static str,
    },
    /// An array is not aligned to 64 bytes. Modules pass [`Aligned`](crate::Aligned) arrays, which are.
    Misaligned {
        /// The routine.
        routine: &'static str,
    },
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CallError::OutOfRange { routine, symbol } => {
                write!(f, "routine `{routine}`: the value of `{symbol}` is out of its range")
            }
            CallError::Misaligned { routine } => {
                write!(f, "routine `{routine}`: an array is not aligned to 64 bytes")
            }
        }
    }
}

impl core::error::Error for CallError {}

/// Runs a routine; modules that `arrayjit-aot` writes call this. `symbols` has the names of all symbols.
///
/// # Errors
///
/// [`CallError`].
///
/// # Safety
///
/// `entry` is the entry of a routine whose code this processor can run. `args` has the address of each array
/// that it takes, in order, of the element type, the size and the access that it expects, and none that it
/// writes overlaps another. `bindings` has the value of each parameter. The arena and the scratch memory of
/// threads have at least the bytes that the routine needs.
pub unsafe fn run<const BYTES: usize, const THREAD_BYTES: usize>(
    routine: &'static str,
    symbols: &[&'static str],
    entry: Entry,
    args: &[*mut u8],
    bindings: &[i64],
    memory: &mut impl RunMemory<BYTES, THREAD_BYTES>,
) -> Result<(), CallError> {
    let status = memory.call(|arena, threads| {
        // SAFETY: the caller's promise.
        unsafe { entry(args.as_ptr(), bindings.as_ptr(), arena, threads) }
    });
    match usize::try_from(status) {
        Ok(0) => Ok(()),
        Ok(at) => {
            Err(CallError::OutOfRange { routine, symbol: symbols.get(at - 1).copied().unwrap_or_default() })
        }
        Err(_) => Err(CallError::Misaligned { routine }),
    }
}
