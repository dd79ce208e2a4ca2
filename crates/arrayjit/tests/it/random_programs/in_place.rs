//! Random nests that read the nodes they write: shifts, reversals, transposes, prefix sums and windows in
//! place, several statements per nest, bounds that depend on a symbol. The assignment text rejects most of
//! them; in loop IR the order of iterations defines their meaning, and vectorization and splitting over
//! threads must preserve it.

use lowered_ir::ir::{
    Affine, BinaryOp, Block, Bound, Expr, Indices, LoopId, LoopKind, LoweredRoutine, NodeDecl, NodeRef,
    Numerics, Stmt, Symbol, SymbolId, Var,
};
use tnode::{DType, MemoryMode, ModeState, Reason, Sharing};

use random_programs::Choices;

/// The most iterations of a nest.
const MAX_POINTS: i64 = 2500;

/// The most elements of a node.
const MAX_ELEMS: i64 = 20_000;

/// The routine that `choices` describe: one list of choices per nest.
pub(super) fn routine(numerics: Numerics, choices: &[Vec<u8>]) -> LoweredRoutine {
    let mut head = Choices::new(choices.first().map_or(&[], Vec::as_slice));
    let dtype =
        *head.pick(&[DType::I32, DType::F32, DType::U8, DType::F64, DType::F32, DType::I64, DType::F16]);
    let ranks = [1, 1 + head.below(2), 1 + head.below(2)];
    let mut writer = Writer { ranks, next: 0, open: Vec::new() };
    let body = choices.iter().flat_map(|choices| writer.nest(&mut Choices::new(choices))).collect();
    let symbols = vec![Symbol::parameter("s", 6)];
    let mut routine = LoweredRoutine { name: "in_place".into(), numerics, symbols, nodes: Vec::new(), body };
    let mut spans = spans(&routine, &ranks);
    let elems = |spans: &Vec<(i64, i64)>| spans.iter().map(|(lo, hi)| hi - lo + 1).product::<i64>();
    if spans.iter().any(|spans| elems(spans) > MAX_ELEMS) {
        // Long loops with large coefficients need too much memory, and find no errors that smaller nests do
        // not find.
        routine.body.clear();
        spans.iter_mut().flatten().for_each(|span| *span = (0, 0));
    }
    for (at, spans) in spans.iter().enumerate() {
        routine.nodes.push(node(at, dtype, spans));
    }
    shift(&mut routine.body, &spans);
    routine
}

fn node(at: usize, dtype: DType, spans: &[(i64, i64)]) -> NodeDecl {
    let dims = spans.iter().map(|(lo, hi)| (hi - lo + 1) as usize).collect();
    // The last node's mode is for the optimizer to decide.
    let mode = match at {
        2 => ModeState::undecided(),
        _ => ModeState::decided(MemoryMode::OnDevice(Sharing::Unset), Reason::new("the test looks at it")),
    };
    NodeDecl { name: format!("n{at}"), dtype, dims, mode }
}

struct Writer {
    ranks: [usize; 3],
    next: u32,
    /// The enclosing loops, with their extents.
    open: Vec<(LoopId, i64)>,
}

impl Writer {
    fn nest(&mut self, c: &mut Choices<'_>) -> Block {
        if c.below(12) == 11 {
            return vec![Stmt::Zero { node: NodeRef(c.below(3) as u32) }];
        }
        let depth = [1, 2, 1, 3, 2, 0][c.below(6)];
        vec![self.level(c, depth, MAX_POINTS)]
    }

    fn level(&mut self, c: &mut Choices<'_>, depth: usize, points: i64) -> Stmt {
        if depth == 0 {
            return self.set(c);
        }
        let extents = [4, 2, 3, 8, 5, 9, 1, 17, 33, 40, 70, 131, 300];
        let fitting: Vec<i64> = extents.into_iter().filter(|&extent| extent <= points).collect();
        let extent = if fitting.is_empty() { 1 } else { *c.pick(&fitting) };
        let hi = match c.below(10) {
            9 => Bound::from(extent).clipped(Affine::var(SymbolId(0))),
            8 => self.open.last().map_or(extent.into(), |&(outer, _)| {
                Bound::from(extent).clipped(Affine::var(outer).plus_constant(1))
            }),
            _ => extent.into(),
        };
        let var = LoopId(self.next);
        self.next += 1;
        self.open.push((var, extent));
        let mut body = Block::new();
        if c.below(5) == 4 {
            body.push(self.set(c));
        }
        body.push(self.level(c, depth - 1, points / extent));
        if c.below(4) == 3 {
            body.push(self.set(c));
        }
        self.open.pop();
        Stmt::For { var, lo: 0, hi, kind: LoopKind::Serial, body }
    }

