//! Capsules: files with all that is needed to repeat one run of a routine on another backend.
//!
//! With the setting `capsules`, [`Routine::run`](crate::Routine::run) keeps a copy of the inputs, waits for
//! the run and examines the results. If a result is infinite or NaN, or if a CPU backend computes other
//! bits than the interpreter does for the same kernels, the run is written to the folder, once for each
//! linked routine. A capsule is a `.lir` file: the routine before the optimiser, the inputs and bindings,
//! the results of the definition, and a [`digest`] of each result. `docs/debugging.md` says what to do with
//! one.
//!
//! Runs are not watched if the routine reads a merge buffer, if statements of it fall back, or if it is
//! scheduled as a task.

mod text; // the file's text, and digests

use std::{
    fs::{self, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use codegen_core::{Code, Codegen, interpreted::Interpreted};
use device_runtime::{Context, Device, Event, LinkedRoutine, RunError};
use lowered_ir::ir::{NodeRef, Routine};
use scheduler_multicore::{Config, Cpu};
use tnode::{HostArray, TensorNode};

use text::CapsuleText;
pub use text::digest;

use crate::{backend::Backend, log::sanitised};

/// The folder, the routine and the reference code from which capsules of a compiled routine are written.
#[derive(Clone, Debug)]
pub(crate) struct CapsuleSource {
    folder: Arc<Path>,
    backend: String,
    /// The routine before the optimiser; its nodes are the first ones of `nodes`.
    routine: Arc<Routine>,
    nodes: Vec<TensorNode>,
    caps: String,
    /// The same kernels, compiled for the interpreter. CPU backends have it, because the interpreter defines
    /// their bits.
    reference: Option<Arc<Code>>,
}

impl CapsuleSource {
    /// The source for a routine that a backend has compiled. The setting names the folder; it is not empty.
    pub(crate) fn new(backend: &Backend, routine: Arc<Routine>, nodes: &[TensorNode], code: &Code) -> Self {
        let caps = backend.codegen().caps();
        let interpreted = || {
            let schedule = code.schedule().clone();
            let artifact = Interpreted::of_target(caps.clone()).compile(&schedule).ok()?;
            Code::new(schedule, artifact).ok().map(Arc::new)
        };
        CapsuleSource {
            folder: Path::new(&backend.settings().debugging.capsules).into(),
            backend: backend.name().to_owned(),
            routine,
            nodes: nodes.to_vec(),
            caps: format!("{caps:?}"),
            reference: if caps.workgroups.is_none() { interpreted() } else { None },
        }
    }

    /// The watch over the runs of a linked routine; none if it reads a merge buffer.
    pub(crate) fn watch(&self, linked: &LinkedRoutine) -> Option<Arc<CapsuleWatch>> {
        let watch = || Arc::new(CapsuleWatch { source: self.clone(), is_written: AtomicBool::new(false) });
        linked.merge_buffer_input().is_none().then(watch)
    }
}

/// Watches the runs of one linked routine.
#[derive(Debug)]
pub(crate) struct CapsuleWatch {
    source: CapsuleSource,
    is_written: AtomicBool,
}

impl CapsuleWatch {
    /// Runs the routine, waits for it, and writes a capsule if the results are suspicious.
    ///
    /// # Errors
    ///
    /// The errors of the run. An error of the capsule is printed, and disturbs nothing.
    pub(crate) fn run(&self, linked: &LinkedRoutine, bindings: &[i64]) -> Result<Event, RunError> {
        if self.is_written.load(Ordering::Relaxed) {
            return linked.run(bindings);
        }
        let inputs = self.source.inputs(linked.context());
        let event = linked.run(bindings)?;
        event.sync()?;
        let results = self.source.results(linked)?;
        let expected = self.source.expected(&inputs, &results, bindings);
        if let Some(reason) = self.source.suspicion(&results, expected.as_deref())
            && !self.is_written.swap(true, Ordering::Relaxed)
        {
            self.source.write(reason, inputs, bindings, &results, expected);
        }
        Ok(event)
    }
}

/// A result of a run: the position of the node, and its values.
type RunResult = (NodeRef, HostArray);

impl CapsuleSource {
    /// The values of every node before a run; `None` for a node that has none.
    fn inputs(&self, context: &Context) -> Vec<Option<HostArray>> {
        let value = |node: &TensorNode| match context.host().filter(|host| host.contains(node)) {
            // A newer value of the host is uploaded by the run.
            Some(host) => host.get(node).ok().map(|array| (*array).clone()),
            None => context.to_host(node).ok(),
        };
        self.nodes.iter().map(value).collect()
    }

    /// The values of the nodes that the run wrote.
    fn results(&self, linked: &LinkedRoutine) -> Result<Vec<RunResult>, RunError> {
        let position = |node: &TensorNode| self.nodes.iter().position(|own| own == node);
        let written = linked.outputs().iter().filter_map(|node| Some((position(node)?, node)));
        let own = written.filter(|(at, _)| *at < self.routine.nodes.len());
        own.map(|(at, node)| Ok((NodeRef(at as u32), linked.context().to_host(node)?))).collect()
    }

    /// The results of the same kernels on the interpreter, if they define the bits.
    fn expected(
        &self,
        inputs: &[Option<HostArray>],
        results: &[RunResult],
        bindings: &[i64],
    ) -> Option<Vec<HostArray>> {
        let run = |code: &Arc<Code>| -> Result<Vec<HostArray>, RunError> {
            let device = Device::new(Arc::new(Cpu::inline(Config::default())), 0);
            let mut context = Context::new(&device.new_stream()?);
            for (node, input) in self.nodes.iter().zip(inputs) {
                if let Some(input) = input {
                    context = context.init_from_host(node, input)?;
                }
            }
            let routine = context.link(code, &self.nodes)?;
            routine.run(bindings)?.sync()?;
            let value = |(node, _): &RunResult| routine.context().to_host(&self.nodes[node.index()]);
            results.iter().map(value).collect()
        };
        let expected = self.reference.as_ref().map(run)?;
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
        inputs: Vec<Option<HostArray>>,
        bindings: &[i64],
        results: &[RunResult],
        expected: Option<Vec<HostArray>>,
    ) {
        let zeros = lowered_ir::interp::Memory::zeroed(&self.routine).nodes;
        let bytes = |(zeros, input): (Vec<u8>, Option<HostArray>)| match input {
            Some(input) if input.bytes().len() == zeros.len() => input.bytes().to_vec(),
            _ => zeros,
        };
        let expected = |nth: usize| expected.as_ref().map(|all| all[nth].bytes().to_vec());
        let results = results.iter().enumerate();
        let text = CapsuleText {
            routine: &self.routine,
            inputs: zeros.into_iter().zip(inputs).map(bytes).collect(),
            bindings,
            reason: reason.clone(),
            caps: self.caps.clone(),
            results: results
                .map(|(nth, (node, found))| (*node, found.bytes().to_vec(), expected(nth)))
                .collect(),
        };
        match new_file(&self.folder, &sanitised(&self.routine.name), &text.print()) {
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
