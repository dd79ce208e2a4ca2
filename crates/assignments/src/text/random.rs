//! Calls that give random numbers, such as `uniform(seed, ..)`: as statements that fill a node, and as
//! values.

use tnode::DType;

use super::ast::{Atom, Expr, ExprKind, Fetch, KeyArgument, Linear, Number, RandomCall};
use super::error::{LocatedError, TextErrorKind};
use super::lex::Token;
use super::parse::{ParseResult, Parser, node};
use crate::indexing::StaticSymbol;
use crate::origin::ByteRange;
use crate::{Assignments, KeyPart, Random};
use lowered_ir::random::{Distribution, MAX_CELL, Scheme};

const DISTRIBUTIONS: [Distribution; 3] = [Distribution::Uniform, Distribution::Normal, Distribution::Bits];

/// The names of the functions that give random numbers.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    DISTRIBUTIONS.into_iter().map(Distribution::token)
}

/// The distribution of that name.
pub(super) fn distribution(name: &str) -> Option<Distribution> {
    DISTRIBUTIONS.into_iter().find(|distribution| distribution.token() == name)
}

impl Parser<'_> {
    /// Parses a call that fills a node, after its name.
    pub(super) fn random_fetch(&mut self, distribution: Distribution) -> ParseResult<Fetch> {
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
    pub(super) fn at_random_fetch(&mut self, is_whole: bool) -> bool {
        let Token::Name(name) = self.peek() else { return false };
        let is_call = distribution(name).is_some() && self.peek_after() == &Token::Sign("(");
        is_whole && is_call && self.ends_after_call()
    }

    /// Parses a call that gives a value, after its name, which begins at `start`.
    pub(super) fn random_value(
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
        let cell: Vec<&Linear> = call.parts.iter().filter_map(|part| split(part).err()).collect();
        if let Some(extra) = cell.get(MAX_CELL) {
            return Err(TextErrorKind::RandomIndices { limit: MAX_CELL }.at(extra.span.clone()));
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
        let Token::Number(Number { int: Some(int), .. }) = *self.peek() else {
            return Err(self.expected(seed));
        };
        let span = self.next().span;
        let seed = u64::try_from(int)
            .map_err(|_| TextErrorKind::Literal { value: int.to_string(), dtype: DType::U64 }.at(span))?;
        self.close_scheme(scheme)?;
        let mut call = RandomCall { distribution, scheme, seed, parts: Vec::new() };
        while self.peek() == &Token::Sign(",") {
            self.next();
            call.parts.push(self.key_argument()?);
        }
        Ok(call)
    }

    fn key_argument(&mut self) -> ParseResult<KeyArgument> {
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
enum KeyComponent<'a> {
    SelfId,
    Number(i64),
    Symbol(&'a str),
}

/// Splits the arguments into numbers of the key (`Ok`) and indices of the counter (`Err`).
fn split(part: &KeyArgument) -> Result<KeyComponent<'_>, &Linear> {
    match part {
        KeyArgument::SelfId(_) => Ok(KeyComponent::SelfId),
        KeyArgument::Index(linear) => match linear.terms.as_slice() {
            [] => Ok(KeyComponent::Number(linear.offset)),
            [(Atom::Symbol(name), 1, _)] if linear.offset == 0 => Ok(KeyComponent::Symbol(name)),
            _ => Err(linear),
        },
    }
}

/// The random numbers of a call, and the arguments that are indices. `id` is the id of the node filled.
pub(super) fn resolve<'a>(
    call: &'a RandomCall,
    id: Option<u64>,
    assignments: &mut Assignments,
) -> (Random, Vec<&'a Linear>) {
    let mut random = Random::new(call.distribution, call.seed).with_scheme(call.scheme);
    let mut cell = Vec::new();
    for part in &call.parts {
        random = match split(part) {
            Ok(KeyComponent::SelfId) => random.number(id.unwrap_or_default()),
            Ok(KeyComponent::Number(number)) => random.number(number as u64),
            Ok(KeyComponent::Symbol(name)) => {
                random.part(KeyPart::Symbol(assignments.symbol(&StaticSymbol::open(name))))
            }
            Err(index) => {
                cell.push(index);
                random
            }
        };
    }
    (random, cell)
}

/// The random numbers of a call that fills a node. Such a call has no indices.
pub(super) fn resolve_fetch(
    call: &RandomCall,
    id: u64,
    assignments: &mut Assignments,
) -> Result<Random, LocatedError> {
    let (random, cell) = resolve(call, Some(id), assignments);
    match cell.first() {
        None => Ok(random),
        Some(index) => {
            let expected = "a number, a symbol or `self_id()`: a fill has no indices".to_owned();
            Err(TextErrorKind::Syntax { expected, found: "an index".to_owned() }.at(index.span.clone()))
        }
    }
}

/// The letters in the arguments of a call, each with its byte range.
pub(super) fn letters(call: &RandomCall) -> impl Iterator<Item = (&String, &ByteRange)> {
    let terms = call.parts.iter().flat_map(|part| match part {
        KeyArgument::SelfId(_) => [].iter(),
        KeyArgument::Index(linear) => linear.terms.iter(),
    });
    terms.filter_map(|(atom, _, span)| match atom {
        Atom::Letter(name) => Some((name, span)),
        Atom::Symbol(_) => None,
    })
}
