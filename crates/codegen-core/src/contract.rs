//! The traits that a code generator implements, and their results.
//!
//! A codegen author writes a [`Renderer`] (scheduled kernel → source in any form) and a [`Compiler`] (kernels
//! with their sources → artifact). [`Pipeline`] combines the two into a [`Codegen`].
//!
//! # Obligations
//!
//! *The caller* passes kernels that [the verifier](lowered_ir::verify) has accepted, whose ABIs agree with
//! them ([`Kernel`]), and that were legalized for the same [`Caps`]. *The codegen* returns `Ok`,
//! [`CodegenError::Unsupported`] or [`CodegenError::Failed`], and never panics. Its code follows
//! [`crate::abi`]. For code that can do harm, the codegen vouches in an `unsafe` constructor, and
//! [`Code::new`](crate::Code::new) checks that the code takes the arguments of the routine's calls.

#![allow(unsafe_code, reason = "restored code is vouched for by the caller")]

use std::collections::BTreeSet;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};

use lowered_ir::ir::LoopId;

use crate::{Artifact, Caps, CompilationMethod, Kernel, KernelAbi, KernelChoice, ScheduledRoutine};

/// Turns a scheduled kernel into source. Its fields, if it has any, are part of the cache key.
pub trait Renderer: Hash + Send + Sync {
    /// The source: text, words, or a prepared function.
    type Source: Send;

    /// Renders one kernel for a target.
    ///
    /// # Errors
    ///
    /// [`CodegenError::Unsupported`] where the target cannot express an operation.
    fn render(&self, caps: &Caps, kernel: &Kernel) -> Result<Self::Source, CodegenError>;
}

/// A kernel and the source that a [`Renderer`] made of it.
#[derive(Clone, Copy, Debug)]
pub struct RenderedKernel<'k, S> {
    /// The kernel, with the ABI that its code must have.
    pub kernel: &'k Kernel,
    /// The source.
    pub source: S,
}

/// Turns sources into an artifact. Its fields, if it has any, are part of the cache key.
pub trait Compiler: Hash + Send + Sync {
    /// The source, the same type as that of the renderer.
    type Source: Send;
    /// The options, which are part of the cache key.
    type Options: Hash + Clone + Default + fmt::Debug + Send + Sync;

    /// Compiles the kernels of one routine. The artifact has their ABIs, in the same order; scratch memory,
    /// grain and cost may differ.
    ///
    /// # Errors
    ///
    /// [`CodegenError::Failed`] with the stage and, where there is one, the source line.
    fn compile(
        &self,
        caps: &Caps,
        kernels: Vec<RenderedKernel<'_, Self::Source>>,
        options: &Self::Options,
    ) -> Result<Artifact, CodegenError>;

    /// See [`Codegen::whole_contractions`].
    ///
    /// # Errors
    ///
    /// [`CodegenError::Failed`], which is a bug of the codegen.
    fn whole_contractions(
        &self,
        _caps: &Caps,
        _kernels: &[Kernel],
        _options: &Self::Options,
    ) -> Result<Vec<BTreeSet<LoopId>>, CodegenError> {
        Ok(Vec::new())
    }

    /// See [`Codegen::alternatives`].
    ///
    /// # Errors
    ///
    /// [`CodegenError::Choice`] if the kernel's own choice does not fit.
    fn alternatives(
        &self,
        _caps: &Caps,
        _kernel: &Kernel,
        _options: &Self::Options,
    ) -> Result<Vec<KernelChoice>, CodegenError> {
        Ok(Vec::new())
    }

    /// See [`Codegen::tuning_target`].
    fn tuning_target(&self, _caps: &Caps, _options: &Self::Options) -> Option<String> {
        None
    }

    /// See [`Codegen::describe`].
    ///
    /// # Errors
    ///
    /// The errors of rendering and compiling the kernel.
    fn describe(
        &self,
        _caps: &Caps,
        _kernel: &Kernel,
        _options: &Self::Options,
    ) -> Result<Vec<CompilationMethod>, CodegenError> {
        Ok(Vec::new())
    }

    /// See [`Codegen::store`].
    fn store(&self, _artifact: &Artifact) -> Option<Vec<u8>> {
        None
    }

    /// See [`Codegen::restore`].
    ///
    /// # Safety
    ///
    /// The promise of [`Codegen::restore`].
    unsafe fn restore(
        &self,
        _caps: &Caps,
        _options: &Self::Options,
        _stored: &[u8],
        _kernels: Vec<KernelAbi>,
    ) -> Option<Artifact> {
        None
    }

