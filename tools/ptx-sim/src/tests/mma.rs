//! Matrix instructions of a warp, and fragments in shared memory.
//!
//! The tests build fragments by other formulas than the simulator: by PTX's tables of lanes and registers.

use super::{ExecutionOrder, FaultCause, cause, kernel};
use crate::float::{BF16, F16, FloatFormat, RoundingDirection};
use crate::{SimLaunch, SimulatedGpu, run};
use ptx_asm::{
    AddressOperand, CmpOp, GuardPredicate, Inst, MmaShape, PtxBuilder, RegClass, Regs, SpecialReg,
    StateSpace, Ty,
};

/// Multiples of 1/8 from -7.5 to 7.5. Every format represents them, and sums of their products are exact.
fn matrix(rows: usize, columns: usize, seed: u64) -> Vec<Vec<f64>> {
    let mut chance = fastrand::Rng::with_seed(seed);
    (0..rows).map(|_| (0..columns).map(|_| f64::from(chance.i32(-60..=60)) / 8.0).collect()).collect()
}

/// The lane and register that hold an element.
struct FragmentElement {
    lane: usize,
    register: usize,
    /// Which 16-bit half of the register.
    half: usize,
}

/// The place of the element at a row and column of a 16-bit A.
fn a16(row: usize, column: usize) -> FragmentElement {
    FragmentElement {
        lane: row % 8 * 4 + column % 8 / 2,
        register: row / 8 + column / 8 * 2,
        half: column % 2,
    }
}

/// The place of the element at a row and column of a 16-bit B.
fn b16(row: usize, column: usize) -> FragmentElement {
    FragmentElement { lane: column * 4 + row % 8 / 2, register: row / 8, half: row % 2 }
}

fn a_tf32(row: usize, column: usize) -> FragmentElement {
    FragmentElement { lane: row % 8 * 4 + column % 4, register: row / 8 + column / 4 * 2, half: 0 }
}

fn b_tf32(row: usize, column: usize) -> FragmentElement {
    FragmentElement { lane: column * 4 + row % 4, register: row / 4, half: 0 }
}

fn sums(row: usize, column: usize) -> FragmentElement {
    FragmentElement { lane: row % 8 * 4 + column / 2, register: row / 8 * 2 + column % 2, half: 0 }
}

/// The registers of all lanes, lane by lane.
fn fragment(
    matrix: &[Vec<f64>],
    registers: usize,
    element: impl Fn(usize, usize) -> FragmentElement,
    encode: impl Fn(f64) -> u32,
) -> Vec<u8> {
    let mut words = vec![0_u32; 32 * registers];
    for (row, values) in matrix.iter().enumerate() {
        for (column, &value) in values.iter().enumerate() {
            let element = element(row, column);
            words[element.lane * registers + element.register] |= encode(value) << (16 * element.half);
        }
    }
    words.into_iter().flat_map(u32::to_le_bytes).collect()
}

/// Loads a lane's registers of a fragment.
fn load(b: &mut PtxBuilder, param: u32, ty: Ty, registers: usize) -> Regs {
    let (lane, base) = (b.special(SpecialReg::Lane), b.param(param));
    let at = b.mul_add_wide(Ty::U32, lane, 4 * registers as u32, base);
    b.load_vector(StateSpace::Global, ty, true, AddressOperand::at(at), registers)
}

fn mma_kernel(shape: MmaShape) -> ptx_asm::PtxKernel {
    let mut b = PtxBuilder::new("mma", 4, 32);
    let (left, right) = (load(&mut b, 0, Ty::B32, 4), load(&mut b, 1, Ty::B32, 2));
    let c = load(&mut b, 2, Ty::F32, 4);
    b.push(Inst::Mma { shape, d: c.clone(), a: left, b: right, c: c.clone() });
    let (lane, base) = (b.special(SpecialReg::Lane), b.param(3));
    let at = b.mul_add_wide(Ty::U32, lane, 16_u32, base);
    b.store_vector(StateSpace::Global, Ty::F32, AddressOperand::at(at), &c);
    b.finish()
}

fn check_mma(shape: MmaShape, depth: usize, a: Vec<u8>, b: Vec<u8>, [x, y]: [&[Vec<f64>]; 2]) {
    let c = matrix(16, 8, 3);
    let mut gpu = SimulatedGpu::new();
    let bits = |value: f64| (value as f32).to_bits();
    let regions =
        [gpu.put("a", a), gpu.put("b", b), gpu.put("c", fragment(&c, 4, sums, bits)), gpu.reserve("d", 512)];
    let params = regions.map(|region| region.address());
    run(&mma_kernel(shape), &SimLaunch::new(1, &params), &mut gpu, ExecutionOrder::Sequential)
        .expect("it is right");
    let found = super::words_of(&gpu, regions[3]);
    for row in 0..16 {
        for column in 0..8 {
            let element = sums(row, column);
            let exact: f64 = (0..depth).map(|k| x[row][k] * y[k][column]).sum::<f64>() + c[row][column];
            let value = f32::from_bits(found[element.lane * 4 + element.register]);
            assert_eq!(f64::from(value), exact, "{shape:?} {row} {column}");
        }
    }
}

