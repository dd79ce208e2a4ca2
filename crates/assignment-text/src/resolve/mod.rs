//! Resolves names to letters, symbols and nodes, and settles ranges and dimensions.
//!
//! A statement is resolved behind the statements before it, since an index may mention the size of an axis,
//! `size(x, 1)`, of a node whose dimensions an earlier statement gives.

mod axis_sizes;
mod bounds;
mod dims;
mod letters;
mod open_scans;
mod ranges;
mod statement;

pub(crate) use self::ranges::below;

use self::open_scans::OpenScan;

use std::collections::BTreeSet;

use tnode::{DType, RunSizes, TensorNode};

use crate::ast::{Access, ExpandedStep, Fetch, Gradient, Role, ScanStart, Statement};
use crate::error::{LocatedError, Result, TextErrorKind, TextGradientError};
use crate::linear::Atom;
use crate::names::{Names, NamesAt, example, gradient_name, written};
use crate::tree::{
    ResolvedFill, ResolvedGradient, ResolvedParameter, ResolvedProgram, ResolvedStatement, ResolvedStep,
    StepKind,
};
use assignments::indexing::StaticSymbol;
use assignments::{AccumOp, SymbolTable};
use lowered_ir::ir::{Affine, SymbolId};
use lowered_ir::{SourceSpan, SourceText};

/// Resolves the steps of a program. Its symbols are entered into `symbols`.
pub(crate) fn resolve(
    steps: Vec<ExpandedStep>,
    names: &Names,
    text: &SourceText,
    symbols: &mut SymbolTable,
) -> ResolvedProgram {
    let mut program = ResolvedProgram { steps: Vec::with_capacity(steps.len()), error: None };
    // The scans around the step, those of which a run gives the number of steps with it.
    let mut scans: Vec<Option<OpenScan>> = Vec::new();
    for (at, mut source) in steps.into_iter().enumerate() {
        let open = scans.iter().flatten().cloned().collect();
        let mut resolver = StepResolver { names, at, text, symbols, open };
        match resolver.step(&mut source) {
            Ok(kind) => {
                match (&kind, &source) {
                    (&StepKind::ScanStart(symbol), ExpandedStep::ScanStart(scan)) => {
                        scans.push(open_scan(scan, symbol, symbols));
                    }
                    (StepKind::ScanEnd, _) => _ = scans.pop(),
                    _ => {}
                }
                program.steps.push(ResolvedStep { source, kind });
            }
            Err(error) => {
                program.error = Some(error.within(source.frame()));
                break;
            }
        }
    }
    program
}

/// Enters the symbols whose range a `where` declares; the range holds for the whole text.
pub(crate) fn declare_symbols(steps: &[ExpandedStep], symbols: &mut SymbolTable) -> Result<()> {
    steps.iter().try_for_each(|step| {
        let statement = match step {
            ExpandedStep::Statement(statement) => statement,
            ExpandedStep::ScanStart(scan) => {
                symbols.enter(&scan.symbol);
                return Ok(());
            }
            _ => return Ok(()),
        };
        declared_ranges(statement, symbols).map_err(|error| error.within(step.frame()))
    })
}

fn declared_ranges(statement: &Statement, symbols: &mut SymbolTable) -> Result<()> {
    for constraint in &statement.constraints {
        let Some((Atom::Symbol(name), limit)) = constraint.range()? else { continue };
        let shown = Atom::Symbol(name.clone()).to_string();
        let reject = |conflict: String| {
            let (name, range) = (shown.clone(), limit);
            TextErrorKind::BadRange { name, range, conflict }.at(&constraint.span)
        };
        let range = ranges::range_of(limit).map_err(reject)?;
        match symbols.find(name).and_then(|symbol| symbol.range) {
            Some(other) if other != range => return Err(reject(format!("contradicts `{shown} < {other}`"))),
            _ => symbols.enter(&StaticSymbol::ranged(name, range)),
        };
    }
    Ok(())
}

/// The scan that starts at a step, if a run gives the number of its steps.
fn open_scan(scan: &ScanStart, symbol: SymbolId, symbols: &SymbolTable) -> Option<OpenScan> {
    let steps = &scan.run_end.as_ref()?.steps;
    let end = steps.terms.iter().try_fold(Affine::constant(steps.offset), |sum, (size, factor)| {
        Some(sum.plus(&Affine::term(ranges::size_symbol(size, symbols)?, *factor)))
    });
    Some(OpenScan { symbol, bound: steps.bound, end: end? })
}

/// Resolves one step.
struct StepResolver<'a> {
    names: &'a Names,
    at: usize,
    text: &'a SourceText,
    symbols: &'a mut SymbolTable,
    open: Vec<OpenScan>,
}

