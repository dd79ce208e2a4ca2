//! A race detector: devices that run nothing but know, for each byte, which accesses are ordered.
//!
//! Every stream has a vector clock, and so has the host. A task advances its stream's clock. Waiting for an
//! event, on a stream or on the host, joins the clock with which the event was recorded; submitting a task
//! joins the host's clock. Two accesses of one byte, at least one of them a write, are reported as a race if
//! their clocks do not order them, even if they do not overlap in the actual run. The detector thus checks
//! that the runtime orders all conflicting accesses by streams and events alone.
//!
//! The completion of tasks is random within the contract of [`Driver`](crate::Driver): the steps of a stream
//! complete in order, a wait completes after the awaited event, and different streams are independent. The
//! runtime forgets a use only when it has seen it complete, so the random completion makes it forget more or
//! fewer uses.
//!
//! Only one thread makes calls. Calls from several threads at a time would test locks, not the order of
//! events.

mod clock;
mod device;
mod memory;
mod programs;
mod tests;
mod world;
