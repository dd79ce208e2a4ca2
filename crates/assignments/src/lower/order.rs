//! Sorted order: fills a node with the positions of the elements along an axis, in sorted order.
//!
//! Each element has a key, an unsigned integer: the smaller key comes first. Of equal keys, the one at the
//! smaller position does. Three algorithms give the same positions; the sizes choose:
//!
//! * **Ranks**: the rank of an element is the number of elements before it. This compares all pairs, and is
//!   the fastest for short axes.
//! * **Radix sort** ([`radix`](super::radix)): a counting sort by each byte of the keys, the lowest first.
//! * **Blocks**, for the first `k` of many elements: the axis is divided into blocks, and only the `k` blocks
//!   with the least minima are sorted. No other block has one of the first `k` elements: the minimum of each
//!   of the `k` blocks comes before all of its elements.

use tnode::{DType, Scalar, TensorNode};

use super::Result;
use super::bounds::layout;
use super::error::LowerErrorKind;
use super::radix::{Keys, sort};
use super::step::{LoopNest, LoweringContext, fill, nest};
use crate::indexing::extent;
use lowered_ir::ir::{Affine, BinaryOp, Block, Expr, Indices, NodeRef, Stmt};

/// The longest axis whose order is computed by ranks.
const SHORT: i64 = 64;
/// The cost of a second sort, in elements that are sorted.
const SORT: i64 = 128;

/// Appends the loops that fill `target` with the first positions of the order along `axis` of `of`.
pub(super) fn lower(
    target: &TensorNode,
    of: &TensorNode,
    axis: usize,
    is_descending: bool,
    ctx: &mut LoweringContext,
    block: &mut Block,
) -> Result<()> {
    check(target, of, axis, is_descending)?;
    let (from, to) = (layout(of)?, layout(target)?);
    if to.inner.contains(&0) {
        return Ok(());
    }
    // No analysis knows that stores at computed indices reach all elements.
    fill(target, Scalar::zero(target.dtype()), ctx, block)?;
    let key = KeyType::of(of.dtype(), is_descending);
    let (mut rows, mut dims) = (LoopNest::new(), Vec::new());
    let mut places = Vec::new();
    for (at, &dim) in from.inner.iter().enumerate().filter(|(at, _)| *at != axis) {
        let var = ctx.fresh.loop_id();
        rows.push((var, extent(dim).into()));
        dims.push(dim);
        places.push((at, Affine::var(var)));
    }
    // A node's memory has margins; the index of the axis itself follows.
    let shifted = |left: &[i64]| -> Indices {
        let mut index: Indices = left.iter().map(|&left| Affine::constant(left)).collect();
        places.iter().for_each(|(at, place)| index[*at] = place.plus_constant(left[*at]));
        index
    };
    let (source, source_index) = ctx.element(of, shifted(&from.left));
    let source_axis = source_index.len() - from.inner.len() + axis;
    let (node, index) = ctx.element(target, shifted(&to.left));
    let target_axis = index.len() - to.inner.len() + axis;
    let has_margins = target.padding().is_some();
    let left = to.left[axis];
    let count = extent(to.inner[axis]);
    let result = PositionStore {
        node,
        index,
        axis: target_axis,
        dtype: target.dtype(),
        margins: has_margins.then_some((left, count)),
    };
    let name = target.name();
    let row = Row { loops: rows, dims, name };
    let size = extent(from.inner[axis]);
    let keys = row.array("keys", key.dtype, size, ctx)?;
    let var = ctx.fresh.loop_id();
    let mut index = source_index;
    index[source_axis] = index[source_axis].plus(&Affine::var(var));
    let value = key.of_value(Expr::Get { node: source, index });
    let store = Stmt::Set { node: keys, index: row.at(var.into()), value };
    block.extend(row.around(vec![Stmt::serial(var, size, vec![store])], ctx));
    let order = Order { row: &row, key, keys, size, count, result };
    match order.block_size() {
        _ if size <= SHORT => order.by_ranks(ctx, block),
        Some(length) => order.by_blocks(length, ctx, block),
        None => order.by_radix(ctx, block),
    }
}

