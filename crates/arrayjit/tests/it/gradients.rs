//! Gradients in a text, compiled with the statements that compute the loss: a network trains in one routine,
//! its gradients have the bits of gradients written by hand, and errors point to the text.

use expect_test::{Expect, expect};

use arrayjit::{Backend, Compiled, Context, HostArray, Program, Routine, Settings, TensorNode};

const BACKENDS: [&str; 3] = ["interpreter", "inline", "multicore"];

/// A network of two layers. The targets are a function of the inputs that it can learn.
const NETWORK: &str = "
    size batch = 16, d = 6, hidden = 12, out = 3
    input x f32[batch, d], target f32[batch, out]
    param w1 f32[d, hidden] := normal(1) * 0.4, b1 f32[hidden] := 0
    param w2 f32[hidden, out] := normal(2) * 0.3, b2 f32[out] := 0
    h[b,j] :+= x[b,i] * w1[i,j]
    a[b,j] := relu(h[b,j] + b1[j])
    y[b,k] :+= a[b,j] * w2[j,k]
    e[b,k] := y[b,k] + b2[k] - target[b,k]
    loss :+= e[b,k] * e[b,k] / batch
    keep loss";

fn backend(name: &str) -> Backend {
    let mut settings = Settings::default();
    settings.threads = 2;
    Backend::open_with(name, &settings).expect("it is in every build")
}

fn compiled(backend: &Backend, text: &str) -> Compiled {
    let program = Program::parse(text).unwrap_or_else(|error| panic!("{error}"));
    backend.compile_program(&program, [] as [TensorNode; 0]).unwrap_or_else(|error| panic!("{error}"))
}

/// Links code with its initial values, inputs and targets.
fn linked(backend: &Backend, code: &Compiled) -> Routine {
    let value = |at: usize| ((at * 37 % 101) as f32 / 50.) - 1.;
    let x: Vec<f32> = (0..16 * 6).map(value).collect();
    let target = |at: usize| x[at / 3 * 6 + at % 3] * x[at / 3 * 6 + 3] + 0.5;
    let target: Vec<f32> = (0..16 * 3).map(target).collect();
    let context = backend.initialize(code, &backend.context().expect("a device")).expect("initial values");
    let with = |context: Context, name: &str, values: &[f32], dims: [usize; 2]| {
        let values = HostArray::from_slice(values, dims).expect("as many values");
        context.init_from_host(code.node(name).expect("declared"), &values).expect("memory")
    };
    let context = with(context, "x", &x, [16, 6]);
    code.link(&with(context, "target", &target, [16, 3])).expect("all nodes have values")
}

fn bits(routine: &Routine, code: &Compiled, name: &str) -> Vec<u32> {
    let values = routine.context().to_host(code.node(name).expect("kept")).expect("in the context");
    values.as_slice::<f32>().expect("of f32").iter().map(|value| value.to_bits()).collect()
}

fn loss(routine: &Routine, code: &Compiled) -> f64 {
    routine.context().to_host(code.node("loss").expect("kept")).expect("in the context").values()[0]
}

/// Runs 150 steps.
fn train(routine: &Routine) {
    for _ in 0..150 {
        routine.run(&[]).expect("scheduled");
    }
}

/// The loss before the first step and after the last one.
fn trained(name: &str, update: &str) -> (f64, f64) {
    let backend = backend(name);
    let code = compiled(&backend, &format!("{NETWORK}\n{update}"));
    let routine = linked(&backend, &code);
    routine.run(&[]).expect("scheduled");
    let first = loss(&routine, &code);
    train(&routine);
    (first, loss(&routine, &code))
}

