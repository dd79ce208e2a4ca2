//! Statements that fill a whole node by a function, such as `y := offsets()`.

use tnode::{DType, Scalar};

use crate::ast::{Access, Fetch, Statement};
use crate::error::{Result, TextErrorKind};
use crate::random;
use crate::source::{excerpt, framed};
use crate::tree::ResolvedFill;
use assignments::indexing::StaticSymbol;
use assignments::{
    AccessSpan, ByteRange, CONSTANT_FILL_LIMIT, FetchOp, Origin, ProgramStep, SampleValues, SymbolTable,
};
use lowered_ir::SourceText;

/// The source spans of a statement that fills a node.
fn origin(text: &SourceText, statement: &Statement, target: &Access) -> Origin {
    let place = |span: &ByteRange| AccessSpan { whole: span.clone(), indices: Vec::new() };
    let call = place(&statement.rhs_span);
    let span = framed(statement.span.clone(), &statement.frame, text);
    Origin::new(text, span, place(&target.span), vec![call])
}

/// The step of a statement that fills a node.
pub(super) fn emit(
    fill: &ResolvedFill,
    text: &SourceText,
    symbols: &mut SymbolTable,
) -> Result<Option<ProgramStep>> {
    let ResolvedFill { statement, node, of } = fill;
    let (Some(fetch), Some(target)) = (&statement.fetch, statement.lhs.first()) else { return Ok(None) };
    let origin = origin(text, statement, target);
    let op = match (fetch, of.clone()) {
        (Fetch::Offsets, _) => FetchOp::RangeOverOffsets,
        (Fetch::SelfId, _) => FetchOp::EmbedSelfId,
        (Fetch::Values(numbers), _) => {
            let dims =
                node.dims_without_padding().map_err(|error| TextErrorKind::from(error).at(&target.span))?;
            let (elements, found) = (dims.iter().product::<usize>(), numbers.len());
            if elements != found || found > CONSTANT_FILL_LIMIT {
                let (node, limit) = (node.name(), CONSTANT_FILL_LIMIT);
                return Err(TextErrorKind::Values { node, elements, found, limit }.at(&target.span));
            }
            for (number, span) in numbers {
                let value = number.checked(node.dtype(), text, span)?;
                if !number.value.is_nan() && value != Scalar::from_f64(node.dtype(), number.value) {
                    let value = excerpt(text, span).to_owned();
                    return Err(TextErrorKind::Inexact { value }.at(span));
                }
            }
            FetchOp::ConstantFill(numbers.iter().map(|(number, _)| number.value).collect())
        }
        (Fetch::Bits(bits, span), _) => {
            let dtype = node.dtype();
            // A truth value takes a byte, but only 0 and 1 are valid bit patterns.
            let width = if dtype == DType::Bool { 1 } else { 8 * dtype.size_bytes() as u32 };
            if bits.checked_shr(width).unwrap_or(0) != 0 {
                let value = format!("{bits:#x}");
                return Err(TextErrorKind::Literal { value, dtype }.at(span));
            }
            FetchOp::ConstantBits(*bits)
        }
        (Fetch::Random(call), _) => {
            FetchOp::Random(random::resolve_fetch(call, node.id().get(), text, symbols)?)
        }
        (Fetch::SampleValues { distribution, scheme, .. }, Some(of)) => {
            FetchOp::SampleValues(SampleValues { distribution: *distribution, scheme: *scheme, of })
        }
        (Fetch::Order { axis, is_descending, .. }, Some(of)) => {
            FetchOp::Order { of, axis: *axis, is_descending: *is_descending }
        }
        (Fetch::Slice { symbol, .. }, Some(of)) => {
            FetchOp::Slice { index: symbols.enter(&StaticSymbol::open(symbol)), of }
        }
        (Fetch::SampleValues { .. } | Fetch::Order { .. } | Fetch::Slice { .. }, None) => return Ok(None),
    };
    Ok(Some(ProgramStep::Fetch { node: node.clone(), op, origin }))
}
