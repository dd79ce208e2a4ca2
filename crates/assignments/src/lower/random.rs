//! Lowers random fills: a loop over chunks of the last axis, with one sample and a store for each of its
//! values.
//!
//! The values of a chunk are kept in an array in registers, so that a single loop stores them to consecutive
//! elements.

use smallvec::SmallVec;
use tnode::{DType, Dims, Scalar, TensorNode};

use super::Result;
use super::bounds::layout;
use super::error::LowerErrorKind;
use super::step::{LoopNest, LoweringContext, nest};
use crate::indexing::{AxisIndex, extent, identity_projections, reflect_projection};
use crate::{KeyPart, Random, SampleValues};
use lowered_ir::ir::{Affine, BinaryOp, Block, Expr, Indices, LoopKind, Space, Stmt, Var};
use lowered_ir::random::{Distribution, KeyNumber, Scheme, value};

/// Fills a node with values of samples that are computed from the key.
pub(super) fn fill(
    node: &TensorNode,
    random: &Random,
    ctx: &mut LoweringContext,
    block: &mut Block,
) -> Result<()> {
    let key = key(random, node, ctx)?;
    let inner = layout(node)?.inner;
    let rows = inner.split_last().map_or(1, |(_, rows)| rows.iter().map(|&dim| extent(dim)).product());
    let values_per_sample = random.distribution.values_per_sample(node.dtype());
    let chunks = inner.last().map_or(1, |&last| extent(last.div_ceil(values_per_sample)));
    let fill = RandomFill { node, distribution: random.distribution, scheme: random.scheme };
    fill.lower(ctx, block, |_, place| {
        let (last_row, chunks) = ((rows - 1).max(0), chunks.max(1));
        random.scheme.chunk_sample(key.clone(), &place.row(), &place.chunk, chunks, last_row)
    })
}

/// Fills a node with values of samples that another node holds.
pub(super) fn fill_from_samples(
    node: &TensorNode,
    samples: &SampleValues,
    ctx: &mut LoweringContext,
    block: &mut Block,
) -> Result<()> {
    let SampleValues { distribution, scheme, ref of } = *samples;
    if of.dtype() != DType::U32x4 {
        let (op, dtype) = (distribution.token(), of.dtype());
        return Err(LowerErrorKind::Type { node: of.name(), op, dtype }.into());
    }
    check_samples_shape(node, samples)?;
    let left = layout(of)?.left;
    RandomFill { node, distribution, scheme }.lower(ctx, block, |ctx, place| {
        let point = place.rows.iter().map(AxisIndex::affine);
        let point = point.chain((!left.is_empty()).then(|| place.chunk.clone()));
        let index: Indices = point.zip(&left).map(|(index, left)| index.plus_constant(*left)).collect();
        let (node, index) = ctx.element(of, index);
        Expr::Get { node, index }
    })
}

/// Checks that there is one sample for every chunk of the last axis.
fn check_samples_shape(node: &TensorNode, samples: &SampleValues) -> Result<()> {
    let mut expected = node.dims_without_padding()?.to_vec();
    if let Some(last) = expected.last_mut() {
        *last = last.div_ceil(samples.distribution.values_per_sample(node.dtype()));
    }
    let found = samples.of.dims_without_padding()?.to_vec();
    if found == expected {
        return Ok(());
    }
    let (node, of, distribution) = (node.name(), samples.of.name(), samples.distribution.token());
    Err(LowerErrorKind::SamplesShape { node, of, distribution, found, expected }.into())
}

/// The expression of the key.
pub(super) fn key(random: &Random, node: &TensorNode, ctx: &LoweringContext) -> Result<Expr> {
    random.key.iter().try_fold(random.scheme.seed_key(random.seed), |key, part| {
        let number = match part {
            KeyPart::Number(number) => KeyNumber::constant(*number),
            KeyPart::Symbol(id) => {
                let symbol = ctx.known_symbol(*id, node)?;
                KeyNumber::index(&Affine::var(symbol), ctx.ranges[symbol.index()] - 1)
            }
        };
        Ok(random.scheme.fold(key, &number))
    })
}

/// A node that is filled with values of samples.
struct RandomFill<'a> {
    node: &'a TensorNode,
    distribution: Distribution,
    scheme: Scheme,
}

/// The position of a chunk.
struct ChunkPosition {
    /// All dimensions but the last.
    dims: Dims,
    /// The index into each of these dimensions.
    rows: SmallVec<[AxisIndex; 4]>,
    chunk: Affine,
}

impl ChunkPosition {
    /// The row-major number of the chunk's row.
    fn row(&self) -> Affine {
        reflect_projection(&self.dims, &self.rows)
    }
}

