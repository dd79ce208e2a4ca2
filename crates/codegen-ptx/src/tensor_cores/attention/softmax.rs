//! The weights of a tile, and what a thread remembers of its two rows.

use ptx_asm::{CmpOp, Inst, PtxBinaryOp, PtxBuilder, Reg, RegClass, Regs, RoundingMode, ShuffleMode, Ty};

use super::{Attention, AttentionCallbacks, AttentionTile, Fragment, ScorePlace};

/// The state of a thread's two rows, of which it has every fourth pair of positions.
pub(super) struct RowState {
    /// The first of the rows, in the block; the other one is the eighth below.
    pub(super) row_in_block: Reg,
    /// The rows, at most the last.
    rows: [Reg; 2],
    /// Where the positions of each row end; `None` if every row has all.
    ends: Option<[Reg; 2]>,
    /// The number of positions.
    positions: u32,
    /// The thread's first position in a tile.
    pair: Reg,
    /// The greatest score so far.
    greatest: [Reg; 2],
    /// The sum of the weights that this thread has computed.
    weights: [Reg; 2],
}

/// The rows of the elements of a fragment, and their distance from the thread's first position.
const ELEMENTS: [(usize, u32); 4] = [(0, 0), (0, 1), (1, 0), (1, 1)];

impl RowState {
    pub(super) fn new(
        b: &mut PtxBuilder,
        attention: &Attention,
        tile: &AttentionTile,
        (thread, row): (Reg, Reg),
    ) -> RowState {
        let lane = b.binary(PtxBinaryOp::And, Ty::B32, thread, 31_u32);
        let warp = b.binary(PtxBinaryOp::ShiftRight, Ty::U32, thread, 5_u32);
        let line = b.binary(PtxBinaryOp::ShiftRight, Ty::B32, lane, 2_u32);
        let row_in_block = b.mul_add(Ty::U32, warp, 16_u32, line);
        let first = b.add(Ty::U32, row, row_in_block);
        let own = [first, b.add(Ty::U32, first, 8_u32)];
        let ends = attention.diagonal.map(|behind| own.map(|row| b.add(Ty::U32, row, behind as u32)));
        // Rows beyond the last compute what nobody stores, from what the last one reads.
        let rows = match attention.rows.is_multiple_of(tile.rows()) {
            true => own,
            false => own.map(|row| b.binary(PtxBinaryOp::Min, Ty::U32, row, attention.rows - 1)),
        };
        let quarter = b.binary(PtxBinaryOp::And, Ty::B32, lane, 3_u32);
        RowState {
            row_in_block,
            rows,
            ends,
            positions: attention.positions,
            pair: b.binary(PtxBinaryOp::Mul, Ty::U32, quarter, 2_u32),
            greatest: [(); 2].map(|()| b.mov(RegClass::F32, f32::NEG_INFINITY)),
            weights: [(); 2].map(|()| b.mov(RegClass::F32, 0_f32)),
        }
    }

    /// Whether the row attends to the position, for each element of the fragments of a tile.
    pub(super) fn inside(&self, b: &mut PtxBuilder, position: Reg, fragments: usize) -> Vec<Fragment> {
        let first = b.add(Ty::U32, position, self.pair);
        let inside = |at: usize| {
            ELEMENTS.map(|(row, behind)| {
                let position = b.add(Ty::U32, first, 8 * at as u32 + behind);
                let exists = b.compare(CmpOp::Lt, Ty::S32, position, self.positions);
                match &self.ends {
                    None => exists,
                    Some(ends) => {
                        let before = b.compare(CmpOp::Lt, Ty::S32, position, ends[row]);
                        b.binary(PtxBinaryOp::And, Ty::Pred, exists, before)
                    }
                }
            })
        };
        (0..fragments).map(inside).collect()
    }

