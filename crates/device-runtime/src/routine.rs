//! Routines: code linked to a context, callable any number of times.

use std::{fmt, sync::Arc};

use lowered_ir::ir::Symbol;
use tnode::{HostArray, TensorNode};

use crate::{
    checked::MemoryRange,
    context::Context,
    copy::MergeBufferUse,
    error::RunError,
    event::Event,
    frontier::{Dependency, RunFlag},
    merge::{MergeBuffer, Merging},
    pool::{Buffer, Pool},
    stream::Stream,
    submit::{Kernels, MemoryTask, Use, in_order, submit},
    timing::RunTimes,
    transfer::Transfer,
};

/// A linked callable. Cheap to clone. Any thread may run it; runs are whole, and all use the same nodes.
#[derive(Clone)]
pub struct LinkedRoutine(pub(crate) Arc<RoutineInner>);

pub(crate) struct RoutineInner {
    pub(crate) context: Context,
    pub(crate) name: String,
    pub(crate) symbols: Vec<Symbol>,
    pub(crate) inputs: Vec<TensorNode>,
    pub(crate) outputs: Vec<TensorNode>,
    /// The nodes, including constants, that are read before they are written.
    pub(crate) reads: Vec<TensorNode>,
    pub(crate) ran: Arc<RunFlag>,
    pub(crate) dependencies: Vec<Dependency>,
    /// All node memory that the calls access, except the merge buffer, in lock order.
    pub(crate) uses: Vec<Use>,
    pub(crate) calls: Calls,
    /// The memory of the temporaries, kept alive for the kernels.
    pub(crate) _temps: Option<Arc<Pool>>,
}

/// The kernels of a routine, in order.
pub(crate) enum Calls {
    /// Kernels that are bound to all of their memory.
    Fixed(Kernels),
    /// Kernels that are bound except for the merge buffer.
    Merging(Merging),
    /// No kernel: a node is copied from another context, into the merge buffer or not.
    Transfer { node: TensorNode, source: Context, into_merge_buffer: bool },
}

impl LinkedRoutine {
    /// The context that has all nodes of the routine.
    pub fn context(&self) -> &Context {
        &self.0.context
    }

    /// The name given to the routine when it was compiled.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The parameters among the static symbols, in the order in which [`LinkedRoutine::run`] takes their
    /// values.
    pub fn bindings(&self) -> &[Symbol] {
        Symbol::parameters(&self.0.symbols)
    }

    /// Every combination of values of the static symbols, for [`LinkedRoutine::run`]; the first symbol varies
    /// slowest. One empty combination if there are no symbols.
    pub fn all_bindings(&self) -> impl Iterator<Item = Vec<i64>> + use<> {
        let symbols = self.bindings().to_vec();
        let has_values = |symbol: &Symbol| symbol.least < symbol.range;
        let least = || symbols.iter().map(|symbol| symbol.least).collect::<Vec<_>>();
        let first = symbols.iter().all(has_values).then(least);
        std::iter::successors(first, move |values| next_binding(values, &symbols))
    }

    /// The nodes, except constants, whose earlier values a run reads, in order.
    pub fn inputs(&self) -> &[TensorNode] {
        &self.0.inputs
    }

    /// The nodes, constants included, whose earlier values a run reads, in order.
    pub fn reads(&self) -> &[TensorNode] {
        &self.0.reads
    }

    /// The nodes that a run writes, in order.
    pub fn outputs(&self) -> &[TensorNode] {
        &self.0.outputs
    }

    /// The node that a run reads from the merge buffer, if it reads one.
    pub fn merge_buffer_input(&self) -> Option<&TensorNode> {
        match &self.0.calls {
            Calls::Fixed(_) | Calls::Transfer { .. } => None,
            Calls::Merging(merging) => Some(&merging.node),
        }
    }

