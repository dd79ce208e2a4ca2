//! Walks a routine's body, tracks the names in scope, and applies each rule to the constructs that it
//! concerns.
//!
//! Parents are checked before their children, so every recursion is bounded by rule V4.

use std::collections::{BTreeMap, BTreeSet};

use tnode::DType;

use super::{
    MAX_OFFSET_BYTES, RoutinePosition, VerifyError, Violation,
    independence::{self, CheckedLoop, LoopViolation},
    limits,
    ranges::{Interval, VariableIntervals},
    tables::{local_size, named_node},
    types,
};
use crate::ir::{
    Affine, ArrayRef, Bound, Expr, Guard, Indices, LocalDecl, LocalId, Locals, LogPart, LoopId, LoopKind,
    LoweredRoutine, NodeRef, Space, Stmt, Var,
};

/// Checks statements that stand where these locals are in scope.
pub(super) fn statements(
    routine: &LoweredRoutine,
    locals: &Locals,
    block: &[Stmt],
) -> Result<(), VerifyError> {
    let ranges = VariableIntervals::new(routine);
    let mut checker = Checker {
        routine,
        ranges,
        enclosing: Vec::new(),
        locals: locals.clone(),
        seen_loops: BTreeSet::new(),
        seen_locals: BTreeSet::new(),
        thread_loops: BTreeMap::new(),
        merge: None,
        repeats: 1,
        statements: 0,
        path: Vec::new(),
    };
    checker.block(block)
}

/// Whether an expression is too deep to be printed.
pub(super) fn is_too_deep(expr: &Expr) -> bool {
    deeper_than(expr, crate::text::MAX_NESTING)
}

fn deeper_than(expr: &Expr, depth: usize) -> bool {
    let inner = |e: &Expr| deeper_than(e, depth - 1);
    match expr {
        _ if depth == 0 => true,
        Expr::GetGuarded { otherwise, .. } => inner(otherwise),
        Expr::Unary { arg, .. }
        | Expr::Convert { arg, .. }
        | Expr::Bitcast { arg, .. }
        | Expr::Lane { arg, .. } => inner(arg),
        Expr::GetDynamic { at, otherwise, .. } => inner(at) || inner(otherwise),
        Expr::Lanes(lanes) => lanes.iter().any(inner),
        Expr::Binary { a, b, .. } => inner(a) || inner(b),
        Expr::Ternary { a, b, c, .. } => inner(a) || inner(b) || inner(c),
        Expr::Const(_)
        | Expr::Index { .. }
        | Expr::Get { .. }
        | Expr::GetMerge { .. }
        | Expr::GetLocal { .. } => false,
    }
}

struct Checker<'r> {
    routine: &'r LoweredRoutine,
    /// The intervals of the variables of every loop so far; `enclosing` has the variables in scope.
    ranges: VariableIntervals<'r>,
    /// The loops around the current statement.
    enclosing: Vec<(LoopId, LoopKind)>,
    /// The locals in scope.
    locals: Locals,
    seen_loops: BTreeSet<LoopId>,
    seen_locals: BTreeSet<LocalId>,
    /// The number of workgroup loops around the accesses of each thread local.
    thread_loops: BTreeMap<LocalId, usize>,
    /// The node that the merge buffer was read as.
    merge: Option<NodeRef>,
    /// How often unrolling repeats the current statement.
    repeats: u64,
    /// Statements so far, with their repetitions.
    statements: u64,
    path: Vec<usize>,
}

type CheckResult<T = ()> = Result<T, Violation>;

impl<'r> Checker<'r> {
    fn block(&mut self, block: &'r [Stmt]) -> Result<(), VerifyError> {
        let mut declared = Vec::new();
        for (i, stmt) in block.iter().enumerate() {
            self.path.push(i);
            self.count().and_then(|()| self.stmt(stmt)).map_err(|violation| self.here(violation))?;
            match stmt {
                Stmt::For { var, lo, hi, kind, body } => self.loop_body(*var, *lo, hi, *kind, body)?,
                Stmt::Declare { local, .. } => declared.push(*local),
                _ => {}
            }
            self.path.pop();
        }
        for local in declared {
            self.locals.remove(&local);
        }
        Ok(())
    }

