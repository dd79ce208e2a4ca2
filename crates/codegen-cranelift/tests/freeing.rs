//! Code is unmapped with its last owner. By itself in a process, since other tests map code of their own.
#![cfg(target_os = "linux")]

mod common;

use codegen_cranelift::CraneliftOptions;
use common::{ADD, compare, compile, filled, kernel, parse, run_native};
use lowered_ir::interp;

/// Executable memory of this process outside any file, in bytes.
fn generated_code_bytes() -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("Linux has it");
    maps.lines()
        .filter_map(|line| {
            let mut fields = line.split_ascii_whitespace();
            let (range, permissions, inode) = (fields.next()?, fields.next()?, fields.nth(2)?);
            let (start, end) = range.split_once('-')?;
            let parse = |x| usize::from_str_radix(x, 16).ok();
            (permissions.contains('x') && inode == "0" && !line.ends_with(']'))
                .then_some(parse(end)? - parse(start)?)
        })
        .sum()
}

#[test]
fn code_is_freed_with_its_last_owner() {
    let kernel = kernel(parse(ADD));
    let options = CraneliftOptions::default();
    let kept = compile(&kernel, &options).expect("a supported kernel");
    let before = generated_code_bytes();
    assert!(before > 0, "the kept module is mapped");
    let mut most = 0;
    for _ in 0..500 {
        let artifact = compile(&kernel, &options).expect("a supported kernel");
        let clone = artifact.clone();
        drop(artifact);
        most = most.max(generated_code_bytes());
        drop(clone);
    }
    assert!(most > before, "live code is mapped");
    assert_eq!(generated_code_bytes(), before);
    let memory = filled(&kernel.ir, 1);
    let mut expected = memory.clone();
    interp::run(&kernel.ir, &mut expected, &[]).expect("a valid kernel");
    compare(&kernel, &memory, &expected, &run_native(&kept, &kernel, &memory, &[]), "the kept module");
}
