//! Reductions over axes.

use lowered_ir::{eval, ir::BinaryOp};
use tnode::{DType, Scalar};

use super::{
    context::{Lowered, NodeContext, Statement},
    operator::{Operator, op},
};
use crate::{
    error::NodeProblem,
    host::{array_of, flatten, indices, scalars},
    shape::{access, axes, axis, letter, letters, ranges},
    value::Value,
};

pub(super) static OPERATORS: &[Operator] = &[
    op("ArgMax", 1, |cx| position(cx, ":max=")),
    op("ArgMin", 1, |cx| position(cx, ":min=")),
    op("CumProd", 26, |cx| cumulative(cx, ":*=")),
    op("CumSum", 11, |cx| cumulative(cx, ":+=")),
    op("ReduceL1", 1, |cx| reduced(cx, &Reduction { value: "abs({})", ..SUM })),
    op("ReduceL2", 1, |cx| reduced(cx, &Reduction { value: "{} * {}", finish: "sqrt({})", ..SUM })),
    op("ReduceLogSum", 1, |cx| reduced(cx, &Reduction { finish: "log({})", empty: "-inf", ..SUM })),
    op("ReduceLogSumExp", 1, log_sum_exp),
    op("ReduceMax", 1, |cx| reduced(cx, &Reduction { op: ":max=", empty: "lowest", ..SUM })),
    op("ReduceMean", 1, |cx| reduced(cx, &Reduction { finish: "{} / {count}", empty: "nan", ..SUM })),
    op("ReduceMin", 1, |cx| reduced(cx, &Reduction { op: ":min=", empty: "highest", ..SUM })),
    op("ReduceProd", 1, |cx| reduced(cx, &Reduction { op: ":*=", empty: "1", ..SUM })),
    op("ReduceSum", 1, |cx| reduced(cx, &SUM)),
    op("ReduceSumSquare", 1, |cx| reduced(cx, &Reduction { value: "{} * {}", ..SUM })),
];

/// The text of a reduction.
struct Reduction {
    /// The value of an element.
    value: &'static str,
    /// The accumulating operator.
    op: &'static str,
    /// The result, from the accumulated value.
    finish: &'static str,
    /// The result of no elements.
    empty: &'static str,
}

const SUM: Reduction = Reduction { value: "{}", op: ":+=", finish: "{}", empty: "0" };

/// The type in which elements of a type are accumulated.
pub(super) fn wide(dtype: DType) -> DType {
    match dtype {
        DType::F16 | DType::Bf16 | DType::Fp8E4m3fn | DType::Fp8E5m2 => DType::F32,
        DType::Bool | DType::U8 | DType::I8 | DType::U16 => DType::I32,
        other => other,
    }
}

/// The reduced axes, and whether they stay with size 1.
struct ReducedAxes {
    axes: Vec<usize>,
    is_kept: bool,
    shape: Vec<usize>,
}

impl ReducedAxes {
    /// Axes are an attribute in old versions, and an operand in new ones.
    fn of(cx: &mut NodeContext<'_, '_>) -> Result<ReducedAxes, NodeProblem> {
        let since = if cx.operator() == "ReduceSum" { 13 } else { 18 };
        let given = if cx.opset() < since { cx.ints("axes")? } else { cx.optional_ints(1)? };
        let x = cx.value(0)?;
        let given = given.filter(|given| !given.is_empty());
        let all = match given {
            Some(given) => axes(&given, x.rank())?,
            None if cx.int_or("noop_with_empty_axes", 0)? != 0 => Vec::new(),
            None => (0..x.rank()).collect(),
        };
        let is_kept = cx.int_or("keepdims", 1)? != 0;
        Ok(ReducedAxes::new(x.shape(), all, is_kept))
    }

    fn new(shape: &[usize], axes: Vec<usize>, is_kept: bool) -> ReducedAxes {
        let sizes = shape.iter().enumerate().filter_map(|(at, &size)| match axes.contains(&at) {
            true => is_kept.then_some(1),
            false => Some(size),
        });
        let shape = sizes.collect();
        ReducedAxes { axes, is_kept, shape }
    }

    /// The indices of an array of the result's shape.
    fn target(&self, rank: usize) -> Vec<String> {
        let index = |at: usize| match (self.axes.contains(&at), self.is_kept) {
            (false, _) => Some(letter(at)),
            (true, true) => Some("0".into()),
            (true, false) => None,
        };
        (0..rank).filter_map(index).collect()
    }

