//! Forgets how an input wants to be run: a schedule of its own takes the place of one that the routine came with.

use lowered_ir::ir::{LoopKind, Routine, Space, Stmt};

/// Makes every loop serial, and gives arrays and shared locals to one thread.
pub(crate) fn plain(routine: &mut Routine) {
    routine.body.iter_mut().for_each(forget);
}

fn forget(stmt: &mut Stmt) {
    match stmt {
        Stmt::For { kind, body, .. } => {
            *kind = LoopKind::Serial;
            body.iter_mut().for_each(forget);
        }
        // Serial loops may index no register.
        Stmt::Declare { dims, space, .. } => {
            *space = if dims.is_empty() { Space::Register } else { Space::Stack };
        }
        Stmt::Set { .. }
        | Stmt::SetDynamic { .. }
        | Stmt::Zero { .. }
        | Stmt::SetLocal { .. }
        | Stmt::Comment(_)
        | Stmt::Log { .. } => {}
    }
}
