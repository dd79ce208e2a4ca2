//! Patterns: the two sides of an equation as the table writes them. This module matches left sides against
//! expressions, and builds expressions of right sides.
//!
//! | written | stands for |
//! |---|---|
//! | `x` `y` `z` | any expressions of one type, the equation's |
//! | `p` `q` | any expressions of type `bool` |
//! | `c` `d` | any constants of the equation's type |
//! | `0` `1` `-1` | that constant of the equation's type; `0` is not the −0 of floats |
//! | `-0.0` | the −0 of floats |
//! | `true` `false` | the constants of type `bool` |
//!
//! Operations are written as in the text form. Two occurrences of a letter stand for equal expressions. The
//! right side of an equation folds operations on constants alone.

use smallvec::SmallVec;
use tnode::{DType, Scalar};

use crate::eval;
use crate::ir::{BinaryOp, Expr, TernaryOp, UnaryOp};

/// One side of an equation.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Pattern {
    /// A letter that stands for an expression.
    Any(char),
    /// A letter that stands for a constant.
    Constant(char),
    /// A small integer in the equation's type.
    Number(i64),
    /// −0.
    NegativeZero,
    /// A truth value.
    Truth(bool),
    /// An operation on patterns.
    Unary(UnaryOp, Box<Pattern>),
    /// An operation on patterns.
    Binary(BinaryOp, Box<[Pattern; 2]>),
    /// An operation on patterns.
    Ternary(TernaryOp, Box<[Pattern; 3]>),
}

/// The operation at the root of an expression, by which equations are looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum RootOp {
    Unary(UnaryOp),
    Binary(BinaryOp),
    Ternary(TernaryOp),
    Other,
}

impl RootOp {
    pub(super) fn of(expr: &Expr) -> RootOp {
        match expr {
            Expr::Unary { op, .. } => RootOp::Unary(*op),
            Expr::Binary { op, .. } => RootOp::Binary(*op),
            Expr::Ternary { op, .. } => RootOp::Ternary(*op),
            _ => RootOp::Other,
        }
    }
}

