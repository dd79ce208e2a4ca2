//! Memory modes: which nodes must have memory, which may do without, and why.
//!
//! [`decide_modes`] runs before virtualization and narrows the modes of the routine's own copies; a node
//! whose mode it leaves open is a candidate for inlining. [`settle_modes`] runs afterwards, when the inlined
//! candidates are known, and leaves open no mode of a node that this routine computes. Every narrowing
//! carries its reason in words, so `explain` on the node lists all decisions.
//!
//! The policy, first match wins:
//! 1. a node that holds one constant everywhere is virtual;
//! 2. a node that is read and never set, or read before it is set, is an input: materialized;
//! 3. a node that is set and not read afterwards is an output: materialized, unless the user said otherwise;
//! 4. a node computed by a reduction is never virtual, unless `inline_complex_computations`;
//! 5. with `store_rounded`, a computed node of 16-bit floats is never virtual if products read it, or if it
//!    is all that reads a reduction, which then need not be stored in the wider type;
//! 6. a node whose elements are read more often than `max_visits` and are not cheap is never virtual, unless
//!    it is rematerialized: it has at least `rematerialized_bytes`, several times as many as all that it is
//!    computed from, and is read from memory a few times as a whole, which takes as long as computing it;
//! 7. any other node may be virtual; if it cannot be, it is as local as the settings allow.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use tnode::{DType, ForceCtx, MemoryMode, ModeConflict, Reason};

use crate::ir::{LoweredRoutine, NodeDecl, NodeRef, Numerics};

use super::access::{Facts, NodeFacts};
use super::settings::OptimizeSettings;
use super::stores::{ComputationCost, ElementComputation, NodeStores};
use super::virtualize::InlineRejection;

/// How many times as large as all that it is computed from a node must be to be rematerialized.
const LARGER_THAN_SOURCES: usize = 8;

/// The most work at all uses together, for each element of a node that is rematerialized.
const MAX_REMATERIALIZED_COST: u64 = 1 << 10;

/// How often elements are read at least that a product reads.
const READS_OF_PRODUCTS: u64 = 8;

/// A memory mode that the routine contradicts.
#[derive(Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum ModeError {
    /// The node must be inlined by an earlier decision, and cannot be.
    #[error("node {node} \"{name}\" is virtual, but cannot be because {rejection}; {remedy}")]
    NotVirtual { node: NodeRef, name: String, rejection: InlineRejection, remedy: &'static str },
    /// The routine's accesses to the node require a mode that an earlier decision about the node excludes.
    #[error("node {node} \"{name}\" {conflict}{}", conflict_remedy(conflict))]
    Conflict { node: NodeRef, name: String, conflict: Box<ModeConflict> },
    /// A node that lives for one run of this routine is read, but this routine never sets the elements that
    /// it reads.
    #[error(
        "node {node} \"{name}\" is local, but read before this routine has set it; specify `MemoryMode::Materialized` for it"
    )]
    LocalInput { node: NodeRef, name: String },
}

impl ModeError {
    /// The node whose mode the error is about.
    pub fn node(&self) -> NodeRef {
        match self {
            ModeError::NotVirtual { node, .. }
            | ModeError::Conflict { node, .. }
            | ModeError::LocalInput { node, .. } => *node,
        }
    }
}

/// A node that may be inlined.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The node.
    pub node: NodeRef,
    /// Why to compute its elements at each use, which completes "it is inlined at every use".
    pub why: Cow<'static, str>,
}

/// The nodes of candidates.
pub(crate) fn nodes_of(candidates: &[Candidate]) -> Vec<NodeRef> {
    candidates.iter().map(|candidate| candidate.node).collect()
}

/// Narrows the modes of the nodes that must have memory. Returns the nodes that may be inlined, in order.
///
/// # Errors
/// A mode decided earlier contradicts the accesses of the routine to the node.
pub fn decide_modes(
    routine: &mut LoweredRoutine,
    facts: &Facts,
    settings: &OptimizeSettings,
) -> Result<Vec<Candidate>, ModeError> {
    let order = in_order_of_setters(routine, facts);
    let is_fast = routine.numerics == Numerics::Fast;
    let LoweredRoutine { nodes, body, .. } = routine;
    let visits = visits(&order, nodes, facts);
    let stores = NodeStores::of(body, nodes.len());
    let mut policy = Policy { stores, facts, settings, is_fast, candidates: BTreeSet::new(), visits };
    let mut candidates = Vec::new();
    for node in order {
        let known = &facts[node];
        if !known.is_read() && !known.is_written() && !known.merged {
            continue;
        }
        match policy.verdict(node, nodes) {
            Verdict::Candidate(why) => {
                policy.candidates.insert(node);
                candidates.push(Candidate { node, why });
            }
            Verdict::Narrow(mode, why) => {
                check_virtual(nodes, node, known)?;
                refine(nodes, node, mode, why)?;
            }
            Verdict::Keep => check_virtual(nodes, node, known)?,
        }
    }
    Ok(candidates)
}

