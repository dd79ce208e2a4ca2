//! The streams of a device that are still in use.

use std::{
    fmt,
    sync::{Arc, Mutex, Weak},
};

use crate::pool::lock;

/// A list of streams of type `S`, in the order in which they were made. It does not keep them alive.
pub struct StreamRegistry<S>(Mutex<Vec<Weak<S>>>);

impl<S> StreamRegistry<S> {
    /// Adds a stream, and removes the dropped ones.
    pub fn insert(&self, stream: &Arc<S>) {
        let mut streams = lock(&self.0);
        streams.retain(|stream| stream.strong_count() > 0);
        streams.push(Arc::downgrade(stream));
    }

    /// The streams that are still in use.
    pub fn live(&self) -> Vec<Arc<S>> {
        lock(&self.0).iter().filter_map(Weak::upgrade).collect()
    }
}

impl<S> Default for StreamRegistry<S> {
    fn default() -> Self {
        StreamRegistry(Mutex::default())
    }
}

impl<S> fmt::Debug for StreamRegistry<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} streams", self.live().len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropped_streams_leave_the_list() {
        let registry = StreamRegistry::default();
        let [first, second] = [Arc::new(1), Arc::new(2)];
        registry.insert(&first);
        registry.insert(&second);
        assert_eq!(registry.live(), [Arc::clone(&first), Arc::clone(&second)]);
        drop(first);
        assert_eq!(registry.live(), [Arc::clone(&second)]);
        registry.insert(&Arc::new(3));
        registry.insert(&second);
        assert_eq!(lock(&registry.0).len(), 2, "an insertion removes the dropped streams");
    }
}