    /// The indices of an array with an axis for each axis that is not reduced.
    fn inner(&self, rank: usize) -> Vec<String> {
        (0..rank).filter(|at| !self.axes.contains(at)).map(letter).collect()
    }

    fn count(&self, shape: &[usize]) -> usize {
        self.axes.iter().map(|&at| shape[at]).product()
    }
}

fn reduced(cx: &mut NodeContext<'_, '_>, reduction: &Reduction) -> Lowered {
    let axes = ReducedAxes::of(cx)?;
    let x = cx.value(0)?;
    if let Some(result) = reduced_on_host(cx, &axes)? {
        return Ok(vec![result]);
    }
    let (dtype, count) = (x.dtype(), axes.count(x.shape()));
    if x.num_elements() == 0 && !axes.shape.contains(&0) {
        let number = empty_number(reduction.empty, dtype);
        return Ok(vec![cx.filled(dtype, &axes.shape, &number)?]);
    }
    let mut statement = Statement::default();
    let wide = wide(dtype);
    let element = format!("{wide}({})", cx.bind_array(&mut statement, &x)?.whole());
    let sum = access("s", &axes.inner(x.rank()));
    let count = if dtype.is_float() { format!("{count}.0") } else { count.to_string() };
    let value = reduction.value.replace("{}", &element);
    let finish = reduction.finish.replace("{}", &sum).replace("{count}", &count);
    let y = access("y", &axes.target(x.rank()));
    let text = format!("{sum} {} {value}\n{y} := {dtype}({finish})", reduction.op);
    Ok(vec![cx.emit(&statement, dtype, &axes.shape, &text)?])
}

/// The result of no elements.
fn empty_number(text: &str, dtype: DType) -> String {
    let extreme = |is_low: bool| match (dtype.is_float(), dtype) {
        (true, _) => if is_low { "-inf" } else { "inf" }.to_owned(),
        (_, DType::I64) => if is_low { i64::MIN } else { i64::MAX }.to_string(),
        (_, DType::I32) => if is_low { i32::MIN } else { i32::MAX }.to_string(),
        (_, DType::I8) => if is_low { i8::MIN } else { i8::MAX }.to_string(),
        (_, DType::U8) => if is_low { u8::MIN } else { u8::MAX }.to_string(),
        (_, DType::U64) => if is_low { u64::MIN } else { u64::MAX }.to_string(),
        (_, DType::U32) => if is_low { u32::MIN } else { u32::MAX }.to_string(),
        _ => u8::from(!is_low).to_string(),
    };
    let number = match text {
        "lowest" => extreme(true),
        "highest" => extreme(false),
        other => other.to_owned(),
    };
    format!("{dtype}({number})")
}

fn reduced_on_host(cx: &NodeContext<'_, '_>, axes: &ReducedAxes) -> Result<Option<Value>, NodeProblem> {
    let Some(known) = cx.all_known() else { return Ok(None) };
    let Some(x) = known.first().filter(|x| !x.dtype().is_float() && x.array.num_values() > 0) else {
        return Ok(None);
    };
    let op = match cx.operator() {
        "ReduceSum" => BinaryOp::Add,
        "ReduceProd" => BinaryOp::Mul,
        "ReduceMax" => BinaryOp::Max,
        "ReduceMin" => BinaryOp::Min,
        _ => return Ok(None),
    };
    let kept = ReducedAxes::new(x.shape(), axes.axes.clone(), true);
    let mut results: Vec<Option<Scalar>> = vec![None; kept.shape.iter().product()];
    for (index, value) in indices(x.shape()).zip(scalars(&x.array)) {
        let own: Vec<usize> =
            index.iter().enumerate().map(|(at, &i)| if axes.axes.contains(&at) { 0 } else { i }).collect();
        let (result, value) = (&mut results[flatten(&own, &kept.shape)], value.convert(wide(x.dtype())));
        *result = Some(result.map_or(value, |sum| eval::binary(op, sum, value)));
    }
    Ok(Some(cx.known(array_of(x.dtype(), &axes.shape, results.into_iter().flatten())?)))
}

