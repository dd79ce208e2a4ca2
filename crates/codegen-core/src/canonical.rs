//! Contractions in canonical form: loop nests that a codegen can compile whole, by matrix kernels of its own.
//!
//! ```text
//! for batch…, rows…, columns… {
//!   acc := start                         ; zero, or an element of an array
//!   for depth… { acc := fma(left, right, acc) }
//!   epilogue                             ; statements without loops, on scalars of their own
//! }
//! ```
//!
//! `left` depends on rows and depth, `right` on columns and depth, both possibly on the batch. The iterations
//! of the outer loops are independent of each other, so their order is free, and each output adds its
//! products in the order of the depth: no order of tiles changes a bit. Rows, and columns, may be several
//! loops that form one axis: in every array that the epilogue accesses, one step of the outer loop is as long
//! as all iterations of the inner one. The epilogue stores contiguously along the columns.
//!
//! A loop may end at a sum of symbols; if several loops form one axis, the outermost of them may.
//!
//! Operands are elements of nodes, in `f32` or `f64`, or in `f16` or `bf16` and converted to `f32`, the type
//! of the accumulator. Elements that a guard excludes are zero. Elements of `u8` and `i8` are converted to
//! `i32`; their products are added by `acc := acc + left · right`, since integers have no fma. A constant may
//! be subtracted from such an element, which is any constant where a guard excludes it. The order of such
//! sums, which wrap, is free.
//!
//! The scheduler leaves such a nest whole for targets whose [`crate::Caps`] list its operand types, and the
//! codegen recognizes it by [`Contraction::of`] as well.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use lowered_ir::ir::{
    Affine, ArrayRef, BinaryOp, Block, Expr, Indices, LocalId, Locals, LoopId, LoopKind, LoweredRoutine,
    NodeRef, Space, Stmt, TernaryOp, walk,
};
use tnode::{DType, Dims};

use crate::DTypeSet;
use crate::dependence::{self, LoopBody, VariableRanges, mentions};

/// A loop that starts at 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Axis {
    /// The loop's variable.
    pub var: LoopId,
    /// The number of iterations; the most of them if the loop is [dynamic](Contraction::dynamic).
    pub extent: i64,
}

/// A contraction. Lists of loops are from the outermost inwards.
#[derive(Clone, Debug, PartialEq)]
pub struct Contraction {
    /// Loops that are neither rows nor columns.
    pub batch: Vec<Axis>,
    /// Loops that make up the rows; at least one.
    pub rows: Vec<Axis>,
    /// Loops that make up the columns; at least one.
    pub columns: Vec<Axis>,
    /// Loops over `k`, in the order in which products are added; at least one.
    pub depth: Vec<Axis>,
    /// The ends of the loops that end at symbols. Each of these loops has at most `extent` iterations, and
    /// none if its end is negative.
    pub dynamic: Vec<(LoopId, Affine)>,
    /// The loop that several threads may share, if any: the outermost loop of the batch, the rows or the
    /// columns.
    pub parallel: Option<LoopId>,
    /// The operand that depends on the rows.
    pub left: Expr,
    /// The operand that depends on the columns.
    pub right: Expr,
    /// The accumulator, a scalar local.
    pub acc: LocalId,
    /// The initial value of the accumulator, an element of a node. Zero if there is none.
    pub start: Option<Expr>,
    /// The statements that consume the accumulator.
    pub epilogue: Block,
}

/// The shapes of a routine's arrays and the ranges of its variables.
#[derive(Clone, Debug)]
pub struct Arrays<'a> {
    nodes: Cow<'a, [(DType, Dims)]>,
    /// Arrays that are numbered after the nodes.
    more: Vec<(DType, Dims)>,
    ranges: Cow<'a, VariableRanges>,
}

