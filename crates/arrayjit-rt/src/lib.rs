#![doc = include_str!("../README.md")]
#![no_std]
#[cfg(any(feature = "products", feature = "threads"))]
extern crate std;

/// Implements `Debug` of error types as their `Display`, so that `main` and `expect` print the message.
macro_rules! debug_as_display {
    ($($error:ty),+ $(,)?) => {
        $(impl core::fmt::Debug for $error {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                core::fmt::Display::fmt(self, f)
            }
        })+
    };
}
debug_as_display!(CallError, UnsupportedProcessor);

mod functions; // functions that kernels call
mod level; // levels of processors
mod memory; // aligned memory
#[cfg(feature = "products")]
pub mod products; // plans of products
mod run; // calls of entries
#[cfg(feature = "threads")]
mod scoped_threads; // threads that wait for tasks
mod threads; // threads that divide kernels

pub use level::{ProcessorLevel, UnsupportedProcessor, select};
pub use memory::{Aligned, Arena};
pub use run::{CallError, Entry, ObjectTask, ObjectThreads, run};
#[cfg(feature = "threads")]
pub use scoped_threads::on_threads;
pub use threads::{RunMemory, RunOnThreads, ThreadedArena};
