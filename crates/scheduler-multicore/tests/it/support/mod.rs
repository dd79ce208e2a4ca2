//! Hand-made nodes and code for the tests of the CPU device.
#![allow(dead_code, unused_imports, unreachable_pub, reason = "each test binary uses its own part")]

use std::sync::Arc;

use codegen_core::{Access, Code, Launch, host::HostFn};
pub use codegen_testkit::runtime::hand_made::*;
use tnode::TensorNode;

/// Code of one native kernel that accesses `uses`.
pub fn native(
    name: &str,
    uses: &[(&TensorNode, Access)],
    launch: Launch,
    scratch_bytes: usize,
    function: HostFn,
) -> Arc<Code> {
    // SAFETY: the tests' functions access only their parameters, do not unwind, and are never unloaded.
    #[allow(unsafe_code, reason = "vouches for the tests' own functions")]
    unsafe {
        codegen_testkit::runtime::hand_made::native(name, uses, launch, scratch_bytes, function)
    }
}
