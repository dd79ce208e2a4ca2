//! A warmed-up compiled routine with a binding allocates nothing on any thread, neither when it runs nor when
//! the caller waits for it. The test has a process of its own, because it counts the allocations of the whole
//! process.
#![allow(unsafe_code, reason = "wraps the system's allocator to count")]
#![allow(clippy::unwrap_used, reason = "tests may panic")]

#[path = "../../../scheduler-multicore/tests/it/counting_allocator/mod.rs"]
mod counting_allocator;

use arrayjit::{Backend, DType, HostArray, Routine, Settings, TensorNode};
use codegen_testkit::in_own_process;
use counting_allocator::allocations;

fn node(name: &str, dims: &[usize]) -> TensorNode {
    TensorNode::builder(name).dims(dims.iter().copied()).dtype(DType::F32).build().unwrap()
}

/// A routine of several kernels: two dense layers on the rows that `@step` selects, the first large enough
/// for two threads, and the sum of the results.
fn step(backend: &Backend) -> Routine {
    let inputs = [("x", [512, 128]), ("w", [128, 64]), ("v", [64, 10])].map(|(name, dims)| node(name, &dims));
    let [h, y, s] =
        [("h", &[256, 64][..]), ("y", &[256, 10]), ("s", &[1])].map(|(name, dims)| node(name, dims));
    let [x, w, v] = &inputs;
    let text = "h[b,j] :+= x[256*@step + b, i] * w[i,j]
                y[b,k] :+= relu(h[b,j]) * v[j,k]
                s[0] :+= y[b,k]";
    let compiled = backend.compile(text, [x, w, v, &h, &y, &s]).unwrap();
    let kernels = compiled.codes().flat_map(|code| code.schedule().kernels());
    let launches: Vec<_> = kernels.map(|kernel| kernel.abi().launch).collect();
    assert!(launches.len() > 1, "{launches:?}");
    assert!(launches.iter().any(|launch| launch.extent / launch.grain > 1), "one may be split: {launches:?}");
    let mut context = backend.context().unwrap();
    for input in &inputs {
        let dims = input.dims().unwrap().to_vec();
        let values: Vec<f32> = (0..dims.iter().product()).map(|i: usize| (i % 7) as f32 - 3.0).collect();
        context = context.init_from_host(input, HostArray::from_slice(&values, dims).unwrap()).unwrap();
    }
    compiled.link(&context).unwrap()
}

#[test]
fn running_a_routine_with_bindings_allocates_nothing() {
    if !in_own_process("allocations::running_a_routine_with_bindings_allocates_nothing") {
        return;
    }
    for (name, threads) in [("inline", 1), ("multicore", 1), ("multicore", 2)] {
        let mut settings = Settings::default();
        settings.threads = threads;
        let backend = Backend::open_with(name, &settings).unwrap();
        let routine = step(&backend);
        assert_eq!(routine.bindings().len(), 1);
        let run = |times| (0..times).for_each(|at| routine.run(&[at % 2]).unwrap().sync().unwrap());
        run(20);
        // The least of several rounds, because allocations of the test harness's thread are counted as well.
        let rounds = (0..3).map(|_| {
            let before = allocations();
            run(10);
            allocations() - before
        });
        assert_eq!(rounds.min(), Some(0), "{name}, {threads} threads");
    }
}
