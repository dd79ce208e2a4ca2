//! Nodes that a text writes without declaring them: their dimensions, their element types, and the errors.

use crate::program;

use assignment_text::{Program, TextError};
use assignments::Assignments;
use assignments::lower::{LowerErrorKind, LowerOptions, lower};
use expect_test::{Expect, expect};
use program::{Machine, f32s, node, values};
use tnode::{DType, MemoryMode, Reason, TensorNode};

/// The declared nodes of every text here.
fn nodes() -> Vec<TensorNode> {
    vec![
        f32s("x", &[8, 4]),
        f32s("w", &[4, 6]),
        f32s("taps", &[3]),
        f32s("img", &[2, 8, 8]),
        f32s("hidden", &[8, 6]),
        node("n", DType::I32, &[8]),
        node("label", DType::U8, &[8]),
        node("half", DType::F16, &[8]),
        node("double", DType::F64, &[8]),
        TensorNode::builder("untyped").dims([8]).build().expect("small"),
    ]
}

fn read(text: &str, kept: &[&str]) -> Result<Assignments, TextError> {
    kept.iter().fold(Program::parse(text)?, |program, name| program.keep(*name)).assignments(&nodes())
}

/// Checks the type and the dimensions of each intermediate, all of which are kept, and of `untyped` if the
/// text writes it.
fn infers(text: &str, expected: &str) {
    let names: Vec<&str> = expected.split(' ').filter_map(|node| node.split(':').next()).collect();
    let assignments = read(text, &names).unwrap_or_else(|error| panic!("{error}"));
    let mut found: Vec<TensorNode> = assignments.text_nodes.iter().cloned().collect();
    found.extend(assignments.written_nodes().into_iter().filter(|node| node.name() == "untyped"));
    let described = |node: &TensorNode| {
        format!("{}:{}{:?}", node.name(), node.dtype(), node.dims().expect("settled").as_slice())
    };
    let found: Vec<String> = found.iter().map(|node| described(node).replace(", ", ",")).collect();
    assert_eq!(found.join(" "), expected, "{text}");
}

#[test]
fn dimensions_are_ranges_of_the_letters_of_the_first_statement() {
    for (text, expected) in [
        ("h[b,j] :+= x[b,i] * w[i,j]", "h:f32[8,6]"),
        ("t[i,b] := x[b,i]", "t:f32[4,8]"),
        ("s :+= x[b,i]", "s:f32[]"),
        ("a[b,i] := x[b,i] where b < 3", "a:f32[3,4]"),
        // Reads give a letter of the left side the largest range that stays in bounds.
        ("y[b,i] :+= x[b, i + k] * taps[k]", "y:f32[8,2]"),
        ("p[c,i,j] :max= img[c, 2*i + u, 2*j + v] where u < 2, v < 2", "p:f32[2,4,4]"),
        ("r[i] := taps[2 - i]", "r:f32[3]"),
        ("q[i,j] := img[0, i + j, 7 - j] where j < 3", "q:f32[6,3]"),
        // Other indices than letters give one more than their greatest value.
        ("r[3 - i] := x[0,i]", "r:f32[4]"),
        ("s[2*b + 1] := n[b]", "s:i32[16]"),
        ("v[2] := x[0,0]", "v:f32[3]"),
        ("q[@s, i] := x[0,i] where @s < 5", "q:f32[5,4]"),
        ("c[a^b, i] := x[a,i], x[b,i]", "c:f32[16,4]"),
        ("a[i], b[j] := x[0, i^j] where i < 1; c[i] := a[i]; c[i] += b[0]", "a:f32[1] b:f32[3] c:f32[1]"),
        ("v := slice(x, @b)", "v:f32[4]"),
        // Statements are inferred in order, each from those before.
        ("h[b,j] :+= x[b,i] * w[i,j]; y[b] :+= h[b,j]", "h:f32[8,6] y:f32[8]"),
        ("h[b,j] :+= x[b,i] * w[i,j]; h[b,j] := relu(h[b,j]); y[j] :max= h[b,j]", "h:f32[8,6] y:f32[6]"),
    ] {
        infers(text, expected);
    }
}

