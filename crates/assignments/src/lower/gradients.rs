//! Rejects gradients, which the crate `autodiff` replaces by accumulations before lowering.

use tnode::TensorNode;

use super::error::{LowerError, LowerErrorKind, Result};
use crate::{Assignments, Origin, ProgramStep};

/// Rejects the first gradient of the program.
pub(super) fn check_none(assignments: &Assignments) -> Result<()> {
    let mut result = Ok(());
    crate::each_step(&assignments.steps, &mut |step| {
        if let (ProgramStep::Gradient { loss, origin, .. }, Ok(())) = (step, &result) {
            result = Err(unexpanded(loss, origin));
        }
    });
    result
}

/// The error for a gradient that no expansion has replaced.
pub(super) fn unexpanded(loss: &TensorNode, origin: &Origin) -> LowerError {
    LowerErrorKind::Gradient { loss: loss.name() }.at(origin.statement())
}
