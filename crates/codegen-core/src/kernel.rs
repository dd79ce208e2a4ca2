//! Kernels: lowered IR that determines every bit, and its ABI.

use std::any::Any;
use std::collections::BTreeSet;
use std::sync::Arc;

use lowered_ir::{
    ir::{
        ArrayRef, Bound, Expr, LoopId, LoopKind, LoweredRoutine, NodeDecl, NodeRef, Numerics, Stmt, Symbol,
        walk,
    },
    log,
    verify::{Verified, VerifyError},
};
use tnode::{DType, Dims, ModeState};

use crate::artifact::{Access, KernelAbi, Launch, LaunchEnd, Param};
use crate::choice::KernelChoice;
use crate::plan_slot::PlanSlot;

/// One kernel: a verified routine whose nodes are its parameters, in order, and an ABI that agrees with it.
///
/// Machine code is generated from kernels only and relies on both halves, so neither can be changed: a pass
/// takes a kernel apart with [`into_parts`](Kernel::into_parts) and makes another one.
///
/// On hosts, a kernel whose body is a single parallel loop may be called on sub-ranges of that loop; any
/// other kernel runs whole. For targets with workgroups [`crate::check_form`] specifies the form of kernels.
#[derive(Clone, Debug)]
pub struct Kernel {
    ir: Verified<LoweredRoutine>,
    abi: KernelAbi,
    choice: Option<KernelChoice>,
    plan: PlanSlot,
}

