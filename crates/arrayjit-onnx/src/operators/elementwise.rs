//! Functions of elements, with broadcasting.

use lowered_ir::{
    eval,
    ir::{BinaryOp, UnaryOp},
};
use tnode::{DType, HostArray, Scalar};

use super::{
    context::{Lowered, MOST_ON_HOST, NodeContext},
    operator::{Operator, all_sized, list_op, op},
    reduce::wide,
};
use crate::{
    error::{OnnxError, Result},
    host::{array_of, float, indices, scalars},
    narrow::Narrow,
    shape::{access, broadcast_position, elements, letters},
    value::Value,
};

/// Whether an operator of that name is a function of elements.
pub(super) fn has(name: &str) -> bool {
    OPERATORS.iter().any(|operator| operator.name == name)
}

pub(super) static OPERATORS: &[Operator] = &all_sized([
    op("Abs", 1, |cx| unary(cx, "abs({})")),
    op("Acos", 7, |cx| unary(cx, "acos({})")),
    op("Acosh", 9, |cx| unary(cx, "acosh({})")),
    op("Add", 7, |cx| binary(cx, "{x} + {z}")),
    op("And", 7, |cx| comparison(cx, "and({x}, {z})")),
    op("Asin", 7, |cx| unary(cx, "asin({})")),
    op("Asinh", 9, |cx| unary(cx, "asinh({})")),
    op("Atan", 7, |cx| unary(cx, "atan({})")),
    op("Atanh", 9, |cx| unary(cx, "atanh({})")),
    op("BitShift", 11, bit_shift),
    op("BitwiseAnd", 18, |cx| binary(cx, "bit_and({x}, {z})")),
    op("BitwiseNot", 18, bitwise_not),
    op("BitwiseOr", 18, |cx| binary(cx, "bit_or({x}, {z})")),
    op("BitwiseXor", 18, |cx| binary(cx, "bit_xor({x}, {z})")),
    op("Cast", 1, cast),
    op("CastLike", 15, cast_like),
    op("Ceil", 1, |cx| unary(cx, "-floor(-{})")),
    op("Celu", 12, |cx| with_alpha(cx, 1.0, "celu({}, {alpha})")),
    op("Clip", 6, clip),
    op("Cos", 7, |cx| unary(cx, "cos({})")),
    op("Cosh", 9, |cx| unary(cx, "cosh({})")),
    op("Div", 7, |cx| binary(cx, "{x} / {z}")),
    op("Elu", 1, |cx| with_alpha(cx, 1.0, "elu({}, {alpha})")),
    op("Equal", 7, |cx| comparison(cx, "{x} == {z}")),
    op("Erf", 9, |cx| unary(cx, "erf({})")),
    op("Exp", 1, |cx| unary(cx, "exp({})")),
    op("Floor", 1, |cx| unary(cx, "floor({})")),
    op("Gelu", 20, gelu),
    op("Greater", 7, |cx| comparison(cx, "{x} > {z}")),
    op("GreaterOrEqual", 12, |cx| comparison(cx, "{x} >= {z}")),
    op("HardSigmoid", 1, hard_sigmoid),
    op("HardSwish", 14, |cx| unary(cx, "hard_swish({})")),
    list_op("Identity", 1, |cx| Ok(vec![cx.value(0)?])),
    op("IsInf", 10, is_inf),
    op("IsNaN", 9, |cx| predicate(cx, "{} != {}")),
    op("LeakyRelu", 1, |cx| with_alpha(cx, 0.01, "where({} < 0, {alpha} * {}, {})")),
    op("Less", 7, |cx| comparison(cx, "{x} < {z}")),
    op("LessOrEqual", 12, |cx| comparison(cx, "{x} <= {z}")),
    op("Log", 1, |cx| unary(cx, "log({})")),
    op("Max", 6, |cx| variadic(cx, "max({x}, {z})")),
    op("Mean", 6, mean),
    op("Min", 6, |cx| variadic(cx, "min({x}, {z})")),
    op("Mish", 18, |cx| unary(cx, "mish({})")),
    op("Mod", 10, modulo),
    op("Mul", 7, |cx| binary(cx, "{x} * {z}")),
    op("Neg", 1, |cx| unary(cx, "-{}")),
    op("Not", 1, |cx| predicate(cx, "not({})")),
    op("Or", 7, |cx| comparison(cx, "or({x}, {z})")),
    op("PRelu", 7, |cx| binary(cx, "where({x} < 0, {x} * {z}, {x})")),
    op("Pow", 7, pow),
    op("Reciprocal", 1, |cx| unary(cx, "1 / {}")),
    op("Relu", 1, |cx| unary(cx, "max({}, 0)")),
    op("Round", 11, |cx| unary(cx, "round_even({})")),
    op("Selu", 1, selu),
    op("Shrink", 9, shrink),
    op("Sigmoid", 1, |cx| unary(cx, "sigmoid({})")),
    op("Sign", 9, sign),
    op("Sin", 7, |cx| unary(cx, "sin({})")),
    op("Sinh", 9, |cx| unary(cx, "sinh({})")),
    op("Softplus", 1, |cx| unary(cx, "softplus({})")),
    op("Softsign", 1, |cx| unary(cx, "softsign({})")),
    op("Sqrt", 1, |cx| unary(cx, "sqrt({})")),
    op("Sub", 7, |cx| binary(cx, "{x} - {z}")),
    op("Sum", 6, |cx| variadic(cx, "{x} + {z}")),
    op("Swish", 24, |cx| with_alpha(cx, 1.0, "silu({}, {alpha})")),
    op("Tan", 7, |cx| unary(cx, "tan({})")),
    op("Tanh", 1, |cx| unary(cx, "tanh({})")),
    op("ThresholdedRelu", 10, |cx| with_alpha(cx, 1.0, "where({} > {alpha}, {}, 0)")),
    op("Where", 9, select),
    op("Xor", 7, |cx| comparison(cx, "{x} != {z}")),
]);

