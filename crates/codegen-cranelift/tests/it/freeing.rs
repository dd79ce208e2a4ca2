//! Code is freed with its last owner, and live code adds memory but no mappings. The test has a
//! process of its own, because other tests map memory for code as well.

use crate::common::{ADD, compare, compile, filled, kernel, parse, run_native};
use code_memory::{CodeMemoryUsage, usage};
use codegen_core::Artifact;
use codegen_cranelift::{CraneliftOptions, VectorWidth};
use codegen_testkit::in_own_process;
use lowered_ir::interp;

/// The lines of the process's table of mappings.
fn mappings() -> Vec<String> {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("Linux has it");
    maps.lines().map(str::to_owned).collect()
}

/// Bytes of anonymous executable memory of this process.
fn generated_code_bytes() -> usize {
    let parse = |number: &str| usize::from_str_radix(number, 16).ok();
    let bytes = |line: &String| {
        let mut fields = line.split_ascii_whitespace();
        let (range, permissions, inode) = (fields.next()?, fields.next()?, fields.nth(2)?);
        let (start, end) = range.split_once('-')?;
        (permissions.contains('x') && inode == "0" && !line.ends_with(']'))
            .then_some(parse(end)? - parse(start)?)
    };
    mappings().iter().filter_map(bytes).sum()
}

#[test]
fn code_is_freed_with_its_last_owner() {
    if !in_own_process("freeing::code_is_freed_with_its_last_owner") {
        return;
    }
    let kernel = kernel(parse(ADD));
    // The code is compiled by `vector-asm`, if the CPU supports it, and then by Cranelift.
    for vector in [VectorWidth::default(), VectorWidth::None] {
        let options = CraneliftOptions { vector, ..CraneliftOptions::default() };
        let kept = compile(&kernel, &options).expect("a supported kernel");
        let before = usage();
        assert!(before.used_bytes > 0, "the kept code is loaded");
        assert_eq!(generated_code_bytes(), before.mapped_bytes, "there is no other code");
        for _ in 0..100 {
            let artifact = compile(&kernel, &options).expect("a supported kernel");
            let clone = artifact.clone();
            drop(artifact);
            assert_eq!(usage().used_bytes, 2 * before.used_bytes, "a clone keeps the code");
            drop(clone);
            assert_eq!(usage(), before);
        }
        live_code_costs_no_mappings(|| compile(&kernel, &options).expect("a supported kernel"));
        assert_eq!(usage(), before);

        let memory = filled(kernel.ir(), 1);
        let mut expected = memory.clone();
        interp::run(kernel.ir(), &mut expected, &[]).expect("a valid kernel");
        compare(&kernel, &memory, &expected, &run_native(&kept, &kernel, &memory, &[]), "the kept code");
        drop(kept);
        assert_eq!(usage(), CodeMemoryUsage::default());
        assert_eq!(generated_code_bytes(), 0);
    }
}

fn live_code_costs_no_mappings(compile: impl Fn() -> Artifact) {
    let before = mappings().len();
    let artifacts: Vec<Artifact> = (0..1000).map(|_| compile()).collect();
    let CodeMemoryUsage { mapped_bytes, chunks, .. } = usage();
    assert_eq!(generated_code_bytes(), mapped_bytes);
    assert!(chunks <= 16, "{chunks} chunks for {} routines", artifacts.len());
    // The heap may also grow, by few mappings.
    let most = before + 64;
    assert!(mappings().len() <= most, "{} of {most} mappings", mappings().len());
}
