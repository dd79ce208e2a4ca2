//! Triangular nests: divides a nest whose columns end at the row into rectangles.
//!
//! `for i in 0..n { for j in 0..min(n, i + 1) { … } }` has no rectangle of iterations that could run in
//! vectors or that a codegen could compile as a matmul. Below the diagonal, though, rows `(2b + 1)·B + r`
//! have the columns `2b·B + c` for every `b` and all `r, c < B`. For `B` = `n/2`, `n/4`, … these squares
//! cover all but triangles of a few rows, `SMALL`:
//!
//! ```text
//! for B in [n/2, …, SMALL] { for b { for r in 0..B { for c in 0..B { … (2b+1)·B + r … 2b·B + c … } } } }
//! for b { for r in 0..SMALL { for c in 0..min(SMALL, r + 1) { … } } }
//! ```
//!
//! If every iteration of both loops has an element of its own, the triangles are squares too: an iteration
//! above the diagonal stores the value that its element already has. If moreover the node is local, was
//! filled with zeros before, and is accessed in the same triangle only, the elements above the diagonal may
//! hold anything: the zeros are not stored, and the squares need no condition.
//!
//! If such a nest computes each element from the same element of another local node, and no later statement
//! reads that node, it stores its elements there: `e[i,j] := exp(s[i,j] - top[i])` becomes `s[i,j] := …`. The
//! storage is folded here because it is not evident any more when the nest is in parts.
//!
//! A triangle that is not divided loses its zeros too, unless it adds to them.
//!
//! Each element gets the same values in the same order. If the columns are reduced, larger squares have
//! smaller columns and come first; if the rows are reduced, larger squares have greater rows and come last.
//! Nests that end at `i - c`, that begin at the row, or whose triangle is inside another statement's loops
//! stay whole.

use std::collections::{BTreeMap, BTreeSet};

use lowered_ir::ir::{
    Affine, ArrayRef, BinaryOp, Block, Bound, Expr, Indices, LoopId, LoopKind, LoweredRoutine, NodeRef,
    Space, Stmt, Types, Var, walk,
};
use tnode::{DType, Dims, Scalar};

use crate::analysis::access::{self, NodePositions};
use crate::analysis::names::Names;
use crate::analysis::nest::{self, Loop};
use crate::analysis::nodes::is_local;
use crate::analysis::uses::RoutineUses;
use crate::common::normalize_loops::normalize_block;
use codegen_core::dependence::{self, mentions};

/// What becomes of a triangular nest.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Division {
    /// It is divided into squares, and triangles of this many rows. Smaller squares are not worth a nest of
    /// their own.
    Into(i64),
    /// It stays whole, perhaps without its zeros.
    Whole,
    /// It stays as it is, and so do the zeros before it.
    Untouched,
}

/// Divides the triangular nests among the top-level statements of a routine.
pub(crate) fn split_triangles(
    routine: &mut LoweredRoutine,
    uses: &mut RoutineUses,
    division: &dyn Fn(&Stmt) -> Division,
) {
    let mut names = Names::of(routine);
    let body = std::mem::take(&mut routine.body);
    let mut triangles: Vec<Option<Triangle>> =
        body.iter().map(|stmt| Triangle::of(stmt, &names, division)).collect();
    if triangles.iter().all(Option::is_none) {
        routine.body = body;
        return;
    }
    let positions = access::positions(&body);
    let mut unread = BTreeSet::new();
    for (at, triangle) in triangles.iter_mut().enumerate() {
        if let Some(triangle) = triangle
            && is_local(routine.node(triangle.node))
            && (triangle.small.is_some() || !triangle.reads_itself())
            && let Some(zero) = triangle.unread_zero(&body, at, (&names, &positions))
        {
            triangle.starts_from_zero = true;
            uses.writes_part(triangle.node);
            unread.insert(zero);
        }
    }
    let reused = reused_storage(routine, &positions, &triangles);
    let kept = body.into_iter().zip(triangles).enumerate().filter(|(at, _)| !unread.contains(at));
    routine.body = kept
        .flat_map(|(_, (stmt, triangle))| match triangle {
            Some(triangle) => triangle.small.map_or(vec![stmt], |small| triangle.parts(small, &mut names)),
            None => vec![stmt],
        })
        .collect();
    store_elsewhere(&mut routine.body, |node| reused.get(&node).copied());
}

