//! The nests that attention consists of.

use codegen_core::canonical::Axis;
use lowered_ir::ir::{
    Affine, BinaryOp, Bound, Expr, Indices, LocalId, LoopId, LoopKind, LoweredRoutine, NodeRef, Stmt,
    TernaryOp, Var, walk,
};
use tnode::{DType, Scalar};

use crate::analysis::nodes::is_local;
use crate::analysis::reduction::neutral;
use codegen_core::dependence::mentions;

/// A statement in loops: the variables and ends of a chain of serial loops from 0, and the body.
pub(super) fn chain(stmt: &Stmt) -> (Vec<(LoopId, Bound)>, Vec<&Stmt>) {
    let (mut loops, mut block) = (Vec::new(), std::slice::from_ref(stmt));
    while let [Stmt::For { var, lo: 0, hi, kind: LoopKind::Serial, body }] = block {
        loops.push((*var, hi.clone()));
        block = body;
    }
    (loops, block.iter().filter(|stmt| !matches!(stmt, Stmt::Comment(_))).collect())
}

/// `for loops { acc := start; for inner { acc := step }; node[index] := value }`, in `f32`, where `start` is
/// the neutral element of the step: -inf of maxima, 0 of sums.
pub(super) struct Reduced {
    pub(super) loops: Vec<(LoopId, Bound)>,
    pub(super) inner: (LoopId, Bound),
    pub(super) acc: LocalId,
    start: Scalar,
    pub(super) step: Expr,
    pub(super) stored: ElementStore,
}

/// `node[index] := value`
#[derive(Clone)]
pub(super) struct ElementStore {
    pub(super) node: NodeRef,
    pub(super) index: Indices,
    pub(super) value: Expr,
}

impl ElementStore {
    pub(super) fn of(stmt: &Stmt) -> Option<ElementStore> {
        let Stmt::Set { node, index, value } = stmt else { return None };
        Some(ElementStore { node: *node, index: index.clone(), value: value.clone() })
    }

    /// Whether each of these variables is the index of one dimension; other dimensions have constants.
    pub(super) fn is_indexed_by(&self, vars: &[LoopId]) -> bool {
        let indices = self.index.iter().filter(|index| index.as_constant().is_none());
        let mut found: Vec<Option<Var>> = indices.map(Affine::as_var).collect();
        let mut vars: Vec<Option<Var>> = vars.iter().map(|&var| Some(Var::Loop(var))).collect();
        found.sort_unstable();
        vars.sort_unstable();
        found == vars
    }

    /// The same store with an expression in the place of a scalar local.
    pub(super) fn with_local(&self, local: LocalId, by: &Expr) -> ElementStore {
        let value = walk::map_expr(self.value.clone(), &mut |e| match e {
            e if e == Expr::local(local) => by.clone(),
            e => e,
        });
        ElementStore { node: self.node, index: self.index.clone(), value }
    }
}

impl Reduced {
    pub(super) fn of(stmt: &Stmt) -> Option<Reduced> {
        let (loops, body) = chain(stmt);
        let [
            Stmt::Declare { local: acc, dtype: DType::F32, .. },
            Stmt::SetLocal { local, value: Expr::Const(start), .. },
            inner,
            set,
        ] = body.as_slice()
        else {
            return None;
        };
        let (inner, step) = chain(inner);
        let ([inner], [Stmt::SetLocal { local: stepped, value: step, .. }]) =
            (inner.as_slice(), step.as_slice())
        else {
            return None;
        };
        ([local, stepped] == [acc, acc]).then_some(())?;
        let (inner, step, stored) = (inner.clone(), step.clone(), ElementStore::of(set)?);
        Some(Reduced { loops, inner, acc: *acc, start: *start, step, stored })
    }

    /// What the accumulator is combined with by an operation.
    pub(super) fn operand(&self, op: BinaryOp) -> Option<&Expr> {
        if Some(self.start) != neutral(op, DType::F32) {
            return None;
        }
        match &self.step {
            Expr::Binary { op: found, a, b } if *found == op && **b == Expr::local(self.acc) => Some(a),
            Expr::Binary { op: found, a, b } if *found == op && **a == Expr::local(self.acc) => Some(b),
            _ => None,
        }
    }

