//! Row blocks: neighboring nests run on a block of their rows at a time, so that an array between them needs
//! memory for one block.
//!
//! ```text
//! for i in 0..n { A(i) }; for i in 0..n { B(i) }
//!     = for b in 0..n/R { for r in 0..R { A(R·b + r) }; for r in 0..R { B(R·b + r) } }
//! ```
//!
//! if the two loops could be one ([`access::can_fuse`]). Fusion leaves them apart if one is the loop over the
//! rows of a matmul, whose form it must keep. With blocks, the matmul has fewer rows and keeps its form. The
//! scores of attention are such an array: a matmul makes them, row operations normalize them, and another
//! matmul consumes them. [`contract_arrays`](super::contract_arrays) then gives each thread one block.
//!
//! A matmul of fewer rows packs its operands once per block, so blocks pay only for an array that exceeds
//! several L2 caches ([`window_limit`]) and that is at least [`LARGER`] times as large as everything else
//! that the nests access.
//!
//! Rows that fill no block are a copy of the nests. Each element gets the same values in the same order.

use std::collections::{BTreeMap, BTreeSet};

use lowered_ir::ir::{
    Affine, ArrayRef, Block, Indices, LoopId, LoopKind, LoweredRoutine, NodeDecl, NodeRef, Stmt, Var, walk,
};
use tnode::{MemoryMode, ModeState, Reason};

use crate::analysis::access::{self, Effects};
use crate::analysis::names::Names;
use crate::analysis::nodes::{is_guarded, is_local, node_bytes};
use crate::cpu::contract_arrays::window_limit;
use crate::cpu::fusible_contractions::has_contraction;
use codegen_core::Caps;
use codegen_core::dependence;

/// The least and the largest number of rows of a block.
const ROWS: std::ops::RangeInclusive<i64> = 64..=256;
/// How many times as large as all other arrays of the nests an array must be.
const LARGER: usize = 2;
/// The most statements between the first and the last nest.
const REACH: usize = 16;

/// Runs neighboring nests on a block of rows at a time, where that makes a large array small.
pub(crate) fn block_rows(routine: &mut LoweredRoutine, caps: &Caps) {
    let large = |decl: &NodeDecl| is_local(decl) && node_bytes(decl) > caps.l2_bytes;
    if !routine.nodes.iter().any(large) {
        return;
    }
    let names = Names::of(routine);
    let body = std::mem::take(&mut routine.body);
    let mut blocker = RowBlocker { names, nodes: &mut routine.nodes, caps };
    routine.body = blocker.block(body, &mut Vec::new());
}

struct RowBlocker<'a> {
    names: Names,
    nodes: &'a mut Vec<NodeDecl>,
    caps: &'a Caps,
}

/// Consecutive statements that run on a block of rows at a time.
struct RowNests {
    /// The position of the first statement.
    first: usize,
    /// The nests, and the comments between them. All nests have the same row variable.
    stmts: Block,
    row: LoopId,
    num_rows: i64,
    /// Large local nodes that only these nests access, with the dimension whose index is the row.
    arrays: BTreeMap<NodeRef, usize>,
    /// Bytes of one row of the largest of these nodes.
    row_bytes: usize,
}

