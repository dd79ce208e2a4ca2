//! Loaded code costs memory and no mappings. The test has a process of its own, since other tests map memory.
#![cfg(target_os = "linux")]

use code_memory::{CodeMemoryUsage, LoadedCode, usage};

/// The lines of the process's table of mappings.
fn mappings() -> usize {
    std::fs::read_to_string("/proc/self/maps").expect("Linux has it").lines().count()
}

#[test]
fn ten_thousand_codes_are_some_forty_mappings() {
    let code = [0xc3; 900];
    let before = mappings();
    let mut codes: Vec<LoadedCode> =
        (0..10_000).map(|_| LoadedCode::load(&[&code]).expect("memory")).collect();
    let CodeMemoryUsage { used_bytes, chunks, .. } = usage();
    assert_eq!(used_bytes, codes.iter().map(LoadedCode::bytes).sum::<usize>());
    assert!(chunks <= 40, "{chunks} chunks of 256 pages each");
    let most = before + chunks + 4;
    assert!(mappings() <= most, "{} of {most} mappings", mappings());
    // Every second piece of code is freed, and new pieces take some of the freed pages.
    let all = std::mem::take(&mut codes);
    codes.extend(all.into_iter().step_by(2));
    codes.extend((0..3_000).map(|_| LoadedCode::load(&[&code]).expect("memory")));
    assert!(mappings() <= most, "{} of {most} mappings after reuse", mappings());
    assert!(usage().chunks <= chunks, "freed pages are used first");
    drop(codes);
    assert_eq!(usage(), CodeMemoryUsage::default());
    assert!(mappings() <= before + 4, "{} mappings, {before} before", mappings());
}
