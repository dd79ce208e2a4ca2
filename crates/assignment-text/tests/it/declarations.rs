//! Nodes that a text declares: their types, dimensions, roles and initial values, and the errors.

use crate::program;

use assignment_text::{Program, TextError, parse, parse_nodes};
use assignments::{Assignments, Nodes};
use expect_test::{Expect, expect};
use program::{Machine, f32s, node};
use tnode::{DType, MemoryMode, TensorNode};

fn described(nodes: &Nodes) -> String {
    let one = |(name, node): (&str, &TensorNode)| {
        format!("{name}:{}{:?}", node.delayed_dtype(), node.dims().expect("settled").as_slice())
    };
    nodes.by_name().map(|node| one(node).replace(", ", ",")).collect::<Vec<_>>().join(" ")
}

#[test]
fn nodes_are_made_of_declarations() {
    for (text, expected) in [
        ("x f32[32, 64]; w f64[64,10]", "w:f64[64,10] x:f32[32,64]"),
        ("ids i32[32], table f16[8, 2*4]", "ids:i32[32] table:f16[8,8]"),
        ("loss f32\n  count u64[]  # rank 0\n", "count:u64[] loss:f32[]"),
        ("y[3]; z", "y:f32?[3] z:f32?[]"),
        ("w1.grad f32[2]", "w1.grad:f32[2]"),
        ("", ""),
    ] {
        let nodes = parse_nodes(text).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(described(&nodes), expected, "{text}");
    }
    let nodes = parse_nodes("b f32; w1.grad f32; a f32").expect("valid");
    assert_eq!(nodes.iter().map(TensorNode::name).collect::<Vec<_>>(), ["b", "w1.grad", "a"]);
}

fn read(text: &str, nodes: &[TensorNode]) -> Result<Assignments, TextError> {
    Program::parse(text)?.assignments(nodes)
}

fn valid(text: &str, nodes: &[TensorNode]) -> Assignments {
    read(text, nodes).unwrap_or_else(|error| panic!("{error}"))
}

/// Runs the initial values of a program, and returns those of one node.
fn initial(assignments: &Assignments, name: &str) -> Vec<f64> {
    let initial = assignments.initial.as_ref().expect("some node has an initial value");
    let mut machine = Machine::new(initial);
    machine.run(&[]);
    machine.get(assignments.text_nodes.find(name).expect("it is declared"))
}

#[test]
fn a_text_declares_its_nodes() {
    let text = "
        size d = 3
        input x f32[2, d], label u8[2]
        param w f32[d, 4] := 0.5
        const scale f32 := 2
        node h f64[2, 4]
        h[b,j] :+= x[b,i] * w[i,j] * scale
        y[b] :+= h[b, label[b]]
        keep y";
    let assignments = valid(text, &[]);
    let find = |name: &str| assignments.text_nodes.find(name).expect("it is in the text").clone();
    assert_eq!(find("h").dtype(), DType::F64);
    assert_eq!(find("y").dtype(), DType::F64);
    assert_eq!(find("w").mode().mode(), Some(MemoryMode::Materialized));
    assert_eq!(find("h").mode().mode(), None);
    assert_eq!(initial(&assignments, "w"), [0.5; 12]);
    assert_eq!(initial(&assignments, "scale"), [2.]);

    let mut machine = Machine::new(&assignments);
    machine.set(&find("x"), &[1., 2., 3., 4., 5., 6.]);
    machine.set(&find("label"), &[0., 3.]);
    machine.set(&find("w"), &(0..12).map(f64::from).collect::<Vec<_>>());
    machine.set(&find("scale"), &[2.]);
    machine.run(&[]);
    assert_eq!(machine.get(&find("y")), [2. * (4. * 2. + 8. * 3.), 2. * (3. * 4. + 7. * 5. + 11. * 6.)]);
}

