//! The operations of the IR on registers, with the same bits as `lowered_ir::eval`.
//!
//! Every function handles one value or four lanes ([`Val`]). An operation without a vector instruction is
//! computed lane by lane ([`Emitter::lane_by_lane`]), so a vector loop may contain every supported operation.

use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{Opcode, Type, Value, types};
use lowered_ir::ir::{BinaryOp, UnaryOp};
use tnode::DType;

use super::Emitter;
use super::repr::{self, LANES, Val};
use crate::runtime_functions::RuntimeFunction;

impl Emitter<'_> {
    pub(super) fn unary(&mut self, op: UnaryOp, dtype: DType, x: &Val) -> Val {
        if dtype == DType::Bool {
            return self.unary_bool(op, x);
        }
        if x.wide && !unary_has_lanes(op, dtype) {
            return self.lane_by_lane(dtype, &[(dtype, x)], |s, v| s.unary_part(op, dtype, v[0]));
        }
        self.each(dtype, &[x], |s, v| s.unary_part(op, dtype, v[0]))
    }

    /// `a op b`; for shifts see [`Emitter::shift`].
    pub(super) fn binary(&mut self, op: BinaryOp, dtype: DType, a: &Val, b: &Val) -> Val {
        if dtype == DType::Bool {
            return self.binary_bool(op, a, b);
        }
        if op.is_comparison() {
            return self.compare(op, dtype, a, b);
        }
        if a.wide && !binary_has_lanes(op, dtype) {
            let args = [(dtype, a), (dtype, b)];
            return self.lane_by_lane(dtype, &args, |s, v| s.binary_part(op, dtype, v[0], v[1]));
        }
        self.each(dtype, &[a, b], |s, v| s.binary_part(op, dtype, v[0], v[1]))
    }

    /// `x` shifted by a constant amount, the same in every lane.
    pub(super) fn shift(&mut self, op: BinaryOp, dtype: DType, x: &Val, amount: u64) -> Val {
        let bits = 8 * dtype.size_bytes() as u64;
        let opcode = shift_opcode(op, dtype);
        self.each(dtype, &[x], |s, v| {
            let ty = if x.wide { types::I32 } else { repr::one(dtype) };
            let amount = s.ssa.int(ty, (amount % bits) as i64);
            s.ssa.binary(opcode, v[0], amount)
        })
    }

    /// `a * b + c`, rounded once on floats.
    pub(super) fn fma(&mut self, dtype: DType, a: &Val, b: &Val, c: &Val) -> Val {
        match dtype {
            DType::F32 if !self.has_fma => self.fma_by_f64(a, b, c),
            DType::F32 | DType::F64 => {
                self.each(dtype, &[a, b, c], |s, v| s.ssa.ternary(Opcode::Fma, v[0], v[1], v[2]))
            }
            _ => {
                let product = self.binary(BinaryOp::Mul, dtype, a, b);
                self.binary(BinaryOp::Add, dtype, &product, c)
            }
        }
    }

    /// `condition ? then : otherwise`, for a `bool` condition of the same shape.
    pub(super) fn select(&mut self, dtype: DType, condition: &Val, then: &Val, otherwise: &Val) -> Val {
        if !condition.wide {
            let v = self.ssa.ternary(Opcode::Select, condition.first(), then.first(), otherwise.first());
            return Val::one(v);
        }
        let masks = self.masks_for(dtype, condition);
        let parts =
            (0..then.parts.len()).map(|i| self.blend(masks.parts[i], then.parts[i], otherwise.parts[i]));
        Val::lanes(parts.collect::<Vec<_>>())
    }

    /// `condition ? usual : op x` for a sine or cosine in `f64`. The function is called only if the condition
    /// fails in some lane.
    pub(super) fn unless_called(&mut self, condition: &Val, usual: &Val, op: UnaryOp, x: &Val) -> Val {
        let callee = self.callee(angle_function(op));
        let masks = if condition.wide { self.masks_for(DType::F64, condition) } else { condition.clone() };
        let parts = (0..usual.parts.len())
            .map(|i| self.ssa.call_unless(masks.parts[i], usual.parts[i], callee, x.parts[i]))
            .collect();
        Val { parts, wide: usual.wide }
    }

    /// Applies `f` to each register; `dtype` is the result's type.
    pub(super) fn each(
        &mut self,
        dtype: DType,
        args: &[&Val],
        mut f: impl FnMut(&mut Self, &[Value]) -> Value,
    ) -> Val {
        let wide = args[0].wide;
        let parts = (0..args[0].parts.len())
            .map(|i| {
                let registers: Vec<Value> = args.iter().map(|a| a.parts[i]).collect();
                let value = f(self, &registers);
                if wide { self.renormalize(dtype, value) } else { value }
            })
            .collect();
        Val { parts, wide }
    }

    /// Applies `f` to each lane separately; `dtype` is the result's type.
    pub(super) fn lane_by_lane(
        &mut self,
        dtype: DType,
        args: &[(DType, &Val)],
        mut f: impl FnMut(&mut Self, &[Value]) -> Value,
    ) -> Val {
        let lanes = (0..LANES)
            .map(|lane| {
                let values: Vec<Value> = args.iter().map(|(d, v)| self.lane(*d, v, lane)).collect();
                f(self, &values)
            })
            .collect::<Vec<_>>();
        self.assemble(dtype, &lanes)
    }

    /// Wraps lanes that are wider than their type to its range.
    fn renormalize(&mut self, dtype: DType, x: Value) -> Value {
        if !repr::is_narrow(dtype) || self.ssa.type_of(x) != types::I32X4 {
            return x;
        }
        let bits = 8 * dtype.size_bytes() as i64;
        if dtype.is_integer() && dtype.is_signed() {
            let by = self.ssa.int(types::I32, 32 - bits);
            let up = self.ssa.binary(Opcode::Ishl, x, by);
            return self.ssa.binary(Opcode::Sshr, up, by);
        }
        let mask = self.splat_bits(types::I32X4, (1 << bits) - 1);
        self.ssa.binary(Opcode::Band, x, mask)
    }

    fn unary_part(&mut self, op: UnaryOp, dtype: DType, x: Value) -> Value {
        if dtype.is_float() { self.unary_float(op, dtype, x) } else { self.unary_int(op, dtype, x) }
    }

    fn unary_float(&mut self, op: UnaryOp, dtype: DType, x: Value) -> Value {
        use UnaryOp::*;
        let ty = self.ssa.type_of(x);
        match op {
            Neg => self.ssa.unary(Opcode::Fneg, ty, x),
            Abs => self.ssa.unary(Opcode::Fabs, ty, x),
            Sqrt => self.ssa.unary(Opcode::Sqrt, ty, x),
            Trunc => self.ssa.unary(Opcode::Trunc, ty, x),
            Floor => self.ssa.unary(Opcode::Floor, ty, x),
            RoundEven => self.ssa.unary(Opcode::Nearest, ty, x),
            Not => {
                let zero = self.constant(dtype, ty, 0.0);
                let is_zero = self.ssa.fcmp(FloatCC::Equal, x, zero);
                self.truth(dtype, ty, is_zero)
            }
            Relu => {
                let zero = self.constant(dtype, ty, 0.0);
                self.binary_float(BinaryOp::Max, dtype, x, zero)
            }
            Satur01 => {
                let (zero, one) = (self.constant(dtype, ty, 0.0), self.constant(dtype, ty, 1.0));
                let low = self.binary_float(BinaryOp::Max, dtype, x, zero);
                self.binary_float(BinaryOp::Min, dtype, low, one)
            }
            Recip => {
                let one = self.constant(dtype, ty, 1.0);
                self.ssa.binary(Opcode::Fdiv, one, x)
            }
            RecipSqrt => {
                let one = self.constant(dtype, ty, 1.0);
                let root = self.ssa.unary(Opcode::Sqrt, ty, x);
                self.ssa.binary(Opcode::Fdiv, one, root)
            }
            Sin | Cos if dtype == DType::F64 => self.call(angle_function(op), &[x]),
            Exp | Exp2 | Expm1 | Log | Log1p | Log2 | Sin | Cos | Tanh | Sigmoid | Atan | Erf | Erfc => {
                unreachable!("{REJECTED}")
            }
        }
    }

    fn unary_int(&mut self, op: UnaryOp, dtype: DType, x: Value) -> Value {
        use UnaryOp::*;
        let ty = self.ssa.type_of(x);
        match op {
            Neg => self.ssa.unary(Opcode::Ineg, ty, x),
            Abs if dtype.is_signed() => self.ssa.unary(Opcode::Iabs, ty, x),
            Abs | Trunc | Floor | RoundEven => x,
            Not => {
                let zero = self.splat_bits(ty, 0);
                let is_zero = self.ssa.icmp(IntCC::Equal, x, zero);
                self.truth(dtype, ty, is_zero)
            }
            Relu => {
                let zero = self.splat_bits(ty, 0);
                self.binary_int(BinaryOp::Max, dtype, x, zero)
            }
            Satur01 => {
                let (zero, one) = (self.splat_bits(ty, 0), self.splat_bits(ty, 1));
                let low = self.binary_int(BinaryOp::Max, dtype, x, zero);
                self.binary_int(BinaryOp::Min, dtype, low, one)
            }
            Recip => {
                let one = self.ssa.int(ty, 1);
                self.binary_int(BinaryOp::Div, dtype, one, x)
            }
            Sqrt | RecipSqrt => {
                let wide = self.convert_one(dtype, DType::F64, x);
                let root = self.unary_float(op, DType::F64, wide);
                self.convert_one(DType::F64, dtype, root)
            }
            Exp | Exp2 | Expm1 | Log | Log1p | Log2 | Sin | Cos | Tanh | Sigmoid | Atan | Erf | Erfc => {
                unreachable!("{REJECTED}")
            }
        }
    }

    fn binary_part(&mut self, op: BinaryOp, dtype: DType, a: Value, b: Value) -> Value {
        if dtype.is_float() { self.binary_float(op, dtype, a, b) } else { self.binary_int(op, dtype, a, b) }
    }

    fn binary_float(&mut self, op: BinaryOp, dtype: DType, a: Value, b: Value) -> Value {
        use BinaryOp::*;
        let ty = self.ssa.type_of(a);
        match op {
            Add => self.ssa.binary(Opcode::Fadd, a, b),
            Sub => self.ssa.binary(Opcode::Fsub, a, b),
            Mul => self.ssa.binary(Opcode::Fmul, a, b),
            Div => self.ssa.binary(Opcode::Fdiv, a, b),
            Rem => self.call(
                if dtype == DType::F32 { RuntimeFunction::RemF32 } else { RuntimeFunction::RemF64 },
                &[a, b],
            ),
            // In this form, the comparison and the selection become one instruction.
            Max | Min => {
                let (low, high) = if op == Max { (a, b) } else { (b, a) };
                let takes_second = self.ssa.fcmp(FloatCC::LessThan, low, high);
                let extreme = self.choose(takes_second, b, a);
                if self.ssa.is_number(b) {
                    return extreme;
                }
                let is_nan = self.ssa.fcmp(FloatCC::Unordered, b, b);
                self.choose(is_nan, b, extreme)
            }
            ReluGate => {
                let zero = self.constant(dtype, ty, 0.0);
                let open = self.ssa.fcmp(FloatCC::LessThan, zero, a);
                self.choose(open, b, zero)
            }
            Satur01Gate => {
                let (zero, one) = (self.constant(dtype, ty, 0.0), self.constant(dtype, ty, 1.0));
                let above = self.ssa.fcmp(FloatCC::LessThan, zero, a);
                let below = self.ssa.fcmp(FloatCC::LessThan, a, one);
                let open = self.ssa.binary(Opcode::Band, above, below);
                self.choose(open, b, zero)
            }
            And | Or => {
                let zero = self.constant(dtype, ty, 0.0);
                let (a, b) =
                    (self.ssa.fcmp(FloatCC::NotEqual, a, zero), self.ssa.fcmp(FloatCC::NotEqual, b, zero));
                let both = self.ssa.binary(logic_opcode(op), a, b);
                self.truth(dtype, ty, both)
            }
            Lt | Le | Eq | Ne => unreachable!("{COMPARED}"),
            Pow | BitAnd | BitOr | BitXor | Shl | Shr | Arg1 | Arg2 | Threefry | ThreefryCrypto
            | ThreefryLight => {
                unreachable!("{REJECTED}")
            }
        }
    }

    fn binary_int(&mut self, op: BinaryOp, dtype: DType, a: Value, b: Value) -> Value {
        use BinaryOp::*;
        let ty = self.ssa.type_of(a);
        match op {
            Add => self.ssa.binary(Opcode::Iadd, a, b),
            Sub => self.ssa.binary(Opcode::Isub, a, b),
            Mul => self.ssa.binary(Opcode::Imul, a, b),
            Div | Rem => self.divide(op, dtype, a, b),
            Pow => self.power(dtype, a, b),
            // There is no such instruction on 64-bit lanes.
            Max if ty == types::I64X2 => {
                let greater = self.ssa.icmp(IntCC::SignedLessThan, b, a);
                self.blend(greater, a, b)
            }
            Min if ty == types::I64X2 => {
                let less = self.ssa.icmp(IntCC::SignedLessThan, a, b);
                self.blend(less, a, b)
            }
            Max if dtype.is_signed() => self.ssa.binary(Opcode::Smax, a, b),
            Max => self.ssa.binary(Opcode::Umax, a, b),
            Min if dtype.is_signed() => self.ssa.binary(Opcode::Smin, a, b),
            Min => self.ssa.binary(Opcode::Umin, a, b),
            ReluGate => {
                let zero = self.splat_bits(ty, 0);
                let less = if dtype.is_signed() { IntCC::SignedLessThan } else { IntCC::UnsignedLessThan };
                let open = self.ssa.icmp(less, zero, a);
                self.choose(open, b, zero)
            }
            // No integer lies between 0 and 1.
            Satur01Gate => self.splat_bits(ty, 0),
            And | Or => {
                let zero = self.splat_bits(ty, 0);
                let (a, b) =
                    (self.ssa.icmp(IntCC::NotEqual, a, zero), self.ssa.icmp(IntCC::NotEqual, b, zero));
                let both = self.ssa.binary(logic_opcode(op), a, b);
                self.truth(dtype, ty, both)
            }
            BitAnd => self.ssa.binary(Opcode::Band, a, b),
            BitOr => self.ssa.binary(Opcode::Bor, a, b),
            BitXor => self.ssa.binary(Opcode::Bxor, a, b),
            Shl | Shr => self.ssa.binary(shift_opcode(op, dtype), a, b),
            Lt | Le | Eq | Ne => unreachable!("{COMPARED}"),
            Arg1 | Arg2 | Threefry | ThreefryCrypto | ThreefryLight => unreachable!("{REJECTED}"),
        }
    }

    /// Quotient or remainder of two integers, without the cases that trap: `x / 0` is 0, and `MIN / -1` is
    /// `MIN`.
    fn divide(&mut self, op: BinaryOp, dtype: DType, a: Value, b: Value) -> Value {
        let narrow = repr::one(dtype);
        let (ty, bits) = if narrow.bits() < 32 { (types::I32, 32) } else { (narrow, narrow.bits()) };
        let (a, b) = (self.extend(dtype, ty, a), self.extend(dtype, ty, b));
        let (zero, one) = (self.ssa.int(ty, 0), self.ssa.int(ty, 1));
        let by_zero = self.ssa.icmp(IntCC::Equal, b, zero);
        let mut unsafe_ = by_zero;
        if dtype.is_signed() {
            let (least, minus_one) = (self.ssa.int(ty, i64::MIN >> (64 - bits)), self.ssa.int(ty, -1));
            let is_least = self.ssa.icmp(IntCC::Equal, a, least);
            let is_minus_one = self.ssa.icmp(IntCC::Equal, b, minus_one);
            let overflows = self.ssa.binary(Opcode::Band, is_least, is_minus_one);
            unsafe_ = self.ssa.binary(Opcode::Bor, by_zero, overflows);
        }
        let divisor = self.ssa.ternary(Opcode::Select, unsafe_, one, b);
        let opcode = match (op, dtype.is_signed()) {
            (BinaryOp::Div, true) => Opcode::Sdiv,
            (BinaryOp::Div, false) => Opcode::Udiv,
            (_, true) => Opcode::Srem,
            (_, false) => Opcode::Urem,
        };
        let quotient = self.ssa.binary(opcode, a, divisor);
        let result = self.ssa.ternary(Opcode::Select, by_zero, zero, quotient);
        self.reduce(narrow, result)
    }

    fn power(&mut self, dtype: DType, a: Value, b: Value) -> Value {
        let (a, b) = (self.extend(dtype, types::I64, a), self.extend(dtype, types::I64, b));
        let power = if dtype.is_signed() { RuntimeFunction::PowI64 } else { RuntimeFunction::PowU64 };
        let power = self.call(power, &[a, b]);
        self.reduce(repr::one(dtype), power)
    }

    fn compare(&mut self, op: BinaryOp, dtype: DType, a: &Val, b: &Val) -> Val {
        let masks = self.compare_masks(op, dtype, a, b);
        match masks.parts.as_slice() {
            &[low, high] => Val::lanes([self.narrow_pair(low, high)]),
            _ => masks,
        }
    }

    /// The result of a comparison; for lanes, masks as wide as the operands.
    pub(super) fn compare_masks(&mut self, op: BinaryOp, dtype: DType, a: &Val, b: &Val) -> Val {
        if a.wide && !binary_has_lanes(op, dtype) {
            let args = [(dtype, a), (dtype, b)];
            return self.lane_by_lane(DType::Bool, &args, |s, v| s.compare_part(op, dtype, v[0], v[1]));
        }
        let parts =
            (0..a.parts.len()).map(|i| self.compare_part(op, dtype, a.parts[i], b.parts[i])).collect();
        Val { parts, wide: a.wide }
    }

    fn compare_part(&mut self, op: BinaryOp, dtype: DType, a: Value, b: Value) -> Value {
        if dtype.is_float() {
            let cc = match op {
                BinaryOp::Lt => FloatCC::LessThan,
                BinaryOp::Le => FloatCC::LessThanOrEqual,
                BinaryOp::Eq => FloatCC::Equal,
                _ => FloatCC::NotEqual,
            };
            return self.ssa.fcmp(cc, a, b);
        }
        let cc = match (op, dtype.is_signed()) {
            (BinaryOp::Lt, true) => IntCC::SignedLessThan,
            (BinaryOp::Lt, false) => IntCC::UnsignedLessThan,
            (BinaryOp::Le, true) => IntCC::SignedLessThanOrEqual,
            (BinaryOp::Le, false) => IntCC::UnsignedLessThanOrEqual,
            (BinaryOp::Eq, _) => IntCC::Equal,
            _ => IntCC::NotEqual,
        };
        self.ssa.icmp(cc, a, b)
    }

    /// Operations on truth values, derived from their meaning on the numbers 0 and 1, where any result except
    /// 0 is true.
    fn unary_bool(&mut self, op: UnaryOp, x: &Val) -> Val {
        match op {
            UnaryOp::Not => self.not(x),
            // 1 / sqrt(0) is infinite, and thus true.
            UnaryOp::RecipSqrt => self.truth_constant(x.wide, true),
            _ => x.clone(),
        }
    }

    fn binary_bool(&mut self, op: BinaryOp, a: &Val, b: &Val) -> Val {
        use BinaryOp::*;
        match op {
            Add | Max | Or | BitOr => self.bits(Opcode::Bor, a, b),
            Mul | Min | And | BitAnd | Div | ReluGate => self.bits(Opcode::Band, a, b),
            Sub | BitXor | Ne => self.bits(Opcode::Bxor, a, b),
            Eq => {
                let differ = self.bits(Opcode::Bxor, a, b);
                self.not(&differ)
            }
            Lt => {
                let not_a = self.not(a);
                self.bits(Opcode::Band, &not_a, b)
            }
            Le => {
                let not_a = self.not(a);
                self.bits(Opcode::Bor, &not_a, b)
            }
            Arg1 | Arg2 | Threefry | ThreefryCrypto | ThreefryLight => unreachable!("{REJECTED}"),
            Pow => {
                let not_b = self.not(b);
                self.bits(Opcode::Bor, a, &not_b)
            }
            Shr => {
                let not_b = self.not(b);
                self.bits(Opcode::Band, a, &not_b)
            }
            Shl => a.clone(),
            Rem | Satur01Gate => self.truth_constant(a.wide, false),
        }
    }

    fn not(&mut self, x: &Val) -> Val {
        let all = self.truth_constant(x.wide, true);
        self.bits(Opcode::Bxor, x, &all)
    }

    fn bits(&mut self, opcode: Opcode, a: &Val, b: &Val) -> Val {
        self.each(DType::Bool, &[a, b], |s, v| s.ssa.binary(opcode, v[0], v[1]))
    }

    pub(super) fn truth_constant(&mut self, wide: bool, truth: bool) -> Val {
        let ty = repr::register(DType::Bool, wide);
        let bits = if wide && truth { u64::MAX } else { u64::from(truth) };
        Val { parts: [self.splat_bits(ty, bits)].into_iter().collect(), wide }
    }

    /// 1 if a comparison's result holds, else 0, as numbers of the compared type.
    fn truth(&mut self, dtype: DType, ty: Type, condition: Value) -> Value {
        let (one, zero) = match dtype.is_float() {
            true => (self.constant(dtype, ty, 1.0), self.constant(dtype, ty, 0.0)),
            false => (self.splat_bits(ty, 1), self.splat_bits(ty, 0)),
        };
        self.choose(condition, one, zero)
    }

    /// `then` if the result of a comparison of the same width holds, else `otherwise`.
    pub(super) fn choose(&mut self, condition: Value, then: Value, otherwise: Value) -> Value {
        if self.ssa.type_of(then).is_vector() {
            self.blend(condition, then, otherwise)
        } else {
            self.ssa.ternary(Opcode::Select, condition, then, otherwise)
        }
    }

    /// The lanes of `then` where the mask is set, and of `otherwise` elsewhere.
    pub(super) fn blend(&mut self, mask: Value, then: Value, otherwise: Value) -> Value {
        let mask = self.ssa.bitcast(self.ssa.type_of(then), mask);
        self.ssa.ternary(Opcode::Bitselect, mask, then, otherwise)
    }

    /// A float constant in a register of type `ty`.
    pub(super) fn constant(&mut self, dtype: DType, ty: Type, x: f64) -> Value {
        let bits = if dtype == DType::F32 { u64::from((x as f32).to_bits()) } else { x.to_bits() };
        self.splat_bits(ty, bits)
    }

    /// A constant in a register, in each lane if the type has lanes.
    pub(super) fn splat_bits(&mut self, ty: Type, bits: u64) -> Value {
        match ty.lane_type() {
            lane if ty.is_vector() => {
                let size = lane.bytes() as usize;
                let bytes = std::array::from_fn(|i| bits.to_le_bytes()[i % size]);
                self.ssa.vector(ty, bytes)
            }
            types::F32 | types::F64 => self.ssa.float(ty, bits),
            _ => self.ssa.int(ty, bits as i64),
        }
    }
}

