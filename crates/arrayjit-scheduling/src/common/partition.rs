//! Kernel partitioning: splits a routine into kernels.
//!
//! A top-level parallel loop is a kernel, so that several threads can run its iterations after everything
//! that it depends on. Consecutive other statements share a kernel, or several if they are many, because
//! compiling a kernel takes more than twice as long as compiling its halves: see [`groups`](super::groups).
//! The kernels in a scan are called once for each step. Kernels that differ in names and in the texts of
//! comments only are kept once, with the comments of the first, and are analyzed, verified and compiled once.

use std::collections::{BTreeMap, BTreeSet};

use lowered_ir::ir::{
    Affine, IdMap, LocalId, LoopId, LoweredRoutine, NodeDecl, NodeRef, Quotient, Stmt, Symbol, SymbolId, Var,
    Words,
};
use lowered_ir::log;
use lowered_ir::passes::access::{Facts, analyze};
use lowered_ir::verify::verify;

use crate::analysis::nodes::node_bytes;
use crate::analysis::remarks::{hash_without_remarks, is_same_but_remarks};
use crate::analysis::rename::Renaming;
use crate::analysis::uses::{self, KernelNode, KernelSpans, RoutineUses};
use crate::analysis::{cost, rename};
use crate::common::groups::{Group, Groups, KernelOrder};
use crate::common::stack_arrays;
use codegen_core::Caps;
use codegen_core::artifact::{KernelAbi, Launch, Param};
use codegen_core::emit::ScratchLayout;
use codegen_core::kernel::{self, Kernel, KernelError};
use codegen_core::scheduled::{Binding, KernelCall, Slot};

/// The most bytes of local nodes in the private memory of a GPU's thread.
const PRIVATE_BYTES: usize = 256;

/// A kernel of serial statements ends when it has this many, unless a top-level local is in use there.
pub(crate) const KERNEL_STATEMENTS: usize = 512;

/// Partitions the body of a routine into kernels and calls, whose memory arguments are nodes or the merge
/// buffer. The routine loses its body.
/// `routine_uses` was analyzed before loops were tiled. A kernel of serial statements ends when it has
/// `limit` statements, where long ones count several times.
pub(crate) fn partition(
    routine: &mut LoweredRoutine,
    routine_uses: &RoutineUses,
    caps: &Caps,
    options: &crate::options::ScheduleOptions,
    limit: usize,
) -> Result<(Vec<Kernel>, Vec<KernelCall>), KernelError> {
    let (mut fresh, num_symbols) = (routine.fresh(), routine.symbols.len());
    let Groups { mut groups, runs } = Groups::of(routine, limit);
    let private = if caps.workgroups.is_some() { PRIVATE_BYTES } else { usize::MAX };
    stack_arrays::move_to_stack(&mut groups, routine, &mut fresh, options.stack_bytes.min(private));
    let spans = KernelSpans::of(&groups);
    let mut kernels: Vec<Kernel> = Vec::new();
    let mut calls = Vec::new();
    let mut known: IdMap<Vec<u64>, Vec<DistinctBody>> = IdMap::default();
    for (at, group) in groups.iter().enumerate() {
        let (mut ir, names) = draft(routine, &group.body);
        let alike = known.entry(words(&ir)).or_default();
        let is_known =
            |body: &DistinctBody| body.kernels.first().is_some_and(|&at| is_same(&kernels[at], &ir));
        let found = alike.iter().position(is_known).unwrap_or_else(|| {
            alike.push(DistinctBody::of(&ir, caps, options));
            alike.len() - 1
        });
        let body = &mut alike[found];
        let params = params(&ir, &names, &body.facts, (at, group), routine_uses, &spans);
        let kernel = match body.kernels.iter().find(|&&at| kernels[at].abi().params == params) {
            Some(&at) => at,
            None => {
                let name = format!("{}_k{}", routine.name, kernels.len());
                ir.name.clone_from(&name);
                body.kernels.push(kernels.len());
                kernels.push(Kernel::verified(ir, KernelAbi { name, params, ..body.abi.clone() })?);
                kernels.len() - 1
            }
        };
        calls.push(names.call(kernel));
    }
    routine.symbols.truncate(num_symbols);
    let mut in_order = Vec::new();
    unroll(&runs, &calls, &mut BTreeMap::new(), &mut in_order);
    Ok((kernels, in_order))
}

