//! Cross-routine inlining: a routine recomputes virtual nodes of earlier routines.
//!
//! A virtual node has no memory, so a routine that reads a virtual node of another routine must compute it
//! itself. An [`OptimizeCtx`] remembers how: for each node that is inlined while a routine is optimized, it
//! keeps the computation, over handles of nodes rather than positions in one routine's table. A routine that
//! reads a virtual node before it sets it begins with a copy of that computation; the inputs of the
//! computation become nodes of that routine, and later passes treat them like all others.
//!
//! # Meaning of an inlined computation
//!
//! The order in which routines are optimized is assumed to be the order in which they run. Under that order a
//! use has the computed value: once a routine overwrites an input, the computation is dropped, and a later
//! use is an error that names the input. Changes of inputs outside of routines (the host sets them) are not
//! tracked: a use then has the value for the present contents of the inputs. The same holds where routines
//! run in another order.
//!
//! Computations that depend on data of one run are not inlined into other routines. Such data are the merge
//! buffer, local nodes, and static symbols that the other routine does not have by the same name and range.
//!
//! # Invariants
//! * The context keeps the inputs of its computations alive, but not the nodes that they compute.
//! * Optimizing changes nothing; only [`OptimizeCtx::commit`] does.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tnode::{MemoryMode, TensorNode, WeakNode};

use super::stored_computation::ComputationBody;
use crate::Lowered;
use crate::ir::{
    Affine, Block, Expr, Fresh, IdSet, LoweredRoutine, NodeDecl, NodeRef, Stmt, Symbol, SymbolId, Var, walk,
};
use crate::passes::access;
use crate::passes::effects::Effects;
use crate::passes::virtualize::{InlinedComputation, rename};
use crate::passes::{InlineRejection, KEEP_IN_MEMORY, ModeError};

/// The computations of virtual nodes of the routines optimized so far.
#[derive(Clone, Debug, Default)]
pub struct OptimizeCtx {
    known: BTreeMap<WeakNode, BoundComputation>,
}

/// The changes of a routine to the context in which it was optimized. They name nodes by their position in
/// the routine's table, so they hold for the routine over any nodes.
#[derive(Clone, Debug)]
pub struct Changes {
    pub(super) routine: Arc<str>,
    pub(super) overwritten: IdSet<NodeRef>,
    pub(super) defined: Vec<(NodeRef, KnownComputation)>,
}

/// A computation with the handles of the nodes that it reads.
#[derive(Clone, Debug)]
struct BoundComputation {
    computation: KnownComputation,
    inputs: BTreeMap<NodeRef, TensorNode>,
}

#[derive(Clone, Debug)]
pub(super) enum KnownComputation {
    Known(Arc<InlinableComputation>),
    /// A later routine has overwritten an input.
    Changed {
        input: String,
        routine: Arc<str>,
    },
}

/// The computation of one node, by itself.
#[derive(Debug)]
pub(super) struct InlinableComputation {
    /// The routine it comes from.
    pub(super) routine: Arc<str>,
    /// The table of nodes of that routine, which its computations share.
    pub(super) nodes: Arc<[NodeDecl]>,
    /// The statements that compute the node, starting with its `zero` statement.
    pub(super) body: ComputationBody,
    /// The node, as the body names it.
    pub(super) own: NodeRef,
    /// The nodes it reads.
    pub(super) inputs: Box<[NodeRef]>,
    /// The symbols it mentions.
    pub(super) symbols: BTreeMap<SymbolId, Symbol>,
    /// Whether the computation reads the merge buffer.
    pub(super) merges: bool,
}

