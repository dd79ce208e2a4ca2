//! Results of the simulator, and a failing program for each of its checks.

mod arithmetic;
mod async_copies;
mod barriers;
mod clusters;
mod collective;
mod control;
mod conversions;
mod invalid_programs;
mod kernels;
mod mbarriers;
mod memory;
mod mma;
mod pipeline;
mod races;
mod random_kernels;
mod statistics;
mod tma;
mod wgmma;

use super::{ExecutionOrder, FaultCause, GlobalBuffer, KernelStats, SimFault, SimLaunch, SimulatedGpu, run};
use ptx_asm::{AddressOperand, PtxBuilder, PtxKernel, PtxOperand, Reg, RegClass, SpecialReg, StateSpace, Ty};

/// The execution orders in which most tests run their kernels.
const ORDERS: [ExecutionOrder; 4] = [
    ExecutionOrder::Sequential,
    ExecutionOrder::Random { seed: 1 },
    ExecutionOrder::Random { seed: 2 },
    ExecutionOrder::Random { seed: 3 },
];

/// A kernel with `threads` threads and one parameter.
fn kernel(threads: u32, write: impl FnOnce(&mut PtxBuilder)) -> PtxKernel {
    let mut b = PtxBuilder::new("k", 1, threads);
    write(&mut b);
    b.finish()
}

/// Runs a kernel on one uninitialized buffer of `words` words and returns the words.
fn outcome(
    kernel: &PtxKernel,
    blocks: u32,
    words: usize,
    order: ExecutionOrder,
) -> Result<(Vec<u32>, KernelStats), SimFault> {
    let mut gpu = SimulatedGpu::new();
    let out = gpu.reserve("out", 4 * words);
    let stats = run(kernel, &SimLaunch::new(blocks, &[out.address()]), &mut gpu, order)?;
    Ok((words_of(&gpu, out), stats))
}

fn words_of(gpu: &SimulatedGpu, region: GlobalBuffer) -> Vec<u32> {
    gpu.bytes(region).chunks(4).map(|word| u32::from_le_bytes(word.try_into().expect("4 bytes"))).collect()
}

/// The words after runs in every order, which must agree.
fn words(kernel: &PtxKernel, blocks: u32, words: usize) -> Vec<u32> {
    let mut results = ORDERS.map(|order| outcome(kernel, blocks, words, order).expect("it is right").0);
    assert!(results.windows(2).all(|pair| pair[0] == pair[1]), "{results:?}");
    std::mem::take(&mut results[0])
}

/// The cause of the fault in the sequential order. It must be of the same kind in every order.
fn cause(kernel: &PtxKernel, blocks: u32) -> FaultCause {
    let causes = ORDERS.map(|order| *outcome(kernel, blocks, 1024, order).expect_err("it is wrong").cause);
    let kind = |cause: &FaultCause| std::mem::discriminant(cause);
    assert!(causes.iter().all(|cause| kind(cause) == kind(&causes[0])), "{causes:?}");
    let [first, ..] = causes;
    first
}

/// Stores a value of each thread to the thread's word of the buffer.
fn give(b: &mut PtxBuilder, value: impl Into<PtxOperand>) {
    let i = index(b);
    let out = b.param(0);
    let at = b.mul_add_wide(Ty::U32, i, 4_u32, out);
    b.store(StateSpace::Global, Ty::B32, AddressOperand::at(at), value);
}

/// Index of the thread in the grid.
fn index(b: &mut PtxBuilder) -> Reg {
    let threads = b.clone().finish().threads;
    let (block, thread) = (b.special(SpecialReg::Block), b.special(SpecialReg::Thread));
    b.mul_add(Ty::U32, block, threads, thread)
}

/// Address of the thread's own word in a shared array.
fn own_word(b: &mut PtxBuilder, array: u32) -> Reg {
    let (thread, base) = (b.special(SpecialReg::Thread), b.address(StateSpace::Shared, array));
    b.mul_add(Ty::U32, thread, 4_u32, base)
}

/// A register that holds a constant.
fn constant(b: &mut PtxBuilder, class: RegClass, value: u64) -> Reg {
    b.mov(class, value)
}

