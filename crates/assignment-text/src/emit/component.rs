//! Components of statements with concatenated axes, and what every component must satisfy.

use std::collections::{BTreeMap, BTreeSet};

use tnode::TensorNode;

use super::projections::{LetterSpace, OperandAccess};
use crate::error::{LocatedError, Result, TextErrorKind};
use crate::source::excerpt;
use crate::tree::{AccessKind, NodeAccess, ResolvedExpr, ResolvedStatement};
use assignments::indexing::concat::Component;
use assignments::indexing::{Projections, are_injective, axis_iterator};
use assignments::{AccumOp, ByteRange};
use lowered_ir::ir::{Affine, Var};

/// A component of a statement: its target and value in terms of active letters.
pub(super) struct StatementComponent {
    pub(super) target: NodeAccess,
    pub(super) value: ResolvedExpr,
    /// The active letters; the letters of the target come first.
    pub(super) letters: Vec<usize>,
    /// The product space, and the projection to the target.
    writes: Projections,
}

/// The targets and the values of a statement, each with its letters, and the letters that occur in neither.
pub(super) struct TargetsAndValues<'a> {
    targets: Vec<(&'a NodeAccess, BTreeSet<usize>)>,
    values: Vec<(&'a ResolvedExpr, BTreeSet<usize>)>,
    unused: Vec<usize>,
}

impl TargetsAndValues<'_> {
    pub(super) fn of(statement: &ResolvedStatement) -> TargetsAndValues<'_> {
        let target = |read| (read, letters_of(read));
        let value = |tree| (tree, collected(|into| ResolvedExpr::letters(tree, into)));
        TargetsAndValues {
            targets: statement.lhs.iter().map(target).collect(),
            values: statement.rhs.iter().map(value).collect(),
            unused: unused_letters(statement),
        }
    }
}

fn letters_of(read: &NodeAccess) -> BTreeSet<usize> {
    collected(|into| read.letters(into))
}

impl StatementComponent {
    /// Selects the only target and the only value of a component.
    pub(super) fn new(
        statement: &ResolvedStatement,
        sides: &TargetsAndValues<'_>,
        component: &Component,
        space: &LetterSpace<'_>,
    ) -> Result<StatementComponent> {
        let runs = |letters: &BTreeSet<usize>| letters.iter().all(|&letter| component.live[letter]);
        let targets = sides.targets.iter().filter(|(_, letters)| runs(letters)).map(|(target, _)| *target);
        let values = sides.values.iter().filter(|(_, letters)| runs(letters)).map(|(value, _)| *value);
        let ambiguous = |what, spans: Vec<ByteRange>| {
            let letters = component.letters().iter().map(|&k| statement.letters[k].name.clone()).collect();
            let found = spans.iter().map(|span| excerpt(space.text, span).to_owned()).collect();
            let place = spans.get(1).unwrap_or(&statement.op_span).clone();
            TextErrorKind::Ambiguous { letters, what, found }.at(&place)
        };
        let target =
            only(targets, |found| ambiguous("target", found.iter().map(|t| t.span.clone()).collect()))?;
        let value = only(values, |found| ambiguous("value", found.iter().map(|t| t.span.clone()).collect()))?;
        let place = |index: &Affine| in_component(index, statement, component);
        let (mut target, mut value) = (target.clone(), value.clone());
        target.map(&place);
        value.map(&place);
        let mut used = letters_of(&target);
        value.letters(&mut used);
        used.extend(&sides.unused);
        let letters: Vec<usize> = used.into_iter().collect();
        // The operand that computes an index does not affect the other indices, so an empty access stands for
        // it.
        let index = target.computed.as_ref().map(|_| OperandAccess::default());
        let access = OperandAccess::of(&target, 0);
        let writes = space.projections(&letters, access, Vec::from_iter(index), "target")?;
        Ok(StatementComponent { target, value, letters, writes })
    }
}

/// The letters whose coefficient is 0 in every index, such as `k` in `i + 0*k`. They are iterated
/// nevertheless.
fn unused_letters(statement: &ResolvedStatement) -> Vec<usize> {
    let mut used = BTreeSet::new();
    statement.lhs.iter().for_each(|target| target.letters(&mut used));
    statement.rhs.iter().for_each(|value| value.letters(&mut used));
    let mut parts = statement.letters.iter().flat_map(|letter| letter.parts.clone());
    used.extend(&mut parts);
    let plain = |&k: &usize| statement.letters[k].parts.is_empty() && !used.contains(&k);
    (0..statement.letters.len()).filter(plain).collect()
}

