//! Events: points in a stream that anybody can wait for.

use std::fmt;

use crate::{
    device::Device,
    driver::EventHandle,
    error::{DriverError, Error},
    stream::{StreamId, StreamKey},
};

/// A point in a stream's work, already scheduled when the event exists. Cheap to clone.
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

    /// Which stream of which device.
    pub(crate) fn key(&self) -> StreamKey {
        StreamKey { device: self.device.device_id(), stream: self.stream }
    }

    /// The device whose work it marks.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The stream whose work it marks.
    pub fn stream_id(&self) -> StreamId {
        self.stream
    }

    /// That stream's name.
    pub fn stream_name(&self) -> String {
        format!("{}:{}", self.device.name(), self.stream.0)
    }

    /// Whether everything before it is done, be it by failing.
    pub fn is_done(&self) -> bool {
        self.poll().unwrap_or(true)
    }

    /// Whether everything before it is done, or its failure.
    pub(crate) fn poll(&self) -> Result<bool, DriverError> {
        self.device.driver().is_done(&self.handle)
    }

    /// Waits until everything before it is done.
    ///
    /// # Errors
    ///
    /// The first failure before it.
    pub fn sync(&self) -> Result<(), Error> {
        let _span = tracing::debug_span!("wait", stream = %self.stream_name()).entered();
        self.device.driver().sync(&self.handle).map_err(Error::driver(|| format!("waiting for {self}")))
    }
}

/// Names the stream, since events have no number.
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
