//! Schedules for workgroups: numbers of kernels and threads, bytes moved, and bits.

use codegen_core::{Access, Caps, Param, ScheduledRoutine, check_form};
use scheduling::{ScheduleOptions, schedule};

use super::common::{
    as_written, check_gpu, check_on, filled, gpu, large_gpu, on, on_gpu, parse, steps, target,
};

/// The schedule, after all passes were checked.
fn scheduled(source: &str) -> ScheduledRoutine {
    check_gpu(&filled(parse(source)))
}

/// The schedule of a routine that is too large to be interpreted after every pass.
fn planned(source: &str) -> ScheduledRoutine {
    planned_on(source, &gpu())
}

/// [`planned`] for another GPU.
fn planned_on(source: &str, caps: &Caps) -> ScheduledRoutine {
    let schedule = schedule(&parse(source), &target(caps), &ScheduleOptions::default()).unwrap();
    for kernel in schedule.kernels() {
        lowered_ir::verify::verify(kernel.ir()).unwrap_or_else(|e| panic!("{e}\n{source}"));
        check_form(kernel.ir(), caps.workgroups.unwrap()).unwrap_or_else(|e| panic!("{e}\n{source}"));
    }
    schedule
}

/// The extents of the kernels' parallel loops and the threads of their workgroups.
fn launches(schedule: &ScheduledRoutine) -> Vec<(u64, u32)> {
    let kernel = |at: usize| schedule.kernels()[at].abi().launch;
    schedule.calls().iter().map(|call| kernel(call.kernel)).map(|l| (l.extent, l.threads)).collect()
}

fn softmax(rows: usize, columns: usize) -> String {
    format!(
        "routine @softmax fast {{
           node %0 \"x\" f32[{rows}, {columns}] on_device
           node %1 \"m\" f32[{rows}] local
           node %2 \"e\" f32[{rows}, {columns}] local
           node %3 \"s\" f32[{rows}] local
           node %4 \"y\" f32[{rows}, {columns}] on_device
           for i0 in 0..{rows} {{ %1[i0] := -inff32 }}
           for i1 in 0..{rows} {{ for i2 in 0..{columns} {{ %1[i1] := max(%0[i1, i2], %1[i1]) }} }}
           for i3 in 0..{rows} {{ for i4 in 0..{columns} {{ %2[i3, i4] := exp(%0[i3, i4] - %1[i3]) }} }}
           zero %3
           for i5 in 0..{rows} {{ for i6 in 0..{columns} {{ %3[i5] := %3[i5] + %2[i5, i6] }} }}
           for i7 in 0..{rows} {{ for i8 in 0..{columns} {{ %4[i7, i8] := %2[i7, i8] / %3[i7] }} }}
         }}"
    )
}

#[test]
fn softmax_is_one_kernel_that_reads_and_writes_each_element_once() {
    for (rows, columns, launch) in [(64, 40, (64, 40)), (9, 300, (9, 256)), (100, 10, (100, 1))] {
        let schedule = scheduled(&softmax(rows, columns));
        assert_eq!(launches(&schedule), [launch], "{rows} × {columns}");
        let bytes = (rows * columns * 4) as f64;
        // A thread that computes a whole row keeps its statistics in a temporary.
        let passes = if columns < 32 { 4.0 } else { 2.0 };
        assert_eq!(schedule.kernels()[0].abi().cost.bytes, passes * bytes, "{rows} × {columns}");
    }
}

#[test]
fn rows_that_threads_hold_are_read_and_written_once() {
    // Rows of whole steps of vectors, rows with a remainder, and rows that are not made of vectors.
    for (columns, threads) in [(128, 32), (512, 128), (1000, 128), (2052, 256), (1001, 256)] {
        let schedule = check_on(&filled(parse(&softmax(3, columns))), &large_gpu());
        assert_eq!(launches(&schedule), [(3, threads)], "{columns}");
        let kernel = &schedule.kernels()[0];
        assert_eq!(kernel.abi().cost.bytes, (2 * 3 * columns * 4) as f64, "{columns}");
        let text = lowered_ir::text::print(kernel.ir());
        assert_eq!(
            text.matches("%0[i0").count(),
            if columns % 512 == 0 || columns == 128 { 1 } else { 2 },
            "{text}"
        );
        assert!(!text.contains(&format!("[{columns}] workgroup")), "{text}");
    }
    // Rows too short for vectorized accesses and rows too long for registers, which threads share element by
    // element.
    for columns in [40, 36_000] {
        let text =
            lowered_ir::text::print(planned_on(&softmax(1024, columns), &large_gpu()).kernels()[0].ir());
        assert!(text.matches("%0[i0").count() > 2, "{text}");
    }
}

