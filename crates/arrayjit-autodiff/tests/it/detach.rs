//! Nodes whose values are constants for gradients, from the place where `detach` stands.

use assignment_text::{Program, unparse};
use assignments::{Assignments, Warning, builder};
use autodiff::{expand, gradient};
use expect_test::expect;
use tnode::TensorNode;

use crate::compiled::{compare_tangent, results};
use crate::support::{Input, floats, program, values};

/// The gradients of `loss` by the inputs, after a comparison with the tangent of the loss.
fn gradients(text: &str, inputs: &[Input]) -> Vec<Vec<f64>> {
    let (program, loss) = program(text, inputs);
    let parameters: Vec<&TensorNode> = inputs.iter().map(|input| &input.node).collect();
    let found = gradient(&program, &loss, &parameters).unwrap();
    compare_tangent(&program, &loss, &found, inputs.to_vec(), &parameters, &[], 1e-6).unwrap();
    results(&found.program, inputs, &found.gradients, &[]).unwrap()
}

#[test]
fn no_derivative_goes_through_a_detached_node() {
    let (x, w) = (values("x", &[2], &[2.0, 3.0]), values("w", &[], &[5.0]));
    let text = "m[i] := w * x[i]\ndetach m\nloss :+= m[i] * x[i]";
    assert_eq!(gradients(text, &[x, w]), [vec![10.0, 15.0], vec![0.0]]);
}

/// Reads before `detach`, and values that are stored after it, have derivatives.
#[test]
fn derivatives_go_through_other_versions() {
    let x = || values("x", &[2], &[2.0, 3.0]);
    let before = "m[i] := x[i] * x[i]\na[i] := 3 * m[i]\ndetach m\nloss :+= a[i] + m[i]";
    assert_eq!(gradients(before, &[x()]), [[12.0, 18.0]]);
    let after = "m[i] := x[i] * x[i]\ndetach m\nm[i] += 3 * x[i]\nloss :+= m[i] * m[i]";
    assert_eq!(gradients(after, &[x()]), [[6.0 * 10.0, 6.0 * 18.0]]);
    let part = "m[i] := x[i] * x[i]\ndetach m\nm[1] := 3 * x[0]\nloss :+= m[i]";
    assert_eq!(gradients(part, &[x()]), [[3.0, 0.0]]);
}

/// A parameter that is detached is a constant from there on.
#[test]
fn parameters_can_be_detached() {
    let x = values("x", &[2], &[2.0, 3.0]);
    let text = "a[i] := x[i] * x[i]\ndetach x\nloss :+= a[i] * x[i]";
    assert_eq!(gradients(text, &[x]), [[8.0, 18.0]]);
}

/// The steps of a softmax have none for the maximum.
#[test]
fn the_maximum_of_a_softmax_has_no_adjoint() {
    let (program, loss) = program(
        "y[b,k] := softmax(x[b,k])\nloss :+= y[b,k] * w[b,k]",
        &[floats("x", &[2, 3]), floats("w", &[2, 3])],
    );
    let x = program.nodes().into_iter().find(|node| node.name() == "x").unwrap();
    let found = gradient(&program, &loss, &[&x]).unwrap().program.to_string();
    let listed: String = found
        .lines()
        .skip_while(|line| !line.starts_with("loss.grad"))
        .map(|line| format!("{line}\n"))
        .collect();
    expect![[r#"
        loss.grad =: 1;
        y.grad[i0, i1] =:+ loss.grad * w[i0, i1];
        softmax_e_1.grad[i0, i1] =:+ y.grad[i0, i1] / softmax_s_1[i0];
        factor[i0, i1] =: y[i0, i1] / softmax_s_1[i0];
        softmax_s_1.grad[i0] =:- y.grad[i0, i1] * factor[i0, i1];
        softmax_e_1.grad[i0, i1] =+ softmax_s_1.grad[i0];
        x_k_m.grad[i0, i1] =:+ softmax_e_1.grad[i0, i1] * softmax_e_1[i0, i1];
        x.grad[i0, i1] =:+ x_k_m.grad[i0, i1];
    "#]]
    .assert_eq(&listed);
}

#[test]
fn a_detached_loss_has_no_gradient() {
    let text = "param w f32[3]\nloss :+= w[i] * w[i]\ndetach loss\ngrad loss by w\nkeep w.grad";
    let mut program = Program::parse(text).unwrap().assignments(&[]).unwrap();
    expand(&mut program).unwrap();
    let warnings: Vec<String> = program.warnings.iter().map(Warning::to_string).collect();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("the gradient of node loss by w is zero"), "{warnings:?}");
    assert!(program.to_string().ends_with("w.grad =: 0;\n"), "{program}");
}

#[test]
fn builders_detach() {
    let (x, w) = (values("x", &[2], &[2.0, 3.0]), values("w", &[2], &[5.0, 7.0]));
    let nodes = ["m", "loss"].map(|name| {
        let dims: &[usize] = if name == "m" { &[2] } else { &[] };
        TensorNode::builder(name).dims(dims.iter().copied()).dtype(tnode::DType::F32).build().unwrap()
    });
    let [m, loss] = &nodes;
    let product = builder::binary(m, lowered_ir::ir::BinaryOp::Mul, [&x.node, &w.node]).unwrap();
    let sum = builder::einsum(
        "i; i => ",
        loss,
        assignments::AccumOp::Add,
        lowered_ir::ir::BinaryOp::Mul,
        [m, &x.node],
    )
    .unwrap();
    let program: Assignments = [product, builder::detach(m), sum].into_iter().collect();
    assert!(unparse(&program).contains("\ndetach m\n"), "{}", unparse(&program));
    let found = gradient(&program, loss, &[&x.node]).unwrap();
    assert_eq!(results(&found.program, &[x, w], &found.gradients, &[]).unwrap(), [[10.0, 21.0]]);
}
