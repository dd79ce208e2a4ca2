//! `wgmma`: operand layouts, accumulator layout, and synchronization.
//!
//! The tests place operands by other formulas than the simulator: by PTX's tables of core matrices (8 rows of
//! 16 bytes) and swizzles.

use super::{ExecutionOrder, FaultCause, ORDERS};
use crate::{SimFault, SimLaunch, SimulatedGpu, run};
use ptx_asm::{
    AddressOperand, CmpOp, GuardPredicate, Inst, PtxBinaryOp, PtxBuilder, PtxKernel, PtxOperand, Reg,
    RegClass, Regs, SpecialReg, StateSpace, Ty,
};

/// Layout of an operand: swizzle span in bytes (16: none), and whether it is M- or N-major.
#[derive(Clone, Copy, Debug)]
struct OperandLayout {
    span: usize,
    lines_innermost: bool,
}

const ROWS: usize = 64;

/// The leading offset exceeds eight stride offsets, so that a test notices if the two are confused.
const LEADING: usize = 10 << 10;
const STRIDE: usize = 1024;

impl OperandLayout {
    fn descriptor(self) -> u64 {
        let mode = [(16, 0), (128, 1), (64, 2), (32, 3)].iter().find(|(span, _)| *span == self.span);
        let mode = mode.expect("there are four").1;
        (LEADING as u64 >> 4) << 16 | (STRIDE as u64 >> 4) << 32 | mode << 62
    }

    /// Byte offset of an element.
    fn offset(self, line: usize, step: usize, size: usize) -> usize {
        // The core matrix, its row, the chunk in the row, and the byte in the chunk.
        let (row, chunk, core) = if self.lines_innermost {
            let atom = self.span / size;
            let (first, second) = if self.span == 16 { (STRIDE, LEADING) } else { (LEADING, STRIDE) };
            (step % 8, line % atom * size / 16, line / atom * first + step / 8 * second)
        } else if self.span == 16 {
            (line % 8, 0, line / 8 * STRIDE + step * size / 16 * LEADING)
        } else {
            (line % 8, step * size / 16, line / 8 * STRIDE)
        };
        let byte = if self.lines_innermost { line * size % 16 } else { step * size % 16 };
        let exchanged = chunk ^ (row * self.span / 128 % (self.span / 16));
        core + row * self.span + exchanged * 16 + byte
    }
}

/// Bytes of an operand in shared memory.
const OPERAND_BYTES: u32 = 1 << 15;

struct WgmmaCase {
    element: Ty,
    columns: usize,
    layouts: [OperandLayout; 2],
}

fn number(seed: usize) -> f32 {
    (seed * 7919 % 29) as f32 / 4.0 - 3.5
}

impl WgmmaCase {
    fn size(&self) -> usize {
        self.element.bytes() as usize
    }

    fn depth(&self) -> usize {
        32 / self.size()
    }

    fn lines(&self, which: usize) -> usize {
        [ROWS, self.columns][which]
    }

    fn element(&self, which: usize, line: usize, step: usize) -> f32 {
        number(line * self.depth() + step + which * 1000)
    }

    fn image(&self, which: usize) -> Vec<u8> {
        let mut image = vec![0; OPERAND_BYTES as usize];
        for line in 0..self.lines(which) {
            for step in 0..self.depth() {
                let value = self.element(which, line, step);
                let at = self.layouts[which].offset(line, step, self.size());
                let bytes = match self.element {
                    Ty::F16 => half::f16::from_f32(value).to_le_bytes().to_vec(),
                    Ty::Bf16 => half::bf16::from_f32(value).to_le_bytes().to_vec(),
                    // `tf32` ignores the low 13 bits.
                    _ => (value.to_bits() | 0x1fff).to_le_bytes().to_vec(),
                };
                image[at..at + bytes.len()].copy_from_slice(&bytes);
            }
        }
        image
    }

