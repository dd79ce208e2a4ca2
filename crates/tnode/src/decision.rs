//! A decision about a node, with its reason and the source location that took it.

use std::borrow::Cow;
use std::fmt;
use std::panic::Location;

use crate::mode::MemoryMode;

/// Why a decision was taken, in words, and its source location.
#[derive(Clone, PartialEq, Eq)]
pub struct Reason {
    text: Cow<'static, str>,
    location: &'static Location<'static>,
}

impl Reason {
    /// A reason located at the caller; the text completes "… because", as in `it is read before it is
    /// written`.
    #[track_caller]
    pub fn new(text: impl Into<Cow<'static, str>>) -> Reason {
        Reason { text: text.into(), location: Location::caller() }
    }

    /// The text, which completes "… because".
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The source location that took the decision.
    pub fn location(&self) -> &'static Location<'static> {
        self.location
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} [{}:{}]", self.text, self.location.file(), self.location.line())
    }
}

impl fmt::Debug for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// One decision in a node's chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The requested mode. The node's outcomes are the intersection of this mode with the earlier ones.
    pub mode: MemoryMode,
    /// Why the mode was requested.
    pub reason: Reason,
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} because {}", self.mode, self.reason)
    }
}