    /// The code of one kernel for people to read. Sections are empty if there is nothing to show.
    ///
    /// # Errors
    ///
    /// The errors of rendering and compiling the kernel.
    fn listing(
        &self,
        _caps: &Caps,
        _kernel: &Kernel,
        _options: &Self::Options,
    ) -> Result<Listing, CodegenError> {
        Ok(Listing::default())
    }
}

/// A kernel's code for people to read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// The output of the codegen: text of its target language, or the function handed to a compiler library.
    pub source: String,
    /// Machine instructions as text.
    pub machine_code: String,
}

/// Scheduled routine → artifact, with the types of source and options hidden.
pub trait Codegen: Send + Sync {
    /// The codegen's name, for messages and cache keys.
    fn name(&self) -> &str;

    /// The target's capabilities, which the scheduler reads.
    fn caps(&self) -> &Caps;

    /// A value that differs whenever the same routine could be compiled differently: it depends on the
    /// codegen's version, its target and its options. [`fingerprint`] makes one.
    fn fingerprint(&self) -> u64;

    /// Compiles every kernel of a routine.
    ///
    /// # Errors
    ///
    /// See [`CodegenError`].
    fn compile(&self, routine: &ScheduledRoutine) -> Result<Artifact, CodegenError>;

    /// For each of a routine's kernels, the contractions in [canonical form](crate::canonical) that the
    /// codegen compiles whole, each by the variable of its outermost loop. Kernels behind the end of the list
    /// have none.
    ///
    /// The scheduler asks once per routine, if [`Caps::contractions`] lists types, and replaces all other
    /// contractions by register tiles. After that, the codegen must still compile whole the contractions that
    /// it named. A kernel without other contractions is compiled unchanged, with the plan that the codegen
    /// keeps with it ([`Kernel::plan_once`]).
    ///
    /// # Errors
    ///
    /// [`CodegenError::Failed`], which is a bug of the codegen.
    fn whole_contractions(&self, _kernels: &[Kernel]) -> Result<Vec<BTreeSet<LoopId>>, CodegenError> {
        Ok(Vec::new())
    }

    /// Choices near that of a kernel, without it: other forms of its code that give the same bits and may be
    /// faster. The forms that a search reaches from the heuristics, which are a kernel without a choice, are
    /// all that are worth trying. Empty if there is no choice.
    ///
    /// # Errors
    ///
    /// [`CodegenError::Choice`] if the kernel's own choice does not fit, and the errors of compilation.
    fn alternatives(&self, _kernel: &Kernel) -> Result<Vec<KernelChoice>, CodegenError> {
        Ok(Vec::new())
    }

    /// The machine on which choices are measured and everything else that decides which is the fastest, as a
    /// printable ASCII word without `#`. `None` if the codegen has no choices.
    fn tuning_target(&self) -> Option<String> {
        None
    }

    /// The methods by which a kernel is compiled, for a report: one for each part into which the codegen
    /// divides the kernel, in the order in which the parts run. Empty for a codegen with one method.
    ///
    /// # Errors
    ///
    /// [`CodegenError`], in the same cases as [`Codegen::compile`].
    fn describe(&self, _kernel: &Kernel) -> Result<Vec<CompilationMethod>, CodegenError> {
        Ok(Vec::new())
    }

    /// An artifact of this codegen as data, from which another process of the same program makes the artifact
    /// again without compiling. `None` if the codegen's artifacts are not kept from process to process.
    fn store(&self, _artifact: &Artifact) -> Option<Vec<u8>> {
        None
    }

    /// The artifact that was stored, whose kernels have these ABIs. `None` if the data is damaged, as far as
    /// that shows, or if the system gives no memory for code.
    ///
    /// # Safety
    ///
    /// [`Codegen::store`] made `stored` of an artifact whose kernels have these ABIs, in a process of this
    /// very program, and with a codegen of the same [`fingerprint`](Codegen::fingerprint) and
    /// [`tuning_target`](Codegen::tuning_target).
    unsafe fn restore(&self, _stored: &[u8], _kernels: Vec<KernelAbi>) -> Option<Artifact> {
        None
    }

    /// The code of one kernel for people to read. Sections are empty if there is nothing to show.
    ///
    /// # Errors
    ///
    /// [`CodegenError`], in the same cases as [`Codegen::compile`].
    fn listing(&self, _kernel: &Kernel) -> Result<Listing, CodegenError> {
        Ok(Listing::default())
    }
}

/// The fingerprint of a codegen: a hash of its name, its author's version, its target, everything else on
/// which its code depends (`settings`), and the version of this contract.
pub fn fingerprint(name: &str, version: &str, caps: &Caps, settings: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    (name, version, caps, env!("CARGO_PKG_VERSION")).hash(&mut hasher);
    settings.hash(&mut hasher);
    hasher.finish()
}

