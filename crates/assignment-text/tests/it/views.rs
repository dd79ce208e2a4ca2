//! Views: reads of a node under other dimensions.

use crate::program::{Machine, f32s, values};

use assignment_text::{Program, parse};
use expect_test::{Expect, expect};
use tnode::TensorNode;

/// Runs a program over inputs, and returns the values of `output`.
fn run(text: &str, inputs: &[(&TensorNode, &[f64])], output: &TensorNode) -> Vec<f64> {
    let mut nodes: Vec<TensorNode> = inputs.iter().map(|(node, _)| (*node).clone()).collect();
    nodes.push(output.clone());
    let assignments = parse(text, &nodes).unwrap_or_else(|error| panic!("{error}"));
    let mut machine = Machine::new(&assignments);
    inputs.iter().for_each(|(node, values)| machine.set(node, values));
    machine.run(&[]);
    machine.get(output)
}

#[test]
fn an_axis_is_split() {
    let (x, y) = (f32s("x", &[3, 8]), f32s("y", &[2, 3, 4]));
    let xs = values(24, 1);
    let found = run("view h = x as [3, 2, 4]; y[h,t,d] := h[t,h,d]", &[(&x, &xs)], &y);
    let expected: Vec<f64> = (0..24).map(|at| xs[at / 4 % 3 * 8 + at / 12 * 4 + at % 4]).collect();
    assert_eq!(found, expected);
    // The parts of an index have their own bounds and strides.
    let z = f32s("z", &[3, 2]);
    let found = run("view h = x as [3, 2, 4]; z[t,i] := h[t, 1 - i, 2*i + 1] * i", &[(&x, &xs)], &z);
    let expected: Vec<f64> = (0..6).map(|at| if at % 2 == 0 { 0.0 } else { xs[at / 2 * 8 + 3] }).collect();
    assert_eq!(found, expected);
}

#[test]
fn axes_are_joined() {
    let (x, w, y) = (f32s("x", &[2, 3, 4]), f32s("w", &[12, 5]), f32s("y", &[2, 5]));
    let (xs, ws) = (values(24, 1), values(60, 2));
    let text = "size n = 12\n view f = x as [2, n]\n y[b,o] :+= f[b,i] * w[i,o] / size(i)";
    let found = run(text, &[(&x, &xs), (&w, &ws)], &y);
    for (at, found) in found.iter().enumerate() {
        let (b, o) = (at / 5, at % 5);
        let expected: f64 = (0..12).map(|i| xs[12 * b + i] * ws[5 * i + o] / 12.0).sum();
        assert!((found - expected).abs() < 1e-5, "{found} {expected}");
    }
    // All axes at once, from the end, and the letter as a value and in an intermediate.
    let t = f32s("t", &[24]);
    let found = run("view f = x as [24]; c[i] := f[i] + i; t[i] := c[23 - i]", &[(&x, &xs)], &t);
    assert_eq!(found, (0..24).rev().map(|i| xs[i] + i as f64).collect::<Vec<_>>());
}

#[test]
fn dimensions_are_regrouped() {
    // [4, 6] as [2, 12]: the second axis takes a part of the first one.
    let (x, y) = (f32s("x", &[4, 6]), f32s("y", &[12, 2]));
    let xs = values(24, 1);
    let found = run("view v = x as [2, 12]; y[j,i] := v[i,j]", &[(&x, &xs)], &y);
    assert_eq!(found, (0..24).map(|at| xs[at % 2 * 12 + at / 2]).collect::<Vec<_>>());
    // Axes of size 1, a view of a view, a symbol and an intermediate.
    let z = f32s("z", &[6]);
    let text = "
        h[i,j] := 2 * x[i,j]
        view a = h as [2, 1, 12]
        view b = a as [1, 4, 6, 1]
        z[j] := b[0, 2, j, 0] + a[@s, 0, 5] where @s < 2";
    let mut machine = Machine::new(&parse(text, &[x.clone(), z.clone()]).expect("a program"));
    machine.set(&x, &xs);
    for s in 0..2 {
        machine.run(&[s as i64]);
        let expected: Vec<f64> = (0..6).map(|j| 2.0 * xs[12 + j] + 2.0 * xs[12 * s + 5]).collect();
        assert_eq!(machine.get(&z), expected);
    }
}

