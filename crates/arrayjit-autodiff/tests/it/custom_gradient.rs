//! Gradients that a front end gives: each backward pass has a copy of their steps.

use assignment_text::unparse;
use assignments::{Assignments, CustomGradient, ProgramStep, builder};
use autodiff::{GradientErrorKind, gradient, tangent};
use expect_test::expect;
use tnode::TensorNode;

use crate::compiled::results;
use crate::support::{Input, program, values};

/// The program `y := x²` whose gradient is 10 times that by `y`, with the loss `y · y`.
fn tenfold() -> (Assignments, [TensorNode; 2]) {
    let (first, _) = program("y[i] := x[i] * x[i]\nloss :+= y[i]", &[values("x", &[2], &[2.0, 3.0])]);
    let find = |name: &str| first.nodes().into_iter().find(|node| node.name() == name).unwrap();
    let (x, y, loss) = (find("x"), find("y"), find("loss"));
    let like = |name: &str| TensorNode::builder(name).dims([2]).dtype(y.dtype()).build().unwrap();
    let (above, below, ten) = (like("above"), like("below"), like("ten"));
    let steps = builder::constant(&ten, 10.0).then(
        assignment_text::parse("below[i] := above[i] * ten[i]", &[above.clone(), below.clone(), ten])
            .unwrap(),
    );
    let custom = CustomGradient {
        inputs: vec![x.clone()],
        outputs: vec![y.clone()],
        output_gradients: vec![above],
        input_gradients: vec![below],
        steps: steps.steps,
    };
    let mut program = first;
    let at = program.steps.iter().position(|step| assignments::written(step).contains(&&loss)).unwrap();
    program.steps.insert(at, ProgramStep::CustomGradient(Box::new(custom)));
    (program, [x, loss])
}

#[test]
fn the_steps_replace_the_rules() {
    let (program, [x, loss]) = tenfold();
    assert!(program.to_string().contains("custom gradient of y by x;"));
    assert!(unparse(&program).contains("detach y"));
    let found = gradient(&program, &loss, &[&x]).unwrap();
    let input = Input { node: x, values: vec![2.0, 3.0] };
    assert_eq!(results(&found.program, &[input], &found.gradients, &[]).unwrap(), [[10.0, 10.0]]);
    let text = found.program.to_string();
    let own: Vec<&str> = text.lines().skip_while(|line| !line.starts_with("loss.grad")).collect();
    expect![[r#"
        loss.grad =: 1;
        y.grad[i0] =:+ loss.grad;
        ten =: 10;
        # below[i] := above[i] * ten[i]
        below[i0] =: y.grad[i0] * ten[i0];
        x.grad[i0] =:+ below[i0];"#]]
    .assert_eq(&own.join("\n"));
}

#[test]
fn forward_mode_has_no_rule() {
    let (program, [x, loss]) = tenfold();
    let direction = TensorNode::builder("direction").dims([2]).dtype(x.dtype()).build().unwrap();
    let error = tangent(&program, &[(&x, &direction)], &[&loss]).unwrap_err();
    assert!(matches!(error.kind(), GradientErrorKind::CustomGradient { input } if input == "x"), "{error}");
}
