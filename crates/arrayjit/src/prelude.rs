//! The types of most programs, for `use arrayjit::prelude::*`.

pub use crate::{
    Backend, Compiled, Context, DType, Error, HostArray, LoadedProgram, MemoryMode, Nodes, Program, Routine,
    Settings, TensorNode,
};
