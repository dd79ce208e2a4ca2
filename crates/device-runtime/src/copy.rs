//! Transfers from one context to another: into the node itself, or into the merge buffer, from which a
//! routine reads the copy.
//!
//! A transfer is a task of the destination's stream. If the destination's device can access the source's
//! memory, the task copies the values or a routine reads them in place. Otherwise they are copied through the
//! host, and the caller waits until they are there.

use std::sync::Arc;

use codegen_core::Access;
use tnode::TensorNode;

use crate::{
    context::{Context, shown},
    error::RunError,
    event::Event,
    frontier::RunFlag,
    hazard::writes,
    merge::MergeBuffer,
    pool::Buffer,
    routine::{Calls, LinkedRoutine, RoutineInner},
    submit::{MemoryTask, Use, in_order, submit},
    transfer::{NO_ELEMENTS, Transfer},
};

/// Whether a transfer goes through the merge buffer of the destination's stream.
#[derive(Clone, Copy, Debug)]
pub enum MergeBufferUse<'r> {
    /// Write the node itself.
    No,
    /// Copy the source into the merge buffer, for a routine that runs later.
    Copy,
    /// Run the routine at once, with these bindings. It borrows the source itself instead of a copy
    /// (zero-copy): later writes of the source wait for it. If the source cannot be borrowed (the device
    /// cannot access it, or the routine writes it), the routine gets a copy, which
    /// [`crate::Device::copied_merges`] counts.
    StreamingFor(&'r LinkedRoutine, &'r [i64]),
}

impl Context {
    /// Schedules a copy of a node from another context, which may belong to another stream or device, to this
    /// one. With [`MergeBufferUse::StreamingFor`], the returned event is the one of the routine's run.
    ///
    /// Nothing is scheduled if both contexts have the same memory, or if one of them lacks the node. Merges
    /// are always scheduled.
    ///
    /// # Errors
    ///
    /// [`RunError::NoSource`] for a node that is in neither context, or that a merge does not find in the
    /// source; [`RunError::NotMerging`] for a routine that does not merge this node on this context's stream;
    /// [`RunError::Poisoned`] for a source without value; errors of the device.
    pub fn device_to_device(
        &self,
        node: &TensorNode,
        into_merge_buffer: MergeBufferUse<'_>,
        source: &Context,
    ) -> Result<Transfer, RunError> {
        self.alive(|| shown(node))?;
        source.alive(|| shown(node))?;
        match into_merge_buffer {
            MergeBufferUse::No => self.copy_node(node, source),
            MergeBufferUse::Copy => {
                let from = self.source(node, source)?;
                self.copy_merge(&mut *self.stream().merge_buffer()?, node, source, &from)
            }
            MergeBufferUse::StreamingFor(routine, bindings) => {
                let from = self.source(node, source)?;
                self.merge_in_place(node, source, &from, routine, bindings).map(Transfer::Scheduled)
            }
        }
    }

    /// Allocates memory for a node and schedules a copy of another context's values into it; returns a child
    /// context with the node.
    ///
    /// # Errors
    ///
    /// [`RunError::AlreadyInContext`], [`RunError::NoSource`], [`RunError::SharedAlready`] for a node that
    /// the streams of the device share anyway, and errors of the device, after which nothing stays allocated.
    pub fn init_from_device(&self, node: &TensorNode, source: &Context) -> Result<Context, RunError> {
        let from = self.source(node, source)?;
        let same_device = self.stream().device() == source.stream().device();
        if same_device && node.mode().known_shared_cross_streams() {
            let device = self.stream().device().name();
            return Err(RunError::SharedAlready { node: node.name(), device });
        }
        self.init_with(node, |buffer| self.copy_buffer(node, buffer, source, &from, false))
    }

    /// A context with the source's values of a node: this one, if it has memory for the node, or a child that
    /// allocates it.
    ///
    /// # Errors
    ///
    /// Fails like [`Context::device_to_device`] and [`Context::init_from_device`].
    pub fn copy_from(&self, node: &TensorNode, source: &Context) -> Result<Context, RunError> {
        if self.contains(node) {
            self.source(node, source)?;
            let _ = self.copy_node(node, source)?;
            return Ok(self.clone());
        }
        self.init_from_device(node, source)
    }

    /// Makes a routine whose runs schedule the transfer. If the transfer goes into the merge buffer, the
    /// routine's context remembers that the buffer will hold this node, and a link in that context fails if
    /// its code reads another node from the merge buffer.
    ///
    /// # Errors
    ///
    /// Fails like [`Context::device_to_device`], and with [`RunError::NotInContext`] for a node that is not
    /// in this context, unless it is copied into the merge buffer.
    pub fn transfer_routine(
        &self,
        node: &TensorNode,
        into_merge_buffer: bool,
        source: &Context,
    ) -> Result<LinkedRoutine, RunError> {
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
        Ok(LinkedRoutine(Arc::new(RoutineInner {
            context,
            name,
            symbols,
            inputs,
            outputs,
            reads,
            ran: RunFlag::new("copy"),
            dependencies: vec![],
            uses,
            calls,
            _temps: None,
        })))
    }

