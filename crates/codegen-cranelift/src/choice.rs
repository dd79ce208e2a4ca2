//! Choices between forms of code that give the same bits: the packing and blocks of each GEMM plan, and
//! whether stores bypass the caches.
//!
//! As text, a choice is a list of settings with `;` between them: `gemm0=blocks:mc=96,kc=256,nc=2048` for the
//! first contraction with a GEMM plan, and `stores=cached` or `stores=streamed` for all stores of vector
//! programs that may bypass the caches. Settings that are absent are left to the heuristics.

use std::collections::BTreeMap;
use std::fmt;

use codegen_core::{Access, CodegenError, Kernel, KernelChoice, Param};
use microkernels::{BlockingChoice, CpuTarget};

use crate::composite::CompositePlan;
use crate::options::VectorWidth;
use crate::support::NAME;
use crate::vector::{self, Target};

/// The choice of a kernel, parsed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CompilationChoice {
    /// The choices for contractions with GEMM plans, by position.
    gemms: BTreeMap<usize, BlockingChoice>,
    stores: Option<StoreChoice>,
}

/// How stores to nodes that the kernel only writes are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StoreChoice {
    /// None bypasses the caches.
    Cached,
    /// Aligned stores of whole vectors bypass the caches.
    Streamed,
}

impl CompilationChoice {
    /// The choice of a kernel, or none.
    ///
    /// # Errors
    ///
    /// [`CodegenError::Choice`] if the text is none of this codegen.
    pub(crate) fn of(kernel: &Kernel) -> Result<CompilationChoice, CodegenError> {
        let Some(choice) = kernel.choice() else { return Ok(CompilationChoice::default()) };
        CompilationChoice::parse(choice.as_str()).map_err(|why| error(kernel, why))
    }

    fn parse(text: &str) -> Result<CompilationChoice, String> {
        let mut choice = CompilationChoice::default();
        for setting in text.split(';') {
            let Some((key, value)) = setting.split_once('=') else {
                return Err(format!("`{setting}` is not of the form KEY=VALUE"));
            };
            let is_new = match (key, key.strip_prefix("gemm").and_then(|at| at.parse().ok())) {
                (_, Some(at)) => {
                    let blocking = value.parse::<BlockingChoice>().map_err(|e| e.to_string())?;
                    choice.gemms.insert(at, blocking).is_none()
                }
                ("stores", None) => {
                    let stores = match value {
                        "cached" => StoreChoice::Cached,
                        "streamed" => StoreChoice::Streamed,
                        _ => return Err(format!("`{value}` is neither `cached` nor `streamed`")),
                    };
                    choice.stores.replace(stores).is_none()
                }
                _ => return Err(format!("`{key}` is neither `stores` nor `gemm` with a number")),
            };
            if !is_new {
                return Err(format!("`{key}` occurs twice"));
            }
        }
        Ok(choice)
    }

    /// The choice for the contraction at a position among those with GEMM plans.
    pub(crate) fn gemm(&self, at: usize) -> Option<&BlockingChoice> {
        self.gemms.get(&at)
    }

    /// The CPU for which stores are decided.
    pub(crate) fn target(&self) -> Target {
        let cache_bytes = match self.stores {
            None => return vector::target(),
            Some(StoreChoice::Cached) => usize::MAX,
            Some(StoreChoice::Streamed) => 0,
        };
        Target { cache_bytes, ..vector::target() }
    }

    /// Checks that there is a contraction for each choice.
    ///
    /// # Errors
    ///
    /// [`CodegenError::Choice`].
    pub(crate) fn check_gemms(&self, kernel: &Kernel, num_gemms: usize) -> Result<(), CodegenError> {
        match self.gemms.keys().find(|at| **at >= num_gemms) {
            Some(at) => Err(error(kernel, format!("of {num_gemms} GEMM plans none is `gemm{at}`"))),
            None => Ok(()),
        }
    }

    /// The error of a choice that does not fit a kernel.
    pub(crate) fn does_not_fit(&self, kernel: &Kernel, why: impl fmt::Display) -> CodegenError {
        error(kernel, why.to_string())
    }

    /// The choices that differ from this one in the blocks of one contraction, or in all stores.
    /// `has_programs` says whether the kernel has vector programs, whose stores can be chosen.
    pub(crate) fn alternatives(
        &self,
        kernel: &Kernel,
        plan: Option<&CompositePlan>,
        cpu: &CpuTarget,
        has_programs: impl FnOnce() -> bool,
    ) -> Vec<KernelChoice> {
        let gemms = plan.into_iter().flat_map(CompositePlan::gemms).enumerate();
        let mut all: Vec<CompilationChoice> = gemms
            .flat_map(|(at, gemm)| {
                gemm.alternatives(cpu).into_iter().map(move |blocking| {
                    let mut other = self.clone();
                    other.gemms.insert(at, blocking);
                    other
                })
            })
            .collect();
        if self.stores.is_none() && written_bytes(kernel) >= MIN_STREAMED_BYTES && has_programs() {
            let streams = |choice| vector::streams(kernel, CompilationChoice::stored(choice).target());
            if vector::streams(kernel, vector::target()) {
                all.push(CompilationChoice { stores: Some(StoreChoice::Cached), ..self.clone() });
            } else if streams(StoreChoice::Streamed) {
                all.push(CompilationChoice { stores: Some(StoreChoice::Streamed), ..self.clone() });
            }
        }
        all.iter().filter_map(|choice| KernelChoice::new(&choice.to_string())).collect()
    }

