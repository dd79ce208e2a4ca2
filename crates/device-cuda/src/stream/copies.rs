//! Filling with zeros, copies within the device and between device and host, exchanges with other devices.

use std::sync::Arc;

use device_runtime::{DriverError, HostReadback};

use super::{Stream, StreamState, lock};
use crate::{
    Result,
    api::{CallError, MemoryRegion, StagingRange},
    nccl::NcclCall,
};

/// The error of a copy that was rejected, perhaps after some of its ranges were submitted.
pub(super) struct RejectedCopy {
    pub(super) error: DriverError,
    submitted_bytes: usize,
}

impl RejectedCopy {
    /// Converts the error into the result of the whole copy. A partly submitted copy counts as submitted, so
    /// that the runtime treats its destination as written: its stream has failed, and the event after the
    /// copy carries the failure.
    fn result(self) -> Result<()> {
        if self.submitted_bytes > 0 { Ok(()) } else { Err(self.error) }
    }
}

impl Stream {
    /// Fills a region with zeros.
    ///
    /// # Errors
    ///
    /// [`DriverError::Failed`] if the stream has failed or the driver rejects the task;
    /// [`DriverError::Lost`].
    pub(crate) fn zero(&self, dst: &MemoryRegion) -> Result<()> {
        self.unless_empty(dst, || self.submit("zero", |state| state.queue.zero(dst)))
    }

    /// Exchanges values of regions with other ranks.
    ///
    /// # Errors
    ///
    /// [`DriverError::Failed`] if the stream has failed or NCCL rejects the call; [`DriverError::Lost`].
    pub(crate) fn exchange(&self, name: &str, call: &Arc<NcclCall>, regions: &[MemoryRegion]) -> Result<()> {
        self.submit(name, |state| {
            state.queue.exchange(call.communicator(), call.exchanges(), regions, Arc::clone(call) as Arc<_>)
        })
    }

    /// Copies within the device, or from another device.
    ///
    /// # Errors
    ///
    /// [`DriverError::Failed`] or [`DriverError::Lost`].
    pub(crate) fn copy(&self, dst: &MemoryRegion, src: &MemoryRegion) -> Result<()> {
        self.unless_empty(dst, || self.submit("copy", |state| state.queue.copy(dst, src)))
    }

    /// Copies from the host. Reads all bytes before it returns.
    ///
    /// # Errors
    ///
    /// [`DriverError::Failed`] or [`DriverError::Lost`].
    pub(crate) fn copy_in(&self, dst: &MemoryRegion, bytes: &[u8]) -> Result<()> {
        let copied = self.in_ranges("copy from host", bytes.len(), |state, at, mut range| {
            let part = dst.subregion(at, range.bytes());
            range.fill(&bytes[at..at + part.bytes()]);
            state.queue.upload(&part, range)
        });
        copied.or_else(RejectedCopy::result)
    }

    /// Copies to a host array, which is filled when a thread observes that the copy is done.
    ///
    /// # Errors
    ///
    /// [`DriverError::Failed`] or [`DriverError::Lost`].
    pub(crate) fn copy_out(&self, src: &MemoryRegion, dst: &HostReadback) -> Result<()> {
        self.download(src, dst).or_else(RejectedCopy::result)
    }

    /// Like [`Stream::copy_out`], but also fails if only a part of the copy was submitted.
    pub(super) fn download(&self, src: &MemoryRegion, dst: &HostReadback) -> Result<(), RejectedCopy> {
        self.in_ranges("copy to host", src.bytes(), |state, at, range| {
            state.queue.download(&src.subregion(at, range.bytes()), range, dst, at)
        })
    }

    fn unless_empty(&self, region: &MemoryRegion, task: impl FnOnce() -> Result<()>) -> Result<()> {
        if region.bytes() > 0 { task() } else { self.check_failure(&lock(&self.state)) }
    }

    /// Splits a copy into ranges of staging memory and submits each with its offset. Waits for the stream's
    /// tasks while the stream has used up its staging memory.
    fn in_ranges(
        &self,
        name: &str,
        bytes: usize,
        mut submit: impl FnMut(&mut StreamState, usize, StagingRange) -> Result<(), CallError>,
    ) -> Result<(), RejectedCopy> {
        let rejected = |error, submitted_bytes| RejectedCopy { error, submitted_bytes };
        self.check_failure(&lock(&self.state)).map_err(|error| rejected(error, 0))?;
        let mut done = 0;
        while done < bytes {
            let mut awaited = None;
            let before = done;
            let submitted = self.submit(name, |state| {
                let Some(range) = state.allocator.allocate(bytes - done)? else {
                    awaited = state.first_recorded()?;
                    return Ok(());
                };
                let count = range.bytes();
                submit(state, done, range)?;
                done += count;
                Ok(())
            });
            submitted.map_err(|error| rejected(error, before))?;
            if let Some(recorded) = awaited {
                self.wait_for(&recorded);
            }
        }
        Ok(())
    }
}
