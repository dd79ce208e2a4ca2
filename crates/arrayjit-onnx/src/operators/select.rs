//! Elements by position: gather, scatter, sort.

use arrayjit_tensor::{
    TensorOperand,
    low_level::{numbered, taken, wrapped},
};
use tnode::DType;

use super::{
    context::{Lowered, NodeContext},
    operator::{Operator, op},
};
use crate::{
    error::{OnnxError, Result},
    shape::{access, axis, clause, letter, letters},
    value::Value,
};

pub(super) static OPERATORS: &[Operator] = &[
    op("Gather", 1, gather).sized(),
    op("GatherElements", 11, gather_elements),
    op("GatherND", 11, gather_nd),
    op("OneHot", 9, one_hot),
    op("ReverseSequence", 10, reverse_sequence),
    op("Scatter", 9, scatter_elements),
    op("ScatterElements", 11, scatter_elements),
    op("ScatterND", 11, scatter_nd),
    op("TopK", 1, top),
];

/// Known positions from 0.
fn known_positions(values: &[i64], size: usize, operand: usize) -> Result<Vec<usize>> {
    let position = |&value: &i64| {
        let from_start = if value < 0 { value.checked_add(size as i64) } else { Some(value) };
        let found = from_start.and_then(|at| usize::try_from(at).ok()).filter(|&at| at < size);
        found.ok_or_else(|| {
            OnnxError::operand(operand, format!("position {value} is outside of {size} elements"))
        })
    };
    values.iter().map(position).collect()
}

/// Checks positions along axes of these sizes, as far as they are known: the last axis of the positions has
/// one for each of the axes. Others are checked on the device, where they read 0 and write nothing.
fn check_positions(positions: &Value, sizes: &[usize]) -> Result<()> {
    let Some(known) = positions.known() else { return Ok(()) };
    let values = known.ints();
    sizes.iter().enumerate().try_for_each(|(at, &size)| {
        let own: Vec<i64> = values.iter().skip(at).step_by(sizes.len()).copied().collect();
        known_positions(&own, size, 1).map(drop)
    })
}

fn gather(cx: &mut NodeContext<'_, '_>) -> Lowered {
    let (x, positions) = (cx.value(0)?, cx.value(1)?);
    let at = axis(cx.int_or("axis", 0)?, x.rank())?;
    let is_sized = x.extents().0[at].size.is_some();
    if is_sized && positions.known().is_none() {
        return Err(cx.needs_extents("positions count from the end of a size"));
    }
    let mut shape = x.shape().to_vec();
    shape.splice(at..=at, positions.shape().iter().copied());
    if shape.contains(&0) {
        return Ok(vec![cx.empty(x.dtype(), &shape)?]);
    }
    if let Some(known) = positions.known() {
        let positions = known_positions(&known.ints(), x.shape()[at], 1)?;
        let taken = cx.taken(&x, at, &positions)?;
        return Ok(vec![cx.reshaped(&taken, &shape)?]);
    }
    let (call, size) = (cx.call(), x.shape()[at]);
    let result = cx.operation([&x, &positions], x.dtype(), &shape, |[x, positions]| {
        taken(call, x.argument(), at, positions, |position| wrapped(&position, size))
    })?;
    Ok(vec![result])
}

/// Checks that positions have as many axes as the array, and that they are not longer on any other axis.
fn fitting(x: &Value, positions: &Value, at: usize) -> Result<()> {
    let sizes = positions.shape().iter().zip(x.shape()).enumerate();
    let fits = positions.rank() == x.rank() && sizes.into_iter().all(|(axis, (a, b))| axis == at || a <= b);
    if fits {
        Ok(())
    } else {
        Err(OnnxError::operand(1, format!("{:?} does not fit {:?}", positions.shape(), x.shape())))
    }
}

fn gather_elements(cx: &mut NodeContext<'_, '_>) -> Lowered {
    let (x, positions) = (cx.value(0)?, cx.value(1)?);
    let at = axis(cx.int_or("axis", 0)?, x.rank())?;
    fitting(&x, &positions, at)?;
    check_positions(&positions, &x.shape()[at..=at])?;
    if x.num_elements() == 0 {
        return Ok(vec![cx.filled(x.dtype(), positions.shape(), "0")?]);
    }
    let (call, position) = (cx.call(), wrapped(&access("p", letters(x.rank())), x.shape()[at]));
    let result = cx.operation([&x, &positions], x.dtype(), positions.shape(), |[x, positions]| {
        x.gathered(call, at, positions, position)
    })?;
    Ok(vec![result])
}

/// The axes of an array that tuples of positions address.
struct TupleAxes {
    /// The number of axes in front that positions share.
    batch: usize,
    /// The sizes of the addressed axes.
    sizes: Vec<usize>,
    /// The axes behind them.
    rest: Vec<usize>,
    /// The axes of the positions between the shared ones and the tuples.
    outer: Vec<usize>,
}

