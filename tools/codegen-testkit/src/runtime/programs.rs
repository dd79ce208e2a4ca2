//! Random programs without faults, compared with a model.

use std::fmt::Debug;

use codegen_core::Access;
use device_runtime::{Context, Device, LinkedRoutine, RunError};
use fastrand::Rng;
use tnode::{HostArray, TensorNode};

use super::{DriverFactory, Setup, hand_made::*, open};

/// The number of nodes of a program; each has three elements.
const NODES: usize = 5;

/// Runs `out = mix(a, b, out)` on these nodes, with their numbers.
type RunMix<'a> = dyn Fn(&Context, &mut Rng, [&TensorNode; 3], [usize; 3]) + 'a;

/// How a random program computes on nodes of three elements.
pub(crate) struct ProgramSteps<'a, T> {
    /// A node.
    pub(crate) node: fn(&str, usize) -> TensorNode,
    /// An array for a node.
    pub(crate) array: fn(&[T]) -> HostArray,
    /// The values of a node, read back.
    pub(crate) values: fn(&Context, &TensorNode) -> Vec<T>,
    /// The function of each step.
    pub(crate) mix: fn(T, T, T) -> T,
    /// Runs a step.
    pub(crate) run: &'a RunMix<'a>,
}

impl<T: Copy + Debug + PartialEq + From<i32>> ProgramSteps<'_, T> {
    /// Runs a random program on some streams. Each step computes one node from others on some stream, or
    /// writes or reads it on the host.
    pub(crate) fn check(&self, device: &Device, streams: usize, steps: i32, random: &mut Rng) {
        let three = |values: [i32; 3]| values.map(T::from);
        let nodes: Vec<_> = (0..NODES).map(|i| (self.node)(&format!("n{i}"), 3)).collect();
        let mut model: Vec<[T; 3]> = (0..NODES as i32).map(|i| three([i, 10 * i, 100 * i])).collect();
        let start = |context: Context, (node, start): (&TensorNode, &[T; 3])| {
            context.init_from_host(node, (self.array)(start)).unwrap()
        };
        let root = nodes.iter().zip(&model).fold(context(device), start);
        let contexts: Vec<_> =
            (0..streams).map(|_| root.on_stream(&device.new_stream().unwrap()).unwrap()).collect();
        for step in 0..steps {
            let context = &contexts[random.usize(..streams)];
            let [a, b, out] = [(); 3].map(|()| random.usize(..NODES));
            match random.usize(..8) {
                0 => {
                    model[out] = three([step, -step, step * step]);
                    let _ = context.from_host(&nodes[out], (self.array)(&model[out])).unwrap();
                }
                1 => assert_eq!((self.values)(context, &nodes[a]), model[a]),
                _ => {
                    (self.run)(context, random, [&nodes[a], &nodes[b], &nodes[out]], [a, b, out]);
                    model[out] = [0, 1, 2].map(|i| (self.mix)(model[a][i], model[b][i], model[out][i]));
                }
            }
        }
        let found: Vec<_> = nodes.iter().map(|node| (self.values)(&root, node)).collect();
        assert_eq!(found, model);
    }
}

/// The parameters of `out = mix(a, b, out)`, `out` first, and the positions of `a` and `b` among them; a node
/// that occurs twice is one parameter.
pub(crate) fn mix_uses(
    [a, b, out]: [&TensorNode; 3],
    [ia, ib, io]: [usize; 3],
) -> (Vec<(&TensorNode, Access)>, [usize; 2]) {
    let (mut uses, mut known) = (vec![(out, Access::ReadWrite)], vec![io]);
    let positions = [(a, ia), (b, ib)].map(|(node, number)| {
        let found = known.iter().position(|&known| known == number);
        found.unwrap_or_else(|| {
            uses.push((node, Access::Read));
            known.push(number);
            known.len() - 1
        })
    });
    (uses, positions)
}

/// Random programs on one to four streams compute the values of a sequential model.
pub fn random_programs_equal_the_sequential_model(make: DriverFactory<'_>) {
    let run = |context: &Context, random: &mut Rng, nodes: [&TensorNode; 3], numbers: [usize; 3]| {
        drop(mixing(context, nodes, numbers, random.usize(..2000)).unwrap().run(&[]).unwrap());
    };
    for seed in filetests::effort::seeds(10) {
        let mut random = Rng::with_seed(seed);
        let streams = 1 + random.usize(..4);
        let device =
            open(make, &Setup { threads: 2, queue_capacity: 1 + random.usize(..8), ..Setup::default() });
        let steps = ProgramSteps { node, array, values, mix, run: &run };
        steps.check(&device, streams, 80, &mut random);
    }
}

pub(super) fn mix(a: i64, b: i64, out: i64) -> i64 {
    a.wrapping_mul(31).wrapping_add(b).wrapping_mul(7) ^ out
}

/// The routine `out = mix(a, b, out)`, with a delay.
pub(super) fn mixing(
    context: &Context,
    nodes: [&TensorNode; 3],
    numbers: [usize; 3],
    spins: usize,
) -> Result<LinkedRoutine, RunError> {
    let (uses, [at_a, at_b]) = mix_uses(nodes, numbers);
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
