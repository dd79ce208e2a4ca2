//! Statements and loops.

use codegen_core::emit::{LoopIndex, lacking, mixed_radix_digits};
use codegen_core::ir::{Affine, Bound, LoopId, LoopKind, Stmt};
use codegen_core::threads::{self, Grid};
use codegen_core::{Checked, reject};
use naga::BinaryOperator as Op;

use super::{Emitter, MAX_LOOP_DEPTH, MAX_SIZE};
use crate::builder::{Ty, Value};

impl<'k> Emitter<'k> {
    /// Emits the grid: computes the numbers of the workgroup and the thread, and emits the body for the
    /// iteration of each. Returns the number of workgroups.
    pub(super) fn grid(&mut self, grid: &Grid<'k>, threads: u32) -> Checked<u64> {
        let (own, counts, thread) = self.b.builtins();
        // The workgroup's number is x + X · (y + Y · z), since the number of workgroups may exceed the
        // limit of one dimension.
        let rows = self.b.binary(Op::Multiply, counts[1], own[2]);
        let rows = self.b.binary(Op::Add, own[1], rows);
        let rows = self.b.binary(Op::Multiply, counts[0], rows);
        let group = self.b.binary(Op::Add, own[0], rows);
        self.b.name(group, "group");
        let groups = match grid.threads {
            Some(_) => grid.extent.max(1),
            None => grid.extent.max(1).div_ceil(threads),
        };
        let most = self.b.u32(groups);
        let beyond = self.b.binary(Op::GreaterEqual, group, most);
        self.b.return_if(beyond);
        self.thread = Some(thread);
        if grid.extent == 0 {
            return Ok(groups.into());
        }
        match grid.threads {
            Some(_) => self.iteration(grid, group)?,
            None => {
                let size = self.b.u32(threads);
                let base = self.b.binary(Op::Multiply, group, size);
                let id = self.b.binary(Op::Add, base, thread);
                self.b.name(id, "id");
                if !grid.extent.is_multiple_of(threads) {
                    let extent = self.b.u32(grid.extent);
                    let beyond = self.b.binary(Op::GreaterEqual, id, extent);
                    self.b.return_if(beyond);
                }
                self.iteration(grid, id)?;
            }
        }
        Ok(groups.into())
    }

    /// Emits the body for iteration `number` of the grid.
    fn iteration(&mut self, grid: &Grid<'k>, number: Value) -> Checked {
        let extents: Vec<u32> = grid.axes.iter().map(|a| a.extent as u32).collect();
        let digits = self.digits(number, &extents);
        let mut within: Option<Value> = None;
        for (axis, digit) in grid.axes.iter().zip(digits) {
            let Some(digit) = digit else {
                self.enter(axis.var, LoopIndex::Known(axis.lo));
                continue;
            };
            let mut value = self.b.bitcast(Ty::I32, digit);
            if axis.lo != 0 {
                let lo = self.b.i32(axis.lo as i32);
                value = self.b.binary(Op::Add, value, lo);
            }
            self.b.name(value, &format!("i{}", axis.var.0));
            for clip in axis.hi.clips() {
                let clip = self.end(clip)?;
                let inside = self.b.binary(Op::Less, value, clip);
                within = Some(within.map_or(inside, |w| self.b.binary(Op::And, w, inside)));
            }
            self.enter(axis.var, LoopIndex::Computed(value, (axis.lo, axis.lo + axis.extent - 1)));
        }
        if let Some(within) = within {
            let beyond = self.b.unary(naga::UnaryOperator::LogicalNot, within);
            self.b.return_if(beyond);
        }
        self.block(grid.body, true)
    }

    /// See [`mixed_radix_digits`].
    pub(super) fn digits(&mut self, number: Value, extents: &[u32]) -> Vec<Option<Value>> {
        mixed_radix_digits(number, extents, |n, by, _| {
            let by = self.b.u32(by);
            let remainder = self.b.binary(Op::Modulo, n, by);
            (self.b.binary(Op::Divide, n, by), remainder)
        })
    }

    /// Emits a block; `last` says that the kernel ends with it.
    pub(super) fn block(&mut self, block: &'k [Stmt], last: bool) -> Checked {
        lacking::check_size(self.b.size(), MAX_SIZE)?;
        for (at, stmt) in block.iter().enumerate() {
            match stmt {
                Stmt::Declare { local, dims, space, .. } => {
                    let is_overwritten = threads::overwrites_first(&block[at + 1..], *local, dims, *space);
                    self.declare(*local, is_overwritten)?;
                }
                stmt => self.stmt(stmt, last && at + 1 == block.len())?,
            }
        }
        Ok(())
    }

