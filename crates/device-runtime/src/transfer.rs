//! Transfers between host arrays and nodes.
//!
//! All transfers are tasks of the context's stream, ordered like any other. A task owns its source array, so
//! the host may change its own array; a result is returned after it has arrived, or as a [`PendingArray`].

use std::sync::Arc;

use codegen_core::Access;
use tnode::{HostArray, TensorNode};

use crate::{
    checked::HostReadback,
    context::{Context, shown, without_memory},
    error::RunError,
    event::Event,
    hazard::Hazard,
    order::{Scope, wait_enabled},
    pool::{Buffer, Holder, adopt, allocate, lock, wrap},
    submit::{MemoryTask, Use, submit},
};

/// The outcome of a requested transfer.
#[derive(Clone, Debug)]
#[must_use]
pub enum Transfer {
    /// The transfer is a task of the stream; the event is done when the values have arrived.
    Scheduled(Event),
    /// There was nothing to transfer; the text says why.
    NothingToDo(&'static str),
}

impl Transfer {
    /// Waits until the values have arrived.
    ///
    /// # Errors
    ///
    /// The failure of the transfer or of a task before it.
    pub fn sync(&self) -> Result<(), RunError> {
        match self {
            Transfer::Scheduled(event) => event.sync(),
            Transfer::NothingToDo(_) => Ok(()),
        }
    }

    /// Whether a task was scheduled.
    pub fn is_scheduled(&self) -> bool {
        matches!(self, Transfer::Scheduled(_))
    }
}

/// Values that are being copied to the host: those that the node has at the copy's place in the order of its
/// stream. Later writes of the node wait for the copy and do not change them.
#[derive(Debug)]
pub struct PendingArray {
    node: TensorNode,
    buffer: Arc<Buffer>,
    readback: HostReadback,
    /// None for a node without elements.
    event: Option<Event>,
}

impl PendingArray {
    /// Waits until the values have arrived.
    ///
    /// # Errors
    ///
    /// An error with [`RunError::failure`] if a task before the copy failed.
    pub fn sync(&self) -> Result<(), RunError> {
        match &self.event {
            Some(event) if wait_enabled(Hazard::ReadAfterWrite, Scope::Host) => {
                event.sync().map_err(|error| cause(&self.buffer, error))
            }
            _ => Ok(()),
        }
    }

    /// Waits for the values and returns them.
    ///
    /// # Errors
    ///
    /// Fails like [`PendingArray::sync`].
    pub fn into_array(self) -> Result<HostArray, RunError> {
        let array = self.unpadded()?;
        Ok(match self.node.padding() {
            Some(padding) => HostArray::from_padded(array, padding.clone())?,
            None => array,
        })
    }

    /// The values with the margins as elements.
    fn unpadded(&self) -> Result<HostArray, RunError> {
        self.sync()?;
        match self.readback.take() {
            Some(array) => Ok(array),
            None => Ok(HostArray::zeros(self.node.dtype(), self.node.dims()?)?),
        }
    }
}

/// The outcome for a node without elements.
pub(crate) const NO_ELEMENTS: Transfer = Transfer::NothingToDo("the node has no elements");

impl Context {
    /// Schedules a copy of a host array into a node. An array that is passed by reference is copied on the
    /// host first; one that is passed by value or shared is not.
    ///
    /// # Errors
    ///
    /// [`RunError::NotInContext`], [`RunError::Shape`] (margins included), [`RunError::ElementType`], and
    /// errors of the device.
    pub fn from_host(
        &self,
        node: &TensorNode,
        array: impl TryInto<Arc<HostArray>, Error: Into<tnode::TensorNodeError>>,
    ) -> Result<Transfer, RunError> {
        let transfer = self.fill_from_host(node, &array.try_into().map_err(Into::into)?)?;
        if let Transfer::Scheduled(event) = &transfer {
            self.wrote(std::slice::from_ref(node), event);
        }
        Ok(transfer)
    }