pub(super) fn collected(enter: impl FnOnce(&mut BTreeSet<usize>)) -> BTreeSet<usize> {
    let mut letters = BTreeSet::new();
    enter(&mut letters);
    letters
}

fn only<T>(found: impl Iterator<Item = T>, otherwise: impl FnOnce(Vec<T>) -> LocatedError) -> Result<T> {
    let mut found: Vec<T> = found.collect();
    match (found.pop(), found.is_empty()) {
        (Some(one), true) => Ok(one),
        (last, _) => {
            found.extend(last);
            Err(otherwise(found))
        }
    }
}

/// An index in which each concatenated axis is replaced by its active letter plus the offset of that letter.
fn in_component(index: &Affine, statement: &ResolvedStatement, component: &Component) -> Affine {
    let axes = (0..statement.letters.len()).filter(|&k| !statement.letters[k].parts.is_empty());
    axes.zip(&component.picked).fold(index.clone(), |index, (axis, &(letter, before))| {
        index.substitute(axis_iterator(axis), &Affine::var(axis_iterator(letter)).plus_constant(before))
    })
}

/// Rejects a plain assignment with a letter that its target lacks.
pub(super) fn check_reduction(statement: &ResolvedStatement, part: &StatementComponent) -> Result<()> {
    if statement.op != AccumOp::Assign {
        return Ok(());
    }
    let kept = collected(|into| part.target.letters(into));
    match part.letters.iter().find(|letter| !kept.contains(letter)) {
        Some(&letter) => {
            let (letter, node) = (&statement.letters[letter], part.target.node.name());
            let (letter, is_node) = (letter.name.clone(), letter.node.is_some());
            Err(TextErrorKind::NotReduced { letter, node, is_node }.at(&statement.op_span))
        }
        None => Ok(()),
    }
}

/// The nodes that the components write, each with whether no element is written twice.
pub(super) fn written_once(parts: &[StatementComponent]) -> BTreeMap<&TensorNode, bool> {
    let mut writes: BTreeMap<&TensorNode, Vec<&Projections>> = BTreeMap::new();
    for part in parts {
        writes.entry(&part.target.node).or_default().push(&part.writes);
    }
    writes.into_iter().map(|(node, writes)| (node, are_injective(&writes))).collect()
}

/// Whether two accesses to a node never meet, because their indices on some axis have no letter of the
/// statement and differ by a number, as in `h[t + 1, i]` and `h[t, i]` in a scan over `t`.
fn is_apart(read: &NodeAccess, written: &NodeAccess) -> bool {
    let by_symbols = |index: &Affine| index.terms().iter().all(|(var, _)| matches!(var, Var::Symbol(_)));
    let has_computed = read.computed.is_some() || written.computed.is_some();
    read.node == written.node
        && !has_computed
        && read.index.iter().zip(&written.index).any(|((a, _), (b, _))| {
            let distance = a.plus(&b.times(-1)).as_constant();
            by_symbols(a) && distance.is_some_and(|distance| distance != 0)
        })
}

/// Rejects statements whose result would depend on the order of the loops. A plain assignment must write each
/// element at most once. A statement may read a node that it writes only where it never writes, or at the
/// element being written if each element is written once. `targets` says which nodes are written at most
/// once per element.
pub(super) fn check_once(
    statement: &ResolvedStatement,
    part: &StatementComponent,
    targets: &BTreeMap<&TensorNode, bool>,
) -> Result<()> {
    let lhs = &part.target;
    let once = targets[&lhs.node];
    if statement.op == AccumOp::Assign && !once {
        return Err(TextErrorKind::Overlap { node: lhs.node.name() }.at(&lhs.span));
    }
    let mut rejected: Option<LocatedError> = None;
    let mut check = |read: &NodeAccess| {
        let is_target = targets.contains_key(&read.node);
        if rejected.is_some() || matches!(read.how, AccessKind::Merge) || !is_target {
            return;
        }
        let index = |access: &NodeAccess| access.index.iter().map(|(i, _)| i.clone()).collect::<Vec<_>>();
        let why = if statement.init {
            "its values are replaced by the neutral element first"
        } else if is_apart(read, lhs) {
            return;
        } else if !once {
            "an element may be written more than once"
        } else if read.node != lhs.node
            || index(read) != index(lhs)
            || matches!(read.how, AccessKind::Padded(..))
        {
            "the element read is not the one written"
        } else if read.computed.is_some() || lhs.computed.is_some() {
            "which element is known only when it runs"
        } else {
            return;
        };
        rejected = Some(TextErrorKind::SelfRead { node: read.node.name(), why }.at(&read.span));
    };
    lhs.each_index_read(&mut check);
    part.value.each_read(&mut check);
    rejected.map_or(Ok(()), Err)
}
