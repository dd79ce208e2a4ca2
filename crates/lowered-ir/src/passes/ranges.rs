//! The ranges of the variables of a routine.
//!
//! Loop variables are unique within a routine, so one table serves the whole routine. A variable that occurs
//! in an index is in scope there, so its value is within its range in this table. A loop that never runs has
//! an empty range (`hi < lo`).

use crate::ir::{
    Affine, Bound, Guard, IdMap, LoopId, LoopKind, LoweredRoutine, Quotient, Stmt, Symbol, SymbolId, Var,
    VariableBounds, index_bounds, walk,
};

/// One loop of a routine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoopInfo {
    /// The first value.
    pub lo: i64,
    /// One past the last value.
    pub hi: Bound,
    /// How the iterations may run.
    pub kind: LoopKind,
    /// Whether every run has at least one iteration.
    pub runs: bool,
}

impl LoopInfo {
    /// A loop whose end mentions these symbols.
    pub fn new(lo: i64, hi: &Bound, kind: LoopKind, symbols: &[Symbol]) -> LoopInfo {
        let least = |var| match var {
            Var::Symbol(id) => symbols.get(id.index()).map_or((i64::MIN, i64::MAX), Symbol::interval),
            Var::Loop(_) => (i64::MIN, i64::MAX),
        };
        let is_above = |clip: &Affine| clip.bounds(least).is_some_and(|(least, _)| least > lo);
        let runs = hi.limit > lo && hi.condition().is_none() && hi.clips().iter().all(is_above);
        LoopInfo { lo, hi: hi.clone(), kind, runs }
    }

    /// The number of iterations; the maximum number if the bound has clips.
    pub fn extent(&self) -> u64 {
        self.hi.limit.saturating_sub(self.lo).max(0) as u64
    }

    /// Whether a condition may end it.
    pub fn may_end_early(&self) -> bool {
        self.hi.condition().is_some()
    }

    /// Whether every run has all [`extent`](Self::extent) iterations.
    pub fn is_constant(&self) -> bool {
        self.hi.is_constant()
    }
}

/// An alias of a loop variable, with the same range. The identifier of an alias is so large that no loop of a
/// routine has it.
pub(super) fn alias(var: LoopId) -> LoopId {
    LoopId(var.0 ^ ALIAS)
}

/// The index with aliases in place of loop variables.
pub(super) fn aliased(index: &Affine) -> Affine {
    let mut new = Affine::constant(index.offset());
    for &(var, coefficient) in index.terms() {
        let var = match var {
            Var::Loop(id) => Var::Loop(alias(id)),
            Var::Symbol(_) => var,
        };
        new.add_term(var, coefficient);
    }
    new
}

/// The bit that distinguishes the alias of a variable from the variable.
const ALIAS: u32 = 1 << 31;

/// The loops of a routine and the ranges of its symbols.
#[derive(Clone, Debug, Default)]
pub struct Ranges {
    /// Each loop, with the least and greatest value of its variable.
    loops: IdMap<LoopId, (LoopInfo, (i64, i64))>,
    symbols: Vec<Symbol>,
}

impl Ranges {
    /// The loops and symbols of a routine with their ranges.
    pub fn of(routine: &LoweredRoutine) -> Ranges {
        let mut ranges = Ranges { loops: IdMap::default(), symbols: routine.symbols.clone() };
        ranges.add(&routine.body);
        ranges
    }

    /// Adds the loops of a block; the loops around it were added before.
    pub fn add(&mut self, block: &[Stmt]) {
        walk::stmts(block).for_each(|stmt| {
            if let Stmt::For { var, lo, hi, kind, .. } = stmt {
                let interval = (*lo, self.greatest(hi).saturating_sub(1));
                self.loops.insert(*var, (LoopInfo::new(*lo, hi, *kind, &self.symbols), interval));
            }
        });
    }

    /// The greatest value of a bound.
    pub(super) fn greatest(&self, bound: &Bound) -> i64 {
        let clips = bound.clips().iter().filter_map(|clip| Some(self.bounds(clip)?.1));
        clips.fold(bound.limit, i64::min)
    }

    /// The loop of a variable or of its alias, if there is one.
    pub fn get(&self, var: LoopId) -> Option<&LoopInfo> {
        self.loops.get(&LoopId(var.0 & !ALIAS)).map(|(info, _)| info)
    }

    /// The least and greatest value of a variable.
    pub(crate) fn of_var(&self, var: Var) -> (i64, i64) {
        match var {
            Var::Loop(id) => {
                let found = self.loops.get(&LoopId(id.0 & !ALIAS));
                found.map_or((i64::MIN, i64::MAX), |&(_, interval)| interval)
            }
            Var::Symbol(id) => self.symbols.get(id.index()).map_or((i64::MIN, i64::MAX), Symbol::interval),
        }
    }

    /// The ends of the values of a loop variable or of an alias, over the variables of the loops around or
    /// over their aliases.
    pub(super) fn clips_of(&self, var: LoopId) -> Vec<Affine> {
        let clips = self.get(var).map_or(&[][..], |info| info.hi.clips());
        if var.0 & ALIAS == 0 { clips.to_vec() } else { clips.iter().map(aliased).collect() }
    }

    /// The least and greatest value of an index; `None` where they do not fit an `i64`.
    pub fn bounds(&self, index: &Affine) -> Option<(i64, i64)> {
        index_bounds(index, self)
    }

    /// Like [`bounds`](Self::bounds), narrowed by the ranges of `guard` whose index differs from `index` by a
    /// constant.
    pub(crate) fn bounds_under(&self, index: &Affine, guard: &Guard) -> Option<(i64, i64)> {
        let mut bounds = self.bounds(index)?;
        for range in guard {
            // index = range.index + above
            let Some(above) = index.plus(&range.index.times(-1)).as_constant() else { continue };
            let (lo, hi) = (range.lo.saturating_add(above), range.hi.saturating_sub(1).saturating_add(above));
            bounds = (bounds.0.max(lo), bounds.1.min(hi));
        }
        Some(bounds)
    }
}

impl VariableBounds for Ranges {
    fn interval(&self, var: Var) -> (i64, i64) {
        self.of_var(var)
    }

    /// The clips of a loop variable; none for an alias, whose clips mention other aliases.
    fn clips(&self, var: LoopId) -> &[Affine] {
        self.loops.get(&var).map_or(&[], |(info, _)| info.hi.clips())
    }

    fn quotient(&self, symbol: SymbolId) -> Option<Quotient> {
        Symbol::exact_quotient(&self.symbols, symbol).cloned()
    }
}
