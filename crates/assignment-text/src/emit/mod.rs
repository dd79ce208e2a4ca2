//! Turns the steps of a program into assignments.

mod component;
mod fill;
mod operands;
mod projections;
mod statement;
mod warnings;

use crate::ast::{ExpandedStep, Gradient, ScanStart};
use crate::conditions;
use crate::error::Result;
use crate::source::framed;
use crate::tree::{ResolvedGradient, ResolvedProgram, ResolvedStep, StepKind};
use crate::unparse::source_line;
use assignments::{AccessSpan, Assignments, ByteRange, Nodes, Origin, ProgramStep};
use lowered_ir::SourceText;

/// Appends the steps of a program to `assignments`, and warnings about them.
pub(crate) fn emit(
    program: ResolvedProgram,
    text: &SourceText,
    made: &Nodes,
    assignments: &mut Assignments,
) -> Result<Vec<ResolvedStep>> {
    // The steps before each open scan, its symbol and its condition.
    let mut open = Vec::new();
    let ResolvedProgram { steps, error } = program.each(|_, step| {
        match step.kind {
            StepKind::ScanStart(symbol) => {
                if let ExpandedStep::ScanStart(ScanStart { every: Some(every), .. }) = step.source {
                    assignments.checkpoints.insert(symbol, every);
                }
                let end = conditions::of_scan(&step.source, made);
                open.push((symbol, end, std::mem::take(&mut assignments.steps)));
            }
            StepKind::ScanEnd => {
                let Some((symbol, end, before)) = open.pop() else { return Ok(()) };
                let steps = std::mem::replace(&mut assignments.steps, before);
                assignments.steps.push(ProgramStep::Scan { symbol, steps, end });
            }
            _ => emit_step(step, text, assignments)?,
        }
        Ok(())
    });
    error.map_or(Ok(steps), Err)
}

fn emit_step(step: &ResolvedStep, text: &SourceText, assignments: &mut Assignments) -> Result<()> {
    // A detached node has no loops to remark upon.
    if !matches!(step.kind, StepKind::Detach(_)) {
        assignments.steps.push(ProgramStep::Remark(source_line(&step.source, text)));
    }
    match (&step.kind, &step.source) {
        (StepKind::Ranged(statement, ranges), _) => {
            return statement::emit(statement, ranges, text, assignments);
        }
        (StepKind::Fill(fill), _) => {
            assignments.steps.extend(fill::emit(fill, text, &mut assignments.symbols)?);
        }
        (StepKind::Gradient(resolved), ExpandedStep::Gradient(source)) => {
            assignments.steps.push(gradient(resolved, source, text));
        }
        (StepKind::Gradient(_), _) => {}
        (StepKind::Detach(node), _) => assignments.steps.push(ProgramStep::Detach(node.clone())),
        (StepKind::ScanStart(_) | StepKind::ScanEnd, _) => {}
    }
    Ok(())
}

fn gradient(resolved: &ResolvedGradient, source: &Gradient, text: &SourceText) -> ProgramStep {
    let place = |whole: &ByteRange| AccessSpan { whole: whole.clone(), indices: Vec::new() };
    let parameters = resolved.parameters.iter();
    let spans = parameters.clone().map(|parameter| &source.parameters[parameter.access].span);
    let operands = std::iter::once(&source.loss.span).chain(spans).map(place).collect();
    let statement = framed(source.span.clone(), &source.frame, text);
    ProgramStep::Gradient {
        loss: resolved.loss.clone(),
        parameters: parameters
            .map(|parameter| (parameter.node.clone(), parameter.receiver.clone()))
            .collect(),
        origin: Origin::new(text, statement, place(&source.span), operands),
    }
}
