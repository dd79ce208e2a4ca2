//! Replaces one-hot reductions by gathers: a sum over a class axis that selects one term reads that term
//! alone.
//!
//! | loop | becomes | class |
//! |---|---|---|
//! | `for v in 0..n { t := t + where(v == e, x[…, v, …], 0) }` | `t := t + gather(x[…, {e}, …], 0)` | strict |
//! | `for v in 0..n { t := t + convert T(v == e) * x[…, v, …] }` | the same | strict on integers, else fast |
//!
//! `t` is an element of a node or of a local, `x` may be converted, operands may change places, and `where(v
//! == e, 1, 0)` may take the place of the conversion. Between the loop over `v` and the statement there may
//! be further loops.
//!
//! # Conditions
//! * The loop runs over all of the axis: from 0 to its dimension `n`, whatever the values of symbols.
//! * `v` stands by itself in one index of `x` and in the comparison, and nowhere else.
//! * The type of the comparison distinguishes 0 to `n - 1`.
//! * Nothing but the accumulation reads or writes `t`'s array.
//! * Different iterations of the loops inside the loop over `v` reach different elements of `t`'s array. On
//!   integers, and in class `Fast`, this is not required, because the order of additions does not matter.
//!
//! # Numerics
//! A gather outside of the axis gives 0, as the sum of no terms does. A float `e` that is not integral, or
//! NaN, equals no index, so it is replaced by −1. Adding the zeros has one effect on floats: if there are at
//! least two terms, a sum of −0 and a term −0 becomes 0; in class `Strict`, the pass keeps this effect by
//! adding 0 to the gathered value. The product form is not strict on floats because `0 * x` is NaN for
//! infinite or NaN elements of `x` that the gather does not read.

use tnode::{DType, Scalar};

use crate::ir::{
    Affine, ArrayRef, BinaryOp, Block, Expr, Indices, Locals, LoopId, LoopKind, LoweredRoutine, NodeRef,
    Numerics, Stmt, TernaryOp, UnaryOp, walk,
};

use super::access::visits_of;
use super::effects::Effects;
use super::ranges::Ranges;

/// Replaces the loops of one-hot reductions.
pub fn gather_one_hot(routine: &mut LoweredRoutine) {
    let (locals, ranges) = (routine.locals(), Ranges::of(routine));
    let body = std::mem::take(&mut routine.body);
    let rewriter = OneHotRewriter { routine, locals: &locals, ranges: &ranges };
    let body = rewriter.block(body);
    routine.body = body;
}

struct OneHotRewriter<'a> {
    routine: &'a LoweredRoutine,
    locals: &'a Locals,
    ranges: &'a Ranges,
}

/// The element `x[…, v, …]` that `v == e` selects, with the conversions around it.
struct OneHotRead<'e> {
    table: NodeRef,
    index: &'e Indices,
    axis: usize,
    /// The conversions around the read, innermost first.
    conversions: Vec<DType>,
    /// The index in the axis.
    at: Expr,
    /// Whether each term was a product, as in the second row of the table.
    product: bool,
}

