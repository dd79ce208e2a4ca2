//! The printer of assignment text. `items.rs` prints the items of a program; the rest makes items of
//! assignments, whatever made these: a text, the builder, or a transformation such as a gradient.
//!
//! Every node is declared, so the text parses without given nodes, to steps that compute the same over new
//! nodes. The node of a subexpression that one operand reads is printed in the place of that operand.
//! Letters keep their names if the assignments come from a text. Loops nest in the order of the letters in
//! the printed text, which may differ from their order in assignments that no text has.
//!
//! Some steps have no text of their own. A step with concatenated axes prints as one statement per component,
//! and a fill by a constant, a symbol or a size as an assignment. Initial values and margins are not printed.
//! A scan whose number of steps a run gives prints as one to the bound, whose statements select the values of
//! the steps that run; the reader may reject its indices, which leave the size in the other steps.

mod items;
mod names;
mod numbers;
mod site;
mod statement;
mod subexpressions;

use std::collections::BTreeSet;
use std::fmt::Write;

use tnode::{MemoryMode, TensorNode};

pub(crate) use self::items::{Lines, source_line};
use self::names::PrintedNames;
pub use self::names::declared_sizes;
use self::numbers::NOWHERE;
use self::statement::StatementPrinter;
use self::subexpressions::Subexpressions;
use crate::ast::{Access, Declaration, Detach, Gradient, Role};
use crate::linear::IndexExpr;
use crate::source::on_one_line;
use assignments::indexing::StaticSymbol;
use assignments::{Accum, Assignments, Operand, ProgramStep};
use lowered_ir::ir::SymbolId;

/// The program as assignment text, which declares all nodes.
///
/// ```
/// use assignment_text::{parse, unparse};
///
/// let text = "input x f32[8, 4]; param w f32[4]\ns :+= exp(x[b,i] * w[i]) / 8\nkeep s";
/// assert_eq!(unparse(&parse(text, &[])?), "\
/// input x f32[8,4]
/// input w f32[4]
/// node s f32[]
/// s :+= exp(x[b,i] * w[i]) / 8
/// keep s
/// ");
/// # Ok::<(), assignment_text::TextError>(())
/// ```
pub fn unparse(program: &Assignments) -> String {
    // The condition of a text is read before each step, and that of a scan within it.
    if program.has_ends() {
        let mut whole = program.clone();
        return match whole.select_ends(&|_, _| false) {
            Ok(()) => unparse(&whole),
            Err(error) => format!("# {error}\n"),
        };
    }
    let mut printer = ProgramPrinter::new(program);
    printer.declarations();
    printer.steps(&program.steps);
    printer.requests();
    printer.text
}

struct ProgramPrinter<'a> {
    program: &'a Assignments,
    names: PrintedNames,
    subexpressions: Subexpressions<'a>,
    /// The symbols whose ranges have been printed.
    ranged: BTreeSet<SymbolId>,
    /// The number of scans around the present line.
    depth: usize,
    text: String,
}

