//! The text of a few kernels, and the languages in which they can be written.
#![allow(clippy::unwrap_used, reason = "a failing test may panic")]

use crate::common;

use codegen_core::{Codegen, CodegenError, Kernel};
use codegen_wgsl::{NagaKernel, WgslOptions, baseline_caps, wgsl};
use expect_test::expect_file;
use filetests::kernels::{DOUBLE, TREE_REDUCTION};
use scheduling::{ScheduleOptions, schedule};

/// The only kernel of a routine that is legalized but not scheduled.
fn kernel(text: &str) -> Kernel {
    common::kernel(text, &baseline_caps())
}

fn rendered(kernel: &Kernel, slabs: &[u32]) -> NagaKernel {
    wgsl(baseline_caps(), WgslOptions::default()).render(kernel, slabs).unwrap()
}

fn check(text: &str, slabs: &[u32], expected: &expect_test::ExpectFile) {
    let shader = rendered(&kernel(text), slabs).shader().unwrap();
    common::parse_back(&shader.wgsl, &baseline_caps()).unwrap();
    expected.assert_eq(&format!(
        "// {} workgroups, {} words\n{}",
        shader.groups, shader.table_words, shader.wgsl
    ));
}

#[test]
fn a_thread_per_iteration() {
    check(DOUBLE, &[0, 1], &expect_file!["../text/double.wgsl"]);
}

#[test]
fn a_tree_in_shared_memory() {
    check(TREE_REDUCTION, &[0, 0], &expect_file!["../text/tree.wgsl"]);
}

#[test]
fn bytes_are_stored_by_their_own_bits() {
    let text = r#"
routine @bytes strict {
  node %0 "x" i8[100] on_device
  node %1 "y" bf16[100] on_device
  symbol_free
}"#;
    let text = text.replace("  symbol_free\n", "  for i0 in 0..100 parallel {\n    %0[i0] := convert i8(index i32(i0))\n    %1[99 - i0] := bitcast bf16(0x3f80:u16)\n  }\n");
    check(&text, &[0, 1], &expect_file!["../text/bytes.wgsl"]);
}

#[test]
fn guards_symbols_and_computed_indices() {
    let text = r#"
routine @guards strict {
  symbol @shift in 0..3
  node %0 "x" f32[8] on_device
  node %1 "at" i32[8] on_device
  node %2 "y" f32[8] on_device
  for i0 in 0..8 parallel {
    for i1 in 0..min(4, @shift) {
      %2[i0] := guarded(0 <= i0 + @shift - 1 < 8, %0[i0 + @shift - 1], inff32)
    }
    scatter %2[{%1[i0]}] := gather(%0[{%1[i0]}], 0.5f32) % 3.0f32
  }
}"#;
    // A scatter makes the loop's iterations depend on each other, so the loop is serial.
    let text = text.replace("8 parallel", "8");
    check(&text, &[0, 1, 0], &expect_file!["../text/guards.wgsl"]);
}

#[test]
fn lanes_are_read_and_stored_as_vectors() {
    let text = r#"
routine @vectors strict {
  node %0 "a" f32[16, 8] on_device
  node %1 "b" f32[8] on_device
  node %2 "c" f32[16, 8] on_device
  for i0 in 0..16 parallel {
    for i1 in 0..2 parallel {
      for i2 in 0..4 vector {
        %2[i0, 4*i1 + i2] := %0[i0, 4*i1 + i2] * %1[4*i1 + i2] + %1[i1]
      }
    }
  }
}"#;
    check(text, &[0, 0, 0], &expect_file!["../text/vectors.wgsl"]);
    // A store of a single lane makes the slab an array of words instead of vectors.
    let shader = rendered(
        &kernel(&text.replace("for i2 in 0..4 vector {", "%2[i0, 4*i1] := 0.0f32 for i2 in 0..4 vector {")),
        &[0, 0, 1],
    );
    let text = shader.shader().unwrap().wgsl;
    assert!(text.contains("slab_0_: array<vec4<u32>>") && text.contains("slab_1_: array<u32>"), "{text}");
}

/// Compilers of shaders fold constants, and reject those that overflow.
#[test]
fn constants_are_computed_before_compilers_see_them() {
    let text = r#"
routine @constants strict {
  node %0 "x" f32[3, 7] on_device
  node %1 "y" i32[8] on_device
  %0[0, 0] := gather(%0[{-1i32}, 2], 1.5f32)
  %0[0, 1] := gather(%0[{2i32}, 2], nanf32) / 0.0f32
  %0[0, 2] := 3e38f32 * 10.0f32
  scatter %0[{-5i32}, 1] := 1.0f32
  %1[0] := 2147483647i32 + 1i32
  %1[1] := shl(-2147483648i32, 33i32) % 0i32
  %1[2] := convert i32(-inff32)
  %1[3] := bitcast i32(0x00000001:f32)
}"#;
    check(text, &[0, 1], &expect_file!["../text/constants.wgsl"]);
}

#[test]
fn every_language_of_a_kernel() {
    let rendered = rendered(&kernel(DOUBLE), &[0, 1]);
    let words = rendered.spirv().unwrap();
    assert_eq!(words[0], 0x0723_0203, "SPIR-V begins with its magic number");
    let msl = rendered.msl().unwrap();
    assert!(msl.contains("kernel void"), "{msl}");
    let hlsl = rendered.hlsl().unwrap();
    assert!(hlsl.contains("numthreads(64, 1, 1)"), "{hlsl}");
}

#[test]
fn the_corpus_in_every_language_that_has_its_types() {
    let codegen = wgsl(common::full_caps(), WgslOptions::default());
    let (mut written, mut unsupported) = (0, 0);
    for case in filetests::run_cases() {
        let Ok(scheduled) = schedule(&case.routine, &codegen, &ScheduleOptions::default()) else {
            continue;
        };
        for kernel in scheduled.kernels() {
            let Ok(rendered) = codegen.render(kernel, &vec![0; kernel.ir().nodes.len()]) else { continue };
            rendered.spirv().unwrap();
            for text in [rendered.msl(), rendered.hlsl()] {
                match text {
                    Ok(text) => {
                        assert!(!text.is_empty());
                        written += 1;
                    }
                    Err(CodegenError::Unsupported { op, .. }) => {
                        assert_eq!(op, "f64");
                        unsupported += 1;
                    }
                    Err(error) => panic!("{error}"),
                }
            }
        }
    }
    assert!(written > 100 && unsupported > 10, "{written} written, {unsupported} unsupported");
}

#[test]
fn a_listing_shows_text_and_words() {
    let listing = wgsl(baseline_caps(), WgslOptions::default()).listing(&kernel(DOUBLE)).unwrap();
    assert!(listing.source.contains("fn main") && listing.machine_code.starts_with("07230203"));
}
