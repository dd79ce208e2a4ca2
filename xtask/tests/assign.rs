//! `cargo xtask assign` on a file.

use std::fs;

use xtask::assign::{check, differentiate, expand};

#[test]
fn a_program_is_printed_expanded() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("mean.assign");
    let text = "size n, halves = n / 2\n\
                def mean(x[..,k]) -> m[..] { m[..] :+= x[..,k] / size(k) }\n\
                m[i] := mean(x[i,k] + 1)\n\
                repeat h in 0..halves { y[h] := m[2*h] }\n";
    fs::write(&file, text).expect("written");
    let shown = |sizes: &[&str]| {
        let sizes: Vec<String> = sizes.iter().map(|&size| size.to_owned()).collect();
        expand(&file, &sizes).map_err(|error| format!("{error:#}"))
    };
    let expected = "mean.1.x[i,k] := x[i,k] + 1\n\
                    m[i] :+= mean.1.x[i,k] / size(k)\n\
                    y[0] := m[2*0]\n\
                    y[1] := m[2*1]\n";
    assert_eq!(shown(&["n=4"]).as_deref(), Ok(expected));
    let open = shown(&[]).expect_err("no value");
    assert!(open.contains("line 1, column 6: size `n` has no value"), "{open}");
    assert!(shown(&["n"]).expect_err("no value").contains("expected `--size NAME=VALUE`, found `n`"));
    assert!(shown(&["m=1"]).expect_err("no size").contains("the text has no size `m`"));
}

#[test]
fn names_and_ranges_are_printed() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("softmax.assign");
    let text = "size batch, classes = 10\n\
                input x f32[batch, classes]\n\
                input hot u8[batch, classes]\n\
                m[b] :max= x[b,i]\n\
                e[b,i] := exp(x[b,i] - m[b])\n\
                s[b] :+= e[b,i]\n\
                loss :+= -hot[b,i] * log(e[b,i] / s[b]) / batch\n\
                keep loss\n";
    fs::write(&file, text).expect("written");
    let found = check(&file, &["batch=4".to_owned()]).unwrap_or_else(|error| panic!("{error:#}"));
    let expected = "e f32[4, 10]  # local\n\
                    hot u8[4, 10]  # materialized\n\
                    loss f32[]  # materialized\n\
                    m f32[4]  # local\n\
                    s f32[4]  # local\n\
                    x f32[4, 10]  # materialized\n\
                    \n\
                    m[b] :max= x[b,i]  # b < 4, i < 10\n\
                    e[b,i] := exp(x[b,i] - m[b])  # b < 4, i < 10\n\
                    s[b] :+= e[b,i]  # b < 4, i < 10\n\
                    loss :+= -hot[b,i] * log(e[b,i] / s[b]) / batch  # b < 4, i < 10\n";
    assert_eq!(found, expected);
}

/// The gradient is a program in the same notation, which can be read and parsed.
#[test]
fn gradients_are_printed_as_statements() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("step.assign");
    let text = "input x f32[8, 4], t f32[8]\n\
                param w f32[4]\n\
                y[b] :+= x[b,i] * w[i]\n\
                loss :+= abs(y[b] - t[b])\n\
                grad loss by w\n\
                w[i] -= 0.1 * w.grad[i]\n";
    fs::write(&file, text).expect("written");
    let found = differentiate(&file, &[]).unwrap_or_else(|error| panic!("{error:#}"));
    let statements = "w.grad[i] :+= y.grad[b] * x[b,i]\nw[i] -= 0.1 * w.grad[i]\n";
    assert!(found.starts_with("input x f32[8,4]\n") && found.ends_with(statements), "{found}");
    assignment_text::parse(&found, &[]).unwrap_or_else(|error| panic!("{error}"));
    let expanded = expand(&file, &[]).unwrap_or_else(|error| panic!("{error:#}"));
    assert!(expanded.contains("\ngrad loss by w\n"), "{expanded}");
    let checked = check(&file, &[]).unwrap_or_else(|error| panic!("{error:#}"));
    assert!(
        checked.contains("w.grad f32[4]") && checked.ends_with("w[i] -= 0.1 * w.grad[i]  # i < 4\n"),
        "{checked}"
    );
}

/// The guide shows the report about its program of softmax.
#[test]
fn the_guide_shows_a_report() {
    let guide = include_str!("../../docs/assignment-guide.md");
    let (before, rest) = guide.split_once("```assign-check\n").expect("a report");
    let (_, program) = before.rsplit_once("```assign\n").expect("a program before it");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("guide.assign");
    fs::write(&file, program.split("```").next().expect("a first part")).expect("written");
    let found = check(&file, &[]).unwrap_or_else(|error| panic!("{error:#}"));
    assert_eq!(found, rest.split("```").next().expect("a first part"));
}
