//! Random nests: maps, reductions, partial stores, and nests of several statements.

use lowered_ir::ir::{Affine, BinaryOp, Block, Bound, Expr, Indices, LoopId, LoopKind, NodeRef, Stmt};
use tnode::{DType, ModeState, Scalar};

use super::Maker;

impl Maker<'_, '_> {
    /// `node[i, j] := e` for all elements.
    pub(super) fn map(&mut self, node: NodeRef) -> Block {
        let (loops, index) = self.loops_over(node);
        let dtype = self.dtype(node);
        let value = self.expr(dtype, 3);
        self.close(&loops, vec![Stmt::Set { node, index, value }])
    }

    /// `node[i] := node[i] op e` in separate loops, with or without an initialization.
    pub(super) fn reduction(&mut self, node: NodeRef) -> Block {
        let mut block = match self.choices.below(4) {
            0 | 1 => vec![Stmt::Zero { node }],
            2 => self.initialize(node),
            _ => Block::new(),
        };
        let (mut loops, index) = self.loops_over(node);
        if self.is_number(node) && self.choices.chance(1, 6) {
            block.extend(self.one_hot(node, loops, index));
            return block;
        }
        for _ in 0..1 + self.choices.below(2) {
            let extent = 1 + self.choices.below(4) as i64;
            loops.push((self.enter(extent), extent));
        }
        let dtype = self.dtype(node);
        let element = self.expr(dtype, 2);
        let own = Expr::Get { node, index: index.clone() };
        let value = self.combined(dtype, own, element);
        block.extend(self.close(&loops, vec![Stmt::Set { node, index, value }]));
        block
    }

    /// `node[i] := node[i] + where(v == e, table[…, v, …], 0)` over an axis of a table, sometimes only a part
    /// of it.
    fn one_hot(&mut self, node: NodeRef, mut loops: Vec<(LoopId, i64)>, index: Indices) -> Block {
        let dtype = self.dtype(node);
        let numbers: Vec<NodeRef> = self.memory().into_iter().filter(|&n| self.is_number(n)).collect();
        let table = *self.choices.pick(&numbers);
        let mut labels = vec![DType::I32, DType::I32, DType::F32, DType::U8];
        labels.retain(|label| self.types.all.contains(label));
        let label = *self.choices.pick(&labels);
        let wanted = self.expr(label, 1);
        let mut read = self.index(table);
        let axis = self.choices.below(read.len().max(1));
        let whole = self.decl(table).dims.get(axis).map_or(2, |&dim| dim as i64);
        let extent = whole - i64::from(whole > 1 && self.choices.chance(1, 6));
        let class = self.enter(extent);
        loops.push((class, extent));
        if let Some(at) = read.get_mut(axis) {
            *at = Affine::var(class);
        }
        let iterator = Expr::Index { index: Affine::var(class), dtype: DType::I32 };
        let is_class = Expr::binary(BinaryOp::Eq, converted(label, DType::I32, iterator), wanted);
        let row = converted(dtype, self.dtype(table), Expr::Get { node: table, index: read });
        let element = match self.choices.chance(1, 3) {
            true => Expr::binary(BinaryOp::Mul, Expr::convert(dtype, is_class), row),
            false => Expr::select(is_class, row, Expr::Const(Scalar::zero(dtype))),
        };
        let own = Expr::Get { node, index: index.clone() };
        let value = Expr::binary(BinaryOp::Add, own, element);
        self.close(&loops, vec![Stmt::Set { node, index, value }])
    }

    fn is_number(&self, node: NodeRef) -> bool {
        !matches!(self.dtype(node), DType::Bool | DType::U32x4)
    }

    fn initialize(&mut self, node: NodeRef) -> Block {
        let (loops, index) = self.loops_over(node);
        let value = self.constant(self.dtype(node));
        self.close(&loops, vec![Stmt::Set { node, index, value }])
    }

