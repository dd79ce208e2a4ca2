//! Tasks of streams: their order, their events, and their resources after everything is dropped.

use std::{slice::from_ref, sync::Arc, thread};

use codegen_core::Access;
use device_runtime::RunError;

use super::hand_made::{array, code, context_with, node, symbol, values};
use super::{Gpu, Store, Word};

/// A kernel computes the sum of two nodes.
pub fn a_kernel_adds_two_nodes(gpu: &dyn Gpu) {
    let Some(device) = gpu.device() else { return };
    let (a, b, sum) = (node("a", 1000), node("b", 1000), node("sum", 1000));
    let counted: Vec<i32> = (0..1000).collect();
    let context = context_with(&device, &a, &counted).init_from_host(&b, array(&[7; 1000])).unwrap();
    let uses = [(&a, Access::Read), (&b, Access::Read), (&sum, Access::Write)];
    let added = Word::read(0, Word::Thread).plus(Word::read(1, Word::Thread));
    let code = code(gpu, "add", &uses, &[], 1000, vec![Store::new(2, Word::Thread, added)]);
    let routine = context.link(&code, &[a, b, sum.clone()]).unwrap();
    routine.run(&[]).unwrap().sync().unwrap();
    let expected: Vec<i32> = (7..1007).collect();
    assert_eq!(values(routine.context(), &sum), expected);
}

/// Each of many runs sees the result of the previous one, and its own bindings.
pub fn tasks_of_a_stream_run_in_order_with_their_own_bindings(gpu: &dyn Gpu) {
    const RUNS: i32 = 300;
    let Some(device) = gpu.device() else { return };
    let (x, log) = (node("x", 1), node("log", RUNS as usize));
    let context = context_with(&device, &x, &[0]);
    let uses = [(&x, Access::ReadWrite), (&log, Access::Write)];
    let symbols = [symbol("i", 1000), symbol("j", 1 << 20)];
    let next = Word::read(0, 0).times(31).plus(Word::Index(0));
    let noted = Word::Index(1).plus(Word::read(0, 0));
    let stores = vec![Store::new(0, 0, next), Store::new(1, Word::Index(0), noted)];
    let code = code(gpu, "note", &uses, &symbols, 1, stores);
    let routine = context.link(&code, &[x.clone(), log.clone()]).unwrap();
    let (mut state, mut expected) = (0i32, Vec::new());
    for i in 0..RUNS {
        drop(routine.run(&[i.into(), (1000 - i).into()]).unwrap());
        state = state.wrapping_mul(31).wrapping_add(i);
        expected.push(state.wrapping_add(1000 - i));
    }
    assert_eq!(values(routine.context(), &x), [state]);
    assert_eq!(values(routine.context(), &log), expected);
}

/// Adds one to its only element.
fn count() -> Vec<Store> {
    vec![Store::new(0, 0, Word::read(0, 0).plus(1))]
}

/// Threads wait for the last of many runs, and each sees that it is done.
pub fn many_threads_wait_for_one_event(gpu: &dyn Gpu) {
    let Some(device) = gpu.device() else { return };
    let x = node("x", 1);
    let context = context_with(&device, &x, &[0]);
    let code = code(gpu, "count", &[(&x, Access::ReadWrite)], &[], 1, count());
    let routine = context.link(&code, from_ref(&x)).unwrap();
    (0..199).for_each(|_| drop(routine.run(&[]).unwrap()));
    let event = routine.run(&[]).unwrap();
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                event.sync().unwrap();
                assert!(event.is_done());
                assert_eq!(values(routine.context(), &x), [200]);
            });
        }
    });
}

/// Submitted tasks run although the stream was dropped.
pub fn dropping_everything_runs_what_is_pending(gpu: &dyn Gpu) {
    let Some(device) = gpu.device() else { return };
    let x = node("x", 1);
    let context = context_with(&device, &x, &[0]);
    let code = code(gpu, "count", &[(&x, Access::ReadWrite)], &[], 1, count());
    let other = context.on_stream(&device.new_stream().unwrap()).unwrap();
    let routine = other.link(&code, from_ref(&x)).unwrap();
    (0..49).for_each(|_| drop(routine.run(&[]).unwrap()));
    let last = routine.run(&[]).unwrap();
    drop((routine, other));
    assert!(last.is_done(), "the stream ended after its tasks");
    assert_eq!(values(&context, &x), [50]);
}

/// Two devices on one processor have values of their own, and reject each other's handles.
pub fn several_devices_of_one_processor_share_nothing(gpu: &dyn Gpu) {
    let Some(first) = gpu.device() else { return };
    let Some((driver, second)) = gpu.open(None) else { return };
    let x = node("x", 2);
    let one = context_with(&first, &x, &[1, 2]);
    let two = context_with(&second, &x, &[3, 4]);
    assert_eq!((values(&one, &x), values(&two, &x)), (vec![1, 2], vec![3, 4]));
    assert!(matches!(one.on_stream(two.stream()), Err(RunError::OtherDevice { .. })));
    assert!(Arc::strong_count(&driver) > 1);
}
