//! The scheduled routine: kernels, and the calls that bind their parameters to nodes and temporaries.

use std::collections::{BTreeMap, BTreeSet};

use lowered_ir::ir::{NodeDecl, NodeRef, Symbol, SymbolId};

use crate::artifact::{KernelAbi, Param};
use crate::caps::BASE_ALIGNMENT;
use crate::choice::KernelChoice;
use crate::kernel::Kernel;

/// A routine split into kernels. A codegen compiles it, and a context links the result.
///
/// It is consistent: every call passes its kernel memory of the size and symbols within the ranges that the
/// kernel's ABI states, and temporaries that are alive together do not overlap. It cannot be changed, because
/// calls of compiled code rely on that; [`into_parts`](ScheduledRoutine::into_parts) returns its parts.
#[derive(Clone, Debug)]
pub struct ScheduledRoutine(RoutineParts);

/// The parts of a [`ScheduledRoutine`], unchecked.
#[derive(Clone, Debug)]
pub struct RoutineParts {
    /// The routine's name.
    pub name: String,
    /// The routine's static symbols, in binding order.
    pub symbols: Vec<Symbol>,
    /// The routine's nodes. A link finds the memory of all nodes that live in a context.
    pub nodes: Vec<NodeDecl>,
    /// The kernels, each once.
    pub kernels: Vec<Kernel>,
    /// The calls, in order.
    pub calls: Vec<KernelCall>,
    /// Memory that lives during one run.
    pub temps: Vec<Temp>,
    /// The nodes, in order, that a run overwrites: it writes every element before it reads any, in one call
    /// or in several. So neither the run nor its result depends on previous values of these nodes. Other
    /// nodes may have this property too, if it was not proved. Nodes without elements that the routine writes
    /// are included, although no call accesses them.
    pub overwritten: Vec<NodeRef>,
}

/// A call of a kernel with its parameters bound to the routine's slots.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KernelCall {
    /// The kernel, as a position in [`ScheduledRoutine::kernels`] and in the artifact's kernels.
    pub kernel: usize,
    /// One slot per memory parameter of the kernel (per node of its IR).
    pub args: Vec<Slot>,
    /// What gives each symbol of the kernel its value.
    pub bindings: Vec<Binding>,
}

/// What gives a symbol of a kernel its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Binding {
    /// A symbol of the routine.
    Symbol(SymbolId),
    /// A number: the step of a scan, which has calls of its own for each step.
    Step(i64),
}

impl Binding {
    /// The value, from those of the routine's symbols.
    pub fn value(self, symbols: &[i64]) -> i64 {
        match self {
            Binding::Symbol(symbol) => symbols[symbol.index()],
            Binding::Step(step) => step,
        }
    }
}

/// The argument for a memory parameter.
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

/// Memory that lives from the first to the last call that uses it. Temporaries with disjoint lifetimes may
/// share bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Temp {
    /// The local node whose values it holds.
    pub node: NodeRef,
    /// Size in bytes.
    pub bytes: usize,
    /// The offset in the routine's temporary pool; a multiple of [`BASE_ALIGNMENT`].
    pub offset: usize,
    /// The first and the last call that use it, as positions in [`ScheduledRoutine::calls`].
    pub live: (usize, usize),
}

/// The reason why parts are not a scheduled routine.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("routine `{routine}`: {problem}")]
pub struct RoutineError {
    /// The routine's name.
    pub routine: String,
    /// The contradiction.
    pub problem: RoutineProblem,
}

/// A contradiction between the parts of a scheduled routine.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum RoutineProblem {
    /// A call names a kernel that does not exist.
    #[error("call {call} is of kernel {kernel}, and there are {kernels}")]
    NoKernel { call: usize, kernel: usize, kernels: usize },
    /// A call passes more or fewer arguments than its kernel takes.
    #[error("call {call} passes {found} {what} to kernel `{kernel}`, expected {expected}")]
    Count { call: usize, kernel: String, what: &'static str, expected: usize, found: usize },
    /// A slot names a node or a temporary that does not exist.
    #[error("call {call} uses {slot:?}, which the routine does not declare")]
    NoSlot { call: usize, slot: Slot },
    /// A merge buffer is passed where a node is expected, or the other way round.
    #[error("call {call} passes {found:?} to kernel `{kernel}` as {expected:?}")]
    Kind { call: usize, kernel: String, expected: Param, found: Slot },
    /// A slot has another size than the parameter that it is bound to; `usize::MAX` if it has more bytes
    /// than there are addresses.
    #[error("call {call} passes {slot:?} of {found} bytes to kernel `{kernel}`, expected {expected}")]
    Bytes { call: usize, kernel: String, slot: Slot, expected: usize, found: usize },
    /// A call binds a symbol that does not exist.
    #[error("call {call} binds symbol {symbol}, and there are {symbols}")]
    NoSymbol { call: usize, symbol: usize, symbols: usize },
    /// A symbol may have values outside of the range that the kernel takes.
    #[error("call {call} passes @{symbol}, in 0..{found}, to kernel `{kernel}`, expected 0..{expected}")]
    Range { call: usize, kernel: String, symbol: String, expected: i64, found: i64 },
    /// A call binds a number outside of the range that the kernel takes.
    #[error("call {call} passes step {found} to kernel `{kernel}`, expected 0..{expected}")]
    Step { call: usize, kernel: String, expected: i64, found: i64 },
    /// A call uses a temporary outside of its lifetime, from its first to its last call.
    #[error("call {call} uses temporary {temp}, which is alive from call {} to {}", .live.0, .live.1)]
    NotAlive { call: usize, temp: usize, live: (usize, usize) },
    /// The offset of a temporary is not aligned.
    #[error("temporary {temp} is at byte {offset}, expected a multiple of {BASE_ALIGNMENT}")]
    Misaligned { temp: usize, offset: usize },
    /// The end of a temporary exceeds the address space.
    #[error("temporary {temp} has {bytes} bytes at byte {offset}, expected its end to be an address")]
    TooLarge { temp: usize, offset: usize, bytes: usize },
    /// Two temporaries that are alive together share bytes.
    #[error("temporaries {first} and {second} are alive together and overlap")]
    Overlap { first: usize, second: usize },
    /// A node that is listed as overwritten does not exist.
    #[error("{node} is overwritten, and there are {nodes} nodes")]
    NoNode { node: NodeRef, nodes: usize },
}

