//! The runtime over the driver that runs nothing: memory, identity, introspection, and inputs that every
//! driver rejects.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::{collections::BTreeSet, sync::Arc, thread};

use codegen_core::{
    Access, Artifact, Code, Cost, Kernel, KernelAbi, KernelCall, Launch, Param, RoutineParts,
    ScheduledRoutine, Slot, Temp, TempId,
};
use device_runtime::{
    Context, Device, Driver, DriverError, Failure, MergeBufferUse, NullDevice, RunError, StreamHandle,
    Transfer,
};
use lowered_ir::ir::{NodeDecl, NodeRef};
use tnode::{DType, HostArray, TensorNode};

fn node(name: &str, len: usize) -> TensorNode {
    TensorNode::builder(name).dims([len]).dtype(DType::F32).build().unwrap()
}

fn device() -> Device {
    Device::new(Arc::new(NullDevice::new()), 0)
}

/// One kernel that reads `x` and writes `y`, and declares `bytes` bytes of each.
fn code(x: &TensorNode, y: &TensorNode, bytes: usize) -> Arc<Code> {
    let param = |access| Param::Node { access, bytes };
    let abi = KernelAbi {
        name: "kernel".to_owned(),
        params: vec![param(Access::Read), param(Access::Write)],
        launch: Launch { extent: 1, grain: 1, threads: 1, end: None },
        scratch_bytes: 0,
        log: [].into(),
        cost: Cost::default(),
    };
    let decl = |n: &TensorNode| NodeDecl {
        name: n.name(),
        dtype: n.dtype(),
        dims: n.dims().unwrap(),
        mode: n.mode(),
    };
    let args = vec![Slot::Node(NodeRef(0)), Slot::Node(NodeRef(1))];
    let parts = RoutineParts {
        name: "step".to_owned(),
        symbols: vec![],
        nodes: vec![decl(x), decl(y)],
        kernels: vec![Kernel::opaque(abi.clone()).unwrap()],
        calls: vec![KernelCall { kernel: 0, args, bindings: vec![] }],
        temps: vec![],
        overwritten: vec![],
    };
    let schedule = ScheduledRoutine::new(parts).unwrap();
    Arc::new(Code::new(schedule, Artifact::other(Arc::new(()), vec![abi])).unwrap())
}

#[test]
fn a_routine_goes_through_all_stages() {
    let device = device();
    let (x, y) = (node("x", 4), node("y", 4));
    let context = Context::new(&device.new_stream().unwrap());
    let context = context.init_from_host(&x, HostArray::from_slice(&[1f32; 4], [4]).unwrap()).unwrap();
    let routine = context.link(&code(&x, &y, 16), &[x.clone(), y.clone()]).unwrap();
    let event = routine.run(&[]).unwrap();
    assert!(event.is_done() && routine.context().stream().is_idle());
    assert_eq!(routine.context().to_host(&y).unwrap().values(), [0.; 4]);
    assert_eq!(device.memory().live_bytes, 32);
    assert_eq!(device.driver().used_memory(), 32);
    drop((context, routine));
    assert_eq!((device.memory().live_bytes, device.driver().used_memory()), (0, 0));
}

#[test]
fn code_that_does_not_fit_its_nodes_is_rejected_whole() {
    let device = device();
    let (x, y) = (node("x", 4), node("y", 4));
    let context = Context::new(&device.new_stream().unwrap());
    let context = context.init_from_host(&x, HostArray::zeros(DType::F32, [4]).unwrap()).unwrap();
    let code = code(&x, &y, 16);
    let error = context.link(&code, &[x.clone(), node("longer", 5)]).unwrap_err();
    assert!(matches!(&error, RunError::Shape { node, .. } if node == "longer"), "{error}");
    let wider = TensorNode::builder("wider").dims([4]).dtype(DType::F64).build().unwrap();
    let error = context.link(&code, &[x.clone(), wider]).unwrap_err();
    assert!(matches!(&error, RunError::ElementType { node, .. } if node == "wider"), "{error}");
    assert!(matches!(context.link(&code, &[x]), Err(RunError::NoHandle { .. })));
    assert_eq!(device.memory().live_bytes, 16, "x alone");
}

