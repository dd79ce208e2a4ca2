//! The streams of a device that are still in use, and the operations on them that drivers of GPUs share.

use std::{
    fmt,
    sync::{Arc, Mutex, Weak},
};

use crate::driver::StreamHandle;
use crate::error::{DriverError, Result};
use crate::pool::lock;

/// A stream of a driver that retires completed tasks in the calls of waiting threads, without a thread of its
/// own.
pub trait PolledStream: Send + Sync + 'static {
    /// The state that the streams of one device share.
    type Device: Send + Sync;

    /// The shared state of this stream's device.
    fn device(&self) -> &Arc<Self::Device>;

    /// Checks that a device is not lost.
    ///
    /// # Errors
    ///
    /// [`DriverError`] with the reason of the loss.
    fn check_alive(device: &Self::Device) -> Result<()>;

    /// Retires completed tasks.
    fn advance(&self);

    /// Waits for all tasks and retires them.
    fn drain(&self);

    /// Whether no task is left.
    fn is_idle(&self) -> bool;

    /// Forgets the failure for which later tasks are rejected.
    fn clear_failure(&self);
}

/// Checks that a value belongs to a device, by the state that the device's values share.
///
/// # Errors
///
/// [`DriverError::ForeignHandle`] with `what`, the kind of the value.
pub fn check_owner<D>(owner: &Arc<D>, device: &Arc<D>, what: &'static str) -> Result<()> {
    if Arc::ptr_eq(owner, device) { Ok(()) } else { Err(DriverError::ForeignHandle { what }) }
}

/// A list of streams of type `S`, in the order in which they were made. It does not keep them alive.
pub struct StreamRegistry<S>(Mutex<Vec<Weak<S>>>);

impl<S> StreamRegistry<S> {
    /// Adds a stream, and removes the dropped ones.
    pub fn insert(&self, stream: &Arc<S>) {
        let mut streams = lock(&self.0);
        streams.retain(|stream| stream.strong_count() > 0);
        streams.push(Arc::downgrade(stream));
    }

    /// The streams that are still in use.
    pub fn live(&self) -> Vec<Arc<S>> {
        lock(&self.0).iter().filter_map(Weak::upgrade).collect()
    }
}

impl<S: PolledStream> StreamRegistry<S> {
    /// The stream of a device behind a handle.
    ///
    /// # Errors
    ///
    /// [`DriverError::ForeignHandle`] if the handle is of another driver or device.
    pub fn get<'h>(&self, device: &Arc<S::Device>, handle: &'h StreamHandle) -> Result<&'h Arc<S>> {
        let stream: &Arc<S> = handle.get()?;
        check_owner(stream.device(), device, "stream")?;
        Ok(stream)
    }

    /// Implements [`Driver::drop_stream`](crate::Driver::drop_stream).
    pub fn drop_stream(&self, device: &Arc<S::Device>, handle: &StreamHandle) {
        if let Ok(stream) = self.get(device, handle) {
            stream.drain();
        }
    }

    /// Implements [`Driver::reset_stream`](crate::Driver::reset_stream).
    ///
    /// # Errors
    ///
    /// [`DriverError`] if the handle is foreign or the device is lost.
    pub fn reset_stream(&self, device: &Arc<S::Device>, handle: &StreamHandle) -> Result<()> {
        let stream = self.get(device, handle)?;
        stream.drain();
        S::check_alive(device)?;
        stream.clear_failure();
        Ok(())
    }

    /// Implements [`Driver::is_idle`](crate::Driver::is_idle).
    pub fn is_idle(&self, device: &Arc<S::Device>, handle: &StreamHandle) -> bool {
        self.get(device, handle).is_ok_and(|stream| stream.is_idle())
    }

    /// Retires the completed tasks of all streams.
    pub fn advance_all(&self) {
        self.live().iter().for_each(|stream| stream.advance());
    }

    /// Waits for the tasks of all streams.
    pub fn drain_all(&self) {
        self.live().iter().for_each(|stream| stream.drain());
    }
}

impl<S> Default for StreamRegistry<S> {
    fn default() -> Self {
        StreamRegistry(Mutex::default())
    }
}

impl<S> fmt::Debug for StreamRegistry<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} streams", self.live().len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropped_streams_leave_the_list() {
        let registry = StreamRegistry::default();
        let [first, second] = [Arc::new(1), Arc::new(2)];
        registry.insert(&first);
        registry.insert(&second);
        assert_eq!(registry.live(), [Arc::clone(&first), Arc::clone(&second)]);
        drop(first);
        assert_eq!(registry.live(), [Arc::clone(&second)]);
        registry.insert(&Arc::new(3));
        registry.insert(&second);
        assert_eq!(lock(&registry.0).len(), 2, "an insertion removes the dropped streams");
    }
}
