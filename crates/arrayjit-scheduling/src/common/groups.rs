//! Groups of statements that become kernels, and the order in which these run.
//!
//! A top-level parallel loop is a group. Consecutive other statements share one, or several if they are many.
//! Statements from the declaration of a top-level local to its last use stay together. A scan whose body has
//! parallel loops is not a part of a group: its body has groups of its own, in which the step is a symbol,
//! and they run once for each step.

use std::collections::BTreeMap;

use lowered_ir::ir::{Affine, Block, LoopKind, LoweredRoutine, Stmt, SymbolId, walk};
use lowered_ir::passes::cost::size;
use lowered_ir::passes::regions;

use codegen_core::{dependence, kernel};

/// A value of this many parts or more is long: it counts as a statement for every [`STATEMENT_PARTS`] parts.
const LONG_VALUE: usize = 512;
const STATEMENT_PARTS: usize = 16;

/// The most kernel calls of all steps of a scan.
const SCAN_CALLS: u64 = 1 << 14;

/// A group of statements.
pub(crate) struct Group {
    pub(crate) body: Block,
    /// Whether it runs once for each step of a scan.
    pub(crate) is_in_scan: bool,
}

/// The order in which kernels run.
pub(crate) enum KernelOrder {
    /// The kernel of a group, by its position.
    Group(usize),
    /// The same for each step of a scan.
    Scan { step: SymbolId, steps: i64, runs: Vec<KernelOrder> },
}

/// The groups of a routine, and their order.
#[derive(Default)]
pub(crate) struct Groups {
    pub(crate) groups: Vec<Group>,
    pub(crate) runs: Vec<KernelOrder>,
}

impl Groups {
    /// Groups the statements of a routine, which loses its body and gets a symbol for each scan. A group of
    /// serial statements ends when it has `limit` statements, where long ones count several times.
    pub(crate) fn of(routine: &mut LoweredRoutine, limit: usize) -> Groups {
        let mut groups = Groups::default();
        let body = std::mem::take(&mut routine.body);
        groups.runs = groups.enter(body, limit, routine, false);
        groups
    }

    fn enter(
        &mut self,
        body: Block,
        limit: usize,
        routine: &mut LoweredRoutine,
        is_in_scan: bool,
    ) -> Vec<KernelOrder> {
        let ends = span_ends(&body);
        let mut open = OpenGroup { runs: Vec::new(), body: Block::new(), statements: 0, is_in_scan };
        let mut until = 0;
        for (at, stmt) in body.into_iter().enumerate() {
            if open.statements >= limit && at >= until {
                open.close(self);
            }
            until = until.max(ends.get(&at).copied().unwrap_or(0));
            match stmt {
                Stmt::For { var, hi, kind: LoopKind::Scan, mut body, .. }
                    if at >= until && hi.is_constant() =>
                {
                    open.close(self);
                    let step = regions::add_symbol(routine, hi.limit);
                    walk::substitute(&mut body, var, &Affine::var(step));
                    let runs = self.enter(body, limit, routine, true);
                    open.runs.push(KernelOrder::Scan { step, steps: hi.limit, runs });
                }
                stmt if is_parallel(&stmt) && at >= until => {
                    // A comment before a parallel loop does not belong to the kernel before it.
                    while let Some(Stmt::Comment(_)) = open.body.last() {
                        open.body.pop();
                    }
                    open.close(self);
                    open.body.push(stmt);
                    open.close(self);
                }
                mut stmt => {
                    open.count(&stmt);
                    in_sequence(std::slice::from_mut(&mut stmt));
                    open.body.push(stmt);
                }
            }
        }
        open.close(self);
        open.runs
    }
}

/// A group of serial statements that may grow, and what runs before it.
struct OpenGroup {
    runs: Vec<KernelOrder>,
    body: Block,
    statements: usize,
    is_in_scan: bool,
}

