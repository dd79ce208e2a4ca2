//! Merge buffers: where a stream keeps a copy of another context's node for the routine that merges it.
//!
//! The runtime owns them: a merge buffer is an ordinary pool, made by the first transfer, replaced by a
//! larger one when it must grow, and reused otherwise. Only the stream's own tasks touch it, so their order
//! suffices; its memory is ordered like any other all the same. A routine that reads the merge buffer is
//! bound to its place when it runs, since the place changes; a routine that is lent a source is bound to that
//! instead.

use std::sync::{Arc, Mutex, Weak};

use smallvec::SmallVec;
use tnode::TensorNode;

use crate::{
    checked::{LoadedKernel, MemoryRange},
    driver::Driver,
    error::{DriverError, Error},
    pool::{Buffer, allocate_merge, lock},
    stream::Stream,
    submit::{Call, Kernels},
};

/// How many places a routine remembers its kernels bound to.
const REMEMBERED: usize = 8;

/// What is scheduled into a stream's merge buffer.
#[derive(Debug, Default)]
pub(crate) struct Landing {
    buffer: Option<Arc<Buffer>>,
    holds: Option<TensorNode>,
}

impl Landing {
    /// The node whose copy it holds.
    pub(crate) fn holds(&self) -> Option<&TensorNode> {
        self.holds.as_ref()
    }

    pub(crate) fn capacity(&self) -> usize {
        self.buffer.as_ref().map_or(0, |buffer| buffer.bytes())
    }

    /// The buffer, at least so large. A larger one holds nothing yet.
    pub(crate) fn room(&mut self, stream: &Stream, bytes: usize) -> Result<Arc<Buffer>, Error> {
        if let Some(buffer) = self.buffer.as_ref().filter(|buffer| buffer.bytes() >= bytes) {
            return Ok(Arc::clone(buffer));
        }
        let larger = allocate_merge(stream, bytes)?;
        self.holds = None;
        self.buffer = Some(Arc::clone(&larger));
        Ok(larger)
    }

    /// Notes that a copy of the node is scheduled into the buffer.
    pub(crate) fn hold(&mut self, node: &TensorNode) {
        self.holds = Some(node.clone());
    }

    /// The buffer that holds a copy of the node for a routine.
    pub(crate) fn holding(
        &self,
        node: &TensorNode,
        routine: &str,
        stream: &Stream,
    ) -> Result<&Arc<Buffer>, Error> {
        match (&self.holds, &self.buffer) {
            (Some(found), Some(buffer)) if found == node => Ok(buffer),
            (found, _) => Err(Error::MergeBuffer {
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
    /// The node whose copy it reads.
    pub(crate) node: TensorNode,
    pub(crate) calls: Vec<OpenCall>,
    bound: Mutex<SmallVec<[Bound; 2]>>,
}

/// One kernel of a routine, whose memory is known but for the merge buffer.
#[derive(Debug)]
pub(crate) struct OpenCall {
    pub(crate) kernel: LoadedKernel,
    /// None stands for the merge buffer.
    pub(crate) args: Vec<Option<MemoryRange>>,
    /// As in [`Call`].
    pub(crate) bindings: Vec<usize>,
}

/// The kernels as bound to one source.
#[derive(Debug)]
struct Bound {
    source: Weak<Buffer>,
    kernels: Arc<Kernels>,
}

impl Merging {
    pub(crate) fn new(node: TensorNode, calls: Vec<OpenCall>) -> Merging {
        Merging { node, calls, bound: Mutex::default() }
    }

    /// The kernels with the source, which the device reaches as `at`, in place of the merge buffer.
    pub(crate) fn bound_to(
        &self,
        source: &Arc<Buffer>,
        at: &MemoryRange,
        routine: &str,
        stream: &Stream,
    ) -> Result<Arc<Kernels>, Error> {
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
            .map_err(Error::driver(|| format!("binding `{routine}` to {}", source.name())))?;
        let kernels = Arc::new(kernels);
        if bound.len() == REMEMBERED {
            bound.remove(0);
        }
        bound.push(Bound { source: Arc::downgrade(source), kernels: Arc::clone(&kernels) });
        Ok(kernels)
    }
}

impl OpenCall {
    /// The call with a source in place of the merge buffer.
    pub(crate) fn bind(&self, driver: &dyn Driver, merge: &MemoryRange) -> Result<Call, DriverError> {
        let args = self.args.iter().map(|arg| arg.as_ref().unwrap_or(merge).clone());
        let kernel = self.kernel.bind(driver, &args.collect::<SmallVec<[_; 8]>>())?;
        Ok(Call { kernel, bindings: self.bindings.clone() })
    }
}
