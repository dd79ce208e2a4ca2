//! Schedules of handwritten nests. `common` checks the bits after every pass.

use super::common::{Trace, check, cpu, eager, filled, gpu, parse, steps, target};
use codegen_core::{Cost, ScheduledRoutine};
use lowered_ir::passes::runner::Trace as PassTrace;
use scheduling::{PASS_NAMES, schedule_serial, schedule_traced};

fn check_text(source: &str) -> (ScheduledRoutine, Trace) {
    check(&filled(parse(source)))
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
}

fn matmul(m: i64, n: i64, k: i64) -> String {
    format!(
        "routine @matmul fast {{
  node %0 \"a\" f32[{m}, {k}] on_device
  node %1 \"b\" f32[{k}, {n}] on_device
  node %2 \"c\" f32[{m}, {n}] on_device
  zero %2
  for i0 in 0..{m} {{
    for i1 in 0..{n} {{
      for i2 in 0..{k} {{
        %2[i0, i1] := %2[i0, i1] + %0[i0, i2] * %1[i2, i1]
      }}
    }}
  }}
}}
"
    )
}

#[test]
fn matmuls_of_awkward_sizes_keep_their_bits() {
    for (m, n, k) in [(1, 1, 1), (2, 16, 3), (9, 17, 5), (64, 10, 33), (70, 40, 8), (3, 37, 1), (130, 19, 4)]
    {
        check_text(&matmul(m, n, k));
    }
}

#[test]
fn a_matmul_becomes_register_tiles_over_packed_strips() {
    let (schedule, trace) = check_text(&matmul(64, 128, 6));
    let tiled = &trace.last().unwrap().1;
    assert!(tiled.contains("f32[6, 16] scratch"), "no packed strip:\n{tiled}");
    assert!(tiled.contains("f32[2, 16] register"), "no register tile:\n{tiled}");
    let [kernel] = schedule.kernels() else { panic!("more than one kernel") };
    assert_eq!((kernel.abi().launch.extent, kernel.abi().scratch_bytes), (8, 6 * 16 * 4));
}

/// As written by `DynamicQuantizeLinear`: the scale of a whole array, by which a loop divides. The sum starts
/// at the zero of the local, and the second loop is no part of the kernel that computes it.
#[test]
fn a_scalar_across_a_parallel_loop_leaves_the_loop_a_kernel() {
    let (schedule, trace) = check_text(
        "routine @scaled fast {
  node %0 \"x\" f32[64] on_device
  node %1 \"y\" f32[64] on_device
  node %2 \"z\" f32[1] on_device
  declare l0 f32[] register
  for i0 in 0..64 {
    l0 := l0 + abs(%0[i0])
  }
  for i1 in 0..64 {
    %1[i1] := %0[i1] / l0
  }
  %2[0] := l0
}
",
    );
    let last = &trace.last().expect("passes").1;
    assert!(last.contains("node %3 \"l0\""), "the local is no node:\n{last}");
    let extents: Vec<u64> = schedule.kernels().iter().map(|kernel| kernel.abi().launch.extent).collect();
    assert!(extents.iter().any(|&extent| extent > 1) && extents.len() > 1, "{extents:?}\n{last}");
}

#[test]
fn deep_contractions_are_cut_into_blocks_that_keep_the_sums() {
    // An initial value that is not constant, and an epilogue.
    let (_, trace) = check_text(
        "routine @deep fast {
  node %0 \"a\" f32[9, 600] on_device
  node %1 \"b\" f32[600, 6] on_device
  node %2 \"c\" f32[9, 6] on_device
  for i0 in 0..9 {
    for i1 in 0..6 {
      declare l0 f32[] register
      l0 := %2[i0, i1]
      for i2 in 0..600 {
        l0 := l0 + %0[i0, i2] * %1[i2, i1]
      }
      %2[i0, i1] := max(l0, 0.0f32)
    }
  }
}
",
    );
    let tiled = &trace.last().unwrap().1;
    assert!(tiled.contains("f32[256, 4] scratch") && tiled.contains("f32[9, 4] scratch"), "{tiled}");
}

