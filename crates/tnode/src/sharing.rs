//! The table of sharing updates.
//!
//! Deciding whether streams share a buffer also decides that there is a buffer, so this is a table of its own and not
//! an intersection: `device_only` with any sharing, even [`Sharing::Unset`], becomes `on_device`. The most local default
//! leaves sharing open; linking decides it.

use crate::mode::{Hosted, MemoryMode, Sharing};

/// Why a sharing update is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// A hosted node that no device changes is the same for all streams.
    MustBeShared,
    /// A decided sharing, or a node without context memory, cannot go back to undecided.
    Unsetting,
    /// The mode has no room for this sharing.
    Inconsistent,
}

/// The mode after asking for `requested` of a node in mode `old`; an unchanged mode is the answer "keep".
pub(crate) fn updated(old: Option<MemoryMode>, requested: Sharing) -> Result<MemoryMode, Refusal> {
    use Hosted::{ChangedOnDevices, Constant, Nonconstant, Volatile};
    use MemoryMode::{DeviceOnly, Hosted as HostedMode, Materialized, OnDevice};
    match (old, requested) {
        (None | Some(OnDevice(Sharing::Unset) | DeviceOnly | Materialized), s) => Ok(OnDevice(s)),
        (Some(OnDevice(old)), s) if old == s => Ok(OnDevice(s)),
        (Some(HostedMode(Constant | Volatile)), Sharing::PerStream) => Err(Refusal::MustBeShared),
        (Some(mode @ HostedMode(Constant | Volatile)), Sharing::Shared) => Ok(mode),
        (Some(HostedMode(Nonconstant | Hosted::Unset | ChangedOnDevices(Sharing::Unset))), s) => {
            Ok(HostedMode(ChangedOnDevices(s)))
        }
        (Some(HostedMode(ChangedOnDevices(old))), s) if old == s => Ok(HostedMode(ChangedOnDevices(s))),
        (_, Sharing::Unset) => Err(Refusal::Unsetting),
        _ => Err(Refusal::Inconsistent),
    }
}
