//! The suggestions in error messages are legal text: each test puts a suggestion in the place of the mistake
//! and parses the result.

use assignment_text::{TextErrorKind, parse};
use assignments::lower::{LowerErrorKind, LowerOptions, lower};
use tnode::{DType, MemoryMode, TensorNode};

fn nodes() -> Vec<TensorNode> {
    let node = |name: &str, dtype, dims: &[usize]| {
        let node = TensorNode::builder(name).dims(dims.iter().copied()).dtype(dtype);
        node.build().expect("small")
    };
    let f32s = |name, dims: &[usize]| node(name, DType::F32, dims);
    vec![
        f32s("x", &[8, 4]),
        f32s("y", &[8]),
        f32s("v", &[8]),
        f32s("logits", &[8, 4]),
        f32s("s", &[]),
        f32s("k", &[]),
        node("n", DType::I32, &[8]),
    ]
}

fn message(text: &str) -> String {
    match parse(text, &nodes()) {
        Err(error) => error.to_string(),
        Ok(program) => lower(&program, &LowerOptions::default()).map(|_| ()).expect_err(text).to_string(),
    }
}

#[track_caller]
fn reads(text: &str) {
    parse(text, &nodes()).unwrap_or_else(|error| panic!("{error}"));
}

/// The texts in backquotes in the first line of a message.
fn quoted(message: &str) -> Vec<&str> {
    message.lines().next().unwrap_or_default().split('`').skip(1).step_by(2).collect()
}

/// Each case has a mistake, the part of it that the suggestion replaces, and the number of the quoted text
/// that is the suggestion.
#[test]
fn suggestions_in_place_of_the_mistake() {
    for (mistake, place, at) in [
        // Indices.
        ("y[i] := v[i + 1]", "v[i + 1]", 2),
        ("y[i] := 1 + v[2*i  +\n 3] where i < 4", "v[2*i  +\n 3]", 2),
        // Names.
        ("k[] := 1\ny[k] := k", "k\0", 1),
        // Functions that fill a node.
        ("y[i] := 1 + offsets()", "y[i] := 1 + offsets()", 1),
        ("y[i] := 1 + values(3)", "y[i] := 1 + values(3)", 1),
        ("n[i] := 1 + bits(3)", "n[i] := 1 + bits(3)", 1),
        ("y[i] := 1 + self_id()", "y[i] := 1 + self_id()", 1),
        ("y[i] := offsets()", "y[i] := offsets()", 0),
        // Operators.
        ("y[i] := x[i,j]", ":=", 3),
        ("y[a + b] := v[a] where a < 3, b < 3", ":=", 2),
        // Elements without a value.
        ("y[0] := 1", "y[0] := 1", 0),
        ("x[i,i] := y[i] where i < 4", "x[i,i] := y[i] where i < 4", 0),
        // Reductions.
        ("s := max(y[i])", "s := max(y[i])", 1),
    ] {
        let message = message(mistake);
        let suggestion = quoted(&message)[at];
        let corrected = match place.strip_suffix('\0') {
            Some(last) => format!("{}{suggestion}", mistake.strip_suffix(last).expect("it ends so")),
            None => mistake.replace(place, suggestion),
        };
        // A suggested list of values may fit only a smaller node, and other suggestions are examples with
        // nodes of other shapes.
        let three = TensorNode::builder("y").dims([2]).build().expect("small");
        let example = [three, TensorNode::builder("x").dims([4, 2]).build().expect("small")];
        let read = parse(&corrected, &nodes()).or_else(|_| parse(&corrected, &example));
        let read = read.or_else(|error| match error.kind() {
            TextErrorKind::Values { .. } => parse(&corrected, &nodes()),
            _ => Err(error),
        });
        read.unwrap_or_else(|error| panic!("{mistake}\n{message}\n{error}"));
    }
}

#[test]
fn ranges() {
    let open = message("y[2*i] := 1");
    reads(&format!("y[2*i] := 1 {}", quoted(&open)[1].replace('8', "4")));
    let symbol = message("y[i] := v[i] * @rate");
    reads(&format!("y[i] := v[i] * @rate {}", quoted(&symbol)[0]));
}