/// All nodes, in the order of their first setter. A node follows the nodes that its setter may read.
fn in_order_of_setters(routine: &LoweredRoutine, facts: &Facts) -> Vec<NodeRef> {
    let mut nodes: Vec<NodeRef> = routine.node_refs().map(|(node, _)| node).collect();
    nodes.sort_by_key(|&node| facts[node].writes.first().map(|w| w.position));
    nodes
}

/// Settles the modes of all candidates: inlined candidates are virtual, rejected ones as local as their size
/// allows.
///
/// # Errors
/// A node that must be virtual was rejected.
pub fn settle_modes(
    routine: &mut LoweredRoutine,
    facts: &Facts,
    candidates: &[Candidate],
    rejected: &[(NodeRef, InlineRejection)],
    settings: &OptimizeSettings,
) -> Result<(), ModeError> {
    let rejected: BTreeMap<NodeRef, &InlineRejection> =
        rejected.iter().map(|(node, why)| (*node, why)).collect();
    let nodes = &mut routine.nodes;
    let forced = |decl: &NodeDecl, reason: Reason| ForceCtx {
        elems: decl.dims.iter().product(),
        dtype: decl.dtype,
        stack_threshold_bytes: settings.stack_threshold_bytes,
        reason,
    };
    for &Candidate { node, ref why } in candidates {
        match rejected.get(&node) {
            None => {
                let why = Reason::new(format!("it is inlined at every use{why}"));
                let decl = &mut nodes[node.index()];
                let ctx = forced(decl, why.clone());
                if !decl.mode.is_virtual_force(&ctx) {
                    refine(nodes, node, MemoryMode::Virtual, why)?;
                }
            }
            Some(&rejection) if nodes[node.index()].mode.known_virtual() => {
                return Err(not_virtual(nodes, node, rejection.clone()));
            }
            Some(rejection) => {
                let why = Reason::new(format!("it cannot be inlined: {rejection}"));
                refine(nodes, node, MemoryMode::NeverVirtual, why)?;
            }
        }
    }
    for (i, decl) in nodes.iter_mut().enumerate() {
        let computed = facts[NodeRef(i as u32)].is_written();
        if computed && matches!(decl.mode.mode(), Some(MemoryMode::NeverVirtual | MemoryMode::DeviceOnly)) {
            let ctx = forced(decl, Reason::new("no other routine needs it"));
            // The query settles whether the node outlives a run; for a decided mode it returns the decision.
            let _ = decl.mode.is_materialized_force(&ctx);
        }
    }
    Ok(())
}

/// The decision of the policy for a node.
enum Verdict {
    /// It may be inlined, for this reason.
    Candidate(Cow<'static, str>),
    /// Its mode is narrowed.
    Narrow(MemoryMode, Reason),
    /// Its mode does not change.
    Keep,
}

/// The facts and settings from which the policy decides.
struct Policy<'a> {
    stores: NodeStores<'a>,
    facts: &'a Facts,
    settings: &'a OptimizeSettings,
    /// The class of the routine lets targets contract products and sums to fma.
    is_fast: bool,
    /// The nodes decided so far that may be inlined.
    candidates: BTreeSet<NodeRef>,
    /// The maximum number of reads of an element of each node.
    visits: Vec<u64>,
}

