//! Unroll-and-jam: strip-mines a loop and moves the strip innermost, as vector lanes or unrolled.
//!
//! `for i in 0..n { body(i) } = for s in 0..n/c { jam(i = c·s + lane) }; jam(i = c·(n/c) + lane, n mod c
//! lanes)`, for loops with independent iterations. In a jammed body each group of statements has a lane loop
//! of its own, inside the loops of the body. A local that lives from one group to another gets a dimension
//! for the lane. Thus vectors and register tiles reach into reductions: with lanes of `n` and unrolled `m`,
//! an accumulator becomes `acc[m, n]`.

use std::collections::BTreeMap;

use lowered_ir::ir::{Affine, ArrayRef, Block, Expr, IdSet, LocalId, LoopId, LoopKind, NodeRef, Stmt, walk};

use crate::analysis::access;
use crate::analysis::names::Names;
use codegen_core::dependence::{self, mentions};

/// Vectors per strip: the latency of one hides behind the others.
pub(crate) const VECTORS: usize = 4;

/// The shape of a strip.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Strip {
    /// Iterations per strip.
    pub(crate) lanes: i64,
    /// [`LoopKind::Vector`] or [`LoopKind::Unrolled`].
    pub(crate) kind: LoopKind,
}

/// Returns `for var in 0..extent { body }` as a loop over whole strips, followed by a loop of one iteration
/// for the remainder, which is the scope of its locals.
///
/// The iterations must be independent ([`dependence::independent`]), and no bound of a loop in the body may
/// depend on `var`.
pub(crate) fn strips(var: LoopId, extent: i64, body: &[Stmt], strip: Strip, names: &mut Names) -> Block {
    let (whole, rest) = (extent / strip.lanes, extent % strip.lanes);
    let mut block = Block::new();
    if whole > 0 {
        let outer = names.loop_id();
        let start = if whole > 1 { Affine::term(outer, strip.lanes) } else { Affine::constant(0) };
        block.push(Stmt::serial(outer, whole, jam(body, var, &start, strip, names)));
    }
    if rest > 0 {
        let body = if whole > 0 { names.refreshed(body) } else { body.to_vec() };
        let start = Affine::constant(whole * strip.lanes);
        let jammed = jam(&body, var, &start, Strip { lanes: rest, ..strip }, names);
        block.push(Stmt::serial(names.loop_id(), 1, jammed));
    }
    block
}

fn jam(body: &[Stmt], var: LoopId, start: &Affine, strip: Strip, names: &mut Names) -> Block {
    if strip.lanes == 1 {
        let mut body = body.to_vec();
        walk::substitute(&mut body, var, start);
        return body;
    }
    let wide = wide_locals(body, strip.kind);
    let written = dependence::written(body);
    let mut jam = Jammer { var, start, strip, wide, written, names };
    jam.block(body)
}

struct Jammer<'a> {
    var: LoopId,
    start: &'a Affine,
    strip: Strip,
    /// Locals that get a dimension for the lane.
    wide: IdSet<LocalId>,
    written: IdSet<NodeRef>,
    names: &'a mut Names,
}

/// Vectors that all unrolled iterations share.
struct SharedVectors {
    /// Locals that differ between iterations.
    changing: IdSet<LocalId>,
    /// Values, and the locals that have them.
    known: Vec<(Expr, LocalId)>,
}

