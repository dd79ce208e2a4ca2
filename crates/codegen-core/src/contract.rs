//! The traits a code generator implements, and what comes out of them.
//!
//! A codegen author writes a [`Renderer`] (scheduled kernel → source, whatever the source is) and a [`Compiler`] (sources →
//! artifact). [`Pipeline`] joins the two into a [`Codegen`], which is what everything above uses.
//!
//! # Who owes what
//!
//! *The caller* hands over kernels, which [the verifier](lowered_ir::verify) has accepted and whose ABIs agree with them
//! ([`Kernel`]), and that legalisation for the same [`Caps`] has passed over. *The codegen* answers `Ok`,
//! [`CodegenError::Unsupported`] or [`CodegenError::Failed`], and never panics. What it returns follows
//! `docs/abi.md`: for code that can do harm it vouches in an `unsafe` constructor, and
//! [`Code::new`](crate::Code::new) checks that it is called as the routine's kernels are.

use std::{collections::BTreeSet, fmt, hash::Hash};

use lowered_ir::ir::LoopId;

use crate::{Artifact, Caps, Kernel, ScheduledRoutine};

/// Turns a scheduled kernel into source.
pub trait Renderer: Send + Sync {
    /// What is rendered: text, words, or a prepared function.
    type Source: Send;

    /// Renders one kernel for a target.
    ///
    /// # Errors
    ///
    /// [`CodegenError::Unsupported`] where the target cannot express an operation.
    fn render(&self, caps: &Caps, kernel: &Kernel) -> Result<Self::Source, CodegenError>;
}

/// Turns sources into an artifact.
pub trait Compiler: Send + Sync {
    /// What is compiled; the renderer's source.
    type Source: Send;
    /// What may be chosen; part of the cache key.
    type Options: Hash + Clone + Default + fmt::Debug + Send + Sync;

    /// Compiles the sources of one routine's kernels; the artifact's kernels are in the same order.
    ///
    /// # Errors
    ///
    /// [`CodegenError::Failed`] with the stage and, where there is one, the source line.
    fn compile(
        &self,
        caps: &Caps,
        sources: Vec<Self::Source>,
        options: &Self::Options,
    ) -> Result<Artifact, CodegenError>;

    /// As [`Codegen::whole_contractions`].
    ///
    /// # Errors
    ///
    /// [`CodegenError::Failed`], which is a bug of the codegen.
    fn whole_contractions(
        &self,
        _caps: &Caps,
        _kernel: &Kernel,
        _options: &Self::Options,
    ) -> Result<BTreeSet<LoopId>, CodegenError> {
        Ok(BTreeSet::new())
    }

    /// As [`Codegen::describe`].
    ///
    /// # Errors
    ///
    /// Those of rendering and compiling the kernel.
    fn describe(
        &self,
        _caps: &Caps,
        _kernel: &Kernel,
        _options: &Self::Options,
    ) -> Result<String, CodegenError> {
        Ok(String::new())
    }

    /// What is made of one kernel, for people to read; empty sections where there is nothing to show.
    ///
    /// # Errors
    ///
    /// Those of rendering and compiling the kernel.
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
    /// What the codegen wrote: text of its target language, or the function handed to a compiler library.
    pub source: String,
    /// The machine's instructions.
    pub machine_code: String,
}

/// Scheduled routine → artifact, with the types of source and options hidden.
pub trait Codegen: Send + Sync {
    /// The codegen's name.
    fn name(&self) -> &str;

    /// The target's capabilities.
    fn caps(&self) -> &Caps;

    /// A value that differs whenever the same routine could be compiled differently: version, target and options.
    fn fingerprint(&self) -> u64;

    /// Compiles every kernel of a routine.
    ///
    /// # Errors
    ///
    /// See [`CodegenError`].
    fn compile(&self, routine: &ScheduledRoutine) -> Result<Artifact, CodegenError>;

