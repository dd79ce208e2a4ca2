//! Merge buffers: a stream's copies of other contexts' nodes, for routines that merge them.
//!
//! The runtime owns them: a merge buffer is an ordinary pool. The first transfer makes it, a larger transfer
//! replaces it by a larger one, and other transfers reuse it. Only the stream's own tasks access it, so their
//! order would suffice; nevertheless its memory is ordered like any other. A routine that reads the merge
//! buffer is bound to its location when it runs, since the location changes; a routine that borrows a source
//! is bound to the source instead.

use std::sync::{Arc, Mutex, Weak};

use codegen_core::Binding;
use smallvec::SmallVec;
use tnode::TensorNode;

use crate::{
    checked::{LoadedKernel, MemoryRange},
    driver::Driver,
    error::{Result, RunError},
    pool::{Buffer, allocate_merge, lock},
    stream::Stream,
    submit::{Call, Kernels},
};

/// Maximum number of sources for which a routine keeps its kernels bound.
const MAX_BOUND: usize = 8;

/// A stream's merge buffer, and the node whose copy is scheduled into it.
#[derive(Debug, Default)]
pub(crate) struct MergeBuffer {
    buffer: Option<Arc<Buffer>>,
    node: Option<TensorNode>,
}

impl MergeBuffer {
    /// The node whose copy the buffer holds, or will hold after scheduled tasks.
    pub(crate) fn node(&self) -> Option<&TensorNode> {
        self.node.as_ref()
    }

    pub(crate) fn capacity(&self) -> usize {
        self.buffer.as_ref().map_or(0, |buffer| buffer.bytes())
    }

    /// The buffer with a size of at least `bytes` bytes. A new, larger buffer holds no node.
    pub(crate) fn reserve(&mut self, stream: &Stream, bytes: usize) -> Result<Arc<Buffer>, RunError> {
        if let Some(buffer) = self.buffer.as_ref().filter(|buffer| buffer.bytes() >= bytes) {
            return Ok(Arc::clone(buffer));
        }
        let larger = allocate_merge(stream, bytes)?;
        self.node = None;
        self.buffer = Some(Arc::clone(&larger));
        Ok(larger)
    }

    /// Notes that a copy of the node is scheduled into the buffer.
    pub(crate) fn set_node(&mut self, node: &TensorNode) {
        self.node = Some(node.clone());
    }

    /// The buffer, if it holds a copy of the node for a routine.
    pub(crate) fn buffer_with(
        &self,
        node: &TensorNode,
        routine: &str,
        stream: &Stream,
    ) -> Result<&Arc<Buffer>, RunError> {
        match (&self.node, &self.buffer) {
            (Some(found), Some(buffer)) if found == node => Ok(buffer),
            (found, _) => Err(RunError::MergeBuffer {
                routine: routine.to_owned(),
                stream: stream.name(),
                expected: node.name(),
                found: found
                    .as_ref()
                    .map_or_else(|| "nothing".to_owned(), |n| format!("node `{}`", n.name())),
            }),
        }
    }
}

/// The kernels of a routine that reads the merge buffer.
#[derive(Debug)]
pub(crate) struct Merging {
    /// The node whose copy the routine reads.
    pub(crate) node: TensorNode,
    pub(crate) calls: Vec<OpenCall>,
    bound: Mutex<SmallVec<[SourceBinding; 2]>>,
}

/// One kernel of a routine, whose memory is known except for the merge buffer.
#[derive(Debug)]
pub(crate) struct OpenCall {
    pub(crate) kernel: LoadedKernel,
    /// The arguments; none stands for the merge buffer.
    pub(crate) args: Vec<Option<MemoryRange>>,
    /// What gives each static index its value.
    pub(crate) bindings: Vec<Binding>,
}

/// The kernels, bound to one source.
#[derive(Debug)]
struct SourceBinding {
    source: Weak<Buffer>,
    kernels: Arc<Kernels>,
}

impl Merging {
    pub(crate) fn new(node: TensorNode, calls: Vec<OpenCall>) -> Merging {
        Merging { node, calls, bound: Mutex::default() }
    }

    /// The kernels with a source in place of the merge buffer; the device accesses the source as `at`.
    pub(crate) fn bound_to(
        &self,
        source: &Arc<Buffer>,
        at: &MemoryRange,
        routine: &str,
        stream: &Stream,
    ) -> Result<Arc<Kernels>, RunError> {
        let mut bound = lock(&self.bound);
        bound.retain(|bound| bound.source.strong_count() > 0);
        if let Some(bound) =
            bound.iter().find(|bound| std::ptr::eq(bound.source.as_ptr(), Arc::as_ptr(source)))
        {
            return Ok(Arc::clone(&bound.kernels));
        }
        let driver = stream.device().driver();
        let calls = self.calls.iter().map(|call| call.bind(driver, at));
        let kernels = calls
            .collect::<Result<Vec<_>, _>>()
            .and_then(|calls| Kernels::new(driver, calls))
            .map_err(RunError::driver(|| format!("binding `{routine}` to {}", source.name())))?;
        let kernels = Arc::new(kernels);
        if bound.len() == MAX_BOUND {
            bound.remove(0);
        }
        bound.push(SourceBinding { source: Arc::downgrade(source), kernels: Arc::clone(&kernels) });
        Ok(kernels)
    }
}

impl OpenCall {
    /// The call with a source in place of the merge buffer.
    pub(crate) fn bind(&self, driver: &dyn Driver, merge: &MemoryRange) -> Result<Call> {
        let args = self.args.iter().map(|arg| arg.as_ref().unwrap_or(merge).clone());
        let kernel = self.kernel.bind(driver, &args.collect::<SmallVec<[_; 8]>>())?;
        Ok(Call { kernel, bindings: self.bindings.clone() })
    }
}
