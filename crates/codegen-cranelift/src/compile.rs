//! The compiler, which compiles checked kernels to machine code in parallel.
//!
//! A kernel is compiled in one of three ways: as a composite of GEMM plans and other parts if it contains
//! contractions ([`composite::compose`]), as a vector program by `vector-asm`, or by Cranelift, which
//! supports every checked kernel. The first way that supports the kernel is taken. The code of all kernels is
//! loaded together ([`jit`]).

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process;
use std::sync::{Arc, Mutex, PoisonError};

use codegen_core::canonical::adds_products;
use codegen_core::{
    Artifact, Caps, CodegenError, CompilationMethod, Compiler, DTypeSet, Kernel, KernelAbi, KernelChoice,
    Listing, Pipeline, RenderedKernel, panic_message,
};
use cranelift_codegen::ir::Function;
use cranelift_codegen::isa::{OwnedTargetIsa, TargetIsa};
use cranelift_codegen::settings::{self, Configurable, Flags};
use lowered_ir::ir::LoopId;
use microkernels::CpuTarget;
use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::caps::{self, host_caps};
use crate::choice::{self, CompilationChoice};
use crate::composite::{self, CompositePlan, FlatPart};
use crate::disassemble;
use crate::emit::{self, Emitted};
use crate::jit::{self, Compiled};
use crate::options::{CraneliftOptions, VectorWidth};
use crate::relocate::{CraneliftCode, CraneliftError};
use crate::store;
use crate::support::{CheckedKernel, CraneliftRenderer, NAME, failed};
use crate::vector::{self, Target};

/// Compiles checked kernels for this machine.
#[derive(Clone, Copy, Debug, Default, Hash)]
pub struct CraneliftCompiler;

/// The codegen for processors.
pub type Cranelift = Pipeline<CraneliftRenderer, CraneliftCompiler>;

/// Opens the codegen for this machine.
///
/// # Errors
///
/// [`CodegenError::Failed`] if Cranelift does not support the CPU, or if the CPU lacks the vectors that the
/// options ask for.
pub fn cranelift(options: CraneliftOptions) -> Result<Cranelift, CodegenError> {
    // Errors of the options are reported here, not by the first kernel.
    isa(&options)?;
    check_width(&options)?;
    Ok(cranelift_with(host_caps(options.vector), options))
}

/// The codegen with other capabilities than those that [`host_caps`] finds, for example with fewer threads.
/// Options for which this machine lacks vectors are an error when a kernel is compiled.
pub fn cranelift_with(caps: Caps, options: CraneliftOptions) -> Cranelift {
    Pipeline {
        name: NAME.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        caps,
        renderer: CraneliftRenderer,
        compiler: CraneliftCompiler,
        options,
    }
}

/// Checks that the CPU has the vectors that the options ask for; code with other vectors would trap.
fn check_width(options: &CraneliftOptions) -> Result<(), CodegenError> {
    if options.vector.is_available() {
        return Ok(());
    }
    let has: Vec<String> = VectorWidth::ALL
        .into_iter()
        .filter(|width| width.is_available())
        .map(|width| format!("`{width}`"))
        .collect();
    let message =
        format!("this machine has no vectors of the width `{}`, only {}", options.vector, has.join(", "));
    Err(failed("", "target set-up", message))
}

impl Compiler for CraneliftCompiler {
    type Source = CheckedKernel;
    type Options = CraneliftOptions;

