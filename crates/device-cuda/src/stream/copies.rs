//! Zeros, and copies within the device and between it and the host.

use device_runtime::{DriverError, HostLanding};

use super::{State, Stream, lock};
use crate::api::{CallError, Piece, Region};

/// A copy that was refused, perhaps after some of its pieces were handed over.
pub(super) struct RefusedCopy {
    pub(super) error: DriverError,
    bytes_handed_over: usize,
}

impl RefusedCopy {
    /// The answer of the driver. A copy of which a part was handed over is answered as handed over, so that what it
    /// writes counts as written: its stream has failed, and the event behind the copy carries the failure.
    fn answer(self) -> Result<(), DriverError> {
        if self.bytes_handed_over > 0 { Ok(()) } else { Err(self.error) }
    }
}

impl Stream {
    /// Fills with zeros.
    ///
    /// # Errors
    ///
    /// The failure of the stream, the driver's refusal, or the loss of the device.
    pub(crate) fn zero(&self, dst: &Region) -> Result<(), DriverError> {
        self.unless_empty(dst, || self.hand_over("zero", |state| state.queue.zero(dst)))
    }

    /// Copies within the device, or from another one.
    ///
    /// # Errors
    ///
    /// As [`Stream::zero`].
    pub(crate) fn copy(&self, dst: &Region, src: &Region) -> Result<(), DriverError> {
        self.unless_empty(dst, || self.hand_over("copy", |state| state.queue.copy(dst, src)))
    }

    /// Copies from the host. The bytes are read before this returns.
    ///
    /// # Errors
    ///
    /// As [`Stream::zero`].
    pub(crate) fn copy_in(&self, dst: &Region, bytes: &[u8]) -> Result<(), DriverError> {
        let copied = self.by_pieces("copy from host", bytes.len(), |state, at, mut piece| {
            let part = dst.part(at, piece.bytes());
            piece.fill(&bytes[at..at + part.bytes()]);
            state.queue.upload(&part, piece)
        });
        copied.or_else(RefusedCopy::answer)
    }

    /// Copies to a host array, which is filled when somebody sees that it is done.
    ///
    /// # Errors
    ///
    /// As [`Stream::zero`].
    pub(crate) fn copy_out(&self, src: &Region, dst: &HostLanding) -> Result<(), DriverError> {
        self.download(src, dst).or_else(RefusedCopy::answer)
    }

    /// [`Stream::copy_out`], but for the answer about a copy of which a part was handed over.
    pub(super) fn download(&self, src: &Region, dst: &HostLanding) -> Result<(), RefusedCopy> {
        self.by_pieces("copy to host", src.bytes(), |state, at, piece| {
            state.queue.download(&src.part(at, piece.bytes()), piece, dst, at)
        })
    }

    fn unless_empty(
        &self,
        region: &Region,
        task: impl FnOnce() -> Result<(), DriverError>,
    ) -> Result<(), DriverError> {
        if region.bytes() > 0 { task() } else { self.healthy(&lock(&self.state)) }
    }

    /// Hands pieces of a copy over, each with how many bytes are in front of it; waits for the stream's tasks while it has as many
    /// bytes on their way as it may have.
    fn by_pieces(
        &self,
        name: &str,
        bytes: usize,
        mut hand_over: impl FnMut(&mut State, usize, Piece) -> Result<(), CallError>,
    ) -> Result<(), RefusedCopy> {
        let refused = |error, bytes_handed_over| RefusedCopy { error, bytes_handed_over };
        self.healthy(&lock(&self.state)).map_err(|error| refused(error, 0))?;
        let mut done = 0;
        while done < bytes {
            let mut awaited = None;
            let before = done;
            let handed_over = self.hand_over(name, |state| {
                let Some(piece) = state.cutter.cut(bytes - done)? else {
                    awaited = state.first_mark()?;
                    return Ok(());
                };
                let count = piece.bytes();
                hand_over(state, done, piece)?;
                done += count;
                Ok(())
            });
            handed_over.map_err(|error| refused(error, before))?;
            if let Some(mark) = awaited {
                self.wait_for(&mark);
            }
        }
        Ok(())
    }
}