    /// [`from_host`](Context::from_host) of the first elements of a node in row-major order, which are those of
    /// the array; the others keep their values.
    ///
    /// # Errors
    ///
    /// [`RunError::NotInContext`], [`RunError::Shape`] if the node has fewer elements,
    /// [`RunError::ElementType`], and errors of the device.
    pub fn from_host_first(&self, node: &TensorNode, array: &Arc<HostArray>) -> Result<Transfer, RunError> {
        let buffer = self.writable(node)?;
        if array.size_bytes() > buffer.bytes() || node.dtype() != array.dtype() {
            check(node, array)?;
        }
        if array.size_bytes() == 0 {
            return Ok(NO_ELEMENTS);
        }
        let name = || format!("copying to node `{}`", buffer.name());
        let place = buffer.range.first(array.size_bytes()).map_err(RunError::driver(name))?;
        let uses = [Use::new(&buffer, Access::Write)];
        let event = submit(self.stream(), &uses, name, &MemoryTask::CopyIn(&place, array))?;
        self.wrote(std::slice::from_ref(node), &event);
        Ok(Transfer::Scheduled(event))
    }

    /// Like [`Context::from_host`], but does not notify the node's host array.
    pub(crate) fn fill_from_host(
        &self,
        node: &TensorNode,
        array: &Arc<HostArray>,
    ) -> Result<Transfer, RunError> {
        let buffer = self.writable(node)?;
        check(node, array)?;
        if buffer.bytes() == 0 {
            return Ok(NO_ELEMENTS);
        }
        self.copy_in(&buffer, array).map(Transfer::Scheduled)
    }

    /// Allocates memory for a node and schedules a copy of a host array into it; returns a child context with
    /// the node. An array that is passed by reference is copied on the host first. If the array is passed by
    /// value, or nobody else shares it, a device that uses host memory makes the array's memory the node's,
    /// without a copy. If the streams of the device are known to share the node and one of them has it, that
    /// memory is written instead.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use device_runtime::{Context, Device, NullDevice};
    /// # use tnode::{HostArray, TensorNode};
    /// # let context = Context::new(&Device::new(Arc::new(NullDevice::new()), 0).new_stream()?);
    /// let node = |name| TensorNode::builder(name).dims([2]).build();
    /// let values = HostArray::from_slice(&[1f32, 2.], [2])?;
    /// let context = context.init_from_host(&node("x")?, &values)?;
    /// let shared = Arc::new(values);
    /// let context = context.init_from_host(&node("y")?, Arc::clone(&shared))?;
    /// let context = context.init_from_host(&node("z")?, shared)?;
    /// assert_eq!(context.nodes().len(), 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`RunError::AlreadyInContext`], [`RunError::Virtual`], [`RunError::Shape`] (margins included),
    /// [`RunError::ElementType`], and errors of the device, after which nothing stays allocated.
    pub fn init_from_host(
        &self,
        node: &TensorNode,
        array: impl TryInto<Arc<HostArray>, Error: Into<tnode::TensorNodeError>>,
    ) -> Result<Context, RunError> {
        let array = array.try_into().map_err(Into::into)?;
        check(node, &array)?;
        let context = self.init_by(node, |found| {
            let array = match found {
                Some(_) => array,
                None => match adopt(self.stream().device(), node, array) {
                    Ok(buffer) => return Ok(buffer),
                    Err(array) => array,
                },
            };
            self.filled(node, found, |buffer| self.copy_in(buffer, &array))
        })?;
        context.wrote_initial(node)?;
        Ok(context)
    }

    /// Gives a node the values of a host array that nothing changes; returns a child context with the node. A
    /// device that reads host memory reads the array in place, so that all contexts share one copy of large
    /// weights; other devices copy it. To write the node later may fail with [`RunError::ReadOnly`].
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use device_runtime::{Context, Device, NullDevice};
    /// # use tnode::{HostArray, TensorNode};
    /// # let context = Context::new(&Device::new(Arc::new(NullDevice::new()), 0).new_stream()?);
    /// let weights = Arc::new(HostArray::from_slice(&[1f32, 2.], [2])?);
    /// let node = TensorNode::builder("w").dims([2]).build()?;
    /// let context = context.init_shared(&node, Arc::clone(&weights))?;
    /// assert_eq!(context.nodes().len(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Fails like [`Context::init_from_host`].
    pub fn init_shared(&self, node: &TensorNode, array: Arc<HostArray>) -> Result<Context, RunError> {
        check(node, &array)?;
        let context = self.init_by(node, |found| {
            let in_place = found.is_none() && array.size_bytes() > 0;
            match in_place.then(|| wrap(self.stream().device(), node, &array)).flatten() {
                Some(buffer) => Ok(buffer),
                None => self.filled(node, found, |buffer| self.copy_in(buffer, &array)),
            }
        })?;
        context.wrote_initial(node)?;
        Ok(context)
    }

