//! Caches compiled code by content, and keeps the most recently used code.
//!
//! The key consists of the scheduled routine's text with names removed, the launches and parameters of its
//! kernels, their choices, and the codegen's fingerprint: two programs that differ in names alone share code.
//! The text determines everything about a kernel's calls, except the accesses to its nodes, which the routine
//! around the kernel may determine more precisely. If the key lacked these accesses, an artifact could carry
//! the accesses of another routine, and linking would depend on what was compiled before. Code that
//! outlives the process is in the folder of `code_folder`.
//!
//! The cache is bounded by a number of bytes and evicts the least recently used artifact. Evicted code is
//! freed with the last routine that was linked from it; compiling the program again gives the same code.

use std::{
    fmt::Write,
    mem::size_of,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use codegen_core::{Artifact, Codegen, CodegenError, Kernel, KernelAbi, Param, Payload, ScheduledRoutine};
use lowered_ir::text;
use lru::LruCache;

/// The compiled routines of a backend, within a number of bytes; none for 0.
#[derive(Debug)]
pub(crate) struct CodeCache {
    /// The most bytes of artifacts and their keys.
    limit: usize,
    kept: Mutex<KeptCode>,
}

/// The use of a backend's code cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CodeCacheUse {
    /// The number of distinct routines in the cache.
    pub routines: usize,
    /// Their bytes, at most [`Settings::code_cache_bytes`](crate::Settings::code_cache_bytes).
    pub bytes: usize,
    /// How many routines were evicted so far.
    pub evicted: u64,
}

/// The artifacts of a cache in the order of use. They are within the limit whenever the lock is free.
#[derive(Debug)]
struct KeptCode {
    entries: LruCache<Arc<str>, CacheEntry>,
    /// The sum of the entries' bytes.
    bytes: usize,
    /// How many entries were evicted.
    evicted: u64,
}

#[derive(Debug)]
struct CacheEntry {
    artifact: Artifact,
    /// Bytes of the artifact and of its key.
    bytes: usize,
}

impl CodeCache {
    pub(crate) fn new(limit: usize) -> CodeCache {
        let kept = KeptCode { entries: LruCache::unbounded(), bytes: 0, evicted: 0 };
        CodeCache { limit, kept: Mutex::new(kept) }
    }

    /// The artifact of a routine: found, or compiled and kept.
    pub(crate) fn compile(
        &self,
        codegen: &dyn Codegen,
        routine: &ScheduledRoutine,
    ) -> Result<Artifact, CodegenError> {
        if self.limit == 0 {
            return codegen.compile(routine);
        }
        let key = key(codegen, routine);
        if let Some(entry) = self.lock().entries.get(&*key) {
            return Ok(entry.artifact.clone());
        }
        // Compiled without the lock: two threads may compile the same routine, and both results are the same
        // code.
        let artifact = codegen.compile(routine)?;
        let evicted = self.lock().insert(key.into(), artifact.clone(), self.limit);
        // Code is freed without the lock.
        drop(evicted);
        Ok(artifact)
    }

    pub(crate) fn usage(&self) -> CodeCacheUse {
        let kept = self.lock();
        CodeCacheUse { routines: kept.entries.len(), bytes: kept.bytes, evicted: kept.evicted }
    }

    fn lock(&self) -> MutexGuard<'_, KeptCode> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl KeptCode {
    /// Adds an artifact, unless it alone exceeds the limit. Returns the evicted entries.
    fn insert(&mut self, key: Arc<str>, artifact: Artifact, limit: usize) -> Vec<CacheEntry> {
        let bytes = key.len() + artifact_bytes(&artifact, key.len());
        if bytes > limit {
            return Vec::new();
        }
        let mut removed = Vec::new();
        if let Some(replaced) = self.entries.put(key, CacheEntry { artifact, bytes }) {
            self.bytes -= replaced.bytes;
            removed.push(replaced);
        }
        self.bytes += bytes;
        while self.bytes > limit {
            let Some((_, evicted)) = self.entries.pop_lru() else { break };
            self.bytes -= evicted.bytes;
            self.evicted += 1;
            removed.push(evicted);
        }
        removed
    }
}