    /// The factors that are multiplied and added to the accumulator.
    pub(super) fn factors(&self) -> Option<[&Expr; 2]> {
        let is_sum = self.start == Scalar::zero(DType::F32);
        match &self.step {
            Expr::Ternary { op: TernaryOp::Fma, a, b, c } if is_sum && **c == Expr::local(self.acc) => {
                Some([a, b])
            }
            _ => None,
        }
    }
}

/// The product of queries and keys.
pub(super) struct ScoreMatmul {
    pub(super) batch: Vec<Axis>,
    pub(super) row: Axis,
    pub(super) position: (LoopId, Bound),
    pub(super) depth: Axis,
    pub(super) query: Expr,
    pub(super) key: Expr,
    /// The constant factor of the operands.
    factor: Option<Expr>,
    acc: LocalId,
    stored: ElementStore,
}

impl ScoreMatmul {
    /// The variables of the loops around the rows, and of the rows.
    pub(super) fn outer(&self) -> Vec<LoopId> {
        self.batch.iter().chain([&self.row]).map(|axis| axis.var).collect()
    }

    pub(super) fn of(routine: &LoweredRoutine, at: usize) -> Option<ScoreMatmul> {
        let found = Reduced::of(&routine.body[at])?;
        let [a, b] = found.factors()?;
        let decl = routine.node(found.stored.node);
        let vars: Vec<LoopId> = found.loops.iter().map(|(var, _)| *var).collect();
        let is_score = is_local(decl) && decl.dtype == DType::F32 && found.stored.is_indexed_by(&vars);
        is_score.then_some(())?;
        let depth = Axis { var: found.inner.0, extent: found.inner.1.constant()? };
        let only = |one: &Expr, other: &Expr| {
            let own = found.loops.iter().filter(|(var, _)| mentions(one, *var) && !mentions(other, *var));
            own.max_by_key(|(_, end)| end.limit).cloned()
        };
        // Positions are contiguous in the scores, if either axis could be theirs.
        let last = found.stored.index.last()?.as_var();
        let is_last = |axis: &Option<(LoopId, Bound)>| {
            axis.as_ref().is_some_and(|(var, _)| Some(Var::Loop(*var)) == last)
        };
        let (query, key) = if is_last(&only(b, a)) { (a, b) } else { (b, a) };
        let (row, position) = (only(query, key)?, only(key, query)?);
        let constant = |(var, end): &(LoopId, Bound)| Some(Axis { var: *var, extent: end.constant()? });
        let around = found.loops.iter().filter(|(var, _)| ![row.0, position.0].contains(var));
        let batch: Option<Vec<Axis>> = around.map(constant).collect();
        let (query, scale) = without_constant(query);
        let (key, other) = without_constant(key);
        let factor = match (scale, other) {
            (Some(a), Some(b)) => Some(Expr::binary(BinaryOp::Mul, a, b)),
            (a, b) => a.or(b),
        };
        Some(ScoreMatmul {
            batch: batch?,
            row: constant(&row)?,
            position,
            depth,
            query,
            key,
            factor,
            acc: found.acc,
            stored: found.stored,
        })
    }

    /// What is stored, with the product without its constant factor in a local.
    pub(super) fn stored(&self, product: LocalId) -> ElementStore {
        let scaled = match &self.factor {
            None => Expr::local(product),
            Some(factor) => Expr::binary(BinaryOp::Mul, Expr::local(product), factor.clone()),
        };
        self.stored.with_local(self.acc, &scaled)
    }
}

/// An operand without its constant factor, and that factor.
fn without_constant(operand: &Expr) -> (Expr, Option<Expr>) {
    match operand {
        Expr::Binary { op: BinaryOp::Mul, a, b } => match (&**a, &**b) {
            (Expr::Const(_), _) => ((**b).clone(), Some((**a).clone())),
            (_, Expr::Const(_)) => ((**a).clone(), Some((**b).clone())),
            _ => (operand.clone(), None),
        },
        _ => (operand.clone(), None),
    }
}
