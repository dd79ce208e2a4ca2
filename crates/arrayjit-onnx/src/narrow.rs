//! Element types of fewer than 8 bits, which files pack into bytes.
//!
//! Arrays have no such types: their elements are stored one for each byte, in a wider type that has all of
//! their values. Integers become i8 or u8, and floats of 4 bits become floats of 8 bits.

use tnode::DType;

/// An element type of fewer than 8 bits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Narrow {
    Int {
        bits: usize,
        is_signed: bool,
    },
    /// One bit of sign, two of exponent, one of significand; no infinities and no NaN.
    Float4,
}

impl Narrow {
    /// The type with this number in ONNX files.
    pub(crate) fn of(number: i32) -> Option<Narrow> {
        Some(match number {
            21 => Narrow::Int { bits: 4, is_signed: false },
            22 => Narrow::Int { bits: 4, is_signed: true },
            23 => Narrow::Float4,
            25 => Narrow::Int { bits: 2, is_signed: false },
            26 => Narrow::Int { bits: 2, is_signed: true },
            _ => return None,
        })
    }

    pub(crate) fn bits(self) -> usize {
        match self {
            Narrow::Int { bits, .. } => bits,
            Narrow::Float4 => 4,
        }
    }

    /// The element type of the arrays.
    pub(crate) fn stored(self) -> DType {
        match self {
            Narrow::Int { is_signed: true, .. } => DType::I8,
            Narrow::Int { is_signed: false, .. } => DType::U8,
            Narrow::Float4 => DType::Fp8E4m3fn,
        }
    }

    /// The lowest and the highest value.
    pub(crate) fn limits(self) -> (i64, i64) {
        match self {
            Narrow::Int { bits, is_signed: true } => (-1 << (bits - 1), (1 << (bits - 1)) - 1),
            Narrow::Int { bits, is_signed: false } => (0, (1 << bits) - 1),
            Narrow::Float4 => (-6, 6),
        }
    }

    /// The bytes of the stored elements, from packed ones; the first element is in the lowest bits.
    pub(crate) fn unpacked(self, bytes: &[u8], count: usize) -> Vec<u8> {
        let (bits, per_byte) = (self.bits(), 8 / self.bits());
        let codes = bytes.iter().flat_map(|byte| (0..per_byte).map(move |at| byte >> (at * bits)));
        codes.take(count).map(|code| self.stored_code(code & ((1 << bits) - 1))).collect()
    }

    fn stored_code(self, code: u8) -> u8 {
        /// The positive values 0, 0.5, 1, 1.5, 2, 3, 4 and 6 with 4 bits of exponent and 3 of significand.
        const FLOATS: [u8; 8] = [0x00, 0x30, 0x38, 0x3c, 0x40, 0x44, 0x48, 0x4c];
        match self {
            Narrow::Int { bits, is_signed: true } if code >> (bits - 1) != 0 => code | (0xff << bits),
            Narrow::Int { .. } => code,
            Narrow::Float4 => FLOATS[usize::from(code & 7)] | (code & 8) << 4,
        }
    }

    /// The element as assignment text, rounded or wrapped to the values of the type.
    pub(crate) fn rounded(self, element: &str, is_float: bool) -> String {
        let wide = DType::I32;
        match self {
            Narrow::Int { bits, is_signed } => {
                let low = format!("bit_and({wide}({element}), {})", (1 << bits) - 1);
                let sign = 1 << (bits - 1);
                if is_signed { format!("bit_xor({low}, {sign}) - {sign}") } else { low }
            }
            Narrow::Float4 => {
                let value =
                    if is_float { format!("f32({element})") } else { format!("f32({wide}({element}))") };
                let size = format!("min(abs({value}), 6.0)");
                let step = format!("where({size} < 2.0, 0.5, where({size} < 4.0, 1.0, 2.0))");
                let rounded =
                    format!("where({value} < 0.0, -1.0, 1.0) * round_even({size} / {step}) * {step}");
                // The type has no NaN.
                format!("where({value} == {value}, {rounded}, -0.0)")
            }
        }
    }
}
