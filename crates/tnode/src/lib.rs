#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

// Values.
pub mod convert;
mod dtype;
mod scalar;

// Memory modes.
mod decision;
mod mode; // memory modes and sets of outcomes
mod sharing;
mod state;

mod conflict;
mod predicates;

// Nodes.
mod label;
mod name; // identifiers from labels
mod padding; // dimensions and margins

mod builder;
mod commit; // atomic changes of many modes
mod delayed;
mod node;
mod pending;
mod registry;
mod run_size; // sizes that a run gives
mod size_values; // the values of sizes in a run
mod view;
mod weak;

// Arrays.
mod bytes; // aligned memory, and its total size
mod element;
mod host_array;
mod points;
mod render;

mod file_reader;
#[cfg(feature = "files")]
pub mod npy;
mod partial_file;
#[cfg(feature = "files")]
pub mod safetensors; // safetensors files
#[cfg(feature = "files")]
pub mod torch; // files of `torch.save`

mod debug_as_display;
mod error;

debug_as_display!(
    SizeMismatch,
    TensorNodeError,
    ModeConflict,
    ModeUndecided,
    UnknownDType,
    UnknownMemoryMode
);

pub use crate::builder::NodeBuilder;
pub use crate::bytes::ALIGN_BYTES;
pub use crate::commit::{commit_decisions, commit_modes};
pub use crate::conflict::ModeConflict;
pub use crate::decision::{Decision, Reason};
pub use crate::delayed::{DelayedDType, Inference};
pub use crate::dtype::{DType, UnknownDType};
pub use crate::element::Element;
pub use crate::error::TensorNodeError;
pub use crate::file_reader::FileReader;
pub use crate::host_array::HostArray;
pub use crate::label::Label;
pub use crate::mode::{Hosted, MemoryMode, Outcomes, Sharing, UnknownMemoryMode};
pub use crate::name::{AmbiguousIdents, IdentStyle};
pub use crate::node::{NodeId, TensorNode};
pub use crate::padding::{AxisPadding, Dims, MAX_RANK, Padding, RunSizes};
pub use crate::partial_file::PartialFile;
pub use crate::pending::Pending;
pub use crate::predicates::{ForceCtx, ModeUndecided};
pub use crate::registry::Registry;
pub use crate::render::RenderOptions;
pub use crate::run_size::{RunSize, SizeQuotient, SizeSum};
pub use crate::scalar::Scalar;
pub use crate::size_values::{SizeMismatch, SizeValues};
pub use crate::state::{DEFAULT_STACK_THRESHOLD_BYTES, ModeState};
pub use crate::view::View;
pub use crate::weak::WeakNode;
