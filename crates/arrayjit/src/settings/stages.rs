//! The options of each stage of compilation that settings determine.

use assignments::lower::LowerOptions;
use lowered_ir::{ir::Numerics, pipeline::OptimizeSettings};

use super::{NumericClass, Settings};

impl Settings {
    /// The options with which assignments are lowered.
    pub(crate) fn lowering(&self) -> LowerOptions {
        let numerics = match self.numerics {
            NumericClass::Strict => Numerics::Strict,
            NumericClass::Fast | NumericClass::Real => Numerics::Fast,
        };
        LowerOptions { numerics, ..LowerOptions::default() }
    }

    /// The options with which routines are optimized, for tools that run the passes by themselves and for
    /// [`Backend::with_optimizer`](crate::Backend::with_optimizer).
    pub fn optimizer(&self) -> OptimizeSettings {
        OptimizeSettings {
            fast_math: self.numerics == NumericClass::Real,
            half_constant_cutoff: Some(self.half_constant_cutoff).filter(|&cutoff| cutoff > 0.0),
            ..OptimizeSettings::default()
        }
    }

    /// Whether routines log the values they compute.
    pub fn has_logs(&self) -> bool {
        !self.debugging.logs.is_empty()
    }
}
