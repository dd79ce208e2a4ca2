//! Products that need not be computed step by step leave their scan.
//!
//! ```text
//! scan t { zero a; for b, j, i { a[b,j] += x[t,b,i] · w[i,j] }; … a … }
//!     = zero a'; for t, b, j, i { a'[t,b,j] += x[t,b,i] · w[i,j] }; scan t { … a'[t] … }
//! scan t { … g …; for i, j, b { d[i,j] += h[t,b,i] · g[b,j] } }
//!     = scan t { … g'[t] … }; for i, j, t, b { d[i,j] += h[t,b,i] · g'[t,b,j] }
//! ```
//!
//! The product of all steps has more rows, or a longer sum, than those of single steps, and packs its
//! operands once. A product may go before the scan if no step writes a factor, and behind it if no step reads
//! the sum and its factors are as they were: memory that no step writes, or of which each step writes its own
//! part, or nodes that live for one step. Sums that are long in one step stay: their products read the sums
//! seldom, and their factors are in a cache. A node of one step gets an axis for the steps, as long as all
//! steps together have at most [`MAX_BYTES`]. Each element is the sum of the same products in the same order,
//! so no bit changes.

use std::collections::BTreeMap;

use lowered_ir::ir::{
    Affine, ArrayRef, BinaryOp, Block, Expr, Fresh, Indices, LoopId, LoopKind, LoweredRoutine, NodeDecl,
    NodeRef, Stmt, walk,
};
use lowered_ir::passes::access::{Facts, analyze};
use lowered_ir::passes::regions;
use tnode::{MemoryMode, ModeState, Reason, Scalar};

use crate::analysis::nodes::{is_local, node_bytes};

/// The most bytes of a node with an axis for the steps that had none.
const MAX_BYTES: usize = 64 << 20;

/// The least number of products per step of a sum that stays in its scan.
const LONG_SUM: i64 = 64;

/// Moves products out of scans.
pub(crate) fn leave_scans(routine: &mut LoweredRoutine) {
    if !regions::has_regions(&routine.body) {
        return;
    }
    let fresh = routine.fresh();
    let mentions = mentions(&routine.body);
    let body = std::mem::take(&mut routine.body);
    routine.body = Passage { routine, fresh, mentions }.block(body);
}

/// The number of statements and reads that mention each node.
fn mentions(block: &[Stmt]) -> BTreeMap<NodeRef, usize> {
    let mut counts = BTreeMap::new();
    let arrays =
        walk::stmts(block).filter_map(Stmt::array).chain(walk::parts_in(block).filter_map(Expr::array));
    arrays.filter_map(ArrayRef::node).for_each(|node| *counts.entry(node).or_insert(0) += 1);
    counts
}

struct Passage<'a> {
    /// The routine without its body.
    routine: &'a mut LoweredRoutine,
    fresh: Fresh,
    /// The mentions of each node in the routine as it was.
    mentions: BTreeMap<NodeRef, usize>,
}

/// A scan whose body loses products.
struct OpenScan {
    var: LoopId,
    steps: i64,
    body: Block,
    /// What is known of the body as a routine.
    facts: Facts,
}

/// What a product needs to find a factor outside of the scan.
#[derive(Clone, Copy, PartialEq)]
enum Operand {
    /// Nothing: its memory stays as it is.
    Stays,
    /// An axis for the steps.
    PerStep,
}

