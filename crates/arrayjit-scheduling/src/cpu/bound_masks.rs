//! This pass makes bounds of masks: a nest that discards what it computes beyond the diagonal ends there.
//!
//! ```text
//! for i { for j in 0..n { top[i] := max(where(j <= i, s[i,j], -inf), top[i]) } }
//!     = for i { for j in 0..min(n, i + 1) { top[i] := max(s[i,j], top[i]) } }
//! ```
//!
//! Three kinds of nests are bounded, each around one store:
//!
//! * an accumulation of `where(j <= i, x, c)`, if `c` is the operation's neutral element;
//! * a store of `where(j <= i, x, 0)` into each element of a local node: the node is filled with zeros first,
//!   and sums of its elements, or of products with them, end at the diagonal too;
//! * a store into a local node of which all other statements read elements up to the diagonal only.
//!
//! A product with such zeros is NaN where the other factor is infinite or NaN. These products do not depend
//! on the row but for their number, so the sums of all rows take one pass, from the last row to the first:
//! `o[i] := o[i+1] + 0 * v[i+1]`. The bounded sums start from these.
//!
//! [`split_triangles`](super::split_triangles) then makes squares of the nests. A bound without a matmul
//! saves little, so the pass does nothing unless it bounds one.
//!
//! Each element gets the same values in the same order, without zeros that are added to it. In class `Fast`,
//! in which a sum that underflows may keep its sign, no bit changes; other classes are left alone.

use std::collections::BTreeMap;

use lowered_ir::ir::{
    Affine, ArrayRef, BinaryOp, Block, Expr, Indices, LoopId, LoweredRoutine, NodeRef, Numerics, Stmt,
    TernaryOp, Types, Var, walk,
};
use tnode::Scalar;

use crate::analysis::access::{self, NodePositions};
use crate::analysis::names::Names;
use crate::analysis::nest::{self, Loop};
use crate::analysis::nodes::is_local;
use crate::analysis::reduction::{multiply_add, neutral};
use codegen_core::dependence;

/// The fewest rows that are worth a bound: those that [`split_triangles`](super::split_triangles) divides.
const ROWS: i64 = 32;

/// Bounds nests among the top-level statements of a routine of class `Fast`.
pub(crate) fn bound_masks(routine: &mut LoweredRoutine) {
    if routine.numerics != Numerics::Fast || !walk::parts_in(&routine.body).any(|e| mask(e).is_some()) {
        return;
    }
    let stores: Vec<Option<Store>> = routine.body.iter().map(Store::of).collect();
    let positions = access::positions(&routine.body);
    let bounded = stores.iter().map(|_| None).collect();
    let mut masks = MaskBounds { routine, stores, positions, bounded, zero_beyond: BTreeMap::new() };
    (0..masks.stores.len()).for_each(|at| masks.bounded[at] = masks.by_value(at));
    (0..masks.stores.len()).rev().for_each(|at| {
        if masks.bounded[at].is_none() {
            masks.bounded[at] = masks.by_readers(at);
        }
    });
    if masks.has_product() {
        routine.body = masks.rewritten();
    }
}

/// A nest of loops with constant ends around one store.
struct Store {
    loops: Vec<Loop>,
    node: NodeRef,
    index: Indices,
    value: Expr,
}

/// Iterations up to the diagonal: `column < row + beyond`.
#[derive(Clone, Copy, PartialEq)]
struct Below<T> {
    row: T,
    column: T,
    beyond: i64,
}

/// The bound and the value that a nest gets.
struct Bounded {
    below: Below<LoopId>,
    value: Expr,
    start: Start,
}

/// The elements of a node before a bounded nest stores into it.
enum Start {
    /// The elements are those of the program.
    Same,
    Zeros,
    /// The sums of products of zeros, by [`zero_products`].
    ZeroProducts {
        factor: Expr,
    },
}

struct MaskBounds<'a> {
    routine: &'a LoweredRoutine,
    stores: Vec<Option<Store>>,
    positions: NodePositions,
    bounded: Vec<Option<Bounded>>,
    /// The local nodes whose elements beyond the diagonal are 0, with the axes of the row and the column.
    zero_beyond: BTreeMap<NodeRef, Below<usize>>,
}

