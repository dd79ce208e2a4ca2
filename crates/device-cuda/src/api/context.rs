//! A device and its context, to which all other handles belong.
//!
//! The context is the device's primary one, which other users of CUDA in the process share. This crate and
//! the other users can therefore access each other's memory, and the device does not switch contexts.

use std::{
    ffi::{CStr, c_char},
    ptr,
    sync::{Arc, Mutex, PoisonError},
};

use cudarc::driver::sys::{
    CUcontext, CUdevice, CUdevice_attribute, CUmemAccess_flags, CUmemAccessDesc, CUmemAllocationHandleType,
    CUmemAllocationType, CUmemLocation, CUmemLocationType, CUmemPool_attribute, CUmemPoolProps, CUmemoryPool,
    CUstream, CUstream_flags,
};

use super::{Api, CallError, queue::FreeEvents};

/// Size in bytes of freed memory that a pool keeps for later allocations.
const RELEASE_THRESHOLD: u64 = 256 << 20;

/// A device, by its position among all devices.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gpu {
    api: &'static Api,
    pub(crate) ordinal: u32,
    raw: CUdevice,
}

impl Gpu {
    /// Initializes the driver and lists the devices.
    pub(crate) fn all(api: &'static Api) -> Result<Vec<Gpu>, CallError> {
        // SAFETY: accesses no memory; 0 is the only valid value of the flags.
        unsafe { api.cuInit(0)? };
        // SAFETY: a valid place for the number.
        let count = api.number(|api, count| unsafe { api.cuDeviceGetCount(count) })?;
        let gpu = |ordinal: i32| {
            // SAFETY: a valid place for the handle; the driver checks the position.
            let raw = api.number(|api, device| unsafe { api.cuDeviceGet(device, ordinal) })?;
            Ok(Gpu { api, ordinal: ordinal.unsigned_abs(), raw })
        };
        (0..count).map(gpu).collect()
    }

    /// The CUDA version of the driver: major and minor.
    pub(crate) fn driver_version(&self) -> Result<(u32, u32), CallError> {
        // SAFETY: a valid place for the number.
        let version = self.api.number(|api, version| unsafe { api.cuDriverGetVersion(version) })?;
        let version = version.unsigned_abs();
        Ok((version / 1000, version % 1000 / 10))
    }

    pub(crate) fn name(&self) -> Result<String, CallError> {
        let mut name = [0 as c_char; 256];
        // SAFETY: room for 255 bytes and a zero; the driver is told the size.
        unsafe { self.api.cuDeviceGetName(name.as_mut_ptr(), 255, self.raw)? };
        // SAFETY: the last byte is a zero, whatever the driver wrote before it.
        Ok(unsafe { CStr::from_ptr(name.as_ptr()) }.to_string_lossy().into_owned())
    }

    pub(crate) fn memory_bytes(&self) -> Result<usize, CallError> {
        // SAFETY: a valid place for the number.
        self.api.number(|api, bytes| unsafe { api.cuDeviceTotalMem_v2(bytes, self.raw) })
    }

    pub(crate) fn attribute(&self, attribute: CUdevice_attribute) -> Result<usize, CallError> {
        let read = |api: &Api, value: *mut i32| {
            // SAFETY: a valid place for the number; the driver checks the attribute.
            unsafe { api.cuDeviceGetAttribute(value, attribute, self.raw) }
        };
        self.api.number(read).map(|value| usize::try_from(value).unwrap_or(0))
    }

    /// Whether this device's kernels can access another device's memory.
    fn can_access(&self, other: &Gpu) -> Result<bool, CallError> {
        let read = |api: &Api, can: *mut i32| {
            // SAFETY: a valid place for the answer.
            unsafe { api.cuDeviceCanAccessPeer(can, self.raw, other.raw) }
        };
        self.api.number(read).map(|can| can != 0)
    }
}

/// A device's context, with the stream and the pool of its allocations.
#[derive(Debug)]
pub(crate) struct Context {
    pub(super) api: &'static Api,
    pub(crate) gpu: Gpu,
    pub(super) raw: CUcontext,
    /// The stream of allocations; no other task uses it.
    pub(super) allocation_stream: CUstream,
    /// The pool of stream-ordered allocations, if the device supports them.
    pub(super) pool: Option<CUmemoryPool>,
    pub(super) free_events: Mutex<FreeEvents>,
}

// SAFETY: the driver accepts calls from any thread, and the fields do not change.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

