//! Construction of tensor nodes.

use crate::decision::Reason;
use crate::delayed::DelayedDType;
use crate::dtype::DType;
use crate::error::Result;
use crate::host_array::HostArray;
use crate::label::Label;
use crate::mode::{Hosted, MemoryMode};
use crate::node::{Inner, NodeId, Shape, TensorNode};
use crate::padding::{Dims, Padding, RunSizes};
use crate::registry::Registry;
use crate::state::ModeState;

/// The facts of a node under construction; see [`TensorNode::builder`].
#[derive(Clone, Debug)]
pub struct NodeBuilder {
    pub(crate) label: Label,
    id: Option<NodeId>,
    dims: Option<Dims>,
    sizes: RunSizes,
    pub(crate) padding: Option<Padding>,
    pub(crate) dtype: DelayedDType,
    pub(crate) modes: ModeState,
}

impl NodeBuilder {
    pub(crate) fn new(label: Label) -> NodeBuilder {
        NodeBuilder {
            label,
            id: None,
            dims: Some(Dims::new()),
            sizes: RunSizes::new(),
            padding: None,
            dtype: DelayedDType::Default(DType::F32),
            modes: ModeState::undecided(),
        }
    }

    /// Sets the dimensions, without margins.
    pub fn dims(mut self, dims: impl IntoIterator<Item = usize>) -> NodeBuilder {
        self.dims = Some(dims.into_iter().collect());
        self
    }

    /// Names the sizes that a run gives to axes. The dimension of such an axis is the size's bound.
    pub fn run_sizes(mut self, sizes: RunSizes) -> NodeBuilder {
        self.sizes = sizes;
        self
    }

    /// Leaves the dimensions open until [`TensorNode::set_dims`].
    pub fn dims_later(mut self) -> NodeBuilder {
        self.dims = None;
        self
    }

    /// Sets the dimensions, margins and element type of an array whose values the node has on the host.
    ///
    /// The type is specified and the mode is hosted, with the kind of hosting left open.
    #[track_caller]
    pub fn of_array(self, array: &HostArray) -> NodeBuilder {
        let reason = Reason::new("it was made from a host array");
        let builder = self.dims(array.dims_without_padding()).dtype(array.dtype());
        NodeBuilder { padding: array.padding().cloned(), ..builder }
            .mode_because(MemoryMode::Hosted(Hosted::Unset), reason)
    }

    /// Specifies the element type.
    pub fn dtype(mut self, dtype: DType) -> NodeBuilder {
        self.dtype = DelayedDType::Specified(dtype);
        self
    }

    /// Sets the element type that the node has unless another one is specified or inferred.
    pub fn default_dtype(mut self, dtype: DType) -> NodeBuilder {
        self.dtype = DelayedDType::Default(dtype);
        self
    }

    /// Sets the margins around the values.
    pub fn padding(mut self, padding: Padding) -> NodeBuilder {
        self.padding = Some(padding);
        self
    }

    /// Sets the requested memory mode; the last call counts.
    #[track_caller]
    pub fn mode(self, mode: MemoryMode) -> NodeBuilder {
        self.mode_because(mode, Reason::new("it was specified when the node was made"))
    }

    /// Sets the requested memory mode with a reason.
    pub fn mode_because(mut self, mode: MemoryMode, reason: Reason) -> NodeBuilder {
        self.modes = ModeState::decided(mode, reason);
        self
    }

    /// Sets a fixed id. Without it, the node gets the next free id.
    pub fn id(mut self, id: impl Into<NodeId>) -> NodeBuilder {
        self.id = Some(id.into());
        self
    }

    /// Makes the node in the global registry.
    ///
    /// # Errors
    /// When the padding does not fit the dimensions, a node with margins has sizes of a run, the array would
    /// be too large, or the fixed id is taken.
    pub fn build(self) -> Result<TensorNode> {
        self.build_in(Registry::global())
    }

    /// Makes the node in `registry`.
    ///
    /// # Errors
    /// The errors of [`build`](NodeBuilder::build).
    pub fn build_in(self, registry: &Registry) -> Result<TensorNode> {
        let shape = |dims| Shape::new(dims, self.sizes.clone(), self.padding.as_ref());
        let settled = self.dims.clone().map(shape).transpose()?;
        registry.register(self.id, |id| Inner::new(id, registry.clone(), &self, settled.clone()))
    }
}
