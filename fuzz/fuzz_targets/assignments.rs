//! Any text over a few nodes: parsing answers, and what it accepts lowers to IR that verifies.
#![no_main]

use libfuzzer_sys::fuzz_target;
use lowered_ir::{assign, lower, verify};
use tnode::{DType, Padding, Registry, TensorNode};

fuzz_target!(|text: &str| {
    let registry = Registry::new();
    let shapes: [(&str, &[usize], DType); 6] = [
        ("x", &[4, 6], DType::F32),
        ("w", &[6, 3], DType::F32),
        ("y", &[4, 3], DType::F32),
        ("v", &[6], DType::F64),
        ("n", &[4], DType::I32),
        ("s", &[], DType::F16),
    ];
    let node = |(name, dims, dtype): (&str, &[usize], DType)| {
        TensorNode::builder(name)
            .dims(dims.iter().copied())
            .dtype(dtype)
            .build_in(&registry)
            .expect("a plain node")
    };
    let padding = Padding::new([(1, 2)], None);
    let p = TensorNode::builder("p")
        .dims([6])
        .dtype(DType::F32)
        .padding(padding)
        .build_in(&registry)
        .expect("a plain node");
    let nodes = [&shapes.map(node)[..], &[p]].concat();
    if let Ok(assignments) = assign::text::parse(text, &nodes)
        && let Ok(lowered) = lower::lower(&assignments, &lower::LowerOptions::default())
    {
        verify::verify(&lowered.routine).expect("lowered assignments verify");
    }
});
