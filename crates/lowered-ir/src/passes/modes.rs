//! Memory modes: which nodes must have memory, which may do without, and why.
//!
//! [`decide`] runs before virtualisation and narrows the modes of the routine's own copies; what it leaves open is a
//! candidate. [`settle`] runs afterwards, when it is known which candidates could be inlined, and leaves nothing open that
//! this routine computes. Every narrowing carries its reason in words, so `explain` on the node tells the whole story.
//!
//! The policy, first match wins:
//! 1. a node that holds one constant everywhere is virtual;
//! 2. a node that is read and never set, or read before it is set, is an input: materialised;
//! 3. a node that is set and not read afterwards is an output: materialised, unless the user said otherwise;
//! 4. a node whose elements are read more often than `max_visits` and are not cheap is never virtual;
//! 5. a node computed by a reduction is never virtual, unless `inline_complex_computations`;
//! 6. any other node may be virtual; if it cannot be, it is as local as its size allows.

use tnode::{MemoryMode, ModeConflict, Reason};

use crate::ir::{Expr, NodeRef, Routine, Stmt, walk};

use super::access::{Facts, NodeFacts};
use super::cost::cost;
use super::settings::Settings;
use super::virtualize::Refusal;

/// A memory mode that the routine contradicts.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ModeError {
    /// Somebody wants the node inlined, and it cannot be.
    #[error("node {node} \"{name}\" is virtual, but cannot be because {refusal}")]
    NotVirtual {
        /// The node.
        node: NodeRef,
        /// Its name.
        name: String,
        /// Why not.
        refusal: Refusal,
    },
    /// The routine needs the node elsewhere than its mode allows.
    #[error("node {node} \"{name}\" {conflict}")]
    Conflict {
        /// The node.
        node: NodeRef,
        /// Its name.
        name: String,
        /// The two decisions.
        conflict: Box<ModeConflict>,
    },
    /// A node for this run of the routine alone is read, but this routine never sets what is read.
    #[error("node {node} \"{name}\" is local, but read before this routine has set it; make it materialized")]
    LocalInput {
        /// The node.
        node: NodeRef,
        /// Its name.
        name: String,
    },
}

/// Narrows the modes of the nodes that must have memory, and answers which nodes may be inlined, in order.
///
/// # Errors
/// When a mode decided earlier contradicts what the routine does with the node.
pub fn decide(routine: &mut Routine, facts: &Facts, settings: &Settings) -> Result<Vec<NodeRef>, ModeError> {
    let mut candidates = Vec::new();
    for node in in_order_of_setters(routine, facts) {
        let known = &facts[node];
        if !known.is_read() && !known.is_written() && !known.merged {
            continue;
        }
        match verdict(routine, node, facts, &candidates, settings) {
            Verdict::Candidate => candidates.push(node),
            Verdict::Narrow(mode, why) => {
                check_virtual(routine, node, known)?;
                refine(routine, node, mode, why)?;
            }
            Verdict::Keep => check_virtual(routine, node, known)?,
        }
    }
    Ok(candidates)
}

/// Every node, those that are set after those that their setters may read.
fn in_order_of_setters(routine: &Routine, facts: &Facts) -> Vec<NodeRef> {
    let mut nodes: Vec<NodeRef> = routine.node_refs().map(|(node, _)| node).collect();
    nodes.sort_by_key(|&node| facts[node].writes.first().map(|w| w.position));
    nodes
}

/// Settles what virtualisation left: inlined candidates are virtual, refused ones as local as their size allows.
///
/// # Errors
/// When a node that somebody wants virtual was refused.
pub fn settle(
    routine: &mut Routine,
    facts: &Facts,
    candidates: &[NodeRef],
    refused: &[(NodeRef, Refusal)],
    settings: &Settings,
) -> Result<(), ModeError> {
    for &node in candidates {
        match refused.iter().find(|(n, _)| *n == node) {
            None => refine(routine, node, MemoryMode::Virtual, Why::text("it is inlined at every use"))?,
            Some((_, refusal)) if routine.node(node).mode.known_virtual() => {
                let name = routine.node(node).name.clone();
                return Err(ModeError::NotVirtual { node, name, refusal: refusal.clone() });
            }
            Some((_, refusal)) => {
                let why = Why::Text(format!("it cannot be inlined: {refusal}"));
                refine(routine, node, MemoryMode::NeverVirtual, why)?;
            }
        }
    }
    for (i, decl) in routine.nodes.iter_mut().enumerate() {
        let computed = facts[NodeRef(i as u32)].is_written();
        if computed && matches!(decl.mode.mode(), Some(MemoryMode::NeverVirtual | MemoryMode::DeviceOnly)) {
            let reason = Reason::new("no other routine needs it");
            let elems = decl.dims.iter().product();
            decl.mode.default_to_most_local(elems, decl.dtype, settings.stack_threshold_bytes, reason);
        }
    }
    Ok(())
}

