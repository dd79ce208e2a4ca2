//! Memory modes: the two committed tables, predicates, defaults, and messages of conflicts.

use std::fmt::Write as _;

use expect_test::expect_file;
use tnode::{
    DEFAULT_STACK_THRESHOLD_BYTES, DType, ForceCtx, MemoryMode, ModeConflict, ModeState, Outcomes, Reason,
    Sharing, TensorNode,
};

/// The `old new -> result` of every row, without comments, blank lines and text after `!`.
fn rows(table: &str) -> Vec<(&str, &str, &str)> {
    let lines = table.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    lines
        .map(|line| {
            let rule = line.split_once('!').map_or(line, |(rule, _)| rule);
            let (request, result) = rule.split_once("->").expect("a row has an arrow");
            let (old, new) = request.trim().split_once(' ').expect("a row has two words before the arrow");
            (old, new, result.trim())
        })
        .collect()
}

fn mode(token: &str) -> MemoryMode {
    token.parse().expect("a mode")
}

fn state(token: &str) -> ModeState {
    match token {
        "undecided" => ModeState::undecided(),
        _ => ModeState::decided(mode(token), Reason::new("it was first")),
    }
}

fn states() -> impl Iterator<Item = (&'static str, ModeState)> {
    ["undecided"].into_iter().chain(MemoryMode::ALL.map(MemoryMode::token)).map(|token| (token, state(token)))
}

fn outcome(state: &ModeState, result: Result<(), ModeConflict>) -> String {
    match result {
        Ok(()) => state.mode().expect("decided").to_string(),
        Err(conflict) if conflict.is_user_error() => "user-error".into(),
        Err(_) => "inconsistent".into(),
    }
}

#[test]
fn refining_follows_the_table() {
    let rows = rows(include_str!("../mode_table.txt"));
    let pairs: std::collections::BTreeSet<_> =
        rows.iter().map(|&(old, new, _)| (mode(old), mode(new))).collect();
    assert_eq!((rows.len(), pairs.len()), (256, 256));
    for (old, new, expected) in rows {
        let mut state = state(old);
        let result = state.refine(mode(new), Reason::new("it was second"));
        assert_eq!(outcome(&state, result), expected, "{old} {new}");
    }
}

#[test]
fn a_rejected_request_changes_nothing() {
    for (old, new, expected) in rows(include_str!("../mode_table.txt")) {
        if expected == "inconsistent" || expected == "user-error" {
            let mut rejected = state(old);
            let before = rejected.clone();
            rejected.refine(mode(new), Reason::new("it was second")).expect_err("the table says so");
            assert_eq!(rejected, before, "{old} {new}");
        }
    }
}

#[test]
fn seven_rows_differ_from_ocannl() {
    let marked: Vec<&str> = include_str!("../mode_table.txt")
        .lines()
        .filter(|line| !line.starts_with('#') && line.contains('!'))
        .collect();
    assert_eq!(marked.len(), 7);
    for row in marked {
        let (rule, theirs) = row.split_once("! OCANNL:").expect("a marked row names what OCANNL does");
        assert_ne!(rule.split_once("->").expect("an arrow").1.trim(), theirs.trim());
    }
}

#[test]
fn sharing_follows_the_table() {
    let rows = rows(include_str!("../sharing_table.txt"));
    assert_eq!(rows.len(), 17 * 3);
    for (old, sharing, expected) in rows {
        let mut state = state(old);
        let before = state.clone();
        let sharing = match sharing {
            "unset" => Sharing::Unset,
            "per_stream" => Sharing::PerStream,
            "shared" => Sharing::Shared,
            other => panic!("{other} is no sharing"),
        };
        let result = state.refine_sharing(sharing, Reason::new("it was second"));
        let rejected = result.is_err();
        assert_eq!(outcome(&state, result), expected, "{old} {sharing:?}");
        assert!(!rejected || state == before, "{old} {sharing:?}");
    }
}

#[test]
fn anything_can_be_decided_first() {
    for mode in MemoryMode::ALL {
        let mut state = ModeState::undecided();
        state.refine(mode, Reason::new("it was first")).expect("everything is possible");
        assert_eq!((state.mode(), state.outcomes()), (Some(mode), mode.outcomes()));
    }
}

