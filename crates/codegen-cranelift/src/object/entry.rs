//! The function that runs a routine: straight-line code that calls its kernels.
//!
//! ```text
//! extern "C" fn(args: *const *mut u8, bindings: *const i64, arena: *mut u8, threads: *const Threads) -> i64
//! ```
//!
//! `args` has the address of each node that the caller gives, `bindings` the value of each parameter among
//! the symbols, and `arena` the temporaries followed by the scratch memory of kernels, all aligned to 64
//! bytes. The result is 0, or, before anything is computed, the position from 1 of the first symbol whose
//! value is out of its range, or [`MISALIGNED`]. So callers in every language have the same checks.
//!
//! `threads` is null, or the threads over which kernels are divided:
//!
//! ```text
//! struct Threads {
//!     run: extern "C" fn(context: *mut (), count: u64, task: extern "C" fn(data: *mut ()), data: *mut ()),
//!     context: *mut (),
//!     count: u64,
//!     scratch: *mut u8, // `thread_bytes` for each thread but one, aligned to 64 bytes
//! }
//! ```
//!
//! `run` calls `task(data)` on up to `count` threads, and returns when all these calls have returned.

use std::collections::BTreeSet;

use codegen_core::scheduled::{Binding, KernelCall, Slot};
use codegen_core::{BASE_ALIGNMENT, Code, CodegenError, KernelAbi, LaunchEnd, Payload};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{
    AbiParam, BlockArg, Function, GlobalValue, InstBuilder, Signature, StackSlot, StackSlotData,
    StackSlotKind, UserFuncName, Value, types,
};
use cranelift_codegen::isa::{CallConv, TargetIsa};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
#[cfg(doc)]
use lowered_ir::ir::Symbol;

use super::{
    DATA, KERNELS, ObjectFunction, ObjectModule, ObjectTarget, PARTS, affine, callee, compiled, data,
    kernel_callee, kernel_convention, parallel_call,
};
use crate::caps::ALIGNMENT;
use crate::emit::ssa::PLAIN;
use crate::options::CraneliftOptions;

/// Why a routine has no entry.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EntryError {
    /// The code was generated for this process, or for another device.
    #[error("the code is of another code generator than `object_codegen`")]
    NoObject,
    /// A kernel reads the values of another context, which exists in a process with a runtime only.
    #[error("it merges values of another context, which needs the runtime")]
    Merge,
    /// A kernel writes a log.
    #[error("it logs, which needs the runtime")]
    Log,
    /// No place was given for a node that a kernel accesses.
    #[error("no place is given for node {node}")]
    NoPlace {
        /// The number of the node in the schedule.
        node: usize,
    },
    /// The compiler failed.
    #[error(transparent)]
    Codegen(#[from] CodegenError),
}

/// The result of an entry that was given an address that is no multiple of 64.
pub const MISALIGNED: i64 = -1;

/// Where the memory of a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodePlace {
    /// The caller gives an address, at this position, and the memory is this many bytes behind it.
    Argument {
        /// The position among the addresses.
        position: usize,
        /// In bytes, a multiple of 64.
        offset: u64,
    },
    /// In the constant data of the library, at this offset in bytes.
    Data(u64),
    /// In the arena, at this offset in bytes, a multiple of 64 behind [`arena_bytes`].
    Arena(usize),
}

