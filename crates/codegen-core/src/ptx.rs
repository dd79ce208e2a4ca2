//! Kernels in PTX: what a codegen for NVIDIA's processors hands to a device.
#![allow(unsafe_code, reason = "whoever hands over a program vouches for what it touches")]

use std::sync::Arc;

use tnode::DType;

use crate::artifact::KernelAbi;

/// The kernels of an artifact as one PTX file. `docs/abi.md` has the parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct PtxModule {
    text: Arc<str>,
    target: String,
    launches: Vec<PtxLaunch>,
    abis: Vec<KernelAbi>,
}

impl PtxModule {
    /// Kernels as text, for the processor that its `.target` line names (`sm_80`), each with how it is
    /// launched and called.
    ///
    /// # Safety
    ///
    /// Each kernel follows `docs/abi.md` for its [`KernelAbi`]: launched as its [`PtxLaunch`] says, with
    /// addresses of memory of the bytes stated and values within the ranges stated, it touches only these
    /// bytes, with the access stated, and ends. Such programs address whatever the processor reaches, which
    /// may be memory of this process; no device checks what they touch.
    pub unsafe fn new(text: Arc<str>, target: String, kernels: Vec<(PtxLaunch, KernelAbi)>) -> PtxModule {
        let (launches, abis) = kernels.into_iter().unzip();
        PtxModule { text, target, launches, abis }
    }

    /// The text.
    pub fn text(&self) -> &Arc<str> {
        &self.text
    }

    /// The processor it is for, as its `.target` line says: `sm_80`.
    pub fn target(&self) -> &str {
        &self.target
    }

    /// How each kernel is launched, in the order of the artifact.
    pub fn launches(&self) -> &[PtxLaunch] {
        &self.launches
    }

    /// How each kernel is called, in the order of the artifact.
    pub fn abis(&self) -> &[KernelAbi] {
        &self.abis
    }
}

/// How a kernel is launched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PtxLaunch {
    /// Its entry point; no two of a module are the same.
    pub entry: String,
    /// How many blocks run it; at least 1.
    pub blocks: u32,
    /// Threads of a block.
    pub threads: u32,
    /// Bytes of shared memory that the launch gives to each block, besides what the text declares; beyond 48 KiB the kernel has to be told.
    pub dynamic_shared_bytes: u32,
    /// How many neighbouring blocks run side by side and reach each other's shared memory, as the text says too; 1 if each is alone.
    pub cluster: u32,
    /// Bytes of the buffer that the kernel logs to, header included, as `docs/abi.md` has it; its address is the parameter behind the memory
    /// parameters. 0 for a kernel that does not log, and has no such parameter.
    pub log_bytes: u32,
    /// Tensors whose tiles the copy engine moves: the kernel's last parameters, behind the numbers.
    pub maps: Vec<TensorMap>,
}

/// Part of a node as a tensor of which whole tiles are copied. What of a tile lies outside is read as zeros, and is not written.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TensorMap {
    /// The parameter that is the node's address.
    pub param: u32,
    /// Bytes from there to the first element; a multiple of 16.
    pub offset: u64,
    /// What the elements are.
    pub dtype: DType,
    /// How many elements there are along each axis, the innermost first: one to five axes, each of 1 to 2³² elements. Those of the innermost
    /// are neighbours in memory.
    pub sizes: Vec<u64>,
    /// Bytes from an element to the next along each axis but the innermost: multiples of 16 below 2⁴⁰.
    pub strides: Vec<u64>,
    /// Elements of a tile along each axis, 1 to 256; along the innermost a multiple of 16 bytes, and no more than what `swizzle` exchanges.
    pub tile: Vec<u32>,
    /// In which order a tile lies in shared memory.
    pub swizzle: TileSwizzle,
}

/// The order of 16-byte chunks in a tile's lines in shared memory: chunk `c` of line `l` lies at `c` exchanged by some bits of `l`, so that what lies
/// below each other falls into different banks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TileSwizzle {
    /// As they come.
    None,
    /// Lines of 32 bytes: `c ^ (l / 4 mod 2)`.
    Bytes32,
    /// Lines of 64 bytes: `c ^ (l / 2 mod 4)`.
    Bytes64,
    /// Lines of 128 bytes: `c ^ (l mod 8)`.
    Bytes128,
}
