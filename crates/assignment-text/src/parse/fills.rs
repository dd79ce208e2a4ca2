//! Functions that fill a whole node, such as `y := offsets()`.

use super::lex::Token;
use super::parser::Parser;
use super::random::distribution;
use crate::ast::{Access, Fetch};
use crate::error::{Result, TextErrorKind};
use crate::number::Number;

/// The functions that fill a node, each with an example of its arguments.
const FORMS: [(&str, &str); 7] = [
    ("offsets", ""),
    ("self_id", ""),
    ("values", "1, 2.5"),
    ("bits", "0x7fc0"),
    ("slice", "x, @step"),
    ("ascending", "x, 0"),
    ("descending", "x, 0"),
];

/// An example of a statement with that function; empty if the function fills no node.
fn statement_form(name: &str) -> String {
    let form = FORMS.iter().find(|(form, _)| *form == name);
    form.map_or_else(String::new, |(form, inside)| format!("y := {form}({inside})"))
}

/// The error for a function inside an expression although it fills a whole node.
pub(super) fn within_expression(name: &str) -> Option<TextErrorKind> {
    let form = Some(statement_form(name)).filter(|form| !form.is_empty())?;
    Some(TextErrorKind::NoValue { name: name.to_owned(), form })
}

impl Parser<'_> {
    /// Whether the next tokens call a function that fills a node.
    pub(super) fn at_fetch(&self) -> bool {
        match self.peek() {
            Token::Name(name) => {
                self.peek_after() == &Token::Sign("(") && FORMS.iter().any(|(form, _)| form == name)
            }
            _ => false,
        }
    }

    /// Parses a function that fills a node. The target must be a node without indices.
    pub(super) fn fetch(&mut self, targets: &[Access], is_plain: bool) -> Result<Fetch> {
        let Token::Name(name) = self.peek().clone() else { return Err(self.expected("a function")) };
        let whole = matches!(targets, [target] if target.indices.is_empty() && !target.merge);
        if !whole || !is_plain {
            return Err(self
                .expected(&format!("a node without indices before it, as in `{}`", statement_form(&name))));
        }
        self.next();
        if let Some(distribution) = distribution(&name) {
            let fetch = self.random_fetch(distribution)?;
            self.expect(")")?;
            return Ok(fetch);
        }
        self.expect("(")?;
        let fetch = match name.as_str() {
            "offsets" => Fetch::Offsets,
            "self_id" => Fetch::SelfId,
            "values" => Fetch::Values(self.list(Self::signed_number)?),
            "bits" => self.bits()?,
            "ascending" | "descending" => self.order(name == "descending")?,
            _ => self.slice()?,
        };
        self.expect(")")?;
        Ok(fetch)
    }

    /// Parses a bit pattern.
    fn bits(&mut self) -> Result<Fetch> {
        let bits = match *self.peek() {
            Token::Bits(bits) => bits,
            Token::Number(Number { int: Some(int), .. }) => int.unsigned_abs(),
            _ => return Err(self.expected("a bit pattern such as `0x7fc0`")),
        };
        Ok(Fetch::Bits(bits, self.next().span))
    }

    /// Parses `node, axis`.
    fn order(&mut self, is_descending: bool) -> Result<Fetch> {
        let of = self.source()?;
        self.expect(",")?;
        let axis = match *self.peek() {
            Token::Number(Number { int: Some(int), .. }) => usize::try_from(int).ok(),
            _ => None,
        };
        let Some(axis) = axis else { return Err(self.expected("the number of an axis, from 0")) };
        self.next();
        Ok(Fetch::Order { of, axis, is_descending })
    }

    /// Parses a node that a function reads, which may be one of a family, as in `w[2]`.
    fn source(&mut self) -> Result<Access> {
        let Token::Name(of) = self.peek().clone() else { return Err(self.expected("a node")) };
        let of = Access::whole(of, &self.next().span);
        Ok(Access { family: self.sizes()?, ..of })
    }

    /// Parses `node, @symbol`.
    fn slice(&mut self) -> Result<Fetch> {
        let of = self.source()?;
        self.expect(",")?;
        let Token::Symbol(symbol) = self.peek().clone() else {
            return Err(self.expected("a symbol such as `@step`"));
        };
        self.next();
        Ok(Fetch::Slice { of, symbol })
    }
}
