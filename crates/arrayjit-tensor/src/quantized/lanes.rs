//! The same byte of several outputs, so that blocks of 64 outputs are decoded at once.

use super::format::PANEL;

/// A byte, or the same byte of each output of a panel.
pub(super) trait Bytes: Copy {
    const ZERO: Self;

    /// A function of each byte.
    fn map(self, f: impl Fn(u8) -> u8) -> Self;

    /// A function of each pair of bytes.
    fn zip(self, other: Self, f: impl Fn(u8, u8) -> u8) -> Self;
}

/// A byte of each output of a panel.
#[derive(Clone, Copy)]
pub(super) struct Lanes(pub(super) [u8; PANEL]);

impl Bytes for u8 {
    const ZERO: u8 = 0;

    #[inline]
    fn map(self, f: impl Fn(u8) -> u8) -> u8 {
        f(self)
    }

    #[inline]
    fn zip(self, other: u8, f: impl Fn(u8, u8) -> u8) -> u8 {
        f(self, other)
    }
}

impl Bytes for Lanes {
    const ZERO: Lanes = Lanes([0; PANEL]);

    // Loops over the whole array are vector code, on any processor.
    #[inline]
    fn map(mut self, f: impl Fn(u8) -> u8) -> Lanes {
        for byte in &mut self.0 {
            *byte = f(*byte);
        }
        self
    }

    #[inline]
    fn zip(mut self, other: Lanes, f: impl Fn(u8, u8) -> u8) -> Lanes {
        for (byte, other) in self.0.iter_mut().zip(&other.0) {
            *byte = f(*byte, *other);
        }
        self
    }
}

/// The side of the squares in which bytes are transposed.
const SIDE: usize = 16;

/// Sets `lanes[k]` to byte `start + k` of each of the rows.
pub(super) fn transpose(rows: &[&[u8]; PANEL], start: usize, lanes: &mut [Lanes]) {
    let (squares, rest) = lanes.as_chunks_mut::<SIDE>();
    for (number, lanes) in squares.iter_mut().enumerate() {
        for (group, rows) in rows.as_chunks::<SIDE>().0.iter().enumerate() {
            let mut bytes = [[0; SIDE]; SIDE];
            for (bytes, row) in bytes.iter_mut().zip(rows) {
                *bytes = *row[start + number * SIDE..].first_chunk().unwrap_or(bytes);
            }
            for (lanes, bytes) in lanes.iter_mut().zip(&transposed(bytes)) {
                lanes.0.as_chunks_mut().0[group] = *bytes;
            }
        }
    }
    for (at, lanes) in rest.iter_mut().enumerate() {
        for (byte, row) in lanes.0.iter_mut().zip(rows) {
            *byte = row[start + squares.len() * SIDE + at];
        }
    }
}

/// The transpose of a square, whose halves are interleaved once for each bit of a position.
#[inline]
fn transposed(mut square: [[u8; SIDE]; SIDE]) -> [[u8; SIDE]; SIDE] {
    for _ in 0..SIDE.ilog2() {
        let old = square;
        for at in 0..SIDE / 2 {
            (square[2 * at], square[2 * at + 1]) = interleaved(&old[at], &old[at + SIDE / 2]);
        }
    }
    square
}

/// The elements of two vectors in turns. Loops become single instructions, unlike `array::from_fn`.
#[inline]
fn interleaved(a: &[u8; SIDE], b: &[u8; SIDE]) -> ([u8; SIDE], [u8; SIDE]) {
    let (mut low, mut high) = ([0; SIDE], [0; SIDE]);
    for at in 0..SIDE / 2 {
        (low[2 * at], low[2 * at + 1]) = (a[at], b[at]);
        (high[2 * at], high[2 * at + 1]) = (a[SIDE / 2 + at], b[SIDE / 2 + at]);
    }
    (low, high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_comes_to_its_lane() {
        for len in [2, 16, 34, 210] {
            let byte = |row: usize, at: usize| (row * 31 + at * 7 + row * at) as u8;
            let rows: Vec<Vec<u8>> =
                (0..PANEL).map(|row| (0..len).map(|at| byte(row, at)).collect()).collect();
            let mut lanes = vec![Lanes::ZERO; len];
            transpose(&std::array::from_fn(|row| rows[row].as_slice()), 0, &mut lanes);
            for (at, lanes) in lanes.iter().enumerate() {
                assert!((0..PANEL).all(|row| lanes.0[row] == byte(row, at)), "byte {at} of {len}");
            }
        }
    }
}
