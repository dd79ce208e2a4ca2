//! Contradictions in [`Caps`], and claims that no code in this process can keep. No kernel runs.

use codegen_core::Caps;
use tnode::DType;

use crate::level::Level;

/// The false claims of a code generator for this process, each with the lowest level that it rules out.
pub fn false_claims(caps: &Caps) -> Vec<(Level, String)> {
    let mut claims = Vec::new();
    let mut deny = |level, holds: bool, claim: String| {
        if !holds {
            claims.push((level, claim));
        }
    };
    for (level, dtype) in [(Level::L0, DType::F32), (Level::L1, DType::I32), (Level::L1, DType::Bool)] {
        let stored = caps.storage.contains(dtype);
        deny(level, stored, format!("`Caps::storage` lacks {dtype}, which {level} needs"));
        // Legalisation can replace arithmetic on `bool`.
        let computed = dtype == DType::Bool || caps.arithmetic.contains(dtype);
        deny(level, computed, format!("`Caps::arithmetic` lacks {dtype}, which {level} needs"));
    }
    let index = caps.index;
    let is_index = matches!(index, DType::I32 | DType::I64);
    deny(Level::L0, is_index, format!("`Caps::index` is {index}, expected i32 or i64"));
    let alone = caps.workgroups.is_none();
    deny(
        Level::L0,
        alone,
        "`Caps::workgroups` is set, but the code runs in this process, which has none".into(),
    );
    let aligned = caps.alignment.is_power_of_two();
    deny(Level::L0, aligned, format!("`Caps::alignment` is {}, expected a power of two", caps.alignment));
    deny(Level::L0, caps.threads > 0, "`Caps::threads` is 0, expected at least 1".into());
    let vectors = caps.vector_bytes == 0 || caps.vector_bytes.is_power_of_two();
    deny(
        Level::L0,
        vectors,
        format!("`Caps::vector_bytes` is {}, expected 0 or a power of two", caps.vector_bytes),
    );
    let registers = caps.vector_bytes == 0 || caps.vector_registers > 0;
    deny(Level::L0, registers, "`Caps::vector_bytes` is set, and `Caps::vector_registers` is 0".into());
    claims
}
