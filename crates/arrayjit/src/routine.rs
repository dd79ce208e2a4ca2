//! Linked routines, on one backend or divided between a backend and its fallback.

use std::{any::Any, fmt::Debug, sync::Arc};

use device_runtime::{Context, Dependency, Event, RunError, RunTimes, Task};
use lowered_ir::ir::Symbol;
use tnode::{HostArray, TensorNode};

use crate::fallback::LinkedParts;

/// Observes the runs of a linked routine, and makes them.
pub(crate) trait RunObserver: Any + Debug + Send + Sync {
    /// Schedules one run of the routine.
    fn run(&self, routine: &Routine, bindings: &[i64]) -> Result<Event, RunError>;

    /// Whether runs that are scheduled as tasks are observed, by [`RunObserver::run_task`].
    fn observes_tasks(&self) -> bool;

    /// [`RunObserver::run`] in a task.
    fn run_task(&self, routine: &Routine, bindings: &[i64]) -> Result<Event, RunError>;

    /// Runs are being started in a way that passes by [`RunObserver::run`].
    fn passed_by(&self, how: &str);
}

/// A linked callable. Cheap to clone.
///
/// Any thread may run it. Runs are whole, and all use the same nodes: between a copy to an input and a run,
/// another thread may schedule its own copy. Threads with inputs of their own link the code in contexts of
/// their own.
///
/// Where statements [fall back](crate::Compiled::fallbacks), a run passes values through the host: it returns
/// when the last of these statements is done, and a task that another thread schedules on the same nodes
/// meanwhile may run between two parts.
#[derive(Clone, Debug)]
pub struct Routine {
    form: RoutineForm,
    /// Observes the runs, if the settings ask for it.
    observer: Option<Arc<dyn RunObserver>>,
}

#[derive(Clone, Debug)]
enum RoutineForm {
    Whole(device_runtime::LinkedRoutine),
    Divided(Arc<LinkedParts>),
}

impl Routine {
    pub(crate) fn divided(parts: LinkedParts) -> Routine {
        Routine { form: RoutineForm::Divided(Arc::new(parts)), observer: None }
    }

    /// The routine with an observer of its runs.
    pub(crate) fn observed(self, observer: Option<Arc<dyn RunObserver>>) -> Routine {
        Routine { observer, ..self }
    }

    /// The context that contains every node of the routine.
    pub fn context(&self) -> &Context {
        match &self.form {
            RoutineForm::Whole(routine) => routine.context(),
            RoutineForm::Divided(parts) => parts.context(),
        }
    }

    /// The name that errors, dumps and profiles show.
    pub fn name(&self) -> &str {
        match &self.form {
            RoutineForm::Whole(routine) => routine.name(),
            RoutineForm::Divided(parts) => parts.name(),
        }
    }

    /// The static symbols, in the order of the values that [`Routine::run`] takes.
    pub fn bindings(&self) -> &[Symbol] {
        self.any_part().map_or(&[], device_runtime::LinkedRoutine::bindings)
    }

    /// Every combination of values of the static symbols, for [`Routine::run`]; the first symbol varies
    /// slowest. One empty combination if there are no symbols.
    pub fn all_bindings(&self) -> impl Iterator<Item = Vec<i64>> + use<> {
        self.any_part().map(device_runtime::LinkedRoutine::all_bindings).into_iter().flatten()
    }

    /// The non-constant nodes whose earlier values a run reads, in order.
    pub fn inputs(&self) -> &[TensorNode] {
        match &self.form {
            RoutineForm::Whole(routine) => routine.inputs(),
            RoutineForm::Divided(parts) => parts.inputs(),
        }
    }

    /// The nodes that a run writes, in order.
    pub fn outputs(&self) -> &[TensorNode] {
        match &self.form {
            RoutineForm::Whole(routine) => routine.outputs(),
            RoutineForm::Divided(parts) => parts.outputs(),
        }
    }

    /// The node that a run reads from the merge buffer, if any.
    pub fn merge_buffer_input(&self) -> Option<&TensorNode> {
        match &self.form {
            RoutineForm::Whole(routine) => routine.merge_buffer_input(),
            RoutineForm::Divided(parts) => parts.merge_buffer_input(),
        }
    }

    /// Schedules one run on the context's stream, after everything it depends on; `bindings` has one value
    /// per symbol.
    ///
    /// # Errors
    ///
    /// A wrong number of bindings or one outside its range, before anything is scheduled;
    /// [`RunError::Poisoned`] if an input has no value; a device error. A run with statements that fall back
    /// also returns their errors, and the failures of the nodes they read; all outputs are poisoned then.
    pub fn run(&self, bindings: &[i64]) -> Result<Event, RunError> {
        match &self.observer {
            None => self.run_unobserved(bindings),
            Some(observer) => observer.run(self, bindings),
        }
    }

