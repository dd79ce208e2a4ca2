//! The scheduled routine: kernels, and the calls that bind their parameters to nodes and temporaries.

use std::collections::{BTreeMap, BTreeSet};

use lowered_ir::ir::{NodeDecl, NodeRef, Symbol, SymbolId};

use crate::artifact::{KernelAbi, Param};
use crate::caps::BASE_ALIGNMENT;
use crate::kernel::Kernel;

/// A routine cut into kernels. A codegen compiles it, and a context links the result.
///
/// It is consistent: every call passes its kernel memory of the size that the kernel's ABI states and symbols
/// within the ranges that it states, and temporaries that are alive together lie apart. It cannot be changed,
/// since calls of compiled code rely on that; [`into_parts`](ScheduledRoutine::into_parts) takes it apart.
#[derive(Clone, Debug)]
pub struct ScheduledRoutine(RoutineParts);

/// The parts of a [`ScheduledRoutine`], unchecked.
#[derive(Clone, Debug)]
pub struct RoutineParts {
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
    /// The nodes, in order, of which a run writes every element before it reads any, if only by all calls
    /// together: nothing that they held before can be seen in the run or after it. Others may be so too,
    /// where that is not found. Nodes without elements that the routine writes are among them, though no call
    /// touches them.
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

/// Memory that lives from the first to the last of the calls that use it. Temporaries whose lives do not meet
/// may share bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Temp {
    /// The local node whose values it holds.
    pub node: NodeRef,
    /// Size in bytes.
    pub bytes: usize,
    /// Offset in the routine's temporary pool, planned from the lifetimes; a multiple of [`BASE_ALIGNMENT`].
    pub offset: usize,
    /// The first and the last call that use it, as positions in [`ScheduledRoutine::calls`].
    pub live: (usize, usize),
}

/// Why parts make no scheduled routine.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("routine `{routine}`: {problem}")]
pub struct RoutineError {
    /// The routine's name.
    pub routine: String,
    /// The contradiction.
    pub problem: RoutineProblem,
}

/// How the parts of a scheduled routine contradict each other.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RoutineProblem {
    /// A call is of no kernel.
    #[error("call {call} is of kernel {kernel}, and there are {kernels}")]
    NoKernel {
        /// Position of the call.
        call: usize,
        /// Position that it names.
        kernel: usize,
        /// Number of them in the routine.
        kernels: usize,
    },
    /// A call passes more or fewer arguments than its kernel takes.
    #[error("call {call} passes {found} {what} to kernel `{kernel}`, expected {expected}")]
    Count {
        /// Position of the call.
        call: usize,
        /// The kernel's name.
        kernel: String,
        /// `slots` or `symbols`.
        what: &'static str,
        /// Number that the kernel takes.
        expected: usize,
        /// Number in the call.
        found: usize,
    },
    /// A slot names a node or a temporary that there is not.
    #[error("call {call} uses {slot:?}, which the routine does not declare")]
    NoSlot {
        /// Position of the call.
        call: usize,
        /// The slot.
        slot: Slot,
    },
    /// A merge buffer is passed where a node is expected, or the other way round.
    #[error("call {call} passes {found:?} to kernel `{kernel}` as {expected:?}")]
    Kind {
        /// Position of the call.
        call: usize,
        /// The kernel's name.
        kernel: String,
        /// The parameter.
        expected: Param,
        /// The slot that is passed.
        found: Slot,
    },
    /// A slot has another size than the parameter that it is bound to.
    #[error("call {call} passes {slot:?} of {found} bytes to kernel `{kernel}`, expected {expected}")]
    Bytes {
        /// Position of the call.
        call: usize,
        /// The kernel's name.
        kernel: String,
        /// The slot that is passed.
        slot: Slot,
        /// Bytes in the kernel's ABI.
        expected: usize,
        /// Bytes of the slot; `usize::MAX` if it has more than there are addresses.
        found: usize,
    },
    /// A call binds a symbol that there is not.
    #[error("call {call} binds symbol {symbol}, and there are {symbols}")]
    NoSymbol {
        /// Position of the call.
        call: usize,
        /// Position that it names.
        symbol: usize,
        /// Number of them in the routine.
        symbols: usize,
    },
    /// A symbol has values outside of the range that the kernel takes.
    #[error("call {call} passes @{symbol}, in 0..{found}, to kernel `{kernel}`, expected 0..{expected}")]
    Range {
        /// Position of the call.
        call: usize,
        /// The kernel's name.
        kernel: String,
        /// The symbol's name.
        symbol: String,
        /// The end of the range that the kernel's ABI states.
        expected: i64,
        /// The end of the symbol's range.
        found: i64,
    },
    /// A temporary is used by a call outside of its life.
    #[error("call {call} uses temporary {temp}, which is alive from call {} to {}", .live.0, .live.1)]
    NotAlive {
        /// Position of the call.
        call: usize,
        /// Position of the temporary.
        temp: usize,
        /// Its first and last call.
        live: (usize, usize),
    },
    /// A temporary begins at no multiple of the alignment.
    #[error("temporary {temp} is at byte {offset}, expected a multiple of {BASE_ALIGNMENT}")]
    Misaligned {
        /// Position of the temporary.
        temp: usize,
        /// Its first byte in the pool.
        offset: usize,
    },
    /// A temporary ends behind all addresses.
    #[error("temporary {temp} has {bytes} bytes at byte {offset}, expected its end to be an address")]
    TooLarge {
        /// Position of the temporary.
        temp: usize,
        /// Its first byte in the pool.
        offset: usize,
        /// Its size in bytes.
        bytes: usize,
    },
    /// Two temporaries that are alive at one time share bytes.
    #[error("temporaries {first} and {second} are alive together and overlap")]
    Overlap {
        /// One.
        first: usize,
        /// The other.
        second: usize,
    },
    /// A node that is said to be overwritten does not exist.
    #[error("{node} is overwritten, and there are {nodes} nodes")]
    NoNode {
        /// The node.
        node: NodeRef,
        /// Number of them in the routine.
        nodes: usize,
    },
}

