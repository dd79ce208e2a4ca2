//! Rounds of trees that one warp does: its lanes hand values to each other, so that nobody waits and nothing is stored in between.
//!
//! The scheduler combines the results of threads in rounds: round `r` is a workgroup loop that stores `f(from[i], from[i + n], …)` into
//! `to[i]`, with as many threads as there are results left. From the first round on that gives few enough results, they are all in the registers of the
//! first warp, in lane `i mod 32` result `i`, and the next round finds what it combines in other lanes. Pairs stay as they are, so no bit
//! changes.

use std::collections::{BTreeMap, HashMap};

use codegen_core::threads::{Fused, sole};
use lowered_ir::ir::{Affine, Expr, LocalId, Locals, LoopId, LoopKind, Routine, Stmt, walk};
use tnode::DType;

/// Lanes of a warp.
pub(crate) const LANES: i64 = 32;

/// The most results that a lane holds.
const EACH: i64 = 4;

/// A round: `to[var] := value` for `0..threads`, of elements `from[var + constant]`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Round<'k> {
    pub(crate) var: LoopId,
    pub(crate) threads: i64,
    pub(crate) to: LocalId,
    pub(crate) value: &'k Expr,
    from: LocalId,
}

/// Rounds of one warp, by the statement that is the first.
#[derive(Debug, Default)]
pub(crate) struct Trees<'k> {
    pub(crate) rounds: HashMap<*const Stmt, Vec<Round<'k>>>,
    pub(crate) fused: Fused,
}

impl<'k> Trees<'k> {
    /// The trees of a kernel with blocks of so many threads.
    pub(crate) fn of(kernel: &'k Routine, threads: u32) -> Trees<'k> {
        let mut trees = Trees::default();
        if i64::from(threads) >= LANES {
            let search = Search { locals: kernel.locals(), mentions: mentions(kernel) };
            search.block(&kernel.body, &mut trees);
        }
        trees
    }
}

/// How many statements store into each local and how many expressions read it.
fn mentions(kernel: &Routine) -> BTreeMap<LocalId, (usize, usize)> {
    let mut found: BTreeMap<LocalId, (usize, usize)> = BTreeMap::new();
    walk::each_stmt(&kernel.body, &mut |stmt| {
        if let Stmt::SetLocal { local, .. } = stmt {
            found.entry(*local).or_default().0 += 1;
        }
    });
    walk::each_value(&kernel.body, &mut |value| {
        walk::each_expr(value, &mut |e| {
            if let Expr::GetLocal { local, .. } = e {
                found.entry(*local).or_default().1 += 1;
            }
        });
    });
    found
}

struct Search {
    locals: Locals,
    mentions: BTreeMap<LocalId, (usize, usize)>,
}

impl Search {
    fn block<'k>(&self, block: &'k [Stmt], trees: &mut Trees<'k>) {
        let mut at = 0;
        while at < block.len() {
            let rounds = self.rounds(&block[at..]);
            if rounds.len() < 2 {
                if let Stmt::For { body, kind, .. } = &block[at]
                    && *kind != LoopKind::Workgroup
                {
                    self.block(body, trees);
                }
                at += 1;
                continue;
            }
            let first = std::ptr::from_ref(&block[at]);
            at += rounds.len();
            trees.fused.runs.insert(first, rounds.len());
            trees.fused.hidden.extend(rounds[..rounds.len() - 1].iter().map(|round| round.to));
            trees.rounds.insert(first, rounds);
        }
    }

    /// The rounds that some statements begin with.
    fn rounds<'k>(&self, block: &'k [Stmt]) -> Vec<Round<'k>> {
        let mut rounds: Vec<Round<'k>> = Vec::new();
        for stmt in block {
            let Some(next) = self.round(stmt) else { break };
            let fits = rounds.last().is_none_or(|last| self.hands_on(last, &next));
            if !fits {
                break;
            }
            rounds.push(next);
        }
        rounds
    }

    fn round<'k>(&self, stmt: &'k Stmt) -> Option<Round<'k>> {
        let Stmt::For { var, lo: 0, hi, kind: LoopKind::Workgroup, body } = stmt else { return None };
        let Stmt::SetLocal { local: to, index, value } = sole(body)? else { return None };
        let threads = hi.limit;
        let decl = self.locals.get(to)?;
        let is_array = decl.space == lowered_ir::ir::Space::Workgroup && decl.dims.len() == 1;
        let fits = (1..=EACH * LANES).contains(&threads) && is_array && decl.dtype != DType::U32x4;
        let from = source(value, *var)?;
        let own = index.len() == 1 && index[0] == Affine::var(*var);
        (fits && own && from != *to).then_some(Round { var: *var, threads, to: *to, value, from })
    }

    /// Whether a round takes all its elements from the one before, nobody else does, and lanes find them.
    fn hands_on(&self, last: &Round<'_>, next: &Round<'_>) -> bool {
        let mut reads = 0;
        let mut found = true;
        each_constant(next.value, &mut |constant| {
            reads += 1;
            found &= constant + next.threads <= last.threads && is_found(constant, next.threads);
        });
        next.from == last.to && found && self.mentions.get(&last.to) == Some(&(1, reads))
    }
}

/// Whether lane `i` finds element `i + constant` in one lane's registers, for all `i` of so many.
fn is_found(constant: i64, threads: i64) -> bool {
    constant >= 0 && (constant % LANES == 0 || threads <= LANES - constant % LANES)
}

/// The local whose elements at `var + constant` are all that an expression reads, if there is one.
fn source(value: &Expr, var: LoopId) -> Option<LocalId> {
    let (mut from, mut is_round) = (None, true);
    walk::each_expr(value, &mut |e| match e {
        Expr::GetLocal { local, index } => {
            let at = index.first().filter(|_| index.len() == 1);
            is_round &= at.is_some_and(|at| constant_of(at, var).is_some());
            is_round &= *from.get_or_insert(*local) == *local;
        }
        Expr::Const(_)
        | Expr::Unary { .. }
        | Expr::Binary { .. }
        | Expr::Ternary { .. }
        | Expr::Convert { .. }
        | Expr::Bitcast { .. } => {}
        _ => is_round = false,
    });
    from.filter(|_| is_round)
}

/// The constant of `var + constant`.
pub(crate) fn constant_of(index: &Affine, var: LoopId) -> Option<i64> {
    index.plus_constant(-index.offset()).as_var().filter(|&v| v == var.into()).map(|_| index.offset())
}

fn each_constant(value: &Expr, f: &mut impl FnMut(i64)) {
    walk::each_expr(value, &mut |e| {
        if let Expr::GetLocal { index, .. } = e {
            index.iter().for_each(|at| f(at.offset()));
        }
    });
}
