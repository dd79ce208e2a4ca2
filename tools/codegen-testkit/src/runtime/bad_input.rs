//! Bad input to the runtime: each input is a typed error that names the node or routine, the stream and the
//! device, and leaves the memory and the runtime unchanged.
//!
//! A stream's name, such as `multicore:0:1`, contains its device's name.

use std::slice::from_ref;

use codegen_core::Access;
use device_runtime::{Context, Device, LinkedRoutine, MergeBufferUse, RunError, Transfer};
use tnode::{Sharing, TensorNode};

use super::{DriverFactory, Setup, hand_made::*, open};

/// A device with two streams. Both have `x`, of two elements, which `add` reads.
struct TwoStreams {
    device: Device,
    x: TensorNode,
    first: Context,
    second: Context,
}

impl TwoStreams {
    fn new(device: Device) -> TwoStreams {
        let x = node("x", 2);
        let [first, second] =
            [[1, 2], [10, 20]].map(|values| context(&device).init_from_host(&x, array(&values)).unwrap());
        TwoStreams { device, x, first, second }
    }

    /// Live bytes as counted by the runtime and by the driver, with nothing pending.
    fn memory(&self) -> (usize, usize) {
        self.device.sync().unwrap();
        (self.device.memory().live_bytes, self.device.driver().used_memory())
    }

    /// The error of an attempt; its message must contain `names`. Memory is unchanged, and both streams still
    /// compute.
    fn rejected<T>(&self, names: &[&str], attempt: impl FnOnce() -> Result<T, RunError>) -> RunError {
        let before = self.memory();
        let error = attempt().err().unwrap();
        let text = error.to_string();
        names.iter().for_each(|name| assert!(text.contains(name), "`{name}` in: {text}"));
        assert_eq!(self.memory(), before, "after: {text}");
        self.compute();
        assert_eq!(self.memory(), before, "after: {text}");
        error
    }

    /// Both streams sum their values of `x`; the second sum is copied to the first stream.
    fn compute(&self) {
        let sum = node("sum", 1);
        let [one, other] = [&self.first, &self.second].map(|context| add(context, &self.x, &sum).unwrap());
        drop(one.run(&[]).unwrap());
        drop(other.run(&[]).unwrap());
        let expected: i64 = values(&self.second, &self.x).iter().sum();
        assert_eq!(values(other.context(), &sum), [expected]);
        let copied = one.context().device_to_device(&sum, MergeBufferUse::No, other.context()).unwrap();
        assert!(copied.is_scheduled());
        assert_eq!(values(one.context(), &sum), [expected]);
    }

    fn streams(&self) -> [String; 2] {
        [&self.first, &self.second].map(|context| context.stream().name())
    }
}

/// A routine that writes the sum of a node to another.
fn add(context: &Context, from: &TensorNode, to: &TensorNode) -> Result<LinkedRoutine, RunError> {
    let code = code("add", &[(from, Access::Read), (to, Access::Write)], &[], |args, _| {
        let sum = read(&args[0]).iter().sum();
        write(&mut args[1])[0] = sum;
    });
    context.link(&code, &[from.clone(), to.clone()])
}

fn set(context: &Context, node: &TensorNode) -> Result<LinkedRoutine, RunError> {
    let code = code("set", &[(node, Access::Write)], &[], |args, _| write(&mut args[0]).fill(1));
    context.link(&code, from_ref(node))
}