/// The message for operations that [`crate::support`] rejects.
pub(super) const REJECTED: &str = "the support table rejects this operation on this type";
const COMPARED: &str = "comparisons are emitted by `compare`";

fn angle_function(op: UnaryOp) -> RuntimeFunction {
    if op == UnaryOp::Sin { RuntimeFunction::SinF64 } else { RuntimeFunction::CosF64 }
}

fn logic_opcode(op: BinaryOp) -> Opcode {
    if op == BinaryOp::And { Opcode::Band } else { Opcode::Bor }
}

fn shift_opcode(op: BinaryOp, dtype: DType) -> Opcode {
    match op {
        BinaryOp::Shl => Opcode::Ishl,
        _ if dtype.is_signed() => Opcode::Sshr,
        _ => Opcode::Ushr,
    }
}

/// Whether there is a vector instruction for the operation on the type.
fn unary_has_lanes(op: UnaryOp, dtype: DType) -> bool {
    use UnaryOp::*;
    match op {
        Neg | Abs | Not | Relu | Satur01 | Trunc | Floor | RoundEven => dtype != DType::U64,
        Sqrt | Recip | RecipSqrt => dtype.is_float(),
        Exp | Exp2 | Expm1 | Log | Log1p | Log2 | Sin | Cos | Tanh | Sigmoid | Atan | Erf | Erfc => false,
    }
}

/// Whether there is a vector instruction for the operation on the type. Shifts by a constant are handled
/// elsewhere; other shifts have no vector instruction.
fn binary_has_lanes(op: BinaryOp, dtype: DType) -> bool {
    use BinaryOp::*;
    match op {
        Add | Sub | Mul | BitAnd | BitOr | BitXor | Eq | Ne | And | Or | Satur01Gate => true,
        Max | Min | ReluGate | Lt | Le => dtype != DType::U64,
        Div => dtype.is_float(),
        Rem | Pow | Shl | Shr => false,
        Arg1 | Arg2 | Threefry | ThreefryCrypto | ThreefryLight => false,
    }
}
