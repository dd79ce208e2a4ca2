//! Margins around arrays.

use tnode::{DType, SizeSum};

use super::{
    context::{Lowered, NodeContext},
    operator::{Operator, op},
    reduce::wide,
    shape::sizes,
};
use crate::{
    error::{OnnxError, Result},
    extents::{Extent, Extents, extent},
    host::float,
    shape::{access, axis, letters},
    value::{SizeArray, Value},
};

pub(super) static OPERATORS: &[Operator] = &[op("CenterCropPad", 18, centered), op("Pad", 2, pad).sized()];

/// Margins are an attribute before opset 11, and an operand from it on.
fn pad(cx: &mut NodeContext<'_>) -> Lowered {
    let is_new = cx.opset() >= 11;
    let margins = if is_new { cx.host_ints(1)? } else { cx.ints("pads")?.unwrap_or_default() };
    let given = if is_new { cx.optional_ints(3)? } else { None };
    let mode = cx.text_or("mode", "constant")?;
    let mut x = cx.value(0)?;
    let padded = match given {
        Some(given) => given.iter().map(|&at| axis(at, x.rank())).collect::<Result<Vec<_>, _>>()?,
        None => (0..x.rank()).collect(),
    };
    if margins.len() != 2 * padded.len() {
        return Err(OnnxError::operand(1, format!("expected two margins for each of {padded:?}")));
    }
    let (before, after) = margins.split_at(padded.len());
    if mode == "constant" {
        let margins: Vec<(usize, i64, i64)> = padded
            .iter()
            .zip(before)
            .zip(after)
            .map(|((&at, &before), &after)| (at, before, after))
            .collect();
        let number = filling(cx, &x)?;
        return Ok(vec![padded_by(cx, &x, &margins, &number)?]);
    }
    for ((at, &before), &after) in padded.into_iter().zip(before).zip(after) {
        if x.extents().0[at].size.is_some() {
            if before == 0 && after == 0 {
                continue;
            }
            x = continued(cx, &x, at, (before, after), mode)?;
            continue;
        }
        let size = x.shape()[at] as i64;
        let count = size.checked_add(before).and_then(|count| count.checked_add(after));
        let count = count.filter(|count| (0..1 << 31).contains(count)).ok_or_else(OnnxError::overflow)?;
        let mut shape = x.shape().to_vec();
        shape[at] = count as usize;
        cx.reserve(x.dtype(), &shape)?;
        cx.reserve(DType::I64, &[count as usize])?;
        // Negative margins remove elements first, and what is left is continued.
        let (start, left) = (-before.min(0), size + before.min(0) + after.min(0));
        let position = |at: i64| outside(mode, at - before.max(0), left).map(|at| at + start as usize);
        let positions = (0..count).map(position);
        let positions: Option<Vec<usize>> = positions.collect();
        let positions =
            positions.ok_or_else(|| OnnxError::attribute("mode", "a known mode, and elements"))?;
        if before != 0 || after != 0 {
            x = cx.taken(&x, at, &positions)?;
        }
    }
    Ok(vec![x])
}

/// Pads an axis whose size a run gives with elements of its own.
fn continued(
    cx: &mut NodeContext<'_>,
    x: &Value,
    at: usize,
    (before, after): (i64, i64),
    mode: &str,
) -> Result<Value> {
    let mut extents = x.extents();
    // Negative margins remove elements first, and what is left is continued.
    let (start, removed) = (-before.min(0), before.min(0) + after.min(0));
    let left = extent_with(cx, &extents.0[at], removed)?;
    extents.0[at] = extent_with(cx, &extents.0[at], before.checked_add(after).unwrap_or(i64::MAX))?;
    let letters = letters(x.rank());
    let position = format!("i64({}) - {}", letters[at], before.max(0));
    let elements = vec![SizeSum::from(&left)];
    let size = SizeArray { dtype: DType::I64, shape: Vec::new(), elements }.value()?;
    let size = cx.bind(&size)?.whole();
    let inside = match mode {
        "edge" => format!("max(min({position}, {size} - 1), 0)"),
        "wrap" => format!("(({position}) % {size} + {size}) % {size}"),
        "reflect" => {
            let period = format!("max(2 * ({size} - 1), 1)");
            let within = format!("(({position}) % {period} + {period}) % {period}");
            format!("where({within} < {size}, {within}, {period} - {within})")
        }
        _ => return Err(OnnxError::attribute("mode", "constant, edge, reflect or wrap")),
    };
    let positions = Extents(vec![extents.0[at].clone()]);
    let mut index = letters.clone();
    index[at] = access("p", [&letters[at]]);
    let own = cx.bind_array(x)?.at(&index);
    let text = format!(
        "node p i64[{}]\n{} := {inside} + {start}\n{} := {own}{}",
        positions.text(),
        index[at],
        access("y", &letters),
        extents.clause()
    );
    cx.emit(x.dtype(), &extents, &text)
}