/// Appends the calls in the order in which they run. `calls` has one of each group, and `steps` the numbers
/// of the scans around them.
fn unroll(
    runs: &[KernelOrder],
    calls: &[KernelCall],
    steps: &mut BTreeMap<SymbolId, i64>,
    in_order: &mut Vec<KernelCall>,
) {
    for run in runs {
        match run {
            KernelOrder::Group(at) => {
                let mut call = calls[*at].clone();
                for binding in &mut call.bindings {
                    if let Binding::Symbol(symbol) = binding
                        && let Some(step) = steps.get(symbol)
                    {
                        *binding = Binding::Step(*step);
                    }
                }
                in_order.push(call);
            }
            KernelOrder::Scan { step, steps: count, runs } => {
                for at in 0..*count {
                    steps.insert(*step, at);
                    unroll(runs, calls, steps, in_order);
                }
            }
        }
    }
}

/// The IR of one or several kernels that differ in their accesses to parameters only, which the calls around
/// them determine too.
struct DistinctBody {
    /// The kernels, by position.
    kernels: Vec<usize>,
    /// The ABI without a name and parameters.
    abi: KernelAbi,
    facts: Facts,
}

impl DistinctBody {
    /// Analyzes the IR of a new kernel.
    fn of(ir: &LoweredRoutine, caps: &Caps, options: &crate::options::ScheduleOptions) -> DistinctBody {
        let abi = KernelAbi {
            name: String::new(),
            params: Vec::new(),
            launch: launch(ir, caps, options),
            scratch_bytes: ScratchLayout::new(&ir.body, caps.alignment).bytes,
            log: log::lines(ir).into(),
            cost: cost::cost(ir),
        };
        DistinctBody { kernels: Vec::new(), abi, facts: analyze(ir) }
    }
}

/// The IR of a kernel under a name that all share, and the names in it.
///
/// A kernel states how its sizes follow from others only where the verifier needs that to prove its indices,
/// so that kernels over different sizes are else equal.
fn draft(routine: &LoweredRoutine, body: &[Stmt]) -> (LoweredRoutine, KernelNames) {
    let (ir, names) = draft_with(routine, body, KernelNames::default(), &BTreeMap::new());
    let quotient = |symbol| Symbol::exact_quotient(&routine.symbols, symbol);
    if names.symbols.iter().all(|&symbol| quotient(symbol).is_none()) || verify(&ir).is_ok() {
        return (ir, names);
    }
    // Dividends come before their quotients, as in the routine.
    let mut mentioned: BTreeSet<SymbolId> = BTreeSet::new();
    let mut open = names.symbols;
    while let Some(symbol) = open.pop() {
        if mentioned.insert(symbol) {
            open.extend(quotient(symbol).into_iter().flat_map(|quotient| symbols_of(&quotient.dividend)));
        }
    }
    let mut names = KernelNames::default();
    let mut promises = BTreeMap::new();
    for symbol in mentioned {
        names.symbol(symbol);
        promises.extend(quotient(symbol).map(|of| {
            let mut quotient = of.clone();
            quotient.dividend = rename::renamed(&quotient.dividend, &mut names);
            (symbol, quotient)
        }));
    }
    draft_with(routine, body, names, &promises)
}

fn draft_with(
    routine: &LoweredRoutine,
    body: &[Stmt],
    mut names: KernelNames,
    promises: &BTreeMap<SymbolId, Quotient>,
) -> (LoweredRoutine, KernelNames) {
    let body = rename::rename(body, &mut names);
    let ir = LoweredRoutine {
        name: "kernel".into(),
        numerics: routine.numerics,
        symbols: names.symbols.iter().map(|&s| kernel_symbol(routine, s, promises.get(&s))).collect(),
        nodes: names.nodes.iter().enumerate().map(|(i, &(node, _))| parameter(routine, i, node)).collect(),
        body,
    };
    (ir, names)
}

/// The symbols of an index.
fn symbols_of(index: &Affine) -> impl Iterator<Item = SymbolId> {
    index.terms().iter().filter_map(|&(var, _)| match var {
        Var::Symbol(symbol) => Some(symbol),
        Var::Loop(_) => None,
    })
}

/// The statements without the texts of comments, as a key that kernels which [`is_same`] finds equal have in
/// common.
fn words(ir: &LoweredRoutine) -> Vec<u64> {
    let mut words = Words::default();
    hash_without_remarks(&ir.body, &mut words);
    words.0
}

/// Whether a codegen sees no difference to the IR of a kernel but names and the texts of comments.
fn is_same(kernel: &Kernel, ir: &LoweredRoutine) -> bool {
    let LoweredRoutine { name: _, numerics, symbols, nodes, body } = &**kernel.ir();
    let is_same_node = |(a, b): (&NodeDecl, &NodeDecl)| (a.dtype, &a.dims) == (b.dtype, &b.dims);
    (numerics, symbols, nodes.len()) == (&ir.numerics, &ir.symbols, ir.nodes.len())
        && nodes.iter().zip(&ir.nodes).all(is_same_node)
        && is_same_but_remarks(body, &ir.body)
}

