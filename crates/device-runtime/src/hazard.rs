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
    driver::{After, EventHandle},
    error::{DriverError, Failure},
    stream::StreamId,
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

/// [`crate::Driver::is_done`] of the buffer's device.
pub(crate) type IsDone<'a> = &'a dyn Fn(&EventHandle) -> Result<bool, DriverError>;

/// The use of a node's memory that is scheduled and not done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PendingUse {
    /// The stream of the last write.
    pub writer: Option<StreamId>,
    /// The streams that read since.
    pub readers: Vec<StreamId>,
}

/// Whether the values from before matter afterwards: a task that writes a part needs the rest.
pub(crate) fn reads(access: Access) -> bool {
    matches!(access, Access::Read | Access::ReadWrite | Access::WritePart)
}

pub(crate) fn writes(access: Access) -> bool {
    matches!(access, Access::Write | Access::WritePart | Access::ReadWrite)
}

impl Hazards {
    /// Adds to `waits` what a task of `stream` with this access has to wait for.
    ///
    /// # Errors
    ///
    /// The failure of the last write, where the task reads.
    pub(crate) fn before(
        &mut self,
        is_done: IsDone<'_>,
        stream: StreamId,
        access: Access,
        waits: &mut Waits,
    ) -> Result<(), Failure> {
        self.prune(is_done);
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

    /// Takes the values away: who reads before the next write gets the failure. What is pending is still waited for.
    pub(crate) fn poison(&mut self, stream: StreamId, failure: &Failure) {
        let write = self.write.get_or_insert(LastWrite { stream, event: None, failed: None });
        write.failed = Some(failure.clone());
    }

    /// The failure of the last write, as far as it is known.
    pub(crate) fn failure(&mut self, is_done: IsDone<'_>) -> Option<Failure> {
        self.prune(is_done);
        self.write.as_ref()?.failed.clone()
    }

    /// What is still pending.
    pub(crate) fn pending(&mut self, is_done: IsDone<'_>) -> PendingUse {
        self.prune(is_done);
        let writer = self.write.as_ref().filter(|write| write.event.is_some()).map(|write| write.stream);
        let mut readers: Vec<_> = self.reads.iter().map(|(stream, _)| *stream).collect();
        readers.sort_unstable();
        PendingUse { writer, readers }
    }

    /// Forgets what is done, but for the failure of the last write.
    fn prune(&mut self, is_done: IsDone<'_>) {
        self.reads.retain(|(_, event)| is_done(event) == Ok(false));
        let Some(write) = &mut self.write else { return };
        let Some(event) = &write.event else { return };
        match is_done(event) {
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
        other => Failure::new(stream.to_string(), "event", other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU8, Ordering};

    use super::*;

    const A: StreamId = StreamId(0);
    const B: StreamId = StreamId(1);
    const C: StreamId = StreamId(2);

    /// An event that the test completes by hand: 0 pending, 1 done, 2 failed.
    fn event() -> EventHandle {
        EventHandle::new(AtomicU8::new(0))
    }

    fn set(event: &EventHandle, state: u8) {
        event.get::<AtomicU8>().unwrap().store(state, Ordering::Relaxed);
    }

    fn is_done(event: &EventHandle) -> Result<bool, DriverError> {
        match event.get::<AtomicU8>()?.load(Ordering::Relaxed) {
            2 => Err(DriverError::Failed(failure())),
            state => Ok(state == 1),
        }
    }

    fn failure() -> Failure {
        Failure::new("null:0:0", "kernel", "division of the sea")
    }

    /// What a use has to wait for; the use itself is entered with a new event.
    fn use_it(hazards: &mut Hazards, stream: StreamId, access: Access) -> (Vec<After>, EventHandle) {
        let mut waits = Waits::new();
        hazards.before(&is_done, stream, access, &mut waits).unwrap();
        let event = event();
        hazards.after(stream, access, &event);
        (waits.into_iter().map(|(_, after)| after).collect(), event)
    }

    #[test]
    fn reads_wait_for_the_last_write_of_another_stream() {
        let hazards = &mut Hazards::default();
        let (waits, written) = use_it(hazards, A, Access::Write);
        assert_eq!(waits, []);
        assert_eq!(use_it(hazards, A, Access::Read).0, []);
        assert_eq!(use_it(hazards, B, Access::Read).0, [After::Data]);
        set(&written, 1);
        assert_eq!(use_it(hazards, C, Access::Read).0, []);
    }

    #[test]
    fn writes_wait_for_writes_and_reads_of_other_streams() {
        let hazards = &mut Hazards::default();
        use_it(hazards, A, Access::Write);
        let (_, read) = use_it(hazards, B, Access::Read);
        use_it(hazards, C, Access::Read);
        assert_eq!(use_it(hazards, B, Access::Write).0, [After::Order, After::Order], "A's write, C's read");
        set(&read, 1);
        assert_eq!(
            use_it(hazards, A, Access::ReadWrite).0,
            [After::Data],
            "B's write; older reads are implied"
        );
    }

    #[test]
    fn a_stream_keeps_one_read() {
        let hazards = &mut Hazards::default();
        (0..100).for_each(|_| drop(use_it(hazards, A, Access::Read)));
        assert_eq!(hazards.reads.len(), 1);
        assert_eq!(hazards.pending(&is_done), PendingUse { writer: None, readers: vec![A] });
    }

    #[test]
    fn done_events_are_forgotten() {
        let hazards = &mut Hazards::default();
        let (_, written) = use_it(hazards, A, Access::Write);
        let (_, read) = use_it(hazards, B, Access::Read);
        assert_eq!(hazards.pending(&is_done), PendingUse { writer: Some(A), readers: vec![B] });
        set(&written, 1);
        set(&read, 1);
        assert_eq!(hazards.pending(&is_done), PendingUse::default());
        assert!(hazards.write.is_none() && hazards.reads.is_empty());
    }

    #[test]
    fn a_failed_write_stays_until_the_next_write() {
        let hazards = &mut Hazards::default();
        let (_, written) = use_it(hazards, A, Access::Write);
        set(&written, 2);
        for access in [Access::Read, Access::ReadWrite] {
            assert_eq!(hazards.before(&is_done, A, access, &mut Waits::new()), Err(failure()));
        }
        assert_eq!(use_it(hazards, B, Access::Write).0, []);
        assert_eq!(use_it(hazards, B, Access::Read).0, []);
    }

    #[test]
    fn poisoned_values_are_gone_and_pending_uses_are_still_waited_for() {
        let hazards = &mut Hazards::default();
        hazards.poison(A, &failure());
        assert_eq!(hazards.before(&is_done, A, Access::Read, &mut Waits::new()), Err(failure()));
        assert_eq!(use_it(hazards, B, Access::Write).0, []);
        use_it(hazards, A, Access::Read);
        hazards.poison(A, &failure());
        assert_eq!(hazards.before(&is_done, B, Access::Read, &mut Waits::new()), Err(failure()));
        assert_eq!(use_it(hazards, C, Access::Write).0, [After::Order, After::Order], "B's write, A's read");
        assert_eq!(use_it(hazards, B, Access::Read).0, [After::Data]);
    }

    #[test]
    fn a_failed_read_is_no_concern_of_the_writer() {
        let hazards = &mut Hazards::default();
        let (_, read) = use_it(hazards, A, Access::Read);
        set(&read, 2);
        assert_eq!(use_it(hazards, B, Access::Write).0, []);
    }

    #[test]
    fn a_partly_handed_over_write_is_poisoned_and_still_waited_for() {
        let hazards = &mut Hazards::default();
        hazards.after_failure(A, Access::Write, Some(&event()), &failure());
        assert_eq!(hazards.before(&is_done, B, Access::Read, &mut Waits::new()), Err(failure()));
        assert_eq!(use_it(hazards, B, Access::Write).0, [After::Order]);
    }
}
