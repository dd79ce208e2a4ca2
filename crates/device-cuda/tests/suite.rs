//! Streams, events, hazards and memory of a device with hand-written kernels, through the runtime.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod support;

use std::{slice::from_ref, sync::Arc, thread};

use codegen_core::{Access, KernelCall, Slot, Temp, TempId};
use device_cuda::Config;
use device_runtime::{Context, Device, Driver, DriverError, Error};
use lowered_ir::ir::NodeRef;
use support::*;
use tnode::{AxisPadding, DType, HostArray, Padding, TensorNode};

fn opened() -> Device {
    device(&open(&Config::default()))
}

#[test]
fn a_kernel_adds_two_nodes() {
    on_device(|| {
        let device = opened();
        let (a, b, sum) = (node("a", 1000), node("b", 1000), node("sum", 1000));
        let counted: Vec<i32> = (0..1000).collect();
        let context = context(&device).init_from_host(&a, &array(&counted)).unwrap();
        let context = context.init_from_host(&b, &array(&[7; 1000])).unwrap();
        let uses = [(&a, Access::Read), (&b, Access::Read), (&sum, Access::Write)];
        let body = read("%r4", 0, "%r3") + &read("%r5", 1, "%r3") + "add.u32 %r4, %r4, %r5;\n";
        let code = code("add", &uses, &[], 1000, &(body + &write(2, "%r3", "%r4")));
        let routine = context.link(&code, &[a, b, sum.clone()]).unwrap();
        routine.run(&[]).unwrap().sync().unwrap();
        let expected: Vec<i32> = (7..1007).collect();
        assert_eq!(values(routine.context(), &sum), expected);
    });
}

#[test]
fn tasks_of_a_stream_run_in_order_with_their_own_bindings() {
    on_device(|| {
        let device = opened();
        let (x, log) = (node("x", 1), node("log", 300));
        let context = context(&device).init_from_host(&x, &array(&[0])).unwrap();
        let uses = [(&x, Access::ReadWrite), (&log, Access::Write)];
        let symbols = [symbol("i", 1000), symbol("j", 1 << 20)];
        let body = read("%r4", 0, "0") + "mad.lo.u32 %r4, %r4, 31, %r10;\n" + &write(0, "0", "%r4");
        let body = body + "add.u32 %r5, %r11, %r4;\n" + &write(1, "%r10", "%r5");
        let code = code("note", &uses, &symbols, 1, &body);
        let routine = context.link(&code, &[x.clone(), log.clone()]).unwrap();
        let (mut state, mut expected) = (0i32, Vec::new());
        for i in 0..300i32 {
            drop(routine.run(&[i.into(), (1000 - i).into()]).unwrap());
            state = state.wrapping_mul(31).wrapping_add(i);
            expected.push(state.wrapping_add(1000 - i));
        }
        assert_eq!(values(routine.context(), &x), [state]);
        assert_eq!(values(routine.context(), &log), expected);
    });
}

#[test]
fn many_threads_wait_for_one_event() {
    on_device(|| {
        let device = opened();
        let x = node("x", 1);
        let body = "mov.u32 %r5, 0;\nmov.u32 %r6, 3;\nAGAIN:\nmul.lo.u32 %r6, %r6, 5;\nadd.u32 %r5, %r5, 1;\nsetp.ne.u32 %p1, %r5, 2000;\n@%p1 bra AGAIN;\nand.b32 %r6, %r6, 0;\nadd.u32 %r6, %r6, 7;\n";
        let code = code("slow", &[(&x, Access::Write)], &[], 1, &(body.to_owned() + &write(0, "0", "%r6")));
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
    });
}

/// Nodes of three elements; each step computes one node from others on some stream, or goes through the host.
fn random_programs(seeds: std::ops::Range<u64>) {
    let device = opened();
    for seed in seeds {
        let mut random = Numbers::new(seed + 1);
        let streams = 1 + random.below(4);
        random_program(&device, streams, &mut random);
    }
}

