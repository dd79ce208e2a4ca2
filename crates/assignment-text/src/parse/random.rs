//! Calls that give random numbers, such as `uniform(seed, ..)`: as statements that fill a node, and as
//! values.

use super::lex::Token;
use super::parser::Parser;
use crate::ast::{Access, Expr, ExprKind, Fetch, KeyArgument, RandomCall};
use crate::error::{Result, expected};
use crate::linear::{Atom, IndexExpr, IndexExprKind};
use crate::number::Number;
use assignments::ByteRange;
use lowered_ir::random::{Distribution, Scheme};

pub(super) const DISTRIBUTIONS: [Distribution; 3] =
    [Distribution::Uniform, Distribution::Normal, Distribution::Bits];

/// The distribution of the random numbers that the function of that name gives.
pub(super) fn distribution(name: &str) -> Option<Distribution> {
    DISTRIBUTIONS.into_iter().find(|distribution| distribution.token() == name)
}

impl Parser<'_> {
    /// Parses a call that fills a node, after its name.
    pub(super) fn random_fetch(&mut self, distribution: Distribution) -> Result<Fetch> {
        self.expect("(")?;
        let scheme = self.scheme()?;
        if let Token::Name(of) = self.peek().clone() {
            let of = Access::whole(of, &self.next().span);
            self.close_scheme(scheme)?;
            return Ok(Fetch::SampleValues { distribution, scheme, of });
        }
        self.random_call(distribution, scheme, "a seed such as `42`, or a node with samples")
            .map(Fetch::Random)
    }

    /// Whether the next tokens are a call that gives random numbers and ends the statement. `is_whole` says
    /// that they follow `:=`.
    pub(super) fn at_random_fetch(&self, is_whole: bool) -> bool {
        let Token::Name(name) = self.peek() else { return false };
        let is_call = distribution(name).is_some() && self.peek_after() == &Token::Sign("(");
        let ends = |token: &Token| match token {
            Token::End | Token::Eof | Token::Sign("}") => true,
            Token::Name(name) => name == "where",
            _ => false,
        };
        is_whole && is_call && ends(self.behind_call())
    }

    /// Parses a call that gives a value, after its name, which begins at `start`.
    pub(super) fn random_value(&mut self, distribution: Distribution, start: &ByteRange) -> Result<Expr> {
        self.expect("(")?;
        let scheme = self.scheme()?;
        let call = self.random_call(distribution, scheme, "a seed such as `42`")?;
        self.expect(")")?;
        if let Some(KeyArgument::SelfId(span)) =
            call.parts.iter().find(|part| matches!(part, KeyArgument::SelfId(_)))
        {
            let what = "a number, symbol or index: only a node that is filled has a number here";
            return Err(expected(what, "`self_id()`", span));
        }
        Expr::new(ExprKind::Random(Box::new(call)), self.since(start.start))
    }

    /// Parses `light(` or `crypto(`; without either, the scheme is the standard one.
    fn scheme(&mut self) -> Result<Scheme> {
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

    fn close_scheme(&mut self, scheme: Scheme) -> Result<()> {
        if scheme.token().is_some() {
            self.expect(")")?;
        }
        Ok(())
    }

    /// Parses the seed and the arguments after it.
    fn random_call(&mut self, distribution: Distribution, scheme: Scheme, seed: &str) -> Result<RandomCall> {
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

    fn key_argument(&mut self) -> Result<KeyArgument> {
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
