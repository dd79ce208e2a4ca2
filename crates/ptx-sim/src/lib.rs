//! A simulated NVIDIA GPU for tests: runs PTX programs of the crate `ptx-asm` and reports their mistakes.
//!
//! # Should I be using this crate?
//!
//! Use it in tests of code that generates PTX. [`run`] executes a kernel instruction by instruction. It stops
//! with a typed [`SimFault`] where a program violates the rules of PTX, even where a real GPU would continue.
//! It finds misaligned accesses, accesses outside of arrays, reads of uninitialised memory, data races,
//! collective instructions that only some lanes of a warp execute, barriers that not all threads reach, and
//! accesses of accumulators or shared memory that an asynchronous operation still uses. The simulator is
//! small and strict rather than fast.
//!
//! # Example
//!
//! ```
//! use ptx_asm::{AddressOperand, PtxBuilder, SpecialReg, StateSpace, Ty};
//! use ptx_sim::{ExecutionOrder, SimLaunch, SimulatedGpu, run};
//!
//! // y[thread] = 2 thread
//! let mut b = PtxBuilder::new("double", 1, 64);
//! let (y, thread) = (b.param(0), b.special(SpecialReg::Thread));
//! let twice = b.add(Ty::U32, thread, thread);
//! let at = b.mul_add_wide(Ty::U32, thread, 4_u32, y);
//! b.store(StateSpace::Global, Ty::U32, AddressOperand::at(at), twice);
//!
//! let mut gpu = SimulatedGpu::new();
//! let y = gpu.reserve("y", 64 * 4);
//! let stats = run(&b.finish(), &SimLaunch::new(1, &[y.address()]), &mut gpu, ExecutionOrder::Sequential)?;
//! assert_eq!(gpu.bytes(y)[4 * 50..][..4], 100_u32.to_le_bytes());
//! assert_eq!(stats.sectors("store.global"), 64 * 4 / 32); // fully coalesced: each byte moves once
//! # Ok::<(), ptx_sim::SimFault>(())
//! ```
//!
//! # Promises
//!
//! * **No panic and no endless run**, whatever the program: [`run`] returns statistics or a fault, and
//!   [`SimLaunch::limit`] bounds the instructions.
//! * **Deterministic**: the kernel, the launch, the initial memory and the [`ExecutionOrder`] determine the
//!   final memory, the statistics and the fault.
//! * **Any order that PTX allows**: an [`ExecutionOrder`] decides in which order warps run and copies
//!   complete, where PTX leaves that open. A test that runs a kernel in several orders, without a fault and
//!   with equal results, shows that the kernel depends on none of these orders.
//!
//! # Limits
//!
//! The simulator models neither time nor register allocation. Approximate functions and the summation
//! order of matrix instructions differ from the hardware's; see [`ptx_asm::PtxUnaryOp`] and
//! [`ptx_asm::MmaShape`]. Only barriers order memory accesses: programs that rely on fences or atomics for
//! order are reported as races, and so are accesses of global memory that only a cluster barrier orders.

#![forbid(unsafe_code)]

mod flat_kernel; // a kernel as a flat list of steps
mod gpu; // global memory
mod stats; // statistics of a run

mod registers; // registers of a warp
mod scheduler; // launches, clusters and blocks: which warp runs next
mod warp; // execution of one step of a warp

mod arith; // arithmetic on register contents
mod convert; // conversions between types
mod float; // float formats and rounding

mod collective; // shuffles and votes
mod mma; // matrix fragments of a warp

mod cluster; // mapa, cluster barriers, the end of a cluster
mod mbarrier; // barriers in shared memory

mod tensor_map; // tensor maps: the bytes of a tile
mod tma; // TMA loads and stores

mod matrix_descriptor; // operands of wgmma in shared memory
mod wgmma; // matrix instructions of a warpgroup

mod access; // loads, stores, atomics, cp.async
mod array_layout; // arrays in shared and local memory
mod async_copies; // cp.async copies in flight
mod async_proxy; // accesses of shared memory by TMA and wgmma
mod race_detector; // accesses that no barrier orders
mod vector_clocks; // the happens-before order of a cluster

mod fault; // faults and their causes

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
