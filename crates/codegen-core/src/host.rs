//! Kernels that run in this process: native functions, and interpreted ones behind the same calls.
//!
//! This is the one module of the crate with unsafe code: it calls function pointers that a codegen made. What such a call
//! relies on is written at [`HostModule::native`] (the codegen's side) and [`HostModule::call`] (the caller's side).
#![allow(unsafe_code, reason = "calling compiled code is what this module is for")]

use std::{any::Any, fmt, sync::Arc};

use lowered_ir::log::{LogLine, LogStyle};
use tnode::Scalar;

use crate::artifact::{Access, KernelAbi};
use crate::log::{Destination, LogSink, LogWriter};

/// The native ABI of a kernel, version 1; see `docs/abi.md`.
///
/// * `args`: one base address per memory parameter, and where the kernel logs, then that of a [`KernelLog`];
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
    /// Runs the kernel on memory that is exactly as long as its parameters say. `log` takes each line it logs: the line's number
    /// and the values in it.
    fn run(&self, args: &mut [HostArg<'_>], bindings: &[i64], log: &mut dyn FnMut(usize, &[Scalar]));
}

/// What a native kernel logs to; see `docs/abi.md`. A kernel sees the two functions, and passes the address it was given to them.
#[repr(C)]
pub struct KernelLog<'a> {
    /// Tells a value of the next line by its bits: the low 64, the high 64.
    value: unsafe extern "C" fn(log: *mut KernelLog<'_>, low: u64, high: u64),
    /// Ends a line, by its number.
    line: unsafe extern "C" fn(log: *mut KernelLog<'_>, number: u64),
    /// The values of the next line.
    bits: Vec<u128>,
    writer: LogWriter<'a>,
}

/// Kernels in this process, with whatever keeps their code alive. Cheap to clone; code is freed with the last clone.
#[derive(Clone)]
pub struct HostModule {
    kernels: Arc<[HostKernel]>,
    /// The lines of each kernel that logs.
    lines: Arc<[Arc<[LogLine]>]>,
    /// Where the lines go, if anywhere.
    destination: Option<Destination>,
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
    /// only the bytes its parameters name, with the access they name, does not unwind and does not trap. Functions that log are
    /// called only after [`HostModule::with_log_lines`] was told so.
    pub unsafe fn native(functions: Vec<HostFn>, owner: Arc<dyn Any + Send + Sync>) -> Self {
        HostModule::new(functions.into_iter().map(HostKernel::Native).collect(), owner)
    }

    /// Wraps interpreted kernels.
    pub fn interpreted(kernels: Vec<Box<dyn InterpretedKernel>>) -> Self {
        HostModule::new(kernels.into_iter().map(HostKernel::Interpreted).collect(), Arc::new(()))
    }

    fn new(kernels: Arc<[HostKernel]>, owner: Arc<dyn Any + Send + Sync>) -> Self {
        HostModule { kernels, lines: Arc::new([]), destination: None, _owner: owner }
    }

    /// The module with the lines that its kernels log, kernel by kernel. Those that log lines get a log to call.
    #[must_use]
    pub fn with_log_lines<'a>(mut self, kernels: impl IntoIterator<Item = &'a KernelAbi>) -> Self {
        self.lines = kernels.into_iter().map(|abi| Arc::clone(&abi.log)).collect();
        self
    }

    /// The same kernels, logging to a sink.
    #[must_use]
    pub fn logging_to(mut self, sink: Arc<dyn LogSink>, style: LogStyle) -> Self {
        self.destination = Some(Destination { sink, style });
        self
    }

    /// What takes the records of a call of a kernel that logs.
    fn log_writer(&self, kernel: usize) -> Option<LogWriter<'_>> {
        let lines = self.lines.get(kernel).filter(|lines| !lines.is_empty())?;
        Some(LogWriter::new(lines, self.destination.as_ref()))
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
        index: usize,
        args: &[HostPtr],
        bindings: &[i64],
        scratch: *mut u8,
        begin: u64,
        end: u64,
    ) {
        match self.kernels.get(index) {
            Some(HostKernel::Native(function)) => {
                let mut bases: smallvec::SmallVec<[*mut u8; 16]> = args.iter().map(|arg| arg.base).collect();
                let mut log = self.log_writer(index).map(KernelLog::new);
                bases.extend(log.as_mut().map(|log| std::ptr::from_mut(log).cast()));
                // SAFETY: the caller vouches for memory, bindings, scratch and range, `native`'s caller for the function. A
                // function that logs has its log behind the memory, which lives until the call has returned.
                unsafe { function(bases.as_ptr(), bindings.as_ptr(), scratch, begin, end) }
                if let Some(log) = log {
                    log.writer.finish();
                }
            }
            Some(HostKernel::Interpreted(kernel)) => {
                // SAFETY: the caller vouches that each range is valid, and that written ones are exclusive to this call.
                let mut args: Vec<HostArg<'_>> = args.iter().map(|arg| unsafe { view(*arg) }).collect();
                let mut log = self.log_writer(index);
                kernel.run(&mut args, bindings, &mut |line, values| {
                    if let Some(log) = &mut log {
                        log.record(line, values);
                    }
                });
                if let Some(log) = log {
                    log.finish();
                }
            }
            None => {}
        }
    }
}

impl<'a> KernelLog<'a> {
    fn new(writer: LogWriter<'a>) -> Self {
        KernelLog { value: log_value, line: log_line, bits: Vec::new(), writer }
    }

    fn end_line(&mut self, number: u64) {
        let number = usize::try_from(number).unwrap_or(usize::MAX);
        if let Some(line) = self.writer.line(number) {
            let values: Vec<Scalar> =
                line.dtypes().zip(&self.bits).map(|(dtype, &bits)| Scalar::new(dtype, bits)).collect();
            self.writer.record(number, &values);
        }
        self.bits.clear();
    }
}

impl fmt::Debug for KernelLog<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KernelLog").field("values", &self.bits.len()).finish_non_exhaustive()
    }
}

/// [`KernelLog::value`].
///
/// # Safety
///
/// `log` is the address that the kernel got, and its call has not returned.
unsafe extern "C" fn log_value(log: *mut KernelLog<'_>, low: u64, high: u64) {
    // SAFETY: `HostModule::call` passes its own live log, which nothing else touches while the kernel runs, and which only the
    // kernel's one thread reaches: kernels that log run whole.
    let log = unsafe { &mut *log };
    log.bits.push(u128::from(high) << 64 | u128::from(low));
}

/// [`KernelLog::line`].
///
/// # Safety
///
/// As [`log_value`].
unsafe extern "C" fn log_line(log: *mut KernelLog<'_>, number: u64) {
    // SAFETY: as in `log_value`.
    unsafe { &mut *log }.end_line(number);
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
        Access::Write | Access::WritePart | Access::ReadWrite => {
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
