//! Capabilities of a device, derived from its attributes; and the code that a driver accepts.

use codegen_core::{Caps, Workgroups};
use cudarc::driver::sys::CUdevice_attribute as Attribute;
use tnode::DType;

use crate::api::{CallError, Gpu};

/// Alignment of allocations, and so of pools and of nodes in them, in bytes.
pub(crate) const ALIGNMENT: usize = 256;

/// The attributes of a device that this crate uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DeviceAttributes {
    /// The compute capability: major and minor version.
    pub(crate) capability: (u32, u32),
    pub(crate) multiprocessors: usize,
    /// Maximum number of threads per block.
    pub(crate) threads: usize,
    /// Maximum number of registers per block.
    pub(crate) registers: usize,
    /// Maximum number of blocks per launch.
    pub(crate) blocks: usize,
    /// Maximum size in bytes of shared memory that code may declare per block.
    pub(crate) shared: usize,
    /// Maximum size in bytes of shared memory per block of a launch.
    pub(crate) max_shared: usize,
    pub(crate) l2: usize,
    /// The number of engines for asynchronous copies, which run concurrently with kernels.
    pub(crate) async_engines: usize,
    /// Whether memory can be allocated in stream order.
    pub(crate) pools: bool,
}

impl DeviceAttributes {
    pub(crate) fn of(gpu: &Gpu) -> Result<DeviceAttributes, CallError> {
        let capability = |attribute| gpu.attribute(attribute).map(|value| u32::try_from(value).unwrap_or(0));
        let shared = gpu.attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK)?;
        let optin = gpu.attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?;
        Ok(DeviceAttributes {
            capability: (
                capability(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
                capability(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
            ),
            multiprocessors: gpu.attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
            threads: gpu.attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?,
            registers: gpu.attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK)?,
            blocks: gpu.attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X)?,
            shared,
            max_shared: optin.max(shared),
            l2: gpu.attribute(Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)?,
            async_engines: gpu.attribute(Attribute::CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT)?,
            pools: gpu.attribute(Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED)? != 0,
        })
    }
}

/// The capabilities of the device with code for a target.
pub(crate) fn caps(attributes: &DeviceAttributes, target: &str) -> Caps {
    use DType::{Bf16, Bool, F16, F32, F64, I32, I64, U32, U32x4, U64};
    // An SM with 65,536 registers holds two blocks of 256 threads if a thread uses at most 128. The schedule
    // may use 96 of them; the others are left for addresses.
    let workgroups = Workgroups {
        registers: 96,
        subgroup_size: 32,
        element_bytes: 2,
        ..Workgroups::new(u32::try_from(attributes.threads).unwrap_or(u32::MAX), attributes.shared)
    };
    Caps {
        arithmetic: [Bool, I32, U32, I64, U64, F16, Bf16, F32, F64, U32x4].into_iter().collect(),
        vector_registers: 64,
        l2_bytes: attributes.l2,
        alignment: ALIGNMENT,
        ..Caps::gpu(target, workgroups)
    }
}

/// The oldest supported compute capability.
pub(crate) const OLDEST: (u32, u32) = (7, 0);

/// The target of code for a compute capability, and the PTX version that introduced the target.
pub(crate) fn target(capability: (u32, u32)) -> Option<(&'static str, (u32, u32))> {
    match capability {
        // The additional features of `sm_90a` work on this capability only.
        (9, 0) => Some(("sm_90a", (8, 0))),
        (8.., _) => Some(("sm_80", (7, 0))),
        (7, _) => Some(("sm_70", (6, 0))),
        _ => None,
    }
}

/// Whether a device of a compute capability runs code for a target.
pub(crate) fn runs(capability: (u32, u32), target: &str) -> bool {
    let (major, minor) = capability;
    let Some(number) = target.strip_prefix("sm_") else { return false };
    let only_this = number.strip_suffix(['a', 'f']);
    let Ok(number) = only_this.unwrap_or(number).parse::<u32>() else { return false };
    let own = major * 10 + minor;
    if only_this.is_some() { number == own } else { number <= own }
}

/// The newest PTX version that a driver of a CUDA version accepts.
pub(crate) fn language(cuda: (u32, u32)) -> (u32, u32) {
    match cuda {
        (..=9, _) => (6, 0),
        (10, minor) => (6, 3 + minor.min(2)),
        (11, minor) => (7, minor.min(8)),
        (12, minor @ ..=5) => (8, minor),
        (12, minor) => (8, minor.min(9) - 1),
        (major, minor) => (major - 4, minor),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_follow_compute_capabilities() {
        let name = |capability| target(capability).map(|(name, _)| name);
        assert_eq!(name((6, 1)), None);
        assert_eq!([name((7, 0)), name((7, 5))], [Some("sm_70"); 2]);
        assert_eq!([name((8, 0)), name((8, 9)), name((10, 0)), name((12, 1))], [Some("sm_80"); 4]);
        assert_eq!(name((9, 0)), Some("sm_90a"));
    }

    #[test]
    fn devices_run_older_code_and_no_code_for_one_capability_alone() {
        assert!(runs((9, 0), "sm_90a") && runs((9, 0), "sm_80") && runs((8, 6), "sm_80"));
        assert!(!runs((8, 0), "sm_90a") && !runs((10, 0), "sm_90a") && !runs((7, 5), "sm_80"));
        assert!(!runs((9, 0), "gfx90a") && !runs((9, 0), "sm_") && !runs((9, 0), "sm_x"));
    }

    #[test]
    fn drivers_take_the_language_of_their_version() {
        let versions = [(10, 2), (11, 8), (12, 0), (12, 5), (12, 6), (12, 8), (13, 0), (13, 1)];
        let languages = [(6, 5), (7, 8), (8, 0), (8, 5), (8, 5), (8, 7), (9, 0), (9, 1)];
        assert_eq!(versions.map(language), languages);
    }
}
