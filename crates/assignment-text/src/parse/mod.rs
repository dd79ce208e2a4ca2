//! The parser of assignment text, by recursive descent.
//!
//! Words such as `size` and `def` begin an item only where a second name follows, which no statement has, so
//! nodes may have these names too.

mod declarations;
mod expressions;
mod indices;
mod items;

use std::collections::BTreeSet;

use tnode::MAX_RANK;

pub(super) use self::declarations::declarations;
pub(super) use self::expressions::{depth, functions, may_be_redefined, node};
use crate::ast::{Access, Index, Item, Statement};
use crate::constraint::{Comparison, Constraint};
use crate::error::{LocatedError, TextErrorKind};
use crate::lex::{SpannedToken, Token, describe, tokens};
use crate::linear::IndexExpr;
use crate::{prelude, synonyms};
use assignments::AccumOp;
use assignments::ByteRange;

/// The largest nesting depth of brackets and operations.
const MAX_DEPTH: usize = 100;

pub(super) type ParseResult<T> = Result<T, LocatedError>;

/// The syntax trees of a text.
#[derive(Debug)]
pub(super) struct ParsedProgram {
    pub(super) items: Vec<Item>,
    /// The functions of the prelude that the text calls.
    pub(super) prelude_calls: BTreeSet<&'static str>,
    /// The names of the symbols, in order of mention, with repetitions.
    pub(super) symbols: Vec<String>,
}

pub(crate) fn program(text: &str) -> ParseResult<ParsedProgram> {
    part(text, 0)
}

/// Parses a text from the byte `start`.
pub(crate) fn part(text: &str, start: usize) -> ParseResult<ParsedProgram> {
    let tokens = tokens(text, start)?;
    let symbol = |token: &SpannedToken| match &token.token {
        Token::Symbol(name) => Some(name.clone()),
        _ => None,
    };
    let symbols = tokens.iter().filter_map(symbol).collect();
    let functions = defined_functions(&tokens);
    let mut parser = Parser { functions, ..Parser::new(text, tokens) };
    let items = parser.items(&Token::Eof)?;
    Ok(ParsedProgram { items, prelude_calls: parser.prelude_calls, symbols })
}

/// The names of the functions that the text defines. A call may precede the definition.
fn defined_functions(tokens: &[SpannedToken]) -> BTreeSet<String> {
    let definition = |window: &[SpannedToken]| match [&window[0].token, &window[1].token, &window[2].token] {
        [Token::Name(def), Token::Name(name), Token::Sign("(")] if def == "def" => Some(name.clone()),
        _ => None,
    };
    tokens.windows(3).filter_map(definition).collect()
}

pub(super) struct Parser<'a> {
    text: &'a str,
    /// Ends with [`Token::Eof`].
    tokens: Vec<SpannedToken>,
    /// The names of the functions that the text defines.
    functions: BTreeSet<String>,
    prelude_calls: BTreeSet<&'static str>,
    at: usize,
    depth: usize,
}

