//! Workgroup loops: which threads run them, and barriers where these meet.

use codegen_core::threads::{self, BarrierScope};
use lowered_ir::ir::{LocalId, NodeRef, Stmt};

use super::Emitter;
use super::index::Index;
use crate::builder::{Closed, Ty};
use crate::refusal::{Checked, refuse};

impl<'k> Emitter<'k> {
    /// An outermost workgroup loop, and the barriers around it; `last` says that the kernel ends with it.
    pub(super) fn workgroup(&mut self, stmt: &'k Stmt, last: bool) -> Checked {
        if self.within.is_some() {
            return refuse("nested workgroup loops", "one stands in a loop inside of another");
        }
        let before = self.meetings.before(stmt);
        self.meet(before);
        self.nest(stmt)?;
        if !last {
            let after = self.meetings.after(stmt);
            self.meet(after);
        }
        Ok(())
    }

    fn meet(&mut self, meet: BarrierScope) {
        if meet.is_needed() {
            self.b.barrier(meet.nodes, meet.shared);
        }
    }

    fn nest(&mut self, stmt: &'k Stmt) -> Checked {
        let nest = threads::nest(stmt)?;
        let Some(thread) = self.thread else { return Ok(()) };
        let extents: Vec<u32> = nest.axes.iter().map(|&(_, extent)| extent).collect();
        let digits = self.digits(thread, &extents);
        for (&(var, extent), digit) in nest.axes.iter().zip(digits) {
            let index = match digit {
                None => Index::Known(0),
                Some(digit) => {
                    let value = self.b.bitcast(Ty::I32, digit);
                    Index::Computed(value, (0, i64::from(extent) - 1))
                }
            };
            self.enter(var, index);
        }
        self.within = Some(thread);
        let is_guarded = Some(nest.threads) != self.threads;
        if is_guarded {
            let threads = self.b.u32(nest.threads);
            let takes_part = self.b.binary(naga::BinaryOperator::Less, thread, threads);
            self.b.open();
            self.block(nest.body, false)?;
            let accept = self.b.close();
            self.b.if_else(takes_part, accept, Closed::default());
        } else {
            self.block(nest.body, false)?;
        }
        self.within = None;
        nest.axes.iter().for_each(|_| self.leave());
        Ok(())
    }

    /// A node is read by every thread alike.
    pub(super) fn note_read(&mut self, node: NodeRef) {
        if self.threads.is_some() && self.within.is_none() {
            self.meetings.note_read(node);
        }
    }

    /// As [`Emitter::note_read`], of a local that may be shared.
    pub(super) fn note_local_read(&mut self, local: LocalId) {
        if self.within.is_none() {
            self.meetings.note_local_read(local);
        }
    }

    /// At the end of a loop's body: threads meet if they have read what the next iteration writes.
    pub(super) fn meet_before_repeating(&mut self, body: &[Stmt]) {
        if self.within.is_none() {
            let meet = self.meetings.before_repeating(body);
            self.meet(meet);
        }
    }
}
