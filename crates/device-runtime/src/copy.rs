//! Transfers from one context to another: into the node itself, or into the merge buffer for a routine that
//! merges it.
//!
//! A transfer is a task of the destination's stream. Where the destination's device reaches the source's
//! memory, it copies, or reads in place; elsewhere the values go through the host, and the caller waits for
//! them to arrive there.

use std::sync::Arc;

use codegen_core::Access;
use tnode::TensorNode;

use crate::{
    context::{Context, shown},
    error::Error,
    event::Event,
    frontier::Ran,
    hazard::writes,
    merge::Landing,
    pool::Buffer,
    routine::{Calls, Routine, RoutineInner},
    submit::{Task, Use, in_order, submit},
    transfer::{NO_ELEMENTS, Transfer},
};

/// Whether a transfer goes through the merge buffer of the destination's stream.
#[derive(Clone, Copy, Debug)]
pub enum MergeBufferUse<'r> {
    /// The node itself is written.
    No,
    /// A copy is put into the merge buffer, for a routine that runs later.
    Copy,
    /// The routine runs at once, with these bindings, and is lent the source itself instead of a copy: later
    /// writes of the source wait for it. Where the source cannot be lent (the device does not reach it, or
    /// the routine writes it) the routine gets a copy, which [`crate::Device::copied_merges`] counts.
    StreamingFor(&'r Routine, &'r [i64]),
}

impl Context {
    /// Schedules copying a node from another context, which may be of another stream or device, to this one.
    /// The event of a [`MergeBufferUse::StreamingFor`] is that of its routine's run.
    ///
    /// There is nothing to do where both contexts see the same memory, or where one of them lacks the node;
    /// but merges always deliver.
    ///
    /// # Errors
    ///
    /// A node that is in neither context, or that a merge does not find in the source; a routine that does
    /// not merge this node on this context's stream; [`Error::Poisoned`] for a source without value; the
    /// device's refusal.
    pub fn device_to_device(
        &self,
        node: &TensorNode,
        into_merge_buffer: MergeBufferUse<'_>,
        source: &Context,
    ) -> Result<Transfer, Error> {
        self.alive(|| shown(node))?;
        source.alive(|| shown(node))?;
        match into_merge_buffer {
            MergeBufferUse::No => self.copy_node(node, source),
            MergeBufferUse::Copy => {
                let from = self.source(node, source)?;
                self.copy_merge(&mut *self.stream().landing()?, node, source, &from)
            }
            MergeBufferUse::StreamingFor(routine, bindings) => {
                let from = self.source(node, source)?;
                self.lend(node, source, &from, routine, bindings).map(Transfer::Scheduled)
            }
        }
    }

    /// Gives a node memory and schedules copying another context's values into it; the child context sees the
    /// node.
    ///
    /// # Errors
    ///
    /// A node that is in this context already or not in the other, or that the streams of the device share
    /// anyway, and the device's refusal, after which nothing stays allocated.
    pub fn init_from_device(&self, node: &TensorNode, source: &Context) -> Result<Context, Error> {
        let from = self.source(node, source)?;
        let same_device = self.stream().device() == source.stream().device();
        if same_device && node.mode().known_shared_cross_streams() {
            let device = self.stream().device().name();
            return Err(Error::SharedAlready { node: node.name(), device });
        }
        self.init_with(node, |buffer| self.deliver(node, buffer, source, &from, false))
    }

    /// A context that has the source's values of a node: this one, if the node has memory here, or a child
    /// that gives it some.
    ///
    /// # Errors
    ///
    /// As [`Context::device_to_device`] and [`Context::init_from_device`].
    pub fn copy_from(&self, node: &TensorNode, source: &Context) -> Result<Context, Error> {
        if self.contains(node) {
            self.source(node, source)?;
            let _ = self.copy_node(node, source)?;
            return Ok(self.clone());
        }
        self.init_from_device(node, source)
    }

    /// A transfer that is scheduled whenever the routine runs. Routines linked in its context are checked
    /// against what the merge buffer will hold then.
    ///
    /// # Errors
    ///
    /// As [`Context::device_to_device`]; a node that is not in this context, unless it goes into the merge
    /// buffer.
    pub fn transfer_routine(
        &self,
        node: &TensorNode,
        into_merge_buffer: bool,
        source: &Context,
    ) -> Result<Routine, Error> {
        self.source(node, source)?;
        let (context, outputs) = match into_merge_buffer {
            true => (self.merging(node), vec![]),
            false => {
                self.writable(node)?;
                (self.clone(), vec![node.clone()])
            }
        };
        let calls = Calls::Transfer { node: node.clone(), source: source.clone(), into_merge_buffer };
        let (name, inputs) = (format!("copy of {}", node.name()), vec![node.clone()]);
        let (symbols, reads, uses) = (vec![], vec![], vec![]);
        Ok(Routine(Arc::new(RoutineInner {
            context,
            name,
            symbols,
            inputs,
            outputs,
            reads,
            ran: Ran::new("copy"),
            dependencies: vec![],
            uses,
            calls,
            _temps: None,
        })))
    }