/// A node that a routine reads must be in the context.
pub fn a_link_to_a_context_without_the_node(make: DriverFactory<'_>) {
    let setup = TwoStreams::new(open(make, &Setup::default()));
    let [one, _] = &setup.streams();
    let (absent, out) = (node("absent", 2), node("out", 1));
    let error = setup.rejected(&["`absent`", "`add`", one], || add(&setup.first, &absent, &out));
    assert!(matches!(error, RunError::ContextLacksNode { .. }), "{error:?}");
    // A batch fails as a whole, even if its first members could allocate.
    let set = code("set", &[(&out, Access::Write)], &[], |_, _| ());
    let reads = code("reads", &[(&absent, Access::Read)], &[], |_, _| ());
    let batch = [Some((set, vec![out.clone()])), None, Some((reads, vec![absent]))];
    let error = setup.rejected(&["`absent`", "`reads`", one], || setup.first.link_batch(&batch));
    assert!(matches!(error, RunError::ContextLacksNode { .. }), "{error:?}");
}

/// A context stays on its device.
pub fn a_stream_of_another_device(make: DriverFactory<'_>) {
    let [here, there] = [(); 2].map(|()| TwoStreams::new(open(make, &Setup::default())));
    let [mine, theirs] = [&here.streams()[0], &there.streams()[0]];
    let error = here.rejected(&[mine, theirs], || here.first.on_stream(there.first.stream()));
    assert!(matches!(error, RunError::OtherDevice { .. }), "{error:?}");
}

/// A merge runs only on the stream whose merge buffer it reads.
pub fn a_merge_by_a_routine_of_another_stream(make: DriverFactory<'_>) {
    let setup = TwoStreams::new(open(make, &Setup::default()));
    let [one, other] = &setup.streams();
    let elsewhere = setup.second.link(&merging(&setup.x), from_ref(&setup.x)).unwrap();
    let streaming = MergeBufferUse::StreamingFor(&elsewhere, &[]);
    let error = setup.rejected(&["`x`", "`merge`", one, other], || {
        setup.first.device_to_device(&setup.x, streaming, &setup.second)
    });
    assert!(matches!(error, RunError::NotMerging { .. }), "{error:?}");
}

/// A routine runs only if the merge buffer holds the node that it merges.
pub fn a_merge_buffer_that_holds_another_node(make: DriverFactory<'_>) {
    let setup = TwoStreams::new(open(make, &Setup::default()));
    let [one, _] = &setup.streams();
    let other = node("other", 2);
    let [first, second] =
        [&setup.first, &setup.second].map(|c| c.init_from_host(&other, array(&[3, 4])).unwrap());
    let merge = first.link(&merging(&setup.x), from_ref(&setup.x)).unwrap();
    let error = setup.rejected(&["`x`", "`merge`", one, "nothing"], || merge.run(&[]));
    assert!(matches!(error, RunError::MergeBuffer { .. }), "{error:?}");
    let copied = first.device_to_device(&other, MergeBufferUse::Copy, &second).unwrap();
    copied.sync().unwrap();
    let error = setup.rejected(&["`x`", "`merge`", one, "node `other`"], || merge.run(&[]));
    assert!(matches!(error, RunError::MergeBuffer { .. }), "{error:?}");
    // Errors that are known at link time are reported there.
    let transfer = first.transfer_routine(&other, true, &second).unwrap();
    let code = merging(&setup.x);
    let error = setup.rejected(&["`x`", "`merge`", one, "node `other`"], || {
        transfer.context().link(&code, from_ref(&setup.x))
    });
    assert!(matches!(error, RunError::MergeBuffer { .. }), "{error:?}");
    assert_eq!(values(&first, &setup.x), [1, 2], "nothing was merged");
}

/// Wrong values and a wrong number of bindings.
pub fn bindings_out_of_range(make: DriverFactory<'_>) {
    let setup = TwoStreams::new(open(make, &Setup::default()));
    let [one, _] = &setup.streams();
    let pick = code("pick", &[(&setup.x, Access::Write)], &[symbol("row", 3)], |args, bindings| {
        write(&mut args[0]).fill(bindings[0]);
    });
    let routine = setup.first.link(&pick, from_ref(&setup.x)).unwrap();
    for value in [3, -1, i64::MAX, i64::MIN] {
        let names = ["`pick`", one, &format!("@row = {value}")];
        let error = setup.rejected(&names, || routine.run(&[value]));
        assert!(matches!(&error, RunError::BindingRange { range, .. } if *range == (0..3)), "{error:?}");
    }
    for bindings in [&[][..], &[0, 0]] {
        let error = setup.rejected(&["`pick`", one, "@row"], || routine.run(bindings));
        assert!(matches!(error, RunError::BindingCount { expected: 1, .. }), "{error:?}");
    }
    assert_eq!(values(&setup.first, &setup.x), [1, 2], "nothing ran");
}

