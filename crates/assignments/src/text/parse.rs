//! The parser of assignment text, by recursive descent.

use tnode::{DType, MAX_RANK};

use super::ast::{Access, Atom, Concat, Constraint, Expr, ExprKind, Index, Linear, Number, Statement};
use super::error::{LocatedError, TextErrorKind};
use super::lex::{SpannedToken, Token, describe, tokens};
use super::{fetch, names, random, synonyms};
use crate::AccumOp;
use crate::indexing::concat::MAX_COMPONENTS;
use crate::origin::ByteRange;
use lowered_ir::ir::{BinaryOp, TernaryOp, UnaryOp};

/// The largest nesting depth of brackets and operations.
const MAX_DEPTH: usize = 100;

pub(super) type ParseResult<T> = Result<T, LocatedError>;

/// The syntax trees of a text.
pub(super) struct ParsedProgram {
    pub(super) statements: Vec<Statement>,
    /// The names of the symbols, in order of mention, with repetitions.
    pub(super) symbols: Vec<String>,
}

pub(super) fn program(text: &str) -> ParseResult<ParsedProgram> {
    let mut parser = Parser { text, tokens: tokens(text)?, at: 0, depth: 0 };
    let symbol = |token: &SpannedToken| match &token.token {
        Token::Symbol(name) => Some(name.clone()),
        _ => None,
    };
    let symbols = parser.tokens.iter().filter_map(symbol).collect();
    let mut statements = Vec::new();
    loop {
        while parser.accept(&Token::End).is_some() {}
        if parser.peek() == &Token::Eof {
            return Ok(ParsedProgram { statements, symbols });
        }
        statements.push(parser.statement()?);
        match parser.peek() {
            Token::End | Token::Eof => {}
            _ => return Err(parser.expected("an operator, `where`, or the end of the statement")),
        }
    }
}

pub(super) struct Parser<'a> {
    text: &'a str,
    /// Ends with [`Token::Eof`].
    tokens: Vec<SpannedToken>,
    at: usize,
    depth: usize,
}