/// Stores the elements of the nodes that have another storage in that one.
pub(crate) fn store_elsewhere(block: &mut [Stmt], storage: impl Fn(NodeRef) -> Option<NodeRef>) {
    walk::move_elements(block, &mut |array, index| match array {
        ArrayRef::Node(node) => Some((ArrayRef::Node(storage(node)?), index.clone())),
        ArrayRef::Local(_) => None,
    });
}

/// For the nodes of triangles, dead nodes that their elements can be stored in.
fn reused_storage(
    routine: &LoweredRoutine,
    positions: &NodePositions,
    triangles: &[Option<Triangle>],
) -> BTreeMap<NodeRef, NodeRef> {
    let mut reused = BTreeMap::new();
    for (at, triangle) in triangles.iter().enumerate() {
        if let Some(triangle) = triangle.as_ref().filter(|triangle| triangle.starts_from_zero)
            && let Some(storage) = triangle.used_up(routine, positions, at)
        {
            // The storage may be a node which is stored elsewhere itself.
            reused.insert(triangle.node, reused.get(&storage).copied().unwrap_or(storage));
        }
    }
    reused
}

/// A nest around one store. The loop `column` ends at the loop `row`.
struct Triangle {
    loops: Vec<Loop>,
    row: LoopId,
    column: LoopId,
    /// The number of rows.
    rows: i64,
    /// The columns of row `i` are `0..i + beyond`.
    beyond: i64,
    node: NodeRef,
    index: Indices,
    value: Expr,
    /// Rows of the triangles into which it is divided; none if it stays whole.
    small: Option<i64>,
    /// Whether the elements are zero before, and no later statement accesses elements above the diagonal.
    starts_from_zero: bool,
}

/// The places of the blocks of a nest.
#[derive(Clone, Copy)]
struct BlockSteps {
    /// The number of the first block.
    first: i64,
    /// Rows and columns from one block to the next.
    stride: i64,
    /// Rows of a block after its columns.
    below: i64,
}

impl Triangle {
    fn of(stmt: &Stmt, names: &Names, division: &dyn Fn(&Stmt) -> Division) -> Option<Triangle> {
        if !has_dynamic_end(stmt) {
            return None;
        }
        let small = match division(stmt) {
            Division::Into(small) => Some(small),
            Division::Whole => None,
            Division::Untouched => return None,
        };
        let (loops, body) = chain(stmt);
        let [Stmt::Set { node, index, value }] = body else { return None };
        let mut clipped = loops.iter().filter(|l| !l.hi.is_constant());
        let (column, None) = (clipped.next()?, clipped.next()) else { return None };
        let [clip] = column.hi.clips() else { return None };
        let &[(Var::Loop(row), 1)] = clip.terms() else { return None };
        let rows = loops.iter().find(|l| l.var == row)?.extent()?;
        let fits =
            (0..=1).contains(&clip.offset()) && rows >= 2 * small.unwrap_or(1) && column.hi.limit >= rows;
        let (column, beyond) = (column.var, clip.offset());
        let (node, index, value) = (*node, index.clone(), value.clone());
        let starts_at_zero = loops.iter().all(|l| l.lo == 0);
        let triangle =
            Triangle { loops, row, column, rows, beyond, node, index, value, small, starts_from_zero: false };
        (fits && starts_at_zero && triangle.keeps_order(names)).then_some(triangle)
    }

    /// Whether an iteration reads the element that it stores.
    fn reads_itself(&self) -> bool {
        walk::parts(&self.value).any(|e| *e == self.own())
    }

    fn is_output(&self, var: LoopId) -> bool {
        self.index.iter().any(|i| i.mentions(var))
    }

    /// Whether the parts give each element the same values in the same order as the triangle.
    fn keeps_order(&self, names: &Names) -> bool {
        let (outputs, reduced): (Vec<LoopId>, Vec<LoopId>) =
            self.loops.iter().map(|l| l.var).partition(|&var| self.is_output(var));
        let first = reduced.first().copied();
        let in_order = match (self.is_output(self.row), self.is_output(self.column)) {
            (true, true) => true,
            (true, false) => first == Some(self.column),
            (false, true) => first == Some(self.row),
            (false, false) => false,
        };
        in_order
            && self.reads_own_element_only(self.node)
            && access::injective(&self.index, &outputs, &names.ranges)
    }