    /// The contractions in [canonical form](crate::canonical) that the codegen compiles whole when it compiles this
    /// kernel, each by the variable of its outermost loop.
    ///
    /// The scheduler asks before it hands a kernel over, if [`Caps::contractions`] lists types, and replaces all other
    /// contractions by register tiles. The codegen must still take the ones it named after that.
    ///
    /// # Errors
    ///
    /// [`CodegenError::Failed`], which is a bug of the codegen.
    fn whole_contractions(&self, _kernel: &Kernel) -> Result<BTreeSet<LoopId>, CodegenError> {
        Ok(BTreeSet::new())
    }

    /// How a kernel is compiled, in a few words for a report: which of the codegen's methods takes it, and why a faster
    /// one does not. Empty for a codegen with one method.
    ///
    /// # Errors
    ///
    /// Those of compiling the kernel.
    fn describe(&self, _kernel: &Kernel) -> Result<String, CodegenError> {
        Ok(String::new())
    }

    /// What is made of one kernel, for people to read; empty sections where there is nothing to show.
    ///
    /// # Errors
    ///
    /// Those of compiling the kernel.
    fn listing(&self, _kernel: &Kernel) -> Result<Listing, CodegenError> {
        Ok(Listing::default())
    }
}

/// A renderer and a compiler as one [`Codegen`].
#[derive(Clone, Debug)]
pub struct Pipeline<R, C: Compiler> {
    name: String,
    caps: Caps,
    renderer: R,
    compiler: C,
    options: C::Options,
}

impl<R: Renderer<Source = C::Source>, C: Compiler> Pipeline<R, C> {
    /// Joins the two halves under a name, for a target.
    pub fn new(name: impl Into<String>, caps: Caps, renderer: R, compiler: C, options: C::Options) -> Self {
        Pipeline { name: name.into(), caps, renderer, compiler, options }
    }
}

impl<R: Renderer<Source = C::Source>, C: Compiler> Codegen for Pipeline<R, C> {
    fn name(&self) -> &str {
        &self.name
    }

    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn fingerprint(&self) -> u64 {
        use std::hash::{DefaultHasher, Hasher};
        let mut hasher = DefaultHasher::new();
        (&self.name, &self.caps, env!("CARGO_PKG_VERSION")).hash(&mut hasher);
        self.options.hash(&mut hasher);
        hasher.finish()
    }

    fn compile(&self, routine: &ScheduledRoutine) -> Result<Artifact, CodegenError> {
        let sources = routine
            .kernels()
            .iter()
            .map(|k| self.renderer.render(&self.caps, k))
            .collect::<Result<_, _>>()?;
        self.compiler.compile(&self.caps, sources, &self.options)
    }

    fn whole_contractions(&self, kernel: &Kernel) -> Result<BTreeSet<LoopId>, CodegenError> {
        self.compiler.whole_contractions(&self.caps, kernel, &self.options)
    }

    fn describe(&self, kernel: &Kernel) -> Result<String, CodegenError> {
        self.compiler.describe(&self.caps, kernel, &self.options)
    }

    fn listing(&self, kernel: &Kernel) -> Result<Listing, CodegenError> {
        self.compiler.listing(&self.caps, kernel, &self.options)
    }
}

/// Why a codegen did not compile a kernel.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CodegenError {
    /// The target cannot do it; another one may.
    #[error("kernel `{kernel}`: {codegen} does not support {op}: {why}")]
    Unsupported {
        /// Which codegen.
        codegen: String,
        /// Which kernel.
        kernel: String,
        /// The operation, as the text form writes it.
        op: String,
        /// Why, and what would support it.
        why: String,
    },
    /// Our bug, or the platform compiler's: a legal kernel was refused.
    #[error("kernel `{kernel}`: {codegen} failed in {stage}: {message}")]
    Failed {
        /// Which codegen.
        codegen: String,
        /// Which kernel.
        kernel: String,
        /// Which step.
        stage: &'static str,
        /// What it said, with the source line where there is one.
        message: String,
    },
    /// The target's memory for code is exhausted.
    #[error("kernel `{kernel}`: no memory for {bytes} bytes of code")]
    OutOfMemory {
        /// Which kernel.
        kernel: String,
        /// How much was asked for.
        bytes: usize,
    },
}
