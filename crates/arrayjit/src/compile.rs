//! From assignments to linkable code: every stage in order.

use std::{
    borrow::Borrow,
    sync::Arc,
    time::{Duration, Instant},
};

use codegen_core::{Code, LogSink, Logging};
use device_runtime::Context;
use lowered_ir::{
    assign::{self, Assignments, Warning, text::TextError},
    ir,
    log::LogStyle,
    lower::{LowerOptions, first_mention, lower},
    passes::log::log_values,
    pipeline::{self, Changes, InContext, OptimizeCtx, OptimizeError, Optimized},
    stack::with_enough,
};
use tnode::{ModeState, Pending, TensorNode, View};

use crate::{
    backend::Backend,
    calls::{CallReport, Statements},
    error::CompileError,
    fallback::{self, DividedCode, Fallback},
    generate::{self, verified},
    log::{LogFolder, logging_to},
    routine::Routine,
    settings::{NumericClass, Settings},
};

/// Compiled assignments with the nodes they are about: links into any context of the backend's devices, any number of times.
#[derive(Clone, Debug)]
pub struct Compiled {
    form: Form,
    nodes: Vec<TensorNode>,
    optimized: Arc<Optimized>,
    warnings: Vec<Warning>,
    /// How and where linked routines log, if they do.
    logs: Option<(LogFolder, LogStyle)>,
}

#[derive(Clone, Debug)]
pub(crate) enum Form {
    /// All kernels are the backend's own.
    Whole(Arc<Code>),
    /// Some are its fallback's.
    Divided(Arc<DividedCode>),
}

impl Compiled {
    /// The routine's name.
    pub fn name(&self) -> &str {
        match &self.form {
            Form::Whole(code) => code.schedule().name(),
            Form::Divided(code) => &code.name,
        }
    }

    /// The static symbols in binding order, each with its range.
    pub fn symbols(&self) -> &[ir::Symbol] {
        self.codes().next().map_or(&[], |code| code.schedule().symbols())
    }

    /// The code without its nodes: one, or, where statements fall back, one for each part, in the order in which they run.
    pub fn codes(&self) -> impl Iterator<Item = &Arc<Code>> {
        let (whole, parts) = match &self.form {
            Form::Whole(code) => (Some(code), [].as_slice()),
            Form::Divided(code) => (None, code.parts.as_slice()),
        };
        whole.into_iter().chain(parts.iter().map(|part| &part.code))
    }

    /// The statements that the backend refuses and its fallback runs, in order; none for nearly every routine.
    pub fn fallbacks(&self) -> &[Fallback] {
        match &self.form {
            Form::Whole(_) => &[],
            Form::Divided(code) => &code.fallbacks,
        }
    }

    /// Why this routine gave the node the memory mode it has, in words: each decision with its reason and where it was taken;
    /// `None` for a node that the routine does not mention. For a node that could have been computed where it is used, and is
    /// not, that includes what stood in the way.
    pub fn explain(&self, node: &TensorNode) -> Option<String> {
        let at = self.nodes.iter().position(|n| n == node)?;
        Some(self.optimized.explain(ir::NodeRef(at as u32)))
    }

    /// What the program says that is legal and often a mistake: a quotient of integers stored in a node of
    /// floats, one random number for all elements, values that nothing uses. With `debug` 1 or more they are
    /// printed.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// The nodes, by their position in the code's table: those of the assignments, then the inputs of virtual nodes that
    /// earlier routines have computed.
    pub fn nodes(&self) -> &[TensorNode] {
        &self.nodes
    }

    /// Links into a context: what the code reads must be there, what it writes is allocated where absent. The routine's own
    /// context holds both.
    ///
    /// # Errors
    ///
    /// A node that the context lacks, or memory that is not to be had; the context is as before then.
    pub fn link(&self, context: &Context) -> Result<Routine, device_runtime::Error> {
        match &self.logs {
            None => self.link_as(context, None),
            Some((folder, _)) => self.link_logging(context, Arc::new(folder.file(self.name()))),
        }
    }

    /// [`Compiled::link`], with what the routine logs given to a sink instead of a file. Only routines compiled with
    /// [`settings::LoggingSettings::values`] log. A sink must not run routines of which statements fall back: runs of these wait for each other.
    ///
    /// # Errors
    ///
    /// As [`Compiled::link`].
    pub fn link_logging(
        &self,
        context: &Context,
        sink: Arc<dyn LogSink>,
    ) -> Result<Routine, device_runtime::Error> {
        let style = self.logs.as_ref().map_or(LogStyle::Exact, |(_, style)| *style);
        self.link_as(context, Some(&Logging { sink, style }))
    }

    /// The code, where it is one and does not log.
    pub(crate) fn whole(&self) -> Option<&Arc<Code>> {
        match &self.form {
            Form::Whole(code) if self.logs.is_none() => Some(code),
            Form::Whole(_) | Form::Divided(_) => None,
        }
    }