impl<'a> ProgramPrinter<'a> {
    fn new(program: &'a Assignments) -> ProgramPrinter<'a> {
        ProgramPrinter {
            program,
            names: PrintedNames::new(program),
            subexpressions: Subexpressions::find(program),
            ranged: BTreeSet::new(),
            depth: 0,
            text: String::new(),
        }
    }

    fn whole(&self, node: &TensorNode) -> Access {
        Access::whole(self.names.node(node), &NOWHERE)
    }

    fn line(&mut self, line: impl std::fmt::Display) {
        writeln!(self.text, "{:margin$}{line}", "", margin = 4 * self.depth)
            .expect("a string takes everything");
    }

    /// Prints the requests to keep nodes and to compute nodes again, in order of first mention, as the nodes
    /// are declared, so that the text prints as itself.
    fn requests(&mut self) {
        let Assignments { kept, recomputed, .. } = self.program;
        let mentioned = self.program.nodes();
        let others = kept.iter().filter(|node| !mentioned.contains(node));
        for node in mentioned.iter().filter(|node| kept.contains(node)).chain(others) {
            self.line(format!("keep {}", self.names.node(node)));
        }
        for node in mentioned.iter().filter(|node| recomputed.contains_key(node)) {
            self.line(format!("recompute {}", self.names.node(node)));
        }
    }

    /// Declares the nodes in order of first mention, then those that the program keeps and mentions nowhere.
    fn declarations(&mut self) {
        for line in declared_sizes(&names::run_sizes(self.program)).lines() {
            self.line(line);
        }
        let roles = NodeRoles::of(self.program, &self.subexpressions);
        let mentioned = self.program.nodes();
        let others: Vec<TensorNode> =
            self.program.kept.iter().filter(|node| !mentioned.contains(node)).cloned().collect();
        for node in mentioned.into_iter().chain(others) {
            if self.subexpressions.get(&node).is_some() {
                continue;
            }
            let dims = node.dims_without_padding().unwrap_or_default();
            let size = |(axis, &dim): (usize, &usize)| match node.run_size(axis) {
                Some(size) => IndexExpr::letter(size.name(), NOWHERE),
                None => IndexExpr::number(assignments::indexing::extent(dim), NOWHERE),
            };
            let declaration = Declaration {
                role: roles.role(&node),
                target: self.whole(&node),
                dtype: Some(node.dtype()),
                sizes: dims.iter().enumerate().map(size).collect(),
                initial: None,
                span: NOWHERE,
            };
            self.line(declaration);
        }
    }

    fn steps(&mut self, steps: &'a [ProgramStep]) {
        for step in steps {
            match step {
                ProgramStep::Accum(accum) => self.accum(accum, accum.init_neutral),
                ProgramStep::Concat(parts) => self.components(parts),
                ProgramStep::Fetch { node, op, .. } => {
                    let statement = self.printer().fill(node, op);
                    self.line(statement);
                }
                ProgramStep::Gradient { loss, parameters, .. } => {
                    let parameters = parameters.iter().map(|(by, _)| self.whole(by)).collect();
                    let loss = self.whole(loss);
                    self.line(Gradient { loss, parameters, span: NOWHERE, frame: None });
                }
                ProgramStep::Detach(node) => self.detach(node),
                // A text cannot say where else the gradients go.
                ProgramStep::CustomGradient(custom) => {
                    custom.outputs.iter().for_each(|node| self.detach(node));
                }
                ProgramStep::Block { name, steps } => {
                    self.line(format_args!("# {}", on_one_line(name, &(0..name.len()))));
                    self.steps(steps);
                }
                ProgramStep::Scan { symbol, steps, .. } => {
                    let known = self.program.symbols.get(symbol.index());
                    let letter = known.and_then(StaticSymbol::letter).unwrap_or_default();
                    let range = known.and_then(|symbol| symbol.range).unwrap_or(0);
                    let every = self.program.checkpoints.get(symbol);
                    let every = every.map_or(String::new(), |every| format!(" checkpoint every {every}"));
                    self.line(format_args!("scan {letter} in 0..{range}{every} {{"));
                    self.ranged.insert(*symbol);
                    self.depth += 1;
                    self.steps(steps);
                    self.depth -= 1;
                    self.line("}");
                }
                // A text has its statements as remarks.
                ProgramStep::Remark(_) => {}
            }
        }
    }

    /// A node without a name is mentioned by no other step, so that it does not matter for gradients.
    fn detach(&mut self, node: &TensorNode) {
        let node = self.whole(node);
        if !node.name.is_empty() {
            self.line(Detach { node, frame: None });
        }
    }

    fn accum(&mut self, accum: &'a Accum, init_neutral: bool) {
        if self.subexpressions.get(&accum.lhs).is_none() {
            let statement = self.printer().accum(accum, init_neutral);
            self.line(statement);
        }
    }

    /// Prints one statement per component. A target of several components that starts from the neutral
    /// element is filled with it first.
    fn components(&mut self, parts: &'a [Accum]) {
        let is_alone = |part: &Accum| parts.iter().filter(|other| other.lhs == part.lhs).count() == 1;
        let mut filled = BTreeSet::new();
        for part in parts.iter().filter(|part| part.init_neutral && !is_alone(part)) {
            if filled.insert(&part.lhs) {
                let start = part.op.neutral(part.lhs.dtype());
                let statement = self.printer().constant(&part.lhs, start);
                self.line(statement);
            }
        }
        for part in parts {
            self.accum(part, part.init_neutral && is_alone(part));
        }
    }

    fn printer(&mut self) -> StatementPrinter<'_, 'a> {
        StatementPrinter::new(self.program, &self.names, &self.subexpressions, &mut self.ranged)
    }
}

/// How the steps of a program use its nodes.
struct NodeRoles {
    /// The nodes whose values come from elsewhere.
    given: BTreeSet<TensorNode>,
    written: BTreeSet<TensorNode>,
    /// The nodes that components write, each a part.
    in_parts: BTreeSet<TensorNode>,
    /// The nodes that a step reads which does not write them, and the nodes that the program keeps.
    read: BTreeSet<TensorNode>,
}

impl NodeRoles {
    fn of(program: &Assignments, subexpressions: &Subexpressions<'_>) -> NodeRoles {
        let mut read = program.kept.clone();
        // The reads of a statement, those of its subexpressions included.
        let mut own: Vec<&TensorNode> = Vec::new();
        for step in assignments::all_steps(&program.steps) {
            let operands = step.accums().iter().flat_map(Accum::operands).filter_map(Operand::node);
            own.extend(operands.chain(assignments::read_whole(step)));
            let written = assignments::written(step);
            if !written.iter().any(|node| subexpressions.get(node).is_some()) {
                read.extend(own.drain(..).filter(|node| !written.contains(node)).cloned());
            }
        }
        let concatenated = assignments::all_steps(&program.steps).filter_map(|step| match step {
            ProgramStep::Concat(parts) => Some(parts.iter().map(|part| part.lhs.clone())),
            _ => None,
        });
        let in_parts = concatenated.flatten().collect();
        let given = program.context_nodes().into_iter().collect();
        NodeRoles { given, written: program.written_nodes().into_iter().collect(), in_parts, read }
    }

    /// The role with which the text accepts the uses of a node.
    fn role(&self, node: &TensorNode) -> Role {
        let is_kept = node.mode().mode() == Some(MemoryMode::Materialized) || self.in_parts.contains(node);
        let lasts = is_kept || !self.read.contains(node);
        match (self.given.contains(node), self.written.contains(node)) {
            (true, false) => Role::Input,
            (false, true) if !lasts => Role::Node,
            _ => Role::Param,
        }
    }
}
