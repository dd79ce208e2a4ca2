//! A device, and its context: what all other handles belong to.
//!
//! The context is the device's primary one, which the process's other users of CUDA have too, so that their memory and ours are
//! memory of one kind and none of the device's time goes into switching.

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

use super::{Api, CallError, queue::SpareEvent};

/// Bytes of freed memory that a pool keeps for the next allocation while the device is idle.
const KEPT: u64 = 256 << 20;

/// A device by its position among all of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gpu {
    api: &'static Api,
    pub(crate) ordinal: u32,
    raw: CUdevice,
}

impl Gpu {
    /// Starts the driver and lists the devices.
    pub(crate) fn all(api: &'static Api) -> Result<Vec<Gpu>, CallError> {
        // SAFETY: takes no memory; 0 is the only value of the flags.
        unsafe { api.cuInit(0)? };
        // SAFETY: a place for the number.
        let count = api.number(|api, count| unsafe { api.cuDeviceGetCount(count) })?;
        let gpu = |ordinal: i32| {
            // SAFETY: a place for the handle; the driver checks the position.
            let raw = api.number(|api, device| unsafe { api.cuDeviceGet(device, ordinal) })?;
            Ok(Gpu { api, ordinal: ordinal.unsigned_abs(), raw })
        };
        (0..count).map(gpu).collect()
    }

    /// The CUDA version of the driver: major and minor.
    pub(crate) fn driver_version(&self) -> Result<(u32, u32), CallError> {
        // SAFETY: a place for the number.
        let version = self.api.number(|api, version| unsafe { api.cuDriverGetVersion(version) })?;
        let version = version.unsigned_abs();
        Ok((version / 1000, version % 1000 / 10))
    }

    pub(crate) fn name(&self) -> Result<String, CallError> {
        let mut name = [0 as c_char; 256];
        // SAFETY: room for 255 letters and a zero, which is what the driver is told.
        unsafe { self.api.cuDeviceGetName(name.as_mut_ptr(), 255, self.raw)? };
        // SAFETY: the last byte is a zero, whatever was written before it.
        Ok(unsafe { CStr::from_ptr(name.as_ptr()) }.to_string_lossy().into_owned())
    }

    pub(crate) fn memory_bytes(&self) -> Result<usize, CallError> {
        // SAFETY: a place for the number.
        self.api.number(|api, bytes| unsafe { api.cuDeviceTotalMem_v2(bytes, self.raw) })
    }

    pub(crate) fn attribute(&self, attribute: CUdevice_attribute) -> Result<usize, CallError> {
        let read = |api: &Api, value: *mut i32| {
            // SAFETY: a place for the number; the driver checks the attribute.
            unsafe { api.cuDeviceGetAttribute(value, attribute, self.raw) }
        };
        self.api.number(read).map(|value| usize::try_from(value).unwrap_or(0))
    }

    /// Whether this device's kernels reach another one's memory.
    fn reaches(&self, other: &Gpu) -> Result<bool, CallError> {
        let read = |api: &Api, can: *mut i32| {
            // SAFETY: a place for the answer.
            unsafe { api.cuDeviceCanAccessPeer(can, self.raw, other.raw) }
        };
        self.api.number(read).map(|can| can != 0)
    }
}

/// A device's context, with what allocating takes.
#[derive(Debug)]
pub(crate) struct Context {
    pub(super) api: &'static Api,
    pub(crate) gpu: Gpu,
    pub(super) raw: CUcontext,
    /// The stream of allocations, which no other task is on.
    pub(super) home: CUstream,
    /// Where memory comes from in the order of a stream, if the device can do that.
    pub(super) pool: Option<CUmemoryPool>,
    pub(super) spare: Mutex<Vec<SpareEvent>>,
}

// SAFETY: the driver takes calls from any thread, and the fields do not change.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