    fn multiply(&self, d: &Regs, [a, b]: [Reg; 2], accumulate: Reg) -> Inst {
        Inst::Wgmma {
            element: self.element,
            columns: self.columns as u32,
            d: d.clone(),
            a,
            b,
            transposed: self.layouts.map(|layout| layout.lines_innermost),
            accumulate,
        }
    }
}

/// The matrix descriptor of an array.
fn descriptor(b: &mut PtxBuilder, array: u32, rest: u64) -> Reg {
    let at = b.address(StateSpace::Shared, array);
    let at = b.binary(PtxBinaryOp::ShiftRight, Ty::U32, at, 4_u32);
    let zero = b.mov(RegClass::B32, 0_u32);
    let at = b.pack(RegClass::B64, at, zero);
    b.binary(PtxBinaryOp::Or, Ty::B64, at, PtxOperand::Const(rest))
}

/// A kernel of one warpgroup that copies two operands into shared memory; `then` receives zeroed accumulators
/// and descriptors.
fn kernel(case: &WgmmaCase, fence: bool, then: impl FnOnce(&mut PtxBuilder, &Regs, [Reg; 2])) -> PtxKernel {
    let mut b = PtxBuilder::new("wgmma", 3, 128);
    let arrays = [b.shared(OPERAND_BYTES, 1024), b.shared(OPERAND_BYTES, 1024)];
    for (param, &array) in arrays.iter().enumerate() {
        let (thread, base, from) =
            (b.special(SpecialReg::Thread), b.address(StateSpace::Shared, array), b.param(param as u32));
        let step = b.mov(RegClass::B32, thread);
        b.repeat(|b| {
            let source = b.mul_add_wide(Ty::U32, step, 16_u32, from);
            let words = b.load_vector(StateSpace::Global, Ty::B32, true, AddressOperand::at(source), 4);
            let to = b.mul_add(Ty::U32, step, 16_u32, base);
            b.store_vector(StateSpace::Shared, Ty::B32, AddressOperand::at(to), &words);
            let next = b.add(Ty::U32, step, 128_u32);
            b.set(step, next);
            GuardPredicate::on(b.compare(CmpOp::Lt, Ty::U32, step, OPERAND_BYTES / 16))
        });
    }
    if fence {
        b.push(Inst::FenceProxyAsync);
    }
    b.barrier();
    let d = (0..case.columns / 2).map(|_| b.mov(RegClass::F32, 0_u32)).collect();
    let mut descriptors = [0, 1].into_iter();
    let descriptors = [(); 2].map(|()| {
        let which = descriptors.next().unwrap_or(0);
        descriptor(&mut b, arrays[which], case.layouts[which].descriptor())
    });
    then(&mut b, &d, descriptors);
    b.finish()
}

/// Stores each lane's accumulators consecutively.
fn give(b: &mut PtxBuilder, d: &Regs) {
    let (thread, out) = (b.special(SpecialReg::Thread), b.param(2));
    let at = b.mul_add_wide(Ty::U32, thread, 4 * d.len() as u32, out);
    for (i, &sum) in d.iter().enumerate() {
        b.store(StateSpace::Global, Ty::F32, AddressOperand::at(at).plus(4 * i as i32), sum);
    }
}

fn outcome(case: &WgmmaCase, kernel: &PtxKernel, order: ExecutionOrder) -> Result<Vec<f32>, SimFault> {
    let mut gpu = SimulatedGpu::new();
    let images = [0, 1].map(|which| gpu.put(format!("operand {which}"), case.image(which)).address());
    let out = gpu.reserve("out", ROWS * case.columns * 4);
    run(kernel, &SimLaunch::new(1, &[images[0], images[1], out.address()]), &mut gpu, order)?;
    Ok(gpu.bytes(out).chunks(4).map(|word| f32::from_le_bytes(word.try_into().expect("4"))).collect())
}

fn predicate(b: &mut PtxBuilder, value: bool) -> Reg {
    b.mov(RegClass::Pred, u32::from(value))
}

