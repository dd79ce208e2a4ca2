//! Compiles assignments to linkable code: every stage in order.

use std::{
    borrow::{Borrow, Cow},
    sync::Arc,
    time::{Duration, Instant},
};

use assignment_text::{Program, TextError};
use assignments::{
    Assignments, Nodes, Warning,
    lower::{LoweredAssignments, first_mention, lower},
};
use codegen_core::Code;
use device_runtime::Context;
use lowered_ir::{
    Lowered, ir,
    passes::{log::log_values, runner::Trace},
    pipeline::{self, Changes, InContext, OptimizeCtx, OptimizeError, Optimized},
    stack::with_enough,
    verify::Verified,
};
use tnode::{ModeState, Pending, TensorNode, View};

use crate::{
    backend::Backend,
    code_folder::{CodeFolder, Decisions, FolderKey, FoundRoutine},
    compiled::{Compiled, CompiledForm},
    error::{CompileError, Error},
    fallback,
    generate::{self, verified},
    observer::Compilation,
    text_cache::TextKey,
};

impl Backend {
    /// Compiles assignment text over the given nodes, which are found by name. The grammar is in
    /// `docs/assignment-text.md`. The routine is named after the last node it writes.
    ///
    /// A text that is compiled again over the same nodes takes microseconds, unless a mode of these nodes has
    /// changed or the text gives initial values. The nodes that the text makes are new each time.
    ///
    /// The text may read a virtual node of an earlier routine of this backend: its computation is inlined,
    /// and the routine reads the inputs of that computation. Routines are assumed to run in the order of
    /// their compilation, so once a routine overwrites such an input, a later routine cannot read the virtual
    /// node.
    ///
    /// # Errors
    ///
    /// [`CompileError`]; no node's memory mode has changed then.
    pub fn compile<N: Borrow<TensorNode>>(
        &self,
        text: &str,
        nodes: impl IntoIterator<Item = N>,
    ) -> Result<Compiled, CompileError> {
        self.compile_text(None, text, &owned(nodes))
    }

    /// [`Backend::compile`] with a name for the routine: an identifier that errors, dumps and profiles show.
    ///
    /// # Errors
    ///
    /// Fails like [`Backend::compile`].
    pub fn compile_named<N: Borrow<TensorNode>>(
        &self,
        name: &str,
        text: &str,
        nodes: impl IntoIterator<Item = N>,
    ) -> Result<Compiled, CompileError> {
        self.compile_text(Some(name), text, &owned(nodes))
    }

    /// [`Backend::compile`] for a parsed program, which may bind sizes and keep the values of nodes.
    ///
    /// ```
    /// use arrayjit::{Backend, HostArray, Program, TensorNode};
    ///
    /// let x = TensorNode::builder("x").dims([3]).build()?;
    /// let program = Program::parse("square[i] := x[i] * x[i]; sum :+= square[i]")?.keep("sum");
    /// let backend = Backend::open("interpreter")?;
    /// let code = backend.compile_program(&program, [&x])?;
    /// let context = backend.context()?.init_from_host(&x, &HostArray::from_slice(&[1f32, 2., 3.], [3])?)?;
    /// let routine = code.link(&context)?;
    /// routine.run(&[])?;
    /// assert_eq!(routine.context().to_host(code.node("sum")?)?.values(), [14.]);
    ///
    /// // The squares were inlined. Another compilation of the program keeps them.
    /// let code = backend.compile_program(&program.keep("square"), [&x])?;
    /// let routine = code.link(&context)?;
    /// routine.run(&[])?;
    /// assert_eq!(routine.context().to_host(code.node("square")?)?.values(), [1., 4., 9.]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Fails like [`Backend::compile`].
    pub fn compile_program<N: Borrow<TensorNode>>(
        &self,
        program: &Program,
        nodes: impl IntoIterator<Item = N>,
    ) -> Result<Compiled, CompileError> {
        self.compile_read(|| program.assignments(&owned(nodes)))
    }

