//! The letters of statements and expressions.

use std::collections::BTreeSet;

use crate::ast::{Call, Def, Expr, ExprKind, Index, Item, Parameter, PatternAxis, Statement};
use crate::constraint::Constraint;
use crate::linear::{Atom, IndexExpr};

/// The letters that occur in indices of a statement, calls included, in order of appearance.
pub(super) fn of_statement(statement: &Statement) -> Vec<String> {
    let mut letters = Vec::new();
    statement.lhs.iter().flat_map(|target| &target.indices).for_each(|index| in_axis(index, &mut letters));
    statement.rhs.iter().for_each(|value| in_indices(value, &mut letters));
    letters
}

/// The letters that occur in the indices of a call's arguments.
pub(super) fn of_call(call: &Call) -> Vec<String> {
    let mut letters = Vec::new();
    call.arguments.iter().for_each(|argument| in_indices(&argument.value, &mut letters));
    letters
}

/// The letters of an expression: first the letters in indices, in order of appearance, then the letters that
/// occur only as values. A name without indices is a letter if `known` has it.
pub(super) fn of_expr(expr: &Expr, known: &[String]) -> Vec<String> {
    let mut letters = Vec::new();
    in_indices(expr, &mut letters);
    as_values(expr, known, &mut letters);
    letters
}

/// The letters that occur anywhere in a statement without its constraints.
pub(super) fn everywhere(statement: &Statement) -> Vec<String> {
    let mut letters = of_statement(statement);
    let known: Vec<String> =
        statement.constraints.iter().flat_map(Constraint::letters).map(str::to_owned).collect();
    statement.values().for_each(|value| as_values(value, &known, &mut letters));
    letters
}

/// The letters of the parameters and results of a function.
pub(super) fn of_patterns(def: &Def) -> BTreeSet<String> {
    let parameters = def.parameters.iter().filter_map(|parameter| match parameter {
        Parameter::Array { pattern, .. } => Some(pattern),
        Parameter::Scalar { .. } => None,
    });
    let axes = parameters.chain(&def.results).flat_map(|pattern| &pattern.axes);
    let letters = axes.filter_map(|axis| match axis {
        PatternAxis::Letter(letter, _) => Some(letter.clone()),
        PatternAxis::Row(_) => None,
    });
    letters.collect()
}

/// The letters of a function, and the names that its values mention.
pub(super) fn names_of_def(def: &Def) -> BTreeSet<String> {
    let mut names = of_patterns(def);
    let mut mentioned = Vec::new();
    Item::each(&def.body, &mut |item| match item {
        Item::Statement(statement) => {
            names.extend(everywhere(statement));
            statement.values().for_each(|value| nodes_of(value, &mut mentioned));
        }
        Item::Call(call) => {
            names.extend(of_call(call));
            call.arguments.iter().for_each(|argument| nodes_of(&argument.value, &mut mentioned));
        }
        _ => {}
    });
    names.extend(mentioned);
    names
}

/// The names of the nodes that an expression reads.
pub(super) fn nodes_of(expr: &Expr, into: &mut Vec<String>) {
    match &expr.kind {
        ExprKind::Name(name) => into.push(name.clone()),
        ExprKind::Access(access) | ExprKind::Pad(access, ..) => {
            into.push(access.name.clone());
            access.computed().for_each(|index| nodes_of(index, into));
        }
        _ => {}
    }
    expr.children().into_iter().for_each(|child| nodes_of(child, into));
}

/// Whether a constraint has letters, and all of them are among `letters`.
pub(super) fn of_constraint(constraint: &Constraint, letters: &[String]) -> bool {
    let own = constraint.letters();
    !own.is_empty() && own.iter().all(|&letter| letters.iter().any(|known| known == letter))
}

fn enter(letter: &str, letters: &mut Vec<String>) {
    if !letters.iter().any(|known| known == letter) {
        letters.push(letter.to_owned());
    }
}

/// Enters the letters of an index.
pub(super) fn in_index(index: &IndexExpr, letters: &mut Vec<String>) {
    index.each_atom(&mut |atom, _| {
        if let Atom::Letter(letter) = atom {
            enter(letter, letters);
        }
    });
}

fn in_axis(index: &Index, letters: &mut Vec<String>) {
    match index {
        Index::Linear(index) => in_index(index, letters),
        Index::Concat(concat) => concat.letters.iter().for_each(|(letter, _)| enter(letter, letters)),
        Index::Row(_) => {}
        Index::Computed(expr) => in_indices(expr, letters),
    }
}

/// Enters the letters in the indices of all accesses.
fn in_indices(expr: &Expr, letters: &mut Vec<String>) {
    expr.kind.indices().iter().for_each(|index| in_axis(index, letters));
    expr.children().into_iter().for_each(|child| in_indices(child, letters));
}

/// Enters the letters that are values.
fn as_values(expr: &Expr, known: &[String], letters: &mut Vec<String>) {
    expr.each_name(&mut |name, _, is_letter| {
        if is_letter || known.iter().any(|letter| letter == name) {
            enter(name, letters);
        }
    });
}

/// Whether two names may refer to the same node, of which one may be the last part of a label.
pub(super) fn may_be_same(a: &str, b: &str) -> bool {
    let last = |name: &str| name.rsplit('.').next().unwrap_or_default().to_owned();
    last(a) == last(b)
}
