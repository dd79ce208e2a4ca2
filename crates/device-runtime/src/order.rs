//! The classes of waits, and the one switch that leaves a class out, which only the tests of the order have.
//!
//! The race detector must find a race whenever a class of waits is missing; each place that keeps an order
//! asks [`kept`].

use crate::hazard::Hazard;

/// Between what the order is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Scope {
    /// Streams of one device.
    Stream,
    /// Streams of two devices.
    Device,
    /// A stream and the host.
    Host,
    /// The source of a merge and whoever writes it.
    Merge,
}

/// Whether waits of a class are made: always, outside of tests.
#[cfg(not(test))]
pub(crate) const fn kept(_hazard: Hazard, _scope: Scope) -> bool {
    true
}

#[cfg(test)]
pub(crate) use mutation::kept;
#[cfg(test)]
#[allow(unused_imports, reason = "the race detector's tests use it")]
pub(crate) use mutation::without;

#[cfg(test)]
mod mutation {
    use std::cell::Cell;

    use super::{Hazard, Scope};

    thread_local! {
        static LEFT_OUT: Cell<Option<(Hazard, Scope)>> = const { Cell::new(None) };
    }

    pub(crate) fn kept(hazard: Hazard, scope: Scope) -> bool {
        LEFT_OUT.get() != Some((hazard, scope))
    }

    #[allow(dead_code, reason = "the race detector's tests use it")]
    /// Runs `body` on a runtime without one class of waits; only this thread is affected.
    pub(crate) fn without<R>(hazard: Hazard, scope: Scope, body: impl FnOnce() -> R) -> R {
        LEFT_OUT.set(Some((hazard, scope)));
        let result = body();
        LEFT_OUT.set(None);
        result
    }
}
