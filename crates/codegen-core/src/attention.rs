//! Attention in one pass: kernels that never store the scores.
//!
//! ```text
//! for batch…, row {                                  ; one thread each
//!   m := -inf;  l := 0;  o[…] := 0                   ; greatest score, sum of weights, sums of values
//!   for position {
//!     s := 0;  for depth { s := fma(query, key, s) }
//!     n := max(score(s), m)
//!     c := where(n == m, 1, rescale(m, n))
//!     w := where(n == -inf, 0, weight(s, n))
//!     l := fma(l, c, w)
//!     for feature { o[feature] := fma(value, operand(w), o[feature] · c) }
//!     m := n
//!   }
//!   for feature { epilogue }                         ; reads o[feature] and l
//! }
//! ```
//!
//! The weights of a softmax are relative to the greatest score of a row. Here it is the greatest of the
//! positions so far; whenever a greater one comes, `rescale` corrects what was summed before. A row whose
//! scores are all -inf has weights of 0.
//!
//! The scheduler writes a kernel in this form if [`AttentionNest::suits_tensor_cores`], and the codegen
//! recognizes it by [`AttentionNest::of`]. As with [matmuls](crate::matrices), the codegen adds in an order
//! of its own, so only class `Fast` has such kernels.
//!
//! Source: Milakov and Gimelshein, Online normalizer calculation for softmax, 2018; Dao et al.,
//! FlashAttention, 2022.

use lowered_ir::ir::{
    Affine, BinaryOp, Block, Bound, Expr, LocalId, LoopId, LoopKind, Space, Stmt, TernaryOp,
};
use smallvec::smallvec;
use tnode::{DType, Dims, Scalar};

use crate::DTypeSet;
use crate::canonical::{Arrays, Axis, read_of};
use crate::matrices::Matrix;

/// The parts of such a kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct AttentionNest {
    /// The loops around the rows.
    pub batch: Vec<Axis>,
    /// The loop over the rows: the positions that attend.
    pub row: Axis,
    /// The loop over the positions that are attended to, which may end at a diagonal.
    pub position: LoopId,
    /// The end of that loop.
    pub end: Bound,
    /// The loop over the elements of queries and keys.
    pub depth: Axis,
    /// The loops over the elements of values: the one that fills sums with zeros, the one that adds, and the
    /// one around the epilogue.
    pub features: [LoopId; 3],
    /// The number of elements of a value.
    pub num_features: i64,
    /// The factors of a score.
    pub query: Expr,
    /// See [`query`](AttentionNest::query).
    pub key: Expr,
    /// An element of a value.
    pub value: Expr,
    /// What is maximized: a function of [`product`](AttentionLocals::product).
    pub score: Computation,
    /// The factor between weights relative to one greatest score and to the next: a function of
    /// [`greatest`](AttentionLocals::greatest) and [`next`](AttentionLocals::next).
    pub rescale: Computation,
    /// The weight: a function of `product` and `next`.
    pub weight: Computation,
    /// The factor of the values: an expression of [`weight`](AttentionLocals::weight), which is the weight
    /// itself or its rounding to a type of 16 bits.
    pub operand: Expr,
    /// The statements for each feature of a row.
    pub epilogue: Block,
    /// The locals.
    pub locals: AttentionLocals,
}

/// A value, and the statements that compute the locals which it reads.
#[derive(Clone, Debug, PartialEq)]
pub struct Computation {
    /// The statements.
    pub before: Block,
    /// The value.
    pub value: Expr,
}

impl From<Expr> for Computation {
    fn from(value: Expr) -> Computation {
        Computation { before: Block::new(), value }
    }
}