#[test]
fn types_follow_from_values() {
    for (text, expected) in [
        ("y[b] := half[b] * double[b]", "y:f64[8]"),
        ("y[b] := n[b] / 2", "y:i32[8]"),
        ("y[b] := n[b] / 2.0", "y:f32[8]"),
        ("y[b] := exp(n[b])", "y:f32[8]"),
        ("y[b] := f16(x[b,0])", "y:f16[8]"),
        ("y[b] := b + 0*label[b]", "y:i32[8]"),
        // Truth values that are accumulated are counted.
        ("hot[b,k] := k == label[b] where k < 10", "hot:bool[8,10]"),
        ("count :+= x[b,i] > 0", "count:i32[]"),
        ("any :or= x[b,i] > 0", "any:bool[]"),
        ("c[a^b] := half[a], double[b]", "c:f64[16]"),
        // Numbers take the type of their use.
        ("z := 0.5", "z:f32[]"),
        ("z[b] := 0 where b < 8; z[b] += half[b]", "z:f16[8]"),
        ("z[b] := 1 where b < 8; y[b] := half[b] * z[b]", "z:f16[8] y:f16[8]"),
        ("z[b] := 0.5 where b < 8; y[b] := n[b] * z[b]", "z:f32[8] y:f32[8]"),
        ("z[b] := 2 where b < 8; y[b] := n[b] * z[b]", "z:i32[8] y:i32[8]"),
        ("z := 2; y[b] := half[b] * f64(z)", "z:f64[] y:f64[8]"),
        ("z := 1; y := z + 1", "z:f32[] y:f32[]"),
        ("idx := 3; y[j] := x[idx[], j]", "idx:i32[] y:f32[4]"),
        ("z[b] := 0 where b < 8; z[b] := 0.5 where b < 2; y[b] := double[b] + z[b]", "z:f64[8] y:f64[8]"),
        // A declared node without a type is inferred in the same way, unless it has earlier values.
        ("untyped[b] := n[b]", "untyped:i32[8]"),
        ("untyped[b] :+= half[b]", "untyped:f16[8]"),
        ("untyped[b] := 1", "untyped:f32[8]"),
        ("untyped[b] := 1; untyped[b] *= half[b]", "untyped:f16[8]"),
        ("untyped[b] += half[b]", "untyped:f32[8]"),
        ("y[b] := untyped[b] * half[b]", "y:f32[8]"),
        ("y[b] := untyped[b]; untyped[b] := half[b]", "y:f32[8] untyped:f32[8]"),
    ] {
        infers(text, expected);
    }
}

fn rejects(text: &str, kept: &[&str], expected: &Expect) {
    match read(text, kept) {
        Ok(assignments) => panic!("accepted:\n{assignments}"),
        Err(error) => expected.assert_eq(&error.to_string()),
    }
}

