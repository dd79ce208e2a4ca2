//! Each operation at its edges, by a table.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeMap;

use lowered_ir::eval::{binary, ternary, unary};
use lowered_ir::ir::{BinaryOp, TernaryOp, UnaryOp};
use tnode::{DType, Scalar};

/// A row of `operations.txt`.
struct Row<'a> {
    line: &'a str,
    op: &'a str,
    dtype: DType,
    operands: Vec<f64>,
    result: f64,
}

fn rows() -> Vec<Row<'static>> {
    let lines = include_str!("../operations.txt").lines();
    lines.filter(|line| !line.is_empty() && !line.starts_with('#')).map(row).collect()
}

fn row(line: &str) -> Row<'_> {
    // The last equality sign of a row separates the operands from the result.
    let (call, result) = line.rsplit_once(" = ").unwrap();
    let mut words = call.split(' ');
    let (op, dtype) = (words.next().unwrap(), words.next().unwrap().parse().unwrap());
    Row {
        line,
        op,
        dtype,
        operands: words.map(|w| w.parse().unwrap()).collect(),
        result: result.parse().unwrap(),
    }
}

fn evaluate(row: &Row<'_>) -> Scalar {
    let value = |x: f64| Scalar::from_f64(row.dtype, x);
    match row.operands[..] {
        [x] => unary(UnaryOp::ALL.iter().copied().find(|op| op.token() == row.op).unwrap(), value(x)),
        [a, b] => {
            let op = BinaryOp::ALL.iter().copied().find(|op| op.token() == row.op).unwrap();
            binary(op, value(a), value(b))
        }
        [a, b, c] => {
            let op = TernaryOp::ALL.iter().copied().find(|op| op.token() == row.op).unwrap();
            let a = if op == TernaryOp::Where { Scalar::from_f64(DType::Bool, a) } else { value(a) };
            ternary(op, a, value(b), value(c))
        }
        _ => panic!("{}: one to three operands", row.line),
    }
}

#[test]
fn operations_follow_the_table() {
    for row in rows() {
        let found = evaluate(&row);
        let expected = Scalar::from_f64(found.dtype(), row.result);
        let same = found == expected || (found.as_f64().is_nan() && expected.as_f64().is_nan());
        assert!(same, "{}: found {found}", row.line);
    }
}

/// Every operation has a row with a zero and, if it is defined on floats, rows with a NaN and an infinity.
#[test]
fn the_table_has_every_operation_at_every_edge() {
    let mut rows_of: BTreeMap<&str, Vec<Row<'_>>> = BTreeMap::new();
    for row in rows() {
        rows_of.entry(row.op).or_default().push(row);
    }
    let all = UnaryOp::ALL.iter().map(|op| (op.token(), true));
    let all = all.chain(TernaryOp::ALL.iter().map(|op| (op.token(), true)));
    // The generators of random bits have published vectors of their own.
    let binaries = BinaryOp::ALL.iter().filter(|op| !op.is_random());
    for (token, on_floats) in all.chain(binaries.map(|op| (op.token(), !op.is_bitwise()))) {
        let rows = rows_of.get(token).unwrap_or_else(|| panic!("{token} has no row"));
        let has = |what: fn(f64) -> bool| rows.iter().any(|row| row.operands.iter().any(|&x| what(x)));
        assert!(has(|x| x == 0.0), "{token} has no row with a zero");
        assert!(!on_floats || has(f64::is_nan), "{token} has no row with a NaN");
        assert!(!on_floats || has(f64::is_infinite), "{token} has no row with an infinity");
        assert!(rows.iter().any(|row| !row.dtype.is_float()), "{token} has no row of integers");
    }
}
