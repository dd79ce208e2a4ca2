//! Lowering: from assignments to loops.
//!
//! Each step becomes one loop nest with scalar statements, and nothing else happens here: no fusion, no inlining.
//!
//! * The product axes become loops, outermost first, each with a fresh iterator; axes of size 1 have none.
//! * A step that starts from the neutral element first fills its target with it (`zero`, where that is 0), unless it
//!   writes every element exactly once. Where it writes no element twice, it stores the result without reading.
//! * A computed index makes a gather or scatter, whose stores happen in the order of the loops. A gather outside gives
//!   [`Accum::outside`](crate::assign::Accum::outside).
//! * Otherwise it stores `old ⊕ new`. Operands are converted to the type in which the operation computes, the result to
//!   the type of the target; nothing else converts.
//! * Indices of a node with padding are shifted by its left margins, so indices into the margins are ordinary ones. Margins
//!   that are read are set first where they may not hold what the reader needs; `margins.rs` beside this file says what.
//! * A slice that can be a view has no code, and its node is not in the routine: mentions of it index the parent, with the
//!   slice's symbol first. Other slices are copied; `view.rs` beside this file has the conditions.
//! * Random fills draw once for each chunk of the last axis, into an array in registers; `random.rs` beside this file.
//! * A routine that writes nodes without elements begins with `zero` of each, so that it is known to write them.
//! * A block's name and the end of it, and remarks, become comments.
//!
//! Lowering settles sizes and element types of the nodes and decides no memory mode.

mod bounds;
mod computed;
mod empty;
mod margins;
mod random;
mod step;
mod view;

use std::collections::BTreeMap;

use tnode::{TensorNode, View};

use self::margins::Margins;
use self::view::Views;
use crate::assign::Assignments;
use crate::indexing::StaticSymbol;
use crate::ir::{Fresh, NodeDecl, NodeRef, Numerics, Routine, Symbol, SymbolId};

/// How to lower.
#[derive(Clone, Debug, Default)]
pub struct LowerOptions {
    /// The routine's name; by default [`Assignments::routine_name`].
    pub name: Option<String>,
    /// Its numeric class.
    pub numerics: Numerics,
    /// Symbols that come first in the order of bindings; the others follow in order of first mention. A range given here
    /// holds for a symbol that has none.
    pub symbols: Vec<StaticSymbol>,
}

/// A routine in the loop IR with what the IR does not know of its nodes.
#[derive(Clone, Debug)]
pub struct Lowered {
    /// The routine.
    pub routine: Routine,
    /// The handle of each node in [`Routine::nodes`].
    pub nodes: Vec<TensorNode>,
    /// The node whose merge buffer is read, if any.
    pub merge: Option<TensorNode>,
    /// The nodes that this program makes views, which are not in the routine; for
    /// [`commit_decisions`](tnode::commit_decisions).
    pub views: Vec<(TensorNode, View)>,
}

