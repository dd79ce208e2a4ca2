//! NVIDIA's driver as a safe interface: all unsafe code of the crate, except the implementation of `Driver`.
//!
//! cudarc finds the library and declares its types. This module looks up all functions when the first device
//! is opened. If the driver lacks a function, opening the device fails with an error, and no later call
//! panics. The functions are declared to return a plain number, since newer drivers have error codes that
//! cudarc's enumeration lacks.
//!
//! Invariants relied on:
//! * a handle is used only while its object exists: each type here owns its handle and a reference to its
//!   [`Context`];
//! * the context of a handle is current on the thread that uses it ([`Context::enter`], first in every
//!   method), and the driver accepts calls from any thread;
//! * memory that a task uses is alive until the task is done: [`TaskQueue`] keeps references to it until the
//!   event after the task is reached;
//! * a range of host memory is exclusive to the copy that reads or writes it until the copy is done:
//!   [`staging::StagingRange`];
//! * the code of an artifact stays within its parameters, as `codegen_core::abi` requires of compiled
//!   kernels. The number of parameters and their sizes are checked when the code is loaded.
#![allow(unsafe_code, reason = "calls NVIDIA's driver, a library without types")]

use std::{
    ffi::{CStr, c_char, c_int, c_uint, c_void},
    fmt, ptr,
    sync::OnceLock,
};

use cudarc::driver::sys::{
    self, CUDA_KERNEL_NODE_PARAMS, CUcontext, CUdevice, CUdevice_attribute, CUdeviceptr, CUevent, CUfunction,
    CUfunction_attribute, CUgraph, CUgraphExec, CUgraphNode, CUjit_option, CUmemAccessDesc,
    CUmemPool_attribute, CUmemPoolProps, CUmemoryPool, CUmodule, CUstream, CUtensorMap, CUtensorMapDataType,
    CUtensorMapFloatOOBfill, CUtensorMapInterleave, CUtensorMapL2promotion, CUtensorMapSwizzle,
};

mod code;
mod context;
mod graph; // kernels that are launched together
mod memory;
mod nccl; // exchanges of values between devices
mod queue;
mod staging;
mod tensor;
mod timing;

pub(crate) use self::{
    code::{CodeError, Function, Grid, Module, Params},
    context::{Context, Gpu},
    graph::{Graph, KernelLaunch},
    memory::{DeviceMemory, MemoryRegion},
    nccl::{Communicator, Exchange, new_id},
    queue::{RecordedEvent, TaskQueue},
    staging::{StagingAllocator, StagingPool, StagingRange},
    tensor::{MAX_AXES, element, encode},
};

/// A call that the driver rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CallError {
    /// The name of the driver's function.
    pub(crate) call: &'static str,
    /// The driver's error code.
    pub(crate) code: u32,
    /// The driver's name for the code.
    pub(crate) name: String,
    /// The driver's description of the error.
    pub(crate) text: String,
}

impl CallError {
    /// The error without the function's name.
    pub(crate) fn message(&self) -> String {
        format!("{} ({}): {}", self.name, self.code, self.text)
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.call, self.message())
    }
}

/// The reason why the driver cannot be loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LoadError {
    /// No library with any of these names exists.
    NoLibrary(Vec<String>),
    /// The library lacks this function.
    NoSymbol(&'static str),
}

