//! `test verify`: each routine parses and passes the verifier, unless one of its lines has a comment `;
//! error: text`. Then parser or verifier must reject it at that line with a message that contains the text.

use lowered_ir::{
    text::RoutineLines,
    verify::{RoutinePosition, verify},
};

use super::Kind;
use crate::{Chunk, File};

pub(super) struct Verify;

impl Kind for Verify {
    fn run(&self, file: &File) -> Result<Option<String>, String> {
        file.chunks().try_for_each(check)?;
        Ok(None)
    }
}

fn check(chunk: Chunk<'_>) -> Result<(), String> {
    let expected: Vec<(usize, &str)> = chunk.annotations("error").collect();
    match (rejection(chunk), expected.as_slice()) {
        (None, []) => Ok(()),
        (None, [(line, text), ..]) => Err(format!("line {line}: expected the error `{text}`, found none")),
        (Some((line, message)), []) => Err(format!("line {line}: {message}")),
        (Some((line, message)), [(at, text)]) if line == *at && message.contains(text) => Ok(()),
        (Some((line, message)), [(at, text)]) => {
            Err(format!("expected on line {at}: {text}\nfound on line {line}: {message}"))
        }
        (Some(_), [_, (line, _), ..]) => Err(format!("line {line}: a routine has one error at most")),
    }
}

/// The line and the message of the error of a chunk.
fn rejection(chunk: Chunk<'_>) -> Option<(usize, String)> {
    match chunk.parse() {
        Err(error) => Some((error.line, error.to_string())),
        Ok(parsed) => {
            let error = verify(&parsed.routine).err()?;
            Some((line_of(&error.place, &parsed.lines), error.to_string()))
        }
    }
}

fn line_of(place: &RoutinePosition, lines: &RoutineLines) -> usize {
    let line = match place {
        RoutinePosition::Routine => None,
        RoutinePosition::Symbol(symbol) => lines.symbols.get(symbol.index()),
        RoutinePosition::Node(node) => lines.nodes.get(node.index()),
        RoutinePosition::Stmt(path) => lines.stmts.get(path),
    };
    line.copied().unwrap_or(lines.routine)
}
