//! Replaces the sizes of axes, `size(x, 1)`, by numbers.
//!
//! Expansion knows no shapes. The nodes that a statement reads have their dimensions when the statement is
//! analyzed, since the statements before it have given them to the intermediates. So each statement has its
//! sizes replaced just before it is analyzed.

use tnode::DType;

use crate::ast::{Expr, ExprKind, Fetch, Index, KeyArgument, RandomCall, Statement};
use crate::error::{Result, TextErrorKind};
use crate::linear::{Atom, AxisSize, IndexExpr, IndexExprKind};
use crate::names::NamesAt;
use crate::number::Number;
use assignments::ByteRange;

/// Replaces the sizes of axes in a statement.
pub(super) fn replace(statement: &mut Statement, names: NamesAt<'_>) -> Result<()> {
    let targets = statement.lhs.iter_mut().flat_map(|target| &mut target.indices);
    targets.into_iter().try_for_each(|index| in_axis(index, names))?;
    statement.rhs.iter_mut().try_for_each(|value| in_value(value, names))?;
    if let Some(Fetch::Random(call)) = &mut statement.fetch {
        in_random(call, names)?;
    }
    statement.constraints.iter_mut().try_for_each(|constraint| {
        in_index(&mut constraint.left, names)?;
        in_index(&mut constraint.right, names)
    })
}

fn in_axis(index: &mut Index, names: NamesAt<'_>) -> Result<()> {
    match index {
        Index::Linear(index) => in_index(index, names),
        Index::Computed(value) => in_value(value, names),
        Index::Concat(_) | Index::Row(_) => Ok(()),
    }
}

fn in_index(index: &mut IndexExpr, names: NamesAt<'_>) -> Result<()> {
    index.replace(&mut |leaf, span| match leaf {
        IndexExprKind::AxisSize(size) => Ok(Some(match axis(size, span, names)? {
            (_, Some(size)) => IndexExprKind::Atom(Atom::Symbol(size)),
            (number, None) => IndexExprKind::Number(i128::from(number)),
        })),
        _ => Ok(None),
    })
}

/// Replaces sizes in a value. As a value, a size is an `i32`, like the size of a letter.
fn in_value(value: &mut Expr, names: NamesAt<'_>) -> Result<()> {
    match &mut value.kind {
        ExprKind::AxisSize(size) => {
            let kind = match axis(size, &value.span, names)? {
                (_, Some(size)) => ExprKind::Symbol(size),
                (number, None) => ExprKind::Number(Number::integer(number)),
            };
            let number = Expr::new(kind, value.span.clone())?;
            *value = Expr::new(ExprKind::Cast(DType::I32, Box::new(number)), value.span.clone())?;
            return Ok(());
        }
        ExprKind::Random(call) => in_random(call, names)?,
        _ => {}
    }
    value.indices_mut().into_iter().flatten().try_for_each(|index| in_axis(index, names))?;
    value.children_mut().into_iter().try_for_each(|child| in_value(child, names))
}

fn in_random(call: &mut RandomCall, names: NamesAt<'_>) -> Result<()> {
    in_index(&mut call.seed, names)?;
    call.parts.iter_mut().try_for_each(|part| match part {
        KeyArgument::Index(index) => in_index(index, names),
        KeyArgument::SelfId(_) | KeyArgument::Row(_) => Ok(()),
    })
}

/// The dimension of the axis, and the name of the symbol of a size that a run gives.
fn axis(size: &AxisSize, span: &ByteRange, names: NamesAt<'_>) -> Result<(i64, Option<String>)> {
    let located = |kind: TextErrorKind| kind.at(span);
    let node = names.find(&size.node).map_err(located)?;
    let dims = node.dims_without_padding().map_err(|error| located(error.into()))?;
    let found = dims.get(size.axis).map(|&found| i64::try_from(found).unwrap_or(i64::MAX));
    let found = found.map(|number| (number, node.run_size(size.axis).map(|size| size.name().to_owned())));
    found.ok_or_else(|| located(TextErrorKind::NoAxis { node: node.name(), axis: size.axis, dims }))
}
