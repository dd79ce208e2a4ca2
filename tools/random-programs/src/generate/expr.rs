//! Expressions.

use tnode::DType;

use super::{ProgramMaker, ValueScope, index};
use crate::program::{
    BinaryFunction, ProgramAccess, ProgramAxis, ProgramExpr, ProgramNode, ProgramNumber, ProgramVar,
};
use crate::types::{ExprType, ExprTypes};
use crate::weights::{ExpressionKind, LeafKind};

impl ProgramMaker<'_, '_> {
    pub(super) fn types(&self, scope: &ValueScope) -> ExprTypes<'_> {
        ExprTypes { program: &self.program, written: scope.written }
    }

    /// An expression of at most `levels` levels.
    pub(super) fn expr(&mut self, scope: &ValueScope, levels: usize) -> ProgramExpr {
        if levels == 0 {
            return self.leaf(scope);
        }
        match self.choices.pick(self.weights.expressions) {
            ExpressionKind::Leaf => self.leaf(scope),
            ExpressionKind::Function => {
                let op = *self.choices.pick(self.weights.functions);
                ProgramExpr::Unary(op, Box::new(self.expr(scope, levels - 1)))
            }
            ExpressionKind::Cast => {
                let dtype = self.dtype();
                let inner = self.expr(scope, levels - 1);
                match self.types(scope).of(&inner) {
                    ExprType::Known(_) => ProgramExpr::Cast(dtype, Box::new(inner)),
                    _ => inner,
                }
            }
            ExpressionKind::Where => {
                let condition = self.comparison(scope, levels - 1);
                ProgramExpr::Where(Box::new([
                    condition,
                    self.expr(scope, levels - 1),
                    self.expr(scope, levels - 1),
                ]))
            }
            ExpressionKind::Fma => ProgramExpr::Fma(Box::new([0; 3].map(|_| self.expr(scope, levels - 1)))),
            ExpressionKind::Comparison => self.comparison(scope, levels - 1),
            ExpressionKind::Bits => self.bits(scope, levels - 1),
            ExpressionKind::Operator => {
                let op = *self.choices.pick(self.weights.operators);
                self.two(op, scope, levels - 1)
            }
        }
    }

    pub(super) fn two(&mut self, op: BinaryFunction, scope: &ValueScope, levels: usize) -> ProgramExpr {
        let a = self.expr(scope, levels);
        let b = if op == BinaryFunction::Pow && self.choices.chance(2, 3) {
            let exponents = [
                ProgramNumber::Integer(2),
                ProgramNumber::Integer(3),
                ProgramNumber::Fraction(0.5),
                ProgramNumber::Integer(0),
            ];
            ProgramExpr::Number(*self.choices.pick(&exponents))
        } else {
            self.expr(scope, levels)
        };
        ProgramExpr::Binary(op, Box::new([a, b]))
    }

    pub(super) fn comparison(&mut self, scope: &ValueScope, levels: usize) -> ProgramExpr {
        use BinaryFunction::{Eq, Ge, Gt, Le, Lt, Ne};
        let op = *self.choices.pick(&[Lt, Eq, Le, Ne, Gt, Ge]);
        let a = self.typed(scope, levels);
        ProgramExpr::Binary(op, Box::new([a, self.expr(scope, levels)]))
    }

    /// An expression whose type does not depend on its context.
    pub(super) fn typed(&mut self, scope: &ValueScope, levels: usize) -> ProgramExpr {
        let a = self.expr(scope, levels);
        match self.types(scope).of(&a) {
            ExprType::Known(_) => a,
            _ => ProgramExpr::Cast(DType::F32, Box::new(self.read(scope))),
        }
    }

    /// An operation on the bits of integers.
    pub(super) fn bits(&mut self, scope: &ValueScope, levels: usize) -> ProgramExpr {
        use BinaryFunction::{BitAnd, BitOr, BitXor, Shl, Shr};
        let op = *self.choices.pick(&[BitAnd, Shl, BitOr, Shr, BitXor]);
        let args = [0; 2].map(|_| {
            let arg = self.typed(scope, levels);
            match self.types(scope).of(&arg) {
                ExprType::Known(dtype) if !dtype.is_float() => arg,
                _ => ProgramExpr::Cast(*self.choices.pick(&index::INDEX_TYPES), Box::new(arg)),
            }
        });
        ProgramExpr::Binary(op, Box::new(args))
    }

    pub(super) fn leaf(&mut self, scope: &ValueScope) -> ProgramExpr {
        match self.choices.pick(self.weights.leaves) {
            LeafKind::Number => ProgramExpr::Number(self.number()),
            LeafKind::Letter if scope.letters.is_empty() => {
                ProgramExpr::Var(ProgramVar::Symbol(self.symbol()))
            }
            LeafKind::Letter => ProgramExpr::Var(ProgramVar::Letter(*self.choices.pick(&scope.letters))),
            LeafKind::Symbol => match scope.letters.first() {
                Some(&letter) if self.choices.chance(1, 3) => {
                    let value = ProgramExpr::Var(ProgramVar::Letter(letter));
                    ProgramExpr::Binary(BinaryFunction::Sub, Box::new([value, ProgramExpr::Size(letter)]))
                }
                _ => ProgramExpr::Var(ProgramVar::Symbol(self.symbol())),
            },
            LeafKind::Gather => self.gather(scope),
            LeafKind::Own => match scope.own.clone() {
                Some(own) => ProgramExpr::Read(own),
                None => self.read(scope),
            },
            LeafKind::Read => self.read(scope),
        }
    }

    pub(super) fn number(&mut self) -> ProgramNumber {
        *self.choices.pick(self.weights.numbers)
    }

    pub(super) fn read(&mut self, scope: &ValueScope) -> ProgramExpr {
        let known: Vec<usize> = self.valued.iter().copied().filter(|&node| node != scope.target).collect();
        let (part, whole) = self.weights.rereads;
        if !known.is_empty() && self.choices.chance(part, whole) {
            // Prefers the latest node.
            let back = self.choices.below(known.len());
            let node = known[known.len() - 1 - back];
            return ProgramExpr::Read(self.access(scope, node));
        }
        let letters: Vec<usize> =
            scope.letters.iter().copied().filter(|_| !self.choices.chance(1, 4)).collect();
        let dtype = self.dtype();
        let (dims, axes) = self.shape(&letters);
        let node = self.input(dtype, dims);
        if self.weights.has_margins && self.choices.below(10) == 9 {
            self.program.nodes[node].margin = 1 + self.choices.below(2);
            let is_declared = self.choices.chance(1, 3);
            self.program.nodes[node].neutral = is_declared.then_some(2.0);
            return ProgramExpr::Read(self.access(scope, node));
        }
        ProgramExpr::Read(ProgramAccess { node, axes, pad: None })
    }

    /// An access to a node with values, sometimes out of bounds with `pad`, or in its margins.
    pub(super) fn access(&mut self, scope: &ValueScope, node: usize) -> ProgramAccess {
        let ProgramNode { dtype, margin, .. } = self.program.nodes[node];
        if self.weights.has_pad && self.choices.chance(1, 5) {
            let pad = match self.choices.below(3) {
                2 if dtype.is_float() => ProgramNumber::Fraction(0.5),
                1 => ProgramNumber::Integer(1),
                _ => ProgramNumber::Integer(0),
            };
            let axes = self.index_into(node, &scope.letters, 3);
            return ProgramAccess { node, axes, pad: Some(pad) };
        }
        let beyond = if self.weights.reads_margins { margin as i64 } else { 0 };
        let axes = self.index_into(node, &scope.letters, beyond);
        ProgramAccess { node, axes, pad: None }
    }

    pub(super) fn gather(&mut self, scope: &ValueScope) -> ProgramExpr {
        let ProgramExpr::Read(mut access) = self.read(scope) else { unreachable!("a read") };
        let ProgramNode { dims, margin, .. } = self.program.nodes[access.node].clone();
        if dims.is_empty() || access.is_computed() {
            return ProgramExpr::Read(access);
        }
        let axis = self.choices.below(dims.len());
        if margin > 0 {
            // All other indices are in bounds.
            access.axes = self.index_into(access.node, &scope.letters, 0);
        }
        if access.pad.is_some() {
            access.axes = self.index_into(access.node, &scope.letters, 0);
        }
        let index = self.computed_index(&scope.letters, dims[axis]);
        access.axes[axis] = ProgramAxis::Computed(Box::new(index));
        ProgramExpr::Read(access)
    }
}
