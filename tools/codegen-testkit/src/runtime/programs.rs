//! Random programs without faults, compared with a model.

use codegen_core::Access;
use device_runtime::{Context, Device, LinkedRoutine, RunError};
use fastrand::Rng;
use tnode::TensorNode;

use super::{DriverFactory, Setup, hand_made::*, open};

/// Random programs on one to four streams compute the values of a sequential model.
pub fn random_programs_equal_the_sequential_model(make: DriverFactory<'_>) {
    for seed in filetests::effort::seeds(10) {
        let mut random = Rng::with_seed(seed);
        let streams = 1 + random.usize(..4);
        let device =
            open(make, &Setup { threads: 2, queue_capacity: 1 + random.usize(..8), ..Setup::default() });
        random_program(&device, streams, &mut random);
    }
}

fn random_program(device: &Device, streams: usize, random: &mut Rng) {
    const NODES: usize = 5;
    let nodes: Vec<_> = (0..NODES).map(|i| node(&format!("n{i}"), 3)).collect();
    let mut model: Vec<[i64; 3]> = (0..NODES as i64).map(|i| [i, 10 * i, 100 * i]).collect();
    let root = nodes
        .iter()
        .zip(&model)
        .fold(context(device), |context, (node, start)| context.init_from_host(node, &array(start)).unwrap());
    let contexts: Vec<_> =
        (0..streams).map(|_| root.on_stream(&device.new_stream().unwrap()).unwrap()).collect();
    for step in 0..80i64 {
        let context = &contexts[random.usize(..streams)];
        let (a, b, out) = (random.usize(..NODES), random.usize(..NODES), random.usize(..NODES));
        match random.usize(..8) {
            0 => {
                model[out] = [step, -step, step * step];
                let _ = context.from_host(&nodes[out], &array(&model[out])).unwrap();
            }
            1 => assert_eq!(values(context, &nodes[a]), model[a]),
            _ => {
                let spins = random.usize(..2000);
                let routine =
                    mixing(context, [&nodes[a], &nodes[b], &nodes[out]], [a, b, out], spins).unwrap();
                drop(routine.run(&[]).unwrap());
                let mixed: Vec<i64> = (0..3).map(|i| mix(model[a][i], model[b][i], model[out][i])).collect();
                model[out].copy_from_slice(&mixed);
            }
        }
    }
    let found: Vec<_> = nodes.iter().map(|node| values(&root, node)).collect();
    assert_eq!(found, model);
}

pub(super) fn mix(a: i64, b: i64, out: i64) -> i64 {
    a.wrapping_mul(31).wrapping_add(b).wrapping_mul(7) ^ out
}

/// The routine `out = mix(a, b, out)`, with a delay; a node that occurs twice is one parameter.
pub(super) fn mixing(
    context: &Context,
    [a, b, out]: [&TensorNode; 3],
    [ia, ib, io]: [usize; 3],
    spins: usize,
) -> Result<LinkedRoutine, RunError> {
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
    let code = code("mix", &uses, &[], move |args, _| {
        for i in 0..3 {
            let (a, b, out) = (read(&args[at_a])[i], read(&args[at_b])[i], read(&args[0])[i]);
            (0..spins).for_each(|_| std::hint::spin_loop());
            write(&mut args[0])[i] = mix(a, b, out);
        }
    });
    let handles: Vec<_> = uses.iter().map(|(node, _)| (*node).clone()).collect();
    context.link(&code, &handles)
}