impl OpenGroup {
    fn count(&mut self, stmt: &Stmt) {
        walk::stmts(std::slice::from_ref(stmt)).for_each(|stmt| {
            let long = stmt.values().map(size).filter(|size| *size >= LONG_VALUE);
            self.statements += 1 + long.sum::<usize>() / STATEMENT_PARTS;
        });
    }

    /// Ends the group. A group of comments is dropped.
    fn close(&mut self, groups: &mut Groups) {
        let body = std::mem::take(&mut self.body);
        self.statements = 0;
        if body.iter().any(|stmt| !matches!(stmt, Stmt::Comment(_))) {
            self.runs.push(KernelOrder::Group(groups.groups.len()));
            groups.groups.push(Group { body, is_in_scan: self.is_in_scan });
        }
    }
}

/// For each top-level declaration, the position after the last statement that mentions the local. All are
/// found in one walk, because legalized random numbers declare thousands of locals.
pub(crate) fn span_ends(body: &[Stmt]) -> BTreeMap<usize, usize> {
    let mut ends = BTreeMap::new();
    for (at, stmt) in body.iter().enumerate() {
        let used = dependence::locals_used(std::slice::from_ref(stmt));
        ends.extend(used.into_iter().map(|local| (local, at + 1)));
    }
    let declared = body.iter().enumerate().filter_map(|(at, stmt)| match stmt {
        Stmt::Declare { local, .. } => Some((at, ends.get(local).copied().unwrap_or(0))),
        _ => None,
    });
    declared.collect()
}

/// Whether a statement is a parallel loop whose extent the ABI can state.
pub(crate) fn is_parallel(stmt: &Stmt) -> bool {
    matches!(stmt, Stmt::For { lo: 0, hi, kind: LoopKind::Parallel, .. } if kernel::is_divisible(0, hi))
}

/// Makes the loops at the top of a block, and those in scans, run on one thread.
fn in_sequence(block: &mut [Stmt]) {
    for stmt in block {
        if let Stmt::For { kind, body, .. } = stmt {
            match kind {
                LoopKind::Scan => in_sequence(body),
                LoopKind::Parallel => {}
                _ => continue,
            }
            *kind = LoopKind::Serial;
        }
    }
}

/// Makes a scan a loop on one thread, unless its body has parallel loops, so that it is worth kernels of its
/// own, and all of its steps together have few calls.
pub(crate) fn serialize_scans(routine: &mut LoweredRoutine) {
    let may_split = regions::has_regions(&routine.body);
    for stmt in &mut routine.body {
        if !may_split || calls_of_scan(stmt).is_some_and(|calls| calls > SCAN_CALLS) {
            in_scans(stmt);
        } else {
            serialize(stmt);
        }
    }
}

/// Makes the scans in a block loops, but for those with parallel loops.
fn serialize(stmt: &mut Stmt) {
    match stmt {
        Stmt::For { kind: LoopKind::Scan, .. } if calls_of_scan(stmt).is_none() => in_scans(stmt),
        Stmt::For { kind: LoopKind::Scan, body, .. } => body.iter_mut().for_each(serialize),
        _ => {}
    }
}

fn in_scans(stmt: &mut Stmt) {
    if let Stmt::For { kind: LoopKind::Scan, .. } = stmt {
        in_sequence(std::slice::from_mut(stmt));
    }
}

/// About the number of kernel calls of all steps of a scan; `None` if each step is one call, or if the
/// statement is no scan.
fn calls_of_scan(stmt: &Stmt) -> Option<u64> {
    let Stmt::For { lo: 0, hi, kind: LoopKind::Scan, body, .. } = stmt else { return None };
    let steps = hi.constant()?.max(0).unsigned_abs();
    let inner: Vec<u64> =
        body.iter().filter_map(|stmt| calls_of_scan(stmt).or(is_parallel(stmt).then_some(1))).collect();
    // A group of other statements may stand before, between and behind.
    let each = inner.iter().fold(inner.len() as u64 + 1, |sum, calls| sum.saturating_add(*calls));
    (!inner.is_empty() && regions::has_regions(std::slice::from_ref(stmt)))
        .then(|| steps.saturating_mul(each))
}
