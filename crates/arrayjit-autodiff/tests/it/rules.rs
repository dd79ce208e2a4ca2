//! Every rule of the table against differences, the conventions at kinks, and the printed table.

use assignments::builder::{binary, ternary, unary};
use assignments::{AccumOp, Assignments, builder};
use autodiff::rules::{self, Derivative};
use autodiff::{CheckOptions, check, gradient};
use expect_test::expect_file;
use lowered_ir::ir::{BinaryOp, TernaryOp, UnaryOp};
use tnode::{DType, HostArray, TensorNode};

use crate::compiled::results;
use crate::support::{Input, values};

/// Values of both signs that are no kinks of any operation, and pairwise different.
const ANY: [f64; 6] = [-1.7, -0.6, 0.3, 0.8, 1.4, 2.6];
/// Values of two further operands.
const OTHERS: [[f64; 6]; 2] = [[0.7, -1.3, 0.4, -0.25, 1.1, 2.2], [1.2, 0.9, -0.8, 2.1, -1.6, 0.1]];
const POSITIVE: [f64; 6] = [0.2, 0.5, 0.9, 1.3, 2.1, 3.4];

fn node(name: &str, dims: &[usize]) -> TensorNode {
    TensorNode::builder(name).dims(dims.iter().copied()).dtype(DType::F64).build().expect("small")
}

/// `loss = Σ y · weight` behind a program that computes `y`, with unequal weights.
fn weighted(program: Assignments, y: &TensorNode) -> (Assignments, TensorNode, Input) {
    let (loss, weights) = (node("loss", &[]), values("weights", &[6], &[1.0, -2.0, 0.5, 3.0, 1.5, -0.7]));
    let sum = builder::einsum("i; i => ", &loss, AccumOp::Add, BinaryOp::Mul, [y, &weights.node]);
    (program.then(sum.expect("the dimensions fit")), loss, weights)
}

/// Compares the derivatives by all operands with differences.
fn compare(name: &str, program: Assignments, y: &TensorNode, operands: &[(TensorNode, [f64; 6])]) {
    let (program, loss, weights) = weighted(program, y);
    let mut arrays: Vec<(&TensorNode, HostArray)> = vec![(&weights.node, weights.array())];
    for (node, values) in operands {
        arrays.push((node, HostArray::from_slice(values, [6]).expect("six values")));
    }
    let parameters: Vec<&TensorNode> = operands.iter().map(|(node, _)| node).collect();
    let checked = check(&program, &loss, &parameters, &arrays, &CheckOptions::default());
    checked.unwrap_or_else(|error| panic!("{name}: {error}"));
}

#[test]
fn rules_of_one_operand_are_close_to_differences() {
    for &op in UnaryOp::ALL {
        let (x, y) = (node("x", &[6]), node("y", &[6]));
        use UnaryOp::{Log, Log1p, Log2, RecipSqrt, Sqrt};
        let is_partial = matches!(op, Log | Log1p | Log2 | Sqrt | RecipSqrt);
        let program = unary(&y, op, &x).expect("equal dimensions");
        compare(op.token(), program, &y, &[(x, if is_partial { POSITIVE } else { ANY })]);
    }
}

#[test]
fn rules_of_two_operands_are_close_to_differences() {
    for &op in BinaryOp::ALL.iter().filter(|op| !op.is_bitwise() && !op.is_random()) {
        let (a, b, y) = (node("a", &[6]), node("b", &[6]), node("y", &[6]));
        let first = if op == BinaryOp::Pow { POSITIVE } else { ANY };
        let program = binary(&y, op, [&a, &b]).expect("equal dimensions");
        compare(op.token(), program, &y, &[(a, first), (b, OTHERS[0])]);
    }
}

#[test]
fn rules_of_three_operands_are_close_to_differences() {
    for &op in TernaryOp::ALL {
        let [a, b, c, y] = ["a", "b", "c", "y"].map(|name| node(name, &[6]));
        let program = ternary(&y, op, [&a, &b, &c]).expect("equal dimensions");
        compare(op.token(), program, &y, &[(a, ANY), (b, OTHERS[0]), (c, OTHERS[1])]);
    }
}

/// The gradient of `Σ op(a, b)` by `a` and `b`.
fn at(op: BinaryOp, a: f64, b: f64) -> (f64, f64) {
    let (a, b) = (values("a", &[1], &[a]), values("b", &[1], &[b]));
    let (y, loss) = (node("y", &[1]), node("loss", &[]));
    let program = binary(&y, op, [&a.node, &b.node]).expect("equal dimensions");
    let program = program.then(builder::permute("i => ", &loss, AccumOp::Add, &y).expect("a sum"));
    let found = gradient(&program, &loss, &[&a.node, &b.node]).expect("a gradient");
    let gradients = results(&found.program, &[a, b], &found.gradients, &[]).expect("it runs");
    (gradients[0][0], gradients[1][0])
}

