//! Hazards: for each buffer, the event of its last write and the events of the reads since then, by stream.
//!
//! Before a task is submitted, [`Hazards::collect_waits`] returns the events for which its stream must wait;
//! afterwards [`Hazards::record`] stores the task's own event. Both happen under the buffer's lock, so two
//! threads cannot both believe that they came first. Streams may belong to any device.
//!
//! Invariants:
//!
//! * At most one read per stream is stored, because a later event of a stream implies the earlier ones.
//! * Reads older than the last write are dropped, because the write waited for them.
//! * Completed events are dropped when they are polled.
//! * The failure of a last write is kept until the whole buffer is written again.
//! * A buffer that is marked unwritten has had no use.

use codegen_core::Access;
use smallvec::SmallVec;

use crate::{
    driver::WaitKind,
    error::{DriverError, Failure, Result},
    event::Event,
    stream::StreamKey,
};

/// The last uses of a buffer.
#[derive(Debug, Default)]
pub(crate) struct Hazards {
    /// The last write, if it is pending or has failed; `None` once it is done without failure.
    write: Option<LastWrite>,
    /// Reads since that write that were pending at the last poll.
    reads: SmallVec<[Event; 2]>,
    /// Whether no task has used the memory. Its contents are arbitrary, but count as zeros: it is filled with
    /// zeros before the first use, unless that use overwrites all of it.
    is_unwritten: bool,
}

#[derive(Debug, Default)]
struct LastWrite {
    event: Option<Event>,
    failed: Option<Failure>,
}

/// The order that a wait establishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Hazard {
    /// A read after the write of the value that it reads.
    ReadAfterWrite,
    /// A write after a read of the value that it overwrites.
    WriteAfterRead,
    /// A write after another write.
    WriteAfterWrite,
}

impl Hazard {
    /// Whether a failure of the awaited task propagates to the waiting task.
    pub(crate) fn wait_kind(self) -> WaitKind {
        match self {
            Hazard::ReadAfterWrite => WaitKind::Data,
            Hazard::WriteAfterRead | Hazard::WriteAfterWrite => WaitKind::Order,
        }
    }
}

/// An event to wait for, and the reason.
#[derive(Clone, Debug)]
pub(crate) struct Wait {
    pub(crate) event: Event,
    pub(crate) hazard: Hazard,
}

pub(crate) type Waits = SmallVec<[Wait; 8]>;

/// [`Event::poll`]; tests use another function.
pub(crate) type IsDone<'a> = &'a dyn Fn(&Event) -> Result<bool>;

/// The uses of a node's memory that are scheduled and not done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PendingUse {
    /// The name of the stream of the last write.
    pub writer: Option<String>,
    /// The names of the streams that read after that write.
    pub readers: Vec<String>,
}

/// Whether a task needs the earlier values: a task that writes a part preserves the rest.
pub(crate) fn reads(access: Access) -> bool {
    matches!(access, Access::Read | Access::ReadWrite | Access::WritePart)
}

pub(crate) fn writes(access: Access) -> bool {
    matches!(access, Access::Write | Access::WritePart | Access::ReadWrite)
}

impl Hazards {
    /// Marks new memory, which no task has used.
    pub(crate) fn mark_unwritten(&mut self) {
        self.is_unwritten = true;
    }

    /// Whether the memory has arbitrary contents and counts as zeros.
    pub(crate) fn is_unwritten(&self) -> bool {
        self.is_unwritten
    }

    /// Whether the memory must be filled with zeros before a task with this access.
    pub(crate) fn needs_zeros(&self, access: Access) -> bool {
        self.is_unwritten && access != Access::Write
    }

