//! Support vector machines.

use tnode::DType;

use super::{super::contract::product, constants, features, ml, numbers, scores::transformed};
use crate::{
    error::{OnnxError, Result},
    host::float,
    operators::{
        context::{Lowered, NodeContext},
        operator::Operator,
    },
    value::Value,
};

pub(in crate::operators) static OPERATORS: &[Operator] = &[ml("SVMRegressor", 1, regressed).sized()];

/// The sum of the kernel of a row and each support vector, or of a row and the coefficients if there are
/// none.
fn regressed(cx: &mut NodeContext<'_>) -> Lowered {
    let x = features(cx)?;
    let x = cx.cast(&x, DType::F32)?;
    let (width, coefficients) = (x.shape()[1], numbers(cx, "coefficients")?);
    let vectors = usize::try_from(cx.int_or("n_supports", 0)?).unwrap_or(0);
    let rho = match numbers(cx, "rho")?.as_slice() {
        [] => 0.0,
        [rho, ..] => *rho,
    };
    let y = match vectors {
        0 if coefficients.len() == width => kernel(cx, &x, 1, &coefficients)?,
        0 => return Err(OnnxError::attribute("coefficients", format!("{width} floats"))),
        count if coefficients.len() == count => {
            let vectors = numbers(cx, "support_vectors")?;
            if count.checked_mul(width) != Some(vectors.len()) {
                let expected = format!("{count} rows of {width} floats");
                return Err(OnnxError::attribute("support_vectors", expected));
            }
            let similar = kernel(cx, &x, count, &vectors)?;
            let factors = constants(cx, "coefficients", DType::F32, &[count, 1], &coefficients)?;
            product(cx, &similar, &factors, DType::F32)?
        }
        count => return Err(OnnxError::attribute("coefficients", format!("{count} floats"))),
    };
    let rho = float(DType::F32, rho);
    let y = match cx.int_or("one_class", 0)? {
        0 => cx.mapped(&y, DType::F32, &format!("{{}} + {rho}"))?,
        _ => cx.mapped(&y, DType::F32, &format!("where({{}} + {rho} > 0, 1, -1)"))?,
    };
    Ok(vec![transformed(cx, &y)?])
}

/// The kernel of each row and each of `count` vectors.
pub(super) fn kernel(cx: &mut NodeContext<'_>, x: &Value, count: usize, vectors: &[f64]) -> Result<Value> {
    let parameters = numbers(cx, "kernel_params")?;
    let parameter = |at: usize| float(DType::F32, parameters.get(at).copied().unwrap_or(0.0));
    let [gamma, offset, degree] = [0, 1, 2].map(parameter);
    let width = x.shape()[1];
    let expression = match cx.text_or("kernel_type", "LINEAR")? {
        "LINEAR" => None,
        "POLY" => Some(format!("pow({gamma} * {{}} + {offset}, {degree})")),
        "SIGMOID" => Some(format!("tanh({gamma} * {{}} + {offset})")),
        "RBF" => {
            let vectors = constants(cx, "vectors", DType::F32, &[count, width], vectors)?;
            let mut extents = x.extents();
            extents.0[1] = count.into();
            let element = cx.bind_array(x)?.at(&["b".into(), "k".into()]);
            let other = cx.bind_array(&vectors)?.at(&["v".into(), "k".into()]);
            let text = format!(
                "node d f32[{}]\nd[b,v] :+= ({element} - {other}) * ({element} - {other})\n\
                 y[b,v] := exp(-{gamma} * d[b,v])",
                extents.text()
            );
            return cx.emit(DType::F32, &extents, &text);
        }
        _ => return Err(OnnxError::attribute("kernel_type", "LINEAR, POLY, RBF or SIGMOID")),
    };
    let turned: Vec<f64> = (0..width * count).map(|at| vectors[at % count * width + at / count]).collect();
    let columns = constants(cx, "columns", DType::F32, &[width, count], &turned)?;
    let dots = product(cx, x, &columns, DType::F32)?;
    match expression {
        Some(expression) => cx.mapped(&dots, DType::F32, &expression),
        None => Ok(dots),
    }
}
