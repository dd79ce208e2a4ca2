//! Matrix instructions of a warp: `mma`, `ldmatrix`, `stmatrix`.
//!
//! A fragment has groups of eight rows (or columns). In each group, lane `l` holds elements of row (or
//! column) `l / 4`; `l mod 4` determines which elements.

use super::arith::truncate;
use super::collective::whole;
use super::fault::{AccessKind, InLane, StepResult, malformed};
use super::float::{BF16, F16, F32, FloatFormat};
use super::registers::{LaneValues, lanes};
use super::scheduler::{ClusterState, LaunchState};
use super::vector_clocks::SEVERAL_THREADS;
use super::warp::Warp;
use ptx_asm::MmaShape;
use ptx_asm::{AddressOperand, Reg, Regs, StateSpace};

/// The register layout of an [`MmaShape`].
#[derive(Clone, Copy, Debug)]
struct FragmentLayout {
    format: FloatFormat,
    /// Elements per register.
    packed: usize,
    /// K: columns of A and rows of B.
    k: usize,
}

impl FragmentLayout {
    fn of(shape: MmaShape) -> FragmentLayout {
        match shape {
            MmaShape::F16K16 => FragmentLayout { format: F16, packed: 2, k: 16 },
            MmaShape::Bf16K16 => FragmentLayout { format: BF16, packed: 2, k: 16 },
            MmaShape::Tf32K8 => FragmentLayout { format: F32, packed: 1, k: 8 },
        }
    }

    /// Index along K of a lane's element, in one half of K.
    fn k_index(self, lane: usize, half: usize, element: usize) -> usize {
        half * self.k / 2 + lane % 4 * self.packed + element
    }

    /// Decodes an element of a register.
    fn element(self, bits: u64, element: usize) -> f64 {
        if self.packed == 1 {
            // `tf32` ignores the low 13 bits of an `f32`.
            return self.format.decode(truncate(bits, 32) & !0x1fff);
        }
        self.format.decode(truncate(bits >> (16 * element), 16))
    }

    /// The 16 rows of A. Register `i` holds eight rows, from row `8 (i mod 2)`, in half `i / 2` of K.
    fn a_rows(self, registers: &[LaneValues]) -> [[f64; 16]; 16] {
        let mut matrix = [[0.0; 16]; 16];
        for (i, values) in registers.iter().enumerate() {
            for (lane, &bits) in values.iter().enumerate() {
                for element in 0..self.packed {
                    matrix[lane / 4 + i % 2 * 8][self.k_index(lane, i / 2, element)] =
                        self.element(bits, element);
                }
            }
        }
        matrix
    }

    /// The 8 columns of B. Register `i` holds half `i` of K.
    fn b_columns(self, registers: &[LaneValues]) -> [[f64; 16]; 8] {
        let mut matrix = [[0.0; 16]; 8];
        for (i, values) in registers.iter().enumerate() {
            for (lane, &bits) in values.iter().enumerate() {
                for element in 0..self.packed {
                    matrix[lane / 4][self.k_index(lane, i, element)] = self.element(bits, element);
                }
            }
        }
        matrix
    }
}

/// Row and column of a lane's accumulator register.
fn accumulator_index(lane: usize, register: usize) -> (usize, usize) {
    (lane / 4 + register / 2 * 8, lane % 4 * 2 + register % 2)
}