    /// Notes that the host lags behind a node that was just given values.
    fn wrote_initial(&self, node: &TensorNode) -> Result<(), RunError> {
        if self.host().is_some() {
            self.wrote(std::slice::from_ref(node), &self.stream().all_work()?);
        }
        Ok(())
    }

    /// Like [`Context::init_from_host`], but does not notify the node's host array.
    pub(crate) fn init_filled(&self, node: &TensorNode, array: &Arc<HostArray>) -> Result<Context, RunError> {
        check(node, array)?;
        self.init_with(node, |buffer| self.copy_in(buffer, array))
    }

    /// A child context with memory for the node. `fill` schedules a task that fills the memory.
    pub(crate) fn init_with(
        &self,
        node: &TensorNode,
        fill: impl FnOnce(&Arc<Buffer>) -> Result<Event, RunError>,
    ) -> Result<Context, RunError> {
        self.init_by(node, |found| self.filled(node, found, fill))
    }

    /// Returns memory for a node: `found`, or newly allocated memory. `fill` schedules a task that fills it.
    fn filled(
        &self,
        node: &TensorNode,
        found: Option<Arc<Buffer>>,
        fill: impl FnOnce(&Arc<Buffer>) -> Result<Event, RunError>,
    ) -> Result<Arc<Buffer>, RunError> {
        let buffer = match found {
            Some(buffer) => buffer,
            None => allocate(self.stream(), &[node])?.remove(0),
        };
        if buffer.bytes() > 0 {
            fill(&buffer)?;
        }
        Ok(buffer)
    }

    /// A child context in which the node has the memory that `make` returns. `make` gets the node's memory
    /// that the device's streams share, if there is any.
    fn init_by(
        &self,
        node: &TensorNode,
        make: impl FnOnce(Option<Arc<Buffer>>) -> Result<Arc<Buffer>, RunError>,
    ) -> Result<Context, RunError> {
        self.alive(|| shown(node))?;
        if self.contains(node) {
            return Err(RunError::AlreadyInContext { node: node.name(), stream: self.stream().name() });
        }
        if node.mode().known_virtual() {
            return Err(without_memory(node, "initialize"));
        }
        let shared = node.mode().known_shared_cross_streams();
        let found = if shared { self.stream().device().candidates()?.find(node) } else { None };
        let buffer = make(found.filter(|buffer| buffer.range.is_writable()))?;
        self.adopt(node, &buffer)?;
        Ok(self.with([(node.clone(), buffer)]))
    }

