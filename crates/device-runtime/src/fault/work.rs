//! What a device with faults hands to the driver inside: kernels with what is known of them, and how much of a task may be done.

use std::{sync::Arc, thread, time::Duration};

use codegen_core::{
    Artifact, Cost, KernelAbi, Launch, Payload,
    host::{HostArg, HostModule, InterpretedKernel},
};
use tnode::Scalar;

use crate::{
    check,
    driver::{BoundHandle, Driver, KernelHandle, ModuleHandle, SequenceHandle},
    error::DriverError,
};

/// What failures and sequences have to know of a kernel: its name, and how many bindings it takes.
pub(super) type Facts = (Arc<str>, usize);

/// A module with its kernels' facts.
pub(super) struct Module(pub(super) ModuleHandle, pub(super) Vec<Facts>);
pub(super) struct Kernel(pub(super) KernelHandle, pub(super) Facts);
pub(super) struct Bound(pub(super) BoundHandle, pub(super) Facts);
/// Kernels that are launched together, and each of them, since one may fail.
pub(super) struct Sequence(pub(super) SequenceHandle, pub(super) Vec<(BoundHandle, Facts)>);

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

pub(super) fn facts(abi: &KernelAbi) -> Facts {
    (abi.name.as_str().into(), check::static_indices(abi))
}

/// A kernel without parameters that sleeps.
struct Sleep(Duration);

impl InterpretedKernel for Sleep {
    fn run(&self, _: &mut [HostArg<'_>], _: &[i64], _: &mut dyn FnMut(usize, &[Scalar])) {
        thread::sleep(self.0);
    }
}

pub(super) fn delaying_kernel(driver: &dyn Driver, delay: Duration) -> Result<BoundHandle, DriverError> {
    let abi = KernelAbi {
        name: "delay".to_owned(),
        params: vec![],
        launch: Launch { extent: 1, grain: 1, threads: 1 },
        scratch_bytes: 0,
        log: [].into(),
        cost: Cost::default(),
    };
    let module = HostModule::interpreted(vec![Box::new(Sleep(delay))]);
    let module = driver.load(&Artifact::new(Payload::Host(module), vec![abi]))?;
    driver.bind(&driver.kernel(&module, 0)?, &[])
}
