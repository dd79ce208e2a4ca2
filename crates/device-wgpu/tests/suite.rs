//! Streams, events, hazards and memory of a device with hand-written kernels, through the runtime.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod support;

use std::{slice::from_ref, sync::Arc, thread};

use codegen_core::{Access, KernelCall, Slot, Temp, TempId};
use device_runtime::{Context, Device, Driver, DriverError, Error};
use device_wgpu::Config;
use lowered_ir::ir::NodeRef;
use support::*;
use tnode::{AxisPadding, DType, HostArray, Padding, TensorNode};

#[test]
fn a_kernel_adds_two_nodes() {
    let Some(device) = shared() else { return };
    let (a, b, sum) = (node("a", 1000), node("b", 1000), node("sum", 1000));
    let counted: Vec<i32> = (0..1000).collect();
    let context = context(&device).init_from_host(&a, &array(&counted)).unwrap();
    let context = context.init_from_host(&b, &array(&[7; 1000])).unwrap();
    let uses = [(&a, Access::Read), (&b, Access::Read), (&sum, Access::Write)];
    let code = code("add", &uses, &[], 1000, "w2(t, r0(t) + r1(t));");
    let routine = context.link(&code, &[a, b, sum.clone()]).unwrap();
    routine.run(&[]).unwrap().sync().unwrap();
    let expected: Vec<i32> = (7..1007).collect();
    assert_eq!(values(routine.context(), &sum), expected);
}

#[test]
fn tasks_of_a_stream_run_in_order_with_their_own_bindings() {
    let Some(device) = shared() else { return };
    let (x, log) = (node("x", 1), node("log", 1000));
    let context = context(&device).init_from_host(&x, &array(&[0])).unwrap();
    let uses = [(&x, Access::ReadWrite), (&log, Access::Write)];
    let symbols = [symbol("i", 1000), symbol("j", 1 << 20)];
    let body = "w0(0u, r0(0u) * 31u + i0); w1(i0, i1 + r0(0u));";
    let code = code("note", &uses, &symbols, 1, body);
    let routine = context.link(&code, &[x.clone(), log.clone()]).unwrap();
    let (mut state, mut expected) = (0i32, Vec::new());
    for i in 0..1000i32 {
        drop(routine.run(&[i.into(), (1000 - i).into()]).unwrap());
        state = state.wrapping_mul(31).wrapping_add(i);
        expected.push(state.wrapping_add(1000 - i));
    }
    assert_eq!(values(routine.context(), &x), [state]);
    assert_eq!(values(routine.context(), &log), expected);
}

#[test]
fn many_threads_wait_for_one_event() {
    let Some(device) = shared() else { return };
    let x = node("x", 1);
    let body = "var sum = 0u; for (var i = 0u; i < 20000u; i++) { sum = sum * 3u + i; } w0(0u, (sum | 1u) / (sum | 1u) + 6u);";
    let code = code("slow", &[(&x, Access::Write)], &[], 1, body);
    let routine = context(&device).link(&code, from_ref(&x)).unwrap();
    let event = routine.run(&[]).unwrap();
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                event.sync().unwrap();
                assert!(event.is_done());
                assert_eq!(values(routine.context(), &x), [7]);
            });
        }
    });
}

/// Nodes of three elements; each step computes one node from others on some stream, or goes through the host.
#[test]
fn random_programs_equal_the_sequential_model() {
    let Some(device) = shared() else { return };
    for seed in 0..12 {
        let mut random = Numbers::new(seed + 1);
        let streams = 1 + random.below(4);
        random_program(&device, streams, &mut random);
    }
}

fn random_program(device: &Device, streams: usize, random: &mut Numbers) {
    const NODES: usize = 5;
    let nodes: Vec<_> = (0..NODES).map(|i| node(&format!("n{i}"), 3)).collect();
    let mut model: Vec<[i32; 3]> = (0..NODES as i32).map(|i| [i, 10 * i, 100 * i]).collect();
    let root = nodes
        .iter()
        .zip(&model)
        .fold(context(device), |context, (node, start)| context.init_from_host(node, &array(start)).unwrap());
    let contexts: Vec<_> =
        (0..streams).map(|_| root.on_stream(&device.new_stream().unwrap()).unwrap()).collect();
    for step in 0..60i32 {
        let context = &contexts[random.below(streams)];
        let (a, b, out) = (random.below(NODES), random.below(NODES), random.below(NODES));
        match random.below(8) {
            0 => {
                model[out] = [step, -step, step * step];
                let _ = context.from_host(&nodes[out], &array(&model[out])).unwrap();
            }
            1 => assert_eq!(values(context, &nodes[a]), model[a]),
            _ => {
                run_mix(context, [&nodes[a], &nodes[b], &nodes[out]], [a, b, out]);
                let mixed: Vec<i32> = (0..3).map(|i| mix(model[a][i], model[b][i], model[out][i])).collect();
                model[out].copy_from_slice(&mixed);
            }
        }
    }
    let found: Vec<_> = nodes.iter().map(|node| values(&root, node)).collect();
    assert_eq!(found, model);
}

