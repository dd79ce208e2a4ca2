//! All-reduce over several streams.

use arrayjit::parallel::{ParallelError, all_reduce};
use arrayjit::{Backend, Context, ErrorKind};

use super::{array, contexts, node, open};

/// Halves of small integers, so that all orders of summation give the same result.
fn part(stream: usize) -> Vec<f32> {
    (0..6).map(|i| (i * (stream + 1)) as f32 * 0.5).collect()
}

#[test]
fn every_stream_ends_with_the_same_sum() {
    for (backend, devices) in [("multicore", 1), ("multicore", 2), ("inline", 1)] {
        for streams in 1..=9 {
            let backend = open(backend);
            let x = node("x", &[2, 3]);
            let contexts: Vec<_> = contexts(&backend, streams, devices)
                .iter()
                .enumerate()
                .map(|(n, context)| context.init_from_host(&x, array(&part(n), &[2, 3])).unwrap())
                .collect();
            all_reduce(&backend, &contexts, &x).unwrap();
            let sum = |i: usize| (0..streams).map(|n| f64::from(part(n)[i])).sum::<f64>();
            let expected: Vec<f64> = (0..6).map(sum).collect();
            for context in &contexts {
                assert_eq!(context.to_host(&x).unwrap().values(), expected, "{streams} streams");
            }
        }
    }
}

#[test]
fn a_node_without_elements_has_a_sum_without_elements() {
    for backend in ["multicore", "inline", "interpreter"] {
        let backend = open(backend);
        let x = node("x", &[0, 3]);
        let init = |context: &arrayjit::Context| context.init_from_host(&x, array(&[], &[0, 3])).unwrap();
        let contexts: Vec<_> = contexts(&backend, 3, 1).iter().map(init).collect();
        all_reduce(&backend, &contexts, &x).unwrap();
        for context in &contexts {
            assert_eq!(context.to_host(&x).unwrap().dims().to_vec(), [0, 3]);
        }
    }
}

/// Sums of floats depend on their order, which is the order of the tree: for five streams, stream 3 merges
/// into 1 and 4 into 2, then 2 into 1, then 1 into 0.
#[test]
fn sums_have_the_bits_of_the_tree() {
    let values = [1e8f32, 3.0, -1e8, 7.5, 1e-3];
    let [a, b, c, d, e] = values;
    let (b, c) = (b + d, c + e);
    let expected = a + (b + c);
    assert_ne!(expected, values.iter().sum::<f32>(), "the order matters");
    let backend = open("multicore");
    let x = node("x", &[1]);
    let contexts: Vec<_> = contexts(&backend, 5, 1)
        .iter()
        .zip(values)
        .map(|(context, value)| context.init_from_host(&x, array(&[value], &[1])).unwrap())
        .collect();
    all_reduce(&backend, &contexts, &x).unwrap();
    for context in &contexts {
        assert_eq!(context.to_host(&x).unwrap().values(), [f64::from(expected)]);
    }
}

/// Sixteen shards have one sum, bit for bit, on one to sixteen streams of either scheduler, and again in
/// every run: the tree depends on the number of shards alone.
#[test]
fn shards_have_the_same_sum_on_any_number_of_streams() {
    const SHARDS: usize = 16;
    let shard = |n: usize| -> Vec<f32> {
        let mut random = fastrand::Rng::with_seed(n as u64);
        (0..40).map(|_| (random.f32() - 0.5) * 10f32.powi(random.i32(-3..8))).collect()
    };
    let sum = |backend: &Backend, streams: usize| {
        let x = node("x", &[40]);
        let streams: Vec<_> = (0..streams).map(|_| backend.new_stream().unwrap()).collect();
        let shards: Vec<_> = (0..SHARDS)
            .map(|n| {
                let context = Context::new(&streams[n % streams.len()]);
                context.init_from_host(&x, array(&shard(n), &[40])).unwrap()
            })
            .collect();
        all_reduce(backend, &shards, &x).unwrap();
        let bits = |context: &Context| -> Vec<u32> {
            context.to_host(&x).unwrap().as_slice::<f32>().unwrap().iter().map(|x| x.to_bits()).collect()
        };
        let sums: Vec<_> = shards.iter().map(bits).collect();
        assert!(sums.iter().all(|other| *other == sums[0]));
        sums[0].clone()
    };
    let expected = sum(&open("inline"), 1);
    for backend in ["inline", "multicore"].map(open) {
        for streams in 1..=16 {
            for _run in 0..2 {
                assert_eq!(sum(&backend, streams), expected, "{} on {streams} streams", backend.name());
            }
        }
    }
    let in_order: Vec<u32> =
        (0..40).map(|i| (0..SHARDS).map(|n| shard(n)[i]).sum::<f32>().to_bits()).collect();
    assert_ne!(expected, in_order, "the order matters");
}

#[test]
fn what_is_no_sum_over_streams_is_rejected() {
    let backend = open("multicore");
    let (x, y) = (node("x", &[4]), node("y", &[4]));
    let first = backend.context().unwrap().init_from_host(&x, array(&[1.; 4], &[4])).unwrap();
    let same = first.on_stream(&backend.new_stream().unwrap()).unwrap();
    let error = all_reduce(&backend, &[first.clone(), same], &x).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Parallel(ParallelError::SameMemory { .. })));
    let message = error.to_string();
    assert!(message.contains("`x`") && message.contains("multicore:0:0"), "{message}");

    let other = backend.context().unwrap().init_from_host(&x, array(&[2.; 4], &[4])).unwrap();
    let message = all_reduce(&backend, &[first.clone(), other.clone()], &y).unwrap_err().to_string();
    assert!(message.contains("`y`"), "{message}");
    // The failed call leaves the contexts unchanged.
    all_reduce(&backend, &[first, other.clone()], &x).unwrap();
    assert_eq!(other.to_host(&x).unwrap().values(), [3.0; 4]);
}
