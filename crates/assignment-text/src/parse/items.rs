//! The parser of items: statements, sizes, functions, repetitions and gradients.

use std::sync::Arc;

use super::expressions::{functions, may_be_redefined};
use super::lex::Token;
use super::parser::Parser;
use crate::ast::{Def, Detach, Gradient, Item, Parameter, Pattern, PatternAxis, Repeat, Role, SizeItem};
use crate::error::{Result, TextErrorKind, expected};
use assignments::ByteRange;

impl Parser<'_> {
    /// Parses items up to `end`, which is not consumed.
    pub(super) fn items(&mut self, end: &Token) -> Result<Vec<Item>> {
        let mut items = Vec::new();
        loop {
            while self.accept(&Token::End).is_some() {}
            if self.peek() == end {
                return Ok(items);
            }
            if self.peek() == &Token::Eof {
                return Err(self.expected("`}`"));
            }
            if self.item(&mut items)? {
                continue;
            }
            if !matches!(self.peek(), Token::End | Token::Eof) && self.peek() != end {
                return Err(self.expected("an operator, `where`, or the end of the statement"));
            }
        }
    }

    /// Parses an item, and returns whether it ends with a block.
    fn item(&mut self, items: &mut Vec<Item>) -> Result<bool> {
        let Token::Name(word) = self.peek().clone() else {
            items.push(Item::Statement(self.statement()?));
            return Ok(false);
        };
        match (word.as_str(), self.peek_after()) {
            ("size", Token::Name(_)) => items.extend(self.behind_word(Self::size_item, Item::Size)?),
            ("view", Token::Name(_)) => items.push(Item::View(self.view()?)),
            ("grad", Token::Name(_)) => items.push(Item::Gradient(self.gradient()?)),
            ("detach", Token::Name(_)) => {
                let detached = |node| Item::Detach(Detach { node, frame: None });
                items.extend(self.behind_word(Self::whole_node, detached)?);
            }
            ("def", Token::Name(_)) if self.depth > 0 => {
                return Err(self.expected("a statement: functions are defined outside of blocks"));
            }
            ("def", Token::Name(_)) => items.push(Item::Def(Arc::new(self.def()?))),
            ("repeat", Token::Name(_)) => items.push(Item::Repeat(self.repeat("repeat l in 0..4", false)?)),
            ("scan", Token::Name(_)) => items.push(Item::Scan(self.repeat("scan t in 0..4", true)?)),
            ("keep", Token::Name(_)) => items.extend(self.behind_word(Self::whole_node, Item::Keep)?),
            ("recompute", Token::Name(_)) => {
                items.extend(self.behind_word(Self::whole_node, Item::Recompute)?);
            }
            (word, Token::Name(_)) if Role::from_token(word).is_some() => {
                let role = Role::from_token(word).unwrap_or(Role::Node);
                items.extend(self.behind_word(|p| p.declaration(role), Item::Declaration)?);
            }
            (_, Token::Sign("(")) if self.is_function(&word) => {
                let name_span = self.next().span;
                items.push(Item::Call(self.call(word, name_span)?));
            }
            _ => items.push(Item::Statement(self.statement()?)),
        }
        Ok(matches!(items.last(), Some(Item::Def(_) | Item::Repeat(_) | Item::Scan(_))))
    }

    /// Parses the items behind a word, separated by commas.
    fn behind_word<T>(
        &mut self,
        parse: impl Fn(&mut Self) -> Result<T>,
        item: impl Fn(T) -> Item,
    ) -> Result<Vec<Item>> {
        self.next();
        Ok(self.list(parse)?.into_iter().map(item).collect())
    }

    /// Parses `name`, `name = integer` or `name <= integer`.
    fn size_item(&mut self) -> Result<SizeItem> {
        let (name, name_span) = self.name("the name of a size")?;
        let value = self.behind("=", Self::integer)?;
        let bound = if value.is_none() { self.behind("<=", Self::integer)? } else { None };
        Ok(SizeItem { name, name_span, value, bound })
    }

    /// Parses `repeat letter in from..to { .. }`, or the same with `scan` and perhaps a condition and
    /// checkpoints.
    fn repeat(&mut self, example: &str, is_scan: bool) -> Result<Repeat> {
        let start = self.next().span.start;
        let (letter, letter_span) = self.name(&format!("a letter, as in `{example}`"))?;
        if self.accept(&Token::Name("in".to_owned())).is_none() {
            return Err(self.expected(&format!("`in`, as in `{example}`")));
        }
        let from = self.integer()?;
        self.expect("..")?;
        let to = self.integer()?;
        let condition = is_scan.then(|| self.accept(&Token::Name("while".to_owned()))).flatten();
        let condition = condition.map(|_| self.expr()).transpose()?;
        let every = match is_scan.then(|| self.accept(&Token::Name("checkpoint".to_owned()))).flatten() {
            Some(_) if self.accept(&Token::Name("every".to_owned())).is_some() => Some(self.integer()?),
            Some(_) => return Err(self.expected("`every` and a number of steps, as in `checkpoint every 8`")),
            None => None,
        };
        let span = self.since(start);
        let body = self.block()?;
        Ok(Repeat { letter, letter_span, from, to, condition, every, body, span })
    }

    /// Parses `grad loss by w, b`.
    fn gradient(&mut self) -> Result<Gradient> {
        let start = self.next().span.start;
        let loss = self.whole_node()?;
        if self.accept(&Token::Name("by".to_owned())).is_none() {
            return Err(self.expected("`by` and parameters, as in `grad loss by w, b`"));
        }
        let parameters = self.list(Self::whole_node)?;
        Ok(Gradient { loss, parameters, span: self.since(start), frame: None })
    }

    /// Parses `{ .. }`.
    fn block(&mut self) -> Result<Vec<Item>> {
        self.expect("{")?;
        let items = self.deeper(|p| p.items(&Token::Sign("}")))?;
        self.expect("}")?;
        Ok(items)
    }

    /// Parses `def name(parameters) -> results { .. }`.
    fn def(&mut self) -> Result<Def> {
        self.next();
        let (name, name_span) = self.name("the name of a function")?;
        if functions().any(|known| known == name) && !may_be_redefined(&name) {
            return Err(TextErrorKind::ReservedFunction { name }.at(&name_span));
        }
        self.expect("(")?;
        let parameters = match self.sign(")") {
            Some(_) => Vec::new(),
            None => {
                let parameters = self.list(Self::parameter)?;
                self.expect(")")?;
                parameters
            }
        };
        let results = self.behind("->", |p| p.list(Self::pattern))?.unwrap_or_default();
        Ok(Def { name, name_span, parameters, results, body: self.block()? })
    }

    /// Parses `x[..,k]`, `inout x[..,k]`, `rate` or `rate = 0.1`.
    fn parameter(&mut self) -> Result<Parameter> {
        let is_inout = self.peek() == &Token::Name("inout".to_owned());
        if is_inout && matches!(self.peek_after(), Token::Name(_)) {
            self.next();
            return self.array_parameter(true);
        }
        if matches!(self.peek(), Token::Name(_)) && self.peek_after() == &Token::Sign("[") {
            return self.array_parameter(false);
        }
        let (name, name_span) = self.name("a parameter such as `x[..,k]` or `rate = 0.1`")?;
        Ok(Parameter::Scalar { name, name_span, default: self.behind("=", Self::expr)? })
    }

    /// Parses the pattern of a parameter, with at most one row variable: there is one way to match it.
    fn array_parameter(&mut self, inout: bool) -> Result<Parameter> {
        let pattern = self.pattern()?;
        let rows = pattern.axes.iter().filter_map(|axis| match axis {
            PatternAxis::Row(row) => Some(row),
            PatternAxis::Letter(..) => None,
        });
        if let Some(second) = rows.clone().nth(1) {
            return Err(expected("at most one `..`", "another one", &second.span));
        }
        Ok(Parameter::Array { pattern, inout })
    }

    /// Parses `x[..,k]`.
    fn pattern(&mut self) -> Result<Pattern> {
        let (name, name_span) = self.name("an array such as `y[..,k]`")?;
        let axes = self.bracketed(Self::pattern_axis)?.ok_or_else(|| self.expected("`[`"))?;
        let span = self.since(name_span.start);
        Ok(Pattern { name, name_span, axes, span })
    }

    fn pattern_axis(&mut self) -> Result<PatternAxis> {
        if self.peek() == &Token::Sign("..") {
            return self.row().map(PatternAxis::Row);
        }
        let (letter, span) = self.name("a letter, `..` or `..r..`")?;
        Ok(PatternAxis::Letter(letter, span))
    }

    /// Parses a name.
    pub(super) fn name(&mut self, what: &str) -> Result<(String, ByteRange)> {
        let Token::Name(name) = self.peek().clone() else { return Err(self.expected(what)) };
        Ok((name, self.next().span))
    }
}
