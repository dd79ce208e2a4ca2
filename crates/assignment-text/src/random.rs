//! Calls that give random numbers, such as `uniform(seed, ..)`: as statements that fill a node, and as
//! values.

use tnode::DType;

use crate::ast::{Atom, Expr, ExprKind, Fetch, KeyArgument, Number, RandomCall};
use crate::error::{LocatedError, TextErrorKind};
use crate::lex::Token;
use crate::linear::{IndexExpr, IndexExprKind, Linear};
use crate::parse::{ParseResult, Parser, node};
use assignments::ByteRange;
use assignments::indexing::StaticSymbol;
use assignments::{Assignments, KeyPart, Random};
use lowered_ir::random::{Distribution, MAX_CELL, Scheme};

const DISTRIBUTIONS: [Distribution; 3] = [Distribution::Uniform, Distribution::Normal, Distribution::Bits];

/// The names of the functions that give random numbers.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    DISTRIBUTIONS.into_iter().map(Distribution::token)
}

/// The distribution of that name.
pub(crate) fn distribution(name: &str) -> Option<Distribution> {
    DISTRIBUTIONS.into_iter().find(|distribution| distribution.token() == name)
}

impl Parser<'_> {
    /// Parses a call that fills a node, after its name.
    pub(crate) fn random_fetch(&mut self, distribution: Distribution) -> ParseResult<Fetch> {
        self.expect("(")?;
        let scheme = self.scheme()?;
        if let Token::Name(of) = self.peek().clone() {
            let of_span = self.next().span;
            self.close_scheme(scheme)?;
            return Ok(Fetch::SampleValues { distribution, scheme, of, of_span });
        }
        self.random_call(distribution, scheme, "a seed such as `42`, or a node with samples")
            .map(Fetch::Random)
    }

    /// Whether the next tokens are a call that gives random numbers and ends the statement. `is_whole` says
    /// that they follow `:=`.
    pub(crate) fn at_random_fetch(&mut self, is_whole: bool) -> bool {
        let Token::Name(name) = self.peek() else { return false };
        let is_call = distribution(name).is_some() && self.peek_after() == &Token::Sign("(");
        is_whole && is_call && self.ends_after_call()
    }

    /// Parses a call that gives a value, after its name, which begins at `start`.
    pub(crate) fn random_value(
        &mut self,
        distribution: Distribution,
        start: &ByteRange,
    ) -> ParseResult<Expr> {
        self.expect("(")?;
        let scheme = self.scheme()?;
        let call = self.random_call(distribution, scheme, "a seed such as `42`")?;
        self.expect(")")?;
        if let Some(KeyArgument::SelfId(span)) =
            call.parts.iter().find(|part| matches!(part, KeyArgument::SelfId(_)))
        {
            let expected =
                "a number, symbol or index: only a node that is filled has a number here".to_owned();
            return Err(TextErrorKind::Syntax { expected, found: "`self_id()`".to_owned() }.at(span.clone()));
        }
        node(ExprKind::Random(Box::new(call)), self.since(start.start))
    }

    /// Parses `light(` or `crypto(`; without either, the scheme is the standard one.
    fn scheme(&mut self) -> ParseResult<Scheme> {
        let named = |scheme: &Scheme| match self.peek() {
            Token::Name(name) => scheme.token() == Some(name),
            _ => false,
        };
        match Scheme::ALL.iter().find(|scheme| named(scheme)) {
            Some(scheme) if self.peek_after() == &Token::Sign("(") => {
                self.next();
                self.next();
                Ok(*scheme)
            }
            _ => Ok(Scheme::Standard),
        }
    }

    fn close_scheme(&mut self, scheme: Scheme) -> ParseResult<()> {
        if scheme.token().is_some() {
            self.expect(")")?;
        }
        Ok(())
    }

    /// Parses the seed and the arguments after it.
    fn random_call(
        &mut self,
        distribution: Distribution,
        scheme: Scheme,
        seed: &str,
    ) -> ParseResult<RandomCall> {
        let kind = match self.peek().clone() {
            Token::Number(Number { int: Some(int), .. }) => IndexExprKind::Number(int),
            Token::Name(name) => IndexExprKind::Atom(Atom::Letter(name)),
            _ => return Err(self.expected(seed)),
        };
        let seed = IndexExpr { kind, span: self.next().span };
        self.close_scheme(scheme)?;
        let mut call = RandomCall { distribution, scheme, seed, parts: Vec::new() };
        while self.peek() == &Token::Sign(",") {
            self.next();
            call.parts.push(self.key_argument()?);
        }
        Ok(call)
    }

    fn key_argument(&mut self) -> ParseResult<KeyArgument> {
        if self.peek() == &Token::Sign("..") {
            return self.row().map(KeyArgument::Row);
        }
        let is_id = self.peek() == &Token::Name("self_id".to_owned());
        if !is_id || self.peek_after() != &Token::Sign("(") {
            return self.index().map(KeyArgument::Index);
        }
        let start = self.next().span.start;
        self.expect("(")?;
        self.expect(")")?;
        Ok(KeyArgument::SelfId(self.since(start)))
    }
}

