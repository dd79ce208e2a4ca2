//! Several contexts: inferred sharing, transfers between streams and devices, merge buffers.

use std::slice::from_ref;

use codegen_core::Access;
use device_runtime::{Context, Device, LinkedRoutine, MergeBufferUse, RunError, Transfer};
use tnode::{Sharing, TensorNode};

use super::{DriverFactory, Setup, hand_made::*, open};

/// A routine that adds the sum of one node to another node.
fn accumulate(context: &Context, from: &TensorNode, to: &TensorNode) -> Result<LinkedRoutine, RunError> {
    let code = code("accumulate", &[(from, Access::Read), (to, Access::ReadWrite)], &[], |args, _| {
        let sum: i64 = read(&args[0]).iter().sum();
        write(&mut args[1])[0] += sum;
    });
    context.link(&code, &[from.clone(), to.clone()])
}

fn set(context: &Context, node: &TensorNode, value: i64) -> Result<LinkedRoutine, RunError> {
    let code = code("set", &[(node, Access::Write)], &[], move |args, _| write(&mut args[0]).fill(value));
    context.link(&code, from_ref(node))
}

fn merge(context: &Context, node: &TensorNode) -> LinkedRoutine {
    context.link(&merging(node), from_ref(node)).unwrap()
}

/// A context with the node on a new stream.
fn holding(device: &Device, node: &TensorNode, values: &[i64]) -> Context {
    context(device).init_from_host(node, array(values)).unwrap()
}

/// Links on two streams that only read a node share one copy of it.
pub fn what_is_only_read_is_shared(make: DriverFactory<'_>) {
    let device = open(make, &Setup::default());
    let [x, a, b] = ["x", "a", "b"].map(|name| on_device(name, 2, Sharing::Unset));
    let first = holding(&device, &x, &[3, 4]);
    assert_eq!(device.cross_stream_candidates(), from_ref(&x));
    let first = first.init_from_host(&a, array(&[0, 0])).unwrap();
    let second = holding(&device, &b, &[0, 0]);
    let live = device.memory().live_bytes;
    let one = accumulate(&first, &x, &a).unwrap();
    let other = accumulate(&second, &x, &b).unwrap();
    assert_eq!(device.memory().live_bytes, live, "nothing was allocated");
    assert_eq!(one.context().location(&x), other.context().location(&x));
    assert!(x.mode().known_shared_cross_streams());
    assert!(a.mode().known_non_cross_stream() && b.mode().known_non_cross_stream());
    for routine in [&one, &other] {
        drop(routine.run(&[]).unwrap());
    }
    assert_eq!((values(one.context(), &a)[0], values(other.context(), &b)[0]), (7, 7));
    let text = other.context().explain(&x);
    for part in ["made on", "shared with links on", "16 bytes at pool 1 offset 0"] {
        assert!(text.contains(part), "`{part}` in:\n{text}");
    }
}

/// At most one of the streams that share a node by inference may write it.
pub fn a_second_writer_of_what_links_share_is_an_error(make: DriverFactory<'_>) {
    let device = open(make, &Setup::default());
    let [x, a] = ["x", "a"].map(|name| on_device(name, 1, Sharing::Unset));
    let first = holding(&device, &x, &[1]);
    let second = holding(&device, &a, &[0]);
    let reader = accumulate(&second, &x, &a).unwrap();
    let writer = set(&first, &x, 5).unwrap();
    assert_eq!(device.owner_stream(&x), Some(first.stream().stream_id()));
    let before = device.memory();
    let error = set(reader.context(), &x, 6).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "node `x` is shared by streams of {0} and {1} writes it; {2} cannot write it too. Make it shared (`Sharing::Shared`) \
             or per-stream (`Sharing::PerStream`) to say which is meant",
            device.name(),
            first.stream().name(),
            second.stream().name()
        )
    );
    assert_eq!(device.memory(), before);
    drop(writer.run(&[]).unwrap());
    drop(reader.run(&[]).unwrap());
    assert_eq!(
        values(reader.context(), &a),
        [5],
        "the reader waited for the owner, and the runtime is usable"
    );
}

