//! Analyses of the IR, which several passes use.

pub(crate) mod access; // order, fusion, overwrites
pub(crate) mod cost; // flops and distinct bytes
pub(crate) mod names; // free identifiers, and types
pub(crate) mod nest; // chains of loops
pub(crate) mod nodes; // lifetime, size and guarded reads of a node
pub(crate) mod reduction; // neutral elements, multiply-add
pub(crate) mod remarks; // equality up to the texts of comments
pub(crate) mod rename; // identifiers of a block
pub(crate) mod uses; // accesses of kernels to nodes
