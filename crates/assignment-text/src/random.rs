//! The keys of random numbers.

use tnode::DType;

use crate::ast::{KeyArgument, RandomCall};
use crate::error::{Result, TextErrorKind, expected};
use crate::linear::{Atom, Linear};
use crate::source::excerpt;
use assignments::indexing::StaticSymbol;
use assignments::{KeyPart, Random, SymbolTable};
use lowered_ir::random::MAX_CELL;

/// The seed of a call.
fn seed(call: &RandomCall, text: &str) -> Result<u64> {
    let at = |kind: TextErrorKind| kind.at(&call.seed.span);
    let value = || excerpt(text, &call.seed.span).to_owned();
    let Some(int) = call.seed.integer()? else {
        return Err(expected("a seed such as `42`", format!("`{}`", value()), &call.seed.span));
    };
    u64::try_from(int).map_err(|_| at(TextErrorKind::Literal { value: int.to_string(), dtype: DType::U64 }))
}

/// The random numbers of a call, and the arguments that are indices. `id` is the id of the node filled.
pub(crate) fn resolve(
    call: &RandomCall,
    id: Option<u64>,
    text: &str,
    symbols: &mut SymbolTable,
) -> Result<(Random, Vec<Linear>)> {
    let mut random = Random::new(call.distribution, seed(call, text)?).with_scheme(call.scheme);
    let mut cell = Vec::new();
    for part in &call.parts {
        let index = match part {
            KeyArgument::SelfId(_) => {
                random = random.number(id.unwrap_or_default());
                continue;
            }
            KeyArgument::Row(row) => return Err(TextErrorKind::RowOutsideFunction.at(&row.span)),
            KeyArgument::Index(index) => index.linear()?,
        };
        random = match index.terms.as_slice() {
            [] => random.number(index.offset as u64),
            [(Atom::Symbol(name), 1, _)] if index.offset == 0 => {
                random.part(KeyPart::Symbol(symbols.enter(&StaticSymbol::open(name))))
            }
            _ => {
                cell.push(index);
                random
            }
        };
    }
    match cell.get(MAX_CELL) {
        Some(extra) => Err(TextErrorKind::RandomIndices { limit: MAX_CELL }.at(&extra.span)),
        None => Ok((random, cell)),
    }
}

/// The random numbers of a call that fills a node. Such a call has no indices.
pub(crate) fn resolve_fetch(
    call: &RandomCall,
    id: u64,
    text: &str,
    symbols: &mut SymbolTable,
) -> Result<Random> {
    let (random, cell) = resolve(call, Some(id), text, symbols)?;
    match cell.first() {
        None => Ok(random),
        Some(index) => {
            let what = "a number, a symbol or `self_id()`: a fill has no indices";
            Err(expected(what, "an index", &index.span))
        }
    }
}