    /// Adds the nodes that the text of `code` declares with initial values to a context, with these values.
    /// The result is `context` if there are none.
    ///
    /// ```
    /// use arrayjit::{Backend, HostArray, Nodes};
    ///
    /// let backend = Backend::open("interpreter")?;
    /// let text = "
    ///     input x f32[2, 3]
    ///     param w f32[3, 2] := normal(42) * 0.1
    ///     h[b,j] :+= x[b,i] * w[i,j]
    ///     y[b,j]  := relu(h[b,j])
    ///     keep y";
    /// let code = backend.compile(text, &Nodes::default())?;
    /// let context = backend.initialize(&code, &backend.context()?)?;
    /// let x = HostArray::from_slice(&[1f32, 2., 3., 4., 5., 6.], [2, 3])?;
    /// let routine = code.link(&context.init_from_host(code.node("x")?, &x)?)?;
    /// routine.run(&[])?;
    /// assert_eq!(routine.context().to_host(code.node("y")?)?.num_values(), 4);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Compile`](crate::ErrorKind::Compile) if the initial values do not compile, and
    /// [`ErrorKind::Run`](crate::ErrorKind::Run) if a device fails.
    pub fn initialize(&self, code: &Compiled, context: &Context) -> Result<Context, Error> {
        let Some(initial) = &code.initial else { return Ok(context.clone()) };
        let routine = self.compile_assignments(initial)?.link(context)?;
        // Where a run gives sizes, the values fill the bounds.
        let bounds: Vec<i64> = routine.bindings().iter().map(|symbol| symbol.interval().1).collect();
        routine.run(&bounds)?;
        // The values are copied, so that the context does not keep the nodes of random samples.
        initial.kept.iter().try_fold(context.clone(), |context, node| {
            let values = routine.context().to_host(node)?;
            Ok(context.init_from_host(node, values)?)
        })
    }

    /// Compiles a text, unless it was compiled over the same nodes before.
    fn compile_text(
        &self,
        name: Option<&str>,
        text: &str,
        nodes: &[TensorNode],
    ) -> Result<Compiled, CompileError> {
        let key = self.keeps_texts().then(|| TextKey::new(text, name, nodes));
        if let Some(compiled) = key.as_ref().and_then(|key| self.texts().find(key)) {
            // Another thread may have changed the modes since.
            let mut pending = Pending::default();
            pending.add(&decisions(&compiled.nodes, &compiled.optimized.routine), &[])?;
            self.commit(pending, [compiled.changes()])?;
            return Ok(compiled);
        }
        let compiled = self.compile_read(|| {
            let assignments = assignment_text::parse(text, nodes)?;
            Ok(match name {
                Some(name) => assignments.named(name),
                None => assignments,
            })
        })?;
        key.into_iter().for_each(|key| self.texts().keep(key, &compiled));
        Ok(compiled)
    }

    /// Whether a text that is compiled again may skip the stages: nothing asks to see them.
    fn keeps_texts(&self) -> bool {
        self.texts().has_room() && self.observer().is_idle()
    }

    /// Compiles the assignments that `read` makes of a text.
    fn compile_read(
        &self,
        read: impl FnOnce() -> Result<Assignments, TextError>,
    ) -> Result<Compiled, CompileError> {
        with_enough(|| {
            let start = Instant::now();
            let assignments = read()?;
            self.compile_stages(&assignments, vec![("text", start.elapsed())])
        })
    }

    /// Compiles assignments.
    ///
    /// # Errors
    ///
    /// [`CompileError`]; no node's memory mode has changed then.
    pub fn compile_assignments(&self, assignments: &Assignments) -> Result<Compiled, CompileError> {
        with_enough(|| self.compile_stages(assignments, Vec::new()))
    }