impl OneHotRewriter<'_> {
    fn block(&self, block: Block) -> Block {
        block.into_iter().map(|stmt| self.stmt(stmt)).collect()
    }

    fn stmt(&self, stmt: Stmt) -> Stmt {
        if let Some(gathered) = self.gathered(&stmt) {
            return gathered;
        }
        match stmt {
            Stmt::For { var, lo, hi, kind, body } => Stmt::For { var, lo, hi, kind, body: self.block(body) },
            other => other,
        }
    }

    /// The statement with its outermost loop, a loop over classes, replaced by a gather; `None` if a
    /// condition of this pass does not hold.
    fn gathered(&self, stmt: &Stmt) -> Option<Stmt> {
        let Stmt::For { var, lo: 0, hi, kind: LoopKind::Serial | LoopKind::Unrolled, body } = stmt else {
            return None;
        };
        let classes = hi.constant()?;
        let (loops, store) = chain(body)?;
        let (target, index, value) = store.store()?;
        let selected = self.selected(self.element(target, index, value)?, *var, classes)?;
        let dtype = self.dtype(value);
        let fast = self.routine.numerics == Numerics::Fast;
        let exact = !dtype.is_float();
        let in_order = exact || fast || visits_of(index, &loops, self.ranges) == 1;
        let rounded_alike = exact || fast || (!selected.product && classes >= 2);
        let plain = !index.iter().any(|i| i.mentions(*var))
            && !bounds_a_loop(*var, body)
            && !self.interferes(target, &selected);
        (in_order && rounded_alike && plain).then(|| self.rebuilt(body, selected, dtype))
    }

    /// The term that is added to the target's element, which must be the other operand of the sum.
    fn element<'e>(&self, target: ArrayRef, index: &Indices, value: &'e Expr) -> Option<&'e Expr> {
        let Expr::Binary { op: BinaryOp::Add, a, b } = value else { return None };
        let own = |e: &Expr| e.element() == Some((target, index));
        match (own(a), own(b)) {
            (true, false) => Some(b),
            (false, true) => Some(a),
            _ => None,
        }
    }

    fn selected<'e>(&self, element: &'e Expr, var: LoopId, classes: i64) -> Option<OneHotRead<'e>> {
        let (condition, read, product) = match element {
            Expr::Ternary { op: TernaryOp::Where, a, b, c } => match (is_number(c, 0), is_number(b, 0)) {
                (true, _) => (self.equality(a, BinaryOp::Eq)?, b, false),
                (_, true) => (self.equality(a, BinaryOp::Ne)?, c, false),
                _ => return None,
            },
            Expr::Binary { op: BinaryOp::Mul, a, b } => match (self.indicator(a), self.indicator(b)) {
                (Some(condition), _) => (condition, b, true),
                (_, Some(condition)) => (condition, a, true),
                _ => return None,
            },
            _ => return None,
        };
        let at = self.position(condition, var, classes)?;
        let (conversions, read) = unconverted(read);
        let Expr::Get { node, index } = read else { return None };
        let axis = index.iter().position(|i| i.mentions(var))?;
        let once = index.iter().filter(|i| i.mentions(var)).count() == 1 && index[axis] == Affine::var(var);
        let whole = self.routine.node(*node).dims.get(axis).is_some_and(|&dim| dim as i64 == classes);
        (once && whole).then_some(OneHotRead { table: *node, index, axis, conversions, at, product })
    }

    /// The sides of `a op b`.
    fn equality<'e>(&self, condition: &'e Expr, wanted: BinaryOp) -> Option<(&'e Expr, &'e Expr)> {
        match condition {
            Expr::Binary { op, a, b } if *op == wanted => Some((a, b)),
            _ => None,
        }
    }

    /// The sides of an equality, if the expression is 1 where the equality holds and else 0.
    fn indicator<'e>(&self, expr: &'e Expr) -> Option<(&'e Expr, &'e Expr)> {
        match expr {
            Expr::Convert { arg, .. } => self.equality(arg, BinaryOp::Eq),
            Expr::Ternary { op: TernaryOp::Where, a, b, c } if is_number(b, 1) && is_number(c, 0) => {
                self.equality(a, BinaryOp::Eq)
            }
            // The equality itself, not converted to a number.
            Expr::Binary { .. } => self.equality(expr, BinaryOp::Eq),
            _ => None,
        }
    }

    /// The integer that equals `var` where the two sides of the comparison are equal, and else is outside of
    /// the classes.
    fn position(&self, (a, b): (&Expr, &Expr), var: LoopId, classes: i64) -> Option<Expr> {
        let (iterator, other) = if mentions(a, var) { (a, b) } else { (b, a) };
        let (conversions, bare) = unconverted(iterator);
        let plain = matches!(bare, Expr::Index { index, .. } if *index == Affine::var(var))
            && conversions.iter().all(|&through| tells_apart(through, classes));
        let dtype = self.dtype(other);
        if !plain || mentions(other, var) {
            return None;
        }
        // Floats that were converted from integers without rounding are equal if and only if the integers
        // are.
        let origin = match other {
            Expr::Convert { arg, .. } if keeps_integers(dtype, self.dtype(arg)) => arg,
            _ => other,
        };
        let dtype = self.dtype(origin);
        if dtype.is_integer() {
            return Some(origin.clone());
        }
        let floor = Expr::unary(UnaryOp::Floor, origin.clone());
        let integral = Expr::binary(BinaryOp::Eq, floor, origin.clone());
        let nowhere = Expr::Const(Scalar::from_i64(DType::I64, -1));
        dtype.is_float().then(|| Expr::select(integral, Expr::convert(DType::I64, origin.clone()), nowhere))
    }

    /// Whether the gathered value reads the array that the sum accumulates into.
    fn interferes(&self, target: ArrayRef, selected: &OneHotRead<'_>) -> bool {
        let mut effects = Effects::default();
        effects.read(&selected.at);
        match target {
            ArrayRef::Node(node) => selected.table == node || effects.reads.contains(&node),
            ArrayRef::Local(local) => effects.local_reads.contains(&local),
        }
    }

    /// The loops inside the loop over classes, around the accumulation of the gathered value.
    fn rebuilt(&self, body: &Block, selected: OneHotRead<'_>, dtype: DType) -> Stmt {
        let OneHotRead { table, index, axis, conversions, at, .. } = selected;
        let mut index = index.clone();
        index[axis] = Affine::constant(0);
        let otherwise = Box::new(Expr::Const(Scalar::zero(self.routine.node(table).dtype)));
        let gather = Expr::GetDynamic { node: table, index, axis, at: Box::new(at), otherwise };
        let value = conversions.into_iter().fold(gather, |value, to| Expr::convert(to, value));
        let keeps_zeros = dtype.is_float() && self.routine.numerics == Numerics::Strict;
        let value = if keeps_zeros { plus(value, Expr::Const(Scalar::zero(dtype))) } else { value };
        with_element(body, &value)
    }

    fn dtype(&self, expr: &Expr) -> DType {
        self.routine.dtype_of(expr, self.locals)
    }
}

