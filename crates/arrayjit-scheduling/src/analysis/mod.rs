//! Analyses of the IR, which several passes use.

pub(crate) mod access;
pub(crate) mod clipped_bounds; // indices below the ends of clipped loops
pub(crate) mod cost;
pub(crate) mod names;
pub(crate) mod nest;
pub(crate) mod nodes;
pub(crate) mod reduction; // neutral elements, multiply-add
pub(crate) mod remarks; // equality up to the texts of comments
pub(crate) mod rename;
pub(crate) mod shape; // statements that are equal but for their names
pub(crate) mod uses;