    /// Stores at an index that need not reach every element, in a loop that a symbol or a loop around it may
    /// shorten.
    pub(super) fn partial(&mut self, node: NodeRef) -> Block {
        let extent = 1 + self.choices.below(4) as i64;
        let around = self.choices.chance(1, 3).then(|| self.enter(3));
        let var = self.enter(extent);
        if self.choices.chance(1, 2) {
            self.clip(var);
        }
        let index = self.index(node);
        let dtype = self.dtype(node);
        let value = self.expr(dtype, 2);
        self.scope.pop();
        let lo = i64::from(self.choices.chance(1, 8));
        let body = vec![Stmt::Set { node, index, value }];
        let hi = self.clips.get(&var).cloned().into_iter().fold(Bound::from(extent), Bound::clipped);
        let inner = vec![Stmt::For { var, lo, hi, kind: LoopKind::Serial, body }];
        match around {
            Some(around) => self.close(&[(around, 3)], inner),
            None => inner,
        }
    }

    /// A nest of several statements: stores to this node and others, accumulations, a local, repeated values.
    pub(super) fn fused(&mut self, node: NodeRef) -> Block {
        let local = self.fresh.local_id();
        let ldtype = *self.choices.pick(&self.types.all);
        let declare = Stmt::scalar(local, ldtype);
        let carried = self.choices.chance(1, 4);
        let mut block = if carried { vec![declare.clone()] } else { Block::new() };
        let (loops, index) = self.loops_over(node);
        let mut body = if carried { Block::new() } else { vec![declare] };
        let first = self.accumulate(Expr::local(local), ldtype, |value| Stmt::set_scalar(local, value));
        body.extend(first);
        self.locals.push((Expr::local(local), ldtype));
        let mut recent = Vec::new();
        for _ in 0..1 + self.choices.below(4) {
            let stmts = self.fused_part(node, &index, &mut recent);
            body.extend(stmts);
        }
        self.locals.pop();
        block.extend(self.close(&loops, body));
        block
    }

    /// One statement of a fused nest; values in `recent` may be repeated.
    fn fused_part(&mut self, node: NodeRef, index: &Indices, recent: &mut Vec<(DType, Expr)>) -> Block {
        let dtype = self.dtype(node);
        match self.choices.below(8) {
            6 => self.store_computed(node, 2),
            7 if self.choices.chance(1, 2) => self.remark(),
            0 | 1 => {
                let value = self.repeated(dtype, recent);
                vec![Stmt::Set { node, index: index.clone(), value }]
            }
            2 => {
                let (own, index) = (Expr::Get { node, index: index.clone() }, index.clone());
                self.accumulate(own, dtype, |value| Stmt::Set { node, index, value })
            }
            3 => {
                let other = self.node(ModeState::undecided());
                self.routine.nodes[other.index()].dims = self.decl(node).dims.clone();
                let value = self.repeated(self.dtype(other), recent);
                vec![Stmt::Set { node: other, index: index.clone(), value }]
            }
            _ => {
                let other = self.any_memory();
                let index = self.index(other);
                let value = self.repeated(self.dtype(other), recent);
                vec![Stmt::Set { node: other, index, value }]
            }
        }
    }

    /// `own := own op e` in a small loop of its own.
    fn accumulate(&mut self, own: Expr, dtype: DType, store: impl FnOnce(Expr) -> Stmt) -> Block {
        let extent = 1 + self.choices.below(3) as i64;
        let var = self.enter(extent);
        let element = self.expr(dtype, 2);
        let value = self.combined(dtype, own, element);
        self.scope.pop();
        vec![Stmt::serial(var, extent, vec![store(value)])]
    }

    /// A new value, or a repetition of an earlier one.
    fn repeated(&mut self, dtype: DType, recent: &mut Vec<(DType, Expr)>) -> Expr {
        let same: Vec<Expr> = recent.iter().filter(|(d, _)| *d == dtype).map(|(_, e)| e.clone()).collect();
        if !same.is_empty() && self.choices.chance(1, 2) {
            return self.choices.pick(&same).clone();
        }
        let value = self.expr(dtype, 2);
        recent.push((dtype, value.clone()));
        value
    }
}

fn converted(to: DType, from: DType, value: Expr) -> Expr {
    if to == from { value } else { Expr::convert(to, value) }
}
