//! Schedule reset: an input that was scheduled before loses that schedule.

use lowered_ir::ir::{LoopKind, LoweredRoutine, Space, Stmt};

/// Makes every loop serial, and gives every array and shared local to one thread.
pub(crate) fn reset_schedule(routine: &mut LoweredRoutine) {
    routine.body.iter_mut().for_each(forget);
}

fn forget(stmt: &mut Stmt) {
    match stmt {
        Stmt::For { kind, body, .. } => {
            *kind = LoopKind::Serial;
            body.iter_mut().for_each(forget);
        }
        // A serial loop cannot index registers.
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