/// Bytes of memory that an artifact takes: its code and the ABIs of its kernels. Code that is kept as IR,
/// such as the interpreter's, counts as a multiple of its text.
pub(crate) fn artifact_bytes(artifact: &Artifact, text_bytes: usize) -> usize {
    let code = match artifact.payload() {
        Payload::Host(module) => module.code_bytes(),
        Payload::Ptx(module) => module.text().len(),
        _ => 0,
    };
    let code = if code == 0 { IR_BYTES_PER_TEXT_BYTE * text_bytes } else { code };
    let abi = |abi: &KernelAbi| size_of::<KernelAbi>() + abi.name.len() + size_of_val::<[Param]>(&abi.params);
    code + artifact.kernels().iter().map(abi).sum::<usize>() + size_of::<CacheEntry>()
}

/// Bytes of IR in memory for each byte of its text.
const IR_BYTES_PER_TEXT_BYTE: usize = 8;

fn key(codegen: &dyn Codegen, routine: &ScheduledRoutine) -> String {
    let mut key = format!("{:016x}\n", codegen.fingerprint());
    for kernel in routine.kernels() {
        key += &kernel_text(kernel);
        if let Some(choice) = kernel.choice() {
            // Writing to a string cannot fail.
            let _ = writeln!(key, "{choice}");
        }
    }
    key
}

