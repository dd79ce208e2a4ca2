//! Radix sort: a stable counting sort by each byte of the keys, the lowest first.
//!
//! One pass over the keys counts the values of all bytes, and sums of the counts are the places at which the
//! keys with each value begin. Each sort then moves the keys and their positions to these places. The work is
//! proportional to the number of keys, whatever they are.

use tnode::{DType, Scalar};

use super::Result;
use super::order::{KeyType, Row};
use super::step::LoweringContext;
use lowered_ir::ir::{Affine, BinaryOp, Block, Expr, Indices, NodeRef, Stmt};

/// The bits by which one pass sorts, and the number of their values.
const DIGIT_BITS: u32 = 8;
const DIGIT_VALUES: i64 = 1 << DIGIT_BITS;

/// Keys with positions.
pub(super) struct Keys<'a> {
    pub(super) row: &'a Row,
    /// A prefix of the names of the nodes that the sort adds.
    pub(super) role: &'a str,
    pub(super) key: KeyType,
    pub(super) keys: NodeRef,
    /// The position of each key; the number of the key itself if there is no node.
    pub(super) positions: Option<NodeRef>,
}

/// Makes the statements that sort the `size` keys of a row. `store` makes statements of the rank of each key
/// and of its position. What must be done for all rows before is appended to `before`.
pub(super) fn sort(
    keys: &Keys<'_>,
    size: i64,
    ctx: &mut LoweringContext,
    before: &mut Block,
    store: &dyn Fn(Expr, Expr) -> Block,
) -> Result<Block> {
    let row = keys.row;
    let digits = keys.key.bits.div_ceil(DIGIT_BITS);
    let name = |role: &str, dtype: DType, size: i64, ctx: &mut LoweringContext| {
        row.array(&format!("{}{role}", keys.role), dtype, size, ctx)
    };
    // The counts of all digits are in one row, one digit behind the other.
    let counts = name("counts", DType::U32, DIGIT_VALUES * i64::from(digits), ctx)?;
    before.push(Stmt::Zero { node: counts });
    let sort = RadixSort { row, key: keys.key, counts, size };
    let mut body = sort.count(keys.keys, digits, ctx);
    body.extend(sort.places(digits, ctx));
    let (mut source, mut positions) = (keys.keys, keys.positions);
    let mut buffers: Vec<(NodeRef, NodeRef)> = Vec::new();
    for digit in 0..digits {
        if digit + 1 == digits {
            body.extend(sort.pass(digit, source, positions, ctx, store));
            break;
        }
        if buffers.len() < 2 {
            let role = ["first", "second"][buffers.len()];
            let sorted = name(&format!("{role}_keys"), keys.key.dtype, size, ctx)?;
            let moved = name(&format!("{role}_positions"), DType::U32, size, ctx)?;
            // No analysis knows that stores at computed indices reach all elements.
            before.extend([Stmt::Zero { node: sorted }, Stmt::Zero { node: moved }]);
            buffers.push((sorted, moved));
        }
        let (sorted, moved) = buffers[digit as usize % 2];
        let from = source;
        let (var, store) = (ctx.fresh.loop_id(), |rank: Expr, at: Expr, var| {
            let key = row.get(from, Affine::var(var));
            vec![row.scatter(sorted, rank.clone(), None, key), row.scatter(moved, rank, None, at)]
        });
        body.extend(sort.pass_over(var, digit, source, positions, ctx, &|rank, at| store(rank, at, var)));
        (source, positions) = (sorted, Some(moved));
    }
    Ok(body)
}

/// A sort of the keys in a row.
struct RadixSort<'a> {
    row: &'a Row,
    key: KeyType,
    counts: NodeRef,
    size: i64,
}

impl RadixSort<'_> {
    /// The place of the count of a key's digit.
    fn place(&self, key: Expr, digit: u32) -> Expr {
        let dtype = self.key.dtype;
        let number = |value: i64| Expr::Const(Scalar::from_i64(dtype, value));
        let shifted = match digit {
            0 => key,
            _ => Expr::binary(BinaryOp::Shr, key, number(i64::from(DIGIT_BITS * digit))),
        };
        let value = Expr::binary(BinaryOp::BitAnd, shifted, number(DIGIT_VALUES - 1));
        let place = match digit {
            0 => value,
            _ => Expr::binary(BinaryOp::Add, value, number(DIGIT_VALUES * i64::from(digit))),
        };
        if dtype == DType::U32 { place } else { Expr::convert(DType::U32, place) }
    }

    fn one() -> Expr {
        Expr::Const(Scalar::from_i64(DType::U32, 1))
    }

    /// Counts the values of all digits.
    fn count(&self, keys: NodeRef, digits: u32, ctx: &mut LoweringContext) -> Block {
        let var = ctx.fresh.loop_id();
        let add = |digit| {
            let place = self.place(self.row.get(keys, var.into()), digit);
            self.row.scatter(self.counts, place, Some(BinaryOp::Add), Self::one())
        };
        vec![Stmt::serial(var, self.size, (0..digits).map(add).collect())]
    }

    /// Replaces counts by the places at which the keys with each value of a digit begin.
    fn places(&self, digits: u32, ctx: &mut LoweringContext) -> Block {
        let (digit, value) = (ctx.fresh.loop_id(), ctx.fresh.loop_id());
        let (sum, count) = (ctx.fresh.local_id(), ctx.fresh.local_id());
        let place: Indices = self.row.at(Affine::term(digit, DIGIT_VALUES).plus(&Affine::var(value)));
        let begins = vec![
            Stmt::scalar(count, DType::U32),
            Stmt::set_scalar(count, Expr::Get { node: self.counts, index: place.clone() }),
            Stmt::Set { node: self.counts, index: place, value: Expr::local(sum) },
            Stmt::set_scalar(sum, Expr::binary(BinaryOp::Add, Expr::local(sum), Expr::local(count))),
        ];
        let each = vec![Stmt::scalar(sum, DType::U32), Stmt::serial(value, DIGIT_VALUES, begins)];
        vec![Stmt::serial(digit, i64::from(digits), each)]
    }

    fn pass(
        &self,
        digit: u32,
        keys: NodeRef,
        positions: Option<NodeRef>,
        ctx: &mut LoweringContext,
        store: &dyn Fn(Expr, Expr) -> Block,
    ) -> Block {
        let var = ctx.fresh.loop_id();
        self.pass_over(var, digit, keys, positions, ctx, store)
    }

    /// Sorts by one digit: `store` takes the new place of each key, and its position.
    fn pass_over(
        &self,
        var: lowered_ir::ir::LoopId,
        digit: u32,
        keys: NodeRef,
        positions: Option<NodeRef>,
        ctx: &mut LoweringContext,
        store: &dyn Fn(Expr, Expr) -> Block,
    ) -> Block {
        let place = self.place(self.row.get(keys, var.into()), digit);
        let position = match positions {
            Some(node) => self.row.get(node, var.into()),
            None => Expr::convert(DType::U32, Expr::Index { index: Affine::var(var), dtype: DType::I32 }),
        };
        let rank = ctx.fresh.local_id();
        let begins = self.row.gather(self.counts, place.clone(), Scalar::zero(DType::U32));
        let mut body = vec![Stmt::scalar(rank, DType::U32), Stmt::set_scalar(rank, begins)];
        body.extend(store(Expr::local(rank), position));
        body.push(self.row.scatter(self.counts, place, Some(BinaryOp::Add), Self::one()));
        vec![Stmt::serial(var, self.size, body)]
    }
}