#[test]
fn a_contraction_is_sequential_over_k_by_fma() {
    let routine = parse(&matmul(5, 18, 7));
    let bits = steps(&filled(routine.clone())).1;
    let memory = filled(routine.clone()).inputs;
    let (a, b) = (floats(&memory[0]), floats(&memory[1]));
    let expected: Vec<f32> = (0..5 * 18)
        .map(|at| (0..7).fold(0.0f32, |acc, k| a[at / 18 * 7 + k].mul_add(b[k * 18 + at % 18], acc)))
        .collect();
    assert_eq!(floats(&bits[2]), expected);
}

#[test]
fn contractions_with_other_layouts_and_epilogues_keep_their_bits() {
    // A transposed second operand, a first operand read along columns, an epilogue, another loop order.
    check_text(
        "routine @layouts fast {
  node %0 \"x\" f32[12, 20] on_device
  node %1 \"w\" f32[33, 20] on_device
  node %2 \"y\" f32[12, 33] on_device
  node %3 \"g\" f32[20, 33] on_device
  node %4 \"bias\" f32[33] on_device
  for i0 in 0..12 {
    for i1 in 0..33 {
      declare l0 f32[] register
      for i2 in 0..20 {
        l0 := l0 + %0[i0, i2] * %1[i1, i2]
      }
      %2[i0, i1] := max(l0 + %4[i1], 0.0f32)
    }
  }
  for i3 in 0..12 {
    for i4 in 0..20 {
      for i5 in 0..33 {
        %3[i4, i5] := %3[i4, i5] + %0[i3, i4] * %2[i3, i5]
      }
    }
  }
}
",
    );
}

#[test]
fn convolutions_keep_their_bits() {
    check_text(
        "routine @conv fast {
  node %0 \"x\" f32[2, 3, 10, 21] on_device
  node %1 \"w\" f32[5, 3, 3, 2] on_device
  node %2 \"y\" f32[2, 5, 8, 20] on_device
  zero %2
  for i0 in 0..2 {
    for i1 in 0..5 {
      for i2 in 0..8 {
        for i3 in 0..20 {
          for i4 in 0..3 {
            for i5 in 0..3 {
              for i6 in 0..2 {
                %2[i0, i1, i2, i3] := %2[i0, i1, i2, i3] + %1[i1, i4, i5, i6] * %0[i0, i4, i2 + i5, i3 + i6]
              }
            }
          }
        }
      }
    }
  }
}
",
    );
}

fn row_sum(rows: i64, columns: i64) -> String {
    format!(
        "routine @rows fast {{
  node %0 \"x\" f32[{rows}, {columns}] on_device
  node %1 \"s\" f32[{rows}] on_device
  node %2 \"m\" f32[{rows}] on_device
  zero %1
  for i0 in 0..{rows} {{
    for i1 in 0..{columns} {{
      %1[i0] := %1[i0] + %0[i0, i1]
    }}
  }}
  for i2 in 0..{rows} {{
    for i3 in 0..{columns} {{
      %2[i2] := max(%0[i2, i3], %2[i2])
    }}
  }}
}}
"
    )
}

/// The order of the specification, written independently: partial results, their combination, chunks.
fn contiguous_sum(x: &[f32]) -> f32 {
    let chunks = x.chunks(65_536).map(|chunk| {
        let mut partials = [0.0f32; 32];
        for (i, x) in chunk.iter().enumerate() {
            partials[i % 32] += x;
        }
        for stride in [16, 8, 4, 2, 1] {
            for j in 0..stride {
                partials[j] += partials[j + stride];
            }
        }
        partials[0]
    });
    pairwise(chunks.collect())
}

fn sequential_sum(x: impl Iterator<Item = f32>) -> f32 {
    let x: Vec<f32> = x.collect();
    pairwise(x.chunks(256).map(|chunk| chunk.iter().fold(0.0, |acc, x| acc + x)).collect())
}

fn pairwise(mut x: Vec<f32>) -> f32 {
    while x.len() > 1 {
        let half = x.len().next_power_of_two() / 2;
        let taken = x.split_off(half);
        for (a, b) in x.iter_mut().zip(taken) {
            *a += b;
        }
    }
    x[0]
}

