//! Memory modes: where the values of a tensor node live.
//!
//! A mode is a request that may leave something open, so each of the sixteen named modes stands for a set of
//! the eight final [`Outcomes`], and refining one mode by another is the intersection of their sets. The sets
//! are closed under intersection: every non-empty intersection of named modes is a named mode again, and no
//! two names share a set, so a state always has exactly one name (or none, while nothing was decided).
//!
//! Source: the modes are those of OCANNL's tensor nodes. Its update rules are the same intersection, except
//! for seven of the 256 ordered pairs. OCANNL accepts the mode volatile for a node that devices change (one
//! pair), although the two modes exclude each other, and it rejects the mode hosted for a hosted node whose
//! kind is decided (six pairs). Here the sets decide: the first pair is a conflict, and the other six
//! requests change nothing. `tests/mode_table.txt` lists every pair.
//!
//! OCANNL's second epoch (0.7 on) keeps no host arrays in nodes and has no hosted modes. Its table is the
//! part of this one in which nodes are undecided, virtual, local, on the device or in one of the open modes,
//! with these rows changed:
//!
//! | mode | asked for | second epoch | here |
//! |---|---|---|---|
//! | `never_virtual`, `materialized` | `effectively_constant` | `materialized` | `hosted_constant` |
//! | `effectively_constant` | `never_virtual`, `materialized` | `materialized` | `hosted_constant` |
//! | `effectively_constant` | `on_device` | `on_device` | a conflict |
//! | `device_only` | `materialized` | `on_device` | `on_device` |
//! | `materialized` | `device_only` | `on_device` | `on_device` |
//! | `on_device` | `device_only`, `materialized` | stays | stays |
//! | `virtual` | `effectively_constant` | stays | stays |
//!
//! In the second epoch an effectively constant node that is not virtual is on the device; here it is hosted,
//! so that its values can be read in place. A user of the second epoch's modes writes `on_device` for nodes
//! that are constant and have memory. The test `the_second_epoch_is_as_documented` computes the last column.

use std::fmt;
use std::str::FromStr;

/// Whether the streams of one device share one buffer of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Sharing {
    /// Not decided yet.
    Unset,
    /// Each stream has a buffer of its own.
    PerStream,
    /// All streams of a device use one buffer.
    Shared,
}

/// Who may change the host copy of a hosted node, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Hosted {
    /// Not decided yet.
    Unset,
    /// Constant after initialization.
    Constant,
    /// Not constant: either of the next two.
    Nonconstant,
    /// Devices change it; the host copy changes by an explicit transfer only.
    ChangedOnDevices(Sharing),
    /// The host changes it at any time; devices only read.
    Volatile,
}

/// A possibly open decision about where a node's values live.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MemoryMode {
    /// Either inlined or a hosted constant.
    EffectivelyConstant,
    /// Inlined at every use, without memory.
    Virtual,
    /// Has some memory.
    NeverVirtual,
    /// Lives for one run of one routine.
    Local,
    /// Local or on the device.
    DeviceOnly,
    /// Kept on the device from run to run, with no host copy.
    OnDevice(Sharing),
    /// On the device or hosted.
    Materialized,
    /// Kept on the device with a host copy.
    Hosted(Hosted),
}

use Hosted::{ChangedOnDevices, Constant, Nonconstant, Volatile};
use MemoryMode::{
    DeviceOnly, EffectivelyConstant, Hosted as HostedMode, Local, Materialized, NeverVirtual, OnDevice,
    Virtual,
};

impl MemoryMode {
    /// Every named mode, in declaration order.
    pub const ALL: [MemoryMode; 16] = [
        EffectivelyConstant,
        Virtual,
        NeverVirtual,
        Local,
        DeviceOnly,
        OnDevice(Sharing::Unset),
        OnDevice(Sharing::PerStream),
        OnDevice(Sharing::Shared),
        Materialized,
        HostedMode(Hosted::Unset),
        HostedMode(Constant),
        HostedMode(Nonconstant),
        HostedMode(ChangedOnDevices(Sharing::Unset)),
        HostedMode(ChangedOnDevices(Sharing::PerStream)),
        HostedMode(ChangedOnDevices(Sharing::Shared)),
        HostedMode(Volatile),
    ];

    /// The outcomes this mode leaves possible.
    pub const fn outcomes(self) -> Outcomes {
        use Outcomes as O;
        match self {
            EffectivelyConstant => O::VIRTUAL.union(O::HOSTED_CONSTANT),
            Virtual => O::VIRTUAL,
            NeverVirtual => O::LOCAL.union(Materialized.outcomes()),
            Local => O::LOCAL,
            DeviceOnly => O::LOCAL.union(OnDevice(Sharing::Unset).outcomes()),
            OnDevice(Sharing::Unset) => O::ON_DEVICE_PER_STREAM.union(O::ON_DEVICE_SHARED),
            OnDevice(Sharing::PerStream) => O::ON_DEVICE_PER_STREAM,
            OnDevice(Sharing::Shared) => O::ON_DEVICE_SHARED,
            Materialized => OnDevice(Sharing::Unset).outcomes().union(HostedMode(Hosted::Unset).outcomes()),
            HostedMode(Hosted::Unset) => O::HOSTED_CONSTANT.union(HostedMode(Nonconstant).outcomes()),
            HostedMode(Constant) => O::HOSTED_CONSTANT,
            HostedMode(Nonconstant) => {
                O::HOSTED_VOLATILE.union(HostedMode(ChangedOnDevices(Sharing::Unset)).outcomes())
            }
            HostedMode(ChangedOnDevices(Sharing::Unset)) => {
                O::HOSTED_CHANGED_PER_STREAM.union(O::HOSTED_CHANGED_SHARED)
            }
            HostedMode(ChangedOnDevices(Sharing::PerStream)) => O::HOSTED_CHANGED_PER_STREAM,
            HostedMode(ChangedOnDevices(Sharing::Shared)) => O::HOSTED_CHANGED_SHARED,
            HostedMode(Volatile) => O::HOSTED_VOLATILE,
        }
    }