#[test]
fn bounds_of_letters_follow_a_split() {
    let (x, y) = (f32s("x", &[2, 6]), f32s("y", &[3]));
    let xs = values(12, 1);
    let text = "view f = x as [12]; y[i] := 0 * i; y[i] += f[n] * x[k,0] where k <= i, k < 2";
    let found = run(text, &[(&x, &xs)], &y);
    let sum: f64 = xs.iter().sum();
    assert_eq!(found, [sum * xs[0], sum * (xs[0] + xs[6]), sum * (xs[0] + xs[6])]);
}

#[test]
fn the_copy_in_an_error_is_a_program() {
    let (x, y) = (f32s("x", &[4, 6]), f32s("y", &[6, 4]));
    let xs = values(24, 1);
    let error = parse("view v = x as [6, 4]; y[i,j] := v[i,j]", &[x.clone(), y.clone()]);
    let error = error.expect_err("no linear index").to_string();
    let copy = error.split("as in `").nth(1).and_then(|rest| rest.split('`').next()).expect("a remedy");
    let found = run(&format!("{copy}; y[i,j] := v[i,j]"), &[(&x, &xs)], &y);
    assert_eq!(found, xs);
}

#[test]
fn functions_read_and_make_views() {
    let (x, y) = (f32s("x", &[2, 6]), f32s("y", &[2, 2]));
    let xs = values(12, 4);
    let text = "
        def sums(x[..,k]) -> s[..] { s[..] :+= x[..,k] }
        def pairs(x[i]) -> y[i,j] { view p = x as [2, 3]; y[i,j] :+= p[i,k] * (j + 1) where j < 2 }
        view h = x as [2, 2, 3]
        t[b,h] := sums(h[b,h,k])
        y[i,j] := pairs(x[1,k])[i,j] + t[i,j]";
    let error = parse(text, &[x.clone(), y.clone()]).expect_err("a part of a node").to_string();
    assert!(error.contains("`x` is a part of a node"), "{error}");
    let found = run(&text.replace("pairs(x[1,k])", "pairs(x[1,k] * 1)"), &[(&x, &xs)], &y);
    let sum = |from: usize| xs[from..from + 3].iter().sum::<f64>();
    let expected = [sum(6) + sum(0), 2.0 * sum(6) + sum(3), sum(9) + sum(6), 2.0 * sum(9) + sum(9)];
    assert_eq!(found, expected);
}