fn check(target: &TensorNode, of: &TensorNode, axis: usize, is_descending: bool) -> Result<()> {
    let op = if is_descending { "descending" } else { "ascending" };
    let reject =
        |node: &TensorNode| Err(LowerErrorKind::Type { node: node.name(), op, dtype: node.dtype() }.into());
    if of.dtype() == DType::U32x4 {
        return reject(of);
    }
    if !matches!(target.dtype(), DType::I32 | DType::U32 | DType::I64 | DType::U64) {
        return reject(target);
    }
    let (from, to) = (of.dims_without_padding()?, target.dims_without_padding()?);
    let fits = |(at, (a, b)): (usize, (&usize, &usize))| if at == axis { a <= b } else { a == b };
    let is_short = from.get(axis).is_some_and(|&size| i32::try_from(size).is_ok());
    if is_short && from.len() == to.len() && to.iter().zip(&from).enumerate().all(fits) {
        return Ok(());
    }
    let (node, of, found, expected) = (target.name(), of.name(), to.to_vec(), from.to_vec());
    Err(LowerErrorKind::OrderShape { node, of, axis, found, expected }.into())
}

/// The rows of the nodes that hold intermediate results: all axes but the sorted one.
pub(super) struct Row {
    loops: LoopNest,
    dims: Vec<usize>,
    /// The name of the node filled.
    name: String,
}

impl Row {
    /// A new node with `size` elements in each row.
    pub(super) fn array(
        &self,
        role: &str,
        dtype: DType,
        size: i64,
        ctx: &mut LoweringContext,
    ) -> Result<NodeRef> {
        let mut dims = self.dims.clone();
        dims.push(usize::try_from(size).unwrap_or(0));
        ctx.temporary(format!("{}.{role}", self.name), dtype, &dims)
    }

    /// The indices of an element of the row.
    pub(super) fn at(&self, index: Affine) -> Indices {
        self.loops.iter().map(|&(var, _)| Affine::var(var)).chain([index]).collect()
    }

    /// An element of the row.
    pub(super) fn get(&self, node: NodeRef, index: Affine) -> Expr {
        Expr::Get { node, index: self.at(index) }
    }

    /// The element of the row at a computed index.
    pub(super) fn gather(&self, node: NodeRef, at: Expr, otherwise: Scalar) -> Expr {
        let (index, axis) = (self.at(0.into()), self.loops.len());
        Expr::GetDynamic { node, index, axis, at: Box::new(at), otherwise: Box::new(Expr::Const(otherwise)) }
    }

    /// Stores into the element of the row at a computed index.
    pub(super) fn scatter(&self, node: NodeRef, at: Expr, op: Option<BinaryOp>, value: Expr) -> Stmt {
        Stmt::SetDynamic {
            node,
            index: self.at(0.into()),
            axis: self.loops.len(),
            at: Box::new(at),
            op,
            value,
        }
    }

    /// The statements for every row.
    fn around(&self, body: Block, ctx: &mut LoweringContext) -> Block {
        super::scan::renamed(nest(&self.loops, body), ctx)
    }
}

/// Stores positions into the node that is filled.
pub(super) struct PositionStore {
    node: NodeRef,
    index: Indices,
    axis: usize,
    dtype: DType,
    /// For a node with padding, the margin before the axis, and the size of the axis.
    margins: Option<(i64, i64)>,
}

impl PositionStore {
    /// Stores a position at its rank; ranks beyond the axis have no effect.
    pub(super) fn at(&self, rank: Expr, position: Expr) -> Stmt {
        let at = match self.margins {
            None => rank,
            Some((left, count)) => {
                let rank = Expr::convert(DType::I64, rank);
                let number = |value| Expr::Const(Scalar::from_i64(DType::I64, value));
                let inside = Expr::binary(BinaryOp::Lt, rank.clone(), number(count));
                Expr::select(inside, Expr::binary(BinaryOp::Add, rank, number(left)), number(-1))
            }
        };
        let mut index = self.index.clone();
        index[self.axis] = 0.into();
        let value = match self.dtype {
            DType::U32 => position,
            dtype => Expr::convert(dtype, position),
        };
        Stmt::SetDynamic { node: self.node, index, axis: self.axis, at: Box::new(at), op: None, value }
    }
}

/// How the elements of a type become keys.
#[derive(Clone, Copy)]
pub(super) struct KeyType {
    /// The type of the elements.
    of: DType,
    /// The type of the keys, which may be wider than the elements.
    pub(super) dtype: DType,
    /// The bits of a key that may be set.
    pub(super) bits: u32,
    is_descending: bool,
}

impl KeyType {
    fn of(of: DType, is_descending: bool) -> KeyType {
        let bits = 8 * of.size_bytes() as u32;
        KeyType { of, dtype: if bits > 32 { DType::U64 } else { DType::U32 }, bits, is_descending }
    }

    fn number(self, bits: u64) -> Expr {
        Expr::Const(Scalar::new(self.dtype, u128::from(bits)))
    }

    /// The key that is not less than any other.
    pub(super) fn greatest(self) -> Scalar {
        Scalar::new(self.dtype, u128::from(self.mask()))
    }

    fn mask(self) -> u64 {
        u64::MAX >> (64 - self.bits)
    }

