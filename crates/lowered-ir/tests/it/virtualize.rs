//! Virtualization: the nodes that are inlined, and every reason for a rejection.

use crate::routines::{T, USE, routine};

use lowered_ir::interp::{self, Memory};
use lowered_ir::ir::{LoweredRoutine, NodeRef};
use lowered_ir::passes::virtualize;
use lowered_ir::pipeline::{OptimizeSettings, optimize};
use lowered_ir::{text, verify};

/// Checks that `t` cannot be inlined in the body: an undecided `t` is rejected with this reason; a `t` that
/// is specified as virtual is an error with it.
fn rejected(body: &str, expected: &str) {
    let mut open = routine("", body);
    let before = text::print(&open);
    let rejections = virtualize::virtualize(&mut open, &[T]);
    let texts: Vec<String> = rejections.iter().map(|(_, rejection)| rejection.to_string()).collect();
    assert_eq!(texts, [expected], "{before}");
    assert_eq!(text::print(&open), before, "a rejection leaves the routine as it was");
    let error =
        optimize(routine("virtual", body), &OptimizeSettings::default()).expect_err("t cannot be virtual");
    let message = error.to_string();
    assert!(
        message.starts_with("routine \"t\": node %2 \"t\" is virtual, but cannot be because "),
        "{message}"
    );
}

