//! The parser of indices.

use super::lex::Token;
use super::parser::Parser;
use crate::ast::{Concat, Index, Row};
use crate::error::{Result, TextErrorKind};
use crate::linear::{Atom, AxisSize, FactorOp, IndexExpr, IndexExprKind};
use crate::number::Number;
use assignments::ByteRange;
use assignments::indexing::concat::MAX_COMPONENTS;

impl Parser<'_> {
    pub(super) fn axis_index(&mut self) -> Result<Index> {
        let start = self.span().start;
        if self.peek() == &Token::Sign("..") {
            return self.row().map(Index::Row);
        }
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
            return Err(TextErrorKind::TooManyParts { limit: MAX_COMPONENTS }.at(&span));
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

    fn letter(&mut self) -> Result<(String, ByteRange)> {
        let Token::Name(name) = self.peek().clone() else {
            return Err(self.expected("a letter: concatenated axes are letters alone, as in `i^j`"));
        };
        Ok((name, self.next().span))
    }

    /// Parses `..` or `..r..`.
    pub(crate) fn row(&mut self) -> Result<Row> {
        let start = self.expect("..")?.start;
        let Token::Name(name) = self.peek().clone() else {
            return Ok(Row { name: String::new(), span: self.since(start) });
        };
        self.next();
        self.expect("..")?;
        Ok(Row { name, span: self.since(start) })
    }

    pub(crate) fn index(&mut self) -> Result<IndexExpr> {
        self.deeper(|p| {
            let first = p.index_product()?;
            let start = first.span.start;
            let mut others = Vec::new();
            loop {
                let minus = match p.peek() {
                    Token::Sign("+") => false,
                    Token::Sign("-") => true,
                    _ if others.is_empty() => return Ok(first),
                    _ => break,
                };
                p.next();
                others.push((minus, p.index_product()?));
            }
            let span = start..others.last().map_or(start, |(_, term)| term.span.end);
            Ok(IndexExpr { kind: IndexExprKind::Sum(Box::new(first), others), span })
        })
    }

    fn index_product(&mut self) -> Result<IndexExpr> {
        let first = self.index_factor()?;
        let start = first.span.start;
        let mut others = Vec::new();
        loop {
            let op = match self.peek() {
                Token::Sign("*") => FactorOp::Times,
                Token::Sign("/") => FactorOp::Over,
                Token::Sign("%") => FactorOp::Modulo,
                _ if others.is_empty() => return Ok(first),
                _ => break,
            };
            let op_span = self.next().span;
            others.push((op, op_span, self.index_factor()?));
        }
        let span = start..others.last().map_or(start, |(.., factor)| factor.span.end);
        Ok(IndexExpr { kind: IndexExprKind::Product(Box::new(first), others), span })
    }

    /// Parses `letter)` or `node, axis)` after `size(`. The node may be one of a family, as in `w[2]`.
    pub(super) fn size_of(&mut self) -> Result<IndexExprKind> {
        let Token::Name(name) = self.peek().clone() else { return Err(self.expected("a letter")) };
        self.next();
        let family = self.sizes()?;
        let kind = match self.sign(",") {
            None if !family.is_empty() => return Err(self.expected("`,` and the number of an axis")),
            None => IndexExprKind::LetterSize(name),
            Some(_) => match self.peek() {
                Token::Number(Number { int: Some(axis), .. }) => {
                    let axis = usize::try_from(*axis).unwrap_or(usize::MAX);
                    self.next();
                    IndexExprKind::AxisSize(AxisSize { node: name, family, axis })
                }
                _ => return Err(self.expected("the number of an axis, as in `size(x, 0)`")),
            },
        };
        self.expect(")")?;
        Ok(kind)
    }

    fn index_factor(&mut self) -> Result<IndexExpr> {
        let span = self.span();
        let kind = match self.peek().clone() {
            Token::Number(Number { int: Some(offset), .. }) => IndexExprKind::Number(offset),
            Token::Number(_) => {
                return Err(TextErrorKind::NotAffine { found: "a number that is no integer" }.at(&span));
            }
            Token::Name(name) if name == "size" && self.peek_after() == &Token::Sign("(") => {
                self.next();
                self.expect("(")?;
                let kind = self.size_of()?;
                return Ok(IndexExpr { kind, span: self.since(span.start) });
            }
            // A range that ended with this word would not end the statement.
            Token::Name(name) if name == "where" => return Err(self.expected("an index")),
            Token::Name(name) => {
                if matches!(self.peek_after(), Token::Sign("[" | "(")) {
                    return Err(TextErrorKind::NotAffine { found: "a value" }.at(&span));
                }
                IndexExprKind::Atom(Atom::Letter(name))
            }
            Token::Symbol(name) => IndexExprKind::Atom(Atom::Symbol(name)),
            Token::Sign("-") => {
                self.next();
                let inner = self.deeper(Self::index_factor)?;
                let span = span.start..inner.span.end;
                return Ok(IndexExpr { kind: IndexExprKind::Negated(Box::new(inner)), span });
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
        Ok(IndexExpr { kind, span })
    }
}
