//! Kernels of objects pass the tests of code generators: the corpus, and random programs at every stage.
#![allow(unsafe_code, reason = "code of objects is wrapped here")]

use std::collections::BTreeSet;
use std::sync::Arc;

use codegen_core::host::{HostFn, HostModule, NativeCode};
use codegen_core::{Artifact, Caps, Codegen, CodegenError, Kernel, Payload, ScheduledRoutine};
use codegen_cranelift::object::{ObjectLevel, ObjectModule, ObjectTarget, object_codegen};
use codegen_testkit::{Agreement, run_corpus_on};
use device_runtime::Device;
use lowered_ir::ir::LoopId;
use scheduler_multicore::{Cpu, CpuConfig};

use crate::loader::Image;

/// A codegen for objects whose kernels are linked and loaded into this process.
struct Linked<C>(C);

impl<C: Codegen> Codegen for Linked<C> {
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
            // SAFETY: the kernel starts there and has this signature on x86-64 with System V.
            let function: HostFn = unsafe { std::mem::transmute(code.address(start)) };
            (NativeCode::Function(function), abi.clone())
        });
        let kernels = kernels.collect();
        // SAFETY: the kernels were compiled for these ABIs, and `code` keeps them mapped.
        Ok(Artifact::host(unsafe { HostModule::native(kernels, Arc::new(code)) }))
    }
}

/// The levels that this processor can run.
pub(crate) fn levels() -> Vec<ObjectLevel> {
    use arrayjit_rt::ProcessorLevel;
    let available = |level: &ObjectLevel| match level {
        ObjectLevel::X86V2 => ProcessorLevel::X86V2.is_available(),
        ObjectLevel::X86V3 => ProcessorLevel::X86V3.is_available(),
        ObjectLevel::X86V4 => ProcessorLevel::X86V4.is_available(),
        ObjectLevel::Arm64 => false,
    };
    ObjectLevel::ALL.into_iter().filter(available).collect()
}

fn linked(target: ObjectTarget) -> Box<dyn Codegen> {
    Box::new(Linked(object_codegen(target).expect("this architecture")))
}

#[test]
fn kernels_of_objects_pass_the_corpus() {
    for level in levels() {
        let target = ObjectTarget::new("x86_64-unknown-linux-gnu", level).expect("a target");
        for (name, target) in [("tiles", target.clone()), ("products", target.with_products())] {
            let device = Device::new(Arc::new(Cpu::inline(CpuConfig::default())), 0);
            let report = run_corpus_on(&*linked(target), &device, Agreement::Bits);
            println!("{level}, {name}: {report}");
            assert!(report.conforms(), "{level}, {name}: {report}");
            assert!(report.passed() > 50, "{level}, {name}: {report}");
        }
    }
}