    fn set(&mut self, c: &mut Choices<'_>) -> Stmt {
        let node = NodeRef(c.below(3) as u32);
        let index = self.index(c, node);
        let depth = 1 + c.below(2);
        let value = self.value(c, depth, node, &index);
        Stmt::Set { node, index, value }
    }

    /// An index whose least and greatest value are not limited.
    fn index(&mut self, c: &mut Choices<'_>, node: NodeRef) -> Indices {
        let open = self.open.clone();
        (0..self.ranks[node.index()])
            .map(|dim| {
                let mut index = Affine::constant([0, 0, 1, -1, 2, -3, 8][c.below(7)]);
                // The last dimensions get the innermost loops, as in most programs.
                let own =
                    (open.len() + dim).checked_sub(self.ranks[node.index()]).and_then(|at| open.get(at));
                match (c.below(6), own, open.is_empty()) {
                    (_, _, true) => {}
                    (0..=2, Some(&(var, _)), _) => index.add_term(Var::Loop(var), 1),
                    (3, Some(&(var, _)), _) => index.add_term(Var::Loop(var), -1),
                    _ => {
                        for _ in 0..1 + c.below(2) {
                            let (var, _) = open[c.below(open.len())];
                            index.add_term(Var::Loop(var), *c.pick(&[1, 2, -1, 3, 4]));
                        }
                    }
                }
                if c.below(12) == 11 {
                    index.add_term(Var::Symbol(SymbolId(0)), 1);
                }
                index
            })
            .collect()
    }

    fn value(&mut self, c: &mut Choices<'_>, depth: usize, node: NodeRef, own: &Indices) -> Expr {
        match c.below(if depth == 0 { 3 } else { 8 }) {
            0 => Expr::Get { node, index: own.clone() },
            1 => {
                let node = NodeRef(c.below(3) as u32);
                let index = self.index(c, node);
                Expr::Get { node, index }
            }
            // Reads the written node at another index; dependences of this kind are the subject of this
            // generator.
            2 => Expr::Get { node, index: self.index(c, node) },
            at => {
                let op = [BinaryOp::Add, BinaryOp::Add, BinaryOp::Mul, BinaryOp::Max, BinaryOp::Sub][at - 3];
                Expr::binary(op, self.value(c, depth - 1, node, own), self.value(c, depth - 1, node, own))
            }
        }
    }
}

/// The least and greatest value of the indices of each dimension of each node.
fn spans(routine: &LoweredRoutine, ranks: &[usize; 3]) -> Vec<Vec<(i64, i64)>> {
    let mut spans: Vec<Vec<(i64, i64)>> = ranks.iter().map(|&rank| vec![(0, 0); rank]).collect();
    let mut extents = std::collections::BTreeMap::new();
    for stmt in lowered_ir::ir::walk::stmts(&routine.body) {
        let mut widen =
            |node: NodeRef, index: &Indices, extents: &std::collections::BTreeMap<LoopId, i64>| {
                for (index, span) in index.iter().zip(&mut spans[node.index()]) {
                    let bounds = index.bounds(|var| match var {
                        Var::Loop(id) => (0, extents[&id] - 1),
                        Var::Symbol(_) => (0, 5),
                    });
                    let (lo, hi) = bounds.expect("small numbers");
                    *span = (span.0.min(lo), span.1.max(hi));
                }
            };
        match stmt {
            Stmt::For { var, hi, .. } => _ = extents.insert(*var, hi.limit),
            Stmt::Set { node, index, value } => {
                widen(*node, index, &extents);
                for e in lowered_ir::ir::walk::parts(value) {
                    if let Expr::Get { node, index } = e {
                        widen(*node, index, &extents);
                    }
                }
            }
            _ => {}
        }
    }
    spans
}

/// Moves every index so that its least value is 0.
fn shift(block: &mut [Stmt], spans: &[Vec<(i64, i64)>]) {
    let moved = |node: NodeRef, index: &Indices| -> Indices {
        index.iter().zip(&spans[node.index()]).map(|(index, span)| index.plus_constant(-span.0)).collect()
    };
    for stmt in block.iter_mut() {
        match stmt {
            Stmt::For { body, .. } => shift(body, spans),
            Stmt::Set { node, index, value } => {
                *index = moved(*node, index);
                let taken = std::mem::replace(value, Expr::local(lowered_ir::ir::LocalId(0)));
                *value = lowered_ir::ir::walk::map_expr(taken, &mut |e| match e {
                    Expr::Get { node, index } => Expr::Get { node, index: moved(node, &index) },
                    other => other,
                });
            }
            _ => {}
        }
    }
}
