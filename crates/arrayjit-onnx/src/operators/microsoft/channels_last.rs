//! Images whose channels are the last axis.

use super::{
    super::window::{convolved_by, reversed_axes},
    activated, ms,
};
use crate::{
    error::{OnnxError, Result},
    operators::{context::NodeContext, operator::Operator},
    value::Value,
};

pub(in crate::operators) static OPERATORS: &[Operator] = &[ms("NhwcConv", |cx| {
    let y = convolved(cx)?;
    activated(cx, y, &[])
})];

/// The value with the channels, which are its last axis, as axis 1.
pub(super) fn channels_first(cx: &mut NodeContext<'_>, x: &Value) -> Result<Value> {
    let rank = x.rank();
    if rank < 3 {
        return Err(OnnxError::operand(0, "expected three axes or more"));
    }
    let order: Vec<usize> = [0, rank - 1].into_iter().chain(1..rank - 1).collect();
    cx.permuted(x, &order)
}

/// Undoes [`channels_first`].
pub(super) fn channels_last(cx: &mut NodeContext<'_>, x: &Value) -> Result<Value> {
    let order: Vec<usize> = [0].into_iter().chain(2..x.rank()).chain([1]).collect();
    cx.permuted(x, &order)
}

/// The convolution of an image with filters whose channels are the last axis too.
fn convolved(cx: &mut NodeContext<'_>) -> Result<Value> {
    let (x, filters, bias) = (cx.value(0)?, cx.value(1)?, cx.optional(2));
    let x = channels_first(cx, &x)?;
    let &[count, ref kernel @ .., channels] = filters.shape() else {
        return Err(OnnxError::operand(1, "expected three axes or more"));
    };
    let inner = kernel.iter().product::<usize>() * channels;
    let filter = [&[count, channels], kernel].concat();
    let shape = [kernel, &[channels, count]].concat();
    let y = convolved_by(cx, &x, &filter, bias, |cx| reversed_axes(cx, &filters, [count, inner, 1], &shape))?;
    channels_last(cx, &y)
}
