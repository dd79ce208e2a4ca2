//! The optimizer's decisions: every rule of the mode policy, and what a routine reads and writes.

use crate::routines::{T, USE, routine};

use lowered_ir::ir::{LoweredRoutine, NodeRef};
use lowered_ir::passes::access::analyze;
use lowered_ir::pipeline::{OptimizeSettings, Optimized, optimize};
use lowered_ir::text;
use tnode::MemoryMode;

fn optimized(routine: LoweredRoutine) -> Optimized {
    optimize(routine, &OptimizeSettings::default()).unwrap_or_else(|e| panic!("{e}"))
}

/// The mode of `t` after optimization.
fn mode_of_t(mode: &str, body: &str, settings: &OptimizeSettings) -> Option<MemoryMode> {
    let result = optimize(routine(mode, body), settings).unwrap_or_else(|e| panic!("{e}"));
    result.routine.node(T).mode.mode()
}

#[test]
fn the_policy_decides_open_modes() {
    use MemoryMode::{Local, Materialized, OnDevice, Virtual};
    let usual = OptimizeSettings::default();
    let copy = format!("for i0 in 0..4 {{ %2[i0] := %0[i0] }}\n{USE}");
    let costly = "for i0 in 0..4 { %2[i0] := exp(%0[i0]) }\nfor i1 in 0..4 { for i2 in 0..4 { %1[i1, i2] := %2[i1] } }";
    let sum =
        format!("zero %2\nfor i0 in 0..4 {{ for i1 in 0..4 {{ %2[i0] := %2[i0] + %1[i0, i1] }} }}\n{USE}");
    assert_eq!(mode_of_t("", &copy, &usual), Some(Virtual));
    assert_eq!(mode_of_t("never_virtual", &copy, &usual), Some(Local));
    assert_eq!(mode_of_t("device_only", &copy, &usual), Some(Local));
    assert_eq!(mode_of_t("on_device", &copy, &usual), Some(OnDevice(tnode::Sharing::Unset)));
    assert_eq!(mode_of_t("", costly, &usual), Some(Local));
    assert_eq!(mode_of_t("", costly, &OptimizeSettings { max_visits: 4, ..usual.clone() }), Some(Virtual));
    assert_eq!(mode_of_t("", &sum, &usual), Some(Local));
    assert_eq!(
        mode_of_t("", &sum, &OptimizeSettings { inline_complex_computations: true, ..usual.clone() }),
        Some(Virtual)
    );
    assert_eq!(
        mode_of_t("", &copy, &OptimizeSettings { enable_device_only: false, ..usual.clone() }),
        Some(Materialized)
    );
    let small = OptimizeSettings { stack_threshold_bytes: 8, ..usual.clone() };
    assert_eq!(mode_of_t("", &sum, &small), Some(OnDevice(tnode::Sharing::Unset)));
    assert_eq!(mode_of_t("", "zero %2", &usual), Some(Materialized));
    assert_eq!(mode_of_t("", USE, &usual), Some(Materialized));
}

#[test]
fn cheap_values_are_stored_when_asked() {
    let wide = "for i0 in 0..4 { %2[i0] := %0[i0] + 1.0f32 }\nfor i1 in 0..4 { for i2 in 0..4 { %1[i1, i2] := %2[i1] } }";
    let usual = OptimizeSettings::default();
    assert_eq!(mode_of_t("", wide, &usual), Some(MemoryMode::Virtual));
    let stored = OptimizeSettings { inline_simple_computations: false, ..usual };
    assert_eq!(mode_of_t("", wide, &stored), Some(MemoryMode::Local));
}