fn log_sum_exp(cx: &mut NodeContext<'_, '_>) -> Lowered {
    let axes = ReducedAxes::of(cx)?;
    let x = cx.value(0)?;
    let dtype = x.dtype();
    if x.num_elements() == 0 && !axes.shape.contains(&0) {
        return Ok(vec![cx.filled(dtype, &axes.shape, &format!("{dtype}(-inf)"))?]);
    }
    let mut statement = Statement::default();
    let element = format!("{}({})", wide(dtype), cx.bind_array(&mut statement, &x)?.whole());
    let [most, sum] = ["m", "s"].map(|name| access(name, &axes.inner(x.rank())));
    let y = access("y", &axes.target(x.rank()));
    // Of infinities alone, the largest element is subtracted from itself, which would give NaN.
    let text = format!(
        "{most} :max= {element}\n{sum} :+= where({element} == {most}, 1, exp({element} - {most}))\n\
         {y} := {dtype}(log({sum}) + {most})"
    );
    Ok(vec![cx.emit(&statement, dtype, &axes.shape, &text)?])
}

/// The position of the extreme element of an axis, which is the first NaN if there is one.
fn position(cx: &mut NodeContext<'_, '_>, op: &str) -> Lowered {
    let x = cx.value(0)?;
    let at = axis(cx.int_or("axis", 0)?, x.rank())?;
    if x.shape()[at] == 0 {
        return Err(NodeProblem::operand(0, format!("axis {at} of {:?} has no elements", x.shape())));
    }
    let axes = ReducedAxes::new(x.shape(), vec![at], cx.int_or("keepdims", 1)? != 0);
    let mut statement = Statement::default();
    let element = cx.bind_array(&mut statement, &x)?.whole();
    let y = access("y", &axes.target(x.rank()));
    let (extreme, is_extreme) = extreme(&element, op, &axes.inner(x.rank()), x.dtype());
    let (here, size) = (letter(at), x.shape()[at]);
    let found = match cx.int_or("select_last_index", 0)? {
        0 => format!("{y} :min= where({is_extreme}, {here}, {size})"),
        _ => format!("{y} :max= where({is_extreme}, {here}, -1)"),
    };
    Ok(vec![cx.emit(&statement, DType::I64, &axes.shape, &format!("{extreme}{found}"))?])
}

/// Statements that find the extreme by `op` of the elements for each of the outer letters, and the condition
/// that an element is it. If there are NaNs, these are the extreme ones.
pub(super) fn extreme(element: &str, op: &str, outer: &[String], dtype: DType) -> (String, String) {
    let [most, nans] = ["m", "nans"].map(|name| access(name, outer));
    let found = format!("{most} {op} {element}\n");
    match dtype.is_float() {
        true => (
            format!("{found}{nans} :+= i32({element} != {element})\n"),
            format!("or({element} != {element}, and({nans} == 0, {element} == {most}))"),
        ),
        false => (found, format!("{element} == {most}")),
    }
}

/// Accumulates along an axis. Lowering makes one loop of the triangle of elements that count.
fn cumulative(cx: &mut NodeContext<'_, '_>, op: &str) -> Lowered {
    let given =
        cx.host_ints(1)?.first().copied().ok_or_else(|| NodeProblem::operand(1, "it has no element"))?;
    let x = cx.value(0)?;
    let at = axis(given, x.rank())?;
    let is_reverse = cx.int_or("reverse", 0)? != 0;
    let is_exclusive = cx.int_or("exclusive", 0)? != 0;
    let relation = match (is_reverse, is_exclusive) {
        (false, false) => "<=",
        (false, true) => "<",
        (true, false) => ">=",
        (true, true) => ">",
    };
    let mut statement = Statement::default();
    let mut index = letters(x.rank());
    index[at] = "k".into();
    let element = cx.bind_array(&mut statement, &x)?.at(&index);
    let y = access("y", &letters(x.rank()));
    let (dtype, wide) = (x.dtype(), wide(x.dtype()));
    let value = format!("{wide}({element}) where {}, k {relation} {}", ranges(x.shape()), letter(at));
    let text = match wide == dtype {
        true => format!("{y} {op} {value}"),
        false => format!("{0} {op} {value}\n{y} := {dtype}({0})", access("s", &letters(x.rank()))),
    };
    Ok(vec![cx.emit(&statement, dtype, x.shape(), &text)?])
}