impl OptimizeCtx {
    /// Applies the changes of a routine over these nodes, the nodes of its table in order. Call it once
    /// nothing can fail any more.
    pub fn commit(&mut self, changes: &Changes, nodes: &[TensorNode]) {
        self.known.retain(|node, _| node.upgrade().is_some());
        let handle = |node: &NodeRef| nodes.get(node.index()).cloned();
        let overwritten: BTreeSet<TensorNode> = changes.overwritten.iter().filter_map(handle).collect();
        for entry in self.known.values_mut() {
            if let Some(input) = entry.inputs.values().find(|node| overwritten.contains(node)) {
                let (input, routine) = (input.name(), changes.routine.clone());
                let computation = KnownComputation::Changed { input, routine };
                *entry = BoundComputation { computation, inputs: BTreeMap::new() };
            }
        }
        for (node, computation) in &changes.defined {
            let Some(key) = handle(node).map(|node| node.downgrade()) else { continue };
            let inputs = computation.inputs().filter_map(|input| Some((*input, handle(input)?))).collect();
            // `insert` alone would keep an equal key of a dropped node that had the same id.
            self.known.remove(&key);
            self.known.insert(key, BoundComputation { computation: computation.clone(), inputs });
        }
    }

    /// Whether the computation of a node is kept, or known to be lost.
    pub fn knows(&self, node: &TensorNode) -> bool {
        !self.is_empty() && self.find(node).is_some()
    }

    /// The number of nodes whose computation is kept.
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// Whether no computation is kept.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    fn find(&self, node: &TensorNode) -> Option<&BoundComputation> {
        let (key, entry) = self.known.get_key_value(&node.downgrade())?;
        key.upgrade().is_some().then_some(entry)
    }

    /// Prepends to the routine the computations of the virtual nodes that it reads without writing them, or
    /// before it writes them. Returns these nodes, each with the routine that its computation comes from.
    pub(super) fn import(&self, lowered: &mut Lowered) -> Result<Vec<(NodeRef, String)>, ModeError> {
        let virtual_nodes = lowered.routine.node_refs().filter(|(_, decl)| decl.mode.known_virtual());
        let virtual_nodes: Vec<NodeRef> = virtual_nodes.map(|(node, _)| node).collect();
        if self.is_empty() || virtual_nodes.is_empty() {
            return Ok(Vec::new());
        }
        let facts = access::analyze(&lowered.routine);
        let fresh = lowered.routine.fresh();
        let at = |(at, node): (usize, &TensorNode)| (node.clone(), NodeRef(at as u32));
        let entries = lowered.nodes.iter().enumerate().map(at).collect();
        let (body, done, imported) = (Block::new(), BTreeSet::new(), Vec::new());
        let mut import = Importer { ctx: self, lowered, entries, fresh, body, done, imported };
        for node in virtual_nodes {
            if facts[node].read_only() || facts[node].read_before_write {
                import.node(node)?;
            }
        }
        let Importer { mut body, imported, .. } = import;
        body.append(&mut lowered.routine.body);
        lowered.routine.body = body;
        Ok(imported)
    }
}

/// Copies computations into a routine.
struct Importer<'a> {
    ctx: &'a OptimizeCtx,
    lowered: &'a mut Lowered,
    /// The position of each node in the routine's table.
    entries: BTreeMap<TensorNode, NodeRef>,
    fresh: Fresh,
    body: Block,
    done: BTreeSet<NodeRef>,
    imported: Vec<(NodeRef, String)>,
}

/// A pending step of the import of a node.
enum ImportTask {
    /// Find the computation of the node and of the virtual nodes that it reads.
    Find(NodeRef),
    /// Append the computation to the body, with these nodes and symbols of the routine.
    Copy(Arc<InlinableComputation>, BTreeMap<NodeRef, NodeRef>, BTreeMap<SymbolId, SymbolId>),
}