    /// The key of a value. Positive and negative zero have one key, and so have all NaN.
    fn of_value(self, value: Expr) -> Expr {
        let (sign, mask) = (1u64 << (self.bits - 1), self.mask());
        let xor = |a: Expr, b: u64| Expr::binary(BinaryOp::BitXor, a, self.number(b));
        let bits = self.bits_of(value);
        let key = match self.of {
            DType::Bool | DType::U8 | DType::U16 | DType::U32 | DType::U64 => bits,
            of if !of.is_float() => xor(bits, sign),
            _ => {
                let magnitude = Expr::binary(BinaryOp::BitAnd, bits.clone(), self.number(mask >> 1));
                let is_negative = Expr::binary(BinaryOp::Le, self.number(sign), bits.clone());
                let number = Expr::select(is_negative, xor(bits.clone(), mask), xor(bits, sign));
                let is_zero = Expr::binary(BinaryOp::Eq, magnitude.clone(), self.number(0));
                let number = Expr::select(is_zero, self.number(sign), number);
                let is_number = Expr::binary(BinaryOp::Le, magnitude, self.number(self.greatest_magnitude()));
                Expr::select(is_number, number, self.number(mask))
            }
        };
        if self.is_descending { xor(key, mask) } else { key }
    }

    /// The bits of a value, in the type of the keys.
    fn bits_of(self, value: Expr) -> Expr {
        let same_size = match self.bits {
            8 => DType::U8,
            16 => DType::U16,
            32 => DType::U32,
            _ => DType::U64,
        };
        let bits = match self.of {
            of if of == same_size => value,
            DType::Bool => Expr::convert(same_size, value),
            _ => Expr::bitcast(same_size, value),
        };
        if same_size == self.dtype { bits } else { Expr::convert(self.dtype, bits) }
    }

    /// The greatest bits without a sign that are no NaN.
    fn greatest_magnitude(self) -> u64 {
        match self.of {
            DType::F16 => 0x7c00,
            DType::Bf16 => 0x7f80,
            DType::Fp8E5m2 => 0x7c,
            DType::Fp8E4m3fn => 0x7e,
            DType::F32 => 0x7f80_0000,
            _ => 0x7ff0_0000_0000_0000,
        }
    }
}

/// The order of keys that are known.
struct Order<'a> {
    row: &'a Row,
    key: KeyType,
    keys: NodeRef,
    /// The number of keys in a row, and of positions wanted.
    size: i64,
    count: i64,
    result: PositionStore,
}

