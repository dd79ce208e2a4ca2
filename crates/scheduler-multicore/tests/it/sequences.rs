//! The kernels of a routine as one task: in order, each with its own bindings, up to one that fails.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use crate::support;

use std::{slice::from_ref, sync::Arc};

use codegen_core::{Access, Binding, Code, KernelCall, Param, Slot};
use device_runtime::{Context, Device};
use lowered_ir::ir::{NodeRef, SymbolId};
use scheduler_multicore::{Cpu, CpuConfig};
use support::*;
use tnode::TensorNode;

/// The factor at which a kernel fails.
const BAD: i64 = 13;

/// Kernels that multiply the only element of a node by a factor and add the value of a static index.
fn chain(x: &TensorNode, factors: &[i64]) -> Arc<Code> {
    let symbols: Vec<_> = (0..factors.len()).map(|at| symbol(&format!("s{at}"), 100)).collect();
    let kernel = |factor: i64| {
        let params = vec![memory(x, Access::ReadWrite), Param::StaticIndex { range: 100 }];
        let step = body(move |args, bindings| {
            assert_ne!(factor, BAD, "no luck");
            write(&mut args[0])[0] = write(&mut args[0])[0].wrapping_mul(factor).wrapping_add(bindings[0]);
        });
        (step, abi(&format!("times_{factor}"), params))
    };
    let call = |kernel: usize| KernelCall {
        kernel,
        args: vec![Slot::Node(NodeRef(0))],
        bindings: vec![Binding::Symbol(SymbolId(kernel as u32))],
    };
    let kernels = interpreted(factors.iter().map(|factor| kernel(*factor)).collect());
    many_kernels("chain", from_ref(x), &symbols, kernels, (0..factors.len()).map(call).collect(), vec![])
}

fn devices() -> [Device; 3] {
    let config = |threads| CpuConfig { threads, ..CpuConfig::default() };
    let [one, two] = [1, 2].map(|threads| device(Cpu::multicore(config(threads))));
    [device(Cpu::inline(CpuConfig::default())), one, two]
}

#[test]
fn sequences_run_in_order_on_streams_that_take_turns() {
    for device in devices() {
        let x = node("x", 1);
        let first: Context = context(&device).init_from_host(&x, array(&[1])).unwrap();
        let second = first.on_stream(&device.new_stream().unwrap()).unwrap();
        let link = |context: &Context, factors: [i64; 6]| {
            (context.link(&chain(&x, &factors), from_ref(&x)).unwrap(), factors)
        };
        let routines = [link(&first, [2, 3, 5, 7, 11, 17]), link(&second, [19, 23, 29, 31, 37, 41])];
        let mut model = 1i64;
        for run in 0..60 {
            let (routine, factors) = &routines[run % 2];
            let bindings: Vec<i64> = (0..6).map(|at| (at * 7 + run as i64) % 100).collect();
            drop(routine.run(&bindings).unwrap());
            for (factor, binding) in factors.iter().zip(bindings) {
                model = model.wrapping_mul(*factor).wrapping_add(binding);
            }
        }
        assert_eq!(values(&first, &x), [model]);
    }
}

#[test]
fn a_kernel_that_fails_is_named_and_ends_its_sequence() {
    for device in devices() {
        let x = node("x", 1);
        let context = context(&device).init_from_host(&x, array(&[1])).unwrap();
        let routine = context.link(&chain(&x, &[2, 3, BAD, 5, 7]), from_ref(&x)).unwrap();
        let error = routine.run(&[0; 5]).unwrap().sync().unwrap_err();
        let failure = error.failure().unwrap();
        assert!(failure.to_string().contains("times_13"), "{failure}");
        assert!(failure.message().contains("no luck"), "{failure}");
    }
}
