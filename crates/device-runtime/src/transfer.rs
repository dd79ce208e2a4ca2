//! Transfers between host arrays and nodes.
//!
//! All of them are tasks of the context's stream, ordered like any other. A source array is owned by its
//! task, so the host may do what it likes with its own; a result is handed out when it has arrived.

use std::sync::Arc;

use codegen_core::Access;
use tnode::{HostArray, TensorNode};

use crate::{
    checked::HostReadback,
    context::{Context, shown, without_memory},
    error::Error,
    event::Event,
    hazard::Hazard,
    order::{Scope, kept},
    pool::{Buffer, Holder, adopt, allocate, lock},
    submit::{Task, Use, submit},
};

/// What became of a requested transfer.
#[derive(Clone, Debug)]
#[must_use]
pub enum Transfer {
    /// It is a task of the stream; the event is done when the values have arrived.
    Scheduled(Event),
    /// There was nothing to transfer; the text says why.
    NothingToDo(&'static str),
}

impl Transfer {
    /// Waits until the values have arrived.
    ///
    /// # Errors
    ///
    /// The first failure on the way.
    pub fn sync(&self) -> Result<(), Error> {
        match self {
            Transfer::Scheduled(event) => event.sync(),
            Transfer::NothingToDo(_) => Ok(()),
        }
    }

    /// Whether something was scheduled.
    pub fn is_scheduled(&self) -> bool {
        matches!(self, Transfer::Scheduled(_))
    }
}

/// Why there is nothing to transfer for a node of no elements.
pub(crate) const NO_ELEMENTS: Transfer = Transfer::NothingToDo("the node has no elements");

impl Context {
    /// Schedules copying a host array into a node. The array's values are taken at once.
    ///
    /// # Errors
    ///
    /// A node that is not in the context, an array of other sizes (margins included) or another element type,
    /// and the device's refusal.
    pub fn from_host(&self, node: &TensorNode, array: &HostArray) -> Result<Transfer, Error> {
        check(node, array)?;
        self.from_host_shared(node, &Arc::new(array.try_clone()?))
    }

    /// As [`Context::from_host`], without copying the array on the host.
    ///
    /// # Errors
    ///
    /// As [`Context::from_host`].
    pub fn from_host_shared(&self, node: &TensorNode, array: &Arc<HostArray>) -> Result<Transfer, Error> {
        let transfer = self.fill_from_host(node, array)?;
        if let Transfer::Scheduled(event) = &transfer {
            self.wrote(std::slice::from_ref(node), event);
        }
        Ok(transfer)
    }

    /// [`Context::from_host_shared`], of which the node's host array need not know.
    pub(crate) fn fill_from_host(
        &self,
        node: &TensorNode,
        array: &Arc<HostArray>,
    ) -> Result<Transfer, Error> {
        let buffer = self.writable(node)?;
        check(node, array)?;
        if buffer.bytes() == 0 {
            return Ok(NO_ELEMENTS);
        }
        self.copy_in(&buffer, array).map(Transfer::Scheduled)
    }

    /// Gives a node memory and schedules copying a host array into it; the child context sees the node. Where
    /// the streams of the device are known to share the node and one of them has it, that memory is written
    /// instead.
    ///
    /// # Errors
    ///
    /// A node that is in the context already or is virtual, an array of other sizes (margins included) or
    /// another element type, and the device's refusal, after which nothing stays allocated.
    pub fn init_from_host(&self, node: &TensorNode, array: &HostArray) -> Result<Context, Error> {
        check(node, array)?;
        self.init_from_host_owned(node, array.try_clone()?)
    }

    /// As [`Context::init_from_host`], but takes the array. A device whose memory is the host's makes the
    /// array's memory the node's, without a copy.
    ///
    /// # Errors
    ///
    /// As [`Context::init_from_host`].
    pub fn init_from_host_owned(&self, node: &TensorNode, array: HostArray) -> Result<Context, Error> {
        check(node, &array)?;
        let context = self.init_by(node, |found| {
            let array = match found {
                Some(_) => array,
                None => match adopt(self.stream().device(), node, Box::new(array)) {
                    Ok(buffer) => return Ok(buffer),
                    Err(array) => *array,
                },
            };
            self.filled(node, found, |buffer| self.copy_in(buffer, &Arc::new(array)))
        })?;
        context.wrote_initial(node)?;
        Ok(context)
    }

    /// The host lags behind a node that was just given values.
    fn wrote_initial(&self, node: &TensorNode) -> Result<(), Error> {
        if self.host().is_some() {
            self.wrote(std::slice::from_ref(node), &self.stream().all_work()?);
        }
        Ok(())
    }

    /// As [`Context::init_from_host`], without copying the array on the host.
    ///
    /// # Errors
    ///
    /// As [`Context::init_from_host`].
    pub fn init_from_host_shared(&self, node: &TensorNode, array: &Arc<HostArray>) -> Result<Context, Error> {
        let context = self.init_filled(node, array)?;
        context.wrote_initial(node)?;
        Ok(context)
    }

    /// [`Context::init_from_host_shared`], of which the node's host array need not know.
    pub(crate) fn init_filled(&self, node: &TensorNode, array: &Arc<HostArray>) -> Result<Context, Error> {
        check(node, array)?;
        self.init_with(node, |buffer| self.copy_in(buffer, array))
    }

    /// A child that sees the node, whose memory `fill` schedules to be filled.
    pub(crate) fn init_with(
        &self,
        node: &TensorNode,
        fill: impl FnOnce(&Arc<Buffer>) -> Result<Event, Error>,
    ) -> Result<Context, Error> {
        self.init_by(node, |found| self.filled(node, found, fill))
    }

