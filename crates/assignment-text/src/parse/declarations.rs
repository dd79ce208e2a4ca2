//! The parser of declarations, and of the names of whole nodes.

use tnode::DType;

use super::lex::{SpannedToken, Token, describe, tokens};
use super::parser::Parser;
use super::random::distribution;
use crate::ast::{Access, Declaration, Initial, Role, View};
use crate::error::{Result, expected};
use crate::linear::IndexExpr;
use crate::source::excerpt;
use assignments::AccumOp;

/// Parses declarations without roles, such as `x f32[32, 64]; w f32[64, 10]`, separated by commas, semicolons
/// or newlines.
pub(crate) fn declarations(text: &str) -> Result<Vec<Declaration>> {
    let mut parser = Parser::new(text, tokens(text, 0)?);
    let mut declarations = Vec::new();
    loop {
        while parser.accept(&Token::End).is_some() {}
        if parser.peek() == &Token::Eof {
            return Ok(declarations);
        }
        declarations.extend(parser.list(|p| p.declaration(Role::Node))?);
        if !matches!(parser.peek(), Token::End | Token::Eof) {
            return Err(parser.expected("`,`, `;` or the end of the line"));
        }
    }
}

impl Parser<'_> {
    /// Parses `name type[sizes]`, and `:= value` where the role has values. The type and the sizes may be
    /// left out, and `name[position] type[sizes]` declares a node of a family.
    pub(super) fn declaration(&mut self, role: Role) -> Result<Declaration> {
        let mut target = self.node_name()?;
        let mut sizes = self.sizes()?;
        let dtype = self.dtype()?;
        if dtype.is_some() {
            target.family = std::mem::take(&mut sizes);
            sizes = self.sizes()?;
        }
        let span = self.since(target.span.start);
        let initial = match *self.peek() {
            Token::Assign { op: AccumOp::Assign, .. } if role.has_initial_value() => Some(self.initial()?),
            Token::Assign { .. } => {
                return Err(self.expected("the end of the declaration: only `param` and `const` have values"));
            }
            Token::Sign("=") if role.has_initial_value() => {
                return Err(self.expected("`:=` before the value"));
            }
            _ if role == Role::Const => {
                return Err(self.expected("the value of the constant, as in `const x f32[3] := 1`"));
            }
            _ => None,
        };
        Ok(Declaration { role, target, dtype, sizes, initial, span })
    }

    /// Parses the name of a node without indices, which may be one of a family.
    pub(super) fn whole_node(&mut self) -> Result<Access> {
        let mut target = self.node_name()?;
        target.family = self.sizes()?;
        Ok(target)
    }

    /// Parses `view name = node as [sizes]`.
    pub(super) fn view(&mut self) -> Result<View> {
        let start = self.next().span.start;
        let target = self.whole_node()?;
        self.expect("=")?;
        let of = self.whole_node()?;
        if self.accept(&Token::Name("as".to_owned())).is_none() || self.peek() != &Token::Sign("[") {
            return Err(self.expected("dimensions, as in `view v = x as [4, 8]`"));
        }
        let sizes = self.sizes()?;
        Ok(View { target, of, sizes, span: self.since(start) })
    }

    fn node_name(&mut self) -> Result<Access> {
        let what = "a name, as in `x f32[32, 64]`";
        if matches!(self.peek(), Token::Name(name) if name.parse::<DType>().is_ok()) {
            return Err(self.expected(what));
        }
        let (name, span) = self.name(what)?;
        Ok(Access::whole(name, &span))
    }

    /// Parses `[integer, ..]`, if there is one.
    pub(crate) fn sizes(&mut self) -> Result<Vec<IndexExpr>> {
        self.bracketed(Self::integer).map(Option::unwrap_or_default)
    }

    fn dtype(&mut self) -> Result<Option<DType>> {
        let Token::Name(name) = self.peek() else { return Ok(None) };
        let Ok(dtype) = name.parse::<DType>() else {
            return Err(self.expected("an element type such as `f32`"));
        };
        self.next();
        Ok(Some(dtype))
    }

    /// Parses `:= value`.
    fn initial(&mut self) -> Result<Initial> {
        let op_span = self.next().span;
        let start = self.span().start;
        let (value, fill) = match self.at_fetch() || self.at_random_fill() {
            true => (None, Some(self.fetch(&[Access::whole("", &self.span())], true)?)),
            false => (Some(self.expr()?), None),
        };
        let span = self.since(start);
        let tokens = &self.tokens[..self.at.min(self.tokens.len())];
        let symbol =
            |token: &&SpannedToken| token.span.start >= start && matches!(token.token, Token::Symbol(_));
        if let Some(token) = tokens.iter().find(symbol) {
            let found = describe(&token.token, excerpt(self.text, &token.span));
            return Err(expected("an initial value without symbols", found, &token.span));
        }
        Ok(Initial { value, fill, op_span, span })
    }

    /// Whether a call that gives random numbers is the whole initial value, and thus fills the node.
    fn at_random_fill(&self) -> bool {
        let Token::Name(name) = self.peek() else { return false };
        let is_call = distribution(name).is_some() && self.peek_after() == &Token::Sign("(");
        is_call && matches!(self.behind_call(), Token::End | Token::Eof | Token::Sign("," | "}"))
    }
}
