//! Temporaries: lifetimes of local nodes, and their places in memory.
//!
//! Two temporaries share bytes only if no call is within both lifetimes. A large temporary that is dead
//! before a result is first accessed has the result's memory, if runs overwrite the whole result. The others
//! have offsets in the memory of a run, which are multiples of the target's alignment.

use std::collections::BTreeMap;

use crate::analysis::nodes::{is_local, node_bytes};
use crate::common::free_list::FreeList;
use codegen_core::caps::BASE_ALIGNMENT;
use codegen_core::scheduled::{KernelCall, Slot, Temp, TempId};
use lowered_ir::ir::{NodeDecl, NodeRef};

/// A local node that needs an offset, and the first and last call of its lifetime.
#[derive(Clone, Copy, Debug)]
struct TempRequest {
    node: NodeRef,
    bytes: usize,
    live: (usize, usize),
}

/// Replaces each [`Slot::Node`] of a local node by a [`Slot::Temp`] and plans the offsets of the temporaries;
/// those of more than `limit` bytes may get the memory of nodes that are `overwritten`.
pub(crate) fn plan_temporaries(
    calls: &mut [KernelCall],
    nodes: &[NodeDecl],
    overwritten: &[NodeRef],
    limit: usize,
    alignment: usize,
) -> Vec<Temp> {
    let spans = spans(calls);
    let request = |(&node, &live): (&NodeRef, &(usize, usize))| {
        let decl = &nodes[node.index()];
        is_local(decl).then(|| TempRequest { node, bytes: node_bytes(decl), live })
    };
    let mut requests: Vec<TempRequest> = spans.iter().filter_map(request).collect();
    let results = overwritten.iter().filter_map(|&node| {
        Some(Lender { node, bytes: node_bytes(&nodes[node.index()]), until: spans.get(&node)?.0 })
    });
    let mut slots = lend(&mut requests, results.collect(), limit);
    slots
        .extend(requests.iter().enumerate().map(|(i, request)| (request.node, Slot::Temp(TempId(i as u32)))));
    for slot in calls.iter_mut().flat_map(|call| &mut call.args) {
        if let Slot::Node(node) = slot
            && let Some(place) = slots.get(node)
        {
            *slot = *place;
        }
    }
    pack(&requests, alignment.max(BASE_ALIGNMENT))
}

/// The first and the last call that access each node.
fn spans(calls: &[KernelCall]) -> BTreeMap<NodeRef, (usize, usize)> {
    let mut spans = BTreeMap::new();
    for (at, call) in calls.iter().enumerate() {
        for slot in &call.args {
            if let Slot::Node(node) = *slot {
                spans.entry(node).or_insert((at, at)).1 = at;
            }
        }
    }
    spans
}

/// A result whose memory is free before the call `until`.
struct Lender {
    node: NodeRef,
    bytes: usize,
    until: usize,
}

/// Takes out the requests that get the memory of a result, and returns their slots. The last ones come first:
/// of a chain of values whose end is the result, it is the value before the last that the result can hold.
fn lend(requests: &mut Vec<TempRequest>, mut results: Vec<Lender>, limit: usize) -> BTreeMap<NodeRef, Slot> {
    let mut order: Vec<usize> = (0..requests.len()).filter(|&i| requests[i].bytes > limit).collect();
    order.sort_by_key(|&i| (std::cmp::Reverse(requests[i].live.1), i));
    let mut lent = BTreeMap::new();
    for i in order {
        let TempRequest { node, bytes, live: (start, end) } = requests[i];
        if let Some(result) = results.iter_mut().find(|of| of.bytes == bytes && end < of.until) {
            result.until = start;
            lent.insert(node, Slot::Node(result.node));
        }
    }
    requests.retain(|request| !lent.contains_key(&request.node));
    lent
}

/// The most overlapping lifetimes per temporary, on average, for which [`pack`] compares pairs.
const CONFLICT_LIMIT: usize = 128;

