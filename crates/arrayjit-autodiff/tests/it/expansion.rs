//! The step `grad loss by w` of a program, replaced by the statements that compute it.

use assignment_text::Program;
use assignments::ProgramStep;
use autodiff::expand;
use expect_test::expect;
use tnode::TensorNode;

use crate::compiled::{compare_optimized, results};
use crate::support::{assert_close, floats, values};

#[test]
fn a_training_step_is_one_program() {
    let text = "
        h[b,o] :+= x[b,i] * w[i,o]
        y[b,o] := relu(h[b,o])
        loss :+= y[b,o] * y[b,o]
        grad loss by w
        w[i,o] -= 0.25 * w.grad[i,o]";
    let inputs = [values("x", &[2, 2], &[1., 2., -3., 4.]), values("w", &[2, 1], &[0.5, 1.])];
    let nodes: Vec<TensorNode> = inputs.iter().map(|input| input.node.clone()).collect();
    let mut program = Program::parse(text).unwrap().assignments(&nodes).unwrap();
    expand(&mut program).unwrap();
    assert!(!program.steps.iter().any(|step| matches!(step, ProgramStep::Gradient { .. })));
    // h = [2.5, 2.5], so w.grad = 2·2.5·[1 - 3, 2 + 4].
    let w = [inputs[1].node.clone()];
    assert_eq!(results(&program, &inputs, &w, &[]).unwrap(), [[3.0, -6.5]]);
    compare_optimized(&program, &inputs, &w, &[]).unwrap();
    let mut again = program.clone();
    expand(&mut again).unwrap();
    assert_eq!(again, program);
}

/// The second gradient is that of the updated weights, and the values of the first one are not lost.
#[test]
fn several_gradients_of_one_parameter() {
    let text = "
        loss :+= w[i] * w[i] * w[i]
        grad loss by w
        v[i] := w[i] - rate * w.grad[i] * w.grad[i]
        after :+= v[i] * v[i] + w[i]
        grad after by rate, w
        keep rate.grad, w.grad";
    let inputs = [values("w", &[2], &[1.0, 2.0]), values("rate", &[], &[0.5])];
    let nodes: Vec<TensorNode> = inputs.iter().map(|input| input.node.clone()).collect();
    let mut program = Program::parse(text).unwrap().assignments(&nodes).unwrap();
    expand(&mut program).unwrap();
    let kept: Vec<TensorNode> = program.kept.iter().cloned().collect();
    let position = |name: &str| kept.iter().position(|node| node.name() == name).unwrap();
    let found = results(&program, &inputs, &kept, &[]).unwrap();
    // v = w - rate · 9 w⁴, d after / d rate = -2 v · 9 w⁴, d after / d w = 2 v (1 - rate · 36 w³) + 1.
    let v = [1.0 - 4.5, 2.0 - 72.0];
    assert_eq!(found[position("rate.grad")], [-2.0 * v[0] * 9.0 - 2.0 * v[1] * 144.0]);
    assert_eq!(found[position("w.grad")], [2.0 * v[0] * -17.0 + 1.0, 2.0 * v[1] * -143.0 + 1.0]);
}

#[test]
fn errors_point_to_the_gradient() {
    let read = |text: &str| Program::parse(text).unwrap().assignments(&[]).unwrap();
    let mut program =
        read("param w f32[3]\nparam u f32[3]\nloss :+= w[i] * w[i]\ngrad loss by w, u\nkeep w.grad, u.grad");
    let error = expand(&mut program).unwrap_err();
    expect![[r#"
        line 4, column 17: no statement mentions the parameter u; expected one of w
        4 | grad loss by w, u
          |                 ^"#]]
    .assert_eq(&error.to_string());
    let mut program = read(
        "param w f32[3]\nparam u f32[3]\nloss :+= w[i] * w[i]\ny[i] := u[i]\ngrad loss by w, u\nkeep y, w.grad, u.grad",
    );
    expand(&mut program).unwrap();
    expect![[r#"
        line 5, column 17: the gradient of node loss by u is zero: no statements with derivatives lead from u to loss
        5 | grad loss by w, u
          |                 ^"#]].assert_eq(&program.warnings[0].to_string());
}

/// A check accepts a program with gradients.
#[test]
fn a_loss_that_depends_on_a_gradient() {
    assert_close(
        "h :+= sin(w[i]) * x[i]\ngrad h by w\nloss :+= w.grad[i] * w.grad[i] * x[i]",
        &[floats("w", &[4]), floats("x", &[4])],
    );
}
