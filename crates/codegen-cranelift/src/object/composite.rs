//! The function of a kernel with products: it calls its parts and the products in order.
//!
//! It does what [`crate::composite::run`] does in this process, as straight-line code and loops. Parts and
//! products take the addresses of the kernel's nodes, followed by those of the shared nodes, and the values
//! of the kernel's symbols, followed by those of loops.

use codegen_core::{CodegenError, Kernel, KernelAbi};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{
    AbiParam, BlockArg, Function, InstBuilder, Signature, StackSlotData, StackSlotKind, UserFuncName, Value,
    types,
};
use cranelift_codegen::isa::TargetIsa;
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use lowered_ir::ir::{Bound, SymbolId};
use microkernels::UnlinkedPlan;

use super::{
    ObjectFunction, ObjectProduct, PARTS, PRODUCT_FUNCTION, PRODUCTS, affine, callee, compiled, data,
    kernel_callee,
};
use crate::caps::ALIGNMENT;
use crate::composite::{CompositePlan, PlannedGemm, PlannedPart};
use crate::emit;
use crate::emit::ssa::PLAIN;
use crate::support::failed;

/// Compiles a planned kernel, and returns its ABI too. `compile` compiles a part, and returns the bytes of
/// the part's scratch memory.
pub(super) fn compose(
    kernel: &Kernel,
    plan: &CompositePlan<UnlinkedPlan>,
    isa: &dyn TargetIsa,
    compile: impl FnMut(&Kernel) -> Result<(ObjectFunction, usize), CodegenError>,
) -> Result<(ObjectFunction, KernelAbi), CodegenError> {
    let signature = emit::signature(isa.default_call_conv());
    let mut func = Function::with_name_signature(UserFuncName::user(0, 0), signature);
    let mut context = FunctionBuilderContext::new();
    let mut builder = FunctionBuilder::new(&mut func, &mut context);
    let block = builder.create_block();
    builder.append_block_params_for_function_params(block);
    builder.switch_to_block(block);
    let [args, bindings, scratch, begin, end] = [0, 1, 2, 3, 4].map(|at| builder.block_params(block)[at]);
    let (offsets, shared_bytes) = plan.shared_offsets(ALIGNMENT);
    let symbols = kernel.ir().symbols.len();
    let loops = most_symbols(&plan.parts).max(symbols);
    let shared = offsets.iter().map(|&offset| builder.ins().iadd_imm_s(scratch, offset as i64)).collect();
    let args = extended(&mut builder, args, kernel.ir().nodes.len(), shared, 0);
    let bindings = extended(&mut builder, bindings, symbols, Vec::new(), loops - symbols);
    let scratch = builder.ins().iadd_imm_s(scratch, shared_bytes as i64);
    let call = CallValues { args, bindings, scratch, range: [begin, end] };
    let function = ObjectFunction::from(Vec::new());
    let mut abi = kernel.abi().clone();
    abi.scratch_bytes = 0;
    let mut composer = Composer { kernel, builder, isa, call, function, abi, compile };
    composer.parts(&plan.parts)?;
    let Composer { mut builder, function, mut abi, .. } = composer;
    abi.scratch_bytes += shared_bytes;
    builder.ins().return_(&[]);
    builder.seal_all_blocks();
    builder.finalize(isa.frontend_config());
    let ObjectFunction { code, relocations, .. } = compiled(func, isa, &kernel.abi().name)?;
    Ok((ObjectFunction { code, relocations, ..function }, abi))
}

/// The number of symbols of the parts with the most loops around them.
fn most_symbols(parts: &[PlannedPart<UnlinkedPlan>]) -> usize {
    let most = |part: &PlannedPart<UnlinkedPlan>| match part {
        PlannedPart::Loop { symbol, parts, .. } => most_symbols(parts).max(symbol.index() + 1),
        PlannedPart::Gemm(_) | PlannedPart::Alone(_) => 0,
    };
    parts.iter().map(most).max().unwrap_or(0)
}

/// The address of a list of words: a list with more words behind it, and room for some that loops write.
fn extended(
    builder: &mut FunctionBuilder<'_>,
    list: Value,
    length: usize,
    more: Vec<Value>,
    room: usize,
) -> Value {
    if more.is_empty() && room == 0 {
        return list;
    }
    let words = (length + more.len() + room) as u32;
    let slot = builder.create_sized_stack_slot(StackSlotData::new(StackSlotKind::ExplicitSlot, 8 * words, 3));
    for at in 0..length {
        let word = builder.ins().load(types::I64, PLAIN, list, 8 * at as i32);
        builder.ins().stack_store(types::I64, word, slot, 8 * at as i32);
    }
    for (at, word) in (length..).zip(more) {
        builder.ins().stack_store(types::I64, word, slot, 8 * at as i32);
    }
    builder.ins().stack_addr(types::I64, slot, 0)
}

/// The arguments of parts and products.
#[derive(Clone, Copy)]
struct CallValues {
    args: Value,
    bindings: Value,
    scratch: Value,
    /// The range of the kernel's call.
    range: [Value; 2],
}

