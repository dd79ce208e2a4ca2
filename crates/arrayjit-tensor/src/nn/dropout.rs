//! Dropout.

use crate::{
    error::{Call, TensorError},
    nn::{Module, wrong_option},
    parameter::Params,
    tensor::Tensor,
};

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
    pub fn new(params: &Params, rate: f64) -> Result<Dropout, TensorError> {
        if !(0.0..1.0).contains(&rate) {
            let expected = "at least 0 and less than 1";
            return Err(wrong_option(Call::new("Dropout"), params.path(), "rate", rate, expected));
        }
        Ok(Dropout { rate, path: params.path().to_owned(), seed: params.seed() })
    }
}

impl Module for Dropout {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor, TensorError> {
        let _scope = x.graph().enter(&self.path);
        if !x.graph().is_training() || self.rate == 0.0 {
            return Ok(x.clone());
        }
        // The name has the path of the module and the number of the call.
        let seed = hash(self.seed, &x.graph().new_name("seed"));
        x.dropout(self.rate, seed)
    }
}

/// The FNV-1a hash of a text, which starts from a seed.
fn hash(seed: u32, text: &str) -> u32 {
    text.bytes().fold(2_166_136_261 ^ seed, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(16_777_619))
}