/// What the policy says of a node.
enum Verdict {
    /// It may be inlined.
    Candidate,
    /// Its mode is narrowed.
    Narrow(MemoryMode, Why),
    /// Its mode stands.
    Keep,
}

/// A reason under construction.
enum Why {
    Fixed(&'static str),
    Text(String),
}

impl Why {
    fn text(text: &'static str) -> Why {
        Why::Fixed(text)
    }
}

fn verdict(
    routine: &Routine,
    node: NodeRef,
    facts: &Facts,
    candidates: &[NodeRef],
    settings: &Settings,
) -> Verdict {
    let known = &facts[node];
    let mode = &routine.node(node).mode;
    let may_be_virtual = mode.mode().is_none_or(|m| m.outcomes().contains(tnode::Outcomes::VIRTUAL));
    let input = !known.is_written() || known.read_before_write;
    if mode.known_virtual() && !input && !known.merged {
        return Verdict::Candidate;
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
    if settings.inline_scalar_constexprs && known.scalar_constexpr {
        return Verdict::Candidate;
    }
    if !settings.enable_device_only && mode.mode().is_none() {
        return Verdict::Narrow(MemoryMode::Materialized, Why::text("nodes are kept unless asked otherwise"));
    }
    match too_costly(routine, node, facts, candidates, settings) {
        Some(why) => Verdict::Narrow(MemoryMode::NeverVirtual, why),
        None => Verdict::Candidate,
    }
}

fn needs_memory(known: &NodeFacts) -> Option<Why> {
    if known.merged {
        Some(Why::text("its copy is read from the merge buffer"))
    } else if known.read_only() {
        Some(Why::text("it is read but never set in this routine"))
    } else if known.read_before_write {
        Some(Why::text("it is read before it is set in this routine"))
    } else {
        None
    }
}

/// Whether the last thing that happens to the node is a store.
fn is_output(known: &NodeFacts) -> bool {
    let last_write = known.writes.last().map(|w| w.position);
    let last_use = known.uses().last().map(|r| r.position);
    last_write.is_some() && last_use < last_write
}

fn output(mode: &tnode::ModeState) -> Verdict {
    use MemoryMode::{DeviceOnly, EffectivelyConstant, NeverVirtual};
    match mode.mode() {
        None | Some(NeverVirtual | DeviceOnly | EffectivelyConstant) => {
            Verdict::Narrow(MemoryMode::Materialized, Why::text("it is set here and not read afterwards"))
        }
        Some(_) => Verdict::Keep,
    }
}

/// Why the elements should be computed once rather than at each use, if they should.
fn too_costly(
    routine: &Routine,
    node: NodeRef,
    facts: &Facts,
    candidates: &[NodeRef],
    settings: &Settings,
) -> Option<Why> {
    let computation = computation(routine, node, candidates);
    if computation == Computation::Reduction && !settings.inline_complex_computations {
        return Some(Why::text("it is computed by a reduction"));
    }
    let simple = computation == Computation::Simple && settings.inline_simple_computations;
    let visits = visits(routine, facts, node, 0);
    (visits > settings.max_visits && !simple).then(|| {
        Why::Text(format!(
            "each element is read up to {visits} times, more than max_visits = {}",
            settings.max_visits
        ))
    })
}

/// How often an element is read when the nodes that are virtual by decision are inlined into their uses.
fn visits(routine: &Routine, facts: &Facts, node: NodeRef, depth: usize) -> u64 {
    let through = |user: NodeRef| match routine.node(user).mode.known_virtual() && user != node && depth < 32
    {
        true => visits(routine, facts, user, depth + 1).max(1),
        false => 1,
    };
    let each = facts[node].uses().map(|read| read.visits.saturating_mul(read.into.map_or(1, through)));
    each.fold(0, u64::saturating_add)
}

/// How much work an element is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Computation {
    /// One store of a value that costs about one memory read.
    Simple,
    /// Stores without loops of their own.
    Elementwise,
    /// Anything with a loop, or an accumulation.
    Reduction,
}

/// The most that a value may cost to be repeated rather than read.
const SIMPLE_COST: u64 = 4;

fn computation(routine: &Routine, node: NodeRef, inlined: &[NodeRef]) -> Computation {
    let found = stores_of(routine, node);
    if found.iter().any(|s| s.reduces) {
        return Computation::Reduction;
    }
    let mut budget = SIMPLE_COST;
    match found.as_slice() {
        [] => Computation::Simple,
        [one] if one.is_simple(routine, inlined, &mut budget) => Computation::Simple,
        _ => Computation::Elementwise,
    }
}

fn stores_of(routine: &Routine, node: NodeRef) -> Vec<Store<'_>> {
    let mut found = Vec::new();
    stores(&routine.body, node, &mut Vec::new(), &mut found);
    found
}