/// The locals of an [`AttentionNest`]: scalars of `f32`, except for `sums`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttentionLocals {
    /// The greatest score before a position.
    pub greatest: LocalId,
    /// The sum of the weights.
    pub weights: LocalId,
    /// The sums of the weighted values, an array over the features.
    pub sums: LocalId,
    /// The product of a query and a key.
    pub product: LocalId,
    /// The greatest score up to a position.
    pub next: LocalId,
    /// The factor that corrects the sums.
    pub factor: LocalId,
    /// The weight of a position.
    pub weight: LocalId,
}

/// The operands, as matrices of rows by depth, of positions by depth, and of positions by features.
#[derive(Clone, Debug, PartialEq)]
pub struct AttentionMatrices {
    /// The queries.
    pub query: Matrix,
    /// The keys.
    pub key: Matrix,
    /// The values.
    pub value: Matrix,
}

/// The least number of rows and of positions, and the most features, for which there are tiles.
const LEAST: i64 = 16;
const MOST_FEATURES: i64 = 256;
/// The most of anything that a 32-bit index counts.
const MOST: i64 = 1 << 24;

impl AttentionNest {
    /// Recognizes a kernel in this form.
    pub fn of(stmt: &Stmt) -> Option<AttentionNest> {
        let mut loops = Vec::new();
        let mut body = std::slice::from_ref(stmt);
        while let [Stmt::For { var, lo: 0, hi, body: inner, .. }] = body {
            loops.push(Axis { var: *var, extent: hi.constant()? });
            body = inner;
        }
        let row = loops.pop()?;
        let found = read(body, loops, row)?;
        (found.body() == *body).then_some(found)
    }

    /// The kernel, with loops of this kind over batch and rows.
    pub fn stmt(&self, kind: LoopKind) -> Stmt {
        let around = |body, axis: &Axis| Stmt::looped(axis.var, axis.extent, kind, vec![body]);
        let rows = Stmt::looped(self.row.var, self.row.extent, kind, self.body());
        self.batch.iter().rev().fold(rows, around)
    }

    /// The statements of a row.
    fn body(&self) -> Block {
        let locals = &self.locals;
        let [zeros, _, features] = self.features;
        let zero = || Expr::Const(Scalar::zero(DType::F32));
        let sums = Stmt::Declare {
            local: locals.sums,
            dtype: DType::F32,
            dims: smallvec![self.num_features as usize],
            space: Space::Stack,
        };
        vec![
            scalar(locals.greatest),
            scalar(locals.weights),
            sums,
            Stmt::set_scalar(locals.greatest, least()),
            Stmt::set_scalar(locals.weights, zero()),
            Stmt::serial(zeros, self.num_features, vec![self.set_sum(zeros, zero())]),
            Stmt::For {
                var: self.position,
                lo: 0,
                hi: self.end.clone(),
                kind: LoopKind::Serial,
                body: self.step(),
            },
            Stmt::serial(features, self.num_features, self.epilogue.clone()),
        ]
    }

    /// The statements of a position.
    fn step(&self) -> Block {
        let locals = &self.locals;
        let get = Expr::local;
        let zero = || Expr::Const(Scalar::zero(DType::F32));
        let one = Expr::Const(Scalar::one(DType::F32));
        let product = Expr::fma(self.query.clone(), self.key.clone(), get(locals.product));
        let next = |score| Expr::binary(BinaryOp::Max, score, get(locals.greatest));
        let same = Expr::binary(BinaryOp::Eq, get(locals.next), get(locals.greatest));
        let none = Expr::binary(BinaryOp::Eq, get(locals.next), least());
        let add = self.features[1];
        let corrected = Expr::binary(BinaryOp::Mul, self.sum(add), get(locals.factor));
        let added = Expr::fma(self.value.clone(), self.operand.clone(), corrected);
        let set = |local, of: &Computation, value: &dyn Fn(Expr) -> Expr| {
            let set = Stmt::set_scalar(local, value(of.value.clone()));
            [vec![scalar(local)], of.before.clone(), vec![set]].concat()
        };
        let mut step = vec![
            scalar(locals.product),
            Stmt::set_scalar(locals.product, zero()),
            Stmt::serial(self.depth.var, self.depth.extent, vec![Stmt::set_scalar(locals.product, product)]),
        ];
        step.extend(set(locals.next, &self.score, &next));
        step.extend(set(locals.factor, &self.rescale, &|factor| {
            Expr::select(same.clone(), one.clone(), factor)
        }));
        step.extend(set(locals.weight, &self.weight, &|weight| Expr::select(none.clone(), zero(), weight)));
        step.extend([
            Stmt::set_scalar(
                locals.weights,
                Expr::fma(get(locals.weights), get(locals.factor), get(locals.weight)),
            ),
            Stmt::serial(add, self.num_features, vec![self.set_sum(add, added)]),
            Stmt::set_scalar(locals.greatest, get(locals.next)),
        ]);
        step
    }

