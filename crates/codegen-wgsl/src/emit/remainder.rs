//! The instructions of the float remainder that emitters share.

use codegen_core::DType;
use codegen_core::emit::{FloatLayout, IntSize, RemainderEmitter, RemainderOp, float_remainder};
use naga::{BinaryOperator as Op, MathFunction};

use super::Emitter;
use crate::builder::{ClosedBlock, Pointer, Ty, Value};

/// Emits a division of floats of one type.
struct Division<'e, 'k> {
    e: &'e mut Emitter<'k>,
    /// The type of the floats, and that of their bits.
    float: Ty,
    bits: Ty,
}

impl Emitter<'_> {
    /// C's `fmod`: see [`float_remainder`].
    pub(super) fn float_remainder(&mut self, dtype: DType, a: Value, b: Value) -> Value {
        match dtype {
            DType::F64 => {
                let mut division = Division { e: self, float: Ty::F64, bits: Ty::U64 };
                float_remainder(&mut division, FloatLayout::DOUBLE, a, b)
            }
            DType::F16 => {
                // The remainder is a multiple of both numbers' last places and less than `b`, so it is exact
                // as a half.
                let [a, b] = [a, b].map(|x| self.b.convert(Ty::F32, x));
                let rest = self.float_remainder(DType::F32, a, b);
                self.b.convert(Ty::F16, rest)
            }
            _ => {
                let mut division = Division { e: self, float: Ty::F32, bits: Ty::U32 };
                float_remainder(&mut division, FloatLayout::SINGLE, a, b)
            }
        }
    }
}

impl Division<'_, '_> {
    fn int(&self, size: IntSize) -> Ty {
        match size {
            IntSize::Word => Ty::U32,
            IntSize::Float => self.bits,
        }
    }
}

impl RemainderEmitter for Division<'_, '_> {
    type Value = Value;
    type Variable = Pointer;

    fn number(&mut self, size: IntSize, x: u64) -> Value {
        self.e.b.bits(self.int(size), x)
    }

    fn float(&mut self, bits: u64) -> Value {
        self.e.b.bits(self.float, bits)
    }

    fn binary(&mut self, op: RemainderOp, _: IntSize, a: Value, b: Value) -> Value {
        let op = match op {
            RemainderOp::Min => return self.e.b.math(MathFunction::Min, a, Some(b), None),
            RemainderOp::Max => return self.e.b.math(MathFunction::Max, a, Some(b), None),
            RemainderOp::Add => Op::Add,
            RemainderOp::Sub => Op::Subtract,
            RemainderOp::Rem => Op::Modulo,
            RemainderOp::And => Op::And,
            RemainderOp::Or => Op::InclusiveOr,
            RemainderOp::ShiftLeft => Op::ShiftLeft,
            RemainderOp::ShiftRight => Op::ShiftRight,
            RemainderOp::Less => Op::Less,
            RemainderOp::Greater => Op::Greater,
            RemainderOp::GreaterEqual => Op::GreaterEqual,
            RemainderOp::Equal => Op::Equal,
        };
        self.e.b.binary(op, a, b)
    }

    fn either(&mut self, a: Value, b: Value) -> Value {
        self.e.b.binary(Op::InclusiveOr, a, b)
    }

    fn select(&mut self, _: IntSize, condition: Value, then: Value, otherwise: Value) -> Value {
        self.e.b.select(condition, then, otherwise)
    }

    fn select_float(&mut self, condition: Value, then: Value, otherwise: Value) -> Value {
        self.e.b.select(condition, then, otherwise)
    }

    fn resize(&mut self, to: IntSize, x: Value) -> Value {
        self.e.b.convert(self.int(to), x)
    }

    fn bits_to_float(&mut self, bits: Value) -> Value {
        self.e.b.bitcast(self.float, bits)
    }

    fn float_to_bits(&mut self, float: Value) -> Value {
        self.e.b.bitcast(self.bits, float)
    }

    fn int_to_float(&mut self, int: Value) -> Value {
        self.e.b.convert(self.float, int)
    }

    fn declare(&mut self, name: &str, size: IntSize) -> Pointer {
        let variable = self.e.b.local(name, self.int(size), None);
        self.e.b.pointer_to(variable)
    }

    fn get(&mut self, variable: Pointer) -> Value {
        self.e.b.load(variable)
    }

    fn set(&mut self, variable: Pointer, value: Value) {
        self.e.b.store(variable, value);
    }

    fn while_positive(&mut self, variable: Pointer, zero: Value, body: impl Fn(&mut Self, Value)) {
        self.e.b.open();
        let now = self.e.b.load(variable);
        let continues = self.e.b.binary(Op::Greater, now, zero);
        self.e.b.break_unless(continues);
        body(self, now);
        let block = self.e.b.close();
        self.e.b.loop_(block, ClosedBlock::default());
    }
}
