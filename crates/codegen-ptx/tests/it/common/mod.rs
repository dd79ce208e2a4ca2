//! Shared code of the tests: kernels without the scheduler.
pub(crate) mod device;
pub(crate) mod programs;

pub(crate) use filetests::kernels::kernel;