impl<'a> Parser<'a> {
    /// A parser of a text that defines no functions.
    fn new(text: &'a str, tokens: Vec<SpannedToken>) -> Parser<'a> {
        let (functions, prelude_calls) = Default::default();
        Parser { text, tokens, functions, prelude_calls, at: 0, depth: 0 }
    }

    /// Whether a function of the text or of the prelude has the name.
    fn is_function(&self, name: &str) -> bool {
        self.functions.contains(name) || prelude::name(name).is_some()
    }

    fn current(&self) -> &SpannedToken {
        &self.tokens[self.at.min(self.tokens.len() - 1)]
    }

    pub(crate) fn peek(&self) -> &Token {
        &self.current().token
    }

    pub(crate) fn peek_after(&self) -> &Token {
        &self.tokens[(self.at + 1).min(self.tokens.len() - 1)].token
    }

    fn span(&self) -> ByteRange {
        self.current().span.clone()
    }

    pub(crate) fn next(&mut self) -> SpannedToken {
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

    pub(crate) fn expect(&mut self, sign: &'static str) -> ParseResult<ByteRange> {
        self.sign(sign).ok_or_else(|| self.expected(&format!("`{sign}`")))
    }

    pub(crate) fn expected(&self, what: &str) -> LocatedError {
        let SpannedToken { token, span } = self.current();
        let found = describe(token, self.text.get(span.clone()).unwrap_or_default());
        TextErrorKind::Syntax { expected: what.to_owned(), found }.at(span.clone())
    }

    /// Whether the end of the statement or a `where` follows the next call.
    pub(crate) fn ends_after_call(&self) -> bool {
        let mut open = 0usize;
        for spanned in &self.tokens[self.at.min(self.tokens.len())..] {
            match &spanned.token {
                Token::Sign("(") => open += 1,
                Token::Sign(")") => open = open.saturating_sub(1),
                Token::End | Token::Eof | Token::Sign("}") => return true,
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
    pub(crate) fn since(&self, start: usize) -> ByteRange {
        let last = self.at.saturating_sub(1);
        start..self.tokens.get(last).map_or(start, |token| token.span.end)
    }

    fn statement(&mut self) -> ParseResult<Statement> {
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
        let constraints = if self.accept(&Token::Name("where".to_owned())).is_some() {
            self.list(Self::comparisons)?.concat()
        } else {
            Vec::new()
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

    fn target(&mut self) -> ParseResult<Access> {
        let name = match self.peek().clone() {
            // On a line of its own, the word continues the statement before.
            Token::Name(name) if name != "where" => name,
            _ => return Err(self.expected("a statement such as `y[i] := x[i]`")),
        };
        let name_span = self.next().span;
        self.access(name, name_span)
    }

    /// Parses one or more items, separated by commas.
    pub(crate) fn list<T>(&mut self, item: impl Fn(&mut Self) -> ParseResult<T>) -> ParseResult<Vec<T>> {
        let mut items = vec![item(self)?];
        while self.sign(",").is_some() {
            items.push(item(self)?);
        }
        Ok(items)
    }

    /// Parses a chain of comparisons, such as `k < 3` or `i <= j < i + 4`.
    fn comparisons(&mut self) -> ParseResult<Vec<Constraint>> {
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

    fn at_index(&self) -> bool {
        let token = self.peek();
        matches!(token, Token::Number(_) | Token::Name(_) | Token::Symbol(_) | Token::Sign("(" | "-"))
    }

    /// Parses an integer, which may mention sizes and letters of repetitions.
    fn integer(&mut self) -> ParseResult<IndexExpr> {
        if self.at_index() { self.index() } else { Err(self.expected("an integer")) }
    }

    /// Parses the optional indices after a node's name, which may end with `.merge`.
    fn access(&mut self, name: String, name_span: ByteRange) -> ParseResult<Access> {
        let (name, merge) = match name.strip_suffix(".merge") {
            Some(node) => (node.to_owned(), true),
            None => (name, false),
        };
        let mut indices = self.bracketed_indices()?.unwrap_or_default();
        let mut family = Vec::new();
        if !indices.is_empty() && self.peek() == &Token::Sign("[") {
            family = indices.into_iter().map(family_position).collect::<ParseResult<_>>()?;
            indices = self.bracketed_indices()?.unwrap_or_default();
        }
        if indices.len() > MAX_RANK {
            let many = tnode::Error::TooManyAxes { found: indices.len(), limit: MAX_RANK };
            return Err(TextErrorKind::from(many).at(name_span));
        }
        Ok(Access { name, family, merge, indices, span: self.since(name_span.start), name_span })
    }
}

/// The first of two brackets after a name, which selects a node of a family.
fn family_position(index: Index) -> ParseResult<IndexExpr> {
    match index {
        Index::Linear(position) => Ok(position),
        Index::Concat(_) | Index::Row(_) | Index::Computed(_) => {
            let expected = "an integer, which selects a node of a family as in `w[l][i,j]`".to_owned();
            let found = "another index".to_owned();
            Err(TextErrorKind::Syntax { expected, found }.at(index.span().clone()))
        }
    }
}

fn assignment_signs() -> String {
    let plain = "`:=`".to_owned();
    let others = [AccumOp::Add, AccumOp::Mul, AccumOp::Max, AccumOp::Min];
    let signs = others.iter().map(|op| format!("`{op}`")).chain(others.iter().map(|op| format!("`:{op}`")));
    std::iter::once(plain).chain(signs).collect::<Vec<_>>().join(" ")
}
