//! Leaves of expressions: constants, embedded indices, and all kinds of reads.

use lowered_ir::ir::{Affine, BinaryOp, Expr, Indices, NodeRef};
use tnode::{DType, ModeState, Scalar};

use super::Maker;

impl Maker<'_, '_> {
    /// A read, a local, an embedded index or a constant, converted if it has another type.
    pub(super) fn leaf(&mut self, dtype: DType) -> Expr {
        match self.choices.below(10) {
            6 => self.constant(dtype),
            7 if !self.scope.is_empty() => {
                let index = self.drawn(4);
                let found = *self.choices.pick(&self.types.embedded);
                self.as_type(dtype, found, Expr::Index { index, dtype: found })
            }
            4 | 5 | 8 if !self.locals.is_empty() => {
                let (local, found) = self.choices.pick(&self.locals.clone()).clone();
                self.as_type(dtype, found, local)
            }
            9 if self.choices.chance(1, 4) => {
                let node = self.merged(dtype);
                let read = Expr::GetMerge { node, index: self.index(node) };
                self.as_type(dtype, self.dtype(node), read)
            }
            _ => {
                let node = self.any_node(dtype);
                let read = self.read(node);
                self.as_type(dtype, self.dtype(node), read)
            }
        }
    }

    /// Converts an expression of type `found` to type `dtype`.
    pub(super) fn as_type(&mut self, dtype: DType, found: DType, expr: Expr) -> Expr {
        match (dtype, found) {
            _ if dtype == found => expr,
            (DType::U32x4, _) => {
                let word = Expr::convert(DType::U32, expr);
                let lanes = [word.clone(), self.constant(DType::U32), self.constant(DType::U32), word];
                Expr::Lanes(Box::new(lanes))
            }
            (_, DType::U32x4) => {
                let word = Expr::lane(self.choices.below(4) as u8, expr);
                self.as_type(dtype, DType::U32, word)
            }
            _ => Expr::convert(dtype, expr),
        }
    }

    /// A random node, preferably one of the type that was declared late.
    fn any_node(&mut self, dtype: DType) -> NodeRef {
        let avoided = self.target.filter(|_| !self.choices.chance(1, 8));
        let all: Vec<NodeRef> = self.memory().into_iter().filter(|&node| Some(node) != avoided).collect();
        let same: Vec<NodeRef> = all.iter().copied().filter(|&node| self.dtype(node) == dtype).collect();
        let from = if same.is_empty() || self.choices.chance(1, 3) { all } else { same };
        let late = self.choices.chance(1, 2);
        let at = if late { from.len() - 1 } else { self.choices.below(from.len()) };
        from[at]
    }

    /// The node of the merge buffer. The first read of the buffer decides its type.
    fn merged(&mut self, dtype: DType) -> NodeRef {
        if let Some(node) = self.merge {
            return node;
        }
        let node = self.node(ModeState::undecided());
        self.routine.nodes[node.index()].dtype = dtype;
        self.merge = Some(node);
        node
    }

    /// An element at a computed index, converted to the type.
    pub(super) fn gather_as(&mut self, dtype: DType, depth: usize) -> Expr {
        let node = self.any_node(dtype);
        let found = self.dtype(node);
        let Some((index, axis)) = self.index_but_one(node) else {
            let read = self.read(node);
            return self.as_type(dtype, found, read);
        };
        let at = Box::new(self.computed(node, axis, depth - 1));
        let otherwise = Box::new(self.expr(found, depth - 1));
        self.as_type(dtype, found, Expr::GetDynamic { node, index, axis, at, otherwise })
    }

    /// A random index of the node that leaves one dimension open for a computed index; `None` for a scalar.
    pub(super) fn index_but_one(&mut self, node: NodeRef) -> Option<(Indices, usize)> {
        let rank = self.decl(node).dims.len();
        if rank == 0 {
            return None;
        }
        let mut index = self.index(node);
        let axis = self.choices.below(rank);
        index[axis] = Affine::constant(0);
        Some((index, axis))
    }

    /// A computed index of a dimension of the node: mostly in bounds, sometimes not.
    pub(super) fn computed(&mut self, node: NodeRef, axis: usize, depth: usize) -> Expr {
        let dim = self.decl(node).dims[axis];
        let dtype = *self.choices.pick(&self.types.integers);
        match self.choices.below(5) {
            0 | 1 if !self.scope.is_empty() => {
                let index = self.drawn(dim as i64);
                let found = *self.choices.pick(&self.types.embedded);
                self.as_type(dtype, found, Expr::Index { index, dtype: found })
            }
            2 => {
                let at = self.choices.below(dim + 2) as i64 - 1;
                Expr::Const(Scalar::from_i64(dtype, at))
            }
            3 => self.expr(dtype, depth),
            _ => {
                let size = Expr::Const(Scalar::from_i64(dtype, dim as i64));
                Expr::binary(BinaryOp::Rem, self.expr(dtype, depth), size)
            }
        }
    }
}
