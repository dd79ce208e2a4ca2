//! The memory mode of one node as a value: what is still possible, and the chain of decisions that led there.
//!
//! Passes work on copies of the state and commit them together at the end ([`commit_modes`](crate::commit_modes)), so
//! nothing here refers to a node. Invariant: the outcomes are the intersection of the modes in the chain, and each
//! decision in the chain took at least one outcome away.

use std::borrow::Cow;
use std::fmt;
use std::panic::Location;

use crate::dtype::DType;
use crate::mode::{Hosted, MemoryMode, Outcomes, Sharing};
use crate::sharing::{self, Refusal};

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

/// The memory mode of one node, with the decisions behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModeState {
    outcomes: Outcomes,
    mode: Option<MemoryMode>,
    chain: Vec<Decision>,
}

/// What a forcing predicate needs to know to settle an undecided mode.
#[derive(Clone, Debug)]
pub struct ForceCtx {
    /// Number of elements of the node, with padding.
    pub elems: usize,
    /// Its element type.
    pub dtype: DType,
    /// The largest array, in bytes, that may be local; 0 means any.
    pub stack_threshold_bytes: usize,
    /// Why the mode has to be settled now.
    pub reason: Reason,
}

/// Arrays of at most this many bytes may be local unless a setting says otherwise.
pub const DEFAULT_STACK_THRESHOLD_BYTES: usize = 16 * 1024;

impl Default for ModeState {
    fn default() -> ModeState {
        ModeState::undecided()
    }
}

impl ModeState {
    /// Everything is possible and nothing was decided.
    pub fn undecided() -> ModeState {
        ModeState { outcomes: Outcomes::ALL, mode: None, chain: Vec::new() }
    }

    /// The state after one first decision.
    pub fn decided(mode: MemoryMode, reason: Reason) -> ModeState {
        let mut state = ModeState::undecided();
        state.push(mode, reason);
        state
    }

    /// The named mode; `None` while nothing was decided.
    pub fn mode(&self) -> Option<MemoryMode> {
        self.mode
    }

    /// The outcomes still possible.
    pub fn outcomes(&self) -> Outcomes {
        self.outcomes
    }

    /// The decisions that took something away, oldest first.
    pub fn chain(&self) -> &[Decision] {
        &self.chain
    }

    /// Narrows the mode to what `mode` allows too.
    ///
    /// A request that takes nothing away leaves the chain alone.
    ///
    /// # Errors
    /// When nothing would be left; the state is then unchanged.
    pub fn refine(&mut self, mode: MemoryMode, reason: Reason) -> Result<(), ModeConflict> {
        let left = self.outcomes.intersection(mode.outcomes());
        if left.is_empty() {
            let kind = match (self.mode, mode) {
                (Some(MemoryMode::NeverVirtual), MemoryMode::Virtual)
                | (Some(MemoryMode::Virtual), MemoryMode::NeverVirtual) => ConflictKind::User,
                _ => ConflictKind::Inconsistent,
            };
            return Err(self.conflict(kind, mode, reason));
        }
        if left != self.outcomes {
            self.push(mode, reason);
        }
        Ok(())
    }

    /// Decides whether streams share the node's buffer, which also decides that there is one.
    ///
    /// # Errors
    /// When the mode has no buffer, sharing was decided otherwise, or a node that no device changes is asked to differ
    /// between streams; the state is then unchanged.
    pub fn refine_sharing(&mut self, sharing: Sharing, reason: Reason) -> Result<(), ModeConflict> {
        match sharing::updated(self.mode, sharing) {
            Ok(mode) if Some(mode) == self.mode => {}
            Ok(mode) => self.push(mode, reason),
            Err(refusal) => {
                let kind = match refusal {
                    Refusal::MustBeShared => ConflictKind::MustBeShared,
                    Refusal::Unsetting => ConflictKind::UnsettingSharing,
                    Refusal::Inconsistent => ConflictKind::Inconsistent,
                };
                return Err(self.conflict(kind, MemoryMode::OnDevice(sharing), reason));
            }
        }
        Ok(())
    }