/// Each element of an initial value has a random number of its own, as a fill has.
#[test]
fn initial_values_are_computed_element_by_element() {
    let text = "
        size fan_in = 24
        param a f32[2, 3] := normal(7)
        param b f32[2, 3] := normal(7) * 0.5 + uniform(8)
        param c f64[4] := 1 / 4, d f32[2] := normal(3), e i32[3] := offsets()
        param f f32[3] := values(1, 2, 3)
        param g f32[2] := sqrt(6 / fan_in)";
    let assignments = valid(text, &[]);
    let reference =
        valid("node n f32[2, 3]; node u f32[2, 3]; n := normal(7); u := uniform(8); keep n, u", &[]);
    let mut machine = Machine::new(&reference);
    machine.run(&[]);
    let [n, u] = ["n", "u"].map(|name| machine.get(reference.text_nodes.find(name).expect("declared")));
    assert_eq!(initial(&assignments, "a"), n);
    for ((b, n), u) in initial(&assignments, "b").into_iter().zip(n).zip(u) {
        assert!((b - (n * 0.5 + u)).abs() < 1e-6, "{b} {n} {u}");
    }
    assert_eq!(initial(&assignments, "c"), [0.25; 4]);
    assert_eq!(initial(&assignments, "d").len(), 2);
    assert_eq!(initial(&assignments, "e"), [0., 1., 2.]);
    assert_eq!(initial(&assignments, "f"), [1., 2., 3.]);
    assert_eq!(initial(&assignments, "g"), [0.5; 2]);
}

#[test]
fn repetitions_declare_families() {
    let text = "
        input x f32[2]
        repeat l in 0..3 { param w[l] f32[2, 2] := l + 1 }
        h[0][i] := x[i]
        repeat l in 0..3 { h[l + 1][i] :+= w[l][i,j] * h[l][j]; keep h[l + 1] }";
    let assignments = valid(text, &[]);
    assert_eq!(initial(&assignments, "w.2"), [3.; 4]);
    let kept: Vec<String> = assignments.kept.iter().map(TensorNode::name).collect();
    assert_eq!(kept, ["h_1", "h_2", "h_3"]);
}

/// Programs share the nodes that they are given, and check that they are as declared.
#[test]
fn given_nodes_take_the_place_of_declared_ones() {
    let train = Program::parse("param w f32[4]; input x f32[4]; w[i] -= 0.1 * x[i]").expect("a program");
    let nodes = train.declare().expect("valid");
    assert_eq!(described(&nodes), "w:f32[4] x:f32[4]");
    let all: Vec<TensorNode> = nodes.iter().cloned().collect();
    let trained = train.assignments(&all).expect("valid");
    let read = valid("param w f32[4]; y :+= w[i]; keep y", &all);
    let w = nodes.find("w").expect("declared");
    assert!(trained.nodes().contains(w) && read.nodes().contains(w));
    assert!(trained.text_nodes.is_empty());

    let family = Program::parse("repeat l in 0..2 { param w[l] f32 }; w[1][] := w[0][]").expect("a program");
    let nodes: Vec<TensorNode> = family.declare().expect("valid").iter().cloned().collect();
    assert_eq!(family.assignments(&nodes).expect("valid").nodes(), nodes);
}

/// The words that begin items are names where no second name follows.
#[test]
fn words_of_declarations_stay_names() {
    let nodes = ["input", "param", "const", "node", "keep", "size"].map(|name| f32s(name, &[4]));
    let text = "
        keep[i] := input[i] + param[i]
        node[i] += const[i] * keep[i] * size[i]";
    let assignments = parse(text, &nodes).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(assignments.nodes().len(), 7, "the node of a subexpression is among them");
}

#[test]
fn declarations_print_as_they_are_written() {
    let text = "\
input x f32[32,64]
param w[2] f32[64,10] := normal(1) * 0.5
const table i32[3] := values(1,2,3)
node h[8]
h[i] := x[0,i] where i < 8
keep h
";
    let printed = Program::parse(text).unwrap_or_else(|error| panic!("{error}")).to_string();
    assert_eq!(printed.replace(", ", ","), text);
}