/// A renderer and a compiler as one [`Codegen`].
#[derive(Clone, Debug)]
pub struct Pipeline<R, C: Compiler> {
    /// The codegen's name, for messages and cache keys.
    pub name: String,
    /// The version of the crate with renderer and compiler, `env!("CARGO_PKG_VERSION")` there. It is part of
    /// the cache key.
    pub version: String,
    /// The target.
    pub caps: Caps,
    /// The first half.
    pub renderer: R,
    /// The second half.
    pub compiler: C,
    /// The options of the compiler.
    pub options: C::Options,
}

impl<R: Renderer<Source = C::Source>, C: Compiler> Codegen for Pipeline<R, C> {
    fn name(&self) -> &str {
        &self.name
    }

    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn fingerprint(&self) -> u64 {
        fingerprint(&self.name, &self.version, &self.caps, &(&self.renderer, &self.compiler, &self.options))
    }

    fn compile(&self, routine: &ScheduledRoutine) -> Result<Artifact, CodegenError> {
        let render = |kernel| {
            let source = self.renderer.render(&self.caps, kernel)?;
            Ok(RenderedKernel { kernel, source })
        };
        let kernels = routine.kernels().iter().map(render).collect::<Result<_, CodegenError>>()?;
        self.compiler.compile(&self.caps, kernels, &self.options)
    }

    fn whole_contractions(&self, kernels: &[Kernel]) -> Result<Vec<BTreeSet<LoopId>>, CodegenError> {
        self.compiler.whole_contractions(&self.caps, kernels, &self.options)
    }

    fn alternatives(&self, kernel: &Kernel) -> Result<Vec<KernelChoice>, CodegenError> {
        self.compiler.alternatives(&self.caps, kernel, &self.options)
    }

    fn tuning_target(&self) -> Option<String> {
        self.compiler.tuning_target(&self.caps, &self.options)
    }

    fn describe(&self, kernel: &Kernel) -> Result<Vec<CompilationMethod>, CodegenError> {
        self.compiler.describe(&self.caps, kernel, &self.options)
    }

    fn store(&self, artifact: &Artifact) -> Option<Vec<u8>> {
        self.compiler.store(artifact)
    }

    unsafe fn restore(&self, stored: &[u8], kernels: Vec<KernelAbi>) -> Option<Artifact> {
        // SAFETY: the caller's promise.
        unsafe { self.compiler.restore(&self.caps, &self.options, stored, kernels) }
    }

    fn listing(&self, kernel: &Kernel) -> Result<Listing, CodegenError> {
        self.compiler.listing(&self.caps, kernel, &self.options)
    }
}

/// The kernel in front of a message; nothing of a failure that belongs to none.
fn of_kernel(kernel: &str) -> String {
    if kernel.is_empty() { String::new() } else { format!("kernel `{kernel}`: ") }
}

/// The reason why a codegen did not compile a kernel.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum CodegenError {
    /// The target lacks an operation. Another target may have it. The reason says how to get support for it.
    #[error("kernel `{kernel}`: {codegen} does not support {op}: {why}")]
    Unsupported { codegen: String, kernel: String, op: String, why: String },
    /// A legal kernel was rejected: a bug here or in the platform's compiler.
    #[error("{}{codegen} failed in {stage}: {message}", of_kernel(kernel))]
    Failed { codegen: String, kernel: String, stage: &'static str, message: String },
    /// The choice of a kernel does not fit the kernel.
    #[error("kernel `{kernel}`: the choice `{choice}` does not fit: {why}")]
    Choice { kernel: String, choice: String, why: String },
    /// The target's memory for code is exhausted.
    #[error("kernel `{kernel}`: no memory for {bytes} bytes of code")]
    OutOfMemory { kernel: String, bytes: usize },
    /// The system forbids the process to execute the code that it generates.
    #[error(
        "kernel `{kernel}`: the system forbids this process to execute code that it generates ({cause}); SELinux (`execmem`), systemd (`MemoryDenyWriteExecute`), seccomp filters and hardened kernels do so"
    )]
    CodeForbidden { kernel: String, cause: String },
}

impl CodegenError {
    /// The error for a bug of a codegen or of the platform's compiler, in a stage of compiling a kernel.
    pub fn failed(codegen: &str, kernel: &str, stage: &'static str, message: impl Into<String>) -> Self {
        CodegenError::Failed {
            codegen: codegen.into(),
            kernel: kernel.into(),
            stage,
            message: message.into(),
        }
    }
}
