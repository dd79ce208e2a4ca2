//! Generators of random bits, as arithmetic on the lanes of their operands.

use lowered_ir::ir::{BinaryOp, Expr, Stmt};
use lowered_ir::math::build;
use lowered_ir::random::{Generator, WordAlgebra};
use tnode::{DType, Scalar};

use super::error::Result;
use super::legalizer::Legalizer;

impl Legalizer<'_> {
    /// An operation on `u32x4`.
    pub(crate) fn random_binary(&mut self, op: BinaryOp, a: Expr, b: Expr) -> Result<Expr> {
        match Generator::of(op) {
            Some(generator) => {
                self.require(DType::U32, op, DType::U32x4)?;
                let (key, counter) = (self.words(a), self.words(b));
                Ok(Expr::Lanes(Box::new(generator.run(&mut WordSteps { legalizer: self }, key, counter))))
            }
            // The verifier accepts no other operation here, except the two that return one operand.
            None => Ok(if op == BinaryOp::Arg2 { b } else { a }),
        }
    }

    /// The lanes of a value, as expressions that may be used several times.
    fn words(&mut self, x: Expr) -> [Expr; 4] {
        match x {
            Expr::Lanes(lanes) => lanes.map(|lane| self.shared(lane, DType::U32)),
            x => {
                let x = self.shared(x, DType::U32x4);
                [0, 1, 2, 3].map(|lane| self.shared(lane_of(lane, x.clone()), DType::U32))
            }
        }
    }
}

/// One lane of a value; a constant if the value is one.
pub(crate) fn lane_of(lane: u8, x: Expr) -> Expr {
    match x {
        Expr::Const(bits) => Expr::Const(lowered_ir::eval::lane(lane, bits)),
        Expr::Lanes(lanes) if usize::from(lane) < lanes.len() => lanes[usize::from(lane)].clone(),
        x => Expr::lane(lane, x),
    }
}

/// Computes with words as expressions. The result of each operation becomes a local.
struct WordSteps<'a, 'b> {
    legalizer: &'a mut Legalizer<'b>,
}

impl WordSteps<'_, '_> {
    fn bind(&mut self, value: Expr) -> Expr {
        let (fresh, steps): (_, &mut Vec<Stmt>) = (&mut self.legalizer.fresh, &mut self.legalizer.steps);
        build::bind(value, DType::U32, fresh, steps)
    }
}

impl WordAlgebra for WordSteps<'_, '_> {
    type Word = Expr;

    fn constant(&mut self, value: u32) -> Expr {
        Expr::Const(Scalar::new(DType::U32, value.into()))
    }

    fn add(&mut self, a: Expr, b: Expr) -> Expr {
        self.bind(Expr::binary(BinaryOp::Add, a, b))
    }

    fn xor(&mut self, a: Expr, b: Expr) -> Expr {
        self.bind(Expr::binary(BinaryOp::BitXor, a, b))
    }

    fn rotate_left(&mut self, a: Expr, by: u32) -> Expr {
        let amount = |by: u32| Expr::Const(Scalar::new(DType::U32, by.into()));
        let high = Expr::binary(BinaryOp::Shl, a.clone(), amount(by));
        let low = Expr::binary(BinaryOp::Shr, a, amount(32 - by));
        self.bind(Expr::binary(BinaryOp::BitOr, high, low))
    }
}