impl RowBlocker<'_> {
    /// Blocks the nests of a block, which is inside of the loops `outer`, and those inside of its statements.
    fn block(&mut self, block: Block, outer: &mut Vec<(LoopId, i64)>) -> Block {
        let mut block = block;
        while let Some((found, rows)) = self.find(&block, outer) {
            let (first, count) = (found.first, found.stmts.len());
            let blocked = self.blocked(found, rows);
            block.splice(first..first + count, blocked);
        }
        block.into_iter().map(|stmt| self.inside(stmt, outer)).collect()
    }

    fn inside(&mut self, stmt: Stmt, outer: &mut Vec<(LoopId, i64)>) -> Stmt {
        match stmt {
            Stmt::For { var, lo: 0, hi, kind: LoopKind::Serial, body } if hi.is_constant() => {
                outer.push((var, hi.limit));
                let body = self.block(body, outer);
                outer.pop();
                Stmt::For { var, lo: 0, hi, kind: LoopKind::Serial, body }
            }
            stmt => stmt,
        }
    }

    /// The first nests that are worth blocks, and the rows of a block.
    fn find(&self, block: &[Stmt], outer: &[(LoopId, i64)]) -> Option<(RowNests, i64)> {
        let mut spans: BTreeMap<NodeRef, (usize, usize)> = BTreeMap::new();
        for (at, stmt) in block.iter().enumerate() {
            for node in access::nodes(std::slice::from_ref(stmt)) {
                spans.entry(node).or_insert((at, at)).1 = at;
            }
        }
        let is_large =
            |node: &NodeRef| self.is_local(*node) && node_bytes(self.decl(*node)) > self.caps.l2_bytes;
        let large = spans.into_iter().filter(|(node, _)| is_large(node)).map(|(_, span)| span);
        let nearby = |(first, last): &(usize, usize)| first < last && last - first < REACH;
        joined(large.collect()).into_iter().filter(nearby).find_map(|span| {
            let nests = self.nests(block, span, outer)?;
            let rows = self.rows_of_block(&nests, outer.is_empty())?;
            Some((nests, rows))
        })
    }

    fn decl(&self, node: NodeRef) -> &NodeDecl {
        &self.nodes[node.index()]
    }

    fn is_local(&self, node: NodeRef) -> bool {
        is_local(self.decl(node))
    }

    /// The statements from the first to the last position, if they may run on a block of rows at a time and
    /// one of them is a matmul.
    fn nests(
        &self,
        block: &[Stmt],
        (first, last): (usize, usize),
        outer: &[(LoopId, i64)],
    ) -> Option<RowNests> {
        let (mut row, mut stmts) = (None, Block::new());
        for stmt in &block[first..=last] {
            let renamed = match stmt {
                Stmt::Comment(_) => stmt.clone(),
                _ => with_row(stmt, row.get_or_insert(row_loop(stmt)?))?,
            };
            stmts.push(renamed);
        }
        let (row, num_rows) = row?;
        let bodies: Vec<(&Block, Effects)> =
            stmts.iter().filter_map(loop_body).map(|body| (body, Effects::of(body))).collect();
        let fuse = |(first, a): &(&Block, Effects), (second, b): &(&Block, Effects)| {
            access::can_fuse((row, first, a), (row, second, b), &self.names.ranges)
        };
        let is_block = (0..bodies.len())
            .all(|at| bodies[..at].iter().all(|before| fuse(before, &bodies[at])))
            && !bodies.iter().any(|(body, _)| dependence::bounds_loops(row, body))
            && stmts.iter().any(has_contraction);
        if !is_block {
            return None;
        }
        let elsewhere: BTreeSet<NodeRef> =
            access::nodes(&block[..first]).into_iter().chain(access::nodes(&block[last + 1..])).collect();
        let arrays: BTreeMap<NodeRef, usize> = access::nodes(&stmts)
            .into_iter()
            .filter(|node| !elsewhere.contains(node) && self.is_local(*node))
            .filter(|node| self.footprint(*node, &stmts, outer) > self.caps.l2_bytes)
            .filter_map(|node| Some((node, row_dimension(&stmts, node, row)?)))
            .collect();
        let bytes = |node: &NodeRef| self.footprint(*node, &stmts, outer);
        let largest = arrays.keys().map(bytes).max()?;
        let others: usize =
            access::nodes(&stmts).iter().filter(|node| !arrays.contains_key(node)).map(bytes).sum();
        let row_bytes = largest / num_rows.unsigned_abs() as usize;
        (largest >= LARGER.saturating_mul(others)).then_some(RowNests {
            first,
            stmts,
            row,
            num_rows,
            arrays,
            row_bytes,
        })
    }

    /// The bytes of a node that one iteration of the loops `outer` accesses: each outer loop that an index
    /// mentions selects a part of the node.
    fn footprint(&self, node: NodeRef, stmts: &[Stmt], outer: &[(LoopId, i64)]) -> usize {
        let touches = dependence::touches(stmts);
        let selects = |var: LoopId| {
            let mut of_node = touches.iter().filter(|touch| touch.node == node);
            of_node.all(|touch| touch.indices().is_some_and(|index| index.iter().any(|i| i.mentions(var))))
        };
        let parts = outer.iter().filter(|(var, _)| selects(*var)).map(|&(_, extent)| extent.max(1) as usize);
        node_bytes(self.decl(node)) / parts.fold(1, usize::saturating_mul).max(1)
    }

    /// The number of rows of a block; `None` if blocks do not pay. The largest array's block fits into the L2
    /// cache if that leaves enough rows. Outermost blocks are also work for several threads.
    fn rows_of_block(&self, nests: &RowNests, is_outermost: bool) -> Option<i64> {
        let row_bytes = nests.row_bytes.max(1);
        let mut most = ((self.caps.l2_bytes / row_bytes) as i64).clamp(*ROWS.start(), *ROWS.end());
        if is_outermost {
            most = most.min(nests.num_rows / (2 * self.caps.threads.max(1) as i64)).max(*ROWS.start());
        }
        let enough = !is_outermost || nests.num_rows >= most * self.caps.threads as i64;
        // Each block packs operands, and so do the rows that fill no block, which are as few as possible.
        let cost =
            |rows: &i64| (nests.num_rows.unsigned_abs().div_ceil(rows.unsigned_abs()), nests.num_rows % rows);
        let rows = (most / 2 + 1..=most).min_by_key(cost)?;
        let fits = row_bytes.saturating_mul(rows as usize) <= window_limit(self.caps);
        (enough && fits && nests.num_rows >= 2 * rows).then_some(rows)
    }

    /// A loop over blocks of `rows` rows, and the nests for the rows that are left.
    fn blocked(&mut self, nests: RowNests, rows: i64) -> Block {
        let (blocks, rest) = (nests.num_rows / rows, nests.num_rows % rows);
        let block = self.names.loop_id();
        let body = self.on_rows(&nests, &Affine::term(block, rows), rows);
        let mut blocked = vec![Stmt::serial(block, blocks, body)];
        if rest > 0 {
            blocked.extend(self.rest(&nests, blocks * rows, rest));
        }
        self.names.note(&blocked);
        blocked
    }

    /// The nests for `rows` rows from `start` on.
    fn on_rows(&mut self, nests: &RowNests, start: &Affine, rows: i64) -> Block {
        let of_block = |stmt: &Stmt| {
            let Some(body) = loop_body(stmt) else { return stmt.clone() };
            let (row, mut body) = (self.names.loop_id(), body.clone());
            walk::substitute(&mut body, nests.row, &start.plus(&Affine::var(row)));
            Stmt::serial(row, rows, body)
        };
        nests.stmts.iter().map(of_block).collect()
    }

    /// The nests for `rows` rows from `start` on, with arrays of their own.
    fn rest(&mut self, nests: &RowNests, start: i64, rows: i64) -> Block {
        let mut copy = self.on_rows(nests, &Affine::constant(start), rows);
        copy = self.names.refreshed(&copy);
        for (&node, &dim) in &nests.arrays {
            let own = self.declare_rest(node, dim, rows);
            let from_start = |index: &Indices| {
                let mut index = index.clone();
                index[dim] = index[dim].plus_constant(-start);
                index
            };
            walk::move_elements(&mut copy, &mut |array, index| {
                (array == ArrayRef::Node(node)).then(|| (ArrayRef::Node(own), from_start(index)))
            });
        }
        copy
    }

    /// A local node like `node`, with `rows` elements along a dimension.
    fn declare_rest(&mut self, node: NodeRef, dim: usize, rows: i64) -> NodeRef {
        let decl = self.decl(node);
        let mut dims = decl.dims.clone();
        dims[dim] = rows.unsigned_abs() as usize;
        let mode = ModeState::decided(MemoryMode::Local, Reason::new("rows that fill no block"));
        let rest = NodeDecl { name: format!("{}_rest", decl.name), dtype: decl.dtype, dims, mode };
        let own = self.names.node_of(rest.dtype, rest.dims.clone());
        self.nodes.push(rest);
        own
    }
}