type Checked<T = ()> = Result<T, RoutineProblem>;

impl ScheduledRoutine {
    /// A routine of kernels and calls that agree with each other.
    ///
    /// # Errors
    ///
    /// [`RoutineError`] with the first contradiction. What a run leaves in nodes (`overwritten`) is a promise
    /// about values, and is taken as it is.
    pub fn new(parts: RoutineParts) -> Result<ScheduledRoutine, RoutineError> {
        match parts.check() {
            Ok(()) => Ok(ScheduledRoutine(parts)),
            Err(problem) => Err(RoutineError { routine: parts.name, problem }),
        }
    }

    /// Takes the routine apart, to be changed and checked again.
    pub fn into_parts(self) -> RoutineParts {
        self.0
    }

    /// The same routine under another name.
    #[must_use]
    pub fn renamed(mut self, name: &str) -> ScheduledRoutine {
        name.clone_into(&mut self.0.name);
        self
    }

    /// The routine's name, for errors and profiles.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The routine's static symbols with their ranges, in binding order.
    pub fn symbols(&self) -> &[Symbol] {
        &self.0.symbols
    }

    /// The declarations of the routine's nodes. A link resolves the nodes that live in a context.
    pub fn nodes(&self) -> &[NodeDecl] {
        &self.0.nodes
    }

    /// The kernels that calls name by position.
    pub fn kernels(&self) -> &[Kernel] {
        &self.0.kernels
    }

    /// The calls, in the order in which they run.
    pub fn calls(&self) -> &[KernelCall] {
        &self.0.calls
    }

    /// Memory that lives during one run.
    pub fn temps(&self) -> &[Temp] {
        &self.0.temps
    }

    /// The nodes that each run overwrites, as [`RoutineParts::overwritten`] has them.
    pub fn overwritten(&self) -> &[NodeRef] {
        &self.0.overwritten
    }

    /// Bytes of the pool that holds all temporaries.
    pub fn temp_bytes(&self) -> usize {
        // No end is beyond all addresses, as `check_places` saw.
        self.0.temps.iter().map(|t| t.offset + t.bytes).max().unwrap_or(0)
    }
}

impl RoutineParts {
    fn check(&self) -> Checked {
        self.check_places()?;
        self.check_overlap()?;
        self.calls.iter().enumerate().try_for_each(|(at, call)| self.check_call(at, call))?;
        match self.overwritten.iter().find(|node| node.index() >= self.nodes.len()) {
            Some(&node) => Err(RoutineProblem::NoNode { node, nodes: self.nodes.len() }),
            None => Ok(()),
        }
    }

    fn check_call(&self, at: usize, call: &KernelCall) -> Checked {
        let (kernel, kernels) = (call.kernel, self.kernels.len());
        let missing = RoutineProblem::NoKernel { call: at, kernel, kernels };
        let abi = self.kernels.get(kernel).ok_or(missing)?.abi();
        count(at, abi, "slots", abi.memory().count(), call.args.len())?;
        count(at, abi, "symbols", abi.static_ranges().count(), call.bindings.len())?;
        for (&slot, &param) in call.args.iter().zip(&abi.params) {
            self.check_slot(at, abi, slot, param)?;
        }
        for (&symbol, expected) in call.bindings.iter().zip(abi.static_ranges()) {
            self.check_symbol(at, abi, symbol, expected)?;
        }
        Ok(())
    }

