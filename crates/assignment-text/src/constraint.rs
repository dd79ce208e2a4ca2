//! Comparisons in `where`: ranges of letters and symbols, and bounds of loops.

use std::fmt::{self, Display, Formatter};

use crate::error::Result;
use crate::linear::{Atom, IndexExpr, IndexExprKind};
use assignments::ByteRange;

/// A comparison in `where`.
///
/// `letter < integer` and `@symbol < integer` declare a range. Any other comparison bounds loops.
#[derive(Clone, Debug)]
pub(crate) struct Constraint {
    pub(crate) left: IndexExpr,
    pub(crate) comparison: Comparison,
    pub(crate) right: IndexExpr,
    pub(crate) span: ByteRange,
}

/// How the sides of a constraint compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
}

impl Comparison {
    /// The comparison with this sign.
    pub(crate) fn of_sign(sign: &str) -> Option<Comparison> {
        use Comparison::{Greater, GreaterEqual, Less, LessEqual};
        [Less, LessEqual, Greater, GreaterEqual].into_iter().find(|comparison| comparison.token() == sign)
    }

    pub(crate) fn token(self) -> &'static str {
        match self {
            Comparison::Less => "<",
            Comparison::LessEqual => "<=",
            Comparison::Greater => ">",
            Comparison::GreaterEqual => ">=",
        }
    }

    /// The least difference of the greater side and the lesser side.
    pub(crate) fn gap(self) -> i64 {
        match self {
            Comparison::Less | Comparison::Greater => 1,
            Comparison::LessEqual | Comparison::GreaterEqual => 0,
        }
    }
}

impl Constraint {
    /// The lesser and the greater side.
    pub(crate) fn sides(&self) -> (&IndexExpr, &IndexExpr) {
        match self.comparison {
            Comparison::Less | Comparison::LessEqual => (&self.left, &self.right),
            Comparison::Greater | Comparison::GreaterEqual => (&self.right, &self.left),
        }
    }

    /// The letter or symbol whose range the constraint declares, and the range; `None` for a bound, and for a
    /// range of a letter before the sizes of axes in it have become numbers.
    ///
    /// # Errors
    /// If the greater side is no sum of multiples of letters and symbols.
    pub(crate) fn range(&self) -> Result<Option<(&Atom, i128)>> {
        let (less, greater) = self.sides();
        let IndexExprKind::Atom(atom) = &less.kind else { return Ok(None) };
        if matches!(atom, Atom::Letter(_)) && greater.has_sizes() {
            return Ok(None);
        }
        let limit =
            greater.integer()?.map(|limit| limit.saturating_add(i128::from(1 - self.comparison.gap())));
        Ok(limit.map(|limit| (atom, limit)))
    }

    /// The letters in order of mention, repetitions included.
    pub(crate) fn letters(&self) -> Vec<&str> {
        let mut letters = Vec::new();
        for side in [&self.left, &self.right] {
            side.each_atom(&mut |atom, _| {
                if let Atom::Letter(letter) = atom {
                    letters.push(letter.as_str());
                }
            });
        }
        letters
    }
}

impl Display for Constraint {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.left, self.comparison.token(), self.right)
    }
}
