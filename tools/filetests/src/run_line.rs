//! `; run:` lines: inputs of a routine and its expected results.
//!
//! ```text
//! ; run: %0 = [1, 2, 3], @step = 1 => %2 = [2, 4, 6]
//! ; run: %0 = random(7), merge %0 = iota => %2 = fill(0.5), %3 = iota approx 1e-6
//! ; run: @step = 9 => error: @step
//! ```
//!
//! Before the arrow are the elements of nodes (default: zeros), bindings of symbols (default: 0) and the
//! contents of the merge buffer. After it are the expected elements of nodes after the run, or `error:` and a
//! part of the error's message. Elements must be equal bit for bit, except that all NaNs are equal; with
//! `approx t`, floats may differ by `t · max(1, |expected|)`.

use std::path::Path;

use lowered_ir::ir::{LoweredRoutine, NodeDecl, NodeRef, Symbol};

use crate::{Expected, RunCase, values};

/// A parsed run line.
#[derive(Clone, Debug)]
pub enum RunLine {
    /// The routine runs, with these inputs and expectations.
    Runs(RunCase),
    /// The routine fails with a message that contains the text.
    Fails(RunCase, String),
}

/// Parses the text after `; run:` on a line.
///
/// # Errors
///
/// The syntax error, in words.
pub fn parse(text: &str, routine: &LoweredRoutine, path: &Path, line: usize) -> Result<RunLine, String> {
    let (inputs, outputs) = text.split_once("=>").ok_or("a run line lacks its `=>`")?;
    let mut case = RunCase::zeroed(routine, path, line);
    for assignment in split(inputs) {
        input(&mut case, assignment)?;
    }
    if let Some(message) = outputs.trim().strip_prefix("error:") {
        return Ok(RunLine::Fails(case, message.trim().to_owned()));
    }
    let (outputs, tolerance) = match outputs.split_once(" approx ") {
        Some((outputs, t)) => (outputs, t.trim().parse().map_err(|_| format!("`{t}` is no tolerance"))?),
        None => (outputs, 0.0),
    };
    for assignment in split(outputs) {
        let (name, text) = equation(assignment)?;
        let (node, decl) = find_node(routine, name)?;
        let bytes = elements(decl, text)?;
        case.expected.push(Expected { node, bytes, tolerance });
    }
    if case.expected.is_empty() { Err("a run line expects nothing".into()) } else { Ok(RunLine::Runs(case)) }
}

fn input(case: &mut RunCase, assignment: &str) -> Result<(), String> {
    let (name, text) = equation(assignment)?;
    if let Some(symbol) = name.strip_prefix('@') {
        let position = Symbol::parameters(&case.routine.symbols).iter().position(|s| s.name == symbol);
        let binding = position.and_then(|at| case.bindings.get_mut(at));
        *binding.ok_or_else(|| format!("there is no symbol {name}"))? =
            text.parse().map_err(|_| format!("`{text}` is no binding"))?;
        return Ok(());
    }
    if let Some(node) = name.strip_prefix("merge ") {
        case.merge = Some(elements(find_node(&case.routine, node.trim())?.1, text)?);
        return Ok(());
    }
    let (node, decl) = find_node(&case.routine, name)?;
    let bytes = elements(decl, text)?;
    case.inputs[node.index()] = bytes;
    Ok(())
}

fn equation(assignment: &str) -> Result<(&str, &str), String> {
    let (name, text) = assignment.split_once('=').ok_or_else(|| format!("`{assignment}` lacks its `=`"))?;
    Ok((name.trim(), text.trim()))
}

fn find_node<'r>(routine: &'r LoweredRoutine, name: &str) -> Result<(NodeRef, &'r NodeDecl), String> {
    routine
        .node_refs()
        .find(|(node, _)| node.to_string() == name)
        .ok_or_else(|| format!("there is no node {name}"))
}

fn elements(decl: &NodeDecl, text: &str) -> Result<Vec<u8>, String> {
    values::parse(text, decl.dtype, decl.dims.iter().product())
}

/// Splits at the commas outside brackets and parentheses.
fn split(text: &str) -> Vec<&str> {
    let mut depth = 0;
    let at_comma = |c: char| {
        depth += i32::from(matches!(c, '[' | '(')) - i32::from(matches!(c, ']' | ')'));
        c == ',' && depth == 0
    };
    text.split(at_comma).map(str::trim).filter(|part| !part.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<RunLine, String> {
        let text = "routine @r { symbol @s in 0..4 node %0 \"x\" i32[2] node %1 \"y\" f32[2] }";
        parse(line, &lowered_ir::text::parse(text).unwrap(), Path::new("f.lir"), 1)
    }

    #[test]
    fn both_sides_are_read() {
        let Ok(RunLine::Runs(case)) = read("%0 = [1, 2], @s = 3 => %1 = fill(0.5), %0 = iota approx 1e-3")
        else {
            panic!("expected a run");
        };
        assert_eq!(case.inputs[0], [1, 0, 0, 0, 2, 0, 0, 0]);
        assert_eq!(case.bindings, [3]);
        assert_eq!(case.expected.len(), 2);
        assert_eq!(case.expected[0].tolerance, 1e-3);
        assert!(matches!(read("@s = 9 => error: range"), Ok(RunLine::Fails(_, text)) if text == "range"));
    }

    #[test]
    fn nonsense_is_rejected() {
        for bad in [
            "%0 = iota",
            "%2 = iota => %1 = iota",
            "@t = 1 => %1 = iota",
            "=> ",
            "=> %1 = [1]",
            "%0 => %1 = iota",
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
