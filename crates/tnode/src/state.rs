//! The memory mode of one node as a value: the outcomes that are still possible, and the chain of decisions
//! behind them.
//!
//! Passes work on copies of the state and commit them together at the end
//! ([`commit_modes`](crate::commit_modes)), so nothing here refers to a node. Invariant: the outcomes are the
//! intersection of the modes in the chain, and each decision in the chain took at least one outcome away.

use crate::conflict::{ConflictKind, ModeConflict};
use crate::decision::{Decision, Reason};
use crate::dtype::DType;
use crate::mode::{MemoryMode, Outcomes, Sharing};
use crate::sharing::{self, SharingConflict};

/// The memory mode of one node, with the decisions behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModeState {
    outcomes: Outcomes,
    mode: Option<MemoryMode>,
    chain: Vec<Decision>,
}

/// The default limit in bytes for local arrays on the stack of their kernel.
pub const DEFAULT_STACK_THRESHOLD_BYTES: usize = 16 * 1024;

impl Default for ModeState {
    fn default() -> ModeState {
        ModeState::undecided()
    }
}

impl ModeState {
    /// The state of a new node: every outcome is possible.
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

    /// The outcomes that no decision has excluded.
    pub fn outcomes(&self) -> Outcomes {
        self.outcomes
    }

    /// The decisions that excluded an outcome, oldest first.
    pub fn chain(&self) -> &[Decision] {
        &self.chain
    }

    /// Narrows the mode to the outcomes that `mode` allows too.
    ///
    /// A request that excludes no outcome leaves the chain unchanged.
    ///
    /// # Errors
    /// When no outcome would remain; the state is then unchanged.
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
    /// When the mode has no buffer, when sharing was decided otherwise, or when streams would have separate
    /// buffers of a node that no device changes. The state is then unchanged.
    pub fn refine_sharing(&mut self, sharing: Sharing, reason: Reason) -> Result<(), ModeConflict> {
        match sharing::updated(self.mode, sharing) {
            Ok(mode) if Some(mode) == self.mode => {}
            Ok(mode) => self.push(mode, reason),
            Err(conflict) => {
                let kind = match conflict {
                    SharingConflict::MustBeShared => ConflictKind::MustBeShared,
                    SharingConflict::Unsetting => ConflictKind::UnsettingSharing,
                    SharingConflict::Inconsistent => ConflictKind::Inconsistent,
                };
                return Err(self.conflict(kind, MemoryMode::OnDevice(sharing), reason));
            }
        }
        Ok(())
    }

    /// Settles an open mode as near to the computation as possible: virtual; else local, if the array fits
    /// the stack threshold; else on the device, with sharing left open. Modes of hosted nodes and settled
    /// modes do not change.
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

    /// Adds the decisions of `other`, except the ones with which this state's chain begins already.
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
