//! The state of a parser: its place among the tokens.

use std::collections::BTreeSet;

use super::lex::{SpannedToken, Token, describe};
use crate::ast::MAX_DEPTH;
use crate::error::{LocatedError, Result, TextErrorKind, expected};
use crate::prelude;
use crate::source::excerpt;
use assignments::ByteRange;

pub(super) struct Parser<'a> {
    pub(super) text: &'a str,
    /// Ends with [`Token::Eof`].
    pub(super) tokens: Vec<SpannedToken>,
    /// The names of the functions that the text defines.
    pub(super) functions: BTreeSet<String>,
    pub(super) prelude_calls: BTreeSet<&'static str>,
    pub(super) at: usize,
    pub(super) depth: usize,
}

impl<'a> Parser<'a> {
    /// A parser of a text that defines no functions.
    pub(super) fn new(text: &'a str, tokens: Vec<SpannedToken>) -> Parser<'a> {
        let (functions, prelude_calls) = Default::default();
        Parser { text, tokens, functions, prelude_calls, at: 0, depth: 0 }
    }

    /// Whether a function of the text or of the prelude has the name.
    pub(super) fn is_function(&self, name: &str) -> bool {
        self.functions.contains(name) || prelude::name(name).is_some()
    }

    pub(super) fn current(&self) -> &SpannedToken {
        &self.tokens[self.at.min(self.tokens.len() - 1)]
    }

    pub(super) fn peek(&self) -> &Token {
        &self.current().token
    }

    pub(super) fn peek_after(&self) -> &Token {
        &self.tokens[(self.at + 1).min(self.tokens.len() - 1)].token
    }

    pub(super) fn span(&self) -> ByteRange {
        self.current().span.clone()
    }

    pub(super) fn next(&mut self) -> SpannedToken {
        let token = self.current().clone();
        self.at += 1;
        token
    }

    pub(super) fn accept(&mut self, token: &Token) -> Option<ByteRange> {
        (self.peek() == token).then(|| self.next().span)
    }

    pub(super) fn sign(&mut self, sign: &'static str) -> Option<ByteRange> {
        self.accept(&Token::Sign(sign))
    }

    /// Parses what follows a sign, if the sign is there.
    pub(super) fn behind<T>(
        &mut self,
        sign: &'static str,
        parse: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<Option<T>> {
        self.sign(sign).map(|_| parse(self)).transpose()
    }

    pub(super) fn expect(&mut self, sign: &'static str) -> Result<ByteRange> {
        self.sign(sign).ok_or_else(|| self.expected(&format!("`{sign}`")))
    }

    pub(super) fn expected(&self, what: &str) -> LocatedError {
        let SpannedToken { token, span } = self.current();
        expected(what, describe(token, excerpt(self.text, span)), span)
    }

    /// The token behind the next call.
    pub(super) fn behind_call(&self) -> &Token {
        let mut open = 0usize;
        for SpannedToken { token, .. } in self.tokens.iter().skip(self.at + 1) {
            match token {
                Token::Sign("(") => open += 1,
                Token::Sign(")") => open = open.saturating_sub(1),
                token if open == 0 => return token,
                _ => {}
            }
        }
        &Token::Eof
    }

    /// Runs `f` one nesting level deeper, and fails beyond the limit.
    pub(super) fn deeper<T>(&mut self, f: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(TextErrorKind::TooDeep { limit: MAX_DEPTH }.at(&self.span()));
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

    /// Parses items in brackets, separated by commas; `None` if there is no bracket.
    pub(super) fn bracketed<T>(&mut self, item: impl Fn(&mut Self) -> Result<T>) -> Result<Option<Vec<T>>> {
        if self.sign("[").is_none() {
            return Ok(None);
        }
        if self.sign("]").is_some() {
            return Ok(Some(Vec::new()));
        }
        let items = self.list(item)?;
        self.sign("]").map(|_| Some(items)).ok_or_else(|| self.expected("`,` or `]`"))
    }

    /// Parses one or more items, separated by commas.
    pub(super) fn list<T>(&mut self, item: impl Fn(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let mut items = vec![item(self)?];
        while self.sign(",").is_some() {
            items.push(item(self)?);
        }
        Ok(items)
    }
}