    /// Whether each iteration reads of a node only the element with the index of the element that it stores.
    fn reads_own_element_only(&self, of: NodeRef) -> bool {
        walk::parts(&self.value).all(|e| match e {
            Expr::Get { node, index } => *node != of || *index == self.index,
            Expr::GetGuarded { node, .. } | Expr::GetDynamic { node, .. } => *node != of,
            _ => true,
        })
    }

    /// Finds a local node of the same type and shape that is dead after this nest, which is at position `at`:
    /// no later statement accesses it, and each iteration reads only its element at the index of the stored
    /// element. Nests with sums have none: they may be matmuls, whose operands are not stored.
    fn used_up(&self, routine: &LoweredRoutine, positions: &NodePositions, at: usize) -> Option<NodeRef> {
        let own = routine.node(self.node);
        let is_dead = |node: NodeRef| positions.get(&node).and_then(|all| all.last()) == Some(&at);
        let is_free = |node: NodeRef| {
            let decl = routine.node(node);
            let has_room = is_local(decl) && (decl.dtype, &decl.dims) == (own.dtype, &own.dims);
            node != self.node && has_room && is_dead(node) && self.reads_own_element_only(node)
        };
        let mut read = walk::parts(&self.value).filter_map(|e| match e {
            Expr::Get { node, .. } => Some(*node),
            _ => None,
        });
        let has_no_sums = self.loops.iter().all(|l| self.is_output(l.var));
        read.find(|&node| has_no_sums && is_free(node))
    }

    /// The position of the statement that fills the node with zeros, if only this nest, which is at position
    /// `at`, and later accesses to the elements that it stores mention the node.
    fn unread_zero(
        &self,
        body: &[Stmt],
        at: usize,
        (names, positions): (&Names, &NodePositions),
    ) -> Option<usize> {
        let mut all = positions.get(&self.node)?.iter().copied();
        let zero = all.next().filter(|&at| body[at] == Stmt::Zero { node: self.node })?;
        let is_next = all.next() == Some(at) && self.element_loops(names).is_some();
        let is_within = |at: usize| self.stays_within(&body[at], names);
        (is_next && self.fills_squares(names) && all.all(is_within)).then_some(zero)
    }

    /// The loop of each axis of several elements, if each index is the variable of another loop, and the row
    /// and the column are among them.
    fn element_loops(&self, names: &Names) -> Option<Vec<&Loop>> {
        let of_axis = |index: &Affine| self.loops.iter().find(|l| *index == Affine::var(l.var));
        let loops: Vec<&Loop> = self.long_axes(&self.index, names).map(of_axis).collect::<Option<_>>()?;
        let vars: BTreeSet<LoopId> = loops.iter().map(|l| l.var).collect();
        let is_whole = vars.len() == loops.len() && vars.contains(&self.row) && vars.contains(&self.column);
        is_whole.then_some(loops)
    }

    /// The indices of an element of the node along all axes of several elements.
    fn long_axes<'i>(&self, index: &'i Indices, names: &'i Names) -> impl Iterator<Item = &'i Affine> {
        index.iter().zip(names.dims(self.node)).filter(|(_, dim)| **dim > 1).map(|(index, _)| index)
    }

    /// Whether a statement accesses only elements of the node that this nest stores: the loops over its
    /// indices have the same ends as the loops of this nest.
    fn stays_within(&self, stmt: &Stmt, names: &Names) -> bool {
        let Some(own) = self.element_loops(names) else { return false };
        let block = std::slice::from_ref(stmt);
        let mut ends = BTreeMap::new();
        walk::stmts(block).for_each(|stmt| {
            if let Stmt::For { var, lo: 0, hi, .. } = stmt {
                ends.insert(*var, hi.clone());
            }
        });
        let is_stored = |index: &Indices| {
            let vars: Option<Vec<LoopId>> = self.long_axes(index, names).map(variable).collect();
            let Some(vars) = vars else { return false };
            let renamed =
                |var: Var| own.iter().zip(&vars).find(|(l, _)| Var::Loop(l.var) == var).map(|p| *p.1);
            own.iter().zip(&vars).all(|(l, var)| {
                let clips = l.hi.clips().iter().map(|clip| {
                    let [(var, 1)] = clip.terms() else { return None };
                    Some(Affine::var(renamed(*var)?).plus_constant(clip.offset()))
                });
                let clips: Option<Vec<Affine>> = clips.collect();
                let end = clips.map(|clips| clips.into_iter().fold(l.hi.limit.into(), Bound::clipped));
                end.is_some() && ends.get(var) == end.as_ref()
            })
        };
        let mut touches = dependence::touches(block).into_iter().filter(|touch| touch.node == self.node);
        touches.all(|touch| touch.index.is_some_and(is_stored))
    }

