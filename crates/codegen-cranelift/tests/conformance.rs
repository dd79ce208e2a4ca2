//! The conformance kit, on code with and without vectors.

use codegen_core::contract::Pipeline;
use codegen_cranelift::{CraneliftCompiler, CraneliftOptions, CraneliftRenderer, cranelift};
use codegen_testkit::conformance;

type Cranelift = Pipeline<CraneliftRenderer, CraneliftCompiler>;

fn with(options: CraneliftOptions) -> Cranelift {
    cranelift(options).expect("this machine is supported")
}

conformance!(vectors, || with(CraneliftOptions::default()));
conformance!(scalars, || with(CraneliftOptions { vectors: false, ..CraneliftOptions::default() }));
conformance!(optimised, || with(CraneliftOptions { optimise: true, ..CraneliftOptions::default() }));
