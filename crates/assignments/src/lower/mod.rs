//! Lowering: from assignments to loops.
//!
//! Each step becomes one loop nest with scalar statements. Lowering does no fusion and no inlining.
//!
//! * The product axes become loops, outermost first, each with a fresh iterator; axes of size 1 have none.
//! * A step that starts from the neutral element first fills its target with it (`zero`, where that is 0),
//!   unless it writes every element exactly once. Where it writes no element twice, it stores the result
//!   without reading. Otherwise it stores `old ⊕ new`. Operands are converted to the type in which the
//!   operation computes, the result to the type of the target; nothing else converts.
//! * Positions in sorted order are computed with nodes that only the routine has; see `order.rs` beside this
//!   file.
//! * A scan is a loop around the statements of its body; see `recurrence.rs` beside this file.
//! * A sum over a triangle that is a prefix or suffix sum takes one loop; see `scan.rs` beside this file.
//! * A computed index makes a gather or scatter, whose stores happen in the order of the loops. A gather
//!   outside gives [`Accum::outside`](crate::Accum::outside).
//! * Indices of a node with padding are shifted by its left margins, so indices into the margins are ordinary
//!   ones. Before a step reads margins, they are set where they may not hold the values that it needs; see
//!   `margins.rs` beside this file.
//! * A slice that can be a view has no code, and its node is not in the routine: mentions of it index the
//!   parent, with the slice's symbol first. Other slices are copied; `view.rs` beside this file has the
//!   conditions.
//! * Random fills compute one sample for each chunk of the last axis, into an array in registers; see
//!   `random.rs` beside this file.
//! * A routine that writes nodes without elements begins with `zero` of each, so that later passes see the
//!   write.
//! * A statement whose values are all overwritten before any read is rejected; see `lost_values.rs` beside
//!   this file.
//! * A block's name and the end of it, and remarks, become comments.
//! * A gradient is rejected: the crate `autodiff` replaces it by accumulations before lowering.
//!
//! Lowering settles sizes and element types of the nodes. It decides two memory modes: a node is an input
//! with memory if the routine sets only its margins, and a node whose values the program keeps has memory.

mod bounds;
mod computed;
mod empty;
mod error;
mod gradients;
mod limits;
mod lost_values;
mod margins;
mod mentions;
mod order;
mod radix;
mod random;
mod recurrence;
mod scan;
mod sizes;
pub(crate) mod step;
mod unused;
mod view;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use tnode::{MemoryMode, Reason, TensorNode, View};

use self::error::Result;
pub use self::error::{LowerError, LowerErrorKind};
use self::margins::Margins;
use self::sizes::Sizes;
use self::view::Views;
use crate::indexing::StaticSymbol;
use crate::{Assignments, Warning, all_steps, written};
use lowered_ir::Lowered;
use lowered_ir::SourceSpan;
use lowered_ir::ir::{Fresh, LoweredRoutine, NodeDecl, NodeRef, Numerics, Symbol, SymbolId};
use lowered_ir::text::is_identifier;

/// How to lower.
#[derive(Clone, Debug, Default)]
pub struct LowerOptions {
    /// The routine's name; by default [`Assignments::routine_name`].
    pub name: Option<String>,
    /// Its numeric class.
    pub numerics: Numerics,
    /// Symbols that come first in the order of bindings; the others follow in order of first mention. A range
    /// given here applies to a symbol without a range.
    pub symbols: Vec<StaticSymbol>,
}

/// A routine with the nodes of the program that it is lowered from, and warnings.
#[derive(Clone, Debug)]
pub struct LoweredAssignments {
    /// The routine and the handles of its nodes.
    pub lowered: Lowered,
    /// The node whose merge buffer is read, if any.
    pub merge: Option<TensorNode>,
    /// The nodes that this program makes views, which are not in the routine; for
    /// [`commit_decisions`](tnode::commit_decisions).
    pub views: Vec<(TensorNode, View)>,
    /// Legal constructs that are often mistakes: the warnings of the text, then those of lowering.
    pub warnings: Vec<Warning>,
}

