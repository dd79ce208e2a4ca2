//! Gradients in a text: the step that `grad` makes, the nodes of the derivatives, and the errors. The crate
//! `autodiff` tests their values.

use crate::program;

use assignment_text::{Program, TextError, unparse};
use assignments::lower::{LowerErrorKind, LowerOptions, lower};
use assignments::{Assignments, ProgramStep};
use expect_test::{Expect, expect};
use program::{f32s, node};
use tnode::{DType, MemoryMode, TensorNode};

const NETWORK: &str = "
    input x f32[8, 4], target f32[8]
    param w f32[4], b f16
    d[k] :+= x[k,i] * w[i]
    d[k] += b - target[k]
    loss :+= d[k] * d[k]";

fn read(text: &str, nodes: &[TensorNode]) -> Result<Assignments, TextError> {
    Program::parse(text)?.assignments(nodes)
}

fn valid(text: &str) -> Assignments {
    read(text, &[]).unwrap_or_else(|error| panic!("{error}"))
}

/// The names of the loss and of the parameters of each gradient, each parameter with its gradient.
fn gradients(assignments: &Assignments) -> Vec<String> {
    let described = |step: &ProgramStep| match step {
        ProgramStep::Gradient { loss, parameters, .. } => {
            let pair = |(by, to): &(TensorNode, TensorNode)| format!(" {}:{}", by.name(), to.name());
            Some(loss.name() + &parameters.iter().map(pair).collect::<String>())
        }
        _ => None,
    };
    assignments.steps.iter().filter_map(described).collect()
}

/// Gradients have the dimensions of their parameters, and at least the precision of `f32`.
#[test]
fn gradients_are_nodes_of_later_statements() {
    let text = format!("{NETWORK}\ngrad loss by w, b\nw[i] -= 0.1 * w.grad[i]\nb -= 0.1 * b.grad");
    let assignments = valid(&text);
    assert_eq!(gradients(&assignments), ["loss w:w.grad b:b.grad"]);
    let find = |name: &str| assignments.text_nodes.find(name).expect("it is in the text");
    assert_eq!(
        (find("w.grad").dtype(), find("w.grad").dims().expect("settled").to_vec()),
        (DType::F32, vec![4])
    );
    assert_eq!(
        (find("b.grad").dtype(), find("b.grad").dims().expect("settled").to_vec()),
        (DType::F32, vec![])
    );
    assert_eq!(find("w.grad").label(), ["grad", "w"]);
    assert_eq!(find("w.grad").mode().mode(), None);
    let step = assignments.steps.iter().find(|step| matches!(step, ProgramStep::Gradient { .. }));
    let origin = step.expect("there is a gradient").origin();
    let shown = |span: Option<lowered_ir::SourceSpan>| span.expect("of the text").text().to_owned();
    assert_eq!(shown(origin.statement()), "grad loss by w, b");
    assert_eq!(shown(origin.operand(0)), "loss");
    assert_eq!(shown(origin.operand(2)), "b");
}

#[test]
fn nodes_that_a_gradient_mentions_are_nodes_of_the_program() {
    let assignments = valid(&format!("{NETWORK}\ngrad loss by w, b; keep w.grad, b.grad"));
    let names = |nodes: Vec<TensorNode>| nodes.iter().map(TensorNode::name).collect::<Vec<_>>();
    assert_eq!(names(assignments.nodes()), ["x", "w", "d", "b", "target", "loss", "w.grad", "b.grad"]);
    assert_eq!(names(assignments.context_nodes()), ["x", "w", "b", "target"]);
    assert_eq!(names(assignments.written_nodes()), ["d", "loss", "w.grad", "b.grad"]);
    assert!(assignments.to_string().ends_with("w.grad, b.grad =: grad loss by w, b;\n"), "{assignments}");
}