    /// The source's memory of a node.
    fn source(&self, node: &TensorNode, source: &Context) -> Result<Arc<Buffer>, RunError> {
        source.alive(|| shown(node))?;
        source.get(node).ok_or_else(|| self.no_source(node, source))
    }

    fn no_source(&self, node: &TensorNode, source: &Context) -> RunError {
        let (source_stream, stream) = (source.stream().name(), self.stream().name());
        RunError::NoSource { node: node.name(), source_stream, stream }
    }

    fn copy_node(&self, node: &TensorNode, source: &Context) -> Result<Transfer, RunError> {
        match (self.get(node), source.get(node)) {
            (None, None) => Err(self.no_source(node, source)),
            (Some(_), None) => Ok(Transfer::NothingToDo("the source has no memory for the node")),
            (None, Some(_)) => Ok(Transfer::NothingToDo("the destination has no memory for the node")),
            (Some(to), Some(from)) if Arc::ptr_eq(&to, &from) => {
                Ok(Transfer::NothingToDo("both contexts see the same memory"))
            }
            (Some(to), Some(_)) if to.bytes() == 0 => Ok(NO_ELEMENTS),
            (Some(_), Some(from)) => {
                let event = self.copy_buffer(node, &self.writable(node)?, source, &from, false)?;
                self.wrote(std::slice::from_ref(node), &event);
                Ok(Transfer::Scheduled(event))
            }
        }
    }

    /// Schedules a copy of the source into the merge buffer.
    fn copy_merge(
        &self,
        merge_buffer: &mut MergeBuffer,
        node: &TensorNode,
        source: &Context,
        from: &Arc<Buffer>,
    ) -> Result<Transfer, RunError> {
        let buffer = merge_buffer.reserve(self.stream(), from.bytes().max(1))?;
        let transfer = match from.bytes() {
            0 => NO_ELEMENTS,
            _ => Transfer::Scheduled(self.copy_buffer(node, &buffer, source, from, true)?),
        };
        merge_buffer.set_node(node);
        Ok(transfer)
    }

    /// Runs a routine that merges the source, in place if that is possible.
    fn merge_in_place(
        &self,
        node: &TensorNode,
        source: &Context,
        from: &Arc<Buffer>,
        routine: &LinkedRoutine,
        bindings: &[i64],
    ) -> Result<Event, RunError> {
        routine.check_merges(node, from.bytes(), self.stream())?;
        routine.check_bindings(bindings)?;
        let written =
            routine.uses().iter().any(|used| Arc::ptr_eq(&used.buffer, from) && writes(used.access));
        let reached = from.accessible_from(self.stream().device()).filter(|_| !written);
        if let Some(at) = reached {
            return routine.run_merging(from, &at, bindings, None);
        }
        self.stream().device().count_copied_merge();
        let mut merge_buffer = self.stream().merge_buffer()?;
        let _ = self.copy_merge(&mut merge_buffer, node, source, from)?;
        routine.run_on_merge_buffer(&merge_buffer, bindings, None)
    }

    /// Schedules a copy of a buffer's bytes to the beginning of a buffer of this context.
    fn copy_buffer(
        &self,
        node: &TensorNode,
        to: &Arc<Buffer>,
        source: &Context,
        from: &Arc<Buffer>,
        merged: bool,
    ) -> Result<Event, RunError> {
        let _span = tracing::debug_span!(
            "copy", node = %from.name(), from = %source.stream().name(), stream = %self.stream().name(),
        )
        .entered();
        let name = || format!("copying {} to {}", described(from), self.stream().name());
        // A merge buffer may be larger than the source.
        let place = to.range.first(from.bytes()).map_err(RunError::driver(name))?;
        let Some(at) = from.accessible_from(self.stream().device()) else {
            let array = Arc::new(source.read_back(node, from)?);
            let uses = [Use::new(to, Access::Write)];
            return submit(self.stream(), &uses, name, &MemoryTask::CopyIn(&place, &array));
        };
        let read = if merged { Use::merged(from) } else { Use::new(from, Access::Read) };
        let uses = in_order(vec![Use::new(to, Access::Write), read]);
        submit(self.stream(), &uses, name, &MemoryTask::Copy(&place, &at))
    }
}

/// A buffer's description in messages.
fn described(buffer: &Buffer) -> String {
    format!("node `{}` of {}", buffer.name(), buffer.device.name())
}
