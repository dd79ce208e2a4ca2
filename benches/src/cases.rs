//! All cases. Their names are stable: records of earlier runs refer to them.

mod attention; // attention to all, earlier and cached positions
mod contractions; // matrix multiplications and convolution
mod elementwise; // chains of elementwise operations, one pass over memory
mod large; // large cases for GPUs
mod latency; // from text to first result
mod lenet; // a training step of a convolutional network
mod reductions; // sums, and the transpose
mod rows; // softmax and layer normalisation of each row of a matrix
mod training; // whole steps of training

use crate::case::Case;

/// Every case, in the order of execution.
pub(crate) fn all() -> Vec<Case> {
    let mut cases = contractions::all();
    cases.extend(elementwise::all());
    cases.extend(reductions::all());
    cases.extend(rows::all());
    cases.extend(attention::all());
    cases.extend(training::all());
    cases.extend(lenet::all());
    cases.extend(latency::all());
    cases.extend(large::all());
    cases
}

/// Whether the name contains one of the filter's texts; true if the filter is empty.
pub(crate) fn is_selected(name: &str, filter: &[String]) -> bool {
    filter.is_empty() || filter.iter().any(|part| name.contains(part.as_str()))
}

/// The selected cases, in the order of execution. Large ones are selected on an NVIDIA GPU, and elsewhere by
/// their whole name.
pub(crate) fn selected(filter: &[String], on_gpu: bool) -> Vec<Case> {
    let takes = |case: &Case| on_gpu || !case.is_large || filter.iter().any(|whole| whole == case.name);
    all().into_iter().filter(|case| is_selected(case.name, filter) && takes(case)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(filter: &[&str], on_gpu: bool) -> Vec<&'static str> {
        let filter: Vec<String> = filter.iter().map(|&part| part.to_owned()).collect();
        selected(&filter, on_gpu).iter().map(|case| case.name).collect()
    }

    #[test]
    fn large_cases_run_on_a_gpu_or_by_their_whole_name() {
        assert_eq!(names(&["softmax"], false), ["softmax_1024x1024"]);
        assert_eq!(names(&["softmax"], true), ["softmax_1024x1024", "softmax_8192x8192"]);
        assert_eq!(names(&["softmax_8192x8192"], false), ["softmax_8192x8192"]);
        assert!(selected(&[], false).iter().all(|case| !case.is_large));
        assert_eq!(selected(&[], true).len(), all().len());
    }
}
