//! How much of a task may be done when it fails, and the kernel that takes a while.

use std::{thread, time::Duration};

use codegen_core::{
    Artifact, Cost, KernelAbi, Launch,
    host::{HostArg, HostModule, InterpretedKernel},
};
use tnode::Scalar;

use crate::{
    checked::{BoundKernel, LoadedModule},
    driver::Driver,
    error::DriverError,
};

/// Whether a task is one that a plan may slow down, and what of it may have been done when it fails.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Of so many kernels.
    Launch(usize),
    /// Of so many bytes.
    Copy(usize),
}

impl Kind {
    pub(super) fn whole(self) -> usize {
        match self {
            Kind::Launch(count) | Kind::Copy(count) => count,
        }
    }

    pub(super) fn half(self) -> usize {
        match self {
            Kind::Launch(kernels) => kernels / 2,
            // Whole elements and words, whatever they are.
            Kind::Copy(bytes) => (bytes / 2) & !7,
        }
    }
}

/// A kernel without parameters that sleeps.
struct Sleep(Duration);

impl InterpretedKernel for Sleep {
    fn run(&self, _: &mut [HostArg<'_>], _: &[i64], _: &mut dyn FnMut(usize, &[Scalar])) {
        thread::sleep(self.0);
    }
}

pub(super) fn delaying_kernel(driver: &dyn Driver, delay: Duration) -> Result<BoundKernel, DriverError> {
    let abi = KernelAbi {
        name: "delay".to_owned(),
        params: vec![],
        launch: Launch { extent: 1, grain: 1, threads: 1 },
        scratch_bytes: 0,
        log: [].into(),
        cost: Cost::default(),
    };
    let module = HostModule::interpreted(vec![(Box::new(Sleep(delay)), abi)]);
    let module = LoadedModule::load(driver, &Artifact::host(module))?;
    module.kernel(driver, 0)?.bind(driver, &[])
}
