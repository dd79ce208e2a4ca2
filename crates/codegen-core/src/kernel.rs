//! Kernels and the scheduled routine they make up: still lowered IR, every bit determined.

use lowered_ir::ir::{NodeDecl, NodeRef, Routine, Symbol, SymbolId};

use crate::artifact::KernelAbi;

/// One kernel: a routine whose nodes are its parameters, in order.
///
/// On hosts, if the body is a single parallel loop, the kernel may be called on sub-ranges of it; otherwise it runs whole. For
/// targets with workgroups [`crate::check_form`] says which form it has.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// What it computes. Node `%i` is parameter `i`; symbols are those the body mentions. Interpretable as it stands.
    pub ir: Routine,
    /// How it is called.
    pub abi: KernelAbi,
}

/// A routine cut into kernels: what a codegen compiles and a context links.
#[derive(Clone, Debug)]
pub struct ScheduledRoutine {
    /// The routine's name.
    pub name: String,
    /// The routine's static symbols, in binding order.
    pub symbols: Vec<Symbol>,
    /// The routine's nodes; those that live in a context are what a link resolves.
    pub nodes: Vec<NodeDecl>,
    /// The kernels, each once.
    pub kernels: Vec<Kernel>,
    /// The calls, in order.
    pub calls: Vec<KernelCall>,
    /// Memory that lives during one run.
    pub temps: Vec<Temp>,
    /// The nodes, in order, of which a run writes every element before it reads any, if only by all calls together: nothing that they
    /// held before can be seen in the run or after it. Others may be so too, where that is not found. Nodes without elements
    /// that the routine writes are among them, though no call touches them.
    pub overwritten: Vec<NodeRef>,
}

/// A call of a kernel with its parameters bound to the routine's slots.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KernelCall {
    /// Which kernel: a position in [`ScheduledRoutine::kernels`] and in the artifact's kernels.
    pub kernel: usize,
    /// One slot per memory parameter of the kernel (per node of its IR).
    pub args: Vec<Slot>,
    /// For each symbol of the kernel, the routine's symbol it is.
    pub bindings: Vec<SymbolId>,
}

/// What a memory parameter is bound to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Slot {
    /// A node of the context.
    Node(NodeRef),
    /// Temporary memory of the run.
    Temp(TempId),
    /// The stream's merge buffer, holding a copy of the node.
    Merge(NodeRef),
}

/// A temporary by its position in [`ScheduledRoutine::temps`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TempId(pub u32);

/// Memory that lives from the first to the last of the calls that use it. Temporaries whose lives do not meet may share bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Temp {
    /// Size in bytes.
    pub bytes: usize,
    /// Offset in the routine's temporary pool, planned from the lifetimes.
    pub offset: usize,
    /// The first and the last call that use it, as positions in [`ScheduledRoutine::calls`].
    pub live: (usize, usize),
}

impl ScheduledRoutine {
    /// Bytes of the pool that holds all temporaries.
    pub fn temp_bytes(&self) -> usize {
        self.temps.iter().map(|t| t.offset + t.bytes).max().unwrap_or(0)
    }
}