    /// Returns the values that a run would read from the merge buffer, after everything scheduled before has
    /// written them; `None` if a run reads no merge buffer.
    ///
    /// # Errors
    ///
    /// [`RunError::MergeBuffer`] if the merge buffer holds another node or nothing, and an error with
    /// [`RunError::failure`] if a task before the copy failed.
    pub fn merge_buffer_values(&self) -> Result<Option<HostArray>, RunError> {
        let Calls::Merging(merging) = &self.0.calls else { return Ok(None) };
        let (context, stream) = (&self.0.context, self.0.context.stream());
        let buffer = Arc::clone(stream.merge_buffer()?.buffer_with(&merging.node, &self.0.name, stream)?);
        context.read_back(&merging.node, &buffer).map(Some)
    }

    /// Schedules one run on the context's stream, after everything on which it depends; `bindings` has one
    /// value per symbol.
    ///
    /// # Errors
    ///
    /// [`RunError::BindingCount`], [`RunError::BindingRange`] and [`RunError::MergeBuffer`], before anything
    /// is scheduled; [`RunError::Poisoned`] if an input has no value; errors of the device.
    pub fn run(&self, bindings: &[i64]) -> Result<Event, RunError> {
        self.run_with(bindings, None)
    }

    /// [`LinkedRoutine::run`] with the time of each kernel call. The times are complete when the event is
    /// done, and stay empty on devices that cannot time kernels.
    ///
    /// # Errors
    ///
    /// Fails like [`LinkedRoutine::run`].
    pub fn run_timed(&self, bindings: &[i64]) -> Result<(Event, Arc<RunTimes>), RunError> {
        let times = RunTimes::new(match &self.0.calls {
            Calls::Fixed(kernels) => kernels.len(),
            Calls::Merging(merging) => merging.calls.len(),
            Calls::Transfer { .. } => 0,
        });
        Ok((self.run_with(bindings, Some(&times))?, times))
    }

    fn run_with(&self, bindings: &[i64], times: Option<&Arc<RunTimes>>) -> Result<Event, RunError> {
        self.check_bindings(bindings)?;
        match &self.0.calls {
            Calls::Fixed(kernels) => self.submit(&self.0.uses, kernels, bindings, times),
            Calls::Merging(_) => {
                self.run_on_merge_buffer(&*self.0.context.stream().merge_buffer()?, bindings, times)
            }
            Calls::Transfer { node, source, into_merge_buffer } => {
                let mode = if *into_merge_buffer { MergeBufferUse::Copy } else { MergeBufferUse::No };
                let transfer = self.0.context.device_to_device(node, mode, source)?;
                self.0.ran.set();
                match transfer {
                    Transfer::Scheduled(event) => Ok(event),
                    Transfer::NothingToDo(_) => self.0.context.stream().all_work(),
                }
            }
        }
    }

    /// Runs on the contents of the merge buffer, which the caller has locked.
    pub(crate) fn run_on_merge_buffer(
        &self,
        merge_buffer: &MergeBuffer,
        bindings: &[i64],
        times: Option<&Arc<RunTimes>>,
    ) -> Result<Event, RunError> {
        let Calls::Merging(merging) = &self.0.calls else { return self.run_with(bindings, times) };
        let buffer = merge_buffer.buffer_with(&merging.node, &self.0.name, self.0.context.stream())?;
        self.run_merging(buffer, &buffer.range, bindings, times)
    }

    /// Runs on a source in place of the merge buffer; the device accesses the source as `at`.
    pub(crate) fn run_merging(
        &self,
        source: &Arc<Buffer>,
        at: &MemoryRange,
        bindings: &[i64],
        times: Option<&Arc<RunTimes>>,
    ) -> Result<Event, RunError> {
        let Calls::Merging(merging) = &self.0.calls else { return self.run_with(bindings, times) };
        let kernels = merging.bound_to(source, at, &self.0.name, self.0.context.stream())?;
        let mut uses = self.0.uses.clone();
        if !uses.iter().any(|used| Arc::ptr_eq(&used.buffer, source)) {
            uses.push(Use::merged(source));
        }
        self.submit(&in_order(uses), &kernels, bindings, times)
    }

