//! The form of a kernel that targets with workgroups can run: [`crate::abi`], section "Shaders", as a check.
//!
//! The verifier checks that a routine has a meaning; this check ensures that threads and workgroups can run
//! it as written. Either a kernel has no workgroup loop, and each iteration of its nested parallel loops is a
//! thread; or each iteration is a workgroup, and
//!
//! * only workgroup loops store into nodes;
//! * workgroup and thread locals are declared directly in the innermost parallel loop, and workgroup locals
//!   fit into shared memory;
//! * no statement stands between nested workgroup loops, which have at most as many iterations as a workgroup
//!   has threads;
//! * a workgroup loop stores into its own locals, or into memory that threads share or own, so that a local
//!   of which every thread has an equal copy keeps equal copies;
//! * a workgroup loop does not store into memory that all threads have just read: some thread might read it
//!   late.

use std::collections::BTreeSet;

use lowered_ir::ir::{
    ArrayRef, Expr, LocalId, Locals, LoopId, LoopKind, LoweredRoutine, NodeRef, Space, Stmt, walk,
};

use crate::caps::Workgroups;
use crate::dependence::declared;
use crate::threads::nest;

/// A rule of the form that a kernel breaks.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum FormError {
    /// A parallel loop is beside or inside other statements.
    #[error(
        "kernel `{kernel}`: parallel loop {var} stands in other statements, expected nested parallel loops around all"
    )]
    Parallel { kernel: String, var: String },
    /// All threads of a workgroup store into a node.
    #[error(
        "kernel `{kernel}`: node {node} is stored into outside of workgroup loops, expected one thread to do it"
    )]
    Store { kernel: String, node: NodeRef },
    /// A workgroup loop stores into a local that every thread has a copy of.
    #[error(
        "kernel `{kernel}`: local {local} is stored into by some threads, expected all of them to keep it alike"
    )]
    Uneven { kernel: String, local: LocalId },
    /// A workgroup or thread local is declared outside of the workgroup's body.
    #[error(
        "kernel `{kernel}`: local {local} is declared in a loop, expected directly in the innermost parallel loop"
    )]
    Declared { kernel: String, local: LocalId },
    /// Other statements are between nested workgroup loops.
    #[error(
        "kernel `{kernel}`: a workgroup loop stands beside other statements in workgroup loop {var}, expected them directly in each other"
    )]
    Nested { kernel: String, var: String },
    /// Nested workgroup loops have too many iterations.
    #[error("kernel `{kernel}`: workgroup loops have {found} iterations, expected at most {expected}")]
    Threads { kernel: String, found: u64, expected: u32 },
    /// The workgroup locals exceed shared memory.
    #[error("kernel `{kernel}`: workgroup locals take {found} bytes, expected at most {expected}")]
    Memory { kernel: String, found: usize, expected: usize },
    /// All threads read memory that the next workgroup loop writes.
    #[error(
        "kernel `{kernel}`: {array} is read by all threads right before a workgroup loop stores into it, expected a meeting in between"
    )]
    Race { kernel: String, array: String },
}

/// Checks that a target with these workgroups can run a verified kernel.
///
/// # Errors
///
/// [`FormError`] of the first rule that the kernel breaks.
pub fn check_form(kernel: &LoweredRoutine, limits: Workgroups) -> Result<(), FormError> {
    let body = innermost(&kernel.body);
    if let Some(var) = first_parallel(body) {
        return Err(FormError::Parallel { kernel: kernel.name.clone(), var });
    }
    let locals = kernel.locals();
    let mut form = Form { kernel, limits, locals, read: BTreeSet::new() };
    if has_workgroups(body) {
        form.memory()?;
        form.alike(body, true)
    } else {
        form.no_sharing(body)
    }
}

/// The body of the innermost of the nested parallel loops.
fn innermost(block: &[Stmt]) -> &[Stmt] {
    match block {
        [Stmt::For { kind: LoopKind::Parallel, body, .. }] => innermost(body),
        _ => block,
    }
}