#[test]
fn a_network_trains_in_one_text() {
    let sgd = "
        grad loss by w1, b1, w2, b2
        sgd(w1[i,j], w1.grad[i,j], 0.05)
        sgd(b1[j], b1.grad[j], 0.05)
        sgd(w2[j,k], w2.grad[j,k], 0.05)
        sgd(b2[k], b2.grad[k], 0.05)";
    let adam = "
        param t f32 := 0, m1 f32[d, hidden] := 0, v1 f32[d, hidden] := 0
        param m2 f32[hidden, out] := 0, v2 f32[hidden, out] := 0
        t += 1
        grad loss by w1, w2
        adam(w1[i,j], w1.grad[i,j], m1[i,j], v1[i,j], t, rate = 0.02)
        adam(w2[j,k], w2.grad[j,k], m2[j,k], v2[j,k], t, rate = 0.02)";
    for name in BACKENDS {
        for update in [sgd, adam] {
            let (first, last) = trained(name, update);
            assert!(last < first / 5., "{name}: {first} {last} by {update}");
        }
    }
}

/// The statements that a user would write for these gradients, and those of the transformation, are the same.
#[test]
fn gradients_have_the_bits_of_gradients_by_hand() {
    let by_hand = "
        ge[b,k] :+= e[b,k] / batch
        ge[b,k] += e[b,k] / batch
        gb2[k] :+= ge[b,k]
        gw2[j,k] :+= a[b,j] * ge[b,k]
        ga[b,j] :+= ge[b,k] * w2[j,k]
        gh[b,j] := relu_gate(a[b,j], ga[b,j])
        gb1[j] :+= gh[b,j]
        gw1[i,j] :+= x[b,i] * gh[b,j]
        keep gw1, gb1, gw2, gb2";
    let derived = "grad loss by w1, b1, w2, b2; keep w1.grad, b1.grad, w2.grad, b2.grad";
    for name in BACKENDS {
        let backend = backend(name);
        let [expected, found] = [by_hand, derived].map(|gradients| {
            let code = compiled(&backend, &format!("{NETWORK}\n{gradients}"));
            let routine = linked(&backend, &code);
            routine.run(&[]).expect("scheduled");
            (routine, code)
        });
        for parameter in ["w1", "b1", "w2", "b2"] {
            assert_eq!(
                bits(&found.0, &found.1, &format!("{parameter}.grad")),
                bits(&expected.0, &expected.1, &format!("g{parameter}")),
                "{name}: the gradient by {parameter}"
            );
        }
    }
}

/// `w` stands for all layers; each is updated by its own gradient.
#[test]
fn a_family_of_layers_trains() {
    let text = "
        input x f32[16, 6], target f32[16, 3]
        repeat l in 0..3 { param w[l] f32[6, 6] := normal(l) * 0.4 }
        param last f32[6, 3] := normal(7) * 0.4
        h[0][b,i] := x[b,i]
        repeat l in 0..3 {
            z[l][b,j] :+= h[l][b,i] * w[l][i,j]
            h[l + 1][b,j] := h[l][b,j] + tanh(z[l][b,j])
        }
        y[b,k] :+= h[3][b,j] * last[j,k]
        loss :+= (y[b,k] - target[b,k]) * (y[b,k] - target[b,k]) / 16
        grad loss by w, last
        repeat l in 0..3 { w[l][i,j] -= 0.02 * w.grad[l][i,j] }
        last[j,k] -= 0.02 * last.grad[j,k]
        keep loss";
    for name in BACKENDS {
        let backend = backend(name);
        let code = compiled(&backend, text);
        let routine = linked(&backend, &code);
        routine.run(&[]).expect("scheduled");
        let first = loss(&routine, &code);
        train(&routine);
        assert!(loss(&routine, &code) < first / 5., "{name}: {first} {}", loss(&routine, &code));
    }
}

#[test]
fn the_gradient_of_a_gradient_is_a_second_derivative() {
    let text = "
        param w f32[3] := values(1, 2, 3)
        loss :+= w[i] * w[i] * w[i]
        grad loss by w
        s :+= w.grad[i] * w.grad[i]
        node second f32[3]
        grad s by w
        second[i] := w.grad[i]
        keep second";
    let backend = backend("interpreter");
    let code = compiled(&backend, text);
    let context = backend.initialize(&code, &backend.context().expect("a device")).expect("initial values");
    let routine = code.link(&context).expect("all nodes have values");
    routine.run(&[]).expect("scheduled");
    let second = routine.context().to_host(code.node("second").expect("kept")).expect("in the context");
    // d/dw Σ (3w²)² = 36 w³.
    assert_eq!(second.values(), [36., 288., 972.]);
}

