//! Random verified routines, for property tests and fuzzing.
//!
//! A routine is drawn from bytes ([`routine_from_bytes`]) or from a seed ([`routine_from_seed`]). It is a sequence of
//! nests as programs have them (maps, reductions with and without initialisation, scatters, chains through intermediate
//! nodes, nests that compute several nodes or use locals) with the indices that make optimisers stumble: permuted,
//! broadcast, strided, reversed, diagonal, summed, shifted by a symbol, guarded. Everything drawn is kept within bounds as it is
//! drawn, so the verifier accepts every routine; a test holds that.

mod choices;
mod expr;
mod index;
mod memory;
mod program;

use lowered_ir::ir::{
    Affine, BinaryOp, Block, Bound, Expr, Fresh, Indices, LocalId, LoopId, LoopKind, NodeDecl, NodeRef,
    Numerics, Routine, Stmt, Symbol, SymbolId, Var,
};
use tnode::{DType, Dims, MemoryMode, ModeState, Reason, Scalar, Sharing};

pub use choices::{Choices, bytes_of_seed};
pub use memory::{alike, bindings_from_bytes, memory_from_bytes};
pub use program::{Program, program_from_bytes, program_from_seed};

/// The element types of nodes.
const DTYPES: [DType; 8] =
    [DType::F32, DType::F32, DType::I32, DType::F64, DType::U8, DType::F16, DType::Bf16, DType::Bool];

/// The routine that the bytes describe, of class [`Numerics::Strict`].
pub fn routine_from_bytes(bytes: &[u8]) -> Routine {
    let mut choices = Choices::new(bytes);
    let mut maker = Maker::new(&mut choices);
    maker.statements();
    let parallel = maker.routine();
    match lowered_ir::verify::verify(&parallel) {
        Ok(()) => parallel,
        // Some parallel loop turned out to carry a dependence.
        Err(_) => Routine { body: serial(parallel.body), ..parallel },
    }
}

/// The routine of a seed, drawn from at most `len` bytes.
pub fn routine_from_seed(seed: u64, len: usize) -> Routine {
    routine_from_bytes(&bytes_of_seed(seed, len))
}

fn serial(block: Block) -> Block {
    let looped = |stmt| match stmt {
        Stmt::For { var, lo, hi, body, .. } => {
            Stmt::For { var, lo, hi, kind: LoopKind::Serial, body: serial(body) }
        }
        other => other,
    };
    block.into_iter().map(looped).collect()
}

/// A variable in scope and the least and greatest value it takes.
#[derive(Clone, Copy, Debug)]
struct Scoped {
    var: Var,
    lo: i64,
    hi: i64,
}

/// A routine in the making.
struct Maker<'c, 'b> {
    choices: &'c mut Choices<'b>,
    symbols: Vec<Symbol>,
    nodes: Vec<NodeDecl>,
    body: Block,
    fresh: Fresh,
    scope: Vec<Scoped>,
    /// Scalar locals in scope, with their types.
    locals: Vec<(LocalId, DType)>,
    /// The node being written, which its own value seldom reads.
    target: Option<NodeRef>,
}

impl<'c, 'b> Maker<'c, 'b> {
    fn new(choices: &'c mut Choices<'b>) -> Self {
        let mut maker = Maker {
            choices,
            symbols: Vec::new(),
            nodes: Vec::new(),
            body: Block::new(),
            fresh: Fresh::default(),
            scope: Vec::new(),
            locals: Vec::new(),
            target: None,
        };
        for i in 0..maker.choices.below(3) {
            let range = 1 + maker.choices.below(4) as i64;
            maker.symbols.push(Symbol { name: format!("s{i}"), range });
            maker.scope.push(Scoped { var: SymbolId(i as u32).into(), lo: 0, hi: range - 1 });
        }
        for _ in 0..2 + maker.choices.below(3) {
            maker.node(ModeState::undecided());
        }
        maker
    }

    fn routine(self) -> Routine {
        Routine {
            name: "random".into(),
            numerics: Numerics::Strict,
            symbols: self.symbols,
            nodes: self.nodes,
            body: self.body,
        }
    }

    fn node(&mut self, mode: ModeState) -> NodeRef {
        let node = NodeRef(self.nodes.len() as u32);
        let dtype = *self.choices.pick(&DTYPES);
        let dims: Dims = (0..self.choices.below(4)).map(|_| 1 + self.choices.below(5)).collect();
        self.nodes.push(NodeDecl { name: format!("n{}", node.index()), dtype, dims, mode });
        node
    }