/// `d = a b`, then `d += a b`, then a wait.
fn twice(case: &WgmmaCase) -> PtxKernel {
    kernel(case, true, |b, d, descriptors| {
        b.push(Inst::WgmmaFence);
        for accumulate in [false, true] {
            let accumulate = predicate(b, accumulate);
            b.push(case.multiply(d, descriptors, accumulate));
        }
        b.push(Inst::WgmmaCommit);
        b.push(Inst::WgmmaWait { pending: 0 });
        give(b, d);
    })
}

fn check(case: &WgmmaCase) {
    let found =
        outcome(case, &twice(case), ExecutionOrder::Sequential).unwrap_or_else(|fault| panic!("{fault}"));
    for row in 0..ROWS {
        for column in 0..case.columns {
            let sum: f32 = (0..case.depth())
                .map(|step| case.element(0, row, step) * case.element(1, column, step))
                .sum();
            // Lane l of warp w holds row 16 w + l / 4 and the row eight further, two adjacent columns each.
            let thread = row / 16 * 32 + row % 8 * 4 + column % 8 / 2;
            let register = column / 8 * 4 + row % 16 / 8 * 2 + column % 2;
            let value = found[thread * case.columns / 2 + register];
            assert_eq!(value, 2.0 * sum, "{:?} {:?}: {row}, {column}", case.element, case.layouts);
        }
    }
}

fn depth(span: usize) -> OperandLayout {
    OperandLayout { span, lines_innermost: false }
}

fn lines(span: usize) -> OperandLayout {
    OperandLayout { span, lines_innermost: true }
}

#[test]
fn operands_lie_as_descriptors_say() {
    for span in [16, 32, 64, 128] {
        for layouts in [[depth(span), lines(span)], [lines(span), depth(span)]] {
            check(&WgmmaCase { element: Ty::Bf16, columns: 64, layouts });
        }
        check(&WgmmaCase { element: Ty::F32, columns: 16, layouts: [depth(span); 2] });
    }
    check(&WgmmaCase { element: Ty::F16, columns: 8, layouts: [depth(128); 2] });
    check(&WgmmaCase { element: Ty::F16, columns: 136, layouts: [depth(32), lines(128)] });
}

const SMALL: WgmmaCase = WgmmaCase {
    element: Ty::Bf16,
    columns: 8,
    layouts: [
        OperandLayout { span: 128, lines_innermost: false },
        OperandLayout { span: 128, lines_innermost: false },
    ],
};

fn causes(kernel: &PtxKernel) -> Vec<FaultCause> {
    ORDERS.map(|order| *outcome(&SMALL, kernel, order).expect_err("it is wrong").cause).into()
}

#[track_caller]
fn all(kernel: &PtxKernel, fits: fn(&FaultCause) -> bool) {
    for cause in causes(kernel) {
        assert!(fits(&cause), "{cause}");
    }
}

/// One `wgmma` of shape [`SMALL`] between `before` and `after`.
fn small(
    before: impl FnOnce(&mut PtxBuilder, &Regs),
    after: impl FnOnce(&mut PtxBuilder, &Regs, [Reg; 2]),
) -> PtxKernel {
    kernel(&SMALL, true, |b, d, descriptors| {
        before(b, d);
        let accumulate = predicate(b, true);
        b.push(SMALL.multiply(d, descriptors, accumulate));
        b.push(Inst::WgmmaCommit);
        after(b, d, descriptors);
    })
}

const FENCE: fn(&mut PtxBuilder, &Regs) = |b, _| b.push(Inst::WgmmaFence);
const WAIT: Inst = Inst::WgmmaWait { pending: 0 };

fn is_accumulator(cause: &FaultCause) -> bool {
    matches!(cause, FaultCause::Accumulator { .. })
}