    fn stmt(&mut self, stmt: &'k Stmt, last: bool) -> Checked {
        match stmt {
            Stmt::For { var, lo, hi, kind, body } => self.looping(stmt, *var, *lo, hi, *kind, body, last),
            Stmt::Set { node, index, value } => {
                self.check_store(stmt)?;
                let (value, _) = self.expr(value)?;
                let slab = self.slabs[self.params[node.index()].slab];
                if self.b.has_vector_elements(slab) && self.routine.node(*node).dtype.size_bytes() == 4 {
                    let value = self.value(value);
                    self.store_lane(stmt, *node, index, value);
                    return Ok(());
                }
                let element = self.element(*node, index);
                self.store(*node, element, value);
                Ok(())
            }
            Stmt::SetDynamic { op: Some(op), .. } => lacking::accumulating_scatter(op),
            Stmt::SetDynamic { node, index, axis, at, op: None, value } => {
                self.check_store(stmt)?;
                let at = self.computed_index("scatter", *node, *axis, at)?;
                let (value, _) = self.expr(value)?;
                let Some((at, inside)) = at else { return Ok(()) };
                self.b.open();
                let element = self.numbered_element(*node, index);
                let element = self.further(element, at, self.stride(*node, *axis));
                self.store(*node, element, value);
                let accept = self.b.close();
                self.b.if_else(inside, accept, crate::builder::ClosedBlock::default());
                Ok(())
            }
            Stmt::SetLocal { local, index, value } => {
                let (value, _) = self.expr(value)?;
                self.set_local(*local, index, value)
            }
            Stmt::Zero { node } => {
                self.check_store(stmt)?;
                self.zero(*node);
                Ok(())
            }
            Stmt::Declare { local, .. } => self.declare(*local, false),
            Stmt::Comment(_) => Ok(()),
            Stmt::Log { .. } => {
                reject("log", "shaders have no log; the interpreter and the native backends log")
            }
        }
    }

    /// Rejects a store outside of workgroup loops in a kernel that has them: every thread would execute it.
    fn check_store(&self, stmt: &Stmt) -> Checked {
        let by_all = self.threads.is_some() && self.within.is_none();
        if by_all { lacking::check_store_by_all_threads(stmt) } else { Ok(()) }
    }

    #[allow(clippy::too_many_arguments, reason = "a loop's fields")]
    fn looping(
        &mut self,
        stmt: &'k Stmt,
        var: LoopId,
        lo: i64,
        hi: &'k Bound,
        kind: LoopKind,
        body: &'k [Stmt],
        last: bool,
    ) -> Checked {
        if hi.limit <= lo {
            return Ok(());
        }
        lacking::check_condition(hi)?;
        if kind == LoopKind::Workgroup {
            return self.workgroup(stmt, last);
        }
        if self.plan.unrolled.contains(&var) {
            for at in lo..hi.limit {
                self.enter(var, LoopIndex::Known(at));
                self.block(body, false)?;
                self.leave();
            }
            return Ok(());
        }
        self.depth += 1;
        lacking::check_loop_depth(self.depth, MAX_LOOP_DEPTH)?;
        let before = self.barriers.pending();
        self.serial(var, lo, hi, body)?;
        if !hi.is_constant() {
            self.barriers.keep(&before);
        }
        self.depth -= 1;
        Ok(())
    }

    fn serial(&mut self, var: LoopId, lo: i64, hi: &Bound, body: &'k [Stmt]) -> Checked {
        let (Ok(first), Ok(limit)) = (i32::try_from(lo), i32::try_from(hi.limit)) else {
            return reject("a loop", "its bounds exceed 32 bits, as which indices are computed");
        };
        let mut end = self.b.i32(limit);
        for clip in hi.clips() {
            let clip = self.end(clip)?;
            end = self.b.math(naga::MathFunction::Min, end, Some(clip), None);
        }
        let first = self.b.i32(first);
        let mut result = Ok(());
        self.counted(&format!("i{}", var.0), first, end, |e, value| {
            e.enter(var, LoopIndex::Computed(value, (lo, hi.limit - 1)));
            result = e.block(body, false).map(|()| e.barrier_before_next_iteration(body));
            e.leave();
        });
        result
    }

    /// The value of an index at which a loop ends.
    fn end(&mut self, clip: &Affine) -> Checked<Value> {
        if !self.scope.fits(clip) {
            return reject("a loop", "its bounds exceed 32 bits, as which indices are computed");
        }
        Ok(self.index(clip))
    }

    /// A loop over the constant range `lo..hi`, whose body `f` emits.
    pub(super) fn looped(&mut self, name: &str, lo: i64, hi: i64, f: impl FnOnce(&mut Self, Value)) {
        let [lo, hi] = [lo, hi].map(|k| self.b.i32(k as i32));
        self.counted(name, lo, hi, f);
    }

    fn counted(&mut self, name: &str, lo: Value, hi: Value, f: impl FnOnce(&mut Self, Value)) {
        let variable = self.b.local(&format!("{name}_next"), Ty::I32, None);
        let pointer = self.b.pointer_to(variable);
        self.b.store(pointer, lo);
        self.b.open();
        let value = self.b.load(pointer);
        self.b.name(value, name);
        let continues = self.b.binary(Op::Less, value, hi);
        self.b.break_unless(continues);
        f(self, value);
        let body = self.b.close();
        self.b.open();
        let (value, one) = (self.b.load(pointer), self.b.i32(1));
        let next = self.b.binary(Op::Add, value, one);
        self.b.store(pointer, next);
        let continuing = self.b.close();
        self.b.loop_(body, continuing);
    }
}
