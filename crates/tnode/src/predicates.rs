//! Questions about a memory mode.
//!
//! `known_…` predicates return whether a fact is certain, and settle nothing. `is_…_force` predicates first
//! settle an open mode, so that the values live as near to the computation as possible. Both are defined on
//! the named modes; the truth tables are committed with the tests.

use crate::decision::Reason;
use crate::dtype::DType;
use crate::mode::{Hosted, MemoryMode, Sharing};
use crate::state::ModeState;

/// The facts that a forcing predicate needs to settle an undecided mode.
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

/// Forcing predicates: settle an open mode, then answer.
impl ModeState {
    fn force(&mut self, ctx: &ForceCtx) {
        self.default_to_most_local(ctx.elems, ctx.dtype, ctx.stack_threshold_bytes, ctx.reason.clone());
    }

    /// Whether the node is inlined; an undecided or effectively constant node becomes virtual.
    pub fn is_virtual_force(&mut self, ctx: &ForceCtx) -> bool {
        if matches!(self.mode(), None | Some(MemoryMode::EffectivelyConstant)) {
            self.force(ctx);
        }
        self.known_virtual()
    }

    /// Whether the node has a host copy; an open mode is settled to one without a host copy.
    pub fn is_hosted_force(&mut self, ctx: &ForceCtx) -> bool {
        if !self.outcomes_are_hosted() && !self.outcomes_are_unhosted() {
            self.force(ctx);
        }
        self.outcomes_are_hosted()
    }

    fn outcomes_are_hosted(&self) -> bool {
        matches!(self.mode(), Some(MemoryMode::Hosted(_)))
    }

    fn outcomes_are_unhosted(&self) -> bool {
        use MemoryMode::{DeviceOnly, Local, OnDevice, Virtual};
        matches!(self.mode(), Some(Virtual | Local | DeviceOnly | OnDevice(_)))
    }

    /// Whether the node has memory that outlives a run of a routine.
    ///
    /// # Errors
    /// When nothing was decided, because an earlier decision must say whether the node needs memory.
    pub fn is_materialized_force(&mut self, ctx: &ForceCtx) -> Result<bool, ModeUndecided> {
        use MemoryMode::{DeviceOnly, EffectivelyConstant, NeverVirtual};
        match self.mode() {
            None => return Err(ModeUndecided { reason: ctx.reason.clone() }),
            Some(EffectivelyConstant | NeverVirtual | DeviceOnly) => self.force(ctx),
            Some(_) => {}
        }
        Ok(!self.known_not_materialized())
    }

    /// Whether a context needs a buffer for the node. With `use_host_memory`, the device can read the host
    /// copy in place, so nodes that no device changes need none.
    pub fn is_in_context_force(&mut self, use_host_memory: bool, ctx: &ForceCtx) -> bool {
        use MemoryMode::{Hosted as HostedMode, Local, Materialized, OnDevice, Virtual};
        let settled = matches!(self.mode(), Some(Virtual | Local | OnDevice(_) | HostedMode(_)));
        let kept_open = self.mode() == Some(Materialized) && !use_host_memory;
        if !settled && !kept_open {
            self.force(ctx);
        }
        match self.mode() {
            Some(HostedMode(Hosted::Constant | Hosted::Volatile)) => !use_host_memory,
            Some(OnDevice(_) | HostedMode(_) | Materialized) => true,
            _ => false,
        }
    }
}

/// Predicates that settle nothing: whether a fact is certain.
impl ModeState {
    /// Whether the node is certainly virtual or local.
    pub fn known_not_materialized(&self) -> bool {
        matches!(self.mode(), Some(MemoryMode::Virtual | MemoryMode::Local))
    }

    /// Whether the values certainly never change after initialization.
    pub fn known_constant(&self) -> bool {
        use MemoryMode::{EffectivelyConstant, Hosted as HostedMode};
        matches!(self.mode(), Some(EffectivelyConstant | HostedMode(Hosted::Constant)))
    }

    /// Whether the host may certainly change the values at any time.
    pub fn known_volatile(&self) -> bool {
        self.mode() == Some(MemoryMode::Hosted(Hosted::Volatile))
    }

    /// Whether the node certainly has memory.
    pub fn known_non_virtual(&self) -> bool {
        !matches!(self.mode(), None | Some(MemoryMode::Virtual | MemoryMode::EffectivelyConstant))
    }

    /// Whether the node is certainly inlined.
    pub fn known_virtual(&self) -> bool {
        self.mode() == Some(MemoryMode::Virtual)
    }

    /// Whether the node certainly is no parameter that training changes and the host reads.
    pub fn known_not_param(&self) -> bool {
        use MemoryMode::{DeviceOnly, EffectivelyConstant, Hosted as HostedMode, Local, OnDevice, Virtual};
        matches!(
            self.mode(),
            Some(Virtual | Local | EffectivelyConstant | DeviceOnly | OnDevice(_))
                | Some(HostedMode(Hosted::Constant | Hosted::Volatile))
        )
    }

    /// Whether all streams of a device certainly use one buffer.
    pub fn known_shared_cross_streams(&self) -> bool {
        use MemoryMode::{Hosted as HostedMode, OnDevice};
        matches!(
            self.mode(),
            Some(OnDevice(Sharing::Shared))
                | Some(HostedMode(
                    Hosted::Constant | Hosted::Volatile | Hosted::ChangedOnDevices(Sharing::Shared)
                ))
        )
    }

    /// Whether each stream certainly has a buffer of its own.
    pub fn known_non_cross_stream(&self) -> bool {
        use MemoryMode::{Hosted as HostedMode, OnDevice};
        matches!(
            self.mode(),
            Some(OnDevice(Sharing::PerStream) | HostedMode(Hosted::ChangedOnDevices(Sharing::PerStream)))
        )
    }

    /// Whether the node may still turn out to have one buffer for all streams of a device.
    pub fn potentially_cross_stream(&self) -> bool {
        !self.known_not_materialized() && !self.known_non_cross_stream()
    }

    /// Whether too little is decided to tell where the values live.
    pub fn is_unspecified(&self) -> bool {
        use MemoryMode::{EffectivelyConstant, Hosted as HostedMode, NeverVirtual};
        matches!(self.mode(), None | Some(NeverVirtual | EffectivelyConstant | HostedMode(Hosted::Unset)))
    }
}

/// The error when a mode is needed before anything is decided about it.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("memory mode is undecided, but needed because {reason}")]
pub struct ModeUndecided {
    /// Why the mode was needed.
    pub reason: Reason,
}
