//! Ranks that differ, end or do not come.

use std::time::{Duration, Instant};

use arrayjit::{Backend, Context, DType, HostArray, TensorNode};
use arrayjit_collectives::{
    CollectiveError, Group, HostGroup, Reduction, Transport,
    local::{self, LocalTransport},
};

type Outcome = Result<(), CollectiveError>;

/// The group, a context with the node `x` of four elements, and the node.
fn group(transport: impl Transport) -> (HostGroup, Context, [TensorNode; 1]) {
    let backend = Backend::open("multicore").unwrap();
    let group = HostGroup::new(transport, backend.new_stream().unwrap());
    let x = TensorNode::builder("x").dims([4]).build().unwrap();
    let values = HostArray::from_slice(&[1f32, 2.0, 3.0, group.rank() as f32], [4]).unwrap();
    let context = backend.context().unwrap().init_from_host(&x, &values).unwrap();
    (group.with_timeout(Duration::from_millis(400)), context, [x])
}

/// The messages of the ranks, which all fail.
fn failures(body: impl Fn(LocalTransport) -> Outcome + Sync) -> Vec<String> {
    let start = Instant::now();
    let all = local::run(3, body);
    assert!(start.elapsed() < Duration::from_secs(20), "the ranks waited for each other");
    all.into_iter().map(|outcome| outcome.unwrap_err().to_string()).collect()
}

/// The outcome of an operation of a group.
fn synced(group: &HostGroup, event: Result<arrayjit::Event, CollectiveError>) -> Outcome {
    event?.sync().map_err(|error| group.failure().unwrap_or_else(|| error.into()))
}

#[test]
fn ranks_that_call_different_operations_say_so() {
    let messages = failures(|transport| {
        let (group, context, x) = group(transport);
        let event = match group.rank() {
            1 => group.broadcast(&context, &x, 0),
            _ => group.all_reduce(&context, &x, Reduction::Sum),
        };
        let outcome = synced(&group, event);
        // No later operation goes on with ranks that disagree.
        assert!(matches!(group.barrier(), Err(CollectiveError::Failed(_))));
        assert!(context.to_host(&x[0]).is_err(), "a failed operation leaves values");
        outcome
    });
    let expected = "rank 0 calls `all_reduce by sum as f32 of x (16 bytes) #0`, but rank 1 calls `broadcast from rank 0 of \
                    x (16 bytes) #0`";
    assert_eq!(messages[0], expected);
    assert!(messages[1].starts_with("rank 1 calls `broadcast"), "{}", messages[1]);
}

#[test]
fn a_rank_that_does_not_come_is_named() {
    let messages = failures(|transport| {
        let (group, context, x) = group(transport);
        if group.rank() == 2 {
            std::thread::sleep(Duration::from_secs(1));
        }
        synced(&group, group.all_reduce(&context, &x, Reduction::Sum))
    });
    // The rank whose time ends first ends the waits of the others.
    let expected = "of 3: `all_reduce by sum as f32 of x (16 bytes) #0`: no call of rank 2 within 0.4 s";
    assert!(messages[0].ends_with(expected), "{}", messages[0]);
}

#[test]
fn a_rank_that_ends_ends_the_waits_of_the_others() {
    let messages = failures(|transport| {
        let (group, context, x) = group(transport);
        let group = group.with_timeout(Duration::from_secs(60));
        if group.rank() == 1 {
            return Err(CollectiveError::Failed("no data".into()));
        }
        synced(&group, group.all_reduce(&context, &x, Reduction::Sum))
    });
    assert_eq!(
        messages[0],
        "`all_reduce by sum as f32 of x (16 bytes) #0`: rank 1 failed: the group has failed: no data"
    );
}

#[test]
fn values_that_differ_are_found() {
    let messages = failures(|transport| {
        let (group, context, x) = group(transport);
        group.check_equal(&context, &x)
    });
    assert_eq!(messages[2], "x: the values of rank 1 differ from those of rank 0");
}

#[test]
fn nodes_that_do_not_fit_are_rejected_before_anything_runs() {
    let messages = failures(|transport| {
        let (group, context, x) = group(transport);
        let node = |name: &str, dtype| TensorNode::builder(name).dims([4]).dtype(dtype).build().unwrap();
        let reduce = |nodes: &[TensorNode]| group.all_reduce(&context, nodes, Reduction::Sum).unwrap_err();
        let [flags, wide] = [node("flags", DType::Bool), node("wide", DType::F64)];
        assert_eq!(reduce(&[flags]).to_string(), "node `flags`: elements of type bool cannot be reduced");
        assert!(matches!(reduce(&[x[0].clone(), wide]), CollectiveError::MixedTypes { .. }));
        assert!(matches!(group.broadcast(&context, &x, 3), Err(CollectiveError::Root { root: 3, size: 3 })));
        let parts = group.all_gather(&context, &x[0], &node("whole", DType::F32)).unwrap_err();
        assert_eq!(parts.to_string(), "node `whole` has 16 bytes, expected 3 times the 16 bytes of node `x`");
        synced(&group, group.all_reduce(&context, &[node("absent", DType::F32)], Reduction::Sum))
    });
    assert!(messages[0].contains("absent"), "{}", messages[0]);
}