/// A node that the user declares shared has one location, and its writes are ordered.
pub fn what_the_user_shares_any_stream_writes(make: DriverFactory<'_>) {
    let device = open(make, &Setup::default());
    let x = on_device("x", 1, Sharing::Shared);
    let one = set(&context(&device), &x, 1).unwrap();
    let other = set(&context(&device), &x, 2).unwrap();
    assert_eq!(one.context().location(&x), other.context().location(&x));
    for _ in 0..20 {
        drop(one.run(&[]).unwrap());
        drop(other.run(&[]).unwrap());
    }
    assert_eq!(values(one.context(), &x), [2], "ordered as they were scheduled");
}

/// A node that a linked routine writes belongs to its stream.
pub fn what_is_written_is_per_stream(make: DriverFactory<'_>) {
    let device = open(make, &Setup::default());
    let x = on_device("x", 1, Sharing::Unset);
    let one = set(&context(&device), &x, 1).unwrap();
    let other = set(&context(&device), &x, 2).unwrap();
    assert_ne!(one.context().location(&x), other.context().location(&x));
    one.run(&[]).unwrap().sync().unwrap();
    other.run(&[]).unwrap().sync().unwrap();
    assert_eq!((values(one.context(), &x), values(other.context(), &x)), (vec![1], vec![2]));
    let a = node("a", 1);
    let reader = holding(&device, &a, &[0]);
    assert!(matches!(accumulate(&reader, &x, &a), Err(RunError::ContextLacksNode { .. })));
    assert_eq!(device.cross_stream_candidates(), [a], "x is not offered");
}

/// A copy takes the values of its position in the order, and later writes of the source wait for it.
pub fn copies_between_streams_and_devices_deliver_once(make: DriverFactory<'_>) {
    let devices = [(); 3].map(|()| open(make, &Setup::default()));
    let x = node("x", 3);
    for (from, to) in [(0, 0), (0, 1), (1, 2), (2, 0)] {
        let source = holding(&devices[from], &x, &[1, 2, 3]);
        let copy = context(&devices[to]).init_from_device(&x, &source).unwrap();
        assert_eq!(values(&copy, &x), [1, 2, 3]);
        let _ = source.from_host(&x, array(&[4, 5, 6])).unwrap();
        assert!(copy.device_to_device(&x, MergeBufferUse::No, &source).unwrap().is_scheduled());
        let _ = source.from_host(&x, array(&[7, 8, 9])).unwrap();
        assert_eq!(values(&copy, &x), [4, 5, 6], "the later write waited for the copy");
    }
}

/// Transfers without effect, and transfers that are impossible.
pub fn transfers_say_what_there_is_not(make: DriverFactory<'_>) {
    let device = open(make, &Setup::default());
    let [x, y] = ["x", "y"].map(|name| node(name, 1));
    let (has, lacks) = (holding(&device, &x, &[1]), context(&device));
    let reason = |transfer: Result<Transfer, RunError>| match transfer.unwrap() {
        Transfer::NothingToDo(reason) => reason,
        Transfer::Scheduled(event) => panic!("{event}"),
    };
    let no = MergeBufferUse::No;
    assert_eq!(reason(lacks.device_to_device(&x, no, &has)), "the destination has no memory for the node");
    assert_eq!(reason(has.device_to_device(&x, no, &lacks)), "the source has no memory for the node");
    let twin = has.on_stream(&device.new_stream().unwrap()).unwrap();
    assert_eq!(reason(twin.device_to_device(&x, no, &has)), "both contexts see the same memory");
    assert_eq!(reason(has.device_to_device(&x, no, &has)), "both contexts see the same memory");
    for mode in [no, MergeBufferUse::Copy] {
        let error = lacks.device_to_device(&y, mode, &has).unwrap_err();
        assert!(matches!(&error, RunError::NoSource { node, .. } if node == "y"), "{error}");
    }
    assert!(matches!(has.init_from_device(&x, &twin), Err(RunError::AlreadyInContext { .. })));
    assert!(matches!(has.init_from_device(&y, &twin), Err(RunError::NoSource { .. })));
    let shared = on_device("shared", 1, Sharing::Shared);
    let source = holding(&device, &shared, &[1]);
    assert!(matches!(lacks.init_from_device(&shared, &source), Err(RunError::SharedAlready { .. })));
    let copied = lacks.copy_from(&x, &has).unwrap();
    assert_eq!(values(&copied, &x), [1]);
    let _ = has.from_host(&x, array(&[2])).unwrap();
    assert_eq!(values(&copied.copy_from(&x, &has).unwrap(), &x), [2]);
}

