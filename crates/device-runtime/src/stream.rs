//! Streams: in-order queues on a device, each with its merge buffer.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard},
};

use tnode::TensorNode;

use crate::{
    device::Device,
    driver::{HostTask, StreamHandle, WaitKind},
    error::{DriverError, Result, RunError},
    event::Event,
    inside::lock_unless_inside,
    merge::MergeBuffer,
    stream_registry::StreamRegistry,
};

/// A stream's number within its device; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u32);

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stream {}", self.0)
    }
}

/// A process-wide key of a stream: the number of its device, and its number on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StreamKey {
    pub(crate) device: u64,
    pub(crate) stream: StreamId,
}

/// An in-order queue on a device. Cheap to clone; equality is identity. Contexts and routines also hold
/// handles; dropping the last handle ends the stream after its pending tasks.
#[derive(Clone)]
pub struct Stream(Arc<StreamInner>);

pub(crate) struct StreamInner {
    device: Device,
    id: StreamId,
    handle: StreamHandle,
    merge_buffer: Mutex<MergeBuffer>,
}

impl Drop for StreamInner {
    fn drop(&mut self) {
        self.device.driver().drop_stream(self.handle.clone());
    }
}

impl Stream {
    /// Makes a stream and adds it to a registry.
    pub(crate) fn new(
        device: Device,
        id: StreamId,
        handle: StreamHandle,
        registry: &StreamRegistry<StreamInner>,
    ) -> Stream {
        let inner = Arc::new(StreamInner { device, id, handle, merge_buffer: Mutex::default() });
        registry.insert(&inner);
        Stream(inner)
    }

    pub(crate) fn from_inner(inner: Arc<StreamInner>) -> Stream {
        Stream(inner)
    }

    pub(crate) fn handle(&self) -> &StreamHandle {
        &self.0.handle
    }

    pub(crate) fn key(&self) -> StreamKey {
        StreamKey { device: self.0.device.device_id(), stream: self.0.id }
    }

    /// Locks the merge buffer. This lock must be taken before the lock of any hazard table.
    pub(crate) fn merge_buffer(&self) -> Result<MutexGuard<'_, MergeBuffer>, RunError> {
        lock_unless_inside(&self.0.merge_buffer, || self.name())
            .map_err(RunError::driver(|| format!("using the merge buffer of {}", self.name())))
    }

    /// The device on which the stream runs.
    pub fn device(&self) -> &Device {
        &self.0.device
    }

    /// The stream's number, which the device never reuses.
    pub fn stream_id(&self) -> StreamId {
        self.0.id
    }

    /// `driver:ordinal:stream`.
    pub fn name(&self) -> String {
        format!("{}:{}", self.0.device.name(), self.0.id.0)
    }

    /// The node whose copy was last scheduled into the stream's merge buffer. `None` also inside a task,
    /// while a merge is being submitted.
    pub fn merge_buffer_node(&self) -> Option<TensorNode> {
        self.merge_buffer().ok()?.node().cloned()
    }

    /// Size of the stream's merge buffer in bytes: the first transfer makes it, larger ones enlarge it, and
    /// others reuse it. 0 also inside a task, while a merge is being submitted.
    pub fn merge_buffer_bytes(&self) -> usize {
        self.merge_buffer().map_or(0, |merge_buffer| merge_buffer.capacity())
    }

    /// An event that is done when everything scheduled on the stream so far is done.
    ///
    /// # Errors
    ///
    /// Errors of the driver, such as a lost device.
    pub fn all_work(&self) -> Result<Event, RunError> {
        let driver = self.0.device.driver();
        let handle = driver
            .record(&self.0.handle)
            .map_err(RunError::driver(|| format!("recording on {}", self.name())))?;
        Ok(self.event(handle))
    }

    pub(crate) fn event(&self, handle: crate::driver::EventHandle) -> Event {
        Event::new(self.0.device.clone(), self.0.id, handle)
    }

    /// Waits until everything scheduled on the stream so far is done.
    ///
    /// # Errors
    ///
    /// The first failure of a task of the stream.
    pub fn sync(&self) -> Result<(), RunError> {
        self.all_work()?.sync()
    }

    /// Whether everything scheduled on the stream is done.
    pub fn is_idle(&self) -> bool {
        self.0.device.driver().is_idle(&self.0.handle)
    }

    /// Schedules a function among the stream's tasks; `name` is for messages. It runs on the stream's worker,
    /// or on a thread that waits for the stream, so it must not wait for anything itself. An error or a panic
    /// fails the stream.
    ///
    /// # Errors
    ///
    /// [`DriverError::NoHostTasks`] if streams of the device run no such functions, and other errors of the
    /// driver.
    pub fn schedule_task(
        &self,
        name: &str,
        run: impl FnOnce() -> Result<(), String> + Send + 'static,
    ) -> Result<Event, RunError> {
        let driver = self.0.device.driver();
        let task = HostTask { name: name.to_owned(), run: Box::new(run) };
        driver
            .host_task(&self.0.handle, task)
            .map_err(RunError::driver(|| format!("scheduling `{name}` on {}", self.name())))?;
        self.all_work()
    }

    /// Makes later tasks of the stream start after the event, and fail if it fails. Rarely needed, since
    /// contexts order all accesses to nodes. If the stream's driver cannot wait for an event of another
    /// device, the caller waits.
    ///
    /// # Errors
    ///
    /// Errors of the driver; the event's failure if the caller waited.
    pub fn will_wait_for(&self, event: &Event) -> Result<(), RunError> {
        match self.wait(event, WaitKind::Data) {
            Err(DriverError::ForeignHandle { .. }) => event.sync(),
            other => other.map_err(RunError::driver(|| format!("making {} wait", self.name()))),
        }
    }

    pub(crate) fn wait(&self, event: &Event, after: WaitKind) -> Result<()> {
        self.0.device.driver().wait(&self.0.handle, event.handle(), after)
    }

    /// Waits until the stream is idle and clears its failure, so that it accepts tasks again. Nodes whose
    /// writers failed have no value until they are written again.
    ///
    /// # Errors
    ///
    /// [`DriverError::Lost`], and other errors of the driver.
    pub fn reset(&self) -> Result<(), RunError> {
        let driver = self.0.device.driver();
        driver.reset_stream(&self.0.handle).map_err(RunError::driver(|| format!("resetting {}", self.name())))
    }

    /// A description of the stream's state, for people; the format is not stable.
    pub fn debug_info(&self) -> String {
        self.0.device.driver().debug_info(&self.0.handle)
    }
}

impl PartialEq for Stream {
    fn eq(&self, other: &Stream) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Stream {}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stream({})", self.name())
    }
}
