//! Random programs, compared with a sequential model.

use std::ops::Range;

use codegen_core::Access;
use device_runtime::{Context, Device};
use fastrand::Rng;
use tnode::TensorNode;

use super::hand_made::{array, code, context, node, values};
use super::{Gpu, Store, Word};

/// The number of nodes of a program; each has three elements.
const NODES: usize = 5;

/// Random programs on one to four streams compute the values of the sequential model.
pub fn random_programs_equal_the_sequential_model(gpu: &dyn Gpu) {
    random_programs(gpu, 0..12);
}

/// [`random_programs_equal_the_sequential_model`] for programs of these seeds.
pub fn random_programs(gpu: &dyn Gpu, seeds: Range<u64>) {
    let Some(device) = gpu.device() else { return };
    for seed in seeds {
        random_program(gpu, &device, &mut Rng::with_seed(seed));
    }
}

/// Each step computes one node from others on some stream, or writes or reads it on the host.
fn random_program(gpu: &dyn Gpu, device: &Device, random: &mut Rng) {
    let nodes: Vec<_> = (0..NODES).map(|i| node(&format!("n{i}"), 3)).collect();
    let mut model: Vec<[i32; 3]> = (0..NODES as i32).map(|i| [i, 10 * i, 100 * i]).collect();
    let start = context(device);
    let root = nodes
        .iter()
        .zip(&model)
        .fold(start, |context, (node, start)| context.init_from_host(node, &array(start)).unwrap());
    let streams = 1 + random.usize(..4);
    let contexts: Vec<_> =
        (0..streams).map(|_| root.on_stream(&device.new_stream().unwrap()).unwrap()).collect();
    for step in 0..60i32 {
        let context = &contexts[random.usize(..streams)];
        let [a, b, out] = [(); 3].map(|()| random.usize(..NODES));
        match random.usize(..8) {
            0 => {
                model[out] = [step, -step, step * step];
                let _ = context.from_host(&nodes[out], &array(&model[out])).unwrap();
            }
            1 => assert_eq!(values(context, &nodes[a]), model[a]),
            _ => {
                run_mix(gpu, context, [&nodes[a], &nodes[b], &nodes[out]], [a, b, out]);
                let mixed = [0, 1, 2].map(|i| mix(model[a][i], model[b][i], model[out][i]));
                model[out] = mixed;
            }
        }
    }
    let found: Vec<_> = nodes.iter().map(|node| values(&root, node)).collect();
    assert_eq!(found, model);
}

fn mix(a: i32, b: i32, out: i32) -> i32 {
    a.wrapping_mul(31).wrapping_add(b).wrapping_mul(7) ^ out
}

/// `out = mix(a, b, out)`; a node that occurs twice is one parameter.
fn run_mix(gpu: &dyn Gpu, context: &Context, nodes: [&TensorNode; 3], numbers: [usize; 3]) {
    let mut uses: Vec<(&TensorNode, Access)> = vec![(nodes[2], Access::ReadWrite)];
    let mut known = vec![numbers[2]];
    let [a, b] = [0, 1].map(|at| {
        let found = known.iter().position(|number| *number == numbers[at]);
        found.unwrap_or_else(|| {
            uses.push((nodes[at], Access::Read));
            known.push(numbers[at]);
            known.len() - 1
        })
    });
    let read = |param| Word::read(param, Word::Thread);
    let mixed = read(a).times(31).plus(read(b)).times(7).xor(read(0));
    let code = code(gpu, "mix", &uses, &[], 3, vec![Store::new(0, Word::Thread, mixed)]);
    let handles: Vec<_> = uses.iter().map(|(node, _)| (*node).clone()).collect();
    drop(context.link(&code, &handles).unwrap().run(&[]).unwrap());
}