/// Whether a loop of the block ends at a value that depends on the variable.
fn bounds_a_loop(var: LoopId, block: &Block) -> bool {
    walk::stmts(block).any(|stmt| matches!(stmt, Stmt::For { hi, .. } if hi.mentions(var)))
}

/// The loops of a perfect nest, and the one statement inside them.
fn chain(mut block: &Block) -> Option<(Vec<LoopId>, &Stmt)> {
    let mut loops = Vec::new();
    loop {
        match block.as_slice() {
            [Stmt::For { var, kind: LoopKind::Serial | LoopKind::Unrolled, body, .. }] => {
                loops.push(*var);
                block = body;
            }
            [store] => return Some((loops, store)),
            _ => return None,
        }
    }
}

/// The nest inside a block, whose one statement now adds `element` to its target.
fn with_element(body: &Block, element: &Expr) -> Stmt {
    match body.as_slice() {
        [Stmt::For { var, lo, hi, kind, body }] => Stmt::For {
            var: *var,
            lo: *lo,
            hi: hi.clone(),
            kind: *kind,
            body: vec![with_element(body, element)],
        },
        [Stmt::SetLocal { local, index, .. }] => {
            let own = Expr::GetLocal { local: *local, index: index.clone() };
            Stmt::SetLocal { local: *local, index: index.clone(), value: plus(own, element.clone()) }
        }
        [Stmt::Set { node, index, .. }] => {
            let own = Expr::Get { node: *node, index: index.clone() };
            Stmt::Set { node: *node, index: index.clone(), value: plus(own, element.clone()) }
        }
        _ => Stmt::Comment(String::new()),
    }
}

fn plus(a: Expr, b: Expr) -> Expr {
    Expr::binary(BinaryOp::Add, a, b)
}

/// The expression inside conversions, and the types of the conversions, innermost first.
fn unconverted(expr: &Expr) -> (Vec<DType>, &Expr) {
    match expr {
        Expr::Convert { to, arg } => {
            let (mut conversions, inner) = unconverted(arg);
            conversions.push(*to);
            (conversions, inner)
        }
        _ => (Vec::new(), expr),
    }
}

fn is_number(expr: &Expr, value: i64) -> bool {
    matches!(expr, Expr::Const(c) if *c == Scalar::from_i64(c.dtype(), value))
}

fn mentions(expr: &Expr, var: LoopId) -> bool {
    let mut effects = Effects::default();
    effects.read(expr);
    effects.vars.contains(&var.into())
}

/// Whether 0 to `classes - 1` are values of the type.
fn tells_apart(dtype: DType, classes: i64) -> bool {
    whole_bits(dtype).is_some_and(|bits| bits >= 63 || classes <= 1 << bits)
}

/// Whether an integer of type `from` keeps its value in type `to`.
fn keeps_integers(to: DType, from: DType) -> bool {
    let bits = from.is_integer().then(|| 8 * from.size_bytes() as u32 - u32::from(from.is_signed()));
    matches!((whole_bits(to), bits), (Some(to), Some(from)) if to >= from)
        && (to.is_signed() || !from.is_signed())
}

/// A number `n` such that every integer below 2ⁿ is a value of the type.
fn whole_bits(dtype: DType) -> Option<u32> {
    match dtype {
        float if float.is_float() => float.significand_bits(),
        integer if integer.is_integer() => {
            Some(8 * integer.size_bytes() as u32 - u32::from(integer.is_signed()))
        }
        _ => None,
    }
}
