//! Compiled routines, which link into contexts.

use std::sync::Arc;

use assignments::{Assignments, Nodes, UnknownNode, Warning};
use codegen_core::{Code, Logging};
use device_runtime::Context;
use lowered_ir::{
    ir,
    pipeline::{Changes, Optimized},
    stack::with_enough,
};
use tnode::TensorNode;

use crate::{
    fallback::{DividedCode, Fallback, PartCode, logging_to},
    observer::{CompiledPart, LinkObserver},
    routine::Routine,
    target::Target,
};

/// Compiled assignments with their nodes: links into any context of the backend's devices, any number of
/// times, by any thread.
#[derive(Clone, Debug)]
pub struct Compiled {
    pub(crate) form: CompiledForm,
    pub(crate) nodes: Vec<TensorNode>,
    pub(crate) optimized: Arc<Optimized>,
    pub(crate) warnings: Vec<Warning>,
    /// The changes to the computations of virtual nodes.
    pub(crate) changes: Arc<Changes>,
    /// Whether it computes virtual nodes of earlier routines.
    pub(crate) has_imports: bool,
    /// The nodes that the text made.
    pub(crate) text_nodes: Nodes,
    /// The program that gives declared nodes their initial values.
    pub(crate) initial: Option<Arc<Assignments>>,
    /// Observes the linked routines, if the settings ask for it.
    pub(crate) observer: Option<Arc<dyn LinkObserver>>,
}

#[derive(Clone, Debug)]
pub(crate) enum CompiledForm {
    /// All kernels run on the backend itself.
    Whole(Arc<Code>),
    /// Some kernels run on the fallback backend.
    Divided(Arc<DividedCode>),
}

impl CompiledForm {
    pub(crate) fn name(&self) -> &str {
        match self {
            CompiledForm::Whole(code) => code.schedule().name(),
            CompiledForm::Divided(code) => &code.name,
        }
    }

    /// The code of each part, in the order in which parts run, with the backend that runs it; `own` runs
    /// whole routines.
    pub(crate) fn parts<'c>(&'c self, own: &'c Target) -> Vec<CompiledPart<'c>> {
        match self {
            CompiledForm::Whole(code) => vec![CompiledPart { target: own, code }],
            CompiledForm::Divided(code) => {
                let part =
                    |part: &'c PartCode| CompiledPart { target: code.target(part.place), code: &part.code };
                code.parts.iter().map(part).collect()
            }
        }
    }

    /// The statements that the backend rejects and its fallback runs, in order.
    pub(crate) fn fallbacks(&self) -> &[Fallback] {
        match self {
            CompiledForm::Whole(_) => &[],
            CompiledForm::Divided(code) => &code.fallbacks,
        }
    }
}

impl Compiled {
    /// The routine's name: the given one, or the last node it writes.
    pub fn name(&self) -> &str {
        self.form.name()
    }

    /// The parameters among the static symbols in binding order, each with its range.
    pub fn symbols(&self) -> &[ir::Symbol] {
        self.codes().next().map_or(&[], |code| ir::Symbol::parameters(code.schedule().symbols()))
    }

    /// The code without its nodes: one item, or, where statements fall back, one for each part in the order
    /// of execution.
    pub fn codes(&self) -> impl Iterator<Item = &Arc<Code>> {
        let (whole, parts) = match &self.form {
            CompiledForm::Whole(code) => (Some(code), [].as_slice()),
            CompiledForm::Divided(code) => (None, code.parts.as_slice()),
        };
        whole.into_iter().chain(parts.iter().map(|part| &part.code))
    }

    /// The statements that the backend rejects and its fallback runs, in order; empty for most routines.
    pub fn fallbacks(&self) -> &[Fallback] {
        self.form.fallbacks()
    }

    /// Explains the memory mode that this routine gave the node: each decision with its reason and its place
    /// in the code. For a node that could have been inlined and was not, the explanation has the reason.
    /// `None` for a node that the routine does not mention.
    pub fn explain(&self, node: &TensorNode) -> Option<String> {
        let at = self.nodes.iter().position(|n| n == node)?;
        Some(self.optimized.explain(ir::NodeRef(at as u32)))
    }

