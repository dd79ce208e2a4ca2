//! A 64×64×128 matmul with TMA, mbarriers and `wgmma` in a circular buffer of two stages.
//!
//! Thread 0 loads the tiles of A and B, and one warpgroup multiplies them. Removing any wait or fence is a
//! fault in every order.

use smallvec::smallvec;

use super::ExecutionOrder;
use crate::{FaultCause, SimFault, SimLaunch, SimTensorMap, SimulatedGpu, Swizzle, run};
use ptx_asm::{
    AddressOperand, CmpOp, GuardPredicate, Inst, PtxBinaryOp, PtxBuilder, PtxKernel, PtxOperand, PtxProgram,
    Reg, RegClass, SpecialReg, StateSpace, Target, Ty, check,
};

const SIZE: usize = 64;
const DEPTH: usize = 128;
/// K of a stage: rows of 64 bytes.
const STEP: usize = 32;
const TILE: u32 = (SIZE * STEP * 2) as u32;

/// The mistake in a variant of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PipelineFlaw {
    Nothing,
    NoWaitForFull,
    NoWaitForEmpty,
    WrongParityOfFull,
    WrongParityOfEmpty,
    NothingExpected,
    TooLittleExpected,
    TooMuchExpected,
    EarlyRelease,
    ReleaseByOneWarp,
    NoFenceOfRegisters,
    NoWaitForWgmma,
    NoFenceOfBarriers,
    NoBarrier,
    LaneWaitsAlone,
    NoRelease,
}

use PipelineFlaw::*;

struct PipelineStages {
    /// The tiles of A and B of each stage.
    tiles: [[u32; 2]; 2],
    full: [u32; 2],
    empty: [u32; 2],
}

/// Declares the arrays; one thread initializes the mbarriers for all.
fn stages(b: &mut PtxBuilder, first: Reg, flaw: PipelineFlaw) -> PipelineStages {
    let tiles = [(); 2].map(|()| [(); 2].map(|()| b.shared(TILE, 1024)));
    let [full, empty] = [(); 2].map(|()| [(); 2].map(|()| b.shared(8, 8)));
    b.when(GuardPredicate::on(first), |b| {
        for stage in 0..2 {
            b.push(Inst::MbarrierInit { at: AddressOperand::array(full[stage]), count: 1 });
            let count = if flaw == ReleaseByOneWarp { 1 } else { 4 };
            b.push(Inst::MbarrierInit { at: AddressOperand::array(empty[stage]), count });
        }
        if flaw != NoFenceOfBarriers {
            b.push(Inst::FenceMbarrierInit);
        }
    });
    if flaw != NoBarrier {
        b.barrier();
    }
    PipelineStages { tiles, full, empty }
}

fn wait(b: &mut PtxBuilder, barrier: u32, parity: usize) {
    let parity = b.mov(RegClass::B32, parity as u32);
    b.push(Inst::MbarrierWait { at: AddressOperand::array(barrier), parity, cluster: false });
}

fn produce(b: &mut PtxBuilder, stages: &PipelineStages, flaw: PipelineFlaw) {
    let maps = [0, 1].map(|map| b.map_address(map));
    maps.into_iter().for_each(|map| b.push(Inst::PrefetchTensorMap { map }));
    for step in 0..DEPTH / STEP {
        let (stage, round) = (step % 2, step / 2);
        if flaw != NoWaitForEmpty {
            let wrong = usize::from(flaw == WrongParityOfEmpty);
            wait(b, stages.empty[stage], (round + 1 + wrong) % 2);
        }
        let full = AddressOperand::array(stages.full[stage]);
        let bytes = match flaw {
            TooLittleExpected => TILE,
            TooMuchExpected => 3 * TILE,
            _ => 2 * TILE,
        };
        b.push(match flaw {
            NothingExpected => Inst::MbarrierArrive { at: full },
            _ => Inst::MbarrierArriveExpectTx { at: full, bytes },
        });
        for (map, tile) in maps.into_iter().zip(stages.tiles[stage]) {
            let at = smallvec![PtxOperand::from((step * STEP) as u32), PtxOperand::from(0_u32)];
            b.push(Inst::TmaLoad {
                map,
                at,
                to: AddressOperand::array(tile),
                barrier: full,
                multicast: None,
            });
        }
    }
}