    fn stored(stores: StoreChoice) -> CompilationChoice {
        CompilationChoice { stores: Some(stores), ..CompilationChoice::default() }
    }
}

/// The fewest bytes of a node for which stores past the caches are tried: less stays in the last-level cache
/// of most machines. A kernel is measured alone, so the loss of the next kernel, which would find the node
/// there, would not be seen.
const MIN_STREAMED_BYTES: usize = 8 << 20;

/// Bytes of the largest node that the kernel only writes.
fn written_bytes(kernel: &Kernel) -> usize {
    let bytes = |param: &Param| match param {
        Param::Node { bytes, access: Access::Write } => *bytes,
        _ => 0,
    };
    kernel.abi().params.iter().map(bytes).max().unwrap_or(0)
}

fn error(kernel: &Kernel, why: String) -> CodegenError {
    let choice = kernel.choice().map(ToString::to_string).unwrap_or_default();
    CodegenError::Choice { kernel: kernel.abi().name.clone(), choice, why }
}

impl fmt::Display for CompilationChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stores = self.stores.map(|stores| match stores {
            StoreChoice::Cached => "stores=cached".to_owned(),
            StoreChoice::Streamed => "stores=streamed".to_owned(),
        });
        let gemms = self.gemms.iter().map(|(at, blocking)| format!("gemm{at}={blocking}"));
        f.write_str(&gemms.chain(stores).collect::<Vec<_>>().join(";"))
    }
}

/// The processor, its caches and threads, the width of vectors, and the version of this crate, whose
/// heuristics choices are compared with.
pub(crate) fn tuning_target(cpu: &CpuTarget, width: VectorWidth) -> String {
    let kib = |bytes: usize| bytes >> 10;
    format!(
        "{NAME}-{}/{}/{width}/{}K+{}K+{}K/{}t",
        env!("CARGO_PKG_VERSION"),
        processor(),
        kib(cpu.l1_bytes),
        kib(cpu.l2_bytes),
        kib(cpu.l3_bytes),
        cpu.threads
    )
}

/// The name that the processor gives itself, as a word; elsewhere that of its architecture.
fn processor() -> String {
    let words = brand();
    let words = words.split(|c: char| !(c.is_ascii_alphanumeric() || c == '.')).filter(|w| !w.is_empty());
    let name = words.collect::<Vec<_>>().join("-");
    if name.is_empty() { std::env::consts::ARCH.to_owned() } else { name }
}

#[cfg(target_arch = "x86_64")]
fn brand() -> String {
    use std::arch::x86_64::__cpuid;
    if __cpuid(0x8000_0000).eax < 0x8000_0004 {
        return String::new();
    }
    let registers = (0x8000_0002..=0x8000_0004).flat_map(|leaf| {
        let found = __cpuid(leaf);
        [found.eax, found.ebx, found.ecx, found.edx]
    });
    let bytes: Vec<u8> = registers.flat_map(u32::to_le_bytes).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The number of the processor's design on ARM64, as Linux reports it.
#[cfg(not(target_arch = "x86_64"))]
fn brand() -> String {
    let path = "/sys/devices/system/cpu/cpu0/regs/identification/midr_el1";
    std::fs::read_to_string(path).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_are_read_as_they_are_written() {
        for text in [
            "gemm0=in-place:rows",
            "gemm0=whole-a:kc=4,nc=16;gemm12=blocks:mc=6,kc=8,nc=16;stores=cached",
            "stores=streamed",
        ] {
            assert_eq!(CompilationChoice::parse(text).map(|choice| choice.to_string()), Ok(text.to_owned()));
        }
        for (text, why) in [
            ("gemm0", "`gemm0` is not of the form KEY=VALUE"),
            ("gemmx=in-place:rows", "`gemmx` is neither `stores` nor `gemm` with a number"),
            ("stores=fast", "`fast` is neither `cached` nor `streamed`"),
            ("stores=cached;stores=cached", "`stores` occurs twice"),
        ] {
            assert_eq!(CompilationChoice::parse(text), Err(why.to_owned()));
        }
        let error = CompilationChoice::parse("gemm0=tiles").expect_err("no choice");
        assert!(error.contains("`tiles`"), "{error}");
    }

    #[test]
    fn the_target_is_a_word_that_changes_with_caches_and_threads() {
        let cpu = CpuTarget::detect();
        let target = |cpu: CpuTarget| tuning_target(&cpu, VectorWidth::Avx2);
        assert!(KernelChoice::new(&target(cpu)).is_some(), "{}", target(cpu));
        assert_ne!(target(cpu), target(CpuTarget { threads: cpu.threads + 1, ..cpu }));
        assert_ne!(target(cpu), target(CpuTarget { l2_bytes: 2 * cpu.l2_bytes, ..cpu }));
    }
}
