//! The text of the vector programs of scheduled kernels, and the list of the corpus's kernels that have no
//! vector program.

use std::collections::{BTreeMap, BTreeSet};

use codegen_core::{Artifact, Caps, Codegen, CodegenError, Interpreted, Kernel, ScheduledRoutine};
use codegen_cranelift::{CraneliftOptions, VectorWidth, host_caps, listing};
use expect_test::{Expect, expect};
use lowered_ir::ir::LoweredRoutine;
use lowered_ir::pipeline::{OptimizeSettings, optimize};
use scheduling::{ScheduleOptions, schedule};

/// Capabilities of a fictitious CPU, so that the programs do not depend on the real one.
fn caps() -> Caps {
    let known = host_caps(VectorWidth::Avx2);
    Caps { threads: 1, l1_bytes: 32 << 10, l2_bytes: 512 << 10, fma: true, vector_bytes: 32, ..known }
}

/// The machine of [`caps`] without plans for contractions.
struct WithoutPlans(Interpreted);

impl Codegen for WithoutPlans {
    fn name(&self) -> &str {
        "without plans"
    }

    fn caps(&self) -> &Caps {
        self.0.caps()
    }

    fn fingerprint(&self) -> u64 {
        self.0.fingerprint() ^ 1
    }

    fn compile(&self, routine: &ScheduledRoutine) -> Result<Artifact, CodegenError> {
        self.0.compile(routine)
    }
}

fn kernels_for(routine: &LoweredRoutine, target: &dyn Codegen) -> Vec<Kernel> {
    let optimized =
        optimize(routine.clone(), &OptimizeSettings::default()).expect("the routine is valid").routine;
    let scheduled = schedule(&optimized, target, &ScheduleOptions::default());
    scheduled.expect("the host computes everything").kernels().to_vec()
}

/// The kernels of a routine, with every contraction whole.
fn kernels(routine: &LoweredRoutine) -> Vec<Kernel> {
    kernels_for(routine, &Interpreted::of_target(caps()))
}

/// The kernels of a routine, with every contraction in register tiles.
fn tiled_kernels(routine: &LoweredRoutine) -> Vec<Kernel> {
    kernels_for(routine, &WithoutPlans(Interpreted::of_target(caps())))
}

/// The source of a kernel's listing.
fn source(kernel: &Kernel) -> String {
    source_of(kernel, VectorWidth::Avx2)
}

fn source_of(kernel: &Kernel, vector: VectorWidth) -> String {
    let options = CraneliftOptions { vector, ..CraneliftOptions::default() };
    listing(kernel, &options).expect("a supported kernel").source
}

fn programs_are(text: &str, expected: &Expect) {
    let routine = lowered_ir::text::parse(text).expect("the text is valid");
    expected.assert_eq(&kernels(&routine).iter().map(source).collect::<String>());
}

/// The reason why a kernel has no vector program, if it has none.
fn reason(kernel: &Kernel) -> Option<String> {
    let source = source(kernel);
    source.lines().next()?.strip_prefix("; no vector program: ").map(str::to_owned)
}

