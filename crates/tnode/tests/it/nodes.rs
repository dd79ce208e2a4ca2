//! Tensor nodes: identity, facts that settle late, and mode changes that are made together.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use tnode::{
    DType, DelayedDType, Dims, HostArray, MemoryMode, ModeState, Padding, Pending, Reason, Registry, Sharing,
    TensorNode, TensorNodeError, View, commit_decisions, commit_modes,
};

fn node(label: &str) -> TensorNode {
    TensorNode::builder(label).dims([2, 3]).build_in(&Registry::new()).expect("valid")
}

fn because(text: &'static str) -> Reason {
    Reason::new(text)
}

#[test]
fn identity_is_the_id() {
    let registry = Registry::new();
    let make = || TensorNode::builder("same").build_in(&registry).expect("valid");
    let (a, b) = (make(), make());
    assert_ne!(a, b);
    assert!(a < b && a == a.clone());
    assert_eq!([&a, &b, &a].into_iter().cloned().collect::<HashSet<_>>().len(), 2);
    assert_eq!([&b, &a, &b].into_iter().cloned().collect::<BTreeSet<_>>().first(), Some(&a));
    // Another registry has the same ids, yet other nodes.
    assert_ne!(node("x"), node("x"));
    assert_eq!(node("x").id().to_string(), "n0");
}

#[test]
fn handles_travel_between_threads() {
    fn assert_send_sync<T: Send + Sync>() {}
    assert_send_sync::<TensorNode>();
    assert_send_sync::<HostArray>();
    assert_send_sync::<TensorNodeError>();
}

#[test]
fn sizes_settle_once() {
    let late = TensorNode::builder("late").dims_later().build_in(&Registry::new()).expect("valid");
    assert_eq!(late.dims().expect_err("open").to_string(), "node late: dimensions are not settled yet");
    late.set_dims([4, 5]).expect("open");
    late.set_dims([4, 5]).expect("the same");
    let rejected = late.set_dims([5, 4]).expect_err("settled");
    assert_eq!(rejected.to_string(), "node late: dimensions are settled as [4, 5], found [5, 4]");
    assert_eq!(late.num_elems().expect("settled"), 20);
}

#[test]
fn sizes_in_bytes() {
    assert_eq!(node("x").size_bytes().expect("settled"), 24);
    let bits = TensorNode::builder("bits").dims([3]).dtype(DType::U32x4).build_in(&Registry::new());
    assert_eq!(bits.expect("valid").size_bytes().expect("settled"), 48);
    let scalar = TensorNode::builder("scalar").build_in(&Registry::new()).expect("valid");
    assert_eq!(scalar.num_elems().expect("settled"), 1);
}

#[test]
fn padding_grows_the_sizes() {
    let padding = Padding::new([(1, 2), (0, 0)], Some(0.0));
    let padded = TensorNode::builder("p").dims([2, 3]).padding(padding.clone()).build_in(&Registry::new());
    let padded = padded.expect("valid");
    assert_eq!(padded.dims().expect("settled").as_slice(), [5, 3]);
    assert_eq!(padded.dims_without_padding().expect("settled").as_slice(), [2, 3]);
    assert_eq!(padded.size_bytes().expect("settled"), 60);
    assert_eq!(padded.padding(), Some(&padding));
    assert_eq!(padding.unpadded(&[5, 3]).expect("fits"), Dims::from_slice(&[2, 3]));
}

#[test]
fn margins_may_be_settled_with_the_sizes() {
    let node = || TensorNode::builder("p").dims_later().build_in(&Registry::new()).expect("valid");
    let padding = |left| Padding::new([(left, 2), (0, 0)], Some(0.0));
    let late = node();
    assert_eq!(late.padding(), None);
    late.set_dims_padded([2, 3], padding(1)).expect("open");
    late.set_dims_padded([2, 3], padding(1)).expect("the same");
    late.set_dims([2, 3]).expect("the same");
    assert_eq!((late.padding(), late.size_bytes().expect("settled")), (Some(&padding(1)), 60));
    let message = |node: &TensorNode, left| {
        node.set_dims_padded([2, 3], padding(left)).expect_err("settled otherwise").to_string()
    };
    let conflict = "node p: margins are settled as [(1, 2), (0, 0)] of 0, found [(3, 2), (0, 0)] of 0";
    assert_eq!(message(&late, 3), conflict);
    let early = TensorNode::builder("p").dims_later().padding(padding(1)).build_in(&Registry::new());
    assert_eq!(message(&early.expect("valid"), 3), conflict);
    let plain = node();
    plain.set_dims([2, 3]).expect("open");
    assert_eq!(message(&plain, 1), "node p: margins are settled as none, found [(1, 2), (0, 0)] of 0");
    let [one_axis, huge] = [(1, 1), (usize::MAX, 1)].map(|axis| Padding::new([axis], None));
    let rejected = |padding, dims: &[usize]| node().set_dims_padded(dims.iter().copied(), padding);
    assert!(matches!(rejected(one_axis, &[2, 3]), Err(TensorNodeError::PaddingRank { axes: 1, .. })));
    assert!(matches!(rejected(huge, &[2]), Err(TensorNodeError::TooLarge { .. })));
}

