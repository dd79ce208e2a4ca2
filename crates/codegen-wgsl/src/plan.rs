//! What is decided about loops and locals before code is written: which loops are repeated in the code, and where locals live.

use std::collections::{BTreeMap, BTreeSet};

use lowered_ir::ir::{Affine, Expr, LocalId, LoopId, LoopKind, Routine, Space, Stmt, Var, walk};

use crate::refusal::{Checked, refuse};

/// The most values, roughly, that repeating a loop in the code may compute.
const MAX_REPEATED: usize = 1 << 12;

/// The most elements of a local that are variables of their own.
const MAX_SPLIT: usize = 256;

/// Where a local lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Home {
    /// Nowhere: each element is the value stored last, since code runs straight from the declaration to every store.
    Values,
    /// A variable per element.
    Variables,
    /// An array of the thread.
    Array,
    /// An array that the workgroup shares.
    Shared,
}

/// The plan of a kernel.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// Loops whose bodies are repeated in the code.
    pub(crate) repeated: BTreeSet<LoopId>,
    pub(crate) homes: BTreeMap<LocalId, Home>,
    /// How many first dimensions of a thread local are the threads.
    pub(crate) thread_dims: BTreeMap<LocalId, usize>,
}

/// Plans a kernel's body.
pub(crate) fn plan(routine: &Routine, body: &[Stmt]) -> Checked<Plan> {
    let mut planner = Planner {
        plan: Plan::default(),
        declared: BTreeMap::new(),
        fixed: BTreeSet::new(),
        region: 0,
        regions: 0,
    };
    planner.thread_dims(body);
    planner.block(body)?;
    let locals = routine.locals();
    for (local, decl) in &locals {
        let skipped = planner.plan.thread_dims.get(local).copied().unwrap_or(0).min(decl.dims.len());
        let elements: usize = decl.dims[skipped..].iter().product();
        let home = planner.plan.homes.entry(*local).or_insert(Home::Values);
        *home = match (decl.space, *home) {
            (Space::Workgroup, _) => Home::Shared,
            (Space::Thread, Home::Values) if elements <= MAX_SPLIT => Home::Variables,
            (_, Home::Values | Home::Variables) if elements > MAX_SPLIT => Home::Array,
            (_, home) => home,
        };
    }
    Ok(planner.plan)
}

struct Planner {
    plan: Plan,
    /// The region that each local was declared in.
    declared: BTreeMap<LocalId, usize>,
    /// Variables whose value is known where the code is written.
    fixed: BTreeSet<LoopId>,
    /// A piece of code that runs straight through.
    region: usize,
    regions: usize,
}

impl Planner {
    /// Counts the workgroup loops around the mentions of each thread local.
    fn thread_dims(&mut self, body: &[Stmt]) {
        let mut threads = BTreeSet::new();
        walk::each_stmt(body, &mut |stmt| {
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
        walk::each_stmt(body, &mut |stmt| {
            if let Stmt::SetLocal { local, index, .. } = stmt {
                note(*local, index);
            }
        });
        walk::each_value(body, &mut |value| {
            walk::each_expr(value, &mut |e| {
                if let Expr::GetLocal { local, index } = e {
                    note(*local, index);
                }
            });
        });
        let locals = declared(body, Space::Thread);
        dims.retain(|local, _| locals.contains(local));
    }

    fn block(&mut self, block: &[Stmt]) -> Checked {
        for stmt in block {
            self.stmt(stmt)?;
        }
        Ok(())
    }

    fn stmt(&mut self, stmt: &Stmt) -> Checked {
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
                        hi.symbol.is_none() && size(body).saturating_mul(iterations) <= MAX_REPEATED
                    }
                    LoopKind::Serial | LoopKind::Parallel | LoopKind::Workgroup => false,
                };
                if repeats {
                    self.plan.repeated.insert(*var);
                    self.fixed.insert(*var);
                    return self.block(body);
                }
                let outside = self.region;
                self.regions += 1;
                self.region = self.regions;
                self.block(body)?;
                self.region = outside;
            }
            Stmt::Log { .. } => {
                return refuse("log", "shaders have no log; the interpreter and the native backends log");
            }
            Stmt::Set { .. } | Stmt::SetDynamic { .. } | Stmt::Zero { .. } | Stmt::Comment(_) => {}
        }
        Ok(())
    }

    fn value(&mut self, value: &Expr) {
        walk::each_expr(value, &mut |e| {
            if let Expr::GetLocal { local, index } = e {
                self.touch(*local, index);
            }
        });
    }

    /// An element picked where the code runs makes the local an array.
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
}

/// The locals declared in a space.
fn declared(body: &[Stmt], wanted: Space) -> BTreeSet<LocalId> {
    let mut found = BTreeSet::new();
    walk::each_stmt(body, &mut |stmt| {
        if let Stmt::Declare { local, space, .. } = stmt
            && *space == wanted
        {
            found.insert(*local);
        }
    });
    found
}

/// About how many values a block computes, with its loops repeated where they may be.
fn size(body: &[Stmt]) -> usize {
    body.iter().fold(0, |sum, stmt| {
        let mut own = 1usize;
        for value in stmt.values() {
            walk::each_expr(value, &mut |_| own += 1);
        }
        let inner = match stmt {
            Stmt::For { lo, hi, kind, body, .. } => {
                let once = size(body);
                let times = match kind {
                    LoopKind::Unrolled | LoopKind::Vector => hi.limit.saturating_sub(*lo).max(0) as usize,
                    LoopKind::Serial | LoopKind::Parallel | LoopKind::Workgroup => 1,
                };
                let repeated = once.saturating_mul(times);
                if repeated <= MAX_REPEATED { repeated } else { once }
            }
            _ => 0,
        };
        sum.saturating_add(own).saturating_add(inner)
    })
}
