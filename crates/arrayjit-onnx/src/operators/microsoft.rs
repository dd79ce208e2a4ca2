//! Operators of `com.microsoft`, which onnxruntime's optimizer, quantizer and exporters write into models:
//! compositions of operators of `ai.onnx`.

pub(super) mod attention; // attention with its projections, caches and rotary positions
pub(super) mod blocks; // weights in blocks of few bits
pub(super) mod channels_last; // images with the channels as the last axis
pub(super) mod lookup; // rows of tables in blocks of few bits
pub(super) mod normalize; // sums with a normalization
pub(super) mod packed; // attention of sequences without padding
pub(super) mod quantized; // functions of quantized integers

use tnode::DType;

use super::{
    context::{Lowered, NodeContext},
    contract::{gemm, inverse, product},
    elementwise::combined,
    layout::trilu,
    operator::{Operator, op},
    window::convolved,
};
use crate::{
    error::{OnnxError, Result},
    host::float,
    ir::Attribute,
    value::Value,
};

pub(super) static OPERATORS: &[Operator] = &[
    ms("BiasAdd", |cx| {
        let sum = plus(cx, 0, 1)?;
        let skip = cx.value(2)?;
        Ok(vec![combined(cx, &sum, &skip, skip.dtype(), "{x} + {z}")?])
    })
    .sized(),
    ms("BiasGelu", |cx| on_sum(cx, "gelu({})")).sized(),
    ms("BiasSplitGelu", split_gelu),
    ms("FastGelu", |cx| on_sum(cx, "gelu_tanh({})")).sized(),
    ms("FusedConv", |cx| {
        let (x, filters, bias) = (cx.value(0)?, cx.value(1)?, cx.optional(2));
        let y = convolved(cx, &x, &filters, bias)?;
        let y = match cx.optional(3) {
            Some(other) => combined(cx, &y, &other, y.dtype(), "{x} + {z}")?,
            None => y,
        };
        let parameters = cx.floats("activation_params")?.unwrap_or_default();
        activated(cx, y, &parameters)
    }),
    ms("FusedGemm", |cx| {
        let y = only(gemm(cx)?)?;
        let (alpha, beta) = (cx.float_or("activation_alpha", 0.01)?, cx.float_or("activation_beta", 0.0)?);
        activated(cx, y, &[alpha, beta])
    }),
    ms("FusedMatMul", multiplied).sized(),
    ms("Gelu", |cx| on_sum(cx, "gelu({})")).sized(),
    ms("Inverse", inverse),
    ms("QuickGelu", |cx| {
        let alpha = float(DType::F32, f64::from(cx.float_or("alpha", 1.702)?));
        on_sum(cx, &format!("silu({{}}, {alpha})"))
    })
    .sized(),
    ms("TransposeMatMul", multiplied).sized(),
    ms("Trilu", trilu),
];

/// An operator of `com.microsoft`.
const fn ms(name: &'static str, lower: fn(&mut NodeContext<'_>) -> Lowered) -> Operator {
    Operator { domain: "com.microsoft", ..op(name, 1, lower) }
}

/// The first result.
fn only(results: Vec<Value>) -> Result<Value> {
    results.into_iter().next().ok_or_else(|| OnnxError::Invalid("a result is missing".into()))
}

/// The sum of two operands, of which the node may leave out the second.
fn plus(cx: &mut NodeContext<'_>, at: usize, other: usize) -> Result<Value> {
    let x = cx.value(at)?;
    match cx.optional(other) {
        Some(bias) => combined(cx, &x, &bias, x.dtype(), "{x} + {z}"),
        None => Ok(x),
    }
}

/// An expression of the sum `{}` of the operand and of a bias, if the node has one.
fn on_sum(cx: &mut NodeContext<'_>, expression: &str) -> Lowered {
    let sum = plus(cx, 0, 1)?;
    Ok(vec![cx.mapped(&sum, sum.dtype(), expression)?])
}

/// The first half of the last axis times gelu of the second one, after a bias.
fn split_gelu(cx: &mut NodeContext<'_>) -> Lowered {
    let sum = plus(cx, 0, 1)?;
    let [x, gate] = parts(cx, &sum, 2)?;
    Ok(vec![combined(cx, &x, &gate, sum.dtype(), "{x} * gelu({z})")?])
}

/// Equal parts of the last axis.
fn parts<const N: usize>(cx: &mut NodeContext<'_>, x: &Value, count: i64) -> Result<[Value; N]> {
    let attributes = [("axis", Attribute::Int(-1)), ("num_outputs", Attribute::Int(count))];
    cx.apply("Split", attributes, vec![Some(x.clone())], N)?.try_into().map_err(|_| OnnxError::overflow())
}

/// The activation that the node names; `parameters` are its alpha and beta.
fn activated(cx: &mut NodeContext<'_>, x: Value, parameters: &[f32]) -> Lowered {
    let parameter = |at: usize| float(DType::F32, f64::from(parameters.get(at).copied().unwrap_or(0.0)));
    let [alpha, beta] = [parameter(0), parameter(1)];
    let expression = match cx.text_or("activation", "")? {
        "" => return Ok(vec![x]),
        "Clip" => format!("min(max({{}}, {alpha}), {beta})"),
        "HardSigmoid" => format!("hard_sigmoid({{}}, {alpha}, {beta})"),
        "LeakyRelu" => format!("where({{}} < 0, {alpha} * {{}}, {{}})"),
        "Relu" => "max({}, 0)".to_owned(),
        "Sigmoid" => "sigmoid({})".to_owned(),
        "Tanh" => "tanh({})".to_owned(),
        other => return Err(OnnxError::Case(format!("the activation `{other}`"))),
    };
    Ok(vec![cx.mapped(&x, x.dtype(), &expression)?])
}

/// The product of matrices that may be transposed.
fn multiplied(cx: &mut NodeContext<'_>) -> Lowered {
    let mut operands = Vec::new();
    for (at, (name, batch)) in [("transA", "transBatchA"), ("transB", "transBatchB")].into_iter().enumerate()
    {
        if cx.int_or(batch, 0)? != 0 {
            return Err(OnnxError::Case(format!("the attribute `{batch}`")));
        }
        let x = cx.value(at)?;
        operands.push(if cx.int_or(name, 0)? == 0 || x.rank() < 2 { x } else { transposed(cx, &x)? });
    }
    let (alpha, dtype) = (cx.float_or("alpha", 1.0)?, operands[0].dtype());
    let y = product(cx, &operands[0], &operands[1], dtype)?;
    Ok(vec![match alpha {
        1.0 => y,
        alpha => cx.mapped(&y, dtype, &format!("{{}} * {}", float(DType::F32, f64::from(alpha))))?,
    }])
}

/// The value with its last two axes exchanged.
fn transposed(cx: &mut NodeContext<'_>, x: &Value) -> Result<Value> {
    let mut order: Vec<usize> = (0..x.rank()).collect();
    order.swap(x.rank() - 2, x.rank() - 1);
    cx.permuted(x, &order)
}
