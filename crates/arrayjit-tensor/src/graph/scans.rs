//! Scans and functions whose bodies are being written, and the letters of all scans.
//!
//! While a body is written, the program of the graph is the body; the steps before it wait. Texts of one step
//! of a scan mention the letter as that of a scan around them, whose steps become steps of the body. The body
//! of a function is no part of the program: a [`FunctionScope`] returns its steps.

use std::{
    collections::BTreeSet,
    mem,
    thread::{self, ThreadId},
};

use arrayjit::{
    Assignments, Program, TensorNode,
    assign::{FetchOp, Origin, ProgramStep, ScanEnd, SymbolTable, all_steps},
    indexing::StaticSymbol,
};

use super::{Graph, GraphState, unused::reads};
use crate::{
    error::{Call, Result, TensorError},
    operand::Argument,
    tensor::Tensor,
};

/// The scans of a graph.
#[derive(Default)]
pub(super) struct Scans {
    /// The scans and functions with an unfinished body, innermost last.
    open: Vec<OpenBody>,
    /// The number of letters so far.
    letters: usize,
    /// The nodes of steps of bodies that have ended.
    ended: BTreeSet<TensorNode>,
}

struct OpenBody {
    /// The letter, if it is the body of a scan.
    letter: Option<StaticSymbol>,
    /// The symbol that stands for the letter in texts.
    symbol: Option<String>,
    /// The steps before the body.
    before: Vec<ProgramStep>,
    /// The number of results before the body.
    results: usize,
    thread: ThreadId,
}

impl Scans {
    fn new_letter(&mut self, letter: &str, steps: i64) -> StaticSymbol {
        self.letters += 1;
        StaticSymbol::step(letter, self.letters, steps)
    }

    /// Gives the letters of the scans of a text numbers that no other letter of the graph has, and replaces
    /// the symbols that stand for letters of open scans.
    pub(super) fn number(&mut self, text: &mut Assignments) {
        rename(text, |symbol| match symbol.letter() {
            Some(letter) => Some(self.new_letter(letter, symbol.range.unwrap_or(0))),
            None => {
                let mut open = self.open.iter().rev();
                let open = open.find(|open| open.symbol.as_ref() == Some(&symbol.name));
                open.and_then(|open| open.letter.clone())
            }
        });
    }

    /// Rejects statements while another thread writes a body, which would be part of it.
    pub(super) fn check_thread(&self) -> Result<()> {
        match self.open.last() {
            Some(open) if open.thread != thread::current().id() => {
                Err(TensorError::InScan { problem: "another thread adds a statement" })
            }
            _ => Ok(()),
        }
    }

    /// Rejects an operation that no step of a scan can do.
    pub(super) fn check_closed(&self, problem: &'static str) -> Result<()> {
        let is_scan = |open: &OpenBody| open.letter.is_some();
        if self.open.iter().any(is_scan) { Err(TensorError::InScan { problem }) } else { Ok(()) }
    }

    fn begin(
        &mut self,
        letter: Option<(StaticSymbol, Option<String>)>,
        before: Vec<ProgramStep>,
        results: usize,
    ) {
        let (letter, symbol) = letter.map_or((None, None), |(letter, symbol)| (Some(letter), symbol));
        self.open.push(OpenBody { letter, symbol, before, results, thread: thread::current().id() });
    }

    /// Makes the node of a body that has ended one of the steps after it.
    pub(super) fn keep(&mut self, node: &TensorNode) {
        self.ended.remove(node);
    }

    pub(super) fn has_ended(&self, node: &TensorNode) -> bool {
        self.ended.contains(node)
    }
}

/// Replaces symbols of a text.
fn rename(text: &mut Assignments, mut new: impl FnMut(&StaticSymbol) -> Option<StaticSymbol>) {
    let mut symbols = SymbolTable::default();
    for symbol in text.symbols.iter() {
        symbols.enter(new(symbol).as_ref().unwrap_or(symbol));
    }
    text.symbols = symbols;
}

/// The body of a scan, which is written until `close`. Without it, the body is discarded.
pub(crate) struct BodyScope<'a> {
    graph: &'a Graph,
    pub(crate) letter: StaticSymbol,
    /// The nodes that the steps carry. They end with this value.
    carried: Vec<TensorNode>,
    /// The number of open scans with this one.
    depth: usize,
}