    fn compile(
        &self,
        caps: &Caps,
        kernels: Vec<RenderedKernel<'_, CheckedKernel>>,
        options: &CraneliftOptions,
    ) -> Result<Artifact, CodegenError> {
        let isa: Arc<dyn TargetIsa> = isa(options)?;
        check_width(options)?;
        let one = |RenderedKernel { kernel, source }: RenderedKernel<'_, CheckedKernel>| {
            let _span = tracing::debug_span!("compile", kernel = kernel.abi().name).entered();
            guarded(&kernel.abi().name, || {
                if source.contractions != caps.contractions {
                    crate::support::check(kernel, caps.contractions)?;
                }
                compile(kernel, caps, &isa, options)
            })
        };
        let compiled =
            workers()?.install(|| kernels.into_par_iter().map(one).collect::<Result<Vec<_>, _>>())?;
        Ok(Artifact::host(jit::host_module(compiled)?))
    }

    fn whole_contractions(
        &self,
        caps: &Caps,
        kernels: &[Kernel],
        options: &CraneliftOptions,
    ) -> Result<Vec<BTreeSet<LoopId>>, CodegenError> {
        let one = |kernel: &Kernel| {
            let make = || plan(kernel, caps, options, &CompilationChoice::of(kernel)?);
            let plan = guarded(&kernel.abi().name, make)?;
            Ok(plan.map_or_else(BTreeSet::new, |plan| plan.contractions()))
        };
        workers()?.install(|| kernels.par_iter().map(one).collect())
    }

    fn alternatives(
        &self,
        caps: &Caps,
        kernel: &Kernel,
        options: &CraneliftOptions,
    ) -> Result<Vec<KernelChoice>, CodegenError> {
        let list = || {
            let choice = CompilationChoice::of(kernel)?;
            let plan = plan(kernel, caps, options, &choice)?;
            let is_program = || vector::assemble(kernel, options.vector, choice.target()).is_ok();
            let has_programs = || plan.is_some() || is_program();
            Ok(choice.alternatives(kernel, plan.as_deref(), &cpu(caps, options), has_programs))
        };
        workers()?.install(|| guarded(&kernel.abi().name, list))
    }

    fn tuning_target(&self, caps: &Caps, options: &CraneliftOptions) -> Option<String> {
        Some(choice::tuning_target(&cpu(caps, options), options.vector))
    }

    fn describe(
        &self,
        caps: &Caps,
        kernel: &Kernel,
        options: &CraneliftOptions,
    ) -> Result<Vec<CompilationMethod>, CodegenError> {
        let methods = || {
            let choice = CompilationChoice::of(kernel)?;
            let target = choice.target();
            let Some(plan) = plan(kernel, caps, options, &choice)? else {
                return Ok(vec![method(kernel, options, target)]);
            };
            let methods = plan.flat_parts().into_iter().filter_map(|part| match part {
                FlatPart::Gemm(gemm) => {
                    let [m, n, k] = gemm.dimensions();
                    let gemm_method = CompilationMethod::new(format!("GEMM {m}x{n}x{k} by microkernels"));
                    Some(gemm_method.with_choices(gemm.choices()))
                }
                FlatPart::Alone(kernel) => Some(method(kernel, options, target)),
                FlatPart::LoopStart { .. } | FlatPart::LoopEnd(_) => None,
            });
            Ok(methods.collect())
        };
        workers()?.install(|| guarded(&kernel.abi().name, methods))
    }

    fn store(&self, artifact: &Artifact) -> Option<Vec<u8>> {
        store::store(artifact)
    }

    #[allow(unsafe_code, reason = "the caller vouches for stored code")]
    unsafe fn restore(
        &self,
        caps: &Caps,
        options: &CraneliftOptions,
        stored: &[u8],
        kernels: Vec<KernelAbi>,
    ) -> Option<Artifact> {
        // SAFETY: the caller's promise. Plans are for this CPU, because the tuning target has all that they
        // depend on.
        unsafe { store::restore(stored, kernels, &cpu(caps, options)) }
    }

    fn listing(
        &self,
        caps: &Caps,
        kernel: &Kernel,
        options: &Self::Options,
    ) -> Result<Listing, CodegenError> {
        let choice = CompilationChoice::of(kernel)?;
        let plan =
            workers()?.install(|| guarded(&kernel.abi().name, || plan(kernel, caps, options, &choice)))?;
        let target = choice.target();
        let Some(plan) = plan else { return listing_for(kernel, options, target) };
        let mut all = Listing::default();
        for part in plan.flat_parts() {
            let (heading, one) = part_listing(part, options, target)?;
            all.source += &format!("; {heading}\n{}", one.source);
            all.machine_code += &format!("; {heading}\n{}", one.machine_code);
        }
        Ok(all)
    }
}

/// The heading of a composite's part, and its code if it is compiled like any other kernel.
fn part_listing(
    part: FlatPart<'_>,
    options: &CraneliftOptions,
    target: Target,
) -> Result<(String, Listing), CodegenError> {
    let heading = match part {
        FlatPart::Alone(kernel) => {
            return Ok(("statements".into(), listing_for(kernel, options, target)?));
        }
        FlatPart::Gemm(gemm) => {
            let [m, n, k] = gemm.dimensions();
            format!("GEMM {m}x{n}x{k}, and for each row\n{}", gemm.epilogue())
        }
        FlatPart::LoopStart { symbol, end, is_parallel } => {
            let kind = if is_parallel { "parallel" } else { "serial" };
            let most = if end.is_constant() { "" } else { "at most " };
            format!("for {symbol} in 0..{most}{} {kind}:", end.limit)
        }
        FlatPart::LoopEnd(symbol) => format!("end of {symbol}"),
    };
    Ok((heading, Listing::default()))
}

