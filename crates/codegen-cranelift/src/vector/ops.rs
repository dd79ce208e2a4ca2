//! The operations of the IR on lanes, with the same bits as `lowered_ir::eval`.

use lowered_ir::eval;
use lowered_ir::ir::{BinaryOp, UnaryOp};
use tnode::{DType, Scalar};
use vector_asm::{Binary, Comparison, LaneType, Unary, Value, VectorOp, VectorType};

use super::Translator;
use super::reason::{BailoutReason, Result};
use super::repr;

impl Translator<'_> {
    pub(super) fn unary(&mut self, op: UnaryOp, dtype: DType, x: Value) -> Result<Value> {
        if dtype == DType::Bool {
            let at = |x| eval::unary(op, truth(x)).as_bool();
            return Ok(self.by_case(x, at(false), at(true)));
        }
        if dtype.is_float() { self.unary_float(op, dtype, x) } else { self.unary_int(op, dtype, x) }
    }

    /// `a op b`.
    pub(super) fn binary(&mut self, op: BinaryOp, dtype: DType, a: Value, b: Value) -> Result<Value> {
        if dtype == DType::Bool {
            return Ok(self.binary_bool(op, a, b));
        }
        if let Some(comparison) = comparison(op) {
            return Ok(self.compare(comparison, a, b));
        }
        if dtype.is_float() { self.binary_float(op, dtype, a, b) } else { self.binary_int(op, dtype, a, b) }
    }

    /// `a * b + c`, rounded once on floats.
    pub(super) fn fma(&mut self, dtype: DType, a: Value, b: Value, c: Value) -> Value {
        if dtype == DType::Bool {
            let product = self.binary_bool(BinaryOp::Mul, a, b);
            return self.binary_bool(BinaryOp::Add, product, c);
        }
        if dtype.is_float() {
            return self.like(a, VectorOp::Fma(a, b, c));
        }
        let product = self.op2(Binary::Multiply, a, b);
        let sum = self.op2(Binary::Add, product, c);
        self.in_range(dtype, sum)
    }

    /// `then` where the mask is set, else `otherwise`.
    pub(super) fn select(&mut self, mask: Value, then: Value, otherwise: Value) -> Value {
        let element = self.build.type_of(then).element;
        let mask = self.mask_as(mask, repr::mask_of(element));
        self.like(then, VectorOp::Select(mask, then, otherwise))
    }

    fn unary_float(&mut self, op: UnaryOp, dtype: DType, x: Value) -> Result<Value> {
        Ok(match op {
            UnaryOp::Neg => self.op1(Unary::Negate, x),
            UnaryOp::Abs => self.op1(Unary::Absolute, x),
            UnaryOp::Sqrt => self.op1(Unary::SquareRoot, x),
            UnaryOp::Trunc => self.op1(Unary::Truncate, x),
            UnaryOp::Floor => self.op1(Unary::Floor, x),
            UnaryOp::RoundEven => self.op1(Unary::RoundEven, x),
            UnaryOp::Recip => {
                let one = self.number(dtype, 1.0);
                self.op2(Binary::Divide, one, x)
            }
            UnaryOp::RecipSqrt => {
                let (one, root) = (self.number(dtype, 1.0), self.op1(Unary::SquareRoot, x));
                self.op2(Binary::Divide, one, root)
            }
            _ => return self.unary_any(op, dtype, x),
        })
    }

    fn unary_int(&mut self, op: UnaryOp, dtype: DType, x: Value) -> Result<Value> {
        Ok(match op {
            UnaryOp::Neg => {
                let negated = self.op1(Unary::Negate, x);
                self.in_range(dtype, negated)
            }
            UnaryOp::Abs if dtype.is_signed() => {
                let magnitude = self.op1(Unary::Absolute, x);
                self.in_range(dtype, magnitude)
            }
            UnaryOp::Abs | UnaryOp::Trunc | UnaryOp::Floor | UnaryOp::RoundEven => x,
            UnaryOp::Sqrt | UnaryOp::RecipSqrt => {
                let wide = self.convert_wide(dtype, DType::F64, x);
                let root = self.unary_float(op, DType::F64, wide)?;
                self.convert_wide(DType::F64, dtype, root)
            }
            UnaryOp::Recip => return Err(no_instruction(op, dtype)),
            _ => return self.unary_any(op, dtype, x),
        })
    }

    /// Operations that floats and integers have in common.
    fn unary_any(&mut self, op: UnaryOp, dtype: DType, x: Value) -> Result<Value> {
        let zero = self.number(dtype, 0.0);
        Ok(match op {
            UnaryOp::Not => {
                let is_zero = self.compare(Comparison::Equal, x, zero);
                self.truth_value(dtype, is_zero)
            }
            UnaryOp::Relu => self.op2(Binary::Maximum, x, zero),
            UnaryOp::Satur01 => {
                let one = self.number(dtype, 1.0);
                let low = self.op2(Binary::Maximum, x, zero);
                self.op2(Binary::Minimum, low, one)
            }
            _ => return Err(no_instruction(op, dtype)),
        })
    }

    fn binary_float(&mut self, op: BinaryOp, dtype: DType, a: Value, b: Value) -> Result<Value> {
        Ok(match op {
            BinaryOp::Add => self.op2(Binary::Add, a, b),
            BinaryOp::Sub => self.op2(Binary::Subtract, a, b),
            BinaryOp::Mul => self.op2(Binary::Multiply, a, b),
            BinaryOp::Div => self.op2(Binary::Divide, a, b),
            BinaryOp::Satur01Gate => {
                let (zero, one) = (self.number(dtype, 0.0), self.number(dtype, 1.0));
                let above = self.compare(Comparison::Less, zero, a);
                let below = self.compare(Comparison::Less, a, one);
                let open = self.op2(Binary::And, above, below);
                self.select(open, b, zero)
            }
            _ => return self.binary_any(op, dtype, a, b),
        })
    }

    fn binary_int(&mut self, op: BinaryOp, dtype: DType, a: Value, b: Value) -> Result<Value> {
        let arithmetic = match op {
            BinaryOp::Add => Binary::Add,
            BinaryOp::Sub => Binary::Subtract,
            BinaryOp::Mul => Binary::Multiply,
            BinaryOp::BitAnd => Binary::And,
            BinaryOp::BitOr => Binary::Or,
            BinaryOp::BitXor => Binary::Xor,
            BinaryOp::Shl => Binary::ShiftLeft,
            BinaryOp::Shr => Binary::ShiftRight,
            // No integer lies between 0 and 1.
            BinaryOp::Satur01Gate => return Ok(self.number(dtype, 0.0)),
            _ => return self.binary_any(op, dtype, a, b),
        };
        let is_shift = matches!(op, BinaryOp::Shl | BinaryOp::Shr);
        let b = if is_shift && repr::is_narrow(dtype) { self.shift_amount(dtype, b) } else { b };
        let result = self.op2(arithmetic, a, b);
        // Bitwise operations and right shifts of numbers in range stay in range.
        let grows = matches!(op, BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul | BinaryOp::Shl);
        Ok(if grows { self.in_range(dtype, result) } else { result })
    }

    /// Operations that floats and integers have in common.
    fn binary_any(&mut self, op: BinaryOp, dtype: DType, a: Value, b: Value) -> Result<Value> {
        Ok(match op {
            BinaryOp::Max => self.op2(Binary::Maximum, a, b),
            BinaryOp::Min => self.op2(Binary::Minimum, a, b),
            BinaryOp::ReluGate => {
                let zero = self.number(dtype, 0.0);
                let open = self.compare(Comparison::Less, zero, a);
                self.select(open, b, zero)
            }
            BinaryOp::And | BinaryOp::Or => {
                let zero = self.number(dtype, 0.0);
                let [a, b] = [a, b].map(|x| self.compare(Comparison::NotEqual, x, zero));
                let both = self.op2(if op == BinaryOp::And { Binary::And } else { Binary::Or }, a, b);
                self.truth_value(dtype, both)
            }
            _ => return Err(no_instruction(op, dtype)),
        })
    }

    /// The shift amount for a type that is narrower than its lanes.
    fn shift_amount(&mut self, dtype: DType, by: Value) -> Value {
        let element = self.build.type_of(by).element;
        let bits = self.build.constant(element, 1, 8 * dtype.size_bytes() as u64 - 1);
        self.op2(Binary::And, by, bits)
    }

    /// Wraps lanes that are wider than their type to its range.
    pub(super) fn in_range(&mut self, dtype: DType, x: Value) -> Value {
        if !repr::is_narrow(dtype) {
            return x;
        }
        let bits = 8 * dtype.size_bytes() as u64;
        if dtype.is_signed() {
            let by = self.build.constant(LaneType::I32, 1, 32 - bits);
            let up = self.op2(Binary::ShiftLeft, x, by);
            return self.op2(Binary::ShiftRight, up, by);
        }
        let all = self.build.constant(LaneType::I32, 1, (1 << bits) - 1);
        self.op2(Binary::And, x, all)
    }

    /// Operations on truth values, by their truth tables.
    fn binary_bool(&mut self, op: BinaryOp, a: Value, b: Value) -> Value {
        let at = |a, b| eval::binary(op, truth(a), truth(b)).as_bool();
        let table = [at(false, false), at(false, true), at(true, false), at(true, true)];
        let [a, b] = self.masks_alike(a, b);
        // With `a` fixed to false or true, the result is a function of `b`.
        let [without, with] = [(table[0], table[1]), (table[2], table[3])];
        if without == with {
            return self.by_case(b, without.0, without.1);
        }
        match (without, with) {
            ((false, false), (false, true)) => self.op2(Binary::And, a, b),
            ((false, true), (true, true)) => self.op2(Binary::Or, a, b),
            ((false, true), (true, false)) => self.op2(Binary::Xor, a, b),
            _ => {
                let without = self.by_case(b, without.0, without.1);
                let with = self.by_case(b, with.0, with.1);
                self.like(with, VectorOp::Select(a, with, without))
            }
        }
    }

    /// A truth value as a function of another one.
    fn by_case(&mut self, x: Value, at_false: bool, at_true: bool) -> Value {
        match (at_false, at_true) {
            (false, true) => x,
            (true, false) => self.op1(Unary::Not, x),
            (same, _) => {
                let element = self.build.type_of(x).element;
                self.build.constant(element, 1, repr::mask(same))
            }
        }
    }

    /// Compares two numbers of one type; the result is a mask.
    pub(super) fn compare(&mut self, comparison: Comparison, a: Value, b: Value) -> Value {
        let element = repr::mask_of(self.build.type_of(a).element);
        let lanes = self.lanes_of(&[a, b]);
        self.build.pure(VectorType { element, lanes }, VectorOp::Compare(comparison, a, b))
    }

    /// 1 where a mask is set, else 0.
    pub(super) fn truth_value(&mut self, dtype: DType, mask: Value) -> Value {
        let (one, zero) = (self.number(dtype, 1.0), self.number(dtype, 0.0));
        self.select(mask, one, zero)
    }

    /// Converts a mask to lanes of another width.
    pub(super) fn mask_as(&mut self, mask: Value, element: LaneType) -> Value {
        let ty = self.build.type_of(mask);
        if ty.element == element {
            return mask;
        }
        match self.build.as_constant(mask) {
            Some(bits) => self.build.constant(element, ty.lanes, repr::mask(bits != 0)),
            None => self.build.pure(VectorType { element, ..ty }, VectorOp::Convert(mask)),
        }
    }

    /// Converts two masks to lanes of the same width.
    pub(super) fn masks_alike(&mut self, a: Value, b: Value) -> [Value; 2] {
        let element = self.build.type_of(a).element;
        [a, self.mask_as(b, element)]
    }

    /// A small number as a constant of one lane.
    pub(super) fn number(&mut self, dtype: DType, x: f64) -> Value {
        let element = repr::element(dtype).expect("random bits were rejected before");
        self.build.constant(element, 1, repr::bits(Scalar::from_f64(dtype, x)))
    }

    pub(super) fn op1(&mut self, op: Unary, x: Value) -> Value {
        self.like(x, VectorOp::Unary(op, x))
    }

    pub(super) fn op2(&mut self, op: Binary, a: Value, b: Value) -> Value {
        // Legalization masks amounts of shifts. A constant amount must stay one.
        if let (Binary::And, Some(x), Some(y)) = (op, self.build.as_constant(a), self.build.as_constant(b)) {
            return self.build.constant(self.build.type_of(a).element, self.lanes_of(&[a, b]), x & y);
        }
        self.like(a, VectorOp::Binary(op, a, b))
    }

    /// An operation whose result has the lane type of `x`.
    pub(super) fn like(&mut self, x: Value, op: VectorOp) -> Value {
        let element = self.build.type_of(x).element;
        let lanes = match op {
            VectorOp::Unary(_, a) => self.lanes_of(&[a]),
            VectorOp::Binary(_, a, b) => self.lanes_of(&[a, b]),
            VectorOp::Fma(a, b, c) | VectorOp::Select(a, b, c) => self.lanes_of(&[a, b, c]),
            _ => self.lanes_of(&[x]),
        };
        self.build.pure(VectorType { element, lanes }, op)
    }

    fn lanes_of(&self, values: &[Value]) -> u32 {
        values.iter().map(|&v| self.build.type_of(v).lanes).max().unwrap_or(1)
    }

    /// Broadcasts a value with one lane.
    pub(super) fn broadcast(&mut self, value: Value, lanes: u32) -> Value {
        let ty = self.build.type_of(value);
        if ty.lanes == lanes {
            return value;
        }
        match self.build.as_constant(value) {
            Some(bits) => self.build.constant(ty.element, lanes, bits),
            None => self.build.pure(VectorType { lanes, ..ty }, VectorOp::Bitcast(value)),
        }
    }
}

pub(super) fn comparison(op: BinaryOp) -> Option<Comparison> {
    Some(match op {
        BinaryOp::Lt => Comparison::Less,
        BinaryOp::Le => Comparison::LessEqual,
        BinaryOp::Eq => Comparison::Equal,
        BinaryOp::Ne => Comparison::NotEqual,
        _ => return None,
    })
}

pub(super) fn no_instruction(op: impl std::fmt::Display, dtype: DType) -> BailoutReason {
    BailoutReason::Operation { op: op.to_string(), dtype }
}

fn truth(x: bool) -> Scalar {
    Scalar::new(DType::Bool, u128::from(x))
}