    /// Settles an open mode as near to the computation as it allows: virtual; else local, if the array fits the stack
    /// threshold; else on the device, with sharing left open. Modes of hosted nodes and settled modes stay.
    pub fn default_to_most_local(
        &mut self,
        elems: usize,
        dtype: DType,
        stack_threshold_bytes: usize,
        reason: Reason,
    ) {
        use MemoryMode::{
            DeviceOnly, EffectivelyConstant, Local, Materialized, NeverVirtual, OnDevice, Virtual,
        };
        let fits = stack_threshold_bytes == 0 || elems <= stack_threshold_bytes / dtype.size_bytes();
        let most_local = match self.mode {
            None | Some(EffectivelyConstant) => Virtual,
            Some(NeverVirtual | DeviceOnly) if fits => Local,
            Some(NeverVirtual | DeviceOnly | Materialized) => OnDevice(Sharing::Unset),
            Some(Virtual | Local | OnDevice(_) | MemoryMode::Hosted(_)) => return,
        };
        self.push(most_local, reason);
    }

    fn push(&mut self, mode: MemoryMode, reason: Reason) {
        self.outcomes = self.outcomes.intersection(mode.outcomes());
        self.mode = MemoryMode::named(self.outcomes);
        self.chain.push(Decision { mode, reason });
    }

    fn conflict(&self, kind: ConflictKind, mode: MemoryMode, reason: Reason) -> ModeConflict {
        let excludes = |d: &&Decision| d.mode.outcomes().intersection(mode.outcomes()).is_empty();
        let present = self.chain.iter().rev().find(excludes).or(self.chain.last()).cloned();
        ModeConflict { kind, present: self.mode, decided_by: present, requested: Decision { mode, reason } }
    }

    /// Adds the decisions of `other` that this state does not start with.
    ///
    /// # Errors
    /// When one of them conflicts; the state is then unchanged.
    pub fn merge(&mut self, other: &ModeState) -> Result<(), ModeConflict> {
        let common = self.chain.iter().zip(&other.chain).take_while(|(a, b)| a == b).count();
        let mut merged = self.clone();
        for decision in &other.chain[common..] {
            merged.refine(decision.mode, decision.reason.clone())?;
        }
        *self = merged;
        Ok(())
    }

    /// The decisions in words, one line each, under a line that names the node and its mode.
    pub fn explain(&self, name: &str) -> String {
        let Some(mode) = self.mode else {
            return format!("{name}: memory mode undecided\n");
        };
        let mut text = format!("{name}: {mode}\n");
        let mut so_far = ModeState::undecided();
        for (step, decision) in self.chain.iter().enumerate() {
            so_far.push(decision.mode, decision.reason.clone());
            text += &format!("  {}. {decision}", step + 1);
            match so_far.mode {
                Some(left) if left != decision.mode => text += &format!("; leaves {left}\n"),
                _ => text += "\n",
            }
        }
        text
    }

    /// A short code for tables and headers; `unknown` while nothing was decided.
    pub fn short_code(&self) -> &'static str {
        self.mode.map_or("unknown", MemoryMode::short_code)
    }
}

/// The forcing predicates, which settle what is open before they answer.
impl ModeState {
    fn force(&mut self, ctx: &ForceCtx) {
        self.default_to_most_local(ctx.elems, ctx.dtype, ctx.stack_threshold_bytes, ctx.reason.clone());
    }

    /// Whether the node is inlined; an undecided or effectively constant node becomes so.
    pub fn is_virtual_force(&mut self, ctx: &ForceCtx) -> bool {
        if matches!(self.mode, None | Some(MemoryMode::EffectivelyConstant)) {
            self.force(ctx);
        }
        self.known_virtual()
    }

    /// Whether the node has a host copy; an open mode is settled, and then it has none.
    pub fn is_hosted_force(&mut self, ctx: &ForceCtx) -> bool {
        if !self.outcomes_are_hosted() && !self.outcomes_are_unhosted() {
            self.force(ctx);
        }
        self.outcomes_are_hosted()
    }

    fn outcomes_are_hosted(&self) -> bool {
        matches!(self.mode, Some(MemoryMode::Hosted(_)))
    }

    fn outcomes_are_unhosted(&self) -> bool {
        use MemoryMode::{DeviceOnly, Local, OnDevice, Virtual};
        matches!(self.mode, Some(Virtual | Local | DeviceOnly | OnDevice(_)))
    }

    /// Whether the node has memory that outlives a run of a routine.
    ///
    /// # Errors
    /// When nothing was decided: whether memory is needed must be known by then.
    pub fn is_materialized_force(&mut self, ctx: &ForceCtx) -> Result<bool, ModeUndecided> {
        use MemoryMode::{DeviceOnly, EffectivelyConstant, NeverVirtual};
        match self.mode {
            None => return Err(ModeUndecided { reason: ctx.reason.clone() }),
            Some(EffectivelyConstant | NeverVirtual | DeviceOnly) => self.force(ctx),
            Some(_) => {}
        }
        Ok(!self.known_not_materialized())
    }

