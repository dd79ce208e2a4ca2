//! Decisions about loops and locals before code is written: which loops are unrolled, and where locals are
//! stored.

use std::collections::{BTreeMap, BTreeSet};

use lowered_ir::ir::{Affine, Expr, LocalId, LoopId, LoopKind, LoweredRoutine, Space, Stmt, Var, walk};

/// The approximate number of values that an unrolled loop may compute.
pub const MAX_UNROLLED_VALUES: usize = 1 << 12;
/// The most elements of a local that become separate variables.
const MAX_VARIABLES: usize = 256;

/// The storage of a local.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home {
    /// No storage: each element is the value stored last. The code runs straight from the declaration to
    /// every store.
    Values,
    /// One variable per element.
    Variables,
    /// An array of the thread.
    Array,
    /// An array that the workgroup shares.
    Shared,
}

/// The plan of a kernel.
#[derive(Debug, Default)]
pub struct Plan {
    /// Loops that are unrolled.
    pub unrolled: BTreeSet<LoopId>,
    /// The storage of each local.
    pub homes: BTreeMap<LocalId, Home>,
    /// The number of leading dimensions of a thread local that index threads.
    pub thread_dims: BTreeMap<LocalId, usize>,
}

/// Plans the body of a kernel's [grid](super::grid).
pub fn plan(routine: &LoweredRoutine, body: &[Stmt]) -> Plan {
    let mut planner = Planner {
        plan: Plan::default(),
        declared: BTreeMap::new(),
        fixed: BTreeSet::new(),
        region: 0,
        regions: 0,
    };
    planner.thread_dims(body);
    planner.block(body);
    let locals = routine.locals();
    for (local, decl) in &locals {
        let skipped = planner.plan.thread_dims.get(local).copied().unwrap_or(0).min(decl.dims.len());
        let elements: usize = decl.dims[skipped..].iter().product();
        let home = planner.plan.homes.entry(*local).or_insert(Home::Values);
        *home = match (decl.space, *home) {
            (Space::Workgroup, _) => Home::Shared,
            (Space::Thread, Home::Values) if elements <= MAX_VARIABLES => Home::Variables,
            (_, Home::Values | Home::Variables) if elements > MAX_VARIABLES => Home::Array,
            (_, home) => home,
        };
    }
    planner.plan
}

struct Planner {
    plan: Plan,
    /// The region in which each local is declared.
    declared: BTreeMap<LocalId, usize>,
    /// Variables with known values at code generation.
    fixed: BTreeSet<LoopId>,
    /// The number of the current region, which is code without branches.
    region: usize,
    regions: usize,
}

impl Planner {
    /// Counts the workgroup loops around the accesses to each thread local.
    fn thread_dims(&mut self, body: &[Stmt]) {
        let mut threads = BTreeSet::new();
        walk::stmts(body).for_each(|stmt| {
            if let Stmt::For { var, kind: LoopKind::Workgroup, .. } = stmt {
                threads.insert(Var::from(*var));
            }
        });
        let dims = &mut self.plan.thread_dims;
        let mut note = |local: LocalId, index: &[Affine]| {
            let leading = index.iter().take_while(|i| i.as_var().is_some_and(|v| threads.contains(&v)));
            let count = leading.count();
            let known = dims.entry(local).or_insert(count);
            *known = count.min(*known);
        };
        walk::stmts(body).for_each(|stmt| {
            if let Stmt::SetLocal { local, index, .. } = stmt {
                note(*local, index);
            }
        });
        walk::parts_in(body).for_each(|e| {
            if let Expr::GetLocal { local, index } = e {
                note(*local, index);
            }
        });
        let locals = declared(body, Space::Thread);
        dims.retain(|local, _| locals.contains(local));
    }

    fn block(&mut self, block: &[Stmt]) {
        block.iter().for_each(|stmt| self.stmt(stmt));
    }

    fn stmt(&mut self, stmt: &Stmt) {
        for value in stmt.values() {
            self.value(value);
        }
        match stmt {
            Stmt::Declare { local, .. } => {
                self.declared.insert(*local, self.region);
            }
            Stmt::SetLocal { local, index, .. } => {
                self.touch(*local, index);
                if self.declared.get(local) != Some(&self.region) {
                    self.raise(*local, Home::Variables);
                }
            }
            Stmt::For { var, lo, hi, kind, body } => {
                let iterations = hi.limit.saturating_sub(*lo).max(0) as usize;
                let repeats = match kind {
                    LoopKind::Unrolled | LoopKind::Vector => {
                        hi.is_constant() && self.size(body).saturating_mul(iterations) <= MAX_UNROLLED_VALUES
                    }
                    LoopKind::Serial | LoopKind::Scan | LoopKind::Parallel | LoopKind::Workgroup => false,
                };
                if repeats {
                    self.plan.unrolled.insert(*var);
                    self.fixed.insert(*var);
                    return self.block(body);
                }
                let outside = self.region;
                self.regions += 1;
                self.region = self.regions;
                self.block(body);
                self.region = outside;
            }
            Stmt::Set { .. }
            | Stmt::SetDynamic { .. }
            | Stmt::Zero { .. }
            | Stmt::Comment(_)
            | Stmt::Log { .. } => {}
        }
    }

    fn value(&mut self, value: &Expr) {
        walk::parts(value).for_each(|e| {
            if let Expr::GetLocal { local, index } = e {
                self.touch(*local, index);
            }
        });
    }

    /// A computed index makes the local an array.
    fn touch(&mut self, local: LocalId, index: &[Affine]) {
        let skipped = self.plan.thread_dims.get(&local).copied().unwrap_or(0);
        let is_known = |(var, _): &(Var, i64)| match var {
            Var::Loop(id) => self.fixed.contains(id),
            Var::Symbol(_) => false,
        };
        let known = index.iter().skip(skipped).all(|i| i.terms().iter().all(is_known));
        self.raise(local, if known { Home::Values } else { Home::Array });
    }

    fn raise(&mut self, local: LocalId, to: Home) {
        let home = self.plan.homes.entry(local).or_insert(Home::Values);
        if to == Home::Array || *home == Home::Values {
            *home = to;
        }
    }

    /// The approximate number of values that a block computes, with its loops unrolled where allowed.
    fn size(&self, body: &[Stmt]) -> usize {
        body.iter().fold(0, |sum, stmt| {
            let own = 1 + stmt.parts().count();
            let inner = match stmt {
                Stmt::For { lo, hi, kind, body, .. } => {
                    let once = self.size(body);
                    let times = match kind {
                        LoopKind::Unrolled | LoopKind::Vector => hi.limit.saturating_sub(*lo).max(0) as usize,
                        LoopKind::Serial | LoopKind::Scan | LoopKind::Parallel | LoopKind::Workgroup => 1,
                    };
                    let unrolled = once.saturating_mul(times);
                    if unrolled <= MAX_UNROLLED_VALUES { unrolled } else { once }
                }
                _ => 0,
            };
            sum.saturating_add(own).saturating_add(inner)
        })
    }
}

fn declared(body: &[Stmt], wanted: Space) -> BTreeSet<LocalId> {
    let own = |stmt: &Stmt| match stmt {
        Stmt::Declare { local, space, .. } if *space == wanted => Some(*local),
        _ => None,
    };
    walk::stmts(body).filter_map(own).collect()
}