/// The expressions that the letters of a left side matched.
#[derive(Clone, Debug, Default)]
pub struct EquationMatch<'e> {
    letters: SmallVec<[(char, &'e Expr); 4]>,
    dtype: Option<DType>,
}

impl<'e> EquationMatch<'e> {
    /// The equation's type: that of `x`, `y` or `c`, or that of the left side if it has none of these
    /// letters.
    pub fn dtype(&self) -> DType {
        self.dtype.unwrap_or(DType::Bool)
    }

    /// A match with these expressions for the letters.
    #[cfg(test)]
    pub(super) fn of(letters: impl IntoIterator<Item = (char, &'e Expr)>, dtype: DType) -> Self {
        EquationMatch { letters: letters.into_iter().collect(), dtype: Some(dtype) }
    }

    /// The expression that a letter matched.
    pub fn get(&self, letter: char) -> Option<&'e Expr> {
        self.letters.iter().find(|(l, _)| *l == letter).map(|&(_, e)| e)
    }

    /// The constant that a letter stands for; 0 where the left side lacks the letter.
    pub fn constant(&self, letter: char) -> Scalar {
        match self.get(letter) {
            Some(Expr::Const(scalar)) => *scalar,
            _ => Scalar::zero(self.dtype()),
        }
    }

    /// Finds out the equation's type once the left side has matched; `of` gives the type of an expression.
    pub(super) fn settle_type(&mut self, root: &Expr, of: impl Fn(&Expr) -> DType) {
        let typed = self.letters.iter().find(|(letter, _)| !matches!(letter, 'p' | 'q'));
        self.dtype = Some(match (typed, root) {
            (Some((_, expr)), _) => of(expr),
            (None, Expr::Binary { a, .. }) => of(a),
            (None, _) => of(root),
        });
    }

    fn bind(&mut self, letter: char, expr: &'e Expr) -> bool {
        match self.get(letter) {
            Some(bound) => bound == expr,
            None => {
                self.letters.push((letter, expr));
                true
            }
        }
    }
}

impl Pattern {
    /// The operation at the root of the pattern, by which equations are looked up.
    pub(super) fn head(&self) -> RootOp {
        match self {
            Pattern::Unary(op, _) => RootOp::Unary(*op),
            Pattern::Binary(op, _) => RootOp::Binary(*op),
            Pattern::Ternary(op, _) => RootOp::Ternary(*op),
            _ => RootOp::Other,
        }
    }

    /// Whether the expression matches the pattern; binds the letters in `found`.
    pub(super) fn matches<'e>(&self, expr: &'e Expr, found: &mut EquationMatch<'e>) -> bool {
        match (self, expr) {
            (Pattern::Any(letter), _) => found.bind(*letter, expr),
            (Pattern::Constant(letter), Expr::Const(_)) => found.bind(*letter, expr),
            (Pattern::Number(value), Expr::Const(c)) => *c == number(c.dtype(), *value),
            (Pattern::NegativeZero, Expr::Const(c)) => {
                c.dtype().is_float() && c.bits() == 1 << (8 * c.dtype().size_bytes() - 1)
            }
            (Pattern::Truth(value), Expr::Const(c)) => c.dtype() == DType::Bool && c.as_bool() == *value,
            (Pattern::Unary(op, x), Expr::Unary { op: found_op, arg }) => {
                op == found_op && x.matches(arg, found)
            }
            (Pattern::Binary(op, sides), Expr::Binary { op: found_op, a, b }) => {
                let [x, y] = &**sides;
                op == found_op && x.matches(a, found) && y.matches(b, found)
            }
            (Pattern::Ternary(op, sides), Expr::Ternary { op: found_op, a, b, c }) => {
                let [x, y, z] = &**sides;
                op == found_op && x.matches(a, found) && y.matches(b, found) && z.matches(c, found)
            }
            _ => false,
        }
    }

    /// Builds the expression of the pattern from the expressions bound to its letters.
    pub(super) fn build(&self, found: &EquationMatch<'_>) -> Expr {
        let expr = match self {
            Pattern::Any(letter) | Pattern::Constant(letter) => {
                found.get(*letter).cloned().unwrap_or_else(|| Expr::Const(found.constant(*letter)))
            }
            Pattern::Number(value) => Expr::Const(number(found.dtype(), *value)),
            Pattern::NegativeZero => Expr::Const(eval::unary(UnaryOp::Neg, Scalar::zero(found.dtype()))),
            Pattern::Truth(value) => Expr::Const(Scalar::new(DType::Bool, u128::from(*value))),
            Pattern::Unary(op, x) => Expr::unary(*op, x.build(found)),
            Pattern::Binary(op, sides) => Expr::binary(*op, sides[0].build(found), sides[1].build(found)),
            Pattern::Ternary(op, sides) => {
                let [x, y, z] = &**sides;
                Expr::ternary(*op, x.build(found), y.build(found), z.build(found))
            }
        };
        fold(&expr).map_or(expr, Expr::Const)
    }
}

fn number(dtype: DType, value: i64) -> Scalar {
    Scalar::from_i64(dtype, value)
}

/// The value of an operation on constants.
pub(super) fn fold(expr: &Expr) -> Option<Scalar> {
    let literal = |e: &Expr| match e {
        Expr::Const(scalar) => Some(*scalar),
        _ => None,
    };
    match expr {
        Expr::Unary { op, arg } => Some(eval::unary(*op, literal(arg)?)),
        Expr::Binary { op, a, b } => Some(eval::binary(*op, literal(a)?, literal(b)?)),
        Expr::Ternary { op, a, b, c } => Some(eval::ternary(*op, literal(a)?, literal(b)?, literal(c)?)),
        Expr::Convert { to, arg } => Some(literal(arg)?.convert(*to)),
        Expr::Bitcast { to, arg } => Some(eval::bitcast(*to, literal(arg)?)),
        Expr::Index { index, dtype } => Some(Scalar::from_i64(*dtype, index.as_constant()?)),
        _ => None,
    }
}