/// The axis with so many more elements.
fn extent_with(cx: &NodeContext<'_>, axis: &Extent, more: i64) -> Result<Extent> {
    let sum = SizeSum::from(axis).plus(&more.into()).ok_or_else(OnnxError::overflow)?;
    let found = extent(&sum)?;
    // A size may be 1, and an axis has an element for each.
    let least = i64::from(axis.size.is_some()) + more;
    match axis.size.is_none() || least >= 1 {
        true => Ok(found),
        false => Err(cx.needs_extents("margins remove elements of an axis")),
    }
}

/// The element of an axis that stands at a position outside of it.
fn outside(mode: &str, at: i64, size: i64) -> Option<usize> {
    if size <= 0 {
        return None;
    }
    let inside = match mode {
        "edge" => at.clamp(0, size - 1),
        "wrap" => at.rem_euclid(size),
        "reflect" => {
            let period = (2 * (size - 1)).max(1);
            let at = at.rem_euclid(period);
            if at < size { at } else { period - at }
        }
        _ => return None,
    };
    usize::try_from(inside).ok()
}

/// The number around a padded value.
fn filling(cx: &mut NodeContext<'_>, x: &Value) -> Result<String> {
    Ok(match (cx.opset() < 11, cx.optional(2)) {
        (true, _) => float(wide(x.dtype()), f64::from(cx.float_or("value", 0.0)?)),
        (false, None) => "0".into(),
        (false, Some(value)) => {
            let value = cx.cast(&value, x.dtype())?;
            let value = cx.host_of(&value)?;
            value.number().ok_or_else(|| OnnxError::operand(2, "expected one element"))?
        }
    })
}

/// Pads with a number; negative margins remove elements. The entries of `margins` are axis, before, after.
pub(super) fn padded_by(
    cx: &mut NodeContext<'_>,
    x: &Value,
    margins: &[(usize, i64, i64)],
    number: &str,
) -> Result<Value> {
    let is_large = number.parse().is_ok_and(|number: f64| number.is_finite() && number.abs() >= 16384.0);
    if is_large && matches!(x.dtype(), DType::F16 | DType::Bf16) {
        // Texts reject large constants of these types as a protection against overflow.
        let wide = cx.cast(x, DType::F32)?;
        let padded = padded_by(cx, &wide, margins, number)?;
        return cx.cast(&padded, x.dtype());
    }
    if x.has_sizes() {
        let mut extents = x.extents();
        let letters = letters(x.rank());
        let mut index = letters.clone();
        for &(at, before, after) in margins {
            let more = before.checked_add(after).ok_or_else(OnnxError::overflow)?;
            extents.0[at] = extent_with(cx, &extents.0[at], more)?;
            index[at] = format!("{} - {before}", letters[at]).replace("- -", "+ ");
        }
        let own = cx.bind_array(x)?.padded(number, &index);
        let text = format!("{} := {own}{}", access("y", &letters), extents.clause());
        return cx.emit(x.dtype(), &extents, &text);
    }
    let mut shape = x.shape().to_vec();
    let mut offsets = vec![0; x.rank()];
    for &(at, before, after) in margins {
        let size = (shape[at] as i64).checked_add(before).and_then(|size| size.checked_add(after));
        shape[at] = size.and_then(|size| usize::try_from(size).ok()).ok_or_else(OnnxError::overflow)?;
        offsets[at] = before;
    }
    if x.num_elements() == 0 {
        return cx.filled(x.dtype(), &shape, &format!("{}({number})", x.dtype()));
    }
    let call = cx.call();
    cx.operation([x], x.dtype(), &shape, |[x]| x.padded(call, &shape, &offsets, number))
}

/// Removes or adds as many elements at both ends of an axis, or one more at the end.
fn centered(cx: &mut NodeContext<'_>) -> Lowered {
    let wanted = sizes(&cx.host_ints(1)?)?;
    let x = cx.value(0)?;
    let axes = match cx.ints("axes")? {
        Some(given) => given.iter().map(|&at| axis(at, x.rank())).collect::<Result<Vec<_>, _>>()?,
        None => (0..x.rank()).collect(),
    };
    if axes.len() != wanted.len() {
        return Err(OnnxError::operand(1, format!("expected a size for each of {axes:?}")));
    }
    let margin = |(&at, &wanted): (&usize, &usize)| {
        let more = wanted as i64 - x.shape()[at] as i64;
        // Half of the elements, rounded down, are at the start.
        let before = if more < 0 { -(-more / 2) } else { more / 2 };
        (at, before, more - before)
    };
    let margins: Vec<(usize, i64, i64)> = axes.iter().zip(&wanted).map(margin).collect();
    Ok(vec![padded_by(cx, &x, &margins, "0")?])
}