#[test]
fn sums_are_waited_for() {
    assert!(outcome(&SMALL, &small(FENCE, |b, _, _| b.push(WAIT)), ExecutionOrder::Sequential).is_ok());
    all(
        &small(FENCE, |b, d, _| {
            b.add(Ty::F32, d[0], 0.0_f32);
            b.push(WAIT);
        }),
        is_accumulator,
    );
    all(
        &small(FENCE, |b, d, _| {
            b.set(d[3], 0_u32);
            b.push(WAIT);
        }),
        is_accumulator,
    );
    all(&small(FENCE, |_, _, _| ()), |cause| matches!(cause, FaultCause::Outstanding(_)));
    // The wait leaves one group incomplete.
    all(
        &small(FENCE, |b, d, _| {
            b.push(Inst::WgmmaWait { pending: 1 });
            b.set(d[3], 0_u32);
            b.push(WAIT);
        }),
        is_accumulator,
    );
    // A wait does not cover operations that are not committed.
    let open = kernel(&SMALL, true, |b, d, descriptors| {
        b.push(Inst::WgmmaFence);
        let accumulate = predicate(b, true);
        b.push(SMALL.multiply(d, descriptors, accumulate));
        b.push(WAIT);
        b.set(d[0], 0_u32);
    });
    all(&open, is_accumulator);
}

#[test]
fn fences_follow_what_threads_did() {
    all(&small(|_, _| (), |b, _, _| b.push(WAIT)), is_accumulator);
    let touched = |fence: bool| {
        small(FENCE, |b, d, descriptors| {
            b.push(WAIT);
            b.add(Ty::F32, d[0], 0.0_f32);
            if fence {
                b.push(Inst::WgmmaFence);
            }
            let accumulate = predicate(b, true);
            b.push(SMALL.multiply(d, descriptors, accumulate));
            b.push(Inst::WgmmaCommit);
            b.push(WAIT);
        })
    };
    assert!(outcome(&SMALL, &touched(true), ExecutionOrder::Sequential).is_ok());
    all(&touched(false), is_accumulator);
    // A `wgmma` of another shape must not use the same accumulators without a wait.
    let shapes = small(FENCE, |b, d, descriptors| {
        let more: Regs = d.iter().rev().copied().collect();
        let accumulate = predicate(b, true);
        b.push(SMALL.multiply(&more, descriptors, accumulate));
        b.push(Inst::WgmmaCommit);
        b.push(WAIT);
    });
    all(&shapes, is_accumulator);
}

/// Threads must fence the operands that they wrote, and keep them until all warps have waited.
#[test]
fn operands_must_not_change() {
    let unfenced = kernel(&SMALL, false, |b, d, descriptors| {
        b.push(Inst::WgmmaFence);
        let accumulate = predicate(b, true);
        b.push(SMALL.multiply(d, descriptors, accumulate));
    });
    all(&unfenced, |cause| matches!(cause, FaultCause::Unfenced { .. }));
    let overwritten = |waits: bool, synchronizes: bool| {
        small(FENCE, |b, _, _| {
            if waits {
                b.push(WAIT);
            }
            if synchronizes {
                b.barrier();
            }
            let thread = b.special(SpecialReg::Thread);
            let last = b.compare(CmpOp::Eq, Ty::U32, thread, 127_u32);
            b.when(GuardPredicate::on(last), |b| {
                b.store(StateSpace::Shared, Ty::B32, AddressOperand::array(0), 0_u32)
            });
            if !waits {
                b.push(WAIT);
            }
        })
    };
    assert!(outcome(&SMALL, &overwritten(true, true), ExecutionOrder::Sequential).is_ok());
    all(&overwritten(false, true), |cause| matches!(cause, FaultCause::PendingRead { .. }));
    all(&overwritten(true, false), |cause| {
        matches!(
            cause,
            FaultCause::PendingRead { .. } | FaultCause::Race { .. } | FaultCause::Unfenced { .. }
        )
    });
}