struct Composer<'a, F> {
    kernel: &'a Kernel,
    builder: FunctionBuilder<'a>,
    isa: &'a dyn TargetIsa,
    call: CallValues,
    /// The function without its code.
    function: ObjectFunction,
    /// That of the kernel, with the largest scratch memory of any part and the largest grain of any product.
    abi: KernelAbi,
    compile: F,
}

impl<F: FnMut(&Kernel) -> Result<(ObjectFunction, usize), CodegenError>> Composer<'_, F> {
    fn parts(&mut self, parts: &[PlannedPart<UnlinkedPlan>]) -> Result<(), CodegenError> {
        parts.iter().try_for_each(|part| match part {
            PlannedPart::Loop { symbol, end, is_parallel, parts } => {
                self.loop_over(*symbol, end, *is_parallel, parts)
            }
            PlannedPart::Gemm(gemm) => self.product(gemm),
            PlannedPart::Alone(kernel) => self.alone(kernel),
        })
    }

    fn loop_over(
        &mut self,
        symbol: SymbolId,
        bound: &Bound,
        is_parallel: bool,
        parts: &[PlannedPart<UnlinkedPlan>],
    ) -> Result<(), CodegenError> {
        let last = self.bound(bound);
        let [begin, end] = match (is_parallel, self.call.range) {
            (true, [begin, end]) => [begin, self.builder.ins().smin(end, last)],
            (false, _) => [self.builder.ins().iconst(types::I64, 0), last],
        };
        let [head, body, exit] = [0; 3].map(|_| self.builder.create_block());
        let at = self.builder.append_block_param(head, types::I64);
        self.builder.ins().jump(head, &[BlockArg::Value(begin)]);
        self.builder.switch_to_block(head);
        let is_inside = self.builder.ins().icmp(IntCC::SignedLessThan, at, end);
        self.builder.ins().brif(is_inside, body, &[], exit, &[]);
        self.builder.switch_to_block(body);
        self.builder.ins().store(PLAIN, at, self.call.bindings, 8 * symbol.index() as i32);
        self.parts(parts)?;
        let next = self.builder.ins().iadd_imm_s(at, 1);
        self.builder.ins().jump(head, &[BlockArg::Value(next)]);
        self.builder.switch_to_block(exit);
        Ok(())
    }

    /// The value of a bound, which is not negative.
    fn bound(&mut self, bound: &Bound) -> Value {
        let bindings = self.call.bindings;
        let mut least = self.builder.ins().iconst(types::I64, bound.limit);
        for clip in bound.clips() {
            let clip = affine(&mut self.builder, clip, |builder, symbol| {
                Some(builder.ins().load(types::I64, PLAIN, bindings, 8 * symbol.index() as i32))
            });
            least = self.builder.ins().smin(least, clip);
        }
        let zero = self.builder.ins().iconst(types::I64, 0);
        self.builder.ins().smax(least, zero)
    }

    fn product(&mut self, gemm: &PlannedGemm<UnlinkedPlan>) -> Result<(), CodegenError> {
        self.abi.scratch_bytes = self.abi.scratch_bytes.max(gemm.plan.scratch_bytes());
        let product = self.function.products.len();
        let name = &self.kernel.abi().name;
        let data_of_plan = postcard::to_extend(&gemm.plan.data(), Vec::new())
            .map_err(|error| failed(name, "writing the plan of a product", error.to_string()))?;
        let functions = gemm.plan.functions().map(<[u8]>::to_vec).collect();
        self.function.products.push(ObjectProduct { data: data_of_plan, functions });
        let [begin, end] = match gemm.unit() {
            Some(unit) => {
                let grain = gemm.plan.grain().div_ceil(unit);
                self.abi.launch.grain = self.abi.launch.grain.max(grain);
                self.call.range.map(|at| self.builder.ins().imul_imm_s(at, unit as i64))
            }
            None => [0, 1].map(|at| self.builder.ins().iconst(types::I64, at)),
        };
        let plan = data(self.builder.func, PRODUCTS, product);
        let plan = self.builder.ins().symbol_value(types::I64, plan);
        let mut signature = Signature::new(self.isa.default_call_conv());
        signature.params.extend([AbiParam::new(types::I64); 6]);
        let function = callee(self.builder.func, PRODUCT_FUNCTION, 0, signature);
        let CallValues { args, bindings, scratch, .. } = self.call;
        self.builder.ins().call(function, &[plan, args, bindings, scratch, begin, end]);
        Ok(())
    }

    fn alone(&mut self, kernel: &Kernel) -> Result<(), CodegenError> {
        let (part, scratch_bytes) = (self.compile)(kernel)?;
        self.abi.scratch_bytes = self.abi.scratch_bytes.max(scratch_bytes);
        let at = self.function.parts.len();
        let function = kernel_callee(self.builder.func, self.isa, (PARTS, at), &part);
        self.function.parts.push(part);
        let [begin, end] = [0, 1].map(|at| self.builder.ins().iconst(types::I64, at));
        let CallValues { args, bindings, scratch, .. } = self.call;
        self.builder.ins().call(function, &[args, bindings, scratch, begin, end]);
        Ok(())
    }
}
