//! A decision about a node, with the reason for it and the place in the source that took it.

use std::borrow::Cow;
use std::fmt;
use std::panic::Location;

use crate::mode::MemoryMode;

/// Why a decision was taken, in words, and where in the source.
#[derive(Clone, PartialEq, Eq)]
pub struct Reason {
    text: Cow<'static, str>,
    location: &'static Location<'static>,
}

impl Reason {
    /// A reason located at the caller; the text completes "… because" (`it is read before it is written`).
    #[track_caller]
    pub fn new(text: impl Into<Cow<'static, str>>) -> Reason {
        Reason { text: text.into(), location: Location::caller() }
    }

    /// The reason in words.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The line of source that decided.
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

/// One step of a node's chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The mode that was asked for; what it left is the intersection with the steps before.
    pub mode: MemoryMode,
    /// Why.
    pub reason: Reason,
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} because {}", self.mode, self.reason)
    }
}
