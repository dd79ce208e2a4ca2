//! Plans as data: their form and their choices belong to a version, because a program plans again what was
//! compiled elsewhere.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::fmt::Write as _;

use expect_test::expect_file;
use microkernels::{
    CpuTarget, Dimension, DotInstructions, DynamicExtent, LinkedPlan, PLAN_VERSION, ParallelAxis,
    UnlinkedPlan,
};
use vector_asm::{Isa, LaneType, StoredType};

use crate::common::{Case, matmul, writer::bias_and_relu};
use crate::convolutions::{SAME, Shape, convolution};
use crate::integers::{SIGNS, product};

/// The processors that code is compiled for ahead of time, on any machine.
fn cpu(isa: Isa) -> CpuTarget {
    let dot = if isa == Isa::Neon { DotInstructions::Neon } else { DotInstructions::Avx2 };
    CpuTarget {
        masked_isa: None,
        isa: Some(isa),
        dot: Some(dot),
        l1_bytes: 32 << 10,
        l2_bytes: 1 << 20,
        l3_bytes: 32 << 20,
        l3_is_far: false,
        threads: 2,
    }
}

/// Problems that use every field of the data.
fn cases() -> Vec<(&'static str, Case)> {
    let parallel = |mut case: Case, axis| {
        case.problem.parallel = axis;
        case
    };
    let dense = |element, shape| {
        let mut case = matmul(element, &[], shape);
        bias_and_relu(&mut case);
        parallel(case, ParallelAxis::Rows)
    };
    let mut narrow = matmul(LaneType::F32, &[], [16, 8, 24]);
    (narrow.problem.a.memory, narrow.problem.b.memory) = (StoredType::F16, StoredType::BF16);
    let mut rows = dense(LaneType::F32, [50, 33, 40]);
    rows.problem.dynamic = vec![(Dimension::M, DynamicExtent { offset: 2, terms: vec![(0, 3)] })];
    let mut integers = product(SIGNS[3], &[], [20, 24, 40]);
    (integers.problem.a.zero, integers.problem.b.zero, integers.problem.a.outside) = (3, -4, 1);
    let mut begun = matmul(LaneType::F64, &[2, 3], [5, 6, 7]);
    begun.problem.initial = Some(crate::common::writer::output(&begun));
    let deep = Shape { channels: 64, filters: 64, size: 28, ..SAME };
    let mut fused = convolution(LaneType::F32, deep);
    bias_and_relu(&mut fused);
    vec![
        ("product", matmul(LaneType::F32, &[], [37, 29, 53])),
        ("batch", parallel(begun, ParallelAxis::Batch)),
        ("narrow", narrow),
        ("rows", rows),
        ("dense", dense(LaneType::F32, [512, 512, 1024])),
        ("few rows", dense(LaneType::F32, [3, 1000, 700])),
        ("long sums", dense(LaneType::F32, [40, 48, 5000])),
        ("doubles", dense(LaneType::F64, [130, 70, 300])),
        ("large", parallel(matmul(LaneType::F32, &[], [1024, 1024, 1024]), ParallelAxis::Columns)),
        ("convolution", convolution(LaneType::F32, SAME)),
        ("deep convolution", fused),
        ("few filters", convolution(LaneType::F32, Shape { filters: 4, size: 40, channels: 16, ..SAME })),
        ("integers", integers),
        ("many integers", product(SIGNS[0], &[], [300, 400, 500])),
    ]
}

/// The bytes, or their number and a hash (FNV-1a) if there are many.
fn shown(bytes: &[u8]) -> String {
    if bytes.len() <= 160 {
        return bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"));
    }
    let step = |hash: u64, &byte: &u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    format!("{} bytes, {:016x}", bytes.len(), bytes.iter().fold(0xcbf2_9ce4_8422_2325, step))
}

/// A change of this file needs a new [`PLAN_VERSION`], which names it: programs whose `arrayjit-rt` has the
/// version of before cannot read the new data, or choose other blocks for it.
#[test]
fn data_and_choices_belong_to_a_version() {
    let mut text = String::new();
    for (name, Case { problem, .. }) in cases() {
        for isa in Isa::ALL {
            let plan = UnlinkedPlan::new(&problem, &cpu(isa), None).unwrap().expect("a plan");
            let data = postcard::to_extend(&plan.data(), Vec::new()).unwrap();
            writeln!(text, "{name}, {isa:?}\n  {}\n  {plan}", shown(&data)).unwrap();
            let read: LinkedPlan<'_> = postcard::from_bytes(&data).unwrap();
            assert_eq!(
                postcard::to_extend(&read, Vec::new()).unwrap(),
                data,
                "{name}: it is read as it was written"
            );
        }
    }
    expect_file![format!("{}/tests/goldens/plans_{PLAN_VERSION}.txt", env!("CARGO_MANIFEST_DIR"))]
        .assert_eq(&text);
}
