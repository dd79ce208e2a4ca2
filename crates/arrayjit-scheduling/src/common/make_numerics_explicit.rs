//! Makes the numeric class explicit: after this pass the IR determines every bit, and later passes keep it.
//!
//! The documentation of the [crate](crate) specifies the classes. This file implements that specification,
//! and is the only place that contracts multiplications and additions to fma.

use lowered_ir::ir::{
    Affine, ArrayRef, BinaryOp, Block, Bound, Expr, Fresh, Indices, LocalId, Locals, LoopId, LoopKind,
    LoweredRoutine, Numerics, Space, Stmt, UnaryOp, walk,
};
use smallvec::smallvec;
use tnode::{DType, Dims};

use crate::analysis::access;
use crate::analysis::names::{Names, without_unit_axes};
use crate::analysis::reduction::{combined, neutral, nonzero_neutral};
use codegen_core::Caps;
use codegen_core::dependence::{VariableRanges, mentions};

mod dynamic; // reductions along loops that end at symbols

/// Partial results of a contiguous reduction.
const LANES: i64 = 32;
/// The most elements that one set of partial results of a contiguous reduction takes.
const CONTIGUOUS_CHUNK: i64 = 65_536;
/// The most elements that one accumulator takes in sequence, along a loop that is not contiguous.
const SEQUENTIAL_CHUNK: i64 = 256;
/// The most chunks whose results are combined at once.
const CHUNKS: i64 = 65_536;
/// The most rows of an operand whose products are reductions, if they are long, and half of those otherwise.
const FEW_ROWS: i64 = 8;
/// The least elements of a long row.
const LONG_ROW: i64 = 256;
/// The most elements of these rows: every row of the other operand reads them again, from the innermost
/// cache.
const FEW_ROWS_ELEMENTS: i64 = 6_144;

/// Rewrites the routine so that evaluating it in the order written gives the bits that its class promises.
/// Loops that end at symbols get partial results if there may be quotients of them.
pub(crate) fn make_numerics_explicit(routine: &mut LoweredRoutine, caps: &Caps) {
    let fast = routine.numerics == Numerics::Fast && caps.workgroups.is_none();
    let (ranges, fresh, locals) = (VariableRanges::of(routine), routine.fresh(), routine.locals());
    let divides = fast && !routine.symbols.is_empty();
    let names = divides.then(|| Names::of(routine));
    let body = std::mem::take(&mut routine.body);
    let kernels = caps.workgroups.is_some();
    let mut pass = NumericsRewriter { fast, kernels, ranges, fresh, locals, names, routine };
    let body = pass.block(body, &mut Vec::new());
    let symbols = pass.names.map(|names| names.symbols);
    routine.body = body;
    routine.symbols = symbols.unwrap_or_else(|| std::mem::take(&mut routine.symbols));
    if routine.numerics == Numerics::Fast {
        contract_products(routine);
    }
}

/// `a * b + c = fma(a, b, c)` and `c + a * b = fma(a, b, c)`, for floats.
fn contract_products(routine: &mut LoweredRoutine) {
    let locals = routine.locals();
    let mut body = std::mem::take(&mut routine.body);
    walk::map_parts(&mut body, &mut |e| contract(e, routine, &locals));
    routine.body = body;
}

fn contract(expr: Expr, routine: &LoweredRoutine, locals: &Locals) -> Expr {
    let Expr::Binary { op: BinaryOp::Add, a, b } = expr else { return expr };
    match (*a, *b) {
        (Expr::Binary { op: BinaryOp::Mul, a: x, b: y }, c) if is_float(&x, routine, locals) => {
            Expr::fma(*x, *y, c)
        }
        (c, Expr::Binary { op: BinaryOp::Mul, a: x, b: y }) if is_float(&x, routine, locals) => {
            Expr::fma(*x, *y, c)
        }
        (a, b) => Expr::binary(BinaryOp::Add, a, b),
    }
}

