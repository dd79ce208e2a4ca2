//! Kernels that run in this process: native functions and objects, and interpreted ones behind the same
//! calls.
//!
//! This module calls compiled code, which is unsafe. The codegen's obligations are documented at
//! [`HostModule::native`], the caller's at [`HostModule::run`].
#![allow(unsafe_code, reason = "calling compiled code is what this module is for")]

use std::{any::Any, fmt, sync::Arc};

use tnode::Scalar;

use crate::artifact::{Access, KernelAbi};
use crate::log::{LogWriter, Logging};

/// The native ABI of a kernel, version 1; see [`crate::abi`].
///
/// * `args`: one base address per memory parameter, and where the kernel logs, then that of a [`KernelLog`];
/// * `bindings`: one value per static index;
/// * `scratch`: [`crate::KernelAbi::scratch_bytes`] bytes for this thread alone;
/// * `begin..end`: the part of the parallel loop to run, within the iterations of the call, which
///   [`Launch::extent_for`](crate::Launch::extent_for) gives.
pub type HostFn =
    unsafe extern "C" fn(args: *const *mut u8, bindings: *const i64, scratch: *mut u8, begin: u64, end: u64);

/// A native kernel that is an object: it has code of its own around compiled code, such as a matmul that
/// packs its operands, or a list of steps. Calls have the contract of [`HostFn`]. Several threads may call it
/// on different parts at once.
pub trait NativeKernel: Send + Sync {
    /// Runs `begin..end` of the kernel.
    ///
    /// # Safety
    ///
    /// The caller keeps the promises of [`crate::abi`] for the [`crate::KernelAbi`] of the kernel; see
    /// [`HostFn`] for the arguments.
    unsafe fn run(&self, args: *const *mut u8, bindings: *const i64, scratch: *mut u8, begin: u64, end: u64);
}

/// A native kernel of a module.
#[derive(Clone)]
pub enum NativeCode {
    /// A function alone.
    Function(HostFn),
    /// An object with code of its own.
    Object(Arc<dyn NativeKernel>),
}

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
    /// Runs the kernel on memory that is exactly as long as its parameters say. `log` takes each line it
    /// logs: the line's number and the values in it.
    ///
    /// # Errors
    ///
    /// The reason why the kernel stopped before its end. The memory that it writes then has no values, and
    /// its task fails.
    fn run(
        &self,
        args: &mut [HostArg<'_>],
        bindings: &[i64],
        log: &mut dyn FnMut(usize, &[Scalar]),
    ) -> Result<(), String>;
}

