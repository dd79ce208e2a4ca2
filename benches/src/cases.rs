//! The cases. Names are stable: records of earlier runs refer to them.

mod contractions; // products, attention and convolution
mod elementwise; // chains of elementwise operations, one pass over memory
mod large; // what keeps a GPU busy
mod latency; // from text to first result
mod reductions; // sums, and the transpose
mod rows; // operations on each row of a matrix
mod training; // whole steps of training

use crate::case::Case;

/// Every case, in the order they run.
pub(crate) fn all() -> Vec<Case> {
    let mut cases = contractions::all();
    cases.extend(elementwise::all());
    cases.extend(reductions::all());
    cases.extend(rows::all());
    cases.extend(training::all());
    cases.extend(latency::all());
    cases.extend(large::all());
    cases
}
