//! Identifiers and types of a routine while a pass rewrites it.

use std::collections::BTreeMap;

use lowered_ir::ir::{
    Affine, Block, Expr, Fresh, IdMap, LocalId, LoopId, LoopKind, LoweredRoutine, NodeRef, Quotient, Space,
    Stmt, Symbol, SymbolId, Types, Var, walk,
};
use smallvec::smallvec;
use tnode::{DType, Dims};

use crate::analysis::rename;
use codegen_core::canonical::{self, Arrays, Contraction};
use codegen_core::dependence::VariableRanges;

/// Fresh identifiers, and the types and ranges of the known ones.
pub(crate) struct Names {
    fresh: Fresh,
    nodes: Vec<(DType, Dims)>,
    locals: IdMap<LocalId, (DType, Dims)>,
    /// The symbols of the routine, and the quotients that [`Names::quotient`] adds.
    pub(crate) symbols: Vec<Symbol>,
    /// Whether there may be more quotients.
    has_quotients: bool,
    /// The ranges of symbols and loops. [`Names::note`] adds the ranges of new loops.
    pub(crate) ranges: VariableRanges,
}

impl Names {
    pub(crate) fn of(routine: &LoweredRoutine) -> Names {
        Names {
            fresh: routine.fresh(),
            nodes: routine.nodes.iter().map(|node| (node.dtype, node.dims.clone())).collect(),
            locals: routine
                .locals()
                .into_iter()
                .map(|(local, decl)| (local, (decl.dtype, decl.dims)))
                .collect(),
            symbols: routine.symbols.clone(),
            has_quotients: true,
            ranges: VariableRanges::of(routine),
        }
    }

    /// The names of a kernel, whose symbols are its parameters and stay as they are.
    pub(crate) fn of_kernel(kernel: &LoweredRoutine) -> Names {
        Names { has_quotients: false, ..Names::of(kernel) }
    }

    /// Whether there may be quotients of these symbols. There are none of the step of a scan, which have a
    /// value within the scan only.
    pub(crate) fn may_divide(&self, dividend: &Affine) -> bool {
        let is_step = |var: Var| matches!(var, Var::Symbol(id) if self.symbols[id.index()].is_step);
        self.has_quotients && !dividend.terms().iter().any(|&(var, _)| is_step(var))
    }

    /// The symbol with the value of a division of symbols that [may be divided](Names::may_divide), at most
    /// `most`. The caller gives the routine the new list of symbols.
    pub(crate) fn quotient(&mut self, dividend: &Affine, divisor: i64, most: i64) -> SymbolId {
        let (range, quotient) = (most + 1, Some(Quotient { dividend: dividend.clone(), divisor }));
        let is_same = |symbol: &Symbol| symbol.quotient == quotient && symbol.range == range;
        if let Some(known) = self.symbols.iter().position(is_same) {
            return SymbolId(known as u32);
        }
        let id = SymbolId(self.symbols.len() as u32);
        let of = dividend.terms().iter().find_map(|&(var, _)| match var {
            Var::Symbol(symbol) => Some(self.symbols[symbol.index()].name.as_str()),
            Var::Loop(_) => None,
        });
        let names = (0..).map(|at| format!("{}_by_{divisor}_{at}", of.unwrap_or("constant")));
        let is_new = |name: &String| !self.symbols.iter().any(|symbol| symbol.name == *name);
        let name = names.into_iter().find(is_new).unwrap_or_default();
        self.symbols.push(Symbol { quotient, ..Symbol::parameter(name, range) });
        self.ranges.add_symbol(range);
        id
    }

    /// Forgets the symbols behind the first `known`, which nothing mentions.
    pub(crate) fn forget_symbols(&mut self, known: usize) {
        self.symbols.truncate(known);
        self.ranges.forget_symbols(known);
    }

    /// The least and the greatest value of an index, by the ranges of its variables.
    pub(crate) fn range(&self, index: &Affine) -> Option<(i64, i64)> {
        index.bounds(|var| self.ranges.get(var))
    }

