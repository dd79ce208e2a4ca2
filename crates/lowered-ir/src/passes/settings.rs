//! What a user may choose about optimisation.

use tnode::DEFAULT_STACK_THRESHOLD_BYTES;

/// The choices; the default is what most programs want.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Settings {
    /// A node whose elements are read more often than this is computed once and stored, unless it is cheap.
    pub max_visits: u64,
    /// Nodes that hold one constant everywhere are inlined.
    pub inline_scalar_constexprs: bool,
    /// Nodes whose elements cost about one memory read are inlined however often they are read.
    pub inline_simple_computations: bool,
    /// Nodes computed by a reduction are inlined too where [`max_visits`](Self::max_visits) allows.
    pub inline_complex_computations: bool,
    /// Nodes with an open mode that only this routine uses may do without memory of the device; otherwise they are all kept.
    pub enable_device_only: bool,
    /// The largest array, in bytes, that may be local; 0 means any.
    pub stack_threshold_bytes: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            max_visits: 1,
            inline_scalar_constexprs: true,
            inline_simple_computations: true,
            inline_complex_computations: false,
            enable_device_only: true,
            stack_threshold_bytes: DEFAULT_STACK_THRESHOLD_BYTES,
        }
    }
}
