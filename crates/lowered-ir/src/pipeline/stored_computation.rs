//! A routine's changes to the computations of virtual nodes as text, for files that outlive the process.
//!
//! ```text
//! overwritten NODES
//! known NODE MERGES STATEMENTS INPUTS / SYMBOLS
//! changed NODE INPUT ROUTINE
//! body
//! routine …                                   the statements of all known computations, one after the other
//! ```
//!
//! Few programs inline a computation of another routine, so the statements are parsed when the first one is
//! needed.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use super::cross_routine_inlining::{Changes, InlinableComputation, KnownComputation};
use crate::ir::{Block, LoweredRoutine, NodeDecl, NodeRef, Numerics, Stmt, Symbol, SymbolId};
use crate::text::{parse, print};

/// The statements of a computation.
#[derive(Debug)]
pub(super) enum ComputationBody {
    Made(Block),
    /// The statements at these positions of a routine's text.
    Stored(Arc<StoredBodies>, Range<usize>),
}

/// The statements of several computations as text, and as statements once one of them was needed.
#[derive(Debug)]
pub(super) struct StoredBodies {
    text: String,
    parsed: OnceLock<Block>,
}

impl ComputationBody {
    /// The statements; `None` if their text is of no routine.
    pub(super) fn statements(&self) -> Option<&[Stmt]> {
        match self {
            ComputationBody::Made(body) => Some(body),
            ComputationBody::Stored(bodies, range) => {
                let body = || parse(&bodies.text).map_or_else(|_| Block::new(), |routine| routine.body);
                bodies.parsed.get_or_init(body).get(range.clone())
            }
        }
    }
}

impl Changes {
    /// The changes as text. `symbols` and `nodes` are those of the routine.
    pub fn to_text(&self, symbols: &[Symbol], nodes: &[NodeDecl]) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = self.write(symbols, nodes, &mut text);
        text
    }

    fn write(&self, symbols: &[Symbol], nodes: &[NodeDecl], out: &mut String) -> std::fmt::Result {
        write!(out, "overwritten")?;
        self.overwritten.iter().try_for_each(|node| write!(out, " {}", node.0))?;
        let mut body = Block::new();
        for (node, computation) in &self.defined {
            match computation {
                KnownComputation::Changed { input, routine } => {
                    write!(out, "\nchanged {} {input:?} {routine:?}", node.0)?;
                }
                KnownComputation::Known(known) => {
                    let statements = known.body.statements().unwrap_or_default();
                    write!(out, "\nknown {} {} {}", node.0, u8::from(known.merges), statements.len())?;
                    known.inputs.iter().try_for_each(|input| write!(out, " {}", input.0))?;
                    write!(out, " /")?;
                    known.symbols.keys().try_for_each(|symbol| write!(out, " {}", symbol.0))?;
                    body.extend_from_slice(statements);
                }
            }
        }
        let (symbols, nodes) = (symbols.to_vec(), nodes.to_vec());
        let name = "computations".to_owned();
        let routine = LoweredRoutine { name, numerics: Numerics::default(), symbols, nodes, body };
        write!(out, "\nbody\n{}", print(&routine))
    }

    /// The changes with this text, of a routine with this name, these symbols and these nodes. `None` if it
    /// is not the text of changes.
    pub fn from_text(routine: &str, symbols: &[Symbol], nodes: &[NodeDecl], text: &str) -> Option<Changes> {
        let (head, body) = text.split_once("\nbody\n")?;
        let mut lines = head.lines();
        let overwritten = lines.next()?.strip_prefix("overwritten")?;
        let node =
            |word: &str| word.parse().ok().map(NodeRef).filter(|node: &NodeRef| node.index() < nodes.len());
        let overwritten = overwritten.split_whitespace().map(node).collect::<Option<_>>()?;
        let routine: Arc<str> = routine.into();
        let nodes: Arc<[NodeDecl]> = nodes.into();
        let bodies = Arc::new(StoredBodies { text: body.to_owned(), parsed: OnceLock::new() });
        let mut reader = Reader { routine: &routine, symbols, nodes: &nodes, bodies, at: 0 };
        let defined = lines.map(|line| reader.computation(line, node)).collect::<Option<_>>()?;
        Some(Changes { routine, overwritten, defined })
    }
}

struct Reader<'a> {
    routine: &'a Arc<str>,
    symbols: &'a [Symbol],
    nodes: &'a Arc<[NodeDecl]>,
    bodies: Arc<StoredBodies>,
    /// The position of the next statement.
    at: usize,
}

impl Reader<'_> {
    fn computation(
        &mut self,
        line: &str,
        node: impl Fn(&str) -> Option<NodeRef>,
    ) -> Option<(NodeRef, KnownComputation)> {
        if let Some(changed) = line.strip_prefix("changed ") {
            let (own, names) = changed.split_once(' ')?;
            let (input, routine) = names.strip_prefix('"')?.strip_suffix('"')?.split_once("\" \"")?;
            let (input, routine) = (input.to_owned(), routine.into());
            return Some((node(own)?, KnownComputation::Changed { input, routine }));
        }
        let (words, symbols) = line.strip_prefix("known ")?.split_once(" /")?;
        let mut words = words.split(' ');
        let own = node(words.next()?)?;
        let merges = words.next()? == "1";
        let end = self.at.checked_add(words.next()?.parse().ok()?)?;
        let body = ComputationBody::Stored(Arc::clone(&self.bodies), self.at..end);
        self.at = end;
        let inputs = words.map(node).collect::<Option<_>>()?;
        let symbol = |word: &str| {
            let id = SymbolId(word.parse().ok()?);
            Some((id, self.symbols.get(id.index())?.clone()))
        };
        let symbols: BTreeMap<SymbolId, Symbol> =
            symbols.split_whitespace().map(symbol).collect::<Option<_>>()?;
        let (routine, nodes) = (Arc::clone(self.routine), Arc::clone(self.nodes));
        let known = InlinableComputation { routine, nodes, body, own, inputs, symbols, merges };
        Some((own, KnownComputation::Known(Arc::new(known))))
    }
}
