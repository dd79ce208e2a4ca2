//! The memory plan of a routine: the bytes that are alive during each kernel call.

use std::collections::BTreeMap;

use codegen_core::{ScheduledRoutine, Slot};
use lowered_ir::ir::NodeRef;
use serde::Serialize;

/// The memory that the calls of a routine use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct MemoryPlan {
    /// The nodes in the context that some call uses. They exist before, during and after a run.
    pub nodes: Vec<PlannedMemory>,
    /// The temporaries, which exist from their first to their last use.
    pub temporaries: Vec<PlannedMemory>,
    /// For each call the bytes of all nodes and of the temporaries that are alive during it.
    pub live_bytes: Vec<usize>,
    /// Bytes of the memory in which the temporaries are placed. It is allocated as long as the routine is
    /// linked.
    pub temporary_pool_bytes: usize,
}

/// A node or a temporary of a memory plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct PlannedMemory {
    /// The node's name.
    pub name: String,
    /// Size in bytes.
    pub bytes: usize,
    /// The positions of the first and of the last call that use it.
    pub calls: (usize, usize),
    /// The first byte in the pool of temporaries; `None` for a node in the context.
    pub offset: Option<usize>,
}

impl MemoryPlan {
    /// The plan of a scheduled routine.
    pub(crate) fn of(schedule: &ScheduledRoutine) -> MemoryPlan {
        let mut uses: BTreeMap<NodeRef, PlannedMemory> = BTreeMap::new();
        for (at, call) in schedule.calls().iter().enumerate() {
            let sizes = schedule.kernels()[call.kernel].abi().memory().map(|(_, bytes)| bytes);
            for (slot, bytes) in call.args.iter().zip(sizes) {
                let &Slot::Node(node) = slot else { continue };
                let name = || name(schedule, node);
                let entry = uses.entry(node);
                entry
                    .or_insert_with(|| PlannedMemory { name: name(), bytes, calls: (at, at), offset: None })
                    .calls
                    .1 = at;
            }
        }
        let temporaries = schedule.temps().iter().map(|temp| PlannedMemory {
            name: name(schedule, temp.node),
            bytes: temp.bytes,
            calls: temp.live,
            offset: Some(temp.offset),
        });
        let mut plan = MemoryPlan {
            nodes: uses.into_values().collect(),
            temporaries: temporaries.collect(),
            live_bytes: vec![0; schedule.calls().len()],
            temporary_pool_bytes: schedule.temp_bytes(),
        };
        plan.count();
        plan
    }

    /// Appends the plan of a part that runs after the calls so far, with a pool of its own.
    pub(crate) fn append(&mut self, part: MemoryPlan) {
        let (calls, pool) = (self.live_bytes.len(), self.temporary_pool_bytes);
        let later = |mut memory: PlannedMemory| {
            memory.calls = (memory.calls.0 + calls, memory.calls.1 + calls);
            memory.offset = memory.offset.map(|offset| offset + pool);
            memory
        };
        for node in part.nodes.into_iter().map(later) {
            match self.nodes.iter_mut().find(|known| (&known.name, known.bytes) == (&node.name, node.bytes)) {
                Some(known) => known.calls.1 = node.calls.1,
                None => self.nodes.push(node),
            }
        }
        self.temporaries.extend(part.temporaries.into_iter().map(later));
        self.live_bytes.resize(calls + part.live_bytes.len(), 0);
        self.temporary_pool_bytes += part.temporary_pool_bytes;
        self.count();
    }

    /// The most bytes that are alive during a call.
    pub fn peak_bytes(&self) -> usize {
        self.live_bytes.iter().copied().max().unwrap_or(0)
    }

    /// Computes the live bytes of each call.
    fn count(&mut self) {
        let nodes: usize = self.nodes.iter().map(|node| node.bytes).sum();
        self.live_bytes.fill(nodes);
        for temporary in &self.temporaries {
            let (first, last) = temporary.calls;
            if let Some(calls) = self.live_bytes.get_mut(first..=last) {
                calls.iter_mut().for_each(|bytes| *bytes += temporary.bytes);
            }
        }
    }
}

fn name(schedule: &ScheduledRoutine, node: NodeRef) -> String {
    schedule.nodes().get(node.index()).map_or("?", |decl| decl.name.as_str()).to_owned()
}

#[cfg(all(test, feature = "cranelift"))]
mod tests {
    use lowered_ir::passes::runner::Trace;

    use super::*;
    use crate::{Backend, Settings};

    /// Two matmuls in a row, then the sum of the second result.
    const TEXT: &str = "routine @chain fast {
        node %0 \"x\" f32[256, 256] on_device
        node %1 \"h\" f32[256, 256] local
        node %2 \"g\" f32[256, 256] local
        node %3 \"y\" f32[256, 256] on_device
        for i0 in 0..256 { for i1 in 0..256 { %1[i0, i1] := 0.0f32 } }
        for i2 in 0..256 { for i3 in 0..256 { for i4 in 0..256 {
          %1[i2, i3] := %1[i2, i3] + %0[i2, i4] * %0[i4, i3] } } }
        for i5 in 0..256 { for i6 in 0..256 { %2[i5, i6] := 0.0f32 } }
        for i7 in 0..256 { for i8 in 0..256 { for i9 in 0..256 {
          %2[i7, i8] := %2[i7, i8] + %1[i7, i9] * %1[i9, i8] } } }
        for i10 in 0..256 { for i11 in 0..256 { %3[i10, i11] := 0.0f32 } }
        for i12 in 0..256 { for i13 in 0..256 { for i14 in 0..256 {
          %3[i12, i13] := %3[i12, i13] + %2[i12, i14] * %2[i14, i13] } } }
      }";

    fn plan() -> MemoryPlan {
        let settings = Settings { threads: 2, ..Settings::default() };
        let routine = lowered_ir::text::parse(TEXT).expect("a valid text");
        let backend = Backend::open_with("multicore", &settings).expect("it is in every build");
        let schedule = backend.generator().schedule(&routine, &mut Trace::none()).expect("a valid routine");
        MemoryPlan::of(&schedule)
    }

    #[test]
    fn temporaries_are_alive_from_their_first_to_their_last_use() {
        let (plan, bytes) = (plan(), 256 * 256 * 4);
        let names = |memory: &[PlannedMemory]| -> Vec<String> {
            memory.iter().map(|memory| format!("{} {:?}", memory.name, memory.calls)).collect()
        };
        // `h` has the memory of `y` until it is written.
        assert_eq!(names(&plan.nodes), ["x (0, 0)", "y (0, 2)"]);
        assert_eq!(names(&plan.temporaries), ["g (1, 2)"]);
        assert_eq!(plan.live_bytes, [2 * bytes, 3 * bytes, 3 * bytes]);
        assert_eq!((plan.peak_bytes(), plan.temporary_pool_bytes), (3 * bytes, bytes));
    }

    #[test]
    fn parts_run_one_after_the_other_with_pools_of_their_own() {
        let (mut whole, bytes) = (plan(), 256 * 256 * 4);
        whole.append(plan());
        assert_eq!(whole.nodes.len(), 2, "both parts use the same nodes");
        assert_eq!(whole.nodes[0].calls, (0, 3));
        assert_eq!(whole.live_bytes, [2, 3, 3, 2, 3, 3].map(|count| count * bytes));
        assert_eq!(whole.temporary_pool_bytes, 2 * bytes);
        assert_eq!(whole.temporaries[1].offset, whole.temporaries[0].offset.map(|at| at + bytes));
    }
}
