//! The sizes of tasks that fail halfway, and the kernel that sleeps.

use std::{thread, time::Duration};

use codegen_core::{
    Artifact, Cost, KernelAbi, Launch,
    host::{HostArg, HostModule, InterpretedKernel},
};
use tnode::Scalar;

use crate::{
    checked::{BoundKernel, LoadedModule},
    driver::Driver,
    error::Result,
};

/// The size of a task. Only copies can be slowed down.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum TaskSize {
    /// The number of kernels.
    Launch(usize),
    /// The number of bytes.
    Copy(usize),
}

impl TaskSize {
    pub(super) fn whole(self) -> usize {
        match self {
            TaskSize::Launch(count) | TaskSize::Copy(count) => count,
        }
    }

    pub(super) fn half(self) -> usize {
        match self {
            TaskSize::Launch(kernels) => kernels / 2,
            // A multiple of 8 bytes, so that elements and words are whole.
            TaskSize::Copy(bytes) => (bytes / 2) & !7,
        }
    }
}

/// A kernel without parameters that sleeps.
struct Sleep(Duration);

impl InterpretedKernel for Sleep {
    fn run(
        &self,
        _: &mut [HostArg<'_>],
        _: &[i64],
        _: &mut dyn FnMut(usize, &[Scalar]),
    ) -> Result<(), String> {
        thread::sleep(self.0);
        Ok(())
    }
}

pub(super) fn delaying_kernel(driver: &dyn Driver, delay: Duration) -> Result<BoundKernel> {
    let abi = KernelAbi {
        name: "delay".to_owned(),
        params: vec![],
        launch: Launch { extent: 1, grain: 1, threads: 1, end: None },
        scratch_bytes: 0,
        log: [].into(),
        cost: Cost::default(),
    };
    let module = HostModule::interpreted(vec![(Box::new(Sleep(delay)), abi)]);
    let module = LoadedModule::load(driver, &Artifact::host(module))?;
    module.kernel(0)?.bind(driver, &[])
}