impl<'a> Arrays<'a> {
    /// The arrays and variables of a routine.
    pub fn of(routine: &LoweredRoutine) -> Arrays<'static> {
        let nodes = routine.nodes.iter().map(|node| (node.dtype, node.dims.clone())).collect();
        Arrays { nodes: Cow::Owned(nodes), more: Vec::new(), ranges: Cow::Owned(VariableRanges::of(routine)) }
    }

    /// Nodes, followed by other arrays.
    pub fn new(
        nodes: &'a [(DType, Dims)],
        more: Vec<(DType, Dims)>,
        ranges: &'a VariableRanges,
    ) -> Arrays<'a> {
        Arrays { nodes: Cow::Borrowed(nodes), more, ranges: Cow::Borrowed(ranges) }
    }

    /// The same arrays, followed by the arrays `more` that [`outer_locals_as_nodes`] numbers.
    pub fn with_nodes(&self, more: impl Iterator<Item = (DType, Dims)>) -> Arrays<'_> {
        Arrays::new(&self.nodes, self.more.iter().cloned().chain(more).collect(), &self.ranges)
    }

    fn array(&self, node: NodeRef) -> &(DType, Dims) {
        let at = node.index();
        self.nodes.get(at).unwrap_or_else(|| &self.more[at - self.nodes.len()])
    }

    /// The element type of an array.
    pub fn dtype(&self, node: NodeRef) -> DType {
        self.array(node).0
    }

    /// The row-major position of an element in its array, in elements.
    pub fn position(&self, node: NodeRef, index: &Indices) -> Affine {
        Affine::row_major(index, &self.array(node).1)
    }
}

impl Contraction {
    /// Recognizes a nest that is a contraction. The nest must mention no local that it does not declare.
    pub fn of(stmt: &Stmt, arrays: &Arrays) -> Option<Contraction> {
        let OuterLoops { axes: loops, mut dynamic, parallel, body } = OuterLoops::of(stmt)?;
        let mut inner = Inner::of(body)?;
        dynamic.append(&mut inner.dynamic);
        let read_type = |read: &Expr| Some(arrays.dtype(node_of(read)?));
        let computes =
            |factor| matches!(dtype(factor, &read_type), Some(DType::F32 | DType::F64 | DType::I32));
        if !computes(inner.left) || !computes(inner.right) || has_loops(inner.epilogue) {
            return None;
        }
        let places = places(&inner, arrays)?;
        let whole = LoopBody::of(std::slice::from_ref(stmt));
        if !loops.iter().all(|axis| whole.is_independent(axis.var, &arrays.ranges)) {
            return None;
        }
        let (left, right) = (inner.left, inner.right);
        let only = |one: &Expr, other: &Expr| -> Vec<Axis> {
            loops.iter().copied().filter(|l| mentions(one, l.var) && !mentions(other, l.var)).collect()
        };
        let (mut of_left, mut of_right) = (only(left, right), only(right, left));
        let (mut left, mut right) = (left.clone(), right.clone());
        if contiguous(&of_left, &places).is_some() {
            std::mem::swap(&mut of_left, &mut of_right);
            std::mem::swap(&mut left, &mut right);
        }
        let column = contiguous(&of_right, &places)?;
        let all: Vec<&Affine> = places.stored.iter().chain(&places.loaded).collect();
        let columns = merged(column, &of_right, &all, &dynamic);
        // Loops that form one axis together make more rows than the longest loop alone.
        let rows = of_left
            .iter()
            .map(|row| merged(*row, &of_left, &all, &dynamic))
            .max_by_key(|rows| extent(rows))?;
        let batch: Vec<Axis> =
            loops.iter().copied().filter(|l| !rows.contains(l) && !columns.contains(l)).collect();
        let heads = [batch.first(), rows.first(), columns.first()];
        if parallel.is_some_and(|var| !heads.iter().flatten().any(|head| head.var == var)) {
            return None;
        }
        Some(Contraction {
            batch,
            rows,
            columns,
            depth: inner.depth,
            dynamic,
            parallel,
            left,
            right,
            acc: inner.acc,
            start: inner.start.cloned(),
            epilogue: inner.declared.into_iter().chain(inner.epilogue).cloned().collect(),
        })
    }

    /// The number of rows of all loops together.
    pub fn num_rows(&self) -> i64 {
        extent(&self.rows)
    }

    /// The number of columns of all loops together.
    pub fn num_columns(&self) -> i64 {
        extent(&self.columns)
    }

    /// The number of products per output.
    pub fn num_products(&self) -> i64 {
        extent(&self.depth)
    }
}

/// The number of iterations of nested loops.
fn extent(axes: &[Axis]) -> i64 {
    axes.iter().map(|axis| axis.extent).product()
}

/// The chain of outer loops, and the innermost body, which is not a single loop.
struct OuterLoops<'a> {
    axes: Vec<Axis>,
    dynamic: Vec<(LoopId, Affine)>,
    parallel: Option<LoopId>,
    body: &'a [Stmt],
}