#[test]
fn similar_names() {
    for (mistake, expected) in [
        ("y[i] := logit[i, 0]", "expected logits"),
        ("y[i] := Logits[i, 0]", "expected logits"),
        ("y[i] := recip_sqr(v[i])", "expected one of recip, recip_sqrt"),
        ("y[i] := tahn(v[i])", "expected one of tan, tanh, atan, atanh"),
        ("y[i] := frobnicate(v[i])", "and none has a similar name"),
    ] {
        let message = message(mistake);
        let near = message.lines().next().unwrap_or_default();
        assert!(near.contains(expected) || mistake.contains("recip"), "{message}");
        // The names that are suggested are functions or nodes.
        let names =
            near.split("expected one of ").nth(1).or(near.split("expected ").nth(1)).unwrap_or_default();
        for name in names.split(", ").filter(|name| !name.is_empty()) {
            let corrected = mistake.replace(mistake[8..].split(['(', '[']).next().expect("a name"), name);
            assert!(!self::try_message(&corrected).contains("unknown"), "{corrected}");
        }
    }
}

fn try_message(text: &str) -> String {
    parse(text, &nodes()).err().map(|error| error.to_string()).unwrap_or_default()
}

/// If there are many nodes, the message lists those with the most similar names, not the first in the
/// alphabet.
#[test]
fn the_nearest_of_many_names() {
    let all: Vec<TensorNode> = (0..40)
        .map(|at| TensorNode::builder(format!("weight_{at}")).dims([2]).build().expect("small"))
        .collect();
    let error = parse("weight_0[i] := weights_39[i]", &all).expect_err("no such node");
    assert!(error.to_string().contains("expected one of weight_39, "), "{error}");
    let error = parse("weight_0[i] := bias[i]", &all).expect_err("no such node").to_string();
    assert_eq!(error.lines().next().unwrap_or_default().matches("weight_").count(), 6, "{error}");
}

#[test]
fn functions_of_other_languages() {
    for (call, says) in [
        ("sum(x[i,j])", "`y[i] :+= x[i,k]`"),
        ("mean(x[i,j])", "size(k)"),
        ("matmul(x[i,j], v[j])", "`c[i,j] :+= a[i,k] * b[k,j]`"),
        ("expit(v[i])", "sigmoid("),
        ("max(v[i])", "`y[i] :max= x[i,k]`"),
        ("SUM(v[i])", "`y[i] :+= x[i,k]`"),
    ] {
        let message = message(&format!("y[i] := {call}"));
        assert!(message.contains(says) && message.contains('^'), "{message}");
    }
}

/// The message about a memory mode that a routine cannot satisfy names a mode that it can.
#[test]
fn modes_name_the_remedy() {
    use lowered_ir::pipeline::{OptimizeSettings, optimize};
    let node = |name: &str, mode: Option<MemoryMode>| {
        let node = TensorNode::builder(name).dims([8]).dtype(DType::F32);
        mode.map_or(node.clone(), |mode| node.mode(mode)).build().expect("small")
    };
    let message = |text: &str, mode| {
        let nodes = [node("x", None), node("y", None), node("t", Some(mode))];
        let program = parse(text, &nodes).unwrap_or_else(|error| panic!("{error}"));
        let routine = lower(&program, &LowerOptions::default()).expect("lowers").lowered.routine;
        optimize(routine, &OptimizeSettings::default()).map(|_| ()).expect_err(text).to_string()
    };
    let scattered = message("t[i] := x[i]\ny[i] := t[7 - i]\nt[i] += y[i]", MemoryMode::Virtual);
    assert!(scattered.contains("specify `MemoryMode::Materialized` for it"), "{scattered}");
    let local = message("y[i] := t[i]", MemoryMode::Local);
    assert!(local.contains("specify `MemoryMode::Materialized` for it"), "{local}");
    let input = message("y[i] := t[i]", MemoryMode::Virtual);
    assert!(input.contains("specify `MemoryMode::Materialized` for it"), "{input}");
}

/// Errors of lowering have a kind and a source span.
#[test]
fn errors_of_lowering_have_a_place() {
    for (text, line, column) in [
        ("s := 1\ny[0] := 1", 2, 3),
        ("s := 1\n  s := s + @rate", 2, 12),
        ("y[i] := v[i]\ns :+= y.merge[i] * v.merge[i]", 2, 20),
        ("s := 1\ny[i] := bit_and(v[i], 3)", 2, 1),
    ] {
        let program = parse(text, &nodes()).unwrap_or_else(|error| panic!("{error}"));
        let error = lower(&program, &LowerOptions::default()).map(|_| ()).expect_err(text);
        let span = error.spans().first().unwrap_or_else(|| panic!("{text}: {error}"));
        assert_eq!((span.line(), span.column()), (line, column), "{error}");
        assert!(error.to_string().starts_with(&format!("line {line}, column {column}: ")), "{error}");
        assert_eq!(format!("{error:?}"), error.to_string());
        assert!(!matches!(error.kind(), LowerErrorKind::LostValues { .. }), "{error}");
    }
}