    fn here(&self, violation: Violation) -> VerifyError {
        VerifyError::new(self.routine, RoutinePosition::Stmt(self.path.clone()), violation)
    }

    /// Counts a statement for rule V5.
    fn count(&mut self) -> CheckResult {
        self.statements = self.statements.saturating_add(self.repeats);
        match self.statements <= limits::STATEMENTS {
            true => Ok(()),
            false => Err(Violation::TooMany { max: limits::STATEMENTS }),
        }
    }

    /// Checks a statement; of a loop, everything but its body.
    fn stmt(&mut self, stmt: &Stmt) -> CheckResult {
        match stmt {
            Stmt::For { var, lo, hi, kind, .. } => self.loop_head(*var, *lo, hi, *kind),
            Stmt::Set { node, index, value } => self.set(ArrayRef::Node(*node), index, value),
            Stmt::SetDynamic { node, index, axis, at, op, value } => {
                self.dynamic(*node, index, *axis, at, 1)?;
                let array = ArrayRef::Node(*node);
                if let Some(op) = op {
                    types::accumulation(*op, self.dtype(array))?;
                }
                self.stored(array, value)
            }
            Stmt::Log { parts } => self.log(parts),
            Stmt::Zero { node } => self.node(*node),
            Stmt::Declare { local, dtype, dims, space } => {
                self.declare(*local, LocalDecl { dtype: *dtype, dims: dims.clone(), space: *space })
            }
            Stmt::SetLocal { local, index, value } => self.set(ArrayRef::Local(*local), index, value),
            Stmt::Comment(_) => Ok(()),
        }
    }

    fn set(&mut self, array: ArrayRef, index: &Indices, value: &Expr) -> CheckResult {
        self.element(array, index, &Guard::new())?;
        self.stored(array, value)
    }

    /// Checks rule V23, and every value.
    fn log(&mut self, parts: &[LogPart]) -> CheckResult {
        if let Some((var, kind)) = self.enclosing.iter().find(|(_, kind)| kind.is_independent()) {
            return Err(Violation::LogInLoop { kind: independence::kind(*kind), var: var.to_string() });
        }
        parts.iter().filter_map(LogPart::value).try_for_each(|value| self.expr(value, 1).map(drop))
    }

    // Loops.

    fn loop_head(&mut self, var: LoopId, lo: i64, hi: &Bound, kind: LoopKind) -> CheckResult {
        if self.enclosing.len() == limits::NESTING {
            return Err(Violation::TooDeep { what: "loops", max: limits::NESTING });
        }
        if !self.seen_loops.insert(var) {
            return Err(Violation::Twice { what: format!("loop variable {var}") });
        }
        self.no_vector_around(var)?;
        self.loop_bounds(var, lo, hi, kind)?;
        self.condition(var, hi, kind)?;
        hi.clips().iter().try_for_each(|clip| self.clip(var, clip))
    }

    /// Checks rules V7 and V26 on the condition of a loop.
    fn condition(&self, var: LoopId, hi: &Bound, kind: LoopKind) -> CheckResult {
        let Some(node) = hi.condition() else { return Ok(()) };
        self.node(node)?;
        let (var, found) = (var.to_string(), self.routine.node(node).dims.iter().product());
        match kind {
            LoopKind::Serial | LoopKind::Scan if found == 1 => Ok(()),
            LoopKind::Serial | LoopKind::Scan => Err(Violation::Condition { var, node, found }),
            kind => Err(Violation::EndedLoop { var, kind }),
        }
    }

    /// Checks rule V9 on the loops around.
    fn no_vector_around(&self, inner: LoopId) -> CheckResult {
        match self.enclosing.last() {
            Some((outer, LoopKind::Vector)) => {
                Err(Violation::LoopInVector { inner: inner.to_string(), outer: outer.to_string() })
            }
            _ => Ok(()),
        }
    }