fn is_float(expr: &Expr, routine: &LoweredRoutine, locals: &Locals) -> bool {
    routine.dtype_of(expr, locals).is_float()
}

struct NumericsRewriter<'a> {
    fast: bool,
    /// Whether every top-level nest becomes a kernel, so that the locals of a nest end with that nest.
    kernels: bool,
    ranges: VariableRanges,
    fresh: Fresh,
    locals: Locals,
    /// The symbols, if there may be quotients.
    names: Option<Names>,
    routine: &'a LoweredRoutine,
}

/// A loop of a nest.
#[derive(Clone)]
struct OpenLoop {
    var: LoopId,
    lo: i64,
    hi: Bound,
}

/// `target[index] := target[index] op element`, in loops that `index` mentions (`outputs`) and loops that it
/// does not (`free`).
struct Accumulation {
    outputs: Vec<OpenLoop>,
    free: Vec<OpenLoop>,
    target: ArrayRef,
    index: Indices,
    op: BinaryOp,
    element: Expr,
    /// Whether the statement subtracts the negative of the element.
    subtracts: bool,
}

/// A level of a reduction, with the number of iterations of each loop.
enum Level {
    Contiguous(LoopId, i64),
    Sequential(Vec<(LoopId, i64)>),
}

impl NumericsRewriter<'_> {
    fn block(&mut self, block: Block, around: &mut Vec<LoopId>) -> Block {
        block.into_iter().flat_map(|stmt| self.stmt(stmt, around)).collect()
    }

    fn stmt(&mut self, stmt: Stmt, around: &mut Vec<LoopId>) -> Block {
        if let Some(found) = accumulation(&stmt)
            && (!found.subtracts || self.dtype(found.target).is_float())
            && self.may_reorder(&found)
        {
            return self.explicit(found, around, stmt);
        }
        let Stmt::For { var, lo, hi, kind, body } = stmt else { return vec![stmt] };
        around.push(var);
        let body = self.block(body, around);
        around.pop();
        vec![Stmt::For { var, lo, hi, kind, body }]
    }

    /// Whether output loops may move outside free loops.
    fn may_reorder(&self, found: &Accumulation) -> bool {
        let outputs: Vec<LoopId> = found.outputs.iter().map(|l| l.var).collect();
        let bounded_by_free = |l: &OpenLoop| found.free.iter().any(|free| l.hi.mentions(free.var));
        !found.outputs.iter().any(bounded_by_free) && access::injective(&found.index, &outputs, &self.ranges)
    }

    fn explicit(&mut self, found: Accumulation, around: &[LoopId], written: Stmt) -> Block {
        let outputs: Vec<LoopId> =
            around.iter().copied().chain(found.outputs.iter().map(|l| l.var)).collect();
        let in_sequence = !self.fast
            || (is_contraction(&found, &outputs) && !self.has_few_rows(&found))
            || neutral(found.op, self.dtype(found.target)).is_none();
        let is_constant = found.free.iter().all(|l| l.hi.is_constant() && l.lo == 0);
        let scalar = matches!(found.target, ArrayRef::Local(_)) && found.index.is_empty();
        let reduced = match (in_sequence, is_constant) {
            (true, _) => None,
            (false, true) => Some(self.reduction(&found)),
            (false, false) => self.dynamic_reduction(&found),
        };
        let body = match reduced {
            None if scalar => return vec![written],
            None => self.chain_in_place(&found),
            Some(reduced) => reduced,
        };
        if self.kernels && found.outputs.is_empty() && around.is_empty() {
            return vec![Stmt::serial(self.fresh.loop_id(), 1, body)];
        }
        nest(&found.outputs, body)
    }

    /// Whether one operand of a contraction of floats has so few rows that packing the other one would take
    /// longer than the products. Both are contiguous along the innermost free loop.
    fn has_few_rows(&self, found: &Accumulation) -> bool {
        let Expr::Binary { a, b, .. } = &found.element else { return false };
        let is_constant = |l: &OpenLoop| l.lo == 0 && l.hi.is_constant();
        let is_float = |e: &Expr| match e {
            Expr::Get { node, .. } => self.routine.node(*node).dtype.is_float(),
            _ => matches!(e, Expr::Convert { .. } | Expr::Binary { .. } | Expr::Const(_)),
        };
        let Some(innermost) = found.free.last() else { return false };
        let along = |e: &Expr| is_contiguous(e, innermost.var, self.routine);
        if innermost.hi.limit < LANES
            || !found.free.iter().all(is_constant)
            || !walk::parts(&found.element).all(is_float)
            || ![a, b].into_iter().all(|e| along(e))
        {
            return false;
        }
        let terms = found.free.iter().fold(1i64, |terms, l| terms.saturating_mul(l.hi.limit));
        let most = if terms >= LONG_ROW { FEW_ROWS } else { FEW_ROWS / 2 };
        // An empty loop has no terms.
        let most = most.min(FEW_ROWS_ELEMENTS / terms.max(1));
        let rows = |x: &Expr, y: &Expr| {
            let own = found.outputs.iter().filter(|l| mentions(x, l.var) && !mentions(y, l.var));
            own.map(|l| if is_constant(l) { l.hi.limit } else { i64::MAX }).fold(1, i64::saturating_mul)
        };
        [rows(a, b), rows(b, a)].iter().any(|rows| (2..=most).contains(rows))
    }

    /// `l := T[index]`, then the free loops over `l := l op element`, then `T[index] := l`.
    fn chain_in_place(&mut self, found: &Accumulation) -> Block {
        let local = self.fresh.local_id();
        let step = Stmt::set_scalar(local, combined(found.op, Expr::local(local), found.element.clone()));
        let mut body = vec![
            Stmt::scalar(local, self.dtype(found.target)),
            Stmt::set_scalar(local, found.target.read(found.index.clone())),
        ];
        body.extend(nest(&found.free, vec![step]));
        body.push(found.target.store(found.index.clone(), Expr::local(local)));
        body
    }

    /// Reduces all levels, then combines the result with the initial value.
    fn reduction(&mut self, found: &Accumulation) -> Block {
        let dtype = self.dtype(found.target);
        let (mut body, value) = self.reduce(
            &levels_of(&found.free, &found.element, self.routine),
            found.op,
            dtype,
            &found.element,
        );
        let old = found.target.read(found.index.clone());
        body.push(found.target.store(found.index.clone(), combined(found.op, old, value)));
        body
    }

    /// Statements that reduce the levels, and an expression for the result, which is valid after them.
    fn reduce(&mut self, levels: &[Level], op: BinaryOp, dtype: DType, element: &Expr) -> (Block, Expr) {
        match levels {
            [] => (Block::new(), element.clone()),
            [Level::Contiguous(var, extent), ..] => {
                self.in_chunks(*extent, CONTIGUOUS_CHUNK, op, dtype, &mut |pass, from, len| {
                    pass.partials(*var, from, len, op, dtype, element)
                })
            }
            [Level::Sequential(group), inner @ ..] => match group.as_slice() {
                [(var, extent)] => {
                    self.in_chunks(*extent, SEQUENTIAL_CHUNK, op, dtype, &mut |pass, from, len| {
                        pass.chain(&[(*var, len)], from, inner, op, dtype, element)
                    })
                }
                group => self.chain(group, &Affine::constant(0), inner, op, dtype, element),
            },
        }
    }

    /// Splits `0..extent` into chunks of `size`. If there are too many chunks for the array of results,
    /// splits it into groups of chunks first.
    fn in_chunks(
        &mut self,
        extent: i64,
        size: i64,
        op: BinaryOp,
        dtype: DType,
        emit: &mut dyn FnMut(&mut Self, &Affine, i64) -> (Block, Expr),
    ) -> (Block, Expr) {
        if extent <= size * CHUNKS {
            return self.chunks(extent, size, op, dtype, emit);
        }
        self.chunks(extent, size * CHUNKS, op, dtype, &mut |pass, run, len| {
            pass.chunks(len, size, op, dtype, &mut |pass, from, len| emit(pass, &run.plus(from), len))
        })
    }

    /// Splits `0..extent` into chunks of `size`, for each of which `emit` returns the reduction of the
    /// elements `from..from + len`. The results of several chunks are combined pairwise.
    fn chunks(
        &mut self,
        extent: i64,
        size: i64,
        op: BinaryOp,
        dtype: DType,
        emit: &mut dyn FnMut(&mut Self, &Affine, i64) -> (Block, Expr),
    ) -> (Block, Expr) {
        if extent <= size {
            return emit(self, &Affine::constant(0), extent);
        }
        let (whole, rest) = (extent / size, extent % size);
        let results = self.fresh.local_id();
        let count = whole + i64::from(rest > 0);
        let store = |at: Affine, value| Stmt::SetLocal { local: results, index: [at].into(), value };
        let chunk = self.fresh.loop_id();
        let (mut body, value) = emit(self, &Affine::term(chunk, size), size);
        body.push(store(Affine::var(chunk), value));
        let mut block = vec![array(results, dtype, count, Space::Scratch), Stmt::serial(chunk, whole, body)];
        if rest > 0 {
            let (tail, value) = emit(self, &Affine::constant(whole * size), rest);
            block.extend(tail);
            block.push(store(Affine::constant(whole), value));
        }
        block.extend(self.pairwise(results, count, op));
        (block, element_of(results, Affine::constant(0)))
    }

    /// Combines `count` results into the first one.
    fn pairwise(&mut self, results: LocalId, mut count: i64, op: BinaryOp) -> Block {
        let mut block = Block::new();
        while count > 1 {
            let half = (count as u64).next_power_of_two() as i64 / 2;
            let at = self.fresh.loop_id();
            let index = Affine::var(at);
            let taken = element_of(results, index.plus_constant(half));
            let value = combined(op, element_of(results, index.clone()), taken);
            let set = Stmt::SetLocal { local: results, index: [index].into(), value };
            block.push(Stmt::serial(at, count - half, vec![set]));
            count = half;
        }
        block
    }

    /// Accumulates in one scalar over nested loops, given with their extents. Indices along the first loop
    /// start at `from`.
    fn chain(
        &mut self,
        group: &[(LoopId, i64)],
        from: &Affine,
        inner: &[Level],
        op: BinaryOp,
        dtype: DType,
        element: &Expr,
    ) -> (Block, Expr) {
        let local = self.fresh.local_id();
        let vars: Vec<(LoopId, i64)> =
            group.iter().map(|&(_, extent)| (self.fresh.loop_id(), extent)).collect();
        let mut element = element.clone();
        for (at, (&(old, _), &(new, _))) in group.iter().zip(&vars).enumerate() {
            let new = Affine::var(new);
            let index = if at == 0 { new.plus(from) } else { new };
            element = walk::map_expr_indices(element, &mut |i| i.substitute(old, &index));
        }
        let (mut body, value) = self.reduce(inner, op, dtype, &element);
        body.push(Stmt::set_scalar(local, combined(op, Expr::local(local), value)));
        let looped =
            vars.iter().rev().fold(body, |body, &(var, extent)| vec![Stmt::serial(var, extent, body)]);
        let mut block = vec![Stmt::scalar(local, dtype)];
        if let Some(start) = nonzero_neutral(op, dtype) {
            block.push(Stmt::set_scalar(local, start));
        }
        block.extend(looped);
        (block, Expr::local(local))
    }

    /// Accumulates the elements `from..from + len` in 32 partial results, and combines these.
    fn partials(
        &mut self,
        var: LoopId,
        from: &Affine,
        len: i64,
        op: BinaryOp,
        dtype: DType,
        element: &Expr,
    ) -> (Block, Expr) {
        let local = self.fresh.local_id();
        let mut block = vec![array(local, dtype, LANES, Space::Register)];
        if let Some(start) = nonzero_neutral(op, dtype) {
            block.push(self.lanes(LANES, |lane| set_element(local, lane, start)));
        }
        let (whole, rest) = (len / LANES, len % LANES);
        let step = |pass: &mut Self, start: Affine, lanes: i64| {
            pass.lanes(lanes, |lane| {
                let index = lane.plus(&start);
                let x = walk::map_expr_indices(element.clone(), &mut |i| i.substitute(var, &index));
                set_element(local, lane.clone(), combined(op, element_of(local, lane), x))
            })
        };
        if whole > 0 {
            let group = self.fresh.loop_id();
            let body = step(self, Affine::term(group, LANES).plus(from), LANES);
            block.push(Stmt::serial(group, whole, vec![body]));
        }
        if rest > 0 {
            block.push(step(self, from.plus_constant(whole * LANES), rest));
        }
        let value = self.fold_lanes(local, op, dtype, &mut block);
        (block, value)
    }

    /// Combines partial result `j` with partial result `j + s` for `s` = 16, 8, 4, 2, 1. Each step has locals
    /// of its own.
    fn fold_lanes(&mut self, partials: LocalId, op: BinaryOp, dtype: DType, block: &mut Block) -> Expr {
        let mut from = partials;
        let mut stride = LANES / 2;
        while stride > 0 {
            let to = self.fresh.local_id();
            block.push(array(to, dtype, stride, Space::Register));
            let pair = |lane: Affine| {
                let other = element_of(from, lane.plus_constant(stride));
                set_element(to, lane.clone(), combined(op, element_of(from, lane), other))
            };
            block.push(if stride > 1 { self.lanes(stride, pair) } else { pair(Affine::constant(0)) });
            from = to;
            stride /= 2;
        }
        element_of(from, Affine::constant(0))
    }

    fn lanes(&mut self, count: i64, stmt: impl FnOnce(Affine) -> Stmt) -> Stmt {
        let lane = self.fresh.loop_id();
        Stmt::looped(lane, count, LoopKind::Vector, vec![stmt(Affine::var(lane))])
    }

    fn dtype(&self, target: ArrayRef) -> DType {
        match target {
            ArrayRef::Node(node) => self.routine.node(node).dtype,
            ArrayRef::Local(local) => self.locals[&local].dtype,
        }
    }
}

