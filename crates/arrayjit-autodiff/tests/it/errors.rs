//! Programs without a gradient: each error names the nodes and points to the statement.

use assignments::indexing::{AxisIndex, Projections};
use assignments::{AccumOp, Rhs, builder};
use autodiff::{CheckError, gradient, gradient_seeded};
use expect_test::{Expect, expect};
use tnode::{DType, Dims, TensorNode};

use crate::support::{Input, floats, integers, program};

fn assert_error(text: &str, inputs: &[Input], parameter: &str, expected: Expect) {
    let (program, loss) = program(text, inputs);
    let nodes = program.nodes();
    let parameter = nodes.iter().find(|node| node.name() == parameter).expect("it is mentioned");
    let error = gradient(&program, &loss, &[parameter]).map(|_| ()).expect_err("no gradient");
    expected.assert_eq(&(error.to_string() + "\n"));
}

#[test]
fn statements_without_a_derivative() {
    let x = || [floats("x", &[3, 3])];
    assert_error(
        "y[i] :/= x[i,j]\nloss :+= y[i]",
        &x(),
        "x",
        expect![[r#"
            line 1, column 1: node y: `/=` of several values per element has no derivative in this form; accumulate the divisors with `*=`, then divide
            1 | y[i] :/= x[i,j]
              | ^^^^^^^^^^^^^^^
        "#]],
    );
    assert_error(
        "y[i] := 2 where i < 3\ny[i] pow= x[i,j]\nloss :+= y[i]",
        &x(),
        "x",
        expect![[r#"
            line 2, column 1: node y: `pow=` of several values per element has no derivative in this form; accumulate the exponents with `*=`, then use `pow`
            2 | y[i] pow= x[i,j]
              | ^^^^^^^^^^^^^^^^
        "#]],
    );
    assert_error(
        "y[i] := 1 where i < 3\ny[i] relu_gate= x[i,j]\nloss :+= y[i]",
        &x(),
        "x",
        expect![[r#"
            line 2, column 1: node y: `relu_gate=` of several values per element has no derivative in this form; use `where` with the condition, then accumulate
            2 | y[i] relu_gate= x[i,j]
              | ^^^^^^^^^^^^^^^^^^^^^^
        "#]],
    );
    assert_error(
        "y[i+j] :*= x[i,j]\nloss :+= y[i]",
        &x(),
        "x",
        expect![[r#"
            line 1, column 1: node y: `*=` of several values per element has no derivative in this form; multiply the values over whole axes of a node of their own, with one letter per index
            1 | y[i+j] :*= x[i,j]
              | ^^^^^^^^^^^^^^^^^
        "#]],
    );
}

#[test]
fn losses_and_parameters() {
    let n = || [floats("x", &[3]), integers("n", &[3], &[1, 2, 3])];
    assert_error(
        "loss[i] := x[i] * n[i]",
        &n(),
        "x",
        expect![[r#"
        the loss loss has dimensions [3], expected a scalar; sum its elements, or give the gradient by them as a seed
    "#]],
    );
    assert_error(
        "loss :+= n[i]\ny[i] := x[i]\nkeep y",
        &n(),
        "x",
        expect![[r#"
        node loss is of i32; a loss is expected to be of floats
    "#]],
    );
    assert_error(
        "loss :+= x[i] * n[i]",
        &n(),
        "n",
        expect![[r#"
        node n is of i32; a parameter is expected to be of floats
    "#]],
    );
    let (program, loss) = program("loss :+= x[i] * n[i]", &n());
    let other = TensorNode::builder("w").dims([3]).dtype(DType::F32).build().unwrap();
    expect!["no statement mentions the parameter w; expected one of x"]
        .assert_eq(&gradient(&program, &loss, &[&other]).unwrap_err().to_string());
    expect!["no statement writes the loss w"]
        .assert_eq(&gradient(&program, &other, &[&loss]).unwrap_err().to_string());
    let (program, loss) = crate::support::program("loss :+= f32(n[i])", &n());
    expect!["no statement mentions the parameter w; expected a node that the program reads, but it reads no floats"]
        .assert_eq(&gradient(&program, &loss, &[&other]).unwrap_err().to_string());
}

#[test]
fn a_parameter_that_the_loss_does_not_reach() {
    let (program, loss) =
        program("y[i] := w[i]\nloss :+= x[i]\nkeep y", &[floats("x", &[3]), floats("w", &[3])]);
    let w = program.nodes().into_iter().find(|node| node.name() == "w").unwrap();
    let found = gradient(&program, &loss, &[&w]).unwrap();
    expect!["the gradient of node loss by w is zero: no statements with derivatives lead from w to loss"]
        .assert_eq(&found.program.warnings[0].to_string());
    assert!(found.program.to_string().ends_with("w.grad =: 0;\n"));
}

#[test]
fn wrong_checks() {
    let inputs = [floats("x", &[3]), floats("w", &[3])];
    let (program, loss) = program("x[i] *= w[i]\nloss :+= x[i]", &inputs);
    let error = |parameter: &Input| -> CheckError {
        autodiff::check(&program, &loss, &[&parameter.node], &[], &Default::default()).unwrap_err()
    };
    expect!["the program writes the parameter x; differences need a node that it only reads"]
        .assert_eq(&error(&inputs[0]).to_string());
    expect!["node w has no values; the program reads w"].assert_eq(&error(&inputs[1]).to_string());
}

#[test]
fn statements_that_read_what_they_write() {
    let (filled, _) = program("y[i] := x[i]\nkeep y\nloss :+= w[i]", &[floats("x", &[3]), floats("w", &[3])]);
    let node = |name: &str| filled.nodes().into_iter().find(|node| node.name() == name).unwrap();
    let (x, y, seed) = (node("x"), node("y"), floats("seed", &[3]).node);
    let at = |offset| {
        let index = AxisIndex::new(AxisIndex::axis(0).affine().plus_constant(offset));
        (Dims::from_slice(&[3]), [index].into_iter().collect())
    };
    // y[i + 1] := y[i]
    let projections = Projections::new(&[2], at(1), vec![at(0)], "shift").unwrap();
    let shift = builder::accumulate(false, AccumOp::Assign, &y, Rhs::Copy((&y).into()), projections);
    let error = gradient_seeded(&filled.clone().then(shift), &y, &seed, &[&x]).unwrap_err();
    expect!["node y is read at elements that other iterations of the statement write, so its old values are lost; write to another node first"].assert_eq(&error.to_string());
}
