//! Capsules: files with all that is needed to repeat one run of a routine on another backend.
//!
//! With the setting `capsules`, [`Routine::run`](crate::Routine::run) keeps a copy of the inputs, waits for
//! the run and examines the results. If a result is infinite or NaN, or if a CPU backend computes other
//! bits than the interpreter does for the same kernels, the run is written to the folder, once for each
//! linked routine. A capsule is a `.lir` file: the routine before the optimizer, the inputs and bindings,
//! the results of the definition, how the backend compiled the routine ([`CapsuleCompilation`]), and a
//! [`digest`] of each result. `docs/debugging.md` says what to do with one.
//!
//! **Cost.** Each run of a linked routine that has written no capsule yet copies the nodes whose earlier
//! values it reads and the nodes that it writes, waits, and, on CPU backends, interprets the kernels. The
//! kernels are compiled for the interpreter at the first run, once for all links of a routine. Without the
//! setting, nothing of this happens.
//!
//! If statements of a routine fall back, its results are examined for infinities and NaN only, since its
//! parts run on two backends. Runs that are scheduled as tasks are not watched; the first such use of a
//! routine is reported if `debug` is 1 or more.

mod compilation; // how the routine was compiled
mod text; // the file's text, and digests

use std::{
    fs::{self, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use codegen_core::{Caps, Code, Codegen, ScheduledRoutine, interpreted::Interpreted};
use device_runtime::{Context, Device, Event, MergeBufferUse, RunError};
use lowered_ir::ir::{self, NodeRef};
use scheduler_multicore::{Cpu, CpuConfig};
use tnode::{HostArray, TensorNode};

pub use compilation::{CapsuleCompilation, CapsuleError};
use text::CapsuleText;
pub use text::digest;

use super::{debug::DebugReporter, log::sanitized};
use crate::{observer::Compilation, routine::Routine, settings::Settings};

/// The folder, the routine and the reference code from which capsules of a compiled routine are written.
#[derive(Clone, Debug)]
pub(crate) struct CapsuleSource {
    folder: Arc<Path>,
    backend: String,
    reporter: DebugReporter,
    /// The routine before the optimizer; its nodes are the first ones of `nodes`.
    routine: Arc<ir::LoweredRoutine>,
    nodes: Vec<TensorNode>,
    compilation: Arc<CapsuleCompilation>,
    /// CPU backends have it, because the interpreter defines their bits.
    reference: Option<Arc<ReferenceCode>>,
}

/// The kernels of a routine for the interpreter.
#[derive(Debug)]
struct ReferenceCode {
    schedule: ScheduledRoutine,
    target: Caps,
    /// Compiled at the first run; `None` if the interpreter rejects a kernel.
    code: OnceLock<Option<Arc<Code>>>,
}

impl ReferenceCode {
    fn code(&self) -> Option<&Arc<Code>> {
        let compile = || {
            let artifact = Interpreted::of_target(self.target.clone()).compile(&self.schedule).ok()?;
            Code::new(self.schedule.clone(), artifact).ok().map(Arc::new)
        };
        self.code.get_or_init(compile).as_ref()
    }
}

impl CapsuleSource {
    /// The source for a compiled routine, if the settings name a folder.
    pub(crate) fn new(
        reporter: &DebugReporter,
        settings: &Settings,
        compilation: Compilation<'_>,
    ) -> Option<CapsuleSource> {
        let caps = compilation.target.codegen.caps();
        let reference = |code: &Arc<Code>| {
            let (schedule, target) = (code.schedule().clone(), caps.clone());
            Arc::new(ReferenceCode { schedule, target, code: OnceLock::new() })
        };
        let whole = compilation.parts.first().filter(|_| compilation.fallbacks.is_empty());
        Some(CapsuleSource {
            folder: Path::new(&settings.debugging.capsules).into(),
            backend: compilation.target.name.clone(),
            reporter: reporter.clone(),
            routine: compilation.routine?,
            nodes: compilation.nodes.to_vec(),
            compilation: Arc::new(CapsuleCompilation::new(settings, caps)),
            reference: whole.filter(|_| caps.workgroups.is_none()).map(|part| reference(part.code)),
        })
    }

    /// The watch over the runs of a linked routine.
    pub(crate) fn watch(&self) -> CapsuleWatch {
        let (is_written, is_reported, watching) = Default::default();
        CapsuleWatch { source: self.clone(), is_written, is_reported, watching }
    }
}

/// Watches the runs of one linked routine.
#[derive(Debug)]
pub(crate) struct CapsuleWatch {
    source: CapsuleSource,
    is_written: AtomicBool,
    is_reported: AtomicBool,
    /// Held from the copies of the inputs to those of the results.
    watching: Mutex<()>,
}

impl CapsuleWatch {
    /// Runs the routine, waits for it, and writes a capsule if the results are suspicious.
    ///
    /// # Errors
    ///
    /// The errors of the run. An error of the capsule is printed, and disturbs nothing.
    pub(crate) fn run(&self, routine: &Routine, bindings: &[i64]) -> Result<Event, RunError> {
        if self.is_written.load(Ordering::Relaxed) {
            return routine.run_unobserved(bindings);
        }
        let _watching = self.watching.lock().unwrap_or_else(PoisonError::into_inner);
        let inputs = self.source.inputs(routine);
        let event = routine.run_unobserved(bindings)?;
        event.sync()?;
        let results = self.source.results(routine)?;
        let expected = self.source.expected(&inputs, &results, bindings);
        if let Some(reason) = self.source.suspicion(&results, expected.as_deref())
            && !self.is_written.swap(true, Ordering::Relaxed)
        {
            self.source.write(reason, inputs, bindings, &results, expected);
        }
        Ok(event)
    }

    /// Reports, once, that runs which are started in this way are not watched.
    pub(crate) fn not_watched(&self, how: &str) {
        if !self.is_reported.swap(true, Ordering::Relaxed) {
            self.source.reporter.not_watched(&self.source.routine.name, how);
        }
    }
}

/// The values before a run.
struct RunInputs {
    /// The values of every node; `None` for a node that has none, or whose values the run does not read.
    nodes: Vec<Option<Arc<HostArray>>>,
    /// The node that the run reads from the merge buffer, and the values in the merge buffer.
    merge: Option<(NodeRef, Arc<HostArray>)>,
}

/// A result of a run: the position of the node, and its values.
type RunResult = (NodeRef, HostArray);

impl CapsuleSource {
    fn inputs(&self, routine: &Routine) -> RunInputs {
        let context = routine.context();
        let value = |node: &TensorNode| match context.host().filter(|host| host.contains(node)) {
            _ if !routine.reads().contains(node) => None,
            // A newer value of the host is uploaded by the run.
            Some(host) => host.get(node).ok(),
            None => context.to_host(node).ok().map(Arc::new),
        };
        let merge = || {
            let node = self.position(routine.merge_buffer_input()?)?;
            Some((node, Arc::new(routine.merge_buffer_values().ok()??)))
        };
        RunInputs { nodes: self.nodes.iter().map(value).collect(), merge: merge() }
    }

    fn position(&self, node: &TensorNode) -> Option<NodeRef> {
        self.nodes.iter().position(|own| own == node).map(|at| NodeRef(at as u32))
    }

    /// The values of the nodes that the run wrote.
    fn results(&self, routine: &Routine) -> Result<Vec<RunResult>, RunError> {
        let written = routine.outputs().iter().filter_map(|node| Some((self.position(node)?, node)));
        let own = written.filter(|(at, _)| at.index() < self.routine.nodes.len());
        own.map(|(at, node)| Ok((at, routine.context().to_host(node)?))).collect()
    }

    /// The results of the same kernels on the interpreter, if they define the bits.
    fn expected(
        &self,
        inputs: &RunInputs,
        results: &[RunResult],
        bindings: &[i64],
    ) -> Option<Vec<HostArray>> {
        let run = |code: &Arc<Code>| -> Result<Vec<HostArray>, RunError> {
            let device = Device::new(Arc::new(Cpu::inline(CpuConfig::default())), 0);
            let mut context = Context::new(&device.new_stream()?);
            for (node, input) in self.nodes.iter().zip(&inputs.nodes) {
                if let Some(input) = input {
                    context = context.init_from_host(node, Arc::clone(input))?;
                }
            }
            let routine = context.link(code, &self.nodes)?;
            if let Some((node, values)) = &inputs.merge {
                let node = &self.nodes[node.index()];
                let source = Context::new(&device.new_stream()?).init_from_host(node, Arc::clone(values))?;
                let _ = routine.context().device_to_device(node, MergeBufferUse::Copy, &source)?;
            }
            routine.run(bindings)?.sync()?;
            let value = |(node, _): &RunResult| routine.context().to_host(&self.nodes[node.index()]);
            results.iter().map(value).collect()
        };
        let expected = self.reference.as_ref().and_then(|reference| reference.code()).map(run)?;
        expected
            .inspect_err(|error| report(&self.routine.name, &format!("no expected results: {error}")))
            .ok()
    }

    /// Why the results are suspicious, if they are.
    fn suspicion(&self, results: &[RunResult], expected: Option<&[HostArray]>) -> Option<String> {
        let name = |node: NodeRef| &self.routine.node(node).name;
        let is_infinite =
            |array: &HostArray| array.dtype().is_float() && array.values().iter().any(|v| !v.is_finite());
        if let Some((node, _)) = results.iter().find(|(_, array)| is_infinite(array)) {
            return Some(format!("{}: node `{}` is not finite", self.backend, name(*node)));
        }
        let mut pairs = results.iter().zip(expected?);
        let of = |array: &HostArray| digest(array.dtype(), array.bytes());
        let ((node, _), _) = pairs.find(|((_, found), expected)| of(found) != of(expected))?;
        Some(format!("{}: node `{}` has other bits than the interpreter gives", self.backend, name(*node)))
    }

    fn write(
        &self,
        reason: String,
        inputs: RunInputs,
        bindings: &[i64],
        results: &[RunResult],
        expected: Option<Vec<HostArray>>,
    ) {
        let zeros = lowered_ir::interp::Memory::zeroed(&self.routine).nodes;
        let bytes = |(zeros, input): (Vec<u8>, Option<Arc<HostArray>>)| match input {
            Some(input) if input.bytes().len() == zeros.len() => input.bytes().to_vec(),
            _ => zeros,
        };
        let expected = |nth: usize| expected.as_ref().map(|all| all[nth].bytes().to_vec());
        let results = results.iter().enumerate();
        let text = CapsuleText {
            routine: &self.routine,
            inputs: zeros.into_iter().zip(inputs.nodes).map(bytes).collect(),
            merge: inputs.merge.map(|(node, values)| (node, values.bytes().to_vec())),
            bindings,
            reason: reason.clone(),
            compilation: &self.compilation,
            results: results
                .map(|(nth, (node, found))| (*node, found.bytes().to_vec(), expected(nth)))
                .collect(),
        };
        match new_file(&self.folder, &sanitized(&self.routine.name), &text.print()) {
            Ok(path) => report(&self.routine.name, &format!("{reason}; capsule {}", path.display())),
            Err(error) => report(&self.routine.name, &format!("{reason}; no capsule: {error}")),
        }
    }
}

fn report(routine: &str, message: &str) {
    eprintln!("arrayjit: routine `{routine}`, {message}");
}

/// Writes the file `NAME.lir`, or `NAME-2.lir` and so on if it exists.
fn new_file(folder: &Path, name: &str, text: &str) -> io::Result<PathBuf> {
    let named =
        |path: &Path, error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    fs::create_dir_all(folder).map_err(|error| named(folder, error))?;
    let mut number = 1;
    loop {
        let file = if number == 1 { format!("{name}.lir") } else { format!("{name}-{number}.lir") };
        let path = folder.join(file);
        match OpenOptions::new().write(true).create_new(true).open(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
            made => {
                let written = made.and_then(|mut file| file.write_all(text.as_bytes()));
                return written.map(|()| path.clone()).map_err(|error| named(&path, error));
            }
        }
    }
}