impl StepResolver<'_> {
    fn step(&mut self, step: &mut ExpandedStep) -> Result<StepKind> {
        match step {
            ExpandedStep::Statement(statement) => {
                axis_sizes::replace(statement, self.names.before(self.at))?;
                match (&statement.fetch, statement.lhs.first()) {
                    (Some(fetch), Some(target)) => self.fill(fetch, target, statement).map(StepKind::Fill),
                    _ => self.statement(statement),
                }
            }
            ExpandedStep::Gradient(gradient) => self.gradient(gradient).map(StepKind::Gradient),
            ExpandedStep::Detach(detach) => {
                let node = self.names.before(self.at).find_written(&detach.node.name);
                node.map(StepKind::Detach).map_err(|kind| kind.at(&detach.node.span))
            }
            ExpandedStep::ScanStart(scan) => Ok(StepKind::ScanStart(self.symbols.enter(&scan.symbol))),
            ExpandedStep::ScanEnd(_) => Ok(StepKind::ScanEnd),
        }
    }

    /// Resolves a statement over letters, and settles the dimensions of its targets.
    fn statement(&mut self, statement: &Statement) -> Result<StepKind> {
        let names = self.names.at(self.at);
        for target in statement.lhs.iter().filter(|target| !target.merge) {
            check_target(target, statement, names)?;
        }
        let mut resolved = statement::resolve(statement, self.text, names, self.symbols)?;
        let mut ranges =
            ranges::letter_ranges(&mut resolved, self.names.given.bounds_are_sizes, self.symbols, self.text)?;
        dims::settle_dims(&mut resolved, &ranges, self.symbols)?;
        ranges::state_sizes(&mut resolved, self.symbols);
        let check = |resolved: &ResolvedStatement, ranges: &[i64], scans: &[OpenScan]| {
            bounds::check_bounds(resolved, ranges, self.symbols, scans, self.text)
                .map_err(|error| self.with_first_write(error))
        };
        if !check(&resolved, &ranges, &self.open)? {
            self.open.iter().for_each(|scan| open_scans::guard(&mut resolved, &mut ranges, scan));
            check(&resolved, &ranges, &[])?;
        }
        Ok(StepKind::Ranged(Box::new(resolved), ranges))
    }

    /// Resolves a statement that fills a whole node. Only slices and sorted positions give dimensions.
    fn fill(&self, fetch: &Fetch, target: &Access, statement: &Statement) -> Result<ResolvedFill> {
        let before = self.names.before(self.at);
        reject_letters(statement)?;
        check_target(target, statement, before)?;
        let of = match fetch {
            Fetch::Slice { of, .. } | Fetch::Order { of, .. } | Fetch::SampleValues { of, .. } => {
                Some(before.find(&of.name).map_err(|kind| kind.at(&of.span))?)
            }
            _ => None,
        };
        let node = self.names.at(self.at).find(&target.name);
        let node = node.map_err(|kind| kind.at(&target.name_span))?;
        if !before.has(&target.name) {
            let of_dims = of.as_ref().and_then(|of| of.dims_without_padding().ok());
            let sizes = of.as_ref().map_or(&[][..], |of| of.run_sizes());
            let dims = match fetch {
                Fetch::Slice { .. } => of_dims.and_then(|dims| {
                    Some((dims.get(1..)?.into(), sizes.get(1..).unwrap_or_default().into()))
                }),
                Fetch::Order { .. } => of_dims.map(|dims| (dims, RunSizes::from(sizes))),
                _ => None,
            };
            let Some((dims, sizes)) = dims else {
                let [example, number] =
                    [&[None][..], &[]].map(|dims| example(&target.name, DType::F32, dims));
                let node = target.name.clone();
                return Err(TextErrorKind::OpenDims { node, example, number }.at(&target.span));
            };
            let dims = node.set_dims_with(dims, sizes);
            dims.map_err(|error| TextErrorKind::from(error).at(&target.span))?;
        }
        Ok(ResolvedFill { statement: Box::new(statement.clone()), node, of })
    }

    /// Resolves a gradient. The nodes that receive the derivatives get the dimensions of the parameters.
    fn gradient(&self, gradient: &Gradient) -> Result<ResolvedGradient> {
        let loss = self.loss(gradient)?;
        let (mut parameters, mut receivers) = (Vec::new(), BTreeSet::new());
        for (at, access) in gradient.parameters.iter().enumerate() {
            for name in self.names.before(self.at).members(&access.name) {
                let parameter = self.parameter(name, at);
                let parameter = parameter.map_err(|kind| kind.at(&access.span))?;
                if !receivers.insert(parameter.receiver_name.clone()) {
                    let (what, name) = ("gradient", parameter.receiver_name);
                    return Err(TextErrorKind::DefinedTwice { what, name }.at(&access.span));
                }
                parameters.push(parameter);
            }
        }
        Ok(ResolvedGradient { loss, parameters })
    }

    /// The loss, which an earlier step writes.
    fn loss(&self, gradient: &Gradient) -> Result<TensorNode> {
        let located = |kind: TextErrorKind| kind.at(&gradient.loss.span);
        let name = &gradient.loss.name;
        let node = self.names.before(self.at).find_written(name).map_err(located)?;
        if !self.names.is_written_before(&node, self.at) {
            return Err(located(TextGradientError::LossNotWritten { name: name.clone() }.into()));
        }
        match node.dims_without_padding().map_err(|error| located(error.into()))? {
            dims if dims.is_empty() => Ok(node),
            dims => {
                let (name, dtype, dims) = (name.clone(), node.dtype(), dims.to_vec());
                Err(located(TextGradientError::Loss { name, dtype, dims }.into()))
            }
        }
    }

    /// A parameter, which has values, and the node that receives the derivatives by it.
    fn parameter(&self, name: String, access: usize) -> Result<ResolvedParameter, TextErrorKind> {
        let node = self.names.before(self.at).find_written(&name)?;
        let names = self.names.at(self.at);
        let receiver_name = gradient_name(&name);
        if let Some(role @ (Role::Input | Role::Const)) = names.role(&receiver_name) {
            return Err(TextErrorKind::ReadOnly { name: receiver_name, role: role.token() });
        }
        let is_new = !self.names.before(self.at).has(&receiver_name);
        let receiver = names.find(&receiver_name)?;
        receiver.set_dims_with(node.dims_without_padding()?, node.run_sizes().into())?;
        Ok(ResolvedParameter { name, node, receiver_name, receiver, is_new, access })
    }

    /// Adds to an error about an index where the dimensions of an intermediate come from.
    fn with_first_write(&self, error: LocatedError) -> LocatedError {
        error.map(|mut kind| {
            if let TextErrorKind::OutOfBounds { node, axis, lo, hi, inferred, .. } = &mut kind {
                let mut earlier = self.names.intermediates().take_while(|write| write.step < self.at);
                let found = earlier
                    .find_map(|write| Some((write, write.node.as_ref().filter(|n| n.name() == *node)?)));
                *inferred = found.and_then(|(write, node)| {
                    let sizes = grown(&node.dims_without_padding().ok()?, *axis, *hi)?;
                    let line = SourceSpan::new(self.text.clone(), write.span.start..write.span.start).line();
                    let declared = example(&written(node), DType::F32, &sizes);
                    // One position of an only axis may be meant as a node of a family.
                    let is_position = lo == hi && sizes.len() == 1;
                    let member = format!("`, or write `{}[{hi}][]` for a node of a family", written(node));
                    let end = if is_position { &*member } else { "`" };
                    Some(Box::new((line, declared + end)))
                });
            }
            kind
        })
    }
}