impl MaskBounds<'_> {
    /// Bounds a nest whose value is a mask or has a factor that is 0 beyond the diagonal.
    fn by_value(&mut self, at: usize) -> Option<Bounded> {
        let store = self.stores[at].as_ref()?;
        if let Some((below, inside, outside)) = mask(&store.value) {
            let decl = self.routine.node(store.node);
            let axes = axes_of(&store.index, below)?;
            let fills = outside == Scalar::zero(decl.dtype)
                && is_local(decl)
                && store.admits(below)
                && access::overwrites(&self.routine.body[at], store.node, decl)
                && self.only_writer(store.node) == Some(at);
            return fills.then(|| {
                self.zero_beyond.insert(store.node, axes);
                Bounded { below, value: inside.clone(), start: Start::Zeros }
            });
        }
        let Expr::Binary { op, a, b } = &store.value else { return None };
        let own = store.own();
        let (element, is_second) = match (**a == own, **b == own) {
            (true, false) => (b, true),
            (false, true) => (a, false),
            _ => return None,
        };
        let combined = |element: Expr| match is_second {
            true => Expr::binary(*op, own.clone(), element),
            false => Expr::binary(*op, element, own.clone()),
        };
        if let Some((below, inside, outside)) = mask(element) {
            let is_neutral = neutral(*op, self.routine.node(store.node).dtype) == Some(outside);
            // A sum of masks has no fma.
            let contracts = *op == BinaryOp::Add && matches!(inside, Expr::Binary { op: BinaryOp::Mul, .. });
            let fits = is_neutral && !contracts && store.reduces(below) && store.admits(below);
            return fits.then(|| Bounded { below, value: combined(inside.clone()), start: Start::Same });
        }
        let (below, factor) = self.vanishing(*op, element, store)?;
        let start = match factor {
            Some(factor) => Start::ZeroProducts { factor: self.factor_of_columns(at, below, factor)? },
            None => Start::Same,
        };
        Some(Bounded { below, value: store.value.clone(), start })
    }

    /// The iterations up to the diagonal, if a term of a sum is 0 beyond it, and the factor of the zeros.
    fn vanishing<'e>(
        &self,
        op: BinaryOp,
        term: &'e Expr,
        store: &Store,
    ) -> Option<(Below<LoopId>, Option<&'e Expr>)> {
        let below = |e: &Expr| {
            let Expr::Get { node, index } = e else { return None };
            let below = loops_of(index, *self.zero_beyond.get(node)?)?;
            (store.reduces(below) && store.admits(below)).then_some(below)
        };
        match term {
            _ if op != BinaryOp::Add => None,
            Expr::Binary { op: BinaryOp::Mul, a, b } => match (below(a), below(b)) {
                (Some(below), None) => Some((below, Some(&**b))),
                (None, Some(below)) => Some((below, Some(&**a))),
                _ => None,
            },
            _ => Some((below(term)?, None)),
        }
    }

    /// The factor of a product, if [`zero_products`] can sum its zeros: it does not depend on the row, and
    /// the node of the sum was filled with zeros just before.
    fn factor_of_columns(&self, at: usize, below: Below<LoopId>, factor: &Expr) -> Option<Expr> {
        let store = self.stores[at].as_ref()?;
        let positions = self.positions.get(&store.node)?;
        let zero = *positions.first()?;
        let is_filled = self.routine.body[zero] == Stmt::Zero { node: store.node };
        let (is_next, is_plain) = (positions.get(1) == Some(&at), store.index.iter().all(is_plain_index));
        let has_row = walk::parts(factor).any(|e| dependence::mentions(e, below.row));
        let is_stable =
            walk::parts(factor).all(|e| !matches!(e, Expr::GetLocal { .. }) && self.is_set_before(e, zero));
        (is_filled && is_next && is_plain && !has_row && is_stable).then(|| factor.clone())
    }

    /// Whether no statement from position `at` on writes the node that an expression reads.
    fn is_set_before(&self, e: &Expr, at: usize) -> bool {
        let Some(ArrayRef::Node(node)) = e.array() else { return true };
        self.positions.get(&node).is_none_or(|all| {
            all.iter().filter(|&&later| later >= at).all(|&later| !self.writes(later, node))
        })
    }

    fn writes(&self, at: usize, node: NodeRef) -> bool {
        let stmt = std::slice::from_ref(&self.routine.body[at]);
        dependence::touches(stmt).iter().any(|touch| touch.node == node && touch.write)
    }

    /// The position of the only statement that writes a node, if no statement before reads it.
    fn only_writer(&self, node: NodeRef) -> Option<usize> {
        let (first, later) = self.positions.get(&node)?.split_first()?;
        later.iter().all(|&at| !self.writes(at, node)).then_some(*first)
    }

    /// Bounds a nest around a store into a local node, if all other nests read elements up to the diagonal.
    fn by_readers(&self, at: usize) -> Option<Bounded> {
        let store = self.stores[at].as_ref()?;
        let node = store.node;
        let positions = self.positions.get(&node)?;
        let (start, readers) = match positions.as_slice() {
            [zero, own, readers @ ..] if *own == at && self.routine.body[*zero] == Stmt::Zero { node } => {
                (Start::Same, readers)
            }
            [own, readers @ ..] if *own == at => (Start::Zeros, readers),
            _ => return None,
        };
        let is_own = |e: &Expr| !reads(e, node) || *e == store.own() && matches!(start, Start::Same);
        if !is_local(self.routine.node(node)) || !walk::parts(&store.value).all(is_own) {
            return None;
        }
        let mut all = readers.iter().map(|&reader| self.axes_read(reader, node));
        let axes = all.next()??;
        let is_same = all.all(|found| found == Some(axes));
        let below = loops_of(&store.index, axes).filter(|below| is_same && store.admits(*below))?;
        Some(Bounded { below, value: store.value.clone(), start })
    }

    /// The axes of the row and the column in a bounded nest's reads of a node, which it does not write.
    fn axes_read(&self, at: usize, node: NodeRef) -> Option<Below<usize>> {
        let bounded = self.bounded[at].as_ref().filter(|_| !self.writes(at, node))?;
        let mut all = walk::parts(&bounded.value).filter(|e| reads(e, node)).map(|e| match e {
            Expr::Get { index, .. } => axes_of(index, bounded.below),
            _ => None,
        });
        let axes = all.next()??;
        all.all(|found| found == Some(axes)).then_some(axes)
    }

    /// Whether a bounded nest is a sum of products.
    fn has_product(&self) -> bool {
        self.bounded.iter().zip(&self.stores).any(|(bounded, store)| {
            let (Some(Bounded { value, .. }), Some(store)) = (bounded, store) else { return false };
            let is_reduced = store.loops.iter().any(|l| !store.mentions(l.var));
            is_reduced && multiply_add(value).is_some()
        })
    }

    /// The statements of the routine, in which bounded nests have their bounds and start values.
    fn rewritten(&self) -> Block {
        let mut names = Names::of(self.routine);
        let mut starts: BTreeMap<usize, Block> = BTreeMap::new();
        for (at, bounded) in self.bounded.iter().enumerate() {
            if let (Some(store), Some(Bounded { below, start: Start::ZeroProducts { factor }, .. })) =
                (&self.stores[at], bounded)
            {
                let zero = self.positions[&store.node][0];
                starts.insert(zero, zero_products(store, *below, factor, &mut names));
            }
        }
        let statements = self.routine.body.iter().enumerate();
        let of_statement = |(at, stmt): (usize, &Stmt)| match (&self.stores[at], &self.bounded[at]) {
            (Some(store), Some(bounded)) => store.bounded(bounded),
            _ => starts.remove(&at).unwrap_or_else(|| vec![stmt.clone()]),
        };
        statements.flat_map(of_statement).collect()
    }
}