/// The content of a kernel as text, without names and without its choice.
pub(crate) fn kernel_text(kernel: &Kernel) -> String {
    let mut ir = (**kernel.ir()).clone();
    ir.name = "k".into();
    for node in &mut ir.nodes {
        node.name.clear();
    }
    for (i, symbol) in ir.symbols.iter_mut().enumerate() {
        symbol.name = format!("s{i}");
    }
    format!("{:?} {:?}\n{}\n", kernel.abi().launch, kernel.abi().params, text::print(&ir))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use codegen_core::{Access, Caps, Interpreted, KernelChoice};
    use proptest::prelude::*;
    use scheduling::{ScheduleOptions, schedule};

    use super::*;

    const ROOM: usize = 1 << 20;

    /// The interpreted codegen, with a count of the routines that it compiles.
    struct CountingCodegen(Interpreted, AtomicU64);

    impl Codegen for CountingCodegen {
        fn name(&self) -> &str {
            self.0.name()
        }

        fn caps(&self) -> &Caps {
            self.0.caps()
        }

        fn fingerprint(&self) -> u64 {
            self.0.fingerprint()
        }

        fn compile(&self, routine: &ScheduledRoutine) -> Result<Artifact, CodegenError> {
            self.1.fetch_add(1, Ordering::Relaxed);
            self.0.compile(routine)
        }
    }

    fn counting() -> CountingCodegen {
        CountingCodegen(Interpreted::new(), AtomicU64::new(0))
    }

    fn scheduled(text: &str) -> ScheduledRoutine {
        let routine = text::parse(text).expect("the text is valid");
        schedule(&routine, &Interpreted::new(), &ScheduleOptions::default()).expect("it can be scheduled")
    }

    /// A program that contains one digit; all such programs have the same number of bytes.
    fn program(digit: usize) -> ScheduledRoutine {
        assert!(digit < 10);
        scheduled(&format!("routine @r {{\n  node %0 \"x\" f32[4]\n  %0[0] := {digit}.5f32\n}}"))
    }

    /// Compiles a program and returns whether it was in the cache.
    fn is_cached(cache: &CodeCache, codegen: &CountingCodegen, digit: usize) -> bool {
        let before = codegen.1.load(Ordering::Relaxed);
        cache.compile(codegen, &program(digit)).expect("it compiles");
        codegen.1.load(Ordering::Relaxed) == before
    }

    /// A cache that holds so many of the programs.
    fn room_for(programs: usize) -> CodeCache {
        let one = CodeCache::new(ROOM);
        is_cached(&one, &counting(), 0);
        CodeCache::new(one.usage().bytes * programs)
    }

    #[test]
    fn names_make_no_difference_and_access_does() {
        let (codegen, cache) = (Interpreted::new(), CodeCache::new(ROOM));
        let text =
            |name: &str| format!("routine @{name} {{\n  node %0 \"{name}\" f32[4]\n  %0[0] := 1.0f32\n}}");
        let first = scheduled(&text("a"));
        cache.compile(&codegen, &first).expect("it compiles");
        cache.compile(&codegen, &scheduled(&text("b"))).expect("it compiles");
        assert_eq!(cache.usage().routines, 1, "names alone");
        let mut parts = first.into_parts();
        let (ir, mut abi) = parts.kernels.remove(0).into_parts();
        let Param::Node { access, .. } = &mut abi.params[0] else { panic!("a node") };
        assert_eq!(std::mem::replace(access, Access::ReadWrite), Access::WritePart);
        parts.kernels.push(Kernel::new(ir, abi).expect("it agrees with the IR"));
        let other = ScheduledRoutine::new(parts).expect("its calls are as before");
        let artifact = cache.compile(&codegen, &other).expect("it compiles");
        assert_eq!(artifact.kernels()[0].params, other.kernels()[0].abi().params, "its own schedule's");
        assert_eq!(cache.usage().routines, 2);
    }

    #[test]
    fn choices_make_a_difference() {
        let (codegen, cache) = (Interpreted::new(), CodeCache::new(ROOM));
        cache.compile(&codegen, &program(1)).expect("it compiles");
        let choice = KernelChoice::new("gemm0=in-place:rows");
        let chosen = program(1).with_choices(vec![choice]);
        assert_eq!(kernel_text(&chosen.kernels()[0]), kernel_text(&program(1).kernels()[0]));
        cache.compile(&codegen, &chosen).expect("it compiles");
        assert_eq!(cache.usage().routines, 2);
    }

    #[test]
    fn the_least_recently_used_code_is_evicted() {
        let (codegen, cache) = (counting(), room_for(2));
        assert!(!is_cached(&cache, &codegen, 1));
        assert!(!is_cached(&cache, &codegen, 2));
        assert!(is_cached(&cache, &codegen, 1), "used again");
        assert!(!is_cached(&cache, &codegen, 3));
        assert_eq!((cache.usage().routines, cache.usage().evicted), (2, 1));
        assert!(is_cached(&cache, &codegen, 1));
        assert!(!is_cached(&cache, &codegen, 2), "evicted, and compiled again");
    }

    #[test]
    fn bytes_are_bounded() {
        let codegen = counting();
        let one = CodeCache::new(ROOM);
        is_cached(&one, &codegen, 0);
        let bytes = one.usage().bytes * 7 / 2;
        let cache = CodeCache::new(bytes);
        for digit in 0..10 {
            assert!(!is_cached(&cache, &codegen, digit));
            assert!(cache.usage().bytes <= bytes);
        }
        assert_eq!(
            (cache.usage().routines, cache.usage().evicted, cache.usage().bytes),
            (3, 7, 3 * one.usage().bytes)
        );
        // An artifact larger than the cache evicts nothing.
        let terms = (0..1000).map(|at| format!("  %0[{}] := {at}.5f32\n", at % 4)).collect::<String>();
        let large = scheduled(&format!("routine @r {{\n  node %0 \"x\" f32[4]\n{terms}}}"));
        cache.compile(&codegen, &large).expect("it compiles");
        assert_eq!((cache.usage().routines, cache.usage().evicted), (3, 7));
    }

    #[test]
    fn a_limit_of_zero_keeps_nothing() {
        let (codegen, cache) = (counting(), CodeCache::new(0));
        assert!(!is_cached(&cache, &codegen, 1));
        assert!(!is_cached(&cache, &codegen, 1));
        assert_eq!((cache.usage().routines, cache.usage().bytes, cache.usage().evicted), (0, 0, 0));
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

        /// The cache agrees with a list of programs in the order of use, and its byte count with its entries.
        #[test]
        fn the_most_recently_used_code_is_kept(
            entries in 1..5usize,
            uses in proptest::collection::vec(0..7usize, 0..60),
        ) {
            let (codegen, cache) = (counting(), room_for(entries));
            let mut recent: Vec<usize> = Vec::new();
            for digit in uses {
                prop_assert_eq!(is_cached(&cache, &codegen, digit), recent.contains(&digit));
                recent.retain(|&other| other != digit);
                recent.insert(0, digit);
                recent.truncate(entries);
                prop_assert_eq!(cache.usage().routines, recent.len());
                let kept = cache.lock();
                prop_assert_eq!(kept.bytes, kept.entries.iter().map(|(_, entry)| entry.bytes).sum::<usize>());
            }
        }
    }
}
