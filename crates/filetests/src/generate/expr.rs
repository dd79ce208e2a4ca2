//! Random scalar expressions of a given type.

use lowered_ir::ir::{BinaryOp, Expr, NodeRef, UnaryOp};
use tnode::{DType, Scalar};

use super::Maker;

const FLOAT_UNARY: &[UnaryOp] = UnaryOp::ALL;
const EXACT_UNARY: &[UnaryOp] =
    &[UnaryOp::Neg, UnaryOp::Abs, UnaryOp::Not, UnaryOp::Relu, UnaryOp::Floor, UnaryOp::Recip];
const FLOAT_BINARY: &[BinaryOp] = &[
    BinaryOp::Add,
    BinaryOp::Sub,
    BinaryOp::Mul,
    BinaryOp::Div,
    BinaryOp::Max,
    BinaryOp::Min,
    BinaryOp::Rem,
    BinaryOp::Pow,
    BinaryOp::ReluGate,
    BinaryOp::Satur01Gate,
    BinaryOp::And,
    BinaryOp::Or,
];
const EXACT_BINARY: &[BinaryOp] = &[
    BinaryOp::Add,
    BinaryOp::Sub,
    BinaryOp::Mul,
    BinaryOp::Div,
    BinaryOp::Max,
    BinaryOp::Min,
    BinaryOp::Rem,
    BinaryOp::Pow,
    BinaryOp::And,
    BinaryOp::Or,
    BinaryOp::BitAnd,
    BinaryOp::BitOr,
    BinaryOp::BitXor,
    BinaryOp::Shl,
    BinaryOp::Shr,
];
const COMPARISONS: &[BinaryOp] = &[BinaryOp::Lt, BinaryOp::Le, BinaryOp::Eq, BinaryOp::Ne];

impl Maker<'_, '_> {
    /// An expression of the type, at most `depth` operations deep but for conversions.
    pub(super) fn expr(&mut self, dtype: DType, depth: usize) -> Expr {
        if depth == 0 {
            return self.leaf(dtype);
        }
        let (unary, binary) =
            if dtype.is_float() { (FLOAT_UNARY, FLOAT_BINARY) } else { (EXACT_UNARY, EXACT_BINARY) };
        match self.choices.below(14) {
            0..=2 => self.leaf(dtype),
            12 | 13 => self.near_identity(dtype, depth),
            3 => Expr::unary(*self.choices.pick(unary), self.expr(dtype, depth - 1)),
            4 if dtype == DType::Bool => self.comparison(depth),
            4 => {
                Expr::select(self.comparison(depth), self.expr(dtype, depth - 1), self.expr(dtype, depth - 1))
            }
            5 => {
                let a = self.expr(dtype, depth - 1);
                Expr::binary(*self.choices.pick(binary), a.clone(), a)
            }
            6 => {
                let (a, b) = (self.expr(dtype, depth - 1), self.expr(dtype, depth - 1));
                Expr::fma(a, b, self.leaf(dtype))
            }
            7 => {
                let from = *self.choices.pick(&super::DTYPES);
                Expr::convert(dtype, self.expr(from, depth - 1))
            }
            _ => {
                let op = *self.choices.pick(binary);
                let a = self.expr(dtype, depth - 1);
                Expr::binary(op, a, self.expr(dtype, depth - 1))
            }
        }
    }

    /// An operation with a constant that is neutral, or almost: where equations go wrong.
    fn near_identity(&mut self, dtype: DType, depth: usize) -> Expr {
        let ops = [BinaryOp::Add, BinaryOp::Sub, BinaryOp::Mul, BinaryOp::Div, BinaryOp::Pow];
        let op = *self.choices.pick(&ops);
        let c = Scalar::from_f64(dtype, *self.choices.pick(&[0.0, -0.0, 1.0, -1.0, 2.0, 4.0, 0.1]));
        let (x, c) = (self.expr(dtype, depth - 1), Expr::Const(c));
        if self.choices.chance(1, 4) { Expr::binary(op, c, x) } else { Expr::binary(op, x, c) }
    }

    fn comparison(&mut self, depth: usize) -> Expr {
        let dtype = *self.choices.pick(&super::DTYPES);
        let op = *self.choices.pick(COMPARISONS);
        let a = self.expr(dtype, depth - 1);
        Expr::binary(op, a, self.expr(dtype, depth - 1))
    }

    /// A read, a local, an embedded index or a constant; of another type and converted where need be.
    fn leaf(&mut self, dtype: DType) -> Expr {
        let leaf = match self.choices.below(8) {
            6 => return self.constant(dtype),
            7 if !self.scope.is_empty() => {
                let index = self.drawn(4);
                Expr::Index { index, dtype: *self.choices.pick(&[DType::I32, DType::I64]) }
            }
            4 | 5 if !self.locals.is_empty() => Expr::local(self.choices.pick(&self.locals.clone()).0),
            _ => self.any_read(dtype),
        };
        let found = match &leaf {
            Expr::Index { dtype, .. } => *dtype,
            Expr::GetLocal { local, .. } => {
                self.locals.iter().find(|(l, _)| l == local).map_or(dtype, |&(_, t)| t)
            }
            Expr::Get { node, .. } | Expr::GetGuarded { node, .. } => self.nodes[node.index()].dtype,
            _ => dtype,
        };
        if found == dtype { leaf } else { Expr::convert(dtype, leaf) }
    }

    /// A read of some node, preferably one of the type, preferably a late one.
    fn any_read(&mut self, dtype: DType) -> Expr {
        let avoided = self.target.filter(|_| !self.choices.chance(1, 8));
        let all = (0..self.nodes.len() as u32).filter(|&i| Some(NodeRef(i)) != avoided);
        let all: Vec<u32> = all.collect();
        let same: Vec<u32> = all.iter().copied().filter(|&i| self.nodes[i as usize].dtype == dtype).collect();
        let from = if same.is_empty() || self.choices.chance(1, 3) { all } else { same };
        let late = self.choices.chance(1, 2);
        let at = if late { from.len() - 1 } else { self.choices.below(from.len()) };
        self.read(NodeRef(from[at]))
    }
}
