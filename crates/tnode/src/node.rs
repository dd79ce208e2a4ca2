//! The tensor node: an array that occurs in computations, with or without memory.
//!
//! A [`TensorNode`] is a cheap handle. Its identity never changes; dimensions and element type are settled
//! once, when they are first needed; memory mode and names are refined over time. Invariants: a settled fact
//! does not change; the mode only narrows, and only under the lock of [`crate::commit`]; no lock is held
//! while an inference runs, because it may query any node.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::builder::NodeBuilder;
use crate::commit;
use crate::decision::Reason;
use crate::delayed::{self, DelayedDType, Inference};
use crate::dtype::DType;
use crate::error::{Result, TensorNodeError};
use crate::label::Label;
use crate::mode::{MemoryMode, Sharing};
use crate::name::{self, AmbiguousIdents, IdentStyle};
use crate::padding::{Dims, Padding, RunSizes, checked_elems};
use crate::predicates::ForceCtx;
use crate::registry::Registry;
use crate::run_size::RunSize;
use crate::state::ModeState;
use crate::view::View;

/// The number of a node within its registry; prints as `n12`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub(crate) u64);

impl NodeId {
    /// The id as an integer.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl From<u64> for NodeId {
    fn from(id: u64) -> NodeId {
        NodeId(id)
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "n{}", self.0)
    }
}

/// A handle to a tensor node. Handles compare, order and hash by registry and id.
#[derive(Clone)]
pub struct TensorNode(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) id: NodeId,
    pub(crate) registry: Registry,
    label: Label,
    shape: OnceLock<Shape>,
    planned_padding: Option<Padding>,
    dtype: OnceLock<DType>,
    open_dtype: Mutex<OpenDType>,
    modes: Mutex<ModeState>,
    view: OnceLock<View>,
    notes: Mutex<Notes>,
}

/// The settled dimensions, with and without margins.
#[derive(Clone)]
pub(crate) struct Shape {
    padded: Dims,
    unpadded: Dims,
    padding: Option<Padding>,
    elems: usize,
    sizes: RunSizes,
}

/// The element type while it is open, with the number of its changes.
struct OpenDType {
    delayed: DelayedDType,
    version: u64,
}

impl OpenDType {
    fn replace(&mut self, delayed: DelayedDType) -> DelayedDType {
        self.version += 1;
        std::mem::replace(&mut self.delayed, delayed)
    }
}

#[derive(Default)]
struct Notes {
    code_name: Option<String>,
    backend_info: String,
}

/// Locks a mutex for a short time. Ignores poisoning, because a panic cannot leave these plain values
/// half-written.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Inner {
    pub(crate) fn new(id: NodeId, registry: Registry, facts: &NodeBuilder, shape: Option<Shape>) -> Inner {
        Inner {
            id,
            registry,
            label: facts.label.clone(),
            shape: shape.map_or_else(OnceLock::new, OnceLock::from),
            planned_padding: facts.padding.clone(),
            dtype: OnceLock::new(),
            open_dtype: Mutex::new(OpenDType { delayed: facts.dtype.clone(), version: 0 }),
            modes: Mutex::new(facts.modes.clone()),
            view: OnceLock::new(),
            notes: Mutex::default(),
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.registry.forget(self.id);
    }
}

/// Identity and names.
impl TensorNode {
    /// Starts a node. By default, it has rank 0, type `f32` and an undecided mode.
    ///
    /// ```
    /// # use tnode::{DType, TensorNode};
    /// let w = TensorNode::builder("w1").dims([64, 128]).dtype(DType::F32).build()?;
    /// assert_eq!(w.size_bytes()?, 32768);
    /// # Ok::<(), tnode::TensorNodeError>(())
    /// ```
    pub fn builder(label: impl Into<Label>) -> NodeBuilder {
        NodeBuilder::new(label.into())
    }

    /// The node's number in its registry.
    pub fn id(&self) -> NodeId {
        self.0.id
    }

    /// The parts of its name, widest first.
    pub fn label(&self) -> &[String] {
        self.0.label.as_slice()
    }

