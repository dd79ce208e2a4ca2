//! The optimizer: the passes in order.

mod cross_routine_inlining;
mod scans;
mod stored_computation;

use tnode::TensorNode;

use crate::Lowered;
use crate::ir::{LoweredRoutine, NodeRef};
use crate::passes::access::{self, Facts};
use crate::passes::effects::Effects;
use crate::passes::runner::{PassRunner, Trace};
use crate::passes::virtualize::{self, InlinedComputation};
use crate::passes::{
    ModeError, cse, dce, decide_modes, expand_powers, gather_one_hot, half_overflow, licm, simplify,
};

pub use crate::passes::half_overflow::HalfOverflow;
pub use crate::passes::{InlineRejection, OptimizeSettings};
pub use cross_routine_inlining::{Changes, OptimizeCtx};

/// An optimized routine with its inputs, its outputs and the nodes that could not be inlined.
#[derive(Clone, Debug)]
pub struct Optimized {
    /// The routine. Its modes are narrowed as far as this routine decides them; no statement mentions a
    /// virtual node.
    pub routine: LoweredRoutine,
    /// The nodes in the context whose earlier contents the routine reads: nodes that are not constant and
    /// that the routine only reads, or reads before it writes them.
    pub inputs: Vec<NodeRef>,
    /// The nodes in the context that the routine writes.
    pub outputs: Vec<NodeRef>,
    /// The node whose copy is read from the merge buffer.
    pub merge: Option<NodeRef>,
    /// The nodes that could have been inlined and were not, with the reason, in order.
    pub rejected: Vec<(NodeRef, InlineRejection)>,
}

/// A routine optimized after others, whose virtual nodes it may use.
#[derive(Clone, Debug)]
pub struct InContext {
    /// The routine.
    pub optimized: Optimized,
    /// The handle of each node in the table of the routine: the nodes of the original routine, then the
    /// inputs of computations inlined from other routines.
    pub nodes: Vec<TensorNode>,
    /// The nodes whose computations were inlined from other routines, each with the name of that routine.
    pub imported: Vec<(NodeRef, String)>,
    /// The computations that later routines may inline, for [`OptimizeCtx::commit`].
    pub changes: Changes,
}

impl Optimized {
    /// Explains the memory mode of the node in words: each decision with its reason and the source line that
    /// took it. For a node that could have been inlined and was not, the reason of the rejection is included.
    pub fn explain(&self, node: NodeRef) -> String {
        let decl = self.routine.node(node);
        decl.mode.explain(&format!("{node} \"{}\"", decl.name))
    }
}

/// Why a routine cannot be optimized.
#[derive(Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum OptimizeError {
    /// A memory mode and the routine contradict each other.
    #[error("routine \"{routine}\": {source}")]
    Mode { routine: String, source: Box<ModeError> },
    /// Two nodes are read from the one merge buffer.
    #[error(
        "routine \"{routine}\": the merge buffer holds one node, but it is read as \"{first}\" and as \"{second}\""
    )]
    TwoMergeNodes { routine: String, first: String, second: String, node: NodeRef },
    /// A constant is too large for its narrow type.
    #[error(transparent)]
    HalfOverflow(HalfOverflow),
}

impl OptimizeError {
    /// The node of the routine that the error is about, if it is about one.
    pub fn node(&self) -> Option<NodeRef> {
        match self {
            OptimizeError::Mode { source, .. } => Some(source.node()),
            OptimizeError::TwoMergeNodes { node, .. } => Some(*node),
            OptimizeError::HalfOverflow(overflow) => overflow.node,
        }
    }
}

/// Optimizes a verified routine.
///
/// # Errors
/// [`OptimizeError`]; the causes are the user's memory modes, merge buffers and constants.
pub fn optimize(routine: LoweredRoutine, settings: &OptimizeSettings) -> Result<Optimized, OptimizeError> {
    optimize_traced(routine, settings, &mut Trace::none())
}

/// Optimizes a verified routine; `trace` sees it after each pass.
///
/// # Errors
/// [`OptimizeError`], in the cases of [`optimize`].
pub fn optimize_traced(
    routine: LoweredRoutine,
    settings: &OptimizeSettings,
    trace: &mut Trace<'_>,
) -> Result<Optimized, OptimizeError> {
    run(routine, settings, trace).map(|(optimized, _)| optimized)
}

