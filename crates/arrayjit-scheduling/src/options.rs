//! The choices of a caller.

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
        }
    }
}