    /// Memory of a node, `found` or allocated, that `fill` schedules to be filled.
    fn filled(
        &self,
        node: &TensorNode,
        found: Option<Arc<Buffer>>,
        fill: impl FnOnce(&Arc<Buffer>) -> Result<Event, Error>,
    ) -> Result<Arc<Buffer>, Error> {
        let buffer = match found {
            Some(buffer) => buffer,
            None => allocate(self.stream(), &[node])?.remove(0),
        };
        if buffer.bytes() > 0 {
            fill(&buffer)?;
        }
        Ok(buffer)
    }

    /// A child that sees the node in the memory that `make` gives, which is told what streams share already.
    fn init_by(
        &self,
        node: &TensorNode,
        make: impl FnOnce(Option<Arc<Buffer>>) -> Result<Arc<Buffer>, Error>,
    ) -> Result<Context, Error> {
        self.alive(|| shown(node))?;
        if self.contains(node) {
            return Err(Error::AlreadyInContext { node: node.name(), stream: self.stream().name() });
        }
        if node.mode().known_virtual() {
            return Err(without_memory(node, "initialise"));
        }
        let shared = node.mode().known_shared_cross_streams();
        let found = if shared { self.stream().device().candidates()?.find(node) } else { None };
        let buffer = make(found.filter(|buffer| buffer.range.is_writable()))?;
        self.adopt(node, &buffer)?;
        Ok(self.with([(node.clone(), buffer)]))
    }

    /// Enters a buffer that a context of this stream was given: it may be shared.
    fn adopt(&self, node: &TensorNode, buffer: &Arc<Buffer>) -> Result<(), Error> {
        let stream = self.stream().stream_id();
        let mut sharers = lock(&buffer.sharers);
        match sharers.home {
            Some(_) => sharers.find_by(stream),
            None => {
                sharers.home = Some(stream);
                drop(sharers);
                self.stream().device().candidates()?.offer(node, buffer);
            }
        }
        Ok(())
    }

    /// A node's values, once everything scheduled before has written them.
    ///
    /// # Errors
    ///
    /// A virtual node, a node that is not in the context, and [`Error::failure`] if a task behind the values
    /// failed.
    pub fn to_host(&self, node: &TensorNode) -> Result<HostArray, Error> {
        let buffer = self.buffer(node, "read")?;
        let array = self.land(node, &buffer)?;
        Ok(match node.padding() {
            Some(padding) => HostArray::from_padded(array, padding.clone())?,
            None => array,
        })
    }

    /// Schedules filling a node's memory.
    pub(crate) fn copy_in(&self, buffer: &Arc<Buffer>, array: &Arc<HostArray>) -> Result<Event, Error> {
        if let Holder::Node(node) = &buffer.holder {
            check(node, array)?;
        }
        let _span = tracing::debug_span!("copy", node = %buffer.name(), from = "host", stream = %self.stream().name())
            .entered();
        let name = || format!("copying to node `{}`", buffer.name());
        let uses = [Use::new(buffer, Access::Write)];
        submit(self.stream(), &uses, name, &Task::CopyIn(&buffer.range, array))
    }

    /// The values of a node's memory: waits for the copy, then takes what has landed.
    pub(crate) fn land(&self, node: &TensorNode, buffer: &Arc<Buffer>) -> Result<HostArray, Error> {
        let array = HostArray::zeros(node.dtype(), node.dims()?)?;
        if buffer.bytes() == 0 {
            return Ok(array);
        }
        let _span =
            tracing::debug_span!("copy", node = %buffer.name(), to = "host", stream = %self.stream().name())
                .entered();
        let name = || format!("copying from node `{}`", buffer.name());
        let landing = HostReadback::new(array);
        let uses = [Use::new(buffer, Access::Read)];
        let task = Task::CopyOut(&buffer.range, &landing);
        let event = submit(self.stream(), &uses, name, &task).map_err(|error| cause(buffer, error))?;
        if kept(Hazard::ReadAfterWrite, Scope::Host) {
            event.sync().map_err(|error| cause(buffer, error))?;
        }
        match landing.take() {
            Some(array) => Ok(array),
            None => Ok(HostArray::zeros(node.dtype(), node.dims()?)?),
        }
    }
}

/// Why a copy from a node failed: because the node has no value, or because the stream stopped for another
/// reason.
fn cause(buffer: &Buffer, error: Error) -> Error {
    match buffer.table().ok().and_then(|mut table| table.failure(&Event::poll)) {
        Some(failure) => Error::Poisoned { node: buffer.name(), failure },
        None => error,
    }
}

/// Whether an array can hold a node's values, margins included.
pub(crate) fn check(node: &TensorNode, array: &HostArray) -> Result<(), Error> {
    let (expected, found) = (node.dims()?, array.dims());
    if expected != *found {
        let without_margins = node.padding().is_some() && *found == node.dims_without_padding()?;
        let remedy =
            if without_margins { ", which lacks margins (`HostArray::with_margins_of`)," } else { "" };
        let (expected, found) = (expected.to_vec(), found.to_vec());
        return Err(Error::Shape {
            node: node.name(),
            what: format!("the host array{remedy}"),
            expected,
            found,
        });
    }
    if node.dtype() != array.dtype() {
        let (expected, found) = (node.dtype(), array.dtype());
        let what = "the host array".to_owned();
        return Err(Error::ElementType { node: node.name(), what, expected, found });
    }
    Ok(())
}