#[test]
fn contiguous_reductions_have_the_documented_order() {
    for (rows, columns) in [(3, 32), (2, 100), (1, 65_536 + 40), (40, 33)] {
        let routine = parse(&row_sum(rows, columns));
        let bits = steps(&filled(routine.clone())).1;
        let memory = filled(routine.clone()).inputs;
        let x = floats(&memory[0]);
        let expected: Vec<f32> = x.chunks(columns as usize).map(contiguous_sum).collect();
        assert_eq!(floats(&bits[1]), expected);
    }
    check_text(&row_sum(5, 70));
}

#[test]
fn short_and_strided_reductions_are_sequential() {
    check_text(&row_sum(40, 31));
    for (rows, columns) in [(20, 20), (256, 3), (257, 17), (1000, 5)] {
        let routine = parse(&format!(
            "routine @columns fast {{
  node %0 \"x\" f32[{rows}, {columns}] on_device
  node %1 \"s\" f32[{columns}] on_device
  for i0 in 0..{rows} {{
    for i1 in 0..{columns} {{
      %1[i1] := %1[i1] + %0[i0, i1]
    }}
  }}
}}
"
        ));
        let bits = steps(&filled(routine.clone())).1;
        let memory = filled(routine.clone()).inputs;
        let (x, s) = (floats(&memory[0]), floats(&memory[1]));
        let column = |j: usize| sequential_sum(x.iter().skip(j).step_by(columns).copied());
        let expected: Vec<f32> = s.iter().enumerate().map(|(j, old)| old + column(j)).collect();
        assert_eq!(floats(&bits[1]), expected);
    }
}

#[test]
fn reductions_over_several_loops_keep_their_bits() {
    check_text(
        "routine @all fast {
  node %0 \"x\" f32[7, 5, 40] on_device
  node %1 \"s\" f32[] on_device
  node %2 \"v\" f32[40] on_device
  node %3 \"y\" f32[7, 5] on_device
  node %4 \"p\" f64[300, 3] on_device
  node %5 \"q\" f64[] on_device
  for i0 in 0..7 {
    for i1 in 0..5 {
      for i2 in 0..40 {
        %1[] := %1[] + %0[i0, i1, i2]
      }
    }
  }
  for i3 in 0..7 {
    for i4 in 0..5 {
      for i5 in 0..40 {
        %3[i3, i4] := %3[i3, i4] + %0[i3, i4, i5] * %2[i5]
      }
    }
  }
  for i6 in 0..300 {
    for i7 in 0..3 {
      %5[] := min(%4[i6, i7], %5[])
    }
  }
}
",
    );
}

#[test]
fn maps_keep_their_bits() {
    check_text(
        "routine @maps fast {
  symbol @step in 0..3
  node %0 \"x\" f32[24, 35] on_device
  node %1 \"y\" f32[35, 8] on_device
  node %2 \"z\" i64[50] on_device
  node %3 \"t\" f32[8, 35] local
  for i0 in 0..8 {
    for i1 in 0..35 {
      %3[i0, i1] := %0[8*@step + i0, i1] * 2.0f32 + 1.0f32
    }
  }
  for i2 in 0..35 {
    for i3 in 0..8 {
      %1[i2, i3] := where(%3[i3, i2] < 0.0f32, %3[i3, i2], %1[i2, i3])
    }
  }
  for i4 in 0..50 {
    %2[i4] := %2[i4] + index i64(3*i4)
  }
  for i5 in 1..50 {
    %2[i5] := %2[i5] + %2[i5 - 1]
  }
}
",
    );
}

#[test]
fn locals_that_are_read_before_they_are_written_are_zero() {
    let (schedule, _) = check_text(
        "routine @margins fast {
  node %0 \"x\" f32[40] on_device
  node %1 \"big\" f32[2, 5000] local
  node %2 \"y\" f32[40] on_device
  for i0 in 0..40 {
    %1[1, i0 + 3] := %0[i0]
  }
  for i1 in 0..40 {
    %2[i1] := %1[1, i1] + %1[0, i1]
  }
}
",
    );
    assert_eq!(schedule.temps().len(), 1);
}

#[test]
fn equal_kernels_are_kept_once() {
    let (schedule, _) = check_text(
        "routine @twice fast {
  node %0 \"a\" f32[64, 8] on_device
  node %1 \"b\" f32[64, 8] on_device
  for i0 in 0..64 {
    for i1 in 0..8 {
      %0[i0, i1] := %0[i0, i1] + 1.0f32
    }
  }
  for i2 in 0..64 {
    for i3 in 0..8 {
      %1[i2, i3] := %1[i2, i3] + 1.0f32
    }
  }
}
",
    );
    assert_eq!((schedule.kernels().len(), schedule.calls().len()), (1, 2));
}