/// All temporaries of a routine may be empty.
#[test]
fn temporaries_without_elements_have_a_place() {
    let device = device();
    let (x, y) = (node("x", 0), node("y", 0));
    let mut parts = code(&x, &y, 0).schedule().clone().into_parts();
    parts.calls[0].args[1] = Slot::Temp(TempId(0));
    parts.temps.push(Temp { node: NodeRef(0), bytes: 0, offset: 0, live: (0, 0) });
    let artifact = code(&x, &y, 0).artifact().clone();
    let code = Code::new(ScheduledRoutine::new(parts).unwrap(), artifact).unwrap();
    let context = Context::new(&device.new_stream().unwrap());
    let context = context.init_from_host(&x, HostArray::zeros(DType::F32, [0]).unwrap()).unwrap();
    let routine = context.link(&Arc::new(code), &[x, y]).unwrap();
    assert!(routine.run(&[]).unwrap().is_done());
}

#[test]
fn nodes_without_elements_need_no_transfer() {
    let empty = node("empty", 0);
    let context = Context::new(&device().new_stream().unwrap());
    let array = HostArray::zeros(DType::F32, [0]).unwrap();
    let context = context.init_from_host(&empty, &array).unwrap();
    assert!(matches!(context.from_host(&empty, &array).unwrap(), Transfer::NothingToDo(_)));
    assert_eq!(context.to_host(&empty).unwrap(), array);
}

#[test]
fn streams_and_devices_are_equal_to_themselves_alone() {
    let (one, other) = (device(), device());
    assert_ne!(one, other);
    let (a, b) = (one.new_stream().unwrap(), other.new_stream().unwrap());
    assert_eq!(a.stream_id(), b.stream_id());
    assert_ne!(a, b, "the same number on another device");
    assert_eq!(a, a.clone());
    assert_ne!(a, one.new_stream().unwrap());
    assert_eq!((one.name().as_str(), a.name().as_str()), ("null:0", "null:0:0"));
}

