//! The error message for each mistake in assignment text, word for word.

use assignments::lower::{LowerOptions, lower};
use assignments::text::parse;
use expect_test::{Expect, expect};
use lowered_ir::verify::verify;
use proptest::prelude::*;
use tnode::{DType, MemoryMode, NodeBuilder, Registry, TensorNode};

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

fn check(text: &str, expected: Expect) {
    match parse(text, &nodes()) {
        Ok(assignments) => panic!("accepted:\n{assignments}"),
        Err(error) => expected.assert_eq(&error.to_string()),
    }
}

#[test]
fn syntax() {
    check(
        "hid[b,h] = bias[h]",
        expect![[r#"
            line 1, column 10: expected one of `:=` `+=` `*=` `max=` `min=` `:+=` `:*=` `:max=` `:min=`, found `=`
            1 | hid[b,h] = bias[h]
              |          ^"#]],
    );
    check(
        "hid[b,h := bias[h]",
        expect![[r#"
        line 1, column 9: expected `,` or `]`, found `:=`
        1 | hid[b,h := bias[h]
          |         ^^"#]],
    );
    check(
        "hid[b,h] := ",
        expect![[r#"
        line 1, column 13: expected an expression, found the end of the text
        1 | hid[b,h] := 
          |             ^"#]],
    );
    check(
        "hid[b,h] := bias[h] bias[h]",
        expect![[r#"
        line 1, column 21: expected an operator, `where`, or the end of the statement, found `bias`
        1 | hid[b,h] := bias[h] bias[h]
          |                     ^^^^"#]],
    );
    check(
        "loss := 1\n := 2",
        expect![[r#"
        line 2, column 2: expected an operator, `where`, or the end of the statement, found `:=`
        2 |  := 2
          |  ^^"#]],
    );
    check(
        "loss := 1 + (2 * 3",
        expect![[r#"
        line 1, column 19: expected `)`, found the end of the text
        1 | loss := 1 + (2 * 3
          |                   ^"#]],
    );
    check(
        "loss := 1 $ 2",
        expect![[r#"
        line 1, column 11: expected a statement or expression, found `$`
        1 | loss := 1 $ 2
          |           ^"#]],
    );
    check(
        "loss := 1 < 2 < 3",
        expect![[r#"
        line 1, column 15: expected no second comparison; combine with `and(a, b)`, found `<`
        1 | loss := 1 < 2 < 3
          |               ^"#]],
    );
    check(
        "3 := loss",
        expect![[r#"
        line 1, column 1: expected a statement such as `y[i] := x[i]`, found `3`
        1 | 3 := loss
          | ^"#]],
    );
    check(
        "loss := max(1)",
        expect![[r#"
            line 1, column 9: function `max` takes 2 arguments, found 1; the maximum over a letter is an accumulation, as in `y[i] :max= x[i,k]`
            1 | loss := max(1)
              |         ^^^^^^"#]],
    );
    check(
        "loss := sine(1)",
        expect![[r#"
            line 1, column 9: unknown function `sine`; expected one of sin, size, min
            1 | loss := sine(1)
              |         ^^^^"#]],
    );
    check(
        "loss := pad(x, bias)[1, 2]",
        expect![[r#"
        line 1, column 16: expected a number, found `bias`
        1 | loss := pad(x, bias)[1, 2]
          |                ^^^^"#]],
    );
    check(
        "loss := pad(x, 0)",
        expect![[r#"
            line 1, column 18: expected indices of the padded node, such as `[i]`, found the end of the text
            1 | loss := pad(x, 0)
              |                  ^"#]],
    );
    check(
        "loss += x[i,j] where i <= 3",
        expect![[r#"
        line 1, column 24: expected `<`, found `<=`
        1 | loss += x[i,j] where i <= 3
          |                        ^^"#]],
    );
    check(
        "loss.merge := 1",
        expect![[r#"
        line 1, column 1: expected a node, found a merge buffer, which can only be read as it is
        1 | loss.merge := 1
          | ^^^^^^^^^^"#]],
    );
    check(
        "loss := pad(x.merge, 0)[1,2]",
        expect![[r#"
        line 1, column 9: expected a node, found a merge buffer, which can only be read as it is
        1 | loss := pad(x.merge, 0)[1,2]
          |         ^^^^^^^^^^^^^^^^^^^^"#]],
    );
    check(
        "hid[b,h] := bias[h*h]",
        expect![[r#"
        line 1, column 18: an index is a sum of integers and integer multiples of letters and symbols; found a product of letters
        1 | hid[b,h] := bias[h*h]
          |                  ^^^"#]],
    );
    check(
        "hid[b,h] := bias[h/2]",
        expect![[r#"
        line 1, column 19: an index is a sum of integers and integer multiples of letters and symbols; found a division
        1 | hid[b,h] := bias[h/2]
          |                   ^"#]],
    );
    check(
        "hid[b,h] := bias[relu(h)]",
        expect![[r#"
        line 1, column 18: an index is a sum of integers and integer multiples of letters and symbols; found a value
        1 | hid[b,h] := bias[relu(h)]
          |                  ^^^^"#]],
    );
    check(
        "hid[b,h] := bias[0.5]",
        expect![[r#"
        line 1, column 18: an index is a sum of integers and integer multiples of letters and symbols; found a number that is no integer
        1 | hid[b,h] := bias[0.5]
          |                  ^^^"#]],
    );
    check(
        "hid[b,h] := bias[9223372036854775807 + 1]",
        expect![[r#"
        line 1, column 18: an index is a sum of integers and integer multiples of letters and symbols; found a number that overflows
        1 | hid[b,h] := bias[9223372036854775807 + 1]
          |                  ^^^^^^^^^^^^^^^^^^^^^^^"#]],
    );
}

#[test]
fn names() {
    check(
        "hid[b,h] :+= x[b,i] * w3[i,h]",
        expect![[r#"
        line 1, column 23: unknown node `w3`; expected one of w1, w2
        1 | hid[b,h] :+= x[b,i] * w3[i,h]
          |                       ^^"#]],
    );
    check(
        "hid[b,h] := Bais[h]",
        expect![[r#"
            line 1, column 13: unknown node `Bais`; expected bias
            1 | hid[b,h] := Bais[h]
              |             ^^^^"#]],
    );
    check(
        "loss := q",
        expect![[r#"
        line 1, column 9: `q` is neither an index letter of this statement nor a node; expected one of k, x
        1 | loss := q
          |         ^"#]],
    );
    check(
        "loss := twin",
        expect![[r#"
            line 1, column 9: `twin` names several nodes: n10 (label "a.twin"), n11 (label "b.twin"); give them different labels
            1 | loss := twin
              |         ^^^^"#]],
    );
    check(
        "hid[b,k] := k",
        expect![[r#"
        line 1, column 13: `k` is an index letter of this statement and a node; write `k[]` for the node, or rename the letter
        1 | hid[b,k] := k
          |             ^"#]],
    );
    check(
        "loss := open[i]",
        expect![[r#"
        line 1, column 9: node open: dimensions are not settled yet
        1 | loss := open[i]
          |         ^^^^^^^"#]],
    );
}

#[test]
fn shapes() {
    check(
        "hid[b,h] :+= x[b,i] * w1[i]",
        expect![[r#"
            line 1, column 23: node `w1` has dimensions [4, 6], expected 2 indices, found 1
            1 | hid[b,h] :+= x[b,i] * w1[i]
              |                       ^^^^^"#]],
    );
    check(
        "hid[b,h] := bias",
        expect![[r#"
            line 1, column 13: node `bias` has dimensions [6], expected 1 index, found 0
            1 | hid[b,h] := bias
              |             ^^^^"#]],
    );
    check(
        "hid[b,h] :+= x[b,i] * w2[i,h]",
        expect![[r#"
        line 1, column 7: letter `h` runs over 4 elements (axis 1 of `w2[i,h]`), but axis 1 of node `hid` has 6
        1 | hid[b,h] :+= x[b,i] * w2[i,h]
          |       ^"#]],
    );
    check(
        "bias[h] := hid[h,h]",
        expect![[r#"
        line 1, column 18: letter `h` runs over 8 elements (axis 0 of `hid[h,h]`), but axis 1 of node `hid` has 6
        1 | bias[h] := hid[h,h]
          |                  ^"#]],
    );
    check(
        "bias[h] := w1[h,h] where h < 5",
        expect![[r#"
            line 1, column 15: index `h` takes values 0..=4, but axis 0 of node `w1` has 4 elements; `pad(w1, 0)[h,h]` reads 0 outside
            1 | bias[h] := w1[h,h] where h < 5
              |               ^"#]],
    );
    check(
        "hid[b,h] := bias[h + 1]",
        expect![[r#"
            line 1, column 18: index `h + 1` takes values 1..=6, but axis 0 of node `bias` has 6 elements; `pad(bias, 0)[h + 1]` reads 0 outside
            1 | hid[b,h] := bias[h + 1]
              |                  ^^^^^"#]],
    );
    check(
        "hid[b,h] := bias[5 - h - b]",
        expect![[r#"
            line 1, column 18: index `5 - h - b` takes values -7..=5, but axis 0 of node `bias` has 6 elements; `pad(bias, 0)[5 - h - b]` reads 0 outside
            1 | hid[b,h] := bias[5 - h - b]
              |                  ^^^^^^^^^"#]],
    );
    check(
        "hid[b, 2*h] := 0",
        expect![[r#"
            line 1, column 10: the range of letter `h` is open; expected it as an index of its own somewhere, or a range as in `where h < 8`
            1 | hid[b, 2*h] := 0
              |          ^"#]],
    );
    check(
        "loss :max= x[2*o + p, j] where p < 2",
        expect![[r#"
            line 1, column 16: the range of letter `o` is open; expected it as an index of its own somewhere, or a range as in `where o < 8`
            1 | loss :max= x[2*o + p, j] where p < 2
              |                ^"#]],
    );
    check(
        "bias[h] := bias[h] where h < 0",
        expect![[r#"
        line 1, column 26: `h < 0` leaves no value; expected at least 1
        1 | bias[h] := bias[h] where h < 0
          |                          ^^^^^"#]],
    );
    check(
        "bias[h] := 1 where h < 2, h < 3",
        expect![[r#"
        line 1, column 27: `h < 3` contradicts `h < 2` in the same statement
        1 | bias[h] := 1 where h < 2, h < 3
          |                           ^^^^^"#]],
    );
    check(
        "bias[h] := 1 where g < 2",
        expect![[r#"
        line 1, column 20: letter `g` does not occur in the statement
        1 | bias[h] := 1 where g < 2
          |                    ^^^^^"#]],
    );
    check(
        "bias[h + 9*@step] := 1",
        expect![[r#"
            line 1, column 6: the range of letter `h` is open; expected it as an index of its own somewhere, or a range as in `where h < 8`
            1 | bias[h + 9*@step] := 1
              |      ^"#]],
    );
    check(
        "bias[h + @step] := 1 where @step < 2\nloss := @step where @step < 3",
        expect![[r#"
        line 2, column 21: `@step < 3` contradicts `@step < 2`
        2 | loss := @step where @step < 3
          |                     ^^^^^^^^^"#]],
    );
    check(
        "loss += bias[@s] where @s < 7",
        expect![[r#"
            line 1, column 14: index `@s` takes values 0..=6, but axis 0 of node `bias` has 6 elements; `pad(bias, 0)[@s]` reads 0 outside
            1 | loss += bias[@s] where @s < 7
              |              ^^"#]],
    );
}

#[test]
fn meaning() {
    check(
        "bias[h] := hid[b,h]",
        expect![[r#"
        line 1, column 9: `:=` stores one value per element, but `b` is not among the indices of `bias`; expected an accumulation such as `:+=`
        1 | bias[h] := hid[b,h]
          |         ^^"#]],
    );
    check(
        "x[i,j] := x[7 - i, j]",
        expect![[r#"
        line 1, column 11: node `x` is read while it is written: the element read is not the one written; write to another node first
        1 | x[i,j] := x[7 - i, j]
          |           ^^^^^^^^^^^"#]],
    );
    check(
        "bias[h] :+= bias[h]",
        expect![[r#"
        line 1, column 13: node `bias` is read while it is written: its values are replaced by the neutral element first; write to another node first
        1 | bias[h] :+= bias[h]
          |             ^^^^^^^"#]],
    );
    check(
        "bias[h] += hid[b,h] * bias[h]",
        expect![[r#"
            line 1, column 23: node `bias` is read while it is written: an element may be written more than once; write to another node first
            1 | bias[h] += hid[b,h] * bias[h]
              |                       ^^^^^^^"#]],
    );
    check(
        "bias[a + b] := x[a,0] where a < 3, b < 3",
        expect![[r#"
        line 1, column 1: `:=` stores one value per element, but these indices may reach an element of `bias` more than once; expected an accumulation such as `:+=`
        1 | bias[a + b] := x[a,0] where a < 3, b < 3
          | ^^^^^^^^^^^"#]],
    );
    check(
        "bias[a + b] += bias[a + b] where a < 3, b < 3",
        expect![[r#"
        line 1, column 16: node `bias` is read while it is written: an element may be written more than once; write to another node first
        1 | bias[a + b] += bias[a + b] where a < 3, b < 3
          |                ^^^^^^^^^^^"#]],
    );
    check(
        "label[b] := label[b] + 256",
        expect![[r#"
        line 1, column 24: 256 is out of the range of u8
        1 | label[b] := label[b] + 256
          |                        ^^^"#]],
    );
    check(
        "label[b] := label[b] - -1",
        expect![[r#"
        line 1, column 24: -1 is out of the range of u8
        1 | label[b] := label[b] - -1
          |                        ^^"#]],
    );
    check(
        "loss := f16(70000.0)",
        expect![[r#"
        line 1, column 13: 70000.0 is out of the range of f16
        1 | loss := f16(70000.0)
          |             ^^^^^^^"#]],
    );
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
        "0xff", "slice(x, @s)", "size(", "size(h)", "x[i^h, k], bias[h]",
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
