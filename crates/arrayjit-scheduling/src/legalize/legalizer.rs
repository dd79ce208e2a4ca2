//! Legalization of one routine: its state, and its statements.

use std::collections::BTreeSet;

use codegen_core::{Caps, canonical};
use lowered_ir::ir::{Block, Expr, Fresh, IdSet, LocalId, Locals, LogPart, LoopId, LoweredRoutine, Stmt};
use lowered_ir::math::{build, narrow};
use tnode::{DType, Scalar};

use super::dynamic::Computed;
use super::error::{LegalizeError, Result};

/// The state of one rewrite.
pub(super) struct Legalizer<'a> {
    pub(super) caps: &'a Caps,
    pub(super) routine: &'a LoweredRoutine,
    /// The routine's locals. Locals of emulated types are declared anew, as bits, except `arrays`.
    pub(super) locals: &'a Locals,
    /// Locals that hold elements as nodes do: nodes that became locals of a kernel.
    pub(super) arrays: &'a IdSet<LocalId>,
    pub(super) fresh: Fresh,
    /// Statements to insert before the current one.
    pub(super) steps: Block,
}

impl Legalizer<'_> {
    pub(super) fn block(&mut self, block: &[Stmt]) -> Result<Block> {
        let mut legal = Block::with_capacity(block.len());
        for stmt in block {
            let stmt = self.stmt(stmt)?;
            legal.append(&mut self.steps);
            legal.push(stmt);
        }
        Ok(legal)
    }

    /// Legalizes statements with narrow floats, except in the loops `whole`. All other statements are legal
    /// already.
    pub(super) fn widened(&mut self, block: &[Stmt], whole: &BTreeSet<LoopId>) -> Result<Block> {
        let mut legal = Block::with_capacity(block.len());
        for stmt in block {
            let stmt = match stmt {
                Stmt::For { var, .. } if whole.contains(var) => stmt.clone(),
                Stmt::For { var, lo, hi, kind, body } => Stmt::For {
                    var: *var,
                    lo: *lo,
                    hi: hi.clone(),
                    kind: *kind,
                    body: self.widened(body, whole)?,
                },
                stmt if self.is_narrow(stmt) => self.stmt(stmt)?,
                stmt => stmt.clone(),
            };
            legal.append(&mut self.steps);
            legal.push(stmt);
        }
        Ok(legal)
    }

    /// Whether a statement converts narrow floats, or declares, sets or reads a local of such a type that
    /// holds bits. Register tiles contain these locals, because they load operands into locals.
    pub(super) fn is_narrow(&self, stmt: &Stmt) -> bool {
        let is_own = match stmt {
            Stmt::Declare { local, .. } | Stmt::SetLocal { local, .. } => self.holds_bits(*local),
            _ => false,
        };
        let is_narrow = |part: &Expr| match part {
            Expr::Convert { to, arg } => {
                let from = self.routine.dtype_of(arg, self.locals);
                self.is_emulated(from) && !(self.converts(from) && *to == DType::F32)
            }
            Expr::GetLocal { local, .. } => self.holds_bits(*local),
            _ => false,
        };
        is_own || stmt.parts().any(is_narrow)
    }

    pub(super) fn stmt(&mut self, stmt: &Stmt) -> Result<Stmt> {
        Ok(match stmt {
            Stmt::For { body, .. } if canonical::widens(body, self.routine, None, self.caps.contractions) => {
                stmt.clone()
            }
            Stmt::For { var, lo, hi, kind, body } => {
                Stmt::For { var: *var, lo: *lo, hi: hi.clone(), kind: *kind, body: self.block(body)? }
            }
            Stmt::Set { node, index, value } => {
                let (value, dtype) = self.value(value)?;
                Stmt::Set { node: *node, index: index.clone(), value: self.stored(dtype, value) }
            }
            Stmt::SetLocal { local, index, value } => {
                let (value, dtype) = self.value(value)?;
                let value = if self.arrays.contains(local) { self.stored(dtype, value) } else { value };
                Stmt::SetLocal { local: *local, index: index.clone(), value }
            }
            Stmt::Declare { local, .. } if self.arrays.contains(local) => stmt.clone(),
            Stmt::Declare { local, dtype, dims, space } => Stmt::Declare {
                local: *local,
                dtype: self.carrier(*dtype),
                dims: dims.clone(),
                space: *space,
            },
            Stmt::SetDynamic { node, index, axis, at, op, value } => {
                let computed = Computed { node: *node, index, axis: *axis };
                self.set_dynamic(&computed, at, *op, value)?
            }
            Stmt::Log { parts } => {
                Stmt::Log { parts: parts.iter().map(|part| self.log_part(part)).collect::<Result<_, _>>()? }
            }
            Stmt::Zero { .. } | Stmt::Comment(_) => stmt.clone(),
        })
    }

    /// A logged value, in the type that it has in the routine. The exception are indices on targets that do
    /// not compute with their type: they are logged in the type of computed indices, whose text is the same.
    pub(super) fn log_part(&mut self, part: &LogPart) -> Result<LogPart> {
        Ok(match part {
            LogPart::Text(text) => LogPart::Text(text.clone()),
            LogPart::Value(Expr::Index { index, dtype })
                if !self.computes(*dtype) && self.computes(self.caps.index) =>
            {
                LogPart::Value(Expr::Index { index: index.clone(), dtype: self.caps.index })
            }
            LogPart::Value(value) => {
                let (value, dtype) = self.value(value)?;
                LogPart::Value(self.stored(dtype, value))
            }
        })
    }

    pub(super) fn computes(&self, dtype: DType) -> bool {
        self.caps.arithmetic.contains(dtype)
    }

    /// Whether values of the type are bits, because the target does not compute with it.
    pub(super) fn is_emulated(&self, dtype: DType) -> bool {
        dtype.is_float() && dtype.size_bytes() < 4 && !self.computes(dtype)
    }

    /// Whether the target converts an emulated type from and to `f32`.
    pub(super) fn converts(&self, dtype: DType) -> bool {
        self.caps.conversions.contains(dtype)
    }

    /// Whether values of a local are bits, because its type is emulated.
    fn holds_bits(&self, local: LocalId) -> bool {
        self.is_emulated(self.locals[&local].dtype) && !self.arrays.contains(&local)
    }

    /// The type that values of `dtype` have in the legal routine.
    pub(super) fn carrier(&self, dtype: DType) -> DType {
        if self.is_emulated(dtype) { narrow::bits_type(dtype) } else { dtype }
    }

    /// The value as an expression that may be used several times: a constant or a scalar local.
    pub(super) fn shared(&mut self, value: Expr, dtype: DType) -> Expr {
        match &value {
            Expr::Const(_) => value,
            Expr::GetLocal { index, .. } if index.is_empty() => value,
            _ => build::bind(value, dtype, &mut self.fresh, &mut self.steps),
        }
    }

    /// Rejects an operation that needs arithmetic which the target lacks.
    pub(super) fn require(&self, needed: DType, op: impl ToString, dtype: DType) -> Result<()> {
        if self.computes(needed) {
            return Ok(());
        }
        Err(LegalizeError::Unsupported {
            target: self.caps.target.clone(),
            routine: self.routine.name.clone(),
            op: op.to_string(),
            dtype,
            why: format!("it takes arithmetic in {needed}"),
        })
    }
}

/// An integer constant of any type.
pub(super) fn constant(dtype: DType, x: i64) -> Expr {
    Expr::Const(Scalar::from_i64(dtype, x))
}

/// The bits of `value` in the type `to`.
pub(super) fn bitcast(to: DType, value: Expr) -> Expr {
    match value {
        Expr::Const(scalar) => Expr::Const(Scalar::new(to, scalar.bits())),
        other => Expr::bitcast(to, other),
    }
}
