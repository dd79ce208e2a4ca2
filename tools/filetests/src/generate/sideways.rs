//! Random statements that do not store at a statically known index: computed stores, logs, comments.

use lowered_ir::ir::{Block, LogPart, NodeRef, Stmt};
use tnode::DType;

use super::{Maker, types::accumulating_ops};

impl Maker<'_, '_> {
    /// Loops around a computed store.
    pub(super) fn scatter(&mut self, node: NodeRef) -> Block {
        let mut loops = Vec::new();
        for _ in 0..1 + self.choices.below(2) {
            let extent = 1 + self.choices.below(5) as i64;
            loops.push((self.enter(extent), extent));
        }
        let body = self.store_computed(node, 2);
        self.close(&loops, body)
    }

    /// A computed store, with or without an operation. A scalar has no dimension to compute, and gets an
    /// ordinary store.
    pub(super) fn store_computed(&mut self, node: NodeRef, depth: usize) -> Block {
        let dtype = self.dtype(node);
        let Some((index, axis)) = self.index_but_one(node) else {
            let value = self.expr(dtype, depth);
            return vec![Stmt::Set { node, index: self.index(node), value }];
        };
        let at = self.computed(node, axis, depth - 1);
        let accumulates = dtype != DType::U32x4 && self.choices.chance(2, 3);
        let op = accumulates.then(|| *self.choices.pick(&accumulating_ops()));
        let value = self.expr(dtype, depth);
        vec![Stmt::SetDynamic { node, index, axis, at: Box::new(at), op, value }]
    }

    /// A comment or a log statement.
    pub(super) fn remark(&mut self) -> Block {
        if !self.choices.chance(2, 3) {
            return vec![Stmt::Comment("drawn".into())];
        }
        let mut parts = vec![LogPart::Text("value ".into())];
        for _ in 0..self.choices.below(3) {
            let dtype = *self.choices.pick(&self.types.all);
            parts.push(LogPart::Value(self.expr(dtype, 1)));
            parts.push(LogPart::Text("; \"text\"".into()));
        }
        vec![Stmt::Log { parts }]
    }
}
