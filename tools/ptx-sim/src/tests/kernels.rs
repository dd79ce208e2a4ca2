//! Whole kernels like those of code generators: results are right, accesses are coalesced, and no instruction
//! is superfluous.

use smallvec::smallvec;

use super::{ExecutionOrder, ORDERS, index};
use crate::float::{BF16, RoundingDirection};
use crate::{FaultCause, KernelStats, SimFault, SimLaunch, SimulatedGpu, run};
use ptx_asm::{
    AddressOperand, AtomicOp, CmpOp, GuardPredicate, Inst, MmaShape, PtxBinaryOp, PtxBuilder, PtxKernel,
    PtxProgram, PtxStmt, Reg, RegClass, Regs, ShuffleMode, SpecialReg, StateSpace, StmtList, Target, Ty,
    check,
};

/// A sum of `count` floats: per thread, then per warp, then per block, then by atomics.
fn sum_kernel(count: u32, threads: u32, blocks: u32) -> PtxKernel {
    let mut b = PtxBuilder::new("sum", 2, threads);
    let partial = b.shared(4 * threads / 32, 4);
    let (x, out) = (b.param(0), b.param(1));
    let i = index(&mut b);
    let sum = b.mov(RegClass::F32, 0_u32);
    b.repeat(|b| {
        let inside = b.compare(CmpOp::Lt, Ty::U32, i, count);
        b.when(GuardPredicate::on(inside), |b| {
            let at = b.mul_add_wide(Ty::U32, i, 4_u32, x);
            let value = b.load(StateSpace::Global, Ty::F32, true, AddressOperand::at(at));
            let next = b.add(Ty::F32, sum, value);
            b.set(sum, next);
        });
        let next = b.add(Ty::U32, i, threads * blocks);
        b.set(i, next);
        // The guard is uniform in the block, so that every thread reaches the barriers after the loop.
        GuardPredicate::on(b.compare(CmpOp::Lt, Ty::U32, i, count.next_multiple_of(threads * blocks)))
    });
    let sum = warp_sum(&mut b, sum);
    let (thread, lane) = (b.special(SpecialReg::Thread), b.special(SpecialReg::Lane));
    let base = b.address(StateSpace::Shared, partial);
    let leads = b.compare(CmpOp::Eq, Ty::U32, lane, 0_u32);
    let warp = b.binary(PtxBinaryOp::ShiftRight, Ty::U32, thread, 5_u32);
    b.when(GuardPredicate::on(leads), |b| {
        let at = b.mul_add(Ty::U32, warp, 4_u32, base);
        b.store(StateSpace::Shared, Ty::F32, AddressOperand::at(at), sum);
    });
    b.barrier();
    let first = b.compare(CmpOp::Eq, Ty::U32, warp, 0_u32);
    b.when(GuardPredicate::on(first), |b| {
        let there = b.compare(CmpOp::Lt, Ty::U32, lane, threads / 32);
        let part = b.mov(RegClass::F32, 0_u32);
        let at = b.mul_add(Ty::U32, lane, 4_u32, base);
        b.push_predicated(
            GuardPredicate::on(there),
            Inst::Load {
                space: StateSpace::Shared,
                ty: Ty::F32,
                constant: false,
                dsts: smallvec![part],
                from: AddressOperand::at(at),
            },
        );
        let total = warp_sum(b, part);
        let (space, op, ty) = (StateSpace::Global, AtomicOp::Add, Ty::F32);
        let operands = smallvec![total.into()];
        let add = Inst::Atomic { space, op, ty, dst: None, at: AddressOperand::at(out), operands };
        b.push_predicated(GuardPredicate::on(leads), add);
    });
    b.finish()
}

fn warp_sum(b: &mut PtxBuilder, mut sum: Reg) -> Reg {
    for by in [16_u32, 8, 4, 2, 1] {
        let other = b.register(RegClass::F32);
        b.push(Inst::Shuffle { mode: ShuffleMode::Xor, dst: other, src: sum, lane: by.into(), width: 32 });
        sum = b.add(Ty::F32, sum, other);
    }
    sum
}

fn run_sum(
    kernel: &PtxKernel,
    count: u32,
    blocks: u32,
    order: ExecutionOrder,
) -> Result<(f32, KernelStats), SimFault> {
    let mut gpu = SimulatedGpu::new();
    let numbers: Vec<u8> = (0..count).flat_map(|i| (i as f32).to_le_bytes()).collect();
    let (x, out) = (gpu.put("x", numbers), gpu.put("out", vec![0; 4]));
    let params = [x.address(), out.address()];
    let stats = run(kernel, &SimLaunch::new(blocks, &params), &mut gpu, order)?;
    let bytes = gpu.bytes(out).try_into().expect("4 bytes");
    Ok((f32::from_le_bytes(bytes), stats))
}

