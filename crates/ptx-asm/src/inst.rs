//! The instructions of PTX programs.
//!
//! Arithmetic is IEEE 754 with rounding to nearest even and without flushing of subnormal numbers, unless an
//! operation says otherwise; integers wrap. The result of an integer division by zero is unspecified.

use smallvec::SmallVec;

use crate::program::{AddressOperand, PtxOperand, Reg, Regs, SpecialReg, StateSpace};

mod ops;
mod registers;
mod types;

pub use self::ops::{
    AtomicOp, CmpOp, MmaShape, PtxBinaryOp, PtxTernaryOp, PtxUnaryOp, RoundingMode, ShuffleMode,
};
pub use self::types::Ty;

/// An instruction. `dst` is its destination, `src`, `a`, `b` and `c` are its operands, `ty` is their type.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the documentation of a variant says what its fields are")]
pub enum Inst {
    /// `mov`: copies bits between registers of one width, whatever their classes.
    Move { dst: Reg, src: PtxOperand },
    /// `mov` from a special register to a register of class `B32`.
    ReadSpecial { dst: Reg, special: SpecialReg },
    /// The address of one of the kernel's arrays, by its index in [`crate::PtxKernel::shared`] or
    /// [`crate::PtxKernel::local`], as the state space says; the destination is of class `B32`.
    ArrayAddress { dst: Reg, space: StateSpace, array: u32 },
    /// `ld.param`: the value of a 64-bit parameter, by its index, in a register of class `B64`.
    LoadParam { dst: Reg, param: u32 },
    /// Concatenates two registers, the low half first: 16 bits each into `B32`, or 32 bits each into `B64`.
    Pack { dst: Reg, halves: [Reg; 2] },
    /// Splits a register of class `B32` or `B64` into halves; the inverse of [`Inst::Pack`].
    Unpack { halves: [Reg; 2], src: Reg },
    /// `dst = op(src)`.
    Unary { op: PtxUnaryOp, ty: Ty, dst: Reg, src: PtxOperand },
    /// `dst = op(a, b)`.
    Binary { op: PtxBinaryOp, ty: Ty, dst: Reg, a: PtxOperand, b: PtxOperand },
    /// `dst = op(a, b, c)`.
    Ternary { op: PtxTernaryOp, ty: Ty, dst: Reg, a: PtxOperand, b: PtxOperand, c: PtxOperand },
    /// `setp`: sets a predicate to the result of a comparison.
    Compare { cmp: CmpOp, ty: Ty, dst: Reg, a: PtxOperand, b: PtxOperand },
    /// `selp`: `a` if the predicate is true, else `b`. Their type has at least 16 bits.
    Select { ty: Ty, dst: Reg, a: PtxOperand, b: PtxOperand, pred: Reg },
    /// `cvt`: converts a number to another type. An integer is truncated, or extended by the signedness of
    /// `from`. A result narrower than its register (`U8`) is extended to the register's width. There is no
    /// conversion from `Bf16`, whose bits are the upper half of an `F32`.
    Convert {
        /// Type of the result.
        to: Ty,
        /// Type of the operand.
        from: Ty,
        /// Rounding of values that `to` cannot represent.
        rounding: RoundingMode,
        /// Destination.
        dst: Reg,
        /// Operand.
        src: Reg,
    },
    /// `ld`: reads one, two or four consecutive elements.
    Load {
        /// The state space.
        space: StateSpace,
        /// Type of an element.
        ty: Ty,
        /// Reads through the non-coherent cache (`.nc`): global memory that no thread writes during the
        /// launch.
        constant: bool,
        /// One, two or four destinations. An element narrower than its register is extended by the signedness
        /// of `ty`.
        dsts: Regs,
        /// Address of the first element.
        from: AddressOperand,
    },
    /// `st`: writes one, two or four consecutive elements.
    Store {
        /// The state space.
        space: StateSpace,
        /// Type of an element.
        ty: Ty,
        /// Address of the first element.
        to: AddressOperand,
        /// One, two or four values. The low bits of a register wider than an element are stored.
        srcs: SmallVec<[PtxOperand; 4]>,
    },
    /// `atom`, or `red` without a destination: an atomic read-modify-write.
    Atomic {
        /// [`StateSpace::Global`] or [`StateSpace::Shared`].
        space: StateSpace,
        /// The operation.
        op: AtomicOp,
        /// Type of the element: 32 or 64 bits.
        ty: Ty,
        /// Receives the value before the operation.
        dst: Option<Reg>,
        /// Address of the element.
        at: AddressOperand,
        /// The operand; for [`AtomicOp::CompareSwap`] the expected value, then the new one.
        operands: SmallVec<[PtxOperand; 2]>,
    },
    /// `bar.sync`: synchronizes the threads of the block, or `threads` threads in whole warps. Their memory
    /// accesses before the barrier are ordered ahead of those after it.
    Barrier {
        /// Number of one of the block's named barriers: 0 to 15.
        id: u32,
        /// Number of threads that take part, a multiple of 32; `None` for the whole block.
        threads: Option<u32>,
    },
    /// `bar.warp.sync`: synchronizes the lanes of the warp and orders their memory accesses.
    WarpBarrier,
    /// `shfl.sync`: every lane reads a register of another lane. A lane whose source lane lies outside the
    /// segment reads its own register.
    Shuffle {
        /// How the source lane is computed.
        mode: ShuffleMode,
        /// Destination, 32 bits.
        dst: Reg,
        /// The register that is read, 32 bits.
        src: Reg,
        /// Lane, distance or mask, as `mode` says.
        lane: PtxOperand,
        /// Lanes per segment: a power of two up to 32.
        width: u32,
    },
    /// `ldmatrix`: loads one, two or four 8×8 matrices of 16-bit elements from shared memory. Lane `8 m + r`
    /// gives the address of row `r` of matrix `m`. Lane `l` receives elements `2 (l mod 4)` and
    /// `2 (l mod 4) + 1` of row `l / 4` of each matrix, or of column `l / 4` if `transposed`.
    Ldmatrix {
        /// Whether the matrices are transposed (`.trans`).
        transposed: bool,
        /// One destination of class `B32` per matrix.
        dsts: Regs,
        /// Address of this lane's row: 16 bytes, aligned to 16.
        from: AddressOperand,
    },
    /// `mma.sync`: `d = a b + c` on matrix fragments of a warp. Operand A is row-major, operand B
    /// column-major.
    Mma { shape: MmaShape, d: Regs, a: Regs, b: Regs, c: Regs },
    /// `cp.async`: starts an asynchronous copy from global to shared memory.
    CpAsync {
        /// Size of the copy: 4, 8 or 16 bytes. Only copies of 16 bytes bypass the L1 cache.
        bytes: u32,
        /// Destination in shared memory.
        to: AddressOperand,
        /// Source in global memory.
        from: AddressOperand,
        /// Number of bytes that are read, class `B32`; zeros fill the rest. `None` reads all of them.
        read: Option<Reg>,
    },
    /// `cp.async.commit_group`: groups the thread's copies since the last commit.
    CpAsyncCommit,
    /// `cp.async.wait_group`: waits until at most `pending` of the thread's latest groups are incomplete.
    CpAsyncWait { pending: u32 },
    /// The generic address of a tensor map of the kernel, by its index, for TMA instructions; the
    /// destination is of class `B64`.
    TensorMapAddress { dst: Reg, map: u32 },
    /// `prefetch.tensormap`: brings the tensor map at an address into the cache.
    PrefetchTensorMap { map: Reg },
    /// `mbarrier.init`: initializes an mbarrier of 8 bytes, aligned to 8, in shared memory. A phase is
    /// complete after `count` arrivals, 1 to 2²⁰ - 1, once the expected transaction bytes have been copied.
    MbarrierInit { at: AddressOperand, count: u32 },
    /// `fence.mbarrier_init`: makes the thread's initialized mbarriers visible to the cluster and to TMA,
    /// once a barrier has synchronized the threads.
    FenceMbarrierInit,
    /// `mbarrier.arrive` on an mbarrier of the block, with release semantics for the block.
    MbarrierArrive { at: AddressOperand },
    /// `mbarrier.arrive` on an mbarrier of any block of the cluster, at an address from [`Inst::Mapa`]. A
    /// thread of that block that waits for the phase sees the asynchronous copies and `wgmma` operations
    /// that completed before the arrival. Ordinary stores before the arrival may be invisible to that
    /// thread, because making them visible would take a fence of device scope.
    MbarrierArriveCluster { at: AddressOperand },
    /// `mbarrier.arrive.expect_tx`: adds to the transaction bytes that the phase expects, less than 2²⁰,
    /// then arrives.
    MbarrierArriveExpectTx { at: AddressOperand, bytes: u32 },
    /// Repeats `mbarrier.try_wait.parity` until a phase is complete, for each lane on its own. The parity,
    /// of class `B32`, is 0 for the first phase, 1 for the second, and so on alternately. The phase before
    /// the first one counts as complete. With `cluster` the wait acquires at cluster scope, for arrivals
    /// from other blocks.
    MbarrierWait { at: AddressOperand, parity: Reg, cluster: bool },
    /// `mapa`: maps an address in the block's shared memory to the same address in another block of the
    /// cluster, by its rank. The destination is of class `B32`.
    Mapa { dst: Reg, at: AddressOperand, block: PtxOperand },
    /// `barrier.cluster`: synchronizes the threads of the cluster and orders their memory accesses.
    ClusterBarrier,
    /// `fence.proxy.async`: makes the thread's accesses of shared memory visible to later TMA and `wgmma`
    /// operations, which use the async proxy.
    FenceProxyAsync,
    /// TMA load (`cp.async.bulk.tensor`): copies a tile of a tensor into shared memory of this block, or of
    /// several blocks of the cluster. Elements outside the tensor are zeros. The bytes of the tile count as
    /// transaction bytes of the mbarrier.
    TmaLoad {
        /// Address of the tensor map.
        map: Reg,
        /// Coordinates of the tile's first element, innermost axis first: one to five signed 32-bit numbers.
        at: SmallVec<[PtxOperand; 4]>,
        /// Destination in shared memory, aligned to 128.
        to: AddressOperand,
        /// The mbarrier, in this block's shared memory.
        barrier: AddressOperand,
        /// Mask of the cluster's blocks that receive the tile, class `B16`. In each of them the tile arrives
        /// at the same address of shared memory, and the mbarrier at the same address counts its bytes.
        multicast: Option<Reg>,
    },
    /// TMA store: copies a tile from shared memory, aligned to 128, into a tensor. Elements outside the
    /// tensor are skipped. `at` are the coordinates of the tile's first element, innermost axis first.
    TmaStore { map: Reg, at: SmallVec<[PtxOperand; 4]>, from: AddressOperand },
    /// `cp.async.bulk.commit_group`: groups the thread's TMA stores since the last commit.
    TmaStoreCommit,
    /// `cp.async.bulk.wait_group.read`: waits until all but the latest `pending` groups of the thread's TMA
    /// stores have read their sources.
    TmaStoreWait { pending: u32 },
    /// `setmaxnreg`: releases registers of the warpgroup, or waits for more, if their number increases. Each
    /// thread has `count` afterwards: 24 to 256, a multiple of 8. The kernel must have
    /// [`crate::PtxKernel::min_blocks_per_sm`].
    SetMaxRegisters { count: u32, increase: bool },
    /// `wgmma.fence`: orders the warpgroup's register writes before the `wgmma` operations that follow.
    WgmmaFence,
    /// `wgmma.mma_async`: `d = a b` or `d += a b` on a 64×N accumulator tile of a warpgroup, asynchronously.
    /// For each `j`, lane `l` of warp `w` holds two adjacent columns, `8 j + 2 (l mod 4)` and the next one,
    /// of two rows: of row `16 w + l / 4` in registers `4 j` and `4 j + 1`, and of row `16 w + l / 4 + 8` in
    /// registers `4 j + 2` and `4 j + 3`. K is 32 bytes: 16 elements, or 8 of `tf32`.
    Wgmma {
        /// Element type of A and B: `F16`, `Bf16`, or `F32` for `tf32`.
        element: Ty,
        /// N, the columns of B and of the accumulators: 8 to 256, a multiple of 8.
        columns: u32,
        /// Accumulators: N / 2 registers of class `F32`.
        d: Regs,
        /// Matrix descriptor of operand A in shared memory, class `B64`.
        a: Reg,
        /// Matrix descriptor of operand B in shared memory, class `B64`.
        b: Reg,
        /// Whether A is M-major and B is N-major in shared memory, instead of K-major; 16-bit elements only.
        transposed: [bool; 2],
        /// Class `Pred`: adds to `d` if true, overwrites `d` if false.
        accumulate: Reg,
    },
    /// `wgmma.commit_group`: groups the warpgroup's `wgmma` operations since the last commit.
    WgmmaCommit,
    /// `wgmma.wait_group`: waits until at most `pending` of the warpgroup's latest groups are incomplete, at
    /// most 7. Until then no thread may access their accumulators.
    WgmmaWait { pending: u32 },
    /// `stmatrix`: stores one, two or four 8×8 matrices of 16-bit elements, in one register of class `B32`
    /// each, into shared memory, row by row; the inverse of [`Inst::Ldmatrix`]. `to` is the address of this
    /// lane's row: 16 bytes, aligned to 16.
    Stmatrix { from: Regs, to: AddressOperand },
}