    /// Adds to `waits` the events for which a task of `stream` with this access must wait.
    ///
    /// # Errors
    ///
    /// The failure of the last write, if the task reads the written memory.
    pub(crate) fn collect_waits(
        &mut self,
        is_done: IsDone<'_>,
        stream: StreamKey,
        access: Access,
        waits: &mut Waits,
    ) -> Result<(), Failure> {
        if self.write.is_none() && self.reads.is_empty() {
            return Ok(());
        }
        self.prune(is_done);
        if let Some(write) = &self.write {
            if let (true, Some(failure)) = (reads(access), &write.failed) {
                return Err(failure.clone());
            }
            let hazard = if reads(access) { Hazard::ReadAfterWrite } else { Hazard::WriteAfterWrite };
            let others = write.event.iter().filter(|event| event.key() != stream);
            waits.extend(others.map(|event| Wait { event: event.clone(), hazard }));
        }
        if writes(access) {
            let others = self.reads.iter().filter(|event| event.key() != stream);
            waits.extend(others.map(|event| Wait { event: event.clone(), hazard: Hazard::WriteAfterRead }));
        }
        Ok(())
    }

    /// Records a task that was submitted; `event` was recorded after it.
    pub(crate) fn record(&mut self, access: Access, event: &Event) {
        if writes(access) {
            self.is_unwritten = false;
            self.reads.clear();
            self.write = Some(LastWrite { event: Some(event.clone()), failed: None });
        } else if let Some(read) = self.reads.iter_mut().find(|read| read.key() == event.key()) {
            *read = event.clone();
        } else {
            self.reads.push(event.clone());
        }
    }

    /// Records a task that has run, on the calling thread, without a failure.
    pub(crate) fn record_done(&mut self, access: Access) {
        if writes(access) {
            self.is_unwritten = false;
            self.reads.clear();
            self.write = None;
        }
    }

    /// Records a task that was submitted only in part. `event` was recorded after that part; it is `None` if
    /// that failed.
    pub(crate) fn record_failed(&mut self, access: Access, event: Option<&Event>, failure: &Failure) {
        if writes(access) {
            self.is_unwritten = false;
            self.write = Some(LastWrite { event: event.cloned(), failed: Some(failure.clone()) });
        } else if let Some(event) = event {
            self.record(access, event);
        }
    }

    /// Invalidates the values: readers before the next write get the failure. Pending uses are still waited
    /// for.
    pub(crate) fn poison(&mut self, failure: &Failure) {
        self.write.get_or_insert_default().failed = Some(failure.clone());
    }

    /// The failure of the last write, as far as it is known.
    pub(crate) fn failure(&mut self, is_done: IsDone<'_>) -> Option<Failure> {
        self.prune(is_done);
        self.write.as_ref()?.failed.clone()
    }

    /// The unfinished tasks that use the buffer. Finished ones are dropped from the table first.
    pub(crate) fn pending(&mut self, is_done: IsDone<'_>) -> PendingUse {
        self.prune(is_done);
        let writer = self.write.as_ref().and_then(|write| write.event.as_ref()).map(Event::stream_name);
        let mut reads: Vec<_> = self.reads.iter().collect();
        reads.sort_unstable_by_key(|event| event.key());
        PendingUse { writer, readers: reads.into_iter().map(Event::stream_name).collect() }
    }

    /// Drops completed uses, except the failure of the last write.
    fn prune(&mut self, is_done: IsDone<'_>) {
        self.reads.retain(|event| is_done(event) == Ok(false));
        let Some(write) = &mut self.write else { return };
        let Some(event) = &write.event else { return };
        match is_done(event) {
            Ok(false) => return,
            Ok(true) => {}
            Err(error) => {
                write.failed.get_or_insert_with(|| failure_of(error, &event.stream_name()));
            }
        }
        write.event = None;
        if write.failed.is_none() {
            self.write = None;
        }
    }
}

