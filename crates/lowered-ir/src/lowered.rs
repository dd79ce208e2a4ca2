//! A routine together with the tensor nodes that it is about.

use tnode::TensorNode;

use crate::ir::LoweredRoutine;

/// A routine with the handles of its nodes.
#[derive(Clone, Debug)]
pub struct Lowered {
    /// The routine, in the loop IR, which refers to nodes by position.
    pub routine: LoweredRoutine,
    /// The handle of each node in [`LoweredRoutine::nodes`], in that order.
    pub nodes: Vec<TensorNode>,
}
