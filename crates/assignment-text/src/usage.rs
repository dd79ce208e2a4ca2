//! What the host and backward passes ask of a program, and nodes that nothing uses.

use std::collections::BTreeSet;

use tnode::TensorNode;

use crate::ast::{Declaration, Recomputed, Role};
use crate::error::{Result, TextErrorKind};
use crate::names::Names;
use crate::source::framed;
use crate::tree::{ResolvedStep, StepKind};
use assignments::{AccessSpan, Origin, Warning, WarningKind};
use lowered_ir::{SourceSpan, SourceText};

/// The node of an item `recompute h`, and the source spans of the item. The word stands anywhere in a text,
/// as `keep` does, and changes no value: the crate `autodiff` repeats the statements of the node where a
/// backward pass needs the values, so that the memory of the node is free between the two passes.
pub(crate) fn recomputed(
    item: &Recomputed,
    names: &Names,
    text: &SourceText,
) -> Result<(TensorNode, Origin)> {
    let Recomputed { target, frame } = item;
    let node = computed_node(&target.name, names);
    let node = node.map_err(|kind| kind.at(&target.name_span).within(frame))?;
    let statement = framed(target.span.clone(), frame, text);
    let place = AccessSpan { whole: target.span.clone(), indices: Vec::new() };
    Ok((node, Origin::new(text, statement, place, Vec::new())))
}

/// The node of that name, which a step computes.
pub(crate) fn computed_node(name: &str, names: &Names) -> Result<TensorNode, TextErrorKind> {
    let node = names.at_end().find(name)?;
    match names.is_written_before(&node, usize::MAX) {
        true => Ok(node),
        false => Err(TextErrorKind::NothingToRecompute { name: name.to_owned() }),
    }
}

/// The nodes that steps read which do not write them.
pub(crate) fn read(steps: &[ResolvedStep]) -> BTreeSet<TensorNode> {
    let mut read = BTreeSet::new();
    for step in steps {
        match &step.kind {
            StepKind::Ranged(statement, _) => statement.each_source(&mut |access| {
                if statement.lhs.iter().all(|target| target.node != access.node) {
                    read.insert(access.node.clone());
                }
            }),
            StepKind::Fill(fill) => read.extend(fill.of.clone()),
            StepKind::Gradient(gradient) => {
                read.insert(gradient.loss.clone());
                read.extend(gradient.parameters.iter().map(|parameter| parameter.node.clone()));
            }
            StepKind::Detach(_) | StepKind::ScanStart(_) | StepKind::ScanEnd => {}
        }
    }
    read
}

/// Rejects intermediates that are not among the nodes `used`.
pub(crate) fn check_used(names: &Names, used: &BTreeSet<TensorNode>) -> Result<()> {
    let is_unused = |node: &TensorNode| !used.contains(node);
    match names.intermediates().find(|write| write.node.as_ref().is_some_and(is_unused)) {
        None => Ok(()),
        Some(write) => {
            let (name, near) = (write.shown.clone(), names.at_end().similar_to(&write.shown));
            Err(TextErrorKind::Unused { name, near }.at(&write.span).within(&write.frame))
        }
    }
}

/// Warnings about declared inputs that are not among the nodes `used`.
pub(crate) fn unused_inputs(
    declarations: &[Declaration],
    names: &Names,
    used: &BTreeSet<TensorNode>,
    text: &SourceText,
) -> Vec<Warning> {
    let is_unused = |declaration: &&Declaration| {
        let node = names.declared.get(&declaration.target.name);
        declaration.role == Role::Input && node.is_some_and(|(node, _)| !used.contains(node))
    };
    let warning = |declaration: &Declaration| {
        let kind = WarningKind::UnusedInput { name: declaration.target.name.clone() };
        Warning::new(kind, Some(SourceSpan::new(text.clone(), declaration.span.clone())))
    };
    declarations.iter().filter(is_unused).map(warning).collect()
}