/// The log of a native kernel; see [`crate::abi`]. A kernel sees the two functions and passes them the
/// address of the log.
#[repr(C)]
pub struct KernelLog<'a> {
    /// Adds a value to the next line, as the low and the high 64 bits.
    value: unsafe extern "C" fn(log: *mut KernelLog<'_>, low: u64, high: u64),
    /// Ends a line, which has this number.
    line: unsafe extern "C" fn(log: *mut KernelLog<'_>, number: u64),
    /// The values of the next line.
    bits: Vec<u128>,
    writer: LogWriter<'a>,
}

/// Kernels in this process, and the owner of their code. Cheap to clone. The code is freed with the last
/// clone.
#[derive(Clone)]
pub struct HostModule {
    kernels: Arc<[HostKernel]>,
    abis: Arc<[KernelAbi]>,
    /// The destination of logged lines, if any.
    logging: Option<Logging>,
    /// Bytes of the kernels' code in memory.
    code_bytes: usize,
    /// Its `Drop` frees the code.
    owner: Arc<dyn Any + Send + Sync>,
}

enum HostKernel {
    Native(NativeCode),
    Interpreted(Box<dyn InterpretedKernel>),
}

/// The memory of one parameter, by its address.
#[derive(Clone, Copy, Debug)]
pub struct HostPtr {
    /// The base address, a multiple of [`BASE_ALIGNMENT`](crate::caps::BASE_ALIGNMENT).
    pub base: *mut u8,
    /// Bytes from the base address on.
    pub bytes: usize,
    /// The access of the kernel.
    pub access: Access,
}

/// The memory of a kernel's parameters, prepared once for any number of calls, which then allocate nothing.
#[derive(Clone, Debug)]
pub struct HostArgs {
    pointers: Box<[HostPtr]>,
    /// The base addresses, in the form that native code takes.
    bases: Box<[*mut u8]>,
}

impl HostArgs {
    /// Prepares one pointer per memory parameter.
    pub fn new(pointers: Vec<HostPtr>) -> HostArgs {
        let bases = pointers.iter().map(|pointer| pointer.base).collect();
        HostArgs { pointers: pointers.into(), bases }
    }

    /// The number of memory parameters.
    pub fn len(&self) -> usize {
        self.pointers.len()
    }

    /// Whether there is no memory parameter.
    pub fn is_empty(&self) -> bool {
        self.pointers.is_empty()
    }
}

impl From<HostFn> for NativeCode {
    fn from(function: HostFn) -> NativeCode {
        NativeCode::Function(function)
    }
}

impl NativeCode {
    /// Calls the kernel.
    ///
    /// # Safety
    ///
    /// The promises that [`crate::abi`] requires of a caller hold, and so do the promises of the caller of
    /// [`HostModule::native`].
    pub unsafe fn run(
        &self,
        args: *const *mut u8,
        bindings: *const i64,
        scratch: *mut u8,
        begin: u64,
        end: u64,
    ) {
        match self {
            // SAFETY: this function's caller gives both promises.
            NativeCode::Function(function) => unsafe { function(args, bindings, scratch, begin, end) },
            // SAFETY: as above.
            NativeCode::Object(kernel) => unsafe { kernel.run(args, bindings, scratch, begin, end) },
        }
    }
}

impl fmt::Debug for NativeCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NativeCode::Function(_) => "Function",
            NativeCode::Object(_) => "Object",
        })
    }
}

impl HostModule {
    /// Wraps native kernels, each with its ABI; `owner` keeps the code of their functions mapped for as long
    /// as any clone of the module lives. (An object's own code and data are its own.)
    ///
    /// Safe code relies on this call alone: whatever it does with the module, the kernels are called as these
    /// ABIs say.
    ///
    /// # Safety
    ///
    /// Each kernel, function or object, follows [`crate::abi`] for the [`KernelAbi`] beside it, on this
    /// machine. Called with
    ///
    /// * valid memory of the bytes that its memory parameters state, at addresses that are multiples of
    ///   [`BASE_ALIGNMENT`](crate::caps::BASE_ALIGNMENT), and behind them, if [`KernelAbi::log`] has lines,
    ///   the address of a [`KernelLog`],
    /// * values within the ranges of its static indices,
    /// * [`KernelAbi::scratch_bytes`] bytes of scratch memory, and
    /// * a part of the iterations that [`Launch::extent_for`](crate::Launch::extent_for) gives for these
    ///   indices,
    ///
    /// it touches only these bytes, with the access stated, does not unwind and does not trap; several parts
    /// of one call may run at a time.
    pub unsafe fn native(kernels: Vec<(NativeCode, KernelAbi)>, owner: Arc<dyn Any + Send + Sync>) -> Self {
        HostModule::new(kernels, HostKernel::Native, owner)
    }

    /// Wraps interpreted kernels, each with its ABI.
    pub fn interpreted(kernels: Vec<(Box<dyn InterpretedKernel>, KernelAbi)>) -> Self {
        HostModule::new(kernels, HostKernel::Interpreted, Arc::new(()))
    }

    fn new<K>(
        kernels: Vec<(K, KernelAbi)>,
        kind: impl Fn(K) -> HostKernel,
        owner: Arc<dyn Any + Send + Sync>,
    ) -> Self {
        let (kernels, abis): (Vec<_>, Vec<_>) =
            kernels.into_iter().map(|(kernel, abi)| (kind(kernel), abi)).unzip();
        let (kernels, abis) = (kernels.into(), abis.into());
        HostModule { kernels, abis, logging: None, code_bytes: 0, owner }
    }

    /// The ABI of each kernel.
    pub fn abis(&self) -> &[KernelAbi] {
        &self.abis
    }

    pub(crate) fn shared_abis(&self) -> Arc<[KernelAbi]> {
        Arc::clone(&self.abis)
    }

