//! Kernels for object files: compiled for a processor that need not be the one that compiles, and linked by
//! another program.
//!
//! [`object_codegen`] is a code generator whose artifacts have an [`ObjectModule`]: the machine code of each
//! kernel, with relocations for the functions that it calls. A module cannot be run here. [`entry`] adds the
//! function that runs a whole routine: it calls the kernels in order, with the addresses and the values that
//! its schedule says, so that a program calls one symbol and interprets nothing.
//!
//! Kernels are the same as those for this process, with two differences: functions are called relative to the
//! instruction pointer, because code in a file has no addresses, and products have GEMM plans only if the
//! target [says so](ObjectTarget::with_products): the function [`PRODUCT`] of `arrayjit-rt` runs them.
//! Otherwise their loops are register tiles, which give the same bits.

mod composite; // kernels that run products
mod entry; // the function that runs a routine
mod parallel_call; // calls of kernels on threads
mod target; // processors and systems

use std::collections::BTreeSet;
use std::sync::Arc;

use codegen_core::{
    Artifact, Caps, CodegenError, Compiler, DTypeSet, Kernel, KernelAbi, Pipeline, RenderedKernel,
};
use cranelift_codegen::binemit::Reloc;
use cranelift_codegen::control::ControlPlane;
use cranelift_codegen::ir::{
    ExtFuncData, ExternalName, FuncRef, Function, GlobalValue, GlobalValueData, InstBuilder, Signature,
    UserExternalName, Value, types,
};
use cranelift_codegen::isa::{CallConv, TargetIsa};
use cranelift_codegen::{Context, FinalizedMachReloc, FinalizedRelocTarget};
use cranelift_frontend::FunctionBuilder;
use lowered_ir::ir::{Affine, LoopId, SymbolId, Var};
use microkernels::UnlinkedPlan;
use rayon::prelude::*;
use target_lexicon::Architecture;

pub use self::entry::{EntryError, MISALIGNED, NodePlace, arena_bytes, entry, thread_bytes};
pub use self::target::{ObjectFormat, ObjectLevel, ObjectTarget, TargetError};
use crate::choice::CompilationChoice;
use crate::compile::{KernelCompiler, LARGE_FUNCTION, codegen_error, guarded, workers};
use crate::composite::{CompositePlan, has_conditions, plan};
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
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ObjectFunction {
    /// The code.
    pub code: Vec<u8>,
    /// The places that a linker completes.
    pub relocations: Vec<ObjectRelocation>,
    /// Functions that only this one calls.
    pub parts: Vec<ObjectFunction>,
    /// Products that this function runs.
    pub products: Vec<ObjectProduct>,
    /// Whether it takes its arguments as on System V, whatever the target is.
    is_system_v: bool,
}

/// The plan of a product for `arrayjit-rt`. In the memory of a program it is writable and consists of 64-bit
/// words: 0, the address and the number of bytes of the data, and the number and the addresses of the
/// functions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ObjectProduct {
    /// The plan as `arrayjit-rt` reads it.
    pub data: Vec<u8>,
    /// The code of the functions that the plan calls. Their addresses must be multiples of 64.
    pub functions: Vec<Vec<u8>>,
}

/// The version of the data of plans: `arrayjit_rt::products::VERSION` of the programs that code is for.
pub const PRODUCT_VERSION: u32 = microkernels::PLAN_VERSION;

/// The function of `arrayjit-rt` that runs a plan, with [`PRODUCT_VERSION`] at the end of its name.
///
/// ```text
/// extern "C" fn(plan: *mut ObjectProduct, args: *const *mut u8, bindings: *const i64, scratch: *mut u8,
///               begin: u64, end: u64)
/// ```
pub const PRODUCT: &str = "arrayjit_rt_product_3";

/// A place in code that refers to a symbol.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum RelocationTarget {
    /// A function of `arrayjit-rt`, by its symbol.
    Runtime(&'static str),
    /// A kernel of the routine, by its position in the module: only an entry calls kernels.
    Kernel(usize),
    /// A part of the function, by its position.
    Part(usize),
    /// A product of the function, by its position.
    Product(usize),
    /// The constant data of the library.
    Data,
}

impl Compiler for ObjectCompiler {
    type Source = CheckedKernel;
    type Options = CraneliftOptions;

    fn whole_contractions(
        &self,
        _caps: &Caps,
        kernels: &[Kernel],
        _options: &CraneliftOptions,
    ) -> Result<Vec<BTreeSet<LoopId>>, CodegenError> {
        let one = |kernel: &Kernel| {
            let plan = guarded(&kernel.abi().name, || self.plan(kernel))?;
            Ok(plan.map_or_else(BTreeSet::new, |plan| plan.contractions()))
        };
        workers()?.install(|| kernels.par_iter().map(one).collect())
    }

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
    /// The plan of a kernel with products that `arrayjit-rt` runs; `None` for any other kernel.
    fn plan(&self, kernel: &Kernel) -> Result<Option<Arc<CompositePlan<UnlinkedPlan>>>, CodegenError> {
        // Loops that a condition ends are Cranelift's code, with the products in them.
        match self.0.products().filter(|_| !has_conditions(&kernel.ir().body)) {
            Some(cpu) => plan(kernel, &cpu, self.0.vector_target(), &CompilationChoice::default()),
            None => Ok(None),
        }
    }