/// Those that the host computes, for which it needs numbers.
pub(super) static ON_HOST: &[Operator] = &[op("BitCast", 26, bit_cast)];

/// Applies an expression, in which `{}` is the element.
fn unary(cx: &mut NodeContext<'_>, expression: &str) -> Lowered {
    let dtype = cx.value(0)?.dtype();
    mapped(cx, dtype, expression)
}

/// A truth value of each element.
fn predicate(cx: &mut NodeContext<'_>, expression: &str) -> Lowered {
    mapped(cx, DType::Bool, expression)
}

fn mapped(cx: &mut NodeContext<'_>, dtype: DType, expression: &str) -> Lowered {
    let x = cx.value(0)?;
    if let Some(result) = unary_on_host(cx, dtype)? {
        return Ok(vec![result]);
    }
    Ok(vec![cx.mapped(&x, dtype, expression)?])
}

fn unary_on_host(cx: &NodeContext<'_>, dtype: DType) -> Result<Option<Value>> {
    let (Some(known), Some(function)) = (cx.all_known(), unary_function(cx.operator())) else {
        return Ok(None);
    };
    let Some(x) = known.first() else { return Ok(None) };
    let elements = scalars(&x.array).into_iter().map(function);
    Ok(Some(cx.known(array_of(dtype, x.shape(), elements)?)))
}

/// The operators that shapes are computed with, as the device computes them.
fn unary_function(operator: &str) -> Option<fn(Scalar) -> Scalar> {
    Some(match operator {
        "Abs" => |x| eval::unary(UnaryOp::Abs, x),
        "Neg" => |x| eval::unary(UnaryOp::Neg, x),
        "Not" => |x| eval::unary(UnaryOp::Not, x),
        "Ceil" => |x| eval::unary(UnaryOp::Neg, eval::unary(UnaryOp::Floor, eval::unary(UnaryOp::Neg, x))),
        "Floor" => |x| eval::unary(UnaryOp::Floor, x),
        "Round" => |x| eval::unary(UnaryOp::RoundEven, x),
        "Sqrt" => |x| eval::unary(UnaryOp::Sqrt, x),
        "Reciprocal" => |x| eval::binary(BinaryOp::Div, Scalar::one(x.dtype()), x),
        _ => return None,
    })
}

/// Applies an expression of an attribute `alpha`.
fn with_alpha(cx: &mut NodeContext<'_>, default: f32, expression: &str) -> Lowered {
    let alpha = number(cx.float_or("alpha", default)?);
    unary(cx, &expression.replace("{alpha}", &alpha))
}

/// A float attribute as assignment text.
fn number(value: f32) -> String {
    float(DType::F32, f64::from(value))
}

/// Applies an expression to the elements `{x}` and `{z}` of two operands.
fn binary(cx: &mut NodeContext<'_>, expression: &str) -> Lowered {
    let (x, z) = (cx.value(0)?, cx.value(1)?);
    let dtype = x.dtype();
    Ok(vec![combined(cx, &x, &z, dtype, expression)?])
}

/// The truth value of an expression of the elements `{x}` and `{z}`.
fn comparison(cx: &mut NodeContext<'_>, expression: &str) -> Lowered {
    let (x, z) = (cx.value(0)?, cx.value(1)?);
    Ok(vec![combined(cx, &x, &z, DType::Bool, expression)?])
}