#[test]
fn programs_with_views_print() {
    let text = "size d = 4\nrepeat l in 0..2 { view v[l] = w[l] as [d, d / 2]; y[l] :+= v[l][i,j] }";
    let program = Program::parse(text).expect("a program");
    let expanded = program.expand().expect("expands").to_string();
    expect![[r#"
        view v.0 = w.0 as [4, 2]
        view v.1 = w.1 as [4, 2]
        y[0] :+= v.0[i,j]
        y[1] :+= v.1[i,j]
    "#]]
    .assert_eq(&expanded);
    assert_eq!(
        Program::parse(&expanded).and_then(|program| program.expand()).expect("expands").to_string(),
        expanded
    );
}

fn check(text: &str, expected: Expect) {
    let nodes = [f32s("x", &[4, 6]), f32s("y", &[4, 6]), f32s("s", &[])];
    match parse(text, &nodes) {
        Ok(assignments) => panic!("accepted:\n{assignments}"),
        Err(error) => expected.assert_eq(&error.to_string()),
    }
}

#[test]
fn errors_show_the_remedy() {
    check(
        "view v = x as [5, 5]\ns :+= v[i,j]",
        expect![[r#"
        line 1, column 1: view `v` has dimensions [5, 5], but node `x` has [4, 6]; expected as many elements
        1 | view v = x as [5, 5]
          | ^^^^^^^^^^^^^^^^^^^^"#]],
    );
    check(
        "view v = x as [6, 4]\ns :+= v[i,j]",
        expect![[r#"
        line 2, column 7: this read of node `x` needs a copy; write it first, as in `flat[6*i0 + i1] := x[i0,i1]; view v = flat as [6, 4]`
        2 | s :+= v[i,j]
          |       ^^^^^^"#]],
    );
    check(
        "view v = x as [4, 2, 3]\ny[i,j] := v[i,j]",
        expect![[r#"
        line 2, column 11: node `v` has dimensions [4, 2, 3], expected 3 indices, found 2
        2 | y[i,j] := v[i,j]
          |           ^^^^^^"#]],
    );
    check(
        "view v = x as [4, 2, 3]\ns :+= v[i,j,k] * x[i,j]",
        expect![[r#"
        line 2, column 22: letter `j` runs over 2 elements (axis 1 of `v[i,j,k]`), but axis 1 of node `x` has 6
        2 | s :+= v[i,j,k] * x[i,j]
          |                      ^"#]],
    );
    check(
        "view v = x as [4, 2, 3]\ns :+= v[i,2,k]",
        expect![[r#"
            line 2, column 11: index `2` takes values 2..=2, but axis 1 of node `v` has 2 elements
            2 | s :+= v[i,2,k]
              |           ^"#]],
    );
    check(
        "view v = x as [4, 2, 3]\ns := v[0,@h,1]",
        expect![[r#"
        line 2, column 6: a view is read by symbols with a range; expected one, as in `where @h < 2`
        2 | s := v[0,@h,1]
          |      ^^^^^^^^^"#]],
    );
    check(
        "view v = x as [24]\nv[i] := 0",
        expect![[r#"
        line 2, column 1: `v` is a view, whose elements can only be read
        2 | v[i] := 0
          | ^"#]],
    );
    check(
        "view v = x as [24]\ns := pad(v, 0)[30]",
        expect![[r#"
        line 2, column 10: `v` is a view, whose elements can only be read
        2 | s := pad(v, 0)[30]
          |          ^"#]],
    );
    check(
        "view v = x as [24]\ns := v",
        expect![[r#"
        line 2, column 6: `v` is a view, whose elements can only be read
        2 | s := v
          |      ^"#]],
    );
    check(
        "view v = z as [24]\ns := v[0]",
        expect![[r#"
        line 1, column 10: unknown node `z`; expected one of s, x, y
        1 | view v = z as [24]
          |          ^"#]],
    );
    check(
        "view v = h as [24]\ns := v[0]\nh[i,j] := x[i,j]",
        expect![[r#"
        line 1, column 10: node `h` has no values yet, since the statement of line 3 is the first to write it; write it before, or declare `input h` if its values come from elsewhere
        1 | view v = h as [24]
          |          ^"#]],
    );
    check(
        "view y = x as [24]",
        expect![[r#"
        line 1, column 6: name `y` is defined twice
        1 | view y = x as [24]
          |      ^"#]],
    );
    check(
        "view v = w as [24]; view w = v as [24]\ns := v[3]",
        expect![[r#"
        line 1, column 6: view `v` is a view of itself
        1 | view v = w as [24]; view w = v as [24]
          |      ^"#]],
    );
    check(
        "view v = x [24]",
        expect![[r#"
        line 1, column 16: expected dimensions, as in `view v = x as [4, 8]`, found the end of the text
        1 | view v = x [24]
          |                ^"#]],
    );
    check(
        "view v = y as [24]\ny[i,j] := v[23 - 6*i - j]",
        expect![[r#"
        line 2, column 11: this read of node `y` needs a copy; write it first, as in `flat[6*i0 + i1] := y[i0,i1]; view v = flat as [24]`
        2 | y[i,j] := v[23 - 6*i - j]
          |           ^^^^^^^^^^^^^^^"#]],
    );
}