    /// Legal but suspicious parts of the program: a quotient of integers stored in a node of floats, one
    /// random number for all elements, values that nothing uses. They are printed if `debug` is 1 or more.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// The nodes by their position in the code's table: nodes of the assignments, then the inputs of virtual
    /// nodes that earlier routines compute.
    pub fn nodes(&self) -> &[TensorNode] {
        &self.nodes
    }

    /// The node of that name: one that the text made, or one of [`Compiled::nodes`].
    ///
    /// # Errors
    ///
    /// A name that no node has. The error lists similar names.
    pub fn node(&self, name: &str) -> Result<&TensorNode, UnknownNode> {
        let given = || self.nodes.iter().find(|node| node.name() == name);
        self.text_nodes.get(name).or_else(given).ok_or_else(|| {
            let made = self.text_nodes.by_name().map(|(name, _)| name.to_owned());
            UnknownNode::among(name, made.chain(self.nodes.iter().map(TensorNode::name)))
        })
    }

    /// Links into a context. Nodes that the code reads must be in the context; nodes that it writes are
    /// allocated if absent. The routine's own context has both.
    ///
    /// # Errors
    ///
    /// A node that the context lacks, or a failed allocation; the context is unchanged then.
    pub fn link(&self, context: &Context) -> Result<Routine, device_runtime::RunError> {
        let log = self.observer.as_ref().and_then(|observer| observer.log());
        self.link_as(context, log.as_ref())
    }

    /// [`Compiled::link`], with a sink for the routine's log instead of a file, and a style of its own: with
    /// [`LogStyle::Rounded`](crate::LogStyle::Rounded), logs of targets whose last bits differ can be compared.
    /// Only routines compiled with the setting [`logs`](crate::settings::DebugSettings::logs) log. A sink must
    /// not run routines with statements that fall back: such a run would wait for the run that logs.
    ///
    /// # Errors
    ///
    /// Fails like [`Compiled::link`].
    pub fn link_logging(
        &self,
        context: &Context,
        logging: Logging,
    ) -> Result<Routine, device_runtime::RunError> {
        self.link_as(context, Some(&logging))
    }

    /// The nodes that the text made.
    pub(crate) fn text_nodes(&self) -> &Nodes {
        &self.text_nodes
    }

    /// Whether the code has computations of earlier routines' virtual nodes.
    pub(crate) fn has_imports(&self) -> bool {
        self.has_imports
    }

    /// Whether the text gives nodes initial values.
    pub(crate) fn has_initial_values(&self) -> bool {
        self.initial.is_some()
    }

    /// The same code over other nodes.
    pub(crate) fn over(&self, nodes: Vec<TensorNode>, text_nodes: Nodes) -> Compiled {
        Compiled { nodes, text_nodes, ..self.clone() }
    }

    /// The routine's changes to the computations of virtual nodes, and its nodes.
    pub(crate) fn changes(&self) -> (&Changes, &[TensorNode]) {
        (&self.changes, &self.nodes)
    }

    /// The code, if all of it runs on the backend itself, does not log, and is neither watched nor profiled.
    pub(crate) fn whole(&self) -> Option<&Arc<Code>> {
        match &self.form {
            CompiledForm::Whole(code) if !self.is_observed() => Some(code),
            CompiledForm::Whole(_) | CompiledForm::Divided(_) => None,
        }
    }

    /// Whether runs log, write capsules or are timed.
    fn is_observed(&self) -> bool {
        self.observer.as_ref().is_some_and(|observer| observer.observes_runs())
    }

    fn link_as(
        &self,
        context: &Context,
        logging: Option<&Logging>,
    ) -> Result<Routine, device_runtime::RunError> {
        // Some drivers generate code when linking, because code for them contains addresses.
        with_enough(|| {
            let linked = match &self.form {
                CompiledForm::Whole(code) => {
                    Routine::from(context.link(&logging_to(logging, code), &self.nodes)?)
                }
                CompiledForm::Divided(code) => Routine::divided(code.link(context, &self.nodes, logging)?),
            };
            let codes: Vec<&Code> = self.codes().map(|code| &**code).collect();
            let observer = self.observer.as_ref().and_then(|o| o.linked(linked.context(), &codes));
            Ok(linked.observed(observer))
        })
    }
}