    /// The weights of a tile, which are added to the sums of the rows, and the factors that correct the sums
    /// of both rows. `inside` has the elements that are no others' padding; `None` if all are.
    pub(super) fn weights(
        &mut self,
        callbacks: &mut dyn AttentionCallbacks,
        position: Reg,
        products: &[Fragment],
        inside: Option<&[Fragment]>,
    ) -> (Vec<Fragment>, [Reg; 2]) {
        let first = callbacks.builder().add(Ty::U32, position, self.pair);
        let next = [0, 1].map(|row| self.greatest(callbacks, first, products, inside, row));
        let factors = [0, 1].map(|row| {
            let factor = callbacks.rescale(self.greatest[row], next[row]);
            let b = callbacks.builder();
            let same = b.compare(CmpOp::Eq, Ty::F32, next[row], self.greatest[row]);
            b.select(Ty::F32, same, 1_f32, factor)
        });
        let none = next.map(|next| callbacks.builder().compare(CmpOp::Eq, Ty::F32, next, f32::NEG_INFINITY));
        let mut weights = Vec::new();
        for (at, fragment) in products.iter().enumerate() {
            let mut element = 0;
            weights.push(ELEMENTS.map(|(row, behind)| {
                let place = self.place(callbacks.builder(), first, at, (row, behind), inside.is_some());
                let weight = callbacks.weight(place, fragment[element], next[row]);
                let b = callbacks.builder();
                let mut weight = b.select(Ty::F32, none[row], 0_f32, weight);
                if let Some(inside) = inside {
                    weight = b.select(Ty::F32, inside[at][element], weight, 0_f32);
                }
                element += 1;
                weight
            }));
        }
        let b = callbacks.builder();
        for row in [0, 1] {
            let own = weights.iter().flat_map(|fragment| fragment[2 * row..2 * row + 2].to_vec());
            let sum = own.reduce(|sum, weight| b.add(Ty::F32, sum, weight));
            if let Some(sum) = sum {
                let sum = b.fma(Ty::F32, self.weights[row], factors[row], sum);
                b.set(self.weights[row], sum);
            }
            b.set(self.greatest[row], next[row]);
        }
        (weights, factors)
    }

    /// The greatest score of a row up to the end of a tile.
    fn greatest(
        &self,
        callbacks: &mut dyn AttentionCallbacks,
        first: Reg,
        products: &[Fragment],
        inside: Option<&[Fragment]>,
        row: usize,
    ) -> Reg {
        let mut greatest: Option<Reg> = None;
        for (at, fragment) in products.iter().enumerate() {
            for behind in [0, 1] {
                let element = 2 * row + behind as usize;
                let place = self.place(callbacks.builder(), first, at, (row, behind), inside.is_some());
                let mut score = callbacks.score(place, fragment[element]);
                if let Some(inside) = inside {
                    let b = callbacks.builder();
                    score = b.select(Ty::F32, inside[at][element], score, f32::NEG_INFINITY);
                }
                greatest = Some(match greatest {
                    None => score,
                    Some(greatest) => callbacks.greater(score, greatest),
                });
            }
        }
        let mut greatest = greatest.unwrap_or(self.greatest[row]);
        for distance in [1, 2] {
            let other = shuffled(callbacks.builder(), greatest, distance);
            greatest = callbacks.greater(other, greatest);
        }
        callbacks.greater(greatest, self.greatest[row])
    }

    /// The place of an element; `is_edge` if the tile may extend beyond the last position.
    fn place(
        &self,
        b: &mut PtxBuilder,
        first: Reg,
        at: usize,
        (row, behind): (usize, u32),
        is_edge: bool,
    ) -> ScorePlace {
        let mut position = b.add(Ty::U32, first, 8 * at as u32 + behind);
        if is_edge {
            position = b.binary(PtxBinaryOp::Min, Ty::U32, position, self.positions - 1);
        }
        ScorePlace { row: self.rows[row], position }
    }

    /// The sums of the weights of both rows.
    pub(super) fn total(&self, b: &mut PtxBuilder) -> [Reg; 2] {
        self.weights.map(|own| {
            [1, 2].into_iter().fold(own, |sum, distance| {
                let other = shuffled(b, sum, distance);
                b.add(Ty::F32, sum, other)
            })
        })
    }
}

/// The value of the lane whose index differs by this bit.
fn shuffled(b: &mut PtxBuilder, value: Reg, distance: u32) -> Reg {
    let src = b.mov(RegClass::B32, value);
    let other = b.value(RegClass::B32, |dst| Inst::Shuffle {
        mode: ShuffleMode::Xor,
        dst,
        src,
        lane: distance.into(),
        width: 32,
    });
    b.mov(RegClass::F32, other)
}

/// Operand A of 16 positions: the weights of two fragments, rounded, or as parts that add up to them.
pub(super) fn parts(b: &mut PtxBuilder, attention: &Attention, fragments: &[Fragment]) -> Vec<Regs> {
    let mut left: Vec<Reg> = fragments.iter().flatten().copied().collect();
    let count = if attention.is_rounded { 1 } else { 3 };
    let mut parts = Vec::new();
    for number in 0..count {
        let element = attention.element;
        let narrow: Vec<Reg> =
            left.iter().map(|&x| b.convert(element, Ty::F32, RoundingMode::Nearest, x)).collect();
        if number + 1 < count {
            let zero = b.mov(RegClass::B16, 0_u32);
            for (left, &narrow) in left.iter_mut().zip(&narrow) {
                let word = b.pack(RegClass::B32, zero, narrow);
                let wide = b.mov(RegClass::F32, word);
                *left = b.binary(PtxBinaryOp::Sub, Ty::F32, *left, wide);
            }
        }
        parts.push(narrow.chunks(2).map(|pair| b.pack(RegClass::B32, pair[0], pair[1])).collect());
    }
    parts
}