/// Merges of a copy, and of a borrowed source.
pub fn merges_sum_what_other_streams_have(make: DriverFactory<'_>) {
    let device = open(make, &Setup::default());
    let g = node("g", 2);
    let (to, from) = (holding(&device, &g, &[1, 2]), holding(&device, &g, &[10, 20]));
    let merge = merge(&to, &g);
    assert_eq!(merge.merge_buffer_input(), Some(&g));
    let error = merge.run(&[]).unwrap_err().to_string();
    let stream = to.stream().name();
    assert!(error.starts_with(&format!(
        "routine `merge` reads node `g` from the merge buffer of {stream}, which holds nothing"
    )));
    assert!(to.device_to_device(&g, MergeBufferUse::Copy, &from).unwrap().is_scheduled());
    assert_eq!((to.stream().merge_buffer_node(), to.stream().merge_buffer_bytes()), (Some(g.clone()), 16));
    drop(merge.run(&[]).unwrap());
    let _ = from.from_host(&g, array(&[100, 200])).unwrap();
    drop(merge.run(&[]).unwrap());
    assert_eq!(values(&to, &g), [21, 42], "the copy is what the source was");
    let live = device.memory().live_bytes;
    for _ in 0..5 {
        let event = to.device_to_device(&g, MergeBufferUse::StreamingFor(&merge, &[]), &from).unwrap();
        let _ = from.from_host(&g, array(&[1, 1])).unwrap();
        event.sync().unwrap();
    }
    assert_eq!(values(&to, &g), [125, 246], "each later write waited for the merge that was lent the source");
    assert_eq!((device.memory().live_bytes, device.copied_merges()), (live, 0));
}

/// A stream has one merge buffer, as large as the largest node merged.
pub fn merge_buffers_grow_and_are_reused(make: DriverFactory<'_>) {
    let device = open(make, &Setup::default());
    let (small, large) = (node("small", 2), node("large", 64));
    let both =
        |value| holding(&device, &small, &[value; 2]).init_from_host(&large, array(&[value; 64])).unwrap();
    let (to, from) = (both(1), both(2));
    let merges = [merge(&to, &small), merge(&to, &large)];
    for (node, bytes) in [(&small, 16), (&large, 512), (&small, 512), (&large, 512)] {
        let _ = to.device_to_device(node, MergeBufferUse::Copy, &from).unwrap();
        assert_eq!(to.stream().merge_buffer_bytes(), bytes);
        let merge = merges.iter().find(|merge| merge.merge_buffer_input() == Some(node)).unwrap();
        let held = merge.merge_buffer_values().unwrap().unwrap();
        assert_eq!(held.as_slice::<i64>().unwrap(), vec![2; held.num_values()], "as large as the node");
        drop(merge.run(&[]).unwrap());
        let other = merges.iter().find(|merge| merge.merge_buffer_input() != Some(node)).unwrap();
        let error = other.run(&[]).unwrap_err();
        assert!(
            matches!(&error, RunError::MergeBuffer { found, .. } if *found == format!("node `{}`", node.name()))
        );
        assert_eq!(other.merge_buffer_values().unwrap_err().to_string(), error.to_string());
    }
    assert_eq!((values(&to, &small)[1], values(&to, &large)[63]), (5, 5));
    drop((to, from, merges));
    assert_eq!((device.memory().live_bytes, device.driver().used_memory()), (0, 0));
}

/// Merging a node with itself.
pub fn merges_deliver_from_the_same_memory_too(make: DriverFactory<'_>) {
    let device = open(make, &Setup::default());
    let g = node("g", 1);
    let one = holding(&device, &g, &[3]);
    let twin = one.on_stream(&device.new_stream().unwrap()).unwrap();
    let merge = merge(&one, &g);
    let _ = one.device_to_device(&g, MergeBufferUse::Copy, &one).unwrap();
    drop(merge.run(&[]).unwrap());
    let _ = one.device_to_device(&g, MergeBufferUse::StreamingFor(&merge, &[]), &twin).unwrap();
    assert_eq!(values(&one, &g), [12]);
    assert_eq!(device.copied_merges(), 1, "a routine is not lent what it writes");
}

