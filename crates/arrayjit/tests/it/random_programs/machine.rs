//! Runs a scheduled routine like a device, on memory that reveals errors: temporaries and scratch memory
//! filled with garbage, canaries around every node, and parallel kernels split into parts that run in any
//! order.
#![allow(unsafe_code, reason = "kernels are called through their native interface")]

use std::iter;
use std::ops::Range;

use codegen_core::host::{HostModule, HostPtr};
use codegen_core::{Access, Artifact, KernelAbi, Param, Payload, ScheduledRoutine, Slot};

const CANARY: u8 = 0xa5;
const MARGIN: usize = 64;
const LINE: usize = 64;

/// Bytes at an aligned address with canaries on both sides.
struct Guarded {
    words: Vec<[u64; 8]>,
    bytes: usize,
}

impl Guarded {
    fn new(bytes: &[u8]) -> Guarded {
        let mut guarded = Guarded::garbage(bytes.len());
        // SAFETY: `garbage` made room for these bytes at its base.
        unsafe { guarded.base().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        guarded
    }

    fn garbage(bytes: usize) -> Guarded {
        let words = (bytes + 2 * MARGIN).div_ceil(LINE) + 1;
        Guarded { words: vec![[u64::from_ne_bytes([CANARY; 8]); 8]; words], bytes }
    }

    /// The first cache line after the margin. The allocation has one line more than needed, for alignment.
    fn base(&mut self) -> *mut u8 {
        let start = self.words.as_mut_ptr().cast::<u8>();
        start.wrapping_add(MARGIN + self.shift())
    }

    fn shift(&self) -> usize {
        (self.words.as_ptr() as usize).wrapping_neg() % LINE
    }

    /// Returns the bytes, if the canaries are unchanged.
    fn take(self, what: &str) -> Result<Vec<u8>, String> {
        let start = MARGIN + self.shift();
        let all: Vec<u8> = self.words.iter().flatten().flat_map(|word| word.to_ne_bytes()).collect();
        let (before, rest) = all.split_at(start);
        let (inside, after) = rest.split_at(self.bytes);
        if before.iter().chain(after).any(|byte| *byte != CANARY) {
            return Err(format!("{what}: memory around it was written"));
        }
        Ok(inside.to_vec())
    }
}

/// Runs every call of the schedule; `memory` has the bytes of each of its nodes. `cuts` determines how
/// parallel kernels are split.
pub(crate) fn run(
    schedule: &ScheduledRoutine,
    artifact: &Artifact,
    memory: &mut [Vec<u8>],
    bindings: &[i64],
    cuts: KernelSplits,
) -> Result<(), String> {
    let Payload::Host(module) = artifact.payload() else { return Err("not an artifact for the host".into()) };
    let mut nodes: Vec<Guarded> = memory.iter().map(|bytes| Guarded::new(bytes)).collect();
    let mut temps = Guarded::garbage(schedule.temp_bytes());
    for call in schedule.calls() {
        let abi = &artifact.kernels()[call.kernel];
        let args: Vec<HostPtr> = call
            .args
            .iter()
            .zip(&abi.params)
            .map(|(slot, param)| {
                let (access, bytes) = match *param {
                    Param::Node { access, bytes } => (access, bytes),
                    Param::MergeBuffer { bytes } => (Access::Read, bytes),
                    Param::StaticIndex { .. } => (Access::Read, 0),
                };
                let base = match *slot {
                    Slot::Node(node) => nodes[node.index()].base(),
                    Slot::Temp(temp) => temps.base().wrapping_add(schedule.temps()[temp.0 as usize].offset),
                    Slot::Merge(_) => std::ptr::dangling_mut(),
                };
                HostPtr { base, bytes, access }
            })
            .collect();
        let bindings: Vec<i64> = call.bindings.iter().map(|symbol| bindings[symbol.index()]).collect();
        for part in parts(module, call.kernel, abi, cuts) {
            let mut scratch = Guarded::garbage(abi.scratch_bytes);
            let base = scratch.base();
            // SAFETY: each argument points to as many bytes as the schedule planned for the node or temporary
            // it is bound to, aligned to a cache line; temporaries alive together do not overlap; the scratch
            // is fresh; one thread runs.
            unsafe { module.call(call.kernel, &args, &bindings, base, part.start, part.end) }?;
            scratch.take(&format!("scratch of {}", abi.name))?;
        }
    }
    temps.take("temporaries")?;
    for (at, (bytes, node)) in memory.iter_mut().zip(nodes).enumerate() {
        *bytes = node.take(&format!("node %{at}"))?;
    }
    Ok(())
}

/// The way in which parallel kernels are split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KernelSplits {
    /// Does not split them.
    Whole,
    /// Splits them into single iterations, the last one first.
    Backwards,
    /// Splits them into three uneven parts, the middle one first.
    Uneven,
}

fn parts(module: &HostModule, kernel: usize, abi: &KernelAbi, cuts: KernelSplits) -> Vec<Range<u64>> {
    let extent = abi.launch.extent;
    match cuts {
        _ if !module.is_splittable(kernel) || extent < 2 => iter::once(0..extent).collect(),
        KernelSplits::Whole => iter::once(0..extent).collect(),
        KernelSplits::Backwards => (0..extent).rev().map(|at| at..at + 1).collect(),
        KernelSplits::Uneven => {
            let (a, b) = (extent / 3, extent - extent / 4);
            vec![a..b, b..extent, 0..a]
        }
    }
}
