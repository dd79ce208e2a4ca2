//! Runs the code of object files in this process: entries of whole files, and kernels as those of a code
//! generator, so that the conformance kit and replays of capsules test the code that ships in programs.
//!
//! Errors of objects are errors of the compiler that made them, and panic.
#![allow(unsafe_code, reason = "code of objects is loaded and called here")]
#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "an object that cannot be loaded is a fault of the compiler"
)]

mod image; // linking and loading

use std::collections::BTreeSet;
use std::sync::Arc;

use codegen_core::host::{HostFn, HostModule, NativeCode};
use codegen_core::{Artifact, Caps, Codegen, CodegenError, Kernel, Payload, ScheduledRoutine};
use codegen_cranelift::object::{ObjectLevel, ObjectModule, ObjectTarget, object_codegen};
use lowered_ir::ir::LoopId;

pub use image::{Image, LoadedImage, LoadedObject, RUNTIME};

/// The system of this process, if it is Linux.
pub const TRIPLE: &str = match cfg!(target_arch = "x86_64") {
    true => "x86_64-unknown-linux-gnu",
    false => "aarch64-unknown-linux-gnu",
};

/// The levels of code that this processor can run, the least first.
pub fn levels() -> Vec<ObjectLevel> {
    use arrayjit_rt::ProcessorLevel;
    let available = |level: &ObjectLevel| match level {
        ObjectLevel::X86V2 => ProcessorLevel::X86V2.is_available(),
        ObjectLevel::X86V3 => ProcessorLevel::X86V3.is_available(),
        ObjectLevel::X86V4Mixed => ProcessorLevel::X86V4Mixed.is_available(),
        ObjectLevel::X86V4 => ProcessorLevel::X86V4.is_available(),
        ObjectLevel::Arm64 => ProcessorLevel::Arm64.is_available(),
    };
    ObjectLevel::ALL.into_iter().filter(available).collect()
}

/// A codegen for objects whose kernels are linked and loaded into this process.
struct Loaded<C>(C);

/// The codegen for objects of a target of this system, whose kernels run in this process.
///
/// # Errors
///
/// [`CodegenError`] if Cranelift was built without the architecture of the target.
pub fn loaded_codegen(target: ObjectTarget) -> Result<impl Codegen + 'static, CodegenError> {
    Ok(Loaded(object_codegen(target)?))
}

impl<C: Codegen> Codegen for Loaded<C> {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn caps(&self) -> &Caps {
        self.0.caps()
    }

    fn fingerprint(&self) -> u64 {
        self.0.fingerprint()
    }

    fn whole_contractions(&self, kernels: &[Kernel]) -> Result<Vec<BTreeSet<LoopId>>, CodegenError> {
        self.0.whole_contractions(kernels)
    }

    fn compile(&self, routine: &ScheduledRoutine) -> Result<Artifact, CodegenError> {
        let artifact = self.0.compile(routine)?;
        let Payload::Other(payload) = artifact.payload() else { panic!("another artifact") };
        let module = payload.downcast_ref::<ObjectModule>().expect("kernels of an object");
        let mut image = Image::default();
        let starts: Vec<usize> = module.kernels.iter().map(|kernel| image.function(kernel)).collect();
        let code = image.load();
        let kernels = starts.iter().zip(artifact.kernels()).map(|(&start, abi)| {
            // SAFETY: the kernel starts there and has this signature on Linux.
            let function: HostFn = unsafe { std::mem::transmute(code.address(start)) };
            (NativeCode::Function(function), abi.clone())
        });
        let kernels = kernels.collect();
        // SAFETY: the kernels were compiled for these ABIs, and `code` keeps them mapped.
        Ok(Artifact::host(unsafe { HostModule::native(kernels, Arc::new(code)) }))
    }
}
