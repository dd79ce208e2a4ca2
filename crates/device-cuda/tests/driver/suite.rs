//! Streams, events, hazards and memory of a device with hand-written kernels, through the runtime.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::slice::from_ref;

use crate::support::*;
use codegen_core::{KernelCall, Slot};
use codegen_testkit::gpu_runtime::{Gpu, random_programs};
use device_cuda::CudaConfig;
use device_runtime::RunError;
use lowered_ir::ir::NodeRef;

codegen_testkit::gpu_suite! { |scenario: fn(&dyn Gpu)| { on_device(|| scenario(&Cuda)); } }

#[test]
fn random_programs_equal_the_model_in_every_order() {
    for seed in 2..6 {
        on_fake(&format!("seed={seed}"), || random_programs(&Cuda, 6 * seed..6 * seed + 4));
    }
    on_fake("order=eager pools=0", || random_programs(&Cuda, 0..3));
}

/// A routine has two kernels that write one node. The driver accepts the first kernel and rejects the second,
/// so the node has no value, and other nodes keep theirs. After a reset the stream works again.
#[test]
fn a_failed_task_poisons_what_depends_on_it_and_nothing_else() {
    on_fake("", || {
        let driver = open(&CudaConfig::default());
        let device = device(&driver);
        let (x, y) = (node("x", 1), node("y", 1));
        let context = context(&device).init_from_host(&x, array(&[3])).unwrap();
        let context = context.init_from_host(&y, array(&[4])).unwrap();
        let kernels = [count("good"), count("rejected")];
        let calls =
            (0..2).map(|k| KernelCall { kernel: k, args: vec![Slot::Node(NodeRef(0))], bindings: vec![] });
        let code = many_kernels("work", from_ref(&x), &[], artifact(&kernels), calls.collect(), vec![]);
        let routine = context.link(&code, from_ref(&x)).unwrap();
        let error = routine.run(&[]).unwrap_err();
        assert!(error.to_string().contains("`rejected` failed on cuda:0:0: cuLaunchKernel: "), "{error}");
        let other = context.on_stream(&device.new_stream().unwrap()).unwrap();
        assert!(matches!(other.to_host(&x), Err(RunError::Poisoned { .. })));
        assert_eq!(values(&other, &y), [4]);
        context.stream().reset().unwrap();
        let _ = context.from_host(&x, array(&[9])).unwrap();
        assert_eq!((values(&context, &x), values(&context, &y)), (vec![9], vec![4]));
    });
}
