//! Kernels for object files: compiled for a processor that need not be the one that compiles, and linked by
//! another program.
//!
//! [`object_codegen`] is a code generator whose artifacts have an [`ObjectModule`]: the machine code of each
//! kernel, with relocations for the functions that it calls. A module cannot be run here. [`entry`] adds the
//! function that runs a whole routine: it calls the kernels in order, with the addresses and the values that
//! its schedule says, so that a program calls one symbol and interprets nothing.
//!
//! Kernels are the same as those for this process, with two differences: functions are called relative to the
//! instruction pointer, because code in a file has no addresses, and products have no GEMM plans, which would
//! need code of this process. Their loops are register tiles, which give the same bits.

mod entry; // the function that runs a routine
mod target; // processors and systems

use std::sync::Arc;

use codegen_core::{
    Artifact, Caps, CodegenError, Compiler, DTypeSet, Kernel, KernelAbi, Pipeline, RenderedKernel,
};
use cranelift_codegen::binemit::Reloc;
use cranelift_codegen::control::ControlPlane;
use cranelift_codegen::ir::{ExternalName, Function};
use cranelift_codegen::isa::TargetIsa;
use cranelift_codegen::{Context, FinalizedMachReloc, FinalizedRelocTarget};
use rayon::prelude::*;

pub use self::entry::{EntryError, MISALIGNED, NodePlace, arena_bytes, entry};
pub use self::target::{ObjectFormat, ObjectLevel, ObjectTarget, TargetError};
use crate::compile::{KernelCompiler, LARGE_FUNCTION, codegen_error, guarded, workers};
use crate::emit;
use crate::options::CraneliftOptions;
use crate::relocate::{self, CraneliftError};
use crate::runtime_functions;
use crate::support::{CheckedKernel, CraneliftRenderer, NAME, failed};

/// Compiles checked kernels for object files.
#[derive(Clone, Debug, Hash)]
pub struct ObjectCompiler(ObjectTarget);

/// The codegen for a target, whose artifacts have an [`ObjectModule`] and run nowhere.
///
/// # Errors
///
/// [`CodegenError::Failed`] if Cranelift was built without the architecture of the target.
pub fn object_codegen(
    target: ObjectTarget,
) -> Result<Pipeline<CraneliftRenderer, ObjectCompiler>, CodegenError> {
    let options = CraneliftOptions::default();
    target.isa(&options, "backtracking")?;
    Ok(Pipeline {
        name: NAME.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        caps: target.caps(),
        renderer: CraneliftRenderer,
        compiler: ObjectCompiler(target),
        options,
    })
}

/// The kernels of a routine as machine code for a linker.
#[derive(Debug)]
pub struct ObjectModule {
    /// The kernels, in the order of the artifact's ABIs.
    pub kernels: Vec<ObjectFunction>,
}

/// Position-independent machine code of one function, followed by its constants. Its address must be a
/// multiple of 64.
#[derive(Clone, Debug)]
pub struct ObjectFunction {
    /// The code.
    pub code: Vec<u8>,
    /// The places that a linker completes.
    pub relocations: Vec<ObjectRelocation>,
    /// Whether it takes its arguments as on System V, whatever the target is.
    is_system_v: bool,
}

/// A place in code that refers to a symbol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectRelocation {
    /// Bytes from the start of the code.
    pub offset: u64,
    /// The form of the reference.
    pub kind: RelocationKind,
    /// The symbol.
    pub target: RelocationTarget,
    /// The number that is added to the address of the symbol.
    pub addend: i64,
}

/// The form of a reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RelocationKind {
    /// x86-64: the distance of a called function in 32 bits.
    X86Call,
    /// x86-64: the distance of data in 32 bits.
    X86Distance,
    /// ARM64: the distance of a called function in the 26 bits of a branch.
    Arm64Call,
    /// ARM64: the distance of a page in the 21 bits of `adrp`.
    Arm64Page,
    /// ARM64: the place within a page in the 12 bits of `add`.
    Arm64PageOffset,
}

/// A symbol that code refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RelocationTarget {
    /// A function of `arrayjit-rt`, by its symbol.
    Runtime(&'static str),
    /// A kernel of the routine, by its position in the module.
    Kernel(usize),
    /// The constant data of the library.
    Data,
}

impl Compiler for ObjectCompiler {
    type Source = CheckedKernel;
    type Options = CraneliftOptions;

    fn compile(
        &self,
        _caps: &Caps,
        kernels: Vec<RenderedKernel<'_, CheckedKernel>>,
        options: &CraneliftOptions,
    ) -> Result<Artifact, CodegenError> {
        let isa = self.0.isa(options, "backtracking")?;
        let one = |RenderedKernel { kernel, .. }: RenderedKernel<'_, CheckedKernel>| {
            guarded(&kernel.abi().name, || self.kernel(kernel, &*isa, options))
        };
        let compiled =
            workers()?.install(|| kernels.into_par_iter().map(one).collect::<Result<Vec<_>, _>>())?;
        let (kernels, abis) = compiled.into_iter().unzip();
        Ok(Artifact::other(Arc::new(ObjectModule { kernels }), abis))
    }
}

