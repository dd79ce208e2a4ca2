//! Sizes, functions and repetitions: the statements to which programs expand, and the values of these.

use crate::program;

use assignments::text::{Program, parse};
use expect_test::{Expect, expect};
use program::{Machine, f32s, values};
use tnode::TensorNode;

/// The expanded program. It prints as a program that expands to itself, and so does the program before.
fn expanded(text: &str) -> String {
    let read = |text: &str| Program::parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let expand = |program: &Program| program.expand().unwrap_or_else(|error| panic!("{error}")).to_string();
    let program = read(text);
    let printed = program.to_string();
    assert_eq!(read(&printed).to_string(), printed);
    let found = expand(&program);
    assert_eq!(expand(&read(&printed)), found);
    assert_eq!(expand(&read(&found)), found);
    found
}

fn check(text: &str, expected: Expect) {
    expected.assert_eq(&expanded(text));
}

const SOFTMAX: &str = "
    def softmax(x[..,k]) -> y[..,k] {
        m[..] :max= x[..,k]
        e[..,k] := exp(x[..,k] - m[..]); s[..] :+= e[..,k]
        y[..,k] := e[..,k] / s[..]
    }
";

#[test]
fn a_call_uses_the_nodes_of_the_caller() {
    check(
        &format!("{SOFTMAX} p[b,i] := softmax(x[b,i])"),
        expect![[r#"
            softmax.1.m[b] :max= x[b,k]
            softmax.1.e[b,k] := exp(x[b,k] - softmax.1.m[b])
            softmax.1.s[b] :+= softmax.1.e[b,k]
            p[b,k] := softmax.1.e[b,k] / softmax.1.s[b]
        "#]],
    );
}