/// Lowers a program.
///
/// # Errors
/// See [`LowerError`]. After an error nothing about the nodes has changed, except that sizes and element
/// types may be settled.
pub fn lower(assignments: &Assignments, options: &LowerOptions) -> Result<LoweredAssignments, LowerError> {
    gradients::check_none(assignments)?;
    let mentioned = assignments.nodes();
    // Only views and sizes add something, so other programs are not copied.
    let mut assignments = Cow::Borrowed(assignments);
    let views = Views::find(&mut assignments, &mentioned)?;
    let sizes = Sizes::enter(&mut assignments, &mentioned);
    let assignments = &*assignments;
    let nodes = homes(&mentioned, &views);
    let merge = only_merge_node(assignments)?;
    if let Some((node, view)) = merge.as_ref().and_then(|node| Some((node, node.view()?))) {
        let kind = LowerErrorKind::MergeOfView { node: node.name(), view: view.to_string() };
        return Err(kind.at(mentions::of_merge(assignments, node)));
    }
    let (symbols, renumbering) = symbol_table(assignments, options)?;
    recurrence::check(assignments)?;
    let ranges = bounds::symbol_ranges(assignments, &views, &sizes, &symbols, &renumbering)?;
    let declared = |node: &TensorNode| {
        declaration(node).map_err(|error| error.or_at(|| mentions::of_node(assignments, &views, node)))
    };
    let mut decls = nodes.iter().map(declared).collect::<Result<Vec<_>, _>>()?;
    let refs: BTreeMap<TensorNode, NodeRef> =
        nodes.iter().enumerate().map(|(at, node)| (node.clone(), NodeRef(at as u32))).collect();
    let made = views.made(assignments);
    step::check_initialized(assignments, &views)?;
    lost_values::check(assignments, &views)?;
    let empty = empty::written(assignments, &views)?;
    let margins = Margins::new(assignments, &empty);
    let fresh = Fresh::default();
    let mut ctx = step::LoweringContext {
        refs,
        views,
        margins,
        ranges: ranges.clone(),
        least: symbols.iter().map(|symbol| i64::from(symbol.size.is_some())).collect(),
        sizes,
        renumbering,
        fresh,
        temporaries: Vec::new(),
        numerics: options.numerics,
        statements: 0,
    };
    limits::check_steps(assignments, &ctx)?;
    let mut body = step::lower_steps(&assignments.steps, &mut ctx)?;
    margins::restore(&mut ctx, &mut body)?;
    body.splice(0..0, empty::zeros(&empty, |node| ctx.refs[node]));
    keep_inputs(&nodes, &mut decls, assignments, &ctx);
    keep_values(&nodes, &mut decls, assignments, &ctx.views)?;
    let (added, added_decls): (Vec<TensorNode>, Vec<NodeDecl>) = ctx.temporaries.drain(..).unzip();
    decls.extend(added_decls);
    let name = routine_name(assignments, options)?;
    let bound = symbols.iter().filter(|symbol| symbol.letter().is_none()).count();
    recurrence::check_bound(&body, &symbols, bound)?;
    let named = |(symbol, &range): (&StaticSymbol, &i64)| Symbol {
        least: i64::from(symbol.size.is_some()),
        quotient: symbol.size.as_ref().and_then(|size| StaticSymbol::quotient_in(&symbols, size)),
        ..Symbol::parameter(symbol.name.as_str(), range)
    };
    let symbols = symbols.iter().zip(&ranges).take(bound).map(named).collect();
    let routine = LoweredRoutine { name, numerics: options.numerics, symbols, nodes: decls, body };
    let routine = if ctx.sizes.is_empty() { routine } else { sizes::with_zeros(routine, assignments, &ctx) };
    let warnings =
        assignments.warnings.iter().cloned().chain(unused::values(assignments, &ctx.views)).collect();
    let nodes = nodes.into_iter().chain(added).collect();
    Ok(LoweredAssignments { lowered: Lowered { routine, nodes }, merge, views: made, warnings })
}

/// The first access of the assignments to a node, or to a view of it, in the text that they were read from.
pub fn first_mention(assignments: &Assignments, node: &TensorNode) -> Option<SourceSpan> {
    let mut assignments = Cow::Borrowed(assignments);
    let nodes = assignments.nodes();
    let views = Views::find(&mut assignments, &nodes).ok()?;
    mentions::of_node(&assignments, &views, node)
}

/// Gives memory to nodes if the routine sets only their margins. To later passes they look like nodes that
/// the routine computes, which may become virtual, but their values come from elsewhere.
fn keep_inputs(
    nodes: &[TensorNode],
    decls: &mut [NodeDecl],
    assignments: &Assignments,
    ctx: &step::LoweringContext,
) {
    let written = all_steps(&assignments.steps).flat_map(written);
    let computed: BTreeSet<TensorNode> = written.map(|node| ctx.views.home(node).0).collect();
    for (node, decl) in nodes.iter().zip(decls) {
        let is_open =
            matches!(decl.mode.mode(), None | Some(MemoryMode::NeverVirtual | MemoryMode::DeviceOnly));
        if is_open && ctx.margins.are_set(node) && !computed.contains(node) {
            let reason = Reason::new("the routine sets its margins, and its values come from elsewhere");
            // Each of the three modes can be narrowed to this one.
            let _ = decl.mode.refine(MemoryMode::Materialized, reason);
        }
    }
}

