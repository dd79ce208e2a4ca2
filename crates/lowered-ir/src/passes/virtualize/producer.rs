//! The computation of a virtual node, taken out of the routine and put in a form that can be repeated for any element.
//!
//! A producer is a list of pieces in program order. Each piece knows, per dimension, which elements it is about (one fixed
//! index, or the range of the loop variables that stand there) and holds its loop nest with every other store dropped.

use std::collections::{BTreeMap, BTreeSet};

use crate::ir::{Expr, Indices, LocalId, LoopId, NodeRef, Routine, Stmt, Var, walk};
use crate::passes::cost;
use crate::passes::ranges::Ranges;
use crate::text;

use super::Refusal;

/// The computation of one node.
pub(super) struct Producer {
    /// Whose computation.
    pub(super) node: NodeRef,
    /// What to run, in order. The node's memory counts as zero before the first.
    pub(super) pieces: Vec<Piece>,
    /// The first and the last position in the body with a setter.
    pub(super) setters: (usize, usize),
    /// The nodes read, without the node itself.
    pub(super) inputs: BTreeSet<NodeRef>,
    /// Nodes that the setters' statements write besides, so that they must not be inputs.
    pub(super) companions: BTreeSet<NodeRef>,
}

/// One setting statement of the body, reduced to what concerns the node.
pub(super) struct Piece {
    /// Per dimension, the elements it is about.
    pub(super) keys: Vec<Key>,
    /// Which dimension each loop variable of an index runs over.
    pub(super) variables: BTreeMap<LoopId, usize>,
    /// The loop nest.
    pub(super) stmt: Stmt,
}

/// The indices of one dimension that a piece sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    /// This one.
    Fixed(i64),
    /// All from the first to before the second; a loop variable runs over them.
    Run(i64, i64),
}

impl Producer {
    /// The number of operations of the computation.
    pub(super) fn size(&self) -> usize {
        let mut total = 0;
        for piece in &self.pieces {
            walk::each_value(std::slice::from_ref(&piece.stmt), &mut |value| total += cost::size(value));
        }
        total
    }
}

/// Takes the computation of `node` out of the routine.
pub(super) fn extract(routine: &Routine, node: NodeRef, ranges: &Ranges) -> Result<Producer, Refusal> {
    let mut producer = Producer {
        node,
        pieces: Vec::new(),
        setters: (usize::MAX, 0),
        inputs: BTreeSet::new(),
        companions: BTreeSet::new(),
    };
    for (top, stmt) in routine.body.iter().enumerate() {
        if !sets(stmt, node) {
            continue;
        }
        producer.setters = (producer.setters.0.min(top), top);
        match stmt {
            Stmt::Zero { .. } => producer.pieces.clear(),
            _ => producer.pieces.push(piece(routine, stmt, node, ranges)?),
        }
        let effects = super::Effects::of(std::slice::from_ref(stmt));
        producer.companions.extend(effects.writes.into_iter().filter(|&n| n != node));
    }
    if producer.setters.0 == usize::MAX {
        return Err(Refusal::NoSetter);
    }
    for piece in &producer.pieces {
        let effects = super::Effects::of(std::slice::from_ref(&piece.stmt));
        producer.inputs.extend(effects.reads.into_iter().filter(|&n| n != node));
    }
    Ok(producer)
}

/// Whether the statement stores to the node.
pub(super) fn sets(stmt: &Stmt, node: NodeRef) -> bool {
    let mut found = false;
    walk::each_stmt(std::slice::from_ref(stmt), &mut |s| {
        found |= matches!(s, Stmt::Set { node: n, .. } | Stmt::SetDynamic { node: n, .. } | Stmt::Zero { node: n } if *n == node);
    });
    found
}

/// The keys of an index, and the dimension of each variable in it.
type Form = (Vec<Key>, BTreeMap<LoopId, usize>);

fn piece(routine: &Routine, stmt: &Stmt, node: NodeRef, ranges: &Ranges) -> Result<Piece, Refusal> {
    let stmt = project(stmt, node).ok_or(Refusal::InconsistentSetters)?;
    let mut found: Option<Form> = None;
    let mut failure = None;
    walk::each_stmt(std::slice::from_ref(&stmt), &mut |s| {
        let one = match s {
            Stmt::Set { index, .. } => keys(routine, index, ranges),
            Stmt::Zero { .. } => Err(Refusal::InconsistentSetters),
            Stmt::SetDynamic { .. } => Err(Refusal::ComputedIndex),
            _ => return,
        };
        failure = failure.take().or(one.and_then(|one| agree(&mut found, one)).err());
    });
    if let Some(refusal) = failure {
        return Err(refusal);
    }
    let (keys, variables) = found.ok_or(Refusal::NoSetter)?;
    let piece = Piece { keys, variables, stmt };
    Check { piece: &piece, node, around: Vec::new(), locals: BTreeMap::new() }.stmt(&piece.stmt)?;
    Ok(piece)
}

/// Joins the form of one more setter's index to those before.
fn agree(found: &mut Option<Form>, (keys, variables): Form) -> Result<(), Refusal> {
    let Some((known_keys, known)) = found else {
        *found = Some((keys, variables));
        return Ok(());
    };
    if *known_keys != keys {
        return Err(Refusal::InconsistentSetters);
    }
    for (var, dim) in variables {
        if *known.entry(var).or_insert(dim) != dim {
            return Err(Refusal::InconsistentSetters);
        }
    }
    Ok(())
}