#[test]
fn names_and_sets_are_one_to_one() {
    for a in MemoryMode::ALL {
        assert_eq!(MemoryMode::named(a.outcomes()), Some(a));
        assert_eq!(a.to_string().parse(), Ok(a));
        for b in MemoryMode::ALL {
            let both = a.outcomes().intersection(b.outcomes());
            assert!(both.is_empty() || MemoryMode::named(both).is_some(), "{a} and {b}");
        }
    }
    assert_eq!(MemoryMode::named(Outcomes::ALL), None);
    assert!("On_device".parse::<MemoryMode>().is_err());
}

#[test]
fn the_chain_leads_to_the_outcomes() {
    for a in MemoryMode::ALL {
        for b in MemoryMode::ALL {
            for c in MemoryMode::ALL {
                let mut state = ModeState::undecided();
                for mode in [a, b, c] {
                    let _ = state.refine(mode, Reason::new("it was asked"));
                }
                let product = state
                    .chain()
                    .iter()
                    .fold(Outcomes::ALL, |left, step| left.intersection(step.mode.outcomes()));
                assert_eq!(product, state.outcomes());
                assert!(!product.is_empty());
            }
        }
    }
}

#[test]
fn predicates_settle_nothing() {
    let mut text = String::new();
    for (token, state) in states() {
        let before = state.clone();
        let answers = [
            ("not_materialized", state.known_not_materialized()),
            ("constant", state.known_constant()),
            ("volatile", state.known_volatile()),
            ("non_virtual", state.known_non_virtual()),
            ("virtual", state.known_virtual()),
            ("not_param", state.known_not_param()),
            ("shared", state.known_shared_cross_streams()),
            ("non_cross", state.known_non_cross_stream()),
            ("maybe_cross", state.potentially_cross_stream()),
            ("unspecified", state.is_unspecified()),
        ];
        assert_eq!(state, before);
        let known: Vec<&str> = answers.into_iter().filter(|(_, yes)| *yes).map(|(name, _)| name).collect();
        writeln!(text, "{token:<37} {:<14} {}", state.short_code(), known.join(" ")).expect("a string");
    }
    expect_file!["../predicates.txt"].assert_eq(&text);
}

fn force_ctx() -> ForceCtx {
    ForceCtx {
        elems: 6,
        dtype: DType::F32,
        stack_threshold_bytes: 16,
        reason: Reason::new("it is needed now"),
    }
}

#[test]
fn forcing_settles_most_locally() {
    let mut text = String::new();
    for (token, state) in states() {
        let mut line = format!("{token:<37}");
        type Force = fn(&mut ModeState, &ForceCtx) -> Option<bool>;
        let predicates: [(&str, Force); 5] = [
            ("virtual", |state, ctx| Some(state.is_virtual_force(ctx))),
            ("hosted", |state, ctx| Some(state.is_hosted_force(ctx))),
            ("materialized", |state, ctx| state.is_materialized_force(ctx).ok()),
            ("in_context", |state, ctx| Some(state.is_in_context_force(false, ctx))),
            ("in_context_or_host", |state, ctx| Some(state.is_in_context_force(true, ctx))),
        ];
        for (name, predicate) in predicates {
            let mut forced = state.clone();
            let answer = predicate(&mut forced, &force_ctx()).map_or("error".into(), |yes| yes.to_string());
            let settled =
                forced.mode().filter(|_| forced != state).map_or(String::new(), |m| format!(" ({m})"));
            write!(line, " {name}={answer}{settled}").expect("a string");
        }
        text += &(line + "\n");
    }
    expect_file!["../forcing.txt"].assert_eq(&text);
}

#[test]
fn the_stack_threshold_is_inclusive() {
    let settled = |elems, threshold| {
        let mut state = state("never_virtual");
        state.default_to_most_local(elems, DType::F32, threshold, Reason::new("it is needed now"));
        state.mode().expect("settled").to_string()
    };
    assert_eq!(settled(4096, DEFAULT_STACK_THRESHOLD_BYTES), "local");
    assert_eq!(settled(4097, DEFAULT_STACK_THRESHOLD_BYTES), "on_device");
    assert_eq!(settled(1 << 40, 0), "local");
    assert_eq!(settled(1, 3), "on_device");
}

/// Removes the numbers of source lines from a text, because lines of this file move.
fn without_lines(text: &str) -> String {
    let mut out = String::new();
    for part in text.split_inclusive(".rs:") {
        out += part.trim_start_matches(|c: char| c.is_ascii_digit());
    }
    out
}