/// Each symbol is a parameter of the kernel.
fn kernel_symbol(routine: &LoweredRoutine, symbol: SymbolId, promise: Option<&Quotient>) -> Symbol {
    Symbol { quotient: None, promise: promise.cloned(), is_step: false, ..routine.symbol(symbol).clone() }
}

fn parameter(routine: &LoweredRoutine, position: usize, node: NodeRef) -> NodeDecl {
    let decl = routine.node(node);
    NodeDecl { name: format!("p{position}"), mode: tnode::ModeState::undecided(), ..decl.clone() }
}

fn params(
    ir: &LoweredRoutine,
    names: &KernelNames,
    facts: &Facts,
    (group, of): (usize, &Group),
    routine_uses: &RoutineUses,
    spans: &KernelSpans,
) -> Vec<Param> {
    let memory = ir.node_refs().zip(&names.nodes).map(|((own, decl), &(node, merge))| {
        let bytes = node_bytes(decl);
        if merge {
            Param::MergeBuffer { bytes }
        } else {
            Param::Node {
                access: uses::access_of(
                    &KernelNode { own, node, group, is_in_scan: of.is_in_scan },
                    facts,
                    routine_uses,
                    spans,
                ),
                bytes,
            }
        }
    });
    let symbols = ir.symbols.iter().map(|symbol| Param::StaticIndex { range: symbol.range });
    memory.chain(symbols).collect()
}

fn launch(ir: &LoweredRoutine, caps: &Caps, options: &crate::options::ScheduleOptions) -> Launch {
    let extent = extent(&ir.body, caps.workgroups.is_some());
    let divided = Launch { extent: extent.max(1), ..Launch::divided(&ir.body) };
    if extent <= 1 {
        return divided;
    }
    let each = cost::work(&ir.body, ir, &ir.locals()) / extent as f64;
    let grain = (options.grain_work as f64 / each.max(1.0)).ceil() as u64;
    Launch { grain: grain.clamp(1, extent), ..divided }
}

/// The iterations of the parallel loop that is the whole body, or of all parallel loops that nest in it.
fn extent(body: &[Stmt], nested: bool) -> u64 {
    let extents = kernel::extents(body);
    let of_loops = if nested { extents.last() } else { extents.first() };
    of_loops.copied().unwrap_or(1)
}

/// Numbers a kernel's nodes and symbols in the order of first mention.
#[derive(Default)]
struct KernelNames {
    nodes: Vec<(NodeRef, bool)>,
    node_places: BTreeMap<(NodeRef, bool), u32>,
    symbols: Vec<SymbolId>,
    symbol_places: BTreeMap<SymbolId, u32>,
    loops: BTreeMap<LoopId, LoopId>,
    locals: BTreeMap<LocalId, LocalId>,
}

impl KernelNames {
    /// The call of a kernel with the nodes and symbols in these places.
    fn call(&self, kernel: usize) -> KernelCall {
        let slot = |&(node, merge): &(NodeRef, bool)| match merge {
            true => Slot::Merge(node),
            false => Slot::Node(node),
        };
        let bindings = self.symbols.iter().map(|&symbol| Binding::Symbol(symbol)).collect();
        KernelCall { kernel, args: self.nodes.iter().map(slot).collect(), bindings }
    }
}

impl Renaming for KernelNames {
    fn node(&mut self, node: NodeRef, merge: bool) -> NodeRef {
        NodeRef(position(&mut self.nodes, &mut self.node_places, (node, merge)))
    }

    fn symbol(&mut self, symbol: SymbolId) -> SymbolId {
        SymbolId(position(&mut self.symbols, &mut self.symbol_places, symbol))
    }

    fn loop_var(&mut self, var: LoopId) -> LoopId {
        let next = LoopId(self.loops.len() as u32);
        *self.loops.entry(var).or_insert(next)
    }

    fn local(&mut self, local: LocalId) -> LocalId {
        let next = LocalId(self.locals.len() as u32);
        *self.locals.entry(local).or_insert(next)
    }
}

/// The position of an item in a list. New items are appended; `places` maps the items in the list to their
/// positions.
fn position<T: Copy + Ord>(list: &mut Vec<T>, places: &mut BTreeMap<T, u32>, item: T) -> u32 {
    *places.entry(item).or_insert_with(|| {
        list.push(item);
        list.len() as u32 - 1
    })
}