/// Folds all operands by an expression.
fn variadic(cx: &mut NodeContext<'_>, expression: &str) -> Lowered {
    let values = cx.values()?;
    let mut values = values.into_iter();
    let mut result = values.next().ok_or_else(|| OnnxError::operand(0, "it is missing"))?;
    for value in values {
        let dtype = result.dtype();
        result = combined(cx, &result, &value, dtype, expression)?;
    }
    Ok(vec![result])
}

fn mean(cx: &mut NodeContext<'_>) -> Lowered {
    let count = cx.inputs();
    let sum = variadic(cx, "{x} + {z}")?;
    let sum = sum.into_iter().next().ok_or_else(|| OnnxError::operand(0, "it is missing"))?;
    Ok(vec![cx.mapped(&sum, sum.dtype(), &format!("{{}} / {count}"))?])
}

/// An expression of the elements `{x}` and `{z}`, which are broadcast.
pub(super) fn combined(
    cx: &mut NodeContext<'_>,
    x: &Value,
    z: &Value,
    dtype: DType,
    expression: &str,
) -> Result<Value> {
    let extents = x.extents().broadcast(&z.extents())?;
    let shape = extents.dims();
    if let Some(result) = binary_on_host(cx, x, z, dtype, &shape)? {
        return Ok(result);
    }
    let left = cx.bind(x)?.broadcast(shape.len());
    let right = cx.bind(z)?.broadcast(shape.len());
    let y = access("y", letters(shape.len()));
    let value = expression.replace("{x}", &left).replace("{z}", &right);
    cx.emit(dtype, &extents, &format!("{y} := {value}"))
}

fn binary_on_host(
    cx: &NodeContext<'_>,
    x: &Value,
    z: &Value,
    dtype: DType,
    shape: &[usize],
) -> Result<Option<Value>> {
    // Small operands may have a large result.
    let is_small = elements(shape)? <= MOST_ON_HOST;
    let (true, Some(_), Some(left), Some(right)) = (is_small, cx.all_known(), x.known(), z.known()) else {
        return Ok(None);
    };
    let Some(op) = binary_op(cx.operator()).filter(|_| left.dtype() == right.dtype()) else {
        return Ok(None);
    };
    let (a, b) = (scalars(&left.array), scalars(&right.array));
    let results = indices(shape).map(|index| {
        let (a, b) =
            (a[broadcast_position(&index, left.shape())], b[broadcast_position(&index, right.shape())]);
        match op {
            HostOp::Same(op) => eval::binary(op, a, b),
            HostOp::Turned(op) => eval::binary(op, b, a),
        }
    });
    Ok(Some(cx.known(array_of(dtype, shape, results)?)))
}

/// An operation of the device, whose operands may be in the opposite order.
#[derive(Clone, Copy)]
enum HostOp {
    Same(BinaryOp),
    Turned(BinaryOp),
}

/// The operators that shapes are computed with, as the device computes them.
fn binary_op(operator: &str) -> Option<HostOp> {
    Some(HostOp::Same(match operator {
        "Add" | "Sum" => BinaryOp::Add,
        "Sub" => BinaryOp::Sub,
        "Mul" => BinaryOp::Mul,
        "Div" => BinaryOp::Div,
        "Max" => BinaryOp::Max,
        "Min" => BinaryOp::Min,
        "Equal" => BinaryOp::Eq,
        "Less" => BinaryOp::Lt,
        "LessOrEqual" => BinaryOp::Le,
        "Greater" => return Some(HostOp::Turned(BinaryOp::Lt)),
        "GreaterOrEqual" => return Some(HostOp::Turned(BinaryOp::Le)),
        "And" => BinaryOp::And,
        "Or" => BinaryOp::Or,
        "Xor" => BinaryOp::Ne,
        _ => return None,
    }))
}

fn bit_shift(cx: &mut NodeContext<'_>) -> Lowered {
    let dtype = cx.value(0)?.dtype();
    let bits = 8 * dtype.size_bytes();
    // Other distances shift all bits out.
    let is_inside = if dtype.is_signed() {
        format!("and({{z}} >= 0, {{z}} < {bits})")
    } else {
        format!("{{z}} < {bits}")
    };
    let sign = if dtype.is_signed() { "where({x} < 0, -1, 0)" } else { "0" };
    match cx.text_or("direction", "")? {
        "LEFT" => binary(cx, &format!("where({is_inside}, shl({{x}}, {{z}}), 0)")),
        "RIGHT" => binary(cx, &format!("where({is_inside}, shr({{x}}, {{z}}), {sign})")),
        _ => Err(OnnxError::attribute("direction", "LEFT or RIGHT")),
    }
}

