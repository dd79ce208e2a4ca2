//! Kernel partitioning: splits a routine into kernels.
//!
//! A top-level parallel loop is a kernel, so that several threads can run its iterations after everything
//! that it depends on. Consecutive other statements share a kernel, or several if they are many, because
//! compiling a kernel takes more than twice as long as compiling its halves. Statements from the declaration
//! of a top-level local to its last use stay together. Kernels that differ in names only are kept once.

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};

use lowered_ir::ir::{
    Block, LocalId, LoopId, LoopKind, NodeDecl, NodeRef, Routine, Stmt, Symbol, SymbolId, walk,
};
use lowered_ir::log;
use lowered_ir::passes::access::analyse;

use crate::analysis::nodes::node_bytes;
use crate::analysis::uses::{self, KernelNode, KernelSpans, RoutineUses};
use crate::analysis::{cost, rename};
use crate::common::stack_arrays;
use codegen_core::Caps;
use codegen_core::artifact::{KernelAbi, Launch, Param};
use codegen_core::dependence;
use codegen_core::emit::ScratchLayout;
use codegen_core::kernel::{self, Kernel, KernelError};
use codegen_core::scheduled::{KernelCall, Slot};

/// The most bytes of local nodes in the private memory of a GPU's thread.
const PRIVATE_BYTES: usize = 256;

/// A kernel of serial statements ends when it has this many, unless a top-level local is in use there.
pub(crate) const KERNEL_STATEMENTS: usize = 512;

/// Partitions a routine into kernels and calls, whose memory arguments are nodes or the merge buffer.
/// `routine_uses` was analysed before loops were tiled. A kernel of serial statements ends when it has
/// `limit` statements.
pub(crate) fn partition(
    routine: &Routine,
    routine_uses: &RoutineUses,
    caps: &Caps,
    options: &crate::options::ScheduleOptions,
    limit: usize,
) -> Result<(Vec<Kernel>, Vec<KernelCall>), KernelError> {
    let mut groups = groups(&routine.body, limit);
    let private = if caps.workgroups.is_some() { PRIVATE_BYTES } else { usize::MAX };
    stack_arrays::move_to_stack(&mut groups, routine, options.stack_bytes.min(private));
    let spans = KernelSpans::of(&groups);
    let mut kernels: Vec<Kernel> = Vec::new();
    let mut calls = Vec::new();
    let mut known: HashMap<u64, Vec<usize>> = HashMap::new();
    for (at, group) in groups.iter().enumerate() {
        let params = |ir: &Routine, names: &KernelNames| params(ir, names, at, routine_uses, &spans);
        let (mut ir, mut abi, mut call) = draft(routine, group, params, caps, options);
        let alike = known.entry(hash(&ir)).or_default();
        call.kernel = match alike.iter().find(|&&at| is_same(&kernels[at], &ir, &abi)) {
            Some(&at) => at,
            None => {
                let name = format!("{}_k{}", routine.name, kernels.len());
                abi.name.clone_from(&name);
                ir.name = name;
                alike.push(kernels.len());
                kernels.push(Kernel::verified(ir, abi)?);
                kernels.len() - 1
            }
        };
        calls.push(call);
    }
    Ok((kernels, calls))
}

/// The top-level statements of each kernel.
fn groups(body: &[Stmt], limit: usize) -> Vec<Block> {
    let ends = span_ends(body);
    let mut groups: Vec<Block> = Vec::new();
    let mut run = Block::new();
    let mut until = 0;
    let mut statements = 0;
    for (at, stmt) in body.iter().enumerate() {
        if statements >= limit && at >= until {
            close(&mut run, &mut groups);
            statements = 0;
        }
        until = until.max(ends.get(&at).copied().unwrap_or(0));
        walk::each_stmt(std::slice::from_ref(stmt), &mut |_| statements += 1);
        if is_parallel(stmt) && at >= until {
            // A comment before a parallel loop does not belong to the kernel before it.
            while let Some(Stmt::Comment(_)) = run.last() {
                run.pop();
            }
            close(&mut run, &mut groups);
            statements = 0;
            groups.push(vec![stmt.clone()]);
        } else {
            run.push(in_sequence(stmt.clone()));
        }
    }
    close(&mut run, &mut groups);
    groups
}

/// For each top-level declaration, the position after the last statement that mentions the local. All are
/// found in one walk, because legalised random numbers declare thousands of locals.
fn span_ends(body: &[Stmt]) -> BTreeMap<usize, usize> {
    let mut ends = BTreeMap::new();
    for (at, stmt) in body.iter().enumerate() {
        let used = dependence::locals_used(std::slice::from_ref(stmt));
        ends.extend(used.into_iter().map(|local| (local, at + 1)));
    }
    let declared = body.iter().enumerate().filter_map(|(at, stmt)| match stmt {
        Stmt::Declare { local, .. } => Some((at, ends.get(local).copied().unwrap_or(0))),
        _ => None,
    });
    declared.collect()
}

