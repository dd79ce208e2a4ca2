//! Warnings: the programs that get one, and the text of each.

use assignment_text::parse;
use assignments::lower::{LowerOptions, lower};
use assignments::{Warning, WarningKind, builder};
use expect_test::{Expect, expect};
use tnode::{DType, MemoryMode, TensorNode};

fn nodes() -> Vec<TensorNode> {
    let node =
        |name: &str, dtype, dims: &[usize]| TensorNode::builder(name).dims(dims.iter().copied()).dtype(dtype);
    let small = |builder: tnode::NodeBuilder| builder.build().expect("small");
    vec![
        small(node("x", DType::F32, &[4])),
        small(node("y", DType::F32, &[4])),
        small(node("z", DType::F32, &[4, 2])),
        small(node("d", DType::F64, &[4])),
        small(node("s", DType::F32, &[])),
        small(node("n", DType::I32, &[4])),
        small(node("m", DType::I32, &[4])),
        small(node("v", DType::F32, &[4]).mode(MemoryMode::Virtual)),
        small(node("l", DType::F32, &[4]).mode(MemoryMode::Local)),
    ]
}

fn warnings(text: &str) -> Vec<Warning> {
    let program = parse(text, &nodes()).unwrap_or_else(|error| panic!("{error}"));
    lower(&program, &LowerOptions::default()).unwrap_or_else(|error| panic!("{error}")).warnings
}

#[track_caller]
fn check(text: &str, expected: Expect) {
    expected.assert_eq(&warnings(text).iter().map(|warning| format!("{warning}\n")).collect::<String>());
}

#[track_caller]
fn silent(text: &str) {
    assert!(warnings(text).is_empty(), "{text}: {:?}", warnings(text));
}

