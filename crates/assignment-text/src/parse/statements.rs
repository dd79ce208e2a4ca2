//! Statements, their targets and the comparisons behind `where`.

use tnode::MAX_RANK;

use super::lex::Token;
use super::parser::Parser;
use crate::ast::{Access, Index, Statement};
use crate::constraint::{Comparison, Constraint};
use crate::error::{Result, TextErrorKind, expected};
use crate::linear::IndexExpr;
use crate::synonyms;
use assignments::{AccumOp, ByteRange};

impl Parser<'_> {
    pub(super) fn statement(&mut self) -> Result<Statement> {
        let start = self.span().start;
        let lhs = self.list(Self::target)?;
        let Token::Assign { op, init } = *self.peek() else {
            let bare = lhs.last().is_none_or(|target| target.indices.is_empty());
            let word = lhs.last().and_then(|target| synonyms::of_word(&target.name));
            if let (Some(instead), true, Token::Name(_)) = (word, bare, self.peek()) {
                return Err(self.expected(&format!("an operator: {instead}")));
            }
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
        let constraints = match self.accept(&Token::Name("where".to_owned())) {
            Some(_) => self.list(Self::comparisons)?.concat(),
            None => Vec::new(),
        };
        let span = self.since(start);
        Ok(Statement {
            lhs,
            op,
            init,
            op_span,
            rhs,
            fetch,
            rhs_span,
            constraints,
            span,
            is_expanded: false,
            frame: None,
        })
    }

    fn target(&mut self) -> Result<Access> {
        let name = match self.peek().clone() {
            // On a line of its own, the word continues the statement before.
            Token::Name(name) if name != "where" => name,
            _ => return Err(self.expected("a statement such as `y[i] := x[i]`")),
        };
        let name_span = self.next().span;
        self.access(name, name_span)
    }

    /// Parses a chain of comparisons, such as `k < 3` or `i <= j < i + 4`.
    fn comparisons(&mut self) -> Result<Vec<Constraint>> {
        if !self.at_index() {
            return Err(self.expected("a letter or @symbol, as in `where k < 3`"));
        }
        let mut left = self.index()?;
        let mut chain = Vec::new();
        while let Some(comparison) = self.at_comparison() {
            self.next();
            let right = self.integer()?;
            let span = left.span.start..right.span.end;
            chain.push(Constraint { left, comparison, right: right.clone(), span });
            left = right;
        }
        match (self.peek(), chain.is_empty()) {
            (Token::Sign("==" | "!="), _) => {
                let other = "other conditions choose values, as in `where(i == j, x, 0)`";
                Err(self.expected(&format!("`<`, `<=`, `>` or `>=`; {other}")))
            }
            (_, true) => Err(self.expected("`<`, `<=`, `>` or `>=`")),
            (_, false) => Ok(chain),
        }
    }

    fn at_comparison(&self) -> Option<Comparison> {
        match self.peek() {
            Token::Sign(sign) => Comparison::of_sign(sign),
            _ => None,
        }
    }

    pub(super) fn at_index(&self) -> bool {
        let token = self.peek();
        matches!(token, Token::Number(_) | Token::Name(_) | Token::Symbol(_) | Token::Sign("(" | "-"))
    }

    /// Parses an integer, which may mention sizes and letters of repetitions.
    pub(super) fn integer(&mut self) -> Result<IndexExpr> {
        if self.at_index() { self.index() } else { Err(self.expected("an integer")) }
    }

    /// Parses the optional indices after a node's name, which may end with `.merge`.
    pub(super) fn access(&mut self, name: String, name_span: ByteRange) -> Result<Access> {
        let (name, merge) = match name.strip_suffix(".merge") {
            Some(node) => (node.to_owned(), true),
            None => (name, false),
        };
        let mut indices = self.bracketed(Self::axis_index)?.unwrap_or_default();
        let mut family = Vec::new();
        if !indices.is_empty() && self.peek() == &Token::Sign("[") {
            family = indices.into_iter().map(family_position).collect::<Result<_>>()?;
            indices = self.bracketed(Self::axis_index)?.unwrap_or_default();
        }
        if indices.len() > MAX_RANK {
            let many = tnode::TensorNodeError::TooManyAxes { found: indices.len(), limit: MAX_RANK };
            return Err(TextErrorKind::from(many).at(&name_span));
        }
        Ok(Access { name, family, merge, indices, span: self.since(name_span.start), name_span })
    }
}

/// The first of two brackets after a name, which selects a node of a family.
fn family_position(index: Index) -> Result<IndexExpr> {
    match index {
        Index::Linear(position) => Ok(position),
        Index::Concat(_) | Index::Row(_) | Index::Computed(_) => {
            let what = "an integer, which selects a node of a family as in `w[l][i,j]`";
            Err(expected(what, "another index", index.span()))
        }
    }
}

fn assignment_signs() -> String {
    let plain = "`:=`".to_owned();
    let others = [AccumOp::Add, AccumOp::Mul, AccumOp::Max, AccumOp::Min];
    let signs = others.iter().map(|op| format!("`{op}`")).chain(others.iter().map(|op| format!("`:{op}`")));
    std::iter::once(plain).chain(signs).collect::<Vec<_>>().join(" ")
}