/// Plans offsets in time n log n. If few lifetimes overlap, the largest temporaries get their offsets first;
/// otherwise the temporaries with the earliest start do.
fn pack(requests: &[TempRequest], alignment: usize) -> Vec<Temp> {
    let offsets = match conflicts(requests) {
        Some(conflicts) => largest_first(requests, &conflicts, alignment),
        None => in_order_of_lifetime(requests, alignment),
    };
    let temp = |(request, offset): (&TempRequest, usize)| {
        let TempRequest { node, bytes, live } = *request;
        Temp { node, bytes, offset, live }
    };
    requests.iter().zip(offsets).map(temp).collect()
}

/// The temporaries in the order in which lifetimes start; of equal starts, the largest first.
fn by_start(requests: &[TempRequest]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..requests.len()).collect();
    order.sort_by_key(|&i| (requests[i].live.0, std::cmp::Reverse(requests[i].bytes), i));
    order
}

/// For each temporary the others whose lifetimes overlap its own. None if there are more than
/// [`CONFLICT_LIMIT`] on average.
fn conflicts(requests: &[TempRequest]) -> Option<Vec<Vec<usize>>> {
    let mut conflicts = vec![Vec::new(); requests.len()];
    let (mut alive, mut pairs): (Vec<usize>, usize) = (Vec::new(), 0);
    for i in by_start(requests) {
        alive.retain(|&other| requests[other].live.1 >= requests[i].live.0);
        pairs += alive.len();
        #[cfg(test)]
        tests::EXAMINED.set(tests::EXAMINED.get() + alive.len());
        if pairs > CONFLICT_LIMIT * requests.len() {
            return None;
        }
        alive.iter().for_each(|&other| conflicts[other].push(i));
        conflicts[i].extend_from_slice(&alive);
        alive.push(i);
    }
    Some(conflicts)
}

/// Places the largest first, each at the lowest offset that is free during its lifetime.
fn largest_first(requests: &[TempRequest], conflicts: &[Vec<usize>], alignment: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..requests.len()).collect();
    order.sort_by_key(|&i| (std::cmp::Reverse(requests[i].bytes), requests[i].live.0, i));
    let mut offsets: Vec<Option<usize>> = vec![None; requests.len()];
    for i in order {
        let placed = conflicts[i].iter().filter_map(|&other| Some((offsets[other]?, requests[other].bytes)));
        offsets[i] = Some(lowest_gap(placed, requests[i].bytes, alignment));
    }
    offsets.into_iter().map(Option::unwrap_or_default).collect()
}

fn lowest_gap(placed: impl Iterator<Item = (usize, usize)>, bytes: usize, alignment: usize) -> usize {
    let mut taken: Vec<(usize, usize)> = placed.map(|(offset, bytes)| (offset, offset + bytes)).collect();
    taken.sort_unstable();
    taken.iter().fold(0, |offset, &(start, end)| {
        if offset + bytes <= start { offset } else { offset.max(end.next_multiple_of(alignment)) }
    })
}

