//! Backends as peers: the same assignments, compiled by another backend, in turns with the measured one.

use anyhow::{Context as _, Result, ensure};
use arrayjit::{Backend, HostArray, Settings};

use crate::{case::Case, check, ours::LinkedCase, peers};

/// Opens the backends among the names of peers, with the settings of the measured backend.
///
/// # Errors
///
/// A name that is neither that of a peer nor that of a backend, and a backend that does not open.
pub(crate) fn open(names: &[String], settings: &Settings) -> Result<Vec<Backend>> {
    let rivals = names.iter().filter(|name| !peers::is_peer(name));
    let open = |name: &String| -> Result<Backend> {
        ensure!(
            *name != settings.backend,
            "`{name}` is the measured backend; a peer is another one, or one of {}",
            peers::NAMES.join(", ")
        );
        Backend::open_with(name, settings).with_context(|| {
            format!("no peer is named `{name}` ({}, cublas), nor is a backend", peers::NAMES.join(", "))
        })
    };
    rivals.map(open).collect()
}

/// A case on another backend, after its first run, and the time by which that run exceeds a later one, in
/// milliseconds.
///
/// # Errors
///
/// An error of the backend, and a wrong result.
pub(crate) fn prepare<'a>(
    rival: &Backend,
    case: &'a Case,
    inputs: &[Option<HostArray>],
) -> Result<(LinkedCase<'a>, f64)> {
    let linked = LinkedCase::prepare(rival, case, inputs)?;
    let first = linked.run_once()?;
    check::check(rival, case, &linked.outputs()?, inputs)?;
    let again = linked.run_again()?;
    Ok((linked, first.saturating_sub(again).as_secs_f64() * 1e3))
}
