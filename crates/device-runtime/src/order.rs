//! The classes of waits, and, in tests only, a switch that omits one of them.
//!
//! The race detector must find a race whenever a class of waits is omitted; all code that orders accesses
//! asks [`wait_enabled`].

use crate::hazard::Hazard;

/// The two sides that a wait orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Scope {
    /// Streams of one device.
    Stream,
    /// Streams of two devices.
    Device,
    /// A stream and the host.
    Host,
    /// The source of a merge and its writers.
    Merge,
}

/// Whether waits of a class are made: always, except in tests.
#[cfg(not(test))]
pub(crate) const fn wait_enabled(_hazard: Hazard, _scope: Scope) -> bool {
    true
}

#[cfg(test)]
pub(crate) use mutation::wait_enabled;
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

    pub(crate) fn wait_enabled(hazard: Hazard, scope: Scope) -> bool {
        LEFT_OUT.get() != Some((hazard, scope))
    }

    #[allow(dead_code, reason = "the race detector's tests use it")]
    /// Runs `body` with one class of waits omitted; only this thread is affected.
    pub(crate) fn without<R>(hazard: Hazard, scope: Scope, body: impl FnOnce() -> R) -> R {
        LEFT_OUT.set(Some((hazard, scope)));
        let result = body();
        LEFT_OUT.set(None);
        result
    }
}