impl Order<'_> {
    /// The size of blocks, if it pays to sort only some of them.
    fn block_size(&self) -> Option<i64> {
        let ratio = u64::try_from(self.size / self.count).unwrap_or(1).max(1);
        let length = 1i64 << ratio.ilog2().div_ceil(2);
        let sorted = self.count * length + self.size / length;
        (4 * (sorted + SORT) <= 3 * self.size).then_some(length)
    }

    fn by_ranks(&self, ctx: &mut LoweringContext, block: &mut Block) -> Result<()> {
        let rank = self.row.array("ranks", DType::U32, self.size, ctx)?;
        let (var, other) = (ctx.fresh.loop_id(), ctx.fresh.loop_id());
        let index = |var| Expr::Index { index: Affine::var(var), dtype: DType::I32 };
        let (own, its) = (self.row.get(self.keys, var.into()), self.row.get(self.keys, other.into()));
        let same = Expr::binary(BinaryOp::Eq, its.clone(), own.clone());
        let earlier = Expr::binary(BinaryOp::Lt, index(other), index(var));
        let tie = Expr::binary(BinaryOp::And, same, earlier);
        let before = Expr::binary(BinaryOp::Or, Expr::binary(BinaryOp::Lt, its, own), tie);
        let sum =
            Expr::binary(BinaryOp::Add, self.row.get(rank, var.into()), Expr::convert(DType::U32, before));
        let add = Stmt::Set { node: rank, index: self.row.at(var.into()), value: sum };
        block.push(Stmt::Zero { node: rank });
        let counted = vec![Stmt::serial(var, self.size, vec![Stmt::serial(other, self.size, vec![add])])];
        block.extend(self.row.around(counted, ctx));
        let var = ctx.fresh.loop_id();
        let position = Expr::convert(DType::U32, index(var));
        let store = self.result.at(self.row.get(rank, var.into()), position);
        block.extend(self.row.around(vec![Stmt::serial(var, self.size, vec![store])], ctx));
        Ok(())
    }

    fn by_radix(&self, ctx: &mut LoweringContext, block: &mut Block) -> Result<()> {
        let keys = Keys { row: self.row, role: "", key: self.key, keys: self.keys, positions: None };
        let sorted = sort(&keys, self.size, ctx, block, &|rank, at| vec![self.result.at(rank, at)])?;
        block.extend(self.row.around(sorted, ctx));
        Ok(())
    }

    fn by_blocks(&self, length: i64, ctx: &mut LoweringContext, block: &mut Block) -> Result<()> {
        let (row, key) = (self.row, self.key);
        let blocks = (self.size + length - 1) / length;
        let least = row.array("least", key.dtype, blocks, ctx)?;
        self.minima(least, length, ctx, block);
        let number = |value: i64| Expr::Const(Scalar::from_i64(DType::U32, value));
        let index =
            |var| Expr::convert(DType::U32, Expr::Index { index: Affine::var(var), dtype: DType::I32 });

        // Whether each block is one of the first.
        let chosen = row.array("chosen", DType::U32, blocks, ctx)?;
        block.push(Stmt::Zero { node: chosen });
        let keys = Keys { row, role: "block_", key, keys: least, positions: None };
        let mut body = sort(&keys, blocks, ctx, block, &|rank, at| {
            let is_first = Expr::binary(BinaryOp::Lt, rank, number(self.count));
            vec![row.scatter(chosen, at, None, Expr::convert(DType::U32, is_first))]
        })?;

        // The chosen blocks, in the order of the axis.
        let list = row.array("blocks", DType::U32, self.count, ctx)?;
        block.push(Stmt::Zero { node: list });
        let (var, found) = (ctx.fresh.loop_id(), ctx.fresh.local_id());
        let flag = row.get(chosen, var.into());
        let is_chosen = Expr::binary(BinaryOp::Ne, flag.clone(), number(0));
        let place = Expr::select(is_chosen, Expr::local(found), number(self.count));
        let add = Expr::binary(BinaryOp::Add, Expr::local(found), flag);
        let listed = vec![row.scatter(list, place, None, index(var)), Stmt::set_scalar(found, add)];
        body.extend([Stmt::scalar(found, DType::U32), Stmt::serial(var, blocks, listed)]);

        // Their elements. Beyond the end of the axis, keys are the greatest and positions follow all others.
        let size = self.count * length;
        let candidates = row.array("candidates", key.dtype, size, ctx)?;
        let positions = row.array("positions", DType::U32, size, ctx)?;
        let (var, inner) = (ctx.fresh.loop_id(), ctx.fresh.loop_id());
        let first = Expr::binary(BinaryOp::Mul, row.get(list, var.into()), number(length));
        let position = Expr::binary(BinaryOp::Add, first, index(inner));
        let at = Affine::term(var, length).plus(&Affine::var(inner));
        let value = row.gather(self.keys, position.clone(), key.greatest());
        let copied = vec![
            Stmt::Set { node: candidates, index: row.at(at.clone()), value },
            Stmt::Set { node: positions, index: row.at(at), value: position },
        ];
        body.push(Stmt::serial(var, self.count, vec![Stmt::serial(inner, length, copied)]));
        let keys = Keys { row, role: "candidate_", key, keys: candidates, positions: Some(positions) };
        body.extend(sort(&keys, size, ctx, block, &|rank, at| vec![self.result.at(rank, at)])?);
        block.extend(row.around(body, ctx));
        Ok(())
    }

    /// Appends the least key of each block.
    fn minima(&self, least: NodeRef, length: i64, ctx: &mut LoweringContext, block: &mut Block) {
        let (row, greatest) = (self.row, Expr::Const(self.key.greatest()));
        let (full, rest) = (self.size / length, self.size % length);
        for (first, blocks, length) in [(0, full, length), (full, i64::from(rest > 0), rest)] {
            if blocks == 0 {
                continue;
            }
            let var = ctx.fresh.loop_id();
            let at = Affine::var(var).plus_constant(first);
            let fill = Stmt::Set { node: least, index: row.at(at.clone()), value: greatest.clone() };
            block.extend(row.around(vec![Stmt::serial(var, blocks, vec![fill])], ctx));
            let inner = ctx.fresh.loop_id();
            let key = Affine::term(var, length).plus_constant(self.size - rest).plus(&Affine::var(inner));
            let key = if first == 0 { Affine::term(var, length).plus(&Affine::var(inner)) } else { key };
            let value = Expr::binary(BinaryOp::Min, row.get(self.keys, key), row.get(least, at.clone()));
            let store = Stmt::Set { node: least, index: row.at(at), value };
            let counted = vec![Stmt::serial(var, blocks, vec![Stmt::serial(inner, length, vec![store])])];
            block.extend(row.around(counted, ctx));
        }
    }
}
