//! Liveness of variables by lane: after each [`VectorStmt::Set`], and at the start and end of each loop.
//!
//! Dead lanes need not be preserved. For example, a reduction by halves that replaces the lower lanes of a
//! variable needs no blend, and loops carry live lanes only.

use std::collections::HashMap;

use smallvec::SmallVec;

use crate::program::{LoopRange, Variable, VectorOp, VectorProgram, VectorStmt};

/// A set of lanes of all variables.
#[derive(Clone, Debug, PartialEq, Eq)]
struct LaneSet(SmallVec<[u64; 8]>);

/// A set of lanes of one variable.
pub(crate) type VariableLanes = SmallVec<[u64; 2]>;

/// The lanes that an iteration of a loop reads before it sets them, the lanes that are live after the loop,
/// and the lanes that the loop sets.
#[derive(Clone, Debug)]
pub(crate) struct LoopLanes {
    start: LaneSet,
    after: LaneSet,
    set: LaneSet,
}

/// The live lanes at statements of a program.
#[derive(Debug)]
pub(crate) struct Liveness {
    /// The first word of each variable in a lane set.
    words: Vec<usize>,
    sets: HashMap<usize, VariableLanes>,
    loops: HashMap<usize, LoopLanes>,
}

/// Identifies a statement by its address in the program.
fn key(stmt: &VectorStmt) -> usize {
    std::ptr::from_ref(stmt).addr()
}

impl Liveness {
    /// Computes the live lanes of a program.
    pub(crate) fn of(program: &VectorProgram) -> Liveness {
        let mut words = vec![0];
        for variable in &program.variables {
            words.push(words[words.len() - 1] + (variable.lanes as usize).div_ceil(64));
        }
        let mut live = LaneSet(SmallVec::from_elem(0, words[words.len() - 1]));
        let mut liveness = Liveness { words, sets: HashMap::new(), loops: HashMap::new() };
        if !program.variables.is_empty() {
            liveness.block(program, &program.body, &mut live);
        }
        liveness
    }

    /// The lanes of the variable that are live after a [`VectorStmt::Set`].
    pub(crate) fn after_set(&self, stmt: &VectorStmt) -> &VariableLanes {
        &self.sets[&key(stmt)]
    }

    /// For a range of lanes of a variable: whether the loop sets any of them, whether an iteration may read a
    /// value that one of them had before the iteration, and whether any of them is live after the loop.
    pub(crate) fn of_loop(
        &self,
        stmt: &VectorStmt,
        variable: Variable,
        lanes: std::ops::Range<u32>,
    ) -> (bool, bool, bool) {
        let Some(known) = self.loops.get(&key(stmt)) else { return (false, false, false) };
        let any = |set: &LaneSet| lanes.clone().any(|lane| self.has(set, variable, lane));
        (any(&known.set), any(&known.start), any(&known.after))
    }

    fn has(&self, lanes: &LaneSet, variable: Variable, lane: u32) -> bool {
        lanes.0[self.words[variable.0 as usize] + lane as usize / 64] >> (lane % 64) & 1 == 1
    }

    fn mark(&self, lanes: &mut LaneSet, variable: Variable, range: std::ops::Range<u32>, live: bool) {
        let first = self.words[variable.0 as usize];
        for lane in range {
            let (word, bit) = (first + lane as usize / 64, 1 << (lane % 64));
            if live {
                lanes.0[word] |= bit;
            } else {
                lanes.0[word] &= !bit;
            }
        }
    }

    fn block(&mut self, program: &VectorProgram, body: &[VectorStmt], live: &mut LaneSet) {
        for stmt in body.iter().rev() {
            match stmt {
                VectorStmt::Loop { range, body, .. } => self.enter(program, stmt, range, body, live),
                VectorStmt::Let { value, op: VectorOp::Get { variable, start } } => {
                    let lanes = program.values[value.0 as usize].lanes;
                    self.mark(live, *variable, *start..start + lanes, true);
                }
                VectorStmt::Set { variable, start, value } => {
                    let v = variable.0 as usize;
                    self.sets.insert(key(stmt), live.0[self.words[v]..self.words[v + 1]].into());
                    let lanes = program.values[value.0 as usize].lanes;
                    self.mark(live, *variable, *start..start + lanes, false);
                }
                VectorStmt::Let { .. } | VectorStmt::Store { .. } | VectorStmt::Prefetch(_) => {}
            }
        }
    }

    /// The lanes that are live at the end of an iteration are those that the next iteration or the code after
    /// the loop reads. Iterates to the fixed point.
    fn enter(
        &mut self,
        program: &VectorProgram,
        stmt: &VectorStmt,
        range: &LoopRange,
        body: &[VectorStmt],
        live: &mut LaneSet,
    ) {
        let after = live.clone();
        let mut end = after.clone();
        let start = loop {
            let mut start = end.clone();
            self.block(program, body, &mut start);
            let mut next = start.clone();
            union(&mut next, &after);
            if next == end {
                break start;
            }
            union(&mut end, &next);
        };
        let mut set = LaneSet(SmallVec::from_elem(0, after.0.len()));
        self.collect_sets(program, body, &mut set);
        *live = start.clone();
        if matches!(range, LoopRange::Call | LoopRange::Clipped { .. } | LoopRange::Constant(0)) {
            union(live, &after);
        }
        self.loops.insert(key(stmt), LoopLanes { start, after, set });
    }

    fn collect_sets(&self, program: &VectorProgram, body: &[VectorStmt], set: &mut LaneSet) {
        for stmt in body {
            match stmt {
                VectorStmt::Loop { body, .. } => self.collect_sets(program, body, set),
                VectorStmt::Set { variable, start, value } => {
                    let lanes = program.values[value.0 as usize].lanes;
                    self.mark(set, *variable, *start..start + lanes, true);
                }
                _ => {}
            }
        }
    }
}

fn union(lanes: &mut LaneSet, others: &LaneSet) {
    for (word, other) in lanes.0.iter_mut().zip(&others.0) {
        *word |= other;
    }
}