    /// Tells what was compiled, in how much time, and what falls back.
    fn tell(&self, backend: &Backend, statements: &Statements, took: &[(&'static str, Duration)]) {
        let watch = backend.watch();
        watch.times(self.name(), took);
        match &self.form {
            Form::Whole(code) => {
                let (codegen, schedule) = (backend.codegen(), code.schedule());
                let report = CallReport { codegen, schedule, nodes: &self.nodes, statements };
                watch.compiled(self.name(), &report);
            }
            Form::Divided(code) => code.tell(&self.nodes, statements),
        }
    }

    fn link_as(
        &self,
        context: &Context,
        logging: Option<&Logging>,
    ) -> Result<Routine, device_runtime::Error> {
        // Some drivers generate code only when they know where its memory is.
        with_enough(|| match &self.form {
            Form::Whole(code) => context.link(&logging_to(logging, code), &self.nodes).map(Routine::from),
            Form::Divided(code) => code.link(context, &self.nodes, logging).map(Routine::divided),
        })
    }
}

impl Backend {
    /// Compiles assignment text over the given nodes, which it finds by name. The grammar is in `docs/assignment-text.md`. The
    /// routine is named after the last node it writes.
    ///
    /// A virtual node that a routine compiled before on this backend computes may be read: its computation is repeated, from
    /// inputs that the routine then needs too. The order of compilation is taken for the order of runs, so once a routine
    /// overwrites an input, reading the virtual node in a later one is an error.
    ///
    /// # Errors
    ///
    /// [`CompileError`]; no node's memory mode has changed then.
    pub fn compile<N: Borrow<TensorNode>>(
        &self,
        text: &str,
        nodes: impl IntoIterator<Item = N>,
    ) -> Result<Compiled, CompileError> {
        with_enough(|| {
            let (assignments, took) = parse(text, nodes)?;
            self.compile_stages(&assignments, vec![("text", took)])
        })
    }

    /// [`Backend::compile`] with a name for the routine: an identifier, which errors, dumps and profiles then show.
    ///
    /// # Errors
    ///
    /// As [`Backend::compile`].
    pub fn compile_named<N: Borrow<TensorNode>>(
        &self,
        name: &str,
        text: &str,
        nodes: impl IntoIterator<Item = N>,
    ) -> Result<Compiled, CompileError> {
        with_enough(|| {
            let (assignments, took) = parse(text, nodes)?;
            self.compile_stages(&assignments.named(name), vec![("text", took)])
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
        let (mut planned, changes) = self.plan(assignments, &self.virtual_nodes(), took)?;
        let form = self.generate(&mut planned)?;

        // Only now, with nothing left that can fail, do the nodes learn what was decided.
        let mut pending = Pending::default();
        planned.decide(&mut pending)?;
        self.commit(pending, [changes])?;
        Ok(self.finish(planned, form))
    }

    /// Settles what the assignments mean and where their nodes live; `known` is how virtual nodes are computed.
    pub(crate) fn plan(
        &self,
        assignments: &Assignments,
        known: &OptimizeCtx,
        took: Vec<(&'static str, Duration)>,
    ) -> Result<(Planned, Changes), CompileError> {
        let mut laps = Laps { start: Instant::now(), took };
        let watch = self.watch();

        // One loop nest per assignment; meaning is fixed here.
        let lowered = lower(assignments, &lower_options(self.settings()))?;
        verified("lowering", &lowered.routine)?;
        let (views, warnings) = (lowered.views.clone(), lowered.warnings.clone());
        watch.pass("lower", &lowered.routine);
        laps.end("lower");

        // Memory modes are settled on copies, virtual nodes inlined: those of earlier routines too.
        let settings = optimize_settings(self.settings());
        let on_pass = &mut |name: &str, routine: &ir::Routine| watch.pass(name, routine);
        let handles = lowered.nodes.clone();
        let InContext { optimized, nodes, changes, .. } =
            pipeline::optimize_in(known, lowered, &settings, on_pass)
                .map_err(|error| unoptimized(error, assignments, &handles))?;
        verified("optimisation", &optimized.routine)?;
        watch.pass("optimize", &optimized.routine);
        laps.end("optimize");
        let statements =
            if watch.shows_calls() { Statements::of(assignments) } else { Statements::default() };
        Ok((Planned { optimized, nodes, views, warnings, statements, took: laps.took }, changes))
    }

    /// Makes code of what was planned.
    pub(crate) fn generate(&self, planned: &mut Planned) -> Result<Form, CompileError> {
        let Planned { optimized, took, .. } = planned;
        let mut laps = Laps { start: Instant::now(), took: std::mem::take(took) };
        let watch = self.watch();

        // Kernels are cut, and compiled.
        let on_step = &mut |name: &str, routine: &ir::Routine| watch.pass(name, routine);
        let logging = self.settings().logging.values.then(|| log_values(&optimized.routine));
        if let Some(logging) = &logging {
            verified("logging", logging)?;
            on_step("log", logging);
        }
        let routine = logging.as_ref().unwrap_or(&optimized.routine);
        let scheduled = generate::schedule(self, routine, on_step);
        laps.end("schedule");
        let compiled = scheduled.and_then(|schedule| {
            let artifact = generate::compile(self, &schedule)?;
            Ok(Form::Whole(Arc::new(Code::new(schedule, artifact)?)))
        });
        laps.end("codegen");

        // What is refused falls back, if it may.
        let form = match compiled {
            Err(error) if generate::refusal(&error).is_some() => {
                let divided = fallback::compile(self, routine, error, on_step)?;
                laps.end("fallback");
                Form::Divided(Arc::new(divided))
            }
            compiled => compiled?,
        };
        *took = laps.took;
        Ok(form)
    }

    /// Tells what was compiled; its decisions are committed.
    pub(crate) fn finish(&self, planned: Planned, form: Form) -> Compiled {
        let Planned { optimized, nodes, views, warnings, statements, took } = planned;
        self.watch().modes(nodes.iter().chain(views.iter().map(|(node, _)| node)));
        let style = if self.settings().logging.rounded { LogStyle::Rounded } else { LogStyle::Exact };
        let logs = self.logs().map(|folder| (folder.clone(), style));
        let compiled = Compiled { form, nodes, optimized: Arc::new(optimized), warnings, logs };
        self.watch().warnings(compiled.name(), compiled.warnings());
        compiled.tell(self, &statements, &took);
        compiled
    }

    /// How many distinct routines the code cache holds: [`settings::CodeCacheSettings::entries`] at most.
    pub fn cached_routines(&self) -> usize {
        self.cache().len()
    }

    /// How many bytes the code cache takes: [`settings::CodeCacheSettings::bytes`] at most.
    pub fn cached_bytes(&self) -> usize {
        self.cache().bytes()
    }

    /// How many routines the code cache has dropped to make room for others. If the number grows while the same programs are compiled
    /// again and again, the cache is too small for them.
    pub fn evicted_routines(&self) -> u64 {
        self.cache().evicted()
    }
}

/// The error with the place in the text that mentions its node; `handles` are the nodes of the routine.
fn unoptimized(source: OptimizeError, assignments: &Assignments, handles: &[TensorNode]) -> CompileError {
    let node = source.node().and_then(|node| handles.get(node.index()));
    let place = node.and_then(|node| first_mention(assignments, node));
    CompileError::Optimize { source, place }
}

/// A routine that is optimised and not compiled yet.
pub(crate) struct Planned {
    optimized: Optimized,
    nodes: Vec<TensorNode>,
    views: Vec<(TensorNode, View)>,
    warnings: Vec<Warning>,
    /// For reports about calls; empty if there are none.
    statements: Statements,
    /// How long each stage took.
    took: Vec<(&'static str, Duration)>,
}

impl Planned {
    /// The routine's name.
    pub(crate) fn name(&self) -> &str {
        &self.optimized.routine.name
    }

    /// Adds what was decided about the nodes.
    pub(crate) fn decide(&self, pending: &mut Pending) -> Result<(), tnode::Error> {
        pending.add(&decisions(&self.nodes, &self.optimized.routine), &self.views)
    }
}

/// A stopwatch for stages.
struct Laps {
    start: Instant,
    took: Vec<(&'static str, Duration)>,
}

impl Laps {
    fn end(&mut self, stage: &'static str) {
        self.took.push((stage, std::mem::replace(&mut self.start, Instant::now()).elapsed()));
    }
}

/// The assignments of a text, and how long reading them took.
pub(crate) fn parse<N: Borrow<TensorNode>>(
    text: &str,
    nodes: impl IntoIterator<Item = N>,
) -> Result<(Assignments, Duration), TextError> {
    let start = Instant::now();
    let nodes: Vec<TensorNode> = nodes.into_iter().map(|node| node.borrow().clone()).collect();
    Ok((assign::text::parse(text, &nodes)?, start.elapsed()))
}

/// The mode that the optimiser settled for each node that has a handle.
fn decisions(nodes: &[TensorNode], routine: &ir::Routine) -> Vec<(TensorNode, ModeState)> {
    nodes.iter().zip(&routine.nodes).map(|(node, decl)| (node.clone(), decl.mode.clone())).collect()
}

fn lower_options(settings: &Settings) -> LowerOptions {
    let numerics = match settings.numerics {
        NumericClass::Fast => ir::Numerics::Fast,
        NumericClass::Strict => ir::Numerics::Strict,
    };
    LowerOptions { numerics, ..LowerOptions::default() }
}

fn optimize_settings(settings: &Settings) -> pipeline::Settings {
    pipeline::Settings {
        max_visits: settings.optimization.virtualize_max_visits,
        max_tracing_dim: Some(settings.optimization.virtualize_max_tracing_dim).filter(|&dim| dim > 0),
        inline_scalar_constexprs: settings.optimization.inline_scalar_constexprs,
        inline_simple_computations: settings.optimization.inline_simple_computations,
        inline_complex_computations: settings.optimization.inline_complex_computations,
        enable_device_only: settings.optimization.enable_device_only,
        stack_threshold_bytes: settings.optimization.stack_threshold_in_bytes,
        integer_pow: settings.optimization.integer_pow,
        fast_math: settings.optimization.fast_math,
        half_constant_cutoff: Some(settings.optimization.half_constant_cutoff).filter(|&cutoff| cutoff > 0.0),
    }
}
