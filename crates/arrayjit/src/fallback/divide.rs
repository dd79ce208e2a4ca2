//! Divides the top-level statements of a routine between a backend and its fallback, and makes a routine of
//! each part.
//!
//! A *unit* is the smallest movable piece: a top-level statement, or the statements from the declaration of a
//! local to its last use. A comment belongs to the statement after it. Consecutive units on the same backend
//! form one part.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
};

use lowered_ir::{
    ir::{Block, IdSet, LoweredRoutine, NodeRef, Stmt},
    passes::{access::analyze, effects::Effects},
};
use tnode::{MemoryMode, ModeState, Reason, Sharing};

use super::code::PartBackend;
use crate::generate::Rejection;

/// A part of a routine.
pub(super) struct RoutinePart {
    pub(super) place: PartBackend,
    /// The positions of its units.
    pub(super) units: Range<usize>,
    /// A routine of its statements, with the nodes and symbols of the original routine.
    pub(super) routine: LoweredRoutine,
}

/// The current division of a routine.
pub(super) struct Division<'r> {
    routine: &'r LoweredRoutine,
    /// The units, as positions of statements in the body.
    units: Vec<Range<usize>>,
    rejected: BTreeMap<usize, Rejection>,
    /// Units that begin a new part although the unit before runs on the same backend.
    cuts: BTreeSet<usize>,
}

impl<'r> Division<'r> {
    /// Divides a routine into units, all of them for the backend itself.
    pub(super) fn new(routine: &'r LoweredRoutine) -> Division<'r> {
        let units = units(&routine.body);
        Division { routine, units, rejected: BTreeMap::new(), cuts: BTreeSet::new() }
    }

    /// A routine for each single unit.
    pub(super) fn units(&self) -> impl Iterator<Item = LoweredRoutine> {
        self.units.iter().map(|unit| with_body(self.routine, self.routine.body[unit.clone()].to_vec()))
    }

    /// The rejected units, each with the positions of its statements.
    pub(super) fn rejected(&self) -> impl Iterator<Item = (Range<usize>, &Rejection)> {
        self.rejected.iter().map(|(&unit, rejection)| (self.units[unit].clone(), rejection))
    }

    /// Whether a part contains these statements.
    pub(super) fn holds(&self, part: &RoutinePart, statements: &Range<usize>) -> bool {
        self.units[part.units.clone()].contains(statements)
    }

    /// Moves a unit to the fallback.
    pub(super) fn reject(&mut self, unit: usize, rejection: Rejection) {
        self.rejected.insert(unit, rejection);
    }

    /// Handles a part that is rejected although each of its units is accepted: splits the part in two halves
    /// or, if it is a single unit, marks the unit as rejected.
    pub(super) fn narrow(&mut self, units: Range<usize>, rejection: Rejection) {
        match units.len() {
            0 | 1 => self.reject(units.start, rejection),
            len => drop(self.cuts.insert(units.start + len / 2)),
        }
    }

    /// The parts in order, and the local nodes that several parts touch.
    pub(super) fn parts(&self) -> (Vec<RoutinePart>, BTreeSet<NodeRef>) {
        let spans = self.spans();
        let shared = self.shared(&spans);
        let mut whole = self.routine.clone();
        for node in &shared {
            whole.nodes[node.index()].mode = on_device();
        }
        let facts = analyze(self.routine);
        // A run must not see the values that the previous run left in a local node; so a shared local node
        // that is read before it is written is zeroed.
        let mut unset: BTreeSet<NodeRef> =
            shared.iter().copied().filter(|&node| facts[node].read_before_write).collect();
        let parts = spans.into_iter().enumerate().map(|(at, units)| {
            let mut routine = with_body(&whole, zeroing(&self.body(&units), &mut unset));
            routine.name += &format!("_p{at}");
            RoutinePart { place: self.place(units.start), units, routine }
        });
        (parts.collect(), shared)
    }

    fn place(&self, unit: usize) -> PartBackend {
        if self.rejected.contains_key(&unit) { PartBackend::Fallback } else { PartBackend::Own }
    }

    /// The range of units of each part.
    fn spans(&self) -> Vec<Range<usize>> {
        let begins = |&unit: &usize| {
            unit == 0 || self.cuts.contains(&unit) || self.place(unit) != self.place(unit - 1)
        };
        let starts: Vec<usize> = (0..self.units.len()).filter(begins).collect();
        let ends = starts.iter().copied().skip(1).chain([self.units.len()]);
        starts.iter().zip(ends).map(|(&start, end)| start..end).collect()
    }

    fn body(&self, units: &Range<usize>) -> Block {
        self.units[units.clone()].iter().flat_map(|unit| self.routine.body[unit.clone()].to_vec()).collect()
    }

    /// The local nodes that several parts touch.
    fn shared(&self, spans: &[Range<usize>]) -> BTreeSet<NodeRef> {
        let mut parts: BTreeMap<NodeRef, usize> = BTreeMap::new();
        for span in spans {
            for node in touched(&self.body(span)) {
                *parts.entry(node).or_default() += 1;
            }
        }
        let is_local = |node| self.routine.node(node).mode.mode() == Some(MemoryMode::Local);
        parts.into_iter().filter(|&(node, parts)| parts > 1 && is_local(node)).map(|(node, _)| node).collect()
    }
}

/// The nodes that statements read or write.
fn touched(block: &[Stmt]) -> IdSet<NodeRef> {
    let Effects { mut reads, writes, .. } = Effects::of(block);
    reads.extend(&writes);
    reads
}

fn with_body(routine: &LoweredRoutine, body: Block) -> LoweredRoutine {
    let LoweredRoutine { name, numerics, symbols, nodes, .. } = routine;
    LoweredRoutine {
        name: name.clone(),
        numerics: *numerics,
        symbols: symbols.clone(),
        nodes: nodes.clone(),
        body,
    }
}

fn on_device() -> ModeState {
    let reason = Reason::new("several parts of a divided routine touch it");
    ModeState::decided(MemoryMode::OnDevice(Sharing::Unset), reason)
}

/// The statements, with a statement that zeroes each unset node before the first use of the node. The node is
/// set from then on.
fn zeroing(body: &[Stmt], unset: &mut BTreeSet<NodeRef>) -> Block {
    let mut zeroed = Block::with_capacity(body.len());
    for stmt in body {
        for node in touched(std::slice::from_ref(stmt)) {
            if unset.remove(&node) {
                zeroed.push(Stmt::Zero { node });
            }
        }
        zeroed.push(stmt.clone());
    }
    zeroed
}

/// The units of a body.
fn units(body: &[Stmt]) -> Vec<Range<usize>> {
    let effects: Vec<Effects> = body.iter().map(|stmt| Effects::of(std::slice::from_ref(stmt))).collect();
    let mentions = |at: usize, local| {
        effects[at].local_reads.contains(&local) || effects[at].local_writes.contains(&local)
    };
    let (mut units, mut start, mut last) = (Vec::new(), 0, 0);
    for (at, stmt) in body.iter().enumerate() {
        if let Stmt::Declare { local, .. } = stmt {
            last = last.max((at..body.len()).rev().find(|&at| mentions(at, *local)).unwrap_or(at));
        }
        if at >= last && !matches!(stmt, Stmt::Comment(_)) {
            units.push(start..at + 1);
            start = at + 1;
        }
    }
    if start < body.len() {
        // Comments at the end join the unit before them.
        match units.last_mut() {
            Some(unit) => unit.end = body.len(),
            None => units.push(start..body.len()),
        }
    }
    units
}

#[cfg(test)]
mod tests {
    use lowered_ir::text;

