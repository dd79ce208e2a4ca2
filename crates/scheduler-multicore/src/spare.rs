//! Events used again, so that recording one allocates nothing once warm.
//!
//! A stream keeps shares of the events it handed out. One whose other shares are all gone can be reached by nobody else, so it
//! serves as the next event. Kept beside the lane and not in it, since an event refers to its lane.

use std::collections::VecDeque;

use crate::{
    event::EventState,
    lane::LaneState,
    sync::{Arc, Mutex},
};

/// So many events are kept; while more are in use, further ones are allocated.
const KEPT: usize = 64;

/// So many of the kept ones are looked at for an event: the oldest, one of which may be somebody's for long.
const LOOKS: usize = 2;

/// The events a stream keeps, the one handed out first at the front.
#[derive(Debug)]
pub(crate) struct Spare(Mutex<VecDeque<Arc<EventState>>>);

impl Spare {
    pub(crate) fn new() -> Spare {
        Spare(Mutex::new(VecDeque::with_capacity(KEPT)))
    }

    /// A pending event of the lane.
    pub(crate) fn event(&self, lane: &Arc<LaneState>) -> Arc<EventState> {
        let mut kept = self.0.lock();
        for _ in 0..LOOKS.min(kept.len()) {
            let Some(mut event) = kept.pop_front() else { break };
            let is_free = Arc::get_mut(&mut event).map(EventState::reset).is_some();
            kept.push_back(Arc::clone(&event));
            if is_free {
                return event;
            }
        }
        let event = lane.event();
        if kept.len() < KEPT {
            kept.push_back(Arc::clone(&event));
        }
        event
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;

    #[test]
    fn an_event_serves_again_when_nobody_has_it_and_not_before() {
        let lane = LaneState::new("lane", None);
        let spare = Spare::new();
        let first = spare.event(&lane);
        first.reach(None);
        let second = spare.event(&lane);
        assert!(!Arc::ptr_eq(&first, &second), "the first is still somebody's");
        let address = Arc::as_ptr(&first);
        drop(first);
        let third = spare.event(&lane);
        assert_eq!(Arc::as_ptr(&third), address);
        assert_eq!(third.poll(), None, "it is pending again");
        assert_eq!(second.poll(), None);
    }

    #[test]
    fn more_events_than_are_kept_can_be_in_use() {
        let lane = LaneState::new("lane", None);
        let spare = Spare::new();
        let events: Vec<_> = (0..3 * KEPT).map(|_| spare.event(&lane)).collect();
        let mut addresses: Vec<_> = events.iter().map(Arc::as_ptr).collect();
        addresses.sort();
        addresses.dedup();
        assert_eq!(addresses.len(), events.len());
        drop(events);
        assert!(addresses.contains(&Arc::as_ptr(&spare.event(&lane))));
        drop(spare);
        assert_eq!(Arc::strong_count(&lane), 1, "nothing keeps the lane");
    }
}
