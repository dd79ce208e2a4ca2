//! The vector programs and Cranelift functions of the corpus for processors with AVX2, as golden files beside
//! it.
#![cfg(target_arch = "x86_64")]

use codegen_core::Caps;
use codegen_cranelift::{CraneliftOptions, VectorWidth, cranelift_with, host_caps};
use filetests::assert_listings;

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
    let codegen = cranelift_with(caps, options);
    assert_listings(&codegen, "cpu", ";");
}
