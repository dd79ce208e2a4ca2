//! Contradictions in [`Caps`], types that levels need, and claims that no code in this process can keep. No
//! kernel runs.

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
        // Legalization can replace arithmetic on `bool`.
        let computed = dtype == DType::Bool || caps.arithmetic.contains(dtype);
        deny(level, computed, format!("`Caps::arithmetic` lacks {dtype}, which {level} needs"));
    }
    let alone = caps.workgroups.is_none();
    deny(
        Level::L0,
        alone,
        "`Caps::workgroups` is set, but the code runs in this process, which has none".into(),
    );
    if let Err(contradiction) = caps.check() {
        deny(Level::L0, false, contradiction.to_string());
    }
    claims
}
