//! Which lanes of variables are still read, after each [`Stmt::Set`] and at both ends of each loop.
//!
//! Lanes that nobody reads need not be kept: a sum by halves that writes the lower lanes of a variable blends nothing, and loops carry
//! only what a later iteration or statement wants.

use std::collections::HashMap;

use smallvec::SmallVec;

use crate::program::{Op, Program, Range, Stmt, Variable};

/// A set of lanes of all variables.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Lanes(SmallVec<[u64; 8]>);

/// A set of lanes of one variable.
pub(crate) type VariableLanes = SmallVec<[u64; 2]>;

/// What is known of a loop.
#[derive(Clone, Debug)]
pub(crate) struct LoopLanes {
    start: Lanes,
    after: Lanes,
    set: Lanes,
}

/// The lanes that are read later, by statement.
#[derive(Debug)]
pub(crate) struct Liveness {
    /// Where each variable's lanes begin, in words of the sets.
    words: Vec<usize>,
    sets: HashMap<usize, VariableLanes>,
    loops: HashMap<usize, LoopLanes>,
}

/// What tells statements of a program apart.
fn key(stmt: &Stmt) -> usize {
    std::ptr::from_ref(stmt).addr()
}

impl Liveness {
    /// Looks at a whole program.
    pub(crate) fn of(program: &Program) -> Liveness {
        let mut words = vec![0];
        for variable in &program.variables {
            words.push(words[words.len() - 1] + (variable.lanes as usize).div_ceil(64));
        }
        let mut live = Lanes(SmallVec::from_elem(0, words[words.len() - 1]));
        let mut liveness = Liveness { words, sets: HashMap::new(), loops: HashMap::new() };
        if !program.variables.is_empty() {
            liveness.block(program, &program.body, &mut live);
        }
        liveness
    }

    /// Lanes of the variable that are read after a [`Stmt::Set`].
    pub(crate) fn after_set(&self, stmt: &Stmt) -> &VariableLanes {
        &self.sets[&key(stmt)]
    }

    /// Whether a loop sets any of these lanes of a variable, whether an iteration reads what was there before it, and whether
    /// statements after the loop read them.
    pub(crate) fn of_loop(
        &self,
        stmt: &Stmt,
        variable: Variable,
        lanes: std::ops::Range<u32>,
    ) -> (bool, bool, bool) {
        let Some(known) = self.loops.get(&key(stmt)) else { return (false, false, false) };
        let any = |set: &Lanes| lanes.clone().any(|lane| self.has(set, variable, lane));
        (any(&known.set), any(&known.start), any(&known.after))
    }

    fn has(&self, lanes: &Lanes, variable: Variable, lane: u32) -> bool {
        lanes.0[self.words[variable.0 as usize] + lane as usize / 64] >> (lane % 64) & 1 == 1
    }

    fn mark(&self, lanes: &mut Lanes, variable: Variable, range: std::ops::Range<u32>, live: bool) {
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

    fn block(&mut self, program: &Program, body: &[Stmt], live: &mut Lanes) {
        for stmt in body.iter().rev() {
            match stmt {
                Stmt::Loop { range, body, .. } => self.enter(program, stmt, *range, body, live),
                Stmt::Let { value, op: Op::Get { variable, start } } => {
                    let lanes = program.values[value.0 as usize].lanes;
                    self.mark(live, *variable, *start..start + lanes, true);
                }
                Stmt::Set { variable, start, value } => {
                    let v = variable.0 as usize;
                    self.sets.insert(key(stmt), live.0[self.words[v]..self.words[v + 1]].into());
                    let lanes = program.values[value.0 as usize].lanes;
                    self.mark(live, *variable, *start..start + lanes, false);
                }
                Stmt::Let { .. } | Stmt::Store { .. } | Stmt::Prefetch(_) => {}
            }
        }
    }

    /// What is read at the end of an iteration is what is read after the loop or by the next iteration.
    fn enter(&mut self, program: &Program, stmt: &Stmt, range: Range, body: &[Stmt], live: &mut Lanes) {
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
        let mut set = Lanes(SmallVec::from_elem(0, after.0.len()));
        self.collect_sets(program, body, &mut set);
        *live = start.clone();
        if range == Range::Part || range == Range::To(0) {
            union(live, &after);
        }
        self.loops.insert(key(stmt), LoopLanes { start, after, set });
    }

    fn collect_sets(&self, program: &Program, body: &[Stmt], set: &mut Lanes) {
        for stmt in body {
            match stmt {
                Stmt::Loop { body, .. } => self.collect_sets(program, body, set),
                Stmt::Set { variable, start, value } => {
                    let lanes = program.values[value.0 as usize].lanes;
                    self.mark(set, *variable, *start..start + lanes, true);
                }
                _ => {}
            }
        }
    }
}

fn union(lanes: &mut Lanes, others: &Lanes) {
    for (word, other) in lanes.0.iter_mut().zip(&others.0) {
        *word |= other;
    }
}
