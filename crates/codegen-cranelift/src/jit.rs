//! Machine code in memory: loading, calling conventions, freeing. Unsafe code stands here and in [`crate::contract::run`].
//!
//! Invariants it relies on and keeps:
//!
//! * The functions loaded are those of [`crate::emit`], whose signature is [`HostFn`]'s, and vector programs, which have it too.
//! * Code is dropped only when nobody can call its code any more: [`host_module`] hands it to the
//!   [`HostModule`] as the owner of the functions, which lives as long as any clone of it.
#![allow(unsafe_code, reason = "machine code is turned into function pointers and freed here")]

use std::mem::{ManuallyDrop, transmute};
use std::sync::{Arc, Mutex};

use codegen_core::host::{HostFn, HostModule, NativeCode};
use codegen_core::{CodegenError, KernelAbi};
use cranelift_codegen::Context;
use cranelift_codegen::control::ControlPlane;
use cranelift_codegen::ir::Function;
use cranelift_codegen::isa::TargetIsa;
use cranelift_jit::{JITBuilder, JITModule};
use cranelift_module::{FuncId, Linkage, Module as _, ModuleError, default_libcall_names};

use vector_asm::{Code, ExecutableCode};

use crate::contract::run::Composite;
use crate::emit;
use crate::helpers::{self, Helper};
use crate::perf_map;

/// The code of one kernel; dropping it unmaps the code.
pub(crate) struct Module {
    module: ManuallyDrop<JITModule>,
    function: FuncId,
    code_bytes: usize,
}

/// Loads a function written by [`crate::emit`].
pub(crate) fn load(name: &str, func: Function, isa: Arc<dyn TargetIsa>) -> Result<Module, Box<ModuleError>> {
    let mut builder = JITBuilder::with_isa(isa, default_libcall_names());
    builder.symbols(helpers::symbols());
    let mut loaded = Module {
        module: ManuallyDrop::new(JITModule::new(builder)),
        function: FuncId::from_u32(0),
        code_bytes: 0,
    };
    let module = &mut *loaded.module;
    let call_conv = module.isa().default_call_conv();
    for helper in Helper::ALL {
        let signature = emit::helper_signature(helper, call_conv);
        let id = module.declare_function(helper.name(), Linkage::Import, &signature)?;
        debug_assert_eq!(id.as_u32(), helper_id(helper), "helpers are declared first and in order");
    }
    loaded.function = module.declare_function(&format!("kernel {name}"), Linkage::Export, &func.signature)?;
    let mut context = Context::for_function(func);
    module.define_function(loaded.function, &mut context)?;
    loaded.code_bytes = context.compiled_code().map_or(0, |code| code.code_buffer().len());
    module.finalize_definitions()?;
    Ok(loaded)
}

/// The number by which functions refer to a helper: its position, since every module declares the helpers first.
pub(crate) fn helper_id(helper: Helper) -> u32 {
    helper as u32
}

/// The machine instructions of a function, as text.
pub(crate) fn disassemble(func: Function, isa: &dyn TargetIsa) -> Result<String, String> {
    let mut context = Context::for_function(func);
    context.set_disasm(true);
    let code = context.compile(isa, &mut ControlPlane::default()).map_err(|e| e.inner.to_string())?;
    Ok(code.vcode.clone().unwrap_or_default())
}

impl Module {
    /// The length of the kernel's code and constants.
    pub(crate) fn code_bytes(&self) -> usize {
        self.code_bytes
    }

    fn function(&self) -> HostFn {
        let code: *const u8 = self.module.get_finalized_function(self.function);
        // SAFETY: the code is a finalized function with `emit::signature` in the platform's C calling convention, which is
        // `HostFn`: five pointer-sized arguments, no result. It stays mapped for as long as `self` lives.
        unsafe { transmute::<*const u8, HostFn>(code) }
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        // SAFETY: taken once, in drop, and not used after.
        let module = unsafe { ManuallyDrop::take(&mut self.module) };
        // SAFETY: function pointers leave this module only through `host_module`, which makes the modules the owner of the
        // functions; whoever calls one holds a clone of that `HostModule`, so no call is running and none will follow.
        unsafe { module.free_memory() };
    }
}