impl Context {
    /// Retains the primary context of a device, and makes its allocation stream and, if the device supports
    /// pools, its pool.
    pub(crate) fn open(gpu: Gpu) -> Result<Arc<Context>, CallError> {
        let api = gpu.api;
        let mut raw = ptr::null_mut();
        // SAFETY: a valid place for the handle, which is released when the value is dropped.
        unsafe { api.cuDevicePrimaryCtxRetain(&raw mut raw, gpu.raw)? };
        let mut context = Context {
            api,
            gpu,
            raw,
            allocation_stream: ptr::null_mut(),
            pool: None,
            free_events: Mutex::default(),
        };
        context.enter()?;
        context.allocation_stream = context.new_stream()?;
        if gpu.attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED)? != 0 {
            context.pool = Some(context.new_pool()?);
        }
        Ok(Arc::new(context))
    }

    /// Makes this context the current one of the calling thread.
    pub(super) fn enter(&self) -> Result<(), CallError> {
        // SAFETY: the context exists as long as this value.
        unsafe { self.api.cuCtxSetCurrent(self.raw) }
    }

    /// A stream that synchronizes with no other, the default stream included. The context must be current.
    pub(super) fn new_stream(&self) -> Result<CUstream, CallError> {
        let mut stream = ptr::null_mut();
        let flags = CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: a valid place for the handle; the context is current.
        unsafe { self.api.cuStreamCreate(&raw mut stream, flags)? };
        Ok(stream)
    }

    fn new_pool(&self) -> Result<CUmemoryPool, CallError> {
        let props = CUmemPoolProps {
            allocType: CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
            handleTypes: CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_NONE,
            location: self.gpu.location(),
            win32SecurityAttributes: ptr::null_mut(),
            reserved: [0; 64],
        };
        let mut pool = ptr::null_mut();
        // SAFETY: properties of memory on this device, and a valid place for the handle.
        unsafe { self.api.cuMemPoolCreate(&raw mut pool, &raw const props)? };
        let (attribute, mut kept) =
            (CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, RELEASE_THRESHOLD);
        // SAFETY: this attribute is a 64-bit number.
        unsafe { self.api.cuMemPoolSetAttribute(pool, attribute, (&raw mut kept).cast())? };
        Ok(pool)
    }

    /// Enables access of this device's kernels and copies to the memory of another device. Returns false if
    /// the devices are not connected.
    ///
    /// # Errors
    ///
    /// An error of the driver.
    pub(super) fn enable_access(&self, other: &Context) -> Result<bool, CallError> {
        if self.raw == other.raw {
            return Ok(true);
        }
        if !self.gpu.can_access(&other.gpu)? {
            return Ok(false);
        }
        match other.pool {
            Some(pool) => self.enable_pool_access(pool)?,
            None => self.enable_peer_access(other)?,
        }
        Ok(true)
    }

    /// Enables access of this device to all memory of another device's pool.
    fn enable_pool_access(&self, pool: CUmemoryPool) -> Result<(), CallError> {
        let access = CUmemAccessDesc {
            location: self.gpu.location(),
            flags: CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
        };
        // SAFETY: one description, of this device; memory of the pool refers to the context that owns the
        // pool.
        unsafe { self.api.cuMemPoolSetAccess(pool, &raw const access, 1) }
    }

    /// Enables access of this device to all memory of another device without a pool.
    fn enable_peer_access(&self, other: &Context) -> Result<(), CallError> {
        self.enter()?;
        // SAFETY: the other context exists as long as its value.
        match unsafe { self.api.cuCtxEnablePeerAccess(other.raw, 0) } {
            Err(error) if error.name == "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED" => Ok(()),
            answer => answer,
        }
    }

    /// Waits until freed memory is available to the next allocation.
    pub(crate) fn release_freed_memory(&self) -> Result<(), CallError> {
        self.enter()?;
        // SAFETY: the stream exists as long as this value.
        unsafe { self.api.cuStreamSynchronize(self.allocation_stream)? };
        match self.pool {
            // SAFETY: the pool exists as long as this value.
            Some(pool) => unsafe { self.api.cuMemPoolTrimTo(pool, 0) },
            None => Ok(()),
        }
    }
}

impl Gpu {
    fn location(&self) -> CUmemLocation {
        CUmemLocation { type_: CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE, id: self.raw }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // Errors are ignored: they mean that the device is lost, and that the driver has released everything.
        let _ = self.enter();
        for event in self.free_events.get_mut().unwrap_or_else(PoisonError::into_inner).drain() {
            // SAFETY: made for a recorded event that is gone.
            let _ = unsafe { self.api.cuEventDestroy_v2(event) };
        }
        if let Some(pool) = self.pool {
            // SAFETY: made by `open`; all memory allocated from it referred to this value, so it is freed.
            let _ = unsafe { self.api.cuMemPoolDestroy(pool) };
        }
        if !self.allocation_stream.is_null() {
            // SAFETY: made by `open`, and no other value has this stream.
            let _ = unsafe { self.api.cuStreamDestroy_v2(self.allocation_stream) };
        }
        // SAFETY: retained by `open`, and all handles of the context are gone.
        let _ = unsafe { self.api.cuDevicePrimaryCtxRelease_v2(self.gpu.raw) };
    }
}
