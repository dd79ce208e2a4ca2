//! The choices of a caller.

use lowered_ir::ir::Numerics;

/// Choices of the scheduler. The defaults suit a machine with caches and few cores.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ScheduleOptions {
    /// Whether loops may be split over threads.
    pub parallel: bool,
    /// Whether loops may become vectors.
    pub vectorize: bool,
    /// The least work of a thread, in flops plus elements accessed. Loops with less work stay on one thread.
    pub grain_work: u64,
    /// The most bytes of local nodes that become scratch memory of one kernel.
    pub stack_bytes: usize,
    /// Which multiplications and additions are contracted to fma.
    pub fma: FmaPolicy,
}

/// When `a * b + c` of floats becomes `fma(a, b, c)`, with one rounding instead of two. Every policy keeps an
/// fma that the program itself contains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum FmaPolicy {
    /// Never.
    Never,
    /// In the class `Fast`, not in `Strict`.
    #[default]
    ByClass,
    /// In both classes.
    Always,
}

impl FmaPolicy {
    /// Whether the multiplications and additions of a routine of this class are contracted.
    pub fn contracts(self, class: Numerics) -> bool {
        match self {
            FmaPolicy::Never => false,
            FmaPolicy::ByClass => class == Numerics::Fast,
            FmaPolicy::Always => true,
        }
    }
}

impl Default for ScheduleOptions {
    fn default() -> Self {
        ScheduleOptions {
            parallel: true,
            vectorize: true,
            // About 5 µs of vector code. A thread that is awake begins sooner, and the runtime wakes none for
            // kernels that are short.
            grain_work: 1 << 18,
            stack_bytes: tnode::DEFAULT_STACK_THRESHOLD_BYTES,
            fma: FmaPolicy::ByClass,
        }
    }
}