impl Context {
    /// Makes the device ready.
    pub(crate) fn open(gpu: Gpu) -> Result<Arc<Context>, CallError> {
        let api = gpu.api;
        let mut raw = ptr::null_mut();
        // SAFETY: a place for the handle, which is given back when the value is dropped.
        unsafe { api.cuDevicePrimaryCtxRetain(&raw mut raw, gpu.raw)? };
        let mut context =
            Context { api, gpu, raw, home: ptr::null_mut(), pool: None, spare: Mutex::default() };
        context.enter()?;
        context.home = context.new_stream()?;
        if gpu.attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED)? != 0 {
            context.pool = Some(context.new_pool()?);
        }
        Ok(Arc::new(context))
    }

    /// Makes the context the one that this thread's calls are for.
    pub(super) fn enter(&self) -> Result<(), CallError> {
        // SAFETY: the context lives as long as this value.
        unsafe { self.api.cuCtxSetCurrent(self.raw) }
    }

    /// A stream that waits for no other, the default one included. The context is current.
    pub(super) fn new_stream(&self) -> Result<CUstream, CallError> {
        let mut stream = ptr::null_mut();
        let flags = CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: a place for the handle; the context is current.
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
        // SAFETY: properties of memory on this device, and a place for the handle.
        unsafe { self.api.cuMemPoolCreate(&raw mut pool, &raw const props)? };
        let (attribute, mut kept) = (CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, KEPT);
        // SAFETY: this attribute is a number of 64 bits.
        unsafe { self.api.cuMemPoolSetAttribute(pool, attribute, (&raw mut kept).cast())? };
        Ok(pool)
    }

    /// Lets this device's kernels and copies reach the other's memory.
    ///
    /// # Errors
    ///
    /// The driver's refusal; `false` where the devices are not connected.
    pub(super) fn reach(&self, other: &Context) -> Result<bool, CallError> {
        if self.raw == other.raw {
            return Ok(true);
        }
        if !self.gpu.reaches(&other.gpu)? {
            return Ok(false);
        }
        match other.pool {
            Some(pool) => self.reach_pool(pool)?,
            None => self.reach_all(other)?,
        }
        Ok(true)
    }

    /// Lets this device reach everything that is allocated from another one's pool.
    fn reach_pool(&self, pool: CUmemoryPool) -> Result<(), CallError> {
        let access = CUmemAccessDesc {
            location: self.gpu.location(),
            flags: CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
        };
        // SAFETY: one description, of this device; whoever has memory of the pool has a share of the context that owns it.
        unsafe { self.api.cuMemPoolSetAccess(pool, &raw const access, 1) }
    }

    /// Lets this device reach everything that is allocated without a pool on another one.
    fn reach_all(&self, other: &Context) -> Result<(), CallError> {
        self.enter()?;
        // SAFETY: the other context lives as long as its value.
        match unsafe { self.api.cuCtxEnablePeerAccess(other.raw, 0) } {
            Err(error) if error.name == "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED" => Ok(()),
            answer => answer,
        }
    }

    /// Waits until memory that was freed is there for the next allocation.
    pub(crate) fn settle_memory(&self) -> Result<(), CallError> {
        self.enter()?;
        // SAFETY: the stream lives as long as this value.
        unsafe { self.api.cuStreamSynchronize(self.home)? };
        match self.pool {
            // SAFETY: the pool lives as long as this value.
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
        // What fails here fails because the device is lost, and the driver has taken everything back.
        let _ = self.enter();
        for SpareEvent(event) in self.spare.get_mut().unwrap_or_else(PoisonError::into_inner).drain(..) {
            // SAFETY: made for a mark, which is gone.
            let _ = unsafe { self.api.cuEventDestroy_v2(event) };
        }
        if let Some(pool) = self.pool {
            // SAFETY: made by `open`, and everything allocated from it had a share of this value, so is gone.
            let _ = unsafe { self.api.cuMemPoolDestroy(pool) };
        }
        if !self.home.is_null() {
            // SAFETY: made by `open`, and no other value has it.
            let _ = unsafe { self.api.cuStreamDestroy_v2(self.home) };
        }
        // SAFETY: taken by `open`, and all handles of the context are gone.
        let _ = unsafe { self.api.cuDevicePrimaryCtxRelease_v2(self.gpu.raw) };
    }
}
