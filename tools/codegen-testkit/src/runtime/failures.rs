//! Failing tasks, and their effect on other tasks and nodes.

use std::{slice::from_ref, sync::Arc};

use codegen_core::{Access, Code, KernelCall, Slot};
use device_runtime::{DriverError, RunError};
use lowered_ir::ir::NodeRef;
use tnode::TensorNode;

use super::{DriverFactory, four_threads, hand_made::*, open};

/// The outputs of a task that panics are poisoned, its inputs keep their values, and a reset restores the
/// stream.
pub fn a_panic_poisons_what_depends_on_it_and_nothing_else(make: DriverFactory<'_>) {
    let device = open(make, &four_threads());
    let (x, y, z) = (node("x", 1), node("y", 1), node("z", 1));
    let first = context(&device).init_from_host(&x, array(&[1])).unwrap();
    let first = first.init_from_host(&z, array(&[5])).unwrap();
    let bad = code("bad", &[(&x, Access::ReadWrite), (&z, Access::Read)], &[], |_, _| panic!("no luck"));
    let copy = code_of_copy(&x, &y);
    let bad = first.link(&bad, &[x.clone(), z.clone()]).unwrap();
    let second = first.on_stream(&device.new_stream().unwrap()).unwrap();
    let third = first.on_stream(&device.new_stream().unwrap()).unwrap();
    let copy_on_second = second.link(&copy, &[x.clone(), y.clone()]).unwrap();

    let event = bad.run(&[]).unwrap();
    // Scheduled before or after the panic is noticed, the reader has no value.
    let read_back = copy_on_second.run(&[]).and_then(|_| copy_on_second.context().to_host(&y));
    assert_eq!(read_back.unwrap_err().failure().unwrap().message(), "no luck");
    let failure = event.sync().unwrap_err().failure().unwrap().clone();
    assert_eq!((failure.task(), failure.message()), ("bad", "no luck"));
    assert!(event.is_done());
    let text = second.to_host(&x).unwrap_err().to_string();
    assert_eq!(text, format!("node `x` has no value: `bad` failed on {}: no luck", first.stream().name()));

    assert_eq!(values(&third, &z), [5], "what the failed task only read keeps its value");
    let _ = third.from_host(&z, array(&[6])).unwrap();
    assert_eq!(values(&third, &z), [6]);

    assert!(matches!(bad.run(&[]).unwrap_err(), RunError::Poisoned { .. }));
    first.stream().reset().unwrap();
    second.stream().reset().unwrap();
    assert!(
        matches!(first.to_host(&x).unwrap_err(), RunError::Poisoned { .. }),
        "a reset heals streams, not nodes"
    );
    let _ = first.from_host(&x, array(&[9])).unwrap();
    copy_on_second.run(&[]).unwrap().sync().unwrap();
    assert_eq!(values(copy_on_second.context(), &y), [9]);
}

/// A kernel that stops halfway fails its routine with its own error, which is that of every reader of the
/// outputs. A later kernel of the routine does not run.
pub fn a_kernel_that_stops_poisons_what_depends_on_it(make: DriverFactory<'_>) {
    let device = open(make, &four_threads());
    let (x, y) = (node("x", 1), node("y", 1));
    let params = |node| abi("halfway", vec![memory(node, Access::ReadWrite)]);
    let stops = stopping("no luck", |args| write(&mut args[0])[0] += 1);
    let later = body(|_, _| panic!("a kernel ran behind one that stopped"));
    let module = interpreted(vec![(stops, params(&x)), (later, params(&x))]);
    let call = |kernel| KernelCall { kernel, args: vec![Slot::Node(NodeRef(0))], bindings: vec![] };
    let code = many_kernels("bad", from_ref(&x), &[], module, vec![call(0), call(1)], vec![]);

    let first = context(&device).init_from_host(&x, array(&[1])).unwrap();
    let first = first.init_from_host(&y, array(&[0])).unwrap();
    let bad = first.link(&code, from_ref(&x)).unwrap();
    let copy = code_of_copy(&x, &y);
    let copy = first.on_stream(&device.new_stream().unwrap()).unwrap().link(&copy, &[x.clone(), y.clone()]);
    let copy = copy.unwrap();
    // A driver that has run the first kernel already rejects the second one.
    let run = bad.run(&[]).and_then(|event| event.sync());
    let read_back = copy.run(&[]).and_then(|_| copy.context().to_host(&y));
    for error in [run.unwrap_err(), bad.context().to_host(&x).unwrap_err(), read_back.unwrap_err()] {
        let failure = error.failure().unwrap();
        assert_eq!((failure.task(), failure.message()), ("halfway", "no luck"));
    }
    assert!(matches!(bad.run(&[]).unwrap_err(), RunError::Poisoned { .. }));
}

/// Every operation on a failed stream returns its first failure.
pub fn a_failed_stream_says_why_and_healthy_nodes_stay(make: DriverFactory<'_>) {
    let device = open(make, &four_threads());
    let (x, y) = (node("x", 1), node("y", 1));
    let context = context(&device).init_from_host(&x, array(&[1])).unwrap();
    let bad = code("bad", &[(&y, Access::Write)], &[], |_, _| panic!("no luck"));
    let bad = context.link(&bad, from_ref(&y)).unwrap();
    drop(bad.run(&[]));
    let error = bad.context().to_host(&x).unwrap_err();
    assert!(matches!(&error, RunError::Driver { source: DriverError::Failed(_), .. }), "{error}");
    let expected = format!("`bad` failed on {}: no luck", context.stream().name());
    assert!(error.to_string().ends_with(&expected), "{error}");
    let error = bad.context().to_host(&y).unwrap_err();
    assert_eq!(error.failure().unwrap().task(), "bad", "{error}");
    assert!(context.stream().sync().is_err());
    context.stream().reset().unwrap();
    context.stream().sync().unwrap();
    assert!(matches!(bad.context().to_host(&y), Err(RunError::Poisoned { .. })));
    assert_eq!(values(bad.context(), &x), [1]);
}

/// The routine `to = from` for nodes of one element.
fn code_of_copy(from: &TensorNode, to: &TensorNode) -> Arc<Code> {
    code("copy", &[(from, Access::Read), (to, Access::Write)], &[], |args, _| {
        let value = read(&args[0])[0];
        write(&mut args[1])[0] = value;
    })
}
