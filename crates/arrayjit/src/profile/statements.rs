//! The statements of assignments, by the nodes that they read and write.

use std::collections::BTreeSet;

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
pub(crate) struct Statements(Vec<StatementNodes>);

#[derive(Clone, Debug)]
struct StatementNodes {
    written: Vec<TensorNode>,
    mentioned: Vec<TensorNode>,
    statement: Statement,
}

impl Statements {
    pub(crate) fn of(assignments: &Assignments) -> Statements {
        let mut statements = Vec::new();
        add(&assignments.steps, assignments, &mut statements);
        Statements(statements)
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
            let writers = self.0.iter().enumerate().filter(|(_, entry)| entry.written.contains(node));
            for (at, entry) in writers {
                found.insert(at);
                let vanished = entry.mentioned.iter().filter(|node| !in_memory.contains(node));
                open.extend(vanished.filter(|node| seen.insert(node)));
            }
        }
        let mut statements: Vec<Statement> =
            found.into_iter().map(|at| self.0[at].statement.clone()).collect();
        // A statement with subexpressions is lowered to several assignments, which print alike.
        statements.dedup();
        statements
    }
}

fn add(steps: &[ProgramStep], program: &Assignments, statements: &mut Vec<StatementNodes>) {
    for step in steps {
        if let ProgramStep::Block { steps, .. } = step {
            add(steps, program, statements);
            continue;
        }
        let mut alone = program.clone();
        alone.steps = vec![step.clone()];
        let statement = match step.origin().statement() {
            Some(span) => Statement::from_text(&span),
            None => Statement {
                text: alone.to_string().trim().to_owned(),
                line: None,
                user_line: None,
                call: None,
            },
        };
        let entry = StatementNodes { written: alone.written_nodes(), mentioned: alone.nodes(), statement };
        if !entry.written.is_empty() {
            statements.push(entry);
        }
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
