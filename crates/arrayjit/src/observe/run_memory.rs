//! The memory of the runs of a linked routine, for reports.
//!
//! A link allocates everything that runs need on the device, so the peak of a run is the memory of the nodes
//! and of the temporaries. [`Device::memory_report`](device_runtime::Device::memory_report) names both. The
//! threads of a CPU have scratch memory of their own, which kernels of all routines reuse.

use std::{collections::BTreeMap, fmt};

use codegen_core::Code;
use device_runtime::Context;

/// The memory of a run, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RunMemory {
    /// The nodes in the routine's context.
    nodes: usize,
    /// The values that live during a run.
    temporaries: usize,
    /// The scratch memory of a thread.
    scratch: usize,
}

impl RunMemory {
    /// The memory of routines with this code in a context in which they are linked. Arrays of the host that
    /// the device reads in place, and merge buffers, are no memory of the context.
    pub(crate) fn of<'a>(context: &Context, codes: impl Iterator<Item = &'a Code>) -> RunMemory {
        let report = context.stream().device().memory_report();
        let items = report.pools.iter().flat_map(|pool| pool.items.iter().map(move |item| (pool.pool, item)));
        let items: BTreeMap<_, _> =
            items.map(|(pool, item)| ((pool, item.name.clone(), item.offset), item.bytes)).collect();
        let nodes = context.nodes().into_iter().filter_map(|node| {
            let location = context.location(&node)?;
            items.get(&(location.pool, node.name(), location.offset))
        });
        let (mut temporaries, mut scratch) = (0, 0);
        for code in codes {
            temporaries += code.schedule().temp_bytes();
            let kernels = code.artifact().kernels().iter().map(|kernel| kernel.scratch_bytes);
            scratch = kernels.fold(scratch, usize::max);
        }
        RunMemory { nodes: nodes.sum(), temporaries, scratch }
    }
}

impl fmt::Display for RunMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RunMemory { nodes, temporaries, scratch } = self;
        let peak = nodes + temporaries;
        write!(f, "{peak} bytes at peak: {nodes} of nodes, {temporaries} of temporaries")?;
        match scratch {
            0 => Ok(()),
            scratch => write!(f, "; {scratch} bytes of scratch memory per thread"),
        }
    }
}