#[test]
fn quotients_of_integers_in_floats() {
    check(
        "x[i] := 1\ny[i] := i / 2",
        expect![[r#"
        line 2, column 9: `i / 2` divides integers of i32 and drops the fraction, and node y is of f32; expected `f32(i) / 2`, or `f32(i / 2)` if the integer is meant
        2 | y[i] := i / 2
          |         ^^^^^
    "#]],
    );
    check(
        "d[i] := x[i] * (n[i] / m[i]) + 1",
        expect![[r#"
            line 1, column 16: `(n[i] / m[i])` divides integers of i32 and drops the fraction, and node d is of f64; expected `(f64(n[i]) / m[i])`, or `f64((n[i] / m[i]))` if the integer is meant
            1 | d[i] := x[i] * (n[i] / m[i]) + 1
              |                ^^^^^^^^^^^^^
        "#]],
    );
    for text in
        ["s += n[i] / 2", "y[i] := where(i < 2, i / 2, 0)", "y[i] := sqrt(i / 2)", "y[i] := -(size(i) / 3)"]
    {
        let found = warnings(text);
        assert!(
            matches!(found[..], [ref one] if matches!(one.kind(), WarningKind::IntegerDivision { .. })),
            "{text}"
        );
    }
    // No warning for a quotient of floats or of literals, or one that is stored in integers, converted
    // explicitly, used in integer arithmetic, or not stored.
    for text in [
        "y[i] := i / 2.0",
        "y[i] := 1 / 2",
        "y[i] := x[i] / 2",
        "n[i] := i / 2",
        "y[i] := f32(i / 2)",
        "y[i] := i32(i / 2)",
        "y[i] := (i / 2) % 2",
        "y[i] := i / 2 == 1",
        "y[i] := where(i / 2 == 1, 3, 4)",
        "y[i] := x[n[i] / 2]",
    ] {
        silent(text);
    }
}

#[test]
fn one_random_number_for_all_elements() {
    check(
        "y[i] := normal(3)",
        expect![[r#"
        line 1, column 9: `normal(3)` is one number for all elements of node y; expected `normal(3, i)` for a number each
        1 | y[i] := normal(3)
          |         ^^^^^^^^^
    "#]],
    );
    check(
        "z[i,j] := 1 + 2 * uniform(3, @step)\nx[i] := 1 where @step < 9",
        expect![[r#"
        line 1, column 19: `uniform(3, @step)` is one number for all elements of node z; expected `uniform(3, @step, i, j)` for a number each
        1 | z[i,j] := 1 + 2 * uniform(3, @step)
          |                   ^^^^^^^^^^^^^^^^^
    "#]],
    );
    assert_eq!(warnings("s :+= x[i] * normal(3)").len(), 1);
    for text in [
        "y := normal(3)",
        "y[i] := normal(3, i)",
        "z[i,j] := normal(3, i)",
        "s := normal(3) + 1",
        "x[i] := 1\nx[2] := 0 * normal(3)",
    ] {
        silent(text);
    }
}

#[test]
fn values_that_nothing_uses() {
    check(
        "v[i] := 2 * x[i]\ny[i] := x[i]",
        expect![[r#"
            line 1, column 1: the values of node v are not used: its mode is virtual, and this routine does not read it; `keep v` in the text, or `MemoryMode::Materialized`, keeps them
            1 | v[i] := 2 * x[i]
              | ^^^^
        "#]],
    );
    check(
        "l[i] := 2 * x[i]",
        expect![[r#"
            line 1, column 1: the values of node l are not used: its mode is local, and this routine does not read it; `keep l` in the text, or `MemoryMode::Materialized`, keeps them
            1 | l[i] := 2 * x[i]
              | ^^^^
        "#]],
    );
    silent("v[i] := 2 * x[i]\ny[i] := v[i]");
    silent("y[i] := exp(x[i]) + 1");
    // Assignments that are built without a text have no source span.
    let nodes = nodes();
    let program = builder::constant(&nodes[7], 1.0);
    let lowered = lower(&program, &LowerOptions::default()).expect("legal");
    assert_eq!(lowered.warnings.len(), 1);
    assert!(lowered.warnings[0].span().is_none() && lowered.warnings[0].to_string().contains("node v"));
}

/// Writing a view writes its parent, so its values count as used.
#[test]
fn views_are_used() {
    let x = TensorNode::builder("x").dims([8, 4]).dtype(DType::F32).build().expect("small");
    let part = TensorNode::builder("part").dims([4]).dtype(DType::F32).mode(MemoryMode::Virtual);
    let part = part.build().expect("small");
    let program = parse("part := slice(x, @s)\npart[i] := 1", &[x, part]).expect("reads");
    assert!(lower(&program, &LowerOptions::default()).expect("legal").warnings.is_empty());
}

/// Both statements that a warning about a division suggests are legal, and neither gets a warning.
#[test]
fn suggestions_are_programs() {
    for text in [
        "y[i] := i / 2",
        "y[i] := (n[i] + 1) / m[i]",
        "d[i] := size(i) / (n[i] + 2)",
        "y[i] := n[i] / m[i] + 1",
    ] {
        let found = warnings(text);
        let [WarningKind::IntegerDivision { division, written, instead, .. }] = &[found[0].kind().clone()]
        else {
            panic!("{text}: {found:?}");
        };
        silent(&text.replace(division, instead));
        silent(&text.replace(division, &format!("{written}({division})")));
    }
    for text in ["y[i] := normal(3)", "z[i,j] := x[i] * uniform(3, @step) where @step < 9"] {
        let found = warnings(text);
        let WarningKind::OneRandomNumber { call, instead, .. } = found[0].kind() else {
            panic!("{text}: {found:?}");
        };
        silent(&text.replace(call, instead));
    }
}

/// Joined programs keep the warnings of both.
#[test]
fn joined_programs_keep_their_warnings() {
    let nodes = nodes();
    let part = |text: &str| parse(text, &nodes).expect("reads");
    let program = part("y[i] := i / 2").then(part("x[i] := normal(3)")).named("both");
    assert_eq!(program.warnings.len(), 2);
}

/// The name of an integer without axes, in an index, is a letter.
#[test]
fn letters_with_the_name_of_an_integer() {
    let k = TensorNode::builder("k").dims([]).dtype(DType::I32).build().expect("small");
    let with_k = |text: &str| {
        let program = parse(text, &[nodes(), vec![k.clone()]].concat())?;
        Ok::<_, assignment_text::TextError>(
            program.warnings.iter().map(|found| found.to_string()).collect::<Vec<_>>(),
        )
    };
    let found = with_k("y[k] := 0").unwrap();
    expect![[r#"
        line 1, column 3: `k` is a letter here, which takes every value of its range, and not node k; expected `k[]` for the value of the node, or another letter
        1 | y[k] := 0
          |   ^
    "#]]
    .assert_eq(&(found.join("\n") + "\n"));
    assert!(with_k("y[i] := x[k[]] * f32(i)").unwrap().is_empty());
    let error = with_k("y[i] := x[k] * f32(i)").unwrap_err().to_string();
    expect![[r#"
        line 1, column 6: `:=` stores one value per element, but `k` is not among the indices of `y`; expected `k[]` as the index, for the value of node k, or an accumulation such as `:+=`
        1 | y[i] := x[k] * f32(i)
          |      ^^
    "#]]
    .assert_eq(&(error + "\n"));
}

#[test]
fn inputs_that_nothing_reads() {
    let found = |text: &str| {
        let program = assignment_text::Program::parse(text).unwrap().assignments(&[]).unwrap();
        program.warnings.iter().map(|found| format!("{found}\n")).collect::<String>()
    };
    expect![[r#"
        line 1, column 7: nothing reads input `bias`; expected a statement that does, or no declaration
        1 | input bias f32[4]
          |       ^^^^^^^^^^^
    "#]]
    .assert_eq(&found("input bias f32[4]\ninput x f32[4]\ny[i] := x[i] * 2; keep y"));
    assert_eq!(found("input x f32[4, 2]\nview v = x as [8]\ny[i] := v[i] * 2; keep y"), "");
    assert_eq!(found("input x f32[4]\nparam w f32[4]\nkeep x\ny[i] := w[i] * 2; keep y"), "");
}
