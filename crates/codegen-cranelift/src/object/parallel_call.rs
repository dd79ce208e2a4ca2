//! Machine code that divides the call of a kernel over threads.
//!
//! The entry of a routine writes a record of the call, and calls [`divider`]'s function. It runs the whole
//! kernel, or asks the caller's threads to run [`task`]'s function, which takes parts of the kernel's range
//! until none is left. Callers decide neither which parts there are nor which thread runs them, so they
//! cannot change results: a thread that calls the task again, or late, finds no part.
//!
//! The record consists of 64-bit words in the entry's stack frame, at the offsets below.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{
    AbiParam, AtomicRmwOp, BlockArg, Function, InstBuilder, SigRef, Signature, UserFuncName, Value, types,
};
use cranelift_codegen::isa::{CallConv, TargetIsa};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};

use super::{ObjectFunction, PARTS, callee, compiled};
use crate::emit;
use crate::emit::ssa::PLAIN;
use codegen_core::CodegenError;

/// The address of the kernel.
pub(super) const KERNEL: i32 = 0;
/// The kernel's arguments `args` and `bindings`.
pub(super) const ARGS: i32 = 8;
pub(super) const BINDINGS: i32 = 16;
/// The scratch memory of the first thread. That of the others follows the record of threads.
pub(super) const SCRATCH: i32 = 24;
/// Bytes between the scratch memory of the other threads.
pub(super) const SCRATCH_STRIDE: i32 = 32;
/// The end of the kernel's range, which begins at 0.
pub(super) const END: i32 = 40;
/// The least number of iterations of a part.
pub(super) const GRAIN: i32 = 48;
/// The most parts for each thread.
pub(super) const PARTS_PER_THREAD: i32 = 56;
/// The address of the caller's threads, or 0.
pub(super) const THREADS: i32 = 64;
/// The number of parts.
const NUM_PARTS: i32 = 72;
/// The number of the next part, and of the next thread.
const NEXT_PART: i32 = 80;
const NEXT_THREAD: i32 = 88;
/// Bytes of a record.
pub(super) const RECORD_BYTES: u32 = 96;

/// The offsets in the caller's threads: the function that runs a task, its first argument, the number of
/// threads, and the scratch memory of all but one.
const RUN: i32 = 0;
const CONTEXT: i32 = 8;
const COUNT: i32 = 16;
pub(super) const THREAD_SCRATCH: i32 = 24;

/// The signature of [`divider`]'s and [`task`]'s functions: the address of a record.
pub(super) fn signature(isa: &dyn TargetIsa) -> Signature {
    let mut signature = Signature::new(isa.default_call_conv());
    signature.params.push(AbiParam::new(types::I64));
    signature
}

/// The function that runs the call of a record on threads, for kernels of a calling convention. The task is
/// its only part.
pub(super) fn divider(isa: &dyn TargetIsa, kernels: CallConv) -> Result<ObjectFunction, CodegenError> {
    let task = task(isa, kernels)?;
    let divider = written(isa, kernels, |writer, record| {
        let threads = writer.load(record, THREADS);
        let [alone, counted, shared] = [0; 3].map(|_| writer.builder.create_block());
        writer.builder.ins().brif(threads, counted, &[], alone, &[]);

        writer.builder.switch_to_block(counted);
        let (end, grain) = (writer.load(record, END), writer.load(record, GRAIN));
        let count = writer.load(threads, COUNT);
        let per_thread = writer.load(record, PARTS_PER_THREAD);
        let most = writer.builder.ins().imul(count, per_thread);
        let parts = writer.builder.ins().udiv(end, grain);
        let parts = writer.builder.ins().umin(parts, most);
        // There is no division for one thread, nor for one part.
        let one = writer.builder.ins().iconst(types::I64, 1);
        let least = writer.builder.ins().umin(parts, count);
        let is_divided = writer.builder.ins().icmp(IntCC::UnsignedGreaterThan, least, one);
        writer.builder.ins().brif(is_divided, shared, &[], alone, &[]);

        writer.builder.switch_to_block(alone);
        let begin = writer.builder.ins().iconst(types::I64, 0);
        let (scratch, end) = (writer.load(record, SCRATCH), writer.load(record, END));
        writer.call_kernel(record, [scratch, begin, end]);
        writer.builder.ins().return_(&[]);

        writer.builder.switch_to_block(shared);
        writer.store(record, NUM_PARTS, parts);
        let zero = writer.builder.ins().iconst(types::I64, 0);
        [NEXT_PART, NEXT_THREAD].iter().for_each(|&at| writer.store(record, at, zero));
        let task = callee(writer.builder.func, PARTS, 0, signature(isa));
        let address = writer.builder.ins().func_addr(types::I64, task);
        let (run, context) = (writer.load(threads, RUN), writer.load(threads, CONTEXT));
        let mut of_run = Signature::new(isa.default_call_conv());
        of_run.params.extend([AbiParam::new(types::I64); 4]);
        let of_run = writer.builder.import_signature(of_run);
        writer.builder.ins().call_indirect(of_run, run, &[context, least, address, record]);
        // The threads may have been busy elsewhere.
        writer.builder.ins().call(task, &[record]);
        writer.builder.ins().return_(&[]);
    });
    Ok(ObjectFunction { parts: vec![task], ..compiled(divider, isa, "divider")? })
}