/// Optimizes a verified routine that may use virtual nodes of earlier routines; see [`OptimizeCtx`].
///
/// # Errors
/// The errors of [`optimize`]; and a mode error where a computation of an earlier routine cannot be inlined,
/// or one of its inputs has changed since.
pub fn optimize_in(
    ctx: &OptimizeCtx,
    mut lowered: Lowered,
    settings: &OptimizeSettings,
    trace: &mut Trace<'_>,
) -> Result<InContext, OptimizeError> {
    let name = lowered.routine.name.clone();
    let own = Effects::of(&lowered.routine.body).writes;
    let imported = ctx
        .import(&mut lowered)
        .map_err(|source| OptimizeError::Mode { routine: name, source: Box::new(source) })?;
    if !imported.is_empty() {
        trace.show("import", &lowered.routine);
    }
    let Lowered { routine, nodes } = lowered;
    let (optimized, computed) = run(routine, settings, trace)?;
    let changes = Changes::new(&optimized.routine, &own, computed);
    Ok(InContext { optimized, nodes, imported, changes })
}

fn run(
    mut routine: LoweredRoutine,
    settings: &OptimizeSettings,
    trace: &mut Trace<'_>,
) -> Result<(Optimized, Vec<InlinedComputation>), OptimizeError> {
    let name = routine.name.clone();
    let in_routine = |source| OptimizeError::Mode { routine: name.clone(), source: Box::new(source) };

    // The indices in loops that never run may be out of bounds, so the analysis would find reads of elements
    // that nothing writes.
    dce::remove_idle_loops(&mut routine);

    // Nodes whose values live for one step of a scan are virtual or stored, and the virtual ones inlined.
    let (in_scans, mut rejected) = scans::virtualize(&mut routine, settings).map_err(in_routine)?;

    // Exact facts about the reads and writes of each node.
    let mut facts = access::analyze(&routine);
    let merge = merge_node(&routine, &facts)?;
    in_scans.iter().for_each(|&node| facts.forget(node));

    // Inputs, outputs and nodes that are costly to recompute have memory from here on; other nodes are
    // candidates.
    let candidates = decide_modes::decide_modes(&mut routine, &facts, settings).map_err(in_routine)?;
    trace.show("decide_modes", &routine);

    // No statement mentions an inlined node, and the mode of every node that this routine computes is
    // settled.
    let outcome = virtualize::virtualize_keeping(&mut routine, &decide_modes::nodes_of(&candidates));
    let virtualize::VirtualizeOutcome { rejected: rejected_here, computed } = outcome;
    decide_modes::settle_modes(&mut routine, &facts, &candidates, &rejected_here, settings)
        .map_err(in_routine)?;
    rejected.extend(rejected_here);
    trace.show("virtualize", &routine);

    let mut passes = PassRunner::new(routine, trace);

    // No equation of the table applies any more: guards that inlining composed are gone if ranges decide
    // them.
    passes.run_in_regions("simplify", &mut |region| simplify::simplify(region, settings));

    // Sums over a one-hot index read the selected element alone.
    passes.run_in_regions("gather_one_hot", &mut gather_one_hot::gather_one_hot);

    // Powers with constant integral exponents are products.
    passes.run_in_regions("expand_powers", &mut |region| expand_powers::expand_powers(region, settings));

    // No block computes a costly value twice.
    passes.run_in_regions("cse", &mut cse::cse);

    // No loop but the outermost repeats a costly value that does not change.
    passes.run_in_regions("licm", &mut licm::licm);

    // Every store reaches a node that outlives the routine.
    passes.run("dce", dce::dce);
    let routine = passes.finish();

    // The remaining constants suit their types.
    if let Some(cutoff) = settings.half_constant_cutoff {
        half_overflow::check(&routine, cutoff).map_err(OptimizeError::HalfOverflow)?;
    }

    let (inputs, outputs) = inputs_and_outputs(&routine);
    Ok((Optimized { routine, inputs, outputs, merge, rejected }, computed))
}

fn merge_node(routine: &LoweredRoutine, facts: &Facts) -> Result<Option<NodeRef>, OptimizeError> {
    let mut merged = routine.node_refs().filter(|(node, _)| facts[*node].merged);
    let Some((node, first)) = merged.next() else { return Ok(None) };
    match merged.next() {
        None => Ok(Some(node)),
        Some((node, second)) => Err(OptimizeError::TwoMergeNodes {
            routine: routine.name.clone(),
            first: first.name.clone(),
            second: second.name.clone(),
            node,
        }),
    }
}

fn inputs_and_outputs(routine: &LoweredRoutine) -> (Vec<NodeRef>, Vec<NodeRef>) {
    let facts = access::analyze(routine);
    let in_context = || routine.node_refs().filter(|(_, decl)| !decl.mode.known_not_materialized());
    let reads_earlier = |node: NodeRef| facts[node].read_only() || facts[node].read_before_write;
    let inputs = in_context().filter(|(node, decl)| reads_earlier(*node) && !decl.mode.known_constant());
    let outputs = in_context().filter(|(node, _)| facts[*node].is_written());
    (inputs.map(|(node, _)| node).collect(), outputs.map(|(node, _)| node).collect())
}