    /// Compiles a routine of the loop IR over the given nodes: the routine's nodes in order. Everything after
    /// lowering is done as for assignments.
    ///
    /// ```
    /// use arrayjit::{Backend, HostArray, TensorNode};
    /// use lowered_ir::{text, verify::Verified};
    ///
    /// let text = "routine @double strict {
    ///   node %0 \"x\" f32[3] on_device
    ///   for i0 in 0..3 { %0[i0] := %0[i0] * 2.0f32 }
    /// }";
    /// let x = TensorNode::builder("x").dims([3]).build()?;
    /// let backend = Backend::open("interpreter")?;
    /// let code = backend.compile_lowered(Verified::new(text::parse(text)?)?, [&x])?;
    /// let values = HostArray::from_slice(&[1f32, 2., 3.], [3])?;
    /// let routine = code.link(&backend.context()?.init_from_host(&x, &values)?)?;
    /// routine.run(&[])?;
    /// assert_eq!(routine.context().to_host(&x)?.as_slice::<f32>()?, [2., 4., 6.]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`CompileError`], in particular [`CompileError::NodeCount`]; no node's memory mode has changed then.
    #[tracing::instrument(
        name = "compile",
        skip_all,
        fields(routine = %routine.name, backend = self.name())
    )]
    pub fn compile_lowered<N: Borrow<TensorNode>>(
        &self,
        routine: Verified<ir::LoweredRoutine>,
        nodes: impl IntoIterator<Item = N>,
    ) -> Result<Compiled, CompileError> {
        let routine = routine.into_inner();
        let nodes: Vec<TensorNode> = nodes.into_iter().map(|node| node.borrow().clone()).collect();
        if nodes.len() != routine.nodes.len() {
            let (expected, found) = (routine.nodes.len(), nodes.len());
            return Err(CompileError::NodeCount { routine: routine.name, expected, found });
        }
        with_enough(|| {
            let mut laps = Stopwatch { start: Instant::now(), took: Vec::new() };
            let optimized = self.optimize(&self.virtual_nodes(), Lowered { routine, nodes }, &mut laps);
            let (source, InContext { optimized, nodes, changes, imported }) =
                optimized.map_err(|source| CompileError::Optimize { source, place: None })?;
            verified("optimization", &optimized.routine)?;
            let planned = PlannedRoutine {
                form: None,
                to_store: None,
                source,
                optimized,
                nodes,
                views: Vec::new(),
                warnings: Vec::new(),
                changes: Arc::new(changes),
                has_imports: !imported.is_empty(),
                text_nodes: Nodes::default(),
                initial: None,
                assignments: None,
                took: laps.took,
            };
            self.compile_planned(planned, None)
        })
    }

    #[tracing::instrument(
        name = "compile",
        skip_all,
        fields(routine = %assignments.routine_name(), backend = self.name())
    )]
    fn compile_stages(
        &self,
        assignments: &Assignments,
        took: Vec<(&'static str, Duration)>,
    ) -> Result<Compiled, CompileError> {
        self.compile_planned(self.plan(assignments, &self.virtual_nodes(), took)?, Some(assignments))
    }

    /// Generates code for a planned routine, of assignments if there are any.
    fn compile_planned(
        &self,
        mut planned: PlannedRoutine,
        assignments: Option<&Assignments>,
    ) -> Result<Compiled, CompileError> {
        let form = self.generate(&mut planned).map_err(|error| match assignments {
            Some(assignments) => self.at_rejected(error, &planned, assignments),
            None => error,
        })?;

        // The nodes learn the decisions only now, when nothing can fail any more.
        let mut pending = Pending::default();
        planned.decide(&mut pending)?;
        self.commit(pending, [planned.changes()])?;
        Ok(self.finish(planned, form))
    }

    /// Lowers and optimizes assignments, which decides where their nodes live. `known` has the computations
    /// of virtual nodes of earlier routines.
    pub(crate) fn plan(
        &self,
        assignments: &Assignments,
        known: &OptimizeCtx,
        took: Vec<(&'static str, Duration)>,
    ) -> Result<PlannedRoutine, CompileError> {
        let mut laps = Stopwatch { start: Instant::now(), took };
        let observer = self.observer();

        let mut assignments = Cow::Borrowed(assignments);
        // A GPU takes the steps of a scan as kernels, which run whatever its condition is.
        if self.codegen().caps().workgroups.is_some() && assignments.has_ends() {
            assignments.to_mut().select_ends(&|_, _| false)?;
        }
        // Gradients become accumulations.
        if assignments.has_gradients() {
            let assignments = assignments.to_mut();
            let limit = Some(self.settings().scan_gradient_bytes).filter(|&bytes| bytes > 0);
            assignments.scan_gradient_bytes = assignments.scan_gradient_bytes.or(limit);
            assignments.narrow_gradients |= self.settings().narrow_gradients;
            autodiff::expand(assignments)?;
            laps.end("differentiate");
        }
        let assignments = &*assignments;

        // A routine that an earlier process compiled skips the other stages.
        let place = self.place_in_folder(assignments, known);
        if let Some(found) = place.as_ref().and_then(|(folder, key)| folder.find(key)) {
            laps.end("find");
            return Ok(PlannedRoutine::found(found, assignments, laps.took));
        }

        // One loop nest per assignment; meaning is fixed here.
        let LoweredAssignments { lowered, views, warnings, .. } =
            lower(assignments, &self.settings().lowering())?;
        verified("lowering", &lowered.routine)?;
        observer.pass("lower", &lowered.routine);
        laps.end("lower");

        let handles = lowered.nodes.clone();
        let (source, InContext { optimized, nodes, changes, imported }) = self
            .optimize(known, lowered, &mut laps)
            .map_err(|error| unoptimized(error, assignments, &handles))?;
        verified("optimization", &optimized.routine)?;
        let kept = observer.needs().assignments.then(|| assignments.clone());
        // Warnings of lowering are not stored.
        let place = place.filter(|_| warnings.len() == assignments.warnings.len());
        let to_store = place.and_then(|(_, key)| {
            let decisions = Decisions::of(&key.nodes, &optimized.routine, &nodes, &views, &changes)?;
            Some((key, decisions))
        });
        Ok(PlannedRoutine {
            form: None,
            to_store,
            source,
            optimized,
            nodes,
            views,
            warnings,
            changes: Arc::new(changes),
            has_imports: !imported.is_empty(),
            text_nodes: assignments.text_nodes.clone(),
            initial: assignments.initial.clone(),
            assignments: kept,
            took: laps.took,
        })
    }

    /// The place of a program in the folder of compiled code. None without a folder, and for a program that
    /// may inline computations of earlier routines.
    fn place_in_folder(
        &self,
        assignments: &Assignments,
        known: &OptimizeCtx,
    ) -> Option<(&CodeFolder, FolderKey)> {
        let folder = self.generator().folder()?;
        let key = folder.key(assignments, &self.settings().lowering(), self.optimizer())?;
        let is_alone = !key.nodes.as_slice().iter().any(|node| known.knows(node));
        is_alone.then_some((folder, key))
    }

    /// Decides memory modes on copies of the nodes, and inlines virtual nodes, including those of earlier
    /// routines. Also returns the routine before the optimizer, if the settings ask for capsules.
    fn optimize(
        &self,
        known: &OptimizeCtx,
        lowered: Lowered,
        laps: &mut Stopwatch,
    ) -> Result<(Option<Arc<ir::LoweredRoutine>>, InContext), OptimizeError> {
        let observer = self.observer();
        let mut source = observer.needs().routine.then(|| Arc::new(lowered.routine.clone()));
        let on_pass = &mut |name: &str, routine: &ir::LoweredRoutine| {
            observer.pass(name, routine);
            if name == "import" && source.is_some() {
                source = Some(Arc::new(routine.clone()));
            }
        };
        let trace = &mut Trace::when(observer.shows_passes() || observer.needs().routine, on_pass);
        let optimized = pipeline::optimize_in(known, lowered, self.optimizer(), trace)?;
        observer.pass("optimize", &optimized.optimized.routine);
        laps.end("optimize");
        Ok((source, optimized))
    }

    /// Adds to a rejection the place in the text of the node that the first rejected statement writes.
    fn at_rejected(
        &self,
        error: CompileError,
        planned: &PlannedRoutine,
        assignments: &Assignments,
    ) -> CompileError {
        let falls_back_nowhere =
            matches!(error, CompileError::NoFallback { .. } | CompileError::FallbackRejected { .. });
        if !falls_back_nowhere && generate::rejection(&error).is_none() {
            return error;
        }
        let node = fallback::first_rejected(self.generator(), &planned.optimized.routine);
        let node = node.and_then(|node| planned.nodes.get(node.index()));
        match node.and_then(|node| first_mention(assignments, node)) {
            Some(place) => CompileError::Rejected { source: Box::new(error), place: Box::new(place) },
            None => error,
        }
    }

    /// Schedules a planned routine and generates its code.
    pub(crate) fn generate(&self, planned: &mut PlannedRoutine) -> Result<CompiledForm, CompileError> {
        if let Some(form) = planned.form.take() {
            return Ok(form);
        }
        let PlannedRoutine { optimized, took, to_store, .. } = planned;
        let mut laps = Stopwatch { start: Instant::now(), took: std::mem::take(took) };
        let observer = self.observer();

        // The routine is partitioned into kernels, and these are compiled.
        let on_pass = &mut |name: &str, routine: &ir::LoweredRoutine| observer.pass(name, routine);
        let trace = &mut Trace::when(observer.shows_passes(), on_pass);
        let logging = self.settings().has_logs().then(|| log_values(&optimized.routine));
        if let Some(logging) = &logging {
            verified("logging", logging)?;
            trace.show("log", logging);
        }
        let routine = logging.as_ref().unwrap_or(&optimized.routine);
        let scheduled = self.generator().schedule(routine, trace);
        laps.end("schedule");
        let compiled = scheduled.and_then(|schedule| {
            let artifact = self.generator().compile(&schedule)?;
            Ok(CompiledForm::Whole(Arc::new(Code::new(schedule, artifact)?)))
        });
        laps.end("codegen");

        // Rejected statements fall back, if the settings allow it.
        let form = match compiled {
            Err(error) if generate::rejection(&error).is_some() => {
                let fallback = self
                    .fallback()
                    .map_err(|error| CompileError::FallbackOpen { source: Box::new(error) })?;
                let (fallback, runs) = (fallback.map(Backend::generator), &self.fallback_state().runs);
                let divided = fallback::compile(self.generator(), fallback, runs, routine, error, trace)?;
                laps.end("fallback");
                CompiledForm::Divided(Arc::new(divided))
            }
            compiled => compiled?,
        };
        if let (Some(folder), Some((key, decisions)), CompiledForm::Whole(code)) =
            (self.generator().folder(), to_store.take(), &form)
        {
            folder.add(&key, &decisions, code);
            laps.end("store");
        }
        *took = laps.took;
        Ok(form)
    }

    /// Reports the compiled routine, whose decisions are committed.
    pub(crate) fn finish(&self, planned: PlannedRoutine, form: CompiledForm) -> Compiled {
        let PlannedRoutine {
            form: _,
            to_store: _,
            source,
            optimized,
            nodes,
            views,
            warnings,
            changes,
            has_imports,
            text_nodes,
            initial,
            assignments,
            took,
        } = planned;
        let observer = self.observer().compiled(Compilation {
            name: form.name(),
            target: self.target(),
            parts: &form.parts(self.target()),
            fallbacks: form.fallbacks(),
            nodes: &nodes,
            views: views.iter().map(|(node, _)| node).collect(),
            warnings: &warnings,
            took: &took,
            assignments,
            routine: source,
        });
        if let CompiledForm::Divided(code) = &form {
            code.count();
        }
        let optimized = Arc::new(optimized);
        Compiled { form, nodes, optimized, warnings, changes, has_imports, text_nodes, initial, observer }
    }
}

/// Adds to `source` the first place in the text that mentions its node; `handles` are the routine's nodes.
fn unoptimized(source: OptimizeError, assignments: &Assignments, handles: &[TensorNode]) -> CompileError {
    let node = source.node().and_then(|node| handles.get(node.index()));
    let place = node.and_then(|node| first_mention(assignments, node)).map(Box::new);
    CompileError::Optimize { source, place }
}

/// An optimized routine that is not compiled yet.
pub(crate) struct PlannedRoutine {
    /// The code, if the folder of compiled code has it.
    form: Option<CompiledForm>,
    /// The place of the code in the folder of compiled code, and what is stored beside it.
    to_store: Option<(FolderKey, Decisions)>,
    /// The routine before the optimizer, if the settings ask for capsules.
    source: Option<Arc<ir::LoweredRoutine>>,
    optimized: Optimized,
    nodes: Vec<TensorNode>,
    views: Vec<(TensorNode, View)>,
    warnings: Vec<Warning>,
    changes: Arc<Changes>,
    has_imports: bool,
    text_nodes: Nodes,
    initial: Option<Arc<Assignments>>,
    /// The assignments with their gradients, if the observer needs them.
    assignments: Option<Assignments>,
    /// The time that each stage took.
    took: Vec<(&'static str, Duration)>,
}

impl PlannedRoutine {
    /// A routine of the folder of compiled code.
    fn found(found: FoundRoutine, assignments: &Assignments, took: Vec<(&'static str, Duration)>) -> Self {
        let FoundRoutine { optimized, nodes, views, changes, code } = found;
        PlannedRoutine {
            form: Some(CompiledForm::Whole(Arc::new(code))),
            to_store: None,
            source: None,
            optimized,
            nodes,
            views,
            warnings: assignments.warnings.clone(),
            changes: Arc::new(changes),
            has_imports: false,
            text_nodes: assignments.text_nodes.clone(),
            initial: assignments.initial.clone(),
            assignments: None,
            took,
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.optimized.routine.name
    }

    /// The routine's changes to the computations of virtual nodes, and its nodes.
    pub(crate) fn changes(&self) -> (&Changes, &[TensorNode]) {
        (&self.changes, &self.nodes)
    }

    /// Adds the routine's decisions about nodes to `pending`.
    pub(crate) fn decide(&self, pending: &mut Pending) -> Result<(), tnode::TensorNodeError> {
        pending.add(&decisions(&self.nodes, &self.optimized.routine), &self.views)
    }
}

/// A stopwatch for stages.
struct Stopwatch {
    start: Instant,
    took: Vec<(&'static str, Duration)>,
}

impl Stopwatch {
    fn end(&mut self, stage: &'static str) {
        self.took.push((stage, std::mem::replace(&mut self.start, Instant::now()).elapsed()));
    }
}

/// Handles of the nodes.
pub(crate) fn owned<N: Borrow<TensorNode>>(nodes: impl IntoIterator<Item = N>) -> Vec<TensorNode> {
    nodes.into_iter().map(|node| node.borrow().clone()).collect()
}

/// The memory mode that the optimizer decided for each node with a handle.
fn decisions(nodes: &[TensorNode], routine: &ir::LoweredRoutine) -> Vec<(TensorNode, ModeState)> {
    nodes.iter().zip(&routine.nodes).map(|(node, decl)| (node.clone(), decl.mode.clone())).collect()
}