/// The thread pool that compiles. It has as many threads as the CPU runs at once, with stacks that are large
/// enough for the deepest loops and expressions that the limits allow. A process that `fork` made has none of
/// the threads, so it starts others.
pub(crate) fn workers() -> Result<&'static ThreadPool, CodegenError> {
    static WORKERS: Mutex<Option<(u32, &ThreadPool)>> = Mutex::new(None);
    let mut workers = WORKERS.lock().unwrap_or_else(PoisonError::into_inner);
    let process = process::id();
    if let Some((_, pool)) = workers.filter(|(started_by, _)| *started_by == process) {
        return Ok(pool);
    }
    let named = |i| format!("compile-{i}");
    let pool = ThreadPoolBuilder::new().stack_size(STACK_BYTES).thread_name(named).build();
    let pool = Box::leak(Box::new(pool.map_err(|e| failed("", "starting threads", e.to_string()))?));
    Ok(workers.insert((process, pool)).1)
}

const STACK_BYTES: usize = 32 << 20;

/// The compiler of a kernel without contractions.
pub(crate) enum KernelCompiler {
    /// `vector-asm`, with the compiled program.
    Vector(vector::Assembled),
    /// Cranelift, with the reason why there is no vector program.
    Cranelift(vector::BailoutReason),
}

impl KernelCompiler {
    /// Chooses the first compiler that supports the kernel.
    pub(crate) fn of(kernel: &Kernel, width: VectorWidth, target: Target) -> KernelCompiler {
        match vector::assemble(kernel, width, target) {
            Ok(assembled) => KernelCompiler::Vector(assembled),
            Err(reason) => KernelCompiler::Cranelift(reason),
        }
    }
}

/// Compiles a kernel. The returned ABI has the scratch memory and the launch of the code.
pub(crate) fn compile(
    kernel: &Kernel,
    caps: &Caps,
    isa: &Arc<dyn TargetIsa>,
    options: &CraneliftOptions,
) -> Result<(Compiled, KernelAbi), CodegenError> {
    let choice = CompilationChoice::of(kernel)?;
    let target = choice.target();
    let Some(plan) = plan(kernel, caps, options, &choice)? else {
        return compile_alone(kernel, isa, options, target);
    };
    tracing::debug!(kernel = kernel.abi().name, way = "contractions", "compiled");
    let part = &mut |part: &Kernel| compile_alone(part, isa, options, target);
    composite::compose(kernel, &plan, caps.threads, vector::target().alignment, part)
}

/// The plan of a kernel that is compiled as a composite; `None` for any other kernel.
fn plan(
    kernel: &Kernel,
    caps: &Caps,
    options: &CraneliftOptions,
    choice: &CompilationChoice,
) -> Result<Option<Arc<CompositePlan>>, CodegenError> {
    if caps.contractions.is_empty() {
        choice.check_gemms(kernel, 0)?;
        return Ok(None);
    }
    composite::plan(kernel, &cpu(caps, options), choice.target(), choice)
}

/// Describes how a kernel is compiled that is not a composite.
fn method(kernel: &Kernel, options: &CraneliftOptions, target: Target) -> CompilationMethod {
    match KernelCompiler::of(kernel, options.vector, target) {
        KernelCompiler::Vector(assembled) => {
            let lanes = assembled.program.values.iter().map(|value| value.lanes).max().unwrap_or(1);
            let unit = if lanes == 1 { "lane" } else { "lanes" };
            CompilationMethod::new("a vector program").with_choices(format!("{lanes} {unit}"))
        }
        KernelCompiler::Cranelift(reason) => {
            CompilationMethod::new("Cranelift's code").not_vectorized(reason.to_string())
        }
    }
}

/// The CPU that GEMM plans are made for.
fn cpu(caps: &Caps, options: &CraneliftOptions) -> CpuTarget {
    let (isa, masked_isa) = (options.vector.isa(), options.vector.masked_isa());
    CpuTarget { isa, masked_isa, threads: caps.threads, ..caps::cpu() }
}