fn rejects(result: Result<Assignments, TextError>, expected: &Expect) {
    match result {
        Ok(assignments) => panic!("accepted:\n{assignments}"),
        Err(error) => expected.assert_eq(&error.to_string()),
    }
}

#[test]
fn lists_of_declarations_are_checked() {
    for (text, expected) in [
        (
            "x f33[2]",
            expect![[r#"
            line 1, column 3: expected an element type such as `f32`, found `f33`
            1 | x f33[2]
              |   ^^^"#]],
        ),
        (
            "x f32[2; w f32",
            expect![[r#"
            line 1, column 8: expected `,` or `]`, found `;`
            1 | x f32[2; w f32
              |        ^"#]],
        ),
        (
            "x f32[n]",
            expect![[r#"
            line 1, column 7: expected a number, found `n`
            1 | x f32[n]
              |       ^"#]],
        ),
        (
            "x f32[-2]",
            expect![[r#"
            line 1, column 7: expected a size of 0 or more, found `-2`
            1 | x f32[-2]
              |       ^^"#]],
        ),
        (
            "x f32[2]; x f64[3]",
            expect![[r#"
            line 1, column 11: node `x` is defined twice
            1 | x f32[2]; x f64[3]
              |           ^"#]],
        ),
        (
            "x f32 := 1",
            expect![[r#"
                line 1, column 7: expected the end of the declaration: only `param` and `const` have values, found `:=`
                1 | x f32 := 1
                  |       ^^"#]],
        ),
        (
            "f32[2]",
            expect![[r#"
            line 1, column 1: expected a name, as in `x f32[32, 64]`, found `f32`
            1 | f32[2]
              | ^^^"#]],
        ),
        (
            "x f32[4611686018427387904, 8]",
            expect![[r#"
            line 1, column 1: an array of dimensions [4611686018427387904, 8] is too large to address
            1 | x f32[4611686018427387904, 8]
              | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^"#]],
        ),
    ] {
        match parse_nodes(text) {
            Ok(nodes) => panic!("accepted: {nodes:?}"),
            Err(error) => expected.assert_eq(&error.to_string()),
        }
    }
}

#[test]
fn declarations_in_a_text_are_checked() {
    let nodes = [f32s("given", &[8]), node("ids", DType::I32, &[8])];
    for (text, expected) in [
        (
            "input x f32[2]; x[i] := 0",
            expect![[r#"
            line 1, column 17: node `x` is declared as `input`, which a program only reads; declare it as `param x` to write it
            1 | input x f32[2]; x[i] := 0
              |                 ^"#]],
        ),
        (
            "const c f32[2] := 1; c[i] += 1",
            expect![[r#"
            line 1, column 22: node `c` is declared as `const`, which a program only reads; declare it as `param c` to write it
            1 | const c f32[2] := 1; c[i] += 1
              |                      ^"#]],
        ),
        (
            "const c f32[2]",
            expect![[r#"
            line 1, column 15: expected the value of the constant, as in `const x f32[3] := 1`, found the end of the text
            1 | const c f32[2]
              |               ^"#]],
        ),
        (
            "input x f32[2] := 1",
            expect![[r#"
                line 1, column 16: expected the end of the declaration: only `param` and `const` have values, found `:=`
                1 | input x f32[2] := 1
                  |                ^^"#]],
        ),
        (
            "input x f32[2]; param x f32[2]",
            expect![[r#"
            line 1, column 23: node `x` is defined twice
            1 | input x f32[2]; param x f32[2]
              |                       ^"#]],
        ),
        (
            "input given f32[9]",
            expect![[r#"
            line 1, column 7: node given: dimensions are settled as [8], found [9]
            1 | input given f32[9]
              |       ^^^^^^^^^^^^"#]],
        ),
        (
            "input ids f32[8]",
            expect![[r#"
            line 1, column 7: node ids: element type is specified as i32, found f32
            1 | input ids f32[8]
              |       ^^^^^^^^^^"#]],
        ),
        (
            "param w f32[2] := uniform(1, @step)",
            expect![[r#"
            line 1, column 30: expected an initial value without symbols, found `@step`
            1 | param w f32[2] := uniform(1, @step)
              |                              ^^^^^"#]],
        ),
        (
            "param w f32[n]",
            expect![[r#"
                line 1, column 13: `n` has no known value; expected numbers, letters of repetitions and sizes, as in `size d = 8`
                1 | param w f32[n]
                  |             ^"#]],
        ),
        (
            "param w f32[2] := given",
            expect![[r#"
            line 1, column 19: `given` is neither an index letter of this statement nor a node; there are none
            1 | param w f32[2] := given
              |                   ^^^^^"#]],
        ),
        (
            "param w f32[2] := 1e39",
            expect![[r#"
            line 1, column 19: 1e39 is out of the range of f32
            1 | param w f32[2] := 1e39
              |                   ^^^^"#]],
        ),
        (
            "def f(x[i]) -> y[i] { node h f32[2]; y[i] := x[i] }; z[i] := f(given[i]); keep z",
            expect![[r#"
            line 1, column 28: `node h` in function `f`; write it outside of functions, whose nodes are their own
            1 | def f(x[i]) -> y[i] { node h f32[2]; y[i] := x[i] }; z[i] := f(given[i]); keep z
              |                            ^
            in function `f`, line 1, column 62
            1 | def f(x[i]) -> y[i] { node h f32[2]; y[i] := x[i] }; z[i] := f(given[i]); keep z
              |                                                              ^^^^^^^^^^^"#]],
        ),
        (
            "def f(x[i]) -> y[i] { y[i] := x[i]; keep y }; z[i] := f(given[i])",
            expect![[r#"
            line 1, column 42: `keep y` in function `f`; write it outside of functions, whose nodes are their own
            1 | def f(x[i]) -> y[i] { y[i] := x[i]; keep y }; z[i] := f(given[i])
              |                                          ^
            in function `f`, line 1, column 55
            1 | def f(x[i]) -> y[i] { y[i] := x[i]; keep y }; z[i] := f(given[i])
              |                                                       ^^^^^^^^^^^"#]],
        ),
        (
            "node h f32[8]; y[i] := h[i]; keep y",
            expect![[r#"
                line 1, column 24: node `h` has no values yet, since no statement writes it; write it before, or declare `input h` if its values come from elsewhere
                1 | node h f32[8]; y[i] := h[i]; keep y
                  |                        ^"#]],
        ),
        (
            "node h f32[8]; h[i] += given[i]; keep h",
            expect![[r#"
            line 1, column 21: `+=` needs earlier values of node `h`, which nothing writes before; expected `:+=`, or a declaration such as `param h` if the values come from elsewhere
            1 | node h f32[8]; h[i] += given[i]; keep h
              |                     ^^"#]],
        ),
        (
            "node h f32[8]; h[i] := given[i]",
            expect![[r#"
            line 1, column 16: node `h` is written but never read; `keep h` makes its values readable after a run
            1 | node h f32[8]; h[i] := given[i]
              |                ^"#]],
        ),
        (
            "node h f32[9]; h[i] := given[i]; keep h",
            expect![[r#"
            line 1, column 18: letter `i` runs over 8 elements (axis 0 of `given[i]`), but axis 0 of node `h` has 9
            1 | node h f32[9]; h[i] := given[i]; keep h
              |                  ^"#]],
        ),
        (
            "keep givn",
            expect![[r#"
            line 1, column 6: unknown node `givn`; expected given
            1 | keep givn
              |      ^^^^"#]],
        ),
        (
            "keep",
            expect![[r#"
            line 1, column 5: expected indices such as `[i]`, or one of `:=` `+=` `*=` `max=` `min=` `:+=` `:*=` `:max=` `:min=`, found the end of the text
            1 | keep
              |     ^"#]],
        ),
    ] {
        rejects(read(text, &nodes), &expected);
    }
}