/// The steps of an unrolled loop have comments with different names.
#[test]
fn kernels_that_differ_in_comments_are_kept_once() {
    let nest = |node: usize, remark: &str| {
        format!(
            "  for i{0} in 0..64 {{
    for i{1} in 0..8 {{
{remark}
      %{node}[i{0}, i{1}] := %{node}[i{0}, i{1}] + 1.0f32
    }}
  }}
",
            2 * node,
            2 * node + 1
        )
    };
    let kernels_and_calls = |second: &str| {
        let text = format!(
            "routine @steps fast {{
  node %0 \"a\" f32[64, 8] on_device
  node %1 \"b\" f32[64, 8] on_device
{}{}}}
",
            nest(0, "      comment \"step.0 := step.0 + 1\""),
            nest(1, second)
        );
        let (schedule, _) = check_text(&text);
        (schedule.kernels().len(), schedule.calls().len())
    };
    assert_eq!(kernels_and_calls("      comment \"step.1 := step.1 + 1\""), (1, 2));
    // A codegen may compile statements otherwise if a comment separates them.
    assert_eq!(kernels_and_calls(""), (2, 2));
}

#[test]
fn a_top_level_array_keeps_its_uses_in_one_kernel() {
    let (schedule, _) = check_text(
        "routine @scale fast {
  node %0 \"a\" f32[64, 8] on_device
  node %1 \"s\" f32[1] on_device
  declare l0 f32[2] stack
  l0[1] := %1[0] * 3.0f32
  for i0 in 0..64 {
    for i1 in 0..8 {
      %0[i0, i1] := %0[i0, i1] + l0[1]
    }
  }
}
",
    );
    assert_eq!(schedule.calls().len(), 1);
}

#[test]
fn costs_are_facts() {
    let (schedule, trace) = check_text(&matmul(64, 32, 16));
    let flops: f64 = schedule.kernels().iter().map(|k| k.abi().cost.flops).sum();
    let bytes: f64 = schedule.kernels().iter().map(|k| k.abi().cost.bytes).sum();
    assert_eq!(flops, 2.0 * 64.0 * 32.0 * 16.0);
    assert_eq!(bytes, 4.0 * (64.0 * 16.0 + 16.0 * 32.0 + 64.0 * 32.0), "{}", trace.last().unwrap().1);
}

/// The printed cost of a routine that is one kernel: flops, integer operations and bytes.
fn printed_cost(body: &str) -> String {
    let text = format!(
        "routine @r fast {{\n  node %0 \"x\" i32[8] on_device\n  node %1 \"y\" f32[8] on_device\n{body}\n}}\n"
    );
    let (schedule, _) = check_text(&text);
    let [kernel] = schedule.kernels() else { panic!("one kernel") };
    let Cost { flops, integer_ops, bytes } = kernel.abi().cost;
    format!("{flops} {integer_ops} {bytes}")
}

#[test]
fn costs_of_integer_kernels_are_counted() {
    let over = |body: &str| printed_cost(&format!("  for i0 in 0..8 {{\n    {body}\n  }}"));
    // A product, a sum, a sign and an operation on bits.
    assert_eq!(over("%0[i0] := neg(%0[i0] * 3i32 + bit_and(%0[i0], 1i32))"), "0 32 64");
    assert_eq!(over("%0[i0] := where(%0[i0] < 4i32, 1i32, 0i32)"), "0 8 64", "selections cost nothing");
    assert_eq!(over("%1[i0] := neg(convert f32(%0[i0])) * 2.0f32"), "8 0 64", "nor do signs of floats");
    assert_eq!(over("%0[i0] := 1i32"), "0 0 32", "nothing, and not minus nothing");
    assert_eq!(printed_cost("  zero %1"), "0 0 32");
}

