//! Kernels: IR and ABI must agree.

use codegen_core::{Access, Kernel, KernelAbi, KernelError, Launch, Param};
use lowered_ir::log;

use super::{TEXT, abi, kernel, node, parsed};

/// The error of [`TEXT`] with a changed ABI.
fn error(change: impl FnOnce(&mut KernelAbi)) -> KernelError {
    let mut abi = abi();
    change(&mut abi);
    Kernel::verified(parsed(TEXT), abi).unwrap_err()
}

#[test]
fn an_abi_that_agrees_makes_a_kernel() {
    let kernel = kernel();
    assert_eq!((kernel.ir().nodes.len(), kernel.abi().params.len(), kernel.host_extent()), (3, 4, 4));
    let (ir, abi) = kernel.into_parts();
    let whole = KernelAbi { launch: Launch::whole(&ir.body), scratch_bytes: 7, ..abi };
    assert_eq!(Kernel::new(ir, whole).unwrap().abi().launch.extent, 1, "a parallel loop may run whole");
}

#[test]
fn parameters_are_those_of_the_nodes_and_symbols() {
    let fewer = error(|abi| abi.params = abi.params.split_off(1));
    assert!(matches!(fewer, KernelError::Count { what: "memory parameters", expected: 3, found: 2, .. }));
    let more = error(|abi| abi.params.push(Param::StaticIndex { range: 3 }));
    assert!(matches!(more, KernelError::Count { what: "static indices", expected: 1, found: 2, .. }));
    let order = error(|abi| abi.params.swap(2, 3));
    assert!(matches!(order, KernelError::Order { position: 3, .. }), "{order}");
    let bytes = error(|abi| abi.params[1] = node(Access::WritePart, 16));
    assert!(matches!(bytes, KernelError::Bytes { expected: 32, found: 16, .. }));
    assert_eq!(bytes.to_string(), "kernel `k`: the parameter of node %1 has 16 bytes, expected 32");
    let large = error(|abi| abi.params[2] = node(Access::Read, usize::MAX));
    assert!(matches!(large, KernelError::Bytes { found: usize::MAX, .. }));
    let range = error(|abi| abi.params[3] = Param::StaticIndex { range: 1 << 40 });
    assert!(matches!(range, KernelError::Range { expected: 3, .. }), "{range}");
}

#[test]
fn access_is_what_the_ir_does() {
    let read = error(|abi| abi.params[1] = node(Access::Read, 32));
    assert!(matches!(read, KernelError::Access { .. }), "{read}");
    let merged = error(|abi| abi.params[0] = node(Access::Read, 16));
    assert!(matches!(merged, KernelError::Merge { found: "read by `merge`", .. }), "{merged}");
    let touched = error(|abi| abi.params[2] = Param::MergeBuffer { bytes: 16 });
    assert!(matches!(touched, KernelError::Merge { expected: "a merge buffer", .. }), "{touched}");
    for statement in ["zero %0", "scatter %0[{0i64}] := 1.0f32"] {
        let text = format!("routine @r {{ node %0 \"x\" f32[4] {statement} }}");
        let Ok(ir) = lowered_ir::text::parse(&text) else { panic!("{text}") };
        let abi =
            KernelAbi { params: vec![node(Access::Read, 16)], launch: Launch::whole(&ir.body), ..abi() };
        assert!(matches!(Kernel::verified(ir, abi), Err(KernelError::Access { .. })), "{statement}");
    }
}

#[test]
fn launches_are_over_the_parallel_loops() {
    for extent in [0, 3, 5, u64::MAX] {
        let error = error(|abi| abi.launch.extent = extent);
        assert!(matches!(&error, KernelError::Extent { expected, .. } if *expected == [4]), "{error}");
    }
    let threads = error(|abi| abi.launch.threads = 2);
    assert!(matches!(threads, KernelError::Threads { expected: 1, found: 2, .. }), "{threads}");
    let nested = "routine @r { node %0 \"x\" f32[4, 5]
      for i0 in 0..4 parallel { for i1 in 0..5 parallel { %0[i0, i1] := 1.0f32 } } }";
    let of_extent = |extent| {
        let launch = Launch { extent, ..Launch::whole(&[]) };
        let params = vec![node(Access::Write, 80)];
        Kernel::verified(parsed(nested), KernelAbi { params, launch, ..abi() })
    };
    assert!([1, 4, 20].into_iter().all(|extent| of_extent(extent).is_ok()));
    assert_eq!(of_extent(20).unwrap().host_extent(), 4);
    assert!([2, 5, 19, 40].into_iter().all(|extent| of_extent(extent).is_err()));
}

#[test]
fn what_is_logged_is_told() {
    let text = "routine @r { node %0 \"x\" f32[4] log \"x = \", %0[0] }";
    let params = vec![node(Access::Read, 16)];
    let silent = KernelAbi { params, launch: Launch::whole(&[]), ..abi() };
    let error = Kernel::verified(parsed(text), silent.clone()).unwrap_err();
    assert!(matches!(error, KernelError::Log { expected: 1, found: 0, .. }), "{error}");
    let telling = KernelAbi { log: log::lines(&parsed(text)).into(), ..silent };
    assert!(Kernel::verified(parsed(text), telling).is_ok());
}

#[test]
fn what_the_verifier_rejects_is_no_kernel() {
    let altered = TEXT.replace("0..3", "0..30");
    let abi = KernelAbi { params: abi().params, ..abi() };
    let error = Kernel::verified(parsed(&altered), abi).unwrap_err();
    assert!(matches!(error, KernelError::Invalid(_)), "{error}");
}

#[test]
fn kernels_without_ir_have_their_abi() {
    let opaque = Kernel::opaque(abi()).unwrap();
    assert_eq!((opaque.abi(), opaque.host_extent()), (&abi(), 4));
    let huge = KernelAbi { params: vec![node(Access::Read, usize::MAX)], ..abi() };
    assert!(matches!(Kernel::opaque(huge), Err(KernelError::Invalid(_))));
    let swapped = vec![Param::StaticIndex { range: 3 }, node(Access::Read, 4)];
    assert!(matches!(Kernel::opaque(KernelAbi { params: swapped, ..abi() }), Err(KernelError::Order { .. })));
}