#[test]
fn sizes_that_do_not_fit_are_rejected() {
    let build = |dims: &[usize], padding: Option<Padding>| {
        let builder = TensorNode::builder("x").dims(dims.iter().copied());
        let builder = padding.into_iter().fold(builder, |builder, padding| builder.padding(padding));
        builder.build_in(&Registry::new()).expect_err("rejected")
    };
    assert!(matches!(build(&[1 << 62], None), TensorNodeError::TooLarge { .. }));
    assert!(matches!(build(&[0, usize::MAX, usize::MAX], None), TensorNodeError::TooLarge { .. }));
    let two_axes = Padding::new([(1, 1), (1, 1)], None);
    assert!(matches!(build(&[4], Some(two_axes)), TensorNodeError::PaddingRank { axes: 2, .. }));
    let huge = Padding::new([(usize::MAX, 1)], None);
    assert!(matches!(build(&[4], Some(huge)), TensorNodeError::TooLarge { .. }));
}

#[test]
fn a_specified_type_holds() {
    let x = TensorNode::builder("x").dtype(DType::F16).build_in(&Registry::new()).expect("valid");
    x.infer_dtype(|| DType::F64).expect("open");
    x.update_dtype(DType::F16).expect("the same");
    let rejected = x.update_dtype(DType::F32).expect_err("specified");
    assert_eq!(rejected.to_string(), "node x: element type is specified as f16, found f32");
    assert_eq!(x.specified_dtype(), Some(DType::F16));
    assert_eq!(x.dtype(), DType::F16);
}

#[test]
fn inferences_promote_when_needed() {
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = |dtype| {
        let runs = Arc::clone(&runs);
        move || {
            runs.fetch_add(1, Ordering::Relaxed);
            dtype
        }
    };
    let x = node("x");
    x.infer_dtype(counted(DType::F16)).expect("open");
    x.infer_dtype(counted(DType::F32)).expect("open");
    assert!(!x.is_dtype_settled() && runs.load(Ordering::Relaxed) == 0);
    assert_eq!((x.dtype(), x.dtype()), (DType::F32, DType::F32));
    assert_eq!(runs.load(Ordering::Relaxed), 2);
    let late = x.infer_dtype(|| DType::F64).expect_err("settled");
    assert_eq!(late.to_string(), "node x: element type is settled as f32, too late to infer it");
    assert_eq!(Arc::strong_count(&runs), 1, "a settled node lets go of its inferences");
}

#[test]
fn a_settled_type_holds() {
    let x = node("x");
    assert_eq!(x.dtype(), DType::F32);
    x.update_dtype(DType::F32).expect("the same");
    x.update_dtype_if(|present| present == DType::F16, DType::F64).expect("does not apply");
    let rejected = x.update_dtype(DType::F64).expect_err("settled");
    assert_eq!(rejected.to_string(), "node x: element type is settled as f32, found f64");
}

#[test]
fn conditions_are_asked_of_what_is_known() {
    let narrow = |present: DType| present.size_bytes() < 4;
    let with_default = |dtype| {
        let x = TensorNode::builder("x").default_dtype(dtype).build_in(&Registry::new()).expect("valid");
        x.update_dtype_if(narrow, DType::F32).expect("open");
        x
    };
    assert_eq!(with_default(DType::F16).dtype(), DType::F32);
    assert_eq!(with_default(DType::F64).dtype(), DType::F64);
    for (inferred, settled) in [(DType::Bf16, DType::F32), (DType::F64, DType::F64)] {
        let x = node("x");
        x.infer_dtype(move || inferred).expect("open");
        x.update_dtype_if(narrow, DType::F32).expect("open");
        assert_eq!(x.dtype(), settled);
    }
    let specified = TensorNode::builder("x").dtype(DType::F64).build_in(&Registry::new()).expect("valid");
    specified.update_dtype_if(narrow, DType::F32).expect("does not apply");
    specified.update_dtype_if(|_| true, DType::F32).expect_err("specified");
}

#[test]
fn inferences_in_a_circle_end() {
    let (a, b) = (node("a"), node("b"));
    let (of_a, of_b) = (a.clone(), b.clone());
    a.infer_dtype(move || of_b.dtype().promote(DType::F16)).expect("open");
    b.infer_dtype(move || of_a.dtype().promote(DType::I32)).expect("open");
    assert_eq!(a.dtype(), DType::F16);
}