impl ObjectCompiler {
    fn kernel(
        &self,
        kernel: &Kernel,
        isa: &dyn TargetIsa,
        options: &CraneliftOptions,
    ) -> Result<(ObjectFunction, KernelAbi), CodegenError> {
        crate::support::check(kernel, DTypeSet::EMPTY)?;
        let name = &kernel.abi().name;
        let (function, scratch_bytes) =
            match KernelCompiler::of(kernel, self.0.vector_width(), self.0.vector_target()) {
                KernelCompiler::Vector(assembled) => {
                    let code = assembled.code.bytes().to_vec();
                    let function = ObjectFunction { code, relocations: Vec::new(), is_system_v: true };
                    (function, assembled.scratch_bytes)
                }
                KernelCompiler::Cranelift(_) => {
                    let emitted = emit::emit(kernel, isa.frontend_config(), true);
                    let large = emitted.func.dfg.num_insts() >= LARGE_FUNCTION;
                    let single_pass = if large { Some(self.0.isa(options, "single_pass")?) } else { None };
                    let isa = single_pass.as_deref().unwrap_or(isa);
                    (compiled(emitted.func, isa, name)?, emitted.scratch_bytes)
                }
            };
        Ok((function, KernelAbi { scratch_bytes, ..kernel.abi().clone() }))
    }
}

/// Compiles a function of Cranelift's IR. The functions that it calls are near it.
fn compiled(mut func: Function, isa: &dyn TargetIsa, name: &str) -> Result<ObjectFunction, CodegenError> {
    func.dfg.ext_funcs.values_mut().for_each(|callee| callee.colocated = true);
    let mut context = Context::for_function(func);
    let compiled = context.compile(isa, &mut ControlPlane::default());
    let compiled = compiled.map_err(|error| codegen_error(name, &CraneliftError::Codegen(error.inner)))?;
    let code = compiled.code_buffer().to_vec();
    let relocs = compiled.buffer.relocs().to_vec();
    let relocations = relocs.iter().map(|reloc| relocation(reloc, &context.func));
    let relocations = relocations.collect::<Result<_, String>>();
    let relocations = relocations.map_err(|target| CodegenError::Unsupported {
        codegen: NAME.into(),
        kernel: name.into(),
        op: target,
        why: "an object file has no such function".into(),
    })?;
    Ok(ObjectFunction { code, relocations, is_system_v: false })
}

/// The namespace of kernels among the names of functions in Cranelift's IR; that of runtime functions is 0.
const KERNELS: u32 = 1;

/// The namespace of the library's data.
const DATA: u32 = 2;

/// A relocation of Cranelift for a linker.
///
/// # Errors
///
/// The name of a target that has no symbol, or of the form of a reference that is not known here.
fn relocation(reloc: &FinalizedMachReloc, func: &Function) -> Result<ObjectRelocation, String> {
    let unknown = || reloc.target.display(Some(&func.params)).to_string();
    let kind = match reloc.kind {
        Reloc::X86CallPCRel4 => RelocationKind::X86Call,
        Reloc::X86PCRel4 => RelocationKind::X86Distance,
        Reloc::Arm64Call => RelocationKind::Arm64Call,
        Reloc::Aarch64AdrPrelPgHi21 => RelocationKind::Arm64Page,
        Reloc::Aarch64AddAbsLo12Nc => RelocationKind::Arm64PageOffset,
        kind => return Err(format!("a relocation of kind {kind} to {}", unknown())),
    };
    let target = match relocate::called(reloc, func) {
        Some(number) => RelocationTarget::Runtime(
            runtime_functions::symbol(number)
                .ok_or_else(|| "the sine or cosine of an `f64` of any size".to_owned())?,
        ),
        None => own_target(reloc, func).ok_or_else(unknown)?,
    };
    Ok(ObjectRelocation { offset: u64::from(reloc.offset), kind, target, addend: reloc.addend })
}

/// The kernel or the data that a relocation refers to.
fn own_target(reloc: &FinalizedMachReloc, func: &Function) -> Option<RelocationTarget> {
    let FinalizedRelocTarget::ExternalName(ExternalName::User(name)) = &reloc.target else { return None };
    let name = func.params.user_named_funcs().get(*name)?;
    match name.namespace {
        KERNELS => Some(RelocationTarget::Kernel(name.index as usize)),
        DATA => Some(RelocationTarget::Data),
        _ => None,
    }
}

/// The error of a target for which no code can be generated.
fn no_target(message: String) -> CodegenError {
    failed("", "target set-up", message)
}
