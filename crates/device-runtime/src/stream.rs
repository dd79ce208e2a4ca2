//! Streams: in-order queues on a device, each with its merge buffer.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, Weak},
};

use tnode::TensorNode;

use crate::{
    device::Device,
    driver::{HostTask, StreamHandle, WaitKind},
    error::{DriverError, Error},
    event::Event,
    inside::lock_unless_inside,
    merge::Landing,
};

/// A stream's number within its device; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u32);

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stream {}", self.0)
    }
}

/// A stream among those of all devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StreamKey {
    pub(crate) device: u64,
    pub(crate) stream: StreamId,
}

/// An in-order queue on a device. Cheap to clone; equality is identity. Dropping the last handle, which
/// contexts and routines hold too, ends the stream after its pending tasks.
#[derive(Clone)]
pub struct Stream(Arc<StreamInner>);

pub(crate) struct StreamInner {
    device: Device,
    id: StreamId,
    handle: StreamHandle,
    landing: Mutex<Landing>,
}

impl Drop for StreamInner {
    fn drop(&mut self) {
        self.device.driver().drop_stream(self.handle.clone());
    }
}

impl Stream {
    pub(crate) fn new(device: Device, id: StreamId, handle: StreamHandle) -> (Stream, Weak<StreamInner>) {
        let inner = Arc::new(StreamInner { device, id, handle, landing: Mutex::default() });
        let weak = Arc::downgrade(&inner);
        (Stream(inner), weak)
    }

    pub(crate) fn upgrade(weak: &Weak<StreamInner>) -> Option<Stream> {
        weak.upgrade().map(Stream)
    }

    pub(crate) fn handle(&self) -> &StreamHandle {
        &self.0.handle
    }

    pub(crate) fn key(&self) -> StreamKey {
        StreamKey { device: self.0.device.device_id(), stream: self.0.id }
    }

    /// What is known of the merge buffer; locked before any hazards.
    pub(crate) fn landing(&self) -> Result<MutexGuard<'_, Landing>, Error> {
        lock_unless_inside(&self.0.landing, || self.name())
            .map_err(Error::driver(|| format!("using the merge buffer of {}", self.name())))
    }

    /// The device it runs on.
    pub fn device(&self) -> &Device {
        &self.0.device
    }

    /// Its number, unique on its device for all time.
    pub fn stream_id(&self) -> StreamId {
        self.0.id
    }

    /// `driver:ordinal:stream`.
    pub fn name(&self) -> String {
        format!("{}:{}", self.0.device.name(), self.0.id.0)
    }

    /// The node whose copy was last scheduled into the stream's merge buffer. `None` also inside a task,
    /// while a merge is being handed over.
    pub fn merge_buffer_node(&self) -> Option<TensorNode> {
        self.landing().ok()?.holds().cloned()
    }

    /// Bytes of the stream's merge buffer: it is made by the first transfer, grows with the largest and is
    /// reused by the others. 0 also inside a task, while a merge is being handed over.
    pub fn merge_buffer_bytes(&self) -> usize {
        self.landing().map_or(0, |landing| landing.capacity())
    }

    /// An event that is done when everything scheduled on the stream so far is done.
    ///
    /// # Errors
    ///
    /// Where the device takes no more tasks.
    pub fn all_work(&self) -> Result<Event, Error> {
        let driver = self.0.device.driver();
        let handle = driver
            .record(&self.0.handle)
            .map_err(Error::driver(|| format!("recording on {}", self.name())))?;
        Ok(self.event(handle))
    }

    pub(crate) fn event(&self, handle: crate::driver::EventHandle) -> Event {
        Event::new(self.0.device.clone(), self.0.id, handle)
    }

    /// Waits until everything scheduled on the stream so far is done.
    ///
    /// # Errors
    ///
    /// The stream's first failure.
    pub fn sync(&self) -> Result<(), Error> {
        self.all_work()?.sync()
    }

    /// Whether everything scheduled on the stream is done.
    pub fn is_idle(&self) -> bool {
        self.0.device.driver().is_idle(&self.0.handle)
    }

    /// Schedules a function of the host's among the stream's tasks; `name` is for messages. It runs on the
    /// stream's worker, or on the thread that waits for the stream, so it must not wait for anything itself.
    /// An error, or a panic, fails the stream.
    ///
    /// # Errors
    ///
    /// Where streams of the device run no such tasks, and where the device takes no more tasks.
    pub fn schedule_task(
        &self,
        name: &str,
        run: impl FnOnce() -> Result<(), String> + Send + 'static,
    ) -> Result<Event, Error> {
        let driver = self.0.device.driver();
        let task = HostTask { name: name.to_owned(), run: Box::new(run) };
        driver
            .host_task(&self.0.handle, task)
            .map_err(Error::driver(|| format!("scheduling `{name}` on {}", self.name())))?;
        self.all_work()
    }

    /// Makes later tasks of the stream start after the event, and fail if it fails. Rarely needed: contexts
    /// order all accesses to nodes by themselves. For an event of another device whose driver the stream's
    /// does not know, the caller waits.
    ///
    /// # Errors
    ///
    /// Where the device takes no more tasks; the event's failure where the caller waited.
    pub fn will_wait_for(&self, event: &Event) -> Result<(), Error> {
        match self.wait(event, WaitKind::Data) {
            Err(DriverError::ForeignHandle { .. }) => event.sync(),
            other => other.map_err(Error::driver(|| format!("making {} wait", self.name()))),
        }
    }

    pub(crate) fn wait(&self, event: &Event, after: WaitKind) -> Result<(), DriverError> {
        self.0.device.driver().wait(&self.0.handle, event.handle(), after)
    }

    /// Waits until the stream is idle and forgets its failure, so that it takes tasks again. Nodes whose
    /// writers failed stay without value until they are written anew.
    ///
    /// # Errors
    ///
    /// Where the device is beyond help.
    pub fn reset(&self) -> Result<(), Error> {
        let driver = self.0.device.driver();
        driver.reset_stream(&self.0.handle).map_err(Error::driver(|| format!("resetting {}", self.name())))
    }

    /// What goes on in the stream, for people; no stable format.
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