impl Policy<'_> {
    fn verdict(&self, node: NodeRef, nodes: &[NodeDecl]) -> Verdict {
        let known = &self.facts[node];
        let mode = &nodes[node.index()].mode;
        let may_be_virtual = mode.mode().is_none_or(|m| m.outcomes().contains(tnode::Outcomes::VIRTUAL));
        let input = !known.is_written() || known.read_before_write;
        if mode.known_virtual() && !input && !known.merged {
            return Verdict::Candidate("".into());
        }
        if let Some(why) = needs_memory(known) {
            return Verdict::Narrow(MemoryMode::Materialized, why);
        }
        if is_output(known) {
            return output(mode);
        }
        if !may_be_virtual {
            return Verdict::Keep;
        }
        if self.settings.inline_scalar_constexprs && known.scalar_constexpr {
            return Verdict::Candidate(", since it holds one constant".into());
        }
        if !self.settings.enable_device_only && mode.mode().is_none() {
            let why = Reason::new("nodes are kept unless asked otherwise");
            return Verdict::Narrow(MemoryMode::Materialized, why);
        }
        self.by_cost(node, nodes)
    }

    /// Whether the elements should be computed once or at each use.
    fn by_cost(&self, node: NodeRef, nodes: &[NodeDecl]) -> Verdict {
        let stored = |why: Reason| Verdict::Narrow(MemoryMode::NeverVirtual, why);
        let computation = self.stores.computation(node, &|node| self.candidates.contains(&node));
        if computation == ComputationCost::Reduction && !self.settings.inline_complex_computations {
            return stored(Reason::new("it is computed by a reduction"));
        }
        if self.settings.store_rounded && self.rounds_for_reductions(node, nodes) {
            return stored(Reason::new("reductions read or make the values that it rounds to 16 bits"));
        }
        let simple = computation == ComputationCost::Simple && self.settings.inline_simple_computations;
        let most = self.settings.max_visits;
        match self.visits[node.index()] {
            0 | 1 if most > 0 => Verdict::Candidate(", since no element is read twice".into()),
            _ if self.may_differ(node) => {
                stored(Reason::new("it is compared for equality, and uses might round it differently"))
            }
            visits if visits <= most => Verdict::Candidate(
                format!(", since each element is read up to {visits} times, at most max_visits = {most}")
                    .into(),
            ),
            _ if simple => Verdict::Candidate(", since an element costs no more than a read".into()),
            visits if self.is_rematerialized(node, visits, nodes) => {
                Verdict::Candidate(", since it is much larger than all that it is computed from".into())
            }
            visits => stored(Reason::new(format!(
                "each element is read up to {visits} times, more than max_visits = {most}"
            ))),
        }
    }

    /// Whether a node computes 16-bit floats, and a use reads elements several times, as products do; or it
    /// rounds what a reduction makes and only this node reads. Copies of 16-bit floats do not count.
    fn rounds_for_reductions(&self, node: NodeRef, nodes: &[NodeDecl]) -> bool {
        let dtype = |node: NodeRef| nodes[node.index()].dtype;
        let is_wide = |&source: &NodeRef| dtype(source).is_float() && dtype(source).size_bytes() > 2;
        if !is_half(dtype(node)) {
            return false;
        }
        let sources = self.element(node).sources;
        let is_sum = |&source: &NodeRef| {
            self.stores.computation(source, &|_| false) == ComputationCost::Reduction
                && self.facts[source].uses().count() == 1
        };
        !self.stores.is_copy(node) && self.is_read_by_products(node, nodes)
            || sources.iter().filter(|source| is_wide(source)).any(is_sum)
    }

    /// Whether a use reads elements as often as a product does, or a node that may be inlined and is read so.
    fn is_read_by_products(&self, node: NodeRef, nodes: &[NodeDecl]) -> bool {
        let (mut seen, mut open) = (BTreeSet::from([node]), vec![node]);
        while let Some(node) = open.pop() {
            for read in self.facts[node].uses() {
                if read.visits >= READS_OF_PRODUCTS {
                    return true;
                }
                // A copy in 16 bits is stored itself, where products read it.
                let is_open = |&into: &NodeRef| {
                    !is_half(nodes[into.index()].dtype)
                        && self.stores.computation(into, &|_| false) == ComputationCost::Simple
                };
                let through = read.into.filter(is_open);
                open.extend(through.filter(|&into| seen.insert(into)));
            }
        }
        false
    }

    /// The work of an element, with all candidates inlined.
    fn element(&self, node: NodeRef) -> ElementComputation {
        self.stores.element(node, &|node| self.candidates.contains(&node))
    }

    /// Whether an element may have other bits at one use than at another: a product may be contracted with a
    /// sum at one use, while another use computes the product outside of a loop.
    fn may_differ(&self, node: NodeRef) -> bool {
        self.is_fast && self.stores.is_compared(node) && self.element(node).may_contract
    }

    /// Whether to compute a node again at each use because of its size. No use may read an element several
    /// times: the elements would be read from a cache, and computed each time.
    fn is_rematerialized(&self, node: NodeRef, visits: u64, nodes: &[NodeDecl]) -> bool {
        let bytes = |node: NodeRef| {
            let NodeDecl { dims, dtype, .. } = &nodes[node.index()];
            dims.iter().fold(dtype.size_bytes(), |bytes, &dim| bytes.saturating_mul(dim))
        };
        if bytes(node) < self.settings.rematerialized_bytes
            || self.facts[node].uses().any(|read| read.visits > 1)
        {
            return false;
        }
        let element = self.element(node);
        let of_sources = element.sources.iter().map(|&source| bytes(source)).fold(0, usize::saturating_add);
        of_sources.saturating_mul(LARGER_THAN_SOURCES) <= bytes(node)
            && element.cost.saturating_mul(visits) <= MAX_REMATERIALIZED_COST
    }
}

