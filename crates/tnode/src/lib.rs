#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

// Values.
pub mod convert; // float formats to floats and back, bit for bit
mod dtype; // element types
mod scalar; // one value of any type

// Memory modes.
mod decision; // a decision and its reason
mod mode; // memory modes and sets of outcomes
mod sharing; // the table of sharing updates
mod state; // the mode of a node with its chain of decisions

mod conflict; // decisions that exclude each other
mod predicates; // questions about a mode

// Nodes.
mod label; // names given by users
mod name; // identifiers from labels
mod padding; // dimensions and margins

mod builder; // construction of nodes
mod commit; // atomic changes of many modes
mod delayed; // element types that are settled late
mod node; // the tensor node
mod pending; // decisions that are not committed
mod registry; // live nodes by id
mod view; // nodes that are a slice of another node
mod weak; // handles that do not keep nodes alive

// Arrays.
mod bytes; // aligned memory, and its total size
mod element; // Rust types of elements
mod host_array; // arrays in host memory
mod points; // columns as point clouds
mod render; // arrays as text

#[cfg(feature = "files")]
pub mod npy; // NumPy files
mod partial_file; // files that appear whole or not at all
#[cfg(feature = "files")]
pub mod safetensors; // safetensors files

mod debug_as_display; // `Debug` of errors prints their message
mod error;

debug_as_display!(Error, ModeConflict, ModeUndecided, UnknownDType, UnknownMemoryMode);

pub use crate::builder::NodeBuilder;
pub use crate::bytes::ALIGN_BYTES;
pub use crate::commit::{commit_decisions, commit_modes};
pub use crate::conflict::ModeConflict;
pub use crate::decision::{Decision, Reason};
pub use crate::delayed::{DelayedDType, Inference};
pub use crate::dtype::{DType, UnknownDType};
pub use crate::element::Element;
pub use crate::error::Error;
pub use crate::host_array::HostArray;
pub use crate::label::Label;
pub use crate::mode::{Hosted, MemoryMode, Outcomes, Sharing, UnknownMemoryMode};
pub use crate::name::{AmbiguousIdents, IdentStyle};
pub use crate::node::{NodeId, TensorNode};
pub use crate::padding::{AxisPadding, Dims, MAX_RANK, Padding};
pub use crate::partial_file::PartialFile;
pub use crate::pending::Pending;
pub use crate::predicates::{ForceCtx, ModeUndecided};
pub use crate::registry::Registry;
pub use crate::render::RenderOptions;
pub use crate::scalar::Scalar;
pub use crate::state::{DEFAULT_STACK_THRESHOLD_BYTES, ModeState};
pub use crate::view::View;
pub use crate::weak::WeakNode;
