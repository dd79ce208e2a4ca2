//! Statements and loops.

use std::ops::Range;

use codegen_core::{emit::LinearValue, kernel};
use cranelift_codegen::ir::{Opcode, Value, types};
use lowered_ir::ir::{Affine, Bound, Expr, LocalId, LoopId, LoopKind, Stmt, walk};
use tnode::DType;

use super::Emitter;
use super::dynamic::ComputedElement;
use super::memory::Array;
use super::repr::LANES;
use super::scan;

/// The most iterations of a loop that is replicated although it need not be.
const MAX_REPLICAS: i64 = 64;

/// The most instructions, by estimate, of a loop that is replicated although it need not be.
const MAX_REPLICATED_SIZE: usize = 1 << 13;

/// Lanes per iteration of a long vector loop in the code.
const LANES_PER_ROUND: i64 = 8 * LANES as i64;

impl Emitter<'_> {
    /// Emits the whole kernel. If its body is one parallel loop that calls can divide, they run the
    /// iterations `begin..end`.
    pub(super) fn kernel(&mut self, begin: Value, end: Value) {
        match self.routine.body.as_slice() {
            [Stmt::For { var, lo, hi, kind: LoopKind::Parallel, body }] if kernel::is_divisible(*lo, hi) => {
                let (lo, limit) = (self.ssa.int(types::I64, *lo), self.ssa.int(types::I64, hi.limit));
                let [start, end] = [begin, end].map(|at| self.ssa.binary(Opcode::Iadd, lo, at));
                let end = self.ssa.binary(Opcode::Smin, end, limit);
                self.looped(*var, start..end, body);
            }
            body => self.block(body),
        }
    }

    fn block(&mut self, body: &[Stmt]) {
        let scratch_top = self.scratch_top;
        for stmt in body {
            match stmt {
                Stmt::Declare { local, dtype, dims, space } => self.declare(*local, *dtype, dims, *space),
                stmt => self.stmt(stmt),
            }
        }
        self.scratch_top = scratch_top;
        for stmt in body {
            if let Stmt::Declare { local, .. } = stmt {
                self.declared.remove(local);
            }
        }
    }

    fn stmt(&mut self, stmt: &Stmt) {
        match stmt {
            Stmt::For { var, lo, hi, kind, body } => self.repeat(*var, *lo, hi, *kind, body),
            Stmt::Set { node, index, value } => {
                let (dtype, value) = self.expr(value);
                let element = self.node_element(*node, index);
                let value = if self.lane.is_some() { self.widened(dtype, &value) } else { value };
                self.store(&element, &value);
            }
            Stmt::Zero { node } => {
                let decl = self.routine.node(*node);
                let bytes = decl.dims.iter().product::<usize>() * decl.dtype.size_bytes();
                let base = self.base(*node);
                self.clear(Array::Node(*node), base, bytes);
            }
            Stmt::SetLocal { local, index, value } => {
                let (_, value) = self.expr(value);
                self.set_local(*local, index, &value);
            }
            Stmt::SetDynamic { node, index, axis, at, value, .. } => {
                let element = ComputedElement { node: *node, index, axis: *axis };
                self.scatter(&element, at, value);
            }
            // `block` handles declarations, because it sees the statements after them.
            Stmt::Declare { .. } | Stmt::Comment(_) => {}
            Stmt::Log { parts } => self.log(stmt, parts),
        }
    }

    fn repeat(&mut self, var: LoopId, lo: i64, hi: &Bound, kind: LoopKind, body: &[Stmt]) {
        if hi.limit <= lo {
            return;
        }
        match kind {
            LoopKind::Vector if self.vectors && scan::has_lanes(var, body, |e| self.has_u32x4(e)) => {
                self.vector(var, hi.limit, body);
            }
            LoopKind::Unrolled | LoopKind::Vector
                if hi.is_constant() && replicates(var, hi.limit - lo, body) =>
            {
                for at in lo..hi.limit {
                    self.once(var, at, body);
                }
            }
            _ if hi.is_constant() && hi.limit - lo == 1 => self.once(var, lo, body),
            _ if hi.is_constant() => self.counted(var, lo..hi.limit, body),
            _ => {
                let (start, end) = (self.ssa.int(types::I64, lo), self.bound(hi));
                let range = start..self.end_now(start..end, hi);
                self.rounds(range, 1, false, body, |s, value| {
                    s.bind(var, LinearValue::computed(value));
                    s.block(body);
                    hi.condition().map(|_| s.end_now(start..end, hi))
                });
            }
        }
    }

    /// Emits an iteration with a constant index.
    fn once(&mut self, var: LoopId, at: i64, body: &[Stmt]) {
        self.bind(var, LinearValue::known(at));
        self.block(body);
    }

    /// Emits a loop with bounds that are known at run time.
    fn looped(&mut self, var: LoopId, range: Range<Value>, body: &[Stmt]) {
        self.rounds(range, 1, false, body, |s, value| {
            s.bind(var, LinearValue::computed(value));
            s.block(body);
            None
        });
    }

    /// Emits a loop with constant bounds: an unrolled loop, then the remaining iterations.
    fn counted(&mut self, var: LoopId, range: Range<i64>, body: &[Stmt]) {
        let Range { start: lo, end: hi } = range;
        let per_round = self.iterations_per_round(body);
        let end = lo + (hi - lo) / per_round * per_round;
        if end > lo {
            let range = self.ssa.int(types::I64, lo)..self.ssa.int(types::I64, end);
            self.rounds(range, per_round, true, body, |s, value| {
                for offset in 0..per_round {
                    s.bind(var, LinearValue { term: Some((value, 1)), offset });
                    s.block(body);
                }
                None
            });
        }
        for at in end..hi {
            self.once(var, at, body);
        }
    }

    /// The unroll factor of a loop. The smaller the body, the larger the relative cost of the branch and of
    /// the moves of loop-carried registers.
    fn iterations_per_round(&self, body: &[Stmt]) -> i64 {
        let carries = scan::assigned(body).iter().any(|local| self.declared.contains_key(local));
        match scan::size(body) {
            _ if scan::has_loops(body) => 1,
            0..=16 => 4,
            17..=64 if carries => 4,
            65..=128 if carries => 2,
            _ => 1,
        }
    }

    /// Where a loop ends if its condition does not change: at its start if the condition is 0.
    fn end_now(&mut self, range: Range<Value>, hi: &Bound) -> Value {
        let Some(node) = hi.condition() else { return range.end };
        let index = self.routine.node(node).dims.iter().map(|_| Affine::constant(0)).collect();
        self.loads.forget();
        let (_, goes_on) =
            self.expr(&Expr::Convert { to: DType::Bool, arg: Box::new(Expr::Get { node, index }) });
        self.ssa.ternary(Opcode::Select, goes_on.first(), range.end, range.start)
    }

    /// Emits a loop around the code that `round` emits, which assigns no other locals than `body` does. It
    /// may return another end of the loop.
    fn rounds(
        &mut self,
        range: Range<Value>,
        step: i64,
        runs: bool,
        body: &[Stmt],
        round: impl FnOnce(&mut Self, Value) -> Option<Value>,
    ) {
        let carried: Vec<LocalId> =
            scan::assigned(body).into_iter().filter(|local| self.declared.contains_key(local)).collect();
        self.loads.forget();
        let before = self.registers(&carried);
        let (open, value, inside) = self.ssa.enter_loop(range, step, runs, &before);
        self.set_registers(&carried, &inside);
        let open = match round(self, value) {
            Some(end) => open.ending_at(end),
            None => open,
        };
        let next = self.registers(&carried);
        let after = self.ssa.leave_loop(open, &next);
        self.set_registers(&carried, &after);
        self.loads.forget();
    }

    /// Emits a vector loop: groups of lanes, then the remaining iterations one by one.
    fn vector(&mut self, var: LoopId, count: i64, body: &[Stmt]) {
        let mut done = 0;
        if count > MAX_REPLICAS * LANES as i64 && !scan::picks_locals(var, body) {
            done = count / LANES_PER_ROUND * LANES_PER_ROUND;
            let range = self.ssa.int(types::I64, 0)..self.ssa.int(types::I64, done);
            self.rounds(range, LANES_PER_ROUND, true, body, |s, value| {
                for offset in (0..LANES_PER_ROUND).step_by(LANES) {
                    s.group(var, LinearValue { term: Some((value, 1)), offset }, body);
                }
                None
            });
        }
        while count - done >= LANES as i64 {
            self.group(var, LinearValue::known(done), body);
            done += LANES as i64;
        }
        for at in done..count {
            self.once(var, at, body);
        }
    }

    /// Emits [`LANES`] iterations of a vector loop together, starting with `at`.
    fn group(&mut self, var: LoopId, at: LinearValue<Value>, body: &[Stmt]) {
        self.bind(var, at);
        self.lane = Some(var);
        self.block(body);
        self.lane = None;
    }

    fn bound(&mut self, bound: &Bound) -> Value {
        let limit = self.ssa.int(types::I64, bound.limit);
        bound.clips().iter().fold(limit, |least, clip| {
            let clip = self.index(clip);
            self.ssa.binary(Opcode::Smin, clip, least)
        })
    }

    /// Whether an expression has a part of type `u32x4`, which has no lanes.
    fn has_u32x4(&self, value: &Expr) -> bool {
        let mut found = false;
        walk::parts(value).for_each(|e| {
            let dtype = match e {
                Expr::Const(scalar) => scalar.dtype(),
                Expr::Get { node, .. }
                | Expr::GetGuarded { node, .. }
                | Expr::GetDynamic { node, .. }
                | Expr::GetMerge { node, .. } => self.routine.node(*node).dtype,
                Expr::GetLocal { local, .. } => self.locals[local].dtype,
                // Both operations are on `u32x4`.
                Expr::Lane { .. } | Expr::Lanes(_) => DType::U32x4,
                Expr::Convert { .. }
                | Expr::Bitcast { .. }
                | Expr::Index { .. }
                | Expr::Unary { .. }
                | Expr::Binary { .. }
                | Expr::Ternary { .. } => {
                    return;
                }
            };
            found |= dtype == DType::U32x4;
        });
        found
    }
}

/// Whether an unrolled loop is replicated. It must be if it selects registers by its variable.
fn replicates(var: LoopId, count: i64, body: &[Stmt]) -> bool {
    let fits =
        count <= MAX_REPLICAS && scan::size(body).saturating_mul(count as usize) <= MAX_REPLICATED_SIZE;
    fits || scan::picks_locals(var, body)
}