#[test]
fn constants_are_stored_when_asked() {
    let constant =
        "for i0 in 0..4 { %2[i0] := 2.0f32 }\nfor i1 in 0..4 { for i2 in 0..4 { %1[i1, i2] := %2[i1] } }";
    let usual = OptimizeSettings { inline_simple_computations: false, ..OptimizeSettings::default() };
    assert_eq!(mode_of_t("", constant, &usual), Some(MemoryMode::Virtual));
    let stored = OptimizeSettings { inline_scalar_constexprs: false, ..usual };
    assert_eq!(mode_of_t("", constant, &stored), Some(MemoryMode::Local));
}

#[test]
fn contradicted_modes_are_errors_that_name_the_node() {
    let message = |mode: &str, body: &str| {
        optimize(routine(mode, body), &OptimizeSettings::default()).expect_err("a contradiction").to_string()
    };
    assert_eq!(
        message("local", USE),
        "routine \"t\": node %2 \"t\" is local, but read before this routine has set it; specify `MemoryMode::Materialized` for it"
    );
    assert_eq!(
        message("virtual", "for i0 in 0..4 { %2[i0] := %2[i0] + 1.0f32 }"),
        "routine \"t\": node %2 \"t\" is virtual, but cannot be because some elements are read before this routine has written them; specify `MemoryMode::Materialized` for it, or no mode"
    );
    assert_eq!(
        message("virtual", "for i0 in 0..4 { %4[i0] := merge %2[i0] }"),
        "routine \"t\": node %2 \"t\" is virtual, but cannot be because its copy is read from the merge buffer, so another device has it in memory; specify `MemoryMode::Materialized` for it, or no mode"
    );
}

#[test]
fn inputs_are_what_is_read_first_and_outputs_what_is_written() {
    let result = optimized(routine(
        "",
        "for i0 in 0..4 { %2[i0] := %0[i0] * 2.0f32 }\nfor i1 in 0..4 { %3[i1] := %3[i1] + %2[i1] + merge %4[i1] }\nzero %4",
    ));
    assert_eq!(result.inputs, [NodeRef(0), NodeRef(3)]);
    assert_eq!(result.outputs, [NodeRef(3), NodeRef(4)]);
    assert_eq!(result.merge, Some(NodeRef(4)));
}

#[test]
fn a_read_is_initial_unless_all_it_sees_was_written() {
    let inputs = |body: &str| optimized(routine("on_device", body)).inputs;
    // Two halves cover all elements that are read; one half and a part of symbolic size do not.
    let half = |at: i64| format!("for i{at} in 0..2 {{ %2[i{at} + {at}] := 1.0f32 }}\n");
    assert_eq!(inputs(&(half(0) + &half(2) + USE)), []);
    assert_eq!(inputs(&(half(0) + USE)), [T]);
    assert_eq!(inputs(&format!("for i0 in 0..min(4, @s) {{ %2[i0] := 1.0f32 }}\n{USE}")), [T]);
    // Within one nest, an element stored by this iteration is known, one stored by another is not.
    assert_eq!(inputs("for i0 in 0..4 { %2[i0] := 1.0f32\n%4[i0] := %2[i0] }"), []);
    assert_eq!(inputs("for i0 in 0..4 { %2[i0] := 1.0f32\n%4[i0] := %2[-i0 + 3] }"), [T]);
}

#[test]
fn a_constant_node_is_no_input() {
    let result = optimized(routine("hosted_constant", USE));
    assert_eq!(result.inputs, []);
    assert_eq!(result.outputs, [NodeRef(4)]);
}

#[test]
fn two_merge_nodes_are_an_error() {
    let source = "routine @t strict {\nnode %0 \"a\" f32[] on_device\nnode %1 \"b\" f32[] on_device\n%0[] := merge %0[] + merge %1[]\n}";
    let two = text::parse(source).unwrap_or_else(|e| panic!("{e}"));
    let error = optimize(two, &OptimizeSettings::default()).expect_err("one buffer, two nodes");
    assert_eq!(error.node(), Some(NodeRef(1)));
    assert_eq!(
        error.to_string(),
        "routine \"t\": the merge buffer holds one node, but it is read as \"a\" and as \"b\""
    );
}