impl Graph {
    /// Begins the body of a scan over nodes that its steps carry.
    pub(crate) fn open_scan<'a>(
        &'a self,
        call: Call,
        (steps, symbol): (i64, Option<String>),
        carried: &[Tensor],
    ) -> Result<BodyScope<'a>> {
        let mut state = self.state();
        state.scans.check_thread().map_err(|error| super::fail_in(&state, call, error))?;
        let letter = format!("t{}", state.scans.letters + 1);
        let letter = state.scans.new_letter(&letter, steps);
        let (before, results) = (mem::take(&mut state.program.steps), state.results.len());
        state.scans.begin(Some((letter.clone(), symbol)), before, results);
        let depth = state.scans.open.len();
        drop(state);
        let carried = carried.iter().map(|tensor| tensor.node().clone()).collect();
        Ok(BodyScope { graph: self, letter, carried, depth })
    }

    /// Whether a step of the innermost body so far reads the values of a tensor.
    pub(crate) fn is_read_in_body(&self, tensor: &Tensor) -> bool {
        all_steps(&self.state().program.steps).any(|step| reads(step, tensor.node()))
    }

    /// Rejects results of a graph whose statements are not complete, or that exist in each step only.
    ///
    /// # Errors
    /// The body of a scan is being written, or a result belongs to the step of a scan.
    #[doc(hidden)]
    pub fn check_results(&self, results: &[&Tensor]) -> Result<()> {
        let state = self.state();
        if !state.scans.open.is_empty() {
            let problem = "the graph is compiled, expected a compilation behind it";
            return Err(TensorError::InScan { problem });
        }
        match results.iter().find(|tensor| state.scans.has_ended(tensor.node())) {
            Some(tensor) => Err(TensorError::EndedStep { tensor: tensor.name() }),
            None => Ok(()),
        }
    }

    /// Begins the body of a function, whose steps are no part of the program. The arguments are tensors that
    /// stand for values, and end with the body.
    pub(crate) fn open_function(&self, call: Call, arguments: &[Tensor]) -> Result<FunctionScope<'_>> {
        let mut state = self.state();
        state.scans.check_thread().map_err(|error| super::fail_in(&state, call, error))?;
        let (before, results) = (mem::take(&mut state.program.steps), state.results.len());
        state.scans.begin(None, before, results);
        let depth = state.scans.open.len();
        drop(state);
        let arguments = arguments.iter().map(|tensor| tensor.node().clone()).collect();
        Ok(FunctionScope { graph: self, depth, results, arguments })
    }

    /// Adds statements to the innermost body. They are the body of a scan over `t` in the text, which stands
    /// for the letter of an open scan, and may write tensors that its steps carry.
    pub(crate) fn emit_within_body(
        &self,
        call: Call,
        letter: &StaticSymbol,
        text: &str,
        inputs: &[(&str, Argument<'_>)],
        results: &[&str],
    ) -> Result<Vec<Tensor>> {
        let program = Program::parse(text).map_err(|error| self.fail(call, error))?;
        let mut read = self.read_text(call, program, inputs, results)?;
        rename(&mut read.assignments, |symbol| symbol.letter().map(|_| letter.clone()));
        let inner = |step| match step {
            ProgramStep::Scan { steps, .. } => steps,
            step => vec![step],
        };
        read.assignments.steps = read.assignments.steps.into_iter().flat_map(inner).collect();
        self.add(call, read, inputs)
    }
}

impl BodyScope<'_> {
    /// Ends the body, and adds the scan behind the statements before it. Of the results of the body, the
    /// collected ones remain.
    ///
    /// A scan ends early when `going` is 0; the rows of steps that do not run are zeros.
    pub(crate) fn close(&self, checkpoint: Option<i64>, going: Option<&Tensor>, collected: &[Tensor]) {
        let mut state = self.graph.state();
        if let Some(steps) = state.end_body(self.depth, collected) {
            let symbol = state.program.symbol(&self.letter);
            let end = going.map(|going| ScanEnd { node: going.node().clone(), is_final: true });
            if end.is_some() {
                let zeros = collected.iter().map(|rows| ProgramStep::Fetch {
                    node: rows.node().clone(),
                    op: FetchOp::Constant(0.0),
                    origin: Origin::default(),
                });
                state.program.steps.extend(zeros);
            }
            state.program.steps.push(ProgramStep::Scan { symbol, steps, end });
            state.program.checkpoints.extend(checkpoint.map(|every| (symbol, every)));
        }
    }
}

impl Drop for BodyScope<'_> {
    fn drop(&mut self) {
        let mut state = self.graph.state();
        state.end_body(self.depth, &[]);
        state.scans.ended.extend(self.carried.drain(..));
    }
}

/// The body of a function, which is written until `close`. Its tensors belong to the body alone.
pub(crate) struct FunctionScope<'a> {
    graph: &'a Graph,
    /// The number of open bodies with this one.
    depth: usize,
    /// The number of results before the body.
    results: usize,
    arguments: Vec<TensorNode>,
}

impl FunctionScope<'_> {
    /// Ends the body, and returns its steps.
    pub(crate) fn close(self) -> Vec<ProgramStep> {
        self.end().unwrap_or_default()
    }

    fn end(&self) -> Option<Vec<ProgramStep>> {
        let mut state = self.graph.state();
        let steps = state.end_body(self.depth, &[])?;
        state.results.truncate(self.results);
        state.scans.ended.extend(self.arguments.iter().cloned());
        Some(steps)
    }
}

impl Drop for FunctionScope<'_> {
    fn drop(&mut self) {
        drop(self.end());
    }
}

impl GraphState {
    /// Ends the body at a depth, if it is open, and returns its steps. Its results exist in each step only,
    /// but for the collected ones.
    fn end_body(&mut self, depth: usize, collected: &[Tensor]) -> Option<Vec<ProgramStep>> {
        if self.scans.open.len() != depth {
            return None;
        }
        let open = self.scans.open.pop()?;
        let results = self.results[open.results..].iter().map(|result| &result.node);
        let ended = results.filter(|node| collected.iter().all(|tensor| tensor.node() != *node));
        self.scans.ended.extend(ended.cloned());
        Some(mem::replace(&mut self.program.steps, open.before))
    }
}
