//! The operators, each as a function that adds statements to the current graph.

pub(crate) mod context; // nodes as operators see them
pub(crate) mod scope; // what a walk offers

mod operator; // operators in the list

mod attention; // attention
mod contract; // products of matrices
mod control; // branches and loops
mod data_shaped; // results whose shape data decide
mod dequantized; // products of dequantized operands
mod elementwise; // functions of elements
mod integer_product; // products of 8-bit integers
mod joined; // axes that join several
mod layout; // moves elements
mod list; // sequences of arrays
mod loop_node; // steps of loops
mod loop_scan; // loops as scans of the graph
mod loss; // losses of classes
mod microsoft; // operators of com.microsoft
mod ml; // operators of ai.onnx.ml
mod normalize; // softmax, normalization
mod pad; // margins
mod pool; // pooling
mod quantize; // quantized integers
mod random; // random numbers
mod recurrent; // LSTM, GRU, RNN
mod reduce; // reductions
mod resize; // resampling
mod sample; // images at computed positions
mod select; // elements by position
mod sequence; // layers of sequence models
mod shape; // shapes and constants
mod signal; // Fourier transforms
mod sizes; // sizes that a run gives
mod text; // counts of n-grams
mod window; // windows and convolution

use self::{
    context::{Lowered, NodeContext},
    operator::Operator,
};
use crate::{error::OnnxError, ir::NodeOperator};

/// The only list of operators, by family.
static FAMILIES: &[&[Operator]] = &[
    attention::OPERATORS,
    contract::OPERATORS,
    control::OPERATORS,
    data_shaped::OPERATORS,
    dequantized::OPERATORS,
    elementwise::OPERATORS,
    elementwise::ON_HOST,
    layout::OPERATORS,
    list::OPERATORS,
    loss::OPERATORS,
    microsoft::OPERATORS,
    microsoft::attention::OPERATORS,
    microsoft::blocks::OPERATORS,
    microsoft::channels_last::OPERATORS,
    microsoft::lookup::OPERATORS,
    microsoft::normalize::OPERATORS,
    microsoft::packed::OPERATORS,
    microsoft::quantized::OPERATORS,
    ml::kernels::OPERATORS,
    ml::labels::OPERATORS,
    ml::linear::OPERATORS,
    ml::scale::OPERATORS,
    ml::svm_classifier::OPERATORS,
    ml::tree_ensemble::OPERATORS,
    normalize::OPERATORS,
    pad::OPERATORS,
    pool::OPERATORS,
    quantize::OPERATORS,
    random::OPERATORS,
    recurrent::OPERATORS,
    reduce::OPERATORS,
    resize::OPERATORS,
    sample::OPERATORS,
    select::OPERATORS,
    sequence::OPERATORS,
    shape::OPERATORS,
    signal::OPERATORS,
    text::OPERATORS,
    window::OPERATORS,
];

/// The operator of that name in a version of its operator set, or what is missing.
pub(crate) fn find(domain: &str, name: &str, opset: i64) -> Result<NodeOperator, String> {
    let all = FAMILIES.iter().copied().flatten().enumerate();
    let mut since = None;
    let is_it =
        |operator: &Operator| operator.domain == domain && operator.name == name && !operator.is_internal();
    for (number, operator) in all.filter(|(_, operator)| is_it(operator)) {
        if operator.since <= opset {
            return Ok(operator.numbered(number));
        }
        since = Some(operator.since);
    }
    Err(match since {
        Some(since) => format!("the operator is supported from opset {since} on"),
        None => "the operator is not supported".into(),
    })
}

/// The operator that takes the place of one with dequantized operands.
pub(crate) fn of_dequantized(name: &str) -> Option<NodeOperator> {
    let mut all = FAMILIES.iter().copied().flatten().enumerate();
    let found = all.find(|(_, operator)| operator.is_internal() && operator.name == name);
    found.map(|(number, operator)| operator.numbered(number))
}

/// Adds the statements of a node to the current graph.
pub(crate) fn lower(cx: &mut NodeContext<'_>) -> Lowered {
    let Some(operator) = FAMILIES.iter().copied().flatten().nth(cx.operator_number()) else {
        return Err(OnnxError::Invalid(format!("{} is not in the list of operators", cx.operator())));
    };
    if !cx.has_sizes() {
        return (operator.lower)(cx);
    }
    let results = match sizes::lowered(cx, operator) {
        Ok(Some(results)) => return Ok(results),
        Ok(None) => (operator.lower)(cx),
        Err(problem) => Err(problem),
    };
    // Numbers in place of the sizes may do: a walk with them finds out.
    results.map_err(|problem| match problem {
        OnnxError::NeedsExtents { .. } => problem,
        other => cx.needs_mentioned_extents(&other.to_string()),
    })
}