/// The function that runs the routine of some code of [`object_codegen`](super::object_codegen). `places` has
/// the place of each of the schedule's nodes that a call mentions.
///
/// # Errors
///
/// [`EntryError`].
pub fn entry(
    target: &ObjectTarget,
    code: &Code,
    places: &[Option<NodePlace>],
) -> Result<ObjectFunction, EntryError> {
    let Payload::Other(payload) = code.artifact().payload() else { return Err(EntryError::NoObject) };
    let module = payload.downcast_ref::<ObjectModule>().ok_or(EntryError::NoObject)?;
    if code.artifact().kernels().iter().any(|abi| !abi.log.is_empty()) {
        return Err(EntryError::Log);
    }
    let isa = target.isa(&CraneliftOptions::default(), "single_pass")?;
    let mut func = Function::with_name_signature(UserFuncName::user(0, 0), signature(&*isa));
    let mut context = FunctionBuilderContext::new();
    let mut builder = FunctionBuilder::new(&mut func, &mut context);
    let block = builder.create_block();
    builder.append_block_params_for_function_params(block);
    builder.switch_to_block(block);
    let [args, bindings, arena, threads] = [0, 1, 2, 3].map(|at| builder.block_params(block)[at]);
    let slots = [most(code, |call| call.args.len()), most(code, |call| call.bindings.len())];
    let [args_slot, bindings_slot] = slots.map(|length| {
        builder.create_sized_stack_slot(StackSlotData::new(StackSlotKind::ExplicitSlot, 8 * length, 3))
    });
    let (record, dividers) = (None, Vec::new());
    let mut writer = EntryWriter {
        builder,
        isa: &*isa,
        code,
        module,
        args,
        arena,
        threads,
        args_slot,
        bindings_slot,
        record,
        dividers,
    };
    writer.check_alignment(places);
    let symbols = writer.symbols(bindings);
    let data = data(writer.builder.func, DATA, 0);
    code.schedule().calls().iter().try_for_each(|call| writer.call(call, &symbols, places, data))?;
    let done = writer.builder.ins().iconst(types::I64, 0);
    writer.builder.ins().return_(&[done]);
    let EntryWriter { mut builder, dividers, .. } = writer;
    builder.seal_all_blocks();
    builder.finalize(isa.frontend_config());
    let parts = dividers.into_iter().map(|(_, divider)| divider).collect();
    Ok(ObjectFunction { parts, ..compiled(func, &*isa, code.schedule().name())? })
}

/// The bytes of scratch memory that each thread but the first needs, a multiple of 64.
pub fn thread_bytes(code: &Code) -> usize {
    let divided = code.artifact().kernels().iter().filter(|abi| is_divisible(abi));
    divided.map(|abi| abi.scratch_bytes).max().unwrap_or(0).next_multiple_of(ALIGNMENT)
}

/// Whether a kernel has work for two threads.
fn is_divisible(abi: &KernelAbi) -> bool {
    abi.launch.extent / abi.launch.grain.max(1) > 1
}

/// Parts of a kernel for each thread, so that threads of unequal speed finish together.
const PARTS_PER_THREAD: i64 = 4;

/// The bytes of an arena: the temporaries of a routine, and the scratch memory of its kernels behind them.
pub fn arena_bytes(code: &Code) -> usize {
    let scratch = code.artifact().kernels().iter().map(|abi| abi.scratch_bytes).max().unwrap_or(0);
    scratch_offset(code) + scratch
}

fn scratch_offset(code: &Code) -> usize {
    code.schedule().temp_bytes().next_multiple_of(ALIGNMENT)
}

/// The most entries of a list in any call, and at least one.
fn most(code: &Code, length: impl Fn(&KernelCall) -> usize) -> u32 {
    code.schedule().calls().iter().map(length).max().unwrap_or(0).max(1) as u32
}

fn signature(isa: &dyn TargetIsa) -> Signature {
    let mut signature = Signature::new(isa.default_call_conv());
    signature.params.extend([AbiParam::new(types::I64); 4]);
    signature.returns.push(AbiParam::new(types::I64));
    signature
}

struct EntryWriter<'a> {
    builder: FunctionBuilder<'a>,
    isa: &'a dyn TargetIsa,
    code: &'a Code,
    module: &'a ObjectModule,
    args: Value,
    arena: Value,
    threads: Value,
    args_slot: StackSlot,
    bindings_slot: StackSlot,
    /// The record of a call that is divided.
    record: Option<StackSlot>,
    /// The functions that divide calls of kernels, by the calling convention of the kernels.
    dividers: Vec<(CallConv, ObjectFunction)>,
}