/// Every operation on a finalized context is rejected.
pub fn a_context_that_was_finalized(make: DriverFactory<'_>) {
    let setup = TwoStreams::new(open(make, &Setup::default()));
    let [one, _] = &setup.streams();
    let out = node("out", 1);
    let routine = add(&setup.first, &setup.x, &out).unwrap();
    let context = routine.context();
    context.finalize();
    let values = array(&[1, 2]);
    let no = MergeBufferUse::No;
    let errors = [
        setup.rejected(&["`add`", one], || routine.run(&[])),
        setup.rejected(&["`x`", one], || context.to_host(&setup.x)),
        setup.rejected(&["`x`", one], || context.from_host(&setup.x, &values)),
        setup.rejected(&["`x`", one], || context.init_from_host(&setup.x, &values)),
        setup.rejected(&["`add`", one], || add(context, &setup.x, &out)),
        setup.rejected(&["`x`", one], || context.device_to_device(&setup.x, no, &setup.second)),
        setup.rejected(&["`x`", one], || setup.second.device_to_device(&setup.x, no, context)),
        setup.rejected(&["`x`", one], || context.transfer_routine(&setup.x, false, &setup.second)),
        setup.rejected(&[one], || context.on_stream(setup.second.stream())),
    ];
    errors.iter().for_each(|error| assert!(matches!(error, RunError::Finalized { .. }), "{error:?}"));
}

/// A second stream cannot write a node whose sharing was decided by links.
pub fn a_node_that_two_streams_write(make: DriverFactory<'_>) {
    let setup = TwoStreams::new(open(make, &Setup::default()));
    let [one, other] = &setup.streams();
    let (shared, out) = (on_device("shared", 1, Sharing::Unset), node("out", 1));
    let first = setup.first.init_from_host(&shared, array(&[7])).unwrap();
    let reader = add(&setup.second, &shared, &out).unwrap();
    let writer = set(&first, &shared).unwrap();
    let error = setup.rejected(&["`shared`", one, other], || set(reader.context(), &shared));
    assert!(matches!(error, RunError::SecondWriter { .. }), "{error:?}");
    drop(writer.run(&[]).unwrap());
    drop(reader.run(&[]).unwrap());
    assert_eq!(values(reader.context(), &out), [1], "the one that may write it still does");
}

/// A transfer of a node that is in neither context.
pub fn a_transfer_of_an_absent_node(make: DriverFactory<'_>) {
    let setup = TwoStreams::new(open(make, &Setup::default()));
    let [one, other] = &setup.streams();
    let (absent, array) = (node("absent", 2), array(&[1, 2]));
    let merge = setup.first.link(&merging(&setup.x), from_ref(&setup.x)).unwrap();
    for mode in [MergeBufferUse::No, MergeBufferUse::Copy, MergeBufferUse::StreamingFor(&merge, &[])] {
        let error = setup.rejected(&["`absent`", one, other], || {
            setup.first.device_to_device(&absent, mode, &setup.second)
        });
        assert!(matches!(error, RunError::NoSource { .. }), "{error:?}");
    }
    let names = &["`absent`", one, other][..];
    let errors = [
        setup.rejected(names, || setup.first.init_from_device(&absent, &setup.second)),
        setup.rejected(names, || setup.first.copy_from(&absent, &setup.second)),
        setup.rejected(names, || setup.first.transfer_routine(&absent, true, &setup.second)),
    ];
    errors.iter().for_each(|error| assert!(matches!(error, RunError::NoSource { .. }), "{error:?}"));
    let errors = [
        setup.rejected(&["`absent`", one], || setup.first.to_host(&absent)),
        setup.rejected(&["`absent`", one], || setup.first.from_host(&absent, &array)),
    ];
    errors.iter().for_each(|error| assert!(matches!(error, RunError::NotInContext { .. }), "{error:?}"));
}