/// Recognizes a statement that is an accumulation.
fn accumulation(stmt: &Stmt) -> Option<Accumulation> {
    let mut loops = Vec::new();
    let mut stmt = stmt;
    while let Stmt::For { var, lo, hi, kind: LoopKind::Serial, body } = stmt {
        let [only] = body.as_slice() else { return None };
        loops.push(OpenLoop { var: *var, lo: *lo, hi: hi.clone() });
        stmt = only;
    }
    let (target, index, value) = stmt.store()?;
    let (op, element) = update(value, target, index)?;
    let (outputs, free): (Vec<OpenLoop>, Vec<OpenLoop>) =
        loops.into_iter().partition(|l| index.iter().any(|i| i.mentions(l.var)));
    let subtracts = op == BinaryOp::Sub;
    let (op, element) = match subtracts {
        true => (BinaryOp::Add, negative(element)),
        false => (op, element.clone()),
    };
    let found = Accumulation { outputs, free, target, index: index.clone(), op, element, subtracts };
    (!found.free.is_empty()).then_some(found)
}

/// The operation and the element of `target[index] op element`, if the element does not read the target.
fn update<'a>(value: &'a Expr, target: ArrayRef, index: &Indices) -> Option<(BinaryOp, &'a Expr)> {
    let Expr::Binary { op, a, b } = value else { return None };
    let is_old = |e: &Expr| e.element() == Some((target, index));
    let element = match op {
        BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul if is_old(a) => b,
        BinaryOp::Add | BinaryOp::Mul | BinaryOp::Max | BinaryOp::Min if is_old(b) => a,
        _ => return None,
    };
    (!walk::parts(element).any(|e| e.array() == Some(target))).then_some((*op, &**element))
}

