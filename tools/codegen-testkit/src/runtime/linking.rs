//! The checks of linking, transfers and bindings, and their messages.

use std::slice::from_ref;

use codegen_core::{Access, KernelCall, Param, Slot};
use device_runtime::{Device, RunError, StreamStrategy};
use lowered_ir::ir::NodeRef;
use tnode::{DType, HostArray, MemoryMode, Reason, TensorNode};

use super::{DriverFactory, Setup, four_threads, hand_made::*, open};

/// Errors of linking name the routine and the node.
pub fn linking_names_what_is_missing_or_does_not_fit(make: DriverFactory<'_>) {
    let device = open(make, &Setup::default());
    let context = context(&device);
    let (x, y) = (node("weights", 4), node("y", 4));
    let reads = code("step", &[(&x, Access::Read), (&y, Access::Write)], &[], |_, _| ());
    let link = |nodes: &[TensorNode]| context.link(&reads, nodes).unwrap_err().to_string();
    let expected =
        format!("routine `step`: the linked context ({}) lacks node `weights`", context.stream().name());
    assert!(link(&[x.clone(), y.clone()]).starts_with(&expected));
    assert!(link(&[]).contains("no handle for node `weights` (position 0, 0 handles given)"));
    assert!(link(&[node("other", 5), y.clone()]).contains("has sizes [4], expected [5]"));
    let floats = TensorNode::builder("floats").dims([4]).dtype(DType::F32).build().unwrap();
    assert!(link(&[floats, y.clone()]).contains("has elements of i64, expected f32"));
    let recurrent = code("sum", &[(&x, Access::ReadWrite)], &[], |_, _| ());
    assert!(matches!(context.link(&recurrent, from_ref(&x)), Err(RunError::ContextLacksNode { .. })));

    let params = vec![Param::MergeBuffer { bytes: 32 }];
    let call = KernelCall { kernel: 0, args: vec![Slot::Merge(NodeRef(0))], bindings: vec![] };
    let kernel = interpreted(vec![(body(|_, _| ()), abi("merge", params))]);
    let merge = many_kernels("merge", from_ref(&x), &[], kernel, vec![call], vec![]);
    let error = context.link(&merge, from_ref(&x)).unwrap().run(&[]).unwrap_err();
    assert!(matches!(error, RunError::MergeBuffer { .. }), "{error}");

    let small = Device::with_pool_cap(make(&Setup::default()), 0, 16);
    let small = super::hand_made::context(&small);
    let error = small.init_from_host(&x, array(&[0; 4])).unwrap_err().to_string();
    let expected = format!("node `weights` needs 32 bytes for {}, and a pool of", small.stream().name());
    assert!(error.starts_with(&expected), "{error}");

    let context = context.init_from_host(&x, array(&[0; 4])).unwrap();
    let routine = context.link(&reads, &[x.clone(), y.clone()]).unwrap();
    assert_eq!((routine.name(), routine.inputs(), routine.outputs()), ("step", &[x][..], &[y][..]));
    assert_eq!(routine.merge_buffer_input(), None);
    assert!(routine.context().parent().unwrap().parent().is_some());
}

/// Errors of transfers name the node and its type and size.
pub fn transfers_name_what_does_not_fit(make: DriverFactory<'_>) {
    let device = open(make, &Setup::default());
    let context = context(&device);
    let (x, v) = (node("x", 2), node("hidden", 2));
    v.update_memory_mode(MemoryMode::Virtual, Reason::new("the test says so")).unwrap();
    let text = |error: RunError| error.to_string();
    let absent = text(context.to_host(&x).unwrap_err());
    assert!(absent.starts_with("node `x` is not in this context (") && absent.contains(":0:0)"), "{absent}");
    let absent = text(context.from_host(&x, array(&[1, 2])).unwrap_err());
    assert!(absent.starts_with("node `x` is not in this context"), "{absent}");
    let named = |text: String, access: &str| {
        let why = "it is computed where it is used and has no memory to";
        let remedy = "specify `MemoryMode::Materialized` for it before the routine is compiled";
        assert_eq!(text, format!("node `hidden` is virtual: {why} {access}; {remedy}"));
    };
    named(text(context.to_host(&v).unwrap_err()), "read");
    named(text(context.init_from_host(&v, array(&[1, 2])).unwrap_err()), "initialize");
    let shape = text(context.init_from_host(&x, array(&[1])).unwrap_err());
    assert_eq!(shape, "node `x`: the host array has sizes [1], expected [2]");
    let floats = HostArray::from_slice(&[1f32, 2.], [2]).unwrap();
    let dtype = text(context.init_from_host(&x, &floats).unwrap_err());
    assert_eq!(dtype, "node `x`: the host array has elements of f32, expected i64");
    let context = context.init_from_host(&x, array(&[1, 2])).unwrap();
    assert!(matches!(context.init_from_host(&x, array(&[1, 2])), Err(RunError::AlreadyInContext { .. })));
    let other = open(make, &Setup::default()).new_stream().unwrap();
    assert!(matches!(context.on_stream(&other), Err(RunError::OtherDevice { .. })));
    let event = other.all_work().unwrap();
    context.stream().will_wait_for(&event).unwrap();
}