/// The pattern of a text.
///
/// # Errors
/// The unparsed rest of a text that is not a pattern. Only the table is ever parsed, and a test parses all of
/// it.
pub(super) fn parse(text: &str) -> Result<Pattern, String> {
    let mut parser = PatternParser { rest: text };
    let pattern = parser.comparison()?;
    parser.skip_blanks();
    if parser.rest.is_empty() { Ok(pattern) } else { Err(parser.rest.to_owned()) }
}

struct PatternParser<'t> {
    rest: &'t str,
}

impl PatternParser<'_> {
    fn skip_blanks(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn takes(&mut self, sign: &str) -> bool {
        self.skip_blanks();
        let rest = self.rest.strip_prefix(sign);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn comparison(&mut self) -> Result<Pattern, String> {
        let left = self.chain(&[("+", BinaryOp::Add), ("- ", BinaryOp::Sub)], PatternParser::product)?;
        let signs = [("<=", BinaryOp::Le), ("<", BinaryOp::Lt), ("==", BinaryOp::Eq), ("!=", BinaryOp::Ne)];
        for (sign, op) in signs {
            if self.takes(sign) {
                let right =
                    self.chain(&[("+", BinaryOp::Add), ("- ", BinaryOp::Sub)], PatternParser::product)?;
                return Ok(Pattern::Binary(op, Box::new([left, right])));
            }
        }
        Ok(left)
    }

    fn product(&mut self) -> Result<Pattern, String> {
        self.chain(
            &[("*", BinaryOp::Mul), ("/", BinaryOp::Div), ("%", BinaryOp::Rem)],
            PatternParser::operand,
        )
    }

    /// Operands joined by operations of one precedence, from the left.
    fn chain(
        &mut self,
        signs: &[(&str, BinaryOp)],
        operand: fn(&mut Self) -> Result<Pattern, String>,
    ) -> Result<Pattern, String> {
        let mut left = operand(self)?;
        while let Some(&(_, op)) = signs.iter().find(|(sign, _)| self.takes(sign)) {
            left = Pattern::Binary(op, Box::new([left, operand(self)?]));
        }
        Ok(left)
    }

    fn operand(&mut self) -> Result<Pattern, String> {
        if self.takes("(") {
            let inner = self.comparison()?;
            return if self.takes(")") { Ok(inner) } else { Err(self.rest.to_owned()) };
        }
        let in_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '-');
        let end = self.rest.find(|c| !in_word(c)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        match word {
            "x" | "y" | "z" | "p" | "q" => Ok(Pattern::Any(letter(word))),
            "c" | "d" => Ok(Pattern::Constant(letter(word))),
            "true" | "false" => Ok(Pattern::Truth(word == "true")),
            "-0.0" => Ok(Pattern::NegativeZero),
            _ => match word.parse() {
                Ok(value) => Ok(Pattern::Number(value)),
                Err(_) => self.call(word),
            },
        }
    }

    fn call(&mut self, name: &str) -> Result<Pattern, String> {
        let mut args = Vec::new();
        if !self.takes("(") {
            return Err(name.to_owned());
        }
        loop {
            args.push(self.comparison()?);
            if self.takes(")") {
                break;
            }
            if !self.takes(",") {
                return Err(self.rest.to_owned());
            }
        }
        application(name, args).ok_or_else(|| name.to_owned())
    }
}

/// The operation of that name on the patterns.
fn application(name: &str, args: Vec<Pattern>) -> Option<Pattern> {
    match <[Pattern; 1]>::try_from(args) {
        Ok([x]) => {
            let op = *UnaryOp::ALL.iter().find(|op| op.token() == name)?;
            Some(Pattern::Unary(op, Box::new(x)))
        }
        Err(args) => match <[Pattern; 2]>::try_from(args) {
            Ok(two) => {
                let op = *BinaryOp::ALL.iter().find(|op| op.token() == name)?;
                Some(Pattern::Binary(op, Box::new(two)))
            }
            Err(args) => {
                let op = *TernaryOp::ALL.iter().find(|op| op.token() == name)?;
                Some(Pattern::Ternary(op, Box::new(<[Pattern; 3]>::try_from(args).ok()?)))
            }
        },
    }
}

fn letter(word: &str) -> char {
    word.chars().next().unwrap_or('x')
}
