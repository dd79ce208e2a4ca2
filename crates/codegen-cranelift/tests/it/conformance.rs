//! The conformance kit, for every width of vectors.

use codegen_core::contract::Pipeline;
use codegen_cranelift::{CraneliftCompiler, CraneliftOptions, CraneliftRenderer, VectorWidth, cranelift};
use codegen_testkit::conformance;

type Cranelift = Pipeline<CraneliftRenderer, CraneliftCompiler>;

fn with(options: CraneliftOptions) -> Cranelift {
    cranelift(options).expect("this machine is supported")
}

fn width(vector: VectorWidth) -> CraneliftOptions {
    CraneliftOptions { vector, ..CraneliftOptions::default() }
}

conformance!(widest, || with(CraneliftOptions::default()), level = L4);
conformance!(vectors, || with(width(VectorWidth::Bits128)), level = L4);
conformance!(scalars, || with(width(VectorWidth::None)), level = L4);
conformance!(
    optimised,
    || with(CraneliftOptions { optimise: true, ..width(VectorWidth::Bits128) }),
    level = L4
);