/// Compiles a kernel as a whole, by the first compiler that supports it.
fn compile_alone(
    kernel: &Kernel,
    isa: &Arc<dyn TargetIsa>,
    options: &CraneliftOptions,
    target: Target,
) -> Result<(Compiled, KernelAbi), CodegenError> {
    if adds_products(&kernel.ir().body) {
        // A contraction that the scheduler left whole for a GEMM plan, but that has no plan, may have
        // operands of types that only plans convert.
        crate::support::check(kernel, DTypeSet::EMPTY)?;
    }
    let name = &kernel.abi().name;
    let (code, scratch_bytes) = match KernelCompiler::of(kernel, options.vector, target) {
        KernelCompiler::Vector(assembled) => {
            tracing::debug!(kernel = name, way = "vector", "compiled");
            (Compiled::Program(assembled.code), assembled.scratch_bytes)
        }
        KernelCompiler::Cranelift(reason) => {
            tracing::debug!(kernel = name, way = "cranelift", %reason, "compiled");
            let emitted = by_cranelift(kernel, isa, options);
            let isa = &suited(isa, &emitted.func, options)?;
            let code = CraneliftCode::compile(emitted.func, &**isa).map_err(|e| codegen_error(name, &e))?;
            (Compiled::Function(code), emitted.scratch_bytes)
        }
    };
    Ok((code, KernelAbi { scratch_bytes, ..kernel.abi().clone() }))
}

/// The number of instructions from which on registers are allocated in a single pass. The other algorithm,
/// which spills less, takes time beyond proportion for long straight-line code.
pub(crate) const LARGE_FUNCTION: usize = 1 << 14;

/// The target for a function: the given one, unless the function is large.
fn suited(
    isa: &Arc<dyn TargetIsa>,
    func: &Function,
    options: &CraneliftOptions,
) -> Result<Arc<dyn TargetIsa>, CodegenError> {
    match func.dfg.num_insts() < LARGE_FUNCTION {
        true => Ok(Arc::clone(isa)),
        false => target_with(options, "single_pass").map_err(|message| failed("", "target set-up", message)),
    }
}

fn by_cranelift(kernel: &Kernel, isa: &Arc<dyn TargetIsa>, options: &CraneliftOptions) -> Emitted {
    let vectors = options.vector > VectorWidth::None && caps::has_vectors();
    emit::emit(kernel, &**isa, vectors)
}

/// Lists the code that [`CraneliftCompiler`] generates for a kernel. For a vector program, the listing has
/// the program and its machine instructions. For any other kernel, it has the reason why there is no vector
/// program, the CLIF function, and Cranelift's machine instructions.
///
/// # Errors
///
/// The errors of rendering and compiling the kernel.
pub fn listing(kernel: &Kernel, options: &CraneliftOptions) -> Result<Listing, CodegenError> {
    listing_for(kernel, options, CompilationChoice::of(kernel)?.target())
}

fn listing_for(kernel: &Kernel, options: &CraneliftOptions, target: Target) -> Result<Listing, CodegenError> {
    crate::support::check(kernel, DTypeSet::EMPTY)?;
    let isa = isa(options)?;
    let name = &kernel.abi().name;
    let of_way = || match KernelCompiler::of(kernel, options.vector, target) {
        KernelCompiler::Vector(assembled) => Ok(Listing {
            source: assembled.program.to_string(),
            machine_code: disassemble::text(&assembled.code, options.vector.isa()),
        }),
        KernelCompiler::Cranelift(reason) => {
            let func = by_cranelift(kernel, &isa, options).func;
            let source = format!("; no vector program: {reason}\n{}", func.display());
            let machine_code =
                disassemble::cranelift(func, &*isa).map_err(|e| failed(name, "code generation", e))?;
            Ok(Listing { source, machine_code })
        }
    };
    workers()?.install(|| guarded(name, of_way))
}

/// The target of Cranelift: this CPU with its features.
pub(crate) fn isa(options: &CraneliftOptions) -> Result<OwnedTargetIsa, CodegenError> {
    target(options).map_err(|message| failed("", "target set-up", message))
}

fn target(options: &CraneliftOptions) -> Result<OwnedTargetIsa, String> {
    target_with(options, "backtracking")
}

fn target_with(options: &CraneliftOptions, allocator: &str) -> Result<OwnedTargetIsa, String> {
    // Functions that kernels call may be anywhere in the address space.
    let flags = flags(options, allocator, false)?;
    let isa = cranelift_native::builder().map_err(str::to_owned)?;
    isa.finish(flags).map_err(|e| e.to_string())
}

/// The flags of code for this process, or for a linker, which places the functions that kernels call nearby.
pub(crate) fn flags(options: &CraneliftOptions, allocator: &str, is_linked: bool) -> Result<Flags, String> {
    let mut flags = settings::builder();
    let truth = |on: bool| if on { "true" } else { "false" };
    for (name, value) in [
        ("opt_level", if options.optimize { "speed" } else { "none" }),
        ("regalloc_algorithm", allocator),
        ("enable_verifier", truth(options.verify)),
        ("preserve_frame_pointers", truth(options.frame_pointers)),
        ("use_colocated_libcalls", truth(is_linked)),
        // Neither goes through a table of addresses.
        ("is_pic", "false"),
        // Kernels do not unwind.
        ("unwind_info", "false"),
    ] {
        flags.set(name, value).map_err(|e| format!("{name}={value}: {e}"))?;
    }
    Ok(Flags::new(flags))
}

