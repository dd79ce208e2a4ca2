//! Statements and loops.

use codegen_core::threads;
use lowered_ir::ir::{Bound, LoopId, LoopKind, Stmt};
use ptx_asm::{CmpOp, GuardPredicate, Inst, PtxBinaryOp, PtxOperand, Reg, Ty};
use tnode::DType;

use super::index::{LoopIndex, flat, is_short};
use super::memory::MemoryObject;
use super::{Emitter, MAX_LOOP_DEPTH, MAX_STMTS, UnrolledLoop};
use crate::unsupported::{Checked, reject};

impl<'k> Emitter<'k> {
    pub(super) fn enter(&mut self, var: LoopId, index: LoopIndex) {
        self.vars.insert(var, index);
        self.order.push(var);
    }

    pub(super) fn leave(&mut self) {
        if let Some(var) = self.order.pop() {
            self.vars.remove(&var);
        }
    }

    /// Emits the statements of a block.
    pub(super) fn block(&mut self, block: &'k [Stmt]) -> Checked {
        if self.b.size() > MAX_STMTS {
            return reject("a kernel of this size", "less unrolling makes it smaller");
        }
        let mut at = 0;
        while let Some(stmt) = block.get(at) {
            at += 1;
            if let Stmt::Declare { local, dims, .. } = stmt {
                if !self.warp_reductions.fused.hidden.contains(local) {
                    self.declare(*local, threads::overwrites_first(&block[at..], *local, dims))?;
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
            Stmt::For { var, lo, hi, kind, body } => self.looping(stmt, *var, (*lo, *hi), *kind, body),
            Stmt::Set { node, index, value } => {
                self.check_store(stmt)?;
                let (value, dtype) = self.expr(value)?;
                let flat = flat(index, &self.routine.node(*node).dims);
                self.store(MemoryObject::Node(*node), dtype, &flat, value);
                Ok(())
            }
            Stmt::SetDynamic { op: Some(op), .. } => reject(
                format!("scatter {op}"),
                "legalisation expands accumulating stores at computed indices",
            ),
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
        let (Stmt::Set { node, .. } | Stmt::SetDynamic { node, .. } | Stmt::Zero { node }) = stmt else {
            return Ok(());
        };
        match self.is_cooperative && !self.within {
            false => Ok(()),
            true => reject(
                format!("a store to node {node}"),
                "it stands outside of workgroup loops, where every thread of the workgroup would do it",
            ),
        }
    }

    fn looping(
        &mut self,
        stmt: &'k Stmt,
        var: LoopId,
        (lo, hi): (i64, Bound),
        kind: LoopKind,
        body: &'k [Stmt],
    ) -> Checked {
        if hi.limit <= lo {
            return Ok(());
        }
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
        if self.depth > MAX_LOOP_DEPTH {
            return reject("a nest of loops", format!("it is deeper than {MAX_LOOP_DEPTH}"));
        }
        // The loop is emitted as a whole, so unrolled loops around it do not matter inside.
        let unrolled = std::mem::take(&mut self.unrolled);
        self.serial(var, lo, hi, body)?;
        self.unrolled = unrolled;
        self.depth -= 1;
        Ok(())
    }

    fn serial(&mut self, var: LoopId, lo: i64, hi: Bound, body: &'k [Stmt]) -> Checked {
        if !is_short(lo) || !is_short(hi.limit) {
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
        match hi.symbol {
            None => run(self, limit.into()),
            Some(symbol) => {
                let value = self.symbols[symbol.index()];
                let end = self.b.index(PtxBinaryOp::Min, Ty::S32, value, limit);
                let runs = self.b.index_compare(CmpOp::Gt, Ty::S32, end, first);
                self.open();
                run(self, end.into());
                let then = self.close();
                self.b.stmt(ptx_asm::PtxStmt::If {
                    guard: GuardPredicate::on(runs),
                    then,
                    otherwise: Vec::new(),
                });
            }
        }
        result
    }

    /// Emits a counted loop from a value below the end up to the end. The body is emitted once.
    pub(super) fn counted(
        &mut self,
        counter: Reg,
        step: PtxOperand,
        end: PtxOperand,
        body: impl FnOnce(&mut Self, Reg),
    ) {
        self.open();
        self.forget_written();
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
        let body = self.close();
        self.b.stmt(ptx_asm::PtxStmt::Loop { body, repeat_while: GuardPredicate::on(again) });
    }

    /// Like [`Emitter::counted`], with a counter that `body` may change.
    pub(super) fn repeated_while(&mut self, body: impl FnOnce(&mut Self) -> Reg) {
        self.open();
        self.forget_written();
        let again = body(self);
        let body = self.close();
        self.b.stmt(ptx_asm::PtxStmt::Loop { body, repeat_while: GuardPredicate::on(again) });
    }

    /// Rejects operations on types that legalisation should have replaced.
    pub(super) fn check_arithmetic(&self, op: &dyn std::fmt::Display, dtype: DType) -> Checked {
        if self.setting.caps.arithmetic.contains(dtype) && dtype != DType::U32x4 {
            return Ok(());
        }
        reject(format!("`{op}` on {dtype}"), "legalisation replaces it")
    }
}
