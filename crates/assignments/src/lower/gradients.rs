//! Rejects gradients, which the crate `autodiff` replaces by accumulations before lowering.

use tnode::TensorNode;

use super::error::{LowerError, LowerErrorKind, Result};
use crate::{Assignments, Origin, ProgramStep};

/// Rejects the first gradient of the program.
pub(super) fn check_none(assignments: &Assignments) -> Result<()> {
    crate::all_steps(&assignments.steps).try_for_each(|step| match step {
        ProgramStep::Gradient { loss, origin, .. } => Err(unexpanded(loss, origin)),
        _ => Ok(()),
    })
}

/// The error for a gradient that no expansion has replaced.
pub(super) fn unexpanded(loss: &TensorNode, origin: &Origin) -> LowerError {
    LowerErrorKind::Gradient { loss: loss.name() }.at(origin.statement())
}