    /// All nodes, followed by the given locals, which are treated like nodes.
    pub(crate) fn arrays(&self, locals: impl Iterator<Item = LocalId>) -> Arrays<'_> {
        Arrays::new(&self.nodes, locals.map(|local| self.locals[&local].clone()).collect(), &self.ranges)
    }

    /// Whether it is a node. Locals that are treated like nodes have numbers behind those of the nodes.
    pub(crate) fn is_node(&self, node: NodeRef) -> bool {
        node.index() < self.nodes.len()
    }

    /// The dimensions of a node.
    pub(crate) fn dims(&self, node: NodeRef) -> &Dims {
        &self.nodes[node.index()].1
    }

    /// The row-major position of an element in its node. Unlike the indices of axes, it does not depend on
    /// how the program divides the elements into axes.
    pub(crate) fn position(&self, node: NodeRef, index: &[Affine]) -> Affine {
        Affine::row_major(index, self.dims(node))
    }

    /// The indices without those of the last axes that have one element: the last of them is the contiguous
    /// one.
    pub(crate) fn without_unit_axes<'i>(&self, node: NodeRef, index: &'i [Affine]) -> &'i [Affine] {
        without_unit_axes(self.dims(node), index)
    }

    /// Recognizes a nest as a contraction. Locals declared outside of it are treated like nodes.
    pub(crate) fn contraction(&self, stmt: &Stmt) -> Option<Contraction> {
        let nodes = self.nodes.len() as u32;
        let (block, locals) = canonical::outer_locals_as_nodes(std::slice::from_ref(stmt), nodes);
        Contraction::of(&block[0], &self.arrays(locals.keys().copied()))
    }

    pub(crate) fn loop_id(&mut self) -> LoopId {
        self.fresh.loop_id()
    }

    /// Adds a local; returns it with its declaration.
    pub(crate) fn declare(&mut self, dtype: DType, dims: Dims, space: Space) -> (LocalId, Stmt) {
        let local = self.fresh.local_id();
        self.locals.insert(local, (dtype, dims.clone()));
        (local, Stmt::Declare { local, dtype, dims, space })
    }

    /// Reserves the number of a new node of this type and shape. The caller adds the node's declaration to
    /// the routine.
    pub(crate) fn node_of(&mut self, dtype: DType, dims: Dims) -> NodeRef {
        self.nodes.push((dtype, dims));
        NodeRef(self.nodes.len() as u32 - 1)
    }

    /// Records the loops and locals of a new block.
    pub(crate) fn note(&mut self, block: &[Stmt]) {
        self.ranges.add(block);
        walk::stmts(block).for_each(|stmt| {
            if let Stmt::Declare { local, dtype, dims, .. } = stmt {
                self.locals.insert(*local, (*dtype, dims.clone()));
            }
        });
    }

    /// A copy of the block with fresh loop variables and locals.
    pub(crate) fn refreshed(&mut self, block: &[Stmt]) -> Block {
        let mut renaming = FreshNames::default();
        walk::stmts(block).for_each(|stmt| match stmt {
            Stmt::For { var, .. } => {
                renaming.loops.insert(*var, self.fresh.loop_id());
            }
            Stmt::Declare { local, .. } => {
                renaming.locals.insert(*local, self.fresh.local_id());
            }
            _ => {}
        });
        let copy = rename::rename(block, &mut renaming);
        self.note(&copy);
        copy
    }

    /// Appends statements that load `e` for each `lane` into a register array, and returns the array.
    pub(crate) fn load(&mut self, e: &Expr, lane: LoopId, lanes: i64, out: &mut Block) -> LocalId {
        let (local, declare) = self.declare(e.dtype(self), smallvec![lanes as usize], Space::Register);
        let own = self.loop_id();
        let value = walk::map_expr_indices(e.clone(), &mut |index| index.substitute(lane, &Affine::var(own)));
        let set = Stmt::SetLocal { local, index: [Affine::var(own)].into(), value };
        out.push(declare);
        out.push(Stmt::looped(own, lanes, LoopKind::Vector, vec![set]));
        local
    }
}

impl Types for Names {
    fn node(&self, node: NodeRef) -> DType {
        self.nodes[node.index()].0
    }

    fn local(&self, local: LocalId) -> DType {
        self.locals[&local].0
    }
}

#[derive(Default)]
struct FreshNames {
    loops: BTreeMap<LoopId, LoopId>,
    locals: BTreeMap<LocalId, LocalId>,
}

impl rename::Renaming for FreshNames {
    fn loop_var(&mut self, var: LoopId) -> LoopId {
        self.loops.get(&var).copied().unwrap_or(var)
    }

    fn local(&mut self, local: LocalId) -> LocalId {
        self.locals.get(&local).copied().unwrap_or(local)
    }
}

/// The indices without those of the last axes that have one element. A node of one element keeps its first
/// index.
pub(crate) fn without_unit_axes<'i>(dims: &[usize], index: &'i [Affine]) -> &'i [Affine] {
    let last = dims.iter().rposition(|&size| size != 1).unwrap_or(0);
    index.get(..=last).unwrap_or(index)
}
