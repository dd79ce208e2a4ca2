//! The interpreted codegen: the interpreter runs its kernels.
//!
//! It is the codegen of the `interpreter` backend and the reference for every other codegen: it has the same
//! schedule, the same calls and the same memory, with the definition of the IR instead of machine code.

use std::collections::BTreeSet;

use lowered_ir::interp::{Buffer, PreparedRoutine};
use lowered_ir::ir::LoopId;
use tnode::{DType, Scalar};

use crate::artifact::{Artifact, Param};
use crate::canonical;
use crate::caps::{Caps, Transcendental};
use crate::contract::{Codegen, CodegenError, fingerprint};
use crate::host::{HostArg, HostModule, InterpretedKernel};
use crate::kernel::Kernel;
use crate::scheduled::ScheduledRoutine;

const NAME: &str = "interpreted";

/// Prepares scheduled kernels for the interpreter.
#[derive(Clone, Debug)]
pub struct Interpreted {
    caps: Caps,
}

impl Interpreted {
    /// The interpreter as a target of its own: every type, no vectors, one thread.
    pub fn new() -> Self {
        Interpreted { caps: interpreter_caps() }
    }

    /// The interpreter in the place of another target: it runs schedules for that target bit for bit.
    pub fn of_target(caps: Caps) -> Self {
        Interpreted { caps }
    }
}

impl Default for Interpreted {
    fn default() -> Self {
        Interpreted::new()
    }
}

/// The capabilities of the interpreter: every type and operation, one element at a time.
fn interpreter_caps() -> Caps {
    Caps {
        arithmetic: DType::ALL.into_iter().collect(),
        transcendental: Transcendental::Native,
        ..Caps::host("interpreter")
    }
}

impl Codegen for Interpreted {
    fn name(&self) -> &str {
        NAME
    }

    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn fingerprint(&self) -> u64 {
        fingerprint(NAME, env!("CARGO_PKG_VERSION"), &self.caps, &())
    }

    /// The interpreter runs every kernel, so every contraction may stay whole.
    fn whole_contractions(&self, kernels: &[Kernel]) -> Result<Vec<BTreeSet<LoopId>>, CodegenError> {
        Ok(kernels.iter().map(|kernel| canonical::contractions(kernel.ir())).collect())
    }

    fn compile(&self, routine: &ScheduledRoutine) -> Result<Artifact, CodegenError> {
        let prepared = |kernel: &Kernel| Ok((prepare(kernel)?, kernel.abi().clone()));
        let kernels = routine.kernels().iter().map(prepared).collect::<Result<_, CodegenError>>()?;
        Ok(Artifact::host(HostModule::interpreted(kernels)))
    }
}

/// A kernel ready to run, and the position of its merge buffer.
struct Prepared {
    program: PreparedRoutine,
    merge: Option<usize>,
}

fn prepare(kernel: &Kernel) -> Result<Box<dyn InterpretedKernel>, CodegenError> {
    let program = PreparedRoutine::new(kernel.ir())
        .map_err(|error| CodegenError::failed(NAME, &kernel.abi().name, "preparation", error.to_string()))?;
    let merge = kernel.abi().params.iter().position(|p| matches!(p, Param::MergeBuffer { .. }));
    Ok(Box::new(Prepared { program, merge }))
}

impl InterpretedKernel for Prepared {
    /// A scheduled kernel does not stop on memory that fits its ABI; memory that does not fit is an error of
    /// the device.
    fn run(
        &self,
        args: &mut [HostArg<'_>],
        bindings: &[i64],
        log: &mut dyn FnMut(usize, &[Scalar]),
    ) -> Result<(), String> {
        let merge: Option<Vec<u8>> = self.merge.and_then(|at| args.get(at)).map(|arg| bytes(arg).to_vec());
        let mut nodes: Vec<Buffer<'_>> = args.iter_mut().map(buffer).collect();
        let run = self.program.run_recorded(&mut nodes, merge.as_deref(), bindings, log);
        run.map_err(|error| format!("the interpreter stopped: {error}"))
    }
}

fn bytes<'a>(arg: &'a HostArg<'_>) -> &'a [u8] {
    match arg {
        HostArg::Read(bytes) => bytes,
        HostArg::Write(bytes) => bytes,
    }
}

fn buffer<'a>(arg: &'a mut HostArg<'_>) -> Buffer<'a> {
    match arg {
        HostArg::Read(bytes) => Buffer::Read(bytes),
        HostArg::Write(bytes) => Buffer::Write(bytes),
    }
}