/// The matrix descriptor of a tile, beginning with byte `byte` of each row.
fn descriptor(b: &mut PtxBuilder, tile: u32, byte: u32) -> Reg {
    let at = b.address(StateSpace::Shared, tile);
    let at = b.add(Ty::U32, at, byte);
    let at = b.binary(PtxBinaryOp::ShiftRight, Ty::U32, at, 4_u32);
    let zero = b.mov(RegClass::B32, 0_u32);
    let at = b.pack(RegClass::B64, at, zero);
    // Rows have 64 bytes, and groups of eight rows are 512 bytes apart.
    let rest = 1 << 16 | (512 >> 4) << 32 | 2 << 62;
    b.binary(PtxBinaryOp::Or, Ty::B64, at, PtxOperand::Const(rest))
}

fn consume(b: &mut PtxBuilder, stages: &PipelineStages, d: &ptx_asm::Regs, flaw: PipelineFlaw) {
    let (lane, thread) = (b.special(SpecialReg::Lane), b.special(SpecialReg::Thread));
    let one = b.compare(CmpOp::Eq, Ty::U32, lane, 0_u32);
    let one_of_all = b.compare(CmpOp::Eq, Ty::U32, thread, 128_u32);
    for step in 0..DEPTH / STEP {
        let (stage, round) = (step % 2, step / 2);
        let parity = (round + usize::from(flaw == WrongParityOfFull)) % 2;
        match flaw {
            NoWaitForFull => {}
            LaneWaitsAlone => b.when(GuardPredicate::on(one), |b| wait(b, stages.full[stage], parity)),
            _ => wait(b, stages.full[stage], parity),
        }
        if flaw != NoFenceOfRegisters {
            b.push(Inst::WgmmaFence);
        }
        for byte in [0, 32] {
            let [left, right] = stages.tiles[stage];
            let (left, right) = (descriptor(b, left, byte), descriptor(b, right, byte));
            let accumulate = b.mov(RegClass::Pred, u32::from(step > 0 || byte > 0));
            b.push(Inst::Wgmma {
                element: Ty::Bf16,
                columns: SIZE as u32,
                d: d.clone(),
                a: left,
                b: right,
                transposed: [false; 2],
                accumulate,
            });
        }
        b.push(Inst::WgmmaCommit);
        let guard = GuardPredicate::on(if flaw == ReleaseByOneWarp { one_of_all } else { one });
        let release = Inst::MbarrierArrive { at: AddressOperand::array(stages.empty[stage]) };
        if flaw == EarlyRelease {
            b.push_predicated(guard, release.clone());
        }
        if flaw != NoWaitForWgmma {
            b.push(Inst::WgmmaWait { pending: 0 });
        }
        if !matches!(flaw, EarlyRelease | NoRelease) {
            b.push_predicated(guard, release);
        }
    }
}

/// Stores a thread's accumulators: pairs of columns, rows of [`SIZE`].
fn give(b: &mut PtxBuilder, d: &ptx_asm::Regs) {
    let (thread, lane, out) = (b.special(SpecialReg::Thread), b.special(SpecialReg::Lane), b.param(0));
    let warp = b.binary(PtxBinaryOp::ShiftRight, Ty::U32, thread, 5_u32);
    let warp = b.binary(PtxBinaryOp::And, Ty::B32, warp, 3_u32);
    let row = b.binary(PtxBinaryOp::ShiftRight, Ty::U32, lane, 2_u32);
    let row = b.mul_add(Ty::U32, warp, 16_u32, row);
    let column = b.binary(PtxBinaryOp::And, Ty::B32, lane, 3_u32);
    let first = b.mul_add(Ty::U32, row, SIZE as u32 / 2, column);
    let at = b.mul_add_wide(Ty::U32, first, 8_u32, out);
    for (pair, sums) in d.chunks(2).enumerate() {
        let bytes = pair / 2 * 32 + pair % 2 * 8 * SIZE * 4;
        b.store_vector(StateSpace::Global, Ty::F32, AddressOperand::at(at).plus(bytes as i32), sums);
    }
}

fn matmul(flaw: PipelineFlaw) -> PtxKernel {
    let mut b = PtxBuilder::new("matmul", 1, 256);
    b.min_blocks_per_sm(1);
    b.tensor_map();
    b.tensor_map();
    let thread = b.special(SpecialReg::Thread);
    let first = b.compare(CmpOp::Eq, Ty::U32, thread, 0_u32);
    let stages = stages(&mut b, first, flaw);
    let produces = b.compare(CmpOp::Lt, Ty::U32, thread, 128_u32);
    b.if_else(
        GuardPredicate::on(produces),
        |b| {
            b.push(Inst::SetMaxRegisters { count: 40, increase: false });
            b.when(GuardPredicate::on(first), |b| produce(b, &stages, flaw));
        },
        |b| {
            // The warpgroup may take 248 registers per thread, since the pool has them.
            b.push(Inst::SetMaxRegisters { count: 248, increase: true });
            let d = (0..SIZE / 2).map(|_| b.mov(RegClass::F32, 0_u32)).collect();
            consume(b, &stages, &d, flaw);
            give(b, &d);
        },
    );
    b.finish()
}

