//! Compiled code found again by content.
//!
//! The key is the scheduled routine's text with names removed, how its kernels are called, and the codegen's fingerprint: two
//! programs that differ in names alone share code. How a kernel is called follows from its text but for the access to its nodes,
//! about which the routine around it may tell more; an artifact that said what another routine's schedule says would make links
//! depend on what was compiled before. Nothing is kept on disk: `docs/adr/0012-no-code-on-disk.md`.

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
        let _ = writeln!(key, "{:?} {:?}\n{}", kernel.abi.launch, kernel.abi.params, text::print(&ir));
    }
    key
}

#[cfg(test)]
mod tests {
    use codegen_core::{Access, Caps, Interpreted, Param, ScheduleOptions, schedule};

    use super::*;

    fn scheduled(text: &str) -> ScheduledRoutine {
        let routine = text::parse(text).expect("the text is valid");
        schedule(&routine, &caps(), &ScheduleOptions::default()).expect("it can be scheduled")
    }

    fn caps() -> Caps {
        Interpreted::new().caps().clone()
    }

    #[test]
    fn names_make_no_difference_and_access_does() {
        let (codegen, cache) = (Interpreted::new(), CodeCache::default());
        let text =
            |name: &str| format!("routine @{name} {{\n  node %0 \"{name}\" f32[4]\n  %0[0] := 1.0f32\n}}");
        let first = scheduled(&text("a"));
        cache.compile(&codegen, &first).expect("it compiles");
        cache.compile(&codegen, &scheduled(&text("b"))).expect("it compiles");
        assert_eq!(cache.len(), 1, "names alone");
        let mut other = first;
        let Param::Node { access, .. } = &mut other.kernels[0].abi.params[0] else { panic!("a node") };
        assert_eq!(std::mem::replace(access, Access::ReadWrite), Access::WritePart);
        let artifact = cache.compile(&codegen, &other).expect("it compiles");
        assert_eq!(artifact.kernels[0].params, other.kernels[0].abi.params, "its own schedule's");
        assert_eq!(cache.len(), 2);
    }
}