#[test]
fn mma_of_16_bits() {
    for (shape, format) in [(MmaShape::F16K16, F16), (MmaShape::Bf16K16, BF16)] {
        let (x, y) = (matrix(16, 16, 1), matrix(16, 8, 2));
        let encode = |value| FloatFormat::encode(format, value, RoundingDirection::Nearest) as u32;
        check_mma(shape, 16, fragment(&x, 4, a16, encode), fragment(&y, 2, b16, encode), [&x, &y]);
    }
}

/// `tf32` ignores the low bits of an `f32`.
#[test]
fn mma_of_tf32() {
    let (x, y) = (matrix(16, 8, 1), matrix(8, 8, 2));
    for noise in [0, 0x1fff] {
        let encode = |value: f64| (value as f32).to_bits() | noise;
        check_mma(
            MmaShape::Tf32K8,
            8,
            fragment(&x, 4, a_tf32, encode),
            fragment(&y, 2, b_tf32, encode),
            [&x, &y],
        );
    }
}

/// Loads `count` matrices of 8 rows of a row-major array of 16-bit numbers; returns the lanes' registers.
fn matrices(count: usize, transposed: bool) -> Vec<u32> {
    let k = kernel(32, |b| {
        let array = b.shared(16 * 32, 16);
        // Element (r, c) of matrix m is 256 m + 16 r + c; each thread writes one row.
        let (thread, base) = (b.special(SpecialReg::Thread), b.address(StateSpace::Shared, array));
        let row = b.mul_add(Ty::U32, thread, 16_u32, base);
        let matrix = b.binary(ptx_asm::PtxBinaryOp::ShiftRight, Ty::U32, thread, 3_u32);
        let within = b.binary(ptx_asm::PtxBinaryOp::And, Ty::B32, thread, 7_u32);
        let first = b.binary(ptx_asm::PtxBinaryOp::ShiftLeft, Ty::B32, within, 4_u32);
        let first = b.mul_add(Ty::U32, matrix, 256_u32, first);
        for column in 0..8 {
            let value = b.add(Ty::U32, first, column as u32);
            let [low, _] = b.unpack(RegClass::B16, value);
            b.store(StateSpace::Shared, Ty::U16, AddressOperand::at(row).plus(2 * column), low);
        }
        b.barrier();
        let dsts = b.registers(RegClass::B32, count);
        b.push(Inst::Ldmatrix { transposed, dsts: dsts.clone(), from: AddressOperand::at(row) });
        let (lane, out) = (b.special(SpecialReg::Lane), b.param(0));
        let at = b.mul_add_wide(Ty::U32, lane, 4 * count as u32, out);
        b.store_vector(StateSpace::Global, Ty::B32, AddressOperand::at(at), &dsts);
    });
    super::words(&k, 1, 32 * count)
}

#[test]
fn matrices_from_shared_memory() {
    for count in [1, 2, 4] {
        for transposed in [false, true] {
            let found = matrices(count, transposed);
            for lane in 0..32 {
                for matrix in 0..count {
                    let (line, pair) = (lane / 4, lane % 4 * 2);
                    let element = |i: usize| {
                        let (row, column) = if transposed { (pair + i, line) } else { (line, pair + i) };
                        (256 * matrix + 16 * row + column) as u32
                    };
                    assert_eq!(
                        found[lane * count + matrix],
                        element(0) | element(1) << 16,
                        "{lane} {matrix}"
                    );
                }
            }
        }
    }
}

/// `stmatrix` stores a fragment. `ldmatrix` loads it again, transposed or not.
#[test]
fn matrices_into_shared_memory() {
    for (count, transposed) in [1, 2, 4].into_iter().flat_map(|n| [(n, false), (n, true)]) {
        let k = |barrier: bool| {
            kernel(32, |b| {
                let array = b.shared(16 * 32, 16);
                let (thread, base) = (b.special(SpecialReg::Thread), b.address(StateSpace::Shared, array));
                let row = b.mul_add(Ty::U32, thread, 16_u32, base);
                let from: Regs = (0..count)
                    .map(|i| {
                        b.mul_add(Ty::U32, thread, 0x0002_0002_u32, 0x0001_0000 + 0x0100_0100 * i as u32)
                    })
                    .collect();
                b.push(Inst::Stmatrix { from, to: AddressOperand::at(row) });
                if barrier {
                    b.barrier();
                }
                let dsts = b.registers(RegClass::B32, count);
                b.push(Inst::Ldmatrix { transposed, dsts: dsts.clone(), from: AddressOperand::at(row) });
                let out = b.param(0);
                let at = b.mul_add_wide(Ty::U32, thread, 4 * count as u32, out);
                b.store_vector(StateSpace::Global, Ty::B32, AddressOperand::at(at), &dsts);
            })
        };
        let found = super::words(&k(true), 1, 32 * count);
        for (i, &word) in found.iter().enumerate() {
            let (lane, matrix) = ((i / count) as u32, (i % count) as u32);
            // Elements of a matrix are numbered in row-major order.
            let element = |half: u32| {
                let at = 2 * lane + half;
                let at = if transposed { at % 8 * 8 + at / 8 } else { at };
                (at + 0x100 * matrix) & 0xffff
            };
            assert_eq!(word, element(0) | element(1) << 16, "{count} {transposed} {lane}");
        }
        assert!(matches!(cause(&k(false), 1), FaultCause::Race { .. }));
    }
}

