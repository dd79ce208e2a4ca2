//! Compiles and links several routines together, all or none.
//!
//! The members are lowered and optimized in order, and each sees the decisions of the earlier ones, so they
//! mean the same as if they were compiled one after another. Code for all members is then generated in
//! parallel, and everything is committed in one step.

use std::borrow::Borrow;

use assignment_text::Program;
use assignments::Assignments;
use device_runtime::Context;
use lowered_ir::{pipeline::OptimizeCtx, stack::with_enough};
use rayon::prelude::*;
use tnode::{Pending, TensorNode};

use crate::{
    backend::Backend,
    compile::{PlannedRoutine, owned},
    compiled::{Compiled, CompiledForm},
    error::CompileError,
    routine::Routine,
};

/// The source of one routine of a batch: a text or assignments.
#[derive(Clone, Debug)]
pub struct BatchMember {
    name: Option<String>,
    source: Source,
}

#[derive(Clone, Debug)]
enum Source {
    Text { text: String, nodes: Vec<TensorNode> },
    Program { program: Program, nodes: Vec<TensorNode> },
    Assignments(Assignments),
}

impl BatchMember {
    /// Assignment text over the given nodes, as for [`Backend::compile`].
    pub fn text<N: Borrow<TensorNode>>(
        text: impl Into<String>,
        nodes: impl IntoIterator<Item = N>,
    ) -> BatchMember {
        BatchMember { name: None, source: Source::Text { text: text.into(), nodes: owned(nodes) } }
    }

    /// A program over the given nodes, as for [`Backend::compile_program`].
    pub fn program<N: Borrow<TensorNode>>(
        program: Program,
        nodes: impl IntoIterator<Item = N>,
    ) -> BatchMember {
        BatchMember { name: None, source: Source::Program { program, nodes: owned(nodes) } }
    }

    /// Names the routine; the name is an identifier. A routine without one is named after the last node it
    /// writes.
    #[must_use]
    pub fn named(self, name: impl Into<String>) -> BatchMember {
        BatchMember { name: Some(name.into()), ..self }
    }

    /// The assignments, under the member's name if it has one, and the routine's name.
    fn read(&self, position: usize) -> Result<(Assignments, String), CompileError> {
        let (read, program_name) = match &self.source {
            Source::Assignments(assignments) => (Ok(assignments.clone()), None),
            Source::Text { text, nodes } => (assignment_text::parse(text, nodes), None),
            Source::Program { program, nodes } => (program.assignments(nodes), program.name()),
        };
        let name = || self.name.as_deref().or(program_name).unwrap_or("without a name");
        let assignments = read.map_err(|error| failed(position, name(), error.into()))?;
        let assignments = match &self.name {
            Some(name) => assignments.named(name.as_str()),
            None => assignments,
        };
        let name = assignments.routine_name();
        Ok((assignments, name))
    }
}

impl From<Assignments> for BatchMember {
    fn from(assignments: Assignments) -> BatchMember {
        BatchMember { name: None, source: Source::Assignments(assignments) }
    }
}

/// The compiled routines of a batch. A member that `occupancy` left out is `None` at its position.
#[derive(Clone, Debug)]
pub struct CompiledBatch(Vec<Option<Compiled>>);

impl CompiledBatch {
    /// The members by position; `None` for one that was left out.
    pub fn members(&self) -> &[Option<Compiled>] {
        &self.0
    }

    /// Links all members in order, so that later members share the memory that earlier ones allocate. The
    /// returned context sees all nodes; routines keep the positions of their members.
    ///
    /// # Errors
    ///
    /// The error of [`Compiled::link`] for the first member that fails; nothing of the batch stays allocated.
    pub fn link(
        &self,
        context: &Context,
    ) -> Result<(Context, Vec<Option<Routine>>), device_runtime::RunError> {
        let code = |member: &Compiled| Some((member.whole()?.clone(), member.nodes().to_vec()));
        let batch: Vec<_> = self.0.iter().map(|member| member.as_ref().and_then(code)).collect();
        if batch.iter().flatten().count() < self.0.iter().flatten().count() {
            return self.link_one_by_one(context);
        }
        let (context, routines) = context.link_batch(&batch)?;
        Ok((context, routines.into_iter().map(|routine| routine.map(Routine::from)).collect()))
    }

    /// Links each member in the context of the previous one. Members that log or run partly on the fallback
    /// backend need this.
    fn link_one_by_one(
        &self,
        context: &Context,
    ) -> Result<(Context, Vec<Option<Routine>>), device_runtime::RunError> {
        let mut context = context.clone();
        let mut routines = Vec::with_capacity(self.0.len());
        for member in &self.0 {
            let routine = member.as_ref().map(|member| member.link(&context)).transpose()?;
            context = routine.as_ref().map_or(context, |routine| routine.context().clone());
            routines.push(routine);
        }
        Ok((context, routines))
    }
}

