//! The lines that a routine logs, and the function that writes them, both for the interpreter and for
//! compiled code.
//!
//! A routine logs with [`Stmt::Log`]. The interpreter and compiled code do not write text: they report the
//! number of a line and the values in it. The number is the position of the statement among all log
//! statements of the routine, in the order of the text. [`LogLine::write`] makes the text.

use std::fmt::Write;

use tnode::{DType, Scalar};

use crate::ir::{LogPart, LoweredRoutine, Stmt, walk};

/// A line of the log without its values.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LogLine {
    pieces: Vec<LinePiece>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum LinePiece {
    Text(String),
    Value(DType),
}

/// How floats are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum LogStyle {
    /// Like [`Scalar`] displays them: the shortest text that reads back as the same value.
    #[default]
    Exact,
    /// Rounded to five significant digits, as an integer and a power of ten (`24704e-3`), so that logs of
    /// targets whose last bits differ can be compared.
    Rounded,
}

/// The lines that a routine logs, by their numbers.
pub fn lines(routine: &LoweredRoutine) -> Vec<LogLine> {
    let locals = routine.locals();
    let piece = |part: &LogPart| match part {
        LogPart::Text(text) => LinePiece::Text(text.clone()),
        LogPart::Value(value) => LinePiece::Value(routine.dtype_of(value, &locals)),
    };
    let mut lines = Vec::new();
    walk::stmts(&routine.body).for_each(|stmt| {
        if let Stmt::Log { parts } = stmt {
            lines.push(LogLine { pieces: parts.iter().map(piece).collect() });
        }
    });
    lines
}

impl LogLine {
    /// The types of the values in the line, in order.
    pub fn dtypes(&self) -> impl Iterator<Item = DType> + '_ {
        self.pieces.iter().filter_map(|piece| match piece {
            LinePiece::Text(_) => None,
            LinePiece::Value(dtype) => Some(*dtype),
        })
    }

    /// Appends the line with these values, and a line end. Values that are missing are written as `?`.
    pub fn write(&self, values: &[Scalar], style: LogStyle, out: &mut String) {
        let mut values = values.iter();
        for piece in &self.pieces {
            match (piece, style) {
                (LinePiece::Text(text), _) => out.push_str(text),
                (LinePiece::Value(_), style) => match values.next() {
                    Some(value) => write_value(*value, style, out),
                    None => out.push('?'),
                },
            }
        }
        out.push('\n');
    }
}

fn write_value(value: Scalar, style: LogStyle, out: &mut String) {
    // Writing to a string cannot fail.
    let _ = match style {
        LogStyle::Rounded if value.dtype().is_float() && value.as_f64().is_finite() => {
            write_rounded(value.as_f64(), out)
        }
        LogStyle::Exact | LogStyle::Rounded => write!(out, "{value}"),
    };
}

/// `x` rounded to five significant digits, as an integer without trailing zeros and a power of ten.
fn write_rounded(x: f64, out: &mut String) -> std::fmt::Result {
    let text = format!("{x:.4e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let digits: String = digits.chars().filter(|c| *c != '.').collect();
    let kept = digits.trim_end_matches('0');
    if kept.is_empty() || kept == "-" {
        return out.write_char('0');
    }
    let fraction = kept.trim_start_matches('-').len() as i64 - 1;
    match exponent.parse::<i64>().unwrap_or(0) - fraction {
        0 => out.write_str(kept),
        exponent => write!(out, "{kept}e{exponent}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(x: f64) -> String {
        let mut out = String::new();
        write_value(Scalar::from_f64(DType::F64, x), LogStyle::Rounded, &mut out);
        out
    }

    #[test]
    fn rounded_floats_are_integers_and_powers_of_ten() {
        for (x, text) in [
            (24.704, "24704e-3"),
            (24.7040004, "24704e-3"),
            (2.0, "2"),
            (-0.5, "-5e-1"),
            (1200.0, "12e2"),
            (99999.96, "1e5"),
            (0.0, "0"),
            (-0.0, "0"),
            (1.0 / 3.0, "33333e-5"),
            (f64::INFINITY, "inf"),
            (f64::NAN, "nan"),
        ] {
            assert_eq!(written(x), text, "{x}");
        }
    }

    #[test]
    fn lines_are_numbered_in_the_order_of_the_text() {
        let text = "routine @r {
          log \"a\"
          for i0 in 0..2 { log \"i = \", index i64(i0), \", \", true }
          log 1.5f16
        }";
        let lines = lines(&crate::text::parse(text).unwrap());
        let dtypes: Vec<Vec<DType>> = lines.iter().map(|line| line.dtypes().collect()).collect();
        assert_eq!(dtypes, [vec![], vec![DType::I64, DType::Bool], vec![DType::F16]]);
        let mut out = String::new();
        lines[1].write(&[Scalar::from_i64(DType::I64, -3)], LogStyle::Exact, &mut out);
        assert_eq!(out, "i = -3, ?\n");
    }
}