#[test]
fn random_programs_equal_the_sequential_model() {
    on_device(|| random_programs(0..6));
}

#[test]
fn random_programs_equal_the_model_in_every_order() {
    for seed in 2..6 {
        on_fake(&format!("seed={seed}"), || random_programs(6 * seed..6 * seed + 4));
    }
    on_fake("order=eager pools=0", || random_programs(0..3));
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
    let reads = read("%r4", at_a, "%r3") + &read("%r5", at_b, "%r3") + &read("%r6", 0, "%r3");
    let body = reads + "mad.lo.u32 %r4, %r4, 31, %r5;\nmul.lo.u32 %r4, %r4, 7;\nxor.b32 %r4, %r4, %r6;\n";
    let code = code("mix", &uses, &[], 3, &(body + &write(0, "%r3", "%r4")));
    let handles: Vec<_> = uses.iter().map(|(node, _)| (*node).clone()).collect();
    drop(context.link(&code, &handles).unwrap().run(&[]).unwrap());
}

#[test]
fn temporaries_carry_values_between_kernels() {
    on_device(|| {
        let device = opened();
        let (x, y) = (node("x", 4), node("y", 4));
        let params = [(Access::Read, 16), (Access::Write, 16)];
        let body = read("%r4", 0, "%r3") + "mul.lo.u32 %r4, %r4, 2;\n" + &write(1, "%r3", "%r4");
        let kernels = ["to_temp", "from_temp"].map(|name| Kernel::new(name, &params, 4, &body));
        let call = |kernel, from, to| KernelCall { kernel, args: vec![from, to], bindings: vec![] };
        let (x_slot, y_slot, temp) = (Slot::Node(NodeRef(0)), Slot::Node(NodeRef(1)), Slot::Temp(TempId(0)));
        let code = many_kernels(
            "twice",
            &[x.clone(), y.clone()],
            &[],
            artifact(&kernels),
            vec![call(0, x_slot, temp), call(1, temp, y_slot)],
            vec![Temp { bytes: 16, offset: 256, live: (0, 1) }],
        );
        let context = context(&device).init_from_host(&x, &array(&[1, 2, 3, 4])).unwrap();
        let routine = context.link(&code, &[x, y.clone()]).unwrap();
        drop(routine.run(&[]).unwrap());
        assert_eq!(values(routine.context(), &y), [4, 8, 12, 16]);
    });
}

#[test]
fn a_fresh_output_is_zero_where_nothing_wrote() {
    on_device(|| {
        let device = opened();
        let y = node("y", 3);
        let body = "mov.u32 %r4, 5;\n".to_owned() + &write(0, "1", "%r4");
        let code = code("corner", &[(&y, Access::Write)], &[], 1, &body);
        for _ in 0..3 {
            let routine = context(&device).link(&code, from_ref(&y)).unwrap();
            drop(routine.run(&[]).unwrap());
            assert_eq!(values(routine.context(), &y), [0, 5, 0]);
        }
    });
}

#[test]
fn padding_comes_back() {
    on_device(|| {
        let device = opened();
        let padding =
            Padding { axes: [AxisPadding { left: 1, right: 2 }].into_iter().collect(), neutral: Some(0.0) };
        let builder = TensorNode::builder("padded").dims([2]).padding(padding.clone()).dtype(DType::F32);
        let x = builder.build().unwrap();
        let mut host = HostArray::zeros_padded(DType::F32, [2], padding).unwrap();
        host.set_values(&[3., 4.]).unwrap();
        let context = context(&device).init_from_host(&x, &host).unwrap();
        assert_eq!(context.to_host(&x).unwrap(), host);
    });
}

#[test]
fn values_of_every_type_and_length_come_back() {
    on_device(|| {
        let device = opened();
        for dtype in DType::ALL {
            for len in [0, 1, 2, 3, 4, 5, 7, 63, 257] {
                let x = TensorNode::builder("x").dims([len]).dtype(dtype).build().unwrap();
                let mut host = HostArray::zeros(dtype, [len]).unwrap();
                host.bytes_mut().iter_mut().zip(1u8..=255).for_each(|(byte, value)| *byte = value & 1);
                let context = context(&device).init_from_host(&x, &host).unwrap();
                assert_eq!(context.to_host(&x).unwrap().bytes(), host.bytes(), "{len} of {dtype}");
            }
        }
    });
}

