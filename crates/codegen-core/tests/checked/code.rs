//! Code: the artifact must take the arguments of the routine's calls.

use std::sync::Arc;

use codegen_core::{
    Access, Artifact, Code, CodeMismatch, Codegen, Interpreted, KernelAbi, Launch, LaunchEnd, Payload,
    ScheduledRoutine,
};

use super::{node, scheduled};

/// The mismatch of an artifact whose ABIs are changed.
fn mismatch(change: impl FnOnce(&mut Vec<KernelAbi>)) -> CodeMismatch {
    let mut abis: Vec<_> = scheduled().kernels().iter().map(|kernel| kernel.abi().clone()).collect();
    change(&mut abis);
    Code::new(scheduled(), Artifact::other(Arc::new(()), abis)).unwrap_err().mismatch
}

#[test]
fn an_artifact_of_the_routine_makes_code() {
    let artifact = Interpreted::new().compile(&scheduled()).unwrap();
    let code = Code::new(scheduled(), artifact).unwrap().renamed("other");
    assert_eq!((code.schedule().name(), code.artifact().kernels().len()), ("other", 3));
    let Payload::Host(module) = code.artifact().payload() else { panic!("host code") };
    assert_eq!(module.abis(), code.artifact().kernels(), "the module's own");
}

#[test]
fn an_artifact_of_another_routine_is_rejected() {
    let fewer = mismatch(|abis| abis.truncate(2));
    assert_eq!(fewer, CodeMismatch::Kernels { expected: 3, found: 2 });
    let params = mismatch(|abis| abis[0].params[0] = node(Access::Read, 4));
    assert!(matches!(params, CodeMismatch::Params { .. }), "{params}");
    let order = mismatch(|abis| abis.swap(1, 2));
    assert!(matches!(order, CodeMismatch::Params { .. }), "{order}");
    let launch = mismatch(|abis| abis[1].launch = Launch { extent: 101, ..abis[1].launch });
    assert!(matches!(launch, CodeMismatch::Launch { .. }), "{launch}");
    let threads = mismatch(|abis| abis[1].launch.threads = 2);
    assert!(matches!(threads, CodeMismatch::Launch { .. }), "{threads}");
    let end = LaunchEnd { index: 0, factor: 1, offset: 0 };
    let ends = mismatch(|abis| abis[1].launch.end = Some(end));
    assert!(matches!(ends, CodeMismatch::Launch { .. }) && ends.to_string().contains("ends at"), "{ends}");
    let line = lowered_ir::text::parse("routine @l { log \"a line\" }").unwrap();
    let logged = mismatch(|abis| abis[2].log = lowered_ir::log::lines(&line).into());
    assert!(matches!(logged, CodeMismatch::Log { expected: 0, found: 1, .. }), "{logged}");
}

/// A codegen may change the scratch memory and the grain, because it knows its code best.
#[test]
fn scratch_memory_and_grain_are_the_codegens() {
    let routine = scheduled();
    let abis = routine.kernels().iter().map(|kernel| {
        let launch = Launch { grain: 50, ..kernel.abi().launch };
        KernelAbi { scratch_bytes: 4096, launch, name: "own".to_owned(), ..kernel.abi().clone() }
    });
    let artifact = Artifact::other(Arc::new(()), abis.collect());
    assert!(Code::new(scheduled(), artifact).is_ok());
}

/// A safe codegen that wraps another one can pass it a smaller routine and return that routine's code.
#[test]
fn code_of_a_smaller_routine_is_rejected() {
    let mut parts = scheduled().into_parts();
    parts.kernels.truncate(1);
    parts.calls.truncate(1);
    let smaller = ScheduledRoutine::new(parts).unwrap();
    let artifact = Interpreted::new().compile(&smaller).unwrap();
    let error = Code::new(scheduled(), artifact).unwrap_err();
    assert_eq!(error.to_string(), "routine `several`: its artifact has 1 kernels, expected 3");
}