#[test]
fn sums_of_blocks() {
    let (count, threads, blocks) = (1000, 128, 3);
    let kernel = sum_kernel(count, threads, blocks);
    check(&PtxProgram { target: Target::Sm70, kernels: vec![kernel.clone()] }).expect("a program");
    for order in ORDERS {
        let (sum, stats) = run_sum(&kernel, count, blocks, order).expect("it is right");
        assert_eq!(sum, 999.0 * 500.0); // exact in any order: every partial sum is an integer below 2²⁴
        assert_eq!(stats.sectors("load.global"), u64::from(count) * 4 / 32);
        assert_eq!((stats.conflicts(), stats.count("shuffle")), (0, 5 * 5 * 3));
    }
    let without = without(&kernel, |inst| matches!(inst, Inst::Barrier { .. }));
    assert_eq!(without.len(), 1);
    let found =
        ORDERS.map(|order| *run_sum(&without[0], count, blocks, order).expect_err("no barrier").cause);
    assert!(
        found.iter().all(|cause| matches!(cause, FaultCause::Race { .. } | FaultCause::Uninitialized { .. })),
        "{found:?}"
    );
}

/// Variants of the kernel, each of which lacks one of the instructions that `which` selects.
fn without(kernel: &PtxKernel, which: fn(&Inst) -> bool) -> Vec<PtxKernel> {
    fn strip(block: &mut StmtList, which: fn(&Inst) -> bool, left: &mut usize) {
        block.retain(|stmt| match stmt {
            PtxStmt::Inst(inst) if which(inst) => {
                *left = left.wrapping_sub(1);
                *left != usize::MAX
            }
            _ => true,
        });
        for stmt in block {
            match stmt {
                PtxStmt::If { then, otherwise, .. } => {
                    strip(then, which, left);
                    strip(otherwise, which, left);
                }
                PtxStmt::Loop { body, .. } => strip(body, which, left),
                PtxStmt::Inst(_) | PtxStmt::Predicated(..) | PtxStmt::Comment(_) => {}
            }
        }
    }
    (0..)
        .map(|i| {
            let mut other = kernel.clone();
            strip(&mut other.body, which, &mut { i });
            other
        })
        .take_while(|other| other != kernel)
        .collect()
}

/// Bytes of a row of a tile in shared memory: 64 elements of 16 bits.
const PITCH: u32 = 128;
const TILE: u32 = 64 * PITCH;

/// Address of a lane's row for `ldmatrix` and `cp.async`. Chunks of 16 bytes are swizzled by the row, so that
/// 8 rows have no bank conflicts.
fn swizzled(b: &mut PtxBuilder, base: Reg, row: Reg, chunk: Reg) -> Reg {
    let low = b.binary(PtxBinaryOp::And, Ty::B32, row, 7_u32);
    let chunk = b.binary(PtxBinaryOp::Xor, Ty::B32, chunk, low);
    let at = b.mul_add(Ty::U32, row, PITCH, base);
    b.mul_add(Ty::U32, chunk, 16_u32, at)
}

fn field(b: &mut PtxBuilder, value: Reg, shift: u32, mask: u32) -> Reg {
    let shifted = b.binary(PtxBinaryOp::ShiftRight, Ty::U32, value, shift);
    b.binary(PtxBinaryOp::And, Ty::B32, shifted, mask)
}

/// A matmul of `bf16`, `[m, k]` by `[n, k]`, in 64×64 tiles with 4 warps; two stages of 64 along K.
struct MmaMatmul {
    depth: u32,
    /// Blocks along N.
    columns: u32,
    /// The arrays of two stages, for A and B.
    tiles: [u32; 2],
}

impl MmaMatmul {
    fn kernel(rows: u32, columns: u32, depth: u32) -> PtxKernel {
        assert!(rows.is_multiple_of(64) && columns.is_multiple_of(64) && depth.is_multiple_of(64));
        let mut b = PtxBuilder::new("matmul", 3, 128);
        let tiles = [b.shared(2 * TILE, 128), b.shared(2 * TILE, 128)];
        let matmul = MmaMatmul { depth, columns: columns / 64, tiles };
        matmul.write(&mut b);
        b.finish()
    }

