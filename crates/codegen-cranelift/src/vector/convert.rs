//! Conversions between element types, as [`tnode::Scalar::convert`] defines them.

use lowered_ir::ir::BinaryOp;
use lowered_ir::math::narrow::{self, NarrowAlgebra};
use tnode::{DType, Scalar};
use vector_asm::{Binary, Comparison, LaneType, Value, VectorOp, VectorType};

use super::Translator;
use super::reason::{BailoutReason, Result};
use super::repr;
use crate::caps::CONVERTED_TYPES;

impl Translator<'_> {
    /// Converts a number to another type.
    ///
    /// # Errors
    ///
    /// An operation of the expansion of a narrow float lacks an instruction.
    pub(super) fn convert(&mut self, from: DType, to: DType, x: Value) -> Result<Value> {
        match (from, to) {
            (narrow, DType::F32) if CONVERTED_TYPES.contains(narrow) => narrow::decode(self, from, x),
            (DType::F32, narrow) if CONVERTED_TYPES.contains(narrow) => narrow::encode(self, to, x),
            _ => Ok(self.convert_wide(from, to, x)),
        }
    }

    /// Converts a number between types other than narrow floats.
    pub(super) fn convert_wide(&mut self, from: DType, to: DType, x: Value) -> Value {
        match (from, to) {
            _ if from == to => x,
            (_, DType::Bool) => {
                let zero = self.number(from, 0.0);
                self.compare(Comparison::NotEqual, x, zero)
            }
            (DType::Bool, _) => self.truth_value(to, x),
            _ if from.is_float() && repr::is_narrow(to) => {
                let wide = self.converted(x, LaneType::I32);
                self.clamp(to, wide)
            }
            _ if from.is_float() || to.is_float() => {
                let element = repr::element(to).expect("random bits were rejected before");
                self.converted(x, element)
            }
            _ => self.between_integers(from, to, x),
        }
    }

    /// Reinterprets the bits as another type of the same size.
    pub(super) fn bitcast(&mut self, from: DType, to: DType, x: Value) -> Value {
        if from == DType::Bool && to != DType::Bool {
            let byte = self.convert_wide(from, DType::U8, x);
            return self.bitcast(DType::U8, to, byte);
        }
        if repr::is_narrow(from) && repr::is_narrow(to) {
            return self.convert_wide(from, to, x);
        }
        let element = repr::element(to).expect("random bits were rejected before");
        let x = self.recast(x, element);
        // The bits of an 8-bit float are zero-extended; `i8` is sign-extended.
        let extended = |dtype: DType| dtype == DType::I8;
        if extended(from) == extended(to) {
            x
        } else {
            self.in_range(if from == DType::I8 { DType::U8 } else { to }, x)
        }
    }

    /// Converts between integers: extends by the sign, or keeps the low bits.
    fn between_integers(&mut self, from: DType, to: DType, x: Value) -> Value {
        let element = repr::element(to).expect("random bits were rejected before");
        let (has, wants) = (self.build.type_of(x).element, repr::lane_bytes(element));
        let sized = match (repr::lane_bytes(has), wants) {
            (4, 8) => self.converted(x, LaneType::I64),
            (8, 4) => {
                let bits = self.recast(x, LaneType::I64);
                self.converted(bits, LaneType::I32)
            }
            _ => x,
        };
        let fits = match to {
            DType::U16 => from == DType::U8,
            _ => false,
        };
        let x = self.recast(sized, element);
        if fits { x } else { self.in_range(to, x) }
    }

    fn converted(&mut self, x: Value, element: LaneType) -> Value {
        let ty = self.build.type_of(x);
        if ty.element == element {
            x
        } else {
            self.build.pure(VectorType { element, ..ty }, VectorOp::Convert(x))
        }
    }

    /// The quiet NaN of its sign for each NaN that an instruction made from a narrow float; all other numbers
    /// as they are. Such a NaN is quiet, so its bits are the greatest ones of its sign, as a signed number if
    /// the sign is 0, and as an unsigned one otherwise.
    pub(super) fn with_plain_nan(&mut self, x: Value) -> Value {
        let mut x = x;
        for (element, greatest) in [(LaneType::I32, 0x7fc0_0000), (LaneType::U32, 0xffc0_0000)] {
            let bits = self.recast(x, element);
            let greatest = self.build.constant(element, 1, greatest);
            x = self.op2(Binary::Minimum, bits, greatest);
        }
        self.recast(x, LaneType::F32)
    }

    /// Makes each NaN quiet, and keeps the bits of all other `f32`: `x + -0`.
    pub(super) fn with_quiet_nan(&mut self, x: Value) -> Value {
        let negative_zero = self.build.constant(LaneType::F32, 1, u64::from((-0.0f32).to_bits()));
        self.op2(Binary::Add, x, negative_zero)
    }

    /// Reinterprets the bits as lanes of another type of the same size.
    fn recast(&mut self, x: Value, element: LaneType) -> Value {
        let ty = self.build.type_of(x);
        match self.build.as_constant(x) {
            _ if ty.element == element => x,
            Some(bits) => self.build.constant(element, ty.lanes, bits),
            None => self.build.pure(VectorType { element, ..ty }, VectorOp::Bitcast(x)),
        }
    }

    /// Clamps 32-bit numbers to the range of a narrower type.
    fn clamp(&mut self, to: DType, x: Value) -> Value {
        let [least, greatest] = [f64::NEG_INFINITY, f64::INFINITY]
            .map(|end| repr::bits(Scalar::from_f64(to, end)))
            .map(|bits| self.build.constant(LaneType::I32, 1, bits));
        let above = self.op2(Binary::Maximum, x, least);
        self.op2(Binary::Minimum, above, greatest)
    }
}

/// Conversions of narrow floats from and to `f32` in registers.
impl NarrowAlgebra for Translator<'_> {
    type Value = Value;
    type Error = BailoutReason;

    fn constant(&mut self, x: Scalar) -> Value {
        let element = if x.dtype().is_float() { LaneType::F32 } else { LaneType::U32 };
        self.build.constant(element, 1, repr::bits(x))
    }

    fn binary(&mut self, op: BinaryOp, dtype: DType, a: Value, b: Value) -> Result<Value> {
        Translator::binary(self, op, dtype, a, b)
    }

    fn shift(&mut self, op: BinaryOp, x: Value, by: u32) -> Result<Value> {
        let by = self.build.constant(LaneType::U32, 1, u64::from(by));
        Translator::binary(self, op, DType::U32, x, by)
    }

    fn select(&mut self, condition: Value, then: Value, otherwise: Value) -> Value {
        Translator::select(self, condition, then, otherwise)
    }

    fn convert(&mut self, from: DType, to: DType, x: Value) -> Value {
        self.convert_wide(from, to, x)
    }

    fn bitcast(&mut self, from: DType, to: DType, x: Value) -> Value {
        Translator::bitcast(self, from, to, x)
    }
}
