//! Logging: calls of the functions in `codegen_core::host::KernelLog`, whose address follows the memory
//! parameters. The code passes the bits of each value, then the number of the line; the functions compose the
//! text.

use cranelift_codegen::ir::{AbiParam, Opcode, Signature, Value, types};
use lowered_ir::ir::{LogPart, Stmt};
use tnode::DType;

use super::Emitter;

/// Offset of the address of the function that takes a value.
const VALUE: i32 = 0;
/// Offset of the address of the function that ends a line.
const LINE: i32 = 8;

impl Emitter<'_> {
    /// Emits a statement that logs.
    pub(super) fn log(&mut self, stmt: &Stmt, parts: &[LogPart]) {
        for value in parts.iter().filter_map(LogPart::value) {
            let (dtype, value) = self.expr(value);
            let [low, high] = self.words(dtype, value.first());
            self.call_log(VALUE, &[low, high]);
        }
        let number = self.line_numbers.get(stmt).unwrap_or(usize::MAX);
        let number = self.ssa.int(types::I64, number as i64);
        self.call_log(LINE, &[number]);
    }

    /// Calls the function whose address is at an offset in the log.
    fn call_log(&mut self, function: i32, args: &[Value]) {
        let mut signature = Signature::new(self.call_conv);
        signature.params.extend((0..=args.len()).map(|_| AbiParam::new(types::I64)));
        let signature = self.ssa.builder.func.import_signature(signature);
        let at = (self.routine.nodes.len() * 8) as i32;
        let log = self.ssa.load_constant(types::I64, self.args, at);
        let callee = self.ssa.load_constant(types::I64, log, function);
        let mut with_log = vec![log];
        with_log.extend(args);
        self.ssa.call_at(callee, signature, &with_log);
    }

    /// The bits of a value, zero-extended, as the low and the high 64 bits.
    fn words(&mut self, dtype: DType, value: Value) -> [Value; 2] {
        let zero = self.ssa.int(types::I64, 0);
        match dtype {
            DType::U32x4 => {
                let halves = self.ssa.bitcast(types::I64X2, value);
                [0, 1].map(|lane| self.ssa.extract(halves, lane))
            }
            DType::F32 | DType::F64 => {
                let ty = if dtype == DType::F32 { types::I32 } else { types::I64 };
                let bits = self.ssa.bitcast(ty, value);
                [self.extended(bits), zero]
            }
            _ => [self.extended(value), zero],
        }
    }

    fn extended(&mut self, bits: Value) -> Value {
        if self.ssa.type_of(bits) == types::I64 {
            return bits;
        }
        self.ssa.unary(Opcode::Uextend, types::I64, bits)
    }
}