#[test]
fn sums_by_runs_are_close_to_those_in_order() {
    for (rows, columns, axis) in [(3, 4096, 1), (3, 1036, 1), (1, 16_400, 1), (2, 65_536, 0)] {
        check_on(&filled(parse(&sums(rows, columns, axis, "f32"))), &large_gpu());
    }
    // Threads share both loops, and other threads run the remainder of the inner one.
    let schedule = check_on(
        &filled(parse(
            "routine @sums fast {
               node %0 \"x\" f32[3, 6, 136] on_device
               node %1 \"s\" f32[3] on_device
               for i0 in 0..3 { for i1 in 0..6 { for i2 in 0..136 { %1[i0] := %1[i0] + %0[i0, i1, i2] } } }
             }",
        )),
        &large_gpu(),
    );
    assert_eq!(launches(&schedule), [(3, 128)]);
}

#[test]
fn sums_of_columns_take_runs_where_threads_are_left() {
    let schedule = planned_on(&sums(4096, 1024, 0, "f32"), &large_gpu());
    assert_eq!(launches(&schedule), [(128 * 256, 1), (32, 256)]);
    let text = lowered_ir::text::print(schedule.kernels()[0].ir());
    assert!(text.contains("for i2 in 0..32") && text.contains("vector"), "{text}");
    // With fewer columns, each has a thread.
    assert_eq!(launches(&planned_on(&sums(4096, 96, 0, "f32"), &large_gpu()))[0].1, 256);
}

#[test]
fn layer_norm_is_one_kernel() {
    let schedule = scheduled(
        "routine @norm fast {
           node %0 \"x\" f32[80, 96] on_device
           node %1 \"m\" f32[80] local
           node %2 \"v\" f32[80] local
           node %3 \"g\" f32[96] on_device
           node %4 \"y\" f32[80, 96] on_device
           zero %1
           for i0 in 0..80 { for i1 in 0..96 { %1[i0] := %1[i0] + %0[i0, i1] * 0.0104166f32 } }
           zero %2
           for i2 in 0..80 { for i3 in 0..96 {
             %2[i2] := %2[i2] + (%0[i2, i3] - %1[i2]) * (%0[i2, i3] - %1[i2])
           } }
           for i4 in 0..80 { for i5 in 0..96 {
             %4[i4, i5] := (%0[i4, i5] - %1[i4]) * recip_sqrt(%2[i4] * 0.0104166f32 + 1e-5f32) * %3[i5]
           } }
         }",
    );
    assert_eq!(launches(&schedule), [(80, 96)]);
    assert_eq!(schedule.temps().len(), 0);
}

/// A loop that has no node in common with the one behind it has one with the loop that this one becomes part
/// of. The second loop here is the decay of an optimizer, the next two update its state.
#[test]
fn an_optimizer_is_one_kernel() {
    let schedule = scheduled(
        "routine @adam fast {
           node %0 \"w\" f32[1000] on_device
           node %1 \"m\" f32[1000] on_device
           node %2 \"v\" f32[1000] on_device
           node %3 \"g\" f32[1000] on_device
           for i0 in 0..1000 { %0[i0] := %0[i0] * 0.99f32 }
           for i1 in 0..1000 { %1[i1] := %1[i1] * 0.9f32 + %3[i1] * 0.1f32 }
           for i2 in 0..1000 { %2[i2] := %2[i2] * 0.999f32 + %3[i2] * %3[i2] }
           for i3 in 0..1000 { %0[i3] := %0[i3] - %1[i3] / (sqrt(%2[i3]) + 1.0f32) }
         }",
    );
    assert_eq!(launches(&schedule).len(), 1);
}