/// The negative of an element. A product stays one.
fn negative(element: &Expr) -> Expr {
    match element {
        Expr::Binary { op: BinaryOp::Mul, a, b } => {
            Expr::binary(BinaryOp::Mul, Expr::unary(UnaryOp::Neg, (**a).clone()), (**b).clone())
        }
        Expr::Unary { op: UnaryOp::Neg, arg } => (**arg).clone(),
        other => Expr::unary(UnaryOp::Neg, other.clone()),
    }
}

fn is_contraction(found: &Accumulation, outputs: &[LoopId]) -> bool {
    let (BinaryOp::Add, Expr::Binary { op: BinaryOp::Mul, a, b }) = (found.op, &found.element) else {
        return false;
    };
    let reads_local = |e: &Expr| walk::parts(e).any(|e| matches!(e, Expr::GetLocal { .. }));
    let alone = |x: &Expr, y: &Expr| outputs.iter().any(|&v| mentions(x, v) && !mentions(y, v));
    !reads_local(a) && !reads_local(b) && alone(a, b) && alone(b, a)
}

/// The levels of a reduction along constant loops.
fn levels_of(free: &[OpenLoop], element: &Expr, routine: &LoweredRoutine) -> Vec<Level> {
    let mut rest: Vec<(LoopId, i64)> = free.iter().map(|l| (l.var, l.hi.limit)).collect();
    let contiguous =
        rest.iter().rposition(|&(var, extent)| extent >= LANES && is_contiguous(element, var, routine));
    let mut levels = Vec::new();
    if let Some(at) = contiguous {
        let (var, extent) = rest.remove(at);
        levels.push(Level::Contiguous(var, extent));
    }
    while let Some(innermost) = rest.pop() {
        let mut group = vec![innermost];
        let mut size = innermost.1;
        while let Some(&next) = rest.last()
            && size.saturating_mul(next.1) <= SEQUENTIAL_CHUNK
        {
            size *= next.1;
            group.insert(0, next);
            rest.pop();
        }
        levels.insert(0, Level::Sequential(group));
    }
    levels
}