impl EntryWriter<'_> {
    /// Returns [`MISALIGNED`] if the arena, an argument or the scratch memory of threads is.
    fn check_alignment(&mut self, places: &[Option<NodePlace>]) {
        let arguments: BTreeSet<usize> = places
            .iter()
            .flatten()
            .filter_map(|place| match place {
                NodePlace::Argument { position, .. } => Some(*position),
                NodePlace::Data(_) | NodePlace::Arena(_) => None,
            })
            .collect();
        let mut all = self.arena;
        for at in arguments {
            let address = self.builder.ins().load(types::I64, PLAIN, self.args, 8 * at as i32);
            all = self.builder.ins().bor(all, address);
        }
        if thread_bytes(self.code) > 0 {
            let scratch = self.scratch_of_threads();
            all = self.builder.ins().bor(all, scratch);
        }
        let low = self.builder.ins().band_imm_s(all, BASE_ALIGNMENT as i64 - 1);
        self.return_if(low, MISALIGNED);
    }

    /// The address of the scratch memory of threads, or 0 if there are none.
    fn scratch_of_threads(&mut self) -> Value {
        let [given, next] = [0; 2].map(|_| self.builder.create_block());
        let scratch = self.builder.append_block_param(next, types::I64);
        let none = BlockArg::Value(self.threads);
        self.builder.ins().brif(self.threads, given, &[], next, &[none]);
        self.builder.switch_to_block(given);
        let found = self.builder.ins().load(types::I64, PLAIN, self.threads, parallel_call::THREAD_SCRATCH);
        self.builder.ins().jump(next, &[BlockArg::Value(found)]);
        self.builder.switch_to_block(next);
        scratch
    }

    /// Returns a constant unless a condition is 0.
    fn return_if(&mut self, condition: Value, result: i64) {
        let [fault, next] = [self.builder.create_block(), self.builder.create_block()];
        self.builder.ins().brif(condition, fault, &[], next, &[]);
        self.builder.switch_to_block(fault);
        let result = self.builder.ins().iconst(types::I64, result);
        self.builder.ins().return_(&[result]);
        self.builder.switch_to_block(next);
    }

    /// Loads the values of parameters, and computes those of the other symbols. As
    /// [`Symbol::values`] and [`Symbol::outside`] have it, parameters and sizes of axes must be in their
    /// ranges, and other values are clamped.
    fn symbols(&mut self, bindings: Value) -> Vec<Value> {
        let mut values: Vec<Value> = Vec::new();
        for (at, symbol) in self.code.schedule().symbols().iter().enumerate() {
            let (least, greatest) = symbol.interval();
            let value = match &symbol.quotient {
                None => self.builder.ins().load(types::I64, PLAIN, bindings, 8 * at as i32),
                Some(quotient) => {
                    let dividend = affine(&mut self.builder, &quotient.dividend, |_, symbol| {
                        values.get(symbol.index()).copied()
                    });
                    self.floored_quotient(dividend, quotient.divisor.max(1))
                }
            };
            let [low, high] =
                [least, greatest.max(least)].map(|bound| self.builder.ins().iconst(types::I64, bound));
            let clamped = self.builder.ins().smax(value, low);
            let clamped = self.builder.ins().smin(clamped, high);
            if symbol.quotient.is_none() || symbol.least > 0 {
                let is_outside = self.builder.ins().icmp(IntCC::NotEqual, clamped, value);
                self.return_if(is_outside, at as i64 + 1);
            }
            values.push(clamped);
        }
        values
    }

    /// `dividend / divisor` for a positive divisor, rounded down.
    fn floored_quotient(&mut self, dividend: Value, divisor: i64) -> Value {
        let divisor = self.builder.ins().iconst(types::I64, divisor);
        let quotient = self.builder.ins().sdiv(dividend, divisor);
        let back = self.builder.ins().imul(quotient, divisor);
        let is_above = self.builder.ins().icmp(IntCC::SignedGreaterThan, back, dividend);
        let is_above = self.builder.ins().uextend(types::I64, is_above);
        self.builder.ins().isub(quotient, is_above)
    }

    /// Calls a kernel over the whole range of its launch.
    fn call(
        &mut self,
        call: &KernelCall,
        symbols: &[Value],
        places: &[Option<NodePlace>],
        data: GlobalValue,
    ) -> Result<(), EntryError> {
        for (at, slot) in call.args.iter().enumerate() {
            let address = self.address(*slot, places, data)?;
            self.builder.ins().stack_store(types::I64, address, self.args_slot, 8 * at as i32);
        }
        let bindings: Vec<Value> =
            call.bindings.iter().map(|binding| self.binding(*binding, symbols)).collect();
        for (at, &value) in bindings.iter().enumerate() {
            self.builder.ins().stack_store(types::I64, value, self.bindings_slot, 8 * at as i32);
        }
        let args = self.builder.ins().stack_addr(types::I64, self.args_slot, 0);
        let bound = self.builder.ins().stack_addr(types::I64, self.bindings_slot, 0);
        let scratch = self.in_arena(scratch_offset(self.code));
        let abi = &self.code.artifact().kernels()[call.kernel];
        let end = self.end(abi, &bindings);
        let kernel = &self.module.kernels[call.kernel];
        let callee = kernel_callee(self.builder.func, self.isa, (KERNELS, call.kernel), kernel);
        if is_divisible(abi) {
            let function = self.builder.ins().func_addr(types::I64, callee);
            return self.divide(abi, kernel, [function, args, bound, scratch, end]);
        }
        let begin = self.builder.ins().iconst(types::I64, 0);
        self.builder.ins().call(callee, &[args, bound, scratch, begin, end]);
        Ok(())
    }

    /// Calls the kernel at an address with these arguments up to `end`, on the caller's threads.
    fn divide(
        &mut self,
        abi: &KernelAbi,
        kernel: &ObjectFunction,
        [function, args, bindings, scratch, end]: [Value; 5],
    ) -> Result<(), EntryError> {
        // Each part of a product packs operands for itself, and so may code whose end a call gives.
        let is_prepared = !kernel.products.is_empty() || abi.launch.end.is_some();
        let per_thread = if is_prepared { 1 } else { PARTS_PER_THREAD };
        let [stride, grain, per_thread] =
            [thread_bytes(self.code) as i64, abi.launch.grain.max(1) as i64, per_thread]
                .map(|value| self.builder.ins().iconst(types::I64, value));
        let slot = *self.record.get_or_insert_with(|| {
            let bytes = parallel_call::RECORD_BYTES;
            self.builder.create_sized_stack_slot(StackSlotData::new(StackSlotKind::ExplicitSlot, bytes, 3))
        });
        for (offset, value) in [
            (parallel_call::KERNEL, function),
            (parallel_call::ARGS, args),
            (parallel_call::BINDINGS, bindings),
            (parallel_call::SCRATCH, scratch),
            (parallel_call::SCRATCH_STRIDE, stride),
            (parallel_call::END, end),
            (parallel_call::GRAIN, grain),
            (parallel_call::PARTS_PER_THREAD, per_thread),
            (parallel_call::THREADS, self.threads),
        ] {
            self.builder.ins().stack_store(types::I64, value, slot, offset);
        }
        let divider = self.divider(kernel_convention(self.isa, kernel))?;
        let signature = parallel_call::signature(self.isa);
        let divider = callee(self.builder.func, PARTS, divider, signature);
        let record = self.builder.ins().stack_addr(types::I64, slot, 0);
        self.builder.ins().call(divider, &[record]);
        Ok(())
    }

    /// The position of the function that divides calls of kernels with this calling convention.
    fn divider(&mut self, convention: CallConv) -> Result<usize, EntryError> {
        if let Some(at) = self.dividers.iter().position(|(other, _)| *other == convention) {
            return Ok(at);
        }
        self.dividers.push((convention, parallel_call::divider(self.isa, convention)?));
        Ok(self.dividers.len() - 1)
    }

    fn address(
        &mut self,
        slot: Slot,
        places: &[Option<NodePlace>],
        data: GlobalValue,
    ) -> Result<Value, EntryError> {
        Ok(match slot {
            Slot::Merge(_) => return Err(EntryError::Merge),
            Slot::Temp(temp) => self.in_arena(self.code.schedule().temps()[temp.0 as usize].offset),
            Slot::Node(node) => match places.get(node.index()).copied().flatten() {
                None => return Err(EntryError::NoPlace { node: node.index() }),
                Some(NodePlace::Argument { position, offset }) => {
                    let base = self.builder.ins().load(types::I64, PLAIN, self.args, 8 * position as i32);
                    self.builder.ins().iadd_imm_s(base, offset as i64)
                }
                Some(NodePlace::Data(offset)) => {
                    let base = self.builder.ins().symbol_value(types::I64, data);
                    self.builder.ins().iadd_imm_s(base, offset as i64)
                }
                Some(NodePlace::Arena(offset)) => self.in_arena(offset),
            },
        })
    }

    fn in_arena(&mut self, offset: usize) -> Value {
        self.builder.ins().iadd_imm_s(self.arena, offset as i64)
    }

    fn binding(&mut self, binding: Binding, symbols: &[Value]) -> Value {
        match binding {
            Binding::Symbol(symbol) => symbols[symbol.index()],
            Binding::Step(step) => self.builder.ins().iconst(types::I64, step),
        }
    }

    /// The end of a call's range, as [`codegen_core::Launch::extent_for`] computes it.
    fn end(&mut self, abi: &KernelAbi, bindings: &[Value]) -> Value {
        let extent = self.builder.ins().iconst(types::I64, abi.launch.extent as i64);
        let Some(LaunchEnd { index, factor, offset }) = abi.launch.end else { return extent };
        let Some(&value) = bindings.get(index as usize) else { return extent };
        let end = self.builder.ins().imul_imm_s(value, factor);
        let end = self.builder.ins().iadd_imm_s(end, offset);
        let zero = self.builder.ins().iconst(types::I64, 0);
        let end = self.builder.ins().smax(end, zero);
        self.builder.ins().umin(end, extent)
    }
}