#[test]
fn rows_of_matrices_are_checked() {
    let k = |offset: i32, barrier: bool| {
        kernel(32, |b| {
            let array = b.shared(16 * 32, 16);
            let (thread, base) = (b.special(SpecialReg::Thread), b.address(StateSpace::Shared, array));
            let row = b.mul_add(Ty::U32, thread, 16_u32, base);
            let zero = b.mov(RegClass::B32, 0_u32);
            b.store_vector(StateSpace::Shared, Ty::B32, AddressOperand::at(row), &[zero; 4]);
            if barrier {
                b.barrier();
            }
            let dsts = b.registers(RegClass::B32, 4);
            b.push(Inst::Ldmatrix { transposed: false, dsts, from: AddressOperand::at(row).plus(offset) });
        })
    };
    super::words(&k(0, true), 1, 0);
    // Other lanes receive a row that one lane wrote, so a barrier is needed.
    assert!(matches!(cause(&k(0, false), 1), FaultCause::Race { .. }));
    // A row that several lanes wrote with equal values needs a barrier, too.
    let alike = kernel(32, |b| {
        let array = b.shared(16 * 8, 16);
        let (lane, base) = (b.special(SpecialReg::Lane), b.address(StateSpace::Shared, array));
        let row = b.binary(ptx_asm::PtxBinaryOp::And, Ty::B32, lane, 7_u32);
        let row = b.mul_add(Ty::U32, row, 16_u32, base);
        let zero = b.mov(RegClass::B32, 0_u32);
        b.store_vector(StateSpace::Shared, Ty::B32, AddressOperand::at(row), &[zero; 4]);
        let dsts = b.registers(RegClass::B32, 1);
        b.push(Inst::Ldmatrix { transposed: false, dsts, from: AddressOperand::at(row) });
    });
    assert!(matches!(cause(&alike, 1), FaultCause::Race { .. }));
    assert!(matches!(cause(&k(8, true), 1), FaultCause::Misaligned { align: 16, .. }));
    assert!(matches!(cause(&k(16, true), 1), FaultCause::OutOfBounds { .. }));
    let missing = kernel(32, |b| {
        let array = b.shared(16, 16);
        let dsts = b.registers(RegClass::B32, 1);
        b.push(Inst::Ldmatrix { transposed: false, dsts, from: AddressOperand::array(array) });
    });
    assert!(matches!(cause(&missing, 1), FaultCause::Uninitialized { .. }));
}

#[test]
fn whole_warps_multiply() {
    let torn = |multiply: bool| {
        kernel(32, |b| {
            let array = b.shared(16, 16);
            let lane = b.special(SpecialReg::Lane);
            let some = b.compare(CmpOp::Ne, Ty::U32, lane, 3_u32);
            let words: Regs = (0..4).map(|_| b.mov(RegClass::B32, 0_u32)).collect();
            let c: Regs = (0..4).map(|_| b.mov(RegClass::F32, 0_u32)).collect();
            b.when(GuardPredicate::on(some), |b| {
                b.push(if multiply {
                    let right = words[..2].into();
                    Inst::Mma {
                        shape: MmaShape::F16K16,
                        d: c.clone(),
                        a: words.clone(),
                        b: right,
                        c: c.clone(),
                    }
                } else {
                    Inst::Ldmatrix {
                        transposed: false,
                        dsts: words.clone(),
                        from: AddressOperand::array(array),
                    }
                });
            });
        })
    };
    for multiply in [false, true] {
        assert!(matches!(cause(&torn(multiply), 1), FaultCause::PartialWarp { active: 0xffff_fff7, .. }));
    }
    let short = kernel(32, |b| {
        let words: Regs = (0..4).map(|_| b.mov(RegClass::B32, 0_u32)).collect();
        let c: Regs = (0..4).map(|_| b.mov(RegClass::F32, 0_u32)).collect();
        b.push(Inst::Mma { shape: MmaShape::F16K16, d: c.clone(), a: words.clone(), b: words, c });
    });
    assert!(matches!(cause(&short, 1), FaultCause::Malformed(_)));
}
