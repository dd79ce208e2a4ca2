//! The error message for each mistake in assignment text: four tables, and the limits of texts.

use crate::error_table::check;

use assignment_text::parse;
use assignments::lower::{LowerOptions, lower};
use expect_test::{ExpectFile, expect_file};
use lowered_ir::verify::verify;
use proptest::prelude::*;
use tnode::{DType, MemoryMode, NodeBuilder, Registry, TensorNode};

/// Compares the message of every row with the error of the parser for the row's text over these nodes.
pub(crate) fn check_parser(table: &ExpectFile, nodes: &[TensorNode]) {
    check(table, |text| parse(text, nodes).err().map(|error| error.to_string()));
}

/// The nodes of every text here, with the same ids each time.
fn nodes() -> Vec<TensorNode> {
    let registry = Registry::new();
    let build = |node: NodeBuilder| node.build_in(&registry).expect("small");
    let node = |label: &str, dtype, dims: &[usize]| {
        build(TensorNode::builder(label).dims(dims.iter().copied()).dtype(dtype))
    };
    vec![
        node("x", DType::F32, &[8, 4]),
        node("w1", DType::F32, &[4, 6]),
        node("w2", DType::F32, &[6, 4]),
        node("hid", DType::F32, &[8, 6]),
        node("bias", DType::F32, &[6]),
        node("loss", DType::F32, &[]),
        node("k", DType::F32, &[]),
        node("label", DType::U8, &[8]),
        node("key", DType::U32x4, &[8]),
        build(TensorNode::builder(["grad", "w1"]).dims([4, 6])),
        build(TensorNode::builder(["a", "twin"])),
        build(TensorNode::builder(["b", "twin"])),
        build(TensorNode::builder("open").dims_later()),
    ]
}

#[test]
fn syntax() {
    check_parser(&expect_file!["../errors/syntax.txt"], &nodes());
}

#[test]
fn names() {
    check_parser(&expect_file!["../errors/names.txt"], &nodes());
}

#[test]
fn shapes() {
    check_parser(&expect_file!["../errors/shapes.txt"], &nodes());
}

#[test]
fn meaning() {
    check_parser(&expect_file!["../errors/meaning.txt"], &nodes());
}

#[test]
fn sizes_of_a_run_that_do_not_fit_are_located() {
    check_parser(&expect_file!["../errors/run_sizes.txt"], &nodes());
}

#[test]
fn the_place_can_be_asked_for() {
    let error = parse("loss := 1\n  loss := q", &nodes()).expect_err("there is no q");
    assert_eq!((error.line(), error.column(), error.span()), (2, 11, 20..21));
}

#[test]
fn nesting_is_limited() {
    let deep = |open: &str, close: &str| format!("loss := {}1{}", open.repeat(5000), close.repeat(5000));
    for text in [deep("(", ")"), deep("-", ""), deep("exp(", ")"), deep("1 + ", ""), deep("loss*(", ")")] {
        let error = parse(&text, &nodes()).expect_err("too deep").to_string();
        assert!(error.contains("nested deeper than 100 levels"), "{error:.200}");
    }
    let index = format!("loss := bias[{}1{}]", "(".repeat(5000), ")".repeat(5000));
    assert!(parse(&index, &nodes()).is_err());
}

#[test]
fn names_of_gradients_and_of_parts() {
    let nodes = nodes();
    let written = |text: &str| parse(text, &nodes).expect("resolves").written_nodes();
    assert_eq!(written("w1.grad[i,j] := 0")[0].label(), ["grad", "w1"]);
    assert_eq!(written("w1[i,j] := 0")[0].label(), ["w1"]);
    assert_eq!(written("a_twin := 0")[0].label(), ["a", "twin"]);
    assert_eq!(written("key[i] := key[i]")[0].mode().mode(), None::<MemoryMode>);
}

proptest! {
    #[test]
    fn no_text_panics(text in "\\PC{0,60}") {
        let _ = parse(&text, &nodes()).map_err(|error| error.to_string());
    }

    #[test]
    fn no_sequence_of_tokens_panics(words in prop::collection::vec(prop::sample::select(&[
        "x", "w1", "bias", "loss", "k", "i", "h", "@s", "[", "]", "[i]", "[i,h]", "(", ")", ",", ":=", "+=", ":max=", "where", "<",
        "==", "+", "-", "*", "/", "0", "1", "7", "0.5", "1e9", "9223372036854775807", "pad", "max", "exp", "f16", "inf", "\n", ";",
        "loss := ", "bias[h] := ", "bias[h] :+= x[h, i]", "^", "i^h", "[i^h]", "bias :=", "offsets()", "self_id()", "values(", "bits(",
        "input", "param", "const", "node", "keep", "f32", "[2]", "q", "q[i]", "0xff", "slice(x, @s)", "size(", "size(h)", "size n <= 4", "n", "[n]", "i < n", "x[i^h, k], bias[h]",
    ][..]), 0..20)) {
        let text = words.join(" ");
        // A text that parses either lowers to a routine that the verifier accepts, or is rejected by
        // lowering.
        match parse(&text, &nodes()) {
            Err(error) => prop_assert!(!error.to_string().is_empty()),
            Ok(program) => match lower(&program, &LowerOptions::default()) {
                Err(error) => prop_assert!(!error.to_string().is_empty()),
                Ok(program) => prop_assert!(verify(&program.lowered.routine).is_ok(), "{}", text),
            },
        }
    }
}