    /// The name for messages: code name, else label, else id; gradients end in `.grad`.
    pub fn name(&self) -> String {
        name::debug_name(self.0.id.0, self.label(), self.code_name().as_deref())
    }

    /// The identifier that was chosen last for generated code.
    pub fn code_name(&self) -> Option<String> {
        lock(&self.0.notes).code_name.clone()
    }

    /// Proposes an identifier for generated code. The longer of two proposals is kept, so that names stay
    /// stable across compilations after a collision has made one longer.
    pub fn update_code_name(&self, ident: &str) {
        let mut notes = lock(&self.0.notes);
        if notes.code_name.as_ref().is_none_or(|present| ident.len() > present.len()) {
            notes.code_name = Some(ident.to_owned());
        }
    }

    /// Whether the label marks a gradient, and the identifier its remaining parts make, if any.
    pub fn no_grad_ident_label(&self) -> (bool, Option<String>) {
        name::no_grad_ident_label(self.label())
    }

    /// The node's identifier in a style; `ambiguous` holds the identifiers that are used with the node's id
    /// only.
    pub fn styled_ident(&self, style: IdentStyle, ambiguous: &AmbiguousIdents) -> String {
        name::styled_ident(self.0.id.0, self.label(), style, ambiguous)
    }

    /// The place where the node got memory last, for debugging. A link or an initialization records stream,
    /// pool and offset, as in `multicore:0:1 pool 2 offset 64`. The text is empty at first.
    pub fn backend_info(&self) -> String {
        lock(&self.0.notes).backend_info.clone()
    }

    /// Replaces the text of [`backend_info`](TensorNode::backend_info).
    pub fn set_backend_info(&self, info: impl Into<String>) {
        lock(&self.0.notes).backend_info = info.into();
    }

    /// One line for listings: id, name, type and dimensions, bytes, mode, notes. Leaves open facts open.
    pub fn header(&self) -> String {
        let name = self.name();
        let dtype = self.0.dtype.get().map_or_else(|| self.delayed_dtype().to_string(), DType::to_string);
        let dims = self.0.shape.get().map_or_else(|| "[?]".to_owned(), Shape::to_string);
        let bytes = self.known_size_bytes().map_or_else(String::new, |bytes| format!(" {bytes} bytes"));
        let mode = self.mode().short_code();
        let info = Some(self.backend_info())
            .filter(|i| !i.is_empty())
            .map_or_else(String::new, |i| format!(" ({i})"));
        format!("{} {name}: {dtype}{dims}{bytes} {mode}{info}", self.id())
    }

    fn known_size_bytes(&self) -> Option<usize> {
        Some(self.0.shape.get()?.elems * self.0.dtype.get()?.size_bytes())
    }
}

/// Dimensions.
impl TensorNode {
    /// The dimensions with margins.
    ///
    /// # Errors
    /// When they are not settled yet.
    pub fn dims(&self) -> Result<Dims> {
        Ok(self.shape()?.padded.clone())
    }

    /// The dimensions of the values, without margins.
    ///
    /// # Errors
    /// When they are not settled yet.
    pub fn dims_without_padding(&self) -> Result<Dims> {
        Ok(self.shape()?.unpadded.clone())
    }

    /// Settles the dimensions, given without margins. Settling the same dimensions again is not an error.
    ///
    /// # Errors
    /// When other dimensions are settled already, these do not fit the padding, or their product overflows.
    pub fn set_dims(&self, dims: impl IntoIterator<Item = usize>) -> Result<()> {
        self.set_dims_with(dims, RunSizes::new())
    }

    /// [`set_dims`](Self::set_dims), with the sizes that a run gives; see [`RunSizes`].
    ///
    /// # Errors
    /// When other dimensions or sizes are settled already, a node with margins has such sizes, or the product
    /// of the dimensions overflows.
    pub fn set_dims_with(&self, dims: impl IntoIterator<Item = usize>, sizes: RunSizes) -> Result<()> {
        self.settle(Shape::new(dims.into_iter().collect(), sizes, self.padding())?)
    }