    /// Checks rules V7 and V8 on a clip of the loop's bound.
    fn clip(&self, var: LoopId, clip: &Affine) -> CheckResult {
        clip.terms().iter().try_for_each(|&(var, _)| self.var(var))?;
        let max = limits::EXTENT;
        let no_guard = Guard::new();
        let ranges = self.ranges.narrowed(&no_guard);
        if ranges.is_vacant(clip) || ranges.bounds(clip).is_some_and(|b| -max <= b.lo && b.hi <= max) {
            return Ok(());
        }
        let found = crate::text::print_index(self.routine, clip);
        Err(Violation::DynamicBound { var: var.to_string(), found, max })
    }

    /// Checks rule V8, and rule V9 on the loop's own bounds.
    fn loop_bounds(&self, var: LoopId, lo: i64, hi: &Bound, kind: LoopKind) -> CheckResult {
        let first_clip = hi.clips().first().map(|clip| crate::text::print_index(self.routine, clip));
        let (max, var) = (limits::EXTENT, || var.to_string());
        if let Some(found) = [lo, hi.limit].into_iter().find(|end| !(-max..=max).contains(end)) {
            return Err(Violation::LoopBound { var: var(), found, max });
        }
        let found = hi.limit.saturating_sub(lo);
        if found > max {
            return Err(Violation::LoopExtent { var: var(), found, max });
        }
        let lanes = 1..=limits::VECTOR_EXTENT;
        match kind {
            LoopKind::Unrolled if !hi.is_constant() => {
                Err(Violation::UnrolledBound { var: var(), found: first_clip.unwrap_or_default() })
            }
            LoopKind::Vector if lo != 0 || !hi.is_constant() || !lanes.contains(&hi.limit) => {
                let end = first_clip.unwrap_or_else(|| hi.limit.to_string());
                let found = format!("{lo}..{end}");
                Err(Violation::VectorBounds { var: var(), found, max: limits::VECTOR_EXTENT })
            }
            LoopKind::Workgroup if lo != 0 || !hi.is_constant() || !lanes.contains(&hi.limit) => {
                let end = first_clip.unwrap_or_else(|| hi.limit.to_string());
                let found = format!("{lo}..{end}");
                Err(Violation::WorkgroupBounds { var: var(), found, max: limits::VECTOR_EXTENT })
            }
            _ => Ok(()),
        }
    }

    fn loop_body(
        &mut self,
        var: LoopId,
        lo: i64,
        hi: &'r Bound,
        kind: LoopKind,
        body: &'r [Stmt],
    ) -> Result<(), VerifyError> {
        self.ranges.add(var, lo, hi);
        self.enclosing.push((var, kind));
        let repeats = self.repeats;
        if kind == LoopKind::Unrolled {
            self.repeats = repeats.saturating_mul(hi.limit.saturating_sub(lo).max(0) as u64);
        }
        self.block(body)?;
        self.repeats = repeats;
        self.enclosing.pop();
        match kind {
            LoopKind::Serial | LoopKind::Unrolled | LoopKind::Scan => Ok(()),
            LoopKind::Vector | LoopKind::Parallel | LoopKind::Workgroup => {
                self.independent(&CheckedLoop { var, kind, body })
            }
        }
    }

    /// Checks rules V19 and V20.
    fn independent(&self, looped: &CheckedLoop<'r>) -> Result<(), VerifyError> {
        let name = |array| self.named(array);
        independence::check(looped, &self.ranges, &name).map_err(|(inside, violation): LoopViolation| {
            let path = self.path.iter().copied().chain(inside).collect();
            VerifyError::new(self.routine, RoutinePosition::Stmt(path), violation)
        })
    }

    // References.

    /// Checks rules V6 and V3.
    fn declare(&mut self, local: LocalId, decl: LocalDecl) -> CheckResult {
        if !self.seen_locals.insert(local) {
            return Err(Violation::Twice { what: format!("local {local}") });
        }
        local_size(local, &decl)?;
        self.locals.insert(local, decl);
        Ok(())
    }

