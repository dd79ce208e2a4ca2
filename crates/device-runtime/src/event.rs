//! Events: points in a stream that anybody can wait for.

use std::fmt;

use crate::{device::Device, driver::EventHandle, error::Error, stream::StreamId};

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

    /// The device whose work it marks.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The stream whose work it marks.
    pub fn stream_id(&self) -> StreamId {
        self.stream
    }

    /// Whether everything before it is done, be it by failing.
    pub fn is_done(&self) -> bool {
        self.device.driver().is_done(&self.handle).unwrap_or(true)
    }

    /// Waits until everything before it is done.
    ///
    /// # Errors
    ///
    /// The first failure before it.
    pub fn sync(&self) -> Result<(), Error> {
        self.device.driver().sync(&self.handle).map_err(Error::driver(|| format!("waiting for {self}")))
    }
}

/// Names the stream, since events have no number.
impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an event of {}:{}", self.device.name(), self.stream.0)
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Event({}:{})", self.device.name(), self.stream.0)
    }
}
