//! The operators, each as a function that adds statements to the current graph.

mod attention; // attention
mod contract; // products of matrices
mod control; // branches and loops
mod data_shaped; // results whose shape data decide
mod elementwise; // functions of elements
mod layout; // moves elements
mod list; // sequences of arrays
mod loss; // losses of classes
mod normalise; // softmax, normalisation
mod pad; // margins
mod pool; // pooling
mod quantise; // quantised integers
mod random; // random numbers
mod recurrent; // LSTM, GRU, RNN
mod reduce; // reductions
mod resize; // resampling
mod sample; // images at computed positions
mod select; // elements by position
mod sequence; // layers of sequence models
mod shape; // shapes and constants
mod signal; // Fourier transforms
mod text; // counts of n-grams
mod window; // windows and convolution

use crate::context::{Lowered, NodeContext};

/// An operator from one version of its operator set on.
pub(crate) struct Operator {
    pub(crate) name: &'static str,
    domain: &'static str,
    /// The first version of the operator set with this meaning.
    since: i64,
    pub(crate) lower: fn(&mut NodeContext<'_, '_, '_>) -> Lowered,
    /// Whether two evaluations may differ.
    pub(crate) is_random: bool,
    /// Whether operands or results may be sequences.
    pub(crate) has_sequences: bool,
}

/// An operator of `ai.onnx`.
const fn op(name: &'static str, since: i64, lower: fn(&mut NodeContext<'_, '_, '_>) -> Lowered) -> Operator {
    Operator { name, domain: "", since, lower, is_random: false, has_sequences: false }
}

/// An operator of `ai.onnx` whose operands or results may be sequences.
const fn list_op(
    name: &'static str,
    since: i64,
    lower: fn(&mut NodeContext<'_, '_, '_>) -> Lowered,
) -> Operator {
    Operator { has_sequences: true, ..op(name, since, lower) }
}

/// The only list of operators, by family.
static FAMILIES: &[&[Operator]] = &[
    attention::OPERATORS,
    contract::OPERATORS,
    control::OPERATORS,
    data_shaped::OPERATORS,
    elementwise::OPERATORS,
    layout::OPERATORS,
    list::OPERATORS,
    loss::OPERATORS,
    normalise::OPERATORS,
    pad::OPERATORS,
    pool::OPERATORS,
    quantise::OPERATORS,
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
pub(crate) fn find(domain: &str, name: &str, opset: i64) -> Result<&'static Operator, String> {
    let all = FAMILIES.iter().copied().flatten();
    let mut since = None;
    for operator in all.filter(|operator| operator.domain == domain && operator.name == name) {
        if operator.since <= opset {
            return Ok(operator);
        }
        since = Some(operator.since);
    }
    Err(match since {
        Some(since) => format!("the operator is supported from opset {since} on"),
        None => "the operator is not supported".into(),
    })
}
