//! Many threads of the host that schedule at the same time, on the same nodes, streams and devices.

use std::{
    sync::atomic::{AtomicI64, Ordering},
    thread,
};

use codegen_core::Access;
use device_runtime::{Context, Device, MergeBufferUse, RunError};
use fastrand::Rng;
use tnode::TensorNode;

use super::{DriverFactory, Setup, hand_made::*, open};

const THREADS: u64 = 4;
const STEPS: usize = 60;
const NODES: usize = 3;

/// Every thread adds to every node on every stream, copies between devices, and reads; no addition is lost.
pub fn threads_that_schedule_at_once_lose_nothing(make: DriverFactory<'_>) {
    let setup = Setup { queue_capacity: 4, ..Setup::default() };
    let devices = [(); 2].map(|()| open(make, &setup));
    let nodes: Vec<_> = (0..NODES).map(|at| node(&format!("sum{at}"), 2)).collect();
    let taken = node("taken", 2);
    let contexts = devices.each_ref().map(|device| contexts(device, &nodes, &taken));
    let expected = [(); 2].map(|()| [(); NODES].map(|()| AtomicI64::new(0)));
    thread::scope(|scope| {
        for id in 0..THREADS {
            let (contexts, nodes, taken, expected) = (&contexts, &nodes, &taken, &expected);
            scope.spawn(move || {
                let mut random = Rng::with_seed(id);
                for _ in 0..STEPS {
                    let (device, at) = (random.usize(..2), random.usize(..NODES));
                    let context = random.choice(&contexts[device]).unwrap();
                    let other = random.choice(&contexts[1 - device]).unwrap();
                    match random.u32(..6) {
                        0 => assert_eq!(torn(&context.to_host(&nodes[at]).unwrap()), None),
                        1 => take(context, other, taken, &nodes[at]).unwrap(),
                        _ => {
                            let value = random.i64(1..100);
                            add(context, &nodes[at], value).unwrap();
                            expected[device][at].fetch_add(value, Ordering::Relaxed);
                        }
                    }
                }
            });
        }
    });
    for (contexts, expected) in contexts.iter().zip(&expected) {
        for (node, expected) in nodes.iter().zip(expected) {
            assert_eq!(values(&contexts[0], node), [expected.load(Ordering::Relaxed); 2]);
        }
    }
    drop(contexts);
    for device in devices {
        assert_eq!((device.memory().live_bytes, device.driver().used_memory()), (0, 0));
    }
}

/// Contexts on three streams of a device that share the nodes; all are zero.
fn contexts(device: &Device, nodes: &[TensorNode], taken: &TensorNode) -> [Context; 3] {
    let give = |context: Context, node: &TensorNode| context.init_from_host(node, array(&[0, 0])).unwrap();
    let root = nodes.iter().chain([taken]).fold(context(device), give);
    [(); 3].map(|()| root.on_stream(&device.new_stream().unwrap()).unwrap())
}

/// Adds a value to both elements, one after the other.
fn add(context: &Context, node: &TensorNode, value: i64) -> Result<(), RunError> {
    let code = code("add", &[(node, Access::ReadWrite)], &[], move |args, _| {
        write(&mut args[0]).iter_mut().for_each(|element| *element += value);
    });
    context.link(&code, std::slice::from_ref(node))?.run(&[]).map(drop)
}

/// Copies a sum from `other` through the host to `taken` in `context`, then copies `taken` from `context`
/// back to `other`. No thread adds to `taken`.
fn take(context: &Context, other: &Context, taken: &TensorNode, sum: &TensorNode) -> Result<(), RunError> {
    let found = other.to_host(sum)?;
    let _ = context.from_host(taken, &found)?;
    let _ = other.device_to_device(taken, MergeBufferUse::No, context)?;
    assert_eq!(torn(&other.to_host(taken)?), None);
    Ok(())
}

/// The two elements of an array, if they differ, which means that a reader saw the middle of a task.
fn torn(array: &tnode::HostArray) -> Option<(i64, i64)> {
    let elements: &[i64] = array.as_slice().unwrap();
    (elements[0] != elements[1]).then_some((elements[0], elements[1]))
}