#[test]
fn an_update_during_an_inference_counts() {
    let x = node("x");
    let same = x.clone();
    x.infer_dtype(move || {
        // The type is specified while the first inference runs, so the result of that inference must not
        // settle it.
        let _ = same.update_dtype(DType::F64);
        DType::F16
    })
    .expect("open");
    assert_eq!(x.dtype(), DType::F64);
    assert!(matches!(x.delayed_dtype(), DelayedDType::Specified(DType::F64)));
}

#[test]
fn a_node_of_an_array_is_hosted() {
    let array = HostArray::from_slice(&[0.0f32, 1.0, 2.0, 0.0], [4]).expect("valid");
    let array = HostArray::from_padded(array, Padding::new([(1, 1)], Some(0.0))).expect("fits");
    let x = TensorNode::builder("x").of_array(&array).build_in(&Registry::new()).expect("valid");
    assert_eq!(x.dims().expect("settled").as_slice(), [4]);
    assert_eq!(x.dims_without_padding().expect("settled").as_slice(), [2]);
    assert_eq!(x.specified_dtype(), Some(DType::F32));
    assert_eq!(x.mode().mode().map(MemoryMode::token), Some("hosted"));
    assert!(x.mode().chain()[0].reason.location().file().ends_with("nodes.rs"));
}

#[test]
fn a_conflict_names_the_node_and_both_decisions() {
    let w = TensorNode::builder("w1").mode(MemoryMode::Virtual).build_in(&Registry::new()).expect("valid");
    let rejected =
        w.update_memory_mode(MemoryMode::NeverVirtual, because("the host reads it")).expect_err("conflict");
    let text = rejected.to_string();
    for part in
        ["n0 w1", "virtual because it was specified", "never_virtual because the host reads it", "nodes.rs:"]
    {
        assert!(text.contains(part), "{part:?} in {text:?}");
    }
}

#[test]
fn a_commit_is_all_or_nothing() {
    let (a, b) = (node("a"), node("b"));
    let (mut of_a, mut of_b) = (a.mode(), b.mode());
    of_a.refine(MemoryMode::Virtual, because("it is small")).expect("open");
    of_b.refine(MemoryMode::Local, because("it is reused")).expect("open");
    // Another thread decides meanwhile.
    b.update_memory_mode(MemoryMode::Materialized, because("it is an output")).expect("open");
    let decisions = [(a.clone(), of_a.clone()), (b.clone(), of_b)];
    commit_modes(&decisions).expect_err("local and materialized");
    assert_eq!(a.mode(), ModeState::undecided());
    assert_eq!(b.mode().chain().len(), 1);
    commit_modes(&[(a.clone(), of_a.clone())]).expect("open");
    assert_eq!(a.mode(), of_a);
}

#[test]
fn a_commit_merges_what_was_decided_meanwhile() {
    let a = node("a");
    let mut of_a = a.mode();
    of_a.refine(MemoryMode::DeviceOnly, because("the host never asks")).expect("open");
    a.update_memory_mode(MemoryMode::Materialized, because("it is an output")).expect("open");
    commit_modes(&[(a.clone(), of_a)]).expect("compatible");
    assert_eq!(a.mode().mode(), Some(MemoryMode::OnDevice(Sharing::Unset)));
    let mut twice = a.mode();
    twice.refine_sharing(Sharing::Shared, because("all streams read it")).expect("open");
    let mut other = a.mode();
    other.refine_sharing(Sharing::PerStream, because("streams write it")).expect("open");
    commit_modes(&[(a.clone(), twice), (a.clone(), other)]).expect_err("two decisions about one node");
    assert_eq!(a.mode().mode(), Some(MemoryMode::OnDevice(Sharing::Unset)));
}

/// Two threads commit opposite decisions about the same nodes: one wins them all, the other none.
#[test]
fn concurrent_commits_do_not_mix() {
    for _ in 0..200 {
        let nodes: Vec<TensorNode> = (0..8).map(|_| node("x")).collect();
        let commit = |mode, reason, order: Vec<usize>| {
            let decide = |i: usize| (nodes[i].clone(), ModeState::decided(mode, because(reason)));
            commit_modes(&order.into_iter().map(decide).collect::<Vec<_>>()).is_ok()
        };
        let (first, second) = thread::scope(|scope| {
            let first = scope.spawn(|| commit(MemoryMode::Virtual, "one says so", (0..8).collect()));
            let second =
                scope.spawn(|| commit(MemoryMode::Local, "the other says so", (0..8).rev().collect()));
            (first.join().expect("no panic"), second.join().expect("no panic"))
        });
        assert!(first != second, "exactly one commit succeeds");
        let modes: HashSet<_> = nodes.iter().map(|node| node.mode().mode()).collect();
        assert_eq!(modes, HashSet::from([Some(if first { MemoryMode::Virtual } else { MemoryMode::Local })]));
    }
}