#[test]
fn decisions_explain_themselves() {
    let mut state = ModeState::undecided();
    assert_eq!(state.explain("n0 w"), "n0 w: memory mode undecided\n");
    state.refine(MemoryMode::NeverVirtual, Reason::new("it is a parameter")).expect("compatible");
    state.refine(MemoryMode::EffectivelyConstant, Reason::new("nothing writes it")).expect("compatible");
    state.refine(MemoryMode::Materialized, Reason::new("this adds nothing")).expect("compatible");
    expect_test::expect![[r#"
        n0 w: hosted_constant
          1. never_virtual because it is a parameter [crates/tnode/tests/it/modes.rs:]
          2. effectively_constant because nothing writes it [crates/tnode/tests/it/modes.rs:]; leaves hosted_constant
    "#]]
    .assert_eq(&without_lines(&state.explain("n0 w")));
    let rejected = state.refine(MemoryMode::Local, Reason::new("it is small")).expect_err("incompatible");
    expect_test::expect![
        "is hosted_constant (effectively_constant because nothing writes it [crates/tnode/tests/it/modes.rs:]) and is asked to be local because it is small [crates/tnode/tests/it/modes.rs:]: the two exclude each other"
    ]
    .assert_eq(&without_lines(&rejected.to_string()));
    assert_eq!(rejected.requested().mode, MemoryMode::Local);
    assert_eq!(rejected.present().map(|d| d.mode), Some(MemoryMode::EffectivelyConstant));
}

#[test]
fn user_errors_say_what_was_asked() {
    let said = |old, new| {
        let rejected = state(old).refine(mode(new), Reason::new("it was second")).expect_err("incompatible");
        assert!(rejected.is_user_error());
        without_lines(&rejected.to_string())
    };
    assert!(said("never_virtual", "virtual").ends_with("it cannot be virtual"));
    assert!(said("virtual", "never_virtual").ends_with("it is already virtual"));
    let rejected = state("hosted_volatile").refine_sharing(Sharing::PerStream, Reason::new("it was second"));
    assert!(rejected.expect_err("incompatible").to_string().ends_with("shared by all streams"));
}

#[test]
fn states_merge_what_they_lack() {
    let first = state("never_virtual");
    let (mut ours, mut theirs) = (first.clone(), first.clone());
    ours.refine(MemoryMode::Materialized, Reason::new("it outlives the routine")).expect("compatible");
    theirs.refine(MemoryMode::DeviceOnly, Reason::new("the host never asks")).expect("compatible");
    let mut merged = ours.clone();
    merged.merge(&theirs).expect("compatible");
    assert_eq!(merged.mode(), Some(MemoryMode::OnDevice(Sharing::Unset)));
    assert_eq!(merged.chain().len(), 3);
    let mut again = merged.clone();
    again.merge(&ours).expect("compatible");
    assert_eq!(again, merged);
    let mut rejected = ours.clone();
    rejected.merge(&state("local")).expect_err("incompatible");
    assert_eq!(rejected, ours);
}

/// Computes the last column of the table on the second epoch in the module documentation of `mode`.
#[test]
fn the_second_epoch_is_as_documented() {
    let documented = [
        ("never_virtual", "effectively_constant", "hosted_constant"),
        ("materialized", "effectively_constant", "hosted_constant"),
        ("effectively_constant", "never_virtual", "hosted_constant"),
        ("effectively_constant", "materialized", "hosted_constant"),
        ("effectively_constant", "on_device", "inconsistent"),
        ("device_only", "materialized", "on_device"),
        ("materialized", "device_only", "on_device"),
        ("on_device", "device_only", "on_device"),
        ("on_device", "materialized", "on_device"),
        ("virtual", "effectively_constant", "virtual"),
    ];
    for (old, new, expected) in documented {
        let mut state = state(old);
        let mode = new.parse().expect("a mode");
        let result = state.refine(mode, Reason::new("it was second"));
        assert_eq!(outcome(&state, result), expected, "{old} {new}");
    }
}

#[test]
fn the_sharing_of_a_node_is_decided_once() {
    let node = TensorNode::builder("w").mode(MemoryMode::OnDevice(Sharing::Unset)).build().expect("a node");
    node.update_memory_sharing(Sharing::PerStream, Reason::new("it is written"))
        .expect("nothing was decided");
    assert_eq!(node.mode().mode(), Some(MemoryMode::OnDevice(Sharing::PerStream)));
    let before = node.mode();
    let error =
        node.update_memory_sharing(Sharing::Shared, Reason::new("it is read")).expect_err("a conflict");
    let message = error.to_string();
    assert!(
        message.contains('w') && message.contains("it is written") && message.contains("it is read"),
        "{message}"
    );
    assert_eq!(node.mode(), before, "a rejection changes nothing");
}