/// `w` stands for all nodes of the family, whose gradients are the family `w.grad`.
#[test]
fn the_gradients_of_a_family_are_a_family() {
    let text = "
        input x f32[4]
        repeat l in 0..11 { param w[l] f32[4, 4] }
        h[0][i] := x[i]
        repeat l in 0..11 { h[l + 1][j] :+= h[l][i] * w[l][i,j] }
        loss :+= h[11][i]";
    let step = "repeat l in 0..11 { w[l][i,j] -= 0.1 * w.grad[l][i,j] }";
    let all: String = (0..11).map(|l| format!(" w_{l}:w_{l}.grad")).collect();
    let assignments = valid(&format!("{text}\ngrad loss by w\n{step}"));
    assert_eq!(gradients(&assignments), [format!("loss{all}")]);
    let one_by_one = valid(&format!("{text}\nrepeat l in 0..11 {{ grad loss by w[l] }}\n{step}"));
    assert_eq!(gradients(&one_by_one).len(), 11);
    assert_eq!(gradients(&one_by_one)[10], "loss w_10:w_10.grad");

    // Another program finds the gradients under the same names.
    let nodes: Vec<TensorNode> = assignments.text_nodes.iter().cloned().collect();
    let other = read("largest :max= w.grad[3][i,j]; keep largest", &nodes);
    let read = other.unwrap_or_else(|error| panic!("{error}")).context_nodes();
    assert_eq!(read, [assignments.text_nodes.find("w.grad.3").expect("computed").clone()]);
}

#[test]
fn a_given_or_declared_node_receives_the_derivatives() {
    let nodes = [f32s("x", &[4]), f32s("w", &[4]), f32s("loss", &[])];
    let given = TensorNode::builder(["grad", "w"]).dims([4]).mode(MemoryMode::Materialized).build();
    let mut nodes = nodes.to_vec();
    nodes.push(given.expect("small"));
    let assignments = read("loss :+= x[i] * w[i]; grad loss by w", &nodes).expect("valid");
    assert_eq!(assignments.written_nodes().last(), nodes.last());
    assert!(assignments.text_nodes.is_empty());

    let declared = valid(&format!("{NETWORK}\nnode w.grad f64[4]\ngrad loss by w; keep w.grad"));
    assert_eq!(declared.text_nodes.find("w.grad").expect("declared").dtype(), DType::F64);
}

/// The gradient by an intermediate is that by its values at the end.
#[test]
fn intermediates_have_gradients() {
    assert_eq!(
        gradients(&valid(&format!("{NETWORK}\ngrad loss by d, x; keep d.grad, x.grad"))),
        ["loss d:d.grad x:x.grad"]
    );
}

#[test]
fn several_gradients_stand_in_a_program() {
    let text = format!(
        "{NETWORK}
        grad loss by w
        norm :+= w.grad[i] * w.grad[i]
        grad norm by b
        keep b.grad"
    );
    assert_eq!(gradients(&valid(&text)), ["loss w:w.grad", "norm b:b.grad"]);
}

