//! Whole programs, and the functions of the prelude that they call.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::lex::{SpannedToken, Token, tokens};
use super::parser::Parser;
use crate::ast::{Def, Item};
use crate::error::{Result, TextError};
use crate::prelude::{self, FunctionSource};
use lowered_ir::SourceText;
use lowered_ir::stack::with_enough;

/// The syntax trees of a text.
#[derive(Debug)]
pub(crate) struct ParsedProgram {
    pub(crate) items: Vec<Item>,
    /// The functions of the prelude that the text calls.
    pub(crate) prelude_calls: BTreeSet<&'static str>,
    /// The names of the symbols, in order of mention, with repetitions.
    pub(crate) symbols: Vec<String>,
}

pub(crate) fn program(text: &str) -> Result<ParsedProgram> {
    part(text, 0)
}

/// Parses a text from the byte `start`.
fn part(text: &str, start: usize) -> Result<ParsedProgram> {
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

/// Loads the functions `called` and all functions that they call. Returns the text of the program with the
/// sources behind it, and the definitions.
///
/// # Errors
/// If a definition does not follow the grammar.
pub(crate) fn load(
    text: &str,
    called: BTreeSet<&'static str>,
) -> Result<(SourceText, Vec<Arc<Def>>), TextError> {
    if called.is_empty() {
        return Ok((text.into(), Vec::new()));
    }
    let (text, starts) = SourceText::with_library(text, prelude::SOURCES);
    let (mut known, mut next) = (called.clone(), Vec::from_iter(called));
    let mut found = Vec::new();
    while let Some(FunctionSource { source, bytes }) = next.pop().and_then(|name| prelude::source(name)) {
        let (start, end) = (starts[*source] + bytes.start, starts[*source] + bytes.end);
        let parsed = with_enough(|| part(&text[..end], start));
        let parsed = parsed.map_err(|error| TextError::new(error, &text))?;
        found.extend(parsed.items.into_iter().filter_map(|item| match item {
            Item::Def(def) => Some(def),
            _ => None,
        }));
        next.extend(parsed.prelude_calls.into_iter().filter(|name| known.insert(name)));
    }
    Ok((text, found))
}
