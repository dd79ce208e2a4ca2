//! The function that runs a routine: straight-line code that calls its kernels.
//!
//! ```text
//! extern "C" fn(args: *const *mut u8, bindings: *const i64, arena: *mut u8) -> i64
//! ```
//!
//! `args` has the address of each node that the caller gives, `bindings` the value of each parameter among
//! the symbols, and `arena` the temporaries followed by the scratch memory of kernels, all aligned to 64
//! bytes. The result is 0, or, before anything is computed, the position from 1 of the first symbol whose
//! value is out of its range, or [`MISALIGNED`]. So callers in every language have the same checks.

use std::collections::BTreeSet;

use codegen_core::scheduled::{Binding, KernelCall, Slot};
use codegen_core::{BASE_ALIGNMENT, Code, CodegenError, KernelAbi, LaunchEnd, Payload};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{
    AbiParam, Function, GlobalValue, InstBuilder, Signature, StackSlot, StackSlotData, StackSlotKind,
    UserFuncName, Value, types,
};
use cranelift_codegen::isa::TargetIsa;
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
#[cfg(doc)]
use lowered_ir::ir::Symbol;

use super::{
    DATA, KERNELS, ObjectFunction, ObjectModule, ObjectTarget, affine, compiled, data, kernel_callee,
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
    let [args, bindings, arena] = [0, 1, 2].map(|at| builder.block_params(block)[at]);
    let slots = [most(code, |call| call.args.len()), most(code, |call| call.bindings.len())];
    let [args_slot, bindings_slot] = slots.map(|length| {
        builder.create_sized_stack_slot(StackSlotData::new(StackSlotKind::ExplicitSlot, 8 * length, 3))
    });
    let mut writer = EntryWriter { builder, isa: &*isa, code, module, args, arena, args_slot, bindings_slot };
    writer.check_alignment(places);
    let symbols = writer.symbols(bindings);
    let data = data(writer.builder.func, DATA, 0);
    code.schedule().calls().iter().try_for_each(|call| writer.call(call, &symbols, places, data))?;
    let done = writer.builder.ins().iconst(types::I64, 0);
    writer.builder.ins().return_(&[done]);
    writer.builder.seal_all_blocks();
    writer.builder.finalize(isa.frontend_config());
    Ok(compiled(func, &*isa, code.schedule().name())?)
}

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
    signature.params.extend([AbiParam::new(types::I64); 3]);
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
    args_slot: StackSlot,
    bindings_slot: StackSlot,
}

impl EntryWriter<'_> {
    /// Returns [`MISALIGNED`] if the arena or an argument is.
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
        let low = self.builder.ins().band_imm_s(all, BASE_ALIGNMENT as i64 - 1);
        self.return_if(low, MISALIGNED);
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
        let begin = self.builder.ins().iconst(types::I64, 0);
        let end = self.end(&self.code.artifact().kernels()[call.kernel], &bindings);
        let kernel = &self.module.kernels[call.kernel];
        let callee = kernel_callee(self.builder.func, self.isa, (KERNELS, call.kernel), kernel);
        self.builder.ins().call(callee, &[args, bound, scratch, begin, end]);
        Ok(())
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