    /// The mode with exactly these outcomes; `None` for a set without a name, such as the set of all eight.
    pub fn named(outcomes: Outcomes) -> Option<MemoryMode> {
        MemoryMode::ALL.into_iter().find(|mode| mode.outcomes() == outcomes)
    }

    /// The text token, the same as [`Display`](fmt::Display) prints.
    pub const fn token(self) -> &'static str {
        self.names().0
    }

    /// A code of at most 14 characters for tables and headers.
    pub const fn short_code(self) -> &'static str {
        self.names().1
    }

    /// The token and the code.
    const fn names(self) -> (&'static str, &'static str) {
        match self {
            EffectivelyConstant => ("effectively_constant", "Const"),
            Virtual => ("virtual", "Virt"),
            NeverVirtual => ("never_virtual", "Non-virt"),
            Local => ("local", "Local"),
            DeviceOnly => ("device_only", "Dev"),
            OnDevice(Sharing::Unset) => ("on_device", "On-dev"),
            OnDevice(Sharing::PerStream) => ("on_device_per_stream", "Dev-stream"),
            OnDevice(Sharing::Shared) => ("on_device_shared", "Dev-shared"),
            Materialized => ("materialized", "Material"),
            HostedMode(Hosted::Unset) => ("hosted", "Host-unset"),
            HostedMode(Constant) => ("hosted_constant", "Host-const"),
            HostedMode(Nonconstant) => ("hosted_nonconstant", "Host-non-const"),
            HostedMode(ChangedOnDevices(Sharing::Unset)) => ("hosted_changed_on_devices", "Host&dev"),
            HostedMode(ChangedOnDevices(Sharing::PerStream)) => {
                ("hosted_changed_on_devices_per_stream", "Host&stream")
            }
            HostedMode(ChangedOnDevices(Sharing::Shared)) => {
                ("hosted_changed_on_devices_shared", "Host&shared")
            }
            HostedMode(Volatile) => ("hosted_volatile", "Hosted"),
        }
    }
}

impl fmt::Display for MemoryMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.token())
    }
}

/// The error for a text that is not a memory mode.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no memory mode; expected one of {list}", list = MemoryMode::ALL.map(MemoryMode::token).join(", "))]
pub struct UnknownMemoryMode(pub String);

impl FromStr for MemoryMode {
    type Err = UnknownMemoryMode;

    fn from_str(text: &str) -> Result<MemoryMode, UnknownMemoryMode> {
        let found = MemoryMode::ALL.into_iter().find(|mode| mode.token() == text);
        found.ok_or_else(|| UnknownMemoryMode(text.to_owned()))
    }
}

/// A set of final outcomes; the constants are the eight sets of one outcome.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Outcomes(u8);

impl Outcomes {
    /// Inlined at every use.
    pub const VIRTUAL: Outcomes = Outcomes(1 << 0);
    /// Memory for one run of one routine.
    pub const LOCAL: Outcomes = Outcomes(1 << 1);
    /// On the device, a buffer per stream.
    pub const ON_DEVICE_PER_STREAM: Outcomes = Outcomes(1 << 2);
    /// On the device, one buffer for all streams.
    pub const ON_DEVICE_SHARED: Outcomes = Outcomes(1 << 3);
    /// With a host copy that never changes.
    pub const HOSTED_CONSTANT: Outcomes = Outcomes(1 << 4);
    /// With a host copy that only the host changes.
    pub const HOSTED_VOLATILE: Outcomes = Outcomes(1 << 5);
    /// With a host copy, changed on devices, a buffer per stream.
    pub const HOSTED_CHANGED_PER_STREAM: Outcomes = Outcomes(1 << 6);
    /// With a host copy, changed on devices, one buffer for all streams.
    pub const HOSTED_CHANGED_SHARED: Outcomes = Outcomes(1 << 7);
    /// All eight outcomes: nothing is decided.
    pub const ALL: Outcomes = Outcomes(u8::MAX);

    /// The outcomes in either set.
    pub const fn union(self, other: Outcomes) -> Outcomes {
        Outcomes(self.0 | other.0)
    }

    /// The outcomes in both sets.
    pub const fn intersection(self, other: Outcomes) -> Outcomes {
        Outcomes(self.0 & other.0)
    }

    /// Whether every outcome of `other` is in this set.
    pub const fn contains(self, other: Outcomes) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether no outcome is left.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The number of outcomes left.
    pub const fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// The name of each outcome in the set, in a fixed order.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        let each = (0..u8::BITS).map(|bit| Outcomes(1 << bit)).filter(move |one| self.contains(*one));
        each.filter_map(MemoryMode::named).map(MemoryMode::token)
    }
}

impl fmt::Debug for Outcomes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.names()).finish()
    }
}
