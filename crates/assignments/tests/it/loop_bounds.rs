//! Bounds in `where` that depend on letters and symbols: the values they select, the loops they make, and the
//! errors.

use crate::program::{Machine, body, f32s, read, values};

use assignment_text::parse;
use assignments::lower::{LowerOptions, lower};
use expect_test::{Expect, expect};
use lowered_ir::pipeline::{OptimizeSettings, optimize};
use lowered_ir::verify::verify;
use tnode::TensorNode;

const N: usize = 6;

/// The bounds of `y[i] :+= w[i,j]` over 6 × 6 points, and whether it adds at `i`, `j` if `@n` is the third
/// number.
type Case = (&'static str, fn(i64, i64, i64) -> bool);

const CASES: &[Case] = &[
    ("j <= i", |i, j, _| j <= i),
    ("j < i", |i, j, _| j < i),
    ("i >= j", |i, j, _| j <= i),
    ("i > j", |i, j, _| j < i),
    ("i <= j", |i, j, _| i <= j),
    ("j >= i", |i, j, _| i <= j),
    ("i < j", |i, j, _| i < j),
    ("j < i + 2", |i, j, _| j < i + 2),
    ("j <= 2*i - 1", |i, j, _| j < 2 * i),
    ("i + j < 6", |i, j, _| i + j < 6),
    ("j <= i, j < 4", |i, j, _| j <= i && j < 4),
    ("j < 4, j <= i", |i, j, _| j <= i && j < 4),
    ("j <= 3, j <= i", |i, j, _| j <= i && j < 4),
    ("j <= i, i + j <= 5", |i, j, _| j <= i && i + j <= 5),
    ("i <= j < i + 3", |i, j, _| i <= j && j < i + 3),
    ("0 <= j <= i < 5", |i, j, _| j <= i && i < 5),
    ("j >= 2", |_, j, _| j >= 2),
    ("2 <= j, 3 > i", |i, j, _| j >= 2 && i < 3),
    ("j <= @n", |_, j, n| j <= n),
    ("j < @n, @n < 9", |_, j, n| j < n),
    ("j <= i, j <= @n", |i, j, n| j <= i && j <= n),
    ("j <= @n - i, @n < 8", |i, j, n| j <= n - i),
    ("j >= @n, @n < 8", |_, j, n| j >= n),
];

fn sums(w: &[f64], n: i64, holds: fn(i64, i64, i64) -> bool) -> Vec<f64> {
    let points = |i: usize| (0..N).filter(move |&j| holds(i as i64, j as i64, n));
    (0..N).map(|i| points(i).map(|j| w[i * N + j]).sum()).collect()
}

/// A lower bound of a letter shifts the index of the subexpression's node, which still needs no memory.
#[test]
fn subexpressions_under_lower_bounds() {
    let nodes = [("a", vec![4, 4]), ("b", vec![4]), ("e", vec![4, 4])];
    let nodes = nodes.map(|(name, dims)| TensorNode::builder(name).dims(dims).build().unwrap());
    let program = parse("e[i,j] :+= exp(a[i,j] * b[j]) where j >= i", &nodes).unwrap();
    let lowered = lower(&program, &LowerOptions::default()).unwrap().lowered;
    let routine = optimize(lowered.routine, &OptimizeSettings::default()).expect("accepted").routine;
    assert!(verify(&routine).is_ok());
}

/// The machine of a program, lowered alone or optimized too.
fn machine(text: &str, nodes: &[&TensorNode], optimized: bool) -> Machine {
    let mut machine = Machine::new(&read(text, nodes));
    if optimized {
        let settings = OptimizeSettings::default();
        machine.lowered.routine = optimize(machine.lowered.routine, &settings).expect("accepted").routine;
    }
    verify(&machine.lowered.routine).unwrap_or_else(|error| panic!("{text}: {error}"));
    machine
}

#[test]
fn a_statement_assigns_at_the_points_that_satisfy_its_bounds() {
    let values = values(N * N, 1);
    let (w, y) = (f32s("w", &[N, N]), f32s("y", &[N]));
    for &(bounds, holds) in CASES {
        for optimized in [false, true] {
            let mut machine = machine(&format!("y[i] :+= w[i,j] where {bounds}"), &[&w, &y], optimized);
            machine.set(&w, &values);
            let symbol = machine.lowered.routine.symbols.first().map(|symbol| symbol.range);
            for n in 0..symbol.unwrap_or(1) {
                let bindings: Vec<i64> = symbol.iter().map(|_| n).collect();
                machine.run(&bindings);
                assert_eq!(machine.get(&y), sums(&values, n, holds), "{bounds} with @n = {n}");
            }
        }
    }
}

#[test]
fn subexpressions_are_bounded_like_their_statement() {
    let (x, w, y) = (f32s("x", &[N]), f32s("w", &[N]), f32s("y", &[N]));
    let (xs, ws) = (values(N, 2), values(N, 3));
    for optimized in [false, true] {
        let mut machine = machine("y[i] :+= 2 * abs(x[i - j] * w[j]) where j <= i", &[&x, &w, &y], optimized);
        machine.set(&x, &xs);
        machine.set(&w, &ws);
        machine.run(&[]);
        let at = |i: usize| (0..=i).map(|j| 2.0 * (xs[i - j] * ws[j]).abs()).sum::<f64>();
        assert_eq!(machine.get(&y), (0..N).map(at).collect::<Vec<_>>());
    }
}

#[test]
fn elements_beyond_a_bound_keep_their_values() {
    let (x, y) = (f32s("x", &[N, N]), f32s("y", &[N, N]));
    let mut machine = machine("y[i,j] := 7\ny[i,j] := x[j,i] where j >= i", &[&x, &y], true);
    machine.set(&x, &values(N * N, 4));
    machine.run(&[]);
    let x = values(N * N, 4);
    let at = |at: usize| if at % N >= at / N { x[at % N * N + at / N] } else { 7.0 };
    assert_eq!(machine.get(&y), (0..N * N).map(at).collect::<Vec<_>>());
}

fn loops(text: &str, expected: Expect) {
    let (x, y, z) = (f32s("x", &[8]), f32s("y", &[8]), f32s("z", &[8, 8]));
    let program = read(text, &[&x, &y, &z]);
    expected.assert_eq(&format!("{program}{}", body(&program)));
}

#[test]
fn bounds_are_ends_of_loops() {
    loops(
        "y[i] :+= x[j] where j <= i, j <= @pos",
        expect![[r##"
            # y[i] :+= x[j] where j <= i, j <= @pos
            y[i0] =:+ x[i1] where i1 < i0 + 1, i1 < @pos + 1;
            symbol @pos in 0..8
            node %0 "x" f32[8]
            node %1 "y" f32[8]
            zero %1
            for i0 in 0..8 {
              for i1 in 0..min(8, i0 + 1, @pos + 1) {
                %1[i0] := %1[i0] + %0[i1]
              }
            }
        "##]],
    );
    loops(
        "y[j] :+= z[j,i] where j <= i",
        expect![[r##"
        # y[j] :+= z[j,i] where j <= i
        y[i0] =:+ z[i0, i0 + i1] where i1 < -i0 + 8;
        node %0 "z" f32[8, 8]
        node %1 "y" f32[8]
        zero %1
        for i0 in 0..8 {
          for i1 in 0..min(8, -i0 + 8) {
            %1[i0] := %1[i0] + %0[i0, i0 + i1]
          }
        }
    "##]],
    );
}

fn check(text: &str, expected: Expect) {
    let nodes = [f32s("x", &[8]), f32s("y", &[8]), f32s("z", &[8, 8])];
    let error = match parse(text, &nodes) {
        Ok(program) => {
            lower(&program, &LowerOptions::default()).map(drop).expect_err("the row is rejected").to_string()
        }
        Err(error) => error.to_string(),
    };
    expected.assert_eq(&error);
}

#[test]
fn bounds_that_no_loop_has_are_errors() {
    check(
        "y[i] :+= x[j] where 2*j <= i",
        expect![[r#"
        line 1, column 21: `2*j <= i` bounds its innermost letter by a quotient: expected that letter without a factor
        1 | y[i] :+= x[j] where 2*j <= i
          |                     ^^^^^^^^"#]],
    );
    check(
        "y[i] :+= x[j] where j > i - 3",
        expect![[r#"
        line 1, column 21: `j > i - 3` may let its innermost letter start below 0: expected a lower bound that is never negative
        1 | y[i] :+= x[j] where j > i - 3
          |                     ^^^^^^^^^"#]],
    );
    check(
        "y[i] :+= x[j] where i <= j, @n <= j, @n < 4",
        expect![[r#"
        line 1, column 29: `@n <= j` is the second lower bound of its innermost letter: expected at most one
        1 | y[i] :+= x[j] where i <= j, @n <= j, @n < 4
          |                             ^^^^^^^"#]],
    );
    check(
        "y[i] :+= x[j] where @a < @b",
        expect![[r#"
        line 1, column 21: `@a < @b` bounds no loop: it depends on no letter
        1 | y[i] :+= x[j] where @a < @b
          |                     ^^^^^^^"#]],
    );
    check(
        "y[i] :+= x[j] where j <= k",
        expect![[r#"
        line 1, column 21: letter `k` does not occur in the statement
        1 | y[i] :+= x[j] where j <= k
          |                     ^^^^^^"#]],
    );
    check(
        "y[i] :+= x[j] where j <= 9223372036854775807*i + 9223372036854775807*j",
        expect![[r#"
        line 1, column 21: `j <= 9223372036854775807*i + 9223372036854775807*j` bounds its innermost letter by a quotient: expected that letter without a factor
        1 | y[i] :+= x[j] where j <= 9223372036854775807*i + 9223372036854775807*j
          |                     ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^"#]],
    );
    check(
        "y[i] :+= x[j] where j",
        expect![[r#"
        line 1, column 22: expected `<`, `<=`, `>` or `>=`, found the end of the text
        1 | y[i] :+= x[j] where j
          |                      ^"#]],
    );
    check(
        "y[i] :+= x[i + j] where j <= i",
        expect![[r#"
        line 1, column 16: the range of letter `j` is open; expected it as an index of its own somewhere, or a range as in `where j < 8`
        1 | y[i] :+= x[i + j] where j <= i
          |                ^"#]],
    );
    check(
        "y[i] :+= x[i - j] where j <= i + 1, j < 8",
        expect![[r#"
        line 1, column 12: index `i - j` takes values -1..=7, but axis 0 of node `x` has 8 elements; `pad(x, 0)[i - j]` reads 0 outside
        1 | y[i] :+= x[i - j] where j <= i + 1, j < 8
          |            ^^^^^"#]],
    );
    check(
        "z[i,j] := x[i] where j <= i",
        expect![[r#"
            line 1, column 5: node z: the assignment does not write all of axis 1 (size 8), and nothing initializes the node before; expected an initialization such as `z[i,j] := 0`, an operator such as `:+=` that starts the whole node, or a node whose values stay: `param` in a text, `MemoryMode::Materialized` in Rust
            1 | z[i,j] := x[i] where j <= i
              |     ^"#]],
    );
    check(
        "y := offsets() where j <= i",
        expect![[r#"
        line 1, column 22: letter `j` does not occur in the statement
        1 | y := offsets() where j <= i
          |                      ^^^^^^"#]],
    );
    check(
        "y[i] :+= x[j] where j <= @a + @b",
        expect![[r#"
        line 1, column 1: symbol @a has no range, and no index bounds it alone; expected a range, as in `where @a < 10`
        1 | y[i] :+= x[j] where j <= @a + @b
          | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^"#]],
    );
}
