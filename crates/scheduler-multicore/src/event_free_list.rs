//! A stream's free list of events, so that recording an event allocates nothing once the list is full.
//!
//! A stream keeps references to the events it handed out. When it holds the only reference to an event, no
//! other thread can use that event, so the stream reuses it. The list is not part of the queue's state,
//! because events refer to that state: a cycle of references would leak both.

use std::collections::VecDeque;

use crate::{
    event::EventState,
    queue_state::QueueState,
    sync::{Arc, Mutex},
};

/// The capacity of a free list; events beyond it are allocated and dropped.
const CAPACITY: usize = 64;

/// The number of oldest events that are tried before a new one is allocated: more than one, because a single
/// event may stay in use for a long time.
const ATTEMPTS: usize = 2;

/// The events that a stream keeps, the least recently used one at the front.
#[derive(Debug)]
pub(crate) struct EventFreeList(Mutex<VecDeque<Arc<EventState>>>);

impl EventFreeList {
    pub(crate) fn new() -> EventFreeList {
        EventFreeList(Mutex::new(VecDeque::with_capacity(CAPACITY)))
    }

    /// A pending event of the queue.
    pub(crate) fn event(&self, queue: &Arc<QueueState>) -> Arc<EventState> {
        let mut kept = self.0.lock();
        for _ in 0..ATTEMPTS.min(kept.len()) {
            let Some(mut event) = kept.pop_front() else { break };
            let is_free = Arc::get_mut(&mut event).map(EventState::reset).is_some();
            kept.push_back(Arc::clone(&event));
            if is_free {
                return event;
            }
        }
        let event = queue.event();
        if kept.len() < CAPACITY {
            kept.push_back(Arc::clone(&event));
        }
        event
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_reused_when_nobody_has_it_and_not_before() {
        let queue = QueueState::new("stream", None);
        let free_list = EventFreeList::new();
        let first = free_list.event(&queue);
        first.reach(None);
        let second = free_list.event(&queue);
        assert!(!Arc::ptr_eq(&first, &second), "the first is still in use");
        let address = Arc::as_ptr(&first);
        drop(first);
        let third = free_list.event(&queue);
        assert_eq!(Arc::as_ptr(&third), address);
        assert_eq!(third.poll(), None, "it is pending again");
        assert_eq!(second.poll(), None);
    }

    #[test]
    fn more_events_than_are_kept_can_be_in_use() {
        let queue = QueueState::new("stream", None);
        let free_list = EventFreeList::new();
        let events: Vec<_> = (0..3 * CAPACITY).map(|_| free_list.event(&queue)).collect();
        let mut addresses: Vec<_> = events.iter().map(Arc::as_ptr).collect();
        addresses.sort();
        addresses.dedup();
        assert_eq!(addresses.len(), events.len());
        drop(events);
        assert!(addresses.contains(&Arc::as_ptr(&free_list.event(&queue))));
        drop(free_list);
        assert_eq!(Arc::strong_count(&queue), 1, "nothing refers to the queue");
    }
}