/// Why assignments have no loops. Messages name nodes and symbols as the user does.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum LowerError {
    /// Sizes are not settled, or something else about a node.
    #[error(transparent)]
    Node(#[from] tnode::Error),
    /// A node has other dimensions than its projection is for.
    #[error("node {node} has dimensions {found:?}, but the assignment indexes dimensions {expected:?}")]
    Dims {
        /// The node's name.
        node: String,
        /// Its dimensions.
        found: Vec<usize>,
        /// Those of the projection.
        expected: Vec<usize>,
    },
    /// The number of projections differs from that of operands.
    #[error("assignment to node {node}: {operands} operands, but {projections} projections")]
    Operands {
        /// The name of the node written.
        node: String,
        /// How many operands.
        operands: usize,
        /// How many projections.
        projections: usize,
    },
    /// An index leaves its array.
    #[error(
        "node {node}: index {index} on axis {axis} takes values {lo}..={hi}, expected within {min}..{max}"
    )]
    OutOfBounds {
        /// The node's name.
        node: String,
        /// The position of the index.
        axis: usize,
        /// The index.
        index: String,
        /// Its least value.
        lo: i64,
        /// Its greatest value.
        hi: i64,
        /// The least allowed value.
        min: i64,
        /// One past the greatest allowed value.
        max: i64,
    },
    /// An index too large to compute.
    #[error("node {node}: index {index} on axis {axis} overflows")]
    Overflow {
        /// The node's name.
        node: String,
        /// The position of the index.
        axis: usize,
        /// The index.
        index: String,
    },
    /// An index of a symbol that the program does not have.
    #[error("node {node}: an index mentions symbol number {symbol}, but the assignments have {symbols}")]
    UnknownSymbol {
        /// The name of the node written.
        node: String,
        /// The position.
        symbol: u32,
        /// How many there are.
        symbols: usize,
    },
    /// A symbol with two ranges.
    #[error("symbol @{name} has range {first} and range {second}")]
    SymbolConflict {
        /// The symbol's name.
        name: String,
        /// One range.
        first: i64,
        /// The other.
        second: i64,
    },
    /// A symbol whose range does not follow from its uses.
    #[error(
        "symbol @{name} has no range, and no index bounds it alone; expected a range, as in `where @{name} < 10`"
    )]
    SymbolUnranged {
        /// The symbol's name.
        name: String,
    },
    /// A symbol without values.
    #[error("symbol @{name} has range {range}, expected at least 1")]
    SymbolEmpty {
        /// The symbol's name.
        name: String,
        /// The range.
        range: i64,
    },
    /// A write that leaves elements without a value.
    #[error(
        "node {node}: the assignment does not write all of axis {axis} (size {size}), and nothing initialises the node \
         before; expected an initialisation such as `{node}[..] := 0`, or a materialized node, whose values stay"
    )]
    Uninitialised {
        /// The node's name.
        node: String,
        /// The axis with unwritten elements.
        axis: usize,
        /// Its size.
        size: usize,
    },
    /// A slice of other dimensions than its parent's but for the first.
    #[error("node {node} has dimensions {dims:?}, but a slice of {of} {parent:?} has {}", if parent.is_empty() { "no axis to be at".to_owned() } else { format!("{:?}", &parent[1..]) })]
    SliceShape {
        /// The node's name.
        node: String,
        /// Its dimensions.
        dims: Vec<usize>,
        /// The name of the node it is a slice of.
        of: String,
        /// The dimensions of that.
        parent: Vec<usize>,
    },
    /// A node read where it is being changed, under another name.
    #[error(
        "node {node} is read while node {target} is written, and the elements of both are in {home}; write to another \
         node first"
    )]
    ReadThroughView {
        /// The node read.
        node: String,
        /// The node written.
        target: String,
        /// The node that has the elements of both.
        home: String,
    },
    /// Draws that are too few or too many for the node that they fill.
    #[error(
        "node {node}: `{distribution}({of})` takes a draw for each chunk of the last axis, so {of} with dimensions {expected:?}, found {found:?}"
    )]
    DrawsShape {
        /// The node's name.
        node: String,
        /// The name of the node with the draws.
        of: String,
        /// What is made of them.
        distribution: &'static str,
        /// Its dimensions.
        found: Vec<usize>,
        /// What they should be.
        expected: Vec<usize>,
    },
    /// A random number with more indices than a counter holds.
    #[error("node {node}: a random number has at most {limit} indices, found {found}")]
    RandomIndices {
        /// The name of the node written.
        node: String,
        /// How many there are.
        found: usize,
        /// How many there may be.
        limit: usize,
    },
    /// The merge buffer of a node without memory.
    #[error("node {node} is {view} and has no merge buffer of its own; read that of its parent")]
    MergeOfView {
        /// The node's name.
        node: String,
        /// What it is a view of.
        view: String,
    },
    /// The size of an axis that a node does not have.
    #[error("node {node} has dimensions {dims:?}, found axis {axis}")]
    NoSuchAxis {
        /// The node's name.
        node: String,
        /// Its dimensions.
        dims: Vec<usize>,
        /// The axis asked for.
        axis: usize,
    },
    /// Two merge buffers in one routine.
    #[error("a routine reads at most one merge buffer, found those of nodes {first} and {second}")]
    TwoMergeBuffers {
        /// One node.
        first: String,
        /// The other.
        second: String,
    },
    /// A list of constants that is too long.
    #[error(
        "node {node}: a list of {found} constants, expected at most {limit}; give larger constants as host arrays"
    )]
    FillTooLong {
        /// The node's name.
        node: String,
        /// The length.
        found: usize,
        /// The limit.
        limit: usize,
    },
    /// A list of constants of the wrong length.
    #[error("node {node} has {expected} elements, found a list of {found} constants")]
    FillLength {
        /// The node's name.
        node: String,
        /// How many elements.
        expected: usize,
        /// The length.
        found: usize,
    },
    /// A computed index of a type that is no integer.
    #[error("node {node}: the index on axis {axis} is computed in {dtype}, expected an integer type")]
    IndexType {
        /// The name of the node indexed.
        node: String,
        /// The position of the index.
        axis: usize,
        /// The type of the index.
        dtype: tnode::DType,
    },
    /// A computed index of an operand that has no memory to look into.
    #[error("assignment to node {node}: {what} has a computed index, expected a node")]
    NothingToCompute {
        /// The name of the node written.
        node: String,
        /// What the operand is.
        what: &'static str,
    },
    /// An operation that its type does not have.
    #[error("assignment to node {node}: operation {op} is not defined for {dtype}")]
    Type {
        /// The name of the node written.
        node: String,
        /// The operation.
        op: &'static str,
        /// The type in which it would compute.
        dtype: tnode::DType,
    },
}

