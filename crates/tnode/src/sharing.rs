//! The table of sharing updates.
//!
//! Deciding whether streams share a buffer also decides that there is a buffer. So the result is not an
//! intersection of outcomes but taken from a table: `device_only` with any sharing, even [`Sharing::Unset`],
//! becomes `on_device`. The most local default leaves sharing open; linking decides it.

use crate::mode::{Hosted, MemoryMode, Sharing};

/// Why a sharing update is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SharingConflict {
    /// A hosted node that no device changes is the same for all streams.
    MustBeShared,
    /// A decided sharing, or a node without context memory, cannot go back to undecided.
    Unsetting,
    /// The mode excludes this sharing.
    Inconsistent,
}

/// The mode after a request for `requested` in mode `old`. The same mode means that nothing changes.
pub(crate) fn updated(old: Option<MemoryMode>, requested: Sharing) -> Result<MemoryMode, SharingConflict> {
    use Hosted::{ChangedOnDevices, Constant, Nonconstant, Volatile};
    use MemoryMode::{DeviceOnly, Hosted as HostedMode, Materialized, OnDevice};
    match (old, requested) {
        (None | Some(OnDevice(Sharing::Unset) | DeviceOnly | Materialized), s) => Ok(OnDevice(s)),
        (Some(OnDevice(old)), s) if old == s => Ok(OnDevice(s)),
        (Some(HostedMode(Constant | Volatile)), Sharing::PerStream) => Err(SharingConflict::MustBeShared),
        (Some(mode @ HostedMode(Constant | Volatile)), Sharing::Shared) => Ok(mode),
        (Some(HostedMode(Nonconstant | Hosted::Unset | ChangedOnDevices(Sharing::Unset))), s) => {
            Ok(HostedMode(ChangedOnDevices(s)))
        }
        (Some(HostedMode(ChangedOnDevices(old))), s) if old == s => Ok(HostedMode(ChangedOnDevices(s))),
        (_, Sharing::Unset) => Err(SharingConflict::Unsetting),
        _ => Err(SharingConflict::Inconsistent),
    }
}
