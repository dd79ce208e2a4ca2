//! Instructions.
//!
//! Arithmetic is IEEE 754 with rounding to nearest even and subnormal numbers kept, unless an operation says otherwise; integers wrap.
//! What the hardware leaves open (integer division by zero) no program may depend on.

use smallvec::SmallVec;

use crate::program::{Operand, Place, Reg, Regs, Space, Special};

mod choices; // enums that list their variants
mod ops; // what is done with operands
mod registers; // which ones an instruction reads and writes
mod types; // of operands

pub use self::ops::{Atomic, Binary, Cmp, Mma, Rounding, Scope, Shuffle, Ternary, Unary, Vote};
pub use self::types::Ty;

/// An instruction.
#[derive(Clone, Debug, PartialEq)]
pub enum Inst {
    /// Copies bits; classes of the same width may differ.
    Move {
        /// Where to.
        dst: Reg,
        /// What.
        src: Operand,
    },
    /// Where the thread is.
    Where {
        /// Class `B32`.
        dst: Reg,
        /// What is asked for.
        special: Special,
    },
    /// The address of an array of the kernel, for accesses of its space.
    Address {
        /// Class `B32`.
        dst: Reg,
        /// [`Space::Shared`] or [`Space::Local`].
        space: Space,
        /// Which array.
        array: u32,
    },
    /// The value of a parameter.
    Param {
        /// Class `B64`.
        dst: Reg,
        /// Its position.
        param: u32,
    },
    /// Two halves as one: 16 bits each into `B32`, or 32 each into `B64`.
    Pack {
        /// The whole.
        dst: Reg,
        /// The low half, then the high one.
        halves: [Reg; 2],
    },
    /// The opposite of [`Inst::Pack`].
    Unpack {
        /// The low half, then the high one.
        halves: [Reg; 2],
        /// The whole.
        src: Reg,
    },
    /// One operand.
    Unary {
        /// What is done.
        op: Unary,
        /// On what.
        ty: Ty,
        /// The result.
        dst: Reg,
        /// The operand.
        src: Operand,
    },
    /// Two operands.
    Binary {
        /// What is done.
        op: Binary,
        /// On what.
        ty: Ty,
        /// The result.
        dst: Reg,
        /// The first operand.
        a: Operand,
        /// The second.
        b: Operand,
    },
    /// Three operands.
    Ternary {
        /// What is done.
        op: Ternary,
        /// On what.
        ty: Ty,
        /// The result.
        dst: Reg,
        /// The first operand.
        a: Operand,
        /// The second.
        b: Operand,
        /// The third.
        c: Operand,
    },
    /// Whether a comparison holds.
    Compare {
        /// Which comparison.
        cmp: Cmp,
        /// On what.
        ty: Ty,
        /// Class `Pred`.
        dst: Reg,
        /// The first operand.
        a: Operand,
        /// The second.
        b: Operand,
    },
    /// `a` where the predicate holds, else `b`.
    Select {
        /// On what: 16 bits or more.
        ty: Ty,
        /// The result.
        dst: Reg,
        /// Taken if the predicate holds.
        a: Operand,
        /// Taken if not.
        b: Operand,
        /// Class `Pred`.
        pred: Reg,
    },
    /// A number as one of another type. Integers are cut off or extended by what `from` says. A result narrower than its register (`U8`) is
    /// extended to its width. No `Bf16` is converted from: it is the upper half of what it becomes.
    Convert {
        /// What it becomes.
        to: Ty,
        /// What it was.
        from: Ty,
        /// How what does not fit is rounded.
        rounding: Rounding,
        /// The result.
        dst: Reg,
        /// The number.
        src: Reg,
    },
    /// Two `F32` as a pair of 16-bit floats, rounded to nearest even.
    ConvertPair {
        /// `F16x2` or `Bf16x2`.
        to: Ty,
        /// Class `B32`.
        dst: Reg,
        /// The low half, then the high one.
        halves: [Operand; 2],
    },
    /// Reads memory: one element, or two or four beside each other.
    Load {
        /// Which memory.
        space: Space,
        /// The element's type.
        ty: Ty,
        /// Global memory that no thread writes while the kernel runs: through the cache for such.
        constant: bool,
        /// One, two or four; elements narrower than their registers are extended by what the type says.
        dsts: Regs,
        /// From where.
        from: Place,
    },
    /// Writes memory.
    Store {
        /// Which memory.
        space: Space,
        /// The element's type.
        ty: Ty,
        /// Where to.
        to: Place,
        /// One, two or four; of those wider than an element, the low bits.
        srcs: SmallVec<[Operand; 4]>,
    },
    /// Reads, combines and writes memory as one step that no other thread can part.
    Atomic {
        /// Which memory: not the thread's.
        space: Space,
        /// How it is combined.
        op: Atomic,
        /// On what: 32 or 64 bits.
        ty: Ty,
        /// What was there before, where that is wanted.
        dst: Option<Reg>,
        /// Where.
        at: Place,
        /// What it is combined with; for [`Atomic::CompareSwap`] what it is compared with, then what replaces it.
        operands: SmallVec<[Operand; 2]>,
    },
    /// All threads of the block (or of so many whole warps as have that many threads) meet; what one did to memory before, all see
    /// behind it.
    Barrier {
        /// Which of the block's 16 barriers.
        id: u32,
        /// How many threads, a multiple of 32; the whole block if nothing is said.
        threads: Option<u32>,
    },
    /// The lanes of the warp meet; what one did to memory before, all see behind it.
    WarpBarrier,
    /// What the thread did to memory before is seen by whoever sees what it does afterwards.
    Fence(Scope),
    /// Every lane of the warp reads another lane's register. A lane whose partner lies outside keeps its own.
    Shuffle {
        /// Whose.
        mode: Shuffle,
        /// 32 bits.
        dst: Reg,
        /// 32 bits.
        src: Reg,
        /// The lane or distance.
        lane: Operand,
        /// Lanes exchange within groups of so many, a power of two up to 32.
        width: u32,
    },
    /// What the warp's predicates say together.
    Vote {
        /// What is asked.
        vote: Vote,
        /// Class `Pred`, or `B32` for [`Vote::Ballot`].
        dst: Reg,
        /// Each lane's.
        src: Reg,
    },
    /// 8×8 matrices of 16-bit elements from shared memory: lane `8 m + r` says where row `r` of matrix `m` is. Lane `l` gets
    /// elements `2 (l mod 4)` and `+ 1` of row `l / 4` of each, or with `transposed` of column `l / 4`.
    LoadMatrix {
        /// Whether columns and rows change places.
        transposed: bool,
        /// One, two or four of class `B32`.
        dsts: Regs,
        /// Where this lane's row is: 16 bytes, aligned.
        from: Place,
    },
    /// `d = a b + c` on matrices that a warp holds in fragments.
    Mma {
        /// Sizes and types.
        shape: Mma,
        /// The sums.
        d: Regs,
        /// Left factor, rows outermost.
        a: Regs,
        /// Right factor, columns outermost.
        b: Regs,
        /// What they are added to.
        c: Regs,
    },
    /// Copies from global to shared memory while the thread goes on.
    CopyAsync {
        /// 4, 8 or 16; only 16 go past the first-level cache.
        bytes: u32,
        /// Where to: shared memory.
        to: Place,
        /// From where: global memory.
        from: Place,
        /// How many of the bytes are read, the rest being zeros; all of them if nothing is said. Class `B32`.
        read: Option<Reg>,
    },
    /// What the thread's copies since the last one of these are is a group.
    CopyCommit,
    /// Waits until at most so many of the thread's groups of copies, the latest, are under way.
    CopyWait {
        /// How many may be.
        left: u32,
    },
    /// The address of a tensor map, one of the kernel's last parameters: what tile copies are told.
    Map {
        /// Class `B64`.
        dst: Reg,
        /// Its position among the maps.
        map: u32,
    },
    /// Fetches a tensor map that will be needed soon.
    MapPrefetch {
        /// Its address.
        map: Reg,
    },
    /// Makes a barrier of 8 bytes of shared memory, whose phases complete when so many arrivals have come and all bytes that were expected.
    BarrierInit {
        /// Where: shared memory, aligned to 8.
        at: Place,
        /// How many arrivals complete a phase: 1 to 2²⁰ - 1.
        count: u32,
    },
    /// Barriers in memory that the thread made are known to the cluster and to copies behind its next meeting with others.
    BarrierInitFence,
    /// Arrives at a barrier in the block's memory: what the thread did before, those see who wait for the phase.
    Arrive {
        /// Where the barrier is.
        at: Place,
    },
    /// Arrives at a barrier of some block of the cluster. Threads of that block see what copies and products did that have completed before; of ordinary
    /// stores they need not know, for that is what takes a fence of the whole device.
    ArriveCluster {
        /// Where: from an address that [`Inst::MapShared`] gave.
        at: Place,
    },
    /// Arrives, after the phase was told to expect so many more bytes from copies.
    ArriveExpect {
        /// Where the barrier is.
        at: Place,
        /// How many bytes, less than 2²⁰.
        bytes: u32,
    },
    /// Waits until a phase of a barrier is complete. Lanes wait each for itself.
    BarrierWait {
        /// Where the barrier is.
        at: Place,
        /// Class `B32`: 0 for the first phase, 1 for the second, and so on by turns. The phase before the first is complete.
        parity: Reg,
        /// Whether threads of other blocks arrive as well, whose work is to be seen.
        cluster: bool,
    },
    /// Where a place in the block's shared memory is in another block's of the cluster, as the cluster says.
    MapShared {
        /// Class `B32`.
        dst: Reg,
        /// A place in shared memory.
        at: Place,
        /// The block's number in its cluster.
        block: Operand,
    },
    /// All threads of the cluster meet, as those of a block at [`Inst::Barrier`].
    ClusterBarrier,
    /// What the thread did to shared memory before, copies of tiles and products of warpgroups see that are begun afterwards.
    FenceAsync,
    /// Copies a tile of a tensor into shared memory, of this block or of several of the cluster, while the thread goes on.
    /// What lies outside of the tensor is zeros. All bytes of the tile complete on the barrier.
    LoadTile {
        /// The tensor map's address.
        map: Reg,
        /// The first element's place along each axis, innermost first: one to five signed 32-bit numbers.
        at: SmallVec<[Operand; 4]>,
        /// Where to: shared memory, aligned to 128.
        to: Place,
        /// The barrier, in the block's own memory.
        barrier: Place,
        /// Class `B16`: the blocks of the cluster that get it, bit by bit, each at the same place, completing on the barrier at the same place.
        multicast: Option<Reg>,
    },
    /// Copies a tile from shared memory into a tensor while the thread goes on. What lies outside of the tensor is left out.
    StoreTile {
        /// The tensor map's address.
        map: Reg,
        /// The first element's place along each axis, innermost first.
        at: SmallVec<[Operand; 4]>,
        /// From where: shared memory, aligned to 128.
        from: Place,
    },
    /// What the thread's tile stores since the last one of these are is a group.
    StoreTileCommit,
    /// Waits until the sources of all the thread's groups of tile stores but so many, the latest, have been read.
    StoreTileWait {
        /// How many may still be read.
        left: u32,
    },
    /// Gives registers of the warpgroup's threads back, or takes some, once there are as many. The kernel has to say
    /// [`crate::Kernel::blocks_per_processor`].
    SetMaxRegisters {
        /// How many each thread has then: 24 to 256, a multiple of 8.
        count: u32,
        /// Whether that is more than before.
        increase: bool,
    },
    /// What the warpgroup's threads wrote into registers before, products see that follow.
    WarpgroupFence,
    /// `d = a b`, or `d += a b`, on a matrix of 64 rows that the four warps of a warpgroup hold, while the threads go on. Row `16 w + l / 4` is held by lane `l`
    /// of warp `w`: its columns `8 j + 2 (l mod 4)` and the next in registers `4 j` and `4 j + 1`, those of row `+ 8` in the two that follow. The depth is 32 bytes:
    /// 16 elements, of `tf32` 8.
    WarpgroupMma {
        /// Type of the factors: `F16`, `Bf16`, or `F32` for `tf32`.
        factor: Ty,
        /// Columns of the sums: 8 to 256, a multiple of 8.
        columns: u32,
        /// The sums: half as many registers of class `F32` as there are columns.
        d: Regs,
        /// Class `B64`: where the left factor is in shared memory, as the hardware's descriptors say.
        a: Reg,
        /// Class `B64`: where the right factor is.
        b: Reg,
        /// Whether of the left and of the right factor rows and columns, not the depth, are innermost: of 16-bit factors alone.
        transposed: [bool; 2],
        /// Class `Pred`: whether the products are added to `d`, which is overwritten otherwise.
        accumulate: Reg,
    },
    /// What the warpgroup's products since the last one of these are is a group.
    WarpgroupCommit,
    /// Waits until at most so many of the warpgroup's groups of products, the latest, are under way. Before, nobody touches their sums.
    WarpgroupWait {
        /// How many may be: at most 7.
        left: u32,
    },
    /// The opposite of [`Inst::LoadMatrix`]: 8×8 matrices of 16-bit elements into shared memory, row by row.
    StoreMatrix {
        /// One, two or four of class `B32`.
        from: Regs,
        /// Where this lane's row is: 16 bytes, aligned.
        to: Place,
    },
}