/// Compiles a text as a user does.
fn error(text: &str, expected: Expect) {
    let error = backend("interpreter").compile(text, [] as [TensorNode; 0]);
    let error = error.map(|_| ()).expect_err("the program has no such gradient");
    expected.assert_eq(&error.to_string());
}

#[test]
fn errors_about_losses_point_into_the_text() {
    // The loss is a vector, a node of integers, a node that nothing writes, an unknown node.
    error(
        "param w f32[3]\ny[i] := w[i] * w[i]\ngrad y by w\nkeep w.grad",
        expect![[r#"
        line 3, column 6: the loss of a gradient is a float of rank 0, found `y f32[3]`
        3 | grad y by w
          |      ^"#]],
    );
    error(
        "input n i32[3]\nparam w f32[3]\ns :+= n[i]\ngrad s by w\nkeep w.grad",
        expect![[r#"
        line 4, column 6: the loss of a gradient is a float of rank 0, found `s i32[]`
        4 | grad s by w
          |      ^"#]],
    );
    error(
        "param w f32[3], s f32\ngrad s by w\nkeep w.grad",
        expect![[r#"
        line 2, column 6: no statement before this one writes the loss `s`
        2 | grad s by w
          |      ^"#]],
    );
    error(
        "param w f32[3]\nloss :+= w[i]\ngrad los by w\nkeep loss, w.grad",
        expect![[r#"
        line 3, column 6: unknown node `los`; expected loss
        3 | grad los by w
          |      ^^^"#]],
    );
    // Statements that compute the loss come later.
    error(
        "param w f32[3]\ngrad loss by w\nloss :+= w[i]\nkeep w.grad",
        expect![[r#"
        line 2, column 6: node `loss` has no values yet, since the statement of line 3 is the first to write it; write it before, or declare `input loss` if its values come from elsewhere
        2 | grad loss by w
          |      ^^^^"#]],
    );
}

#[test]
fn errors_about_parameters_point_into_the_text() {
    // No statement reads the parameter; nothing has its name; it holds integers; it occurs twice.
    error(
        "param w f32[3], v f32[3]\nloss :+= w[i]\ngrad loss by v\nkeep v.grad",
        expect![[r#"
        line 3, column 14: no statement mentions the parameter v; expected one of w
        3 | grad loss by v
          |              ^"#]],
    );
    error(
        "param w f32[3]\nloss :+= w[i]\ngrad loss by v\nkeep v.grad",
        expect![[r#"
        line 3, column 14: unknown node `v`; expected w
        3 | grad loss by v
          |              ^"#]],
    );
    error(
        "input n i32[3]\nparam w f32[3]\nloss :+= w[i] * n[i]\ngrad loss by w, n\nkeep w.grad, n.grad",
        expect![[r#"
            line 4, column 17: node `n` is of i32; expected a float, since integers have no derivatives
            4 | grad loss by w, n
              |                 ^"#]],
    );
    error(
        "param w f32[3]\nloss :+= w[i]\ngrad loss by w, w\nkeep w.grad",
        expect![[r#"
        line 3, column 17: gradient `w.grad` is defined twice
        3 | grad loss by w, w
          |                 ^"#]],
    );
    // A parameter is unwritten where `grad` stands, a view, or the receiver is read-only.
    error(
        "node w f32[3]\nloss :+= w[i]\ngrad loss by w\nkeep w.grad",
        expect![[r#"
        line 2, column 10: node `w` has no values yet, since no statement writes it; write it before, or declare `input w` if its values come from elsewhere
        2 | loss :+= w[i]
          |          ^"#]],
    );
    error(
        "param w f32[4]\nview v = w as [2, 2]\nloss :+= v[i,j]\ngrad loss by v\nkeep v.grad",
        expect![[r#"
            line 4, column 14: `v` is a view, whose elements can only be read
            4 | grad loss by v
              |              ^"#]],
    );
    error(
        "param w f32[3]\ninput w.grad f32[3]\nloss :+= w[i] * w.grad[i]\ngrad loss by w",
        expect![[r#"
        line 4, column 14: node `w.grad` is declared as `input`, which a program only reads; declare it as `param w.grad` to write it
        4 | grad loss by w
          |              ^"#]],
    );
    // In the second round of a repetition.
    error(
        "repeat l in 0..2 { param w[l] f32[3] }\nloss :+= w[0][i]\n\
         repeat l in 0..2 { grad loss by w[l] }\nkeep w.grad[0], w.grad[1]",
        expect![[r#"
            line 3, column 33: no statement mentions the parameter w_1; expected one of w_0
            3 | repeat l in 0..2 { grad loss by w[l] }
              |                                 ^
            for `l` = 1, line 3, column 1
            3 | repeat l in 0..2 { grad loss by w[l] }
              | ^^^^^^^^^^^^^^^^"#]],
    );
}

#[test]
fn errors_about_statements_point_into_the_text() {
    error(
        "param w f32[3]\nloss :/= w[i]\ngrad loss by w\nkeep w.grad",
        expect![[r#"
        line 2, column 1: node loss: `/=` of several values per element has no derivative in this form; accumulate the divisors with `*=`, then divide
        2 | loss :/= w[i]
          | ^^^^^^^^^^^^^"#]],
    );
    // A statement of a function, at the call.
    error(
        "param w f32[3]\ndef quotient(x[i]) -> y[] { y :/= x[i] }\n\
         loss := quotient(w[i])\ngrad loss by w\nkeep w.grad",
        expect![[r#"
            line 2, column 29: node loss: `/=` of several values per element has no derivative in this form; accumulate the divisors with `*=`, then divide
            2 | def quotient(x[i]) -> y[] { y :/= x[i] }
              |                             ^^^^^^^^^^
            in function `quotient`, line 3, column 9
            3 | loss := quotient(w[i])
              |         ^^^^^^^^^^^^^^"#]],
    );
    // A value that is to be computed again has changed.
    error(
        "param w f32[3], x f32[3]\nh[i] := w[i] * x[i]\nloss :+= h[i] * h[i]\nx[i] := 0\n\
         grad loss by w\nrecompute h\nkeep w.grad",
        expect![[r#"
            line 6, column 11: node h cannot be computed again in the backward pass, because x, which it is computed from, changes after it; write the new values to another node, or remove `recompute h`
            6 | recompute h
              |           ^"#]],
    );
}

/// A write of a parameter behind the loss does not change the gradient by it.
#[test]
fn a_parameter_overwritten_before_its_gradient() {
    let text = "param w f32[3] := values(1, 2, 3)\nloss :+= w[i] * w[i]\nw[i] := 0.5 * w[i]\n\
                grad loss by w\nkeep w.grad, w";
    let backend = backend("interpreter");
    let code = compiled(&backend, text);
    assert!(code.warnings().is_empty());
    let context = backend.initialize(&code, &backend.context().expect("a device")).expect("initial values");
    let routine = code.link(&context).expect("all nodes have values");
    routine.run(&[]).expect("scheduled");
    let values = |name| routine.context().to_host(code.node(name).expect("kept")).expect("computed").values();
    assert_eq!((values("w.grad"), values("w")), (vec![2.0, 4.0, 6.0], vec![0.5, 1.0, 1.5]));
}

/// Constants and inputs of the text may be parameters.
#[test]
fn inputs_and_constants_have_gradients() {
    let text = "input x f32[2]\nconst c f32[2] := values(1, 2)\nloss :+= x[i] * c[i]\n\
                grad loss by x, c\nkeep x.grad, c.grad";
    assert!(compiled(&backend("interpreter"), text).warnings().is_empty());
}

/// The document's training step lowers its loss.
#[test]
fn documented_gradients_compile() {
    let document = include_str!("../../../../docs/assignment-text.md");
    let listings = document.split("```assign\n").skip(1).filter_map(|rest| rest.split("```").next());
    let mut trained = 0;
    // Listings without a target show gradients, and train nothing.
    let trains = |listing: &&str| listing.contains("\ngrad ") && listing.contains(", target f32");
    for listing in listings.filter(trains) {
        let backend = backend("inline");
        let code = compiled(&backend, listing);
        let value = |at: usize| ((at * 37 % 101) as f32 / 50.) - 1.;
        let given = |context: Context, name: &str| {
            let node = code.node(name).expect("declared");
            let values: Vec<f32> = (0..node.num_elems().expect("settled")).map(value).collect();
            let values =
                HostArray::from_slice(&values, node.dims().expect("settled")).expect("as many values");
            context.init_from_host(node, &values).expect("memory")
        };
        let context =
            backend.initialize(&code, &backend.context().expect("a device")).expect("initial values");
        let routine = code.link(&given(given(context, "x"), "target")).expect("all nodes have values");
        routine.run(&[]).expect("scheduled");
        let first = loss(&routine, &code);
        train(&routine);
        assert!(loss(&routine, &code) < 0.8 * first, "{listing}");
        trained += 1;
    }
    assert!(trained > 0, "the document has a training step");
}

/// The part of the guide between these texts, the first of which it includes.
fn guide(start: &str, end: &str) -> String {
    let guide = include_str!("../../../../docs/assignment-guide.md");
    let at = guide.find(start).unwrap_or_else(|| panic!("the guide has `{start}`"));
    guide[at..].split(end).next().unwrap_or_default().to_owned()
}

/// The convolutional network of the guide, with the lines that train it.
#[test]
fn the_network_of_the_guide_trains() {
    let network = guide("size batch = 32\ninput x f32[batch, 1, 28, 28], label i32[batch]", "```");
    let backend = backend("multicore");
    let code = compiled(&backend, &format!("{network}{}", guide("grad loss by f1, b1, f2", "```")));
    // An image of a class has a bright row of its own, among noise.
    let pixel = |at: usize| {
        let (image, row) = (at / 784, at % 784 / 28);
        let noise = (at * 2_654_435_761 % 1000) as f32 / 1000.;
        if row / 2 == 2 + image % 10 { 1. } else { 0.3 * noise }
    };
    let images: Vec<f32> = (0..32 * 784).map(pixel).collect();
    let labels: Vec<i32> = (0..32).map(|image| image % 10).collect();
    let images = HostArray::from_slice(&images, [32, 1, 28, 28]).expect("as many values");
    let labels = HostArray::from_slice(&labels, [32]).expect("as many values");
    let context = backend.initialize(&code, &backend.context().expect("a device")).expect("initial values");
    let context = context.init_from_host(code.node("x").expect("declared"), &images).expect("memory");
    let context = context.init_from_host(code.node("label").expect("declared"), &labels).expect("memory");
    let routine = code.link(&context).expect("all nodes have values");
    routine.run(&[]).expect("scheduled");
    let first = loss(&routine, &code);
    for _ in 0..60 {
        routine.run(&[]).expect("scheduled");
    }
    let last = loss(&routine, &code);
    assert!(last < first / 4., "{first} {last}");
}

/// A selection of 0 where `a` is 0 passes derivatives on to multiples of `a`, such as those in gradients, and
/// not to those of an older value of `a`.
#[test]
fn a_multiple_of_an_overwritten_value_is_selected_by_its_condition() {
    let gradient = |overwrite: &str| {
        let text = format!(
            "param w f32[2] := 1\nnode a f32[2]\na[i] := w[i] - 1\np[i] := a[i] * 2\n{overwrite}
             y[i] := where(a[i], p[i], 0)\nloss :+= y[i]\ngrad loss by w\nkeep w.grad"
        );
        let mut program = backend("inline").load(&text).unwrap_or_else(|error| panic!("{error}"));
        program.run().unwrap_or_else(|error| panic!("{error}"));
        program.get("w.grad").expect("kept").values()
    };
    assert_eq!(gradient(""), [2.0, 2.0]);
    assert_eq!(gradient("a[i] := 3 * w[i] - 3"), [0.0, 0.0]);
}
