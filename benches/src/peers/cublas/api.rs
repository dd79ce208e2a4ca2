//! cuBLAS and NVIDIA's driver as a safe interface, with all unsafe code of this peer.
//!
//! cudarc finds the libraries. The functions are looked up here, all of them when the peer is opened, so that
//! a library without one of them is an error. They are declared to return a plain number, because newer
//! libraries have codes that an enumeration of older ones lacks.
//!
//! Invariants relied on:
//! * handles are used only while their objects exist: [`Library`] owns the context, the stream and the
//!   library's handle, and each [`Memory`] a share of it;
//! * the context is current on the thread that uses it ([`Library::enter`], first in every method);
//! * a copy between host and device is waited for before the host's memory is used otherwise.
#![allow(unsafe_code, reason = "calls NVIDIA's libraries")]

use std::{
    ffi::{c_int, c_longlong, c_uint, c_void},
    ptr,
    rc::Rc,
};

use anyhow::{Context as _, Result, ensure};

use super::layout::CublasGemm;

/// An opaque handle of a library.
type Handle = *mut c_void;
/// An address on the device.
type Address = u64;

/// The library's number for operands that are not transposed, and for transposed ones.
const PLAIN: c_int = 0;
const TRANSPOSED: c_int = 1;
/// The library's number for sums in f32.
const SUMS_IN_F32: c_int = 68;
/// The library's number for its default algorithm.
const ITS_CHOICE: c_int = -1;
/// The library's mode without reductions in fewer bits than the sums have.
const NO_NARROW_REDUCTIONS: c_uint = 16;

/// An element type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Element {
    F32,
    Bf16,
}

impl Element {
    /// The library's number for the type.
    fn code(self) -> c_int {
        match self {
            Element::F32 => 0,
            Element::Bf16 => 14,
        }
    }
}

/// Declares the functions of a library: a table of their addresses.
macro_rules! functions {
    ($table:ident of $library:path; $($name:ident($($type:ty),* $(,)?);)*) => {
        #[allow(non_snake_case, reason = "the names are the library's")]
        struct $table {
            $($name: unsafe extern "C" fn($($type),*) -> c_uint,)*
        }

        impl $table {
            /// The functions of the library, if it is found.
            fn load() -> Result<$table> {
                // SAFETY: the library is NVIDIA's, which may be loaded; it was found, so this does not panic.
                let library = unsafe { $library() };
                Ok($table {
                    $($name: {
                        let name = concat!(stringify!($name), "\0");
                        // SAFETY: the declared types equal the library's headers, and the library is never
                        // unloaded.
                        let found = unsafe { library.get(name.as_bytes()) };
                        *found.with_context(|| format!("no function `{}`", stringify!($name)))?
                    },)*
                })
            }
        }
    };
}

functions! {
    Driver of cudarc::driver::sys::culib;
    cuInit(c_uint);
    cuDeviceGet(*mut c_int, c_int);
    cuDevicePrimaryCtxRetain(*mut Handle, c_int);
    cuDevicePrimaryCtxRelease_v2(c_int);
    cuCtxSetCurrent(Handle);
    cuStreamCreate(*mut Handle, c_uint);
    cuStreamDestroy_v2(Handle);
    cuStreamSynchronize(Handle);
    cuMemAlloc_v2(*mut Address, usize);
    cuMemFree_v2(Address);
    cuMemcpyHtoDAsync_v2(Address, *const c_void, usize, Handle);
    cuMemcpyDtoHAsync_v2(*mut c_void, Address, usize, Handle);
}

functions! {
    Blas of cudarc::cublas::sys::culib;
    cublasCreate_v2(*mut Handle);
    cublasDestroy_v2(Handle);
    cublasGetVersion_v2(Handle, *mut c_int);
    cublasSetStream_v2(Handle, Handle);
    cublasSetMathMode(Handle, c_uint);
    cublasGemmEx(
        Handle, c_int, c_int, c_int, c_int, c_int,
        *const c_void,
        Address, c_int, c_int,
        Address, c_int, c_int,
        *const c_void,
        Address, c_int, c_int,
        c_int, c_int,
    );
    cublasGemmStridedBatchedEx(
        Handle, c_int, c_int, c_int, c_int, c_int,
        *const c_void,
        Address, c_int, c_int, c_longlong,
        Address, c_int, c_int, c_longlong,
        *const c_void,
        Address, c_int, c_int, c_longlong,
        c_int, c_int, c_int,
    );
}

