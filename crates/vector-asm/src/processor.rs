//! This processor: the instruction sets that it has.

use crate::code::Isa;

/// Whether this processor has the instructions, and compiled programs its calling convention.
#[cfg(all(target_arch = "x86_64", not(windows)))]
pub(crate) fn has(isa: Isa) -> bool {
    let avx2 = is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("fma")
        && is_x86_feature_detected!("f16c");
    match isa {
        Isa::Avx2 => avx2,
        Isa::Avx512 => {
            avx2 && is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl")
        }
    }
}

#[cfg(not(all(target_arch = "x86_64", not(windows))))]
pub(crate) fn has(_: Isa) -> bool {
    false
}