    /// Whether a context must hold a buffer for the node; `use_host_memory` says that the device can read the host copy
    /// in place, which spares the buffer of nodes that no device changes.
    pub fn is_in_context_force(&mut self, use_host_memory: bool, ctx: &ForceCtx) -> bool {
        use MemoryMode::{Hosted as HostedMode, Local, Materialized, OnDevice, Virtual};
        let settled = matches!(self.mode, Some(Virtual | Local | OnDevice(_) | HostedMode(_)));
        let kept_open = self.mode == Some(Materialized) && !use_host_memory;
        if !settled && !kept_open {
            self.force(ctx);
        }
        match self.mode {
            Some(HostedMode(Hosted::Constant | Hosted::Volatile)) => !use_host_memory,
            Some(OnDevice(_) | HostedMode(_) | Materialized) => true,
            _ => false,
        }
    }
}

/// The predicates that settle nothing; each says what is certain already.
impl ModeState {
    /// Virtual or local.
    pub fn known_not_materialized(&self) -> bool {
        matches!(self.mode, Some(MemoryMode::Virtual | MemoryMode::Local))
    }

    /// Never changes after initialisation.
    pub fn known_constant(&self) -> bool {
        use MemoryMode::{EffectivelyConstant, Hosted as HostedMode};
        matches!(self.mode, Some(EffectivelyConstant | HostedMode(Hosted::Constant)))
    }

    /// The host changes it at any time.
    pub fn known_volatile(&self) -> bool {
        self.mode == Some(MemoryMode::Hosted(Hosted::Volatile))
    }

    /// Has some memory.
    pub fn known_non_virtual(&self) -> bool {
        !matches!(self.mode, None | Some(MemoryMode::Virtual | MemoryMode::EffectivelyConstant))
    }

    /// Is inlined.
    pub fn known_virtual(&self) -> bool {
        self.mode == Some(MemoryMode::Virtual)
    }

    /// Cannot be a parameter that training changes and the host reads.
    pub fn known_not_param(&self) -> bool {
        use MemoryMode::{DeviceOnly, EffectivelyConstant, Hosted as HostedMode, Local, OnDevice, Virtual};
        matches!(
            self.mode,
            Some(Virtual | Local | EffectivelyConstant | DeviceOnly | OnDevice(_))
                | Some(HostedMode(Hosted::Constant | Hosted::Volatile))
        )
    }

    /// All streams of a device use one buffer.
    pub fn known_shared_cross_streams(&self) -> bool {
        use MemoryMode::{Hosted as HostedMode, OnDevice};
        matches!(
            self.mode,
            Some(OnDevice(Sharing::Shared))
                | Some(HostedMode(
                    Hosted::Constant | Hosted::Volatile | Hosted::ChangedOnDevices(Sharing::Shared)
                ))
        )
    }

    /// Each stream has a buffer of its own.
    pub fn known_non_cross_stream(&self) -> bool {
        use MemoryMode::{Hosted as HostedMode, OnDevice};
        matches!(
            self.mode,
            Some(OnDevice(Sharing::PerStream) | HostedMode(Hosted::ChangedOnDevices(Sharing::PerStream)))
        )
    }

    /// May still turn out to have one buffer for all streams of a device.
    pub fn potentially_cross_stream(&self) -> bool {
        !self.known_not_materialized() && !self.known_non_cross_stream()
    }

    /// Too little was decided to say where the values live.
    pub fn is_unspecified(&self) -> bool {
        use MemoryMode::{EffectivelyConstant, Hosted as HostedMode, NeverVirtual};
        matches!(self.mode, None | Some(NeverVirtual | EffectivelyConstant | HostedMode(Hosted::Unset)))
    }
}

/// Which rule a refused decision breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConflictKind {
    /// Somebody asked for a node to be virtual and never virtual.
    User,
    /// Somebody asked for a node that no device changes to differ between streams.
    MustBeShared,
    /// A decided sharing was asked to be forgotten, or a node without a buffer to have an open one.
    UnsettingSharing,
    /// No outcome satisfies both decisions.
    Inconsistent,
}

/// Two decisions about one node that cannot both hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModeConflict {
    kind: ConflictKind,
    present: Option<MemoryMode>,
    decided_by: Option<Decision>,
    requested: Decision,
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

/// A mode was needed before anything was decided about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("memory mode is undecided, but needed because {reason}")]
pub struct ModeUndecided {
    /// Why it was needed.
    pub reason: Reason,
}