fn mix(a: i32, b: i32, out: i32) -> i32 {
    a.wrapping_mul(31).wrapping_add(b).wrapping_mul(7) ^ out
}

/// `out = mix(a, b, out)`; a node that figures twice is one parameter.
fn run_mix(context: &Context, [a, b, out]: [&TensorNode; 3], [ia, ib, io]: [usize; 3]) {
    let mut uses = vec![(out, Access::ReadWrite)];
    let mut position = |node, index| {
        if index == io {
            return 0;
        }
        if let Some(at) = uses.iter().position(|(used, _)| *used == node) {
            return at;
        }
        uses.push((node, Access::Read));
        uses.len() - 1
    };
    let (at_a, at_b) = (position(a, ia), position(b, ib));
    let body = format!("w0(t, ((r{at_a}(t) * 31u + r{at_b}(t)) * 7u) ^ r0(t));");
    let code = code("mix", &uses, &[], 3, &body);
    let handles: Vec<_> = uses.iter().map(|(node, _)| (*node).clone()).collect();
    drop(context.link(&code, &handles).unwrap().run(&[]).unwrap());
}

#[test]
fn temporaries_carry_values_between_kernels() {
    let Some(device) = shared() else { return };
    let (x, y) = (node("x", 4), node("y", 4));
    let params = [(Access::Read, 16), (Access::Write, 16)];
    let kernels = ["to_temp", "from_temp"].map(|name| Kernel::new(name, &params, 4, "w1(t, 2u * r0(t));"));
    let call = |kernel, from, to| KernelCall { kernel, args: vec![from, to], bindings: vec![] };
    let (x_slot, y_slot, temp) = (Slot::Node(NodeRef(0)), Slot::Node(NodeRef(1)), Slot::Temp(TempId(0)));
    let code = many_kernels(
        "twice",
        &[x.clone(), y.clone()],
        &[],
        artifact(kernels.to_vec()),
        vec![call(0, x_slot, temp), call(1, temp, y_slot)],
        vec![Temp { bytes: 16, offset: 256, live: (0, 1) }],
    );
    let context = context(&device).init_from_host(&x, &array(&[1, 2, 3, 4])).unwrap();
    let routine = context.link(&code, &[x, y.clone()]).unwrap();
    drop(routine.run(&[]).unwrap());
    assert_eq!(values(routine.context(), &y), [4, 8, 12, 16]);
}

#[test]
fn a_fresh_output_is_zero_where_nothing_wrote() {
    let Some(device) = shared() else { return };
    let y = node("y", 3);
    let code = code("corner", &[(&y, Access::Write)], &[], 1, "w0(1u, 5u);");
    for _ in 0..3 {
        let routine = context(&device).link(&code, from_ref(&y)).unwrap();
        drop(routine.run(&[]).unwrap());
        assert_eq!(values(routine.context(), &y), [0, 5, 0]);
    }
}

#[test]
fn padding_comes_back() {
    let Some(device) = shared() else { return };
    let padding =
        Padding { axes: [AxisPadding { left: 1, right: 2 }].into_iter().collect(), neutral: Some(0.0) };
    let builder = TensorNode::builder("padded").dims([2]).padding(padding.clone()).dtype(DType::F32);
    let x = builder.build().unwrap();
    let mut host = HostArray::zeros_padded(DType::F32, [2], padding).unwrap();
    host.set_values(&[3., 4.]).unwrap();
    let context = context(&device).init_from_host(&x, &host).unwrap();
    assert_eq!(context.to_host(&x).unwrap(), host);
}