#[test]
fn explanations_tell_each_decision() {
    let body = format!("zero %2\nfor i0 in 0..4 {{ %2[i0] := %2[-i0 + 3] }}\n{USE}");
    let text = optimized(routine("", &body)).explain(T);
    assert!(text.contains("it is computed by a reduction"), "{text}");
    assert!(text.contains("%2 \"t\": local"), "{text}");
}

/// A rounding costs a read, so it is inlined, unless the target multiplies what memory holds in 16 bits.
#[test]
fn roundings_for_products_are_stored_on_request() {
    let text = |target: &str, reads: usize| {
        format!(
            "routine @t fast {{
               node %0 \"x\" f32[16, 16] on_device
               node %1 \"s\" f32[16, 16]
               node %2 \"y\" bf16[16, 16]
               node %3 \"z\" f32[16, 16] on_device
               for i0 in 0..16 {{ for i1 in 0..16 {{ {target} }} }}
               for i3 in 0..16 {{ for i4 in 0..16 {{ %2[i3, i4] := convert bf16(%1[i3, i4]) }} }}
               for i5 in 0..16 {{ for i6 in 0..{reads} {{ for i7 in 0..16 {{
                 %3[i5, i6] := %3[i5, i6] + convert f32(%2[i5, i7])
               }} }} }}
             }}"
        )
    };
    let is_stored = |target: &str, reads: usize, store_rounded: bool| {
        let settings = OptimizeSettings { store_rounded, ..OptimizeSettings::default() };
        let routine = text::parse(&text(target, reads)).unwrap_or_else(|e| panic!("{e}"));
        let optimized = optimize(routine, &settings).unwrap();
        !optimized.routine.node(NodeRef(2)).mode.known_virtual()
    };
    let copy = "%1[i0, i1] := %0[i0, i1]";
    let sum = "%1[i0, i1] := 0.0f32 for i2 in 0..16 { %1[i0, i1] := %1[i0, i1] + %0[i0, i2] }";
    assert!(!is_stored(copy, 16, false) && !is_stored(sum, 16, false));
    // A product reads each element 16 times, or a sum would be stored in f32.
    assert!(is_stored(copy, 16, true) && is_stored(sum, 1, true));
    assert!(!is_stored(copy, 1, true));
}

#[test]
fn visits_are_counted_exactly_where_indices_allow() {
    let visits = |body: &str| analyze(&routine("on_device", body))[NodeRef(0)].visits;
    assert_eq!(visits("for i0 in 0..4 { %4[i0] := %0[i0] }"), 1);
    assert_eq!(visits("for i0 in 0..4 { %4[i0] := %0[i0] + %0[-i0 + 3] }"), 2);
    assert_eq!(visits("for i0 in 0..4 { for i1 in 0..3 { %1[i0, i1] := %0[i1] } }"), 4);
    // A mixed-radix index reads each element once; a window of two reads elements in the middle twice.
    assert_eq!(visits("for i0 in 0..2 { for i1 in 0..2 { %1[i0, i1] := %0[2*i0 + i1] } }"), 1);
    assert_eq!(visits("for i0 in 0..3 { for i1 in 0..2 { %1[i0, i1] := %0[i0 + i1] } }"), 2);
    assert_eq!(visits("for i0 in 0..4 { %4[i0] := %0[2] }"), 4);
    // Reading the element that is about to be stored is an accumulation, not a use.
    assert_eq!(visits("for i0 in 0..4 { for i1 in 0..4 { %0[i0] := %0[i0] + %1[i0, i1] } }"), 0);
}

