//! Workgroup loops: the mapping of their iterations to threads, and the barriers around them.

use codegen_core::emit::LoopIndex;
use codegen_core::ir::{LocalId, NodeRef, Stmt};
use codegen_core::threads::{self, BarrierScope};
use codegen_core::{Checked, reject};

use super::Emitter;
use crate::builder::{ClosedBlock, Ty};

impl<'k> Emitter<'k> {
    /// Emits an outermost workgroup loop and the barriers around it; `last` says that the kernel ends with
    /// it.
    pub(super) fn workgroup(&mut self, stmt: &'k Stmt, last: bool) -> Checked {
        if self.within.is_some() {
            return reject("nested workgroup loops", "one stands in a loop inside of another");
        }
        let before = self.barriers.before(stmt);
        self.barrier(before);
        self.nest(stmt)?;
        if !last {
            let after = self.barriers.after(stmt);
            self.barrier(after);
        }
        Ok(())
    }

    fn barrier(&mut self, barrier: BarrierScope) {
        if barrier.is_needed() {
            self.b.barrier(barrier.nodes, barrier.shared);
        }
    }

    fn nest(&mut self, stmt: &'k Stmt) -> Checked {
        let nest = threads::nest(stmt)?;
        let Some(thread) = self.thread else { return Ok(()) };
        let extents: Vec<u32> = nest.axes.iter().map(|&(_, extent)| extent).collect();
        let digits = self.digits(thread, &extents);
        for (&(var, extent), digit) in nest.axes.iter().zip(digits) {
            let index = match digit {
                None => LoopIndex::Known(0),
                Some(digit) => {
                    let value = self.b.bitcast(Ty::I32, digit);
                    LoopIndex::Computed(value, (0, i64::from(extent) - 1))
                }
            };
            self.enter(var, index);
        }
        self.within = Some(thread);
        let is_guarded = Some(nest.threads) != self.threads;
        if is_guarded {
            let threads = self.b.u32(nest.threads);
            let participates = self.b.binary(naga::BinaryOperator::Less, thread, threads);
            self.b.open();
            self.block(nest.body, false)?;
            let accept = self.b.close();
            self.b.if_else(participates, accept, ClosedBlock::default());
        } else {
            self.block(nest.body, false)?;
        }
        self.within = None;
        nest.axes.iter().for_each(|_| self.leave());
        Ok(())
    }

    /// Notes that all threads read a node outside of workgroup loops.
    pub(super) fn note_read(&mut self, node: NodeRef) {
        if self.threads.is_some() && self.within.is_none() {
            self.barriers.note_read(node);
        }
    }

    /// Notes that all threads read a local, which may be shared.
    pub(super) fn note_local_read(&mut self, local: LocalId) {
        if self.within.is_none() {
            self.barriers.note_local_read(local);
        }
    }

    /// Emits a barrier at the end of a loop body if the threads have read memory that the next iteration
    /// writes.
    pub(super) fn barrier_before_next_iteration(&mut self, body: &[Stmt]) {
        if self.within.is_none() {
            let barrier = self.barriers.before_repeating(body);
            self.barrier(barrier);
        }
    }
}
