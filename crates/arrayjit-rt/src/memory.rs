//! Memory with the alignment that kernels rely on.

use core::mem::MaybeUninit;
use core::ops::{Deref, DerefMut};

/// A value at an address that is a multiple of 64 bytes, such as the elements of a node in row-major order.
///
/// ```
/// let x = arrayjit_rt::Aligned([1f32, 2., 3.]);
/// assert_eq!((&raw const x).addr() % 64, 0);
/// assert_eq!(x.iter().sum::<f32>(), 6.);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C, align(64))]
pub struct Aligned<T>(pub T);

impl<T> Deref for Aligned<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Aligned<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

/// `BYTES` bytes for the intermediates of a routine. Their contents mean nothing before and after a run, so
/// runs that do not overlap may share an arena.
///
/// ```
/// static mut ARENA: arrayjit_rt::Arena<4096> = arrayjit_rt::Arena::new();
/// # let _ = &raw const ARENA;
/// ```
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Arena<const BYTES: usize>([MaybeUninit<u8>; BYTES]);

impl<const BYTES: usize> Arena<BYTES> {
    /// An arena of arbitrary contents.
    pub const fn new() -> Arena<BYTES> {
        Arena([MaybeUninit::uninit(); BYTES])
    }

    pub(crate) fn as_mut_ptr(&mut self) -> *mut u8 {
        self.0.as_mut_ptr().cast()
    }
}

impl<const BYTES: usize> Default for Arena<BYTES> {
    fn default() -> Self {
        Arena::new()
    }
}
