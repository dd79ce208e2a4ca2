//! The parser of expressions.

use std::collections::BTreeSet;

use tnode::DType;

use super::fills;
use super::lex::Token;
use super::parser::Parser;
use super::random::{DISTRIBUTIONS, distribution};
use crate::ast::{Argument, Call, Expr, ExprKind};
use crate::error::{Result, TextErrorKind};
use crate::linear::IndexExprKind;
use crate::number::Number;
use crate::{prelude, synonyms};
use assignments::ByteRange;
use assignments::spelling::similar;
use lowered_ir::ir::{BinaryOp, TernaryOp, UnaryOp};
use lowered_ir::random::Distribution;

/// The expected construct where other languages have an operator for powers.
const NO_POWER: &str = "another operator; a power is `pow(x, 2)`";

impl Parser<'_> {
    pub(super) fn expr(&mut self) -> Result<Expr> {
        self.deeper(Self::comparison)
    }

    fn comparison(&mut self) -> Result<Expr> {
        let left = self.sum()?;
        let Some((op, is_exchanged)) = comparison_op(self.peek()) else { return self.without_infix(left) };
        self.next();
        let right = self.sum()?;
        if comparison_op(self.peek()).is_some() {
            return Err(self.expected("no second comparison; combine with `and(a, b)`"));
        }
        let span = left.span.start..right.span.end;
        let (left, right) = (Box::new(left), Box::new(right));
        let compared = Expr::new(
            if is_exchanged {
                ExprKind::Exchanged(op, left, right)
            } else {
                ExprKind::Binary(op, left, right)
            },
            span,
        )?;
        self.without_infix(compared)
    }

    /// Returns an expression, unless `and` or `or` follows it as in other languages.
    fn without_infix(&self, expr: Expr) -> Result<Expr> {
        match self.peek() {
            Token::Name(name) if name == "and" || name == "or" => {
                let combined = format!("another operator; truth values are combined by `{name}(a, b)`");
                Err(self.expected(&combined))
            }
            _ => Ok(expr),
        }
    }

    fn sum(&mut self) -> Result<Expr> {
        let mut left = self.product()?;
        loop {
            let op = match self.peek() {
                Token::Sign("+") => BinaryOp::Add,
                Token::Sign("-") => BinaryOp::Sub,
                _ => return Ok(left),
            };
            self.next();
            left = binary(op, left, self.product()?)?;
        }
    }

    fn product(&mut self) -> Result<Expr> {
        let mut left = self.factor()?;
        loop {
            let op = match self.peek() {
                Token::Sign("*") => BinaryOp::Mul,
                Token::Sign("/") => BinaryOp::Div,
                Token::Sign("%") => BinaryOp::Rem,
                Token::Sign("^") => return Err(self.expected(NO_POWER)),
                _ => return Ok(left),
            };
            self.next();
            if op == BinaryOp::Mul && self.peek() == &Token::Sign("*") {
                return Err(self.expected(NO_POWER));
            }
            left = binary(op, left, self.factor()?)?;
        }
    }

    fn factor(&mut self) -> Result<Expr> {
        let start = self.span().start;
        if self.sign("-").is_none() {
            return self.primary();
        }
        let operand = self.deeper(Self::factor)?;
        let span = start..operand.span.end;
        match operand.kind {
            ExprKind::Number(n) => Ok(Expr { kind: ExprKind::Number(n.negated()), span, depth: 1 }),
            _ => Expr::new(ExprKind::Unary(UnaryOp::Neg, Box::new(operand)), span),
        }
    }

    fn primary(&mut self) -> Result<Expr> {
        let span = self.span();
        match self.peek().clone() {
            Token::Number(number) => {
                self.next();
                Expr::new(ExprKind::Number(number), span)
            }
            Token::Symbol(name) => {
                self.next();
                Expr::new(ExprKind::Symbol(name), span)
            }
            // At the end of a line, the word would continue with the next line.
            Token::Name(name) if name == "where" && self.peek_after() != &Token::Sign("(") => {
                Err(self.expected("an expression"))
            }
            Token::Name(name) => {
                self.next();
                self.named(name, span)
            }
            Token::Sign("(") => {
                self.next();
                let inner = self.expr()?;
                self.expect(")")?;
                Ok(Expr { span: self.since(span.start), ..inner })
            }
            _ => Err(self.expected("an expression")),
        }
    }

    /// Parses a call, an access or a bare name.
    fn named(&mut self, name: String, span: ByteRange) -> Result<Expr> {
        if let (Token::Sign("("), Some(distribution)) = (self.peek(), distribution(&name)) {
            return self.random_value(distribution, &span);
        }
        match self.peek() {
            Token::Sign("(") if name == "pad" => self.pad(span),
            Token::Sign("(") if name == "size" => self.size(span),
            Token::Sign("(") if self.is_function(&name) => {
                let call = self.call(name, span)?;
                let span = call.span.clone();
                Expr::new(ExprKind::Call(Box::new(call)), span)
            }
            Token::Sign("(") => {
                self.next();
                let args = self.arguments(Self::expr)?;
                builtin(name, args, &self.functions, span.clone(), self.since(span.start))
            }
            Token::Sign("[") => {
                let access = self.access(name, span)?;
                let span = access.span.clone();
                Expr::new(ExprKind::Access(Box::new(access)), span)
            }
            _ if name.ends_with(".merge") => {
                let access = self.access(name, span.clone())?;
                Expr::new(ExprKind::Access(Box::new(access)), span)
            }
            _ => Expr::new(ExprKind::Name(name), span),
        }
    }

    /// Parses arguments, separated by commas, up to and with `)`.
    fn arguments<T>(&mut self, argument: impl Fn(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        if self.sign(")").is_some() {
            return Ok(Vec::new());
        }
        let arguments = self.list(argument)?;
        self.sign(")").map(|_| arguments).ok_or_else(|| self.expected("`,` or `)`"))
    }

    /// Parses the arguments of a function that the text or the prelude defines, and the optional indices of
    /// its result.
    pub(super) fn call(&mut self, function: String, name_span: ByteRange) -> Result<Call> {
        if !self.functions.contains(&function) {
            self.prelude_calls.extend(prelude::name(&function));
        }
        self.expect("(")?;
        let arguments = self.arguments(Self::argument)?;
        let indices = self.bracketed(Self::axis_index)?;
        let span = self.since(name_span.start);
        Ok(Call { function, name_span, arguments, indices, span })
    }

    /// Parses `value` or `parameter = value`.
    fn argument(&mut self) -> Result<Argument> {
        let mut name = None;
        if let (Token::Name(parameter), Token::Sign("=")) = (self.peek().clone(), self.peek_after()) {
            name = Some((parameter, self.next().span));
            self.next();
        }
        Ok(Argument { name, value: self.expr()? })
    }

    /// Parses `(letter)`, `(node, axis)` or `(..)` after `size`.
    fn size(&mut self, start: ByteRange) -> Result<Expr> {
        self.expect("(")?;
        if self.peek() == &Token::Sign("..") {
            let row = self.row()?;
            self.expect(")")?;
            return Expr::new(ExprKind::RowSize(row), self.since(start.start));
        }
        let kind = match self.size_of()? {
            IndexExprKind::AxisSize(size) => ExprKind::AxisSize(size),
            IndexExprKind::LetterSize(letter) => ExprKind::Size(letter),
            _ => return Err(self.expected("a letter")),
        };
        Expr::new(kind, self.since(start.start))
    }

    /// Parses `(node, number)[indices]` after `pad`.
    fn pad(&mut self, start: ByteRange) -> Result<Expr> {
        self.expect("(")?;
        let Token::Name(name) = self.peek().clone() else { return Err(self.expected("a node")) };
        let name_span = self.next().span;
        if self.sign(",").is_none() {
            return Err(self.expected("`,`; all brackets follow the parenthesis, as in `pad(x, 0)[i]`"));
        }
        let (outside, outside_span) = self.signed_number()?;
        self.expect(")")?;
        if self.peek() != &Token::Sign("[") {
            return Err(self.expected("indices of the padded node, such as `[i]`"));
        }
        let mut access = self.access(name, name_span)?;
        access.span = self.since(start.start);
        let span = access.span.clone();
        Expr::new(ExprKind::Pad(Box::new(access), outside, outside_span), span)
    }

    /// Parses a number with an optional sign.
    pub(crate) fn signed_number(&mut self) -> Result<(Number, ByteRange)> {
        let start = self.span().start;
        let negative = self.sign("-").is_some();
        let named = |name: &str| Number::named(name).ok_or_else(|| self.expected("a number"));
        let number = match self.peek() {
            Token::Number(number) => *number,
            Token::Name(name) => named(name)?,
            _ => return Err(self.expected("a number")),
        };
        self.next();
        Ok((if negative { number.negated() } else { number }, self.since(start)))
    }
}

