#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod flat_kernel;
mod gpu;
mod stats;

mod registers;
mod scheduler; // launches, clusters and blocks: which warp runs next
mod warp;

mod arith;
mod convert;
mod float;

mod collective;
mod mma;

mod cluster;
mod mbarrier; // barriers in shared memory

mod tensor_map;
mod tma;

mod matrix_descriptor;
mod wgmma;

mod access;
mod array_layout;
mod async_copies;
mod async_proxy;
mod race_detector;
mod vector_clocks;

mod fault;

#[cfg(test)]
mod tests;

pub use fault::{AccessKind, Accessor, FaultCause, FaultSite, MemoryLocation, SimFault};
pub use gpu::{GlobalBuffer, SimulatedGpu};
pub use stats::{InstStats, KernelStats};
pub use tensor_map::{SimTensorMap, Swizzle};

use ptx_asm::PtxKernel;

/// Implements `Debug` of error types as their `Display`, so that `main` and `expect` print the message.
macro_rules! debug_as_display {
    ($($error:ty),+) => {
        $(impl std::fmt::Debug for $error {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(self, f)
            }
        })+
    };
}
debug_as_display!(FaultCause, SimFault);

/// The arguments of a launch. The kernel itself has the number of threads per block.
#[derive(Clone, Copy, Debug)]
pub struct SimLaunch<'a> {
    /// Blocks of the grid; at least 1, and a multiple of the cluster.
    pub blocks: u32,
    /// Values of the kernel's 64-bit parameters.
    pub params: &'a [u64],
    /// The kernel's tensor maps.
    pub maps: &'a [SimTensorMap],
    /// Maximum number of instructions that all warps together may execute, so that an endless loop ends in a
    /// fault.
    pub limit: u64,
}

impl<'a> SimLaunch<'a> {
    /// A launch without tensor maps, limited to 2³² instructions.
    pub fn new(blocks: u32, params: &'a [u64]) -> SimLaunch<'a> {
        SimLaunch { blocks, params, maps: &[], limit: 1 << 32 }
    }

    /// Adds the tensor maps.
    #[must_use]
    pub fn with_maps(self, maps: &'a [SimTensorMap]) -> SimLaunch<'a> {
        SimLaunch { maps, ..self }
    }
}

/// Maximum number of blocks of a cluster on any GPU.
const MAX_CLUSTER: u32 = 16;

/// The order in which a run schedules blocks, warps and asynchronous copies. PTX leaves this order open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExecutionOrder {
    /// Blocks or clusters run one after another. Within them, the first warp that is not blocked runs as far
    /// as it can. TMA loads complete as late as possible.
    Sequential,
    /// Blocks or clusters run one after another in random order. Within them, random warps run a few
    /// instructions at a time, TMA loads complete at random times, and the lanes of an atomic instruction
    /// take effect in random order. Equal seeds give equal orders.
    Random {
        /// Seed of the random-number generator.
        seed: u64,
    },
}

/// Runs a kernel to its end and returns its statistics. After a fault, memory holds everything stored before
/// it.
///
/// # Errors
///
/// [`SimFault`]: the first fault, with the block, thread and instruction.
pub fn run(
    kernel: &PtxKernel,
    launch: &SimLaunch<'_>,
    gpu: &mut SimulatedGpu,
    order: ExecutionOrder,
) -> Result<KernelStats, SimFault> {
    let fault = |cause| SimFault { kernel: kernel.name.clone(), site: None, cause };
    if launch.params.len() != kernel.params as usize {
        let (expected, found) = (kernel.params, launch.params.len());
        return Err(fault(Box::new(FaultCause::Params { expected, found })));
    }
    let cluster = kernel.cluster.max(1);
    if launch.blocks == 0 || !launch.blocks.is_multiple_of(cluster) || cluster > MAX_CLUSTER {
        let what = format!("a launch of {} blocks, {cluster} to a cluster", launch.blocks);
        return Err(fault(Box::new(FaultCause::Malformed(what))));
    }
    if launch.maps.len() != kernel.maps as usize {
        let what = format!("expected {} tensor maps, found {}", kernel.maps, launch.maps.len());
        return Err(fault(Box::new(FaultCause::Malformed(what))));
    }
    launch.maps.iter().try_for_each(SimTensorMap::check).map_err(fault)?;
    let program = flat_kernel::FlatKernel::new(kernel).map_err(fault)?;
    let mut run = scheduler::LaunchState::new(&program, launch, access::GlobalMemory::new(gpu), order);
    run.blocks()?;
    Ok(KernelStats { insts: run.stats })
}