impl<'a> OuterLoops<'a> {
    fn of(stmt: &'a Stmt) -> Option<OuterLoops<'a>> {
        let mut loops = OuterLoops { axes: Vec::new(), dynamic: Vec::new(), parallel: None, body: &[] };
        loops.body = std::slice::from_ref(stmt);
        while let [Stmt::For { var, lo, hi, kind, body }] = loops.body {
            match kind {
                LoopKind::Parallel if loops.axes.is_empty() => loops.parallel = Some(*var),
                LoopKind::Serial => {}
                _ => return None,
            }
            match hi.clips() {
                [] if hi.is_constant() => {}
                [end] if hi.is_of_symbols() => loops.dynamic.push((*var, end.clone())),
                _ => return None,
            }
            if *lo != 0 {
                return None;
            }
            loops.axes.push(Axis { var: *var, extent: hi.limit });
            loops.body = body;
        }
        (!loops.axes.is_empty()).then_some(loops)
    }
}

/// The parts of the body of the outer loops.
struct Inner<'a> {
    depth: Vec<Axis>,
    dynamic: Vec<(LoopId, Affine)>,
    left: &'a Expr,
    right: &'a Expr,
    acc: LocalId,
    start: Option<&'a Expr>,
    /// Declarations of other scalars, for the epilogue.
    declared: Vec<&'a Stmt>,
    epilogue: &'a [Stmt],
}

impl<'a> Inner<'a> {
    fn of(body: &'a [Stmt]) -> Option<Inner<'a>> {
        let at = body.iter().position(|stmt| matches!(stmt, Stmt::For { .. }))?;
        let OuterLoops { axes: depth, dynamic, parallel: None, body: products } = OuterLoops::of(&body[at])?
        else {
            return None;
        };
        if dynamic.iter().any(|(var, _)| *var != depth[0].var) {
            return None;
        }
        let (acc, left, right) = product(products)?;
        let is_other = |stmt: &&Stmt| matches!(stmt, Stmt::Declare { local, dims, .. } if *local != acc && dims.is_empty());
        let (declared, before): (Vec<&Stmt>, Vec<&Stmt>) = body[..at].iter().partition(is_other);
        let start = start(&before, acc)?;
        Some(Inner { depth, dynamic, left, right, acc, start, declared, epilogue: &body[at + 1..] })
    }
}

/// The accumulator and operands of a body whose only statement adds a product to a scalar.
fn product(body: &[Stmt]) -> Option<(LocalId, &Expr, &Expr)> {
    let [Stmt::SetLocal { local: acc, index, value }] = body else { return None };
    let (left, right, sum) = match value {
        Expr::Ternary { op: TernaryOp::Fma, a, b, c } => (a, b, c),
        Expr::Binary { op: BinaryOp::Add, a, b } => match (&**a, &**b) {
            (_, Expr::Binary { op: BinaryOp::Mul, a: x, b: y }) if widens_to_i32(x) && widens_to_i32(y) => {
                (x, y, a)
            }
            (Expr::Binary { op: BinaryOp::Mul, a: x, b: y }, _) if widens_to_i32(x) && widens_to_i32(y) => {
                (x, y, b)
            }
            _ => return None,
        },
        _ => return None,
    };
    (index.is_empty() && **sum == Expr::local(*acc)).then_some((*acc, left, right))
}

fn widens_to_i32(factor: &Expr) -> bool {
    matches!(without_offset(factor).0, Expr::Convert { to: DType::I32, .. })
}

/// A factor without the constant of `i32` that is added to it, and that constant.
fn without_offset(factor: &Expr) -> (&Expr, i32) {
    let constant = |e: &Expr| match e {
        Expr::Const(number) if number.dtype() == DType::I32 => Some(number.bits() as i32),
        _ => None,
    };
    match factor {
        Expr::Binary { op: BinaryOp::Add, a, b } => match (constant(a), constant(b)) {
            (None, Some(offset)) => (a, offset),
            (Some(offset), None) => (b, offset),
            _ => (factor, 0),
        },
        Expr::Binary { op: BinaryOp::Sub, a, b } => match constant(b) {
            Some(zero) => (a, zero.wrapping_neg()),
            None => (factor, 0),
        },
        _ => (factor, 0),
    }
}

/// The constant that is subtracted from the elements of an operand.
pub fn zero_point(operand: &Expr) -> i32 {
    without_offset(operand).1.wrapping_neg()
}

/// Whether a loop with this body does nothing but add a product to a scalar.
pub fn adds_product(body: &[Stmt]) -> bool {
    product(body).is_some()
}

/// Whether some loop of a block does nothing but add a product to a scalar. A block without such a loop
/// contains no contraction.
pub fn adds_products(block: &[Stmt]) -> bool {
    walk::stmts(block).any(|stmt| matches!(stmt, Stmt::For { body, .. } if adds_product(body)))
}

/// The contractions of a routine at any depth, each by the variable of its outermost loop.
pub fn contractions(routine: &LoweredRoutine) -> BTreeSet<LoopId> {
    let mut search = Search {
        locals: routine.locals(),
        arrays: Arrays::of(routine),
        num_nodes: routine.nodes.len() as u32,
        found: BTreeSet::new(),
    };
    search.block(&routine.body);
    search.found
}

/// A search for contractions in a routine.
struct Search {
    locals: Locals,
    arrays: Arrays<'static>,
    num_nodes: u32,
    found: BTreeSet<LoopId>,
}

impl Search {
    fn block(&mut self, block: &[Stmt]) {
        for stmt in block {
            let Stmt::For { var, body, .. } = stmt else { continue };
            if adds_products(body) {
                match self.is_contraction(stmt) {
                    true => drop(self.found.insert(*var)),
                    false => self.block(body),
                }
            }
        }
    }

