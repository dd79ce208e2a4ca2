//! Dropout.

use crate::{
    error::{Call, Result, misfit},
    graph::Graph,
    nn::Module,
    parameter::Params,
    tensor::Tensor,
};

/// The rates of dropout, in words.
const RATES: &str = "at least 0 and less than 1";

/// Dropout, as torch's: in a graph for training, each element is 0 with probability `rate`, else divided by
/// 1 − `rate`; in other graphs the tensor itself. The elements that are dropped depend on the step of a run,
/// on the seed, and on the number of calls of this module in the graph before.
///
/// Source: Srivastava, Hinton, Krizhevsky, Sutskever and Salakhutdinov, Dropout, 2014.
pub struct Dropout {
    /// The probability to drop an element, at least 0 and less than 1.
    pub rate: f64,
    path: String,
    seed: u32,
}

impl Dropout {
    /// Dropout with this rate. The seed follows from that of the parameters and the path of the module.
    ///
    /// # Errors
    /// A rate outside 0..1.
    #[track_caller]
    pub fn new(params: &Params, rate: f64) -> Result<Dropout> {
        Dropout::checked(Call::new("Dropout"), params, "rate", rate)
    }

    /// The dropout of a module that has an option `dropout`.
    pub(super) fn of_module(call: Call, params: &Params, rate: f64) -> Result<Dropout> {
        Dropout::checked(call, params, "dropout", rate)
    }

    fn checked(call: Call, params: &Params, option: &'static str, rate: f64) -> Result<Dropout> {
        if !(0.0..1.0).contains(&rate) {
            return Err(call.error(params.path(), misfit(option, rate, RATES)));
        }
        Ok(Dropout { rate, path: params.path().to_owned(), seed: params.seed() })
    }

    /// The seed of the next call in a graph; none if nothing is dropped.
    pub(super) fn next_seed(&self, call: Call, graph: &Graph) -> Result<Option<u32>> {
        if !(0.0..1.0).contains(&self.rate) {
            return Err(graph.fail(call, misfit("rate", self.rate, RATES)));
        }
        let is_active = graph.is_training() && self.rate > 0.0;
        // The name has the path of the module and the number of the call.
        Ok(is_active.then(|| hash(self.seed, &graph.new_name("seed"))))
    }
}

impl Module for Dropout {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let _scope = x.graph().enter(&self.path);
        match self.next_seed(Call::new("dropout"), x.graph())? {
            Some(seed) => x.dropout(self.rate, seed),
            None => Ok(x.clone()),
        }
    }
}

/// The FNV-1a hash of a text, which starts from a seed.
fn hash(seed: u32, text: &str) -> u32 {
    text.bytes().fold(2_166_136_261 ^ seed, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(16_777_619))
}