/// Rejects a target that the program must not write, or whose earlier values it lacks.
fn check_target(target: &Access, statement: &Statement, names: NamesAt<'_>) -> Result<()> {
    let name = target.name.clone();
    if let Some(role @ (Role::Input | Role::Const)) = names.role(&name) {
        return Err(TextErrorKind::ReadOnly { name, role: role.token() }.at(&target.name_span));
    }
    let keeps = !statement.init && statement.op != AccumOp::Assign;
    if keeps && names.is_unwritten(&name) {
        let op = statement.op;
        return Err(TextErrorKind::NoEarlierValues { name, op }.at(&statement.op_span));
    }
    Ok(())
}

/// Rejects the declared range of a letter in a statement without letters.
fn reject_letters(statement: &Statement) -> Result<()> {
    let letter = statement.constraints.iter().find_map(|constraint| {
        let letter = constraint.letters().first().map(|&letter| letter.to_owned())?;
        Some((letter, constraint.span.clone()))
    });
    letter.map_or(Ok(()), |(letter, span)| Err(TextErrorKind::UnusedLetter { letter }.at(&span)))
}

/// The dimensions with the size that index `hi` asks for on one axis; `None` for a negative index.
fn grown(dims: &[usize], axis: usize, hi: i64) -> Option<Vec<Option<usize>>> {
    let needed = usize::try_from(hi).ok()?.checked_add(1)?;
    let mut sizes: Vec<Option<usize>> = dims.iter().copied().map(Some).collect();
    let size = sizes.get_mut(axis)?;
    *size = Some(needed.max((*size)?));
    Some(sizes)
}