impl Passage<'_> {
    fn block(&mut self, block: Block) -> Block {
        let mut all = Block::new();
        for stmt in block {
            match stmt {
                Stmt::For { var, lo: 0, hi, kind: LoopKind::Scan, body }
                    if let Some(steps @ 2..) = hi.constant() =>
                {
                    let body = self.block(body);
                    let has_products = body.iter().any(|stmt| Multiplication::of(stmt).is_some());
                    if !has_products {
                        all.push(Stmt::looped(var, steps, LoopKind::Scan, body));
                        continue;
                    }
                    let facts = self.facts(var, steps, &body);
                    let mut scan = OpenScan { var, steps, body, facts };
                    all.append(&mut self.before(&mut scan));
                    let mut behind = self.behind(&mut scan);
                    all.push(Stmt::looped(var, steps, LoopKind::Scan, scan.body));
                    all.append(&mut behind);
                }
                stmt => all.push(stmt),
            }
        }
        all
    }

    fn facts(&mut self, var: LoopId, steps: i64, body: &[Stmt]) -> Facts {
        let mut region = LoweredRoutine { body: body.to_vec(), ..self.routine.clone() };
        let step = regions::add_symbol(&mut region, steps);
        walk::substitute(&mut region.body, var, &Affine::var(step));
        analyze(&region)
    }

    /// Takes the products that need no step from the body.
    fn before(&mut self, scan: &mut OpenScan) -> Block {
        let (mut before, mut at) = (Block::new(), 0);
        while at < scan.body.len() {
            match self.start_of(scan, at) {
                Some(start) => {
                    let node = Multiplication::of(&scan.body[at]).map(|products| products.node);
                    let Some(node) = node.and_then(|node| self.per_step(scan, node)) else { return before };
                    let mut stmt = scan.body.remove(at);
                    scan.body.remove(start);
                    let var = self.fresh.loop_id();
                    walk::substitute(std::slice::from_mut(&mut stmt), scan.var, &Affine::var(var));
                    before.extend([Stmt::Zero { node }, Stmt::serial(var, scan.steps, vec![stmt])]);
                    at -= 1;
                }
                None => at += 1,
            }
        }
        before
    }

    /// The position of the statement that starts the sums of a statement from 0, if both may go before the
    /// scan.
    fn start_of(&self, scan: &OpenScan, at: usize) -> Option<usize> {
        let products = Multiplication::of(&scan.body[at])?;
        let node = products.node;
        let start =
            scan.body.iter().position(|stmt| mentions(std::slice::from_ref(stmt)).contains_key(&node))?;
        let starts = matches!(scan.body[start], Stmt::Zero { .. })
            && !scan.body[start + 1..at]
                .iter()
                .any(|stmt| mentions(std::slice::from_ref(stmt)).contains_key(&node));
        let stays =
            products.factors.iter().all(|(node, _)| !scan.body.iter().any(|stmt| writes(stmt, *node)));
        // The letter makes rows of one factor; the other one is the same for all of them.
        let of_step = |(_, index): &&(NodeRef, &Indices)| index.iter().any(|i| i.mentions(scan.var));
        let of_step: Vec<&(NodeRef, &Indices)> = products.factors.iter().filter(of_step).collect();
        let is_matrix = of_step.len() == 1 && of_step.iter().all(|factor| products.lacks_loop(factor));
        (starts && stays && is_matrix && self.is_of_step(scan, node, products.index)).then_some(start)
    }

    /// Takes the products that no step reads from the body.
    fn behind(&mut self, scan: &mut OpenScan) -> Block {
        let mut behind = Block::new();
        for at in (0..scan.body.len()).rev() {
            let Some(factors) = self.factors_behind(scan, at) else { continue };
            let per_step = factors.into_iter().filter(|(_, factor)| *factor == Operand::PerStep);
            if !per_step.map(|(node, _)| node).all(|node| self.per_step(scan, node).is_some()) {
                continue;
            }
            let stmt = scan.body.remove(at);
            let Some(products) = Multiplication::of(&stmt) else { continue };
            behind.insert(0, self.over_steps(scan, &products));
        }
        behind
    }

    /// The factors of a statement that may go behind the scan.
    fn factors_behind(&self, scan: &OpenScan, at: usize) -> Option<[(NodeRef, Operand); 2]> {
        let products = Multiplication::of(&scan.body[at])?;
        let is_mentioned = |stmt: &Stmt| mentions(std::slice::from_ref(stmt)).contains_key(&products.node);
        let others = || scan.body[..at].iter().chain(&scan.body[at + 1..]);
        let is_matrix = products.factors.iter().all(|factor| products.lacks_loop(factor));
        if products.num_products() >= LONG_SUM
            || !is_matrix
            || products.index.iter().any(|i| i.mentions(scan.var))
            || others().any(is_mentioned)
        {
            return None;
        }
        let factor = |(node, index)| Some((node, self.factor_behind(scan, at, node, index)?));
        let [left, right] = products.factors;
        Some([factor(left)?, factor(right)?])
    }

    fn factor_behind(&self, scan: &OpenScan, at: usize, node: NodeRef, index: &Indices) -> Option<Operand> {
        let writers = || scan.body.iter().filter(|stmt| writes(stmt, node));
        if writers().count() == 0 {
            return Some(Operand::Stays);
        }
        if scan.body[at + 1..].iter().any(|stmt| writes(stmt, node)) {
            return None;
        }
        let is_of_step =
            |i: &Affine| i.terms().iter().all(|(var, _)| *var == scan.var.into()) && i.mentions(scan.var);
        let is_own_part = |axis: usize| {
            is_of_step(&index[axis])
                && walk::stmts(&scan.body).filter(|stmt| stmt.array() == Some(ArrayRef::Node(node))).all(
                    |stmt| matches!(stmt, Stmt::Set { index: stored, .. } if stored[axis] == index[axis]),
                )
        };
        if (0..index.len()).any(is_own_part) {
            return Some(Operand::Stays);
        }
        self.is_of_step(scan, node, index).then_some(Operand::PerStep)
    }

    /// Whether a node lives for one step, and may get an axis for the steps.
    fn is_of_step(&self, scan: &OpenScan, node: NodeRef, index: &Indices) -> bool {
        let decl = self.routine.node(node);
        let steps = usize::try_from(scan.steps).unwrap_or(usize::MAX);
        let is_plain_read =
            |e: &Expr| e.array() != Some(ArrayRef::Node(node)) || matches!(e, Expr::Get { .. });
        let is_plain_write = |stmt: &Stmt| {
            stmt.array() != Some(ArrayRef::Node(node)) || matches!(stmt, Stmt::Set { .. } | Stmt::Zero { .. })
        };
        is_local(decl)
            && node_bytes(decl).saturating_mul(steps) <= MAX_BYTES
            && !index.iter().any(|i| i.mentions(scan.var))
            && mentions(&scan.body).get(&node) == self.mentions.get(&node)
            && !scan.facts[node].read_before_write
            && walk::parts_in(&scan.body).all(is_plain_read)
            && walk::stmts(&scan.body).all(is_plain_write)
    }

    /// Gives a node of one step an axis for the steps; returns the new node, or `None` if it has too many
    /// dimensions.
    fn per_step(&mut self, scan: &mut OpenScan, node: NodeRef) -> Option<NodeRef> {
        let decl = self.routine.node(node).clone();
        let steps = usize::try_from(scan.steps).ok()?;
        let dims = std::iter::once(steps).chain(decl.dims.iter().copied()).collect();
        let mode = ModeState::decided(MemoryMode::Local, Reason::new("all steps of a scan"));
        let all = NodeRef(self.routine.nodes.len() as u32);
        let name = format!("{}_of_steps", decl.name);
        self.routine.nodes.push(NodeDecl { name, dtype: decl.dtype, dims, mode });
        let step = Affine::var(scan.var);
        fill(&mut scan.body, node, &decl, &mut self.fresh);
        walk::move_elements(&mut scan.body, &mut |array, index| {
            let of_step = || std::iter::once(step.clone()).chain(index.iter().cloned()).collect();
            (array == ArrayRef::Node(node)).then(|| (ArrayRef::Node(all), of_step()))
        });
        Some(all)
    }

    /// The nest of all steps, in which the loop over the steps is around those over the products of a step.
    fn over_steps(&mut self, scan: &OpenScan, products: &Multiplication<'_>) -> Stmt {
        let step = self.fresh.loop_id();
        let mut loops = products.loops.clone();
        let sums = loops.iter().position(|(var, _)| !products.index.iter().any(|i| i.mentions(*var)));
        loops.insert(sums.unwrap_or(loops.len()), (step, scan.steps));
        let mut body = vec![products.stmt.clone()];
        walk::substitute(&mut body, scan.var, &Affine::var(step));
        let nest =
            loops.into_iter().rev().fold(body, |body, (var, extent)| vec![Stmt::serial(var, extent, body)]);
        nest.into_iter().next().unwrap_or_else(|| products.stmt.clone())
    }
}