impl Store {
    fn of(stmt: &Stmt) -> Option<Store> {
        let (loops, body) = nest::loops_and_body(stmt);
        let [Stmt::Set { node, index, value }] = body else { return None };
        let is_constant = !loops.is_empty() && loops.iter().all(|l| l.extent().is_some());
        is_constant.then(|| Store { loops, node: *node, index: index.clone(), value: value.clone() })
    }

    fn own(&self) -> Expr {
        Expr::Get { node: self.node, index: self.index.clone() }
    }

    fn mentions(&self, var: LoopId) -> bool {
        self.index.iter().any(|index| index.mentions(var))
    }

    /// Whether the nest may end at the diagonal: the loop over rows is outside of the loop over columns,
    /// which are as many.
    fn admits(&self, Below { row, column, beyond }: Below<LoopId>) -> bool {
        let at = |var: LoopId| self.loops.iter().position(|l| l.var == var);
        let (Some(row), Some(column)) = (at(row), at(column)) else { return false };
        let (rows, columns) = (self.loops[row].hi.limit, self.loops[column].hi.limit);
        row < column && rows == columns && rows >= ROWS && (0..=1).contains(&beyond)
    }

    /// Whether the columns are reduced, and the rows are not.
    fn reduces(&self, below: Below<LoopId>) -> bool {
        self.mentions(below.row) && !self.mentions(below.column)
    }

    fn bounded(&self, Bounded { below, value, start }: &Bounded) -> Block {
        let end = Affine::var(below.row).plus_constant(below.beyond);
        let mut loops = self.loops.clone();
        for l in loops.iter_mut().filter(|l| l.var == below.column) {
            l.hi = l.hi.clone().clipped(end.clone());
        }
        let set = Stmt::Set { node: self.node, index: self.index.clone(), value: value.clone() };
        let zeros = matches!(start, Start::Zeros).then_some(Stmt::Zero { node: self.node });
        zeros.into_iter().chain(nest::wrap(&loops, vec![set])).collect()
    }
}