/// Fails with a line that names the library that is missing, if one is.
pub(super) fn probe() -> Result<(), String> {
    // SAFETY: loading NVIDIA's libraries runs their initializers and nothing else.
    let (driver, blas) =
        unsafe { (cudarc::driver::sys::is_culib_present(), cudarc::cublas::sys::is_culib_present()) };
    match (driver, blas) {
        (true, true) => Ok(()),
        (false, _) => Err("found no cuBLAS that could run: there is no NVIDIA driver".into()),
        (true, false) => Err("found no cuBLAS (looked for libcublas.so, libcublas.so.12 and older ones); \
            install it, or set LD_LIBRARY_PATH to where it is; for a newer one, make a link libcublas.so to it"
            .into()),
    }
}

/// cuBLAS on a device, with a stream of its own.
pub(super) struct Library {
    driver: Driver,
    blas: Blas,
    device: c_int,
    context: Handle,
    stream: Handle,
    handle: Handle,
    /// The library's version, in its own notation.
    pub(super) version: String,
}

impl Library {
    /// Opens the library on a device.
    ///
    /// # Errors
    ///
    /// The call that failed, with its error number.
    pub(super) fn open(ordinal: u32) -> Result<Library> {
        let (null, version) = (ptr::null_mut(), String::new());
        let mut this = Library {
            driver: Driver::load()?,
            blas: Blas::load()?,
            device: 0,
            context: null,
            stream: null,
            handle: null,
            version,
        };
        let (mut device, mut number) = (0, 0);
        // SAFETY: all pointers are to variables of the types that the libraries fill, and the handles were
        // returned by the calls before.
        unsafe {
            asked("cuInit", (this.driver.cuInit)(0))?;
            asked("cuDeviceGet", (this.driver.cuDeviceGet)(&mut device, c_int::try_from(ordinal)?))?;
            let mut context = null;
            asked("cuDevicePrimaryCtxRetain", (this.driver.cuDevicePrimaryCtxRetain)(&mut context, device))?;
            (this.device, this.context) = (device, context);
            this.enter()?;
            asked("cuStreamCreate", (this.driver.cuStreamCreate)(&mut this.stream, 1))?;
            asked("cublasCreate", (this.blas.cublasCreate_v2)(&mut this.handle))?;
            asked("cublasGetVersion", (this.blas.cublasGetVersion_v2)(this.handle, &mut number))?;
            asked("cublasSetStream", (this.blas.cublasSetStream_v2)(this.handle, this.stream))?;
            let mode = (this.blas.cublasSetMathMode)(this.handle, NO_NARROW_REDUCTIONS);
            asked("cublasSetMathMode", mode)?;
        }
        this.version = number.to_string();
        Ok(this)
    }

    /// Makes the context current on this thread.
    fn enter(&self) -> Result<()> {
        // SAFETY: the context was retained and is released when this is dropped.
        asked("cuCtxSetCurrent", unsafe { (self.driver.cuCtxSetCurrent)(self.context) })
    }

    /// Waits until the stream is idle.
    ///
    /// # Errors
    ///
    /// The failure of the submitted work.
    pub(super) fn wait(&self) -> Result<()> {
        self.enter()?;
        // SAFETY: the stream exists until this is dropped.
        asked("cuStreamSynchronize", unsafe { (self.driver.cuStreamSynchronize)(self.stream) })
    }

