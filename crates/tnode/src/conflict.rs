//! The error when two decisions about one node exclude each other.
//!
//! A conflict names both decisions with their reasons and source locations, because the two were usually
//! taken far apart. It tells whether the user asked for both, or two parts of the system disagree.

use std::fmt;

use crate::decision::Decision;
use crate::mode::MemoryMode;

/// Two decisions about one node that exclude each other.
#[derive(Clone, PartialEq, Eq)]
pub struct ModeConflict {
    pub(crate) kind: ConflictKind,
    pub(crate) present: Option<MemoryMode>,
    pub(crate) decided_by: Option<Decision>,
    pub(crate) requested: Decision,
}

impl ModeConflict {
    /// The decision that stands: the latest one that excludes the request, if a single one does.
    pub fn present(&self) -> Option<&Decision> {
        self.decided_by.as_ref()
    }

    /// The decision that was rejected.
    pub fn requested(&self) -> &Decision {
        &self.requested
    }

    /// Whether both decisions are requests of the user. Otherwise two parts of the system disagree.
    pub fn is_user_error(&self) -> bool {
        matches!(self.kind, ConflictKind::User | ConflictKind::MustBeShared)
    }
}

/// The rule that a rejected decision breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConflictKind {
    /// A node was requested to be virtual and never virtual.
    User,
    /// Separate buffers for the streams were requested for a node that no device changes.
    MustBeShared,
    /// The request was to make a decided sharing undecided, or to leave the sharing of a node without a
    /// buffer undecided.
    UnsettingSharing,
    /// No outcome satisfies both decisions.
    Inconsistent,
}

impl fmt::Display for ModeConflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.kind {
            ConflictKind::User if self.requested.mode == MemoryMode::Virtual => "it cannot be virtual",
            ConflictKind::User => "it is already virtual",
            ConflictKind::MustBeShared => "a hosted node not changed on devices is shared by all streams",
            ConflictKind::UnsettingSharing => "sharing cannot be made undecided here",
            ConflictKind::Inconsistent => "the two exclude each other",
        };
        let present = self.present.map_or("undecided", MemoryMode::token);
        write!(f, "is {present}")?;
        if let Some(decision) = &self.decided_by {
            write!(f, " ({decision})")?;
        }
        write!(f, " and is asked to be {}: {what}", self.requested)
    }
}

impl std::error::Error for ModeConflict {}