    use super::*;

    const TEXT: &str = "routine @r strict {
        node %0 \"x\" f32[4] on_device
        node %1 \"t\" f32[4] local
        node %2 \"y\" f32[4] on_device
        comment \"one\"
        for i0 in 0..4 { %1[i0] := %0[i0] + 1.0f32 }
        declare l0 f32[] register
        l0 := %0[0]
        comment \"two\"
        for i1 in 0..4 { %2[i1] := %1[i1] * l0 }
        for i2 in 0..4 { %2[i2] := %2[i2] + %1[i2] }
        comment \"the end\"
    }";

    fn rejection() -> Rejection {
        Rejection { what: "`*` on f32".into(), why: "it is a test".into() }
    }

    #[test]
    fn locals_and_remarks_stay_with_their_statements() {
        let routine = text::parse(TEXT).unwrap();
        assert_eq!(units(&routine.body), [0..2, 2..6, 6..8]);
        assert_eq!(units(&[]), []);
        let alone = units(&[Stmt::Comment("alone".into())]);
        assert_eq!((alone.len(), alone[0].clone()), (1, 0..1));
    }

    #[test]
    fn neighbors_for_one_backend_are_one_part() {
        let routine = text::parse(TEXT).unwrap();
        let mut division = Division::new(&routine);
        assert_eq!(division.parts().0.len(), 1);
        division.reject(1, rejection());
        let (parts, shared) = division.parts();
        let found: Vec<_> = parts.iter().map(|part| (part.place, part.units.clone())).collect();
        assert_eq!(
            found,
            [(PartBackend::Own, 0..1), (PartBackend::Fallback, 1..2), (PartBackend::Own, 2..3)]
        );
        assert_eq!(Vec::from_iter(shared), [NodeRef(1)], "`t` outlives its part");
        assert!(
            parts.iter().all(|part| part.routine.node(NodeRef(1)).mode.mode() != Some(MemoryMode::Local))
        );
        division.reject(0, rejection());
        let spans: Vec<_> = division.parts().0.into_iter().map(|part| part.units).collect();
        assert_eq!(spans, [0..2, 2..3]);
        division.narrow(0..2, rejection());
        assert_eq!(division.parts().0.len(), 3);
        division.narrow(2..3, rejection());
        assert_eq!(division.parts().0.len(), 2, "the second and the third are neighbors on the fallback");
    }

    #[test]
    fn a_local_node_read_before_it_is_written_is_zeroed_where_it_first_occurs() {
        let text = "routine @r strict {
            node %0 \"y\" f32[4] on_device
            node %1 \"t\" f32[4] local
            for i0 in 0..4 { %0[i0] := 1.0f32 }
            for i1 in 0..4 { %1[i1] := %1[i1] + %0[i1] }
            for i2 in 0..4 { %0[i2] := %1[i2] }
        }";
        let routine = text::parse(text).unwrap();
        let mut division = Division::new(&routine);
        division.reject(2, rejection());
        let (parts, _) = division.parts();
        assert_eq!(parts[0].routine.body[1], Stmt::Zero { node: NodeRef(1) });
        assert_eq!((parts[0].routine.body.len(), parts[1].routine.body.len()), (3, 1));
    }
}
