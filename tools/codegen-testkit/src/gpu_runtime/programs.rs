//! Random programs, compared with a sequential model.

use std::ops::Range;

use device_runtime::Context;
use fastrand::Rng;
use tnode::TensorNode;

use super::hand_made::{array, code, node, values};
use super::{Gpu, Store, Word};
use crate::runtime::{ProgramSteps, mix_uses};

/// Random programs on one to four streams compute the values of the sequential model.
pub fn random_programs_equal_the_sequential_model(gpu: &dyn Gpu) {
    random_programs(gpu, 0..12);
}

/// [`random_programs_equal_the_sequential_model`] for programs of these seeds.
pub fn random_programs(gpu: &dyn Gpu, seeds: Range<u64>) {
    let Some(device) = gpu.device() else { return };
    let run = |context: &Context, _: &mut Rng, nodes: [&TensorNode; 3], numbers: [usize; 3]| {
        let (uses, [a, b]) = mix_uses(nodes, numbers);
        let read = |param| Word::read(param, Word::Thread);
        let mixed = read(a).times(31).plus(read(b)).times(7).xor(read(0));
        let code = code(gpu, "mix", &uses, &[], 3, vec![Store::new(0, Word::Thread, mixed)]);
        let handles: Vec<_> = uses.iter().map(|(node, _)| (*node).clone()).collect();
        drop(context.link(&code, &handles).unwrap().run(&[]).unwrap());
    };
    let mix = |a: i32, b: i32, out: i32| a.wrapping_mul(31).wrapping_add(b).wrapping_mul(7) ^ out;
    for seed in seeds {
        let mut random = Rng::with_seed(seed);
        let streams = 1 + random.usize(..4);
        ProgramSteps { node, array, values, mix, run: &run }.check(&device, streams, 60, &mut random);
    }
}
