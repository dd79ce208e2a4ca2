//! Translates a kernel's loop IR to a CLIF function with the signature of
//! [`HostFn`](codegen_core::host::HostFn).
//!
//! The emitter walks the statements once. It replicates unrolled loops and the lanes of vector loops; other
//! loops become a loop of one basic block each, or of several if there are calls. Guards become selections;
//! the only other branches skip calls that are rarely needed. [`ssa`] decides where each operation is placed
//! (sharing, hoisting), so the code here just asks for the values that it needs.

mod address;
mod convert;
mod dynamic;
mod expr;
mod fma;
mod locals;
mod log;
pub(crate) mod memory;
mod ops;
mod repr;
pub(crate) mod scan;
pub(crate) mod ssa;
mod stmt;

use std::collections::{BTreeSet, HashMap};

use codegen_core::Kernel;
use codegen_core::emit::{LineNumbers, LinearValue};
use cranelift_codegen::ir::{
    AbiParam, ExtFuncData, ExternalName, FuncRef, Function, Signature, UserExternalName, UserFuncName, Value,
    types,
};
use cranelift_codegen::isa::{CallConv, TargetIsa};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use lowered_ir::ir::{LocalId, Locals, LoopId, LoweredRoutine};

use crate::runtime_functions::RuntimeFunction;
use locals::Local;
use memory::Loads;
use ssa::Ssa;

/// A CLIF function with the scratch memory that it uses.
pub(crate) struct Emitted {
    pub(crate) func: Function,
    pub(crate) scratch_bytes: usize,
}

/// Emits the function of a kernel that [`crate::support`] accepts. `vectors` allows vector instructions.
pub(crate) fn emit(kernel: &Kernel, isa: &dyn TargetIsa, vectors: bool) -> Emitted {
    let target = isa.frontend_config();
    let call_conv = target.default_call_conv;
    let mut func = Function::with_name_signature(UserFuncName::user(0, 0), signature(call_conv));
    let mut context = FunctionBuilderContext::new();
    let (ssa, params) = Ssa::new(FunctionBuilder::new(&mut func, &mut context));
    let routine = kernel.ir();
    let mut emitter = Emitter {
        ssa,
        routine,
        locals: routine.locals(),
        grouped: if vectors { scan::lane_indexed(&routine.body) } else { BTreeSet::new() },
        read_only: scan::read_only(routine),
        args: params[0],
        bindings: params[1],
        scratch: params[2],
        scratch_top: 0,
        scratch_bytes: 0,
        vars: HashMap::new(),
        declared: HashMap::new(),
        loads: Loads::default(),
        lane: None,
        vectors,
        has_fma: has_fma(isa),
        call_conv,
        runtime_functions: HashMap::new(),
        line_numbers: LineNumbers::new(&routine.body),
    };
    emitter.kernel(params[3], params[4]);
    let scratch_bytes = emitter.scratch_bytes;
    emitter.ssa.finish(target);
    Emitted { func, scratch_bytes }
}

/// Whether a fused multiply-add is an instruction. Only x86-64 has processors without it.
fn has_fma(isa: &dyn TargetIsa) -> bool {
    let flags = isa.isa_flags();
    flags.iter().find(|flag| flag.name == "has_fma").and_then(|flag| flag.as_bool()).unwrap_or(true)
}

/// The signature of [`codegen_core::host::HostFn`].
pub(crate) fn signature(call_conv: CallConv) -> Signature {
    let mut signature = Signature::new(call_conv);
    signature.params.extend([AbiParam::new(types::I64); 5]);
    signature
}

pub(crate) fn runtime_function_signature(function: RuntimeFunction, call_conv: CallConv) -> Signature {
    let mut signature = Signature::new(call_conv);
    signature.params.extend((0..function.arity()).map(|_| AbiParam::new(function.ty())));
    signature.returns.push(AbiParam::new(function.ty()));
    signature
}

/// The state of emitting one kernel.
struct Emitter<'k> {
    ssa: Ssa<'k>,
    routine: &'k LoweredRoutine,
    locals: Locals,
    /// Register locals that are kept in groups of lanes, because a vector loop indexes them.
    grouped: BTreeSet<LocalId>,
    /// Whether each node is only read.
    read_only: Vec<bool>,
    args: Value,
    bindings: Value,
    scratch: Value,
    scratch_top: usize,
    scratch_bytes: usize,
    /// Loop variables in scope.
    vars: HashMap<LoopId, LinearValue<Value>>,
    /// Locals in scope.
    declared: HashMap<LocalId, Local>,
    loads: Loads,
    /// The vector loop whose lanes are computed together.
    lane: Option<LoopId>,
    vectors: bool,
    /// Whether the processor has a fused multiply-add.
    has_fma: bool,
    call_conv: CallConv,
    runtime_functions: HashMap<u32, FuncRef>,
    /// The line number of each statement that logs, by its address in the routine.
    line_numbers: LineNumbers,
}

impl Emitter<'_> {
    /// Calls a function of this program.
    fn call(&mut self, function: RuntimeFunction, args: &[Value]) -> Value {
        let callee = self.callee(function);
        self.ssa.call(callee, args)
    }

    fn callee(&mut self, function: RuntimeFunction) -> FuncRef {
        let number = function.number();
        match self.runtime_functions.get(&number) {
            Some(&callee) => callee,
            None => self.import(function, number),
        }
    }

    /// CLIF refers to functions by their numbers; [`crate::relocate`] resolves them.
    fn import(&mut self, function: RuntimeFunction, number: u32) -> FuncRef {
        let func = &mut self.ssa.builder.func;
        let name = func.declare_imported_user_function(UserExternalName::new(0, number));
        let signature = func.import_signature(runtime_function_signature(function, self.call_conv));
        let callee = func.import_function(ExtFuncData {
            name: ExternalName::user(name),
            signature,
            colocated: false,
            patchable: false,
        });
        self.runtime_functions.insert(number, callee);
        callee
    }
}
