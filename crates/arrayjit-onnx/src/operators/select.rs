//! Elements by position: gather, scatter, sort.

use arrayjit_tensor::{
    TensorOperand,
    low_level::{numbered, taken, wrapped},
};
use tnode::{DType, SizeSum};

use super::{
    context::{Lowered, NodeContext},
    joined::{flat_copy, joined_axes, joined_index},
    operator::{Operator, op},
    pool::lowest,
};
use crate::{
    error::{OnnxError, Result},
    extents::{Extent, Extents, extent, needs_extents},
    shape::{access, axis, letter, letters},
    value::Value,
};

pub(super) static OPERATORS: &[Operator] = &[
    op("Gather", 1, gather).sized(),
    op("GatherElements", 11, gather_elements).sized(),
    op("GatherND", 11, gather_nd).sized(),
    op("OneHot", 9, one_hot).sized(),
    op("ReverseSequence", 10, reverse_sequence).sized(),
    op("Scatter", 9, scatter_elements).sized(),
    op("ScatterElements", 11, scatter_elements).sized(),
    op("ScatterND", 11, scatter_nd).sized(),
    op("TopK", 1, top).sized(),
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

/// The number of elements of an axis, in a text that has the array under this name.
fn size_text(value: &Value, name: &str, at: usize) -> String {
    match value.extents().0[at] {
        Extent { size: Some(_), .. } => format!("size({name}, {at})"),
        Extent { dim, size: None } => dim.to_string(),
    }
}

fn gather(cx: &mut NodeContext<'_>) -> Lowered {
    let (x, positions) = (cx.value(0)?, cx.value(1)?);
    let at = axis(cx.int_or("axis", 0)?, x.rank())?;
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
    let (call, size) = (cx.call(), size_text(&x, "x", at));
    let result = cx.operation([&x, &positions], x.dtype(), &shape, |[x, positions]| {
        taken(call, x.argument(), at, positions, |position| wrapped(&position, &size))
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

fn gather_elements(cx: &mut NodeContext<'_>) -> Lowered {
    let (x, positions) = (cx.value(0)?, cx.value(1)?);
    let at = axis(cx.int_or("axis", 0)?, x.rank())?;
    fitting(&x, &positions, at)?;
    check_positions(&positions, &x.shape()[at..=at])?;
    if x.num_elements() == 0 {
        return Ok(vec![cx.filled(x.dtype(), positions.shape(), "0")?]);
    }
    let extents = positions.extents();
    let fits = |(axis, (own, of)): (usize, (&Extent, &Extent))| axis == at || own == of || of.size.is_none();
    if !extents.0.iter().zip(&x.extents().0).enumerate().all(fits) {
        return Err(cx.needs_extents("sizes decide whether the positions fit the array"));
    }
    let (source, chosen) = (cx.bind_array(&x)?, cx.bind_array(&positions)?);
    let mut read = letters(x.rank());
    read[at] = wrapped(&chosen.whole(), size_text(&x, source.name(), at));
    let text = format!("{} := {}{}", access("y", letters(x.rank())), source.at(&read), extents.clause());
    Ok(vec![cx.emit(x.dtype(), &extents, &text)?])
}

/// The axes of an array that tuples of positions address.
struct TupleAxes {
    /// The number of axes in front that positions share.
    batch: usize,
    /// The addressed axes.
    addressed: Extents,
    /// The axes behind them.
    rest: Extents,
    /// The axes of the positions between the shared ones and the tuples.
    outer: Extents,
}

impl TupleAxes {
    fn of(x: &Value, positions: &Value, batch: usize) -> Result<TupleAxes> {
        let wrong = || OnnxError::operand(1, format!("{:?} does not fit {:?}", positions.shape(), x.shape()));
        let (axes, of_positions) = (x.extents().0, positions.extents().0);
        let (tuple, front) = of_positions.split_last().ok_or_else(wrong)?;
        if tuple.size.is_some() {
            return Err(needs_extents(positions.given(), "the number of positions for an element is a size"));
        }
        let end = batch.checked_add(tuple.dim).filter(|&end| end <= x.rank()).ok_or_else(wrong)?;
        if front.len() < batch || front[..batch] != axes[..batch] || tuple.dim == 0 {
            return Err(wrong());
        }
        let part = |axes: &[Extent]| Extents(axes.to_vec());
        let (addressed, rest) = (part(&axes[batch..end]), part(&axes[end..]));
        Ok(TupleAxes { batch, addressed, rest, outer: part(&front[batch..]) })
    }

    /// The shape of the array with the addressed axes joined.
    fn flat_shape(&self, x: &Value) -> Vec<usize> {
        let mut shape = x.shape()[..self.batch].to_vec();
        shape.push(self.addressed.dims().iter().product());
        shape.extend(self.rest.dims());
        shape
    }

    /// The letters of the shared axes, of the outer axes, and of the rest.
    fn letters(&self) -> (Vec<String>, Vec<String>, Vec<String>) {
        (numbered("b", self.batch), numbered("k", self.outer.0.len()), numbered("r", self.rest.0.len()))
    }

    /// The position of a tuple in the joined axis, and -1 if one of its positions is outside of its axis of
    /// the array `x`, which has this name. Axes with sizes lie as far apart as their bounds say.
    fn flat(&self, x: &Value, name: &str, positions: &str) -> String {
        let (batch, outer, _) = self.letters();
        let sizes: Vec<String> =
            (0..self.addressed.0.len()).map(|at| size_text(x, name, self.batch + at)).collect();
        let own = |(at, size): (usize, &String)| {
            let index = batch.iter().chain(&outer).cloned().chain([at.to_string()]);
            wrapped(&access(positions, index), size)
        };
        let own: Vec<String> = sizes.iter().enumerate().map(own).collect();
        if let [only] = own.as_slice() {
            return only.clone();
        }
        let dims = self.addressed.dims();
        let (mut stride, mut flat, mut inside) = (dims.iter().product::<usize>(), Vec::new(), Vec::new());
        for ((position, size), dim) in own.iter().zip(&sizes).zip(dims) {
            stride /= dim.max(1);
            flat.push(format!("{position} * {stride}"));
            inside.push(format!("and({position} >= 0, {position} < {size})"));
        }
        let inside = inside.into_iter().reduce(|all, one| format!("and({all}, {one})")).unwrap_or_default();
        format!("where({inside}, {}, -1)", flat.join(" + "))
    }
}

fn gather_nd(cx: &mut NodeContext<'_>) -> Lowered {
    let (x, positions) = (cx.value(0)?, cx.value(1)?);
    let batch = usize::try_from(cx.int_or("batch_dims", 0)?).unwrap_or(usize::MAX);
    let axes = TupleAxes::of(&x, &positions, batch)?;
    check_positions(&positions, &axes.addressed.dims())?;
    let shape = Extents([&positions.extents().0[..positions.rank() - 1], &axes.rest.0].concat());
    if x.num_elements() == 0 {
        return Ok(vec![cx.filled(x.dtype(), &shape, "0")?]);
    }
    let joined = axes.addressed.0.len();
    // A view joins no sizes: a copy has the memory of the bounds as one axis.
    let is_copied = joined > 1 && axes.addressed.has_sizes();
    let source = match is_copied {
        true => cx.bind_array(&x)?,
        false => {
            let flat = cx.reshaped(&x, &axes.flat_shape(&x))?;
            cx.bind_array(&flat)?
        }
    };
    let chosen = cx.bind_array(&positions)?;
    let (batch, outer, rest) = axes.letters();
    let at = axes.flat(&x, source.name(), chosen.name());
    let read = [batch.clone(), vec![at], rest.clone()].concat();
    let target = access("y", [batch, outer, rest].concat());
    let text = match is_copied {
        true => {
            let copy = flat_copy("f", &x, &source, (axes.batch, joined))?;
            format!("{copy}{target} := {}", access("f", &read))
        }
        false => format!("{target} := {}", source.at(&read)),
    };
    Ok(vec![cx.emit(x.dtype(), &shape, &text)?])
}

/// The array after updates in their order: of several that replace an element, the last one counts. `target`
/// is the element that an update changes, as indices with the positions p, and `source` has the letters of
/// the updates.
fn scattered(
    cx: &mut NodeContext<'_>,
    [x, positions, updates]: [&Value; 3],
    target: &[String],
    source: &[String],
) -> Result<Value> {
    let (call, operator) = (cx.call(), scatter_operator(cx)?);
    cx.operation([x, positions, updates], x.dtype(), x.shape(), |[x, positions, updates]| {
        x.scattered(call, [positions, updates], target, source, operator)
    })
}

/// The operator by which an update changes an element; none if it replaces it.
fn scatter_operator(cx: &NodeContext<'_>) -> Result<Option<&'static str>> {
    Ok(match cx.text_or("reduction", "none")? {
        "none" => None,
        "add" => Some("+="),
        "mul" => Some("*="),
        "max" => Some("max="),
        "min" => Some("min="),
        _ => return Err(OnnxError::attribute("reduction", "none, add, mul, max or min")),
    })
}

/// As `scattered`, where axes have sizes. The first `joined` axes are one in the array that is written, with
/// the elements of their bounds; `target` gives the element that an update changes, by the names of the array
/// and of the positions.
fn scattered_by_sizes(
    cx: &mut NodeContext<'_>,
    [x, positions, updates]: [&Value; 3],
    joined: usize,
    target: impl Fn(&str, &str) -> Vec<String>,
    source: &[String],
) -> Result<Value> {
    let operator = scatter_operator(cx)?;
    let (own, chosen, new) = (cx.bind_array(x)?, cx.bind_array(positions)?, cx.bind_array(updates)?);
    let target = target(own.name(), chosen.name());
    let (extents, of_updates) = (x.extents(), updates.extents());
    let ranges = of_updates.clause_of(source);
    let (written, here) = match joined > 1 {
        true => {
            let axes = joined_axes(&extents, (0, joined))?;
            (axes, joined_index(&extents, letters(x.rank()), (0, joined)))
        }
        false => (extents.clone(), letters(x.rank())),
    };
    let (old, result) = (own.whole(), access("y", letters(x.rank())));
    let text = match operator {
        Some(operator) => {
            let all = extents.clause();
            format!(
                "node s {}[{}]\n{} := {old}{all}\n{} {operator} {}{ranges}\n{result} := {}{all}",
                x.dtype(),
                written.text(),
                access("s", &here),
                access("s", &target),
                new.at(source),
                access("s", &here)
            )
        }
        None => {
            // The number of the last update of each element is found first: no order of updates counts.
            let number = joined_index(&of_updates, source.to_vec(), (0, source.len()));
            let number = if source.is_empty() { "0".to_owned() } else { number.join("") };
            let (copy, last) = (flat_copy("u", updates, &new, (0, source.len()))?, access("last", &here));
            format!(
                "{copy}node last i32[{}]\n{} :max= {number}{ranges}\n{result} := where({last} >= 0, u[{last}], \
                 {old}){}",
                written.text(),
                access("last", &target),
                extents.clause()
            )
        }
    };
    cx.emit(x.dtype(), &extents, &text)
}

fn scatter_elements(cx: &mut NodeContext<'_>) -> Lowered {
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
    let source = letters(x.rank());
    if cx.has_sizes() {
        let (of_x, of_updates) = (x.extents().0, positions.extents().0);
        let fits =
            |(axis, (own, of)): (usize, (&Extent, &Extent))| axis == at || own == of || of.size.is_none();
        if updates.extents() != positions.extents() || !of_updates.iter().zip(&of_x).enumerate().all(fits) {
            return Err(cx.needs_extents("sizes decide whether the positions fit the array"));
        }
        let target = |array: &str, positions: &str| {
            let mut target = letters(x.rank());
            target[at] = wrapped(&access(positions, &source), size_text(&x, array, at));
            target
        };
        return Ok(vec![scattered_by_sizes(cx, [&x, &positions, &updates], 1, target, &source)?]);
    }
    let mut target = letters(x.rank());
    target[at] = wrapped(&access("p", &source), x.shape()[at]);
    Ok(vec![scattered(cx, [&x, &positions, &updates], &target, &source)?])
}

fn scatter_nd(cx: &mut NodeContext<'_>) -> Lowered {
    let (x, positions, updates) = (cx.value(0)?, cx.value(1)?, cx.value(2)?);
    if positions.num_elements() == 0 || updates.num_elements() == 0 {
        return Ok(vec![x]);
    }
    let axes = TupleAxes::of(&x, &positions, 0)?;
    check_positions(&positions, &axes.addressed.dims())?;
    let expected = [axes.outer.dims(), axes.rest.dims()].concat();
    if updates.shape() != expected {
        return Err(OnnxError::operand(2, format!("expected the shape {expected:?}")));
    }
    let (_, outer, rest) = axes.letters();
    if cx.has_sizes() {
        if updates.extents().0 != [axes.outer.0.as_slice(), &axes.rest.0].concat() {
            return Err(cx.needs_extents("sizes decide whether the updates fit the positions"));
        }
        let source = [outer, rest.clone()].concat();
        let target =
            |array: &str, positions: &str| [vec![axes.flat(&x, array, positions)], rest.clone()].concat();
        let joined = axes.addressed.0.len();
        return Ok(vec![scattered_by_sizes(cx, [&x, &positions, &updates], joined, target, &source)?]);
    }
    let shape = x.shape().to_vec();
    let flat = cx.reshaped(&x, &axes.flat_shape(&x))?;
    let (source, target) = ([outer, rest.clone()].concat(), [vec![axes.flat(&x, "x", "p")], rest].concat());
    let result = scattered(cx, [&flat, &positions, &updates], &target, &source)?;
    Ok(vec![cx.reshaped(&result, &shape)?])
}

/// Reverses as many elements of the axis of time as each element of the batch has; the others stay.
fn reverse_sequence(cx: &mut NodeContext<'_>) -> Lowered {
    let (x, lengths) = (cx.value(0)?, cx.value(1)?);
    let time = axis(cx.int_or("time_axis", 0)?, x.rank())?;
    let batch = axis(cx.int_or("batch_axis", 1)?, x.rank())?;
    if time == batch {
        return Err(OnnxError::attribute("batch_axis", "another axis than `time_axis`"));
    }
    if lengths.extents().0 != [x.extents().0[batch].clone()] {
        return Err(OnnxError::operand(1, format!("expected the shape [{}]", x.shape()[batch])));
    }
    let source = cx.bind_array(&x)?;
    let length = cx.bind_array(&lengths)?.at(&[letter(batch)]);
    let here = letter(time);
    let mut read = letters(x.rank());
    read[time] = format!("where({here} < {length}, {length} - 1 - {here}, {here})");
    let extents = x.extents();
    let text = format!("{} := {}{}", access("y", letters(x.rank())), source.at(&read), extents.clause());
    Ok(vec![cx.emit(x.dtype(), &extents, &text)?])
}

fn one_hot(cx: &mut NodeContext<'_>) -> Lowered {
    let depth = cx.host_float(1)?;
    if !(0.0..1e9).contains(&depth) {
        return Err(OnnxError::operand(1, format!("the depth {depth}")));
    }
    let depth = depth as usize;
    let (x, values) = (cx.value(0)?, cx.value(2)?);
    let at = axis(cx.int_or("axis", -1)?, x.rank() + 1)?;
    let mut extents = x.extents();
    extents.0.insert(at, depth.into());
    let index = cx.bind(&x)?.whole();
    let index = if x.dtype().is_float() { format!("i64({index})") } else { index };
    let values = cx.bind_array(&values)?;
    let mut target = letters(x.rank());
    target.insert(at, "k".into());
    let (off, on) = (values.at(&["0".into()]), values.at(&["1".into()]));
    let text = format!("{} := where(k == {}, {on}, {off})", access("y", &target), wrapped(&index, depth));
    Ok(vec![cx.emit(values.dtype, &extents, &text)?])
}

/// The first positions in sorted order, and the elements there.
fn top(cx: &mut NodeContext<'_>) -> Lowered {
    let x = cx.value(0)?;
    let at = axis(cx.int_or("axis", -1)?, x.rank())?;
    let count = match (cx.opset() < 10, cx.optional(1)) {
        (false, Some(Value::Sizes(count))) => count.elements.first().map(extent).transpose()?,
        (true, _) => cx.int("k")?.and_then(|count| usize::try_from(count).ok()).map(Extent::from),
        _ => cx.host_ints(1)?.first().and_then(|&count| usize::try_from(count).ok()).map(Extent::from),
    };
    let count = count.ok_or_else(|| OnnxError::operand(1, "expected a size"))?;
    let mut extents = x.extents();
    let along = std::mem::replace(&mut extents.0[at], count.clone());
    let is_fewer = match SizeSum::from(&count).negated().and_then(|count| SizeSum::from(&along).plus(&count))
    {
        Some(rest) => rest.is_never_negative(),
        None => false,
    };
    if !is_fewer && count.size.is_none() && along.size.is_none() {
        return Err(OnnxError::operand(1, format!("{} of {} elements", count.dim, along.dim)));
    }
    if !is_fewer {
        return Err(cx.needs_extents("a size decides whether there are as many elements"));
    }
    let is_largest = cx.int_or("largest", 1)? != 0;
    let (rank, dtype) = (x.rank(), x.dtype());
    let source = cx.bind_array(&x)?;
    let mut index = letters(rank);
    index[at] = access("p", letters(rank));
    let order = if is_largest { "descending" } else { "ascending" };
    let (values, element) = (access("y", letters(rank)), source.at(&index));
    let text = match along.size {
        None => format!("p := {order}({}, {at})\n{values} := {element}", source.name()),
        Some(_) => {
            // All elements up to the bound are sorted; those behind the size come last, since equal elements
            // keep their order and NaN is the largest.
            let behind = match (is_largest, dtype.is_float()) {
                (true, true) => "-inf".to_owned(),
                (false, true) => "nan".to_owned(),
                (true, false) => lowest(dtype).to_string(),
                (false, false) => highest(dtype).to_string(),
            };
            let mut bounds = x.extents();
            bounds.0[at] = along.dim.into();
            let (dims, own) = (bounds.text(), source.padded(&behind, &letters(rank)));
            let [all, sorted, p] = ["all", "sorted", "p"].map(|name| access(name, letters(rank)));
            let ranges = extents.clause();
            format!(
                "node all {dtype}[{dims}], sorted i64[{dims}]\n{all} := {own}{}\nsorted := {order}(all, {at})\n\
                 {p} := {sorted}{ranges}\n{values} := {element}{ranges}",
                bounds.clause()
            )
        }
    };
    Ok(cx.emit_extents([("y", dtype, extents.clone()), ("p", DType::I64, extents)], &text)?.to_vec())
}

/// The greatest integer of a type.
fn highest(dtype: DType) -> u64 {
    match dtype {
        DType::I8 => i8::MAX as u64,
        DType::U8 => u8::MAX.into(),
        DType::U16 => u16::MAX.into(),
        DType::I32 => i32::MAX as u64,
        DType::U32 => u32::MAX.into(),
        DType::I64 => i64::MAX as u64,
        DType::U64 => u64::MAX,
        _ => 1,
    }
}
