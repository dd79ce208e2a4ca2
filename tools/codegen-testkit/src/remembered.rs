//! A code generator that remembers its last artifacts.
//!
//! A routine as written and optimized often has the same kernels. Code generators that start a compiler
//! program take most of the kit's time, so the kit compiles the same kernels once; it runs them for each
//! case.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Mutex, PoisonError};

use codegen_core::{
    Artifact, Caps, Codegen, CodegenError, CompilationMethod, Kernel, Listing, ScheduledRoutine,
};
use lowered_ir::{ir::LoopId, text};

/// The most artifacts that are remembered. Cases of one routine follow each other.
const MOST: usize = 8;

/// A code generator with its last artifacts, each under the text of its routine.
pub(crate) struct Remembered<'a> {
    codegen: &'a dyn Codegen,
    last: Mutex<VecDeque<(String, Artifact)>>,
}

impl<'a> Remembered<'a> {
    pub(crate) fn new(codegen: &'a dyn Codegen) -> Remembered<'a> {
        Remembered { codegen, last: Mutex::default() }
    }
}

/// Everything that a code generator knows of a routine.
fn key(routine: &ScheduledRoutine) -> String {
    let kernels = routine.kernels().iter();
    let kernels = kernels.map(|kernel| format!("{}{:?}\n", text::print(kernel.ir()), kernel.abi()));
    let rest = format!("{:?}{:?}{:?}", routine.calls(), routine.temps(), routine.overwritten());
    kernels.chain([rest]).collect()
}

impl Codegen for Remembered<'_> {
    fn name(&self) -> &str {
        self.codegen.name()
    }

    fn caps(&self) -> &Caps {
        self.codegen.caps()
    }

    fn fingerprint(&self) -> u64 {
        self.codegen.fingerprint()
    }

    fn compile(&self, routine: &ScheduledRoutine) -> Result<Artifact, CodegenError> {
        let key = key(routine);
        let last = || self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let known = last().iter().find(|(known, _)| *known == key).map(|(_, artifact)| artifact.clone());
        if let Some(artifact) = known {
            return Ok(artifact);
        }
        let artifact = self.codegen.compile(routine)?;
        let mut last = last();
        last.push_back((key, artifact.clone()));
        if last.len() > MOST {
            last.pop_front();
        }
        Ok(artifact)
    }

    fn whole_contractions(&self, kernels: &[Kernel]) -> Result<Vec<BTreeSet<LoopId>>, CodegenError> {
        self.codegen.whole_contractions(kernels)
    }

    fn describe(&self, kernel: &Kernel) -> Result<Vec<CompilationMethod>, CodegenError> {
        self.codegen.describe(kernel)
    }

    fn listing(&self, kernel: &Kernel) -> Result<Listing, CodegenError> {
        self.codegen.listing(kernel)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use codegen_core::Interpreted;
    use scheduling::{ScheduleOptions, schedule};

    use super::*;

    /// The interpreter, which counts the routines that it compiles.
    struct Counting(Interpreted, AtomicUsize);

    impl Codegen for Counting {
        fn name(&self) -> &str {
            "counting"
        }

        fn caps(&self) -> &Caps {
            self.0.caps()
        }

        fn fingerprint(&self) -> u64 {
            0
        }

        fn compile(&self, routine: &ScheduledRoutine) -> Result<Artifact, CodegenError> {
            self.1.fetch_add(1, Ordering::Relaxed);
            self.0.compile(routine)
        }
    }

    #[test]
    fn the_same_kernels_are_compiled_once() {
        let counting = Counting(Interpreted::new(), AtomicUsize::new(0));
        let remembered = Remembered::new(&counting);
        let compile = |factor: usize| {
            let text = format!(
                "routine @r strict {{
                   node %0 \"x\" f32[3] on_device
                   for i0 in 0..3 {{ %0[i0] := %0[i0] * {factor}.0f32 }}
                 }}"
            );
            let routine = text::parse(&text).unwrap();
            let scheduled = schedule(&routine, &remembered, &ScheduleOptions::default()).unwrap();
            remembered.compile(&scheduled).unwrap();
            counting.1.load(Ordering::Relaxed)
        };
        assert_eq!([2, 2, 3, 2].map(compile), [1, 1, 2, 2]);
        for factor in 4..4 + MOST {
            let _ = compile(factor);
        }
        assert_eq!(compile(2), 3 + MOST, "it is forgotten");
    }
}