/// Places temporaries in the order in which their lifetimes start, each in the smallest gap that ended
/// lifetimes have left and that is large enough.
fn in_order_of_lifetime(requests: &[TempRequest], alignment: usize) -> Vec<usize> {
    let padded = |i: usize| requests[i].bytes.next_multiple_of(alignment);
    let mut by_end: Vec<usize> = (0..requests.len()).collect();
    by_end.sort_by_key(|&i| (requests[i].live.1, i));
    let mut ending = by_end.into_iter().peekable();
    let (mut free, mut offsets) = (FreeList::default(), vec![0; requests.len()]);
    for i in by_start(requests) {
        while let Some(ended) = ending.next_if(|&other| requests[other].live.1 < requests[i].live.0) {
            free.release(offsets[ended], padded(ended));
        }
        offsets[i] = free.take(padded(i));
    }
    offsets
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    thread_local! {
        /// The number of pairs of overlapping lifetimes that were compared.
        pub(super) static EXAMINED: Cell<usize> = const { Cell::new(0) };
    }

    fn request(bytes: usize, live: (usize, usize)) -> TempRequest {
        TempRequest { node: NodeRef(0), bytes, live }
    }

    fn peak(temps: &[Temp]) -> usize {
        temps.iter().map(|t| t.offset + t.bytes).max().unwrap_or(0)
    }

    #[test]
    fn results_lend_their_memory_until_they_are_written() {
        // A chain, whose last value is alive when the result is written, and a smaller array.
        let of = |node: u32, bytes, live| TempRequest { node: NodeRef(node), ..request(bytes, live) };
        let lent = |length: usize, limit: usize| {
            let chain = (0..length).map(|at| of(at as u32, 256, (at, at + 1)));
            let mut requests: Vec<_> = chain.chain([of(9, 128, (0, 1))]).collect();
            let result = Lender { node: NodeRef(8), bytes: 256, until: length };
            let lent = lend(&mut requests, vec![result], limit);
            assert!(lent.values().all(|slot| *slot == Slot::Node(NodeRef(8))));
            (lent.keys().map(|node| node.0).collect::<Vec<_>>(), peak(&pack(&requests, 64)))
        };
        assert_eq!(lent(4, 64), (vec![0, 2], 384));
        assert_eq!(lent(5, 64), (vec![1, 3], 384));
        assert_eq!(lent(4, 256), (vec![], 640));
    }

    #[test]
    fn lives_that_do_not_meet_share_bytes() {
        let temps = pack(&[request(256, (0, 1)), request(256, (2, 3)), request(128, (1, 2))], 64);
        assert_eq!(peak(&temps), 384);
        assert_eq!(temps[0].offset, temps[1].offset);
    }

    #[test]
    fn a_chain_needs_no_more_than_its_largest_live_set() {
        let sizes = [640, 1280, 64, 2560, 1280, 640, 320, 6400, 64];
        let requests: Vec<TempRequest> =
            sizes.iter().enumerate().map(|(i, &bytes)| request(bytes, (i, i + 1))).collect();
        let live_set = |at: usize| {
            requests.iter().filter(|w| w.live.0 <= at && at <= w.live.1).map(|w| w.bytes).sum::<usize>()
        };
        let largest = (0..=sizes.len()).map(live_set).max().unwrap();
        assert!(peak(&pack(&requests, 64)) as f64 <= 1.05 * largest as f64);
    }

    fn assert_no_overlap(temps: &[Temp]) {
        for (i, a) in temps.iter().enumerate() {
            for b in &temps[i + 1..] {
                let together = a.live.0 <= b.live.1 && b.live.0 <= a.live.1;
                let overlap = a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
                assert!(!(together && overlap), "{a:?} {b:?}");
            }
        }
    }

    #[test]
    fn offsets_of_overlapping_lifetimes_are_apart() {
        let requests: Vec<TempRequest> =
            (0..40).map(|i| request(64 * (1 + i * 7 % 11), (i * 5 % 13, i * 5 % 13 + i % 4))).collect();
        assert_no_overlap(&pack(&requests, 64));
    }

    #[test]
    fn temporaries_above_the_limit_never_overlap() {
        let requests: Vec<TempRequest> = (0..1000)
            .map(|i| request(64 * (1 + i * 7 % 11), (i * 5 % 613, i * 5 % 613 + i * 31 % 300)))
            .collect();
        let live_set = |at: usize| {
            requests.iter().filter(|w| w.live.0 <= at && at <= w.live.1).map(|w| w.bytes).sum::<usize>()
        };
        let largest = (0..1000).map(live_set).max().unwrap();
        let temps = pack(&requests, 64);
        assert_no_overlap(&temps);
        assert!(peak(&temps) as f64 <= 1.05 * largest as f64, "{} of {largest}", peak(&temps));
    }

    #[test]
    fn packing_twice_the_temporaries_examines_twice_as_many() {
        let examined = |count: usize| {
            EXAMINED.set(0);
            let all_alive: Vec<TempRequest> = (0..count).map(|i| request(64, (i, count + i))).collect();
            assert_eq!(peak(&pack(&all_alive, 64)), 64 * count);
            EXAMINED.get()
        };
        let (once, twice) = (examined(2000), examined(4000));
        assert!(twice as f64 <= 2.2 * once as f64, "{once}, then {twice}");
    }
}