    fn submit(
        &self,
        uses: &[Use],
        kernels: &Kernels,
        bindings: &[i64],
        times: Option<&Arc<RunTimes>>,
    ) -> Result<Event, RunError> {
        let routine = &*self.0;
        let stream = routine.context.stream();
        let _span =
            tracing::debug_span!("launch", routine = %routine.name, stream = %stream.name()).entered();
        routine.context.alive(|| format!("routine `{}`", routine.name))?;
        routine.context.upload_stale(&routine.reads)?;
        let symbols = Symbol::values(&routine.symbols, bindings);
        let task = match times {
            None => MemoryTask::Run(kernels, &symbols),
            Some(times) => MemoryTask::RunTimed(kernels, &symbols, times),
        };
        let event = submit(stream, uses, || format!("running `{}`", routine.name), &task)?;
        routine.context.wrote(&routine.outputs, &event);
        routine.ran.set();
        Ok(event)
    }

    /// The routines that this one depends on. They were linked before it in the ancestors of its context, and
    /// conflict with it: both use a node, and one of them writes it.
    pub fn dependencies(&self) -> &[Dependency] {
        &self.0.dependencies
    }

    /// Whether all [dependencies](LinkedRoutine::dependencies) have run, so that the routine finds the values
    /// for which it was linked. A run may be scheduled before that: it uses the current values.
    pub fn can_run(&self) -> bool {
        self.0.dependencies.iter().all(Dependency::is_met)
    }

    pub(crate) fn uses(&self) -> &[Use] {
        &self.0.uses
    }

    /// Checks that a run merges the node, of that many bytes, on the stream. Code that merges a node without
    /// elements has nothing to read.
    pub(crate) fn check_merges(
        &self,
        node: &TensorNode,
        bytes: usize,
        stream: &Stream,
    ) -> Result<(), RunError> {
        let own = self.0.context.stream();
        let merges = match self.merge_buffer_input() {
            Some(found) => found == node,
            None => bytes == 0,
        };
        if merges && own == stream {
            return Ok(());
        }
        let found = match self.merge_buffer_input() {
            Some(found) => format!("node `{}` from the merge buffer of {}", found.name(), own.name()),
            None => "no merge buffer".to_owned(),
        };
        let (routine, expected) = (self.0.name.clone(), node.name());
        Err(RunError::NotMerging { routine, expected, stream: stream.name(), found })
    }

    /// Checks bindings as [`LinkedRoutine::run`] does: one value per symbol, each in its range.
    ///
    /// # Errors
    ///
    /// [`RunError::BindingCount`] and [`RunError::BindingRange`].
    pub fn check_bindings(&self, bindings: &[i64]) -> Result<(), RunError> {
        let parameters = self.bindings();
        let (expected, found) = (parameters.len(), bindings.len());
        if expected != found {
            let names: Vec<_> = parameters.iter().map(|symbol| format!("@{}", symbol.name)).collect();
            let (routine, symbols) = (self.0.name.clone(), names.join(", "));
            let stream = self.0.context.stream().name();
            return Err(RunError::BindingCount { routine, stream, expected, symbols, found });
        }
        match Symbol::outside(&self.0.symbols, bindings) {
            Some((symbol, value)) => Err(RunError::BindingRange {
                routine: self.0.name.clone(),
                stream: self.0.context.stream().name(),
                symbol: symbol.name.clone(),
                range: symbol.least..symbol.range,
                value,
            }),
            None => Ok(()),
        }
    }
}

/// The combination after `values`, in the order of an odometer.
fn next_binding(values: &[i64], symbols: &[Symbol]) -> Option<Vec<i64>> {
    let at = (0..values.len()).rev().find(|&at| values[at] + 1 < symbols[at].range)?;
    let mut next = values.to_vec();
    next[at] += 1;
    next[at + 1..].iter_mut().zip(&symbols[at + 1..]).for_each(|(value, symbol)| *value = symbol.least);
    Some(next)
}

impl fmt::Debug for LinkedRoutine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LinkedRoutine").field("name", &self.0.name).field("context", &self.0.context).finish()
    }
}