/// Gives memory to the nodes whose values the program keeps.
fn keep_values(
    nodes: &[TensorNode],
    decls: &mut [NodeDecl],
    assignments: &Assignments,
    views: &Views,
) -> Result<()> {
    for (node, decl) in nodes.iter().zip(decls).filter(|(node, _)| assignments.kept.contains(node)) {
        let reason = Reason::new("the program keeps its values");
        decl.mode.refine(MemoryMode::Materialized, reason).map_err(|source| {
            let kind = LowerErrorKind::from(tnode::TensorNodeError::Mode { node: node.name(), source });
            kind.at(mentions::of_node(assignments, views, node))
        })?;
    }
    Ok(())
}

fn routine_name(assignments: &Assignments, options: &LowerOptions) -> Result<String> {
    let name = options.name.clone().unwrap_or_else(|| assignments.routine_name());
    if is_identifier(&name) { Ok(name) } else { Err(LowerErrorKind::RoutineName { name }.into()) }
}

/// The nodes that have memory or are computed, in order of first mention: for a view, its parent.
fn homes(mentioned: &[TensorNode], views: &Views) -> Vec<TensorNode> {
    let mut nodes: Vec<TensorNode> = Vec::new();
    let mut seen = BTreeSet::new();
    for node in mentioned {
        let (home, _) = views.home(node);
        if seen.insert(home.clone()) {
            nodes.push(home);
        }
    }
    nodes
}

fn only_merge_node(assignments: &Assignments) -> Result<Option<TensorNode>> {
    match assignments.merge_nodes().as_slice() {
        [] => Ok(None),
        [node] => Ok(Some(node.clone())),
        [first, second, ..] => {
            let kind = LowerErrorKind::TwoMergeBuffers { first: first.name(), second: second.name() };
            let at = |node| mentions::of_merge(assignments, node);
            Err(kind.at(at(second)).and_at(at(first)))
        }
    }
}

fn declaration(node: &TensorNode) -> Result<NodeDecl> {
    let decl = NodeDecl { name: node.name(), dtype: node.dtype(), dims: node.dims()?, mode: node.mode() };
    limits::check_node(&decl)?;
    Ok(decl)
}

/// The routine's symbols, and where each symbol of the assignments is among them.
fn symbol_table(
    assignments: &Assignments,
    options: &LowerOptions,
) -> Result<(Vec<StaticSymbol>, Vec<SymbolId>)> {
    let mut table: Vec<StaticSymbol> = Vec::new();
    let place = |symbol: &StaticSymbol| mentions::of_symbol(assignments, &symbol.name);
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    let mut enter = |symbol: &StaticSymbol| {
        limits::check_symbol(symbol).map_err(|kind| kind.at(place(symbol)))?;
        let next = table.len();
        let at = match symbol.letter() {
            Some(_) => next,
            None => *places.entry(symbol.name.clone()).or_insert(next),
        };
        if at == next {
            table.push(symbol.clone());
            return Ok(SymbolId(at as u32));
        }
        match (table[at].range, symbol.range) {
            (Some(first), Some(second)) if first != second => {
                let kind = LowerErrorKind::SymbolConflict { name: symbol.name.clone(), first, second };
                return Err(kind.at(place(symbol)));
            }
            (known, given) => table[at].range = known.or(given),
        }
        match (&table[at].size, &symbol.size) {
            (Some(first), Some(second)) if first != second => {
                let (name, sizes) = (symbol.name.clone(), Box::new([first.clone(), second.clone()]));
                return Err(LowerErrorKind::SizeConflict { name, sizes }.at(place(symbol)));
            }
            (None, Some(size)) => table[at].size = Some(size.clone()),
            _ => {}
        }
        Ok(SymbolId(at as u32))
    };
    for symbol in &options.symbols {
        enter(symbol)?;
    }
    let mut renumbering = assignments.symbols.iter().map(enter).collect::<Result<Vec<_>>>()?;
    let mut order: Vec<usize> = (0..table.len()).collect();
    order.sort_by_key(|&at| sizes::order(&table[at]));
    let mut place = vec![SymbolId(0); table.len()];
    order.iter().enumerate().for_each(|(at, &from)| place[from] = SymbolId(at as u32));
    renumbering.iter_mut().for_each(|id| *id = place[id.index()]);
    Ok((order.into_iter().map(|at| table[at].clone()).collect(), renumbering))
}