impl Importer<'_> {
    /// Copies the computation of the node, and before it, recursively, the computations of the virtual nodes
    /// that it reads. An explicit stack replaces recursion, because chains may be long.
    fn node(&mut self, node: NodeRef) -> Result<(), ModeError> {
        let mut open = vec![ImportTask::Find(node)];
        while let Some(next) = open.pop() {
            match next {
                ImportTask::Find(node) if self.done.contains(&node) => {}
                ImportTask::Find(node) => self.find(node, &mut open)?,
                ImportTask::Copy(computation, nodes, symbols) => {
                    let mut body = match computation.body.statements() {
                        Some(body) => body.to_vec(),
                        None => return Err(self.unreadable(&computation, &nodes)),
                    };
                    rename(&mut body, &mut self.fresh);
                    renumber(&mut body, &nodes, &symbols);
                    self.body.append(&mut body);
                }
            }
        }
        Ok(())
    }

    /// The error for a computation whose stored text is of no routine.
    fn unreadable(
        &self,
        computation: &InlinableComputation,
        nodes: &BTreeMap<NodeRef, NodeRef>,
    ) -> ModeError {
        let node = nodes.get(&computation.own).copied().unwrap_or(computation.own);
        let name = self.lowered.routine.node(node).name.clone();
        let what = "a text that cannot be read".to_owned();
        let rejection = InlineRejection::BoundToRun { routine: computation.routine.to_string(), what };
        ModeError::NotVirtual { node, name, rejection, remedy: KEEP_IN_MEMORY }
    }

    /// Finds the computation of the node, if there is one, and pushes the steps that it takes onto `open`,
    /// the first step last.
    fn find(&mut self, node: NodeRef, open: &mut Vec<ImportTask>) -> Result<(), ModeError> {
        let rejected = |rejection, import: &Self| {
            let name = import.lowered.routine.node(node).name.clone();
            Err(ModeError::NotVirtual { node, name, rejection, remedy: KEEP_IN_MEMORY })
        };
        let Some(found) = self.ctx.find(&self.lowered.nodes[node.index()]) else { return Ok(()) };
        let computation = match &found.computation {
            KnownComputation::Changed { input, routine } => {
                let (input, routine) = (input.clone(), routine.to_string());
                return rejected(InlineRejection::InputChanged { input, routine }, self);
            }
            KnownComputation::Known(computation) => Arc::clone(computation),
        };
        self.done.insert(node);
        self.imported.push((node, computation.routine.to_string()));
        let symbols = match self.symbols(&computation) {
            Ok(symbols) => symbols,
            Err(rejection) => return rejected(rejection, self),
        };
        let mut nodes = BTreeMap::from([(computation.own, node)]);
        let mut before = Vec::new();
        for (&inner, handle) in &found.inputs {
            if handle.mode().mode() == Some(MemoryMode::Local) {
                let (input, routine) = (handle.name(), computation.routine.to_string());
                return rejected(InlineRejection::InputLocal { input, routine }, self);
            }
            let input = self.table_entry(handle, &computation.nodes[inner.index()]);
            before.extend(handle.mode().known_virtual().then_some(ImportTask::Find(input)));
            nodes.insert(inner, input);
        }
        open.push(ImportTask::Copy(computation, nodes, symbols));
        open.extend(before.into_iter().rev());
        Ok(())
    }

    /// The routine's own symbols in place of the computation's.
    fn symbols(
        &self,
        computation: &InlinableComputation,
    ) -> Result<BTreeMap<SymbolId, SymbolId>, InlineRejection> {
        let bound = |what| InlineRejection::BoundToRun { routine: computation.routine.to_string(), what };
        if computation.merges {
            return Err(bound("the merge buffer".to_owned()));
        }
        let own = &self.lowered.routine.symbols;
        let find = |(&id, symbol): (&SymbolId, &Symbol)| {
            let at = own.iter().position(|s| s == symbol);
            let at =
                at.ok_or_else(|| bound(format!("the symbol @{} in 0..{}", symbol.name, symbol.range)))?;
            Ok((id, SymbolId(at as u32)))
        };
        computation.symbols.iter().map(find).collect()
    }

    /// The position of a node in the routine's table, where it is entered if need be.
    fn table_entry(&mut self, handle: &TensorNode, decl: &NodeDecl) -> NodeRef {
        *self.entries.entry(handle.clone()).or_insert_with(|| {
            self.lowered.nodes.push(handle.clone());
            self.lowered.routine.nodes.push(NodeDecl { mode: handle.mode(), ..decl.clone() });
            NodeRef(self.lowered.nodes.len() as u32 - 1)
        })
    }
}