/// Messages, dumps and `{:?}` output are the same in every run.
#[test]
fn texts_are_stable() {
    let device = device();
    let (x, y) = (node("x", 4), node("y", 4));
    let context = Context::new(&device.new_stream().unwrap());
    let context = context.init_from_host(&x, HostArray::zeros(DType::F32, [4]).unwrap()).unwrap();
    let routine = context.link(&code(&x, &y, 16), &[x.clone(), y.clone()]).unwrap();
    let event = routine.run(&[]).unwrap();
    let debug: [(&dyn std::fmt::Debug, &str); 6] = [
        (context.stream(), "Stream(null:0:0)"),
        (&event, "Event(null:0:0)"),
        (&context, r#"Context { stream: Stream(null:0:0), nodes: ["x"] }"#),
        (
            &routine,
            r#"LinkedRoutine { name: "step", context: Context { stream: Stream(null:0:0), nodes: ["x", "y"] } }"#,
        ),
        (&MergeBufferUse::Copy, "Copy"),
        (&Param::MergeBuffer { bytes: 16 }, "MergeBuffer { bytes: 16 }"),
    ];
    debug.iter().for_each(|(value, text)| assert_eq!(format!("{value:?}"), *text));
    let location = context.location(&x).unwrap();
    let display: [(&dyn std::fmt::Display, &str); 4] = [
        (&event, "an event of null:0:0"),
        (&location, "pool 1 offset 0"),
        (&location.pool, "pool 1"),
        (&context.stream().stream_id(), "stream 0"),
    ];
    display.iter().for_each(|(value, text)| assert_eq!(value.to_string(), *text));
    assert_eq!(format!("{device:?}"), format!("Device(null:0, id {})", device.device_id()));
    assert!(context.explain(&x).ends_with("16 bytes at pool 1 offset 0 of null:0\nmade on null:0:0\n"));
}

#[test]
fn a_node_is_initialized_by_its_first_write() {
    let device = device();
    let (x, y) = (node("x", 4), node("y", 4));
    let context = Context::new(&device.new_stream().unwrap());
    let context = context.init_from_host(&x, HostArray::zeros(DType::F32, [4]).unwrap()).unwrap();
    let routine = context.link(&code(&x, &y, 16), &[x.clone(), y.clone()]).unwrap();
    let linked = routine.context();
    let initialized = |context: &Context| [&x, &y].map(|node| context.is_initialized(node));
    assert_eq!(initialized(&context), [true, false], "y is not in the context");
    assert_eq!((linked.contains(&y), initialized(linked)), (true, [true, false]), "y was not written");
    drop(routine.run(&[]).unwrap());
    assert_eq!(initialized(linked), [true, true]);
    linked.poison(&y, &Failure::new("null:0:0", "step", "no luck")).unwrap();
    assert_eq!(initialized(linked), [true, false], "the values of y were lost");
}

/// Threads that make devices at once get different numbers.
#[test]
fn devices_made_by_several_threads_have_different_ids() {
    let ids = |_| thread::spawn(|| std::array::from_fn::<u64, 100, _>(|_| device().device_id()));
    let threads: Vec<_> = (0..4).map(ids).collect();
    let ids = threads.into_iter().flat_map(|thread| thread.join().unwrap());
    assert_eq!(ids.collect::<BTreeSet<u64>>().len(), 400);
}

#[test]
fn foreign_handles_are_rejected() {
    let null = NullDevice::new();
    let foreign = StreamHandle::new(0u8);
    assert_eq!(null.record(&foreign).unwrap_err(), DriverError::ForeignHandle { what: "stream" });
}

/// The pools of the two devices have the same numbers but are different memory.
#[test]
fn two_devices_of_one_driver_have_memory_of_their_own() {
    let driver = Arc::new(NullDevice::new());
    let [one, other] = [0, 1].map(|ordinal| Device::new(Arc::clone(&driver) as Arc<_>, ordinal));
    let (x, y) = (node("x", 4), node("y", 8));
    let [one, other] = [(&one, &x), (&other, &y)].map(|(device, node)| {
        let zeros = HostArray::zeros(DType::F32, node.dims().unwrap()).unwrap();
        Context::new(&device.new_stream().unwrap()).init_from_host(node, &zeros).unwrap()
    });
    assert_eq!(one.location(&x), other.location(&y));
    assert_eq!(driver.used_memory(), 48);
    drop(other);
    assert_eq!(driver.used_memory(), 16);
    assert_eq!(one.to_host(&x).unwrap().values(), [0.; 4]);
}

#[test]
fn devices_without_host_tasks_say_so() {
    let stream = Device::new(Arc::new(NullDevice::new()), 0).new_stream().unwrap();
    let error = stream.schedule_task("errand", || Ok(())).unwrap_err();
    assert!(matches!(error, RunError::Driver { source: DriverError::NoHostTasks { .. }, .. }));
}

/// The host cannot access the memory, so the caller runs the function with copies of the values.
#[test]
fn functions_get_copies_where_the_host_has_no_access() {
    let device = Device::new(Arc::new(NullDevice::new()), 0);
    let x = node("x", 4);
    let zeros = HostArray::zeros(DType::F32, [4]).unwrap();
    let context = Context::new(&device.new_stream().unwrap()).init_from_host(&x, &zeros).unwrap();
    let caller = std::thread::current().id();
    let run = move |memory: &mut [&mut [u8]]| {
        assert_eq!(std::thread::current().id(), caller);
        assert_eq!(memory.iter().map(|bytes| bytes.len()).collect::<Vec<_>>(), [16]);
        Ok(())
    };
    context.access_on_host(context.stream(), std::slice::from_ref(&x), "look", run).unwrap().sync().unwrap();
    for panics in [false, true] {
        let fail =
            move |_: &mut [&mut [u8]]| if panics { panic!("no luck") } else { Err("no luck".to_owned()) };
        let error =
            context.access_on_host(context.stream(), std::slice::from_ref(&x), "errand", fail).unwrap_err();
        assert_eq!(error.to_string(), "`errand` on the host: no luck");
    }
    assert_eq!(context.to_host(&x).unwrap().values(), [0.; 4]);
}
