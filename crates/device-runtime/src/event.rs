//! Events: points in a stream's sequence of tasks, for which any thread and any stream can wait.

use std::fmt;

use crate::{
    device::Device,
    driver::EventHandle,
    error::{Result, RunError},
    stream::{StreamId, StreamKey},
};

/// A point in a stream's sequence of tasks. An event exists only after it is recorded. Cheap to clone.
#[derive(Clone)]
pub struct Event {
    device: Device,
    stream: StreamId,
    handle: EventHandle,
}

impl Event {
    pub(crate) fn new(device: Device, stream: StreamId, handle: EventHandle) -> Event {
        Event { device, stream, handle }
    }

    pub(crate) fn handle(&self) -> &EventHandle {
        &self.handle
    }

    /// The process-wide key of the stream on which the event was recorded.
    pub(crate) fn key(&self) -> StreamKey {
        StreamKey { device: self.device.device_id(), stream: self.stream }
    }

    /// The device on which the event is recorded.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The stream on which the event is recorded.
    pub fn stream_id(&self) -> StreamId {
        self.stream
    }

    /// The name of the event's stream.
    pub fn stream_name(&self) -> String {
        format!("{}:{}", self.device.name(), self.stream.0)
    }

    /// Whether all tasks before the event are done or have failed.
    pub fn is_done(&self) -> bool {
        self.poll().unwrap_or(true)
    }

    /// Whether all tasks before the event are done, or their failure.
    pub(crate) fn poll(&self) -> Result<bool> {
        self.device.driver().is_done(&self.handle)
    }

    /// Waits until all tasks before the event are done.
    ///
    /// # Errors
    ///
    /// The first failure before the event.
    pub fn sync(&self) -> Result<(), RunError> {
        let _span = tracing::debug_span!("wait", stream = %self.stream_name()).entered();
        self.device.driver().sync(&self.handle).map_err(RunError::driver(|| format!("waiting for {self}")))
    }
}

/// Shows the stream, since events have no number.
impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an event of {}", self.stream_name())
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Event({})", self.stream_name())
    }
}