    /// What the maker of the module gave as the owner of its code.
    pub fn owner(&self) -> &(dyn Any + Send + Sync) {
        &*self.owner
    }

    /// The module with the size of its kernels' code in bytes, for caches that count it.
    #[must_use]
    pub fn with_code_bytes(mut self, bytes: usize) -> Self {
        self.code_bytes = bytes;
        self
    }

    /// The size of the kernels' code in bytes; 0 if the maker of the module has not stated it.
    pub fn code_bytes(&self) -> usize {
        self.code_bytes
    }

    /// The same kernels with another destination for logged lines.
    pub(crate) fn logging_to(mut self, logging: Option<Logging>) -> Self {
        self.logging = logging;
        self
    }

    /// The writer for a call of a kernel that logs.
    fn log_writer(&self, kernel: usize) -> Option<LogWriter<'_>> {
        let lines = self.abis.get(kernel).map(|abi| &abi.log).filter(|lines| !lines.is_empty())?;
        Some(LogWriter::new(lines, self.logging.as_ref()))
    }

    /// The number of kernels in the module.
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

    /// Runs the iterations `begin..end` of the kernel at position `index`. A native kernel that does not log
    /// is called without allocating.
    ///
    /// # Errors
    ///
    /// The reason why an interpreted kernel stopped, or that the module has no such kernel. Native kernels do
    /// not fail.
    ///
    /// # Safety
    ///
    /// The caller guarantees for the duration of the call:
    ///
    /// * `args` and `bindings` agree with the kernel's ABI in [`HostModule::abis`]: the number of parameters,
    ///   their bytes and access, and the ranges of the bindings;
    /// * every [`HostPtr`] is valid for its bytes and access, and is a multiple of
    ///   [`BASE_ALIGNMENT`](crate::caps::BASE_ALIGNMENT);
    /// * memory that the kernel reads is not written by anybody;
    /// * memory that the kernel writes overlaps no other parameter, and is accessed by nobody except other
    ///   parts of the same split call;
    /// * `scratch` is a multiple of `BASE_ALIGNMENT`, is valid for the ABI's scratch bytes, and is used by
    ///   this call alone;
    /// * `begin <= end`, and `end` is at most what [`Launch::extent_for`](crate::Launch::extent_for) gives.
    pub unsafe fn run(
        &self,
        index: usize,
        args: &HostArgs,
        bindings: &[i64],
        scratch: *mut u8,
        begin: u64,
        end: u64,
    ) -> Result<(), String> {
        let log = self.log_writer(index);
        match (self.kernels.get(index), log) {
            (Some(HostKernel::Native(code)), None) => {
                // SAFETY: the caller vouches for memory, bindings, scratch and range, `native`'s caller for
                // the code.
                unsafe { code.run(args.bases.as_ptr(), bindings.as_ptr(), scratch, begin, end) }
                Ok(())
            }
            (Some(HostKernel::Native(code)), Some(writer)) => {
                let mut log = KernelLog::new(writer);
                let log_base = std::ptr::from_mut(&mut log).cast();
                let bases: Vec<*mut u8> = args.bases.iter().copied().chain([log_base]).collect();
                // SAFETY: as above; and the log lies behind the memory and lives until the call has returned.
                unsafe { code.run(bases.as_ptr(), bindings.as_ptr(), scratch, begin, end) }
                log.writer.finish();
                Ok(())
            }
            (Some(HostKernel::Interpreted(kernel)), log) => {
                // SAFETY: the caller vouches that each range is valid, and that written ranges are exclusive
                // to this call.
                let mut args: Vec<HostArg<'_>> =
                    args.pointers.iter().map(|arg| unsafe { view(*arg) }).collect();
                interpret(&**kernel, &mut args, bindings, log)
            }
            (None, _) => Err(format!("the module has {} kernels, and none at {index}", self.kernels.len())),
        }
    }

    /// [`HostModule::run`] for a single call.
    ///
    /// # Errors
    ///
    /// Fails like [`HostModule::run`].
    ///
    /// # Safety
    ///
    /// The caller keeps the promises of [`HostModule::run`].
    pub unsafe fn call(
        &self,
        index: usize,
        args: &[HostPtr],
        bindings: &[i64],
        scratch: *mut u8,
        begin: u64,
        end: u64,
    ) -> Result<(), String> {
        // SAFETY: the caller's promise is the one asked for.
        unsafe { self.run(index, &HostArgs::new(args.to_vec()), bindings, scratch, begin, end) }
    }
}