/// The operation of a comparison sign, and whether its operands are exchanged.
fn comparison_op(token: &Token) -> Option<(BinaryOp, bool)> {
    match token {
        Token::Sign("<") => Some((BinaryOp::Lt, false)),
        Token::Sign("<=") => Some((BinaryOp::Le, false)),
        Token::Sign(">") => Some((BinaryOp::Lt, true)),
        Token::Sign(">=") => Some((BinaryOp::Le, true)),
        Token::Sign("==") => Some((BinaryOp::Eq, false)),
        Token::Sign("!=") => Some((BinaryOp::Ne, false)),
        _ => None,
    }
}

fn binary(op: BinaryOp, a: Expr, b: Expr) -> Result<Expr> {
    let span = a.span.start..b.span.end;
    Expr::new(ExprKind::Binary(op, Box::new(a), Box::new(b)), span)
}

/// A call of a function of the language. `defined` has the functions that the text defines.
fn builtin(
    name: String,
    args: Vec<Expr>,
    defined: &BTreeSet<String>,
    name_span: ByteRange,
    span: ByteRange,
) -> Result<Expr> {
    let found = args.len();
    let arity = |expected| {
        let instead = synonyms::of_call(&name, found);
        TextErrorKind::Arity { name: name.clone(), expected, found, instead }.at(&span)
    };
    let token = |op: &'static str| op == name;
    if let Some(&op) = UnaryOp::ALL.iter().find(|op| token(op.token())) {
        let [a] = exactly(args).ok_or_else(|| arity(1))?;
        return Expr::new(ExprKind::Unary(op, Box::new(a)), span);
    }
    if let Some(&op) = BinaryOp::ALL.iter().find(|op| token(op.token())) {
        let [a, b] = exactly(args).ok_or_else(|| arity(2))?;
        return Expr::new(ExprKind::Binary(op, Box::new(a), Box::new(b)), span);
    }
    if let Some(&op) = TernaryOp::ALL.iter().find(|op| token(op.token())) {
        let three = exactly(args).ok_or_else(|| arity(3))?;
        return Expr::new(ExprKind::Ternary(op, Box::new(three)), span);
    }
    if let Ok(dtype) = name.parse::<DType>() {
        let [a] = exactly(args).ok_or_else(|| arity(1))?;
        return Expr::new(ExprKind::Cast(dtype, Box::new(a)), span);
    }
    if let Some(kind) = fills::within_expression(&name) {
        return Err(kind.at(&name_span));
    }
    let all = functions().chain(defined.iter().cloned()).chain(prelude::names().map(str::to_owned));
    let (near, instead) = (similar(&name, all), synonyms::of(&name));
    Err(TextErrorKind::UnknownFunction { name, near, instead }.at(&name_span))
}

fn exactly<const N: usize>(args: Vec<Expr>) -> Option<[Expr; N]> {
    args.try_into().ok()
}

/// Whether a program may define a function of this name, which the language has. Programs did so before the
/// language had it.
pub(super) fn may_be_redefined(function: &str) -> bool {
    matches!(function, "atan" | "erf" | "erfc" | "expm1" | "log1p" | "sigmoid")
}

/// The names of the functions of the language.
pub(super) fn functions() -> impl Iterator<Item = String> {
    let unary = UnaryOp::ALL.iter().map(|op| op.token());
    let binary = BinaryOp::ALL.iter().map(|op| op.token());
    let ternary = TernaryOp::ALL.iter().map(|op| op.token());
    let all = unary
        .chain(binary)
        .chain(ternary)
        .chain(DType::ALL.iter().map(|d| d.token()))
        .chain(["pad", "size"])
        .chain(DISTRIBUTIONS.into_iter().map(Distribution::token));
    all.filter(|name| name.starts_with(|c: char| c.is_ascii_alphabetic())).map(str::to_owned)
}