    /// The sum of a feature.
    fn sum(&self, feature: LoopId) -> Expr {
        Expr::GetLocal { local: self.locals.sums, index: [Affine::var(feature)].into() }
    }

    fn set_sum(&self, feature: LoopId, value: Expr) -> Stmt {
        Stmt::SetLocal { local: self.locals.sums, index: [Affine::var(feature)].into(), value }
    }

    /// The operands as matrices, if they are, for each iteration of the batch.
    pub fn matrices(&self, arrays: &Arrays) -> Option<AttentionMatrices> {
        let feature = Axis { var: self.features[1], extent: self.num_features };
        let position = Axis { var: self.position, extent: self.end.limit };
        let matrix = |factor: &Expr, side: Axis, depth: Axis| {
            let Expr::Get { node, index } = read_of(factor) else { return None };
            let matrix = Matrix::at(*node, index, [&[side], &[depth]], arrays)?;
            let inner = [self.row.var, self.position, self.depth.var, self.features[1]];
            (!inner.iter().any(|&var| matrix.base.mentions(var))).then_some(matrix)
        };
        Some(AttentionMatrices {
            query: matrix(&self.query, self.row, self.depth)?,
            key: matrix(&self.key, position, self.depth)?,
            value: matrix(&self.value, position, feature)?,
        })
    }

    /// Whether a kernel with tensor cores for operands of these types computes it. Queries, keys and values
    /// have the same one of these types, of 16 bits, and contiguous elements; weights that are not rounded to
    /// it are the sum of three `bf16` numbers.
    pub fn suits_tensor_cores(&self, arrays: &Arrays, types: DTypeSet) -> bool {
        let Some(AttentionMatrices { query, key, value }) = self.matrices(arrays) else { return false };
        let element = query.dtype;
        let batch = self.batch.iter().try_fold(1, |all: i64, axis| all.checked_mul(axis.extent));
        let is_plain = |matrix: &Matrix, elements: i64| {
            matrix.dtype == element && matrix.side <= MOST && matrix.has_rows_of_runs(elements)
        };
        types.contains(element)
            && element.size_bytes() == 2
            && (element == DType::Bf16 || self.rounding() == Some(element))
            && batch.is_some_and(|batch| batch <= MOST)
            && (LEAST..=MOST).contains(&self.row.extent)
            && (LEAST..=MOST).contains(&self.end.limit)
            && [self.depth.extent, self.num_features].iter().all(|n| (LEAST..=MOST_FEATURES).contains(n))
            && is_plain(&query, self.depth.extent)
            && is_plain(&key, self.depth.extent)
            && is_plain(&value, self.num_features)
            && self.diagonal().is_some()
    }

    /// The type of 16 bits of the weights that are multiplied, if they are rounded.
    pub fn rounding(&self) -> Option<DType> {
        [&self.operand, &self.weight.value].into_iter().find_map(|e| match e {
            Expr::Convert { to: DType::F32, arg } => match **arg {
                Expr::Convert { to, .. } if to.size_bytes() == 2 => Some(to),
                _ => None,
            },
            _ => None,
        })
    }

