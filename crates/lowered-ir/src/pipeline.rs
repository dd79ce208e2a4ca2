//! The optimiser: the passes in order.

use crate::ir::{NodeRef, Routine};
use crate::passes::access::{self, Facts};
use crate::passes::{ModeError, cse, dead, halves, hoist, modes, powers, simplify, virtualize};

pub use crate::passes::halves::LargeHalf;

pub use crate::passes::{Refusal, Settings};

/// An optimised routine and what a caller needs to know about it.
#[derive(Clone, Debug)]
pub struct Optimized {
    /// The routine. Its modes are decided as far as this routine decides them; no statement mentions a virtual node.
    pub routine: Routine,
    /// The nodes whose earlier contents the routine reads: in the context, not constant, read only or read before written.
    pub inputs: Vec<NodeRef>,
    /// The nodes in the context that the routine writes.
    pub outputs: Vec<NodeRef>,
    /// The node whose copy is read from the merge buffer.
    pub merge: Option<NodeRef>,
    /// The nodes that could have been inlined and were not, with the reason, in order.
    pub refused: Vec<(NodeRef, Refusal)>,
}

impl Optimized {
    /// Why each node the routine mentions has the memory mode it has, in words.
    pub fn explain(&self) -> String {
        self.routine
            .node_refs()
            .map(|(node, decl)| decl.mode.explain(&format!("{node} \"{}\"", decl.name)))
            .collect()
    }
}

/// Why a routine cannot be optimised.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum OptimizeError {
    /// A memory mode and the routine contradict each other.
    #[error("routine \"{routine}\": {source}")]
    Mode {
        /// The routine.
        routine: String,
        /// Which mode, and how.
        source: ModeError,
    },
    /// Two nodes are read from the one merge buffer.
    #[error(
        "routine \"{routine}\": the merge buffer holds one node, but it is read as \"{first}\" and as \"{second}\""
    )]
    TwoMergeNodes {
        /// The routine.
        routine: String,
        /// One node.
        first: String,
        /// The other.
        second: String,
    },
    /// A constant is too large for its narrow type.
    #[error(transparent)]
    LargeHalf(LargeHalf),
}

/// Optimises a verified routine.
///
/// # Errors
/// [`OptimizeError`]; the causes are the user's memory modes, merge buffers and constants.
pub fn optimize(routine: Routine, settings: &Settings) -> Result<Optimized, OptimizeError> {
    optimize_traced(routine, settings, &mut |_, _| {})
}

/// Optimises a verified routine; `on_pass` sees it after each pass, with the pass's name.
///
/// # Errors
/// As [`optimize`].
pub fn optimize_traced(
    mut routine: Routine,
    settings: &Settings,
    on_pass: &mut dyn FnMut(&str, &Routine),
) -> Result<Optimized, OptimizeError> {
    let name = routine.name.clone();
    let in_routine = |source| OptimizeError::Mode { routine: name.clone(), source };

    // What the routine does to each node, exactly.
    let facts = access::analyse(&routine);
    let merge = merge_node(&routine, &facts)?;

    // Inputs, outputs and nodes that are costly to recompute have memory from here on; the rest are candidates.
    let candidates = modes::decide(&mut routine, &facts, settings).map_err(in_routine)?;
    on_pass("modes", &routine);

    // No statement mentions an inlined node, and every node that this routine computes has a settled place.
    let refused = virtualize::virtualize(&mut routine, &candidates);
    modes::settle(&mut routine, &facts, &candidates, &refused, settings).map_err(in_routine)?;
    on_pass("virtualize", &routine);

    // No equation of the table applies any more: guards that inlining composed are gone where ranges decide them.
    simplify::simplify(&mut routine, settings);
    on_pass("simplify", &routine);

    // Powers with constant integral exponents are products.
    powers::expand_powers(&mut routine, settings);
    on_pass("powers", &routine);

    // No block computes a costly value twice.
    cse::eliminate_common(&mut routine);
    on_pass("cse", &routine);

    // No loop but the outermost repeats a costly value that does not change.
    hoist::hoist_invariants(&mut routine);
    on_pass("hoist", &routine);

    // Every statement contributes to a node that outlives the routine.
    dead::remove_dead(&mut routine);
    on_pass("dead", &routine);

    // What is left of the constants suits their types.
    if let Some(cutoff) = settings.half_constant_cutoff {
        halves::check(&routine, cutoff).map_err(OptimizeError::LargeHalf)?;
    }

    let (inputs, outputs) = inputs_and_outputs(&routine);
    Ok(Optimized { routine, inputs, outputs, merge, refused })
}

fn merge_node(routine: &Routine, facts: &Facts) -> Result<Option<NodeRef>, OptimizeError> {
    let mut merged = routine.node_refs().filter(|(node, _)| facts[*node].merged);
    let Some((node, first)) = merged.next() else { return Ok(None) };
    match merged.next() {
        None => Ok(Some(node)),
        Some((_, second)) => Err(OptimizeError::TwoMergeNodes {
            routine: routine.name.clone(),
            first: first.name.clone(),
            second: second.name.clone(),
        }),
    }
}

fn inputs_and_outputs(routine: &Routine) -> (Vec<NodeRef>, Vec<NodeRef>) {
    let facts = access::analyse(routine);
    let in_context = || routine.node_refs().filter(|(_, decl)| !decl.mode.known_not_materialized());
    let reads_earlier = |node: NodeRef| facts[node].read_only() || facts[node].read_before_write;
    let inputs = in_context().filter(|(node, decl)| reads_earlier(*node) && !decl.mode.known_constant());
    let outputs = in_context().filter(|(node, _)| facts[*node].is_written());
    (inputs.map(|(node, _)| node).collect(), outputs.map(|(node, _)| node).collect())
}
