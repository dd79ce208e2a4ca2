//! The vector programs and Cranelift functions of the corpus for processors with AVX2, as golden files beside
//! it.
#![cfg(target_arch = "x86_64")]

use codegen_core::Caps;
use codegen_core::contract::Pipeline;
use codegen_cranelift::{CraneliftCompiler, CraneliftOptions, CraneliftRenderer, VectorWidth, host_caps};
use filetests::{Mode, check_listings};

#[test]
fn the_corpus_as_vector_programs_and_cranelift_functions() {
    let options = CraneliftOptions { vector: VectorWidth::Avx2, ..CraneliftOptions::default() };
    let host = host_caps(options.vector);
    if !options.vector.is_available() || !host.fma {
        println!("skipped: this machine has no AVX2 or no FMA");
        return;
    }
    // The sizes of caches and the number of cores differ between machines, and decide schedules.
    let caps = Caps { l1_bytes: 32 << 10, l2_bytes: 1 << 20, threads: 4, ..host };
    let codegen = Pipeline::new("cranelift", caps, CraneliftRenderer, CraneliftCompiler, options);
    let failures = check_listings(&codegen, "cpu", ";", Mode::from_env());
    let failures: Vec<String> = failures.iter().map(ToString::to_string).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
