//! The interpreter: what kernels mean.
//!
//! It runs a kernel on a simulated device, small and strict rather than fast, and stops with a typed [`SimFault`] where a program does what it
//! may not, even if a processor would let it pass: accesses outside of an array or not aligned, reads of what nobody wrote, races, warps
//! that are torn apart where they must act as one, barriers that not all reach. A code generator whose kernels run here with the
//! right results, in every [`ExecutionOrder`] that is tried, relies on nothing that the language does not promise.
//!
//! ```
//! use ptx_sim::{SimLaunch, SimulatedGpu, ExecutionOrder, run};
//! use ptx_asm::{PtxBuilder, AddressOperand, StateSpace, SpecialReg, Ty};
//!
//! // y[thread] = 2 thread
//! let mut b = PtxBuilder::new("double", 1, 64);
//! let (y, thread) = (b.param(0), b.special(SpecialReg::Thread));
//! let twice = b.add(Ty::U32, thread, thread);
//! let at = b.mul_add_wide(Ty::U32, thread, 4_u32, y);
//! b.store(StateSpace::Global, Ty::U32, AddressOperand::at(at), twice);
//!
//! let mut machine = SimulatedGpu::new();
//! let y = machine.reserve("y", 64 * 4);
//! let stats = run(&b.finish(), &SimLaunch::new(1, &[y.address()]), &mut machine, ExecutionOrder::Sequential)?;
//! assert_eq!(machine.bytes(y)[4 * 50..][..4], 100_u32.to_le_bytes());
//! assert_eq!(stats.sectors("store.global"), 64 * 4 / 32); // each byte moved once
//! # Ok::<(), ptx_sim::SimFault>(())
//! ```
//!
//! # What it does not say
//!
//! Times. How many registers a thread needs. Bits of what the hardware approximates, or adds in an order of its own: see [`ptx_asm::PtxUnaryOp`] and [`ptx_asm::MmaShape`]. Whether a program is
//! ordered by fences and atomic operations: only barriers count as order, in memory or not, so such programs are reported as races. So are accesses of global memory that
//! only a cluster's barriers order.

#![forbid(unsafe_code)]

mod flat_kernel; // a kernel as a list of steps
mod gpu; // the device's memory
mod stats; // what a run did

mod registers; // what lanes hold
mod scheduler; // the warps of a block, in some order
mod warp; // a step of a warp

mod arith; // operations on each lane
mod convert; // numbers as other types
mod float; // formats and rounding

mod collective; // what lanes do together
mod mma; // matrices in fragments

mod cluster; // blocks that run side by side
mod mbarrier; // barriers in memory

mod tensor_map; // which bytes a tile is
mod tma; // copies of tiles

mod matrix_descriptor; // where factors are
mod wgmma; // what four warps do together

mod access; // loads, stores, atomic operations, copies
mod array_layout; // shared memory and each thread's own
mod async_copies; // copies under way
mod async_proxy; // what is done behind the threads' backs
mod race_detector;
mod vector_clocks; // what warps know of each other // which accesses are ordered

mod fault; // what goes wrong

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

/// What a kernel is launched with. A block has as many threads as the kernel says.
#[derive(Clone, Copy, Debug)]
pub struct SimLaunch<'a> {
    /// How many blocks; at least 1.
    pub blocks: u32,
    /// The kernel's parameters.
    pub params: &'a [u64],
    /// Its tensor maps.
    pub maps: &'a [SimTensorMap],
    /// How many instructions all warps together may run, so that loops without end are found.
    pub limit: u64,
}

impl<'a> SimLaunch<'a> {
    /// So many blocks, and as many instructions as anything small needs.
    pub fn new(blocks: u32, params: &'a [u64]) -> SimLaunch<'a> {
        SimLaunch { blocks, params, maps: &[], limit: 1 << 32 }
    }

    /// With tensor maps.
    #[must_use]
    pub fn with_maps(self, maps: &'a [SimTensorMap]) -> SimLaunch<'a> {
        SimLaunch { maps, ..self }
    }
}

/// The most blocks that a cluster has on any processor.
const MOST_OF_CLUSTER: u32 = 16;

/// In which order a run does what may be done in any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExecutionOrder {
    /// Blocks, or clusters, one after another; of a block the first warp, as far as it gets, then the next. Copies of tiles take as long as they can.
    Sequential,
    /// Blocks in an order drawn by chance, and so when copies of tiles are complete; of a block or cluster, warps take turns of a few instructions as they are drawn; of an atomic instruction, so
    /// do lanes. One seed gives one order.
    Random {
        /// What the draws come from.
        seed: u64,
    },
}

/// Runs a kernel. After a fault memory holds what was stored before it.
///
/// # Errors
///
/// [`SimFault`]: the first thing that the kernel does and may not.
pub fn run(
    kernel: &PtxKernel,
    launch: &SimLaunch<'_>,
    machine: &mut SimulatedGpu,
    order: ExecutionOrder,
) -> Result<KernelStats, SimFault> {
    let refuse = |cause| SimFault { kernel: kernel.name.clone(), site: None, cause };
    if launch.params.len() != kernel.params as usize {
        let (expected, found) = (kernel.params, launch.params.len());
        return Err(refuse(Box::new(FaultCause::Params { expected, found })));
    }
    let cluster = kernel.cluster.max(1);
    if launch.blocks == 0 || !launch.blocks.is_multiple_of(cluster) || cluster > MOST_OF_CLUSTER {
        let what = format!("a launch of {} blocks, {cluster} to a cluster", launch.blocks);
        return Err(refuse(Box::new(FaultCause::Malformed(what))));
    }
    if launch.maps.len() != kernel.maps as usize {
        let what = format!("expected {} tensor maps, found {}", kernel.maps, launch.maps.len());
        return Err(refuse(Box::new(FaultCause::Malformed(what))));
    }
    launch.maps.iter().try_for_each(SimTensorMap::check).map_err(refuse)?;
    let program = flat_kernel::FlatKernel::new(kernel).map_err(refuse)?;
    let mut run = scheduler::LaunchState::new(&program, launch, access::GlobalMemory::new(machine), order);
    run.blocks()?;
    Ok(KernelStats { insts: run.stats })
}
