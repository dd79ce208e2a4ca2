//! Compares runs on a backend with the expectations and digests of their file.

use std::fmt::Write as _;

use anyhow::{Result, bail};
use arrayjit::{Backend, capsule::digest};
use filetests::{File, RunCase};

use crate::device_run;

/// Runs every case, and describes each result.
///
/// # Errors
///
/// A result differs from the expectation of the file, or has another digest; the error is the description.
pub(crate) fn replay(text: &str, cases: &[RunCase], backend: &Backend) -> Result<String> {
    let (mut report, mut wrong) = (String::new(), 0);
    for case in cases {
        let digests = digests(text, case);
        match compare(case, &digests, backend) {
            Ok(lines) => report += &lines,
            Err(lines) => {
                report += &lines.to_string();
                wrong += 1;
            }
        }
    }
    if wrong == 0 {
        return Ok(report);
    }
    bail!("{wrong} of {} runs on {} are not what the file expects:\n{report}", cases.len(), backend.name())
}

/// The digest of a node, as a capsule has it.
struct ExpectedDigest {
    /// The node as the routine names it: `%2`.
    node: String,
    expected: u64,
}

/// The digests that follow the routine of a run.
fn digests(text: &str, case: &RunCase) -> Vec<ExpectedDigest> {
    let file = File::new(case.path.clone(), text);
    let chunk = file.chunks().filter(|chunk| chunk.first_line <= case.line).last();
    let lines = chunk.into_iter().flat_map(|chunk| chunk.annotations("digest"));
    let read = |(_, line): (usize, &str)| {
        let (node, digests) = line.split_once('=')?;
        let expected = digests.trim().strip_prefix("0x")?.split(',').next()?;
        let expected = u64::from_str_radix(expected, 16).ok()?;
        Some(ExpectedDigest { node: node.trim().to_owned(), expected })
    };
    lines.filter_map(read).collect()
}

fn compare(case: &RunCase, digests: &[ExpectedDigest], backend: &Backend) -> Result<String> {
    let results = device_run::run(backend, case)?;
    let place = format!("{}:{}", case.path.display(), case.line);
    let (mut lines, mut wrong) = (String::new(), Vec::new());
    for ((node, decl), bytes) in case.routine.node_refs().zip(&results) {
        let Some(bytes) = bytes else { continue };
        let found = digest(decl.dtype, bytes);
        let known = digests.iter().find(|known| known.node == node.to_string());
        let says = match known {
            Some(known) if known.expected == found => "as the capsule expects".to_owned(),
            Some(known) => {
                wrong.push(format!("{node} has other bits"));
                format!("expected {:#018x}", known.expected)
            }
            None => continue,
        };
        let _ = writeln!(lines, "{place}: {node} {:?} has digest {found:#018x}, {says}", decl.name);
    }
    let nodes: Vec<Vec<u8>> = results.into_iter().map(Option::unwrap_or_default).collect();
    if let Err(difference) = case.check(&nodes) {
        wrong.push("the definition differs".to_owned());
        let _ = writeln!(lines, "{difference}");
    }
    match wrong.as_slice() {
        [] => Ok(format!("{lines}{place}: {} computes what the file expects\n", backend.name())),
        wrong => bail!("{lines}{place}: {}\n", wrong.join(", ")),
    }
}
