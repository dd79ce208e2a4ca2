//! A race detector: devices that run nothing but know, for each byte, which accesses are ordered.
//!
//! Every stream has a vector clock, and so has the host. A task advances its stream's clock; waiting for an event joins
//! the clock that the event was recorded with, on a stream or on the host; handing a task over joins the host's. Two accesses
//! of one byte, one of them a write, must be ordered by their clocks, or they are reported as a race: whether they would have
//! met in any one run does not matter. So the detector proves what is asked of the runtime: that it orders, by streams and
//! events alone, everything that conflicts.
//!
//! When work is *done* is drawn by chance, within what the contract of [`Driver`](crate::Driver) allows: a stream's steps are done
//! in order, a wait after what it waits for, and between streams there is no order. The runtime only ever forgets a use that it
//! saw done, so this is what makes it forget more or less.
//!
//! One thread calls; what several threads do at a time is the locks' concern, not that of events.

mod clock; // who knows of what
mod device; // the driver
mod memory; // last accesses of each byte
mod programs; // random programs of everything a context can do
mod tests;
mod world; // streams, events and the host of all devices
