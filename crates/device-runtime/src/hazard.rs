//! Hazards: for each buffer, the event of its last write and the events of the reads since, by stream.
//!
//! Before a task is handed over, [`Hazards::before`] says which events its stream must wait for; afterwards
//! [`Hazards::after`] enters the task's own event. Both happen under the buffer's lock, so two threads cannot both believe that
//! they came first. Invariants: at most one read per stream is kept, since a later event of a stream implies the earlier
//! ones; reads older than the last write are dropped, since the write waited for them; done events are dropped when met; the
//! failure of a last write is kept until the buffer is written again.

use codegen_core::Access;
use smallvec::SmallVec;

use crate::{
    driver::{After, Driver, EventHandle, StreamId},
    error::{DriverError, Failure},
};

/// Who used a buffer last.
#[derive(Debug, Default)]
pub(crate) struct Hazards {
    /// The last write: pending, or failed, or both; none once it is done.
    write: Option<LastWrite>,
    /// Reads since that write that were pending when last looked at.
    reads: SmallVec<[(StreamId, EventHandle); 2]>,
}

#[derive(Debug)]
struct LastWrite {
    stream: StreamId,
    event: Option<EventHandle>,
    failed: Option<Failure>,
}

/// Events to wait for, each with what the wait protects.
pub(crate) type Waits = SmallVec<[(EventHandle, After); 8]>;

/// The use of a node's memory that is scheduled and not done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PendingUse {
    /// The stream of the last write.
    pub writer: Option<StreamId>,
    /// The streams that read since.
    pub readers: Vec<StreamId>,
}

pub(crate) fn reads(access: Access) -> bool {
    matches!(access, Access::Read | Access::ReadWrite)
}

pub(crate) fn writes(access: Access) -> bool {
    matches!(access, Access::Write | Access::ReadWrite)
}

impl Hazards {
    /// Adds to `waits` what a task of `stream` with this access has to wait for.
    ///
    /// # Errors
    ///
    /// The failure of the last write, where the task reads.
    pub(crate) fn before(
        &mut self,
        driver: &dyn Driver,
        stream: StreamId,
        access: Access,
        waits: &mut Waits,
    ) -> Result<(), Failure> {
        self.prune(driver);
        if let Some(write) = &self.write {
            if let (true, Some(failure)) = (reads(access), &write.failed) {
                return Err(failure.clone());
            }
            let after = if reads(access) { After::Data } else { After::Order };
            waits.extend(write.event.iter().filter(|_| write.stream != stream).map(|e| (e.clone(), after)));
        }
        if writes(access) {
            let others = self.reads.iter().filter(|(reader, _)| *reader != stream);
            waits.extend(others.map(|(_, event)| (event.clone(), After::Order)));
        }
        Ok(())
    }

    /// Enters a task that was handed over, with the event recorded behind it.
    pub(crate) fn after(&mut self, stream: StreamId, access: Access, event: &EventHandle) {
        if writes(access) {
            self.reads.clear();
            self.write = Some(LastWrite { stream, event: Some(event.clone()), failed: None });
        } else if let Some(read) = self.reads.iter_mut().find(|(reader, _)| *reader == stream) {
            read.1 = event.clone();
        } else {
            self.reads.push((stream, event.clone()));
        }
    }

    /// Enters a task that was handed over in part; `event`, if it could be recorded, ends the part.
    pub(crate) fn after_failure(
        &mut self,
        stream: StreamId,
        access: Access,
        event: Option<&EventHandle>,
        failure: &Failure,
    ) {
        if writes(access) {
            self.write = Some(LastWrite { stream, event: event.cloned(), failed: Some(failure.clone()) });
        } else if let Some(event) = event {
            self.after(stream, access, event);
        }
    }

    /// What is still pending.
    pub(crate) fn pending(&mut self, driver: &dyn Driver) -> PendingUse {
        self.prune(driver);
        let writer = self.write.as_ref().filter(|write| write.event.is_some()).map(|write| write.stream);
        let mut readers: Vec<_> = self.reads.iter().map(|(stream, _)| *stream).collect();
        readers.sort_unstable();
        PendingUse { writer, readers }
    }

    /// Forgets what is done, but for the failure of the last write.
    fn prune(&mut self, driver: &dyn Driver) {
        self.reads.retain(|(_, event)| driver.is_done(event) == Ok(false));
        let Some(write) = &mut self.write else { return };
        let Some(event) = &write.event else { return };
        match driver.is_done(event) {
            Ok(false) => return,
            Ok(true) => {}
            Err(error) => {
                write.failed.get_or_insert_with(|| failure_of(error, write.stream));
            }
        }
        write.event = None;
        if write.failed.is_none() {
            self.write = None;
        }
    }
}

/// The failure inside a driver's answer, or the answer as one.
pub(crate) fn failure_of(error: DriverError, stream: StreamId) -> Failure {
    match error {
        DriverError::Failed(failure) => failure,
        other => Failure::new(stream, "event", other.to_string()),
    }
}
