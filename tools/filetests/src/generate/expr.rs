//! Random scalar expressions of a given type.

use lowered_ir::ir::{BinaryOp, Expr, TernaryOp, UnaryOp};
use tnode::{DType, Scalar};

use super::{
    Maker,
    types::{COMMON, binary_ops, comparisons, random_ops},
};

impl Maker<'_, '_> {
    /// An expression of the type, at most `depth` operations deep, conversions not counted.
    pub(super) fn expr(&mut self, dtype: DType, depth: usize) -> Expr {
        if depth == 0 {
            return self.leaf(dtype);
        }
        if dtype == DType::U32x4 {
            return self.random_bits(depth);
        }
        match self.choices.below(17) {
            0..=2 => self.leaf(dtype),
            3 | 4 => Expr::unary(*self.choices.pick(UnaryOp::ALL), self.expr(dtype, depth - 1)),
            5 if dtype == DType::Bool && self.choices.chance(1, 2) => self.comparison(depth),
            5 => {
                let condition = self.comparison(depth);
                Expr::select(condition, self.expr(dtype, depth - 1), self.expr(dtype, depth - 1))
            }
            6 => {
                let a = self.expr(dtype, depth - 1);
                Expr::binary(self.binary_op(dtype), a.clone(), a)
            }
            7 => self.product(dtype, depth),
            8 => {
                let from = *self.choices.pick(&self.types.numbers);
                Expr::convert(dtype, self.expr(from, depth - 1))
            }
            9 | 10 => self.near_identity(dtype, depth),
            11 => self.gather_as(dtype, depth),
            12 => self.bitcast(dtype, depth),
            13 if dtype == DType::U32 && self.types.has_random_bits() => self.lane(depth),
            _ => {
                let op = self.binary_op(dtype);
                let a = self.expr(dtype, depth - 1);
                Expr::binary(op, a, self.expr(dtype, depth - 1))
            }
        }
    }

    /// A binary operation on two numbers of the type, mostly a common one.
    fn binary_op(&mut self, dtype: DType) -> BinaryOp {
        match self.choices.chance(1, 2) {
            false => *self.choices.pick(&COMMON),
            true => *self.choices.pick(&binary_ops(dtype)),
        }
    }

    /// A fused multiply-add, or a product of three.
    fn product(&mut self, dtype: DType, depth: usize) -> Expr {
        let op = *self.choices.pick(&[TernaryOp::Fma, TernaryOp::Mul3]);
        let (a, b) = (self.expr(dtype, depth - 1), self.expr(dtype, depth - 1));
        Expr::ternary(op, a, b, self.leaf(dtype))
    }

    /// An operation with a constant that is neutral, or almost, to test the simplifier's equations.
    fn near_identity(&mut self, dtype: DType, depth: usize) -> Expr {
        let ops = [BinaryOp::Add, BinaryOp::Sub, BinaryOp::Mul, BinaryOp::Div, BinaryOp::Pow];
        let op = *self.choices.pick(&ops);
        let c = Scalar::from_f64(dtype, *self.choices.pick(&[0.0, -0.0, 1.0, -1.0, 2.0, 4.0, 0.1]));
        let (x, c) = (self.expr(dtype, depth - 1), Expr::Const(c));
        if self.choices.chance(1, 4) { Expr::binary(op, c, x) } else { Expr::binary(op, x, c) }
    }

    /// A comparison of two numbers of some type.
    pub(super) fn comparison(&mut self, depth: usize) -> Expr {
        let dtype = *self.choices.pick(&self.types.numbers);
        let op = *self.choices.pick(&comparisons());
        let a = self.expr(dtype, depth - 1);
        Expr::binary(op, a, self.expr(dtype, depth - 1))
    }

    /// The bits of a number of the same size. The bits of a NaN are unspecified, so they are not used.
    fn bitcast(&mut self, dtype: DType, depth: usize) -> Expr {
        let from = *self.choices.pick(&self.types.castable_to(dtype));
        let x = self.expr(from, depth - 1);
        if !from.is_float() {
            return Expr::bitcast(dtype, x);
        }
        let is_number = Expr::binary(BinaryOp::Eq, x.clone(), x.clone());
        Expr::bitcast(dtype, Expr::select(is_number, x, Expr::Const(Scalar::from_f64(from, 1.0))))
    }

    fn lane(&mut self, depth: usize) -> Expr {
        let lane = self.choices.below(4) as u8;
        Expr::lane(lane, self.expr(DType::U32x4, depth - 1))
    }

    /// A `u32x4`: generated, selected, composed, or read.
    fn random_bits(&mut self, depth: usize) -> Expr {
        match self.choices.below(5) {
            0 => self.leaf(DType::U32x4),
            1 | 2 => {
                let op = *self.choices.pick(&random_ops());
                let key = self.expr(DType::U32x4, depth - 1);
                Expr::binary(op, key, self.expr(DType::U32x4, depth - 1))
            }
            3 => Expr::Lanes(Box::new([0; 4].map(|_| self.expr(DType::U32, depth - 1)))),
            _ => self.gather_as(DType::U32x4, depth),
        }
    }

    /// `old` combined with `new`, as an accumulation does.
    pub(super) fn combined(&mut self, dtype: DType, old: Expr, new: Expr) -> Expr {
        let op = match dtype {
            DType::U32x4 => *self.choices.pick(&random_ops()),
            _ => *self.choices.pick(&[BinaryOp::Add, BinaryOp::Mul, BinaryOp::Max, BinaryOp::Min]),
        };
        if op.takes_new_first() { Expr::binary(op, new, old) } else { Expr::binary(op, old, new) }
    }

    /// A constant, often one that operations treat specially.
    pub(super) fn constant(&mut self, dtype: DType) -> Expr {
        let special = [0.0, 1.0, -1.0, 2.0, 0.5, 3.0, -0.0, 100.0, f64::INFINITY, f64::NAN, -7.25];
        Expr::Const(Scalar::from_f64(dtype, *self.choices.pick(&special)))
    }
}