/// Whether each iteration of the loop advances every read by one element of its last axis of several elements
/// or not at all, and at least one read by one element.
fn is_contiguous(element: &Expr, var: LoopId, routine: &LoweredRoutine) -> bool {
    let mut moved = false;
    let mut otherwise = false;
    walk::parts(element).for_each(|e| {
        let index = match e {
            Expr::Get { node, index }
            | Expr::GetGuarded { node, index, .. }
            | Expr::GetMerge { node, index, .. } => without_unit_axes(&routine.node(*node).dims, index),
            Expr::GetLocal { index, .. } => index,
            _ => return,
        };
        if let Some((last, outer)) = index.split_last() {
            moved |= last.coefficient(var) == 1;
            otherwise |= !matches!(last.coefficient(var), 0 | 1) || outer.iter().any(|i| i.mentions(var));
        }
    });
    moved && !otherwise
}

fn nest(loops: &[OpenLoop], body: Block) -> Block {
    loops.iter().rev().fold(body, |body, l| {
        vec![Stmt::For { var: l.var, lo: l.lo, hi: l.hi.clone(), kind: LoopKind::Serial, body }]
    })
}

fn array(local: LocalId, dtype: DType, len: i64, space: Space) -> Stmt {
    let dims: Dims = smallvec![len as usize];
    Stmt::Declare { local, dtype, dims, space }
}

fn element_of(local: LocalId, at: Affine) -> Expr {
    Expr::GetLocal { local, index: [at].into() }
}

fn set_element(local: LocalId, at: Affine, value: Expr) -> Stmt {
    Stmt::SetLocal { local, index: [at].into(), value }
}