#[test]
fn four_warps_act_as_one() {
    let parted = |threads: u32| {
        kernel(&SMALL, true, |b, _, _| {
            let thread = b.special(SpecialReg::Thread);
            let some = b.compare(CmpOp::Lt, Ty::U32, thread, threads);
            b.when(GuardPredicate::on(some), |b| b.push(Inst::WgmmaFence));
        })
    };
    assert!(outcome(&SMALL, &parted(128), ExecutionOrder::Sequential).is_ok());
    all(&parted(64), |cause| matches!(cause, FaultCause::Outstanding(_)));
    all(&parted(65), |cause| matches!(cause, FaultCause::PartialWarp { .. }));
    // One warp executes another instruction.
    let other = kernel(&SMALL, true, |b, _, _| {
        let thread = b.special(SpecialReg::Thread);
        let some = b.compare(CmpOp::Lt, Ty::U32, thread, 32_u32);
        b.if_else(GuardPredicate::on(some), |b| b.push(Inst::WgmmaFence), |b| b.push(Inst::WgmmaCommit));
    });
    all(&other, |cause| matches!(cause, FaultCause::Warpgroup(_)));
    let uneven = kernel(&SMALL, true, |b, d, [left, right]| {
        let lane = b.special(SpecialReg::Lane);
        let zero = b.mov(RegClass::B32, 0_u32);
        let by = b.pack(RegClass::B64, lane, zero);
        let left = b.add(Ty::U64, left, by);
        b.push(Inst::WgmmaFence);
        let accumulate = predicate(b, true);
        b.push(SMALL.multiply(d, [left, right], accumulate));
    });
    all(&uneven, |cause| matches!(cause, FaultCause::Warpgroup(_)));
}

#[test]
fn descriptors_are_checked() {
    let with = |change: fn(&mut PtxBuilder, Reg) -> Reg| {
        kernel(&SMALL, true, |b, d, [left, right]| {
            b.push(Inst::WgmmaFence);
            let left = change(b, left);
            let accumulate = predicate(b, true);
            b.push(SMALL.multiply(d, [left, right], accumulate));
        })
    };
    // A base offset, a start within the swizzle pattern, and a start outside of every array.
    all(&with(|b, d| b.binary(PtxBinaryOp::Or, Ty::B64, d, PtxOperand::Const(1 << 49))), |cause| {
        matches!(cause, FaultCause::InvalidTile(_))
    });
    all(&with(|b, d| b.add(Ty::U64, d, PtxOperand::Const(128 >> 4))), |cause| {
        matches!(cause, FaultCause::InvalidTile(_))
    });
    all(&with(|b, d| b.add(Ty::U64, d, PtxOperand::Const(0x20000 >> 4))), |cause| {
        matches!(cause, FaultCause::OutOfBounds { .. })
    });
}

/// One warpgroup releases the registers that others take.
#[test]
fn registers_are_exchanged() {
    let k = |steps: &'static [(u32, u32, bool)]| {
        let mut b = PtxBuilder::new("k", 0, 384);
        b.min_blocks_per_sm(1);
        let thread = b.special(SpecialReg::Thread);
        for &(group, count, increase) in steps {
            let number = b.binary(PtxBinaryOp::ShiftRight, Ty::U32, thread, 7_u32);
            let it = b.compare(CmpOp::Eq, Ty::U32, number, group);
            b.when(GuardPredicate::on(it), |b| b.push(Inst::SetMaxRegisters { count, increase }));
        }
        b.finish()
    };
    let outcome = |kernel: &PtxKernel, order| {
        run(kernel, &SimLaunch::new(1, &[]), &mut SimulatedGpu::new(), order).map(|_| ())
    };
    let found = |kernel: &PtxKernel, order| *outcome(kernel, order).expect_err("it is wrong").cause;
    for order in ORDERS {
        // Each thread has 168 registers at first. The warpgroups that request more come first, so they wait.
        assert_eq!(outcome(&k(&[(1, 232, true), (2, 232, true), (0, 40, false)]), order), Ok(()));
        let stuck = found(&k(&[(1, 240, true), (2, 240, true), (0, 40, false)]), order);
        assert!(
            matches!(&stuck, FaultCause::Deadlock(what) if what.contains("240 registers a thread")),
            "{stuck}"
        );
        let wrong = found(&k(&[(0, 200, false)]), order);
        assert_eq!(wrong, FaultCause::RegisterCount { found: 168, count: 200, increase: false });
        let wrong = found(&k(&[(0, 40, true)]), order);
        assert_eq!(wrong, FaultCause::RegisterCount { found: 168, count: 40, increase: true });
    }
}