    fn is_contraction(&self, stmt: &Stmt) -> bool {
        let (block, outer) = outer_locals_as_nodes(std::slice::from_ref(stmt), self.num_nodes);
        let shape = |local: &LocalId| (self.locals[local].dtype, self.locals[local].dims.clone());
        Contraction::of(&block[0], &self.arrays.with_nodes(outer.keys().map(shape))).is_some()
    }
}

/// Whether a loop's body adds products of elements to a scalar and converts some of them from a narrower
/// float. Legalization leaves these conversions to targets that compile contractions of such types whole.
/// Elements are those of nodes, and, after legalization, those of `arrays`: nodes that became locals of a
/// kernel. Before, locals of narrow types are no arrays of elements, because legalization makes bits of them.
pub fn widens(body: &[Stmt], routine: &LoweredRoutine, arrays: Option<&Locals>, kernels: DTypeSet) -> bool {
    let Some((_, left, right)) = product(body) else { return false };
    let factors = [left, right];
    let read_type = |read: &Expr| match read {
        Expr::GetLocal { local, .. } => Some(arrays?.get(local)?.dtype),
        read => Some(routine.node(node_of(read)?).dtype),
    };
    let of = |factor: &Expr| dtype(factor, &read_type);
    factors.iter().all(|factor| of(factor) == Some(DType::F32))
        && factors.iter().all(|factor| of(read_of(factor)).is_some_and(|dtype| kernels.contains(dtype)))
        && factors.iter().any(|factor| matches!(factor, Expr::Convert { .. }))
}

/// The read of an operand, without its conversion and the constant that is subtracted.
pub fn read_of(factor: &Expr) -> &Expr {
    match without_offset(factor).0 {
        Expr::Convert { arg, .. } => arg,
        read => read,
    }
}

/// The initial value of an accumulator: an element of a node, or none if it is zero.
fn start<'a>(before: &[&'a Stmt], acc: LocalId) -> Option<Option<&'a Expr>> {
    let (declare, rest) = before.split_first()?;
    let declared = matches!(declare, Stmt::Declare { local, space: Space::Register, .. } if *local == acc);
    let first = match rest {
        [] => Some(None),
        [Stmt::SetLocal { local, value: Expr::Const(x), .. }] if *local == acc => {
            (x.bits() == 0).then_some(None)
        }
        [Stmt::SetLocal { local, value: value @ Expr::Get { .. }, .. }] if *local == acc => Some(Some(value)),
        _ => None,
    };
    first.filter(|_| declared)
}

fn has_loops(block: &[Stmt]) -> bool {
    block.iter().any(|stmt| matches!(stmt, Stmt::For { .. } | Stmt::Zero { .. } | Stmt::SetDynamic { .. }))
}

/// The positions of the elements that a nest stores, and of those that its initial value and epilogue load.
#[derive(Default)]
struct AccessedPositions {
    stored: Vec<Affine>,
    loaded: Vec<Affine>,
}

