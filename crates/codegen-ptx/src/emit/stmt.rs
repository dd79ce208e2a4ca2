//! Statements and loops.

use codegen_core::emit::{LoopIndex, fits_i32, lacking};
use codegen_core::ir::{Affine, Bound, LoopId, LoopKind, Stmt};
use codegen_core::{Checked, reject, threads};
use ptx_asm::{CmpOp, GuardPredicate, Inst, PtxBinaryOp, PtxOperand, Reg, Ty};

use super::memory::MemoryObject;
use super::{Emitter, MAX_LOOP_DEPTH, MAX_STMTS, UnrolledLoop};

impl<'k> Emitter<'k> {
    /// Emits the statements of a block.
    pub(super) fn block(&mut self, block: &'k [Stmt]) -> Checked {
        lacking::check_size(self.b.size(), MAX_STMTS)?;
        let mut at = 0;
        while let Some(stmt) = block.get(at) {
            at += 1;
            if let Stmt::Declare { local, dims, space, .. } = stmt {
                if !self.warp_reductions.fused.hidden.contains(local) {
                    self.declare(*local, threads::overwrites_first(&block[at..], *local, dims, *space))?;
                }
                continue;
            }
            self.barrier_before(stmt);
            match self.warp_reduction_at(stmt) {
                Some(warp_reduction) => {
                    self.warp_reduction(&warp_reduction)?;
                    at += warp_reduction.steps.len();
                }
                None => self.stmt(stmt)?,
            }
        }
        Ok(())
    }

    fn stmt(&mut self, stmt: &'k Stmt) -> Checked {
        match stmt {
            Stmt::For { var, lo, hi, kind, body } => self.looping(stmt, *var, *lo, hi, *kind, body),
            Stmt::Set { node, index, value } => {
                self.check_store(stmt)?;
                let (value, dtype) = self.expr(value)?;
                let flat = Affine::row_major(index, &self.routine.node(*node).dims);
                self.store(MemoryObject::Node(*node), dtype, &flat, value);
                Ok(())
            }
            Stmt::SetDynamic { op: Some(op), .. } => lacking::accumulating_scatter(op),
            Stmt::SetDynamic { node, index, axis, at, op: None, value } => {
                self.check_store(stmt)?;
                let at = self.computed_index("scatter", *node, index, *axis, at)?;
                let (value, dtype) = self.expr(value)?;
                if let Some((element, inside)) = at {
                    self.store_when(inside, element, dtype, value);
                }
                Ok(())
            }
            Stmt::SetLocal { local, index, value } => {
                let mark = self.b.mark();
                let (value, _) = self.expr(value)?;
                self.set_local(*local, index, value, Some(&mark))
            }
            Stmt::Zero { node } => {
                self.check_store(stmt)?;
                let decl = self.routine.node(*node);
                let bytes = decl.dims.iter().product::<usize>() * decl.dtype.size_bytes();
                self.zero(MemoryObject::Node(*node), bytes as u64);
                Ok(())
            }
            Stmt::Declare { local, .. } => self.declare(*local, false),
            Stmt::Comment(_) => Ok(()),
            Stmt::Log { parts } => self.log(stmt, parts),
        }
    }

    /// In a kernel with workgroup loops, every thread would perform a store outside of them.
    fn check_store(&self, stmt: &Stmt) -> Checked {
        let by_all = self.is_cooperative && !self.within;
        if by_all { lacking::check_store_by_all_threads(stmt) } else { Ok(()) }
    }

    fn looping(
        &mut self,
        stmt: &'k Stmt,
        var: LoopId,
        lo: i64,
        hi: &Bound,
        kind: LoopKind,
        body: &'k [Stmt],
    ) -> Checked {
        if hi.limit <= lo {
            return Ok(());
        }
        lacking::check_condition(hi)?;
        if kind == LoopKind::Workgroup {
            return self.workgroup(stmt);
        }
        if self.plan.unrolled.contains(&var) {
            self.unrolled.push(UnrolledLoop { var, lo, extent: hi.limit - lo });
            for at in lo..hi.limit {
                self.enter(var, LoopIndex::Known(at));
                self.block(body)?;
                self.leave();
            }
            self.unrolled.pop();
            return Ok(());
        }
        self.depth += 1;
        lacking::check_loop_depth(self.depth, MAX_LOOP_DEPTH)?;
        // The loop is emitted as a whole, so unrolled loops around it do not matter inside.
        let unrolled = std::mem::take(&mut self.unrolled);
        self.serial(var, lo, hi, body)?;
        self.unrolled = unrolled;
        self.depth -= 1;
        Ok(())
    }

    fn serial(&mut self, var: LoopId, lo: i64, hi: &Bound, body: &'k [Stmt]) -> Checked {
        if !fits_i32(lo) || !fits_i32(hi.limit) || !hi.clips().iter().all(|clip| self.scope.fits(clip)) {
            return reject("a loop", "its bounds exceed 32 bits, as which indices are computed");
        }
        let (first, limit) = (lo as i32, hi.limit as i32);
        let mut result = Ok(());
        let mut run = |e: &mut Self, end: PtxOperand| {
            let counter = e.b.mov(Ty::S32.class(), first);
            e.counted(counter, 1i32.into(), end, |e, value| {
                e.enter(var, LoopIndex::Computed(value, (lo, hi.limit - 1)));
                result = e.block(body);
                e.leave();
            });
        };
        match self.least(hi.clips()) {
            None => run(self, limit.into()),
            Some(clip) => {
                let end = self.b.index(PtxBinaryOp::Min, Ty::S32, clip, limit);
                let runs = self.b.index_compare(CmpOp::Gt, Ty::S32, end, first);
                self.open();
                run(self, end.into());
                let then = self.close();
                self.b.push_stmt(ptx_asm::PtxStmt::If {
                    guard: GuardPredicate::on(runs),
                    then,
                    otherwise: Vec::new(),
                });
            }
        }
        result
    }

    /// The least of several indices; `None` without indices.
    fn least(&mut self, indices: &[Affine]) -> Option<PtxOperand> {
        indices.iter().fold(None, |least, index| {
            let index = self.index(index);
            Some(match least {
                None => index,
                Some(least) => self.b.index(PtxBinaryOp::Min, Ty::S32, least, index).into(),
            })
        })
    }

    /// Emits a counted loop from a value below the end up to the end. The body is emitted once.
    pub(super) fn counted(
        &mut self,
        counter: Reg,
        step: PtxOperand,
        end: PtxOperand,
        body: impl FnOnce(&mut Self, Reg),
    ) {
        self.open_loop();
        body(self, counter);
        self.flush();
        self.b.push(Inst::Binary {
            op: PtxBinaryOp::Add,
            ty: Ty::S32,
            dst: counter,
            a: counter.into(),
            b: step,
        });
        let again = self.b.compare(CmpOp::Lt, Ty::S32, counter, end);
        self.close_loop(again);
    }

    /// Opens the body of a loop that runs at least once.
    pub(super) fn open_loop(&mut self) {
        self.open();
        self.forget_written();
    }

    /// Closes the body, which is repeated while the predicate is true.
    pub(super) fn close_loop(&mut self, again: Reg) {
        let body = self.close();
        self.b.push_stmt(ptx_asm::PtxStmt::Loop { body, repeat_while: GuardPredicate::on(again) });
    }
}
