//! Keys and counters.

use tnode::{DType, Scalar};

use super::cipher::{Generator, THREEFRY, THREEFRY_CRYPTO, THREEFRY_LIGHT, Words, bits_of};
use crate::eval;
use crate::ir::{Affine, BinaryOp, Expr};

/// The last word of counters that derive keys. The last words of other counters come from indices, which are
/// smaller.
const KEY_MARK: u32 = 1 << 31;

/// The maximum number of indices in the counter of a single element.
pub const MAX_CELL: usize = 4;

/// The scheme of keys, counters and values of random numbers.
///
/// The compatible schemes reproduce the numbers of programs written for the predecessor of this system. In
/// them every number `x`, modulo 2³², becomes the words `[x, x ⊕ 9E3779B9₁₆, x ⊕ 6C078965₁₆, x ⊕ (x rotated
/// by 16)]`. A number that is folded into the key replaces the key by the sample at these words. For a single
/// element, all indices but the last are folded into the key, and the last index is the counter. The counter
/// of a fill is the number of the sample within the fill, `r · chunks + c`. Uniforms are those of
/// `compat_uniform`, and some types may give 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scheme {
    /// Threefry-4x32 of 20 rounds, as the module defines it.
    #[default]
    Standard,
    /// Compatible, with the generator of 4 rounds.
    CompatLight,
    /// Compatible, with the generator of 40 rounds.
    CompatCrypto,
}

impl Scheme {
    /// Every scheme.
    pub const ALL: [Scheme; 3] = [Scheme::Standard, Scheme::CompatLight, Scheme::CompatCrypto];

    /// The name of a compatible scheme in assignment text; `None` for the standard scheme.
    pub fn token(self) -> Option<&'static str> {
        match self {
            Scheme::Standard => None,
            Scheme::CompatLight => Some("light"),
            Scheme::CompatCrypto => Some("crypto"),
        }
    }

    /// The generator of random bits that the scheme uses, as an operation of the IR.
    pub fn op(self) -> BinaryOp {
        match self {
            Scheme::Standard => BinaryOp::Threefry,
            Scheme::CompatLight => BinaryOp::ThreefryLight,
            Scheme::CompatCrypto => BinaryOp::ThreefryCrypto,
        }
    }

    /// The generator of that operation.
    pub fn generator(self) -> Generator {
        match self {
            Scheme::Standard => THREEFRY,
            Scheme::CompatLight => THREEFRY_LIGHT,
            Scheme::CompatCrypto => THREEFRY_CRYPTO,
        }
    }

    /// The sample for a key and a counter; a constant if both are constants.
    pub fn sample(self, key: Expr, counter: Expr) -> Expr {
        match (key, counter) {
            (Expr::Const(key), Expr::Const(counter)) => Expr::Const(eval::binary(self.op(), key, counter)),
            (key, counter) => Expr::binary(self.op(), key, counter),
        }
    }

    /// The key of a seed.
    pub fn seed_key(self, seed: u64) -> Expr {
        Expr::Const(Scalar::new(DType::U32x4, u128::from(seed)))
    }

    /// The key with one more number.
    pub fn fold(self, key: Expr, number: &KeyNumber) -> Expr {
        let counter = match self {
            Scheme::Standard => lanes([number.low.clone(), number.high.clone(), word(0), word(KEY_MARK)]),
            Scheme::CompatLight | Scheme::CompatCrypto => compat_words(&number.low),
        };
        self.sample(key, counter)
    }

    /// The sample of a fill for a chunk of a row of `chunks`.
    pub fn chunk_sample(self, key: Expr, row: &Affine, chunk: &Affine, chunks: i64, last_row: i64) -> Expr {
        let counter = match self {
            Scheme::Standard => {
                let (row, chunk) = (KeyNumber::index(row, last_row), KeyNumber::index(chunk, chunks - 1));
                lanes([chunk.low, row.low, row.high, chunk.high])
            }
            Scheme::CompatLight | Scheme::CompatCrypto => {
                let cell = row.times(chunks).plus(chunk);
                let last = last_row.saturating_mul(chunks).saturating_add(chunks - 1);
                compat_words(&KeyNumber::index(&cell, last).low)
            }
        };
        self.sample(key, counter)
    }

    /// The sample of one element with at most [`MAX_CELL`] indices, each a `u32`.
    pub fn cell_sample(self, key: Expr, cell: &[Expr]) -> Expr {
        let at = |lane: usize| cell.get(lane).cloned().unwrap_or_else(|| word(0));
        match self {
            Scheme::Standard => self.sample(key, lanes([at(0), at(1), at(2), at(3)])),
            Scheme::CompatLight | Scheme::CompatCrypto => {
                let (last, others) =
                    cell.split_last().map_or((word(0), cell), |(last, rest)| (last.clone(), rest));
                let key = others.iter().fold(key, |key, index| self.sample(key, compat_words(index)));
                self.sample(key, compat_words(&last))
            }
        }
    }
}

