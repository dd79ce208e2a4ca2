//! Numbers as the text writes them.

use tnode::{DType, Scalar};

use crate::error::{Result, TextErrorKind};
use crate::source::excerpt;
use assignments::ByteRange;

/// A number as the text writes it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Number {
    /// The nearest `f64`: infinite for digits beyond its range, as for `inf`.
    pub(crate) value: f64,
    /// The value of an integer literal.
    pub(crate) int: Option<i128>,
    /// Whether the number is written in digits, unlike `inf` and `nan`.
    pub(crate) is_literal: bool,
}

impl Number {
    pub(crate) fn integer(value: i64) -> Number {
        Number { value: value as f64, int: Some(i128::from(value)), is_literal: true }
    }

    /// The number `inf` or `nan`.
    pub(crate) fn named(name: &str) -> Option<Number> {
        let value = match name {
            "inf" => f64::INFINITY,
            "nan" => f64::NAN,
            _ => return None,
        };
        Some(Number { value, int: None, is_literal: false })
    }

    pub(crate) fn negated(self) -> Number {
        Number { value: -self.value, int: self.int.map(|int| -int), ..self }
    }

    /// Converts the number to a type; an error at `span` if the type cannot represent it.
    pub(crate) fn checked(self, dtype: DType, text: &str, span: &ByteRange) -> Result<Scalar> {
        self.in_type(dtype).ok_or_else(|| {
            let written = excerpt(text, span);
            // In a function, the text may have the name of a parameter.
            let is_number = written.starts_with(|c: char| c.is_ascii_digit() || c == '.' || c == '-');
            let value = if is_number { written.to_owned() } else { self.to_string() };
            TextErrorKind::Literal { value, dtype }.at(span)
        })
    }

    /// Converts the number to a type if the type can represent it: integers exactly, fractions rounded, but
    /// not to an infinity.
    fn in_type(self, dtype: DType) -> Option<Scalar> {
        match self.int {
            Some(int) if dtype == DType::Bool => Some(Scalar::from_i64(dtype, i64::from(int != 0))),
            Some(int) if dtype == DType::U64 => {
                Some(Scalar::new(dtype, u128::from(u64::try_from(int).ok()?)))
            }
            Some(int) if !dtype.is_float() => {
                let int = i64::try_from(int).ok()?;
                Some(Scalar::from_i64(dtype, int)).filter(|scalar| scalar.as_i64() == int)
            }
            None if !dtype.is_float() => None,
            int => {
                let exact = int.and_then(|int| i64::try_from(int).ok());
                let scalar = exact
                    .map_or_else(|| Scalar::from_f64(dtype, self.value), |int| Scalar::from_i64(dtype, int));
                Some(scalar).filter(|scalar| !self.is_literal || scalar.as_f64().is_finite())
            }
        }
    }
}