    /// Submits the product of `a` and `b` to the stream, with the result in `c`, without waiting.
    ///
    /// # Errors
    ///
    /// Operands that are too small, and the library's error.
    pub(super) fn multiply(
        &self,
        gemm: &CublasGemm,
        element: Element,
        [a, b, c]: [&Memory; 3],
    ) -> Result<()> {
        self.enter()?;
        let size = if element == Element::F32 { 4 } else { 2 };
        let mut holds = [b, a, c].into_iter().zip(gemm.strides());
        ensure!(
            holds.all(|(memory, elements)| memory.bytes >= gemm.batch * elements * size),
            "a product reaches out of its operands"
        );
        let [rows, columns, depth, batch] =
            [gemm.rows, gemm.columns, gemm.depth, gemm.batch].map(|size| size as c_int);
        let [by_b, by_a, by_c] = gemm.leading.map(|size| size as c_int);
        let first = if gemm.transposes_first { TRANSPOSED } else { PLAIN };
        let (one, zero, dtype) = (1.0f32, 0.0f32, element.code());
        let [one, zero] = [&one, &zero].map(|factor| ptr::from_ref(factor).cast::<c_void>());
        let (blas, handle) = (&self.blas, self.handle);
        if gemm.batch == 1 {
            // SAFETY: the operands are on the device and as large as the sizes require, which was just
            // checked; the factors are read before the call returns.
            let answer = unsafe {
                (blas.cublasGemmEx)(
                    handle,
                    first,
                    PLAIN,
                    rows,
                    columns,
                    depth,
                    one,
                    b.address,
                    dtype,
                    by_b,
                    a.address,
                    dtype,
                    by_a,
                    zero,
                    c.address,
                    dtype,
                    by_c,
                    SUMS_IN_F32,
                    ITS_CHOICE,
                )
            };
            return asked("cublasGemmEx", answer);
        }
        let [step_b, step_a, step_c] = gemm.strides().map(|elements| elements as c_longlong);
        // SAFETY: as above; the products lie one after the other.
        let answer = unsafe {
            (blas.cublasGemmStridedBatchedEx)(
                handle,
                first,
                PLAIN,
                rows,
                columns,
                depth,
                one,
                b.address,
                dtype,
                by_b,
                step_b,
                a.address,
                dtype,
                by_a,
                step_a,
                zero,
                c.address,
                dtype,
                by_c,
                step_c,
                batch,
                SUMS_IN_F32,
                ITS_CHOICE,
            )
        };
        asked("cublasGemmStridedBatchedEx", answer)
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        if self.context.is_null() || self.enter().is_err() {
            return;
        }
        // SAFETY: each was made by these libraries, exists once, and is not used after this. Errors have no
        // effect any more.
        unsafe {
            if !self.handle.is_null() {
                (self.blas.cublasDestroy_v2)(self.handle);
            }
            if !self.stream.is_null() {
                (self.driver.cuStreamDestroy_v2)(self.stream);
            }
            (self.driver.cuDevicePrimaryCtxRelease_v2)(self.device);
        }
    }
}

/// Memory of the device.
pub(super) struct Memory {
    library: Rc<Library>,
    address: Address,
    bytes: usize,
}

impl Memory {
    /// Allocates uninitialized memory.
    ///
    /// # Errors
    ///
    /// No memory left.
    pub(super) fn new(library: &Rc<Library>, bytes: usize) -> Result<Memory> {
        library.enter()?;
        let mut address = 0;
        // SAFETY: the address is a variable of the type that the driver fills.
        asked("cuMemAlloc", unsafe { (library.driver.cuMemAlloc_v2)(&mut address, bytes.max(1)) })?;
        Ok(Memory { library: Rc::clone(library), address, bytes })
    }

    /// Fills the memory.
    ///
    /// # Errors
    ///
    /// Another number of bytes, and the driver's error.
    pub(super) fn upload(&self, bytes: &[u8]) -> Result<()> {
        ensure!(bytes.len() == self.bytes, "{} bytes for a memory of {}", bytes.len(), self.bytes);
        let library = &self.library;
        library.enter()?;
        // SAFETY: both have `bytes.len()` bytes, and the copy is waited for before the slice's borrow ends.
        let answer = unsafe {
            let from = bytes.as_ptr().cast();
            (library.driver.cuMemcpyHtoDAsync_v2)(self.address, from, self.bytes, library.stream)
        };
        asked("cuMemcpyHtoDAsync", answer)?;
        library.wait()
    }

    /// The contents of the memory.
    ///
    /// # Errors
    ///
    /// An error of the driver.
    pub(super) fn download(&self) -> Result<Vec<u8>> {
        let library = &self.library;
        library.enter()?;
        let mut bytes = vec![0u8; self.bytes];
        // SAFETY: both have `self.bytes` bytes, and the copy is waited for while the vector is here and
        // untouched.
        let answer = unsafe {
            let to = bytes.as_mut_ptr().cast();
            (library.driver.cuMemcpyDtoHAsync_v2)(to, self.address, self.bytes, library.stream)
        };
        asked("cuMemcpyDtoHAsync", answer)?;
        library.wait()?;
        Ok(bytes)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if self.library.wait().is_ok() {
            // SAFETY: the memory belongs to this value alone, and all work on it is done. An error has no
            // effect any more.
            unsafe { (self.library.driver.cuMemFree_v2)(self.address) };
        }
    }
}

/// Fails if a call returned an error.
fn asked(call: &str, answer: c_uint) -> Result<()> {
    ensure!(answer == 0, "{call} was rejected: error {answer}");
    Ok(())
}
