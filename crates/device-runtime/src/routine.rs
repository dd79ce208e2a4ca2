//! Routines: code linked to a context, callable any number of times.

use std::{fmt, sync::Arc};

use lowered_ir::ir::Symbol;
use tnode::TensorNode;

use crate::{
    context::Context,
    error::Error,
    event::Event,
    pool::Pool,
    submit::{Call, Task, Use, submit},
};

/// A linked callable. Cheap to clone.
#[derive(Clone)]
pub struct Routine(pub(crate) Arc<RoutineInner>);

pub(crate) struct RoutineInner {
    pub(crate) context: Context,
    pub(crate) name: String,
    pub(crate) symbols: Vec<Symbol>,
    pub(crate) inputs: Vec<TensorNode>,
    pub(crate) outputs: Vec<TensorNode>,
    pub(crate) merge_buffer_input: Option<TensorNode>,
    /// All node memory the calls touch, by ascending location.
    pub(crate) uses: Vec<Use>,
    pub(crate) calls: Vec<Call>,
    /// The temporaries' memory, held for its `Drop`.
    pub(crate) _temps: Option<Arc<Pool>>,
}

impl Routine {
    /// The context that sees everything the routine uses.
    pub fn context(&self) -> &Context {
        &self.0.context
    }

    /// The routine's name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The static symbols, in the order [`Routine::run`] takes their values.
    pub fn bindings(&self) -> &[Symbol] {
        &self.0.symbols
    }

    /// Every combination of values of the static symbols, for [`Routine::run`]; the first symbol varies slowest. One empty
    /// combination if there are no symbols.
    pub fn all_bindings(&self) -> impl Iterator<Item = Vec<i64>> + use<> {
        let ranges: Vec<i64> = self.0.symbols.iter().map(|symbol| symbol.range).collect();
        let first = ranges.iter().all(|&range| range > 0).then(|| vec![0; ranges.len()]);
        std::iter::successors(first, move |values| next_binding(values, &ranges))
    }

    /// The nodes, other than constants, whose values from before a run the run reads; in order.
    pub fn inputs(&self) -> &[TensorNode] {
        &self.0.inputs
    }

    /// The nodes that a run writes, in order.
    pub fn outputs(&self) -> &[TensorNode] {
        &self.0.outputs
    }

    /// The node that a run reads from the merge buffer, if any.
    pub fn merge_buffer_input(&self) -> Option<&TensorNode> {
        self.0.merge_buffer_input.as_ref()
    }

    /// Schedules one run on the context's stream, behind everything it depends on; `bindings` has one value per symbol.
    ///
    /// # Errors
    ///
    /// A wrong number of bindings or one outside its range, before anything is scheduled; [`Error::Poisoned`] where an
    /// input has no value; the device's refusal.
    pub fn run(&self, bindings: &[i64]) -> Result<Event, Error> {
        let routine = &*self.0;
        self.check_bindings(bindings)?;
        let task = Task::Run(&routine.calls, bindings);
        submit(routine.context.stream(), &routine.uses, || format!("running `{}`", routine.name), &task)
    }

    /// What [`Routine::run`] asks of its bindings before anything is scheduled: one value per symbol, each in its range.
    ///
    /// # Errors
    ///
    /// [`Error::BindingCount`] and [`Error::BindingRange`].
    pub fn check_bindings(&self, bindings: &[i64]) -> Result<(), Error> {
        let (expected, found) = (self.0.symbols.len(), bindings.len());
        if expected != found {
            let names: Vec<_> = self.0.symbols.iter().map(|symbol| format!("@{}", symbol.name)).collect();
            let (routine, symbols) = (self.0.name.clone(), names.join(", "));
            return Err(Error::BindingCount { routine, expected, symbols, found });
        }
        let outside = |(symbol, value): &(&Symbol, &i64)| !(0..symbol.range).contains(*value);
        match self.0.symbols.iter().zip(bindings).find(outside) {
            Some((symbol, &value)) => Err(Error::BindingRange {
                routine: self.0.name.clone(),
                symbol: symbol.name.clone(),
                range: symbol.range,
                value,
            }),
            None => Ok(()),
        }
    }
}

/// The combination after `values`, like the next number of an odometer.
fn next_binding(values: &[i64], ranges: &[i64]) -> Option<Vec<i64>> {
    let at = (0..values.len()).rev().find(|&at| values[at] + 1 < ranges[at])?;
    let mut next = values.to_vec();
    next[at] += 1;
    next[at + 1..].fill(0);
    Some(next)
}

impl fmt::Debug for Routine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Routine").field("name", &self.0.name).field("context", &self.0.context).finish()
    }
}