impl TupleAxes {
    fn of(x: &Value, positions: &Value, batch: usize) -> Result<TupleAxes> {
        let wrong = || OnnxError::operand(1, format!("{:?} does not fit {:?}", positions.shape(), x.shape()));
        let (tuple, front) = positions.shape().split_last().ok_or_else(wrong)?;
        let end = batch.checked_add(*tuple).filter(|&end| end <= x.rank()).ok_or_else(wrong)?;
        if front.len() < batch || front[..batch] != x.shape()[..batch] || *tuple == 0 {
            return Err(wrong());
        }
        let (sizes, rest) = (x.shape()[batch..end].to_vec(), x.shape()[end..].to_vec());
        Ok(TupleAxes { batch, sizes, rest, outer: front[batch..].to_vec() })
    }

    /// The shape of the array with the addressed axes joined.
    fn flat_shape(&self, x: &Value) -> Vec<usize> {
        let mut shape = x.shape()[..self.batch].to_vec();
        shape.push(self.sizes.iter().product());
        shape.extend(&self.rest);
        shape
    }

    /// The letters of the shared axes, of the outer axes, and of the rest.
    fn letters(&self) -> (Vec<String>, Vec<String>, Vec<String>) {
        (numbered("b", self.batch), numbered("k", self.outer.len()), numbered("r", self.rest.len()))
    }

    /// The position of a tuple in the joined axis, and -1 if one of its positions is outside of its axis.
    fn flat(&self, positions: &str) -> String {
        let (batch, outer, _) = self.letters();
        let own = |(at, &size): (usize, &usize)| {
            let index = batch.iter().chain(&outer).cloned().chain([at.to_string()]);
            wrapped(&access(positions, index), size)
        };
        let own: Vec<String> = self.sizes.iter().enumerate().map(own).collect();
        if let [only] = own.as_slice() {
            return only.clone();
        }
        let mut stride: usize = self.sizes.iter().product();
        let (mut flat, mut inside) = (Vec::new(), Vec::new());
        for (position, &size) in own.iter().zip(&self.sizes) {
            stride /= size.max(1);
            flat.push(format!("{position} * {stride}"));
            inside.push(format!("and({position} >= 0, {position} < {size})"));
        }
        let inside = inside.into_iter().reduce(|all, one| format!("and({all}, {one})")).unwrap_or_default();
        format!("where({inside}, {}, -1)", flat.join(" + "))
    }
}

fn gather_nd(cx: &mut NodeContext<'_, '_>) -> Lowered {
    let (x, positions) = (cx.value(0)?, cx.value(1)?);
    let batch = usize::try_from(cx.int_or("batch_dims", 0)?).unwrap_or(usize::MAX);
    let axes = TupleAxes::of(&x, &positions, batch)?;
    check_positions(&positions, &axes.sizes)?;
    let flat = cx.reshaped(&x, &axes.flat_shape(&x))?;
    let source = cx.bind_array(&flat)?;
    let chosen = cx.bind_array(&positions)?;
    let (batch, outer, rest) = axes.letters();
    let read = [batch.clone(), vec![axes.flat(chosen.name())], rest.clone()].concat();
    let target = [batch, outer, rest].concat();
    let shape = [&positions.shape()[..positions.rank() - 1], &axes.rest].concat();
    if x.num_elements() == 0 {
        return Ok(vec![cx.filled(x.dtype(), &shape, "0")?]);
    }
    let text = format!("{} := {}", access("y", &target), source.at(&read));
    Ok(vec![cx.emit(x.dtype(), &shape, &text)?])
}

/// The array after updates in their order: of several that replace an element, the last one counts. `target`
/// is the element that an update changes, as indices with the positions p, and `source` has the letters of
/// the updates.
fn scattered(
    cx: &mut NodeContext<'_, '_>,
    [x, positions, updates]: [&Value; 3],
    target: &[String],
    source: &[String],
) -> Result<Value> {
    let operator = match cx.text_or("reduction", "none")? {
        "none" => None,
        "add" => Some("+="),
        "mul" => Some("*="),
        "max" => Some("max="),
        "min" => Some("min="),
        _ => return Err(OnnxError::attribute("reduction", "none, add, mul, max or min")),
    };
    let call = cx.call();
    cx.operation([x, positions, updates], x.dtype(), x.shape(), |[x, positions, updates]| {
        x.scattered(call, [positions, updates], target, source, operator)
    })
}

fn scatter_elements(cx: &mut NodeContext<'_, '_>) -> Lowered {
    let (x, positions, updates) = (cx.value(0)?, cx.value(1)?, cx.value(2)?);
    let at = axis(cx.int_or("axis", 0)?, x.rank())?;
    fitting(&x, &positions, at)?;
    check_positions(&positions, &x.shape()[at..=at])?;
    if updates.shape() != positions.shape() {
        return Err(OnnxError::operand(2, format!("expected the shape {:?}", positions.shape())));
    }
    if positions.num_elements() == 0 || x.num_elements() == 0 {
        return Ok(vec![x]);
    }
    let (source, mut target) = (letters(x.rank()), letters(x.rank()));
    target[at] = wrapped(&access("p", &source), x.shape()[at]);
    Ok(vec![scattered(cx, [&x, &positions, &updates], &target, &source)?])
}

