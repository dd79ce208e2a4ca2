//! Reduces a failing run to a small one that fails in the same way.
//!
//! [`reduce()`] proposes smaller runs (fewer statements, loops, elements and operations, simpler inputs) and
//! keeps each one that the verifier accepts and that still fails. The result is a `.lir` text
//! ([`RunCase::to_lir`]) that any tool can run again. The method is delta debugging by greedy descent:
//! proposals go from large to small, and start again from the result until none of them fails.

mod edits;
mod elements;

use lowered_ir::verify::verify;

use crate::RunCase;

/// The most runs that a reduction tries.
pub const TRIES: usize = 1500;

/// The smallest run found, by at most `tries` calls of `fails`, for which `fails` still holds.
///
/// The result has no expectations, because nobody has stated the results of a reduced routine.
pub fn reduce(case: RunCase, tries: usize, fails: &mut dyn FnMut(&RunCase) -> bool) -> RunCase {
    let mut search = Search { best: RunCase { expected: Vec::new(), ..case }, tries, fails };
    loop {
        let before = search.tries;
        let mut progress = false;
        for proposal in PROPOSALS {
            progress |= search.descend(*proposal);
        }
        if !progress || search.tries == 0 || before == search.tries {
            return search.best;
        }
    }
}

/// The proposal at a position, or `None` behind the last one. A position without a smaller run has the run
/// unchanged.
type Proposal = fn(&RunCase, usize) -> Option<RunCase>;

const PROPOSALS: &[Proposal] = &[
    edits::without_stmt,
    edits::one_iteration,
    edits::without_loop,
    elements::without_symbol,
    elements::without_unused_nodes,
    edits::serial_loop,
    edits::constant_bound,
    edits::half_extent,
    elements::half_dim,
    edits::operand,
    edits::one_less,
    elements::one_less,
    edits::constant,
    elements::zeros,
    edits::strict,
];

struct Search<'f> {
    best: RunCase,
    tries: usize,
    fails: &'f mut dyn FnMut(&RunCase) -> bool,
}

impl Search<'_> {
    /// Takes over every proposal of a kind that still fails; returns whether there was one.
    fn descend(&mut self, proposal: Proposal) -> bool {
        let mut progress = false;
        let mut position = 0;
        while self.tries > 0 {
            let Some(smaller) = proposal(&self.best, position) else { break };
            if self.is_failing(&smaller) {
                // The same position holds the next candidate of the smaller run.
                (self.best, progress) = (smaller, true);
            } else {
                position += 1;
            }
        }
        progress
    }

    fn is_failing(&mut self, case: &RunCase) -> bool {
        if is_same(case, &self.best) || verify(&case.routine).is_err() {
            return false;
        }
        self.tries -= 1;
        (self.fails)(case)
    }
}

fn is_same(a: &RunCase, b: &RunCase) -> bool {
    let text = |case: &RunCase| lowered_ir::text::print(&case.routine);
    a.inputs == b.inputs && a.bindings == b.bindings && text(a) == text(b)
}
