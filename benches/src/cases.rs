//! All cases. Their names are stable: records of earlier runs refer to them.

mod attention;
mod contractions;
mod convolution_gradients; // gradients of convolutions by images and by filters
mod elementwise;
mod fft;
mod gpt;
mod large;
mod latency;
mod lenet;
mod lstm;
mod parameters;
mod reductions;
mod resnet;
mod rows;
mod steps;
mod training;

use crate::{case::Case, data_parallel::SplitStep};

/// Every case, in the order of execution.
pub(crate) fn all() -> Vec<Case> {
    let mut cases = contractions::all();
    cases.extend(convolution_gradients::all());
    cases.extend(elementwise::all());
    cases.extend(reductions::all());
    cases.extend(rows::all());
    cases.extend(attention::all());
    cases.extend(training::all());
    cases.extend(lenet::all());
    cases.extend(resnet::all());
    cases.extend(gpt::all());
    cases.extend(lstm::all());
    cases.extend(steps::all());
    cases.extend(fft::all());
    cases.extend(latency::all());
    cases.extend(large::all());
    cases
}

/// The case `lstm_train_32x64x256` with three steps in time.
#[cfg(test)]
pub(crate) fn few_steps() -> Case {
    lstm::few_steps()
}

/// The training step that runs on several streams.
pub(crate) fn split_step(streams: usize) -> SplitStep {
    gpt::split_step(streams)
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
    use arrayjit::{Backend, HostArray, Settings};

    use super::*;
    use crate::{case::Check, check, ours::LinkedCase};

    /// Fails unless the results on cores agree with the interpreter, and with the case's formula if there is
    /// one.
    fn expect_agreement(case: Case) {
        let inputs: Vec<Option<HostArray>> = case.nodes.iter().map(|node| node.array().unwrap()).collect();
        let backend = Backend::open_with("inline", &Settings::default()).unwrap();
        let ours = LinkedCase::prepare(&backend, &case, &inputs);
        let ours = ours.unwrap_or_else(|error| panic!("{}: {error:#}", case.name));
        ours.run_once().unwrap();
        let outputs = ours.outputs().unwrap();
        check::check(&backend, &case, &outputs, &inputs).unwrap();
        let interpreted = Case { check: Check::Interpreter, ..case };
        check::check(&backend, &interpreted, &outputs, &inputs).unwrap();
    }

    #[test]
    fn whole_models_agree_with_the_interpreter_in_small() {
        let checked = all().into_iter().filter_map(|case| match case.check {
            Check::Small(small) => Some(*small),
            _ => None,
        });
        let small: Vec<Case> = checked.chain(steps::small()).chain(fft::small()).collect();
        assert_eq!(small.len(), 10);
        small.into_iter().for_each(expect_agreement);
    }

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