impl Parser<'_> {
    fn current(&self) -> &SpannedToken {
        &self.tokens[self.at.min(self.tokens.len() - 1)]
    }

    pub(super) fn peek(&self) -> &Token {
        &self.current().token
    }

    pub(super) fn peek_after(&self) -> &Token {
        &self.tokens[(self.at + 1).min(self.tokens.len() - 1)].token
    }

    fn span(&self) -> ByteRange {
        self.current().span.clone()
    }

    pub(super) fn next(&mut self) -> SpannedToken {
        let token = self.current().clone();
        self.at += 1;
        token
    }

    fn accept(&mut self, token: &Token) -> Option<ByteRange> {
        (self.peek() == token).then(|| self.next().span)
    }

    fn sign(&mut self, sign: &'static str) -> Option<ByteRange> {
        self.accept(&Token::Sign(sign))
    }

    pub(super) fn expect(&mut self, sign: &'static str) -> ParseResult<ByteRange> {
        self.sign(sign).ok_or_else(|| self.expected(&format!("`{sign}`")))
    }

    pub(super) fn expected(&self, what: &str) -> LocatedError {
        let SpannedToken { token, span } = self.current();
        let found = describe(token, self.text.get(span.clone()).unwrap_or_default());
        TextErrorKind::Syntax { expected: what.to_owned(), found }.at(span.clone())
    }

    /// Whether the end of the statement or a `where` follows the next call.
    pub(super) fn ends_after_call(&self) -> bool {
        let mut open = 0usize;
        for spanned in &self.tokens[self.at.min(self.tokens.len())..] {
            match &spanned.token {
                Token::Sign("(") => open += 1,
                Token::Sign(")") => open = open.saturating_sub(1),
                Token::End | Token::Eof => return true,
                Token::Name(name) if open == 0 && name == "where" => return true,
                Token::Sign(_) if open == 0 => return false,
                _ => {}
            }
        }
        true
    }

    /// Runs `f` one nesting level deeper, and fails beyond the limit.
    fn deeper<T>(&mut self, f: impl FnOnce(&mut Self) -> ParseResult<T>) -> ParseResult<T> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(TextErrorKind::TooDeep { limit: MAX_DEPTH }.at(self.span()));
        }
        let result = f(self);
        self.depth -= 1;
        result
    }

    /// The byte range from `start` to the end of the last token read.
    pub(super) fn since(&self, start: usize) -> ByteRange {
        let last = self.at.saturating_sub(1);
        start..self.tokens.get(last).map_or(start, |token| token.span.end)
    }

    fn statement(&mut self) -> ParseResult<Statement> {
        let start = self.span().start;
        let lhs = self.list(Self::target)?;
        let Token::Assign { op, init } = *self.peek() else {
            let bare = lhs.last().is_none_or(|target| target.indices.is_empty());
            let index = if bare { "indices such as `[i]`, or " } else { "" };
            return Err(self.expected(&format!("{index}one of {}", assignment_signs())));
        };
        let op_span = self.next().span;
        let is_whole =
            op == AccumOp::Assign && matches!(lhs.as_slice(), [target] if target.indices.is_empty());
        let rhs_start = self.span().start;
        let (rhs, fetch) = match self.at_fetch() || self.at_random_fetch(is_whole) {
            true => (Vec::new(), Some(self.fetch(&lhs, op == AccumOp::Assign)?)),
            false => (self.list(Self::expr)?, None),
        };
        let rhs_span = self.since(rhs_start);
        let constraints = if self.accept(&Token::Name("where".to_owned())).is_some() {
            self.list(Self::constraint)?
        } else {
            Vec::new()
        };
        let span = self.since(start);
        Ok(Statement { lhs, op, init, op_span, rhs, fetch, rhs_span, constraints, span })
    }

    fn target(&mut self) -> ParseResult<Access> {
        let Token::Name(name) = self.peek().clone() else {
            return Err(self.expected("a statement such as `y[i] := x[i]`"));
        };
        let name_span = self.next().span;
        self.access(name, name_span)
    }

    /// Parses one or more items, separated by commas.
    pub(super) fn list<T>(&mut self, item: impl Fn(&mut Self) -> ParseResult<T>) -> ParseResult<Vec<T>> {
        let mut items = vec![item(self)?];
        while self.sign(",").is_some() {
            items.push(item(self)?);
        }
        Ok(items)
    }

    fn constraint(&mut self) -> ParseResult<Constraint> {
        let start = self.span().start;
        let atom = match self.peek().clone() {
            Token::Name(name) => Atom::Letter(name),
            Token::Symbol(name) => Atom::Symbol(name),
            _ => return Err(self.expected("a letter or @symbol, as in `where k < 3`")),
        };
        self.next();
        self.expect("<")?;
        let Token::Number(Number { int: Some(limit), .. }) = *self.peek() else {
            return Err(self.expected("an integer"));
        };
        self.next();
        Ok(Constraint { atom, limit, span: self.since(start) })
    }

    /// Parses the optional indices after a node's name, which may end with `.merge`.
    fn access(&mut self, name: String, name_span: ByteRange) -> ParseResult<Access> {
        let (name, merge) = match name.strip_suffix(".merge") {
            Some(node) => (node.to_owned(), true),
            None => (name, false),
        };
        let mut indices = Vec::new();
        if self.sign("[").is_some() && self.sign("]").is_none() {
            indices = self.list(Self::axis_index)?;
            if self.sign("]").is_none() {
                return Err(self.expected("`,` or `]`"));
            }
        }
        if indices.len() > MAX_RANK {
            let many = tnode::Error::TooManyAxes { found: indices.len(), limit: MAX_RANK };
            return Err(TextErrorKind::from(many).at(name_span));
        }
        Ok(Access { name, merge, indices, span: self.since(name_span.start), name_span })
    }

    fn axis_index(&mut self) -> ParseResult<Index> {
        let start = self.span().start;
        if self.at_computed() {
            return self.expr().map(Index::Computed);
        }
        if !matches!(self.peek(), Token::Name(_)) || self.peek_after() != &Token::Sign("^") {
            return self.index().map(Index::Linear);
        }
        let mut letters = vec![self.letter()?];
        while self.sign("^").is_some() {
            letters.push(self.letter()?);
        }
        let span = self.since(start);
        // Each component has one letter active, so there can be no more letters than components.
        if letters.len() > MAX_COMPONENTS {
            return Err(TextErrorKind::TooManyParts { limit: MAX_COMPONENTS }.at(span));
        }
        Ok(Index::Concat(Concat { letters, span }))
    }

    /// Whether the next index is computed, that is, contains an access.
    fn at_computed(&self) -> bool {
        let mut depth = 0usize;
        let here = self.tokens.iter().skip(self.at);
        for (token, after) in here.clone().zip(here.skip(1)) {
            match &token.token {
                Token::Name(_) if after.token == Token::Sign("[") => return true,
                Token::Name(name) if name == "pad" && after.token == Token::Sign("(") => return true,
                Token::Sign("(") => depth += 1,
                Token::Sign(")") if depth > 0 => depth -= 1,
                Token::Sign("]" | ")") | Token::Assign { .. } | Token::End | Token::Eof => return false,
                Token::Sign(",") if depth == 0 => return false,
                _ => {}
            }
        }
        false
    }

    fn letter(&mut self) -> ParseResult<(String, ByteRange)> {
        let Token::Name(name) = self.peek().clone() else {
            return Err(self.expected("a letter: concatenated axes are letters alone, as in `i^j`"));
        };
        Ok((name, self.next().span))
    }

    pub(super) fn index(&mut self) -> ParseResult<Linear> {
        self.deeper(|p| {
            let mut sum = p.index_product()?;
            loop {
                let factor = match p.peek() {
                    Token::Sign("+") => 1,
                    Token::Sign("-") => -1,
                    _ => return Ok(sum),
                };
                p.next();
                let term = p.index_product()?;
                sum = add(sum, term, factor)?;
            }
        })
    }

    fn index_product(&mut self) -> ParseResult<Linear> {
        let mut product = self.index_factor()?;
        loop {
            match self.peek() {
                Token::Sign("*") => self.next(),
                Token::Sign("/" | "%") => {
                    return Err(TextErrorKind::NotAffine { found: "a division" }.at(self.span()));
                }
                _ => return Ok(product),
            };
            let factor = self.index_factor()?;
            product = multiply(product, factor)?;
        }
    }

    fn index_factor(&mut self) -> ParseResult<Linear> {
        let span = self.span();
        let atom = |atom| Linear { terms: vec![(atom, 1, span.clone())], offset: 0, span: span.clone() };
        let linear = match self.peek().clone() {
            Token::Number(Number { int: Some(offset), .. }) => match i64::try_from(offset) {
                Ok(offset) => Linear { terms: vec![], offset, span },
                Err(_) => return Err(TextErrorKind::NotAffine { found: "a number that overflows" }.at(span)),
            },
            Token::Number(_) => {
                return Err(TextErrorKind::NotAffine { found: "a number that is no integer" }.at(span));
            }
            Token::Name(name) => {
                if matches!(self.peek_after(), Token::Sign("[" | "(")) {
                    return Err(TextErrorKind::NotAffine { found: "a value" }.at(span));
                }
                atom(Atom::Letter(name))
            }
            Token::Symbol(name) => atom(Atom::Symbol(name)),
            Token::Sign("-") => {
                self.next();
                let negated = scale(self.deeper(Self::index_factor)?, -1)?;
                return Ok(Linear { span: span.start..negated.span.end, ..negated });
            }
            Token::Sign("(") => {
                self.next();
                let inner = self.index()?;
                self.expect(")")?;
                return Ok(inner);
            }
            _ => return Err(self.expected("an index such as `i`, `2*i + k - 1` or `@step`")),
        };
        self.next();
        Ok(linear)
    }

    fn expr(&mut self) -> ParseResult<Expr> {
        self.deeper(Self::comparison)
    }

    fn comparison(&mut self) -> ParseResult<Expr> {
        let left = self.sum()?;
        let Some((op, swapped)) = comparison_op(self.peek()) else { return Ok(left) };
        self.next();
        let right = self.sum()?;
        if comparison_op(self.peek()).is_some() {
            return Err(self.expected("no second comparison; combine with `and(a, b)`"));
        }
        if swapped { binary(op, right, left) } else { binary(op, left, right) }
    }

    fn sum(&mut self) -> ParseResult<Expr> {
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

    fn product(&mut self) -> ParseResult<Expr> {
        let mut left = self.factor()?;
        loop {
            let op = match self.peek() {
                Token::Sign("*") => BinaryOp::Mul,
                Token::Sign("/") => BinaryOp::Div,
                Token::Sign("%") => BinaryOp::Rem,
                _ => return Ok(left),
            };
            self.next();
            left = binary(op, left, self.factor()?)?;
        }
    }

    fn factor(&mut self) -> ParseResult<Expr> {
        let start = self.span().start;
        if self.sign("-").is_none() {
            return self.primary();
        }
        let operand = self.deeper(Self::factor)?;
        let span = start..operand.span.end;
        match operand.kind {
            ExprKind::Number(n) => Ok(Expr { kind: ExprKind::Number(n.negated()), span, depth: 1 }),
            _ => node(ExprKind::Unary(UnaryOp::Neg, Box::new(operand)), span),
        }
    }

    fn primary(&mut self) -> ParseResult<Expr> {
        let span = self.span();
        match self.peek().clone() {
            Token::Number(number) => {
                self.next();
                node(ExprKind::Number(number), span)
            }
            Token::Symbol(name) => {
                self.next();
                node(ExprKind::Symbol(name), span)
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
    fn named(&mut self, name: String, span: ByteRange) -> ParseResult<Expr> {
        if let (Token::Sign("("), Some(distribution)) = (self.peek(), random::distribution(&name)) {
            return self.random_value(distribution, &span);
        }
        match self.peek() {
            Token::Sign("(") if name == "pad" => self.pad(span),
            Token::Sign("(") if name == "size" => self.size(span),
            Token::Sign("(") => {
                self.next();
                let args = if self.sign(")").is_some() { Vec::new() } else { self.arguments()? };
                call(name, args, span.clone(), self.since(span.start))
            }
            Token::Sign("[") => {
                let access = self.access(name, span)?;
                let span = access.span.clone();
                node(ExprKind::Access(Box::new(access)), span)
            }
            _ if name.ends_with(".merge") => {
                let access = self.access(name, span.clone())?;
                node(ExprKind::Access(Box::new(access)), span)
            }
            _ => node(ExprKind::Name(name), span),
        }
    }

    fn arguments(&mut self) -> ParseResult<Vec<Expr>> {
        let args = self.list(Self::expr)?;
        if self.sign(")").is_none() {
            return Err(self.expected("`,` or `)`"));
        }
        Ok(args)
    }

    /// Parses `(letter)` after `size`.
    fn size(&mut self, start: ByteRange) -> ParseResult<Expr> {
        self.expect("(")?;
        let Token::Name(letter) = self.peek().clone() else { return Err(self.expected("a letter")) };
        self.next();
        self.expect(")")?;
        node(ExprKind::Size(letter), self.since(start.start))
    }

    /// Parses `(node, number)[indices]` after `pad`.
    fn pad(&mut self, start: ByteRange) -> ParseResult<Expr> {
        self.expect("(")?;
        let Token::Name(name) = self.peek().clone() else { return Err(self.expected("a node")) };
        let name_span = self.next().span;
        self.expect(",")?;
        let (outside, outside_span) = self.signed_number()?;
        self.expect(")")?;
        if self.peek() != &Token::Sign("[") {
            return Err(self.expected("indices of the padded node, such as `[i]`"));
        }
        let mut access = self.access(name, name_span)?;
        access.span = self.since(start.start);
        let span = access.span.clone();
        node(ExprKind::Pad(Box::new(access), outside, outside_span), span)
    }

    /// Parses a number with an optional sign.
    pub(super) fn signed_number(&mut self) -> ParseResult<(Number, ByteRange)> {
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

fn assignment_signs() -> String {
    let plain = "`:=`".to_owned();
    let others = [AccumOp::Add, AccumOp::Mul, AccumOp::Max, AccumOp::Min];
    let signs = others.iter().map(|op| format!("`{op}`")).chain(others.iter().map(|op| format!("`:{op}`")));
    std::iter::once(plain).chain(signs).collect::<Vec<_>>().join(" ")
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

fn binary(op: BinaryOp, a: Expr, b: Expr) -> ParseResult<Expr> {
    let span = a.span.start.min(b.span.start)..a.span.end.max(b.span.end);
    node(ExprKind::Binary(op, Box::new(a), Box::new(b)), span)
}

/// Makes an expression, and fails if it is nested too deep.
pub(super) fn node(kind: ExprKind, span: ByteRange) -> ParseResult<Expr> {
    let below = match &kind {
        ExprKind::Unary(_, a) | ExprKind::Cast(_, a) => a.depth,
        ExprKind::Binary(_, a, b) => a.depth.max(b.depth),
        ExprKind::Ternary(_, args) => args.iter().map(|arg| arg.depth).max().unwrap_or(0),
        ExprKind::Access(access) | ExprKind::Pad(access, ..) => {
            access.computed().map(|index| index.depth).max().unwrap_or(0)
        }
        ExprKind::Number(_)
        | ExprKind::Name(_)
        | ExprKind::Symbol(_)
        | ExprKind::Size(_)
        | ExprKind::Random(_) => 0,
    };
    if below >= MAX_DEPTH {
        return Err(TextErrorKind::TooDeep { limit: MAX_DEPTH }.at(span));
    }
    Ok(Expr { kind, span, depth: below + 1 })
}

fn call(name: String, args: Vec<Expr>, name_span: ByteRange, span: ByteRange) -> ParseResult<Expr> {
    let found = args.len();
    let arity = |expected| {
        let instead = synonyms::of_call(&name, found);
        TextErrorKind::Arity { name: name.clone(), expected, found, instead }.at(span.clone())
    };
    let token = |op: &'static str| op == name;
    if let Some(&op) = UnaryOp::ALL.iter().find(|op| token(op.token())) {
        let [a] = exactly(args).ok_or_else(|| arity(1))?;
        return node(ExprKind::Unary(op, Box::new(a)), span);
    }
    if let Some(&op) = BinaryOp::ALL.iter().find(|op| token(op.token())) {
        let [a, b] = exactly(args).ok_or_else(|| arity(2))?;
        return node(ExprKind::Binary(op, Box::new(a), Box::new(b)), span);
    }
    if let Some(&op) = TernaryOp::ALL.iter().find(|op| token(op.token())) {
        let three = exactly(args).ok_or_else(|| arity(3))?;
        return node(ExprKind::Ternary(op, Box::new(three)), span);
    }
    if let Ok(dtype) = name.parse::<DType>() {
        let [a] = exactly(args).ok_or_else(|| arity(1))?;
        return node(ExprKind::Cast(dtype, Box::new(a)), span);
    }
    if let Some(kind) = fetch::within_expression(&name) {
        return Err(kind.at(name_span));
    }
    let (near, instead) = (names::similar(&name, functions()), synonyms::of(&name));
    Err(TextErrorKind::UnknownFunction { name, near, instead }.at(name_span))
}

fn exactly<const N: usize>(args: Vec<Expr>) -> Option<[Expr; N]> {
    args.try_into().ok()
}

/// The names of all functions.
fn functions() -> impl Iterator<Item = String> {
    let unary = UnaryOp::ALL.iter().map(|op| op.token());
    let binary = BinaryOp::ALL.iter().map(|op| op.token());
    let ternary = TernaryOp::ALL.iter().map(|op| op.token());
    let all = unary
        .chain(binary)
        .chain(ternary)
        .chain(DType::ALL.iter().map(|d| d.token()))
        .chain(["pad", "size"])
        .chain(random::names());
    all.filter(|name| name.starts_with(|c: char| c.is_ascii_alphabetic())).map(str::to_owned)
}

/// `a + factor · b`.
fn add(a: Linear, b: Linear, factor: i64) -> ParseResult<Linear> {
    let span = a.span.start..b.span.end;
    let overflow = || TextErrorKind::NotAffine { found: "a number that overflows" }.at(span.clone());
    let b = scale(b, factor)?;
    let mut sum =
        Linear { offset: a.offset.checked_add(b.offset).ok_or_else(overflow)?, span: span.clone(), ..a };
    for (atom, coefficient, at) in b.terms {
        match sum.terms.iter_mut().find(|(known, ..)| *known == atom) {
            Some((_, known, _)) => *known = known.checked_add(coefficient).ok_or_else(overflow)?,
            None => sum.terms.push((atom, coefficient, at)),
        }
    }
    Ok(sum)
}

fn multiply(a: Linear, b: Linear) -> ParseResult<Linear> {
    let span = a.span.start..b.span.end;
    let (linear, factor) = match (a.terms.is_empty(), b.terms.is_empty()) {
        (true, _) => (b, a.offset),
        (_, true) => (a, b.offset),
        (false, false) => return Err(TextErrorKind::NotAffine { found: "a product of letters" }.at(span)),
    };
    scale(Linear { span, ..linear }, factor)
}

fn scale(mut linear: Linear, factor: i64) -> ParseResult<Linear> {
    let times = |c: i64, span: &ByteRange| {
        c.checked_mul(factor)
            .ok_or_else(|| TextErrorKind::NotAffine { found: "a number that overflows" }.at(span.clone()))
    };
    linear.offset = times(linear.offset, &linear.span)?;
    for (_, coefficient, span) in &mut linear.terms {
        *coefficient = times(*coefficient, span)?;
    }
    Ok(linear)
}
