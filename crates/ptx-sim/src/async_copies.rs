//! Asynchronous copies that are under way.
//!
//! When data arrives is open until the thread waits for it. No program that does without faults can tell: who touches the destination
//! before, the copying thread included, does so by mistake and is told; so is who changes the source. Hence a copy is made when it is
//! waited for, and no order of arrivals has to be tried.

use std::collections::VecDeque;

use super::access::ResolvedAddress;

/// A copy that is under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct PendingCopy {
    /// Its place in shared memory.
    pub(super) to: usize,
    /// How many bytes are written.
    pub(super) bytes: u32,
    /// What they will be, if nobody changes the source.
    pub(super) data: [u8; 16],
    /// Where the first of them come from, and how many; the others are zeros.
    pub(super) from: Option<(ResolvedAddress, u32)>,
}

/// Copies of the threads of a block.
#[derive(Debug)]
pub(super) struct AsyncCopies {
    queues: Vec<CopyQueue>,
    /// Of each byte of shared memory, one more than the thread whose copy may be writing it.
    owners: Vec<u16>,
}

#[derive(Clone, Debug, Default)]
struct CopyQueue {
    /// Copies that are in no group yet.
    open: Vec<PendingCopy>,
    groups: VecDeque<Vec<PendingCopy>>,
}

impl AsyncCopies {
    pub(super) fn new(threads: u32, shared: usize) -> AsyncCopies {
        AsyncCopies { queues: vec![CopyQueue::default(); threads as usize], owners: vec![0; shared] }
    }

    /// Forgets all of them.
    pub(super) fn clear(&mut self) {
        self.queues.fill(CopyQueue::default());
        self.owners.fill(0);
    }

    /// The first of these bytes that a copy may be writing, and whose copy.
    pub(super) fn owner(&self, at: usize, bytes: usize) -> Option<(usize, u32)> {
        let owners = &self.owners[at..at + bytes];
        let first = owners.iter().position(|&owner| owner != 0)?;
        Some((at + first, u32::from(owners[first]) - 1))
    }

    /// A thread begins a copy.
    pub(super) fn begin(&mut self, thread: u32, copy: PendingCopy) {
        self.owners[copy.to..copy.to + copy.bytes as usize].fill(thread as u16 + 1);
        self.queues[thread as usize].open.push(copy);
    }

    /// What a thread began is a group.
    pub(super) fn commit(&mut self, thread: u32) {
        let queue = &mut self.queues[thread as usize];
        let group = std::mem::take(&mut queue.open);
        queue.groups.push_back(group);
    }

    /// The copies that a thread waits for, oldest first, so that at most `left` groups remain. They are no longer under way.
    pub(super) fn finish(&mut self, thread: u32, left: u32) -> Vec<PendingCopy> {
        let groups = &mut self.queues[thread as usize].groups;
        let over = groups.len().saturating_sub(left as usize);
        let done: Vec<PendingCopy> = groups.drain(..over).flatten().collect();
        for copy in &done {
            self.owners[copy.to..copy.to + copy.bytes as usize].fill(0);
        }
        done
    }
}