#[test]
fn gradients_print_as_they_are_written() {
    let text = "repeat l in 0..2 { grad loss by w[l], b }\ngrad[i] := by[i]";
    let program = Program::parse(text).expect("valid");
    expect![[r#"
        repeat l in 0..2 {
            grad loss by w[l], b
        }
        grad[i] := by[i]
    "#]]
    .assert_eq(&program.to_string());
    expect![[r#"
        grad loss by w.0, b
        grad loss by w.1, b
        grad[i] := by[i]
    "#]]
    .assert_eq(&program.expand().expect("valid").to_string());
    let report =
        Program::parse(&format!("{NETWORK}\ngrad loss by  w; keep w.grad")).expect("valid").report(&[]);
    let statements = report.expect("valid").statements;
    assert_eq!(statements.last().map(ToString::to_string).as_deref(), Some("grad loss by w"));
}

/// A function detaches a node of its own, one for each call. The loops of a program do not depend on it.
#[test]
fn detached_nodes_print_as_they_are_written() {
    let text = "
        def peak(x[..,k]) -> y[..] { m[..] :max= x[..,k]; detach m; y[..] := m[..] }
        input x f32[3, 4]; param w[0] f32[3]
        detach x, w[0]
        y[i] := peak(x[i,k]) + w[0][i]
        detach[i] := y[i]
        keep detach";
    let program = Program::parse(text).expect("valid");
    expect![[r#"
        def peak(x[..,k]) -> y[..] {
            m[..] :max= x[..,k]
            detach m
            y[..] := m[..]
        }
        input x f32[3,4]
        param w[0] f32[3]
        detach x
        detach w[0]
        y[i] := peak(x[i,k]) + w[0][i]
        detach[i] := y[i]
        keep detach
    "#]]
    .assert_eq(&program.to_string());
    let printed = unparse(&valid(text));
    expect![[r#"
        input x f32[3,4]
        node peak.1.m f32[3]
        node peak.1.y f32[3]
        input w.0 f32[3]
        node y f32[3]
        node detach f32[3]
        detach x
        detach w.0
        peak.1.m[i] :max= x[i,k]
        detach peak.1.m
        peak.1.y[i] := peak.1.m[i]
        y[i] := peak.1.y[i] + w.0[i]
        detach[i] := y[i]
        keep detach
    "#]]
    .assert_eq(&printed);
    assert_eq!(unparse(&read(&printed, &[]).expect("valid")), printed);
    let lowered = |text: &str| lower(&valid(text), &LowerOptions::default()).expect("valid").lowered.routine;
    let with = lowered("input x f32[3]; m := x[0]; detach m; y[i] := x[i] - m; keep y");
    let without = lowered("input x f32[3]; m := x[0]; y[i] := x[i] - m; keep y");
    assert_eq!(with.body, without.body);
}

#[test]
fn errors_about_detached_nodes() {
    error(
        "detach",
        expect![[r#"
        line 1, column 7: expected indices such as `[i]`, or one of `:=` `+=` `*=` `max=` `min=` `:+=` `:*=` `:max=` `:min=`, found the end of the text
        1 | detach
          |       ^"#]],
    );
    error(
        "detach y\ns :+= w[i]",
        expect![[r#"
        line 1, column 8: unknown node `y`; expected one of n, s, w, x
        1 | detach y
          |        ^"#]],
    );
    error(
        "detach t; t :+= w[i]; s := t",
        expect![[r#"
        line 1, column 8: node `t` has no values yet, since the statement of line 1 is the first to write it; write it before, or declare `input t` if its values come from elsewhere
        1 | detach t; t :+= w[i]; s := t
          |        ^"#]],
    );
    error(
        "t :+= w[i]; detach t",
        expect![[r#"
        line 1, column 1: node `t` is written but never read; `keep t` makes its values readable after a run
        1 | t :+= w[i]; detach t
          | ^"#]],
    );
    error(
        "def f(a[i]) -> r[] { r :+= a[i]; detach a }\ns := f(w[i])",
        expect![[r#"
        line 1, column 41: function `f` detaches `a`, which is a node of the caller; copy it to a node of the function, as in `m[..] := a[..]`, and detach that one
        1 | def f(a[i]) -> r[] { r :+= a[i]; detach a }
          |                                         ^
        in function `f`, line 2, column 6
        2 | s := f(w[i])
          |      ^^^^^^^"#]],
    );
    error(
        "def f(a[i]) -> r[] { r :+= a[i]; detach r }\ns := f(w[i])",
        expect![[r#"
        line 1, column 41: function `f` detaches `r`, which is a node of the caller; copy it to a node of the function, as in `m[..] := r[..]`, and detach that one
        1 | def f(a[i]) -> r[] { r :+= a[i]; detach r }
          |                                         ^
        in function `f`, line 2, column 6
        2 | s := f(w[i])
          |      ^^^^^^^"#]],
    );
    error(
        "def f(a[i]) -> r[] { r :+= a[i]; detach s }\ns := f(w[i])",
        expect![[r#"
        line 1, column 41: function `f` has no `s`, and reads only its parameters and own nodes; expected one of a, r
        1 | def f(a[i]) -> r[] { r :+= a[i]; detach s }
          |                                         ^
        in function `f`, line 2, column 6
        2 | s := f(w[i])
          |      ^^^^^^^"#]],
    );
    error(
        "view v = w as [2, 2]; detach v; s :+= v[i,j]",
        expect![[r#"
        line 1, column 30: `v` is a view, whose elements can only be read
        1 | view v = w as [2, 2]; detach v; s :+= v[i,j]
          |                              ^"#]],
    );
}

/// Lowering has no derivatives. Its error names the crate that has.
#[test]
fn lowering_rejects_gradients() {
    let assignments = valid(&format!("{NETWORK}\ngrad loss by w; keep w.grad")).named("step");
    let error = lower(&assignments, &LowerOptions::default()).expect_err("the gradient is not expanded");
    assert!(matches!(error.kind(), LowerErrorKind::Gradient { loss } if loss == "loss"), "{error}");
    expect![[r#"
        line 7, column 1: the gradient of node loss has no loops of its own; expected a call of `autodiff::expand`, which replaces it by accumulations, before the program is lowered
        7 | grad loss by w; keep w.grad
          | ^^^^^^^^^^^^^^"#]]
    .assert_eq(&error.to_string());
}

/// Requests to compute nodes again stand anywhere, and print behind the statements.
#[test]
fn nodes_are_computed_again_by_request() {
    let text = format!(
        "recompute d
        {NETWORK}
        repeat l in 0..2 {{ z[l][k] := d[k] * d[k]; recompute z[l] }}
        recompute[k] := z[0][k] + z[1][k]
        keep recompute, loss"
    );
    let program = Program::parse(&text).expect("valid");
    assert!(program.to_string().starts_with("recompute d\ninput x"), "{program}");
    assert!(program.to_string().contains("    recompute z[l]\n}\nrecompute[k] := "), "{program}");
    let printed = program.expand().expect("valid").to_string();
    assert!(
        printed.ends_with("keep recompute\nkeep loss\nrecompute d\nrecompute z.0\nrecompute z.1\n"),
        "{printed}"
    );

    let assignments = program.assignments(&[]).expect("valid");
    let names =
        |program: &Assignments| -> Vec<String> { program.recomputed.keys().map(TensorNode::name).collect() };
    assert_eq!(names(&assignments), ["d", "z_0", "z_1"]);
    let printed = unparse(&assignments);
    assert!(printed.ends_with("recompute d\nrecompute z.0\nrecompute z.1\n"), "{printed}");
    assert_eq!(names(&valid(&printed)), ["d", "z_0", "z_1"]);

    // The caller requests the same.
    let assignments = Program::parse(NETWORK).expect("valid").recompute("d").keep("loss").assignments(&[]);
    let assignments = assignments.expect("valid");
    assert_eq!(names(&assignments), ["d"]);
    assert_eq!(names(&assignments.then(valid("v[i] := 1 where i < 2; keep v; recompute v"))), ["d", "v"]);
}

#[test]
fn errors_about_nodes_to_compute_again() {
    error(
        "s :+= w[i]\nrecompute w",
        expect![[r#"
            line 2, column 11: no statement computes node `w`, so a backward pass cannot compute it again; expected an intermediate
            2 | recompute w
              |           ^"#]],
    );
    error(
        "s :+= w[i]\nrecompute y",
        expect![[r#"
            line 2, column 11: unknown node `y`; expected one of n, s, w, x
            2 | recompute y
              |           ^"#]],
    );
    error(
        "repeat l in 0..2 { recompute x }",
        expect![[r#"
            line 1, column 30: no statement computes node `x`, so a backward pass cannot compute it again; expected an intermediate
            1 | repeat l in 0..2 { recompute x }
              |                              ^
            for `l` = 0, line 1, column 1
            1 | repeat l in 0..2 { recompute x }
              | ^^^^^^^^^^^^^^^^"#]],
    );
    error(
        "def f(a[i]) -> r[] { r :+= a[i]; recompute r }\ns := f(w[i])",
        expect![[r#"
            line 1, column 44: `recompute r` in function `f`; write it outside of functions, whose nodes are their own
            1 | def f(a[i]) -> r[] { r :+= a[i]; recompute r }
              |                                            ^
            in function `f`, line 2, column 6
            2 | s := f(w[i])
              |      ^^^^^^^"#]],
    );
    let requested = Program::parse("input w f32[4]\ns :+= w[i]").expect("valid").recompute("w").keep("s");
    expect![[r#"
        line 3, column 11: no statement computes node `w`, so a backward pass cannot compute it again; expected an intermediate
        3 | recompute w
          |           ^"#]].assert_eq(&requested.assignments(&[]).expect_err("no statement computes w").to_string());
}

/// The error for a text over the nodes `x f32[4]`, `n i32[4]`, `w f32[4]`, `s f32[]` and `count i32[]`.
fn error(text: &str, expected: Expect) {
    let nodes = [
        f32s("x", &[4]),
        node("n", DType::I32, &[4]),
        f32s("w", &[4]),
        f32s("s", &[]),
        node("count", DType::I32, &[]),
    ];
    match read(text, &nodes) {
        Ok(assignments) => panic!("accepted:\n{assignments}"),
        Err(error) => expected.assert_eq(&error.to_string()),
    }
}

#[test]
fn errors_of_syntax() {
    error(
        "s :+= w[i]\ngrad s",
        expect![[r#"
        line 2, column 7: expected `by` and parameters, as in `grad loss by w, b`, found the end of the text
        2 | grad s
          |       ^"#]],
    );
    error(
        "s :+= w[i]\ngrad s by",
        expect![[r#"
        line 2, column 10: expected a name, as in `x f32[32, 64]`, found the end of the text
        2 | grad s by
          |          ^"#]],
    );
    error(
        "s :+= w[i]\ngrad s[] by w",
        expect![[r#"
        line 2, column 13: node `w.grad` is written but never read; `keep w.grad` makes its values readable after a run
        2 | grad s[] by w
          |             ^"#]],
    );
    error(
        "s :+= w[i]\ngrad s by w[i]",
        expect![[r#"
        line 2, column 13: `i` has no known value, but these brackets select a node of a family, as in `w[2]` and `w[2][i,j]`; the indices of one node stand in one pair of brackets
        2 | grad s by w[i]
          |             ^"#]],
    );
    error(
        "def f(a[i]) -> r[] { r :+= a[i]; grad r by a }\ns := f(w[i])",
        expect![[r#"
            line 1, column 39: `grad r` in function `f`; write it outside of functions, whose nodes are their own
            1 | def f(a[i]) -> r[] { r :+= a[i]; grad r by a }
              |                                       ^
            in function `f`, line 2, column 6
            2 | s := f(w[i])
              |      ^^^^^^^"#]],
    );
}

#[test]
fn errors_about_the_loss() {
    error(
        "grad loss by w",
        expect![[r#"
        line 1, column 6: unknown node `loss`; expected one of count, n, s, w, x
        1 | grad loss by w
          |      ^^^^"#]],
    );
    error(
        "grad s by w",
        expect![[r#"
        line 1, column 6: no statement before this one writes the loss `s`
        1 | grad s by w
          |      ^"#]],
    );
    error(
        "grad t by w\nt :+= w[i]",
        expect![[r#"
        line 1, column 6: node `t` has no values yet, since the statement of line 2 is the first to write it; write it before, or declare `input t` if its values come from elsewhere
        1 | grad t by w
          |      ^"#]],
    );
    error(
        "count :+= n[i]\ngrad count by w",
        expect![[r#"
        line 2, column 6: the loss of a gradient is a float of rank 0, found `count i32[]`
        2 | grad count by w
          |      ^^^^^"#]],
    );
    error(
        "y[i] := w[i] * x[i]\ngrad y by w",
        expect![[r#"
        line 2, column 6: the loss of a gradient is a float of rank 0, found `y f32[4]`
        2 | grad y by w
          |      ^"#]],
    );
}

#[test]
fn errors_about_parameters() {
    error(
        "s :+= w[i]\ngrad s by v",
        expect![[r#"
        line 2, column 11: unknown node `v`; expected one of n, s, w, x
        2 | grad s by v
          |           ^"#]],
    );
    error(
        "s :+= w[i] * n[i]\ngrad s by w, n",
        expect![[r#"
        line 2, column 14: node `n` is of i32; expected a float, since integers have no derivatives
        2 | grad s by w, n
          |              ^"#]],
    );
    error(
        "s :+= w[i]\ngrad s by w, x, w",
        expect![[r#"
        line 2, column 17: gradient `w.grad` is defined twice
        2 | grad s by w, x, w
          |                 ^"#]],
    );
    error(
        "view v = w as [2, 2]\ns :+= v[i,j]\ngrad s by v",
        expect![[r#"
        line 3, column 11: `v` is a view, whose elements can only be read
        3 | grad s by v
          |           ^"#]],
    );
    error(
        "s :+= w[i]\ninput w.grad f32[4]\ngrad s by w",
        expect![[r#"
        line 3, column 11: node `w.grad` is declared as `input`, which a program only reads; declare it as `param w.grad` to write it
        3 | grad s by w
          |           ^"#]],
    );
    error(
        "node w.grad i32[4]\ns :+= w[i]\ngrad s by w",
        expect![[r#"
        line 3, column 11: node `w.grad` is of i32; expected a float, since integers have no derivatives
        3 | grad s by w
          |           ^"#]],
    );
    error(
        "node w.grad f32[5]\ns :+= w[i]\ngrad s by w",
        expect![[r#"
        line 3, column 11: node w.grad: dimensions are settled as [5], found [4]
        3 | grad s by w
          |           ^"#]],
    );
}

#[test]
fn errors_about_uses_of_gradients() {
    error(
        "s :+= w[i]\nw[i] -= 0.1 * w.grad[i]",
        expect![[r#"
        line 2, column 15: no statement before this one computes `w.grad`; expected `grad loss by w`, where `loss` is the node to differentiate
        2 | w[i] -= 0.1 * w.grad[i]
          |               ^^^^^^"#]],
    );
    error(
        "s :+= w[i]\nw[i] -= 0.1 * w.grad[i]\ngrad s by w",
        expect![[r#"
        line 2, column 15: node `w.grad` has no values yet, since the statement of line 3 is the first to write it; write it before, or declare `input w.grad` if its values come from elsewhere
        2 | w[i] -= 0.1 * w.grad[i]
          |               ^^^^^^"#]],
    );
    error(
        "s :+= w[i] * x[i]\ngrad s by x\nw[i] -= 0.1 * w.grad[i]",
        expect![[r#"
        line 3, column 15: no statement before this one computes `w.grad`; expected `grad loss by w`, where `loss` is the node to differentiate
        3 | w[i] -= 0.1 * w.grad[i]
          |               ^^^^^^"#]],
    );
    error(
        "s :+= w[i] * x[i]\ngrad s by w, x\nw[i] -= 0.1 * w.grad[i]",
        expect![[r#"
        line 2, column 14: node `x.grad` is written but never read; a similar name is w.grad; `keep x.grad` makes its values readable after a run
        2 | grad s by w, x
          |              ^"#]],
    );
    error(
        "s :+= w[i]\nrepeat l in 0..2 { grad s by v[l] }",
        expect![[r#"
        line 2, column 30: unknown node `v.0`; expected one of count, n, s, w, x
        2 | repeat l in 0..2 { grad s by v[l] }
          |                              ^
        for `l` = 0, line 2, column 1
        2 | repeat l in 0..2 { grad s by v[l] }
          | ^^^^^^^^^^^^^^^^"#]],
    );
}