    /// Where the positions of a row end besides the last: `Some(Some(n))` if row `r` has the positions below
    /// `r + n`, `Some(None)` if every row has all, `None` if they end otherwise.
    pub fn diagonal(&self) -> Option<Option<i64>> {
        match self.end.clips() {
            [] if self.end.condition().is_none() => Some(None),
            [clip] if self.end.condition().is_none() => {
                let offset = clip.offset();
                let is_diagonal = *clip == Affine::var(self.row.var).plus_constant(offset);
                (is_diagonal && offset.abs() <= MOST).then_some(Some(offset))
            }
            _ => None,
        }
    }
}

fn scalar(local: LocalId) -> Stmt {
    Stmt::Declare { local, dtype: DType::F32, dims: Dims::new(), space: Space::Register }
}

/// -inf.
fn least() -> Expr {
    Expr::Const(Scalar::from_f64(DType::F32, f64::NEG_INFINITY))
}

/// Reads the parts of a row's statements by their places. Whether the rest is as expected is not checked.
fn read(body: &[Stmt], batch: Vec<Axis>, row: Axis) -> Option<AttentionNest> {
    let declared = |stmt: &Stmt| match stmt {
        Stmt::Declare { local, .. } => Some(*local),
        _ => None,
    };
    let looped = |stmt: &'_ Stmt| match stmt {
        Stmt::For { var, hi, body, .. } => Some((*var, hi.clone(), body.clone())),
        _ => None,
    };
    let value = |stmt: &Stmt| stmt.values().next().cloned();
    let fma = |stmt: &Stmt| match value(stmt)? {
        Expr::Ternary { op: TernaryOp::Fma, a, b, .. } => Some((*a, *b)),
        _ => None,
    };
    let [greatest, weights, sums, _, _, zeros, positions, rest] = body else { return None };
    let (position, end, step) = looped(positions)?;
    let [product, _, depths, step @ ..] = step.as_slice() else { return None };
    let (next, score, step) = computed(step)?;
    let (factor, rescale, step) = computed(step)?;
    let (weight, weighing, step) = computed(step)?;
    let [_, adds, _] = step else { return None };
    let (depth, extent, multiply) = looped(depths)?;
    let (query, key) = fma(multiply.first()?)?;
    let (add, num_features, adds) = looped(adds)?;
    let (of_values, operand) = fma(adds.first()?)?;
    let last = |e: Expr| match e {
        Expr::Ternary { op: TernaryOp::Where, c, .. } => Some(*c),
        Expr::Binary { op: BinaryOp::Max, a, .. } => Some(*a),
        _ => None,
    };
    let of = |(before, value): (Block, Expr)| Some(Computation { before, value: last(value)? });
    let (features, _, epilogue) = looped(rest)?;
    Some(AttentionNest {
        batch,
        row,
        position,
        end,
        depth: Axis { var: depth, extent: extent.constant()? },
        features: [looped(zeros)?.0, add, features],
        num_features: num_features.constant()?,
        query,
        key,
        value: of_values,
        score: of(score)?,
        rescale: of(rescale)?,
        weight: of(weighing)?,
        operand,
        epilogue,
        locals: AttentionLocals {
            greatest: declared(greatest)?,
            weights: declared(weights)?,
            sums: declared(sums)?,
            product: declared(product)?,
            next,
            factor,
            weight,
        },
    })
}

/// The local that the first statement declares, the statements before the one that sets it, the value, and
/// the statements after that.
fn computed(step: &[Stmt]) -> Option<(LocalId, (Block, Expr), &[Stmt])> {
    let [Stmt::Declare { local, .. }, rest @ ..] = step else { return None };
    let at =
        rest.iter().position(|stmt| matches!(stmt, Stmt::SetLocal { local: set, .. } if set == local))?;
    let value = rest[at].values().next()?.clone();
    Some((*local, (rest[..at].to_vec(), value), &rest[at + 1..]))
}
