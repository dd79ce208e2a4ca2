//! Nodes of 32-bit integers, and code around hand-written kernels.

use std::sync::Arc;

use codegen_core::{Access, Code};
use device_runtime::{Context, Device, Location, PoolId};
use lowered_ir::ir::Symbol;
use tnode::{DType, HostArray, TensorNode};

use super::Gpu;
use super::kernels::{Store, StoreKernel};

pub use super::kernels::abi;
pub use crate::runtime::hand_made::{context, many_kernels, one_kernel, symbol};

/// A node of `len` elements of type `i32`.
pub fn node(name: &str, len: usize) -> TensorNode {
    TensorNode::builder(name).dims([len]).dtype(DType::I32).build().unwrap()
}

/// An array on the host with the values of such a node.
pub fn array(values: &[i32]) -> HostArray {
    HostArray::from_slice(values, [values.len()]).unwrap()
}

/// The values of a node of `i32` elements, read back.
pub fn values(context: &Context, node: &TensorNode) -> Vec<i32> {
    context.to_host(node).unwrap().as_slice().unwrap().to_vec()
}

/// A location in a pool.
pub fn at(pool: u32, offset: usize) -> Location {
    Location { pool: PoolId(pool), offset }
}

/// A context on a new stream, with a node.
pub(super) fn context_with(device: &Device, node: &TensorNode, start: &[i32]) -> Context {
    context(device).init_from_host(node, array(start)).unwrap()
}

/// Nodes as a kernel's memory parameters.
pub fn params(uses: &[(&TensorNode, Access)]) -> Vec<(Access, usize)> {
    uses.iter().map(|(node, access)| (*access, node.size_bytes().unwrap())).collect()
}

/// Code of one kernel on `uses`, whose positions are the nodes', and with all `symbols`.
pub fn code(
    gpu: &dyn Gpu,
    name: &str,
    uses: &[(&TensorNode, Access)],
    symbols: &[Symbol],
    threads: u32,
    stores: Vec<Store>,
) -> Arc<Code> {
    let kernel =
        StoreKernel { symbols: symbols.len(), ..StoreKernel::new(name, &params(uses), threads, stores) };
    one_kernel(uses, symbols, gpu.artifact(&[kernel]))
}
