//! Fusion of the strips that [`vectorize`](super::vectorize) makes, and of the vector loops in them.

use lowered_ir::ir::Routine;

use crate::cpu::forward_stores::forward_stores;
use crate::cpu::fuse_loops::fuse_loops;
use codegen_core::Caps;

/// Fuses loops over strips, forwards values that a fused body stores and reads back, and normalises the
/// loops.
pub(crate) fn fuse_strips(routine: &mut Routine, caps: &Caps) {
    fuse_loops(routine, caps);
    forward_stores(routine);
}
