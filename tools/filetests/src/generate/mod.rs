//! Random verified routines, for property tests and fuzzing.
//!
//! A routine is derived from bytes ([`routine_from_bytes`]) or from a seed ([`routine_from_seed`]). It is a
//! sequence of typical loop nests (maps, reductions with and without initialization, scatters, chains through
//! intermediate nodes, nests that compute several nodes or use locals) with indices that are difficult for
//! optimizers: permuted, broadcast, strided, reversed, diagonal, summed, shifted by a symbol, guarded,
//! computed. Indices are in bounds by construction, so the verifier accepts every routine. The generator
//! produces every construct of the loop IR, every expression and statement, operation, element type, kind of
//! loop. Tests check both properties.

mod arrays;
mod expr;
pub mod families;
mod index;
mod leaf;
mod memory;
mod nests; // loops over nodes
mod program;
mod sideways;
mod types;

use std::collections::BTreeMap;

use lowered_ir::ir::{
    Affine, Block, Bound, Expr, Fresh, Indices, LoopId, LoopKind, LoweredRoutine, NodeDecl, NodeRef,
    Numerics, Stmt, Symbol, SymbolId, Var,
};
use lowered_ir::verify::verify;
use tnode::{DType, Dims, MemoryMode, ModeState, Reason, Sharing};

pub(crate) use memory::merged;
pub use memory::{alike, bindings_from_bytes, memory_from_bytes};
pub use program::{GeneratedProgram, Numbers, observed, program_from_bytes, program_from_seed};
pub use random_programs::{Choices, bytes_of_seed};
pub use types::TypeChoice;

/// The routine that the bytes describe.
pub fn routine_from_bytes(bytes: &[u8]) -> LoweredRoutine {
    routine_of_types(bytes, &TypeChoice::all())
}

/// The routine that the bytes describe, with these element types only.
pub fn routine_of_types(bytes: &[u8], types: &TypeChoice) -> LoweredRoutine {
    let mut choices = Choices::new(bytes);
    let mut maker = Maker::new(&mut choices, types);
    maker.statements();
    maker.routine
}

/// The routine of a seed, derived from at most `len` bytes.
pub fn routine_from_seed(seed: u64, len: usize) -> LoweredRoutine {
    routine_from_bytes(&bytes_of_seed(seed, len))
}

/// The statements with all loops sequential.
fn in_order(block: Block) -> Block {
    let looped = |stmt| match stmt {
        Stmt::For { var, lo, hi, kind, body } => {
            let kind = match kind {
                LoopKind::Parallel | LoopKind::Workgroup => LoopKind::Serial,
                // Registers are indexed by the variables of vector and unrolled loops.
                LoopKind::Vector => LoopKind::Unrolled,
                LoopKind::Serial | LoopKind::Unrolled | LoopKind::Scan => kind,
            };
            Stmt::For { var, lo, hi, kind, body: in_order(body) }
        }
        Stmt::Declare { local, dtype, dims, space } => {
            Stmt::Declare { local, dtype, dims, space: space.of_one_thread() }
        }
        other => other,
    };
    block.into_iter().map(looped).collect()
}

/// A variable in scope with its least and greatest value.
#[derive(Clone, Copy, Debug)]
struct Scoped {
    var: Var,
    lo: i64,
    hi: i64,
}

/// A routine under construction.
struct Maker<'c, 'b> {
    choices: &'c mut Choices<'b>,
    types: &'c TypeChoice,
    routine: LoweredRoutine,
    fresh: Fresh,
    scope: Vec<Scoped>,
    /// The loops that end earlier than at their extents.
    clips: BTreeMap<LoopId, Affine>,
    /// Valid reads of locals, with their types.
    locals: Vec<(Expr, DType)>,
    /// The node being written, which its own value rarely reads.
    target: Option<NodeRef>,
    /// The node of the merge buffer, which has no other use.
    merge: Option<NodeRef>,
}

impl<'c, 'b> Maker<'c, 'b> {
    fn new(choices: &'c mut Choices<'b>, types: &'c TypeChoice) -> Self {
        let numerics = if choices.chance(1, 4) { Numerics::Fast } else { Numerics::Strict };
        let (symbols, nodes, body) = (Vec::new(), Vec::new(), Block::new());
        let mut maker = Maker {
            choices,
            types,
            routine: LoweredRoutine { name: "random".into(), numerics, symbols, nodes, body },
            fresh: Fresh::default(),
            scope: Vec::new(),
            clips: BTreeMap::new(),
            locals: Vec::new(),
            target: None,
            merge: None,
        };
        for i in 0..maker.choices.below(3) {
            let range = 1 + maker.choices.below(4) as i64;
            maker.routine.symbols.push(Symbol::parameter(format!("s{i}"), range));
            maker.scope.push(Scoped { var: SymbolId(i as u32).into(), lo: 0, hi: range - 1 });
        }
        for _ in 0..2 + maker.choices.below(3) {
            maker.node(ModeState::undecided());
        }
        maker
    }

    fn decl(&self, node: NodeRef) -> &NodeDecl {
        self.routine.node(node)
    }

