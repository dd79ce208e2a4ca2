//! Compiled code found again by content.
//!
//! The key is the scheduled routine's text with names removed, plus the codegen's fingerprint: two programs that differ in
//! names alone share code.

use std::{fmt::Write, sync::Arc};

use codegen_core::{Artifact, Codegen, CodegenError, ScheduledRoutine};
use dashmap::DashMap;
use lowered_ir::text;

/// The kernels compiled so far in this backend.
#[derive(Debug, Default)]
pub(crate) struct CodeCache {
    artifacts: DashMap<Arc<str>, Artifact>,
}

impl CodeCache {
    /// The artifact of a routine: found, or compiled and kept.
    pub(crate) fn compile(
        &self,
        codegen: &dyn Codegen,
        routine: &ScheduledRoutine,
    ) -> Result<Artifact, CodegenError> {
        let key = key(codegen, routine);
        if let Some(artifact) = self.artifacts.get(&*key) {
            return Ok(artifact.clone());
        }
        // Compiled outside the map's lock: two threads may compile the same routine, and either result serves.
        let artifact = codegen.compile(routine)?;
        self.artifacts.insert(key.into(), artifact.clone());
        Ok(artifact)
    }

    /// How many artifacts are kept.
    pub(crate) fn len(&self) -> usize {
        self.artifacts.len()
    }
}

fn key(codegen: &dyn Codegen, routine: &ScheduledRoutine) -> String {
    let mut key = format!("{:016x}\n", codegen.fingerprint());
    for kernel in &routine.kernels {
        let mut ir = kernel.ir.clone();
        ir.name = "k".into();
        for node in &mut ir.nodes {
            node.name.clear();
        }
        for (i, symbol) in ir.symbols.iter_mut().enumerate() {
            symbol.name = format!("s{i}");
        }
        // Writing to a string cannot fail.
        let _ = writeln!(key, "{:?}\n{}", kernel.abi.launch, text::print(&ir));
    }
    key
}
