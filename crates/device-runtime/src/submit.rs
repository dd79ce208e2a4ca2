//! The hand-over of tasks to a driver, ordered against everything that uses the same buffers.
//!
//! This is the one module with unsafe code: the driver's task methods ask that conflicting tasks be ordered, and here they
//! are. Invariants relied on: every task on a node's memory passes through [`submit`] with the uses it makes of it; a
//! routine's temporaries are used by its own stream alone, whose order suffices.
#![allow(unsafe_code, reason = "vouches for the order that the driver's task methods rely on")]

use std::sync::{Arc, MutexGuard};

use codegen_core::Access;
use smallvec::SmallVec;
use tnode::HostArray;

use crate::{
    driver::{BoundHandle, Driver, HostLanding, StreamHandle},
    error::{DriverError, Error},
    event::Event,
    hazard::{Hazards, Waits, failure_of},
    pool::{Buffer, lock},
    stream::Stream,
};

/// A buffer and what a task does with it.
pub(crate) type Use = (Arc<Buffer>, Access);

/// What is handed over.
pub(crate) enum Task<'a> {
    /// Kernels in order, with the values of the routine's symbols, which are within their ranges.
    Run(&'a [Call], &'a [i64]),
    /// Filling a buffer with zeros.
    Zero(&'a Buffer),
    /// Filling a buffer from a host array of the same size.
    CopyIn(&'a Buffer, &'a Arc<HostArray>),
    /// Copying a buffer to a host array of the same size.
    CopyOut(&'a Buffer, &'a HostLanding),
}

/// One kernel of a routine, ready to launch.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) kernel: BoundHandle,
    /// For each of its static indices, the position of the routine's symbol.
    pub(crate) bindings: Vec<usize>,
}

/// Hands a task to a stream behind everything it conflicts with. `uses` are all the node memory it touches, by ascending
/// location, each once; `name` is the user's for the task.
///
/// # Errors
///
/// [`Error::Poisoned`] for a read of a buffer whose writer failed, and the driver's refusal. If the task was handed over in
/// part, what it writes is poisoned.
pub(crate) fn submit(
    stream: &Stream,
    uses: &[Use],
    name: impl Fn() -> String,
    task: &Task<'_>,
) -> Result<Event, Error> {
    let driver = stream.device().driver();
    let mut tables: SmallVec<[MutexGuard<'_, Hazards>; 16]> =
        uses.iter().map(|(buffer, _)| lock(&buffer.hazards)).collect();
    for (event, after) in waits(stream, uses, &mut tables)? {
        driver.wait(stream.handle(), &event, after).map_err(Error::driver(&name))?;
    }
    let mut begun = false;
    let handed_over = hand_over(driver, stream.handle(), task, &mut begun);
    if !begun {
        handed_over.clone().map_err(Error::driver(&name))?;
    }
    let recorded = driver.record(stream.handle());
    match handed_over.and(recorded.clone()) {
        Ok(event) => {
            for (table, (_, access)) in tables.iter_mut().zip(uses) {
                table.after(stream.stream_id(), *access, &event);
            }
            Ok(Event::new(stream.device().clone(), stream.stream_id(), event))
        }
        Err(error) => {
            let failure = failure_of(error.clone(), stream.stream_id());
            for (table, (_, access)) in tables.iter_mut().zip(uses) {
                table.after_failure(stream.stream_id(), *access, recorded.as_ref().ok(), &failure);
            }
            Err(Error::driver(name)(error))
        }
    }
}

/// The events that the task waits for.
fn waits(stream: &Stream, uses: &[Use], tables: &mut [MutexGuard<'_, Hazards>]) -> Result<Waits, Error> {
    let driver = stream.device().driver();
    let mut waits = Waits::new();
    for (table, (buffer, access)) in tables.iter_mut().zip(uses) {
        table
            .before(&|event| driver.is_done(event), stream.stream_id(), *access, &mut waits)
            .map_err(|failure| Error::Poisoned { node: buffer.node.name(), failure })?;
    }
    Ok(waits)
}

/// Hands the parts of a task over; `begun` tells whether any part was accepted.
fn hand_over(
    driver: &dyn Driver,
    stream: &StreamHandle,
    task: &Task<'_>,
    begun: &mut bool,
) -> Result<(), DriverError> {
    match task {
        Task::Run(calls, symbols) => {
            for call in *calls {
                let bindings: SmallVec<[i64; 8]> = call.bindings.iter().map(|&at| symbols[at]).collect();
                // SAFETY: `submit` ordered the routine's uses; `Routine::run` checked the ranges of the symbols.
                unsafe { driver.launch(stream, &call.kernel, &bindings)? };
                *begun = true;
            }
            return Ok(());
        }
        // SAFETY: `submit` ordered this write of the buffer.
        Task::Zero(buffer) => unsafe { driver.memset_zero(stream, buffer.location, buffer.bytes)? },
        // SAFETY: `submit` ordered this write of the buffer.
        Task::CopyIn(buffer, array) => unsafe {
            driver.copy_in(stream, buffer.location, array, 0, buffer.bytes)?;
        },
        // SAFETY: `submit` ordered this read of the buffer.
        Task::CopyOut(buffer, landing) => unsafe {
            driver.copy_out(stream, buffer.location, landing, 0, buffer.bytes)?;
        },
    }
    *begun = true;
    Ok(())
}