impl Jammer<'_> {
    fn block(&mut self, block: &[Stmt]) -> Block {
        let mut out = Block::new();
        for part in parts(block, self.strip.kind) {
            match part {
                BodyPart::Run(run) => self.run(run, &mut out),
                BodyPart::Loop(stmt) => out.push(self.inner_loop(stmt)),
            }
        }
        out
    }

    fn inner_loop(&mut self, stmt: &Stmt) -> Stmt {
        match stmt {
            Stmt::For { var, lo, hi, kind, body } => {
                Stmt::For { var: *var, lo: *lo, hi: hi.clone(), kind: *kind, body: self.block(body) }
            }
            other => other.clone(),
        }
    }

    /// Declares wide locals, then computes the values that all lanes share, then runs the other statements in
    /// one lane loop.
    fn run(&mut self, run: &[Stmt], out: &mut Block) {
        let (wide, mut rest): (Block, Block) = run
            .iter()
            .cloned()
            .partition(|stmt| matches!(stmt, Stmt::Declare { local, .. } if self.wide.contains(local)));
        out.extend(wide.iter().map(|declare| self.widened(declare)));
        match self.strip.kind {
            LoopKind::Unrolled => self.share_vectors(&mut rest, out),
            _ => self.share_values(&mut rest, out),
        }
        if !rest.is_empty() {
            out.push(self.lane_loop(rest));
        }
    }

    /// Moves locals whose values are equal in all lanes out of the lane loop.
    fn share_values(&mut self, run: &mut Block, out: &mut Block) {
        let mut varying = self.wide.clone();
        let once = set_once(run);
        varying.extend(dependence::declared(run).difference(&once));
        // A value is usually set before it is used, so one iteration nearly always finds all varying locals.
        loop {
            let before = varying.len();
            for stmt in run.iter() {
                varying.extend(self.newly_varying(stmt, &varying));
            }
            if varying.len() == before {
                break;
            }
        }
        let shared = |stmt: &Stmt| match stmt {
            Stmt::Declare { local, .. } | Stmt::SetLocal { local, .. } => !varying.contains(local),
            _ => false,
        };
        let (uniform, rest) = std::mem::take(run).into_iter().partition(shared);
        let uniform: Block = uniform;
        out.extend(uniform);
        *run = rest;
    }

    /// The local to which a statement gives a value that differs between lanes; none if `varying` already
    /// contains the local.
    fn newly_varying(&self, stmt: &Stmt, varying: &IdSet<LocalId>) -> Option<LocalId> {
        let Stmt::SetLocal { local, index, value } = stmt else { return None };
        let block = std::slice::from_ref(stmt);
        let varies = reads_any(value, varying)
            || mentions(value, self.var)
            || index.iter().any(|i| i.mentions(self.var))
            || !access::nodes(block).is_disjoint(&self.written);
        (varies && !varying.contains(local)).then_some(*local)
    }

    /// Computes each vector that is equal in all unrolled iterations once, before them: loads, and floats
    /// that are computed from loads.
    fn share_vectors(&mut self, run: &mut Block, out: &mut Block) {
        let changing: IdSet<LocalId> = dependence::declared(run)
            .into_iter()
            .chain(dependence::locals_set(run))
            .chain(self.wide.iter().copied())
            .collect();
        let mut shared = SharedVectors { changing, known: Vec::new() };
        for stmt in run.iter_mut() {
            let Stmt::For { var: lane, hi, kind: LoopKind::Vector, body, .. } = stmt else { continue };
            let (lane, lanes) = (*lane, hi.limit);
            walk::map_values(body, &mut |value| self.with_shared(value, (lane, lanes), &mut shared, out));
        }
    }

    /// The value of a vector loop, with its largest shared parts in locals.
    fn with_shared(
        &mut self,
        value: Expr,
        (lane, lanes): (LoopId, i64),
        shared: &mut SharedVectors,
        out: &mut Block,
    ) -> Expr {
        if !self.is_shared(&value, lane, &shared.changing) {
            return walk::map_children(value, &mut |part| self.with_shared(part, (lane, lanes), shared, out));
        }
        let known = shared.known.iter().find(|(known, _)| *known == value).map(|(_, local)| *local);
        let local = known.unwrap_or_else(|| self.names.load(&value, lane, lanes, out));
        shared.known.push((value, local));
        Expr::GetLocal { local, index: [Affine::var(lane)].into() }
    }

    /// Whether a part of a vector loop is a load, or a float that is computed from loads, and is equal in all
    /// iterations.
    fn is_shared(&self, value: &Expr, lane: LoopId, changing: &IdSet<LocalId>) -> bool {
        let is_load = |e: &Expr| matches!(e, Expr::Get { .. } | Expr::GetLocal { .. });
        let is_fixed = |e: &Expr| match e {
            Expr::Get { node, .. } => !self.written.contains(node),
            Expr::GetLocal { local, .. } => !changing.contains(local),
            Expr::Unary { .. } | Expr::Binary { .. } | Expr::Ternary { .. } => true,
            Expr::Convert { .. } | Expr::Const(_) => true,
            _ => false,
        };
        (is_load(value) || value.dtype(self.names).is_float())
            && mentions(value, lane)
            && !mentions(value, self.var)
            && walk::parts(value).all(is_fixed)
    }

    fn lane_loop(&mut self, mut body: Block) -> Stmt {
        let lane = self.names.loop_id();
        walk::substitute(&mut body, self.var, &self.start.plus(&Affine::var(lane)));
        self.index_wide(&mut body, lane);
        Stmt::looped(lane, self.strip.lanes, self.strip.kind, body)
    }

    fn widened(&self, declare: &Stmt) -> Stmt {
        let mut declare = declare.clone();
        if let Stmt::Declare { dims, .. } = &mut declare {
            let at = self.lane_dim(dims.len());
            dims.insert(at, self.strip.lanes as usize);
        }
        declare
    }

    /// The position of the dimension that a wide local gets for the lane. For vector lanes it is the last
    /// one, so that a vector is contiguous. For unrolled iterations it is the first one, so that each
    /// iteration has vectors of its own.
    fn lane_dim(&self, rank: usize) -> usize {
        if self.strip.kind == LoopKind::Vector { rank } else { 0 }
    }

    fn index_wide(&self, block: &mut Block, lane: LoopId) {
        for stmt in block.iter_mut() {
            match stmt {
                Stmt::For { body, .. } => self.index_wide(body, lane),
                Stmt::SetLocal { local, index, .. } if self.wide.contains(local) => {
                    index.insert(self.lane_dim(index.len()), Affine::var(lane));
                }
                _ => {}
            }
        }
        for stmt in block.iter_mut() {
            if let Stmt::Set { value, .. } | Stmt::SetLocal { value, .. } | Stmt::SetDynamic { value, .. } =
                stmt
            {
                let old = std::mem::replace(value, Expr::local(LocalId(0)));
                *value = walk::map_expr(old, &mut |e| match e {
                    Expr::GetLocal { local, mut index } if self.wide.contains(&local) => {
                        index.insert(self.lane_dim(index.len()), Affine::var(lane));
                        Expr::GetLocal { local, index }
                    }
                    other => other,
                });
            }
        }
    }
}