fn first_parallel(block: &[Stmt]) -> Option<String> {
    walk::stmts(block).find_map(|stmt| match stmt {
        Stmt::For { kind: LoopKind::Parallel, var, .. } => Some(var.to_string()),
        _ => None,
    })
}

fn has_workgroups(block: &[Stmt]) -> bool {
    walk::stmts(block).any(|stmt| matches!(stmt, Stmt::For { kind: LoopKind::Workgroup, .. }))
}

struct Form<'a> {
    kernel: &'a LoweredRoutine,
    limits: Workgroups,
    locals: Locals,
    /// Arrays that all threads have read since the last barrier.
    read: BTreeSet<ArrayRef>,
}

impl Form<'_> {
    fn name(&self) -> String {
        self.kernel.name.clone()
    }

    fn memory(&self) -> Result<(), FormError> {
        let shared = self.locals.values().filter(|local| local.space == Space::Workgroup);
        let found = shared.map(|l| l.dims.iter().product::<usize>() * l.dtype.size_bytes()).sum();
        if found > self.limits.memory_bytes {
            return Err(FormError::Memory { kernel: self.name(), found, expected: self.limits.memory_bytes });
        }
        Ok(())
    }

    /// Checks that a kernel whose iterations are threads has no workgroup loops and no shared locals.
    fn no_sharing(&self, body: &[Stmt]) -> Result<(), FormError> {
        let found = walk::stmts(body).find_map(|stmt| match stmt {
            Stmt::Declare { local, space: Space::Workgroup | Space::Thread, .. } => Some(*local),
            _ => None,
        });
        found.map_or(Ok(()), |local| Err(FormError::Declared { kernel: self.name(), local }))
    }

    /// Checks statements that all threads of a workgroup run.
    fn alike(&mut self, block: &[Stmt], outermost: bool) -> Result<(), FormError> {
        for stmt in block {
            self.read.extend(stmt.parts().filter_map(Expr::array));
            match stmt {
                Stmt::For { kind: LoopKind::Workgroup, var, .. } => self.workgroup(*var, stmt)?,
                Stmt::For { body, .. } => {
                    // The next iteration may write memory that the end of this one reads.
                    self.alike(body, false)?;
                    self.alike(body, false)?;
                }
                Stmt::Set { node, .. } | Stmt::SetDynamic { node, .. } | Stmt::Zero { node } => {
                    return Err(FormError::Store { kernel: self.name(), node: *node });
                }
                Stmt::Declare { local, space: Space::Workgroup | Space::Thread, .. } if !outermost => {
                    return Err(FormError::Declared { kernel: self.name(), local: *local });
                }
                Stmt::SetLocal { local, .. } if self.is_shared(*local) => {
                    return Err(FormError::Uneven { kernel: self.name(), local: *local });
                }
                Stmt::SetLocal { .. } | Stmt::Declare { .. } | Stmt::Comment(_) | Stmt::Log { .. } => {}
            }
        }
        Ok(())
    }

    /// Checks an outermost workgroup loop, after which there is a barrier.
    fn workgroup(&mut self, var: LoopId, stmt: &Stmt) -> Result<(), FormError> {
        if nest(stmt).is_err() {
            return Err(FormError::Nested { kernel: self.name(), var: var.to_string() });
        }
        let (found, expected) = (threads(std::slice::from_ref(stmt)), self.limits.threads);
        if found > u64::from(expected) {
            return Err(FormError::Threads { kernel: self.name(), found, expected });
        }
        let own = declared(std::slice::from_ref(stmt));
        if let Some(&local) = own.iter().find(|local| self.is_shared(**local)) {
            return Err(FormError::Declared { kernel: self.name(), local });
        }
        let stored: BTreeSet<ArrayRef> =
            walk::stmts(std::slice::from_ref(stmt)).filter_map(Stmt::array).collect();
        for array in stored {
            match array {
                ArrayRef::Local(local) if !own.contains(&local) && !self.is_shared(local) => {
                    return Err(FormError::Uneven { kernel: self.name(), local });
                }
                array if self.read.contains(&array) => {
                    return Err(FormError::Race { kernel: self.name(), array: shown(array) });
                }
                _ => {}
            }
        }
        self.read.clear();
        Ok(())
    }

    fn is_shared(&self, local: LocalId) -> bool {
        let decl = self.locals.get(&local);
        decl.is_some_and(|decl| matches!(decl.space, Space::Workgroup | Space::Thread))
    }
}