#[test]
fn nodes_are_written_before_they_are_read() {
    for (text, expected) in [
        (
            "y[b] := h[b,0]\nh[b,j] :+= x[b,i] * w[i,j]",
            expect![[r#"
                line 1, column 9: node `h` has no values yet, since the statement of line 2 is the first to write it; write it before, or declare `input h` if its values come from elsewhere
                1 | y[b] := h[b,0]
                  |         ^"#]],
        ),
        (
            "h[b] := h[b] + x[b,0]",
            expect![[r#"
                line 1, column 9: node `h` has no values yet, since the statement of line 1 is the first to write it; write it before, or declare `input h` if its values come from elsewhere
                1 | h[b] := h[b] + x[b,0]
                  |         ^"#]],
        ),
        (
            "loss := loss + x[0,0]",
            expect![[r#"
                line 1, column 9: node `loss` has no values yet, since the statement of line 1 is the first to write it; write it before, or declare `input loss` if its values come from elsewhere
                1 | loss := loss + x[0,0]
                  |         ^^^^"#]],
        ),
        (
            "h[b,j] += x[b,i] * w[i,j]",
            expect![[r#"
            line 1, column 8: `+=` needs earlier values of node `h`, which nothing writes before; expected `:+=`, or a declaration such as `param h` if the values come from elsewhere
            1 | h[b,j] += x[b,i] * w[i,j]
              |        ^^"#]],
        ),
        (
            "y[b] := h[b]",
            expect![[r#"
            line 1, column 9: unknown node `h`; expected one of n, w, x, y
            1 | y[b] := h[b]
              |         ^"#]],
        ),
        (
            "v := slice(v, @s)",
            expect![[r#"
                line 1, column 12: node `v` has no values yet, since the statement of line 1 is the first to write it; write it before, or declare `input v` if its values come from elsewhere
                1 | v := slice(v, @s)
                  |            ^"#]],
        ),
    ] {
        rejects(text, &["y"], &expected);
    }
}

#[test]
fn nodes_that_nothing_reads_are_typos() {
    for (text, kept, expected) in [
        (
            "hiden[b,j] :+= x[b,i] * w[i,j]",
            vec![],
            expect![[r#"
                line 1, column 1: node `hiden` is written but never read; a similar name is hidden; `keep hiden` makes its values readable after a run
                1 | hiden[b,j] :+= x[b,i] * w[i,j]
                  | ^^^^^"#]],
        ),
        (
            "y[b] :+= x[b,i]\ny[b] := 2 * y[b]",
            vec![],
            expect![[r#"
                line 1, column 1: node `y` is written but never read; `keep y` makes its values readable after a run
                1 | y[b] :+= x[b,i]
                  | ^"#]],
        ),
        (
            "y[b] :+= x[b,i]",
            vec!["z"],
            expect![[r#"
            line 2, column 6: unknown node `z`; expected one of n, w, x, y
            2 | keep z
              |      ^"#]],
        ),
    ] {
        rejects(text, &kept, &expected);
    }
}

#[test]
fn ambiguities_name_the_declaration_that_settles_them() {
    for (text, expected) in [
        (
            "hist[label[b]] :+= 1",
            expect![[r#"
            line 1, column 6: the size of axis 0 of node `hist` is open, since its index is computed; declare it, as in `node hist f32[8]`
            1 | hist[label[b]] :+= 1
              |      ^^^^^^^^"#]],
        ),
        (
            "q[@s, i] := x[@s, i]",
            expect![[r#"
                line 1, column 3: the size of axis 0 of node `q` is open, since `@s` lacks a range such as `where @s < 8`; declare it, as in `node q f32[8, 4]`
                1 | q[@s, i] := x[@s, i]
                  |   ^^"#]],
        ),
        (
            "y[b,i] := pad(x, 0)[b, i + 1]",
            expect![[r#"
            line 1, column 3: the range of letter `b` is open; expected it as an index of its own somewhere, or a range as in `where b < 8`, or a declaration such as `node y f32[8, 8]`
            1 | y[b,i] := pad(x, 0)[b, i + 1]
              |   ^"#]],
        ),
        (
            "y[b,i] := img[0, b + i, 0]",
            expect![[r#"
            line 1, column 3: the range of letter `b` is open; expected it as an index of its own somewhere, or a range as in `where b < 8`, or a declaration such as `node y f32[8, 8]`
            1 | y[b,i] := img[0, b + i, 0]
              |   ^"#]],
        ),
        (
            "h[0][b,i] := 0",
            expect![[r#"
                line 1, column 6: the range of letter `b` is open; expected it as an index of its own somewhere, or a range as in `where b < 8`, or a declaration such as `node h[0] f32[8, 8]`
                1 | h[0][b,i] := 0
                  |      ^"#]],
        ),
        (
            "w2 := normal(42)",
            expect![[r#"
            line 1, column 1: the dimensions of node `w2` are open, since a function that fills a node takes them from it; declare it, as in `node w2 f32[8]`, or `node w2 f32[]` for one number
            1 | w2 := normal(42)
              | ^^"#]],
        ),
        (
            "y[i] := x[0,i]\ny[i + 4] := x[1,i]",
            expect![[r#"
            line 2, column 3: index `i + 4` takes values 4..=7, but axis 0 of node `y` has 4 elements; its dimensions are those of line 1, which writes it first; declare it, as in `node y f32[8]`
            2 | y[i + 4] := x[1,i]
              |   ^^^^^"#]],
        ),
        (
            "f[0] := x[0,0]\nrepeat l in 0..3 { f[l + 1] := f[l] * 2 }",
            expect![[r#"
                line 2, column 22: index `l + 1` takes values 1..=1, but axis 0 of node `f` has 1 element; its dimensions are those of line 1, which writes it first; declare it, as in `node f f32[2]`, or write `f[1][]` for a node of a family
                2 | repeat l in 0..3 { f[l + 1] := f[l] * 2 }
                  |                      ^^^^^
                for `l` = 0, line 2, column 1
                2 | repeat l in 0..3 { f[l + 1] := f[l] * 2 }
                  | ^^^^^^^^^^^^^^^^"#]],
        ),
        (
            "y[b,i] := x[b,i]\nz[b] := y[b]",
            expect![[r#"
            line 2, column 9: node `y` has dimensions [8, 4], expected 2 indices, found 1
            2 | z[b] := y[b]
              |         ^^^^"#]],
        ),
        (
            "y[i] :+= taps[i + k] * img[0,0,k]",
            expect![[r#"
            line 1, column 15: index `i + k` takes values 0..=7, but axis 0 of node `taps` has 3 elements; `pad(taps, 0)[i + k]` reads 0 outside
            1 | y[i] :+= taps[i + k] * img[0,0,k]
              |               ^^^^^"#]],
        ),
    ] {
        rejects(text, &["y"], &expected);
    }
}

#[test]
fn later_values_promote_to_the_inferred_type() {
    for (text, expected) in [
        (
            "y[b] := n[b]\ny[b] += x[b,0]",
            expect![[r#"
            line 2, column 9: node `y` is of i32 by the statement of line 1, but this value is of f32; declare the node, as in `node y f32[8]`, or convert the value, as in `i32(..)`
            2 | y[b] += x[b,0]
              |         ^^^^^^"#]],
        ),
        (
            "y[b] := n[b]\ny[b] := exp(n[b])",
            expect![[r#"
            line 2, column 9: node `y` is of i32 by the statement of line 1, but this value is of f32; declare the node, as in `node y f32[8]`, or convert the value, as in `i32(..)`
            2 | y[b] := exp(n[b])
              |         ^^^^^^^^^"#]],
        ),
        (
            "y[b] := 1 where b < 8\nz[b] := half[b] * y[b]\ny[b] := x[b,0]",
            expect![[r#"
            line 3, column 9: node `y` is of f16 by the statement of line 2, but this value is of f32; declare the node, as in `node y f32[8]`, or convert the value, as in `f16(..)`
            3 | y[b] := x[b,0]
              |         ^^^^^^"#]],
        ),
        // A number is checked against the type that a later statement gives it.
        (
            "big := 70000\ny[b] := half[b] * big",
            expect![[r#"
            line 1, column 8: 70000 is out of the range of f16
            1 | big := 70000
              |        ^^^^^"#]],
        ),
        // The first error of the text is reported, whichever stage finds it.
        (
            "y[b] := x[b,0] * 1e39\nz[b] := nope[b]",
            expect![[r#"
            line 1, column 18: 1e39 is out of the range of f32
            1 | y[b] := x[b,0] * 1e39
              |                  ^^^^"#]],
        ),
    ] {
        rejects(text, &["y"], &expected);
    }
}

/// Runs a text, and returns the values of the kept node.
fn run(text: &str, inputs: &[(&TensorNode, &[f64])], kept: &str) -> Vec<f64> {
    let nodes: Vec<TensorNode> = inputs.iter().map(|(node, _)| (*node).clone()).collect();
    let program = Program::parse(text).unwrap_or_else(|error| panic!("{error}")).keep(kept);
    let assignments = program.assignments(&nodes).unwrap_or_else(|error| panic!("{error}"));
    let mut machine = Machine::new(&assignments);
    inputs.iter().for_each(|(node, values)| machine.set(node, values));
    machine.run(&[]);
    machine.get(assignments.text_nodes.find(kept).expect("it is in the text"))
}

#[test]
fn a_network_needs_no_declaration_of_intermediates() {
    let (x, w1, w2) = (f32s("x", &[3, 4]), f32s("w1", &[4, 5]), f32s("w2", &[5, 2]));
    let (xs, w1s, w2s) = (values(12, 1), values(20, 2), values(10, 3));
    let text = "
        h[b,j] :+= x[b,i] * w1[i,j]
        a[b,j]  := relu(h[b,j])
        y[b,k] :+= a[b,j] * w2[j,k]";
    let found = run(text, &[(&x, &xs), (&w1, &w1s), (&w2, &w2s)], "y");
    let hidden = |b: usize, j: usize| (0..4).map(|i| xs[b * 4 + i] * w1s[i * 5 + j]).sum::<f64>().max(0.0);
    let output = |b: usize, k: usize| (0..5).map(|j| hidden(b, j) * w2s[j * 2 + k]).sum::<f64>();
    let expected: Vec<f64> = (0..6).map(|at| output(at / 2, at % 2)).collect();
    assert_eq!(found, expected);
}

#[test]
fn a_convolution_and_a_pooling_get_their_sizes_from_the_kernel_and_the_window() {
    let (x, w) = (f32s("x", &[10]), f32s("w", &[3]));
    let (xs, ws) = (values(10, 4), values(3, 5));
    let text = "c[i] :+= x[i + k] * w[k]; p[i] :max= c[2*i + k] where k < 2";
    let conv: Vec<f64> = (0..8).map(|i| (0..3).map(|k| xs[i + k] * ws[k]).sum()).collect();
    let expected: Vec<f64> = conv.chunks(2).map(|pair| pair[0].max(pair[1])).collect();
    assert_eq!(run(text, &[(&x, &xs), (&w, &ws)], "p"), expected);
}

/// A kept node has memory, and a slice that is kept is a copy.
#[test]
fn kept_nodes_have_memory() {
    let kept = |text: &str, name: &str| {
        let assignments = read(text, &[name, "y"]).unwrap_or_else(|error| panic!("{error}"));
        let node = assignments.text_nodes.find(name).expect("it is in the text").clone();
        let lowered = program::lowered(&assignments);
        assert!(lowered.views.is_empty());
        let at = lowered.lowered.nodes.iter().position(|known| *known == node).expect("it has memory");
        lowered.lowered.routine.nodes[at].mode.mode()
    };
    assert_eq!(kept("h[b] := 2 * n[b]; y[b] := h[b]", "h"), Some(MemoryMode::Materialized));
    assert_eq!(kept("v := slice(x, @s); y[i] := v[i]", "v"), Some(MemoryMode::Materialized));
}

#[test]
fn a_node_that_must_not_have_memory_cannot_be_kept() {
    let (x, y) = (f32s("x", &[2]), f32s("y", &[2]));
    y.update_memory_mode(MemoryMode::Virtual, Reason::new("the test says so")).expect("open");
    let text = "y[i] := 2 * x[i]; z[i] := y[i] + 1";
    let assignments = Program::parse(text)
        .expect("a program")
        .keep("y")
        .keep("z")
        .assignments(&[x, y.clone()])
        .expect("valid");
    let error = lower(&assignments, &LowerOptions::default()).expect_err("a conflict");
    let LowerErrorKind::Node(tnode::TensorNodeError::Mode { node, .. }) = error.kind() else {
        panic!("{error}")
    };
    assert_eq!(node, "y");
    let message = error.to_string();
    assert!(
        message.starts_with("line 1, column 1: node y is virtual (virtual because the test"),
        "{message}"
    );
    assert!(message.contains("materialized because the program keeps its values"), "{message}");
    assert_eq!(y.mode().mode(), Some(MemoryMode::Virtual));
}

/// The letters of a statement are in the order of the target, and gradients have the axes of what they are
/// gradients by: a subexpression with axes in the order `n`, `k` would have a transposed one.
#[test]
fn subexpressions_have_the_axes_of_their_operand() {
    let program =
        Program::parse("input x bf16[5, 3], w bf16[3, 4]\ny[m,n] :+= f32(x[m,k]) * f32(w[k,n])\nkeep y");
    let assignments = program.unwrap().assignments(&[]).unwrap();
    let dims = |name: &str| {
        let node = assignments.nodes().into_iter().find(|node| node.name().starts_with(name)).unwrap();
        node.dims_without_padding().unwrap().to_vec()
    };
    assert_eq!(dims("f32_x"), [5, 3]);
    assert_eq!(dims("f32_w"), [3, 4]);
}