/// Replaces each `zero` of a node by a nest that stores zeros.
fn fill(block: &mut Block, node: NodeRef, decl: &NodeDecl, fresh: &mut Fresh) {
    for stmt in block {
        match stmt {
            Stmt::For { body, .. } => fill(body, node, decl, fresh),
            Stmt::Zero { node: zeroed } if *zeroed == node => {
                let vars: Vec<LoopId> = decl.dims.iter().map(|_| fresh.loop_id()).collect();
                let index = vars.iter().map(|&var| Affine::var(var)).collect();
                let set = Stmt::Set { node, index, value: Expr::Const(Scalar::zero(decl.dtype)) };
                let loops = vars.into_iter().zip(&decl.dims).rev();
                *stmt = loops.fold(set, |body, (var, &dim)| Stmt::serial(var, dim as i64, vec![body]));
            }
            _ => {}
        }
    }
}

fn writes(stmt: &Stmt, node: NodeRef) -> bool {
    walk::stmts(std::slice::from_ref(stmt)).any(|stmt| stmt.array() == Some(ArrayRef::Node(node)))
}

/// A nest that adds a product to elements of a node.
struct Multiplication<'a> {
    loops: Vec<(LoopId, i64)>,
    /// The innermost statement.
    stmt: &'a Stmt,
    node: NodeRef,
    index: &'a Indices,
    factors: [(NodeRef, &'a Indices); 2],
}

impl Multiplication<'_> {
    fn of(stmt: &Stmt) -> Option<Multiplication<'_>> {
        let (mut loops, mut body) = (Vec::new(), std::slice::from_ref(stmt));
        while let [Stmt::For { var, lo: 0, hi, kind: LoopKind::Serial, body: inner }] = body {
            loops.push((*var, hi.constant()?));
            body = inner;
        }
        let [stmt @ Stmt::Set { node, index, value: Expr::Binary { op: BinaryOp::Add, a, b } }] = body else {
            return None;
        };
        let Expr::Binary { op: BinaryOp::Mul, a: left, b: right } = &**b else { return None };
        let factors = [element(left)?, element(right)?];
        let is_sum = element(a) == Some((*node, index)) && factors.iter().all(|factor| factor.0 != *node);
        is_sum.then_some(Multiplication { loops, stmt, node: *node, index, factors })
    }

    /// The number of products of an element.
    fn num_products(&self) -> i64 {
        let sums = self.loops.iter().filter(|(var, _)| !self.index.iter().any(|i| i.mentions(*var)));
        sums.fold(1, |count, (_, extent)| count.saturating_mul(*extent))
    }

    /// Whether a factor is the same for several elements of the result, as a factor of matrices is.
    fn lacks_loop(&self, (_, factor): &(NodeRef, &Indices)) -> bool {
        let mentions = |index: &Indices, var: LoopId| index.iter().any(|i| i.mentions(var));
        self.loops.iter().any(|&(var, _)| mentions(self.index, var) && !mentions(factor, var))
    }
}

fn element(value: &Expr) -> Option<(NodeRef, &Indices)> {
    match value {
        Expr::Get { node, index } => Some((*node, index)),
        _ => None,
    }
}