    fn dtype(&self, node: NodeRef) -> DType {
        self.decl(node).dtype
    }

    /// The nodes that statements read and write.
    fn memory(&self) -> Vec<NodeRef> {
        let refs = self.routine.node_refs().map(|(node, _)| node);
        refs.filter(|&node| Some(node) != self.merge).collect()
    }

    fn any_memory(&mut self) -> NodeRef {
        let all = self.memory();
        *self.choices.pick(&all)
    }

    fn node(&mut self, mode: ModeState) -> NodeRef {
        let dtype = *self.choices.pick(&self.types.all);
        let dims: Dims = (0..self.choices.below(4)).map(|_| 1 + self.choices.below(5)).collect();
        self.declare(dtype, dims, mode)
    }

    fn declare(&mut self, dtype: DType, dims: Dims, mode: ModeState) -> NodeRef {
        let node = NodeRef(self.routine.nodes.len() as u32);
        self.routine.nodes.push(NodeDecl { name: format!("n{}", node.index()), dtype, dims, mode });
        node
    }

    fn statements(&mut self) {
        for _ in 0..1 + self.choices.below(8) {
            if self.choices.is_done() {
                break;
            }
            let node = self.target();
            self.target = Some(node);
            let block = match self.choices.below(12) {
                0..=2 => self.map(node),
                3 | 4 => self.reduction(node),
                5 => self.partial(node),
                6 | 7 => self.fused(node),
                8 => self.tile(),
                9 => self.scatter(node),
                10 => self.remark(),
                _ => vec![Stmt::Zero { node }],
            };
            self.append(block);
        }
    }

    /// Appends statements. If one of their loops carries a dependence, all their loops become sequential.
    fn append(&mut self, block: Block) {
        let before = self.routine.body.len();
        self.routine.body.extend(block);
        if verify(&self.routine).is_err() {
            let block = self.routine.body.split_off(before);
            self.routine.body.extend(in_order(block));
        }
    }

    /// A node to write: mostly a new one, sometimes an existing one.
    fn target(&mut self) -> NodeRef {
        if self.choices.chance(1, 4) {
            return self.any_memory();
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

    /// Lets the innermost open loop end at a value that depends on a symbol or on another open loop, if there
    /// is one.
    fn clip(&mut self, var: LoopId) {
        let outer = self.scope.len().saturating_sub(1);
        if outer == 0 {
            return;
        }
        let by = self.scope[self.choices.below(outer)].var;
        let offset = self.choices.below(4) as i64;
        let clip = match self.choices.below(4) {
            0 => Affine::term(by, -1).plus_constant(offset + 1),
            1 => Affine::term(by, 2).plus_constant(offset - 1),
            _ => Affine::var(by).plus_constant(offset - 1),
        };
        self.clips.insert(var, clip);
    }

    /// Closes loops, the last of `loops` innermost; the outermost may become parallel, the innermost a vector
    /// loop.
    fn close(&mut self, loops: &[(LoopId, i64)], mut body: Block) -> Block {
        for (depth, &(var, extent)) in loops.iter().enumerate().rev() {
            let kind = match self.choices.below(8) {
                3 if depth == 0 => LoopKind::Scan,
                4 if depth == 0 => LoopKind::Parallel,
                7 if extent >= 1 => LoopKind::Workgroup,
                5 => LoopKind::Unrolled,
                6 if depth + 1 == loops.len() => self.innermost(extent, &body),
                _ => LoopKind::Serial,
            };
            let clip = self.clips.get(&var).cloned();
            let kind = if clip.is_some() && !matches!(kind, LoopKind::Scan | LoopKind::Parallel) {
                LoopKind::Serial
            } else {
                kind
            };
            let hi = clip.into_iter().fold(Bound::from(extent), Bound::clipped);
            body = vec![Stmt::For { var, lo: 0, hi, kind, body }];
            self.scope.pop();
        }
        body
    }

    fn innermost(&self, extent: i64, body: &Block) -> LoopKind {
        let has_loops = body.iter().any(|stmt| matches!(stmt, Stmt::For { .. }));
        if has_loops || extent < 1 { LoopKind::Serial } else { LoopKind::Vector }
    }

    /// Loops over the dimensions of the node, mostly all of them, in some order, and the index of an element.
    fn loops_over(&mut self, node: NodeRef) -> (Vec<(LoopId, i64)>, Indices) {
        let dims = self.decl(node).dims.clone();
        let mut order: Vec<usize> = (0..dims.len()).collect();
        if self.choices.chance(1, 4) {
            order.reverse();
        }
        let mut index: Indices = dims.iter().map(|_| Affine::constant(0)).collect();
        let mut loops = Vec::new();
        for dim in order {
            // Sometimes only the first elements.
            let less = i64::from(dims[dim] > 1 && self.choices.chance(1, 12));
            let extent = dims[dim] as i64 - less;
            let var = self.enter(extent);
            if self.choices.chance(1, 12) {
                self.clip(var);
            }
            index[dim] = Affine::var(var);
            loops.push((var, extent));
        }
        (loops, index)
    }
}
