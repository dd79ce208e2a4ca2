//! Memory that lives during one run: lifetimes of local nodes, and offsets packed from them.
//!
//! Two temporaries share bytes only if no call uses both lives. Offsets are multiples of the target's alignment.

use std::collections::BTreeMap;

use lowered_ir::ir::{NodeDecl, NodeRef};

use crate::caps::BASE_ALIGNMENT;
use crate::scheduled::{KernelCall, Slot, Temp, TempId};

/// A temporary to place.
#[derive(Clone, Copy, Debug)]
struct Want {
    node: NodeRef,
    bytes: usize,
    live: (usize, usize),
}

/// Turns each [`Slot::Node`] of a local node into a [`Slot::Temp`] and plans where the temporaries lie.
pub(super) fn plan(
    calls: &mut [KernelCall],
    nodes: &[NodeDecl],
    is_local: impl Fn(NodeRef) -> bool,
    alignment: usize,
) -> Vec<Temp> {
    let wants = lifetimes(calls, nodes, is_local);
    let ids: BTreeMap<NodeRef, TempId> =
        wants.iter().enumerate().map(|(i, want)| (want.node, TempId(i as u32))).collect();
    for slot in calls.iter_mut().flat_map(|call| &mut call.args) {
        if let Slot::Node(node) = slot
            && let Some(id) = ids.get(node)
        {
            *slot = Slot::Temp(*id);
        }
    }
    pack(&wants, alignment.max(BASE_ALIGNMENT))
}

/// The bytes of a node. Those of one that is too large to address, which the verifier rejects, are `usize::MAX`.
pub(super) fn node_bytes(node: &NodeDecl) -> usize {
    node.size_bytes().unwrap_or(usize::MAX)
}

fn lifetimes(calls: &[KernelCall], nodes: &[NodeDecl], is_local: impl Fn(NodeRef) -> bool) -> Vec<Want> {
    let mut lives: BTreeMap<NodeRef, (usize, usize)> = BTreeMap::new();
    for (at, call) in calls.iter().enumerate() {
        for slot in &call.args {
            if let Slot::Node(node) = *slot
                && is_local(node)
            {
                lives.entry(node).or_insert((at, at)).1 = at;
            }
        }
    }
    lives
        .into_iter()
        .map(|(node, live)| Want { node, bytes: node_bytes(&nodes[node.index()]), live })
        .collect()
}

/// Places the largest first, each at the lowest offset where it meets nothing alive at the same time.
fn pack(wants: &[Want], alignment: usize) -> Vec<Temp> {
    let mut order: Vec<usize> = (0..wants.len()).collect();
    order.sort_by_key(|&i| (std::cmp::Reverse(wants[i].bytes), wants[i].live.0, i));
    let mut placed: Vec<(usize, Temp)> = Vec::new();
    for i in order {
        let Want { node, bytes, live } = wants[i];
        let offset = lowest_gap(&placed, bytes, live, alignment);
        placed.push((i, Temp { node, bytes, offset, live }));
    }
    placed.sort_by_key(|(i, _)| *i);
    placed.into_iter().map(|(_, temp)| temp).collect()
}

fn lowest_gap(placed: &[(usize, Temp)], bytes: usize, live: (usize, usize), alignment: usize) -> usize {
    let meets = |t: &Temp| t.live.0 <= live.1 && live.0 <= t.live.1;
    let mut taken: Vec<(usize, usize)> =
        placed.iter().filter(|(_, t)| meets(t)).map(|(_, t)| (t.offset, t.offset + t.bytes)).collect();
    taken.sort_unstable();
    taken.iter().fold(0, |offset, &(start, end)| {
        if offset + bytes <= start { offset } else { offset.max(end.next_multiple_of(alignment)) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn want(bytes: usize, live: (usize, usize)) -> Want {
        Want { node: NodeRef(0), bytes, live }
    }

    fn peak(temps: &[Temp]) -> usize {
        temps.iter().map(|t| t.offset + t.bytes).max().unwrap_or(0)
    }

    #[test]
    fn lives_that_do_not_meet_share_bytes() {
        let temps = pack(&[want(256, (0, 1)), want(256, (2, 3)), want(128, (1, 2))], 64);
        assert_eq!(peak(&temps), 384);
        assert_eq!(temps[0].offset, temps[1].offset);
    }

    #[test]
    fn a_chain_needs_no_more_than_its_largest_live_set() {
        let sizes = [640, 1280, 64, 2560, 1280, 640, 320, 6400, 64];
        let wants: Vec<Want> = sizes.iter().enumerate().map(|(i, &bytes)| want(bytes, (i, i + 1))).collect();
        let live_set = |at: usize| {
            wants.iter().filter(|w| w.live.0 <= at && at <= w.live.1).map(|w| w.bytes).sum::<usize>()
        };
        let largest = (0..=sizes.len()).map(live_set).max().unwrap();
        assert!(peak(&pack(&wants, 64)) as f64 <= 1.05 * largest as f64);
    }

    #[test]
    fn temporaries_alive_together_never_overlap() {
        let wants: Vec<Want> =
            (0..40).map(|i| want(64 * (1 + i * 7 % 11), (i * 5 % 13, i * 5 % 13 + i % 4))).collect();
        let temps = pack(&wants, 64);
        for (i, a) in temps.iter().enumerate() {
            for b in &temps[i + 1..] {
                let together = a.live.0 <= b.live.1 && b.live.0 <= a.live.1;
                let overlap = a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
                assert!(!(together && overlap), "{a:?} {b:?}");
            }
        }
    }
}