/// A loss adds what each row reduces to, and computes a logarithm once per row.
#[test]
fn sums_of_rows_are_two_passes() {
    let schedule = scheduled(
        "routine @loss fast {
           node %0 \"x\" f32[40, 12] on_device
           node %1 \"z\" f32[40] on_device
           node %2 \"loss\" f32[2] on_device
           for i0 in 0..40 {
             declare l0 f32[] register
             l0 := log(%1[i0])
             for i1 in 0..12 { %2[1] := %2[1] + (%0[i0, i1] - l0) }
           }
         }",
    );
    let first = launches(&schedule)[0];
    assert!(schedule.calls().len() == 2 && first.0 * u64::from(first.1) >= 40, "{:?}", launches(&schedule));
}

/// The gradient of an embedding: rows of a batch are added at computed places, in parts.
#[test]
fn sums_at_computed_places_are_split() {
    let scatter = |class: &str, tokens: usize| {
        format!(
            "routine @embed {class} {{
               node %0 \"table\" f32[6, 8] on_device
               node %1 \"ids\" i32[4, {tokens}] on_device
               node %2 \"x\" f32[4, {tokens}, 8] on_device
               for i0 in 0..4 {{ for i1 in 0..{tokens} {{ for i2 in 0..8 {{
                 scatter + %0[{{%1[i0, i1]}}, i2] := %2[i0, i1, i2]
               }} }} }}
             }}"
        )
    };
    for (tokens, kernels) in [(128, 3), (96, 3), (5, 1)] {
        let schedule = scheduled(&scatter("fast", tokens));
        assert_eq!(launches(&schedule).len(), kernels, "{tokens}");
        let threads = schedule
            .kernels()
            .iter()
            .map(|kernel| kernel.abi().launch)
            .map(|l| l.extent * u64::from(l.threads));
        assert!(kernels == 1 || threads.max() >= Some(48), "{tokens}");
        assert_eq!(launches(&planned(&scatter("strict", tokens))).len(), 1);
    }
    // A step that reads sums needs those of the steps before.
    let reads = scatter("fast", 128).replace(":= %2[i0, i1, i2]", ":= %2[i0, i1, i2] * %0[0, i2]");
    assert_eq!(launches(&scheduled(&reads)).len(), 1);
    // The parts of a large table would take more memory than the split saves time.
    let large = scatter("fast", 128).replace("f32[6, 8]", "f32[8388608, 8]");
    assert_eq!(launches(&planned(&large)).len(), 1);
}

fn sums(rows: usize, columns: usize, axis: usize, dtype: &str) -> String {
    let kept = if axis == 1 { rows } else { columns };
    let at = if axis == 1 { "i0" } else { "i1" };
    format!(
        "routine @sums fast {{
           node %0 \"x\" {dtype}[{rows}, {columns}] on_device
           node %1 \"s\" {dtype}[{kept}] on_device
           for i0 in 0..{rows} {{ for i1 in 0..{columns} {{ %1[{at}] := %1[{at}] + %0[i0, i1] }} }}
         }}"
    )
}

#[test]
fn reductions_use_as_many_threads_as_they_have_work_for() {
    let cases = [
        // One workgroup per row, and one thread per short row.
        ((200, 512, 1), vec![(200, 256)]),
        ((200, 31, 1), vec![(200, 1)]),
        // Blocks of columns, the last of them narrower.
        ((64, 96, 0), vec![(3, 256)]),
        ((64, 40, 0), vec![(1, 256), (1, 256)]),
        // Enough columns for one thread each.
        ((9, 20_000, 0), vec![(20_000, 1)]),
        // Few long rows: chunks, then their results.
        ((2, 40_960, 1), vec![(20, 256), (2, 1)]),
        ((40_960, 8, 0), vec![(256, 256), (1, 256)]),
    ];
    for ((rows, columns, axis), expected) in cases {
        let found = launches(&planned(&sums(rows, columns, axis, "f32")));
        assert_eq!(found, expected, "{rows} × {columns} along {axis}");
    }
}

#[test]
fn sums_by_threads_are_close_to_those_in_order() {
    for (rows, columns, axis) in [(5, 600, 1), (40, 40, 0), (1, 8210, 1), (1100, 8, 0)] {
        scheduled(&sums(rows, columns, axis, "f32"));
    }
}

#[test]
fn integers_keep_their_bits_whatever_the_order() {
    for (rows, columns, axis) in [(1, 8200, 1), (1100, 3, 0), (9, 33, 0), (9, 70, 1)] {
        let case = filled(parse(&sums(rows, columns, axis, "i32")));
        assert_eq!(on_gpu(&case).1, as_written(&case), "{rows} × {columns} along {axis}");
    }
}