/// The failure in a driver's error, or the error converted to a failure.
pub(crate) fn failure_of(error: DriverError, stream: &str) -> Failure {
    match error {
        DriverError::Failed(failure) => failure,
        other => Failure::new(stream, "event", other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    };

    use super::*;
    use crate::{device::Device, driver::EventHandle, null::NullDevice, stream::StreamId};
    use Hazard::{ReadAfterWrite, WriteAfterRead, WriteAfterWrite};

    /// Streams of a device, whose events the test completes explicitly: 0 pending, 1 done, 2 failed.
    struct Streams(Device);

    const A: u32 = 0;
    const B: u32 = 1;
    const C: u32 = 2;

    impl Streams {
        fn new() -> Streams {
            Streams(Device::new(Arc::new(NullDevice::new()), 0))
        }

        fn event(&self, stream: u32) -> Event {
            Event::new(self.0.clone(), StreamId(stream), EventHandle::new(AtomicU8::new(0)))
        }

        fn before(&self, hazards: &mut Hazards, stream: u32, access: Access) -> Result<Vec<Hazard>, Failure> {
            let mut waits = Waits::new();
            hazards.collect_waits(&is_done, self.event(stream).key(), access, &mut waits)?;
            Ok(waits.into_iter().map(|wait| wait.hazard).collect())
        }

        /// The waits of a use, and the new event with which the use is recorded.
        fn use_it(&self, hazards: &mut Hazards, stream: u32, access: Access) -> (Vec<Hazard>, Event) {
            let waits = self.before(hazards, stream, access).unwrap();
            let event = self.event(stream);
            hazards.record(access, &event);
            (waits, event)
        }
    }

    fn set(event: &Event, state: u8) {
        event.handle().get::<AtomicU8>().unwrap().store(state, Ordering::Relaxed);
    }

    fn is_done(event: &Event) -> Result<bool> {
        match event.handle().get::<AtomicU8>()?.load(Ordering::Relaxed) {
            2 => Err(DriverError::Failed(failure())),
            state => Ok(state == 1),
        }
    }

    fn failure() -> Failure {
        Failure::new("null:0:0", "kernel", "division of the sea")
    }

    fn names<const N: usize>(streams: &Streams, numbers: [u32; N]) -> Vec<String> {
        numbers.iter().map(|number| format!("{}:{number}", streams.0.name())).collect()
    }

    #[test]
    fn reads_wait_for_the_last_write_of_another_stream() {
        let (streams, hazards) = (Streams::new(), &mut Hazards::default());
        let (waits, written) = streams.use_it(hazards, A, Access::Write);
        assert_eq!(waits, []);
        assert_eq!(streams.use_it(hazards, A, Access::Read).0, []);
        assert_eq!(streams.use_it(hazards, B, Access::Read).0, [ReadAfterWrite]);
        set(&written, 1);
        assert_eq!(streams.use_it(hazards, C, Access::Read).0, []);
    }

    #[test]
    fn equal_numbers_on_two_devices_are_two_streams() {
        let (one, other, hazards) = (Streams::new(), Streams::new(), &mut Hazards::default());
        one.use_it(hazards, A, Access::Write);
        assert_eq!(other.use_it(hazards, A, Access::Read).0, [ReadAfterWrite]);
    }

    #[test]
    fn writes_wait_for_writes_and_reads_of_other_streams() {
        let (streams, hazards) = (Streams::new(), &mut Hazards::default());
        streams.use_it(hazards, A, Access::Write);
        let (_, read) = streams.use_it(hazards, B, Access::Read);
        streams.use_it(hazards, C, Access::Read);
        let waits = streams.use_it(hazards, B, Access::Write).0;
        assert_eq!(waits, [WriteAfterWrite, WriteAfterRead], "A's write, C's read");
        set(&read, 1);
        let waits = streams.use_it(hazards, A, Access::ReadWrite).0;
        assert_eq!(waits, [ReadAfterWrite], "B's write; older reads are implied");
    }

    #[test]
    fn a_stream_keeps_one_read() {
        let (streams, hazards) = (Streams::new(), &mut Hazards::default());
        (0..100).for_each(|_| drop(streams.use_it(hazards, A, Access::Read)));
        assert_eq!(hazards.reads.len(), 1);
        let pending = PendingUse { writer: None, readers: names(&streams, [A]) };
        assert_eq!(hazards.pending(&is_done), pending);
    }

    #[test]
    fn done_events_are_forgotten() {
        let (streams, hazards) = (Streams::new(), &mut Hazards::default());
        let (_, written) = streams.use_it(hazards, A, Access::Write);
        let (_, read) = streams.use_it(hazards, B, Access::Read);
        let writer = names(&streams, [A]).pop();
        assert_eq!(hazards.pending(&is_done), PendingUse { writer, readers: names(&streams, [B]) });
        set(&written, 1);
        set(&read, 1);
        assert_eq!(hazards.pending(&is_done), PendingUse::default());
        assert!(hazards.write.is_none() && hazards.reads.is_empty());
    }

    #[test]
    fn tasks_that_have_run_leave_nothing_to_wait_for() {
        let (streams, hazards) = (Streams::new(), &mut Hazards::default());
        hazards.mark_unwritten();
        let (_, written) = streams.use_it(hazards, A, Access::Write);
        hazards.record_done(Access::Read);
        assert_eq!(streams.use_it(hazards, B, Access::Read).0, [ReadAfterWrite], "A's write");
        set(&written, 2);
        assert_eq!(streams.before(hazards, C, Access::Read), Err(failure()));
        hazards.record_done(Access::Write);
        assert!(hazards.write.is_none() && hazards.reads.is_empty() && !hazards.is_unwritten());
        assert_eq!(streams.use_it(hazards, C, Access::ReadWrite).0, []);
    }

    #[test]
    fn a_failed_write_stays_until_the_whole_is_written() {
        let (streams, hazards) = (Streams::new(), &mut Hazards::default());
        let (_, written) = streams.use_it(hazards, A, Access::Write);
        set(&written, 2);
        for access in [Access::Read, Access::ReadWrite, Access::WritePart] {
            assert_eq!(streams.before(hazards, A, access), Err(failure()));
        }
        assert_eq!(streams.use_it(hazards, B, Access::Write).0, []);
        assert_eq!(streams.use_it(hazards, B, Access::Read).0, []);
    }

    #[test]
    fn poisoned_values_are_gone_and_pending_uses_are_still_waited_for() {
        let (streams, hazards) = (Streams::new(), &mut Hazards::default());
        hazards.poison(&failure());
        assert_eq!(streams.before(hazards, A, Access::Read), Err(failure()));
        assert_eq!(streams.use_it(hazards, B, Access::Write).0, []);
        streams.use_it(hazards, A, Access::Read);
        hazards.poison(&failure());
        assert_eq!(streams.before(hazards, B, Access::Read), Err(failure()));
        let waits = streams.use_it(hazards, C, Access::Write).0;
        assert_eq!(waits, [WriteAfterWrite, WriteAfterRead], "B's write, A's read");
        assert_eq!(streams.use_it(hazards, B, Access::Read).0, [ReadAfterWrite]);
    }

    #[test]
    fn unwritten_memory_needs_zeros_until_a_write_is_submitted() {
        let (streams, hazards) = (Streams::new(), &mut Hazards::default());
        hazards.mark_unwritten();
        let needing = [Access::Read, Access::WritePart, Access::ReadWrite];
        assert!(needing.into_iter().all(|access| hazards.needs_zeros(access)));
        assert!(!hazards.needs_zeros(Access::Write));
        streams.before(hazards, A, Access::Write).unwrap();
        assert!(hazards.needs_zeros(Access::Read), "the write was not submitted");
        streams.use_it(hazards, A, Access::Write);
        assert!(!hazards.needs_zeros(Access::Read));
    }

    #[test]
    fn a_partly_submitted_write_of_unwritten_memory_is_poisoned() {
        let (streams, hazards) = (Streams::new(), &mut Hazards::default());
        hazards.mark_unwritten();
        hazards.record_failed(Access::Write, Some(&streams.event(A)), &failure());
        assert_eq!(streams.before(hazards, B, Access::Read), Err(failure()));
        assert!(!hazards.is_unwritten());
    }

    #[test]
    fn a_failed_read_is_no_concern_of_the_writer() {
        let (streams, hazards) = (Streams::new(), &mut Hazards::default());
        let (_, read) = streams.use_it(hazards, A, Access::Read);
        set(&read, 2);
        assert_eq!(streams.use_it(hazards, B, Access::Write).0, []);
    }

    #[test]
    fn a_partly_submitted_write_is_poisoned_and_still_waited_for() {
        let (streams, hazards) = (Streams::new(), &mut Hazards::default());
        hazards.record_failed(Access::Write, Some(&streams.event(A)), &failure());
        assert_eq!(streams.before(hazards, B, Access::Read), Err(failure()));
        assert_eq!(streams.use_it(hazards, B, Access::Write).0, [WriteAfterWrite]);
    }
}