    fn check_slot(&self, at: usize, abi: &KernelAbi, slot: Slot, param: Param) -> Checked {
        let expected = match (param, slot) {
            (Param::Node { bytes, .. }, Slot::Node(_) | Slot::Temp(_)) => bytes,
            (Param::MergeBuffer { bytes }, Slot::Merge(_)) => bytes,
            _ => {
                let kernel = abi.name.clone();
                return Err(RoutineProblem::Kind { call: at, kernel, expected: param, found: slot });
            }
        };
        let found = self.slot_bytes(at, slot)?;
        if found == expected {
            return Ok(());
        }
        Err(RoutineProblem::Bytes { call: at, kernel: abi.name.clone(), slot, expected, found })
    }

    /// The size in bytes of a slot that a call uses.
    fn slot_bytes(&self, at: usize, slot: Slot) -> Checked<usize> {
        let missing = RoutineProblem::NoSlot { call: at, slot };
        match slot {
            Slot::Node(node) | Slot::Merge(node) => {
                let decl = self.nodes.get(node.index()).ok_or(missing)?;
                Ok(decl.size_bytes().unwrap_or(usize::MAX))
            }
            Slot::Temp(TempId(id)) => {
                let temp = self.temps.get(id as usize).ok_or(missing)?;
                match (temp.live.0..=temp.live.1).contains(&at) {
                    true => Ok(temp.bytes),
                    false => Err(RoutineProblem::NotAlive { call: at, temp: id as usize, live: temp.live }),
                }
            }
        }
    }

    fn check_symbol(&self, at: usize, abi: &KernelAbi, symbol: SymbolId, expected: i64) -> Checked {
        let missing =
            RoutineProblem::NoSymbol { call: at, symbol: symbol.index(), symbols: self.symbols.len() };
        let symbol = self.symbols.get(symbol.index()).ok_or(missing)?;
        if symbol.range <= expected {
            return Ok(());
        }
        let (kernel, symbol, found) = (abi.name.clone(), symbol.name.clone(), symbol.range);
        Err(RoutineProblem::Range { call: at, kernel, symbol, expected, found })
    }

    /// Every temporary begins at an aligned place and ends at an address.
    fn check_places(&self) -> Checked {
        for (temp, &Temp { bytes, offset, .. }) in self.temps.iter().enumerate() {
            if !offset.is_multiple_of(BASE_ALIGNMENT) {
                return Err(RoutineProblem::Misaligned { temp, offset });
            }
            if offset.checked_add(bytes).is_none() {
                return Err(RoutineProblem::TooLarge { temp, offset, bytes });
            }
        }
        Ok(())
    }

    /// Temporaries that are alive together lie apart. They enter in the order of their first calls, and those
    /// that have ended leave; all that are there lie apart, so a new one meets a neighbour or nothing.
    fn check_overlap(&self) -> Checked {
        let mut order: Vec<usize> = (0..self.temps.len()).filter(|&at| self.temps[at].bytes > 0).collect();
        order.sort_by_key(|&at| self.temps[at].live.0);
        // Those alive by offset, and by last call.
        let (mut alive, mut ends) = (BTreeMap::<usize, usize>::new(), BTreeSet::<(usize, usize)>::new());
        for second in order {
            let temp = &self.temps[second];
            while let Some(&(last, first)) = ends.first()
                && last < temp.live.0
            {
                ends.pop_first();
                alive.remove(&self.temps[first].offset);
            }
            let end = temp.offset + temp.bytes;
            // Of the temporaries that begin before its end, the last one ends last, since they lie apart.
            if let Some((_, &first)) = alive.range(..end).next_back()
                && self.temps[first].offset + self.temps[first].bytes > temp.offset
            {
                return Err(RoutineProblem::Overlap { first, second });
            }
            alive.insert(temp.offset, second);
            ends.insert((temp.live.1, second));
        }
        Ok(())
    }
}

fn count(call: usize, abi: &KernelAbi, what: &'static str, expected: usize, found: usize) -> Checked {
    match expected == found {
        true => Ok(()),
        false => Err(RoutineProblem::Count { call, kernel: abi.name.clone(), what, expected, found }),
    }
}