#[test]
fn a_total_is_a_two_pass_reduction_of_many_workgroups() {
    for (n, groups) in [(100_000, 20), (100_003, 24), (5000, 1), (8200, 2)] {
        let schedule = planned(&format!(
            "routine @total fast {{
               node %0 \"x\" f32[{n}] on_device
               node %1 \"s\" f32[] on_device
               zero %1
               for i0 in 0..{n} {{ %1[] := %1[] + %0[i0] }}
             }}"
        ));
        assert_eq!(launches(&schedule)[0], (groups, 256), "{n}: {:?}", launches(&schedule));
        // Each kernel writes one node: the partial sums of whole chunks, the partial sum of the last chunk,
        // or the total.
        let writes =
            |param: &&Param| matches!(param, Param::Node { access: Access::Write | Access::WritePart, .. });
        assert!(schedule.kernels().iter().all(|k| k.abi().params.iter().filter(writes).count() == 1));
    }
}

#[test]
fn recurrences_share_each_step_among_the_threads() {
    let schedule = scheduled(
        "routine @recurrence fast {
           node %0 \"w\" f32[48, 48] on_device
           node %1 \"h\" f32[48] on_device
           node %2 \"next\" f32[48] on_device
           for i0 in 0..5 {
             for i1 in 0..48 {
               declare l0 f32[] register
               for i2 in 0..48 { l0 := l0 + %0[i1, i2] * %1[i2] }
               %2[i1] := l0 * 0.01f32
             }
             for i3 in 0..48 { %1[i3] := %2[i3] }
           }
         }",
    );
    assert_eq!(launches(&schedule), [(1, 48)]);
}

/// `c[b, m, n] += a[b, m, k] * b[b, k, n]`, with an epilogue.
fn product(batch: usize, m: usize, n: usize, k: usize, transposed: bool, start: &str, after: &str) -> String {
    let (a_dims, a_at) = match transposed {
        false => (format!("{batch}, {m}, {k}"), "i0, i1, i3"),
        true => (format!("{batch}, {k}, {m}"), "i0, i3, i1"),
    };
    format!(
        "routine @product fast {{
           node %0 \"a\" f32[{a_dims}] on_device
           node %1 \"b\" f32[{batch}, {k}, {n}] on_device
           node %2 \"c\" f32[{batch}, {m}, {n}] on_device
           node %3 \"bias\" f32[{n}] on_device
           {start}
           for i0 in 0..{batch} {{ for i1 in 0..{m} {{ for i2 in 0..{n} {{ for i3 in 0..{k} {{
             %2[i0, i1, i2] := %2[i0, i1, i2] + %0[{a_at}] * %1[i0, i3, i2]
           }} }} }} }}
           for i4 in 0..{batch} {{ for i5 in 0..{m} {{ for i6 in 0..{n} {{
             %2[i4, i5, i6] := {after}
           }} }} }}
         }}"
    )
}

#[test]
fn products_of_all_sizes_have_the_bits_of_the_cpu() {
    let bias = "relu(%2[i4, i5, i6] + %3[i6])";
    let plain = "%2[i4, i5, i6]";
    let cases = [
        // The size of the digits example: one tile high, ten columns.
        (1, 64, 10, 24, false, "zero %2", bias),
        // Whole tiles, and transposed.
        (1, 32, 32, 24, false, "zero %2", plain),
        (1, 16, 24, 33, true, "", bias),
        // Rows, columns and k beyond whole tiles.
        (1, 34, 37, 21, false, "zero %2", bias),
        (1, 17, 19, 5, true, "", plain),
        // Batches.
        (3, 20, 16, 16, false, "zero %2", bias),
        // Too few columns for tiles, and too few rows.
        (1, 20, 3, 16, false, "zero %2", plain),
        (2, 2, 40, 16, false, "zero %2", plain),
    ];
    for (batch, m, n, k, transposed, start, after) in cases {
        let case = filled(parse(&product(batch, m, n, k, transposed, start, after)));
        check_gpu(&case);
        let cpu = steps(&case).1;
        assert!(on_gpu(&case).1 == cpu, "{batch} × {m} × {n} × {k}: other bits than on a CPU");
    }
}