/// Replaces nodes and symbols in everything the statements mention.
fn renumber(block: &mut [Stmt], nodes: &BTreeMap<NodeRef, NodeRef>, symbols: &BTreeMap<SymbolId, SymbolId>) {
    renumber_nodes(block, nodes);
    walk::map_indices(block, &mut |index| {
        let mut new = Affine::constant(index.offset());
        for &(var, coefficient) in index.terms() {
            let var = match var {
                Var::Loop(_) => var,
                Var::Symbol(id) => Var::Symbol(symbols.get(&id).copied().unwrap_or(id)),
            };
            new.add_term(var, coefficient);
        }
        new
    });
}

fn renumber_nodes(block: &mut [Stmt], nodes: &BTreeMap<NodeRef, NodeRef>) {
    let node = |node: &mut NodeRef| *node = nodes.get(node).copied().unwrap_or(*node);
    for stmt in block.iter_mut() {
        match stmt {
            Stmt::For { hi, body, .. } => {
                hi.map_condition(|node| nodes.get(&node).copied().unwrap_or(node));
                renumber_nodes(body, nodes);
            }
            Stmt::Set { node: n, .. } | Stmt::SetDynamic { node: n, .. } | Stmt::Zero { node: n } => node(n),
            Stmt::SetLocal { .. } | Stmt::Declare { .. } | Stmt::Comment(_) | Stmt::Log { .. } => {}
        }
        walk::map_own_parts(stmt, &mut |mut part| {
            if let Expr::Get { node: n, .. }
            | Expr::GetGuarded { node: n, .. }
            | Expr::GetDynamic { node: n, .. }
            | Expr::GetMerge { node: n, .. } = &mut part
            {
                node(n);
            }
            part
        });
    }
}

impl Changes {
    /// The changes of a routine. `own` are the nodes that its own statements write, without imported
    /// computations.
    pub(super) fn new(
        routine: &LoweredRoutine,
        own: &IdSet<NodeRef>,
        computed: Vec<InlinedComputation>,
    ) -> Changes {
        let overwritten = own.clone();
        let exported: Vec<_> = computed.into_iter().filter(|computed| own.contains(&computed.node)).collect();
        let name: Arc<str> = routine.name.as_str().into();
        let nodes: Arc<[NodeDecl]> =
            if exported.is_empty() { [].into() } else { routine.nodes.as_slice().into() };
        let known = |computed: InlinedComputation| (computed.node, entry(&name, &nodes, routine, computed));
        let defined = exported.into_iter().map(known).collect();
        Changes { routine: name, overwritten, defined }
    }
}

impl KnownComputation {
    /// The nodes that the computation reads.
    fn inputs(&self) -> impl Iterator<Item = &NodeRef> {
        let known = match self {
            KnownComputation::Known(computation) => Some(computation.inputs.iter()),
            KnownComputation::Changed { .. } => None,
        };
        known.into_iter().flatten()
    }
}

fn entry(
    name: &Arc<str>,
    nodes: &Arc<[NodeDecl]>,
    routine: &LoweredRoutine,
    computed: InlinedComputation,
) -> KnownComputation {
    let InlinedComputation { node, body: pieces, overwritten } = computed;
    if let Some(input) = overwritten {
        let input = routine.node(input).name.clone();
        return KnownComputation::Changed { input, routine: Arc::clone(name) };
    }
    let effects = Effects::of(&pieces);
    let inputs = effects.reads.iter().copied().filter(|input| *input != node).collect();
    let mut symbols = BTreeMap::new();
    let mut mention = |id: SymbolId| drop(symbols.insert(id, routine.symbol(id).clone()));
    effects.vars.iter().for_each(|var| match var {
        Var::Symbol(id) => mention(*id),
        Var::Loop(_) => {}
    });
    let merges = walk::parts_in(&pieces).any(|part| matches!(part, Expr::GetMerge { .. }));
    let mut body = Vec::with_capacity(1 + pieces.len());
    body.push(Stmt::Zero { node });
    body.extend(pieces);
    KnownComputation::Known(Arc::new(InlinableComputation {
        routine: Arc::clone(name),
        nodes: Arc::clone(nodes),
        body: ComputationBody::Made(body),
        own: node,
        inputs,
        symbols,
        merges,
    }))
}
