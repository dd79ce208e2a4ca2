//! Kernels that run in this process: native functions, and interpreted ones behind the same calls.
//!
//! This is the one module of the crate with unsafe code: it calls function pointers that a codegen made. What such a call
//! relies on is written at [`HostModule::native`] (the codegen's side) and [`HostModule::call`] (the caller's side).
#![allow(unsafe_code, reason = "calling compiled code is what this module is for")]

use std::{any::Any, fmt, sync::Arc};

use crate::artifact::Access;

/// The native ABI of a kernel, version 1; see `docs/abi.md`.
///
/// * `args`: one base address per memory parameter;
/// * `bindings`: one value per static index;
/// * `scratch`: [`crate::KernelAbi::scratch_bytes`] bytes for this thread alone;
/// * `begin..end`: the part of the parallel loop to run, within `0..extent`.
pub type HostFn =
    unsafe extern "C" fn(args: *const *mut u8, bindings: *const i64, scratch: *mut u8, begin: u64, end: u64);

/// The memory behind one parameter, as an interpreted kernel sees it.
#[derive(Debug)]
pub enum HostArg<'a> {
    /// Read-only memory.
    Read(&'a [u8]),
    /// Memory that is written.
    Write(&'a mut [u8]),
}

/// A kernel run without native code; the safe twin of [`HostFn`]. It always runs whole.
pub trait InterpretedKernel: Send + Sync {
    /// Runs the kernel on memory that is exactly as long as its parameters say.
    fn run(&self, args: &mut [HostArg<'_>], bindings: &[i64]);
}

/// Kernels in this process, with whatever keeps their code alive. Cheap to clone; code is freed with the last clone.
#[derive(Clone)]
pub struct HostModule {
    kernels: Arc<[HostKernel]>,
    /// Held only for its `Drop`, which frees the code.
    _owner: Arc<dyn Any + Send + Sync>,
}

enum HostKernel {
    Native(HostFn),
    Interpreted(Box<dyn InterpretedKernel>),
}

/// One parameter's memory by address.
#[derive(Clone, Copy, Debug)]
pub struct HostPtr {
    /// The base address.
    pub base: *mut u8,
    /// How many bytes are there.
    pub bytes: usize,
    /// What the kernel may do with them.
    pub access: Access,
}

impl HostModule {
    /// Wraps native functions; `owner` keeps their code mapped for as long as any clone of the module lives.
    ///
    /// # Safety
    ///
    /// Each function follows `docs/abi.md` for the [`crate::KernelAbi`] at the same position of the artifact: it touches
    /// only the bytes its parameters name, with the access they name, does not unwind and does not trap.
    pub unsafe fn native(functions: Vec<HostFn>, owner: Arc<dyn Any + Send + Sync>) -> Self {
        HostModule { kernels: functions.into_iter().map(HostKernel::Native).collect(), _owner: owner }
    }

    /// Wraps interpreted kernels.
    pub fn interpreted(kernels: Vec<Box<dyn InterpretedKernel>>) -> Self {
        HostModule {
            kernels: kernels.into_iter().map(HostKernel::Interpreted).collect(),
            _owner: Arc::new(()),
        }
    }

    /// How many kernels the module has.
    pub fn len(&self) -> usize {
        self.kernels.len()
    }

    /// Whether the module has no kernel.
    pub fn is_empty(&self) -> bool {
        self.kernels.is_empty()
    }

    /// Whether a kernel may be called on sub-ranges, from several threads at once.
    pub fn is_splittable(&self, kernel: usize) -> bool {
        matches!(self.kernels.get(kernel), Some(HostKernel::Native(_)))
    }

    /// Runs `begin..end` of a kernel. A position that does not exist does nothing.
    ///
    /// # Safety
    ///
    /// For the duration of the call: every [`HostPtr`] is valid for its bytes and access, aligned to
    /// [`crate::Caps::alignment`] or to its element type; written memory overlaps no other parameter and nobody else touches
    /// it, but for other parts of the same split call; nobody writes read memory; `args`, `bindings` and the bytes of each
    /// are as many as the kernel's [`crate::KernelAbi`] says; `scratch` is valid for its scratch bytes and
    /// used by this call alone; `begin <= end <= extent`.
    pub unsafe fn call(
        &self,
        kernel: usize,
        args: &[HostPtr],
        bindings: &[i64],
        scratch: *mut u8,
        begin: u64,
        end: u64,
    ) {
        match self.kernels.get(kernel) {
            Some(HostKernel::Native(function)) => {
                let bases: smallvec::SmallVec<[*mut u8; 16]> = args.iter().map(|arg| arg.base).collect();
                // SAFETY: the caller vouches for memory, bindings, scratch and range, `native`'s caller for the function.
                unsafe { function(bases.as_ptr(), bindings.as_ptr(), scratch, begin, end) }
            }
            Some(HostKernel::Interpreted(kernel)) => {
                // SAFETY: the caller vouches that each range is valid, and that written ones are exclusive to this call.
                let mut args: Vec<HostArg<'_>> = args.iter().map(|arg| unsafe { view(*arg) }).collect();
                kernel.run(&mut args, bindings);
            }
            None => {}
        }
    }
}

/// The slice a pointer stands for.
///
/// # Safety
///
/// `arg` is valid for its bytes and access for `'a`.
unsafe fn view<'a>(arg: HostPtr) -> HostArg<'a> {
    match arg.access {
        // SAFETY: valid for reads of `bytes` bytes, and nobody writes them, by this function's contract.
        Access::Read => HostArg::Read(unsafe { std::slice::from_raw_parts(arg.base, arg.bytes) }),
        Access::Write | Access::ReadWrite => {
            // SAFETY: valid for reads and writes of `bytes` bytes and exclusive, by this function's contract.
            HostArg::Write(unsafe { std::slice::from_raw_parts_mut(arg.base, arg.bytes) })
        }
    }
}

impl fmt::Debug for HostModule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostModule").field("kernels", &self.kernels.len()).finish_non_exhaustive()
    }
}