    fn write(&self, b: &mut PtxBuilder) {
        let block = b.special(SpecialReg::Block);
        let row = b.binary(PtxBinaryOp::Div, Ty::U32, block, self.columns);
        let column = b.binary(PtxBinaryOp::Rem, Ty::U32, block, self.columns);
        let sums: Vec<Regs> = (0..8).map(|_| (0..4).map(|_| b.mov(RegClass::F32, 0_u32)).collect()).collect();
        let step = b.mov(RegClass::B32, 0_u32);
        self.copy(b, [row, column], step);
        b.repeat(|b| {
            let next = b.add(Ty::U32, step, 1_u32);
            let more = b.compare(CmpOp::Lt, Ty::U32, next, self.depth / 64);
            b.if_else(
                GuardPredicate::on(more),
                |b| self.copy(b, [row, column], next),
                |b| b.push(Inst::CpAsyncCommit),
            );
            b.push(Inst::CpAsyncWait { pending: 1 });
            b.barrier();
            self.multiply(b, step, &sums);
            b.barrier();
            b.set(step, next);
            GuardPredicate::on(more)
        });
        self.store(b, [row, column], &sums);
    }

    /// Copies the tiles of a step as one group.
    fn copy(&self, b: &mut PtxBuilder, block: [Reg; 2], step: Reg) {
        let thread = b.special(SpecialReg::Thread);
        for (operand, &tile_of) in block.iter().enumerate() {
            let tile = self.tile(b, operand, step);
            let source = b.param(operand as u32);
            for part in 0..4 {
                let i = b.add(Ty::U32, thread, 128 * part as u32);
                let (row, chunk) = (b.binary(PtxBinaryOp::ShiftRight, Ty::U32, i, 3_u32), field(b, i, 0, 7));
                let to = swizzled(b, tile, row, chunk);
                let from = b.mul_add(Ty::U32, tile_of, 64_u32, row);
                let from = b.mul_add_wide(Ty::U32, from, 2 * self.depth, source);
                let within = b.mul_add(Ty::U32, step, 8_u32, chunk);
                let from = b.mul_add_wide(Ty::U32, within, 16_u32, from);
                b.push(Inst::CpAsync {
                    bytes: 16,
                    to: AddressOperand::at(to),
                    from: AddressOperand::at(from),
                    read: None,
                });
            }
        }
        b.push(Inst::CpAsyncCommit);
    }

    /// The tile of an operand for a step.
    fn tile(&self, b: &mut PtxBuilder, operand: usize, step: Reg) -> Reg {
        let base = b.address(StateSpace::Shared, self.tiles[operand]);
        let odd = b.binary(PtxBinaryOp::And, Ty::B32, step, 1_u32);
        b.mul_add(Ty::U32, odd, TILE, base)
    }

    /// Multiplies two tiles; each warp computes 32×32 of the result.
    fn multiply(&self, b: &mut PtxBuilder, step: Reg, sums: &[Regs]) {
        let (thread, lane) = (b.special(SpecialReg::Thread), b.special(SpecialReg::Lane));
        let [warp_row, warp_column] = [6, 5].map(|shift| field(b, thread, shift, 1));
        let [left, right] = [0, 1].map(|operand| self.tile(b, operand, step));
        // The row and chunk whose address this lane gives to `ldmatrix`. The instruction loads four matrices:
        // for A in column order, for B in row order.
        let (low, chunk_left) = (field(b, lane, 0, 15), field(b, lane, 4, 1));
        let row_left = b.mul_add(Ty::U32, warp_row, 32_u32, low);
        let (low, high, chunk_right) = (field(b, lane, 0, 7), field(b, lane, 4, 1), field(b, lane, 3, 1));
        let low = b.mul_add(Ty::U32, high, 8_u32, low);
        let row_right = b.mul_add(Ty::U32, warp_column, 32_u32, low);
        for k in 0..4 {
            let load = |b: &mut PtxBuilder, base, row, chunk, half: u32| {
                let row = b.add(Ty::U32, row, 16 * half);
                let chunk = b.add(Ty::U32, chunk, 2 * k);
                let at = swizzled(b, base, row, chunk);
                let dsts = b.registers(RegClass::B32, 4);
                b.push(Inst::Ldmatrix {
                    transposed: false,
                    dsts: dsts.clone(),
                    from: AddressOperand::at(at),
                });
                dsts
            };
            let a = [0, 1].map(|half| load(b, left, row_left, chunk_left, half));
            let c = [0, 1].map(|half| load(b, right, row_right, chunk_right, half));
            for (i, d) in sums.iter().enumerate() {
                let columns = &c[i % 4 / 2];
                let from = i % 2 * 2;
                let right: Regs = columns[from..from + 2].into();
                let left = a[i / 4].clone();
                b.push(Inst::Mma { shape: MmaShape::Bf16K16, d: d.clone(), a: left, b: right, c: d.clone() });
            }
        }
    }