/// Lowers a program.
///
/// # Errors
/// See [`LowerError`]; nothing about the nodes has changed then, but that sizes and element types may be settled.
pub fn lower(assignments: &Assignments, options: &LowerOptions) -> Result<Lowered, LowerError> {
    let mut assignments = assignments.clone();
    let views = Views::find(&mut assignments)?;
    let assignments = &assignments;
    let nodes = homes(assignments, &views);
    let merge = only_merge_node(assignments)?;
    if let Some((node, view)) = merge.as_ref().and_then(|node| Some((node, node.view()?))) {
        return Err(LowerError::MergeOfView { node: node.name(), view: view.to_string() });
    }
    let (symbols, renumbering) = symbol_table(assignments, options)?;
    let ranges = bounds::symbol_ranges(assignments, &views, &symbols, &renumbering)?;
    let decls = nodes.iter().map(declaration).collect::<Result<Vec<_>, _>>()?;
    let refs: BTreeMap<TensorNode, NodeRef> =
        nodes.iter().enumerate().map(|(at, node)| (node.clone(), NodeRef(at as u32))).collect();
    let made = views.made(assignments);
    step::check_initialised(assignments, &views)?;
    let margins = Margins::new(assignments);
    let fresh = Fresh::default();
    let mut ctx = step::Ctx { refs, views, margins, ranges: ranges.clone(), renumbering, fresh };
    let mut body = step::lower_steps(&assignments.steps, &mut ctx)?;
    margins::restore(&mut ctx, &mut body)?;
    body.splice(0..0, empty::zeros(assignments, &ctx.views, |node| ctx.refs[node])?);
    let name = options.name.clone().unwrap_or_else(|| assignments.routine_name());
    let symbols =
        symbols.into_iter().zip(ranges).map(|(symbol, range)| Symbol { name: symbol.name, range }).collect();
    let routine = Routine { name, numerics: options.numerics, symbols, nodes: decls, body };
    Ok(Lowered { routine, nodes, merge, views: made })
}

/// The nodes that have memory or are computed, in order of first mention: for a view, its parent.
fn homes(assignments: &Assignments, views: &Views) -> Vec<TensorNode> {
    let mut nodes: Vec<TensorNode> = Vec::new();
    for node in assignments.nodes() {
        let (home, _) = views.home(&node);
        if !nodes.contains(&home) {
            nodes.push(home);
        }
    }
    nodes
}

fn only_merge_node(assignments: &Assignments) -> Result<Option<TensorNode>, LowerError> {
    match assignments.merge_nodes().as_slice() {
        [] => Ok(None),
        [node] => Ok(Some(node.clone())),
        [first, second, ..] => {
            Err(LowerError::TwoMergeBuffers { first: first.name(), second: second.name() })
        }
    }
}

fn declaration(node: &TensorNode) -> Result<NodeDecl, LowerError> {
    Ok(NodeDecl { name: node.name(), dtype: node.dtype(), dims: node.dims()?, mode: node.mode() })
}

/// The routine's symbols, and where each symbol of the assignments is among them.
fn symbol_table(
    assignments: &Assignments,
    options: &LowerOptions,
) -> Result<(Vec<StaticSymbol>, Vec<SymbolId>), LowerError> {
    let mut table: Vec<StaticSymbol> = Vec::new();
    let mut enter = |symbol: &StaticSymbol| {
        let Some(at) = table.iter().position(|s| s.name == symbol.name) else {
            table.push(symbol.clone());
            return Ok(SymbolId(table.len() as u32 - 1));
        };
        match (table[at].range, symbol.range) {
            (Some(first), Some(second)) if first != second => {
                Err(LowerError::SymbolConflict { name: symbol.name.clone(), first, second })
            }
            (known, given) => {
                table[at].range = known.or(given);
                Ok(SymbolId(at as u32))
            }
        }
    };
    for symbol in &options.symbols {
        enter(symbol)?;
    }
    let renumbering = assignments.symbols.iter().map(enter).collect::<Result<_, _>>()?;
    Ok((table, renumbering))
}