/// A wrong number of bindings, and bindings outside of their ranges.
pub fn bindings_are_checked_before_anything_runs(make: DriverFactory<'_>) {
    let device = open(make, &Setup::default());
    let x = node("x", 1);
    let symbols = [symbol("step", 44), symbol("row", 3)];
    let code = code("pick", &[(&x, Access::Write)], &symbols, |args, bindings| {
        write(&mut args[0])[0] = 100 * bindings[0] + bindings[1];
    });
    let routine = context(&device).link(&code, from_ref(&x)).unwrap();
    let pick = format!("routine `pick` on {}", routine.context().stream().name());
    let error = |bindings: &[i64]| routine.run(bindings).unwrap_err().to_string();
    assert_eq!(error(&[1]), format!("{pick}: expected 2 bindings (@step, @row), found 1"));
    assert_eq!(error(&[44, 0]), format!("{pick}: binding @step = 44 is outside 0..44"));
    assert_eq!(error(&[0, -1]), format!("{pick}: binding @row = -1 is outside 0..3"));
    assert_eq!(values(routine.context(), &x), [0], "nothing ran");
    drop(routine.run(&[43, 2]).unwrap());
    assert_eq!(values(routine.context(), &x), [4302]);
    assert_eq!(routine.bindings(), symbols);
}

/// The members of a batch share the nodes of earlier members.
pub fn a_batch_shares_what_its_members_allocate(make: DriverFactory<'_>) {
    let device = open(make, &Setup::default());
    let (x, y) = (node("x", 1), node("y", 1));
    let first = code("first", &[(&x, Access::Write)], &[], |args, _| write(&mut args[0])[0] = 3);
    let second = code("second", &[(&x, Access::Read), (&y, Access::Write)], &[], |args, _| {
        let value = read(&args[0])[0];
        write(&mut args[1])[0] = value + 1;
    });
    let batch = [Some((first, vec![x.clone()])), None, Some((second, vec![x.clone(), y.clone()]))];
    let (context, routines) = context(&device).link_batch(&batch).unwrap();
    assert_eq!(routines.iter().map(Option::is_some).collect::<Vec<_>>(), [true, false, true]);
    routines.iter().flatten().for_each(|routine| drop(routine.run(&[]).unwrap()));
    assert_eq!((values(&context, &x), values(&context, &y)), (vec![3], vec![4]));
    assert_eq!(device.memory().live_bytes, 64 + 8, "one pool for both");
}

/// Margins are transferred to the device and back.
pub fn padding_comes_back(make: DriverFactory<'_>) {
    padding_comes_back_from(&open(make, &Setup::default()));
}

/// Names and numbers of devices and streams.
pub fn device_names_and_suggestions(make: DriverFactory<'_>) {
    let device = open(make, &four_threads());
    assert_eq!(device.name(), format!("{}:0", device.driver().name()));
    assert_ne!(device.device_id(), open(make, &Setup::default()).device_id());
    let stream = device.new_stream().unwrap();
    assert_eq!(stream.name(), format!("{}:0", device.name()));
    assert_eq!(device.new_stream().unwrap().stream_id().0, 1);
    assert_eq!(device.new_stream().unwrap().stream_id().0, 2, "numbers are not reused");
    assert_eq!(device.streams().as_slice(), from_ref(&stream));
    assert!(stream.debug_info().starts_with(&format!("{}: ", stream.name())));
    let by_default = device.driver().suggested_num_streams(StreamStrategy::default());
    assert_eq!((device.is_initialized(), device.suggested_num_streams()), (false, by_default));
    device.initialize(StreamStrategy::OnlyDevicesParallel);
    device.initialize(StreamStrategy::MostParallelStreams);
    assert!(device.is_initialized());
    assert_eq!(device.suggested_num_streams(), 1, "the first choice counts");
    assert!(!device.driver().static_properties().is_empty());
}
