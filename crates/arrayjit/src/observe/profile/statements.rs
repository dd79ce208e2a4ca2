//! The statements of assignments, by the nodes that they read and write.

use std::collections::{BTreeMap, BTreeSet};

use assignments::{Assignments, ProgramStep};
use lowered_ir::SourceSpan;
use serde::Serialize;
use tnode::TensorNode;

/// A statement of a program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Statement {
    /// The statement as the text has it; a statement that was built without a text is printed from its data.
    pub text: String,
    /// The line of the text, such as `line 3`, or `prelude/losses.assign, line 12` for a function of the
    /// prelude. `None` for a statement that was built without a text.
    pub line: Option<String>,
    /// The line of the user's text, from 1, that the statement comes from: its own, or that of the call of
    /// the function that contains it.
    pub user_line: Option<usize>,
    /// The call of a function from which the statement comes, as the user's text has it.
    pub call: Option<String>,
}

/// The statements of assignments, each with the nodes that it reads and writes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Statements {
    entries: Vec<StatementNodes>,
    /// The positions of the statements that write each node.
    writers: BTreeMap<TensorNode, Vec<usize>>,
}

#[derive(Clone, Debug)]
struct StatementNodes {
    mentioned: Vec<TensorNode>,
    statement: Statement,
}

impl Statements {
    pub(crate) fn of(assignments: &Assignments) -> Statements {
        let mut statements = Statements::default();
        let frame = Assignments { symbols: assignments.symbols.clone(), ..Assignments::default() };
        statements.add(&assignments.steps, &frame);
        statements
    }

    /// Adds statements. `frame` is a program without steps that has the symbols.
    fn add(&mut self, steps: &[ProgramStep], frame: &Assignments) {
        for step in steps {
            if let ProgramStep::Block { steps, .. } | ProgramStep::Scan { steps, .. } = step {
                self.add(steps, frame);
                continue;
            }
            let alone = Assignments { steps: vec![step.clone()], ..frame.clone() };
            let statement = match step.origin().statement() {
                Some(span) => Statement::from_text(&span),
                None => Statement {
                    text: alone.to_string().trim().to_owned(),
                    line: None,
                    user_line: None,
                    call: None,
                },
            };
            let written = alone.written_nodes();
            if !written.is_empty() {
                let at = self.entries.len();
                written.into_iter().for_each(|node| self.writers.entry(node).or_default().push(at));
                self.entries.push(StatementNodes { mentioned: alone.nodes(), statement });
            }
        }
    }

    /// The statements that compute `nodes`, in order: statements that write one of them, and, transitively,
    /// statements that write a node read by these, except nodes in memory.
    pub(crate) fn computing(
        &self,
        nodes: Vec<&TensorNode>,
        in_memory: &BTreeSet<&TensorNode>,
    ) -> Vec<Statement> {
        let mut open = nodes;
        let mut seen: BTreeSet<&TensorNode> = open.iter().copied().collect();
        let mut found = BTreeSet::new();
        while let Some(node) = open.pop() {
            for &at in self.writers.get(node).into_iter().flatten() {
                found.insert(at);
                let vanished = self.entries[at].mentioned.iter().filter(|node| !in_memory.contains(node));
                open.extend(vanished.filter(|node| seen.insert(node)));
            }
        }
        let mut statements: Vec<Statement> =
            found.into_iter().map(|at| self.entries[at].statement.clone()).collect();
        // A statement with subexpressions is lowered to several assignments, which print alike.
        statements.dedup();
        statements
    }
}

impl Statement {
    fn from_text(span: &SourceSpan) -> Statement {
        let mut outermost = span;
        while let Some((_, outer)) = outermost.outer() {
            outermost = outer;
        }
        let is_called = outermost != span;
        Statement {
            text: span.text().trim().to_owned(),
            line: Some(span.line_name()),
            user_line: outermost.source().is_none().then(|| outermost.line()),
            call: is_called.then(|| outermost.text().trim().to_owned()),
        }
    }
}