/// A number that is folded into the key.
enum KeyComponent {
    SelfId,
    Number(i64),
    Symbol(String),
}

/// Splits the arguments into numbers of the key (`Ok`) and indices of the counter (`Err`).
fn split(part: &KeyArgument) -> Result<Result<KeyComponent, Linear>, LocatedError> {
    let linear = match part {
        KeyArgument::SelfId(_) => return Ok(Ok(KeyComponent::SelfId)),
        KeyArgument::Row(row) => return Err(TextErrorKind::RowOutsideFunction.at(row.span.clone())),
        KeyArgument::Index(index) => index.linear()?,
    };
    Ok(match linear.terms.as_slice() {
        [] => Ok(KeyComponent::Number(linear.offset)),
        [(Atom::Symbol(name), 1, _)] if linear.offset == 0 => Ok(KeyComponent::Symbol(name.clone())),
        _ => Err(linear),
    })
}

/// The seed of a call.
fn seed(call: &RandomCall, text: &str) -> Result<u64, LocatedError> {
    let at = |kind: TextErrorKind| kind.at(call.seed.span.clone());
    let value = || text.get(call.seed.span.clone()).unwrap_or_default().to_owned();
    let Some(int) = call.seed.integer()? else {
        let expected = "a seed such as `42`".to_owned();
        return Err(at(TextErrorKind::Syntax { expected, found: format!("`{}`", value()) }));
    };
    u64::try_from(int).map_err(|_| at(TextErrorKind::Literal { value: int.to_string(), dtype: DType::U64 }))
}

/// The random numbers of a call, and the arguments that are indices. `id` is the id of the node filled.
pub(crate) fn resolve(
    call: &RandomCall,
    id: Option<u64>,
    text: &str,
    assignments: &mut Assignments,
) -> Result<(Random, Vec<Linear>), LocatedError> {
    let mut random = Random::new(call.distribution, seed(call, text)?).with_scheme(call.scheme);
    let mut cell = Vec::new();
    for part in &call.parts {
        random = match split(part)? {
            Ok(KeyComponent::SelfId) => random.number(id.unwrap_or_default()),
            Ok(KeyComponent::Number(number)) => random.number(number as u64),
            Ok(KeyComponent::Symbol(name)) => {
                random.part(KeyPart::Symbol(assignments.symbol(&StaticSymbol::open(&name))))
            }
            Err(index) => {
                cell.push(index);
                random
            }
        };
    }
    match cell.get(MAX_CELL) {
        Some(extra) => Err(TextErrorKind::RandomIndices { limit: MAX_CELL }.at(extra.span.clone())),
        None => Ok((random, cell)),
    }
}

/// The random numbers of a call that fills a node. Such a call has no indices.
pub(crate) fn resolve_fetch(
    call: &RandomCall,
    id: u64,
    text: &str,
    assignments: &mut Assignments,
) -> Result<Random, LocatedError> {
    let (random, cell) = resolve(call, Some(id), text, assignments)?;
    match cell.first() {
        None => Ok(random),
        Some(index) => {
            let expected = "a number, a symbol or `self_id()`: a fill has no indices".to_owned();
            Err(TextErrorKind::Syntax { expected, found: "an index".to_owned() }.at(index.span.clone()))
        }
    }
}

/// Calls `f` on the letters in the arguments of a call, each with its byte range.
pub(crate) fn each_letter<'a>(call: &'a RandomCall, f: &mut dyn FnMut(&'a str, &'a ByteRange)) {
    for part in &call.parts {
        if let KeyArgument::Index(index) = part {
            index.each_atom(&mut |atom, span| {
                if let Atom::Letter(name) = atom {
                    f(name, span);
                }
            });
        }
    }
}