/// Runs `f` and converts a panic, which is a bug here or in Cranelift, to an error.
pub(crate) fn guarded<T>(
    kernel: &str,
    f: impl FnOnce() -> Result<T, CodegenError>,
) -> Result<T, CodegenError> {
    // A panic cannot expose broken state: what `f` changes is visible to others only after `f` has returned.
    catch_unwind(AssertUnwindSafe(f)).unwrap_or_else(|panic| {
        Err(failed(kernel, "code generation", format!("panic: {}", panic_message(panic))))
    })
}

/// Converts an error of Cranelift to the codegen's.
pub(crate) fn codegen_error(kernel: &str, error: &CraneliftError) -> CodegenError {
    use cranelift_codegen::CodegenError::{CodeTooLarge, ImplLimitExceeded};
    match error {
        CraneliftError::Codegen(CodeTooLarge | ImplLimitExceeded) => CodegenError::Unsupported {
            codegen: NAME.into(),
            kernel: kernel.into(),
            op: "a kernel of this size".into(),
            why: format!("{error}; less unrolling would make it smaller"),
        },
        _ => failed(kernel, "code generation", error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use codegen_core::host::HostPtr;
    use codegen_core::{Access, Cost, Launch, Param};

    use super::*;

    fn kernel(text: &str) -> Kernel {
        let ir = lowered_ir::text::parse(text).expect("the text is valid");
        let node = |node: &lowered_ir::ir::NodeDecl| Param::Node {
            access: Access::ReadWrite,
            bytes: node.size_bytes().expect("a small node"),
        };
        let abi = KernelAbi {
            name: "test.k0".into(),
            params: ir.nodes.iter().map(node).collect(),
            launch: Launch { extent: 1, grain: 1, threads: 1, end: None },
            scratch_bytes: 0,
            log: [].into(),
            cost: Cost::default(),
        };
        Kernel::verified(ir, abi).expect("a valid kernel")
    }

    #[test]
    fn panics_become_errors_that_name_the_kernel() {
        let error = guarded::<()>("step.k3", || panic!("no such register")).expect_err("it panics");
        let message = error.to_string();
        assert!(message.contains("step.k3") && message.contains("no such register"), "{message}");
    }

    /// Without instructions that round and fuse, Cranelift calls functions. All of them are resolved.
    #[test]
    fn machines_without_rounding_instructions_call_functions() {
        let kernel = kernel(
            "routine @old {
              node %0 \"x\" f32[4]
              node %1 \"y\" f64[4]
              %0[0] := fma(%0[0], %0[0], %0[1])
              %0[1] := floor(%0[1])
              %0[2] := trunc(%0[2])
              %0[3] := round_even(%0[3])
              %1[0] := fma(%1[0], %1[0], %1[1])
              %1[1] := floor(%1[1])
              %1[2] := trunc(%1[2])
              %1[3] := round_even(%1[3])
            }",
        );
        let mut flags = settings::builder();
        flags.set("use_colocated_libcalls", "false").expect("a flag");
        let native = cranelift_native::builder().expect("this machine is supported");
        let oldest =
            cranelift_codegen::isa::lookup(native.triple().clone()).expect("this machine is supported");
        let isa = oldest.finish(Flags::new(flags)).expect("the flags fit");
        let func = emit::emit(&kernel, &*isa, false).func;
        let code = Compiled::Function(CraneliftCode::compile(func, &*isa).expect("a supported kernel"));
        let module = jit::host_module(vec![(code, kernel.abi().clone())]).expect("memory for code");
        let (mut x, mut y) = ([1.5f32, -1.5, -1.5, 2.5], [1.5f64, -1.5, -1.5, 2.5]);
        let access = Access::ReadWrite;
        let args = [
            HostPtr { base: x.as_mut_ptr().cast(), bytes: 16, access },
            HostPtr { base: y.as_mut_ptr().cast(), bytes: 32, access },
        ];
        jit::tests::call(&module, &args);
        assert_eq!(x, [0.75, -2.0, -1.0, 2.0]);
        assert_eq!(y, [0.75, -2.0, -1.0, 2.0]);
    }
}
