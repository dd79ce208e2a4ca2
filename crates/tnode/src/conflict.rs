//! What is said when two decisions about one node exclude each other.
//!
//! A conflict names both decisions with their reasons and places, because the two were usually taken far apart. It says
//! whether a user asked for both, or parts of the system disagree.

use std::fmt;

use crate::decision::Decision;
use crate::mode::MemoryMode;

/// Two decisions about one node that cannot both hold.
#[derive(Clone, PartialEq, Eq)]
pub struct ModeConflict {
    pub(crate) kind: ConflictKind,
    pub(crate) present: Option<MemoryMode>,
    pub(crate) decided_by: Option<Decision>,
    pub(crate) requested: Decision,
}

impl ModeConflict {
    /// The decision that stands, the latest one that excludes the request where a single one does.
    pub fn present(&self) -> Option<&Decision> {
        self.decided_by.as_ref()
    }

    /// The decision that was refused.
    pub fn requested(&self) -> &Decision {
        &self.requested
    }

    /// Whether the user asked for two things that exclude each other, rather than two parts of the system.
    pub fn is_user_error(&self) -> bool {
        matches!(self.kind, ConflictKind::User | ConflictKind::MustBeShared)
    }
}

/// Which rule a refused decision breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConflictKind {
    /// Somebody asked for a node to be virtual and never virtual.
    User,
    /// Somebody asked for a node that no device changes to differ between streams.
    MustBeShared,
    /// A decided sharing was asked to be forgotten, or a node without a buffer to have an open one.
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