/// The function that each thread calls: it takes scratch memory and runs parts until none is left.
fn task(isa: &dyn TargetIsa, kernels: CallConv) -> Result<ObjectFunction, CodegenError> {
    let func = written(isa, kernels, |writer, record| {
        let threads = writer.load(record, THREADS);
        let count = writer.load(threads, COUNT);
        let thread = writer.take(record, NEXT_THREAD);
        let [first, other, head, body, exit] = [0; 5].map(|_| writer.builder.create_block());
        let choice = writer.builder.create_block();
        let scratch = writer.builder.append_block_param(head, types::I64);
        // Without scratch memory of its own, a thread takes no part.
        let is_late = writer.builder.ins().icmp(IntCC::UnsignedGreaterThanOrEqual, thread, count);
        writer.builder.ins().brif(is_late, exit, &[], choice, &[]);

        writer.builder.switch_to_block(choice);
        writer.builder.ins().brif(thread, other, &[], first, &[]);

        writer.builder.switch_to_block(first);
        let own = writer.load(record, SCRATCH);
        writer.builder.ins().jump(head, &[BlockArg::Value(own)]);

        writer.builder.switch_to_block(other);
        let stride = writer.load(record, SCRATCH_STRIDE);
        let before = writer.builder.ins().iadd_imm_s(thread, -1);
        let offset = writer.builder.ins().imul(before, stride);
        let base = writer.load(threads, THREAD_SCRATCH);
        let own = writer.builder.ins().iadd(base, offset);
        writer.builder.ins().jump(head, &[BlockArg::Value(own)]);

        writer.builder.switch_to_block(head);
        let part = writer.take(record, NEXT_PART);
        let parts = writer.load(record, NUM_PARTS);
        let is_done = writer.builder.ins().icmp(IntCC::UnsignedGreaterThanOrEqual, part, parts);
        writer.builder.ins().brif(is_done, exit, &[], body, &[]);

        writer.builder.switch_to_block(body);
        let next = writer.builder.ins().iadd_imm_s(part, 1);
        let [begin, end] = [part, next].map(|part| writer.first_iteration(record, part, parts));
        writer.call_kernel(record, [scratch, begin, end]);
        writer.builder.ins().jump(head, &[BlockArg::Value(scratch)]);

        writer.builder.switch_to_block(exit);
        writer.builder.ins().return_(&[]);
    });
    compiled(func, isa, "task")
}

/// A function of a record, whose body `write` adds.
fn written(
    isa: &dyn TargetIsa,
    kernels: CallConv,
    write: impl FnOnce(&mut CallWriter<'_>, Value),
) -> Function {
    let mut func = Function::with_name_signature(UserFuncName::user(0, 0), signature(isa));
    let mut context = FunctionBuilderContext::new();
    let mut builder = FunctionBuilder::new(&mut func, &mut context);
    let kernel = builder.import_signature(emit::signature(kernels));
    let block = builder.create_block();
    builder.append_block_params_for_function_params(block);
    builder.switch_to_block(block);
    let record = builder.block_params(block)[0];
    let mut writer = CallWriter { builder, kernel };
    write(&mut writer, record);
    writer.builder.seal_all_blocks();
    writer.builder.finalize(isa.frontend_config());
    func
}

struct CallWriter<'f> {
    builder: FunctionBuilder<'f>,
    /// The signature of the kernel.
    kernel: SigRef,
}

impl CallWriter<'_> {
    fn load(&mut self, base: Value, offset: i32) -> Value {
        self.builder.ins().load(types::I64, PLAIN, base, offset)
    }

    fn store(&mut self, base: Value, offset: i32, value: Value) {
        self.builder.ins().store(PLAIN, value, base, offset);
    }

    /// The next value of a counter of the record.
    fn take(&mut self, record: Value, offset: i32) -> Value {
        let address = self.builder.ins().iadd_imm_s(record, i64::from(offset));
        let one = self.builder.ins().iconst(types::I64, 1);
        self.builder.ins().atomic_rmw(types::I64, PLAIN, AtomicRmwOp::Add, address, one)
    }

    /// The first iteration of a part. Parts differ by one iteration at most.
    fn first_iteration(&mut self, record: Value, part: Value, parts: Value) -> Value {
        let end = self.load(record, END);
        let each = self.builder.ins().udiv(end, parts);
        let longer = self.builder.ins().urem(end, parts);
        let shift = self.builder.ins().umin(part, longer);
        let start = self.builder.ins().imul(each, part);
        self.builder.ins().iadd(start, shift)
    }

    /// Calls the kernel with scratch memory over a range.
    fn call_kernel(&mut self, record: Value, [scratch, begin, end]: [Value; 3]) {
        let kernel = self.load(record, KERNEL);
        let [args, bindings] = [ARGS, BINDINGS].map(|at| self.load(record, at));
        self.builder.ins().call_indirect(self.kernel, kernel, &[args, bindings, scratch, begin, end]);
    }
}
