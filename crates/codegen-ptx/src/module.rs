//! The codegen: compiles kernels to one PTX file.

use std::collections::BTreeSet;

use codegen_core::{
    Artifact, Caps, Codegen, CodegenError, DType, DTypeSet, Kernel, Listing, PtxLaunch, ScheduledRoutine,
    Transcendental, fingerprint,
};
use ptx_asm::{PtxProgram, Target};

use crate::emit::{self, EmitSettings};
use crate::options::{PtxOptions, TensorCoreInstructions, ptx_caps};
use crate::vouch;

/// The codegen's name in errors and fingerprints.
pub(crate) const NAME: &str = "ptx";

/// The codegen for NVIDIA GPUs.
#[derive(Clone, Debug)]
pub struct Ptx {
    target: Target,
    caps: Caps,
    options: PtxOptions,
}

/// The codegen for a target. Its capabilities are [`ptx_caps`] without those that the options disable.
pub fn ptx(target: Target, options: PtxOptions) -> Ptx {
    let mut caps = ptx_caps(target);
    match options.tensor_cores {
        TensorCoreInstructions::Off => caps.contractions = DTypeSet::EMPTY,
        _ if options.tf32 && !caps.contractions.is_empty() => {
            caps.contractions = caps.contractions.with(DType::F32);
        }
        _ => {}
    }
    if options.approximate_functions {
        caps.transcendental = Transcendental::Approximate;
    }
    Ptx { target, caps, options }
}

/// Kernels as a PTX program, with their launches.
#[derive(Clone, Debug, PartialEq)]
pub struct PtxKernels {
    /// The program, which [`ptx_asm::check`] accepts.
    pub module: PtxProgram,
    /// One launch per kernel, in order.
    pub launches: Vec<PtxLaunch>,
}

impl Codegen for Ptx {
    fn name(&self) -> &str {
        NAME
    }

    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn fingerprint(&self) -> u64 {
        fingerprint(NAME, env!("CARGO_PKG_VERSION"), &self.caps, &self.options)
    }

    fn compile(&self, routine: &ScheduledRoutine) -> Result<Artifact, CodegenError> {
        vouch::artifact(self, routine.kernels())
    }

    fn listing(&self, kernel: &Kernel) -> Result<Listing, CodegenError> {
        let rendered = self.render(std::slice::from_ref(kernel))?;
        Ok(Listing { source: ptx_asm::print(&rendered.module), machine_code: String::new() })
    }
}

impl Ptx {
    /// Compiles kernels to one program, for callers that need more than its text.
    ///
    /// # Errors
    ///
    /// [`CodegenError::Unsupported`] if a kernel needs a feature that this codegen lacks;
    /// [`CodegenError::Failed`] if the program is invalid, which is a bug.
    pub fn render(&self, kernels: &[Kernel]) -> Result<PtxKernels, CodegenError> {
        let setting = EmitSettings { target: self.target, caps: &self.caps, options: &self.options };
        let (mut programs, mut launches, mut names) = (Vec::new(), Vec::new(), BTreeSet::new());
        for kernel in kernels {
            let _span = tracing::debug_span!("compile", kernel = kernel.abi().name).entered();
            let entry = entry(&kernel.abi().name, &mut names);
            let emitted = emit::emit(kernel, &entry, setting)
                .map_err(|rejection| rejection.of_kernel(NAME, &kernel.abi().name))?;
            let module = PtxProgram { target: self.target, kernels: vec![emitted.kernel] };
            ptx_asm::check(&module)
                .map_err(|e| CodegenError::failed(NAME, &kernel.abi().name, "checking", e.to_string()))?;
            programs.extend(module.kernels);
            launches.push(emitted.launch);
        }
        Ok(PtxKernels { module: PtxProgram { target: self.target, kernels: programs }, launches })
    }
}

/// A unique name for a kernel's entry point.
fn entry(name: &str, taken: &mut BTreeSet<String>) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let mut entry: String = name.chars().map(plain).collect();
    if !entry.starts_with(|c: char| c.is_ascii_alphabetic()) {
        entry.insert(0, 'k');
    }
    let mut unique = entry.clone();
    let mut count = 1;
    while !taken.insert(unique.clone()) {
        count += 1;
        unique = format!("{entry}_{count}");
    }
    unique
}
