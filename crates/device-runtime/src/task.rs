//! Tasks: named sequences of functions that schedule work, which can be combined and run any number of times.
//!
//! A program passes a task around where the kind of scheduled work does not matter: a run of a routine with
//! its bindings, or several such runs one after the other. Running a task schedules work and does not wait
//! for it.

use std::{fmt, sync::Arc};

use crate::{error::RunError, routine::LinkedRoutine, stream::Stream};

type ScheduleFn = Arc<dyn Fn() -> Result<(), RunError> + Send + Sync>;

/// Steps that are scheduled in order. Cheap to clone.
///
/// ```
/// use std::sync::{Arc, Mutex};
/// use device_runtime::Task;
/// let log = Arc::new(Mutex::new(Vec::new()));
/// let note = |text: &'static str| {
///     let log = Arc::clone(&log);
///     move || Ok(log.lock().unwrap().push(text))
/// };
/// let task = Task::new("b", note("b")).prepend(note("a")).append(note("c"));
/// task.run()?;
/// task.run()?;
/// assert_eq!(*log.lock().unwrap(), ["a", "b", "c", "a", "b", "c"]);
/// # Ok::<(), device_runtime::RunError>(())
/// ```
#[derive(Clone)]
pub struct Task {
    name: Arc<str>,
    steps: Vec<ScheduleFn>,
}

impl Task {
    /// A task of one step.
    pub fn new(name: &str, step: impl Fn() -> Result<(), RunError> + Send + Sync + 'static) -> Task {
        Task { name: name.into(), steps: vec![Arc::new(step)] }
    }

    /// The task's name, for messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Schedules all steps in order.
    ///
    /// # Errors
    ///
    /// The error of the first step that fails; later steps are not scheduled.
    pub fn run(&self) -> Result<(), RunError> {
        self.steps.iter().try_for_each(|step| step())
    }

    /// The task with a step before its others.
    #[must_use]
    pub fn prepend(mut self, step: impl Fn() -> Result<(), RunError> + Send + Sync + 'static) -> Task {
        self.steps.insert(0, Arc::new(step));
        self
    }

    /// The task with a step after its others.
    #[must_use]
    pub fn append(mut self, step: impl Fn() -> Result<(), RunError> + Send + Sync + 'static) -> Task {
        self.steps.push(Arc::new(step));
        self
    }

    /// A task that schedules this one as a task of a stream: it runs on the stream's own thread, after
    /// everything that was scheduled there before.
    #[must_use]
    pub fn enschedule(self, stream: &Stream) -> Task {
        let (name, stream) = (Arc::clone(&self.name), stream.clone());
        Task::new(&name.clone(), move || {
            let task = self.clone();
            stream.schedule_task(&name, move || task.run().map_err(|error| error.to_string())).map(drop)
        })
    }
}

/// Shows the name.
impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Task({}, {} steps)", self.name, self.steps.len())
    }
}

impl LinkedRoutine {
    /// A task that schedules a run with these bindings.
    ///
    /// # Errors
    ///
    /// Fails like [`LinkedRoutine::check_bindings`].
    pub fn schedule(&self, bindings: &[i64]) -> Result<Task, RunError> {
        self.check_bindings(bindings)?;
        let (routine, bindings) = (self.clone(), bindings.to_vec());
        Ok(Task::new(self.name(), move || routine.run(&bindings).map(drop)))
    }
}