/// Merges between devices, whether they reach each other's memory or not.
pub fn devices_merge_from_each_other(make: DriverFactory<'_>) {
    let devices = [(); 2].map(|()| open(make, &Setup::default()));
    let g = node("g", 2);
    let (to, from) = (holding(&devices[0], &g, &[1, 2]), holding(&devices[1], &g, &[10, 20]));
    let merge = merge(&to, &g);
    for mode in [MergeBufferUse::Copy, MergeBufferUse::StreamingFor(&merge, &[])] {
        let _ = to.device_to_device(&g, mode, &from).unwrap();
        let _ = from.from_host(&g, array(&[100, 200])).unwrap();
        if matches!(mode, MergeBufferUse::Copy) {
            drop(merge.run(&[]).unwrap());
        }
    }
    assert_eq!(values(&to, &g), [111, 222]);
}

/// A context knows which node its merge buffer will contain.
pub fn merges_are_checked_when_they_are_linked(make: DriverFactory<'_>) {
    let device = open(make, &Setup::default());
    let [g, h] = ["g", "h"].map(|name| node(name, 1));
    let both = || holding(&device, &g, &[1]).init_from_host(&h, array(&[2])).unwrap();
    let (to, from) = (both(), both());
    let transfer = to.transfer_routine(&g, true, &from).unwrap();
    assert_eq!(transfer.context().merge_buffer_node(), Some(&g));
    let error = transfer.context().link(&merging(&h), from_ref(&h)).unwrap_err();
    assert!(
        matches!(&error, RunError::MergeBuffer { expected, found, .. } if expected == "h" && found == "node `g`")
    );
    let merge = merge(transfer.context(), &g);
    for _ in 0..3 {
        drop(transfer.run(&[]).unwrap());
        drop(merge.run(&[]).unwrap());
    }
    assert_eq!(values(&to, &g), [4]);
    let plain = to.transfer_routine(&h, false, &from).unwrap();
    drop(plain.run(&[]).unwrap());
    assert_eq!(values(&to, &h), [2]);
    let elsewhere = MergeBufferUse::StreamingFor(&merge, &[]);
    let error = from.device_to_device(&g, elsewhere, &to).unwrap_err();
    assert!(matches!(&error, RunError::NotMerging { .. }), "{error}");
    assert!(matches!(to.device_to_device(&h, elsewhere, &from), Err(RunError::NotMerging { .. })));
}

/// A finalized context frees its memory and reports that it is finalized.
pub fn finalized_contexts_hold_nothing(make: DriverFactory<'_>) {
    let device = open(make, &Setup::default());
    let [x, y] = ["x", "y"].map(|name| node(name, 1));
    let parent = holding(&device, &x, &[1]);
    let routine = accumulate(&parent.init_from_host(&y, array(&[0])).unwrap(), &x, &y).unwrap();
    let child = routine.context().clone();
    child.finalize();
    child.finalize();
    assert!(child.is_finalized() && child.nodes().is_empty());
    let text = format!("this context of {} was finalized and has no nodes any more", child.stream().name());
    let error = |what: &str, result: Result<(), RunError>| {
        assert_eq!(result.unwrap_err().to_string(), format!("{what}: {text}"));
    };
    error("routine `accumulate`", routine.run(&[]).map(drop));
    error("node `x`", child.to_host(&x).map(drop));
    error("node `x`", child.from_host(&x, array(&[1])).map(drop));
    error("node `x`", child.init_from_host(&x, array(&[1])).map(drop));
    error("routine `merge`", child.link(&merging(&x), from_ref(&x)).map(drop));
    error(&format!("a child on {}", child.stream().name()), child.on_stream(child.stream()).map(drop));
    error("node `x`", child.device_to_device(&x, MergeBufferUse::No, &parent).map(drop));
    error("node `x`", parent.device_to_device(&x, MergeBufferUse::No, &child).map(drop));
    assert_eq!(values(&parent, &x), [1], "the parent keeps its own");
    drop((routine, child));
    assert_eq!(device.memory().live_bytes, 8);
}
