//! The error message for each mistake with sizes, functions and repetitions, word for word.

use crate::program;

use assignment_text::{Program, parse};
use expect_test::{Expect, expect};
use program::f32s;

fn check(text: &str, expected: Expect) {
    let nodes = [f32s("x", &[4, 6]), f32s("w", &[6]), f32s("y", &[4, 6]), f32s("s", &[])];
    match parse(text, &nodes) {
        Ok(assignments) => panic!("accepted:\n{assignments}"),
        Err(error) => expected.assert_eq(&error.to_string()),
    }
}

/// Checks a text after the definition of `f`, on a line of its own.
fn check_f(text: &str, expected: Expect) {
    check(
        &format!(
            "def f(a[..,k], c, inout b[..]) -> r[..,k] {{ r[..,k] := c * a[..,k]; b[..] := 0 }}\n{text}"
        ),
        expected,
    );
}

#[test]
fn syntax() {
    check(
        "size 3",
        expect![[r#"
        line 1, column 6: expected indices such as `[i]`, or one of `:=` `+=` `*=` `max=` `min=` `:+=` `:*=` `:max=` `:min=`, found `3`
        1 | size 3
          |      ^"#]],
    );
    check(
        "size d = ",
        expect![[r#"
        line 1, column 10: expected an integer, found the end of the text
        1 | size d = 
          |          ^"#]],
    );
    check(
        "def sqrt(x[i]) -> y[i] { y[i] := x[i] }",
        expect![[r#"
        line 1, column 5: `sqrt` is a function of the language; expected another name
        1 | def sqrt(x[i]) -> y[i] { y[i] := x[i] }
          |     ^^^^"#]],
    );
    check(
        "def f(x[..,..r..]) -> y[] { y := 1 }",
        expect![[r#"
        line 1, column 12: expected at most one `..`, found another one
        1 | def f(x[..,..r..]) -> y[] { y := 1 }
          |            ^^^^^"#]],
    );
    check(
        "def f(x[i,i]) -> y[] { y := 1 }",
        expect![[r#"
        line 1, column 11: letter `i` is defined twice
        1 | def f(x[i,i]) -> y[] { y := 1 }
          |           ^"#]],
    );
    check(
        "def f(x[i+1]) -> y[] { y := 1 }",
        expect![[r#"
        line 1, column 10: expected `,` or `]`, found `+`
        1 | def f(x[i+1]) -> y[] { y := 1 }
          |          ^"#]],
    );
    check(
        "def f(x, x[i]) { s := 1 }",
        expect![[r#"
        line 1, column 10: parameter or result `x` is defined twice
        1 | def f(x, x[i]) { s := 1 }
          |          ^"#]],
    );
    check(
        "def f() -> y[] { y := 1",
        expect![[r#"
        line 1, column 24: expected `}`, found the end of the text
        1 | def f() -> y[] { y := 1
          |                        ^"#]],
    );
    check(
        "def f() -> y[] { def g() {} y := 1 }",
        expect![[r#"
        line 1, column 18: expected a statement: functions are defined outside of blocks, found `def`
        1 | def f() -> y[] { def g() {} y := 1 }
          |                  ^^^"#]],
    );
    check(
        "repeat l of 0..3 {}",
        expect![[r#"
        line 1, column 10: expected `in`, as in `repeat l in 0..4`, found `of`
        1 | repeat l of 0..3 {}
          |          ^^"#]],
    );
    check(
        "repeat l in 0..3 { s := l",
        expect![[r#"
        line 1, column 26: expected `}`, found the end of the text
        1 | repeat l in 0..3 { s := l
          |                          ^"#]],
    );
    check(
        "s := 1 }",
        expect![[r#"
        line 1, column 8: expected an operator, `where`, or the end of the statement, found `}`
        1 | s := 1 }
          |        ^"#]],
    );
    check(
        "y[i,j] := x[i,j][0]",
        expect![[r#"
            line 1, column 13: `i` has no known value, but these brackets select a node of a family, as in `w[2]` and `w[2][i,j]`; the indices of one node stand in one pair of brackets
            1 | y[i,j] := x[i,j][0]
              |             ^"#]],
    );
    check(
        "y[i,j] := w[x[0,0]][i]",
        expect![[r#"
        line 1, column 13: expected an integer, which selects a node of a family as in `w[l][i,j]`, found another index
        1 | y[i,j] := w[x[0,0]][i]
          |             ^^^^^^"#]],
    );
    check(
        "def f() -> y[] { y := 1 }\ns := g()",
        expect![[r#"
        line 2, column 6: unknown function `g`; expected f
        2 | s := g()
          |      ^"#]],
    );
}

#[test]
fn sizes() {
    check(
        "size d, e = 3",
        expect![[r#"
        line 1, column 6: size `d` has no value; bind one, or write it in the text as in `size d = 8`
        1 | size d, e = 3
          |      ^"#]],
    );
    check(
        "size d = 3, d = 4",
        expect![[r#"
        line 1, column 13: size `d` is defined twice
        1 | size d = 3, d = 4
          |             ^"#]],
    );
    check(
        "repeat l in 0..@layers { s := l }",
        expect![[r#"
            line 1, column 16: `@layers` has no known value before the program runs; expected numbers, letters of repetitions and sizes, as in `size d = 8`
            1 | repeat l in 0..@layers { s := l }
              |                ^^^^^^^"#]],
    );
    check(
        "size d = i + 1",
        expect![[r#"
            line 1, column 10: `i` has no known value; expected numbers, letters of repetitions and sizes, as in `size d = 8`
            1 | size d = i + 1
              |          ^"#]],
    );
    check(
        "size d = 7\ny[i,j] := x[i,j] where i < d / 2",
        expect![[r#"
            line 2, column 28: an index is an integer, and `7 / 2` is none
            2 | y[i,j] := x[i,j] where i < d / 2
              |                            ^^^^^"#]],
    );
    check(
        "size d = 6\ny[d,j] := x[0,j]",
        expect![[r#"
        line 2, column 3: index `d` takes values 6..=6, but axis 0 of node `y` has 4 elements
        2 | y[d,j] := x[0,j]
          |   ^"#]],
    );
    check(
        "y[..] := 1",
        expect![[r#"
        line 1, column 3: `..` stands for the axes of a function's parameter; expected one index per axis
        1 | y[..] := 1
          |   ^^"#]],
    );
    check(
        "s := size(..)",
        expect![[r#"
        line 1, column 11: `..` stands for the axes of a function's parameter; expected one index per axis
        1 | s := size(..)
          |           ^^"#]],
    );
    check(
        "repeat l in 0..n { s := l }",
        expect![[r#"
            line 1, column 16: `n` has no known value; expected numbers, letters of repetitions and sizes, as in `size d = 8`
            1 | repeat l in 0..n { s := l }
              |                ^"#]],
    );
    check(
        "repeat l in 0..3 {\n    repeat k in 0..2 {\n        w[l + 5*k] := k\n    }\n}",
        expect![[r#"
        line 3, column 11: index `l + 5*k` takes values 6..=6, but axis 0 of node `w` has 6 elements
        3 |         w[l + 5*k] := k
          |           ^^^^^^^
        for `k` = 1, line 2, column 5
        2 |     repeat k in 0..2 {
          |     ^^^^^^^^^^^^^^^^
        for `l` = 1, line 1, column 1
        1 | repeat l in 0..3 {
          | ^^^^^^^^^^^^^^^^"#]],
    );
    check(
        "repeat l in 0..3 { repeat l in 0..3 { s := l } }",
        expect![[r#"
        line 1, column 27: letter `l` is defined twice
        1 | repeat l in 0..3 { repeat l in 0..3 { s := l } }
          |                           ^
        for `l` = 0, line 1, column 1
        1 | repeat l in 0..3 { repeat l in 0..3 { s := l } }
          | ^^^^^^^^^^^^^^^^"#]],
    );
    check(
        "s := 1\nrepeat l in 0..2 { s += w[l - 1][] }",
        expect![[r#"
        line 2, column 27: nodes of the family `w` are numbered from 0, found -1
        2 | repeat l in 0..2 { s += w[l - 1][] }
          |                           ^^^^^
        for `l` = 0, line 2, column 1
        2 | repeat l in 0..2 { s += w[l - 1][] }
          | ^^^^^^^^^^^^^^^^"#]],
    );
    check(
        "repeat l in 0..100000000000 {}",
        expect![[r#"
        line 1, column 1: the expanded program has more than 65536 statements
        1 | repeat l in 0..100000000000 {}
          | ^^^^^^^^^^^^^^^^^^^^^^^^^^^"#]],
    );
    let error = Program::parse("size batch, d = 3").and_then(|program| program.bind("bach", 3));
    expect![[r#"
        line 1, column 1: the text has no size `bach`; expected batch
        1 | size batch, d = 3
          | ^"#]]
    .assert_eq(&error.unwrap_err().to_string());
}

#[test]
fn definitions() {
    check(
        "def f(x[i]) -> y[i] { y[i] := x[i] }\ndef f() -> y[] { y := 1 }",
        expect![[r#"
        line 2, column 5: function `f` is defined twice
        2 | def f() -> y[] { y := 1 }
          |     ^"#]],
    );
    check(
        "def f(x[i]) -> y[i] { x[i] := 1; y[i] := x[i] }",
        expect![[r#"
        line 1, column 23: function `f` writes its parameter `x`; declare it as `inout x[..]`
        1 | def f(x[i]) -> y[i] { x[i] := 1; y[i] := x[i] }
          |                       ^^^^"#]],
    );
    check(
        "def f(x[i]) -> y[i] { z[i] := x[i] }",
        expect![[r#"
        line 1, column 16: function `f` never writes its result `y`
        1 | def f(x[i]) -> y[i] { z[i] := x[i] }
          |                ^^^^"#]],
    );
    check(
        "def f(x[i]) -> y[i] { y[i] += x[i] }",
        expect![[r#"
        line 1, column 23: result `y` has no value yet; expected an operator that starts from none, such as `:=` or `:+=`
        1 | def f(x[i]) -> y[i] { y[i] += x[i] }
          |                       ^^^^"#]],
    );
    check(
        "def f(x[i]) -> y[i] { y[i] := x[i] * w[i] }\ny[0,i] := f(w[i])",
        expect![[r#"
        line 1, column 38: function `f` has no `w`, and reads only its parameters and own nodes; expected one of x, y
        1 | def f(x[i]) -> y[i] { y[i] := x[i] * w[i] }
          |                                      ^
        in function `f`, line 2, column 11
        2 | y[0,i] := f(w[i])
          |           ^^^^^^^"#]],
    );
    check(
        "def f(x[i]) -> y[i] { y[i] := x[i] * rate }\ny[0,i] := f(w[i])",
        expect![[r#"
        line 1, column 38: function `f` has no `rate`, and reads only its parameters and own nodes; expected one of x, y
        1 | def f(x[i]) -> y[i] { y[i] := x[i] * rate }
          |                                      ^^^^
        in function `f`, line 2, column 11
        2 | y[0,i] := f(w[i])
          |           ^^^^^^^"#]],
    );
    check(
        "def f(x[i]) -> y[i] { y[i] := x[i] * @rate }\ny[0,i] := f(w[i])",
        expect![[r#"
        line 1, column 38: function `f` has no `@rate`, and reads only its parameters and own nodes; expected one of x, y
        1 | def f(x[i]) -> y[i] { y[i] := x[i] * @rate }
          |                                      ^^^^^
        in function `f`, line 2, column 11
        2 | y[0,i] := f(w[i])
          |           ^^^^^^^"#]],
    );
    check(
        "def f(x[..r..]) -> y[..r..] { y[..q..] := x[..r..] }\ny[0,i] := f(w[i])",
        expect![[r#"
        line 1, column 33: no parameter of function `f` has the axes `..q..`
        1 | def f(x[..r..]) -> y[..r..] { y[..q..] := x[..r..] }
          |                                 ^^^^^
        in function `f`, line 2, column 11
        2 | y[0,i] := f(w[i])
          |           ^^^^^^^"#]],
    );
    check(
        "def f(x[i]) -> y[..] { y[..] := x[0] }\ny[0,i] := f(w[i])",
        expect![[r#"
        line 1, column 18: no parameter of function `f` has the axes `..`
        1 | def f(x[i]) -> y[..] { y[..] := x[0] }
          |                  ^^"#]],
    );
    check(
        "def f(x[..]) -> y[..] { y[..] := x[i,..] }\ny[0,i] := f(w[i])",
        expect![[r#"
        line 1, column 34: `x` has 1 axis, found 2 indices
        1 | def f(x[..]) -> y[..] { y[..] := x[i,..] }
          |                                  ^^^^^^^
        in function `f`, line 2, column 11
        2 | y[0,i] := f(w[i])
          |           ^^^^^^^"#]],
    );
    check(
        "def f(x[i]) -> y[i] { y := uniform(3) * x }\ny[0,i] := f(w[i])",
        expect![[r#"
        line 1, column 23: `y` has 1 axis, found 0 indices
        1 | def f(x[i]) -> y[i] { y := uniform(3) * x }
          |                       ^
        in function `f`, line 2, column 11
        2 | y[0,i] := f(w[i])
          |           ^^^^^^^"#]],
    );
    check(
        "def f(x[i]) -> y[j,i] { y := uniform(3) }\ny[i,j] := f(w[j])\ny[i,j] := f(x[i,0])",
        expect![[r#"
            line 1, column 25: `y` is a part of a node, or has other axes here; expected a whole node
            1 | def f(x[i]) -> y[j,i] { y := uniform(3) }
              |                         ^
            in function `f`, line 3, column 11
            3 | y[i,j] := f(x[i,0])
              |           ^^^^^^^^^"#]],
    );
    check(
        "def f(x[i]) -> y[i] { y[i] := g(x[i]) }\ndef g(x[i]) -> y[i] { y[i] := 1 + f(x[i]) }\ny[0,i] := f(w[i])",
        expect![[r#"
            line 2, column 35: function `f` calls itself: f -> g -> f
            2 | def g(x[i]) -> y[i] { y[i] := 1 + f(x[i]) }
              |                                   ^
            in function `g`, line 1, column 31
            1 | def f(x[i]) -> y[i] { y[i] := g(x[i]) }
              |                               ^^^^^^^
            in function `f`, line 3, column 11
            3 | y[0,i] := f(w[i])
              |           ^^^^^^^"#]],
    );
    check(
        "def f(x[i]) -> y[i] { g(x[i]); y[i] := x[i] }\ndef g(inout x[i]) { x[i] := 0 }\ny[0,i] := f(w[i])",
        expect![[r#"
        line 1, column 25: function `f` writes its parameter `x`; declare it as `inout x[..]`
        1 | def f(x[i]) -> y[i] { g(x[i]); y[i] := x[i] }
          |                         ^^^^
        in function `f`, line 3, column 11
        3 | y[0,i] := f(w[i])
          |           ^^^^^^^"#]],
    );
}

#[test]
fn arguments() {
    check_f(
        "y[i,j] := f(x[i,j], 1, s)",
        expect![[r#"
        line 2, column 24: axis `..` of function `f` is the axis `i` in an earlier argument, found no axes
        2 | y[i,j] := f(x[i,j], 1, s)
          |                        ^"#]],
    );
    check_f(
        "y[i,j] := f(x[i,j], 1)",
        expect![[r#"
        line 2, column 11: function `f` has no argument for `b`
        2 | y[i,j] := f(x[i,j], 1)
          |           ^^^^^^^^^^^^"#]],
    );
    check_f(
        "y[i,j] := f(x[i,j], 1, w[i], 3)",
        expect![[r#"
        line 2, column 11: function `f` takes 3 arguments, found 4
        2 | y[i,j] := f(x[i,j], 1, w[i], 3)
          |           ^^^^^^^^^^^^^^^^^^^^^"#]],
    );
    check_f(
        "y[i,j] := f(x[i,j], b = w[i], d = 1)",
        expect![[r#"
        line 2, column 31: function `f` has no parameter `d`; expected one of a, b, c
        2 | y[i,j] := f(x[i,j], b = w[i], d = 1)
          |                               ^"#]],
    );
    check_f(
        "y[i,j] := f(x[i,j], 1, w[i], c = 1)",
        expect![[r#"
        line 2, column 34: argument `c` is defined twice
        2 | y[i,j] := f(x[i,j], 1, w[i], c = 1)
          |                                  ^"#]],
    );
    check_f(
        "y[i,j] := f(x[i,j], w[i], w[i])",
        expect![[r#"
        line 2, column 21: parameter `c` of function `f` is a scalar, found letter `i`
        2 | y[i,j] := f(x[i,j], w[i], w[i])
          |                     ^^^^"#]],
    );
    check_f(
        "y[i,j] := f(x[i,j], 1, 2 * w[i])",
        expect![[r#"
        line 2, column 24: function `f` writes `b[..]`; expected a node with one letter per axis
        2 | y[i,j] := f(x[i,j], 1, 2 * w[i])
          |                        ^^^^^^^^"#]],
    );
    check_f(
        "y[i,j] := f(x[i,j], 1, x[i,0])",
        expect![[r#"
        line 2, column 24: function `f` writes `b[..]`; expected a node with one letter per axis
        2 | y[i,j] := f(x[i,j], 1, x[i,0])
          |                        ^^^^^^"#]],
    );
    check_f(
        "y[i,j] := f(x[i,j], 1, w[j])",
        expect![[r#"
        line 2, column 24: axis `..` of function `f` is the axis `i` in an earlier argument, found the axis `j`
        2 | y[i,j] := f(x[i,j], 1, w[j])
          |                        ^^^^"#]],
    );
    check_f(
        "y[i,j] := f(s, 1, w[i])",
        expect![[r#"
        line 2, column 13: parameter `a[..,k]` of function `f` does not fit an argument with no axes
        2 | y[i,j] := f(s, 1, w[i])
          |             ^"#]],
    );
    check_f(
        "y[i,j] := 1 + f(x[i,j], 1, w[i])",
        expect![[r#"
        line 2, column 15: function `f` writes its parameter `b`; expected a call that is a statement of its own
        2 | y[i,j] := 1 + f(x[i,j], 1, w[i])
          |               ^^^^^^^^^^^^^^^^^^"#]],
    );
    check_f(
        "y[i,j], s := f(x[i,j], 1, w[i])",
        expect![[r#"
        line 2, column 14: function `f` has 1 result, found 2 targets
        2 | y[i,j], s := f(x[i,j], 1, w[i])
          |              ^^^^^^^^^^^^^^^^^^"#]],
    );
    check(
        "def f(x[i]) -> y[o] { y[o] :+= x[o + k] where k < 2 }\ns :+= f(w[i])",
        expect![[r#"
            line 2, column 7: result `y[o]` of function `f` has an axis that no argument has; write indices after the call, as in `f(..)[i,j]`
            2 | s :+= f(w[i])
              |       ^^^^^^^"#]],
    );
    check(
        "def f(x[i]) -> y[i] { y[i] := x[i] }\ny[0,i] := f(w[i])[i,0]",
        expect![[r#"
        line 2, column 11: `y` has 1 axis, found 2 indices
        2 | y[0,i] := f(w[i])[i,0]
          |           ^^^^^^^^^^^^"#]],
    );
    check(
        "def f(x[i]) -> y[i] { y[i] := x[i] }\ny[i^j,0] := f(w[i^j])",
        expect![[r#"
        line 2, column 15: parameter `x[i]` of function `f` does not fit an argument with the axes `i,j`
        2 | y[i^j,0] := f(w[i^j])
          |               ^^^^^^"#]],
    );
}

#[test]
fn seeds_are_numbers() {
    let f = "def f(seed) -> y[] { y := 1 + uniform(seed, 3) }\n";
    check(
        &format!("{f}s := f(-7)"),
        expect![[r#"
        line 1, column 39: expected a seed such as `42`, found `-7`
        1 | def f(seed) -> y[] { y := 1 + uniform(seed, 3) }
          |                                       ^^^^
        in function `f`, line 2, column 6
        2 | s := f(-7)
          |      ^^^^^"#]],
    );
    check(
        &format!("{f}s := f(@step)"),
        expect![[r#"
        line 1, column 39: expected a seed such as `42`, found `@step`
        1 | def f(seed) -> y[] { y := 1 + uniform(seed, 3) }
          |                                       ^^^^
        in function `f`, line 2, column 6
        2 | s := f(@step)
          |      ^^^^^^^^"#]],
    );
    check(
        &format!("{f}s := f(s)"),
        expect![[r#"
        line 1, column 39: an index is a sum of integers and integer multiples of letters and symbols; found a value
        1 | def f(seed) -> y[] { y := 1 + uniform(seed, 3) }
          |                                       ^^^^
        in function `f`, line 2, column 6
        2 | s := f(s)
          |      ^^^^"#]],
    );
    check(
        "s := 1 * where",
        expect![[r#"
        line 1, column 10: expected an expression, found `where`
        1 | s := 1 * where
          |          ^^^^^"#]],
    );
}

#[test]
fn errors_in_functions_show_the_calls() {
    check(
        "def scale(x[..], c) -> y[..] {
    y[..] := x[..] * c
}
def twice(x[..,k]) -> y[..,k] {
    y[..,k] := scale(x[..,k], 1e39)
}
repeat l in 1..3 {
    y[i,j] := twice(x[i,j])
}",
        expect![[r#"
            line 2, column 22: 1e39 is out of the range of f32
            2 |     y[..] := x[..] * c
              |                      ^
            in function `scale`, line 5, column 16
            5 |     y[..,k] := scale(x[..,k], 1e39)
              |                ^^^^^^^^^^^^^^^^^^^^
            in function `twice`, line 8, column 15
            8 |     y[i,j] := twice(x[i,j])
              |               ^^^^^^^^^^^^^
            for `l` = 1, line 7, column 1
            7 | repeat l in 1..3 {
              | ^^^^^^^^^^^^^^^^"#]],
    );
    check(
        "def column(x[i,j]) -> y[i] { y[i] := x[i,6] }\n\n y[i,0] := column(x[i,j])",
        expect![[r#"
            line 1, column 42: index `6` takes values 6..=6, but axis 1 of node `x` has 6 elements; `pad(x, 0)[i,6]` reads 0 outside
            1 | def column(x[i,j]) -> y[i] { y[i] := x[i,6] }
              |                                          ^
            in function `column`, line 3, column 12
            3 |  y[i,0] := column(x[i,j])
              |            ^^^^^^^^^^^^^^"#]],
    );
}

/// A seed is no negative number, whether the text has it or a call gives it.
#[test]
fn negative_seeds() {
    check(
        "def noise(a[..k..], seed) -> r[..k..] { r[..k..] := a[..k..] * uniform(seed, ..k..) }\ny[i,j] := noise(x[i,j], -7)",
        expect![[r#"
            line 1, column 72: expected a seed such as `42`, found `-7`
            1 | def noise(a[..k..], seed) -> r[..k..] { r[..k..] := a[..k..] * uniform(seed, ..k..) }
              |                                                                        ^^^^
            in function `noise`, line 2, column 11
            2 | y[i,j] := noise(x[i,j], -7)
              |           ^^^^^^^^^^^^^^^^^"#]],
    );
}