fn scatter_nd(cx: &mut NodeContext<'_, '_>) -> Lowered {
    let (x, positions, updates) = (cx.value(0)?, cx.value(1)?, cx.value(2)?);
    if positions.num_elements() == 0 || updates.num_elements() == 0 {
        return Ok(vec![x]);
    }
    let axes = TupleAxes::of(&x, &positions, 0)?;
    check_positions(&positions, &axes.sizes)?;
    if updates.shape() != [axes.outer.as_slice(), &axes.rest].concat() {
        return Err(OnnxError::operand(
            2,
            format!("expected the shape {:?}", [axes.outer, axes.rest].concat()),
        ));
    }
    let shape = x.shape().to_vec();
    let x = cx.reshaped(&x, &axes.flat_shape(&x))?;
    let (_, outer, rest) = axes.letters();
    let (source, target) = ([outer, rest.clone()].concat(), [vec![axes.flat("p")], rest].concat());
    let result = scattered(cx, [&x, &positions, &updates], &target, &source)?;
    Ok(vec![cx.reshaped(&result, &shape)?])
}

/// Reverses as many elements of the axis of time as each element of the batch has; the others stay.
fn reverse_sequence(cx: &mut NodeContext<'_, '_>) -> Lowered {
    let (x, lengths) = (cx.value(0)?, cx.value(1)?);
    let time = axis(cx.int_or("time_axis", 0)?, x.rank())?;
    let batch = axis(cx.int_or("batch_axis", 1)?, x.rank())?;
    if time == batch {
        return Err(OnnxError::attribute("batch_axis", "another axis than `time_axis`"));
    }
    if lengths.shape() != [x.shape()[batch]] {
        return Err(OnnxError::operand(1, format!("expected the shape [{}]", x.shape()[batch])));
    }
    let source = cx.bind_array(&x)?;
    let length = cx.bind_array(&lengths)?.at(&[letter(batch)]);
    let here = letter(time);
    let mut read = letters(x.rank());
    read[time] = format!("where({here} < {length}, {length} - 1 - {here}, {here})");
    let text = format!("{} := {}{}", access("y", letters(x.rank())), source.at(&read), clause(x.shape()));
    Ok(vec![cx.emit(x.dtype(), x.shape(), &text)?])
}

fn one_hot(cx: &mut NodeContext<'_, '_>) -> Lowered {
    let depth = cx.host_float(1)?;
    if !(0.0..1e9).contains(&depth) {
        return Err(OnnxError::operand(1, format!("the depth {depth}")));
    }
    let depth = depth as usize;
    let (x, values) = (cx.value(0)?, cx.value(2)?);
    let at = axis(cx.int_or("axis", -1)?, x.rank() + 1)?;
    let mut shape = x.shape().to_vec();
    shape.insert(at, depth);
    let index = cx.bind(&x)?.whole();
    let index = if x.dtype().is_float() { format!("i64({index})") } else { index };
    let values = cx.bind_array(&values)?;
    let mut target = letters(x.rank());
    target.insert(at, "k".into());
    let (off, on) = (values.at(&["0".into()]), values.at(&["1".into()]));
    let text = format!("{} := where(k == {}, {on}, {off})", access("y", &target), wrapped(&index, depth));
    Ok(vec![cx.emit(values.dtype, &shape, &text)?])
}

/// The first positions in sorted order, and the elements there.
fn top(cx: &mut NodeContext<'_, '_>) -> Lowered {
    let count = match cx.opset() < 10 {
        true => cx.int("k")?,
        false => cx.host_ints(1)?.first().copied(),
    };
    let count = count.and_then(|count| usize::try_from(count).ok());
    let count = count.ok_or_else(|| OnnxError::operand(1, "expected a size"))?;
    let x = cx.value(0)?;
    let at = axis(cx.int_or("axis", -1)?, x.rank())?;
    if count > x.shape()[at] {
        return Err(OnnxError::operand(1, format!("{count} of {} elements", x.shape()[at])));
    }
    let is_largest = cx.int_or("largest", 1)? != 0;
    let (rank, dtype) = (x.rank(), x.dtype());
    let mut shape = x.shape().to_vec();
    shape[at] = count;
    let source = cx.bind_array(&x)?;
    let mut index = letters(rank);
    index[at] = access("p", letters(rank));
    let order = if is_largest { "descending" } else { "ascending" };
    let values = access("y", letters(rank));
    let text = format!("p := {order}({}, {at})\n{values} := {}", source.name(), source.at(&index));
    let results = [("y", dtype, shape.as_slice()), ("p", DType::I64, shape.as_slice())];
    Ok(cx.emit_all(results, &text)?.to_vec())
}