/// A contradiction between the ABI of a kernel and its IR.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum KernelError {
    /// The numbers of parameters and of nodes and symbols differ.
    #[error("kernel `{kernel}`: its ABI has {found} {what}, expected {expected} as in its IR")]
    Count { kernel: String, what: &'static str, expected: usize, found: usize },
    /// A static index precedes a memory parameter.
    #[error("kernel `{kernel}`: parameter {position} is memory, expected all memory before static indices")]
    Order { kernel: String, position: usize },
    /// A node and its parameter have different sizes.
    #[error("kernel `{kernel}`: the parameter of node {node} has {found} bytes, expected {expected}")]
    Bytes { kernel: String, node: NodeRef, expected: usize, found: usize },
    /// The IR stores into a node that is declared to be read only.
    #[error("kernel `{kernel}`: its parameter for node {node} is read only, and the IR writes the node")]
    Access { kernel: String, node: NodeRef },
    /// A node is read by `merge` without being a merge buffer, or a merge buffer is accessed otherwise.
    #[error("kernel `{kernel}`: node {node} is {found}, and its parameter is {expected}")]
    Merge { kernel: String, node: NodeRef, expected: &'static str, found: &'static str },
    /// A symbol and its static index have different ranges.
    #[error("kernel `{kernel}`: the static index of @{symbol} is in 0..{found}, expected 0..{expected}")]
    Range { kernel: String, symbol: String, expected: i64, found: i64 },
    /// The range of launches is not that of nested parallel loops. Its end may be the iterations of the
    /// outermost loop, of the two outermost loops, and so on, and 1 for a kernel that runs whole.
    #[error("kernel `{kernel}`: it is launched over 0..{found}, expected an end among {expected:?}")]
    Extent { kernel: String, expected: Vec<u64>, found: u64 },
    /// The end of the launches is not that of the parallel loop.
    #[error("kernel `{kernel}`: its launches end at {found:?}, expected {expected:?} as its loop does")]
    End { kernel: String, expected: Option<LaunchEnd>, found: Option<LaunchEnd> },
    /// The number of threads differs from that of the workgroup loops.
    #[error("kernel `{kernel}`: {found} threads run an iteration, expected {expected}")]
    Threads { kernel: String, expected: u32, found: u32 },
    /// The ABI and the IR have different log lines.
    #[error("kernel `{kernel}`: its ABI has {found} log lines, expected the {expected} of its statements")]
    Log { kernel: String, expected: usize, found: usize },
    /// The verifier rejects the IR.
    #[error(transparent)]
    Invalid(#[from] VerifyError),
}

type Checked<T = ()> = Result<T, KernelError>;

impl Kernel {
    /// Combines verified IR with its ABI.
    ///
    /// # Errors
    ///
    /// [`KernelError`] if the ABI promises other memory, ranges, iterations or log lines than the IR has.
    /// `scratch_bytes`, the grain and the cost are estimates. `Write` and `WritePart` are promises about
    /// values, which are not checked.
    pub fn new(ir: Verified<LoweredRoutine>, abi: KernelAbi) -> Checked<Kernel> {
        let kernel = Kernel { ir, abi, choice: None, plan: PlanSlot::default() };
        kernel.check_params()?;
        kernel.check_mentions()?;
        kernel.check_launch()?;
        Ok(kernel)
    }

    /// Verifies IR and makes a kernel of it: for passes that rewrite kernels.
    ///
    /// # Errors
    ///
    /// [`KernelError::Invalid`] if the verifier rejects the IR, and the errors of [`Kernel::new`].
    pub fn verified(ir: LoweredRoutine, abi: KernelAbi) -> Checked<Kernel> {
        Kernel::new(Verified::new(ir)?, abi)
    }

    /// A kernel for handwritten code: it has this ABI, and IR that does nothing.
    ///
    /// # Errors
    ///
    /// [`KernelError::Invalid`] if a parameter is larger than a node may be, and [`KernelError::Order`].
    pub fn opaque(abi: KernelAbi) -> Checked<Kernel> {
        let memory = abi.memory().enumerate().map(|(at, (_, bytes))| NodeDecl {
            name: format!("p{at}"),
            dtype: DType::U8,
            dims: Dims::from_slice(&[bytes]),
            mode: ModeState::undecided(),
        });
        let symbols =
            abi.static_ranges().enumerate().map(|(at, range)| Symbol::parameter(format!("s{at}"), range));
        let (nodes, symbols) = (memory.collect(), symbols.collect());
        let body = match i64::try_from(abi.launch.extent) {
            Ok(extent) if extent != 1 => vec![Stmt::looped(LoopId(0), extent, LoopKind::Parallel, vec![])],
            _ => vec![],
        };
        let ir = LoweredRoutine { name: "opaque".into(), numerics: Numerics::Strict, symbols, nodes, body };
        let kernel = Kernel { ir: Verified::new(ir)?, abi, choice: None, plan: PlanSlot::default() };
        kernel.check_params()?;
        Ok(kernel)
    }

    /// The IR of the kernel. Node `%i` is parameter `i`, and symbols are those that the body mentions. The
    /// interpreter can run it.
    pub fn ir(&self) -> &Verified<LoweredRoutine> {
        &self.ir
    }

    /// The parameters, launch, scratch memory and log lines of a call.
    pub fn abi(&self) -> &KernelAbi {
        &self.abi
    }

    /// The codegen's choice between forms of code that give the same bits; `None` if heuristics decide.
    pub fn choice(&self) -> Option<&KernelChoice> {
        self.choice.as_ref()
    }

    /// The same kernel with another choice, or with none. The codegen checks the choice when it compiles the
    /// kernel.
    #[must_use]
    pub fn with_choice(self, choice: Option<KernelChoice>) -> Kernel {
        Kernel { choice, ..self }
    }

    /// The plan of type `P` that the kernel keeps until it is compiled. If the kernel keeps none, `make`
    /// makes one, and the kernel keeps it.
    ///
    /// Clones share their plan. A kernel that is made from parts starts without one, and
    /// [`Code`](crate::Code) drops the plans of its kernels. A plan of another type is not replaced; `make`
    /// then runs at each call.
    ///
    /// Only code that can name `P` reads or writes such a plan. A codegen whose `P` is private therefore gets
    /// its own plan for this very kernel. If the plan depends on more than the kernel, `P` records it, and
    /// the codegen compares.
    ///
    /// # Errors
    ///
    /// The error of `make`; then no plan is kept.
    pub fn plan_once<P: Any + Send + Sync, E>(
        &self,
        make: impl FnOnce() -> Result<P, E>,
    ) -> Result<Arc<P>, E> {
        self.plan.get_or_make(make)
    }

    /// Drops the kernel's plan. Its clones keep it.
    pub(crate) fn forget_plan(&mut self) {
        self.plan = PlanSlot::default();
    }

    /// Takes the kernel apart into its IR and its ABI. Its choice is lost, as that of another kernel does not
    /// fit.
    pub fn into_parts(self) -> (Verified<LoweredRoutine>, KernelAbi) {
        (self.ir, self.abi)
    }

    /// The iterations that a host may split a call into: those of a parallel loop that is the whole body,
    /// else 1.
    pub fn host_extent(&self) -> u64 {
        extents(&self.ir.body).first().copied().unwrap_or(1)
    }

    fn name(&self) -> String {
        self.abi.name.clone()
    }

    /// Checks the number, order, sizes and ranges of parameters.
    fn check_params(&self) -> Checked {
        let (memory, ranges): (Vec<_>, Vec<_>) =
            (self.abi.memory().collect(), self.abi.static_ranges().collect());
        self.count("memory parameters", self.ir.nodes.len(), memory.len())?;
        self.count("static indices", self.ir.symbols.len(), ranges.len())?;
        let late = |param: &Param| !matches!(param, Param::StaticIndex { .. });
        if let Some(behind) = self.abi.params[memory.len()..].iter().position(late) {
            return Err(KernelError::Order { kernel: self.name(), position: memory.len() + behind });
        }
        for ((node, decl), &(_, found)) in self.ir.node_refs().zip(&memory) {
            // Verified nodes have sizes; on a target whose addresses are narrower, none is equal to any
            // parameter's.
            let expected = decl.size_bytes().unwrap_or(usize::MAX);
            if expected != found {
                return Err(KernelError::Bytes { kernel: self.name(), node, expected, found });
            }
        }
        for (symbol, &found) in self.ir.symbols.iter().zip(&ranges) {
            if symbol.range != found {
                let (symbol, expected) = (symbol.name.clone(), symbol.range);
                return Err(KernelError::Range { kernel: self.name(), symbol, expected, found });
            }
        }
        Ok(())
    }

    fn count(&self, what: &'static str, expected: usize, found: usize) -> Checked {
        match expected == found {
            true => Ok(()),
            false => Err(KernelError::Count { kernel: self.name(), what, expected, found }),
        }
    }

    /// Checks that the IR accesses nodes as their parameters allow.
    fn check_mentions(&self) -> Checked {
        let mentions = Mentions::of(&self.ir.body);
        for ((node, _), param) in self.ir.node_refs().zip(&self.abi.params) {
            let merge = |expected, found| KernelError::Merge { kernel: self.name(), node, expected, found };
            match param {
                Param::MergeBuffer { .. } if mentions.touched.contains(&node) => {
                    return Err(merge("a merge buffer", "touched by other than `merge`"));
                }
                Param::Node { .. } if mentions.merged.contains(&node) => {
                    return Err(merge("no merge buffer", "read by `merge`"));
                }
                Param::Node { access: Access::Read, .. } if mentions.written.contains(&node) => {
                    return Err(KernelError::Access { kernel: self.name(), node });
                }
                Param::Node { .. } | Param::MergeBuffer { .. } | Param::StaticIndex { .. } => {}
            }
        }
        Ok(())
    }

    /// Checks launches against parallel and workgroup loops, and log lines against the IR.
    fn check_launch(&self) -> Checked {
        let launch = self.abi.launch;
        if launch.extent != 1 && !extents(&self.ir.body).contains(&launch.extent) {
            let expected = extents(&self.ir.body);
            let expected = if expected.is_empty() { vec![1] } else { expected };
            return Err(KernelError::Extent { kernel: self.name(), expected, found: launch.extent });
        }
        if launch.extent != 1
            && let expected = Launch::divided(&self.ir.body).end
            && launch.end != expected
        {
            return Err(KernelError::End { kernel: self.name(), expected, found: launch.end });
        }
        let (expected, found) = (Launch::whole(&self.ir.body).threads, launch.threads);
        if expected != found {
            return Err(KernelError::Threads { kernel: self.name(), expected, found });
        }
        let lines = log::lines(&self.ir);
        if *lines != *self.abi.log {
            let (expected, found) = (lines.len(), self.abi.log.len());
            return Err(KernelError::Log { kernel: self.name(), expected, found });
        }
        Ok(())
    }
}

/// Whether a call can run a part of a parallel loop `lo..hi`: the end is constant, or follows from one symbol
/// and the loop begins at 0, so that [`Launch`] states it.
pub fn is_divisible(lo: i64, hi: &Bound) -> bool {
    hi.is_constant() || lo == 0 && LaunchEnd::of(hi).is_some()
}

/// The iterations of the parallel loops that nest around all other statements: of the outermost loop, of the
/// two outermost loops together, and so on. A loop that ends at a symbol counts as if it ran to its limit.
pub fn extents(mut body: &[Stmt]) -> Vec<u64> {
    let mut extents = Vec::new();
    let mut product = 1u64;
    while let [Stmt::For { lo, hi, kind: LoopKind::Parallel, body: inner, .. }] = body
        && is_divisible(*lo, hi)
    {
        product = product.saturating_mul(hi.limit.saturating_sub(*lo).max(0).unsigned_abs());
        extents.push(product);
        body = inner;
    }
    extents
}

/// The nodes of a body by the kind of access.
#[derive(Default)]
struct Mentions {
    written: BTreeSet<NodeRef>,
    /// Nodes that `merge` reads.
    merged: BTreeSet<NodeRef>,
    /// Nodes that are read otherwise, or written.
    touched: BTreeSet<NodeRef>,
}

impl Mentions {
    fn of(body: &[Stmt]) -> Mentions {
        let written: BTreeSet<NodeRef> =
            walk::stmts(body).filter_map(Stmt::array).filter_map(ArrayRef::node).collect();
        let read = walk::parts_in(body).filter_map(Expr::array).filter_map(ArrayRef::node);
        let merged = walk::parts_in(body).filter_map(|expr| match expr {
            Expr::GetMerge { node, .. } => Some(*node),
            _ => None,
        });
        let (touched, merged) = (written.iter().copied().chain(read).collect(), merged.collect());
        Mentions { touched, merged, written }
    }
}
