//! The conformance kit, for every width of vectors. Every change runs the widest and the narrowest.

use codegen_cranelift::{Cranelift, CraneliftOptions, VectorWidth, cranelift};
use codegen_testkit::conformance;

fn with(options: CraneliftOptions) -> Cranelift {
    cranelift(options).expect("this machine is supported")
}

fn width(vector: VectorWidth) -> CraneliftOptions {
    CraneliftOptions { vector, ..CraneliftOptions::default() }
}

conformance!(widest, || with(CraneliftOptions::default()), level = L4);
conformance!(
    #[ignore = "long: `cargo xtask ci --full` runs it"]
    vectors,
    || with(width(VectorWidth::Bits128)),
    level = L4
);
conformance!(scalars, || with(width(VectorWidth::None)), level = L4);
conformance!(
    #[ignore = "long: `cargo xtask ci --full` runs it"]
    optimized,
    || with(CraneliftOptions { optimize: true, ..width(VectorWidth::Bits128) }),
    level = L4
);
