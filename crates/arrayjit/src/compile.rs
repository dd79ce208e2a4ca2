//! From assignments to linkable code: every stage in order.

use std::{
    borrow::Borrow,
    sync::Arc,
    time::{Duration, Instant},
};

use codegen_core::LogSink;
use codegen_core::schedule::{FmaPolicy, ScheduleOptions, schedule_serial, schedule_traced};
use device_runtime::{Context, Routine};
use lowered_ir::{
    assign::{self, Assignments, text::TextError},
    ir,
    log::LogStyle,
    lower::{LowerOptions, lower},
    passes::log::log_values,
    pipeline::{self, InContext, Optimized},
    verify::verify,
};
use tnode::{ModeState, TensorNode};

use crate::{
    backend::Backend,
    error::CompileError,
    log::LogFolder,
    settings::{Class, Fma, Settings},
};

/// Compiled assignments with the nodes they are about: links into any context of the backend's devices, any number of times.
#[derive(Clone, Debug)]
pub struct Compiled {
    code: Arc<codegen_core::Code>,
    nodes: Vec<TensorNode>,
    optimized: Arc<Optimized>,
    /// How and where linked routines log, if they do.
    logs: Option<(LogFolder, LogStyle)>,
}

impl Compiled {
    /// The routine's name.
    pub fn name(&self) -> &str {
        &self.code.schedule.name
    }

    /// The static symbols in binding order, each with its range.
    pub fn symbols(&self) -> &[ir::Symbol] {
        &self.code.schedule.symbols
    }

    /// The code without its nodes.
    pub fn code(&self) -> &Arc<codegen_core::Code> {
        &self.code
    }

    /// Why this routine gave the node the memory mode it has, in words: each decision with its reason and where it was taken;
    /// `None` for a node that the routine does not mention. For a node that could have been computed where it is used, and is
    /// not, that includes what stood in the way.
    pub fn explain(&self, node: &TensorNode) -> Option<String> {
        let at = self.nodes.iter().position(|n| n == node)?;
        Some(self.optimized.explain(ir::NodeRef(at as u32)))
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
            None => context.link(&self.code, &self.nodes),
            Some((folder, _)) => self.link_logging(context, Arc::new(folder.file(self.name()))),
        }
    }

    /// [`Compiled::link`], with what the routine logs given to a sink instead of a file. Only routines compiled with
    /// [`Settings::log_values`] log.
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
        let codegen_core::Code { schedule, artifact } = (*self.code).clone();
        let code = codegen_core::Code { schedule, artifact: artifact.logging_to(sink, style) };
        context.link(&Arc::new(code), &self.nodes)
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
        let (assignments, took) = parse(text, nodes)?;
        self.compile_stages(&assignments, vec![("text", took)])
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
        let (assignments, took) = parse(text, nodes)?;
        self.compile_stages(&assignments.named(name), vec![("text", took)])
    }

    /// Compiles assignments.
    ///
    /// # Errors
    ///
    /// [`CompileError`]; no node's memory mode has changed then.
    pub fn compile_assignments(&self, assignments: &Assignments) -> Result<Compiled, CompileError> {
        self.compile_stages(assignments, Vec::new())
    }

    #[tracing::instrument(name = "compile", skip_all, fields(backend = self.name()))]
    fn compile_stages(
        &self,
        assignments: &Assignments,
        mut took: Vec<(&'static str, Duration)>,
    ) -> Result<Compiled, CompileError> {
        let mut start = Instant::now();
        let mut lap = |stage| took.push((stage, std::mem::replace(&mut start, Instant::now()).elapsed()));
        let watch = self.watch();

        // One loop nest per assignment; meaning is fixed here.
        let lowered = lower(assignments, &lower_options(self.settings()))?;
        verified("lowering", &lowered.routine)?;
        let views = lowered.views.clone();
        watch.pass("lower", &lowered.routine);
        lap("lower");

        // Memory modes are settled on copies, virtual nodes inlined: those of earlier routines too.
        let InContext { optimized, nodes, changes, .. } = pipeline::optimize_in(
            &self.virtual_nodes(),
            lowered,
            &optimize_settings(self.settings()),
            &mut |name, routine| watch.pass(name, routine),
        )?;
        verified("optimisation", &optimized.routine)?;
        lap("optimize");

        // Kernels are cut, and every bit is determined.
        let caps = self.codegen().caps();
        let on_step = &mut |name: &str, routine: &ir::Routine| watch.pass(name, routine);
        let schedule = if self.settings().log_values {
            // What logs runs as it is written, in one kernel.
            let logging = log_values(&optimized.routine);
            verified("logging", &logging)?;
            watch.pass("log", &logging);
            schedule_serial(&logging, caps, on_step)?
        } else {
            schedule_traced(&optimized.routine, caps, &schedule_options(self.settings()), on_step)?
        };
        for kernel in &schedule.kernels {
            verified("scheduling", &kernel.ir)?;
        }
        lap("schedule");

        let artifact = if self.settings().cache {
            self.cache().compile(self.codegen(), &schedule)?
        } else {
            self.codegen().compile(&schedule)?
        };
        lap("codegen");

        // Only now, with nothing left that can fail, do the nodes learn what was decided.
        self.commit(&decisions(&nodes, &optimized.routine), &views, changes)?;
        watch.compiled(&schedule, &took);
        watch.modes(nodes.iter().chain(views.iter().map(|(node, _)| node)));
        watch.code(self.codegen(), &schedule);
        let code = Arc::new(codegen_core::Code { schedule, artifact });
        let style = if self.settings().log_rounded { LogStyle::Rounded } else { LogStyle::Exact };
        let logs = self.logs().map(|folder| (folder.clone(), style));
        Ok(Compiled { code, nodes, optimized: Arc::new(optimized), logs })
    }

    /// How many distinct routines the code cache holds.
    pub fn cached_routines(&self) -> usize {
        self.cache().len()
    }
}