    fn statements(&mut self) {
        for _ in 0..1 + self.choices.below(8) {
            if self.choices.is_done() {
                break;
            }
            let node = self.target();
            self.target = Some(node);
            match self.choices.below(8) {
                0..=2 => self.map(node),
                3 | 4 => self.reduction(node),
                5 => self.scatter(node),
                6 => self.fused(node),
                _ => self.body.push(Stmt::Zero { node }),
            }
        }
    }

    /// A node to write: mostly a new one, else any.
    fn target(&mut self) -> NodeRef {
        if self.choices.chance(1, 4) {
            return NodeRef(self.choices.below(self.nodes.len()) as u32);
        }
        let mode = match self.choices.below(8) {
            6 => Some(MemoryMode::OnDevice(Sharing::Unset)),
            7 => Some(MemoryMode::Virtual),
            _ => None,
        };
        let state =
            mode.map_or_else(ModeState::undecided, |m| ModeState::decided(m, Reason::new("it was drawn")));
        self.node(state)
    }

    /// Opens a loop over `0..extent`.
    fn enter(&mut self, extent: i64) -> LoopId {
        let var = self.fresh.loop_id();
        self.scope.push(Scoped { var: var.into(), lo: 0, hi: extent - 1 });
        var
    }

    /// Closes loops, the last of `loops` innermost; the outermost may become parallel.
    fn close(&mut self, loops: &[(LoopId, i64)], mut body: Block) -> Block {
        for (depth, &(var, extent)) in loops.iter().enumerate().rev() {
            let kind = match self.choices.below(6) {
                4 if depth == 0 => LoopKind::Parallel,
                5 if extent > 0 => LoopKind::Unrolled,
                _ => LoopKind::Serial,
            };
            body = vec![Stmt::looped(var, extent, kind, body)];
            self.scope.pop();
        }
        body
    }

    /// Loops over the dimensions of the node, mostly all of them, in some order, and the index of an element.
    fn loops_over(&mut self, node: NodeRef) -> (Vec<(LoopId, i64)>, Indices) {
        let dims = self.nodes[node.index()].dims.clone();
        let mut order: Vec<usize> = (0..dims.len()).collect();
        if self.choices.chance(1, 4) {
            order.reverse();
        }
        let mut index: Indices = dims.iter().map(|_| Affine::constant(0)).collect();
        let mut loops = Vec::new();
        for dim in order {
            // Now and then only the first elements.
            let less = i64::from(dims[dim] > 1 && self.choices.chance(1, 12));
            let extent = dims[dim] as i64 - less;
            let var = self.enter(extent);
            index[dim] = Affine::var(var);
            loops.push((var, extent));
        }
        (loops, index)
    }

    /// `node[i, j] := e` everywhere.
    fn map(&mut self, node: NodeRef) {
        let (loops, index) = self.loops_over(node);
        let dtype = self.nodes[node.index()].dtype;
        let value = self.expr(dtype, 3);
        let nest = self.close(&loops, vec![Stmt::Set { node, index, value }]);
        self.body.extend(nest);
    }

    /// `node[i] := node[i] op e` with loops of its own, after an initialisation or none.
    fn reduction(&mut self, node: NodeRef) {
        match self.choices.below(4) {
            0 | 1 => self.body.push(Stmt::Zero { node }),
            2 => self.initialise(node),
            _ => {}
        }
        let (mut loops, index) = self.loops_over(node);
        for _ in 0..1 + self.choices.below(2) {
            let extent = 1 + self.choices.below(4) as i64;
            loops.push((self.enter(extent), extent));
        }
        let dtype = self.nodes[node.index()].dtype;
        let element = self.expr(dtype, 2);
        let own = Expr::Get { node, index: index.clone() };
        let value = match *self.choices.pick(&[BinaryOp::Add, BinaryOp::Mul, BinaryOp::Max, BinaryOp::Min]) {
            op @ (BinaryOp::Max | BinaryOp::Min) => Expr::binary(op, element, own),
            op => Expr::binary(op, own, element),
        };
        let nest = self.close(&loops, vec![Stmt::Set { node, index, value }]);
        self.body.extend(nest);
    }

    fn initialise(&mut self, node: NodeRef) {
        let (loops, index) = self.loops_over(node);
        let value = self.constant(self.nodes[node.index()].dtype);
        let nest = self.close(&loops, vec![Stmt::Set { node, index, value }]);
        self.body.extend(nest);
    }