fn is_half(dtype: DType) -> bool {
    matches!(dtype, DType::F16 | DType::Bf16)
}

/// The number of reads of an element of each node, counted as if the nodes that a decision made virtual were
/// inlined.
///
/// In `order`, users follow the nodes that they use. A user that precedes its node counts once; that node
/// will be rejected.
fn visits(order: &[NodeRef], nodes: &[NodeDecl], facts: &Facts) -> Vec<u64> {
    let mut visits: Vec<u64> = vec![1; nodes.len()];
    for &node in order.iter().rev() {
        let through = |user: NodeRef| match nodes[user.index()].mode.known_virtual() {
            true => visits[user.index()].max(1),
            false => 1,
        };
        let each = facts[node].uses().map(|read| read.visits.saturating_mul(read.into.map_or(1, through)));
        visits[node.index()] = each.fold(0, u64::saturating_add);
    }
    visits
}

fn needs_memory(known: &NodeFacts) -> Option<Reason> {
    if known.merged {
        Some(Reason::new("its copy is read from the merge buffer"))
    } else if known.read_only() {
        Some(Reason::new("it is read but never set in this routine"))
    } else if known.read_before_write {
        Some(Reason::new("it is read before it is set in this routine"))
    } else {
        None
    }
}

/// Whether the last access to the node is a store, where reads by accumulations into the node do not count.
fn is_output(known: &NodeFacts) -> bool {
    let last_write = known.writes.last().map(|w| w.position);
    let last_use = known.uses().last().map(|r| r.position);
    last_write.is_some() && last_use < last_write
}

fn output(mode: &tnode::ModeState) -> Verdict {
    use MemoryMode::{DeviceOnly, EffectivelyConstant, NeverVirtual};
    match mode.mode() {
        None | Some(NeverVirtual | DeviceOnly | EffectivelyConstant) => {
            Verdict::Narrow(MemoryMode::Materialized, Reason::new("it is set here and not read afterwards"))
        }
        Some(_) => Verdict::Keep,
    }
}

/// Rejects a virtual node that the routine needs in memory.
fn check_virtual(nodes: &[NodeDecl], node: NodeRef, known: &NodeFacts) -> Result<(), ModeError> {
    let decl = &nodes[node.index()];
    if decl.mode.known_virtual() {
        let rejection = match known {
            k if k.merged => InlineRejection::MergeRead,
            k if !k.is_written() => InlineRejection::NoSetter,
            _ => InlineRejection::ReadBeforeWrite,
        };
        return Err(not_virtual(nodes, node, rejection));
    }
    let local = decl.mode.mode() == Some(MemoryMode::Local);
    if local && (known.read_only() || known.read_before_write) {
        return Err(ModeError::LocalInput { node, name: decl.name.clone() });
    }
    Ok(())
}

fn not_virtual(nodes: &[NodeDecl], node: NodeRef, rejection: InlineRejection) -> ModeError {
    let decl = &nodes[node.index()];
    let of_subexpression =
        |decision: &tnode::Decision| decision.reason.text().starts_with(SUBEXPRESSION_REASON);
    let remedy = match decl.mode.chain().iter().any(of_subexpression) {
        true => "assign that subexpression to a node of its own, in a statement before",
        false => KEEP_IN_MEMORY,
    };
    ModeError::NotVirtual { node, name: decl.name.clone(), rejection, remedy }
}

/// The beginning of the reason why the node of a subexpression is virtual; the subexpression follows.
pub const SUBEXPRESSION_REASON: &str = "it is the value of the subexpression ";

/// The suggestion for a virtual node that cannot be virtual.
pub(crate) const KEEP_IN_MEMORY: &str = "specify `MemoryMode::Materialized` for it, or no mode";

/// The suggestion for a mode without memory that a routine contradicts.
fn conflict_remedy(conflict: &ModeConflict) -> String {
    let mode = conflict.present().map(|decision| decision.mode);
    match mode {
        Some(MemoryMode::Virtual | MemoryMode::Local) => format!("; {KEEP_IN_MEMORY}"),
        _ => String::new(),
    }
}

fn refine(nodes: &mut [NodeDecl], node: NodeRef, mode: MemoryMode, why: Reason) -> Result<(), ModeError> {
    let decl = &mut nodes[node.index()];
    decl.mode.refine(mode, why).map_err(|conflict| ModeError::Conflict {
        node,
        name: decl.name.clone(),
        conflict: Box::new(conflict),
    })
}