    /// The rectangles below the diagonal and the parts on it, in an order that keeps the order of sums.
    fn parts(&self, small: i64, names: &mut Names) -> Block {
        let mut parts = Block::new();
        let mut side = small;
        while 2 * side < self.rows {
            side *= 2;
        }
        while side >= small {
            let (pairs, rest) = (self.rows / (2 * side), self.rows % (2 * side));
            parts.extend(self.squares(0, pairs, (side, side), names));
            parts.extend(self.squares(pairs, 1, (rest - side, side), names));
            side /= 2;
        }
        let (blocks, rest) = (self.rows / small, self.rows % small);
        parts.extend(self.diagonal([0, blocks], small, small, names));
        parts.extend(self.diagonal([blocks, 1], rest, small, names));
        if !self.is_output(self.row) {
            parts.reverse();
        }
        parts
    }

    /// `count` rectangles of `extent.0` rows and `extent.1` columns, from pair `first` on.
    fn squares(&self, first: i64, count: i64, extent: (i64, i64), names: &mut Names) -> Option<Stmt> {
        let (rows, side) = extent;
        let loops = self.blocked((count, rows), side.into());
        match self.starts_from_zero {
            true => self.by_element(loops, BlockSteps { first, stride: 2 * side, below: side }, names),
            false => self.placed(
                &loops,
                vec![self.set(self.value.clone())],
                BlockSteps { first, stride: 2 * side, below: side },
                names,
            ),
        }
    }

    /// `count` triangles of `rows` rows, from block `first` of `stride` rows on: as squares, if that is
    /// possible.
    fn diagonal(&self, [first, count]: [i64; 2], rows: i64, stride: i64, names: &mut Names) -> Option<Stmt> {
        let steps = BlockSteps { first, stride, below: 0 };
        if self.fills_squares(names) {
            return self.by_element(self.blocked((count, rows), rows.into()), steps, names);
        }
        let end = Bound::from(rows).clipped(Affine::var(self.row).plus_constant(self.beyond));
        let loops = self.blocked((count, rows), end);
        self.placed(&loops, vec![self.set(self.value.clone())], steps, names)
    }

    /// [`placed`](Self::placed) with the loops that are reduced innermost, around an accumulator.
    fn by_element(&self, loops: Vec<Loop>, steps: BlockSteps, names: &mut Names) -> Option<Stmt> {
        let is_outer = |l: &Loop| l.var == BLOCK || self.is_output(l.var);
        let (outer, reduced): (Vec<Loop>, Vec<Loop>) = loops.into_iter().partition(is_outer);
        let body = self.element(&reduced, names);
        self.placed(&outer, body, steps, names)
    }

    fn own(&self) -> Expr {
        Expr::Get { node: self.node, index: self.index.clone() }
    }

    fn set(&self, value: Expr) -> Stmt {
        Stmt::Set { node: self.node, index: self.index.clone(), value }
    }

    /// Whether iterations above the diagonal can run: they have elements of their own, and read nothing
    /// outside of the nodes.
    fn fills_squares(&self, names: &Names) -> bool {
        let is_inside = |index: &Indices, node: NodeRef| {
            let dims = names.dims(node);
            index.iter().zip(dims).all(|(i, &dim)| {
                i.bounds(|var| names.ranges.get(var)).is_some_and(|(lo, hi)| lo >= 0 && hi < dim as i64)
            })
        };
        let is_legal = |e: &Expr| match e {
            Expr::Get { node, index } => is_inside(index, *node),
            Expr::Index { .. }
            | Expr::GetGuarded { .. }
            | Expr::GetDynamic { .. }
            | Expr::GetMerge { .. } => !mentions(e, self.row) && !mentions(e, self.column),
            _ => true,
        };
        self.rows < i64::from(i32::MAX)
            && self.is_output(self.row)
            && self.is_output(self.column)
            && walk::parts(&self.value).all(is_legal)
    }