/// A planned member with its position; `None` if it is left out.
type PlannedMember = Option<(usize, PlannedRoutine)>;

impl Backend {
    /// Compiles several routines. The result is the same as compiling them in order, one by one, except that
    /// if one of them fails, none is compiled, and that code for all of them is generated in parallel.
    ///
    /// `occupancy` gets the name and the position of each member and returns whether to compile it; members
    /// that it leaves out are `None` in the result.
    ///
    /// ```
    /// use arrayjit::{Backend, BatchMember, HostArray, TensorNode};
    ///
    /// let [x, y, z] = ["x", "y", "z"].map(|name| TensorNode::builder(name).dims([2]).build());
    /// let (x, y, z) = (x?, y?, z?);
    /// let backend = Backend::open("interpreter")?;
    /// let batch = backend.compile_batch(
    ///     &[
    ///         BatchMember::text("y[i] := x[i] * 2", [&x, &y]).named("double"),
    ///         BatchMember::text("y[i] := x[i] * 3", [&x, &y]).named("treble"),
    ///         BatchMember::text("z[i] := y[i] + 1", [&y, &z]),
    ///     ],
    ///     |name, _| name != "treble",
    /// )?;
    /// assert!(batch.members()[1].is_none());
    /// let context = backend.context()?.init_from_host(&x, &HostArray::from_slice(&[1f32, 2.], [2])?)?;
    /// let (context, routines) = batch.link(&context)?;
    /// for routine in routines.iter().flatten() {
    ///     routine.run(&[])?;
    /// }
    /// assert_eq!(context.to_host(&z)?.values(), [3., 5.]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`CompileError::Batch`] with the first member that fails; or, as for [`Backend::compile`], a conflict
    /// with decisions that another thread made about the nodes meanwhile. No node's memory mode has changed
    /// then.
    #[tracing::instrument(skip_all, fields(backend = self.name(), members = members.len()))]
    pub fn compile_batch(
        &self,
        members: &[BatchMember],
        occupancy: impl FnMut(&str, usize) -> bool,
    ) -> Result<CompiledBatch, CompileError> {
        with_enough(|| {
            let (mut planned, pending) = self.plan_all(members, occupancy)?;
            let forms = self.generate_all(&mut planned)?;
            self.commit(pending, planned.iter().flatten().map(|(_, planned)| planned.changes()))?;
            let finished = planned.into_iter().zip(forms).map(|(planned, form)| {
                let ((_, planned), form) = planned.zip(form)?;
                Some(self.finish(planned, form))
            });
            Ok(CompiledBatch(finished.collect()))
        })
    }

    /// Plans every member that is not left out, and collects the decisions of all of them.
    fn plan_all(
        &self,
        members: &[BatchMember],
        mut occupancy: impl FnMut(&str, usize) -> bool,
    ) -> Result<(Vec<PlannedMember>, Pending), CompileError> {
        let mut known = OptimizeCtx::clone(&self.virtual_nodes());
        let (mut pending, mut planned) = (Pending::default(), Vec::new());
        for (position, member) in members.iter().enumerate() {
            let (assignments, name) = pending.during(|| member.read(position))?;
            if !occupancy(&name, position) {
                planned.push(None);
                continue;
            }
            let plan = pending.during(|| self.plan(&assignments, &known, Vec::new()));
            let plan = plan.map_err(|error| failed(position, &name, error))?;
            plan.decide(&mut pending).map_err(|error| failed(position, &name, error.into()))?;
            let (changes, nodes) = plan.changes();
            known.commit(changes, nodes);
            planned.push(Some((position, plan)));
        }
        Ok((planned, pending))
    }

    /// Generates the code of all members, or returns the error of the first one that fails.
    fn generate_all(&self, planned: &mut [PlannedMember]) -> Result<Vec<Option<CompiledForm>>, CompileError> {
        let one = |planning: &mut PlannedMember| {
            let Some((position, planned)) = planning else { return Ok(None) };
            // This runs on a worker thread of rayon, which may have little stack.
            let form = with_enough(|| self.generate(planned));
            form.map(Some).map_err(|error| failed(*position, planned.name(), error))
        };
        // Members are compiled one by one where passes are printed, so that their dumps do not mix.
        let forms: Vec<_> = match self.observer().shows_passes() {
            true => planned.iter_mut().map(one).collect(),
            false => planned.par_iter_mut().map(one).collect(),
        };
        forms.into_iter().collect()
    }
}

fn failed(position: usize, name: &str, source: CompileError) -> CompileError {
    CompileError::Batch { position, name: name.into(), source: Box::new(source) }
}