    /// Settles the shape, or checks the dimensions and sizes against those that are settled.
    fn settle(&self, requested: Shape) -> Result<()> {
        let settled = self.0.shape.get_or_init(|| requested.clone());
        if settled.unpadded != requested.unpadded {
            let (settled, requested) = (settled.unpadded.clone(), requested.unpadded);
            return Err(TensorNodeError::DimsConflict { node: self.name(), settled, requested });
        }
        if settled.sizes != requested.sizes {
            let (settled, requested) = (settled.to_string(), requested.to_string());
            return Err(TensorNodeError::SizesConflict { node: self.name(), settled, requested });
        }
        Ok(())
    }

    /// Settles the dimensions, given without margins, together with margins that were left open: an operation
    /// that reads beyond the values determines both.
    ///
    /// # Errors
    /// When other dimensions or margins are settled already, the margins do not fit the dimensions, or the
    /// product of the dimensions overflows.
    pub fn set_dims_padded(&self, dims: impl IntoIterator<Item = usize>, padding: Padding) -> Result<()> {
        if self.0.planned_padding.as_ref().is_some_and(|planned| *planned != padding) {
            return Err(self.padding_conflict(&padding));
        }
        let requested = Shape::new(dims.into_iter().collect(), RunSizes::new(), Some(&padding))?;
        self.settle(requested)?;
        if self.padding() == Some(&padding) { Ok(()) } else { Err(self.padding_conflict(&padding)) }
    }

    fn padding_conflict(&self, requested: &Padding) -> TensorNodeError {
        let settled = self.padding().map_or_else(|| "none".to_owned(), Padding::to_string);
        TensorNodeError::PaddingConflict { node: self.name(), settled, requested: requested.to_string() }
    }

    /// The sizes that a run gives to axes; empty if all dimensions are constant or none is settled.
    pub fn run_sizes(&self) -> &[Option<RunSize>] {
        self.0.shape.get().map_or(&[], |shape| &shape.sizes)
    }

    /// The size that a run gives to an axis; `None` if the dimension is constant.
    pub fn run_size(&self, axis: usize) -> Option<&RunSize> {
        self.run_sizes().get(axis)?.as_ref()
    }

    /// The margins, if the node has any. While the dimensions are open, these are the margins that the node
    /// was made with.
    pub fn padding(&self) -> Option<&Padding> {
        self.0.shape.get().map_or(&self.0.planned_padding, |shape| &shape.padding).as_ref()
    }

    /// The number of elements with margins.
    ///
    /// # Errors
    /// When the dimensions are not settled yet.
    pub fn num_elems(&self) -> Result<usize> {
        Ok(self.shape()?.elems)
    }

    /// The bytes of the whole array with margins; settles the element type.
    ///
    /// # Errors
    /// When the dimensions are not settled yet.
    pub fn size_bytes(&self) -> Result<usize> {
        Ok(self.num_elems()? * self.dtype().size_bytes())
    }

    fn shape(&self) -> Result<&Shape> {
        self.0.shape.get().ok_or_else(|| TensorNodeError::DimsUnsettled { node: self.name() })
    }
}

impl Shape {
    pub(crate) fn new(unpadded: Dims, mut sizes: RunSizes, padding: Option<&Padding>) -> Result<Shape> {
        let padded = padding.map_or_else(|| Ok(unpadded.clone()), |p| p.padded(&unpadded))?;
        let elems = checked_elems(&padded)?;
        if sizes.iter().all(Option::is_none) {
            sizes.clear();
        }
        if let Some(size) = sizes.iter().flatten().next().filter(|_| padding.is_some()) {
            return Err(TensorNodeError::SizeWithPadding { size: size.to_string() });
        }
        sizes.resize(if sizes.is_empty() { 0 } else { unpadded.len() }, None);
        Ok(Shape { padded, unpadded, padding: padding.cloned(), elems, sizes })
    }
}

