//! Computed indices: the index becomes an `i64` or `i32`, and an accumulating store becomes a read, the
//! operation and a store.

use lowered_ir::ir::{BinaryOp, Expr, Indices, NodeRef, Stmt};
use tnode::{DType, Scalar};

use super::error::Result;
use super::expr::Value;
use super::legalizer::{Legalizer, constant};

/// An element whose index in one dimension is computed.
pub(crate) struct Computed<'a> {
    pub(crate) node: NodeRef,
    pub(crate) index: &'a Indices,
    pub(crate) axis: usize,
}

impl Legalizer<'_> {
    pub(crate) fn get_dynamic(
        &mut self,
        element: &Computed<'_>,
        at: &Expr,
        otherwise: &Expr,
    ) -> Result<Value> {
        let at = self.computed_index(at)?;
        let (otherwise, dtype) = self.value(otherwise)?;
        let otherwise = self.stored(dtype, otherwise);
        Ok(self.read(gather(element, at, otherwise), element.node))
    }

    pub(crate) fn set_dynamic(
        &mut self,
        element: &Computed<'_>,
        at: &Expr,
        op: Option<BinaryOp>,
        value: &Expr,
    ) -> Result<Stmt> {
        let at = self.computed_index(at)?;
        let (new, dtype) = self.value(value)?;
        let Some(op) = op else {
            return Ok(scatter(element, at, self.stored(dtype, new)));
        };
        // Code generators see whether an index that consists of reads and conversions is equal in all lanes
        // of a vector. A local would hide that.
        let at = if is_read(&at) { at } else { self.shared(at, self.caps.index) };
        let nothing = Expr::Const(Scalar::zero(dtype));
        let (old, _) = self.read(gather(element, at.clone(), nothing), element.node);
        let (a, b) = if op.takes_new_first() { (new, old) } else { (old, new) };
        let combined = self.binary(op, dtype, a, b)?;
        Ok(scatter(element, at, self.stored(dtype, combined)))
    }

    /// The index in the type [`codegen_core::Caps::index`]. One that does not fit becomes negative, and so
    /// stays outside of every dimension.
    fn computed_index(&mut self, at: &Expr) -> Result<Expr> {
        let (at, dtype) = self.value(at)?;
        let index = self.caps.index;
        self.require(index, "gather", dtype)?;
        if dtype == index {
            return Ok(at);
        }
        if dtype.size_bytes() <= index.size_bytes() {
            return self.convert(dtype, index, at);
        }
        let at = self.shared(at, dtype);
        let fits = Expr::binary(BinaryOp::Le, at.clone(), constant(dtype, i64::from(i32::MAX)));
        let short = self.convert(dtype, index, at.clone())?;
        let below = match dtype {
            DType::I64 => Expr::binary(BinaryOp::Lt, at, constant(dtype, 0)),
            _ => return Ok(Expr::select(fits, short, constant(index, -1))),
        };
        let short = Expr::select(fits, short, constant(index, -1));
        Ok(Expr::select(below, constant(index, -1), short))
    }
}

/// Whether an expression is an element or a constant, possibly converted.
fn is_read(at: &Expr) -> bool {
    match at {
        Expr::Convert { arg, .. } => is_read(arg),
        Expr::Const(_) | Expr::Index { .. } | Expr::Get { .. } | Expr::GetLocal { .. } => true,
        Expr::GetGuarded { .. }
        | Expr::GetDynamic { .. }
        | Expr::GetMerge { .. }
        | Expr::Bitcast { .. }
        | Expr::Unary { .. }
        | Expr::Binary { .. }
        | Expr::Ternary { .. }
        | Expr::Lane { .. }
        | Expr::Lanes(_) => false,
    }
}

fn gather(element: &Computed<'_>, at: Expr, otherwise: Expr) -> Expr {
    Expr::GetDynamic {
        node: element.node,
        index: element.index.clone(),
        axis: element.axis,
        at: Box::new(at),
        otherwise: Box::new(otherwise),
    }
}

fn scatter(element: &Computed<'_>, at: Expr, value: Expr) -> Stmt {
    let (node, index, axis) = (element.node, element.index.clone(), element.axis);
    Stmt::SetDynamic { node, index, axis, at: Box::new(at), op: None, value }
}