    /// Checks rule V7 for a node.
    fn node(&self, node: NodeRef) -> CheckResult {
        match self.routine.nodes.get(node.index()) {
            Some(_) => Ok(()),
            None => Err(Violation::OutOfScope { what: format!("node {node}"), expected: "a declared node" }),
        }
    }

    /// Checks rule V7 for a local.
    fn local(&self, local: LocalId) -> CheckResult {
        let expected = "a local declared before in this block or an enclosing one";
        match self.locals.contains_key(&local) {
            true => Ok(()),
            false => Err(Violation::OutOfScope { what: format!("local {local}"), expected }),
        }
    }

    /// Checks rule V7 for a loop variable or symbol.
    fn var(&self, var: Var) -> CheckResult {
        let (known, expected) = match var {
            Var::Loop(id) => (self.kind(id).is_some(), "the variable of an enclosing loop"),
            Var::Symbol(id) => (id.index() < self.routine.symbols.len(), "a declared symbol"),
        };
        if known { Ok(()) } else { Err(Violation::OutOfScope { what: format!("variable {var}"), expected }) }
    }

    /// The kind of an enclosing loop.
    fn kind(&self, var: LoopId) -> Option<LoopKind> {
        self.enclosing.iter().find(|(v, _)| *v == var).map(|&(_, kind)| kind)
    }

    // Indices.

    /// Checks rules V10 to V13 on an access of an array in scope.
    fn access(&mut self, array: ArrayRef, index: &Indices, guard: &Guard) -> CheckResult {
        self.access_but(array, index, guard, None)
    }

    /// Like [`access`](Self::access), for an access whose index in the dimension `computed` is computed.
    fn access_but(
        &mut self,
        array: ArrayRef,
        index: &Indices,
        guard: &Guard,
        computed: Option<usize>,
    ) -> CheckResult {
        self.thread_index(array, index)?;
        let (dims, space) = self.shape(array);
        if dims.len() != index.len() {
            return Err(Violation::Arity {
                array: self.named(array),
                expected: dims.len(),
                found: index.len(),
            });
        }
        self.steepness(array, index)?;
        for (dim, (index, &size)) in
            index.iter().zip(dims).enumerate().filter(|(dim, _)| Some(*dim) != computed)
        {
            let interval = self.index(index, guard)?;
            if let Some(Interval { lo, hi }) = interval.filter(|i| i.lo < 0 || i.hi as u64 >= size as u64) {
                return Err(Violation::OutOfBounds { array: self.named(array), dim, lo, hi, size });
            }
            if let (ArrayRef::Local(local), Some(Space::Register)) = (array, space) {
                self.register_index(local, index)?;
            }
        }
        Ok(())
    }

    /// Checks rule V12 on the terms of an access with as many indices as dimensions.
    fn steepness(&self, array: ArrayRef, index: &Indices) -> CheckResult {
        let mut stride = self.dtype(array).size_bytes() as u128;
        for (dim, (index, &size)) in index.iter().zip(self.shape(array).0).enumerate().rev() {
            let steep = |factor: &i64| stride.saturating_mul(factor.unsigned_abs().into()) > MAX_OFFSET_BYTES;
            let mut factors = index.terms().iter().map(|t| t.1).chain([index.offset()]);
            if let Some(found) = factors.find(steep) {
                return Err(Violation::IndexTooSteep { array: self.named(array), dim, found });
            }
            stride = stride.saturating_mul((size as u128).max(1));
        }
        Ok(())
    }

    fn shape(&self, array: ArrayRef) -> (&[usize], Option<Space>) {
        match array {
            ArrayRef::Node(node) => (&self.routine.node(node).dims, None),
            ArrayRef::Local(local) => {
                self.locals.get(&local).map_or((&[], None), |d| (&d.dims, Some(d.space)))
            }
        }
    }