/// A store to the node in question.
struct Store<'a> {
    reduces: bool,
    value: &'a Expr,
}

impl Store<'_> {
    /// Whether the value, with the nodes that will be inlined in place of their reads, has at most one read and fits the
    /// budget, which it uses up.
    fn is_simple(&self, routine: &Routine, inlined: &[NodeRef], budget: &mut u64) -> bool {
        let (mut reads, mut simple) = (0, !self.reduces);
        walk::each_expr(self.value, &mut |part| match part {
            Expr::Get { node, .. } | Expr::GetGuarded { node, .. } => {
                reads += 1;
                if simple && inlined.contains(node) {
                    let inner = stores_of(routine, *node);
                    simple = inner.iter().all(|store| store.is_simple(routine, inlined, budget));
                }
            }
            Expr::GetMerge { .. } => reads += 1,
            _ => {}
        });
        let own = cost(self.value);
        let fits = own <= *budget;
        *budget = budget.saturating_sub(own);
        simple && fits && reads <= 1
    }
}

fn stores<'a>(
    block: &'a [Stmt],
    node: NodeRef,
    loops: &mut Vec<crate::ir::LoopId>,
    found: &mut Vec<Store<'a>>,
) {
    for stmt in block {
        match stmt {
            Stmt::For { var, body, .. } => {
                loops.push(*var);
                stores(body, node, loops, found);
                loops.pop();
            }
            Stmt::Set { node: n, index, value } if *n == node => {
                let repeats = loops.iter().any(|&v| !index.iter().any(|i| i.mentions(v)));
                let mut carries = false;
                walk::each_expr(value, &mut |part| {
                    carries |= matches!(part, Expr::Get { node: n, .. } if *n == node)
                        || matches!(part, Expr::GetLocal { .. });
                });
                found.push(Store { reduces: repeats || carries, value });
            }
            _ => {}
        }
    }
}

/// Refuses a virtual node that the routine needs in memory.
fn check_virtual(routine: &Routine, node: NodeRef, known: &NodeFacts) -> Result<(), ModeError> {
    let decl = routine.node(node);
    let name = decl.name.clone();
    if decl.mode.known_virtual() {
        let refusal = match known {
            k if k.merged => Refusal::MergeRead,
            k if !k.is_written() => Refusal::NoSetter,
            _ => Refusal::ReadBeforeWrite,
        };
        return Err(ModeError::NotVirtual { node, name, refusal });
    }
    let local = decl.mode.mode() == Some(MemoryMode::Local);
    if local && (known.read_only() || known.read_before_write) {
        return Err(ModeError::LocalInput { node, name });
    }
    Ok(())
}

fn refine(routine: &mut Routine, node: NodeRef, mode: MemoryMode, why: Why) -> Result<(), ModeError> {
    let decl = &mut routine.nodes[node.index()];
    let reason = match why {
        Why::Fixed(text) => Reason::new(text),
        Why::Text(text) => Reason::new(text),
    };
    decl.mode.refine(mode, reason).map_err(|conflict| ModeError::Conflict {
        node,
        name: decl.name.clone(),
        conflict: Box::new(conflict),
    })
}