#[test]
fn an_elementwise_chain() {
    programs_are(
        "routine @chain fast {
          node %0 \"x\" f32[64, 128] on_device
          node %1 \"bias\" f32[64] on_device
          node %2 \"y\" f32[64, 128] on_device
          for i0 in 0..64 { for i1 in 0..128 {
            %2[i0, i1] := relu(1.5f32 * %0[i0, i1] + %1[i0]) * 2.0f32
          } }
        }",
        &expect![[r#"
            v1 f32x1 := 0x3fc00000
            v4 f32x1 := 0x0
            v6 f32x1 := 0x40000000
            for i0 in 0..64 {
              v2 f32x1 := arg2[0 + 4·i0 step 4]
              for i1 in 0..4 {
                v0 f32x32 := arg1[0 + 512·i0 + 128·i1 step 4]
                v3 f32x32 := Fma v0, v1, v2
                v5 f32x32 := Maximum v3, v4
                v7 f32x32 := Multiply v5, v6
                arg0[0 + 512·i0 + 128·i1 step 4] := v7
              }
            }
        "#]],
    );
}

#[test]
fn the_sum_of_a_row_in_32_partials() {
    programs_are(
        "routine @row_sum fast {
          node %0 \"x\" f32[4, 70] on_device
          node %1 \"s\" f32[4] on_device
          zero %1
          for i0 in 0..4 { for i1 in 0..70 { %1[i0] := %1[i0] + %0[i0, i1] } }
        }",
        &expect![[r#"
            var x0 f32x32
            v0 f32x32 := 0x0
            v7 f32x16 := 0x0
            v11 f32x8 := 0x0
            v15 f32x4 := 0x0
            v19 f32x2 := 0x0
            v23 f32x1 := 0x0
            for i0 in 0..4 {
              x0[0..] := v0
              for i1 in 0..2 {
                v1 f32x32 := x0[0..]
                v2 f32x32 := arg0[0 + 280·i0 + 128·i1 step 4]
                v3 f32x32 := Add v1, v2
                x0[0..] := v3
              }
              v4 f32x6 := x0[0..]
              v5 f32x6 := arg0[256 + 280·i0 step 4]
              v6 f32x6 := Add v4, v5
              x0[0..] := v6
              v8 f32x16 := x0[0..]
              v9 f32x16 := x0[16..]
              v10 f32x16 := Add v8, v9
              v12 f32x8 := v10[0..]
              v13 f32x8 := v10[8..]
              v14 f32x8 := Add v12, v13
              v16 f32x4 := v14[0..]
              v17 f32x4 := v14[4..]
              v18 f32x4 := Add v16, v17
              v20 f32x2 := v18[0..]
              v21 f32x2 := v18[2..]
              v22 f32x2 := Add v20, v21
              v24 f32x1 := v22[0..]
              v25 f32x1 := v22[1..]
              v26 f32x1 := Add v24, v25
              v27 f32x1 := Add v23, v26
              arg1[0 + 4·i0 step 4] := v27
            }
        "#]],
    );
}

#[test]
fn rows_of_a_softmax() {
    programs_are(
        "routine @softmax fast {
          node %0 \"x\" f32[8, 64] on_device
          node %1 \"y\" f32[8, 64] on_device
          for i0 in 0..8 {
            declare l0 f32[] register
            l0 := -inff32
            for i1 in 0..64 { l0 := max(%0[i0, i1], l0) }
            declare l1 f32[] register
            for i2 in 0..64 {
              %1[i0, i2] := exp(%0[i0, i2] - l0)
              l1 := l1 + %1[i0, i2]
            }
            for i3 in 0..64 { %1[i0, i3] := %1[i0, i3] / l1 }
          }
        }",
        &expect![[r#"
            var x0 f32x32
            var x1 f32x1
            v0 f32x1 := 0x0
            v1 f32x1 := 0xff800000
            v2 f32x32 := 0x0
            v3 f32x32 := 0xff800000
            v7 f32x16 := 0x0
            v11 f32x8 := 0x0
            v15 f32x4 := 0x0
            v19 f32x2 := 0x0
            v29 f32x1 := 0xc2d20000
            v31 f32x1 := 0x42b40000
            v33 f32x1 := 0x3fb8aa3b
            v34 f32x1 := 0x4b4000fe
            v37 i32x1 := 0x0
            v39 f32x1 := 0xbf317200
            v41 f32x1 := 0xb5bfbe8e
            v43 i32x1 := 0x1
            v45 f32x1 := 0x3ab51232
            v46 f32x1 := 0x3c091cf1
            v48 f32x1 := 0x3d2aac79
            v50 f32x1 := 0x3e2aaa49
            v52 f32x1 := 0x3efffffe
            v54 f32x1 := 0x3f800000
            v57 i32x1 := 0x17
            for i0 in 0..8 {
              x0[0..] := v3
              for i1 in 0..2 {
                v4 f32x32 := arg0[0 + 256·i0 + 128·i1 step 4]
                v5 f32x32 := x0[0..]
                v6 f32x32 := Maximum v4, v5
                x0[0..] := v6
              }
              v8 f32x16 := x0[16..]
              v9 f32x16 := x0[0..]
              v10 f32x16 := Maximum v8, v9
              v12 f32x8 := v10[8..]
              v13 f32x8 := v10[0..]
              v14 f32x8 := Maximum v12, v13
              v16 f32x4 := v14[4..]
              v17 f32x4 := v14[0..]
              v18 f32x4 := Maximum v16, v17
              v20 f32x2 := v18[2..]
              v21 f32x2 := v18[0..]
              v22 f32x2 := Maximum v20, v21
              v23 f32x1 := v22[1..]
              v24 f32x1 := v22[0..]
              v25 f32x1 := Maximum v23, v24
              v26 f32x1 := Maximum v25, v1
              x1[0..] := v0
              for i2 in 0..64 {
                v27 f32x1 := arg0[0 + 256·i0 + 4·i2 step 4]
                v28 f32x1 := Subtract v27, v26
                v30 f32x1 := Maximum v28, v29
                v32 f32x1 := Minimum v30, v31
                v35 f32x1 := Fma v32, v33, v34
                v36 f32x1 := Subtract v35, v34
                v38 i32x1 := Bitcast v35
                v40 f32x1 := Fma v36, v39, v32
                v42 f32x1 := Fma v36, v41, v40
                v44 i32x1 := ShiftRight v38, v43
                v47 f32x1 := Fma v45, v42, v46
                v49 f32x1 := Fma v47, v42, v48
                v51 f32x1 := Fma v49, v42, v50
                v53 f32x1 := Fma v51, v42, v52
                v55 f32x1 := Fma v53, v42, v54
                v56 f32x1 := Fma v55, v42, v54
                v58 i32x1 := ShiftLeft v44, v57
                v59 f32x1 := Bitcast v58
                v60 f32x1 := Multiply v56, v59
                v61 i32x1 := Subtract v38, v44
                v62 i32x1 := ShiftLeft v61, v57
                v63 f32x1 := Bitcast v62
                v64 f32x1 := Multiply v60, v63
                arg1[0 + 256·i0 + 4·i2 step 4] := v64
                v65 f32x1 := x1[0..]
                v66 f32x1 := Add v65, v64
                x1[0..] := v66
              }
              v68 f32x1 := x1[0..]
              for i3 in 0..2 {
                v67 f32x32 := arg1[0 + 256·i0 + 128·i3 step 4]
                v69 f32x32 := Divide v67, v68
                arg1[0 + 256·i0 + 128·i3 step 4] := v69
              }
            }
        "#]],
    );
}

#[test]
fn a_guarded_read() {
    programs_are(
        "routine @shift fast {
          node %0 \"x\" f32[100] on_device
          node %1 \"y\" f32[100] on_device
          for i0 in 0..100 {
            %1[i0] := guarded(3 <= i0 < 100, %0[i0 - 3], 0.0f32) + %0[i0]
          }
        }",
        &expect![[r#"
            v0 f32x1 := 0x0
            v2 i32x1 := 0x2
            for i0 in 0..3 {
              v1 i32x32 := index 0 + 32·i0 + 1·lane
              v3 i32x32 := Less v2, v1
              v4 f32x32 := if v3 then arg1[-12 + 128·i0 step 4] else v0
              v5 f32x32 := arg1[0 + 128·i0 step 4]
              v6 f32x32 := Add v4, v5
              arg0[0 + 128·i0 step 4] := v6
            }
            v7 i32x4 := index 96 + 1·lane
            v8 f32x4 := arg1[372 step 4]
            v9 f32x4 := arg1[384 step 4]
            v10 f32x4 := Add v8, v9
            arg0[384 step 4] := v10
        "#]],
    );
}

/// The reasons why kernels of the corpus have no vector program. Fewer reasons are better.
#[test]
fn kernels_of_the_corpus_without_a_program() {
    let mut fallen: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let (mut total, mut programs) = (0, 0);
    for case in filetests::run_cases() {
        for kernel in tiled_kernels(&case.routine) {
            total += 1;
            match reason(&kernel) {
                Some(reason) => {
                    fallen.entry(reason).or_default().insert(case.routine.name.clone());
                }
                None => programs += 1,
            }
        }
    }
    let mut text = format!("{programs} of {total} kernels are vector programs\n");
    for (reason, routines) in fallen {
        text += &format!("{reason}: {}\n", routines.into_iter().collect::<Vec<_>>().join(", "));
    }
    expect![[r#"
        181 of 206 kernels are vector programs
        `/` on i32 has no vector instruction: integers
        `/` on i8 has no vector instruction: integers
        `sin` on f64 has no vector instruction: large_angles, sin64
        an index is computed: counting_sort, counts, embedding, forms, guards, huge, outermost, pick, products, rows, select
        no conversion from I64 to F32: great_integers
        no conversion from U64 to F32: by_a_product
        random bits have no lanes: bits, light, locals, parts, uniform, vectors
    "#]]
    .assert_eq(&text);
}

/// A kernel has the same program for every instruction set.
#[test]
fn wider_vectors_have_the_same_programs() {
    for case in filetests::run_cases() {
        for kernel in tiled_kernels(&case.routine) {
            let [half, whole] =
                [VectorWidth::Avx2, VectorWidth::Avx512].map(|width| source_of(&kernel, width));
            assert_eq!(half, whole, "{}", case.routine.name);
        }
    }
}