    /// Computes an element in the loops `reduced` and stores it. If elements above the diagonal must keep
    /// their values, it stores the previous value there.
    fn element(&self, reduced: &[Loop], names: &mut Names) -> Block {
        let dtype = names.node(self.node);
        let previous = match self.starts_from_zero {
            true => Expr::Const(Scalar::zero(dtype)),
            false => self.own(),
        };
        if reduced.is_empty() {
            return vec![self.set_below(self.with_own(&previous))];
        }
        let (acc, declare) = names.declare(dtype, Dims::new(), Space::Register);
        let step = Stmt::set_scalar(acc, self.with_own(&Expr::local(acc)));
        let mut body = vec![declare, Stmt::set_scalar(acc, previous)];
        body.extend(nest::wrap(reduced, vec![step]));
        body.push(self.set_below(Expr::local(acc)));
        body
    }

    /// The value with another expression in the place of the element's previous value.
    fn with_own(&self, previous: &Expr) -> Expr {
        let own = self.own();
        walk::map_expr(self.value.clone(), &mut |e| if e == own { previous.clone() } else { e })
    }

    fn set_below(&self, value: Expr) -> Stmt {
        if self.starts_from_zero {
            return self.set(value);
        }
        let number = |index| Expr::Index { index, dtype: DType::I32 };
        let end = number(Affine::var(self.row).plus_constant(self.beyond));
        let is_below = Expr::binary(BinaryOp::Lt, number(Affine::var(self.column)), end);
        self.set(Expr::select(is_below, value, self.own()))
    }

    /// The loops for `rows.0` blocks of `rows.1` rows, whose columns end at `columns`.
    fn blocked(&self, rows: (i64, i64), columns: Bound) -> Vec<Loop> {
        let mut loops = Vec::new();
        for l in &self.loops {
            if l.var == self.row {
                loops.push(Loop { var: BLOCK, lo: 0, hi: rows.0.into() });
                loops.push(Loop { hi: rows.1.into(), ..l.clone() });
            } else if l.var == self.column {
                loops.push(Loop { hi: columns.clone(), ..l.clone() });
            } else {
                loops.push(l.clone());
            }
        }
        loops
    }

    /// A nest with variables of its own.
    fn placed(&self, loops: &[Loop], mut body: Block, steps: BlockSteps, names: &mut Names) -> Option<Stmt> {
        if loops.iter().any(|l| l.hi.limit <= 0) {
            return None;
        }
        let BlockSteps { first, stride, below } = steps;
        let block = names.loop_id();
        let start = Affine::term(block, stride).plus_constant(first * stride);
        let row = start.plus(&Affine::var(self.row)).plus_constant(below);
        walk::substitute(&mut body, self.row, &row);
        walk::substitute(&mut body, self.column, &start.plus(&Affine::var(self.column)));
        let own = |l: &Loop| if l.var == BLOCK { Loop { var: block, ..l.clone() } } else { l.clone() };
        let loops: Vec<Loop> = loops.iter().map(own).collect();
        let nest = nest::wrap(&loops, body);
        let mut nest = names.refreshed(&nest);
        normalize_block(&mut nest);
        nest.pop()
    }
}

/// Stands for the loop over blocks until the nest has variables of its own.
const BLOCK: LoopId = LoopId(u32::MAX);

/// The loop whose variable the index is.
fn variable(index: &Affine) -> Option<LoopId> {
    match index.terms() {
        &[(Var::Loop(var), 1)] if index.offset() == 0 => Some(var),
        _ => None,
    }
}

/// Whether the end of a loop in the chain of loops that starts at a statement is not constant.
fn has_dynamic_end(stmt: &Stmt) -> bool {
    let Stmt::For { hi, body, .. } = stmt else { return false };
    !hi.is_constant() || matches!(body.as_slice(), [inner] if has_dynamic_end(inner))
}

/// The longest chain of serial loops that starts at a statement, whatever their ends are, and its body.
fn chain(stmt: &Stmt) -> (Vec<Loop>, &[Stmt]) {
    let mut loops = Vec::new();
    let mut block = std::slice::from_ref(stmt);
    while let [Stmt::For { var, lo, hi, kind: LoopKind::Serial, body }] = block {
        loops.push(Loop { var: *var, lo: *lo, hi: hi.clone() });
        block = body;
    }
    (loops, block)
}