fn bitwise_not(cx: &mut NodeContext<'_>) -> Lowered {
    match cx.value(0)?.dtype() {
        DType::U8 => unary(cx, "255 - {}"),
        DType::U16 => unary(cx, "65535 - {}"),
        DType::U32 => unary(cx, "4294967295 - {}"),
        DType::U64 => unary(cx, "18446744073709551615 - {}"),
        _ => unary(cx, "-1 - {}"),
    }
}

fn cast(cx: &mut NodeContext<'_>) -> Lowered {
    let dtype = cx.dtype_attribute("to")?.ok_or_else(|| OnnxError::attribute("to", "an element type"))?;
    let (x, narrow) = (cx.value(0)?, cx.narrow_attribute("to")?);
    Ok(vec![converted(cx, &x, dtype, narrow)?])
}

/// The value in an element type; floats of 8 bits are clamped to the largest ones if the operator saturates.
/// A narrower type has its values in the element type.
fn converted(cx: &mut NodeContext<'_>, x: &Value, dtype: DType, narrow: Option<Narrow>) -> Result<Value> {
    if let Some(narrow) = narrow {
        return cx.mapped(x, dtype, &format!("{dtype}({})", narrow.rounded("{}", x.dtype().is_float())));
    }
    let is_fp8 = matches!(dtype, DType::Fp8E4m3fn | DType::Fp8E5m2);
    if !is_fp8 || cx.int_or("saturate", 1)? == 0 {
        return cx.cast(x, dtype);
    }
    cx.mapped(x, dtype, &format!("{dtype}({})", clamped(dtype, "f32({})")))
}

/// The value as text, clamped to the largest numbers of a float of 8 bits.
pub(super) fn clamped(dtype: DType, value: &str) -> String {
    let most = if dtype == DType::Fp8E4m3fn { "448.0" } else { "57344.0" };
    format!("where({value} != {value}, {value}, min(max({value}, -{most}), {most}))")
}

/// The same bits as another type of the same size. The host reads them, because it copies bytes anyway.
fn bit_cast(cx: &mut NodeContext<'_>) -> Lowered {
    let dtype = cx.dtype_attribute("to")?.ok_or_else(|| OnnxError::attribute("to", "an element type"))?;
    let x = cx.value(0)?;
    if x.dtype().size_bytes() != dtype.size_bytes() {
        return Err(OnnxError::attribute("to", format!("a type of the size of {}", x.dtype())));
    }
    cx.on_host(&[x], move |arrays| match arrays {
        [x] => Ok(vec![HostArray::from_bytes(dtype, x.dims().iter().copied(), x.bytes())?]),
        _ => Err(OnnxError::operand(0, "it is missing")),
    })
}

fn cast_like(cx: &mut NodeContext<'_>) -> Lowered {
    let (x, like, narrow) = (cx.value(0)?, cx.value(1)?, cx.narrow(1));
    Ok(vec![converted(cx, &x, like.dtype(), narrow)?])
}

/// Bounds are attributes before opset 11, and operands from it on.
fn clip(cx: &mut NodeContext<'_>) -> Lowered {
    let x = cx.value(0)?;
    let mut value = cx.bind(&x)?.whole();
    if cx.opset() < 11 {
        // The bounds are f32, whose numbers narrower types do not all have.
        let wide = wide(x.dtype());
        value = format!("{wide}({value})");
        for (name, function) in [("min", "max"), ("max", "min")] {
            if cx.attribute(name).is_some() {
                value = format!("{function}({value}, {})", number(cx.float_or(name, 0.0)?));
            }
        }
        value = format!("{}({value})", x.dtype());
    } else {
        for (at, function) in [(1, "max"), (2, "min")] {
            let Some(bound) = cx.optional(at) else { continue };
            if bound.num_elements() != 1 {
                return Err(OnnxError::operand(at, "expected one element"));
            }
            let bound = cx.bind(&bound)?;
            value = format!("{function}({value}, {})", bound.broadcast(0));
        }
    }
    let y = access("y", letters(x.rank()));
    Ok(vec![cx.emit(x.dtype(), x.extents(), &format!("{y} := {value}"))?])
}

fn gelu(cx: &mut NodeContext<'_>) -> Lowered {
    match cx.text_or("approximate", "none")? {
        "tanh" => unary(cx, "gelu_tanh({})"),
        "none" => unary(cx, "gelu({})"),
        _ => Err(OnnxError::attribute("approximate", "none or tanh")),
    }
}