#[test]
fn values_of_every_type_and_length_come_back() {
    let Some(device) = shared() else { return };
    for dtype in DType::ALL {
        for len in [0, 1, 2, 3, 4, 5, 7, 63, 257] {
            let x = TensorNode::builder("x").dims([len]).dtype(dtype).build().unwrap();
            let mut host = HostArray::zeros(dtype, [len]).unwrap();
            host.bytes_mut().iter_mut().zip(1u8..=255).for_each(|(byte, value)| *byte = value & 1);
            let context = context(&device).init_from_host(&x, &host).unwrap();
            assert_eq!(context.to_host(&x).unwrap().bytes(), host.bytes(), "{len} of {dtype}");
        }
    }
}

#[test]
fn memory_returns_to_zero_when_tasks_are_done() {
    let Some(driver) = open(&Config::default()) else { return };
    let device = device(&driver);
    let (x, y) = (node("x", 1000), node("y", 3 << 20));
    let parent = context(&device).init_from_host(&x, &array(&[1; 1000])).unwrap();
    assert_eq!((device.memory().live_bytes, driver.used_memory()), (4000, 4000));
    let uses = [(&x, Access::Read), (&y, Access::Write)];
    let code = code("fill", &uses, &[], 3 << 20, "w1(t, r0(0u));");
    for _ in 0..3 {
        let routine = parent.link(&code, &[x.clone(), y.clone()]).unwrap();
        let event = routine.run(&[]).unwrap();
        drop(routine);
        assert_eq!(device.memory().live_bytes, 4000, "the runtime has forgotten it");
        event.sync().unwrap();
        assert_eq!(driver.used_memory(), 4000);
    }
    drop(parent);
    device.sync().unwrap();
    assert_eq!(driver.used_memory(), 0);
}

#[test]
fn a_failed_link_leaves_nothing_allocated() {
    let Some(driver) = open(&Config { memory_limit: Some(1 << 20), ..Config::default() }) else { return };
    let device = device(&driver);
    let (x, big, fits) = (node("x", 16), node("big", 1 << 20), node("fits", 1 << 14));
    let context = context(&device).init_from_host(&x, &array(&[0; 16])).unwrap();
    device.sync().unwrap();
    let before = driver.used_memory();
    let uses = [(&fits, Access::Write), (&big, Access::Write)];
    let error = context.link(&code("fill", &uses, &[], 1, ""), &[fits.clone(), big.clone()]).unwrap_err();
    assert!(matches!(&error, Error::Driver { source: DriverError::OutOfMemory { .. }, .. }), "{error}");
    assert!(error.to_string().contains("`big`"), "{error}");
    assert_eq!((device.memory().live_bytes, driver.used_memory()), (before, before));
    assert!(context.link(&code("fill", &[(&fits, Access::Write)], &[], 1, ""), from_ref(&fits)).is_ok());
}

#[test]
fn dropping_everything_runs_what_is_pending() {
    let Some(device) = shared() else { return };
    let x = node("x", 1);
    let context = context(&device).init_from_host(&x, &array(&[0])).unwrap();
    let code = code("count", &[(&x, Access::ReadWrite)], &[], 1, "w0(0u, r0(0u) + 1u);");
    let other = context.on_stream(&device.new_stream().unwrap()).unwrap();
    let routine = other.link(&code, from_ref(&x)).unwrap();
    (0..49).for_each(|_| drop(routine.run(&[]).unwrap()));
    let last = routine.run(&[]).unwrap();
    drop((routine, other));
    assert!(last.is_done(), "the stream ended after its tasks");
    assert_eq!(values(&context, &x), [50]);
}

#[test]
fn several_devices_of_one_adapter_share_nothing() {
    let Some(first) = shared() else { return };
    let Some(driver) = open(&Config::default()) else { return };
    let second = device(&driver);
    let x = node("x", 2);
    let one = context(&first).init_from_host(&x, &array(&[1, 2])).unwrap();
    let two = context(&second).init_from_host(&x, &array(&[3, 4])).unwrap();
    assert_eq!((values(&one, &x), values(&two, &x)), (vec![1, 2], vec![3, 4]));
    assert!(matches!(one.on_stream(two.stream()), Err(Error::OtherDevice { .. })));
    let stream = driver.new_stream("wgpu:0:0").unwrap();
    assert_eq!(first.driver().record(&stream).unwrap_err(), DriverError::ForeignHandle { what: "stream" });
    assert!(Arc::strong_count(&driver) > 1);
}