/// The dimensions without margins, as in `[n <= 2048, 64]`.
impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = |axis| self.sizes.get(axis).and_then(Option::as_ref);
        let dim = |(axis, dim): (usize, &usize)| match size(axis) {
            Some(size) => format!("{size} <= {dim}"),
            None => dim.to_string(),
        };
        write!(f, "[{}]", self.unpadded.iter().enumerate().map(dim).collect::<Vec<_>>().join(", "))
    }
}

/// Element type.
impl TensorNode {
    /// The element type; the first call settles it, running inferences.
    ///
    /// If inferences depend on each other in a cycle, the one that closes the cycle yields `bool`, which
    /// promotion ignores.
    pub fn dtype(&self) -> DType {
        loop {
            if let Some(&dtype) = self.0.dtype.get() {
                return dtype;
            }
            let (delayed, version) = {
                let open = lock(&self.0.open_dtype);
                (open.delayed.clone(), open.version)
            };
            let Some(inferred) = delayed::once_per_thread(self, || delayed.get()) else { return DType::Bool };
            self.settle_dtype(inferred, version);
        }
    }

    /// Settles the type that was computed from a version of the open type; does nothing if the open type
    /// changed meanwhile.
    fn settle_dtype(&self, dtype: DType, version: u64) {
        let mut open = lock(&self.0.open_dtype);
        if open.version != version || self.0.dtype.set(dtype).is_err() {
            return;
        }
        // An inference holds handles of the nodes whose types it reads, so it is dropped when it is no longer
        // needed. Dropping it may run foreign code.
        if let DelayedDType::Inferred(_) = open.delayed {
            let inference = open.replace(DelayedDType::Inferred(Inference::new(move || dtype)));
            drop(open);
            drop(inference);
        }
    }

    /// The element type with its default or its inferences. Does not settle it.
    pub fn delayed_dtype(&self) -> DelayedDType {
        lock(&self.0.open_dtype).delayed.clone()
    }

    /// Whether the element type is settled.
    pub fn is_dtype_settled(&self) -> bool {
        self.0.dtype.get().is_some()
    }

    /// The element type the user asked for, if any.
    pub fn specified_dtype(&self) -> Option<DType> {
        match self.delayed_dtype() {
            DelayedDType::Specified(dtype) => Some(dtype),
            DelayedDType::Default(_) | DelayedDType::Inferred(_) => None,
        }
    }

    /// Specifies the element type.
    ///
    /// # Errors
    /// When another one is specified or settled.
    pub fn update_dtype(&self, dtype: DType) -> Result<()> {
        self.update_open(|open| match self.0.dtype.get() {
            Some(&settled) if settled != dtype => Err(self.dtype_conflict("settled", settled, dtype)),
            Some(_) => Ok(open),
            None => open.specify(dtype).map_err(|present| self.dtype_conflict("specified", present, dtype)),
        })
    }

    /// Specifies the element type if the type known so far satisfies `only_if`. An inferred type is tested
    /// when the inference runs. The condition must not query this node.
    ///
    /// # Errors
    /// When a different type that satisfies `only_if` is specified or settled already.
    pub fn update_dtype_if(
        &self,
        only_if: impl Fn(DType) -> bool + Send + Sync + 'static,
        dtype: DType,
    ) -> Result<()> {
        self.update_open(|open| match self.0.dtype.get() {
            Some(&settled) if settled != dtype && only_if(settled) => {
                Err(self.dtype_conflict("settled", settled, dtype))
            }
            Some(_) => Ok(open),
            None => open.specify_if(dtype, only_if).map_err(|p| self.dtype_conflict("specified", p, dtype)),
        })
    }

    fn dtype_conflict(&self, how: &'static str, present: DType, requested: DType) -> TensorNodeError {
        TensorNodeError::DTypeConflict { node: self.name(), how, present, requested }
    }

    /// Adds an inference, which runs when the type is first needed. A specification overrides all inferences,
    /// and an inference overrides a default. If there are several inferences, the type is the promotion of
    /// their results.
    ///
    /// # Errors
    /// When the type is settled.
    pub fn infer_dtype(&self, infer: impl Fn() -> DType + Send + Sync + 'static) -> Result<()> {
        self.update_open(|open| match self.0.dtype.get() {
            Some(&present) => Err(TensorNodeError::InferenceTooLate { node: self.name(), present }),
            None => Ok(open.infer(Inference::new(infer))),
        })
    }