    /// [`Routine::run`] without an observer, with the times of the kernel calls of each part.
    pub(crate) fn run_timed(&self, bindings: &[i64]) -> Result<(Event, Vec<Arc<RunTimes>>), RunError> {
        match &self.form {
            RoutineForm::Whole(routine) => {
                routine.run_timed(bindings).map(|(event, times)| (event, vec![times]))
            }
            RoutineForm::Divided(parts) => parts.run_timed(bindings),
        }
    }

    /// [`Routine::run`] without an observer.
    pub(crate) fn run_unobserved(&self, bindings: &[i64]) -> Result<Event, RunError> {
        match &self.form {
            RoutineForm::Whole(routine) => routine.run(bindings),
            RoutineForm::Divided(parts) => parts.run(bindings),
        }
    }

    /// The nodes, constants included, whose earlier values a run reads.
    pub(crate) fn reads(&self) -> &[TensorNode] {
        match &self.form {
            RoutineForm::Whole(routine) => routine.reads(),
            RoutineForm::Divided(parts) => parts.reads(),
        }
    }

    /// The values that a run would read from the merge buffer; `None` if it reads none.
    pub(crate) fn merge_buffer_values(&self) -> Result<Option<HostArray>, RunError> {
        match &self.form {
            RoutineForm::Whole(routine) => routine.merge_buffer_values(),
            RoutineForm::Divided(parts) => parts.merge_buffer_values(),
        }
    }

    /// A task that schedules a run with these bindings, to be combined with others or run several times.
    /// Where statements fall back, the task waits like [`Routine::run`] and must not be passed to
    /// [`Task::enschedule`].
    ///
    /// # Errors
    ///
    /// A wrong number of bindings or one outside its range.
    pub fn schedule(&self, bindings: &[i64]) -> Result<Task, RunError> {
        self.pass_by("as a task");
        if let Some(observer) = self.observer.as_ref().filter(|observer| observer.observes_tasks()) {
            self.any_part().map_or(Ok(()), |part| part.check_bindings(bindings))?;
            let (routine, observer, bindings) = (self.clone(), Arc::clone(observer), bindings.to_vec());
            return Ok(Task::new(self.name(), move || observer.run_task(&routine, &bindings).map(drop)));
        }
        match &self.form {
            RoutineForm::Whole(routine) => routine.schedule(bindings),
            RoutineForm::Divided(parts) => {
                parts.check_bindings(bindings)?;
                let (parts, bindings) = (Arc::clone(parts), bindings.to_vec());
                Ok(Task::new(self.name(), move || parts.run(&bindings).map(drop)))
            }
        }
    }

    /// The earlier routines of its context's ancestry that use a common node, if either of the two writes it.
    pub fn dependencies(&self) -> &[Dependency] {
        match &self.form {
            RoutineForm::Whole(routine) => routine.dependencies(),
            RoutineForm::Divided(parts) => parts.order().dependencies(),
        }
    }

    /// Whether all [dependencies](Routine::dependencies) have run, so that the routine reads the values it
    /// was linked for. A run may be scheduled earlier: it reads the values that are present.
    pub fn can_run(&self) -> bool {
        match &self.form {
            RoutineForm::Whole(routine) => routine.can_run(),
            RoutineForm::Divided(parts) => parts.order().can_run(),
        }
    }

    /// The routine as a routine of the device, for
    /// [`MergeBufferUse::StreamingFor`](device_runtime::MergeBufferUse::StreamingFor); `None` where
    /// statements fall back.
    pub fn whole(&self) -> Option<&device_runtime::LinkedRoutine> {
        self.pass_by("as a routine of the device");
        match &self.form {
            RoutineForm::Whole(routine) => Some(routine),
            RoutineForm::Divided(_) => None,
        }
    }

    /// The observer of the runs, if there is one.
    pub(crate) fn observer(&self) -> Option<&dyn RunObserver> {
        self.observer.as_deref()
    }

    /// Tells the observer that runs are being started in a way that passes by it.
    fn pass_by(&self, how: &str) {
        if let Some(observer) = &self.observer {
            observer.passed_by(how);
        }
    }

    /// Any part, for facts that are the same for all parts.
    fn any_part(&self) -> Option<&device_runtime::LinkedRoutine> {
        match &self.form {
            RoutineForm::Whole(routine) => Some(routine),
            RoutineForm::Divided(parts) => parts.any_part(),
        }
    }
}

impl From<device_runtime::LinkedRoutine> for Routine {
    fn from(routine: device_runtime::LinkedRoutine) -> Routine {
        Routine { form: RoutineForm::Whole(routine), observer: None }
    }
}