/// Runs an interpreted kernel, which logs to `log` if there is one.
fn interpret(
    kernel: &dyn InterpretedKernel,
    args: &mut [HostArg<'_>],
    bindings: &[i64],
    mut log: Option<LogWriter<'_>>,
) -> Result<(), String> {
    let result = kernel.run(args, bindings, &mut |line, values| {
        if let Some(log) = &mut log {
            log.record(line, values);
        }
    });
    if let Some(log) = log {
        log.finish();
    }
    result
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
    // SAFETY: `HostModule::run` passes its own live log, which nothing else touches while the kernel runs,
    // and which only the kernel's one thread reaches: kernels that log run whole.
    let log = unsafe { &mut *log };
    log.bits.push(u128::from(high) << 64 | u128::from(low));
}

/// [`KernelLog::line`].
///
/// # Safety
///
/// The condition of [`log_value`] holds.
unsafe extern "C" fn log_line(log: *mut KernelLog<'_>, number: u64) {
    // SAFETY: as in `log_value`.
    unsafe { &mut *log }.end_line(number);
}

/// The slice of a pointer.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::artifact::{Cost, Launch, Param};

    /// The memory of one parameter, with the alignment of all parameters.
    #[repr(align(64))]
    struct Line([i64; 8]);

    /// Adds its binding and the elements `begin..end` of every other argument to the last argument. Counts
    /// its calls in its scratch memory.
    struct Sum {
        terms: usize,
    }

    impl NativeKernel for Sum {
        unsafe fn run(
            &self,
            args: *const *mut u8,
            bindings: *const i64,
            scratch: *mut u8,
            begin: u64,
            end: u64,
        ) {
            // SAFETY: the test passes `terms` arrays of 8 integers and a sum of as many, one binding and a
            // byte of scratch.
            unsafe {
                *scratch += 1;
                for at in begin as usize..end as usize {
                    let element = |arg: usize| (*args.add(arg)).cast::<i64>().add(at);
                    *element(self.terms) = (0..self.terms).map(|arg| *element(arg)).sum::<i64>() + *bindings;
                }
            }
        }
    }

    fn abi(terms: usize) -> KernelAbi {
        let memory = Param::Node { access: Access::ReadWrite, bytes: 64 };
        let index = Param::StaticIndex { range: 2000 };
        KernelAbi {
            name: "sum".to_owned(),
            params: std::iter::repeat_n(memory, terms + 1).chain([index]).collect(),
            launch: Launch { extent: 8, grain: 1, threads: 1, end: None },
            scratch_bytes: 1,
            log: [].into(),
            cost: Cost::default(),
        }
    }

    #[test]
    fn an_object_runs_on_parts_with_any_number_of_arguments() {
        let terms = 40;
        let mut memory: Vec<Line> = (0..=terms as i64).map(|arg| Line([arg; 8])).collect();
        let pointer = |array: &mut Line| HostPtr {
            base: array.0.as_mut_ptr().cast(),
            bytes: 64,
            access: Access::ReadWrite,
        };
        let args = HostArgs::new(memory.iter_mut().map(pointer).collect());
        assert_eq!((args.len(), args.is_empty()), (41, false));
        // SAFETY: `Sum` accesses its arguments only.
        let module = unsafe {
            HostModule::native(vec![(NativeCode::Object(Arc::new(Sum { terms })), abi(terms))], Arc::new(()))
        };
        assert!(module.is_splittable(0));
        let mut calls = 0u8;
        for (begin, end) in [(5, 8), (0, 2)] {
            // SAFETY: every pointer is of a live array of 64 bytes, and nobody else looks at them.
            unsafe { module.run(0, &args, &[1000], &raw mut calls, begin, end) }.unwrap();
        }
        assert_eq!((memory[terms].0, calls), ([1780, 1780, 40, 40, 40, 1780, 1780, 1780], 2));
    }
}
