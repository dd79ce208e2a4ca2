//! Random indices, in bounds by construction.

use lowered_ir::ir::{
    Affine, Expr, Guard, Indices, LoopId, NodeRef, Quotient, Range, SymbolId, Var, VariableBounds,
    index_bounds,
};

use super::{Maker, Scoped};

impl Maker<'_, '_> {
    /// An index of the node that is in bounds for all values of the variables in scope.
    pub(super) fn index(&mut self, node: NodeRef) -> Indices {
        let dims = self.decl(node).dims.clone();
        let diagonal = self.choices.chance(1, 8);
        let mut index: Vec<Affine> = Vec::new();
        for &dim in &dims {
            let repeated = index.first().cloned().filter(|_| diagonal).filter(|i| self.fits(i, dim as i64));
            let next = repeated.unwrap_or_else(|| self.along(dim as i64));
            index.push(next);
        }
        index.into()
    }

    /// An index of one dimension.
    fn along(&mut self, dim: i64) -> Affine {
        let drawn = self.drawn(dim);
        let Some((lo, hi)) = self.bounds(&drawn) else { return Affine::constant(0) };
        let shifted = if hi - lo < dim && (lo < 0 || hi >= dim) { drawn.plus_constant(-lo) } else { drawn };
        if self.fits(&shifted, dim) {
            shifted
        } else {
            Affine::constant(self.choices.below(dim as usize) as i64)
        }
    }

    /// A combination of variables, in bounds or not.
    pub(super) fn drawn(&mut self, dim: i64) -> Affine {
        if self.scope.is_empty() {
            return Affine::constant(self.choices.below(dim.max(1) as usize) as i64);
        }
        let one = *self.choices.pick(&self.scope.clone());
        match self.choices.below(8) {
            0..=2 => self.fitting(dim).unwrap_or_else(|| Affine::var(one.var)),
            3 => Affine::var(one.var).plus_constant(self.choices.below(3) as i64 - 1),
            4 => Affine::term(one.var, -1).plus_constant(dim - 1),
            5 => Affine::term(one.var, 2).plus_constant(self.choices.below(2) as i64),
            6 => Affine::var(one.var).plus(&Affine::var(self.choices.pick(&self.scope.clone()).var)),
            _ => Affine::constant(self.choices.below(dim.max(1) as usize) as i64),
        }
    }

    /// A variable whose range is exactly the dimension, if there is one.
    fn fitting(&mut self, dim: i64) -> Option<Affine> {
        let fitting: Vec<Scoped> =
            self.scope.iter().filter(|v| v.lo == 0 && v.hi == dim - 1).copied().collect();
        (!fitting.is_empty()).then(|| Affine::var(self.choices.pick(&fitting).var))
    }

    fn fits(&self, index: &Affine, dim: i64) -> bool {
        self.bounds(index).is_some_and(|(lo, hi)| 0 <= lo && hi < dim)
    }

    fn bounds(&self, index: &Affine) -> Option<(i64, i64)> {
        index_bounds(index, self)
    }

    /// A read of the node, guarded if the random index may be out of bounds.
    pub(super) fn read(&mut self, node: NodeRef) -> Expr {
        if !self.choices.chance(1, 6) {
            return Expr::Get { node, index: self.index(node) };
        }
        let decl = self.decl(node).clone();
        let (mut guard, mut index) = (Guard::new(), Vec::new());
        for &dim in &decl.dims {
            let drawn = self.drawn(dim as i64);
            if !self.fits(&drawn, dim as i64) {
                guard.push(Range { index: drawn.clone(), lo: 0, hi: dim as i64 });
            }
            index.push(drawn);
        }
        let otherwise = Box::new(self.constant(decl.dtype));
        Expr::GetGuarded { guard, node, index: index.into(), otherwise }
    }
}

impl VariableBounds for Maker<'_, '_> {
    fn interval(&self, var: Var) -> (i64, i64) {
        self.scope.iter().find(|v| v.var == var).map_or((0, 0), |v| (v.lo, v.hi))
    }

    fn clips(&self, var: LoopId) -> &[Affine] {
        self.clips.get(&var).map_or(&[], std::slice::from_ref)
    }

    fn quotient(&self, _: SymbolId) -> Option<Quotient> {
        None
    }
}