/// The sums of the products of `factor` with the zeros beyond the diagonal, for all rows of a bounded nest.
fn zero_products(store: &Store, below: Below<LoopId>, factor: &Expr, names: &mut Names) -> Block {
    let dtype = names.node(store.node);
    let at_row = |row: &Affine| -> Indices {
        store.index.iter().map(|index| index.substitute(below.row, row)).collect()
    };
    // The zero of one column, which is added to the sum `before` gives the sum of `row`.
    let step = |row: Affine, before: &Affine, column: &Affine| {
        let factor =
            walk::map_expr_indices(factor.clone(), &mut |index| index.substitute(below.column, column));
        let zero = Expr::binary(BinaryOp::Mul, Expr::Const(Scalar::zero(dtype)), factor);
        let before = Expr::Get { node: store.node, index: at_row(before) };
        let value = Expr::binary(BinaryOp::Add, before, zero);
        Stmt::Set { node: store.node, index: at_row(&row), value }
    };
    let others: Vec<Loop> = store.loops.iter().filter(|l| l.var != below.column).cloned().collect();
    let Some(at) = others.iter().position(|l| l.var == below.row) else { return Block::new() };
    let last = others[at].hi.limit - 1;
    let mut block = vec![Stmt::Zero { node: store.node }];
    if below.beyond == 0 {
        let mut loops = others.clone();
        loops.remove(at);
        let last = Affine::constant(last);
        block.extend(names.refreshed(&nest::wrap(&loops, vec![step(last.clone(), &last, &last)])));
    }
    let mut loops = others;
    loops[at].hi = last.into();
    let row = Affine::term(below.row, -1).plus_constant(last - 1);
    let (before, column) = (row.plus_constant(1), row.plus_constant(below.beyond));
    block.extend(names.refreshed(&nest::wrap(&loops, vec![step(row, &before, &column)])));
    block
}

/// The parts of `where(column < row + beyond, inside, outside)` with a constant outside of the diagonal,
/// however it is written.
fn mask(e: &Expr) -> Option<(Below<LoopId>, &Expr, Scalar)> {
    let Expr::Ternary { op: TernaryOp::Where, a: condition, b: then, c: otherwise } = e else { return None };
    let Expr::Binary { op, a, b } = &**condition else { return None };
    let (Expr::Index { index: a, .. }, Expr::Index { index: b, .. }) = (&**a, &**b) else { return None };
    // The condition as `difference < end`.
    let end = match op {
        BinaryOp::Lt => 0,
        BinaryOp::Le => 1,
        _ => return None,
    };
    let difference = a.plus(&b.times(-1));
    let (column, row) = match *difference.terms() {
        [(Var::Loop(column), 1), (Var::Loop(row), -1)] => (column, row),
        [(Var::Loop(row), -1), (Var::Loop(column), 1)] => (column, row),
        _ => return None,
    };
    let beyond = end - difference.offset();
    match (&**then, &**otherwise) {
        (inside, &Expr::Const(outside)) => Some((Below { row, column, beyond }, inside, outside)),
        // Where `column < row + beyond` does not hold, `row < column + 1 - beyond` does.
        (&Expr::Const(outside), inside) => {
            Some((Below { row: column, column: row, beyond: 1 - beyond }, inside, outside))
        }
        _ => None,
    }
}

fn reads(e: &Expr, node: NodeRef) -> bool {
    e.array() == Some(ArrayRef::Node(node))
}

/// The axes whose indices are the row and the column.
fn axes_of(index: &Indices, below: Below<LoopId>) -> Option<Below<usize>> {
    let axis = |var: LoopId| {
        let mut mentioned = index.iter().enumerate().filter(|(_, index)| index.mentions(var));
        let (axis, found) = mentioned.next()?;
        (mentioned.next().is_none() && found.as_var() == Some(var.into())).then_some(axis)
    };
    Some(Below { row: axis(below.row)?, column: axis(below.column)?, beyond: below.beyond })
}

/// The loops whose variables are the indices of the axes.
fn loops_of(index: &Indices, axes: Below<usize>) -> Option<Below<LoopId>> {
    let var = |axis: usize| match index.get(axis)?.as_var()? {
        Var::Loop(var) => Some(var),
        Var::Symbol(_) => None,
    };
    let below = Below { row: var(axes.row)?, column: var(axes.column)?, beyond: axes.beyond };
    (axes_of(index, below) == Some(axes)).then_some(below)
}

fn is_plain_index(index: &Affine) -> bool {
    index.as_constant().is_some() || matches!(index.as_var(), Some(Var::Loop(_)))
}