    /// The interval of an index, or `None` if it is never evaluated. Checks rule V7 on its variables and rule
    /// V12 on its size.
    fn index(&self, index: &Affine, guard: &Guard) -> CheckResult<Option<Interval>> {
        index.terms().iter().try_for_each(|&(var, _)| self.var(var))?;
        let ranges = self.ranges.narrowed(guard);
        if ranges.is_vacant(index) {
            return Ok(None);
        }
        let overflow = || Violation::IndexOverflow { index: crate::text::print_index(self.routine, index) };
        let interval = ranges.bounds(index).ok_or_else(overflow)?;
        Ok(Some(interval).filter(|interval| !interval.is_empty()))
    }

    /// Checks rule V13.
    fn register_index(&self, local: LocalId, index: &Affine) -> CheckResult {
        let constant = |var: Var| match var {
            Var::Loop(id) => matches!(self.kind(id), Some(LoopKind::Unrolled | LoopKind::Vector)),
            Var::Symbol(_) => false,
        };
        match index.terms().iter().find(|&&(var, _)| !constant(var)) {
            Some((var, _)) => {
                Err(Violation::RegisterIndex { local: local.to_string(), var: var.to_string() })
            }
            None => Ok(()),
        }
    }

    /// Checks rule V24.
    fn thread_index(&mut self, array: ArrayRef, index: &Indices) -> CheckResult {
        let ArrayRef::Local(local) = array else { return Ok(()) };
        let Some(decl) = self.locals.get(&local).filter(|decl| decl.space == Space::Thread) else {
            return Ok(());
        };
        let loops = self.enclosing.iter().filter(|(_, kind)| *kind == LoopKind::Workgroup);
        let threads: Vec<LoopId> = loops.map(|&(var, _)| var).collect();
        let is_own = |(at, &var): (usize, &LoopId)| {
            let extent = self.ranges.of(var.into()).hi + 1;
            // If the outermost loop has fewer iterations, only the first threads take part.
            let fits = |&dim: &usize| extent == dim as i64 || at == 0 && extent < dim as i64;
            index.get(at) == Some(&Affine::var(var)) && decl.dims.get(at).is_some_and(fits)
        };
        let same_loops = *self.thread_loops.entry(local).or_insert(threads.len()) == threads.len();
        match !threads.is_empty() && same_loops && threads.iter().enumerate().all(is_own) {
            true => Ok(()),
            false => Err(Violation::ThreadIndex { local: local.to_string() }),
        }
    }

    fn named(&self, array: ArrayRef) -> String {
        match array {
            ArrayRef::Node(node) => named_node(node, self.routine.node(node)),
            ArrayRef::Local(local) => format!("local {local}"),
        }
    }

    fn dtype(&self, array: ArrayRef) -> DType {
        match array {
            ArrayRef::Node(node) => self.routine.node(node).dtype,
            ArrayRef::Local(local) => self.locals.get(&local).map_or(DType::Bool, |d| d.dtype),
        }
    }

    // Values.

    /// Checks rule V15.
    fn stored(&mut self, array: ArrayRef, value: &Expr) -> CheckResult {
        let (found, expected) = (self.expr(value, 1)?, self.dtype(array));
        match found == expected {
            true => Ok(()),
            false => Err(Violation::Stored { array: self.named(array), expected, found }),
        }
    }