impl RandomFill<'_> {
    /// Appends the loops of the fill. `sample` gives the sample of a chunk.
    fn lower(
        &self,
        ctx: &mut LoweringContext,
        block: &mut Block,
        sample: impl Fn(&LoweringContext, &ChunkPosition) -> Expr,
    ) -> Result<()> {
        let dtype = self.node.dtype();
        if !self.distribution.has(dtype) {
            let op = self.distribution.token();
            return Err(LowerErrorKind::Type { node: self.node.name(), op, dtype }.into());
        }
        let layout = layout(self.node)?;
        let mut dims = layout.inner.clone();
        let last = dims.pop().map_or(1, extent);
        let mut loops = LoopNest::new();
        let mut rows: SmallVec<[AxisIndex; 4]> = identity_projections(&dims);
        for (index, &dim) in rows.iter_mut().zip(&dims).filter(|(_, dim)| **dim != 1) {
            let var = ctx.fresh.loop_id();
            loops.push((var, extent(dim).into()));
            *index = AxisIndex::Iterator(Var::Loop(var));
        }
        let values_per_sample = extent(self.distribution.values_per_sample(dtype));
        let (full, rest) = (last / values_per_sample, last % values_per_sample);
        let mut place = ChunkPosition { dims, rows, chunk: Affine::constant(0) };
        let mut body = Block::new();
        if full > 1 {
            let var = ctx.fresh.loop_id();
            place.chunk = Affine::var(var);
            let chunk = self.chunk(&place, values_per_sample, ctx, &sample);
            body.push(Stmt::serial(var, full, chunk));
        } else if full == 1 {
            body.extend(self.chunk(&place, values_per_sample, ctx, &sample));
        }
        if rest > 0 {
            place.chunk = Affine::constant(full);
            body.extend(self.chunk(&place, rest, ctx, &sample));
        }
        block.extend(nest(&loops, body));
        Ok(())
    }

    /// The statements that store the first `count` values of one sample.
    fn chunk(
        &self,
        place: &ChunkPosition,
        count: i64,
        ctx: &mut LoweringContext,
        sample: impl Fn(&LoweringContext, &ChunkPosition) -> Expr,
    ) -> Block {
        let bits = ctx.fresh.local_id();
        let mut block = vec![Stmt::scalar(bits, DType::U32x4), Stmt::set_scalar(bits, sample(ctx, place))];
        let dtype = self.node.dtype();
        let value = |at: i64| value(self.scheme, self.distribution, dtype, &Expr::local(bits), at as usize);
        let first = place.chunk.times(extent(self.distribution.values_per_sample(dtype)));
        if count == 1 {
            block.push(self.store(place, first, value(0), ctx));
            return block;
        }
        let (values, var) = (ctx.fresh.local_id(), ctx.fresh.loop_id());
        let dims = std::iter::once(count as usize).collect();
        block.push(Stmt::Declare { local: values, dtype, dims, space: Space::Register });
        let at = |index: Affine| -> Indices { std::iter::once(index).collect() };
        block.extend((0..count).map(|number| Stmt::SetLocal {
            local: values,
            index: at(Affine::constant(number)),
            value: value(number),
        }));
        let moved = Expr::GetLocal { local: values, index: at(Affine::var(var)) };
        let store = self.store(place, first.plus(&Affine::var(var)), moved, ctx);
        block.push(Stmt::looped(var, count, LoopKind::Unrolled, vec![store]));
        block
    }

    fn store(&self, place: &ChunkPosition, last: Affine, value: Expr, ctx: &LoweringContext) -> Stmt {
        let left = layout(self.node).map(|layout| layout.left).unwrap_or_default();
        let point = place.rows.iter().map(AxisIndex::affine).chain(std::iter::once(last));
        let index = point.zip(left).map(|(index, left)| index.plus_constant(left)).collect();
        let (node, index) = ctx.element(self.node, index);
        Stmt::Set { node, index, value }
    }
}

/// The `u32x4` whose first lanes are the bits of a value, as [`Scalar::convert`] computes it. The IR's
/// `convert` has no such conversion.
pub(super) fn bits_in_lanes(value: Expr, from: DType) -> Expr {
    let unsigned = match from.size_bytes() {
        1 => DType::U8,
        2 => DType::U16,
        4 => DType::U32,
        _ => DType::U64,
    };
    let bits = if from == unsigned { value } else { Expr::bitcast(unsigned, value) };
    let zero = Expr::Const(Scalar::zero(DType::U32));
    let high = if unsigned == DType::U64 {
        let width = Expr::Const(Scalar::from_i64(DType::U64, 32));
        Expr::convert(DType::U32, Expr::binary(BinaryOp::Shr, bits.clone(), width))
    } else {
        zero.clone()
    };
    let low = if unsigned == DType::U32 { bits } else { Expr::convert(DType::U32, bits) };
    Expr::Lanes(Box::new([low, high, zero.clone(), zero]))
}