fn places(inner: &Inner<'_>, arrays: &Arrays) -> Option<AccessedPositions> {
    let mut places = AccessedPositions::default();
    let mut plain = true;
    walk::stmts(inner.epilogue).for_each(|stmt| {
        if let Stmt::Set { node, index, .. } = stmt {
            places.stored.push(arrays.position(*node, index));
        }
    });
    let mut load = |e: &Expr| match e {
        Expr::Get { node, index } | Expr::GetMerge { node, index } => {
            places.loaded.push(arrays.position(*node, index));
        }
        Expr::GetGuarded { .. } | Expr::GetDynamic { .. } | Expr::Index { .. } => plain = false,
        _ => {}
    };
    walk::parts_in(inner.epilogue).for_each(&mut load);
    inner.start.into_iter().for_each(load);
    plain.then_some(places)
}

/// The loop along which all stores are contiguous.
fn contiguous(axes: &[Axis], places: &AccessedPositions) -> Option<Axis> {
    let neighbors = |axis: &&Axis| places.stored.iter().all(|at| at.coefficient(axis.var) == 1);
    axes.iter().find(neighbors).copied().filter(|_| !places.stored.is_empty())
}

/// The loops that form one axis with a loop, outermost first.
fn merged(inner: Axis, others: &[Axis], places: &[&Affine], dynamic: &[(LoopId, Affine)]) -> Vec<Axis> {
    let mut axis = vec![inner];
    while let Some(outer) = others.iter().find(|other| {
        let run = |at: &Affine| at.coefficient(axis[0].var).wrapping_mul(axis[0].extent);
        let has_end = !dynamic.iter().any(|(var, _)| *var == axis[0].var);
        has_end && !axis.contains(other) && places.iter().all(|at| at.coefficient(other.var) == run(at))
    }) {
        axis.insert(0, *outer);
    }
    axis
}

/// The node of a read in a contraction: an element, or a constant where a guard excludes it.
fn node_of(read: &Expr) -> Option<NodeRef> {
    match read {
        Expr::Get { node, .. } | Expr::GetMerge { node, .. } => Some(*node),
        Expr::GetGuarded { node, otherwise, .. } => matches!(**otherwise, Expr::Const(_)).then_some(*node),
        _ => None,
    }
}

/// Whether a read is zero where a guard excludes it.
fn is_zero_outside(read: &Expr) -> bool {
    match read {
        Expr::GetGuarded { otherwise, .. } => matches!(&**otherwise, Expr::Const(x) if x.bits() == 0),
        _ => true,
    }
}

/// The type of an operand: that of an element, `f32` if it converts a half-precision element, or `i32` if it
/// converts an integer of 8 bits. `read_type` is the type of a read, if it is an element.
fn dtype(factor: &Expr, read_type: &dyn Fn(&Expr) -> Option<DType>) -> Option<DType> {
    let read = read_type(read_of(factor))?;
    let (factor, offset) = without_offset(factor);
    match factor {
        Expr::Convert { to: to @ DType::I32, .. } => matches!(read, DType::U8 | DType::I8).then_some(*to),
        _ if offset != 0 || !is_zero_outside(read_of(factor)) => None,
        Expr::Convert { to: to @ DType::F32, .. } => matches!(read, DType::F16 | DType::Bf16).then_some(*to),
        Expr::Convert { .. } => None,
        _ => (read != DType::I32).then_some(read),
    }
}

/// Replaces the locals that a block uses but does not declare by nodes, which are numbered from `nodes` on.
/// Returns the new block, and the node of each local.
pub fn outer_locals_as_nodes(block: &[Stmt], nodes: u32) -> (Cow<'_, [Stmt]>, BTreeMap<LocalId, NodeRef>) {
    let own = dependence::declared(block);
    let outer = dependence::locals_used(block).into_iter().filter(|local| !own.contains(local));
    let map: BTreeMap<LocalId, NodeRef> = outer.zip((nodes..).map(NodeRef)).collect();
    if map.is_empty() {
        return (Cow::Borrowed(block), map);
    }
    let mut block = block.to_vec();
    locals_as_nodes(&mut block, &map);
    (Cow::Owned(block), map)
}

/// Replaces locals by nodes in all stores and reads.
pub fn locals_as_nodes(block: &mut Block, map: &BTreeMap<LocalId, NodeRef>) {
    walk::move_elements(block, &mut |array, index| {
        Some((ArrayRef::Node(*map.get(&array.local()?)?), index.clone()))
    });
}
