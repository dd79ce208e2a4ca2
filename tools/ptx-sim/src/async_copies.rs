//! `cp.async` copies in flight.
//!
//! A copy may write its destination at any time until the thread waits for it. Every program that could
//! observe the time is faulty: accessing the destination before the wait is a fault, even for the copying
//! thread, and so is changing the source. Therefore the simulator performs the copy at the wait and need not
//! try other times.

use std::collections::VecDeque;

use super::access::ResolvedAddress;

/// A copy in flight.
#[derive(Clone, Copy, Debug)]
pub(super) struct PendingCopy {
    /// Offset of the destination in shared memory.
    pub(super) to: usize,
    /// Number of bytes that are written.
    pub(super) bytes: u32,
    /// The bytes that will be written, zero-filled.
    pub(super) data: [u8; 16],
    /// The source in global memory and the number of bytes that are read from it.
    pub(super) from: Option<(ResolvedAddress, u32)>,
}

/// The copies of a block's threads.
#[derive(Debug)]
pub(super) struct AsyncCopies {
    queues: Vec<CopyQueue>,
    /// For each byte of shared memory, the thread whose copy may be writing it, plus one; else 0.
    owners: Vec<u16>,
}

#[derive(Clone, Debug, Default)]
struct CopyQueue {
    /// Copies since the last commit.
    open: Vec<PendingCopy>,
    groups: VecDeque<Vec<PendingCopy>>,
}

impl AsyncCopies {
    pub(super) fn new(threads: u32, shared: usize) -> AsyncCopies {
        AsyncCopies { queues: vec![CopyQueue::default(); threads as usize], owners: vec![0; shared] }
    }

    /// Drops all copies.
    pub(super) fn clear(&mut self) {
        self.queues.fill(CopyQueue::default());
        self.owners.fill(0);
    }

    /// The first byte of a range that a copy may be writing, and the copying thread.
    pub(super) fn owner(&self, at: usize, bytes: usize) -> Option<(usize, u32)> {
        let owners = &self.owners[at..at + bytes];
        let first = owners.iter().position(|&owner| owner != 0)?;
        Some((at + first, u32::from(owners[first]) - 1))
    }

    /// Begins a copy.
    pub(super) fn begin(&mut self, thread: u32, copy: PendingCopy) {
        self.owners[copy.to..copy.to + copy.bytes as usize].fill(thread as u16 + 1);
        self.queues[thread as usize].open.push(copy);
    }

    /// Commits a thread's copies since its last commit as a group.
    pub(super) fn commit(&mut self, thread: u32) {
        let queue = &mut self.queues[thread as usize];
        let group = std::mem::take(&mut queue.open);
        queue.groups.push_back(group);
    }

    /// Removes and returns the copies of all but the latest `left` groups of a thread, oldest first.
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