#[test]
fn a_product_is_tiles_in_workgroups_with_what_comes_after_in_the_same_kernel() {
    let schedule = planned(&product(8, 128, 128, 32, false, "zero %2", "relu(%2[i4, i5, i6] + %3[i6])"));
    assert_eq!(launches(&schedule), [(8 * 4 * 4, 64)]);
    let schedule = planned(&product(1, 64, 10, 64, false, "zero %2", "relu(%2[i4, i5, i6] + %3[i6])"));
    assert_eq!(launches(&schedule), [(4, 80)]);
    // Outputs beyond whole tiles have kernels of their own.
    let schedule = planned(&product(1, 130, 66, 16, false, "zero %2", "%2[i4, i5, i6]"));
    assert!(launches(&schedule).len() > 1);
}

/// Blocks of `k` of all lengths, double-buffered.
#[test]
fn products_read_ahead_have_the_same_bits() {
    let bias = "relu(%2[i4, i5, i6] + %3[i6])";
    let caps = large_gpu();
    for (m, n, k, transposed) in [
        (16, 16, 16, false),
        (16, 16, 32, false),
        (32, 16, 39, false),
        (16, 20, 65, true),
        (17, 35, 48, false),
        (20, 16, 57, true),
    ] {
        let start = if transposed { "" } else { "zero %2" };
        let case = filled(parse(&product(1, m, n, k, transposed, start, bias)));
        let cpu = steps(&case).1;
        assert!(on(&case, &caps).1 == cpu, "{m} × {n} × {k}: other bits than on a CPU");
    }
}

#[test]
fn large_tiles_are_for_many_outputs_and_short_epilogues() {
    let relu = "relu(%2[i4, i5, i6])";
    let first = |batch, m, n, k, after| {
        let source = product(batch, m, n, k, false, "zero %2", after);
        launches(&planned_on(&source, &large_gpu()))[0]
    };
    // Tiles of 128 × 128: with a remainder, and dividing both sides.
    assert_eq!(first(1, 1024, 2048, 64, relu), (8 * 16, 256));
    assert_eq!(first(1, 1100, 2050, 33, relu), (8 * 16, 256));
    assert_eq!(first(1, 1040, 2080, 9, relu), (10 * 20, 169));
    assert_eq!(first(1, 16_384, 64, 64, relu), (128, 128));
    assert_eq!(first(128, 128, 128, 8, relu), (128, 256));
    // Smaller tiles: too few large tiles, too few rows or columns, a long epilogue, short blocks of `k`.
    assert_eq!(first(1, 1024, 1024, 64, relu), (16 * 16, 256));
    assert_eq!(first(1, 65_536, 40, 64, relu).1, 160);
    assert_eq!(first(1, 1024, 2048, 64, "exp(%2[i4, i5, i6])"), (16 * 32, 256));
    assert_eq!(first(1, 1024, 2048, 3, relu), (16 * 32, 256));
    // Doubles take two registers each.
    let doubles = product(1, 1024, 2048, 64, false, "zero %2", relu).replace("f32", "f64");
    assert_eq!(launches(&planned_on(&doubles, &large_gpu()))[0], (16 * 32, 256));
    // A target that states no registers.
    let source = product(1, 1024, 2048, 64, false, "zero %2", relu);
    assert_eq!(launches(&planned(&source))[0], (16 * 32, 256));
}

/// Random sizes: kernels are valid, and their tiles cover every output once.
#[test]
fn products_of_awkward_sizes_are_covered() {
    let mut state = 7u64;
    let mut draw = |most: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (1 + (state >> 33) % most) as usize
    };
    for _ in 0..60 {
        let (batch, m, n, k) = (draw(3), draw(3000), draw(3000), draw(70));
        let source = product(batch, m, n, k, draw(2) == 1, "zero %2", "%2[i4, i5, i6] + %3[i6]");
        let schedule = planned_on(&source, &large_gpu());
        let flops: u64 =
            schedule.calls().iter().map(|call| schedule.kernels()[call.kernel].abi().cost.flops as u64).sum();
        let outputs = (batch * m * n) as u64;
        assert_eq!(flops, outputs * (2 * k as u64 + 1), "{batch} × {m} × {n} × {k}");
    }
}
