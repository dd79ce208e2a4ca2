//! Statements that fill a whole node by a function, such as `y := offsets()`.

use tnode::{DType, Scalar};

use crate::ast::{Access, Fetch, Number, Statement};
use crate::error::{LocatedError, TextErrorKind, framed};
use crate::lex::Token;
use crate::names::NodeNames;
use crate::parse::{ParseResult, Parser};
use crate::random;
use assignments::ByteRange;
use assignments::indexing::StaticSymbol;
use assignments::{AccessSpan, Assignments, CONSTANT_FILL_LIMIT, FetchOp, Origin, ProgramStep, SampleValues};
use lowered_ir::SourceText;

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
pub(crate) fn within_expression(name: &str) -> Option<TextErrorKind> {
    let form = Some(statement_form(name)).filter(|form| !form.is_empty())?;
    Some(TextErrorKind::NoValue { name: name.to_owned(), form })
}

impl Parser<'_> {
    /// Whether the next tokens call a function that fills a node.
    pub(crate) fn at_fetch(&self) -> bool {
        match self.peek() {
            Token::Name(name) => {
                self.peek_after() == &Token::Sign("(") && FORMS.iter().any(|(form, _)| form == name)
            }
            _ => false,
        }
    }

    /// Parses a function that fills a node. The target must be a node without indices.
    pub(crate) fn fetch(&mut self, targets: &[Access], is_plain: bool) -> ParseResult<Fetch> {
        let Token::Name(name) = self.peek().clone() else { return Err(self.expected("a function")) };
        let whole = matches!(targets, [target] if target.indices.is_empty() && !target.merge);
        if !whole || !is_plain {
            return Err(self
                .expected(&format!("a node without indices before it, as in `{}`", statement_form(&name))));
        }
        self.next();
        if let Some(distribution) = random::distribution(&name) {
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
    fn bits(&mut self) -> ParseResult<Fetch> {
        let bits = match *self.peek() {
            Token::Bits(bits) => bits,
            Token::Number(Number { int: Some(int), .. }) => int.unsigned_abs(),
            _ => return Err(self.expected("a bit pattern such as `0x7fc0`")),
        };
        Ok(Fetch::Bits(bits, self.next().span))
    }

    /// Parses `node, axis`.
    fn order(&mut self, is_descending: bool) -> ParseResult<Fetch> {
        let Token::Name(of) = self.peek().clone() else { return Err(self.expected("a node")) };
        let of_span = self.next().span;
        let family = self.sizes()?;
        self.expect(",")?;
        let axis = match *self.peek() {
            Token::Number(Number { int: Some(int), .. }) => usize::try_from(int).ok(),
            _ => None,
        };
        let Some(axis) = axis else { return Err(self.expected("the number of an axis, from 0")) };
        self.next();
        Ok(Fetch::Order { of, of_span, family, axis, is_descending })
    }

    /// Parses `node, @symbol`. The node may be one of a family, as in `w[2]`.
    fn slice(&mut self) -> ParseResult<Fetch> {
        let Token::Name(of) = self.peek().clone() else { return Err(self.expected("a node")) };
        let of_span = self.next().span;
        let family = self.sizes()?;
        self.expect(",")?;
        let Token::Symbol(symbol) = self.peek().clone() else {
            return Err(self.expected("a symbol such as `@step`"));
        };
        self.next();
        Ok(Fetch::Slice { of, of_span, family, symbol })
    }
}

/// The source spans of a statement that fills a node.
fn origin(text: &SourceText, statement: &Statement, target: &Access) -> Origin {
    let place = |span: &ByteRange| AccessSpan { whole: span.clone(), indices: Vec::new() };
    let call = place(&statement.rhs_span);
    let span = framed(statement.span.clone(), &statement.frame, text);
    Origin::new(text, span, place(&target.span), vec![call])
}

/// Appends the step of a statement that fills a node.
pub(crate) fn emit(
    statement: &Statement,
    text: &SourceText,
    nodes: &NodeNames,
    assignments: &mut Assignments,
) -> Result<(), LocatedError> {
    if let (Some(fetch), Some(target)) = (&statement.fetch, statement.lhs.first()) {
        let origin = origin(text, statement, target);
        let step = resolve(fetch, target, text, nodes, assignments, origin)?;
        assignments.steps.push(step);
    }
    Ok(())
}

/// The step of a statement that fills a node.
fn resolve(
    fetch: &Fetch,
    target: &Access,
    text: &str,
    nodes: &NodeNames,
    assignments: &mut Assignments,
    origin: Origin,
) -> Result<ProgramStep, LocatedError> {
    let node = nodes.find(&target.name).map_err(|kind| kind.at(target.name_span.clone()))?;
    let op = match fetch {
        Fetch::Offsets => FetchOp::RangeOverOffsets,
        Fetch::SelfId => FetchOp::EmbedSelfId,
        Fetch::Values(numbers) => {
            let dims = node
                .dims_without_padding()
                .map_err(|error| TextErrorKind::from(error).at(target.span.clone()))?;
            let (elements, found) = (dims.iter().product::<usize>(), numbers.len());
            if elements != found || found > CONSTANT_FILL_LIMIT {
                let (node, limit) = (node.name(), CONSTANT_FILL_LIMIT);
                return Err(TextErrorKind::Values { node, elements, found, limit }.at(target.span.clone()));
            }
            for (number, span) in numbers {
                let value = number.checked(node.dtype(), text, span)?;
                if !number.value.is_nan() && value != Scalar::from_f64(node.dtype(), number.value) {
                    let value = text.get(span.clone()).unwrap_or_default().to_owned();
                    return Err(TextErrorKind::Inexact { value }.at(span.clone()));
                }
            }
            FetchOp::ConstantFill(numbers.iter().map(|(number, _)| number.value).collect())
        }
        Fetch::Bits(bits, span) => {
            let dtype = node.dtype();
            // A truth value takes a byte, but only 0 and 1 are valid bit patterns.
            let width = if dtype == DType::Bool { 1 } else { 8 * dtype.size_bytes() as u32 };
            if bits.checked_shr(width).unwrap_or(0) != 0 {
                let value = format!("{bits:#x}");
                return Err(TextErrorKind::Literal { value, dtype }.at(span.clone()));
            }
            FetchOp::ConstantBits(*bits)
        }
        Fetch::Random(call) => {
            FetchOp::Random(random::resolve_fetch(call, node.id().get(), text, assignments)?)
        }
        Fetch::SampleValues { distribution, scheme, of, of_span } => {
            let of = nodes.find(of).map_err(|kind| kind.at(of_span.clone()))?;
            FetchOp::SampleValues(SampleValues { distribution: *distribution, scheme: *scheme, of })
        }
        Fetch::Order { of, of_span, axis, is_descending, .. } => {
            let of = nodes.find(of).map_err(|kind| kind.at(of_span.clone()))?;
            FetchOp::Order { of, axis: *axis, is_descending: *is_descending }
        }
        Fetch::Slice { of, of_span, symbol, .. } => {
            let of = nodes.find(of).map_err(|kind| kind.at(of_span.clone()))?;
            FetchOp::Slice { index: assignments.symbol(&StaticSymbol::open(symbol)), of }
        }
    };
    Ok(ProgramStep::Fetch { node, op, origin })
}