/// Ends a group of serial statements. A group of comments is dropped.
fn close(run: &mut Block, groups: &mut Vec<Block>) {
    let run = std::mem::take(run);
    if run.iter().any(|stmt| !matches!(stmt, Stmt::Comment(_))) {
        groups.push(run);
    }
}

/// Whether a statement is a parallel loop whose extent the ABI can state.
fn is_parallel(stmt: &Stmt) -> bool {
    matches!(stmt, Stmt::For { lo: 0, hi, kind: LoopKind::Parallel, .. } if hi.is_constant())
}

fn in_sequence(mut stmt: Stmt) -> Stmt {
    if let Stmt::For { kind: kind @ LoopKind::Parallel, .. } = &mut stmt {
        *kind = LoopKind::Serial;
    }
    stmt
}

fn draft(
    routine: &Routine,
    body: &[Stmt],
    params: impl FnOnce(&Routine, &KernelNames) -> Vec<Param>,
    caps: &Caps,
    options: &crate::options::ScheduleOptions,
) -> (Routine, KernelAbi, KernelCall) {
    let mut names = KernelNames::default();
    let body = rename::rename(body, &mut names);
    let ir = Routine {
        name: String::new(),
        numerics: routine.numerics,
        symbols: names.symbols.iter().map(|&s| kernel_symbol(routine, s)).collect(),
        nodes: names.nodes.iter().enumerate().map(|(i, &(node, _))| parameter(routine, i, node)).collect(),
        body,
    };
    let abi = KernelAbi {
        name: String::new(),
        params: params(&ir, &names),
        launch: launch(&ir, caps, options),
        scratch_bytes: ScratchLayout::new(&ir.body, caps.alignment).bytes,
        log: log::lines(&ir).into(),
        cost: cost::cost(&ir),
    };
    let args =
        names.nodes.iter().map(|&(node, merge)| if merge { Slot::Merge(node) } else { Slot::Node(node) });
    let call = KernelCall { kernel: 0, args: args.collect(), bindings: names.symbols.clone() };
    (ir, abi, call)
}

/// A hash of the statements, which kernels that [`is_same`] finds equal have in common.
fn hash(ir: &Routine) -> u64 {
    let mut hasher = DefaultHasher::new();
    ir.body.hash(&mut hasher);
    hasher.finish()
}

/// Whether a codegen sees no difference to a kernel but the names.
fn is_same(kernel: &Kernel, ir: &Routine, abi: &KernelAbi) -> bool {
    let nodes = |ir: &Routine| ir.nodes.iter().map(|n| (n.dtype, n.dims.clone())).collect::<Vec<_>>();
    let Routine { name: _, numerics, symbols, nodes: _, body } = &**kernel.ir();
    let KernelAbi { name: _, params, launch, scratch_bytes, log, cost } = kernel.abi();
    (numerics, symbols, body) == (&ir.numerics, &ir.symbols, &ir.body)
        && nodes(kernel.ir()) == nodes(ir)
        && (params, launch, scratch_bytes) == (&abi.params, &abi.launch, &abi.scratch_bytes)
        && (log, cost) == (&abi.log, &abi.cost)
}

fn kernel_symbol(routine: &Routine, symbol: SymbolId) -> Symbol {
    routine.symbol(symbol).clone()
}

fn parameter(routine: &Routine, position: usize, node: NodeRef) -> NodeDecl {
    let decl = routine.node(node);
    NodeDecl { name: format!("p{position}"), mode: tnode::ModeState::undecided(), ..decl.clone() }
}

fn params(
    ir: &Routine,
    names: &KernelNames,
    group: usize,
    routine_uses: &RoutineUses,
    spans: &KernelSpans,
) -> Vec<Param> {
    let facts = analyse(ir);
    let memory = ir.node_refs().zip(&names.nodes).map(|((own, decl), &(node, merge))| {
        let bytes = node_bytes(decl);
        if merge {
            Param::MergeBuffer { bytes }
        } else {
            Param::Node {
                access: uses::access_of(&KernelNode { own, node, group }, &facts, routine_uses, spans),
                bytes,
            }
        }
    });
    let symbols = ir.symbols.iter().map(|symbol| Param::StaticIndex { range: symbol.range });
    memory.chain(symbols).collect()
}

fn launch(ir: &Routine, caps: &Caps, options: &crate::options::ScheduleOptions) -> Launch {
    let extent = extent(&ir.body, caps.workgroups.is_some());
    let whole = Launch::whole(&ir.body);
    if extent <= 1 {
        return whole;
    }
    let each = cost::work(&ir.body, ir, &ir.locals()) / extent as f64;
    let grain = (options.grain_work as f64 / each.max(1.0)).ceil() as u64;
    Launch { extent, grain: grain.clamp(1, extent), ..whole }
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

impl rename::Renaming for KernelNames {
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