/// A compiled kernel.
pub(crate) enum Compiled {
    /// By Cranelift, in memory.
    Module(Box<Module>),
    /// A vector program, to be loaded.
    Program(Code),
    /// Steps, and the code that they call.
    Steps(Box<Composite>, Vec<Compiled>),
}

/// What keeps the code of kernels mapped.
struct Owner {
    _modules: Mutex<Vec<Module>>,
    _programs: ExecutableCode,
}

/// The kernels, called as `kernels` say, in order; callable for as long as any clone of the result lives.
pub(crate) fn host_module(code: Vec<Compiled>, kernels: &[KernelAbi]) -> Result<HostModule, CodegenError> {
    let mut loader = Loader { programs: load_programs(&code, kernels)?, loaded: 0, modules: Vec::new() };
    let mut native: Vec<NativeCode> = Vec::with_capacity(code.len());
    for compiled in code {
        let name = kernels.get(native.len()).map_or("", |abi| &abi.name);
        native.push(loader.native(compiled, name));
    }
    // `JITModule` may move between threads but not be shared; nobody but `drop` looks inside any more.
    let owner = Arc::new(Owner { _modules: Mutex::new(loader.modules), _programs: loader.programs });
    // Vector programs access what the statements they are made of access, and call nothing. Steps do what the parts they were made of do, in the same
    // order. `owner` keeps all functions mapped.
    // SAFETY: the kernels were verified, so they access elements proved in bounds, or checked, of their parameters and their scratch, write
    // what their statements write, and do not trap; they call only `helpers` and the log, which do not unwind, and those that
    // log are told to the module in the same expression. The rest is said above.
    Ok(unsafe { HostModule::native(native, owner) }.with_log_lines(kernels))
}

/// Turns compiled code into functions.
struct Loader {
    programs: ExecutableCode,
    /// How many of the programs have been asked for.
    loaded: usize,
    modules: Vec<Module>,
}

impl Loader {
    fn native(&mut self, compiled: Compiled, name: &str) -> NativeCode {
        match compiled {
            Compiled::Program(code) => self.program(&code, name).into(),
            Compiled::Module(module) => self.module(*module, name).into(),
            Compiled::Steps(mut composite, parts) => {
                composite.parts = parts.into_iter().map(|part| self.native(part, name)).collect();
                NativeCode::Object(Arc::new(*composite))
            }
        }
    }

    /// Programs are asked for in the order in which they were loaded.
    fn program(&mut self, code: &Code, name: &str) -> HostFn {
        let function = self.programs.function(self.loaded);
        self.loaded += 1;
        perf_map::record(name, function as usize, code.instruction_bytes());
        function
    }

    fn module(&mut self, module: Module, name: &str) -> HostFn {
        let function = module.function();
        perf_map::record(name, function as usize, module.code_bytes());
        self.modules.push(module);
        function
    }
}

/// All programs in one mapping.
fn load_programs(code: &[Compiled], kernels: &[KernelAbi]) -> Result<ExecutableCode, CodegenError> {
    let mut programs = Vec::new();
    collect_programs(code, &mut programs);
    ExecutableCode::load_all(&programs).map_err(|_| CodegenError::OutOfMemory {
        kernel: kernels.first().map(|abi| abi.name.clone()).unwrap_or_default(),
        bytes: programs.iter().map(|code| code.bytes().len()).sum(),
    })
}

fn collect_programs<'c>(code: &'c [Compiled], programs: &mut Vec<&'c Code>) {
    for compiled in code {
        match compiled {
            Compiled::Program(code) => programs.push(code),
            Compiled::Module(_) => {}
            Compiled::Steps(_, parts) => collect_programs(parts, programs),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use codegen_core::host::HostPtr;

    use super::*;

    /// Calls the first kernel of a module, which has neither symbols nor scratch memory, whole.
    pub(crate) fn call(module: &HostModule, args: &[HostPtr]) {
        // SAFETY: the tests pass one live array per parameter, of the size the kernel's text states.
        unsafe { module.call(0, args, &[], std::ptr::null_mut(), 0, 1) };
    }
}