/// [`PASS_NAMES`] contains exactly the names under which passes report the routine.
#[test]
fn every_step_has_a_name_in_the_list() {
    let routine = parse(&matmul(64, 32, 16));
    let mut names = std::collections::BTreeSet::new();
    for caps in [cpu(), gpu()] {
        let on_step = &mut |name: &str, _: &lowered_ir::ir::LoweredRoutine| {
            names.insert(name.to_owned());
        };
        let trace = &mut PassTrace::new(on_step);
        schedule_traced(&routine, &target(&caps), &eager(), trace).unwrap();
        schedule_serial(&routine, &target(&caps), trace).unwrap();
    }
    let listed = PASS_NAMES.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(names, listed);
}

#[test]
fn virtual_nodes_are_rejected_by_name() {
    let routine = parse(
        "routine @v fast {
  node %0 \"ghost\" f32[4] virtual
  for i0 in 0..4 {
    %0[i0] := 1.0f32
  }
}
",
    );
    let error = scheduling::schedule(&routine, &target(&cpu()), &eager()).unwrap_err();
    assert!(error.to_string().contains("%0 \"ghost\" is virtual"), "{error}");
}

#[test]
fn enormous_nests_are_scheduled_without_enormous_scratch_memory() {
    let source = format!(
        "{}{}",
        matmul(1 << 16, 40, 1 << 16).trim_end().trim_end_matches('}'),
        "  for i3 in 0..65536 {
    for i4 in 0..1024 {
      for i5 in 0..65536 {
        %1[i3, 7] := %1[i3, 7] + %0[i5, i3]
      }
    }
  }
}
"
    );
    let schedule = scheduling::schedule(&parse(&source), &target(&cpu()), &eager()).unwrap();
    for kernel in schedule.kernels() {
        lowered_ir::verify::verify(kernel.ir()).unwrap();
        assert!(kernel.abi().scratch_bytes < 1 << 20, "{} bytes", kernel.abi().scratch_bytes);
    }
}

/// Rows below a size of the run have partial results like rows of constant length, and so has the sum of all
/// elements of such rows.
#[test]
fn reductions_that_end_at_symbols_have_partial_results() {
    let text = "routine @rows fast {
  symbol @n in 1..129
  node %0 \"x\" f32[5, 128] on_device
  node %1 \"most\" f32[5] on_device
  node %2 \"sum\" f32[5] on_device
  node %3 \"all\" f32[1] on_device
  node %4 \"w\" f32[128, 64] on_device
  for i0 in 0..5 {
    for i1 in 0..min(128, @n) {
      %1[i0] := max(%0[i0, i1], %1[i0])
    }
    for i2 in 0..min(128, @n) {
      %2[i0] := %2[i0] + exp(%0[i0, i2] - %1[i0])
    }
  }
  for i3 in 0..min(128, @n) {
    for i4 in 0..64 {
      %3[0] := %3[0] + %4[i3, i4]
    }
  }
}
";
    for n in [1, 7, 8, 31, 32, 45, 128] {
        let case = filetests::RunCase { bindings: vec![n], ..filled(parse(text)) };
        let (_, trace) = check(&case);
        let explicit = &trace.iter().find(|(step, _)| step == "make_numerics_explicit").unwrap().1;
        assert_eq!(explicit.matches("f32[32] register").count(), 3, "{explicit}");
        assert!(explicit.contains("@n_by_32_0") && explicit.contains("@n_by_8_0"), "{explicit}");
    }
}

/// As an inlined `r[a^b] := …, …` is read. The halves are loops of their own, since comparisons of positions
/// have no vectors.
#[test]
fn halves_of_a_concatenation_are_vectors() {
    let (_, trace) = check_text(
        "routine @rotated fast {
  node %0 \"x\" f32[3, 64] on_device
  node %1 \"c\" f32[32] on_device
  node %2 \"y\" f32[3, 64] on_device
  for i0 in 0..3 {
    for i1 in 0..64 {
      %2[i0, i1] := where(0i64 <= index i64(i1 - 32), %0[i0, i1] * guarded(0 <= i1 - 32 < 32, %1[i1 - 32], 0.0f32), where(index i64(i1) < 32i64, %0[i0, i1] - guarded(0 <= i1 < 32, %1[i1], 0.0f32), 0.0f32))
    }
  }
}
",
    );
    let last = &trace.last().unwrap().1;
    assert!(!last.contains("where") && !last.contains("guarded"), "{last}");
    assert_eq!(last.matches("vector").count(), 2, "{last}");
}