/// The locals that exactly one statement sets, before any reads them.
fn set_once(run: &[Stmt]) -> IdSet<LocalId> {
    let mut sets: BTreeMap<LocalId, usize> = BTreeMap::new();
    let mut read_before = IdSet::default();
    for stmt in run {
        for value in stmt.values() {
            walk::parts(value).for_each(|e| {
                if let Expr::GetLocal { local, .. } = e
                    && !sets.contains_key(local)
                {
                    read_before.insert(*local);
                }
            });
        }
        if let Stmt::SetLocal { local, .. } = stmt {
            *sets.entry(*local).or_default() += 1;
        }
    }
    let once = sets.into_iter().filter(|(local, count)| *count == 1 && !read_before.contains(local));
    once.map(|(local, _)| local).collect()
}

fn reads_any(value: &Expr, locals: &IdSet<LocalId>) -> bool {
    walk::parts(value).any(|e| matches!(e, Expr::GetLocal { local, .. } if locals.contains(local)))
}

enum BodyPart<'a> {
    /// Statements that share one lane loop.
    Run(&'a [Stmt]),
    /// A loop that stays outside of lane loops.
    Loop(&'a Stmt),
}

/// The block as groups of statements and loops.
fn parts(block: &[Stmt], kind: LoopKind) -> Vec<BodyPart<'_>> {
    let mut parts = Vec::new();
    let mut start = 0;
    for (at, stmt) in block.iter().enumerate() {
        if is_inner_loop(stmt, kind) {
            if start < at {
                parts.push(BodyPart::Run(&block[start..at]));
            }
            parts.push(BodyPart::Loop(stmt));
            start = at + 1;
        }
    }
    if start < block.len() {
        parts.push(BodyPart::Run(&block[start..]));
    }
    parts
}

/// Whether a lane loop of this kind cannot contain the statement.
fn is_inner_loop(stmt: &Stmt, kind: LoopKind) -> bool {
    match stmt {
        Stmt::For { kind: LoopKind::Vector, .. } => kind == LoopKind::Vector,
        Stmt::For { .. } => true,
        _ => false,
    }
}

/// The locals that are used outside of the group that declares them.
fn wide_locals(body: &[Stmt], kind: LoopKind) -> IdSet<LocalId> {
    let everywhere = uses(body);
    let mut wide = dependence::declared(body);
    keep_run_locals(body, kind, &everywhere, &mut wide);
    wide
}

fn keep_run_locals(
    block: &[Stmt],
    kind: LoopKind,
    everywhere: &BTreeMap<LocalId, usize>,
    wide: &mut IdSet<LocalId>,
) {
    for part in parts(block, kind) {
        match part {
            BodyPart::Run(run) => {
                let here = uses(run);
                wide.retain(|l| {
                    !here.contains_key(l)
                        || here.get(l) != everywhere.get(l)
                        || !dependence::declared(run).contains(l)
                });
            }
            BodyPart::Loop(Stmt::For { body, .. }) => keep_run_locals(body, kind, everywhere, wide),
            BodyPart::Loop(_) => {}
        }
    }
}

/// The number of mentions of each local.
fn uses(block: &[Stmt]) -> BTreeMap<LocalId, usize> {
    let read = walk::parts_in(block).filter_map(Expr::array);
    let all = walk::stmts(block).filter_map(Stmt::array).chain(read).filter_map(ArrayRef::local);
    let mut uses = BTreeMap::new();
    all.for_each(|local| *uses.entry(local).or_insert(0) += 1);
    uses
}