/// Declares the functions of a library: a table of their addresses, and for each a method that converts its
/// return code to a result.
macro_rules! functions {
    ($(#[$doc:meta])* $Api:ident from $library:path; $($name:ident($($arg:ident: $type:ty),* $(,)?);)*) => {
        $(#[$doc])*
        #[allow(non_snake_case, reason = "the names are the library's")]
        pub(crate) struct $Api {
            $($name: unsafe extern "C" fn($($type),*) -> c_uint,)*
        }

        #[allow(non_snake_case, reason = "the names are the library's")]
        #[allow(clippy::too_many_arguments, reason = "the signatures are the library's")]
        impl $Api {
            /// # Safety
            ///
            /// The library is present.
            unsafe fn look_up() -> Result<$Api, LoadError> {
                // SAFETY: the caller's promise. The library is never closed, so addresses stay valid.
                let library = unsafe { $library() };
                $(
                    // SAFETY: the library's function of this name has this signature, and returns a number.
                    let found = unsafe { library.get(stringify!($name).as_bytes()) };
                    let $name = found.map(|symbol| *symbol).map_err(|_| LoadError::NoSymbol(stringify!($name)))?;
                )*
                Ok($Api { $($name),* })
            }

            $(
                /// # Safety
                ///
                /// The arguments satisfy the library's manual.
                #[allow(dead_code, reason = "those that explain errors are called by address")]
                unsafe fn $name(&self, $($arg: $type),*) -> Result<(), CallError> {
                    // SAFETY: the caller's promise is the required one.
                    let code = unsafe { (self.$name)($($arg),*) };
                    if code == 0 { Ok(()) } else { Err(self.error(stringify!($name), code)) }
                }
            )*
        }
    };
}

pub(crate) use functions;

functions! {
    /// The functions of the driver.
    Api from sys::culib;
    cuInit(flags: c_uint);
    cuDriverGetVersion(version: *mut c_int);
    cuDeviceGetCount(count: *mut c_int);
    cuDeviceGet(device: *mut CUdevice, ordinal: c_int);
    cuDeviceGetName(name: *mut c_char, len: c_int, device: CUdevice);
    cuDeviceTotalMem_v2(bytes: *mut usize, device: CUdevice);
    cuDeviceGetAttribute(value: *mut c_int, attribute: CUdevice_attribute, device: CUdevice);
    cuDeviceCanAccessPeer(can: *mut c_int, device: CUdevice, peer: CUdevice);
    cuDevicePrimaryCtxRetain(context: *mut CUcontext, device: CUdevice);
    cuDevicePrimaryCtxRelease_v2(device: CUdevice);
    cuCtxSetCurrent(context: CUcontext);
    cuCtxEnablePeerAccess(peer: CUcontext, flags: c_uint);
    cuMemPoolCreate(pool: *mut CUmemoryPool, props: *const CUmemPoolProps);
    cuMemPoolDestroy(pool: CUmemoryPool);
    cuMemPoolTrimTo(pool: CUmemoryPool, keep: usize);
    cuMemPoolSetAttribute(pool: CUmemoryPool, attribute: CUmemPool_attribute, value: *mut c_void);
    cuMemPoolSetAccess(pool: CUmemoryPool, map: *const CUmemAccessDesc, count: usize);
    cuMemAllocFromPoolAsync(address: *mut CUdeviceptr, bytes: usize, pool: CUmemoryPool, stream: CUstream);
    cuMemFreeAsync(address: CUdeviceptr, stream: CUstream);
    cuMemAlloc_v2(address: *mut CUdeviceptr, bytes: usize);
    cuMemFree_v2(address: CUdeviceptr);
    cuMemHostAlloc(memory: *mut *mut c_void, bytes: usize, flags: c_uint);
    cuMemFreeHost(memory: *mut c_void);
    cuMemsetD8Async(dst: CUdeviceptr, value: u8, bytes: usize, stream: CUstream);
    cuMemcpyHtoDAsync_v2(dst: CUdeviceptr, src: *const c_void, bytes: usize, stream: CUstream);
    cuMemcpyDtoHAsync_v2(dst: *mut c_void, src: CUdeviceptr, bytes: usize, stream: CUstream);
    cuMemcpyDtoDAsync_v2(dst: CUdeviceptr, src: CUdeviceptr, bytes: usize, stream: CUstream);
    cuMemcpyPeerAsync(
        dst: CUdeviceptr, dst_context: CUcontext, src: CUdeviceptr, src_context: CUcontext, bytes: usize,
        stream: CUstream,
    );
    cuStreamCreate(stream: *mut CUstream, flags: c_uint);
    cuStreamDestroy_v2(stream: CUstream);
    cuStreamSynchronize(stream: CUstream);
    cuStreamWaitEvent(stream: CUstream, event: CUevent, flags: c_uint);
    cuEventCreate(event: *mut CUevent, flags: c_uint);
    cuEventDestroy_v2(event: CUevent);
    cuEventRecord(event: CUevent, stream: CUstream);
    cuEventQuery(event: CUevent);
    cuEventSynchronize(event: CUevent);
    cuEventElapsedTime(milliseconds: *mut f32, begin: CUevent, end: CUevent);
    cuModuleLoadDataEx(
        module: *mut CUmodule, image: *const c_void, count: c_uint, options: *mut CUjit_option,
        values: *mut *mut c_void,
    );
    cuModuleUnload(module: CUmodule);
    cuModuleGetFunction(function: *mut CUfunction, module: CUmodule, name: *const c_char);
    cuFuncGetAttribute(value: *mut c_int, attribute: CUfunction_attribute, function: CUfunction);
    cuFuncSetAttribute(function: CUfunction, attribute: CUfunction_attribute, value: c_int);
    cuLaunchKernel(
        function: CUfunction, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint, block_y: c_uint,
        block_z: c_uint, shared: c_uint, stream: CUstream, params: *mut *mut c_void, extra: *mut *mut c_void,
    );
    cuTensorMapEncodeTiled(
        map: *mut CUtensorMap, element: CUtensorMapDataType, axes: u32, address: *mut c_void, sizes: *const u64,
        strides: *const u64, tile: *const u32, element_strides: *const u32, interleave: CUtensorMapInterleave,
        swizzle: CUtensorMapSwizzle, promotion: CUtensorMapL2promotion, outside: CUtensorMapFloatOOBfill,
    );
    cuGraphCreate(graph: *mut CUgraph, flags: c_uint);
    cuGraphDestroy(graph: CUgraph);
    cuGraphAddKernelNode_v2(
        node: *mut CUgraphNode, graph: CUgraph, before: *const CUgraphNode, count: usize,
        params: *const CUDA_KERNEL_NODE_PARAMS,
    );
    cuGraphInstantiateWithFlags(exec: *mut CUgraphExec, graph: CUgraph, flags: u64);
    cuGraphExecDestroy(exec: CUgraphExec);
    cuGraphExecKernelNodeSetParams_v2(
        exec: CUgraphExec, node: CUgraphNode, params: *const CUDA_KERNEL_NODE_PARAMS,
    );
    cuGraphLaunch(exec: CUgraphExec, stream: CUstream);
    cuGetErrorName(code: c_uint, text: *mut *const c_char);
    cuGetErrorString(code: c_uint, text: *mut *const c_char);
}

impl Api {
    /// The driver of this machine, initialized.
    ///
    /// # Errors
    ///
    /// There is no driver, or it lacks a function. The error stays the same for the life of the process.
    pub(crate) fn get() -> Result<&'static Api, LoadError> {
        static API: OnceLock<Result<Api, LoadError>> = OnceLock::new();
        API.get_or_init(Api::load).as_ref().map_err(Clone::clone)
    }

    fn load() -> Result<Api, LoadError> {
        // SAFETY: opens libraries with the driver's names, which execute no relevant code when they are
        // opened.
        if !unsafe { sys::is_culib_present() } {
            let names = ["cuda", "nvcuda"].into_iter().flat_map(cudarc::get_lib_name_candidates);
            return Err(LoadError::NoLibrary(names.collect()));
        }
        // SAFETY: the library is loaded.
        unsafe { Api::look_up() }
    }

    /// The error for a code, with the driver's name and description.
    fn error(&self, call: &'static str, code: u32) -> CallError {
        let words = |function: unsafe extern "C" fn(c_uint, *mut *const c_char) -> c_uint| {
            let mut text = ptr::null();
            // SAFETY: the function writes the pointer before it returns 0; the text is static and ends in a
            // zero.
            let known = unsafe { function(code, &raw mut text) } == 0 && !text.is_null();
            // SAFETY: as above.
            known.then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
        };
        let name = words(self.cuGetErrorName).unwrap_or_else(|| "an error without a name".to_owned());
        let text = words(self.cuGetErrorString).unwrap_or_else(|| "no description".to_owned());
        CallError { call, code, name, text }
    }

    /// The number that the driver writes to a pointer.
    fn number<T: Default>(
        &self,
        write: impl FnOnce(&Self, *mut T) -> Result<(), CallError>,
    ) -> Result<T, CallError> {
        let mut value = T::default();
        write(self, &raw mut value)?;
        Ok(value)
    }
}

impl fmt::Debug for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NVIDIA's driver")
    }
}