/// The statement without stores to other nodes and without loops that become empty; `None` if nothing is left.
fn project(stmt: &Stmt, node: NodeRef) -> Option<Stmt> {
    match stmt {
        Stmt::For { var, lo, hi, kind, body } => {
            let body: Vec<Stmt> = body.iter().filter_map(|s| project(s, node)).collect();
            let active = body.iter().any(|s| !matches!(s, Stmt::Declare { .. }));
            active.then(|| Stmt::For { var: *var, lo: *lo, hi: *hi, kind: *kind, body })
        }
        Stmt::Set { node: n, .. } | Stmt::SetDynamic { node: n, .. } | Stmt::Zero { node: n }
            if *n != node =>
        {
            None
        }
        Stmt::Comment(_) | Stmt::Log { .. } => None,
        other => Some(other.clone()),
    }
}

/// Solves an index for its loop variables: each dimension is one variable, no two the same, or a constant.
fn keys(routine: &Routine, index: &Indices, ranges: &Ranges) -> Result<Form, Refusal> {
    let mut variables = BTreeMap::new();
    let mut keys = Vec::new();
    for (dim, index) in index.iter().enumerate() {
        keys.push(match (index.as_constant(), index.as_var()) {
            (Some(at), _) => Key::Fixed(at),
            (None, Some(Var::Loop(var))) => {
                if variables.insert(var, dim).is_some() {
                    return Err(Refusal::RepeatedVariable);
                }
                run(var, ranges)?
            }
            _ => return Err(Refusal::IndexNotInvertible { index: text::print_index(routine, index) }),
        });
    }
    Ok((keys, variables))
}

fn run(var: LoopId, ranges: &Ranges) -> Result<Key, Refusal> {
    match ranges.get(var) {
        Some(l) if l.is_constant() => Ok(Key::Run(l.lo, l.hi.limit)),
        _ => Err(Refusal::SymbolicRange),
    }
}

/// Checks that a nest can be run for one element alone: that dropping the loops over the node's dimensions changes nothing.
struct Check<'a> {
    piece: &'a Piece,
    node: NodeRef,
    /// The loops around that will be dropped.
    around: Vec<LoopId>,
    /// How many of those stood around each local's declaration.
    locals: BTreeMap<LocalId, usize>,
}

impl Check<'_> {
    fn stmt(&mut self, stmt: &Stmt) -> Result<(), Refusal> {
        match stmt {
            Stmt::For { var, body, .. } => {
                let dropped = self.piece.variables.contains_key(var);
                if dropped {
                    self.around.push(*var);
                }
                body.iter().try_for_each(|s| self.stmt(s))?;
                if dropped {
                    self.around.pop();
                }
                Ok(())
            }
            Stmt::Set { index, value, .. } => {
                self.own_element(index, Refusal::InconsistentSetters)?;
                self.value(value)
            }
            Stmt::SetLocal { local, index, value } => {
                self.local(*local, index)?;
                self.value(value)
            }
            Stmt::Declare { local, .. } => {
                self.locals.insert(*local, self.around.len());
                Ok(())
            }
            Stmt::SetDynamic { .. } => Err(Refusal::ComputedIndex),
            Stmt::Zero { .. } | Stmt::Comment(_) | Stmt::Log { .. } => Ok(()),
        }
    }

    fn value(&self, value: &Expr) -> Result<(), Refusal> {
        let mut result = Ok(());
        walk::each_expr(value, &mut |part| {
            let checked = match part {
                Expr::Get { node, index } if *node == self.node => {
                    self.own_element(index, Refusal::Recurrence)
                }
                Expr::GetGuarded { node, .. } if *node == self.node => Err(Refusal::Recurrence),
                Expr::GetLocal { local, index } => self.local(*local, index),
                _ => Ok(()),
            };
            if result.is_ok() {
                result = checked;
            }
        });
        result
    }

    /// The index is that of the element being computed, and every dropped loop around runs over a dimension of it.
    fn own_element(&self, index: &Indices, otherwise: Refusal) -> Result<(), Refusal> {
        let same =
            index.iter().enumerate().all(|(dim, index)| match (self.piece.keys[dim], index.as_var()) {
                (Key::Fixed(at), _) => index.as_constant() == Some(at),
                (Key::Run(..), Some(Var::Loop(var))) => self.piece.variables.get(&var) == Some(&dim),
                _ => false,
            });
        let all = self.around.iter().all(|&var| index.iter().any(|i| i.mentions(var)));
        if same && all { Ok(()) } else { Err(otherwise) }
    }

    /// The local is declared within the nest, within the same dropped loops, and not indexed by their variables.
    fn local(&self, local: LocalId, index: &Indices) -> Result<(), Refusal> {
        let indexed = index.iter().any(|i| self.piece.variables.keys().any(|&var| i.mentions(var)));
        match self.locals.get(&local) {
            None => Err(Refusal::LocalEscapes { local: local.to_string() }),
            Some(&depth) if indexed || depth != self.around.len() => {
                Err(Refusal::CarriedLocal { local: local.to_string() })
            }
            Some(_) => Ok(()),
        }
    }
}