    /// Stores at an index that need not reach every element, within a loop that a symbol may cut short.
    fn scatter(&mut self, node: NodeRef) {
        let extent = 1 + self.choices.below(4) as i64;
        let cut = self.choices.chance(1, 3) && !self.symbols.is_empty();
        let symbol = cut.then(|| SymbolId(self.choices.below(self.symbols.len()) as u32));
        let var = self.enter(extent);
        let index = self.index(node);
        let dtype = self.nodes[node.index()].dtype;
        let value = self.expr(dtype, 2);
        self.scope.pop();
        let lo = i64::from(self.choices.chance(1, 8));
        let body = vec![Stmt::Set { node, index, value }];
        self.body.push(Stmt::For {
            var,
            lo,
            hi: Bound { limit: extent, symbol },
            kind: LoopKind::Serial,
            body,
        });
    }

    /// A nest of several statements: stores to this node and others, accumulations, a local, repeated values.
    fn fused(&mut self, node: NodeRef) {
        let local = self.fresh.local_id();
        let ldtype = *self.choices.pick(&DTYPES);
        let declare = Stmt::scalar(local, ldtype);
        let carried = self.choices.chance(1, 4);
        if carried {
            self.body.push(declare.clone());
        }
        let (loops, index) = self.loops_over(node);
        let mut body = if carried { Block::new() } else { vec![declare] };
        let first = self.accumulate(Expr::local(local), ldtype, |value| Stmt::set_scalar(local, value));
        body.extend(first);
        self.locals.push((local, ldtype));
        let mut recent = Vec::new();
        for _ in 0..1 + self.choices.below(4) {
            let stmts = self.fused_part(node, &index, &mut recent);
            body.extend(stmts);
        }
        self.locals.pop();
        let nest = self.close(&loops, body);
        self.body.extend(nest);
    }

    /// One statement of a fused nest; values in `recent` may be repeated.
    fn fused_part(&mut self, node: NodeRef, index: &Indices, recent: &mut Vec<(DType, Expr)>) -> Block {
        let dtype = self.nodes[node.index()].dtype;
        match self.choices.below(6) {
            0 | 1 => {
                let value = self.repeated(dtype, recent);
                vec![Stmt::Set { node, index: index.clone(), value }]
            }
            2 => {
                let (own, index) = (Expr::Get { node, index: index.clone() }, index.clone());
                self.accumulate(own, dtype, |value| Stmt::Set { node, index, value })
            }
            3 => {
                let other = self.node(ModeState::undecided());
                self.nodes[other.index()].dims = self.nodes[node.index()].dims.clone();
                let value = self.repeated(self.nodes[other.index()].dtype, recent);
                vec![Stmt::Set { node: other, index: index.clone(), value }]
            }
            _ => {
                let other = NodeRef(self.choices.below(self.nodes.len()) as u32);
                let index = self.index(other);
                let value = self.repeated(self.nodes[other.index()].dtype, recent);
                vec![Stmt::Set { node: other, index, value }]
            }
        }
    }

    /// `own := own op e` in a small loop of its own.
    fn accumulate(&mut self, own: Expr, dtype: DType, store: impl FnOnce(Expr) -> Stmt) -> Block {
        let extent = 1 + self.choices.below(3) as i64;
        let var = self.enter(extent);
        let element = self.expr(dtype, 2);
        let value = match *self.choices.pick(&[BinaryOp::Add, BinaryOp::Mul, BinaryOp::Max, BinaryOp::Min]) {
            op @ (BinaryOp::Max | BinaryOp::Min) => Expr::binary(op, element, own),
            op => Expr::binary(op, own, element),
        };
        self.scope.pop();
        vec![Stmt::serial(var, extent, vec![store(value)])]
    }

    /// A new value, or one drawn before for the same place.
    fn repeated(&mut self, dtype: DType, recent: &mut Vec<(DType, Expr)>) -> Expr {
        let same: Vec<Expr> = recent.iter().filter(|(d, _)| *d == dtype).map(|(_, e)| e.clone()).collect();
        if !same.is_empty() && self.choices.chance(1, 2) {
            return self.choices.pick(&same).clone();
        }
        let value = self.expr(dtype, 2);
        recent.push((dtype, value.clone()));
        value
    }

    fn constant(&mut self, dtype: DType) -> Expr {
        let special = [0.0, 1.0, -1.0, 2.0, 0.5, 3.0, -0.0, 100.0, f64::INFINITY, f64::NAN, -7.25];
        Expr::Const(Scalar::from_f64(dtype, *self.choices.pick(&special)))
    }
}