    /// Replaces the open type by the result of `update`.
    fn update_open(&self, update: impl FnOnce(DelayedDType) -> Result<DelayedDType>) -> Result<()> {
        let mut open = lock(&self.0.open_dtype);
        let updated = update(open.delayed.clone())?;
        let before = open.replace(updated);
        // Dropping an inference may run foreign code.
        drop(open);
        drop(before);
        Ok(())
    }
}

/// Memory mode.
impl TensorNode {
    /// A copy of the memory mode with its decisions.
    pub fn mode(&self) -> ModeState {
        commit::read(self)
    }

    pub(crate) fn modes(&self) -> MutexGuard<'_, ModeState> {
        lock(&self.0.modes)
    }

    pub(crate) fn recorded_view(&self) -> &OnceLock<View> {
        &self.0.view
    }

    /// The slice of another node that this node stands for, if it is a view.
    pub fn view(&self) -> Option<View> {
        commit::view(self)
    }

    /// Narrows the memory mode.
    ///
    /// # Errors
    /// When an earlier decision excludes `mode`.
    pub fn update_memory_mode(&self, mode: MemoryMode, reason: Reason) -> Result<()> {
        commit::update(self, |state| state.refine(mode, reason))
    }

    /// Decides whether streams share the node's buffer, which also decides that there is one.
    ///
    /// # Errors
    /// When the memory mode excludes it.
    pub fn update_memory_sharing(&self, sharing: Sharing, reason: Reason) -> Result<()> {
        commit::update(self, |state| state.refine_sharing(sharing, reason))
    }

    /// The facts that are needed to settle this node's mode. The call settles the element type.
    ///
    /// # Errors
    /// When the dimensions are not settled yet.
    pub fn force_ctx(&self, stack_threshold_bytes: usize, reason: Reason) -> Result<ForceCtx> {
        Ok(ForceCtx { elems: self.num_elems()?, dtype: self.dtype(), stack_threshold_bytes, reason })
    }

    /// The decisions about the node's memory mode in words.
    pub fn explain(&self) -> String {
        self.mode().explain(&format!("{} {}", self.id(), self.name()))
    }
}

impl TensorNode {
    /// A builder of nodes like this one: the same label, dimensions, margins and decisions about the memory
    /// mode, and the element type specified. Settles the element type.
    ///
    /// ```
    /// # use tnode::{DType, TensorNode};
    /// let w = TensorNode::builder("w").dims([64, 128]).dtype(DType::F16).build()?;
    /// let other = w.to_builder()?.build()?;
    /// assert_eq!((other.name(), other.dims()?, other.dtype()), (w.name(), w.dims()?, w.dtype()));
    /// assert_ne!(other, w);
    /// # Ok::<(), tnode::TensorNodeError>(())
    /// ```
    ///
    /// # Errors
    /// When the dimensions are not settled yet.
    pub fn to_builder(&self) -> Result<NodeBuilder> {
        let mut builder =
            TensorNode::builder(self.0.label.clone()).dims(self.dims_without_padding()?).dtype(self.dtype());
        builder = builder.run_sizes(self.run_sizes().into());
        builder.padding = self.padding().cloned();
        builder.modes = self.mode();
        Ok(builder)
    }
}

impl PartialEq for TensorNode {
    fn eq(&self, other: &TensorNode) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for TensorNode {}

impl PartialOrd for TensorNode {
    fn partial_cmp(&self, other: &TensorNode) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for TensorNode {
    fn cmp(&self, other: &TensorNode) -> Ordering {
        let key = |node: &TensorNode| (node.0.id, node.0.registry.serial());
        key(self).cmp(&key(other))
    }
}

impl Hash for TensorNode {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.id.hash(state);
    }
}

impl fmt::Debug for TensorNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.header())
    }
}
