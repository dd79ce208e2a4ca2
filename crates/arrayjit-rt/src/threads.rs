//! Memory of a run, and threads over which its kernels are divided.

use core::mem::size_of;
use core::ptr;

use crate::memory::Arena;
use crate::run::{ObjectTask, ObjectThreads};

/// A function of the number of threads and of a task: it calls the task on as many threads at the same time,
/// the caller's among them, and returns when all calls have returned. Each call takes parts of the work until
/// none is left, so calls may be fewer, more or later, or all on one thread. A panic ends the process.
pub type RunOnThreads<'t> = dyn Fn(usize, &(dyn Fn() + Sync)) + 't;

/// The memory for a run, and its threads: an [`Arena`] for the calling thread, or a [`ThreadedArena`].
pub trait RunMemory<const BYTES: usize, const THREAD_BYTES: usize>: private::SealedMemory {
    /// Calls an entry with the addresses of the arena and of the threads.
    #[doc(hidden)]
    fn call(&mut self, entry: impl FnOnce(*mut u8, *const ObjectThreads) -> i64) -> i64;
}

/// An arena, and threads that divide the kernels of a run. Results do not depend on their number.
///
/// ```
/// use arrayjit_rt::{Arena, ThreadedArena};
///
/// let (mut arena, mut scratch) = (Arena::<4096>::new(), [Arena::<64>::new(), Arena::new(), Arena::new()]);
/// let memory = ThreadedArena {
///     arena: &mut arena,
///     scratch: &mut scratch, // for 3 threads beside the one that calls
///     run: &|count, task| {
///         std::thread::scope(|scope| {
///             (1..count).for_each(|_| _ = scope.spawn(task));
///             task();
///         });
///     },
/// };
/// # let _ = memory;
/// ```
pub struct ThreadedArena<'t, const BYTES: usize, const THREAD_BYTES: usize> {
    /// The intermediates, and the scratch memory of the thread that calls.
    pub arena: &'t mut Arena<BYTES>,
    /// The scratch memory of each other thread: `THREAD_BYTES` of the module.
    pub scratch: &'t mut [Arena<THREAD_BYTES>],
    /// Runs a task on the threads.
    pub run: &'t RunOnThreads<'t>,
}

mod private {
    /// No other crate has types of memory.
    pub trait SealedMemory {}
    impl<const BYTES: usize> SealedMemory for super::Arena<BYTES> {}
    impl<const BYTES: usize, const THREAD_BYTES: usize> SealedMemory
        for super::ThreadedArena<'_, BYTES, THREAD_BYTES>
    {
    }
}

impl<const BYTES: usize, const THREAD_BYTES: usize> RunMemory<BYTES, THREAD_BYTES> for Arena<BYTES> {
    fn call(&mut self, entry: impl FnOnce(*mut u8, *const ObjectThreads) -> i64) -> i64 {
        entry(self.as_mut_ptr(), ptr::null())
    }
}

impl<const BYTES: usize, const THREAD_BYTES: usize> RunMemory<BYTES, THREAD_BYTES>
    for ThreadedArena<'_, BYTES, THREAD_BYTES>
{
    fn call(&mut self, entry: impl FnOnce(*mut u8, *const ObjectThreads) -> i64) -> i64 {
        const { assert!(size_of::<Arena<THREAD_BYTES>>() == THREAD_BYTES.next_multiple_of(64)) };
        let run: &RunOnThreads<'_> = self.run;
        let threads = ObjectThreads {
            run: run_task,
            context: (&raw const run).cast_mut().cast(),
            count: self.scratch.len() as u64 + 1,
            scratch: self.scratch.as_mut_ptr().cast(),
        };
        entry(self.arena.as_mut_ptr(), &raw const threads)
    }
}

/// A task of an object with its argument.
struct TaskCall(ObjectTask, *mut ());

// SAFETY: a task is made to be called on several threads.
unsafe impl Sync for TaskCall {}

impl TaskCall {
    fn call(&self) {
        let TaskCall(task, data) = self;
        // SAFETY: the entry has passed this function with this argument, and has not returned.
        unsafe { task(*data) }
    }
}

/// Runs the task of an entry by the function of a [`ThreadedArena`].
///
/// # Safety
///
/// `context` is the address of a reference to a [`RunOnThreads`]. `task` may be called with `data` on any
/// thread until this function returns.
unsafe extern "C" fn run_task(context: *mut (), count: u64, task: ObjectTask, data: *mut ()) {
    // SAFETY: the caller's promise.
    let run = unsafe { *context.cast::<&RunOnThreads<'_>>() };
    let call = TaskCall(task, data);
    run(count as usize, &|| call.call());
}