    fn kernel(
        &self,
        kernel: &Kernel,
        isa: &dyn TargetIsa,
        options: &CraneliftOptions,
    ) -> Result<(ObjectFunction, KernelAbi), CodegenError> {
        if let Some(plan) = self.plan(kernel)? {
            return composite::compose(kernel, &plan, isa, |part| self.alone(part, isa, options));
        }
        let (function, scratch_bytes) = self.alone(kernel, isa, options)?;
        Ok((function, KernelAbi { scratch_bytes, ..kernel.abi().clone() }))
    }

    /// Compiles a kernel without products that `arrayjit-rt` runs, and returns the bytes of its scratch
    /// memory.
    fn alone(
        &self,
        kernel: &Kernel,
        isa: &dyn TargetIsa,
        options: &CraneliftOptions,
    ) -> Result<(ObjectFunction, usize), CodegenError> {
        crate::support::check(kernel, DTypeSet::EMPTY)?;
        Ok(match KernelCompiler::of(kernel, self.0.vector_width(), self.0.vector_target()) {
            KernelCompiler::Vector(assembled) => {
                let code = assembled.code.bytes().to_vec();
                (ObjectFunction { is_system_v: true, ..code.into() }, assembled.scratch_bytes)
            }
            KernelCompiler::Cranelift(_) => {
                let emitted = emit::emit(kernel, isa, true);
                let large = emitted.func.dfg.num_insts() >= LARGE_FUNCTION;
                let single_pass = if large { Some(self.0.isa(options, "single_pass")?) } else { None };
                let isa = single_pass.as_deref().unwrap_or(isa);
                (compiled(emitted.func, isa, &kernel.abi().name)?, emitted.scratch_bytes)
            }
        })
    }
}

impl From<Vec<u8>> for ObjectFunction {
    /// A function that refers to nothing.
    fn from(code: Vec<u8>) -> Self {
        let (relocations, parts, products) = (Vec::new(), Vec::new(), Vec::new());
        ObjectFunction { code, relocations, parts, products, is_system_v: false }
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
    Ok(ObjectFunction { relocations, ..code.into() })
}

/// Namespaces of the names of functions and data in Cranelift's IR; that of runtime functions is 0. Kernels
/// of the routine:
const KERNELS: u32 = 1;
/// The library's data:
const DATA: u32 = 2;
/// Parts of the function:
const PARTS: u32 = 3;
/// Products of the function:
const PRODUCTS: u32 = 4;
/// [`PRODUCT`]:
const PRODUCT_FUNCTION: u32 = 5;

/// A reference to a function or to data, by its namespace and its number.
fn name(func: &mut Function, namespace: u32, number: usize) -> ExternalName {
    let name = UserExternalName::new(namespace, number as u32);
    ExternalName::user(func.declare_imported_user_function(name))
}

/// A reference to a function with this signature.
fn callee(func: &mut Function, namespace: u32, number: usize, signature: Signature) -> FuncRef {
    let name = name(func, namespace, number);
    let signature = func.import_signature(signature);
    func.import_function(ExtFuncData { name, signature, colocated: true, patchable: false })
}

/// A reference to a kernel or a part, which takes its arguments as its compiler makes it.
fn kernel_callee(
    func: &mut Function,
    isa: &dyn TargetIsa,
    (namespace, number): (u32, usize),
    function: &ObjectFunction,
) -> FuncRef {
    callee(func, namespace, number, emit::signature(kernel_convention(isa, function)))
}

/// The calling convention of a kernel or a part.
fn kernel_convention(isa: &dyn TargetIsa, function: &ObjectFunction) -> CallConv {
    match function.is_system_v {
        true if isa.triple().architecture == Architecture::X86_64 => CallConv::SystemV,
        _ => isa.default_call_conv(),
    }
}

/// A reference to data.
fn data(func: &mut Function, namespace: u32, number: usize) -> GlobalValue {
    let name = name(func, namespace, number);
    func.create_global_value(GlobalValueData::Symbol { name, offset: 0.into(), colocated: true, tls: false })
}

/// The value of a sum of symbols.
fn affine(
    builder: &mut FunctionBuilder<'_>,
    affine: &Affine,
    mut symbol: impl FnMut(&mut FunctionBuilder<'_>, SymbolId) -> Option<Value>,
) -> Value {
    let mut sum = builder.ins().iconst(types::I64, affine.offset());
    for (var, factor) in affine.terms() {
        let Var::Symbol(number) = var else { continue };
        let Some(value) = symbol(builder, *number) else { continue };
        let term = builder.ins().imul_imm_s(value, *factor);
        sum = builder.ins().iadd(sum, term);
    }
    sum
}

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

/// What a relocation refers to, if it is no operation without an instruction.
fn own_target(reloc: &FinalizedMachReloc, func: &Function) -> Option<RelocationTarget> {
    let FinalizedRelocTarget::ExternalName(ExternalName::User(name)) = &reloc.target else { return None };
    let name = func.params.user_named_funcs().get(*name)?;
    match name.namespace {
        KERNELS => Some(RelocationTarget::Kernel(name.index as usize)),
        DATA => Some(RelocationTarget::Data),
        PARTS => Some(RelocationTarget::Part(name.index as usize)),
        PRODUCTS => Some(RelocationTarget::Product(name.index as usize)),
        PRODUCT_FUNCTION => Some(RelocationTarget::Runtime(PRODUCT)),
        _ => None,
    }
}

/// The error of a target for which no code can be generated.
fn no_target(message: String) -> CodegenError {
    failed("", "target set-up", message)
}