    /// The type of an expression that stands `depth` deep.
    fn expr(&mut self, expr: &Expr, depth: usize) -> CheckResult<DType> {
        if depth > limits::NESTING {
            return Err(Violation::TooDeep { what: "expressions", max: limits::NESTING });
        }
        match expr {
            Expr::Const(value) => Ok(value.dtype()),
            Expr::Index { index, dtype } => self.embedded(index, *dtype),
            Expr::Get { node, index } => self.element(ArrayRef::Node(*node), index, &Guard::new()),
            Expr::GetGuarded { guard, node, index, otherwise } => {
                let dtype = self.get_guarded(guard, *node, index)?;
                let found = self.expr(otherwise, depth + 1)?;
                types::same(found, dtype, || "the value outside the guard".into())?;
                Ok(dtype)
            }
            Expr::GetDynamic { node, index, axis, at, otherwise } => {
                self.dynamic(*node, index, *axis, at, depth + 1)?;
                let dtype = self.dtype(ArrayRef::Node(*node));
                let found = self.expr(otherwise, depth + 1)?;
                types::same(found, dtype, || "the value outside the dimension".into())?;
                Ok(dtype)
            }
            Expr::Lane { lane, .. } if *lane > 3 => Err(Violation::Lane { found: *lane }),
            Expr::Lane { arg, .. } => types::lane(self.expr(arg, depth + 1)?),
            Expr::Lanes(lanes) => {
                for lane in lanes.iter() {
                    types::lane_of_lanes(self.expr(lane, depth + 1)?)?;
                }
                Ok(DType::U32x4)
            }
            Expr::GetMerge { node, index } => self.get_merge(*node, index),
            Expr::GetLocal { local, index } => self.element(ArrayRef::Local(*local), index, &Guard::new()),
            Expr::Unary { op, arg } => types::unary(*op, self.expr(arg, depth + 1)?),
            Expr::Binary { op, a, b } => {
                types::binary(*op, self.expr(a, depth + 1)?, self.expr(b, depth + 1)?)
            }
            Expr::Ternary { op, a, b, c } => {
                let (a, b) = (self.expr(a, depth + 1)?, self.expr(b, depth + 1)?);
                types::ternary(*op, a, b, self.expr(c, depth + 1)?)
            }
            Expr::Convert { to, arg } => types::convert(*to, self.expr(arg, depth + 1)?),
            Expr::Bitcast { to, arg } => types::bitcast(*to, self.expr(arg, depth + 1)?),
        }
    }

    /// The type of an element of an array, which must be in scope.
    fn element(&mut self, array: ArrayRef, index: &Indices, guard: &Guard) -> CheckResult<DType> {
        match array {
            ArrayRef::Node(node) => self.node(node)?,
            ArrayRef::Local(local) => self.local(local)?,
        }
        self.access(array, index, guard)?;
        Ok(self.dtype(array))
    }

    /// Checks rule V21, and the computed index, which is nested `depth` deep.
    fn dynamic(
        &mut self,
        node: NodeRef,
        index: &Indices,
        axis: usize,
        at: &Expr,
        depth: usize,
    ) -> CheckResult {
        self.node(node)?;
        let array = ArrayRef::Node(node);
        self.access_but(array, index, &Guard::new(), Some(axis))?;
        match index.get(axis) {
            None => {
                return Err(Violation::DynamicAxis { array: self.named(array), axis, rank: index.len() });
            }
            Some(written) if *written != Affine::constant(0) => {
                let found = crate::text::print_index(self.routine, written);
                return Err(Violation::DynamicIndex { array: self.named(array), found });
            }
            Some(_) => {}
        }
        let found = self.expr(at, depth)?;
        types::computed_index(found, || self.named(array))
    }

    fn get_guarded(&mut self, guard: &Guard, node: NodeRef, index: &Indices) -> CheckResult<DType> {
        for range in guard {
            self.index(&range.index, &Guard::new())?;
        }
        self.element(ArrayRef::Node(node), index, guard)
    }

    /// Checks rule V18.
    fn get_merge(&mut self, node: NodeRef, index: &Indices) -> CheckResult<DType> {
        let dtype = self.element(ArrayRef::Node(node), index, &Guard::new())?;
        let first = *self.merge.get_or_insert(node);
        if first != node {
            let (expected, found) = (self.named(ArrayRef::Node(first)), self.named(ArrayRef::Node(node)));
            return Err(Violation::MergeNode { expected, found });
        }
        Ok(dtype)
    }

    /// Checks rule V12 on an embedded index.
    fn embedded(&self, index: &Affine, dtype: DType) -> CheckResult<DType> {
        if !matches!(dtype, DType::I32 | DType::I64) {
            return Err(Violation::IndexType { found: dtype });
        }
        let narrow = dtype == DType::I32;
        match self.index(index, &Guard::new())? {
            Some(Interval { lo, hi })
                if narrow && (i32::try_from(lo).is_err() || i32::try_from(hi).is_err()) =>
            {
                Err(Violation::IndexTooWide { lo, hi, dtype })
            }
            _ => Ok(dtype),
        }
    }
}