#[test]
fn memory_returns_to_zero_when_tasks_are_done() {
    on_device(|| {
        let driver = open(&Config::default());
        let device = device(&driver);
        let (x, y) = (node("x", 1000), node("y", 3000));
        let parent = context(&device).init_from_host(&x, &array(&[1; 1000])).unwrap();
        assert_eq!((device.memory().live_bytes, driver.used_memory()), (4000, 4000));
        let uses = [(&x, Access::Read), (&y, Access::Write)];
        let code = code("fill", &uses, &[], 3000, &(read("%r4", 0, "0") + &write(1, "%r3", "%r4")));
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
    });
}

#[test]
fn a_failed_link_leaves_nothing_allocated() {
    on_device(|| {
        let driver = open(&Config { memory_limit: Some(1 << 20), ..Config::default() });
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
    });
}

#[test]
fn dropping_everything_runs_what_is_pending() {
    on_device(|| {
        let device = opened();
        let x = node("x", 1);
        let context = context(&device).init_from_host(&x, &array(&[0])).unwrap();
        let code = code("count", &[(&x, Access::ReadWrite)], &[], 1, &count("count").body);
        let other = context.on_stream(&device.new_stream().unwrap()).unwrap();
        let routine = other.link(&code, from_ref(&x)).unwrap();
        (0..49).for_each(|_| drop(routine.run(&[]).unwrap()));
        let last = routine.run(&[]).unwrap();
        drop((routine, other));
        assert!(last.is_done(), "the stream ended after its tasks");
        assert_eq!(values(&context, &x), [50]);
    });
}

/// Two kernels of a routine: what the second would have written has no value, and the stream works again after a reset.
#[test]
fn a_failed_task_poisons_what_depends_on_it_and_nothing_else() {
    on_fake("", || {
        let driver = open(&Config::default());
        let device = device(&driver);
        let (x, y) = (node("x", 1), node("y", 1));
        let context = context(&device).init_from_host(&x, &array(&[3])).unwrap();
        let context = context.init_from_host(&y, &array(&[4])).unwrap();
        let kernels = [count("good"), count("refused")];
        let calls =
            (0..2).map(|k| KernelCall { kernel: k, args: vec![Slot::Node(NodeRef(0))], bindings: vec![] });
        let code = many_kernels("work", from_ref(&x), &[], artifact(&kernels), calls.collect(), vec![]);
        let routine = context.link(&code, from_ref(&x)).unwrap();
        let error = routine.run(&[]).unwrap_err();
        assert!(error.to_string().contains("`refused` failed on cuda:0:0: cuLaunchKernel: "), "{error}");
        let other = context.on_stream(&device.new_stream().unwrap()).unwrap();
        assert!(matches!(other.to_host(&x), Err(Error::Poisoned { .. })));
        assert_eq!(values(&other, &y), [4]);
        context.stream().reset().unwrap();
        let _ = context.from_host(&x, &array(&[9])).unwrap();
        assert_eq!((values(&context, &x), values(&context, &y)), (vec![9], vec![4]));
    });
}

#[test]
fn several_devices_of_one_processor_share_nothing() {
    on_device(|| {
        let first = opened();
        let driver = open(&Config::default());
        let second = device(&driver);
        let x = node("x", 2);
        let one = context(&first).init_from_host(&x, &array(&[1, 2])).unwrap();
        let two = context(&second).init_from_host(&x, &array(&[3, 4])).unwrap();
        assert_eq!((values(&one, &x), values(&two, &x)), (vec![1, 2], vec![3, 4]));
        assert!(matches!(one.on_stream(two.stream()), Err(Error::OtherDevice { .. })));
        assert!(Arc::strong_count(&driver) > 1);
    });
}
