//! Binds values to new scalar locals, for several passes.

use crate::ir::{Block, Expr, Fresh, LocalDecl, LocalId, Locals, LoweredRoutine, Space, Stmt, Symbol};

/// Makes locals for a routine whose body is being rewritten.
pub(super) struct Binder<'a> {
    routine: &'a LoweredRoutine,
    locals: Locals,
    fresh: Fresh,
}

impl<'a> Binder<'a> {
    /// Rewrites the body of a routine with a binder for its locals.
    pub(super) fn rewrite(routine: &'a mut LoweredRoutine, f: impl FnOnce(Binder<'_>, Block) -> Block) {
        let (locals, fresh) = (routine.locals(), routine.fresh());
        let body = std::mem::take(&mut routine.body);
        routine.body = f(Binder { routine, locals, fresh }, body);
    }

    /// The symbols of the routine.
    pub(super) fn symbols(&self) -> &'a [Symbol] {
        &self.routine.symbols
    }

    /// Appends a declaration and an assignment of the value to `out`, and gives the local.
    pub(super) fn bind(&mut self, value: Expr, out: &mut Block) -> LocalId {
        let dtype = self.dtype(&value);
        let local = self.fresh.local_id();
        let decl = LocalDecl { dtype, dims: tnode::Dims::new(), space: Space::Register };
        self.locals.insert(local, decl);
        out.extend([Stmt::scalar(local, dtype), Stmt::set_scalar(local, value)]);
        local
    }

    /// The type of an expression over the routine's locals and the locals that this binder made.
    pub(super) fn dtype(&self, expr: &Expr) -> tnode::DType {
        self.routine.dtype_of(expr, &self.locals)
    }
}