/// A number modulo 2⁶⁴ as two `u32`.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyNumber {
    /// Modulo 2³².
    pub low: Expr,
    /// `n / 2³²`, modulo 2³².
    pub high: Expr,
}

impl KeyNumber {
    /// A constant.
    pub fn constant(number: u64) -> KeyNumber {
        KeyNumber { low: word(number as u32), high: word((number >> 32) as u32) }
    }

    /// The value of an index within `0..=last`.
    pub fn index(index: &Affine, last: i64) -> KeyNumber {
        if let Some(constant) = index.as_constant() {
            return KeyNumber::constant(constant as u64);
        }
        if i32::try_from(last).is_ok() {
            return KeyNumber { low: index_word(index), high: word(0) };
        }
        let wide = Expr::Index { index: index.clone(), dtype: DType::I64 };
        let shift = Expr::Const(Scalar::from_i64(DType::I64, 32));
        let high = Expr::binary(BinaryOp::Shr, wide.clone(), shift);
        KeyNumber { low: Expr::convert(DType::U32, wide), high: Expr::convert(DType::U32, high) }
    }
}

/// An index that fits `i32`, modulo 2³².
fn index_word(index: &Affine) -> Expr {
    Expr::bitcast(DType::U32, Expr::Index { index: index.clone(), dtype: DType::I32 })
}

/// A 32-bit integer as four words, in compatible schemes.
fn compat_words(x: &Expr) -> Expr {
    let xor = |by: u32| operation(BinaryOp::BitXor, x.clone(), word(by));
    let rotated = operation(
        BinaryOp::BitOr,
        operation(BinaryOp::Shl, x.clone(), word(16)),
        operation(BinaryOp::Shr, x.clone(), word(16)),
    );
    let last = operation(BinaryOp::BitXor, x.clone(), rotated);
    lanes([x.clone(), xor(0x9E37_79B9), xor(0x6C07_8965), last])
}

fn operation(op: BinaryOp, a: Expr, b: Expr) -> Expr {
    match (a, b) {
        (Expr::Const(a), Expr::Const(b)) => Expr::Const(eval::binary(op, a, b)),
        (a, b) => Expr::binary(op, a, b),
    }
}

/// The `u32x4` of four words; a constant if all are constants.
fn lanes(words: [Expr; 4]) -> Expr {
    let constant = |word: &Expr| match word {
        Expr::Const(word) => Some(word.bits() as u32),
        _ => None,
    };
    match words.each_ref().map(constant) {
        [Some(a), Some(b), Some(c), Some(d)] => {
            Expr::Const(Scalar::new(DType::U32x4, bits_of([a, b, c, d] as Words)))
        }
        _ => Expr::Lanes(Box::new(words)),
    }
}

fn word(value: u32) -> Expr {
    Expr::Const(Scalar::new(DType::U32, value.into()))
}