#[test]
fn faults_say_what_and_where() {
    let k = kernel(64, |b| {
        let (thread, out) = (b.special(SpecialReg::Thread), b.param(0));
        let at = b.mul_add_wide(Ty::U32, thread, 4_u32, out);
        b.store(StateSpace::Global, Ty::U32, AddressOperand::at(at), thread);
    });
    let fault = outcome(&k, 1, 40, ExecutionOrder::Sequential).expect_err("too many threads");
    expect_test::expect![[r#"
        kernel `k`, block 0, thread 40, at Store { space: Global, ty: U32, to: AddressOperand { base: Reg(Reg { class: B64, number: 1 }), offset: 0 }, srcs: [Reg(Reg { class: B32, number: 0 })] }: 4 bytes at global 0x6ffffffa0 lie in no array: `out` has 160 bytes from 0x6ffffff00 on"#]]
    .assert_eq(&fault.to_string());
}

#[test]
fn launches_have_to_fit() {
    let mut gpu = SimulatedGpu::new();
    let fault = run(&kernel(32, |_| ()), &SimLaunch::new(1, &[]), &mut gpu, ExecutionOrder::Sequential);
    assert_eq!(*fault.expect_err("no parameter").cause, FaultCause::Params { expected: 1, found: 0 });
    assert!(matches!(cause(&kernel(32, |_| ()), 0), FaultCause::Malformed(_)));
    assert!(matches!(cause(&kernel(0, |_| ()), 1), FaultCause::Malformed(_)));
    assert!(matches!(cause(&kernel(1025, |_| ()), 1), FaultCause::Malformed(_)));
    let huge = kernel(32, |b| b.set(Reg { class: RegClass::F32, number: u32::MAX }, 0_u32));
    assert!(matches!(cause(&huge, 1), FaultCause::Malformed(_)));
}

/// The seed determines which thread stores last.
#[test]
fn a_seed_gives_an_order() {
    let k = kernel(64, |b| {
        let (out, i) = (b.param(0), index(b));
        let operands = [i.into()].into_iter().collect();
        let (space, op, ty) = (StateSpace::Global, ptx_asm::AtomicOp::Exchange, Ty::B32);
        b.push(ptx_asm::Inst::Atomic { space, op, ty, dst: None, at: AddressOperand::at(out), operands });
    });
    let last = |order| {
        let mut gpu = SimulatedGpu::new();
        let out = gpu.put("out", vec![0; 4]);
        run(&k, &SimLaunch::new(4, &[out.address()]), &mut gpu, order).expect("it is right");
        words_of(&gpu, out)[0]
    };
    assert_eq!(last(ExecutionOrder::Sequential), 255);
    let by_seed: Vec<u32> = (0..32).map(|seed| last(ExecutionOrder::Random { seed })).collect();
    assert_eq!(by_seed, (0..32).map(|seed| last(ExecutionOrder::Random { seed })).collect::<Vec<u32>>());
    // Different seeds let other blocks, warps and lanes store last.
    for part in [64, 32, 1] {
        let parts: Vec<u32> = by_seed.iter().map(|thread| thread / part % 2).collect();
        assert!(parts.contains(&0) && parts.contains(&1), "{by_seed:?}");
    }
}

#[test]
fn specials_say_where_a_thread_is() {
    let k = kernel(40, |b| {
        let specials =
            [SpecialReg::Lane, SpecialReg::Blocks, SpecialReg::Block].map(|special| b.special(special));
        let sum = specials
            .into_iter()
            .fold(b.special(SpecialReg::Thread), |sum, next| b.mul_add(Ty::U32, sum, 100_u32, next));
        give(b, sum);
    });
    let found = words(&k, 3, 120);
    assert_eq!(found[40 + 35], 35_03_03_01);
    assert_eq!(found[80], 3_02);
}

#[test]
fn unwritten_registers_are_not_read() {
    let unwritten = kernel(32, |b| {
        let never = b.register(RegClass::B32);
        give(b, never);
    });
    assert!(
        matches!(cause(&unwritten, 1), FaultCause::UnwrittenRegister { reg } if reg.class == RegClass::B32)
    );

    // Half of the lanes write the register.
    let half = kernel(32, |b| {
        let lane = b.special(SpecialReg::Lane);
        let low = b.compare(ptx_asm::CmpOp::Lt, Ty::U32, lane, 16_u32);
        let sometimes = b.register(RegClass::B32);
        b.push_predicated(
            ptx_asm::GuardPredicate::on(low),
            ptx_asm::Inst::Move { dst: sometimes, src: 7_u32.into() },
        );
        give(b, sometimes);
    });
    let fault = outcome(&half, 1, 32, ExecutionOrder::Sequential).expect_err("half of the lanes");
    assert_eq!(fault.site.expect("it ran").thread, 16);

    let guard = kernel(32, |b| {
        let never = b.register(RegClass::Pred);
        b.when(ptx_asm::GuardPredicate::not(never), |_| ());
    });
    assert!(matches!(cause(&guard, 1), FaultCause::UnwrittenRegister { .. }));
}

/// Name of a cause's variant.
fn variant_name(cause: &FaultCause) -> &'static str {
    match cause {
        FaultCause::Malformed(_) => "Malformed",
        FaultCause::Params { .. } => "Params",
        FaultCause::UnwrittenRegister { .. } => "UnwrittenRegister",
        FaultCause::OutOfBounds { .. } => "OutOfBounds",
        FaultCause::Misaligned { .. } => "Misaligned",
        FaultCause::Uninitialized { .. } => "Uninitialized",
        FaultCause::Race { .. } => "Race",
        FaultCause::ConflictingLanes { .. } => "Clash",
        FaultCause::NotConstant { .. } => "NotConstant",
        FaultCause::PendingCopy { .. } => "UnderWay",
        FaultCause::SourceChanged { .. } => "SourceChanged",
        FaultCause::PendingRead { .. } => "StillRead",
        FaultCause::Unfenced { .. } => "Unfenced",
        FaultCause::IsBarrier { .. } => "IsBarrier",
        FaultCause::NoBarrier { .. } => "NoBarrier",
        FaultCause::Barrier { .. } => "Barrier",
        FaultCause::InvalidTile(_) => "Tile",
        FaultCause::Accumulator { .. } => "Accumulator",
        FaultCause::Warpgroup(_) => "Warpgroup",
        FaultCause::RegisterCount { .. } => "Registers",
        FaultCause::ClusterBlock { .. } => "ClusterBlock",
        FaultCause::Outstanding(_) => "Outstanding",
        FaultCause::PartialWarp { .. } => "PartialWarp",
        FaultCause::ShuffleLane { .. } => "ShuffleLane",
        FaultCause::CopySize { .. } => "CopySize",
        FaultCause::BarrierSize { .. } => "BarrierSize",
        FaultCause::Deadlock(_) => "Deadlock",
        FaultCause::Limit(_) => "Limit",
    }
}