fn hard_sigmoid(cx: &mut NodeContext<'_>) -> Lowered {
    let (alpha, beta) = (number(cx.float_or("alpha", 0.2)?), number(cx.float_or("beta", 0.5)?));
    unary(cx, &format!("hard_sigmoid({{}}, {alpha}, {beta})"))
}

fn is_inf(cx: &mut NodeContext<'_>) -> Lowered {
    match (cx.int_or("detect_positive", 1)?, cx.int_or("detect_negative", 1)?) {
        (0, 0) => predicate(cx, "and({} > 0, {} < 0)"),
        (_, 0) => predicate(cx, "{} == inf"),
        (0, _) => predicate(cx, "{} == -inf"),
        _ => predicate(cx, "abs({}) == inf"),
    }
}

/// With `fmod`, the remainder has the sign of the dividend, otherwise of the divisor.
fn modulo(cx: &mut NodeContext<'_>) -> Lowered {
    let is_signed = cx.value(0)?.dtype().is_signed();
    match cx.int_or("fmod", 0)? {
        0 if is_signed => {
            binary(cx, "where(and({x} % {z} != 0, ({x} % {z} < 0) != ({z} < 0)), {x} % {z} + {z}, {x} % {z})")
        }
        _ => binary(cx, "{x} % {z}"),
    }
}

fn pow(cx: &mut NodeContext<'_>) -> Lowered {
    let (x, z) = (cx.value(0)?, cx.value(1)?);
    // Small powers are products, which are exact for integers.
    let exponent = z.known().filter(|known| known.array.num_values() == 1).map(|known| known.floats());
    // Truncated, as in NumPy, unless only the error of `pow` keeps it from a whole number.
    let truncated = "where(abs(pow(f64({x}), f64({z})) - round_even(pow(f64({x}), f64({z})))) \
        <= 1e-13 * abs(pow(f64({x}), f64({z}))), round_even(pow(f64({x}), f64({z}))), pow(f64({x}), f64({z})))";
    let expression = match exponent.as_deref() {
        Some([2.0]) => "{x} * {x}",
        Some([3.0]) => "{x} * {x} * {x}",
        Some([0.5]) if x.dtype().is_float() => "sqrt({x})",
        _ if x.dtype().is_integer() && z.dtype().is_float() => truncated,
        _ => "pow({x}, {z})",
    };
    binary(cx, expression)
}

fn selu(cx: &mut NodeContext<'_>) -> Lowered {
    let gamma = number(cx.float_or("gamma", 1.050_701)?);
    let alpha = number(cx.float_or("alpha", 1.673_263_2)?);
    unary(cx, &format!("selu({{}}, {alpha}, {gamma})"))
}

fn shrink(cx: &mut NodeContext<'_>) -> Lowered {
    let (bias, lambda) = (number(cx.float_or("bias", 0.0)?), number(cx.float_or("lambd", 0.5)?));
    unary(cx, &format!("where({{}} < -{lambda}, {{}} + {bias}, where({{}} > {lambda}, {{}} - {bias}, 0))"))
}

fn sign(cx: &mut NodeContext<'_>) -> Lowered {
    let dtype = cx.value(0)?.dtype();
    match dtype.is_float() || dtype.is_signed() {
        true => unary(cx, "where({} > 0, 1, where({} < 0, -1, {} * 0))"),
        false => unary(cx, "min({}, 1)"),
    }
}

fn select(cx: &mut NodeContext<'_>) -> Lowered {
    let (condition, x, z) = (cx.value(0)?, cx.value(1)?, cx.value(2)?);
    let extents = x.extents().broadcast(&z.extents())?.broadcast(&condition.extents())?;
    let shape = extents.dims();
    let dtype = x.dtype();
    let known = if elements(&shape)? <= MOST_ON_HOST { cx.all_known() } else { None };
    if let Some([c, a, b]) = known.as_deref() {
        let [truth, p, q] = [c, a, b].map(|value| scalars(&value.array));
        let results =
            indices(&shape).map(|index| match truth[broadcast_position(&index, c.shape())].as_bool() {
                true => p[broadcast_position(&index, a.shape())],
                false => q[broadcast_position(&index, b.shape())],
            });
        return Ok(vec![cx.known(array_of(dtype, &shape, results)?)]);
    }
    let c = cx.bind(&condition)?.broadcast(shape.len());
    let a = cx.bind(&x)?.broadcast(shape.len());
    let b = cx.bind(&z)?.broadcast(shape.len());
    let y = access("y", letters(shape.len()));
    Ok(vec![cx.emit(dtype, &extents, &format!("{y} := where({c}, {a}, {b})"))?])
}