    fn store(&self, b: &mut PtxBuilder, [block_row, block_column]: [Reg; 2], sums: &[Regs]) {
        let (thread, lane, out) = (b.special(SpecialReg::Thread), b.special(SpecialReg::Lane), b.param(2));
        let [warp_row, warp_column] = [6, 5].map(|shift| field(b, thread, shift, 1));
        let (group, pair) = (field(b, lane, 2, 7), field(b, lane, 0, 3));
        let row = b.mul_add(Ty::U32, warp_row, 32_u32, group);
        let row = b.mul_add(Ty::U32, block_row, 64_u32, row);
        let column = b.binary(PtxBinaryOp::ShiftLeft, Ty::B32, pair, 1_u32);
        let column = b.mul_add(Ty::U32, warp_column, 32_u32, column);
        let column = b.mul_add(Ty::U32, block_column, 64_u32, column);
        let at = b.mul_add_wide(Ty::U32, row, 256 * self.columns, out);
        let at = b.mul_add_wide(Ty::U32, column, 4_u32, at);
        for (i, sums) in sums.iter().enumerate() {
            for half in 0..2 {
                let down = (i / 4 * 16 + half * 8) as i32 * 256 * self.columns as i32;
                let place = AddressOperand::at(at).plus(down + (i % 4 * 32) as i32);
                b.store_vector(StateSpace::Global, Ty::F32, place, &sums[2 * half..2 * half + 2]);
            }
        }
    }
}

fn run_product(
    kernel: &PtxKernel,
    [m, n, k]: [usize; 3],
    order: ExecutionOrder,
) -> Result<(Vec<f32>, KernelStats), SimFault> {
    let mut chance = fastrand::Rng::with_seed(1);
    let mut matrix =
        |count: usize| -> Vec<f64> { (0..count).map(|_| f64::from(chance.i32(-16..=16))).collect() };
    let (x, y) = (matrix(m * k), matrix(n * k));
    let bytes = |numbers: &[f64]| -> Vec<u8> {
        numbers
            .iter()
            .flat_map(|&x| (BF16.encode(x, RoundingDirection::Nearest) as u16).to_le_bytes())
            .collect()
    };
    let mut gpu = SimulatedGpu::new();
    let regions = [gpu.put("a", bytes(&x)), gpu.put("b", bytes(&y)), gpu.reserve("c", 4 * m * n)];
    let params = regions.map(|region| region.address());
    let launch = SimLaunch::new((m * n / 64 / 64) as u32, &params);
    let stats = run(kernel, &launch, &mut gpu, order)?;
    let found: Vec<f32> = super::words_of(&gpu, regions[2]).into_iter().map(f32::from_bits).collect();
    for i in 0..m {
        for j in 0..n {
            let exact: f64 = (0..k).map(|l| x[i * k + l] * y[j * k + l]).sum();
            assert_eq!(f64::from(found[i * n + j]), exact, "{i} {j}");
        }
    }
    Ok((found, stats))
}

#[test]
fn matmuls_with_mma() {
    let sizes = [128, 64, 192];
    let [m, n, k] = sizes.map(|size| size as u32);
    let kernel = MmaMatmul::kernel(m, n, k);
    check(&PtxProgram { target: Target::Sm80, kernels: vec![kernel.clone()] }).expect("a program");
    for order in ORDERS {
        let (_, stats) = run_product(&kernel, sizes, order).expect("it is right");
        assert_eq!(stats.conflicts(), 0);
        assert_eq!(stats.bytes("cpasync"), u64::from(m / 64 * (n / 64) * k * 2 * 128));
        assert_eq!(stats.sectors("cpasync") * 32, stats.bytes("cpasync"));
        assert_eq!(stats.sectors("store.global") * 32, u64::from(4 * m * n));
        assert_eq!(stats.count("mma"), u64::from(m * n * k / (16 * 8 * 16)));
        assert_eq!(stats.count("mma"), 2 * stats.count("ldmatrix"));
    }
}

/// Removing any barrier, commit or wait is a fault.
#[test]
fn matmuls_need_every_synchronization() {
    let sizes = [64, 64, 256];
    let kernel = MmaMatmul::kernel(64, 64, 256);
    let order =
        |inst: &Inst| matches!(inst, Inst::Barrier { .. } | Inst::CpAsyncWait { .. } | Inst::CpAsyncCommit);
    let less = without(&kernel, order);
    assert_eq!(less.len(), 6);
    for (i, kernel) in less.iter().enumerate() {
        for order in ORDERS {
            let found = run_product(kernel, sizes, order).expect_err("something is missing").cause;
            assert!(
                matches!(*found, FaultCause::Race { .. } | FaultCause::PendingCopy { .. }),
                "{i}: {found}"
            );
        }
    }
}
