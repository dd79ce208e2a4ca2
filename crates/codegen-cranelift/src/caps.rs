//! The capabilities of this CPU, detected at run time.

use std::sync::OnceLock;

use codegen_core::{Caps, DTypeSet};
use microkernels::CpuTarget;
use tnode::DType;
use vector_asm::Isa;

use crate::options::VectorWidth;

/// Alignment of pools and scratch memory, in bytes.
pub(crate) const ALIGNMENT: usize = 64;

/// The capabilities of the host: vectors of the given width; native arithmetic on `bool`, integers, `f32` and
/// `f64`; storage of every type.
pub fn host_caps(width: VectorWidth) -> Caps {
    let cpu = cpu();
    let has_microkernels = width.isa().is_some_and(Isa::is_available);
    Caps {
        vector_bytes: if has_vectors() { width.bytes().min(SCHEDULED_BYTES) } else { 0 },
        vector_registers: VECTOR_REGISTERS,
        conversions: CONVERTED_TYPES,
        contractions: if has_microkernels { OPERAND_TYPES } else { DTypeSet::EMPTY },
        fma: has_fma(),
        l1_bytes: cpu.l1_bytes,
        l2_bytes: cpu.l2_bytes,
        threads: cpu.threads.max(SCHEDULED_THREADS),
        alignment: ALIGNMENT,
        ..Caps::host(format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS))
    }
}

/// The element types of operands that GEMM plans support.
pub(crate) const OPERAND_TYPES: DTypeSet = DTypeSet::EMPTY
    .with(DType::U8)
    .with(DType::I8)
    .with(DType::F16)
    .with(DType::Bf16)
    .with(DType::F32)
    .with(DType::F64);

/// The narrow floats that code converts from and to `f32`. Vector programs do so where they read and store
/// elements; otherwise both emitters expand the conversion.
pub(crate) const CONVERTED_TYPES: DTypeSet = DTypeSet::EMPTY.with(DType::F16).with(DType::Bf16);

/// The widest vectors that the scheduler sees, in bytes. A strip has several of them, which the assembler
/// joins where the CPU has wider ones. A schedule for wider vectors fuses rows of a few dozen elements that
/// this one keeps apart, and was slower by up to 3.7 times (a residual network).
const SCHEDULED_BYTES: usize = 32;

/// The fewest threads that the scheduler plans for. A schedule for one thread puts all loops into one kernel,
/// whose products are then not all calls of microkernels and whose intermediates all live at once: on a
/// process limited to one core a residual network took 1.8 times as long.
const SCHEDULED_THREADS: usize = 2;

/// The number of these vectors that the scheduler plans with.
const VECTOR_REGISTERS: usize = if cfg!(target_arch = "x86_64") { 16 } else { 32 };

/// Whether the CPU has all vector instructions that the emitter uses; x86-64 has them since SSE4.1.
#[cfg(target_arch = "x86_64")]
pub(crate) fn has_vectors() -> bool {
    std::arch::is_x86_feature_detected!("sse4.1")
}

#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn has_vectors() -> bool {
    true
}

#[cfg(target_arch = "x86_64")]
fn has_fma() -> bool {
    std::arch::is_x86_feature_detected!("fma")
}

#[cfg(not(target_arch = "x86_64"))]
fn has_fma() -> bool {
    true
}

/// Bytes of the last-level data cache.
pub(crate) fn last_cache_bytes() -> usize {
    cpu().l3_bytes
}

/// This CPU.
pub(crate) fn cpu() -> CpuTarget {
    static CPU: OnceLock<CpuTarget> = OnceLock::new();
    *CPU.get_or_init(CpuTarget::detect)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_computes_what_the_emitter_supports() {
        let caps = host_caps(VectorWidth::default());
        for dtype in DType::ALL {
            let computes = crate::support::computes(dtype);
            assert_eq!(caps.arithmetic.contains(dtype), computes, "{dtype}");
            assert!(caps.storage.contains(dtype), "{dtype}");
        }
    }
}