fn shown(array: ArrayRef) -> String {
    match array {
        ArrayRef::Node(node) => format!("node {node}"),
        ArrayRef::Local(local) => format!("local {local}"),
    }
}

/// The threads of the largest nest of workgroup loops.
pub(crate) fn threads(block: &[Stmt]) -> u64 {
    let each = block.iter().map(|stmt| match stmt {
        Stmt::For { hi, kind: LoopKind::Workgroup, body, .. } => {
            threads(body).saturating_mul(hi.limit.max(1).unsigned_abs())
        }
        Stmt::For { body, .. } => threads(body),
        _ => 1,
    });
    each.max().unwrap_or(1)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]

    use super::*;

    const LIMITS: Workgroups = Workgroups::new(64, 256);

    /// The error of a kernel with this body, which must verify.
    fn error(body: &str) -> Option<String> {
        let source = format!(
            "routine @k fast {{
               node %0 \"x\" f32[128] on_device
               node %1 \"y\" f32[128] on_device
               {body}
             }}"
        );
        let routine = lowered_ir::text::parse(&source).unwrap_or_else(|e| panic!("{e}"));
        lowered_ir::verify::verify(&routine).unwrap_or_else(|e| panic!("{e}"));
        check_form(&routine, LIMITS).err().map(|e| e.to_string())
    }

    #[test]
    fn threads_and_workgroups_are_accepted() {
        assert_eq!(error("for i0 in 0..128 parallel { %1[i0] := %0[i0] }"), None);
        let group = "for i0 in 0..2 parallel {
            declare l0 f32[64] workgroup
            for i1 in 0..64 workgroup { l0[i1] := %0[64*i0 + i1] }
            declare l1 f32[] register
            l1 := l0[0]
            for i2 in 0..64 workgroup { %1[64*i0 + i2] := l0[63 - i2] - l1 }
        }";
        assert_eq!(error(group), None);
    }

    #[test]
    fn what_breaks_the_form_is_named() {
        let cases = [
            ("for i0 in 0..2 parallel { } for i1 in 0..2 { %1[i1] := 0.0f32 }", "parallel loop i0"),
            (
                "for i0 in 0..1 parallel { for i1 in 0..2 workgroup { %1[i1] := 0.0f32 } %1[3] := 0.0f32 }",
                "node %1",
            ),
            (
                "for i0 in 0..1 parallel { declare l0 f32[] register for i1 in 0..1 workgroup { l0 := 1.0f32 } }",
                "local l0",
            ),
            (
                "for i0 in 0..1 parallel { for i1 in 0..2 { declare l0 f32[2] workgroup for i2 in 0..2 workgroup { l0[i2] := 1.0f32 } } }",
                "local l0",
            ),
            (
                "for i0 in 0..1 parallel { for i1 in 0..2 workgroup { declare l0 f32[] register for i2 in 0..2 workgroup { %1[2*i1 + i2] := l0 } } }",
                "workgroup loop i1",
            ),
            ("for i0 in 0..1 parallel { for i1 in 0..65 workgroup { %1[i1] := 0.0f32 } }", "65 iterations"),
            (
                "for i0 in 0..1 parallel { declare l0 f32[65] workgroup for i1 in 0..64 workgroup { l0[i1] := 0.0f32 } }",
                "260 bytes",
            ),
            (
                "for i0 in 0..1 parallel { declare l0 f32[] register l0 := %1[0] for i1 in 0..2 workgroup { %1[i1] := l0 } }",
                "node %1",
            ),
            ("for i0 in 0..2 parallel { declare l0 f32[2] workgroup }", "local l0"),
        ];
        for (body, named) in cases {
            let found = error(body).unwrap_or_else(|| panic!("accepted: {body}"));
            assert!(found.contains(named), "{found}");
        }
    }
}
