//! Kernels in PTX, for devices with NVIDIA's GPUs.
#![allow(unsafe_code, reason = "whoever hands over a program vouches for what it touches")]

use std::sync::Arc;

use tnode::DType;

use crate::artifact::KernelAbi;

/// The kernels of an artifact as one PTX file. [`crate::abi`] has the parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct PtxModule {
    text: Arc<str>,
    target: String,
    launches: Vec<PtxLaunch>,
    abis: Vec<KernelAbi>,
}

impl PtxModule {
    /// Kernels as text for the GPU architecture of its `.target` line (`sm_80`), each with its launch and its
    /// ABI.
    ///
    /// # Safety
    ///
    /// Each kernel follows [`crate::abi`] for its [`KernelAbi`]. If it is launched as its [`PtxLaunch`]
    /// states, with addresses of memory of the stated sizes and values within the stated ranges, it accesses
    /// only that memory, with the stated access, and ends. A PTX program can address all memory that the GPU
    /// reaches, which may include memory of this process, and no device checks its accesses.
    pub unsafe fn new(text: Arc<str>, target: String, kernels: Vec<(PtxLaunch, KernelAbi)>) -> PtxModule {
        let (launches, abis) = kernels.into_iter().unzip();
        PtxModule { text, target, launches, abis }
    }

    /// The PTX text of all kernels.
    pub fn text(&self) -> &Arc<str> {
        &self.text
    }

    /// The GPU architecture of the `.target` line, such as `sm_80`.
    pub fn target(&self) -> &str {
        &self.target
    }

    /// The launch of each kernel, in the order of the artifact.
    pub fn launches(&self) -> &[PtxLaunch] {
        &self.launches
    }

    /// The ABI of each kernel, in the order of the artifact.
    pub fn abis(&self) -> &[KernelAbi] {
        &self.abis
    }
}

/// The launch of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PtxLaunch {
    /// The entry point, which is unique in its module.
    pub entry: String,
    /// The number of blocks, at least 1.
    pub blocks: u32,
    /// Threads of a block.
    pub threads: u32,
    /// Bytes of shared memory per block that the launch adds to the declared ones. A kernel that takes more
    /// than 48 KiB must be configured for it.
    pub dynamic_shared_bytes: u32,
    /// The number of blocks in a cluster, as in the text; 1 for blocks without a cluster.
    pub cluster: u32,
    /// Bytes of the kernel's log buffer with its header, as in [`crate::abi`]; its address is the parameter
    /// after the memory parameters. 0 for a kernel that does not log and has no such parameter.
    pub log_bytes: u32,
    /// Tensor maps for TMA: the last parameters of the kernel, after the numbers.
    pub maps: Vec<TensorMap>,
}

/// A part of a node as a tensor that TMA copies in tiles. Elements outside of the tensor are read as zeros
/// and not written.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TensorMap {
    /// The parameter with the address of the node.
    pub param: u32,
    /// Bytes from that address to the first element; a multiple of 16.
    pub offset: u64,
    /// The element type.
    pub dtype: DType,
    /// The number of elements along each axis, innermost first: one to five axes of 1 to 2³² elements. The
    /// innermost axis is contiguous.
    pub sizes: Vec<u64>,
    /// Bytes from one element to the next along each axis except the innermost: multiples of 16 below 2⁴⁰.
    pub strides: Vec<u64>,
    /// Elements of a tile along each axis, 1 to 256. Along the innermost axis they are a multiple of 16
    /// bytes, within the line of the `swizzle`.
    pub tile: Vec<u32>,
    /// The layout of a tile in shared memory.
    pub swizzle: TileSwizzle,
}

/// The order of 16-byte chunks in the lines of a tile in shared memory: chunk `c` of line `l` is stored at
/// `c` XOR some bits of `l`, so that a column of chunks has no bank conflicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TileSwizzle {
    /// No exchange.
    None,
    /// Lines of 32 bytes: `c ^ (l / 4 mod 2)`.
    Bytes32,
    /// Lines of 64 bytes: `c ^ (l / 2 mod 4)`.
    Bytes64,
    /// Lines of 128 bytes: `c ^ (l mod 8)`.
    Bytes128,
}