/// A node of no elements is legal: it has no bytes, and every transfer reports that there is nothing to do.
pub fn a_node_of_no_elements(make: DriverFactory<'_>) {
    let setup = TwoStreams::new(open(make, &Setup::default()));
    let before = setup.memory();
    let (empty, none) = (node("empty", 0), array(&[]));
    let reason = |transfer: Result<Transfer, RunError>| match transfer.unwrap() {
        Transfer::NothingToDo(reason) => assert_eq!(reason, "the node has no elements"),
        Transfer::Scheduled(event) => panic!("{event}"),
    };
    let [first, second] =
        [&setup.first, &setup.second].map(|context| context.init_from_host(&empty, &none).unwrap());
    reason(first.from_host(&empty, &none));
    reason(first.device_to_device(&empty, MergeBufferUse::No, &second));
    reason(first.device_to_device(&empty, MergeBufferUse::Copy, &second));
    let merge = first.link(&merging(&empty), from_ref(&empty)).unwrap();
    drop(merge.run(&[]).unwrap());
    let borrowed = MergeBufferUse::StreamingFor(&merge, &[]);
    first.device_to_device(&empty, borrowed, &second).unwrap().sync().unwrap();
    assert_eq!(values(&first, &empty), [0i64; 0]);
    setup.compute();
    let [one, _] = &setup.streams();
    let error = setup.rejected(&["`empty`", one], || setup.first.to_host(&empty));
    assert!(matches!(error, RunError::NotInContext { .. }), "{error:?}");
    let error = setup.rejected(&["`empty`"], || first.from_host(&empty, array(&[1])));
    assert!(matches!(error, RunError::Shape { .. }), "{error:?}");
    drop((first, second, merge));
    let merge_buffer = setup.first.stream().merge_buffer_bytes();
    assert_eq!(setup.memory(), (before.0 + merge_buffer, before.1 + merge_buffer));
}

/// A node or merge buffer that exceeds the size of a pool.
pub fn a_request_above_the_pool_cap(make: DriverFactory<'_>) {
    let setup = TwoStreams::new(Device::with_pool_cap(make(&Setup::default()), 0, 64));
    let [one, _] = &setup.streams();
    let (big, small) = (node("big", 9), node("small", 8));
    let both = code("both", &[(&small, Access::Write), (&big, Access::Write)], &[], |_, _| ());
    let errors = [
        setup.rejected(&["`big`", one, "72 bytes", "64"], || set(&setup.first, &big)),
        setup.rejected(&["`big`", one], || setup.first.init_from_host(&big, array(&[0; 9]))),
        setup.rejected(&["`big`", one], || setup.first.link(&both, &[small.clone(), big.clone()])),
    ];
    errors.iter().for_each(|error| assert!(matches!(error, RunError::NodeTooLarge { .. }), "{error:?}"));
    set(&setup.first, &small).unwrap();
    // A node from a device with larger pools is rejected as well.
    let larger = TwoStreams::new(open(make, &Setup::default()));
    let source = larger.first.init_from_host(&big, array(&[0; 9])).unwrap();
    let errors = [
        setup.rejected(&["`big`", one], || setup.first.init_from_device(&big, &source)),
        setup.rejected(&["merge buffer", one], || {
            setup.first.device_to_device(&big, MergeBufferUse::Copy, &source)
        }),
    ];
    errors.iter().for_each(|error| assert!(matches!(error, RunError::NodeTooLarge { .. }), "{error:?}"));
}