    /// The source's memory of a node.
    fn source(&self, node: &TensorNode, source: &Context) -> Result<Arc<Buffer>, Error> {
        source.alive(|| shown(node))?;
        source.get(node).ok_or_else(|| self.no_source(node, source))
    }

    fn no_source(&self, node: &TensorNode, source: &Context) -> Error {
        let (source_stream, stream) = (source.stream().name(), self.stream().name());
        Error::NoSource { node: node.name(), source_stream, stream }
    }

    fn copy_node(&self, node: &TensorNode, source: &Context) -> Result<Transfer, Error> {
        match (self.get(node), source.get(node)) {
            (None, None) => Err(self.no_source(node, source)),
            (Some(_), None) => Ok(Transfer::NothingToDo("the source has no memory for the node")),
            (None, Some(_)) => Ok(Transfer::NothingToDo("the destination has no memory for the node")),
            (Some(to), Some(from)) if Arc::ptr_eq(&to, &from) => {
                Ok(Transfer::NothingToDo("both contexts see the same memory"))
            }
            (Some(to), Some(_)) if to.bytes() == 0 => Ok(NO_ELEMENTS),
            (Some(_), Some(from)) => {
                let event = self.deliver(node, &self.writable(node)?, source, &from, false)?;
                self.wrote(std::slice::from_ref(node), &event);
                Ok(Transfer::Scheduled(event))
            }
        }
    }

    /// Schedules a copy of the source into the merge buffer.
    fn copy_merge(
        &self,
        landing: &mut Landing,
        node: &TensorNode,
        source: &Context,
        from: &Arc<Buffer>,
    ) -> Result<Transfer, Error> {
        let buffer = landing.room(self.stream(), from.bytes().max(1))?;
        let transfer = match from.bytes() {
            0 => NO_ELEMENTS,
            _ => Transfer::Scheduled(self.deliver(node, &buffer, source, from, true)?),
        };
        landing.hold(node);
        Ok(transfer)
    }

    /// Runs a routine that merges the source, in place if that is possible.
    fn lend(
        &self,
        node: &TensorNode,
        source: &Context,
        from: &Arc<Buffer>,
        routine: &Routine,
        bindings: &[i64],
    ) -> Result<Event, Error> {
        routine.check_merges(node, self.stream())?;
        routine.check_bindings(bindings)?;
        let written =
            routine.uses().iter().any(|used| Arc::ptr_eq(&used.buffer, from) && writes(used.access));
        let reached = from.seen_by(self.stream().device()).filter(|_| !written);
        if let Some(at) = reached {
            return routine.run_merging(from, &at, bindings);
        }
        self.stream().device().count_copied_merge();
        let mut landing = self.stream().landing()?;
        let _ = self.copy_merge(&mut landing, node, source, from)?;
        routine.run_landed(&landing, bindings)
    }

    /// Schedules copying a buffer's bytes to the beginning of one of this context's.
    fn deliver(
        &self,
        node: &TensorNode,
        to: &Arc<Buffer>,
        source: &Context,
        from: &Arc<Buffer>,
        merged: bool,
    ) -> Result<Event, Error> {
        let _span = tracing::debug_span!(
            "copy", node = %from.name(), from = %source.stream().name(), stream = %self.stream().name(),
        )
        .entered();
        let name = || format!("copying {} to {}", held(from), self.stream().name());
        // A merge buffer may be larger.
        let place = to.range.first(from.bytes()).map_err(Error::driver(name))?;
        let Some(at) = from.seen_by(self.stream().device()) else {
            let array = Arc::new(source.land(node, from)?);
            let uses = [Use::new(to, Access::Write)];
            return submit(self.stream(), &uses, name, &Task::CopyIn(&place, &array));
        };
        let read = if merged { Use::merged(from) } else { Use::new(from, Access::Read) };
        let uses = in_order(vec![Use::new(to, Access::Write), read]);
        submit(self.stream(), &uses, name, &Task::Copy(&place, &at))
    }
}

/// A buffer in messages.
fn held(buffer: &Buffer) -> String {
    format!("node `{}` of {}", buffer.name(), buffer.device.name())
}