#[test]
fn ties_share_equally_and_kinks_are_as_documented() {
    assert_eq!(at(BinaryOp::Max, 2.0, 2.0), (0.5, 0.5));
    assert_eq!(at(BinaryOp::Min, 2.0, 2.0), (0.5, 0.5));
    assert_eq!(at(BinaryOp::Max, 3.0, 2.0), (1.0, 0.0));
    assert_eq!(at(BinaryOp::Pow, 0.0, 2.0), (0.0, 0.0));
    assert_eq!(at(BinaryOp::Pow, 0.0, 0.0), (0.0, 0.0));
    assert_eq!(at(BinaryOp::Pow, -2.0, 2.0).0, -4.0);
}

fn formula(derivative: &Derivative) -> String {
    match derivative {
        Derivative::Formula(formula) => format!("`{formula}`"),
        Derivative::Zero => "0".to_owned(),
        _ => "unknown".to_owned(),
    }
}

const HEAD: &str = "\
# Derivatives

The rules by which [`autodiff`](../crates/arrayjit-autodiff) differentiates the operations of assignments. The test
`the_table_is_the_one_of_the_document` writes this page; `UPDATE_EXPECT=1` rewrites it. Every rule is compared
with central differences in `f64`, and the gradients of 360 random programs with those of jax, which
`cargo xtask gradient-goldens` computes.

`y` is the result of the operation, `g` the gradient of the loss by `y` (its *adjoint*), and `a`, `b` and `c`
are the operands. Each operand's adjoint grows by the formula in its column. Conventions where a derivative is
not unique:

* Equal operands of `max` and `min` get half of `g` each. Values that are equal to the result of `max=` or
  `min=` share `g` equally; max-pooling in other libraries often gives all of it to the first one.
* `abs` and `relu` have derivative 0 at 0, and `satur01` at 0 and 1.
* Rounding, comparisons, logical operations, conditions, conversions to integers and random numbers have
  derivative 0. Operations on bits have none, since they are defined on integers alone.
* Where a condition has selected another value, an adjoint is 0. Rules that multiply by a factor then select 0
  instead, so that an infinite factor gives no NaN: `where(x > 0, log(x), 0)` has derivative 0 at 0. Second
  derivatives take a selection of 0 where `g` is 0, of a multiple of `g` otherwise, for that multiple wherever
  it is a number: the factor is the derivative by `g` also where `g` is 0.
";

const TAIL: &str = "
## Accumulations

`h` is the element before the accumulation, and `v` a value that is accumulated.

| Accumulation | Adjoint of `v` | Adjoint of `h` |
|---|---|---|
| `:=` | `g`; of several values for one element, the last one's | 0 |
| `+=` | `g` | `g` |
| `-=` | `-g` | `g` |
| `*=` | `g` times `h` and all other values, without a division | `g` times all values |
| `max=`, `min=` | `g / n` if `v` is the result, where `n` values are | the same |
| `or=`, `and=` | 0 | 0 |
| `/=`, `pow=`, `relu_gate=`, `satur01_gate=` | the rule of the operation, for one value per element | the same |
";

#[test]
fn the_table_is_the_one_of_the_document() {
    let mut text = format!(
        "{HEAD}\n## Operations\n\n| Operation | Adjoint of `a` | of `b` | of `c` |\n|---|---|---|---|\n"
    );
    let mut row = |operation: String, derivatives: Vec<Derivative>| {
        let mut cells: Vec<String> = derivatives.iter().map(formula).collect();
        cells.resize(3, String::new());
        text += &format!("| `{operation}` | {} |\n", cells.join(" | "))
            .replace("|  |", "| |")
            .replace("|  |", "| |");
    };
    for &op in UnaryOp::ALL {
        row(format!("{op}(a)"), vec![rules::unary(op)]);
    }
    for &op in BinaryOp::ALL.iter().filter(|op| !op.is_bitwise() && !op.is_random()) {
        let is_call = op.token().starts_with(|c: char| c.is_ascii_alphabetic());
        let operation = if is_call { format!("{op}(a, b)") } else { format!("a {op} b") };
        row(operation, (0..2).map(|operand| rules::binary(op, operand)).collect());
    }
    for &op in TernaryOp::ALL {
        row(format!("{op}(a, b, c)"), (0..3).map(|operand| rules::ternary(op, operand)).collect());
    }
    expect_file!["../../../../docs/derivatives.md"].assert_eq(&(text + TAIL));
}