impl LaunchState<'_> {
    /// Executes [`ptx_asm::Inst::Mma`]. Products are exact; they are added in `f64`, in the order of K, and
    /// rounded once. The hardware's order and intermediate rounding are unspecified.
    pub(super) fn mma(
        &self,
        warp: &mut Warp,
        mask: u32,
        shape: MmaShape,
        [d, a, b, c]: [&Regs; 4],
    ) -> StepResult<()> {
        whole(mask)?;
        if (a.len(), b.len(), c.len(), d.len()) != (4, 2, 4, 4) {
            return malformed(format!("{shape:?} of {} + {} registers", a.len(), b.len())).in_lane(0);
        }
        let fragments = FragmentLayout::of(shape);
        let left = fragments.a_rows(&self.fragment(warp, a)?);
        let right = fragments.b_columns(&self.fragment(warp, b)?);
        let mut sums = self.fragment(warp, c)?;
        for (register, values) in sums.iter_mut().enumerate() {
            for (lane, bits) in values.iter_mut().enumerate() {
                let (row, column) = accumulator_index(lane, register);
                let products = left[row].iter().zip(&right[column]).take(fragments.k);
                let sum = products.fold(F32.decode(*bits), |sum, (a, b)| sum + a * b);
                let sum = sum as f32;
                *bits = if sum.is_nan() { F32.nan() } else { u64::from(sum.to_bits()) };
            }
        }
        for (&reg, values) in d.iter().zip(&sums) {
            warp.registers.set(self.program, reg, mask, values);
        }
        Ok(())
    }

    /// The contents of a fragment's registers, which must have 32 bits.
    fn fragment(&self, warp: &Warp, regs: &[Reg]) -> StepResult<Vec<LaneValues>> {
        let get = |&reg| warp.registers.get(self.program, reg, u32::MAX).copied();
        regs.iter().map(get).collect()
    }

    /// Executes [`ptx_asm::Inst::Ldmatrix`].
    pub(super) fn ldmatrix(
        &mut self,
        warp: &mut Warp,
        shared: &mut ClusterState,
        (inst, mask): (usize, u32),
        transposed: bool,
        dsts: &[Reg],
        from: AddressOperand,
    ) -> StepResult<()> {
        whole(mask)?;
        if !matches!(dsts.len(), 1 | 2 | 4) {
            return malformed(format!("{} matrices", dsts.len())).in_lane(0);
        }
        // Mask of the lanes that give row addresses.
        let rows = u32::MAX >> (32 - 8 * dsts.len());
        let addresses = self.addresses(warp, rows, StateSpace::Shared, from)?;
        self.count(inst, StateSpace::Shared, rows, &addresses, 16);
        let mut data = [[0; 16]; 32];
        for lane in lanes(rows) {
            // Other lanes receive the row at this lane's address, so the access counts for several lanes.
            let mut who = warp.thread_ref(lane);
            let located = self.locate(StateSpace::Shared, &who, addresses[lane], 16, 16).in_lane(lane)?;
            who.thread = SEVERAL_THREADS;
            self.check_access(shared, &who, located, 16, AccessKind::Read).in_lane(lane)?;
            self.record_access(shared, &who, located, 16, AccessKind::Read);
            data[lane] = self.peek(shared, &who, located, 16);
        }
        for (&dst, rows) in dsts.iter().zip(data.chunks(8)) {
            let values = std::array::from_fn(|lane| fragment_elements(rows, lane, transposed));
            warp.registers.set(self.program, dst, mask, &values);
        }
        Ok(())
    }
}

impl LaunchState<'_> {
    /// Executes [`ptx_asm::Inst::Stmatrix`].
    pub(super) fn stmatrix(
        &mut self,
        warp: &mut Warp,
        shared: &mut ClusterState,
        (inst, mask): (usize, u32),
        from: &[Reg],
        to: AddressOperand,
    ) -> StepResult<()> {
        whole(mask)?;
        if !matches!(from.len(), 1 | 2 | 4) {
            return malformed(format!("{} matrices", from.len())).in_lane(0);
        }
        let rows = u32::MAX >> (32 - 8 * from.len());
        let addresses = self.addresses(warp, rows, StateSpace::Shared, to)?;
        self.count(inst, StateSpace::Shared, rows, &addresses, 16);
        let matrices: Vec<_> = self.fragment(warp, from)?.iter().map(rows_of).collect();
        for lane in lanes(rows) {
            // Other lanes' registers go to this lane's row. The access counts for several lanes, so that a
            // fence of one lane does not cover it.
            let mut who = warp.thread_ref(lane);
            let located = self.locate(StateSpace::Shared, &who, addresses[lane], 16, 16).in_lane(lane)?;
            who.thread = SEVERAL_THREADS;
            self.check_access(shared, &who, located, 16, AccessKind::Write).in_lane(lane)?;
            self.record_access(shared, &who, located, 16, AccessKind::Write);
            self.poke(shared, &who, located, &matrices[lane / 8][lane % 8]);
        }
        Ok(())
    }
}

/// The rows of a matrix in a fragment of two elements per lane; the inverse of [`fragment_elements`].
fn rows_of(values: &LaneValues) -> [[u8; 16]; 8] {
    let mut rows = [[0; 16]; 8];
    for (lane, &value) in values.iter().enumerate() {
        for (i, half) in [value as u16, (value >> 16) as u16].into_iter().enumerate() {
            let (row, column) = (lane / 4, lane % 4 * 2 + i);
            rows[row][2 * column..2 * column + 2].copy_from_slice(&half.to_le_bytes());
        }
    }
    rows
}

/// The two elements of a matrix that a lane holds in a fragment.
fn fragment_elements(rows: &[[u8; 16]], lane: usize, transposed: bool) -> u64 {
    let (outer, inner) = (lane / 4, lane % 4 * 2);
    let element = |row: usize, column: usize| {
        u64::from(u16::from_le_bytes([rows[row][2 * column], rows[row][2 * column + 1]]))
    };
    if transposed {
        element(inner, outer) | element(inner + 1, outer) << 16
    } else {
        element(outer, inner) | element(outer, inner + 1) << 16
    }
}
