//! The settings of the optimizer.

/// The settings of the optimizer; the defaults suit most programs.
#[derive(Clone, Debug, PartialEq)]
pub struct OptimizeSettings {
    /// A node whose elements are read more often than this is computed once and stored, unless it is cheap.
    pub max_visits: u64,
    /// The least size, in bytes, of a node that is rematerialized: computed again at a few uses, each of
    /// which reads every element once, although each element is read more often than
    /// [`max_visits`](Self::max_visits). It must be several times as large as all that it is computed from,
    /// as a product over many letters is. The value `usize::MAX` turns rematerialization off.
    pub rematerialized_bytes: usize,
    /// Nodes that hold one constant everywhere are inlined.
    pub inline_scalar_constexprs: bool,
    /// Nodes whose elements cost about one memory read are inlined however often they are read.
    pub inline_simple_computations: bool,
    /// Nodes computed by a reduction are inlined too where [`max_visits`](Self::max_visits) allows.
    pub inline_complex_computations: bool,
    /// Computed nodes of 16-bit floats that products read, or that round the results of reductions, are
    /// stored: the target multiplies such numbers faster than wider ones, but only if they come from memory.
    pub store_rounded: bool,
    /// Nodes with an open mode that only this routine uses may do without memory of the device; otherwise all
    /// of them get memory of the device.
    pub enable_device_only: bool,
    /// The maximum size, in bytes, of a node that becomes local because nothing decided between local and on
    /// the device; larger nodes stay on the device after a run. 0 means no limit.
    pub stack_threshold_bytes: usize,
    /// The largest `n` for which float powers `x^n` and `x^-n` with constant `n` become products in class
    /// `Fast` ([`super::expand_powers`]); 0 for none. Integer powers always become products.
    pub integer_pow: u32,
    /// Whether routines of class `Fast` are simplified by the equations of real numbers too: constants of
    /// float sums and products are re-associated, and `0 * x` is 0. Neither rounding nor NaN and infinities
    /// are respected.
    pub fast_math: bool,
    /// The magnitude from which on a finite constant of a type with at most 5 bits of exponent (`f16` and the
    /// 8-bit floats) is an error, because sums and products with it are likely to overflow; `None` for no
    /// such check.
    pub half_constant_cutoff: Option<f64>,
}

impl Default for OptimizeSettings {
    fn default() -> Self {
        OptimizeSettings {
            max_visits: 1,
            rematerialized_bytes: 1 << 20,
            inline_scalar_constexprs: true,
            inline_simple_computations: true,
            inline_complex_computations: false,
            store_rounded: false,
            enable_device_only: true,
            stack_threshold_bytes: 0,
            integer_pow: 4,
            fast_math: false,
            half_constant_cutoff: Some(16384.0),
        }
    }
}
