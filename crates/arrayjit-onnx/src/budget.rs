//! Budgets: how much memory and how many steps a model may take.

use tnode::DType;

use crate::error::{OnnxError, Result};

/// What a model may take: each load and each run has a budget of its own. A model that needs more is an error
/// before the memory is allocated, so that a small file that is not trusted cannot fill the memory or run for
/// ever.
///
/// ```
/// use arrayjit_onnx::{OnnxLimits, Model};
///
/// let limits = OnnxLimits { bytes: 1 << 20, ..OnnxLimits::default() };
/// let model = Model::load_within("examples/layer.onnx", limits)?;
/// assert_eq!(model.limits().bytes, 1 << 20);
/// # Ok::<(), arrayjit_onnx::OnnxError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OnnxLimits {
    /// Bytes of memory; 4 GiB by default.
    ///
    /// A load counts the model file, and the arrays and copies of functions that it makes beyond the bytes
    /// that files hold: sparse arrays, and parts of external files without storage or that several arrays
    /// have. So large weights need no larger limit. A run counts the arrays that nodes make as long as a
    /// later node may read them.
    pub bytes: u64,
    /// Steps; 65,536 by default.
    ///
    /// A load counts the nodes of all calls of functions. A run counts each evaluation of a node or constant
    /// of a graph, each step of a loop, and each step of a recurrent layer. A loop whose condition follows
    /// from data takes those of one step, and may have as many as are left. Later runs of the same shapes and
    /// decisions take none.
    pub steps: u64,
}

impl Default for OnnxLimits {
    fn default() -> OnnxLimits {
        OnnxLimits { bytes: 4 << 30, steps: 1 << 16 }
    }
}

/// What a load or a run took so far.
#[derive(Debug)]
pub(crate) struct Budget {
    limits: OnnxLimits,
    bytes: u64,
    steps: u64,
}

impl Budget {
    pub(crate) fn new(limits: OnnxLimits) -> Budget {
        Budget { limits, bytes: 0, steps: 0 }
    }

    /// Fails if so much memory could not be taken.
    pub(crate) fn check(&self, bytes: u64) -> Result<()> {
        within("bytes", self.bytes.saturating_add(bytes), self.limits.bytes).map(drop)
    }

    /// Takes memory, or fails before it is allocated.
    pub(crate) fn take(&mut self, bytes: u64) -> Result<()> {
        self.bytes = within("bytes", self.bytes.saturating_add(bytes), self.limits.bytes)?;
        Ok(())
    }

    /// Gives memory back.
    pub(crate) fn give(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    /// The steps that can still be taken.
    pub(crate) fn steps_left(&self) -> u64 {
        self.limits.steps.saturating_sub(self.steps)
    }

    /// Takes steps.
    pub(crate) fn step(&mut self, steps: u64) -> Result<()> {
        self.steps = within("steps", self.steps.saturating_add(steps), self.limits.steps)?;
        Ok(())
    }
}

/// The need, if the limit allows it.
pub(crate) fn within(limit: &'static str, needed: u64, most: u64) -> Result<u64> {
    if needed > most { Err(OnnxError::Limit { limit, needed, most }) } else { Ok(needed) }
}

/// The bytes of an array, or as many as there are if they overflow.
pub(crate) fn bytes_of(dtype: DType, shape: &[usize]) -> u64 {
    let size = |bytes: u64, &size: &usize| bytes.saturating_mul(size as u64);
    if shape.contains(&0) { 0 } else { shape.iter().fold(dtype.size_bytes() as u64, size) }
}