    /// Records a buffer that a context of this stream was given: other streams may share it.
    fn adopt(&self, node: &TensorNode, buffer: &Arc<Buffer>) -> Result<(), RunError> {
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

    /// Returns a node's values, after everything scheduled before has written them.
    ///
    /// # Errors
    ///
    /// [`RunError::Virtual`], [`RunError::NotInContext`], and an error with [`RunError::failure`] if a task
    /// before the copy failed.
    pub fn to_host(&self, node: &TensorNode) -> Result<HostArray, RunError> {
        self.start_to_host(node)?.into_array()
    }

    /// Schedules a copy of a node's values to the host and returns without waiting for it. Tasks that are
    /// scheduled later do not change the values.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use device_runtime::{Context, Device, NullDevice};
    /// # use tnode::{HostArray, TensorNode};
    /// # let device = Device::new(Arc::new(NullDevice::new()), 0);
    /// let x = TensorNode::builder("x").dims([2]).build()?;
    /// let values = HostArray::from_slice(&[1f32, 2.], [2])?;
    /// let context = Context::new(&device.new_stream()?).init_from_host(&x, &values)?;
    /// let pending = context.start_to_host(&x)?;
    /// let _ = context.from_host(&x, &HostArray::from_slice(&[3f32, 4.], [2])?)?;
    /// assert_eq!(pending.into_array()?.num_values(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Fails like [`Context::to_host`], but for failures that are found while waiting.
    pub fn start_to_host(&self, node: &TensorNode) -> Result<PendingArray, RunError> {
        self.start_read_back(node, &self.buffer(node, "read")?)
    }

    /// [`start_to_host`](Context::start_to_host) of the first elements of a node in row-major order, as an
    /// array of these dimensions. The node has no margins.
    ///
    /// # Errors
    ///
    /// Fails like [`start_to_host`](Context::start_to_host), or if the node has fewer elements.
    pub fn start_first_to_host(
        &self,
        node: &TensorNode,
        dims: impl IntoIterator<Item = usize>,
    ) -> Result<PendingArray, RunError> {
        let array = HostArray::zeros(node.dtype(), dims)?;
        self.start_read_into(node, &self.buffer(node, "read")?, array)
    }

    /// Schedules a copy of a host array into a node's memory.
    pub(crate) fn copy_in(&self, buffer: &Arc<Buffer>, array: &Arc<HostArray>) -> Result<Event, RunError> {
        if let Holder::Node(node) = &buffer.holder {
            check(node, array)?;
        }
        let _span = tracing::debug_span!("copy", node = %buffer.name(), from = "host", stream = %self.stream().name())
            .entered();
        let name = || format!("copying to node `{}`", buffer.name());
        let uses = [Use::new(buffer, Access::Write)];
        submit(self.stream(), &uses, name, &MemoryTask::CopyIn(&buffer.range, array))
    }

    /// Returns the values of a node's memory: schedules a copy to the host and waits for it.
    pub(crate) fn read_back(&self, node: &TensorNode, buffer: &Arc<Buffer>) -> Result<HostArray, RunError> {
        self.start_read_back(node, buffer)?.unpadded()
    }

    fn start_read_back(&self, node: &TensorNode, buffer: &Arc<Buffer>) -> Result<PendingArray, RunError> {
        self.start_read_into(node, buffer, HostArray::zeros(node.dtype(), node.dims()?)?)
    }

    fn start_read_into(
        &self,
        node: &TensorNode,
        buffer: &Arc<Buffer>,
        array: HostArray,
    ) -> Result<PendingArray, RunError> {
        let readback = HostReadback::new(array);
        let pending = |readback, event| {
            let (node, buffer) = (node.clone(), Arc::clone(buffer));
            PendingArray { node, buffer, readback, event }
        };
        if readback.bytes() == 0 {
            return Ok(pending(readback, None));
        }
        let _span =
            tracing::debug_span!("copy", node = %buffer.name(), to = "host", stream = %self.stream().name())
                .entered();
        let name = || format!("copying from node `{}`", buffer.name());
        let uses = [Use::new(buffer, Access::Read)];
        // A merge buffer may be larger than the node whose values it holds.
        let place = buffer.range.first(readback.bytes()).map_err(RunError::driver(name))?;
        let task = MemoryTask::CopyOut(&place, &readback);
        let event = submit(self.stream(), &uses, name, &task).map_err(|error| cause(buffer, error))?;
        Ok(pending(readback, Some(event)))
    }
}

/// The error of a copy from a node: [`RunError::Poisoned`] if the node has no value, else the stream's error.
fn cause(buffer: &Buffer, error: RunError) -> RunError {
    match buffer.table().ok().and_then(|mut table| table.failure(&Event::poll)) {
        Some(failure) => RunError::Poisoned { node: buffer.name(), failure },
        None => error,
    }
}

/// Checks that an array has a node's shape, margins included, and element type.
pub(crate) fn check(node: &TensorNode, array: &HostArray) -> Result<(), RunError> {
    let (expected, found) = (node.dims()?, array.dims());
    if expected != *found {
        let without_margins = node.padding().is_some() && *found == node.dims_without_padding()?;
        let remedy =
            if without_margins { ", which lacks margins (`HostArray::with_margins_of`)," } else { "" };
        let (expected, found) = (expected.to_vec(), found.to_vec());
        return Err(RunError::Shape {
            node: node.name(),
            what: format!("the host array{remedy}"),
            expected,
            found,
        });
    }
    if node.dtype() != array.dtype() {
        let (expected, found) = (node.dtype(), array.dtype());
        let what = "the host array".to_owned();
        return Err(RunError::ElementType { node: node.name(), what, expected, found });
    }
    Ok(())
}
