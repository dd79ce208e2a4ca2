//! Passes for every target.

// Passes, in the order of the pipelines.
pub(crate) mod expand_scalars;
pub(crate) mod initialize_locals;
pub(crate) mod leave_scans;
pub(crate) mod make_numerics_explicit;
pub(crate) mod normalize_loops;
pub(crate) mod propagate_copies;
pub(crate) mod propagate_initializers;
pub(crate) mod split_triangles;

// Steps after the last pass, which make kernels.
mod free_list; // gaps between allocations
pub(crate) mod groups; // statements that become kernels, and their order
pub(crate) mod partition; // kernels and their calls
pub(crate) mod plan_temporaries;
mod stack_arrays;

// Not a pass: a transformation that several passes apply.
pub(crate) mod unroll_and_jam;