/// The assignments of a text, and how long reading them took.
fn parse<N: Borrow<TensorNode>>(
    text: &str,
    nodes: impl IntoIterator<Item = N>,
) -> Result<(Assignments, Duration), TextError> {
    let start = Instant::now();
    let nodes: Vec<TensorNode> = nodes.into_iter().map(|node| node.borrow().clone()).collect();
    Ok((assign::text::parse(text, &nodes)?, start.elapsed()))
}

/// Fails with our own bug if the IR a stage produced does not verify.
fn verified(stage: &'static str, routine: &ir::Routine) -> Result<(), CompileError> {
    verify(routine).map_err(|error| CompileError::Verify { stage, error })
}

/// The mode that the optimiser settled for each node that has a handle.
fn decisions(nodes: &[TensorNode], routine: &ir::Routine) -> Vec<(TensorNode, ModeState)> {
    nodes.iter().zip(&routine.nodes).map(|(node, decl)| (node.clone(), decl.mode.clone())).collect()
}

fn lower_options(settings: &Settings) -> LowerOptions {
    let numerics = match settings.numerics {
        Class::Fast => ir::Numerics::Fast,
        Class::Strict => ir::Numerics::Strict,
    };
    LowerOptions { numerics, ..LowerOptions::default() }
}

fn optimize_settings(settings: &Settings) -> pipeline::Settings {
    pipeline::Settings {
        max_visits: settings.virtualize_max_visits,
        max_tracing_dim: Some(settings.virtualize_max_tracing_dim).filter(|&dim| dim > 0),
        inline_scalar_constexprs: settings.inline_scalar_constexprs,
        inline_simple_computations: settings.inline_simple_computations,
        inline_complex_computations: settings.inline_complex_computations,
        enable_device_only: settings.enable_device_only,
        stack_threshold_bytes: settings.stack_threshold_in_bytes,
        integer_pow: settings.integer_pow,
        fast_math: settings.fast_math,
        half_constant_cutoff: Some(settings.half_constant_cutoff).filter(|&cutoff| cutoff > 0.0),
    }
}

fn schedule_options(settings: &Settings) -> ScheduleOptions {
    let fma = match settings.fma {
        Fma::Never => FmaPolicy::Never,
        Fma::ByClass => FmaPolicy::ByClass,
        Fma::Always => FmaPolicy::Always,
    };
    ScheduleOptions { fma, ..ScheduleOptions::default() }
}