/// Several threads make, look up and drop nodes at the same time. No thread deadlocks, and the registry is
/// empty at the end.
#[test]
fn a_registry_serves_many_threads() {
    let registry = Registry::new();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..500 {
                    let x = TensorNode::builder("x").build_in(&registry).expect("valid");
                    assert_eq!(registry.find(x.id()), Some(x.clone()));
                    registry.nodes();
                }
            });
        }
    });
    assert!(registry.nodes().is_empty());
}

/// A reader that sees the commit at one node sees it at every node it reads afterwards.
#[test]
fn readers_see_a_commit_as_one_step() {
    for _ in 0..200 {
        let nodes: Vec<TensorNode> = (0..8).map(|_| node("x")).collect();
        let decide = |node: &TensorNode| {
            (node.clone(), ModeState::decided(MemoryMode::Virtual, because("it is small")))
        };
        let decisions: Vec<_> = nodes.iter().map(decide).collect();
        thread::scope(|scope| {
            scope.spawn(|| commit_modes(&decisions).expect("open"));
            for reader in 0..2 {
                let nodes = &nodes;
                scope.spawn(move || {
                    let mut order: Vec<&TensorNode> = nodes.iter().collect();
                    if reader == 1 {
                        order.reverse();
                    }
                    let seen: Vec<bool> = order.iter().map(|node| node.mode().known_virtual()).collect();
                    assert!(seen.is_sorted(), "{seen:?}");
                });
            }
        });
    }
}

#[test]
fn views_are_recorded_with_the_decisions_or_not_at_all() {
    let (x, s, t, hosted) = (node("x"), node("s"), node("t"), node("hosted"));
    let view = |parent: &TensorNode, symbol: &str| View { parent: parent.clone(), symbol: symbol.to_owned() };
    hosted.update_memory_mode(MemoryMode::Materialized, because("it is an output")).expect("open");
    // The second view conflicts, so the first is not recorded either.
    let both = [(s.clone(), view(&x, "b")), (hosted.clone(), view(&x, "b"))];
    commit_decisions(&[], &both).expect_err("it has memory");
    assert_eq!((s.view(), s.mode()), (None, ModeState::undecided()));
    // A conflict among the modes prevents views.
    let mut of_hosted = ModeState::undecided();
    of_hosted.refine(MemoryMode::Virtual, because("it is small")).expect("open");
    commit_decisions(&[(hosted, of_hosted)], &both[..1]).expect_err("materialized and virtual");
    assert_eq!(s.view(), None);

    commit_decisions(&[], &both[..1]).expect("open");
    assert_eq!(s.view(), Some(view(&x, "b")));
    assert!(s.mode().known_virtual() && s.explain().contains("it is a view of x at @b"));
    commit_decisions(&[], &both[..1]).expect("the same again");
    let other = commit_decisions(&[], &[(t.clone(), view(&x, "b")), (s.clone(), view(&x, "c"))]);
    assert_eq!(
        other.expect_err("another symbol").to_string(),
        "node s is a view of x at @b, found a view of x at @c"
    );
    assert_eq!(t.view(), None);
}

#[test]
fn pending_decisions_are_seen_where_they_are_made_and_nowhere_else() {
    let (a, b, rows) = (node("a"), node("b"), node("rows"));
    let mut pending = Pending::default();
    let mut of_a = a.mode();
    of_a.refine(MemoryMode::Virtual, because("it is small")).expect("open");
    let view = View { parent: rows.clone(), symbol: "s".into() };
    pending.add(&[(a.clone(), of_a.clone())], &[(b.clone(), view.clone())]).expect("open");
    // A second round builds on the first, and is rejected as a whole if it contradicts it.
    let mut local = ModeState::undecided();
    local.refine(MemoryMode::Local, because("it is reused")).expect("open");
    pending.add(&[(rows.clone(), local.clone()), (a.clone(), local)], &[]).expect_err("local and virtual");
    pending.during(|| {
        assert_eq!((a.mode(), b.view()), (of_a.clone(), Some(view.clone())));
        assert!(b.mode().known_virtual() && rows.mode() == ModeState::undecided());
        thread::scope(|threads| {
            threads.spawn(|| assert_eq!(a.mode(), ModeState::undecided())).join().expect("no panic")
        });
        Pending::default().during(|| assert_eq!(a.mode(), ModeState::undecided()));
        assert_eq!(a.mode(), of_a);
    });
    let panics = || pending.during(|| panic!("in the middle"));
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics));
    assert!(panicked.is_err() && a.mode() == ModeState::undecided() && b.view().is_none());
    // Another commit comes first: nothing is committed.
    b.update_memory_mode(MemoryMode::Materialized, because("it is an output")).expect("open");
    pending.commit().expect_err("a view has no memory");
    assert_eq!(a.mode(), ModeState::undecided());
}