fn number(seed: usize) -> f32 {
    (seed * 7919 % 13) as f32 - 6.0
}

fn operand(which: usize) -> Vec<u8> {
    let numbers = (0..SIZE * DEPTH).map(|i| number(i + which * 5));
    numbers.flat_map(|value| half::bf16::from_f32(value).to_le_bytes()).collect()
}

fn outcome(flaw: PipelineFlaw, order: ExecutionOrder) -> Result<Vec<f32>, SimFault> {
    let mut gpu = SimulatedGpu::new();
    let maps: Vec<SimTensorMap> = (0..2)
        .map(|which| SimTensorMap {
            address: gpu.put(format!("operand {which}"), operand(which)).address(),
            element: 2,
            sizes: vec![DEPTH as u64, SIZE as u64],
            strides: vec![2 * DEPTH as u64],
            tile: vec![STEP as u32, SIZE as u32],
            swizzle: Swizzle::Bytes64,
        })
        .collect();
    let out = gpu.reserve("out", SIZE * SIZE * 4);
    let params = [out.address()];
    let launch = SimLaunch { limit: 1 << 16, ..SimLaunch::new(1, &params).with_maps(&maps) };
    run(&matmul(flaw), &launch, &mut gpu, order)?;
    Ok(gpu.bytes(out).chunks(4).map(|word| f32::from_le_bytes(word.try_into().expect("4"))).collect())
}

fn orders() -> impl Iterator<Item = ExecutionOrder> {
    [ExecutionOrder::Sequential].into_iter().chain((0..20).map(|seed| ExecutionOrder::Random { seed }))
}

#[test]
fn it_is_right_in_every_order() {
    let module = PtxProgram { target: Target::Sm90a, kernels: vec![matmul(Nothing)] };
    assert_eq!(check(&module), Ok(()));
    let expected: Vec<f32> = (0..SIZE * SIZE)
        .map(|i| {
            let element = |which: usize, line: usize, k: usize| number(line * DEPTH + k + which * 5);
            (0..DEPTH).map(|k| element(0, i / SIZE, k) * element(1, i % SIZE, k)).sum()
        })
        .collect();
    for order in orders() {
        assert_eq!(outcome(Nothing, order).unwrap_or_else(|fault| panic!("{fault}")), expected, "{order:?}");
    }
}

/// Whether the mistake may cause this fault.
fn fits(flaw: PipelineFlaw, cause: &FaultCause) -> bool {
    let unordered = matches!(
        cause,
        FaultCause::Race { .. } | FaultCause::PendingCopy { .. } | FaultCause::PendingRead { .. }
    );
    let miscounted = matches!(cause, FaultCause::Barrier { .. });
    let too_early = unordered || matches!(cause, FaultCause::Uninitialized { .. });
    let stuck = matches!(cause, FaultCause::Deadlock(what) if what.contains("of the barrier at"));
    match flaw {
        Nothing => false,
        NoWaitForFull | LaneWaitsAlone => too_early,
        WrongParityOfFull => too_early || stuck,
        NothingExpected | TooLittleExpected => too_early || miscounted,
        NoWaitForEmpty => unordered || miscounted,
        EarlyRelease | ReleaseByOneWarp => unordered,
        WrongParityOfEmpty | NoRelease | TooMuchExpected => stuck,
        NoFenceOfRegisters => matches!(cause, FaultCause::Accumulator { .. }),
        NoWaitForWgmma => unordered || matches!(cause, FaultCause::Accumulator { .. }),
        NoFenceOfBarriers => miscounted,
        NoBarrier => matches!(cause, FaultCause::Race { .. } | FaultCause::NoBarrier { .. }),
    }
}

#[test]
fn every_flaw_is_found() {
    let flaws = [
        NoWaitForFull,
        NoWaitForEmpty,
        WrongParityOfFull,
        WrongParityOfEmpty,
        NothingExpected,
        TooLittleExpected,
        TooMuchExpected,
        EarlyRelease,
        ReleaseByOneWarp,
        NoFenceOfRegisters,
        NoWaitForWgmma,
        NoFenceOfBarriers,
        NoBarrier,
        LaneWaitsAlone,
        NoRelease,
    ];
    for (order, flaw) in orders().flat_map(|order| flaws.map(|flaw| (order, flaw))) {
        match outcome(flaw, order) {
            Ok(_) => panic!("{flaw:?} is not found, {order:?}"),
            Err(fault) => assert!(fits(flaw, &fault.cause), "{flaw:?}, {order:?}: {fault}"),
        }
    }
}