/// Joins spans that have statements in common.
fn joined(mut spans: Vec<(usize, usize)>) -> Vec<(usize, usize)> {
    spans.sort_unstable();
    let mut all: Vec<(usize, usize)> = Vec::new();
    for (first, last) in spans {
        match all.last_mut() {
            Some(before) if first <= before.1 => before.1 = before.1.max(last),
            _ => all.push((first, last)),
        }
    }
    all
}

/// The variable and the extent of a serial loop from 0 to a constant.
fn row_loop(stmt: &Stmt) -> Option<(LoopId, i64)> {
    match stmt {
        Stmt::For { var, lo: 0, hi, kind: LoopKind::Serial, .. } => Some((*var, hi.constant()?)),
        _ => None,
    }
}

/// A loop of `row.1` iterations, with the variable `row.0`.
fn with_row(stmt: &Stmt, &mut (row, num_rows): &mut (LoopId, i64)) -> Option<Stmt> {
    let (var, _) = row_loop(stmt).filter(|&(_, extent)| extent == num_rows)?;
    let mut body = loop_body(stmt)?.clone();
    walk::substitute(&mut body, var, &Affine::var(row));
    Some(Stmt::serial(row, num_rows, body))
}

fn loop_body(stmt: &Stmt) -> Option<&Block> {
    match stmt {
        Stmt::For { body, .. } => Some(body),
        _ => None,
    }
}

/// The dimension of a node whose index is the row in every access.
fn row_dimension(block: &[Stmt], node: NodeRef, row: LoopId) -> Option<usize> {
    if is_guarded(block, node) {
        return None;
    }
    let touches = dependence::touches(block).into_iter().filter(|touch| touch.node == node);
    let indices: Vec<&Indices> = touches.map(|touch| touch.index).collect::<Option<_>>()?;
    let is_row = |dim: &usize| indices.iter().all(|index| index[*dim] == Affine::var(Var::Loop(row)));
    (0..indices.first()?.len()).find(is_row)
}
