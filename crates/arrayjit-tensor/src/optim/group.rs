//! Groups of parameters that an optimizer updates by other options.

use std::{fmt, sync::Arc};

use crate::{
    error::{Call, Result, misfit},
    graph::Graph,
    optim::{Optimizer, Schedule, UpdateRule},
};

/// How an optimizer updates a parameter: the rule, the learning rate and its schedule.
#[derive(Clone, Debug)]
pub(super) struct UpdateOptions<R> {
    pub(super) rule: R,
    pub(super) rate: f64,
    pub(super) schedule: Schedule,
}

/// Parameters with options of their own.
#[derive(Clone)]
pub(super) struct ParameterGroup {
    contains: Arc<dyn Fn(&str) -> bool + Send + Sync>,
    pub(super) options: UpdateOptions<Arc<dyn UpdateRule>>,
}

impl<R: UpdateRule> UpdateOptions<R> {
    pub(super) fn check(&self, call: Call, graph: &Graph) -> Result<()> {
        if !self.rate.is_finite() {
            return Err(graph.fail(call, misfit("rate", self.rate, "a finite number")));
        }
        self.schedule.check()
    }

    /// The rule, the rate and its schedule.
    pub(super) fn parts(&self) -> (&dyn UpdateRule, f64, &Schedule) {
        (&self.rule, self.rate, &self.schedule)
    }

    /// The options without the type of the rule.
    pub(super) fn shared(self) -> UpdateOptions<Arc<dyn UpdateRule>>
    where
        R: 'static,
    {
        UpdateOptions { rule: Arc::new(self.rule), rate: self.rate, schedule: self.schedule }
    }
}

impl ParameterGroup {
    /// Whether the parameter of that name belongs to the group.
    pub(super) fn contains(&self, name: &str) -> bool {
        (self.contains)(name)
    }
}

impl fmt::Debug for ParameterGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let UpdateOptions { rule, rate, schedule } = &self.options;
        let mut group = f.debug_struct("ParameterGroup");
        group.field("rule", &rule.name()).field("rate", rate).field("schedule", schedule);
        group.finish_non_exhaustive()
    }
}

impl<R: UpdateRule> Optimizer<R> {
    /// Updates the parameters whose names `contains` selects by the rule, the rate and the schedule of
    /// another optimizer, which may be one of another kind and whose groups and limit of the norm have no
    /// effect. A parameter belongs to the first group that contains it.
    ///
    /// ```
    /// use arrayjit_tensor::optim::AdamW;
    ///
    /// let optimizer = AdamW::new(3e-4)
    ///     .weight_decay(0.1)
    ///     .group(|name| name.ends_with("bias") || name.contains("norm"), AdamW::new(3e-4).weight_decay(0.0))
    ///     .group(|name| name.starts_with("head."), AdamW::new(3e-3));
    /// # let _ = optimizer;
    /// ```
    #[must_use]
    pub fn group<S: UpdateRule + 'static>(
        mut self,
        contains: impl Fn(&str) -> bool + Send + Sync + 'static,
        optimizer: Optimizer<S>,
    ) -> Optimizer<R> {
        let options = optimizer.options.shared();
        self.groups.push(ParameterGroup { contains: Arc::new(contains), options });
        self
    }
}