/// Bodies in which `t` cannot be inlined, with the reason. `USE` stands for a use of every element.
const REJECTED: &[(&str, &[&str])] = &[
    ("no statement of this routine computes it", &["USE"]),
    (
        "it is set at index `2*i0`, and finding the iteration that sets an element which is used takes a division",
        &["zero %2\nfor i0 in 0..2 { %2[2*i0] := %0[i0] }\nUSE"],
    ),
    (
        "setters within one loop nest store at different indices that may meet",
        &[
            "for i0 in 0..4 { %2[i0] := %0[i0]\n%2[0] := 1.0f32 }\nUSE",
            "for i0 in 0..4 { for i1 in 0..4 { %2[i1] := %0[i0] }\n%2[i0] := 1.0f32 }\nUSE",
        ],
    ),
    (
        "an element is computed from other elements of the node itself",
        &[
            "zero %2\nfor i0 in 0..4 { %2[i0] := %2[-i0 + 3] + 1.0f32 }\nUSE",
            "zero %2\nfor i0 in 0..4 { %2[i0] := guarded(0 <= i0 - 1 < 4, %2[i0 - 1], 0.0f32) + %0[i0] }\nUSE",
        ],
    ),
    (
        // The pass does not know which element a read at a computed index reads, even if that is always the
        // element being computed.
        "it is accessed at a computed index",
        &[
            "zero %2\nfor i0 in 0..4 { %2[i0] := %0[i0] + gather(%2[{index i32(i0)}], 1.0f32) }\nUSE",
            "for i0 in 0..4 { %2[i0] := %0[i0] }
             for i8 in 0..4 { %4[i8] := gather(%2[{index i32(i8)}], 1.0f32) }",
            "for i0 in 0..4 { %2[i0] := %0[i0] }
             for i8 in 0..4 { %4[i8] := gather(%2[{index i64(i8)}], 0.0f32) }",
            "zero %2\nfor i0 in 0..4 { scatter %2[{index i32(i0)}] := %0[i0] }\nUSE",
            "zero %2\nfor i0 in 0..4 { scatter %2[{index i64(i0)}] := %0[i0] }\nUSE",
        ],
    ),
    (
        "its computation uses the local l0 from outside of its loops",
        &["declare l0 f32[] register\nl0 := 1.0f32\nfor i0 in 0..4 { %2[i0] := l0 }\nUSE"],
    ),
    (
        "its computation carries the local l0 from one element to the next",
        &[
            "for i1 in 0..1 { declare l0 f32[] register\nfor i0 in 0..4 { l0 := l0 + %0[i0]\n%2[i0] := l0 } }\nUSE",
        ],
    ),
    (
        "it is used before its last setter is done",
        &[
            "for i0 in 0..4 { %2[i0] := %0[i0] }\nUSE\nfor i1 in 0..4 { %2[i1] := 1.0f32 }",
            // The use is in the nest of the setter: before it in the text, of an element of a later
            // iteration, or in the middle of a sum.
            "zero %2\nfor i0 in 0..4 { %4[i0] := %2[i0]\n%2[i0] := %0[i0] }",
            "zero %2\nfor i0 in 0..4 { %2[i0] := %0[i0]\n%4[i0] := %2[-i0 + 3] }",
            "zero %2
             for i1 in 0..4 { for i0 in 0..4 { %2[i0] := %2[i0] + %1[i0, i1]\n%4[i0] := %2[i0] } }",
        ],
    ),
    (
        "its input \"x\" is overwritten before its last use",
        &[
            "for i0 in 0..4 { %2[i0] := %0[i0] + 1.0f32 }\nzero %0\nUSE",
            // The statement that uses `t` overwrites the input: at another element, repeatedly in a loop, or
            // before the use.
            "for i0 in 0..4 { %2[i0] := %0[i0] + 1.0f32 }\nfor i1 in 0..4 { %0[-i1 + 3] := %2[i1] }",
            "for i0 in 0..4 { %2[i0] := %0[i0] + 1.0f32 }
             for i1 in 0..4 { for i2 in 0..2 { %0[i1] := %2[i1] } }",
            "for i0 in 0..4 { %2[i0] := %0[i0] + 1.0f32 }
             for i1 in 0..4 { %0[i1] := 1.0f32\n%4[i1] := %2[i1] }",
            // The loop of the setter overwrites the input.
            "for i0 in 0..4 { %2[i0] := %0[i0]\n%0[i0] := 1.0f32 }\nUSE",
        ],
    ),
    (
        "its computation has a loop, and it is used inside a vector loop",
        &["zero %2\nfor i0 in 0..4 { for i1 in 0..4 { %2[i0] := %2[i0] + %1[i0, i1] } }
           for i8 in 0..4 vector { %4[i8] := %2[i8] }"],
    ),
    (
        "a use needs its computation guarded, which a read of the merge buffer cannot be",
        &["for i0 in 0..4 { %2[i0] := merge %0[i0] }
           for i8 in 0..4 { %4[i8] := guarded(0 <= i8 - 1 < 4, %2[i8 - 1], 0.0f32) }"],
    ),
    (
        "a use needs its computation guarded, which a read at a computed index cannot be",
        &["zero %2\nfor i0 in 0..3 { %2[i0 + 1] := gather(%1[{index i64(@s)}, i0], -1.0f32) }
           for i8 in 0..4 { %4[i8] := %2[i8] }"],
    ),
];

#[test]
fn what_cannot_be_inlined_is_rejected() {
    for (expected, bodies) in REJECTED {
        bodies.iter().for_each(|body| rejected(&body.replace("USE", USE), expected));
    }
}

/// A scan over 4 steps that ends before the first step in which `go` is 0.
fn ended_scan(go: &str, t: &str) -> LoweredRoutine {
    let source = format!(
        "routine @t strict {{\nnode %0 \"x\" f32[4] on_device\nnode %1 \"go\" f32[] {go}\n\
         node %2 \"t\" f32[4] {t}\nnode %3 \"out\" f32[4] on_device\n\
         zero %2\nzero %3\n%1[] := 1.0f32\nfor i0 in 0..4 while %1 scan {{\n\
         %2[i0] := %0[i0]\n%1[] := %0[i0] - 0.5f32\n}}\n\
         for i1 in 0..4 {{ %3[i1] := %2[i1] }}\n}}\n"
    );
    let routine = text::parse(&source).unwrap_or_else(|e| panic!("{e}\n{source}"));
    verify::verify(&routine).unwrap_or_else(|e| panic!("{e}\n{source}"));
    routine
}

#[test]
fn the_condition_and_the_results_of_a_scan_that_ends_early_are_rejected() {
    let condition = (1, ["virtual", ""], "it is the condition of a scan, which is read from memory");
    let result = (2, ["", "virtual"], "a condition may end the scan that computes it");
    for (node, [go, t], what) in [condition, result] {
        let rejections = virtualize::virtualize(&mut ended_scan("", ""), &[NodeRef(node)]);
        assert_eq!(rejections.iter().map(|(_, why)| why.to_string()).collect::<Vec<_>>(), [what]);
        let error = optimize(ended_scan(go, t), &OptimizeSettings::default()).expect_err("rejected");
        assert!(error.to_string().contains(&format!("is virtual, but cannot be because {what}")), "{error}");
    }
}

#[test]
fn gathers_in_a_computation_are_repeated() {
    inlined(&format!("for i0 in 0..4 {{ %2[i0] := gather(%1[{{index i64(@s)}}, i0], -1.0f32) }}\n{USE}"));
}

/// Checks that `t` is inlined in the body if it must be virtual, and that the body then computes the same
/// bits. Returns the optimized text.
#[track_caller]
fn inlined(body: &str) -> String {
    let before = routine("virtual", body);
    let mut after = before.clone();
    assert_eq!(virtualize::virtualize(&mut after, &[T]), [], "{}", text::print(&before));
    let listing = text::print(&after);
    verify::verify(&after).unwrap_or_else(|e| panic!("{e}\n{listing}"));
    for binding in 0..4 {
        let run = |routine: &LoweredRoutine| {
            let mut memory = Memory::zeroed(routine);
            for (seed, bytes) in memory.nodes.iter_mut().enumerate() {
                if seed != T.index() {
                    let values = (0..bytes.len() / 4).map(|i| ((7 * i + 3 * seed) % 11) as f32 - 4.5);
                    *bytes = values.flat_map(f32::to_le_bytes).collect();
                }
            }
            interp::run(routine, &mut memory, &[binding]).unwrap_or_else(|e| panic!("{e}\n{listing}"));
            memory.nodes.remove(T.index());
            memory.nodes
        };
        assert_eq!(run(&before), run(&after), "{listing}");
    }
    listing
}

#[test]
fn offset_strided_reversed_and_partial_setters_are_inlined() {
    let setters = [
        "zero %2\nfor i0 in 0..3 { %2[i0 + 1] := %0[i0] }",
        "zero %2\nfor i0 in 0..4 { %2[-i0 + 3] := %0[i0] }",
        "for i0 in 0..4 { %2[i0] := 1.0f32 }\nfor i1 in 1..3 { %2[i1] := %0[i1] }",
        "zero %2\nfor i0 in 0..4 { for i1 in 0..3 { %2[i0] := %2[i0] + %1[i0, i1] } }\nfor i2 in 0..2 { %2[i2 + 1] := %2[i2 + 1] * %0[i2] }",
        "zero %2\n%2[1] := 1.0f32",
        "zero %2\n%2[@s] := 1.0f32",
        "zero %2\nfor i0 in 0..min(4, @s) { %2[i0] := %0[i0] }",
        "zero %2\nfor i0 in 0..2 { for i1 in 0..2 { %2[2*i0 + i1] := %1[i0, i1] } }",
        "zero %2\nfor i0 in 0..3 { for i1 in 0..2 { %2[i0 + i1] := %2[i0 + i1] + %1[i0, i1] } }",
        "for i0 in 0..2 { %2[i0] := %0[i0]\n%2[i0 + 2] := %0[i0 + 1] }",
        "for i0 in 0..2 { %2[2*i0] := %0[i0]\n%2[2*i0 + 1] := %0[i0 + 1] }",
    ];
    let uses = [
        USE,
        "for i8 in 0..4 { %4[i8] := %2[-i8 + 3] }",
        "for i8 in 0..2 { for i9 in 0..2 { %4[2*i8 + i9] := %2[2*i8 + i9] + %2[i9] } }",
        "for i8 in 0..4 { %4[i8] := guarded(1 <= i8 < 4, %2[i8 - 1], 9.0f32) }",
        "for i8 in 0..4 { %4[i8] := %2[2] }",
        "%4[0] := %2[@s]",
    ];
    for (setter, user) in setters.iter().flat_map(|s| uses.iter().map(move |u| (s, u))) {
        // The setter at `2*i0` would have to run with `i0` equal to half of the position that is used, and a
        // half is no affine index.
        if setter.contains("2*i0] := %0") && !user.contains("2*i8 + i9") && !user.contains("%2[2]") {
            continue;
        }
        if setter.contains("2*i0] := %0") && user.contains("%2[i9]") {
            continue;
        }
        inlined(&format!("{setter}\n{user}"));
    }
}

#[test]
fn equal_structure_is_substituted() {
    let body = "for i0 in 0..2 { for i1 in 0..2 { %2[2*i0 + i1] := %1[i0, i1] } }\n\
                for i8 in 0..2 { for i9 in 0..2 { %4[2*i8 + i9] := %2[2*i8 + i9] } }";
    let text = inlined(body);
    assert!(text.contains("%4[2*i8 + i9] := %1[i8, i9]"), "{text}");
}

#[test]
fn uses_within_the_setting_nest_are_inlined() {
    let fused = "for i0 in 0..4 { %2[i0] := %0[i0] * 2.0f32\n%4[i0] := %2[i0] + 1.0f32 }";
    let text = inlined(fused);
    assert!(text.contains("%4[i0] := %0[i0] * 2.0f32 + 1.0f32"), "{text}");
    // The use may read an element of an earlier iteration or a completed sum, and may overwrite an input
    // element by element.
    inlined(
        "zero %2\nfor i0 in 0..4 { %2[i0] := %0[i0]\n%4[i0] := guarded(1 <= i0 < 4, %2[i0 - 1], 0.0f32) }",
    );
    inlined(
        "for i0 in 0..4 { %2[i0] := 0.0f32\nfor i1 in 0..4 { %2[i0] := %2[i0] + %1[i0, i1] }\n%4[i0] := %2[i0] }",
    );
    inlined("for i0 in 0..4 { %2[i0] := %0[i0] * 0.5f32\n%0[i0] := %0[i0] - %2[i0] }");
}

#[test]
fn loops_in_another_order_are_rejected() {
    // The index is a mixed-radix number, so each element has one iteration, and the order of the loops does
    // not matter.
    let digits = "for i0 in 0..2 { for i1 in 0..2 { %2[i0 + 2*i1] := %2[i0 + 2*i1] + %1[i0, i1] } }";
    inlined(&format!("zero %2\n{digits}\n{USE}"));
    inlined(&format!(
        "zero %2\nfor i0 in 0..2 {{ for i1 in 0..2 {{ for i2 in 0..2 {{ %2[i0 + 2*i1] := %1[i0, i2] }} }} }}\n{USE}"
    ));
    // Windows overlap, and the sum of an element would run from its last iteration to its first.
    let source = "routine @o strict {\nnode %0 \"x\" f32[3] on_device\nnode %1 \"t\" f32[5] virtual\nnode %2 \"y\" f32[5] on_device\n\
                  zero %1\nfor i0 in 0..3 { for i1 in 0..2 { %1[i0 + 2*i1] := %1[i0 + 2*i1] + %0[i0] } }\n\
                  for i8 in 0..5 { %2[i8] := %1[i8] }\n}";
    let mut windows = text::parse(source).unwrap_or_else(|e| panic!("{e}"));
    let rejections = virtualize::virtualize(&mut windows, &[NodeRef(1)]);
    let what =
        "it is set at index `i0 + 2*i1`, and for one element alone its loops would run in another order";
    assert_eq!(rejections[0].1.to_string(), what);
}

#[test]
fn a_searched_nest_with_more_than_one_store_is_rejected() {
    let what = "its loops can be searched for an element only if they hold one store and nothing else";
    let nest = "for i0 in 0..2 { declare l0 f32[] register\nl0 := %0[i0]\nfor i1 in 0..2 { l0 := l0 + 1.0f32\n%2[i0 + 2*i1] := l0 } }";
    let mut asked = routine("virtual", &format!("{nest}\n{USE}"));
    let rejections = virtualize::virtualize(&mut asked, &[T]);
    assert_eq!(rejections[0].1.to_string(), what);
}

#[test]
fn a_search_that_nobody_asked_for_is_rejected() {
    let body = format!("for i0 in 0..2 {{ for i1 in 0..2 {{ %2[2*i0 + i1] := %1[i0, i1] }} }}\n{USE}");
    let mut open = routine("", &body);
    let rejections = virtualize::virtualize(&mut open, &[T]);
    let texts: Vec<String> = rejections.iter().map(|(_, rejection)| rejection.to_string()).collect();
    let what = "it is set at index `2*i0 + i1`, so every use would search the iterations for those that set its element";
    assert_eq!(texts, [what]);
    inlined(&body);
}

#[test]
fn a_chain_of_windows_grows_too_large_and_is_rejected() {
    let mut source = String::from("routine @w strict {\nnode %0 \"n0\" f32[64] on_device\n");
    for i in 1..=12 {
        source += &format!(
            "node %{i} \"n{i}\" f32[{}] {}\n",
            64 - 2 * i,
            if i < 12 { "virtual" } else { "on_device" }
        );
    }
    for i in 1..=12 {
        let p = i - 1;
        source += &format!(
            "for i{i} in 0..{} {{ %{i}[i{i}] := %{p}[i{i}] + %{p}[i{i} + 1] * %{p}[i{i} + 2] }}\n",
            64 - 2 * i
        );
    }
    let windows = text::parse(&(source + "}\n")).unwrap_or_else(|e| panic!("{e}"));
    let error = optimize(windows, &OptimizeSettings::default()).expect_err("3 to the power of 11 reads");
    assert!(error.to_string().contains("more than 16384 operations"), "{error}");
}

#[test]
fn a_long_chain_of_virtual_nodes_stays_shallow_and_small() {
    let mut source = String::from("routine @c strict {\nnode %0 \"n0\" f32[4] on_device\n");
    for i in 1..=300 {
        source += &format!("node %{i} \"n{i}\" f32[4] {}\n", if i < 300 { "virtual" } else { "on_device" });
    }
    for i in 1..=300 {
        source += &format!("for i{i} in 0..4 {{ %{i}[i{i}] := %{p}[i{i}] + %{p}[i{i}] }}\n", p = i - 1);
    }
    let chain = text::parse(&(source + "}\n")).unwrap_or_else(|e| panic!("{e}"));
    let result = optimize(chain, &OptimizeSettings::default()).unwrap_or_else(|e| panic!("{e}")).routine;
    verify::verify(&result).unwrap_or_else(|e| panic!("{e}"));
    assert!(text::print(&result).lines().count() < 1000);
}

#[test]
fn a_read_that_the_conditions_do_not_bound_is_rejected() {
    // Each of two conditions bounds one part of the index, but the verifier does not combine two ranges.
    let source = "routine @o strict {\nnode %0 \"x\" f32[16] on_device\nnode %1 \"t\" f32[6, 6] virtual\nnode %2 \"y\" f32[6, 6] on_device\n\
                  zero %1\nfor i0 in 0..4 { for i1 in 0..4 { %1[i0 + 1, i1 + 1] := %0[4*i0 + i1] } }\n\
                  for i8 in 0..3 { for i9 in 0..3 { for i10 in 0..4 { %2[i8 + i10, i9 + i10] := %1[i8 + i10, i9 + i10] } } }\n}";
    let mut windows = text::parse(source).unwrap_or_else(|e| panic!("{e}"));
    verify::verify(&windows).unwrap_or_else(|e| panic!("{e}"));
    let rejections = virtualize::virtualize(&mut windows, &[NodeRef(1)]);
    let what = "a use needs its computation guarded, which a read at an index that the guard does not bound cannot be";
    assert_eq!(rejections.first().map(|(_, rejection)| rejection.to_string()), Some(what.to_owned()));
}

#[test]
fn random_bits_are_not_chosen_among() {
    let source = |body: &str| {
        let source = format!(
            "routine @r strict {{\nnode %0 \"k\" u32x4[4] on_device\nnode %1 \"t\" u32x4[4] virtual\nnode %2 \"y\" u32x4[4] on_device\n{body}\n}}"
        );
        let routine = text::parse(&source).unwrap_or_else(|e| panic!("{e}\n{source}"));
        verify::verify(&routine).unwrap_or_else(|e| panic!("{e}"));
        routine
    };
    let random = "zero %1\nfor i0 in 0..3 { %1[i0 + 1] := threefry(%0[i0], %0[i0 + 1]) }\nfor i8 in 0..4 { %2[i8] := %1[i8] }";
    let rejections = virtualize::virtualize(&mut source(random), &[NodeRef(1)]);
    let what = "a use needs its computation guarded, which a value of type u32x4 cannot be";
    assert_eq!(rejections.first().map(|(_, rejection)| rejection.to_string()), Some(what.to_owned()));
    // A copy needs no selection between values, because a guarded read has an alternative of its own.
    let copied = "zero %1\nfor i0 in 0..3 { %1[i0 + 1] := %0[i0] }\nfor i8 in 0..4 { %2[i8] := %1[i8] }";
    let mut copy = source(copied);
    assert_eq!(virtualize::virtualize(&mut copy, &[NodeRef(1)]), []);
    verify::verify(&copy).unwrap_or_else(|e| panic!("{e}"));
}

#[test]
fn what_the_verifier_would_not_accept_is_rejected() {
    // Each loop has one iteration, so every coefficient is in bounds. The product of the two coefficients
    // exceeds the limit on offsets.
    let source = "routine @s strict {\nnode %0 \"x\" f32[1] on_device\nnode %1 \"t\" f32[1] virtual\nnode %2 \"y\" f32[1] on_device\n\
                  for i0 in 0..1 { %1[i0] := %0[1048576*i0] }\nfor i8 in 0..1 { %2[i8] := %1[1099511627776*i8] }\n}";
    let mut steep = text::parse(source).unwrap_or_else(|e| panic!("{e}"));
    verify::verify(&steep).unwrap_or_else(|e| panic!("{e}"));
    let rejections = virtualize::virtualize(&mut steep, &[NodeRef(1)]);
    let text = rejections.first().map(|(_, rejection)| rejection.to_string()).unwrap_or_default();
    assert!(text.starts_with("the statement that uses it would break a rule: "), "{text}");
}

#[test]
fn values_in_the_log_are_inlined() {
    let text = inlined("for i0 in 0..4 { %2[i0] := %0[i0] * 2.0f32\nlog \"t = \", %2[i0] }");
    assert!(text.contains("log \"t = \", %0[i0] * 2.0f32"), "{text}");
}

#[test]
fn a_statement_that_changes_a_local_for_later_stays() {
    let text = inlined(
        "declare l0 f32[] register\nfor i0 in 0..4 { l0 := l0 + %0[i0]\n%2[i0] := 1.0f32 }\n\
         for i8 in 0..4 { %4[i8] := %2[i8] + l0 }",
    );
    assert!(text.contains("l0 := l0 + %0[i0]"), "{text}");
}