type Checked<T = ()> = Result<T, RoutineProblem>;

impl ScheduledRoutine {
    /// Checks that kernels and calls agree with each other.
    ///
    /// # Errors
    ///
    /// [`RoutineError`] with the first contradiction. `overwritten` is a promise about values, which is not
    /// checked.
    pub fn new(parts: RoutineParts) -> Result<ScheduledRoutine, RoutineError> {
        match parts.check() {
            Ok(()) => Ok(ScheduledRoutine(parts)),
            Err(problem) => Err(RoutineError { routine: parts.name, problem }),
        }
    }

    /// The parts of the routine, to be changed and checked again.
    pub fn into_parts(self) -> RoutineParts {
        self.0
    }

    /// The same routine under another name.
    #[must_use]
    pub fn renamed(mut self, name: &str) -> ScheduledRoutine {
        name.clone_into(&mut self.0.name);
        self
    }

    /// The same routine with a choice for each kernel, in order; kernels behind the end of `choices` keep
    /// theirs. See [`Kernel::with_choice`].
    #[must_use]
    pub fn with_choices(mut self, choices: Vec<Option<KernelChoice>>) -> ScheduledRoutine {
        for (kernel, choice) in self.0.kernels.iter_mut().zip(choices) {
            *kernel = kernel.clone().with_choice(choice);
        }
        self
    }

    /// The same routine without the plans that codegens keep with kernels until these are compiled.
    pub(crate) fn without_plans(mut self) -> ScheduledRoutine {
        self.0.kernels.iter_mut().for_each(Kernel::forget_plan);
        self
    }

    /// The routine's name, for errors and profiles.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The routine's static symbols with their ranges: the parameters in binding order, then the quotients.
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

    /// The memory that lives during one run.
    pub fn temps(&self) -> &[Temp] {
        &self.0.temps
    }

    /// The nodes that each run overwrites: see [`RoutineParts::overwritten`].
    pub fn overwritten(&self) -> &[NodeRef] {
        &self.0.overwritten
    }

    /// Bytes of the pool that holds all temporaries.
    pub fn temp_bytes(&self) -> usize {
        // `check_places` has checked that no end exceeds the address space.
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
        for (&binding, expected) in call.bindings.iter().zip(abi.static_ranges()) {
            self.check_binding(at, abi, binding, expected)?;
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

    fn check_binding(&self, at: usize, abi: &KernelAbi, binding: Binding, expected: i64) -> Checked {
        let symbol = match binding {
            Binding::Symbol(symbol) => symbol,
            Binding::Step(found) if (0..expected).contains(&found) => return Ok(()),
            Binding::Step(found) => {
                let kernel = abi.name.clone();
                return Err(RoutineProblem::Step { call: at, kernel, expected, found });
            }
        };
        let missing =
            RoutineProblem::NoSymbol { call: at, symbol: symbol.index(), symbols: self.symbols.len() };
        let symbol = self.symbols.get(symbol.index()).ok_or(missing)?;
        if symbol.range <= expected {
            return Ok(());
        }
        let (kernel, symbol, found) = (abi.name.clone(), symbol.name.clone(), symbol.range);
        Err(RoutineProblem::Range { call: at, kernel, symbol, expected, found })
    }

    /// Checks that every temporary is aligned and within the address space.
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

    /// Checks that temporaries which are alive together do not overlap. They enter in the order of their
    /// first calls, and leave after their last. The live ones do not overlap, so a new one overlaps a
    /// neighbor or none.
    fn check_overlap(&self) -> Checked {
        let mut order: Vec<usize> = (0..self.temps.len()).filter(|&at| self.temps[at].bytes > 0).collect();
        order.sort_by_key(|&at| self.temps[at].live.0);
        // The live temporaries by offset, and by last call.
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
            // Among the temporaries that begin before its end, the last one ends last, because they do not
            // overlap.
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
