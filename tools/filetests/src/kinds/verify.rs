//! `test verify`: each routine parses and passes the verifier, unless one of its lines has a comment `;
//! error: message`. Then parser or verifier must reject it at that line with this message.

use lowered_ir::{
    text::RoutineLines,
    verify::{RoutinePosition, verify},
};

use super::Kind;
use crate::{Chunk, File};

pub(super) struct Verify;

impl Kind for Verify {
    fn run(&self, file: &File) -> Result<Option<String>, String> {
        let wrong: Vec<String> = file.chunks().filter_map(|chunk| check(chunk).err()).collect();
        if wrong.is_empty() { Ok(None) } else { Err(wrong.join("\n")) }
    }
}

fn check(chunk: Chunk<'_>) -> Result<(), String> {
    let expected: Vec<(usize, &str)> = chunk.annotations("error").collect();
    let at = |(line, message): &(usize, &str)| format!("line {line}: {message}");
    let name = chunk.text.lines().next().unwrap_or_default();
    let found = rejection(chunk);
    let found = found.as_ref().map(|(line, message)| (*line, message.as_str()));
    if let [_, second, ..] = &expected[..] {
        return Err(format!("{name}\n  {}: a routine has one error at most", at(second)));
    }
    if found.as_slice() == expected {
        return Ok(());
    }
    let [expected, found] = [expected.first(), found.as_ref()].map(|row| row.map_or("no error".into(), at));
    Err(format!("{name}\n  expected {expected}\n  found {found}"))
}

/// The line and the message of the error of a chunk.
fn rejection(chunk: Chunk<'_>) -> Option<(usize, String)> {
    match chunk.parse() {
        Err(error) => Some((error.line, format!("expected {}, found {}", error.expected, error.found))),
        Ok(parsed) => {
            let error = verify(&parsed.routine).err()?;
            Some((line_of(&error.place, &parsed.lines), error.violation.to_string()))
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