#[test]
fn facts_of_a_node() {
    let facts =
        analyze(&routine("", "zero %2\nfor i0 in 0..4 { %2[i0] := %0[i0]\n%3[i0] := %3[i0] + %2[i0] }"));
    let (x, t, u) = (&facts[NodeRef(0)], &facts[T], &facts[NodeRef(3)]);
    assert!(x.read_only() && !x.is_written() && x.read_before_write);
    assert!(t.zeroed && t.covered && !t.read_before_write && !t.scalar_constexpr);
    assert!(u.read_before_write && u.covered && u.uses().count() == 0);
    assert_eq!((t.writes[0].top, t.writes[1].top, t.reads[0].top), (0, 1, 1));
    assert!(t.writes[1].position < t.reads[0].position);
}

#[test]
fn cheap_on_top_of_costly_is_costly() {
    // `t` doubles a virtual quotient; each element is used four times, so it is stored with the quotient
    // inside.
    let source = "routine @q strict {\nnode %0 \"x\" f32[4] on_device\nnode %1 \"q\" f32[4] virtual\nnode %2 \"t\" f32[4]\n\
                  node %3 \"y\" f32[4, 4] on_device\nfor i0 in 0..4 { %1[i0] := %0[i0] / %0[0] }\n\
                  for i1 in 0..4 { %2[i1] := %1[i1] * 2.0f32 }\nfor i2 in 0..4 { for i3 in 0..4 { %3[i2, i3] := %2[i3] } }\n}";
    let quotient = text::parse(source).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(optimized(quotient.clone()).routine.node(T).mode.mode(), Some(MemoryMode::Local));
    // The other way round: a costly value used once by a virtual node that is used four times.
    let source = text::print(&quotient)
        .replace("\"q\" f32[4] virtual", "\"q\" f32[4]")
        .replace("\"t\" f32[4]", "\"t\" f32[4] virtual");
    let through = text::parse(&source).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(optimized(through).routine.node(NodeRef(1)).mode.mode(), Some(MemoryMode::Local));
}

#[test]
fn visits_through_virtual_users_are_counted_without_repeating_the_count() {
    // Every node of a long chain reads the one before twice: two to the power of 40 paths lead to the first.
    let mut source =
        String::from("routine @c strict {\nnode %0 \"x\" f32[4] on_device\nnode %1 \"t\" f32[4]\n");
    let last = 41;
    for i in 2..=last {
        source += &format!("node %{i} \"n{i}\" f32[4] {}\n", if i < last { "virtual" } else { "on_device" });
    }
    source += "for i1 in 0..4 { %1[i1] := exp(%0[i1]) }\n";
    for i in 2..=last {
        source += &format!("for i{i} in 0..4 {{ %{i}[i{i}] := %{p}[i{i}] * %{p}[i{i}] }}\n", p = i - 1);
    }
    let chain = text::parse(&(source + "}\n")).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(optimized(chain).routine.node(NodeRef(1)).mode.mode(), Some(MemoryMode::Local));
}

#[test]
fn a_read_of_what_an_earlier_iteration_stored_is_no_input() {
    let inputs = |body: &str| optimized(routine("on_device", body)).inputs;
    let before = "for i0 in 0..4 { %2[i0] := %0[i0]\n%4[i0] := guarded(1 <= i0 < 4, %2[i0 - 1], 0.0f32) }";
    assert_eq!(inputs(before), [NodeRef(0)]);
    let after = "for i0 in 0..4 { %2[i0] := %0[i0]\n%4[i0] := guarded(0 <= i0 < 3, %2[i0 + 1], 0.0f32) }";
    assert_eq!(inputs(after), [NodeRef(0), T]);
    let diagonal = "for i0 in 0..4 { %1[i0, i0] := %0[i0] }\nfor i1 in 0..4 { %4[i1] := %1[i1, i1] }";
    assert_eq!(inputs(diagonal), [NodeRef(0)]);
    let beside = "for i0 in 0..4 { %1[i0, i0] := %0[i0] }\nfor i1 in 0..4 { %4[i1] := %1[i1, 0] }";
    assert_eq!(inputs(beside), [NodeRef(0), NodeRef(1)]);
}
