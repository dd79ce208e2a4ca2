//! The options of each stage of compilation that settings determine.

use assignments::lower::LowerOptions;
use lowered_ir::{ir::Numerics, pipeline::OptimizeSettings};
use scheduling::{FmaPolicy, ScheduleOptions};

use super::{FmaSetting, NumericClass, Settings};

impl Settings {
    /// The options with which assignments are lowered.
    pub(crate) fn lowering(&self) -> LowerOptions {
        let numerics = match self.numerics {
            NumericClass::Fast => Numerics::Fast,
            NumericClass::Strict => Numerics::Strict,
        };
        LowerOptions { numerics, ..LowerOptions::default() }
    }

    /// The options with which routines are optimised, for tools that run the passes by themselves.
    pub fn optimizer(&self) -> OptimizeSettings {
        let settings = &self.optimization;
        OptimizeSettings {
            max_visits: settings.virtualize_max_visits,
            max_tracing_dim: Some(settings.virtualize_max_tracing_dim).filter(|&dim| dim > 0),
            inline_scalar_constexprs: settings.inline_scalar_constexprs,
            inline_simple_computations: settings.inline_simple_computations,
            inline_complex_computations: settings.inline_complex_computations,
            enable_device_only: settings.enable_device_only,
            stack_threshold_bytes: settings.stack_threshold_in_bytes,
            integer_pow: settings.integer_pow,
            fast_math: settings.fast_math,
            half_constant_cutoff: Some(settings.half_constant_cutoff).filter(|&cutoff| cutoff > 0.0),
        }
    }

    /// The options with which routines are scheduled, for tools that run the passes by themselves.
    pub fn scheduler(&self) -> ScheduleOptions {
        let fma = match self.optimization.fma {
            FmaSetting::Never => FmaPolicy::Never,
            FmaSetting::ByClass => FmaPolicy::ByClass,
            FmaSetting::Always => FmaPolicy::Always,
        };
        ScheduleOptions { fma, ..ScheduleOptions::default() }
    }
}
