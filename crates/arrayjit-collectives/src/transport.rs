//! The trait of transports: bytes between ranks.

use std::time::Duration;

use crate::{announcement::Announcement, error::Result};

/// Moves bytes between ranks. A [`HostGroup`](crate::HostGroup) makes collective operations of it: it calls
/// [`meet`](Transport::meet) first, then exchanges, then [`done`](Transport::done), one operation at a time.
pub trait Transport: Send + Sync + 'static {
    /// The number of this rank, from 0.
    fn rank(&self) -> usize;

    /// The number of ranks.
    fn size(&self) -> usize;

    /// Sends an announcement to all ranks and waits for theirs, which are returned in the order of ranks.
    ///
    /// # Errors
    /// [`CollectiveError::Missing`](crate::CollectiveError::Missing) after `timeout`, and errors of the
    /// transport.
    fn meet(&self, own: &Announcement, timeout: Duration) -> Result<Vec<Announcement>>;

    /// Exchanges blocks of equal size: block `r` of `send` goes to rank `r`, and block `r` of `received`
    /// comes from there. Both have one block for each rank.
    ///
    /// # Errors
    /// Errors of the transport.
    fn all_to_all(&self, send: &[u8], received: &mut [u8]) -> Result<()>;

    /// Gives all ranks the bytes of each: block `r` of `received` comes from rank `r`.
    ///
    /// # Errors
    /// Errors of the transport.
    fn all_gather(&self, send: &[u8], received: &mut [u8]) -> Result<()>;

    /// Gives all ranks the bytes of one.
    ///
    /// # Errors
    /// Errors of the transport.
    fn broadcast(&self, bytes: &mut [u8], root: usize) -> Result<()>;

    /// Ends the operation that [`meet`](Transport::meet) began. Does nothing by default.
    fn done(&self) {}
}

impl<T: Transport + ?Sized> Transport for Box<T> {
    fn rank(&self) -> usize {
        (**self).rank()
    }

    fn size(&self) -> usize {
        (**self).size()
    }

    fn meet(&self, own: &Announcement, timeout: Duration) -> Result<Vec<Announcement>> {
        (**self).meet(own, timeout)
    }

    fn all_to_all(&self, send: &[u8], received: &mut [u8]) -> Result<()> {
        (**self).all_to_all(send, received)
    }

    fn all_gather(&self, send: &[u8], received: &mut [u8]) -> Result<()> {
        (**self).all_gather(send, received)
    }

    fn broadcast(&self, bytes: &mut [u8], root: usize) -> Result<()> {
        (**self).broadcast(bytes, root)
    }

    fn done(&self) {
        (**self).done();
    }
}
