//! The instructions of the float remainder that emitters share.

use codegen_core::emit::{FloatLayout, IntSize, RemainderEmitter, RemainderOp, float_remainder};
use ptx_asm::{CmpOp, PtxBinaryOp, PtxOperand, Reg, RoundingMode, Ty};

use super::Emitter;

/// Emits a division of floats of one type.
struct Division<'e, 'k> {
    e: &'e mut Emitter<'k>,
    float: Ty,
}

impl Emitter<'_> {
    /// C's `fmod`: see [`float_remainder`].
    pub(super) fn float_remainder(&mut self, ty: Ty, a: PtxOperand, b: PtxOperand) -> Reg {
        let format = if ty == Ty::F64 { FloatLayout::DOUBLE } else { FloatLayout::SINGLE };
        let [a, b] = [a, b].map(|x| self.operand_register(ty, x).into());
        let rest = float_remainder(&mut Division { e: self, float: ty }, format, a, b);
        self.operand_register(ty, rest)
    }
}

impl Division<'_, '_> {
    /// The unsigned integers of a size.
    fn unsigned(&self, size: IntSize) -> Ty {
        if size == IntSize::Float && self.float == Ty::F64 { Ty::U64 } else { Ty::U32 }
    }

    /// The type for bitwise operations on them.
    fn bits(&self, size: IntSize) -> Ty {
        if self.unsigned(size) == Ty::U64 { Ty::B64 } else { Ty::B32 }
    }

    fn register(&mut self, size: IntSize, x: PtxOperand) -> Reg {
        let ty = self.unsigned(size);
        self.e.operand_register(ty, x)
    }
}

impl RemainderEmitter for Division<'_, '_> {
    type Value = PtxOperand;
    type Variable = Reg;

    fn number(&mut self, _: IntSize, x: u64) -> PtxOperand {
        PtxOperand::Const(x)
    }

    fn float(&mut self, bits: u64) -> PtxOperand {
        PtxOperand::Const(bits)
    }

    fn binary(&mut self, op: RemainderOp, size: IntSize, a: PtxOperand, b: PtxOperand) -> PtxOperand {
        let (unsigned, bits) = (self.unsigned(size), self.bits(size));
        let (op, ty) = match op {
            RemainderOp::Add => (PtxBinaryOp::Add, unsigned),
            RemainderOp::Sub => (PtxBinaryOp::Sub, unsigned),
            RemainderOp::Rem => (PtxBinaryOp::Rem, unsigned),
            RemainderOp::Min => (PtxBinaryOp::Min, unsigned),
            RemainderOp::Max => (PtxBinaryOp::Max, unsigned),
            RemainderOp::And => (PtxBinaryOp::And, bits),
            RemainderOp::Or => (PtxBinaryOp::Or, bits),
            RemainderOp::ShiftLeft => (PtxBinaryOp::ShiftLeft, bits),
            RemainderOp::ShiftRight => (PtxBinaryOp::ShiftRight, unsigned),
            RemainderOp::Less => return self.e.b.compare(CmpOp::Lt, unsigned, a, b).into(),
            RemainderOp::Greater => return self.e.b.compare(CmpOp::Gt, unsigned, a, b).into(),
            RemainderOp::GreaterEqual => return self.e.b.compare(CmpOp::Ge, unsigned, a, b).into(),
            RemainderOp::Equal => return self.e.b.compare(CmpOp::Eq, unsigned, a, b).into(),
        };
        self.e.b.binary(op, ty, a, b).into()
    }

    fn either(&mut self, a: PtxOperand, b: PtxOperand) -> PtxOperand {
        self.e.b.binary(PtxBinaryOp::Or, Ty::Pred, a, b).into()
    }

    fn select(&mut self, size: IntSize, condition: PtxOperand, a: PtxOperand, b: PtxOperand) -> PtxOperand {
        let condition = self.e.operand_register(Ty::Pred, condition);
        let ty = self.unsigned(size);
        self.e.b.select(ty, condition, a, b).into()
    }

    fn select_float(&mut self, condition: PtxOperand, a: PtxOperand, b: PtxOperand) -> PtxOperand {
        let condition = self.e.operand_register(Ty::Pred, condition);
        self.e.b.select(self.float, condition, a, b).into()
    }

    fn resize(&mut self, to: IntSize, x: PtxOperand) -> PtxOperand {
        let (to, from) = match to {
            _ if self.float != Ty::F64 => return x,
            IntSize::Word => (Ty::U32, Ty::U64),
            IntSize::Float => (Ty::U64, Ty::U32),
        };
        let x = self.e.operand_register(from, x);
        self.e.b.convert(to, from, RoundingMode::None, x).into()
    }

    fn bits_to_float(&mut self, bits: PtxOperand) -> PtxOperand {
        let bits = self.register(IntSize::Float, bits);
        self.e.b.recast(self.float.class(), bits).into()
    }

    fn float_to_bits(&mut self, float: PtxOperand) -> PtxOperand {
        let class = self.unsigned(IntSize::Float).class();
        let float = self.e.operand_register(self.float, float);
        self.e.b.recast(class, float).into()
    }

    fn int_to_float(&mut self, int: PtxOperand) -> PtxOperand {
        let from = self.unsigned(IntSize::Float);
        let int = self.register(IntSize::Float, int);
        self.e.b.convert(self.float, from, RoundingMode::Nearest, int).into()
    }

    fn declare(&mut self, _: &str, size: IntSize) -> Reg {
        let class = self.unsigned(size).class();
        self.e.b.register(class)
    }

    fn get(&mut self, variable: Reg) -> PtxOperand {
        variable.into()
    }

    fn set(&mut self, variable: Reg, value: PtxOperand) {
        match value {
            PtxOperand::Reg(last) if self.e.b.retarget(last, variable) => {}
            src => self.e.b.set(variable, src),
        }
    }

    fn while_positive(&mut self, variable: Reg, zero: PtxOperand, body: impl Fn(&mut Self, PtxOperand)) {
        self.e.open_loop();
        body(self, variable.into());
        let again = self.e.b.compare(CmpOp::Gt, Ty::U32, variable, zero);
        self.e.close_loop(again);
    }
}
